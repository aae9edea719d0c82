//! Copies the files of a slot to where a snapshot is kept, and back: holes stay holes, what is not wanted is left out.
//!
//! Called when a snapshot is made and at every restore, so it must be quick. It copies regular files, folders and symbolic
//! links, which is all that a cluster leaves behind; anything else is an error, never skipped silently.

use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use nix::unistd::{Whence, lseek};
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What is not copied of a file: its bytes are zero in the copy.
pub(super) type Blank = fn(name: &str) -> Option<Range<u64>>;

/// When files of a copy were changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Changed {
    /// As those they are copies of: some systems reload or expire by it.
    AsTheyWere,
    /// Now: a start that begins with old files must not be another one the older they are.
    Now,
}

/// Copies what is in one folder into another, except entries named `without`.
///
/// # Errors
/// With the path that failed.
pub(in crate::run) fn tree(
    from: &Path,
    to: &Path,
    without: &[&str],
    changed: Changed,
) -> io::Result<()> {
    fs::create_dir_all(to).map_err(|e| at(to, &e))?;
    for entry in fs::read_dir(from).map_err(|e| at(from, &e))? {
        let entry = entry.map_err(|e| at(from, &e))?;
        let (name, path) = (entry.file_name(), entry.path());
        if without.iter().any(|w| name == **w) {
            continue;
        }
        let there = to.join(&name);
        let kind = entry.file_type().map_err(|e| at(&path, &e))?;
        if kind.is_dir() {
            tree(&path, &there, &[], changed)?;
            let mode = entry.metadata().map_err(|e| at(&path, &e))?.permissions();
            fs::set_permissions(&there, mode).map_err(|e| at(&there, &e))?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(|e| at(&path, &e))?;
            std::os::unix::fs::symlink(target, &there).map_err(|e| at(&there, &e))?;
        } else if kind.is_file() {
            let copied = file(&path, &there, None, false).and_then(|copy| match changed {
                Changed::AsTheyWere => as_it_was(&path, &copy),
                Changed::Now => Ok(()),
            });
            copied.map_err(|e| at(&path, &e))?;
        } else {
            let e = io::Error::other("neither file nor folder nor link; it cannot be kept");
            return Err(at(&path, &e));
        }
    }
    Ok(())
}

/// Copies the pages of a slot's /dev/shm; `reserve`: with all their blocks (a full tmpfs would be a SIGBUS later).
///
/// # Errors
/// With the path that failed.
pub(super) fn pages(from: &Path, to: &Path, blank: Blank, reserve: bool) -> io::Result<()> {
    fs::create_dir_all(to).map_err(|e| at(to, &e))?;
    for entry in fs::read_dir(from).map_err(|e| at(from, &e))? {
        let entry = entry.map_err(|e| at(from, &e))?;
        let path = entry.path();
        if !entry.file_type().map_err(|e| at(&path, &e))?.is_file() {
            continue;
        }
        let name = entry.file_name();
        let skip = blank(&name.to_string_lossy());
        file(&path, &to.join(&name), skip, reserve).map_err(|e| at(&path, &e))?;
    }
    Ok(())
}

fn at(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("copying {}: {e}", path.display()))
}

fn file(from: &Path, to: &Path, blank: Option<Range<u64>>, reserve: bool) -> io::Result<File> {
    let source = File::open(from)?;
    let meta = source.metadata()?;
    let copy = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(meta.permissions().mode())
        .open(to)?;
    // As it was, whatever the umask: CRIU refuses a file of another mode.
    copy.set_permissions(meta.permissions())?;
    copy.set_len(meta.len())?;
    if reserve && meta.len() > 0 {
        let length = i64::try_from(meta.len()).map_err(io::Error::other)?;
        posix_fallocate(&copy, 0, length)?;
    }
    let blank = blank.unwrap_or(0..0);
    let mut buffer = vec![0u8; 1 << 18];
    let mut next = 0;
    while let Some(data) = data_from(&source, next)? {
        next = data.end;
        for part in around(data, &blank) {
            piece(&source, &copy, part, &mut buffer)?;
        }
    }
    Ok(copy)
}

fn as_it_was(from: &Path, copy: &File) -> io::Result<()> {
    let meta = fs::metadata(from)?;
    let times = FileTimes::new()
        .set_accessed(meta.accessed()?)
        .set_modified(meta.modified()?);
    copy.set_times(times)
}

/// What is left of a range without another one.
fn around(data: Range<u64>, blank: &Range<u64>) -> [Range<u64>; 2] {
    if blank.is_empty() {
        return [data, 0..0];
    }
    [
        data.start..data.end.min(blank.start),
        data.start.max(blank.end)..data.end,
    ]
}

fn piece(from: &File, to: &File, part: Range<u64>, buffer: &mut [u8]) -> io::Result<()> {
    let mut next = part.start;
    while next < part.end {
        let want = usize::try_from(part.end - next).unwrap_or(usize::MAX);
        let want = want.min(buffer.len());
        let got = from.read_at(&mut buffer[..want], next)?;
        if got == 0 {
            return Ok(());
        }
        to.write_all_at(&buffer[..got], next)?;
        next += got as u64;
    }
    Ok(())
}

/// The next range of a file that is no hole.
fn data_from(file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
    let offset = i64::try_from(offset).map_err(io::Error::other)?;
    let start = match lseek(file, offset, Whence::SeekData) {
        Ok(start) => start,
        Err(Errno::ENXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let end = lseek(file, start, Whence::SeekHole)?;
    // What the kernel names a place in a file is never negative.
    Ok(Some(start.cast_unsigned()..end.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank(name: &str) -> Option<Range<u64>> {
        match name {
            "events" => Some(4096..8192),
            "map" => Some(0..u64::MAX),
            _ => None,
        }
    }

    #[test]
    fn files_arrive_as_they_were_but_for_what_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::create_dir_all(from.join(".slot")).unwrap();
        fs::write(from.join(".slot/hosts"), "x").unwrap();
        fs::write(from.join("deep/er/f"), "text").unwrap();
        fs::write(from.join("deep/empty"), "").unwrap();
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        // Wider than any usual umask lets a new file be.
        fs::set_permissions(from.join("deep/er/f"), fs::Permissions::from_mode(0o666)).unwrap();
        let f = OpenOptions::new().write(true).open(from.join("deep/er/f"));
        f.unwrap().set_modified(then).unwrap();
        std::os::unix::fs::symlink("er/f", from.join("deep/link")).unwrap();
        tree(&from, &to, &[".slot"], Changed::AsTheyWere).unwrap();
        assert_eq!(fs::read_to_string(to.join("deep/link")).unwrap(), "text");
        assert_eq!(fs::read(to.join("deep/empty")).unwrap(), b"");
        let meta = fs::metadata(to.join("deep/er/f")).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o666);
        assert_eq!(meta.modified().unwrap(), then);
        let now = dir.path().join("now");
        tree(&from, &now, &[".slot"], Changed::Now).unwrap();
        let meta = fs::metadata(now.join("deep/er/f")).unwrap();
        assert!(meta.modified().unwrap() > then);
        assert!(!to.join(".slot").exists());
        let odd = from.join("deep/pipe");
        nix::unistd::mkfifo(&odd, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let e = tree(&from, &dir.path().join("again"), &[], Changed::Now)
            .unwrap_err()
            .to_string();
        assert!(e.contains("deep/pipe"), "{e}");
    }

    #[test]
    fn pages_keep_holes_and_lose_what_is_blank() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        let mut bytes = vec![7u8; 12288];
        for name in ["events", "map", "page"] {
            fs::write(from.join(name), &bytes).unwrap();
        }
        let sparse = File::create(from.join("sparse")).unwrap();
        sparse.set_len(1 << 24).unwrap();
        sparse.write_all_at(b"x", 1 << 20).unwrap();
        pages(&from, &to, blank, true).unwrap();
        assert_eq!(fs::read(to.join("page")).unwrap(), bytes);
        assert_eq!(fs::read(to.join("map")).unwrap(), vec![0; 12288]);
        bytes[4096..8192].fill(0);
        assert_eq!(fs::read(to.join("events")).unwrap(), bytes);
        let copy = fs::read(to.join("sparse")).unwrap();
        assert_eq!((copy.len(), copy[1 << 20]), (1 << 24, b'x'));
        assert_eq!(copy.iter().filter(|b| **b != 0).count(), 1);
    }
}
