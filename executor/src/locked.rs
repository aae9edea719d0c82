//! A lock on a file between processes, given back when it is dropped or when the process ends, however it ends.
//!
//! Used for the cache, for sweeps at level 3, for a campaign's folder and for a broker's. Who takes one says what it means that another
//! process has it: nothing here waits.

use std::fs::File;

/// A file that this process has locked ([`File::try_lock`] and its like).
#[derive(Debug)]
pub struct Locked(File);

impl Locked {
    /// Of a file whose lock was just taken.
    #[must_use]
    pub fn new(taken: File) -> Self {
        Locked(taken)
    }
}

impl Drop for Locked {
    /// Not by closing alone: a child that is just being forked has the file open too, until it becomes its program.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_the_file_open_still_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.path().join("lock"))
                .unwrap()
        };
        let (first, second) = (open(), open());
        first.try_lock().unwrap();
        // As a child has it between fork and exec: another descriptor of the same open file.
        let in_child = first.try_clone().unwrap();
        let first = Locked::new(first);
        assert!(second.try_lock().is_err());
        drop(first);
        second.try_lock().unwrap();
        drop(in_child);
    }
}
