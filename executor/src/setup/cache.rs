//! The cache folder, and the two tools everything in it is made with: a lock between processes, and rename.
//!
//! Called by the other modules of set-up. Nothing in the cache is ever changed in place: a thing is made in a
//! temporary folder beside its place and renamed there, so a reader never sees half of it.

use std::env;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::{SetupError, child};
use crate::Locked;

/// The cache folder: WARREN_CACHE, else XDG_CACHE_HOME/warren, else ~/.cache/warren. Made if it is not there.
///
/// # Errors
/// [`SetupError::NoCache`] when none of the variables is set, [`SetupError::File`] when it cannot be made.
pub fn dir() -> Result<PathBuf, SetupError> {
    let dir = choose(|name| {
        env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    })
    .ok_or(SetupError::NoCache)?;
    fs::create_dir_all(&dir).map_err(SetupError::cache("creating the cache folder", &dir))?;
    // Slots have other working directories: a relative path would mean something else there.
    fs::canonicalize(&dir).map_err(SetupError::cache("finding the cache folder", &dir))
}

fn choose(var: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    var("WARREN_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|d| d.join("warren")))
        .or_else(|| var("HOME").map(|d| d.join(".cache/warren")))
}

/// Locks `cache/locks/<name>.lock` for this process alone. Waits for another Warren.
pub fn lock(cache: &Path, name: &str) -> Result<Locked, SetupError> {
    lock_unless(cache, name, &|| false)
}

/// As [`lock`]; gives up waiting when `stop` says so.
pub fn lock_unless(
    cache: &Path,
    name: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Locked, SetupError> {
    let folder = cache.join("locks");
    fs::create_dir_all(&folder).map_err(SetupError::cache("creating", &folder))?;
    let path = folder.join(format!("{name}.lock"));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.map_err(SetupError::cache("opening", &path))?;
    // Not the call that blocks: whoever waits for another Warren's Maven must be able to give up.
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Locked::new(file)),
            Err(TryLockError::WouldBlock) if child::stopped() || stop() => {
                return Err(SetupError::Ended);
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
            Err(TryLockError::Error(e)) => return Err(SetupError::cache("locking", &path)(e)),
        }
    }
}

/// What a killed Warren left in `tmp` is taken away after so long: no set-up takes a day.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|m| m.modified());
        let age = changed.ok().and_then(|t| t.elapsed().ok());
        if age.is_some_and(|a| a > LEFT_BEHIND) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A fresh temporary folder on the cache's own file system (so that a rename works); removed when dropped.
pub fn scratch(cache: &Path) -> Result<tempfile::TempDir, SetupError> {
    let folder = cache.join("tmp");
    fs::create_dir_all(&folder).map_err(SetupError::cache("creating", &folder))?;
    sweep(&folder);
    tempfile::tempdir_in(&folder).map_err(SetupError::cache("creating a folder in", &folder))
}

/// Moves a finished file or folder to its place, replacing what is there.
pub fn put(made: &Path, place: &Path) -> Result<(), SetupError> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).map_err(SetupError::cache("creating", parent))?;
    }
    if place.is_dir() {
        fs::remove_dir_all(place).map_err(SetupError::cache("replacing", place))?;
    }
    fs::rename(made, place).map_err(SetupError::cache("moving into the cache", place))
}

/// Where the hash of a finished file stands, beside it.
fn seal_of(place: &Path) -> PathBuf {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(".sha256");
    place.with_file_name(name)
}

/// As [`put`] for a file, with its hash beside it, by which [`intact`] knows it again.
pub fn put_sealed(made: &Path, place: &Path) -> Result<(), SetupError> {
    let hash = sha256_file(made)?;
    let seal = seal_of(made);
    fs::write(&seal, hash).map_err(SetupError::cache("writing", &seal))?;
    // In this order: a file without its seal is made again, a seal without its file is nothing.
    put(&seal, &seal_of(place))?;
    put(made, place)
}

/// Whether a file put by [`put_sealed`] is still what it was: a disk that was full or a killed copy leaves others behind, and a
/// class that is not what was compiled would be looked for in the target for days.
#[must_use]
pub fn intact(place: &Path) -> bool {
    let sealed = fs::read_to_string(seal_of(place)).unwrap_or_default();
    !sealed.is_empty() && sha256_file(place).is_ok_and(|hash| hash == sealed)
}

/// Keeps a text at its place in the cache, by whose hash [`intact`] knows it again. What a full disk stopped leaves nothing behind.
pub fn write_sealed(cache: &Path, place: &Path, text: &str) -> Result<(), SetupError> {
    let scratch = scratch(cache)?;
    let made = scratch.path().join(place.file_name().unwrap_or_default());
    fs::write(&made, text).map_err(SetupError::cache("writing", &made))?;
    put_sealed(&made, place)
}

/// Things kept of each target, whatever their age.
pub const KEEP: usize = 3;
/// One used so recently may be in use: no run lasts that long.
pub const IN_USE: Duration = Duration::from_secs(2 * 3600);

/// What is in a folder of the cache, by name, with the time that tells its last use.
#[must_use]
pub fn with_last_use(folder: &Path) -> Vec<(String, SystemTime)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|e| {
            let used = e.metadata().ok()?.modified().ok()?;
            Some((e.file_name().into_string().ok()?, used))
        })
        .collect()
}

/// Of things named `<target>-<16 hex digits>`, with their last use: this target's that are neither among the newest nor possibly in use.
#[must_use]
pub fn superfluous(
    mut found: Vec<(String, SystemTime)>,
    target: &str,
    now: SystemTime,
) -> Vec<String> {
    found.retain(|(name, _)| {
        let key = name.strip_prefix(target).and_then(|r| r.strip_prefix('-'));
        key.is_some_and(is_key)
    });
    found.sort_by_key(|(_, used)| std::cmp::Reverse(*used));
    let old = |used: &SystemTime| now.duration_since(*used).is_ok_and(|age| age > IN_USE);
    found
        .into_iter()
        .skip(KEEP)
        .filter(|(_, used)| old(used))
        .map(|(name, _)| name)
        .collect()
}

/// 16 hex digits, by which things in the cache are named.
#[must_use]
pub fn is_key(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// SHA-256 of a file, 64 hex digits.
pub fn sha256_file(path: &Path) -> Result<String, SetupError> {
    let mut file = File::open(path).map_err(SetupError::file("opening", path))?;
    let mut hash = Sha256::new();
    let mut piece = vec![0u8; 1 << 16];
    loop {
        match file
            .read(&mut piece)
            .map_err(SetupError::file("reading", path))?
        {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&piece[..n]),
        }
    }
}

/// SHA-256 of bytes, 64 hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_cache() {
        let all = |n: &str| Some(PathBuf::from(format!("/{n}")));
        assert_eq!(choose(all), Some("/WARREN_CACHE".into()));
        let xdg = |n: &str| (n != "WARREN_CACHE").then(|| PathBuf::from(format!("/{n}")));
        assert_eq!(choose(xdg), Some("/XDG_CACHE_HOME/warren".into()));
        let home = |n: &str| (n == "HOME").then(|| PathBuf::from("/h"));
        assert_eq!(choose(home), Some("/h/.cache/warren".into()));
        assert_eq!(choose(|_| None), None);
    }

    #[test]
    fn hashes_are_the_known_ones() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        fs::write(&file, b"").unwrap();
        assert_eq!(sha256_file(&file).unwrap(), empty);
    }

    #[test]
    fn what_was_damaged_in_the_cache_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("jars/x.jar");
        assert!(!intact(&place), "nothing there");
        let made = dir.path().join("made.jar");
        fs::write(&made, "a jar").unwrap();
        put_sealed(&made, &place).unwrap();
        assert!(intact(&place));
        for damage in ["", "a ja", "a jaz"] {
            fs::write(&place, damage).unwrap();
            assert!(!intact(&place), "`{damage}`");
        }
        fs::write(&place, "a jar").unwrap();
        fs::remove_file(dir.path().join("jars/x.jar.sha256")).unwrap();
        assert!(!intact(&place), "no seal");
    }

    #[test]
    fn a_text_is_there_whole_or_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("background/k.txt");
        // As a power cut leaves it of an earlier Warren, which had no seals.
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, "").unwrap();
        assert!(!intact(&place));
        for text in ["", "one\ntwo\n"] {
            write_sealed(dir.path(), &place, text).unwrap();
            assert!(intact(&place), "`{text}`");
            assert_eq!(fs::read_to_string(&place).unwrap(), text);
        }
        fs::write(&place, "").unwrap();
        assert!(!intact(&place), "cut short");
        // Below a file there is no folder. As on a full disk, what fails leaves nothing.
        let nowhere = place.join("below/k.txt");
        assert!(write_sealed(dir.path(), &nowhere, "x").is_err());
        assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
    }

    #[test]
    fn old_things_of_the_target_go_and_no_others() {
        let now = SystemTime::now();
        let hours = |h: u64| now - Duration::from_secs(h * 3600);
        let key = |n: u32| format!("{n:016x}");
        let mut found: Vec<(String, SystemTime)> = (1..=5)
            .map(|n| (format!("toy-{}", key(n)), hours(u64::from(n) + 1)))
            .collect();
        found.push((format!("toy-fixed-{}", key(6)), hours(90)));
        found.push(("toy-notes".into(), hours(90)));
        let mut gone = superfluous(found.clone(), "toy", now);
        gone.sort();
        assert_eq!(gone, [format!("toy-{}", key(4)), format!("toy-{}", key(5))]);
        let young: Vec<_> = found.into_iter().map(|(n, _)| (n, hours(1))).collect();
        assert!(superfluous(young, "toy", now).is_empty(), "in use");
    }

    #[test]
    fn what_a_killed_warren_left_goes_after_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["new", "old"].map(|n| dir.path().join("tmp").join(n));
        for (folder, hours) in folders.iter().zip([1, 25]) {
            fs::create_dir_all(folder.join("half")).unwrap();
            let then = std::time::SystemTime::now() - Duration::from_secs(hours * 3600);
            File::open(folder).unwrap().set_modified(then).unwrap();
        }
        let mine = scratch(dir.path()).unwrap();
        let there = [folders[0].exists(), folders[1].exists()];
        assert!(there == [true, false] && mine.path().exists());
    }

    #[test]
    fn a_lock_excludes_until_it_is_dropped_and_put_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let guard = lock(dir.path(), "a").unwrap();
        let file = File::open(dir.path().join("locks/a.lock")).unwrap();
        assert!(file.try_lock().is_err());
        drop(guard);
        file.try_lock().unwrap();

        let place = dir.path().join("deep/place");
        for text in ["one", "two"] {
            let scratch = scratch(dir.path()).unwrap();
            let made = scratch.path().join("made");
            fs::create_dir(&made).unwrap();
            fs::write(made.join("f"), text).unwrap();
            put(&made, &place).unwrap();
            assert_eq!(fs::read_to_string(place.join("f")).unwrap(), text);
        }
    }
}
