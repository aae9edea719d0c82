//! One Warren per instance folder: a lock on `lock` in it, held as long as the process lives, whatever ends it. Taken by the campaign
//! before it reads or writes anything there.

use crate::campaign::FuzzError;
use crate::campaign::folder::io;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use warren_executor::Locked;

/// Of the file in an instance's folder; the pid of the process that has it, or had it last, stands in it.
pub const LOCK: &str = "lock";

/// Held while it lives.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held for its Drop")] Locked);

impl Lock {
    /// Takes the lock of an instance's folder.
    ///
    /// # Errors
    /// [`FuzzError::Usage`] with the pid of the process that has it; I/O, with the path.
    pub fn take(root: &Path) -> Result<Self, FuzzError> {
        fs::create_dir_all(root).map_err(io("making the campaign folder", root))?;
        let path = root.join(LOCK);
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io("opening", &path))?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()))
                    .map_err(io("writing", &path))?;
                Ok(Lock(Locked::new(file)))
            }
            Err(TryLockError::WouldBlock) => Err(held(root, file)),
            Err(TryLockError::Error(e)) => Err(io("locking", &path)(e)),
        }
    }

    /// Whether no living process has the folder, without taking it: for a check before a long set-up.
    ///
    /// # Errors
    /// [`FuzzError::Usage`] with the pid of the process that has it.
    pub fn free(root: &Path) -> Result<(), FuzzError> {
        // None, or one that cannot be read: taking it tells what is wrong.
        let Ok(file) = File::open(root.join(LOCK)) else {
            return Ok(());
        };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(held(root, file)),
            Ok(()) => {
                drop(Locked::new(file));
                Ok(())
            }
            Err(TryLockError::Error(_)) => Ok(()),
        }
    }
}

/// The error of a lock that another process holds, with the pid it wrote there.
fn held(root: &Path, mut file: File) -> FuzzError {
    let mut pid = String::new();
    // It only makes the text better.
    let _ = file.read_to_string(&mut pid);
    let pid = match pid.trim() {
        "" => "that has not said its pid yet",
        pid => pid,
    };
    FuzzError::Usage(format!(
        "{} is being written by another Warren, process {pid}; end that one first, or choose another folder with -o",
        root.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_is_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let text = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(
            text.contains(&format!("process {}", std::process::id())),
            "{text}"
        );
        assert_eq!(Lock::free(dir.path()).unwrap_err().to_string(), text);
        drop(first);
        Lock::free(dir.path()).unwrap();
        Lock::take(dir.path()).unwrap();
    }
}
