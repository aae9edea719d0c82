//! target.toml and the bases it names, merged into one table. Called by the loading of a target and by the search for targets; what the keys mean is
//! theirs.

use super::section::{Origins, TargetError, read_table};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Deepest chain of `base`.
const MAX_BASES: usize = 4;

/// A description with its bases.
pub(super) struct Chain {
    /// What each file says, the target's own first.
    pub origins: Origins,
    /// The folders of these files.
    pub folders: Vec<PathBuf>,
}

impl Chain {
    /// All files as one table, without `base`: what is nearer to the target stands.
    pub fn merged(&self) -> Table {
        let mut merged = Table::new();
        for (_, table) in self.origins.files.iter().rev() {
            merge(&mut merged, table);
        }
        merged.remove("base");
        if let Some(Value::Table(t)) = merged.get_mut("target") {
            t.remove("base");
        }
        merged
    }

    /// Group names in the order they are written, the base's first: a TOML table here is sorted, so the order is read apart.
    pub fn group_order(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (file, _) in self.origins.files.iter().rev() {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            for line in text.lines() {
                let name = line
                    .trim()
                    .strip_prefix("[group.")
                    .and_then(|r| r.split([']', '.']).next());
                if let Some(n) = name
                    && !names.iter().any(|have| have == n)
                {
                    names.push(n.to_owned());
                }
            }
        }
        names
    }
}

/// The `base` key of a description.
pub(super) fn base_of(table: &Table) -> Option<&str> {
    table
        .get("base")
        .or_else(|| table.get("target").and_then(|t| t.get("base")))
        .and_then(Value::as_str)
}

/// The chain of descriptions: the target's own, then its bases.
pub(super) fn read_chain(folder: &Path) -> Result<Chain, TargetError> {
    let mut origins = Origins::default();
    let mut folders = Vec::new();
    let mut at = folder.to_owned();
    loop {
        let file = at.join("target.toml");
        let table = read_table(&file)?;
        let base = base_of(&table).map(str::to_owned);
        origins.files.push((file.clone(), table));
        folders.push(at.clone());
        let Some(base) = base else {
            return Ok(Chain { origins, folders });
        };
        let next = at.join(&base);
        if !next.join("target.toml").is_file() || folders.len() > MAX_BASES {
            return Err(TargetError::Key {
                file,
                key: "base".into(),
                problem: if folders.len() > MAX_BASES {
                    format!("`{base}`: more than {MAX_BASES} bases, or a circle")
                } else {
                    format!("`{base}` has no target.toml")
                },
                remedy: "write a folder relative to this one, such as base = \"../canary\"".into(),
            });
        }
        at = next;
    }
}

/// Tables are merged key by key; anything else is replaced.
fn merge(into: &mut Table, from: &Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}
