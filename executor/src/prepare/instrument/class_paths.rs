//! Which of the jars in `instrumented/` of the cache are in use: a list for each class path, which a Warren that has it keeps locked as long
//! as it lives. Of each target the lists that were used last stay; what no list names any more goes.
//!
//! Called before a class path is looked for in the cache, and when it is there. A cache that cannot be written stays as it is.

use crate::Locked;
use crate::setup::cache;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Ending of a list `<target>-<key>.list`: names of files, a line each.
const LIST: &str = ".list";
/// Whoever makes, locks or removes a list has this lock of the cache.
const LOCK: &str = "class-paths";
/// What no list names may be in use by a Warren of before there were lists: it goes when it was neither made nor read for so long.
const UNLISTED: Duration = Duration::from_secs(30 * 24 * 3600);

/// The lists of this process, locked until it ends.
static OWN: Mutex<Vec<Locked>> = Mutex::new(Vec::new());

/// Keeps these files of the folder for as long as this process lives, whether they are there yet or not.
pub(in crate::prepare) fn claim<'f>(
    cache: &Path,
    folder: &Path,
    target: &str,
    files: impl IntoIterator<Item = &'f PathBuf>,
) {
    let names = files.into_iter().filter_map(|f| f.file_name()?.to_str());
    let text: String = names.map(|n| format!("{n}\n")).collect();
    let key = &cache::sha256(text.as_bytes())[..16];
    let list = folder.join(format!("{target}-{key}{LIST}"));
    // Nobody needs it to run: what is not claimed is only less safe from another Warren's tidying.
    if let Ok(locked) = locked(cache, &list, &text) {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        own.push(locked);
    }
}

fn locked(cache: &Path, list: &Path, text: &str) -> io::Result<Locked> {
    let _guard = cache::lock(cache, LOCK).map_err(io::Error::other)?;
    if fs::read_to_string(list).is_ok_and(|t| t == text) {
        let file = File::options().append(true).open(list)?;
        file.try_lock_shared()?;
        file.set_modified(SystemTime::now())?;
        return Ok(Locked::new(file));
    }
    let scratch = cache::scratch(cache).map_err(io::Error::other)?;
    let made = scratch.path().join("list");
    fs::write(&made, text)?;
    let file = File::open(&made)?;
    file.try_lock_shared()?;
    cache::put(&made, list).map_err(io::Error::other)?;
    Ok(Locked::new(file))
}

/// Takes away the lists of this target that are neither among the newest nor in use, and what no list names any more.
pub(in crate::prepare) fn prune(cache: &Path, folder: &Path, target: &str) {
    let Ok(_guard) = cache::lock(cache, LOCK) else {
        return;
    };
    let now = SystemTime::now();
    let mut lists = cache::with_last_use(folder);
    lists.retain_mut(|(name, _)| {
        let stem = name.strip_suffix(LIST).map(str::to_owned);
        stem.map(|stem| *name = stem).is_some()
    });
    let mut dropped = BTreeSet::new();
    for name in cache::superfluous(lists.clone(), target, now) {
        let list = folder.join(name + LIST);
        let unused = File::open(&list).is_ok_and(|f| f.try_lock().is_ok());
        let named = named(&list);
        if unused && fs::remove_file(&list).is_ok() {
            dropped.extend(named);
        }
    }
    let kept: BTreeSet<String> = lists
        .iter()
        .flat_map(|(name, _)| named(&folder.join(format!("{name}{LIST}"))))
        .collect();
    let old = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age > UNLISTED);
    for (thing, (used, files)) in things(folder) {
        if !kept.contains(&thing) && (dropped.contains(&thing) || old(used)) {
            for file in files {
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// The files that a list names; none of one that is gone.
fn named(list: &Path) -> Vec<String> {
    let text = fs::read_to_string(list).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What was made for class paths, by the names that lists have: when it was last made or read, and its files, which are itself, its seal
/// and its warnings.
fn things(folder: &Path) -> BTreeMap<String, (SystemTime, Vec<PathBuf>)> {
    let mut things = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let (Some(thing), Ok(m)) = (name.to_str().and_then(thing), entry.metadata()) else {
            continue;
        };
        let Ok(made) = m.modified() else { continue };
        let used = m.accessed().map_or(made, |read| read.max(made));
        let (newest, files) = things.entry(thing).or_insert((used, Vec::new()));
        *newest = used.max(*newest);
        files.push(entry.path());
    }
    things
}

/// The jar or table that a file in the folder belongs to, `<name>-<key>.jar`, `<name>-<key>-<number>.jar` or `<target>-<key>.probes`; none for
/// a file that is not ours.
fn thing(file: &str) -> Option<String> {
    let name = file.strip_suffix(".sha256").unwrap_or(file);
    let (stem, extension) = name.rsplit_once('.')?;
    let (before, last) = stem.rsplit_once('-')?;
    let numbered = || {
        let number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
        number && before.rsplit_once('-').is_some_and(|b| cache::is_key(b.1))
    };
    match extension {
        "probes" => cache::is_key(last).then(|| name.to_owned()),
        "jar" | "warnings" => (cache::is_key(last) || numbered()).then(|| format!("{stem}.jar")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;

    #[test]
    fn files_are_known_by_their_names() {
        let key = "0123456789abcdef";
        let jar = |end: &str| Some(format!("log4j-1.2.17-{key}{end}.jar"));
        for (file, want) in [
            (format!("log4j-1.2.17-{key}.jar"), jar("")),
            (format!("log4j-1.2.17-{key}.jar.sha256"), jar("")),
            (format!("log4j-1.2.17-{key}.warnings"), jar("")),
            (format!("log4j-1.2.17-{key}-12.jar"), jar("-12")),
            (format!("log4j-1.2.17-{key}-12.warnings"), jar("-12")),
            (
                format!("toy-{key}.probes.sha256"),
                Some(format!("toy-{key}.probes")),
            ),
            (format!("toy-{key}.list"), None),
            ("log4j-1.2.17.jar".into(), None),
            (format!("toy-{key}-.jar"), None),
            ("notes".into(), None),
        ] {
            assert_eq!(thing(&file), want, "{file}");
        }
    }

    /// Each agent, and each `include`, leaves a class path behind; the last ones stay, and whatever a living Warren has.
    #[test]
    fn class_paths_of_before_go_and_none_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, folder) = (dir.path(), dir.path().join("instrumented"));
        fs::create_dir(&folder).unwrap();
        let days = |n: u64| SystemTime::now() - Duration::from_secs(n * 24 * 3600);
        let aged = |file: &str, n: u64| {
            let times = FileTimes::new().set_accessed(days(n)).set_modified(days(n));
            let file = File::options().append(true).open(folder.join(file));
            file.unwrap().set_times(times).unwrap();
        };
        let jar = |n: u32| format!("a-{n:016x}.jar");
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        let shared = jar(99);
        write(&shared, "jar");
        for n in 1..=6 {
            write(&jar(n), "jar");
            write(&format!("{}.sha256", jar(n)), "seal");
            write(&format!("a-{n:016x}.warnings"), "warning");
            let list = format!("toy-{n:016x}.list");
            write(&list, &format!("{}\n{shared}\n", jar(n)));
            aged(&list, 10 + u64::from(n));
        }
        let others = format!("other-{:016x}.list", 7);
        write(&others, &format!("{}\n", jar(7)));
        write(&jar(7), "jar");
        aged(&others, 300);
        aged(&jar(7), 300);
        // No list names these.
        for (n, age) in [(20, 1), (21, 40)] {
            write(&jar(n), "jar");
            aged(&jar(n), age);
        }
        write("notes", "mine");
        aged("notes", 300);
        // Another Warren that lives, and this one.
        let living = File::open(folder.join(format!("toy-{:016x}.list", 5))).unwrap();
        living.try_lock_shared().unwrap();
        claim(cache, &folder, "toy", [&folder.join(jar(30))]);
        write(&jar(30), "jar");

        prune(cache, &folder, "toy");
        let there = |n: u32| folder.join(jar(n)).exists();
        let left: Vec<u32> = (1..=40).filter(|n| there(*n)).collect();
        // Claimed, and with it the newest two; 5 is locked; 7 is another target's; 20 is young.
        assert_eq!(left, [1, 2, 5, 7, 20, 30]);
        assert!(folder.join(&shared).exists() && folder.join("notes").exists());
        for (n, whole) in [(1, true), (3, false)] {
            let with = [".jar.sha256", ".warnings", ".jar"].map(|e| format!("a-{n:016x}{e}"));
            assert!(with.iter().all(|f| folder.join(f).exists() == whole), "{n}");
        }

        // It ends; what was claimed is claimed until this process does.
        // Not only dropped: a child that another test is starting may have the file for a moment.
        living.unlock().unwrap();
        drop(living);
        prune(cache, &folder, "toy");
        assert!(!there(5) && there(1) && there(2) && there(30));
        let own = fs::read_dir(&folder).unwrap().flatten().find(|e| {
            let text = fs::read_to_string(e.path()).unwrap();
            text == format!("{}\n", jar(30))
        });
        let own = own.unwrap().path();
        assert!(File::open(&own).unwrap().try_lock().is_err());
        // The next start marks its use anew.
        let list = own.file_name().unwrap().to_str().unwrap().to_owned();
        aged(&list, 50);
        claim(cache, &folder, "toy", [&folder.join(jar(30))]);
        let used = fs::metadata(&own).unwrap().modified().unwrap();
        assert!(used.elapsed().unwrap() < Duration::from_secs(3600));
    }
}
