//! Java sources of a target: what is compiled, and what its content is told by. Called at set-up and by the digest of the content. Lists files; reads
//! and compiles none.

use super::Target;
use super::section::TargetError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Target {
    /// Java sources below `name` of the target's folder and its bases', by their paths below that folder; a file of the target replaces its base's
    /// of the same path. Empty: there are none.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn sources(&self, name: &str) -> Result<BTreeMap<PathBuf, PathBuf>, TargetError> {
        let mut files = BTreeMap::new();
        for folder in self.folders.iter().rev() {
            let mut open = vec![folder.join(name)];
            while let Some(path) = open.pop() {
                if path.is_dir() {
                    for entry in std::fs::read_dir(&path).map_err(unread(&path))? {
                        open.push(entry.map_err(unread(&path))?.path());
                    }
                } else if path.extension().is_some_and(|e| e == "java") {
                    let below = path.strip_prefix(folder).unwrap_or(&path).to_owned();
                    files.insert(below, path);
                }
            }
        }
        Ok(files)
    }
}

/// The file or folder at which a reading failed.
pub(super) fn unread(path: &Path) -> impl Fn(std::io::Error) -> TargetError {
    move |e| TargetError::Read {
        file: path.to_owned(),
        why: e.to_string(),
    }
}
