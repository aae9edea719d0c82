//! Where targets are: `--targets`, else ./targets, else the source folder known at build.

use super::section::{TargetError, read_table};
use std::path::{Path, PathBuf};

/// One line of `warren targets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSummary {
    pub name: String,
    pub version: String,
    pub folder: PathBuf,
}

/// The folders that may hold targets, in order; only an explicit one is looked at when it is given.
#[must_use]
pub fn target_folders(explicit: Option<&Path>) -> Vec<PathBuf> {
    match explicit {
        Some(dir) => vec![dir.to_owned()],
        None => vec![
            PathBuf::from("targets"),
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .parent()
                .map(|p| p.join("targets"))
                .unwrap_or_default(),
        ],
    }
}

/// The folder of one target.
///
/// # Errors
/// [`TargetError::NotFound`] with the places looked at and the targets there are.
pub fn find_target(name: &str, explicit: Option<&Path>) -> Result<PathBuf, TargetError> {
    let folders = target_folders(explicit);
    let plain = !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
    if plain
        && let Some(found) = folders
            .iter()
            .map(|f| f.join(name))
            .find(|f| f.join("target.toml").is_file())
    {
        return Ok(found);
    }
    let known: Vec<String> = list_targets(explicit).into_iter().map(|t| t.name).collect();
    Err(TargetError::NotFound {
        name: name.to_owned(),
        looked: folders
            .iter()
            .map(|f| f.display().to_string())
            .collect::<Vec<_>>()
            .join(", "),
        known: if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        },
    })
}

/// All targets of the first folder that has any; a target whose description cannot be read is shown with the reason as its
/// version.
#[must_use]
pub fn list_targets(explicit: Option<&Path>) -> Vec<TargetSummary> {
    for folder in target_folders(explicit) {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let mut found: Vec<TargetSummary> = entries
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.join("target.toml").is_file())
            .map(|p| TargetSummary {
                name: p
                    .file_name()
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                version: version_of(&p, 0),
                folder: p,
            })
            .collect();
        if !found.is_empty() {
            found.sort_by(|a, b| a.name.cmp(&b.name));
            return found;
        }
    }
    Vec::new()
}

/// `[target] version`, from the base when the folder does not say one.
fn version_of(folder: &Path, depth: usize) -> String {
    let table = match read_table(&folder.join("target.toml")) {
        Ok(t) => t,
        Err(e) => return format!("({e})"),
    };
    if let Some(v) = table
        .get("target")
        .and_then(|t| t.get("version"))
        .and_then(|v| v.as_str())
    {
        return v.to_owned();
    }
    match super::chain::base_of(&table) {
        Some(base) if depth < 4 => version_of(&folder.join(base), depth + 1),
        _ => "?".to_owned(),
    }
}
