//! A name of its own for the program that runs, so that a rebuild or an upgrade takes nothing from a campaign of days: every slot is started by
//! this name, and a snapshot holds the program it was made with as a mapped file.
//!
//! Called by [`super::session`]. It is a second link to the program, or a copy on another file system, in `programs/` of the cache; gone with this process. What a
//! killed one left is taken away by the next. Where no such name can be had, the program's own has to do: it refuses nothing.

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Its folder in the cache.
const PROGRAMS: &str = "programs";

/// The name; taken away with this value.
#[derive(Debug)]
pub struct OwnProgram {
    path: PathBuf,
    /// Held while it is ours to remove; who sweeps passes over what is held.
    held: Option<Flock<File>>,
}

impl OwnProgram {
    /// One for `exe`, which runs now.
    #[must_use]
    pub fn new(exe: &Path, cache: &Path) -> Self {
        let folder = cache.join(PROGRAMS);
        sweep(&folder);
        let path = folder.join(format!("warren-{}", std::process::id()));
        match make(exe, &folder, &path) {
            Ok(held) => OwnProgram {
                path,
                held: Some(held),
            },
            Err(_) => OwnProgram {
                path: exe.to_owned(),
                held: None,
            },
        }
    }

    /// By which it is started.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnProgram {
    fn drop(&mut self) {
        if self.held.is_some() {
            // What cannot be removed is swept by a later Warren.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn make(exe: &Path, folder: &Path, path: &Path) -> io::Result<Flock<File>> {
    fs::create_dir_all(folder)?;
    if statvfs(folder)?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // Left by one that had our number.
    let _ = fs::remove_file(path);
    if fs::hard_link(exe, path).is_err() {
        fs::copy(exe, path)?;
    }
    let file = File::open(path)?;
    // Shared: links to one program are one file, and each Warren holds it.
    Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, e)| {
        let _ = fs::remove_file(path);
        e.into()
    })
}

/// Takes away what nobody holds.
fn sweep(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|e| e.path()) {
        let free = File::open(&path)
            .is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok());
        if free {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_replaced_is_there_by_its_own_name_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let exe = dir.path().join("warren");
        fs::write(&exe, "old").unwrap();
        let own = OwnProgram::new(&exe, dir.path());
        assert_ne!(own.path(), exe);
        // As a linker or a package manager does.
        fs::write(dir.path().join("new"), "new").unwrap();
        fs::rename(dir.path().join("new"), &exe).unwrap();
        assert_eq!(fs::read_to_string(own.path()).unwrap(), "old");
        let path = own.path().to_owned();
        drop(own);
        assert!(!path.exists() && exe.exists());
    }

    #[test]
    fn what_a_killed_one_left_is_swept_and_what_is_held_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let exe = dir.path().join("warren");
        fs::write(&exe, "it").unwrap();
        let folder = dir.path().join(PROGRAMS);
        fs::create_dir(&folder).unwrap();
        let (left, held) = (folder.join("warren-1"), folder.join("warren-2"));
        fs::write(&left, "it").unwrap();
        let _lock = make(&exe, &folder, &held).unwrap();
        let own = OwnProgram::new(&exe, dir.path());
        assert!(!left.exists() && held.exists() && own.path().exists());
    }

    #[test]
    fn without_a_place_for_it_the_programs_own_name_has_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cache");
        fs::write(&file, "").unwrap();
        let exe = std::env::current_exe().unwrap();
        let own = OwnProgram::new(&exe, &file);
        assert_eq!(own.path(), exe);
        drop(own);
        assert!(exe.exists());
    }
}
