//! The folders of instances beside each other, and which of them is the main one. Called before anything is set up, when the folder is made, and
//! by `sync` for where the others are. Reads no campaign.

use crate::campaign::folder::{io, write_whole};
use crate::campaign::{Folder, FuzzError, InstanceKind, is_instance_name};
use crate::fuzz::options::FuzzOptions;
use std::path::{Path, PathBuf};

/// AFL++'s name of the file that marks the main instance.
const MAIN: &str = "is_main_node";

/// Folders beside an instance's own, by name.
pub(super) fn siblings(out: &Path, own: &str) -> Vec<(String, PathBuf)> {
    let mut all: Vec<(String, PathBuf)> = std::fs::read_dir(out)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((e.file_name().into_string().ok()?, e.path())))
        .filter(|(name, path)| name != own && is_instance_name(name) && path.is_dir())
        .collect();
    all.sort();
    all
}

/// Refuses a second main instance; before anything is set up.
///
/// # Errors
/// [`FuzzError::Usage`] with the one that is there.
pub fn check_main(options: &FuzzOptions) -> Result<(), FuzzError> {
    if options.kind != InstanceKind::Main {
        return Ok(());
    }
    match siblings(&options.out, &options.instance)
        .into_iter()
        .find(|(_, root)| root.join(MAIN).exists())
    {
        None => Ok(()),
        Some((name, root)) => Err(FuzzError::Usage(format!(
            "{} is the main instance already ({MAIN} is there); start this one with -S {}, or that one again with -M {name}",
            root.display(),
            options.instance
        ))),
    }
}

/// Marks the main instance, as AFL++ does.
///
/// # Errors
/// I/O, with the path.
pub fn mark_main(options: &FuzzOptions, folder: &Folder) -> Result<(), FuzzError> {
    let path = folder.root().join(MAIN);
    match options.kind {
        InstanceKind::Main => write_whole(&path, b""),
        _ if path.exists() => std::fs::remove_file(&path).map_err(io("removing", &path)),
        _ => Ok(()),
    }
}
