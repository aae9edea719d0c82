//! The campaign folders that a verb is given: the folder of one instance, or one that holds those of several. Called by the verbs that read
//! finished or living campaigns (`cmin`, `coverage`). Opens no file in them.

use super::exit::CliError;
use std::path::{Path, PathBuf};

/// `out` itself and what it holds, in the order of names, as far as `is_campaign` says so; none is no error.
///
/// # Errors
/// `out` cannot be read.
pub fn campaign_folders(
    out: &Path,
    is_campaign: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, CliError> {
    let mut folders: Vec<PathBuf> = vec![out.to_owned()];
    let entries = std::fs::read_dir(out).map_err(|e| {
        CliError::usage(format!(
            "reading {}: {e}\n  name the folder given to `fuzz -o` (default: out/TARGET)",
            out.display()
        ))
    })?;
    folders.extend(entries.flatten().map(|e| e.path()));
    folders.sort();
    folders.retain(|f| is_campaign(f));
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn a_folder_that_is_not_there_says_which_one_to_name() {
        let dir = tempfile::tempdir().unwrap();
        let e = campaign_folders(&dir.path().join("nosuch"), |_| true).unwrap_err();
        assert_eq!(e.exit, Exit::Usage);
        assert!(
            e.text.contains("nosuch: No such file") && e.text.contains("given to `fuzz -o`"),
            "{e}"
        );
        assert_eq!(campaign_folders(dir.path(), |_| false).unwrap().len(), 0);
    }
}
