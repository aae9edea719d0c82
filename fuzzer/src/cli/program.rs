//! A name of its own for the program that runs, so that a rebuild or an upgrade takes nothing from a campaign of days: every slot is started by
//! this name, and a snapshot holds the program it was made with as a mapped file.
//!
//! Called by [`super::session`]. It is a second link to the program that runs, or a copy on another file system, in a folder of its own in `programs/` of the
//! cache; gone with this process. What a killed one left is taken away by the next. Where no such name can be had, the program's own has to do: it
//! refuses nothing.

use nix::fcntl::{AT_FDCWD, AtFlags, Flock, FlockArg};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::linkat;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Its folder in the cache.
const PROGRAMS: &str = "programs";
/// In it: held while names are made or swept.
const LOCK: &str = "lock";
/// In the folder of one name: held as long as it is in use. A file of its own, as links to one program are one file with one lock.
const HELD: &str = "held";
/// The program that runs, whatever became of its file.
const RUNNING: &str = "/proc/self/exe";

/// The name; taken away with this value, which has to outlive whatever is started by it.
#[derive(Debug)]
pub struct OwnProgram {
    path: PathBuf,
    /// None where it is the program's own name.
    _kept: Option<(TempDir, Flock<File>)>,
}

impl OwnProgram {
    /// One for this process; `exe` is what it is called.
    #[must_use]
    pub fn new(exe: &Path, cache: &Path) -> Self {
        Self::of(Path::new(RUNNING), exe, cache)
    }

    fn of(running: &Path, exe: &Path, cache: &Path) -> Self {
        match make(running, &cache.join(PROGRAMS)) {
            Ok((path, kept)) => OwnProgram {
                path,
                _kept: Some(kept),
            },
            Err(_) => OwnProgram {
                path: exe.to_owned(),
                _kept: None,
            },
        }
    }

    /// By which it is started.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn make(running: &Path, programs: &Path) -> io::Result<(PathBuf, (TempDir, Flock<File>))> {
    fs::create_dir_all(programs)?;
    if statvfs(programs)?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let file = File::create(programs.join(LOCK))?;
    let _one_at_a_time = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| e)?;
    sweep(programs);
    let folder = tempfile::Builder::new()
        .prefix("warren-")
        .tempdir_in(programs)?;
    let held = File::create(folder.path().join(HELD))?;
    let held = Flock::lock(held, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
    let path = folder.path().join("warren");
    let follow = AtFlags::AT_SYMLINK_FOLLOW;
    if linkat(AT_FDCWD, running, AT_FDCWD, &path, follow).is_err() {
        fs::copy(running, &path)?;
    }
    Ok((path, (folder, held)))
}

/// Takes away what nobody holds.
fn sweep(programs: &Path) {
    let entries = fs::read_dir(programs).into_iter().flatten().flatten();
    for folder in entries.map(|e| e.path()).filter(|p| p.is_dir()) {
        // Whoever makes one has the lock of all, so one without this file is half made by a process that was killed.
        let held = File::open(folder.join(HELD)).is_ok_and(|file| {
            let taken = Flock::lock(file, FlockArg::LockExclusiveNonblock);
            taken.is_err()
        });
        if !held {
            let _ = fs::remove_dir_all(&folder);
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
        let own = OwnProgram::of(&exe, &exe, dir.path());
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
    fn it_is_the_program_that_runs() {
        let dir = tempfile::tempdir().unwrap();
        let own = OwnProgram::new(Path::new("replaced"), dir.path());
        let running = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(fs::read(own.path()).unwrap() == running);
    }

    /// All of them links to one program.
    #[test]
    fn what_a_killed_one_left_is_swept_and_what_is_held_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let exe = dir.path().join("warren");
        fs::write(&exe, "it").unwrap();
        let programs = dir.path().join(PROGRAMS);
        let (left, (folder, lock)) = make(&exe, &programs).unwrap();
        let (held, _kept) = make(&exe, &programs).unwrap();
        let half = programs.join("warren-half");
        fs::create_dir(&half).unwrap();
        // As SIGKILL does it.
        let _ = folder.keep();
        drop(lock);
        let own = OwnProgram::of(&exe, &exe, dir.path());
        assert!(!left.exists() && !half.exists());
        assert!(held.exists() && own.path().exists() && own.path() != exe);
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
