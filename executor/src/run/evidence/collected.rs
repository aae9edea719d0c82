//! Files of `[collect]`, read from the nodes' folders once all processes are dead: what a finding's reader wants to look into himself,
//! transaction logs and snapshots above all. Called by collection; refuses whatever lies outside a node's folder.
//!
//! Bounded: systems preallocate logs (ZooKeeper 64 MiB, a hole), and this is read after every run.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::time::SystemTime;
use warren_model::frames::glob;

/// Most of one file, bytes from its start.
const FILE_MAX: u64 = 1 << 20;
/// Most of one node in all; the files changed last come first.
const NODE_MAX: u64 = 8 << 20;
/// [`MetadataExt::blocks`] counts in these.
const BLOCK: u64 = 512;

/// The files of a node that the patterns name: (path below its folder, content), in the order of the patterns and their names. A pattern is
/// a relative path whose last part may have `*`. Files named without one come first where there is not room for all. What cannot be read,
/// and what a link leads to, is not there.
pub(in crate::run) fn read(node: &Path, patterns: &[String]) -> Vec<(String, Vec<u8>)> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for (order, pattern) in patterns.iter().enumerate() {
        for name in matching(node, pattern) {
            let path = node.join(&name);
            let meta = fs::symlink_metadata(&path).ok();
            if let Some(meta) = meta.filter(fs::Metadata::is_file) {
                found.entry(name).or_insert_with(|| Found {
                    order,
                    drawn: pattern.contains('*'),
                    changed: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    some: some_of(&meta),
                    whole: some_of(&meta) == meta.len(),
                });
            }
        }
    }
    let mut by_worth: Vec<(&String, &Found)> = found.iter().collect();
    by_worth.sort_by_key(|(_, f)| (f.drawn, Reverse(f.changed)));
    let mut room = NODE_MAX;
    let mut read: Vec<(usize, &String, Vec<u8>)> = Vec::new();
    for (name, f) in by_worth {
        if f.some > room {
            continue;
        }
        if let Ok(bytes) = start_of(&node.join(name), f) {
            room -= f.some;
            read.push((f.order, name, bytes));
        }
    }
    read.sort_by_key(|(order, name, _)| (*order, *name));
    let owned = |(_, name, bytes): (usize, &String, Vec<u8>)| (name.clone(), bytes);
    read.into_iter().map(owned).collect()
}

/// A file that a pattern names.
struct Found {
    /// Of the pattern.
    order: usize,
    /// By a `*`.
    drawn: bool,
    changed: SystemTime,
    /// So many bytes from its start are read.
    some: u64,
    whole: bool,
}

/// Names of files below `node` that a pattern may mean.
fn matching(node: &Path, pattern: &str) -> Vec<String> {
    let path = Path::new(pattern);
    if !path.components().all(|c| matches!(c, Component::Normal(_))) {
        return Vec::new();
    }
    let (folder, last) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    // A link in between may lead anywhere. Asked one by one: the way to the node goes through /proc/PID/root, which has no path of its own.
    let mut inside = node.to_path_buf();
    for part in folder.split('/').filter(|p| !p.is_empty()) {
        inside.push(part);
        if !fs::symlink_metadata(&inside).is_ok_and(|m| m.is_dir()) {
            return Vec::new();
        }
    }
    if !last.contains('*') {
        return vec![pattern.to_owned()];
    }
    let Ok(entries) = fs::read_dir(inside) else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| glob(last, name))
        .map(|name| match folder {
            "" => name,
            _ => format!("{folder}/{name}"),
        })
        .collect()
}

/// All of a file up to [`FILE_MAX`]; of a longer one that much, or so much as it has on disk.
fn some_of(meta: &fs::Metadata) -> u64 {
    if meta.len() <= FILE_MAX {
        return meta.len();
    }
    FILE_MAX.min(meta.blocks() * BLOCK)
}

/// What is read of a file; of a longer one without the zeros that its part ends with.
fn start_of(path: &Path, found: &Found) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(found.some).unwrap_or_default());
    File::open(path)?.take(found.some).read_to_end(&mut bytes)?;
    if !found.whole {
        let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        bytes.truncate(end);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(read: &[(String, Vec<u8>)]) -> Vec<&str> {
        read.iter().map(|(n, _)| n.as_str()).collect()
    }

    #[test]
    fn patterns_name_files_below_the_node() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("n1");
        fs::create_dir_all(node.join("data/v2/sub")).unwrap();
        for name in ["data/v2/log.2", "data/v2/log.1", "data/v2/epoch", "top.log"] {
            fs::write(node.join(name), name).unwrap();
        }
        fs::write(dir.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), node.join("data/v2/log.9")).unwrap();
        std::os::unix::fs::symlink(dir.path(), node.join("away")).unwrap();
        for (patterns, want) in [
            (
                &["data/v2/log.*"][..],
                &["data/v2/log.1", "data/v2/log.2"][..],
            ),
            (
                &["data/v2/epoch", "data/v2/*o*"],
                &["data/v2/epoch", "data/v2/log.1", "data/v2/log.2"],
            ),
            (&["*.log"], &["top.log"]),
            (&["data/v2", "data/v2/s*", "gone", "gone/*"], &[]),
            (
                &[
                    "../secret",
                    "/etc/hostname",
                    "data/../../secret",
                    "away/secret",
                    "away/s*",
                ],
                &[],
            ),
        ] {
            let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
            let read = read(&node, &patterns);
            assert_eq!(names(&read), want, "{patterns:?}");
            assert!(read.iter().all(|(n, bytes)| n.as_bytes() == &bytes[..]));
        }
    }

    #[test]
    fn long_files_are_cut_and_the_newest_have_the_room() {
        let dir = tempfile::tempdir().unwrap();
        let long = File::create(dir.path().join("log.0")).unwrap();
        long.set_len(64 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&long, b"head", 0).unwrap();
        fs::write(dir.path().join("log.1"), [0u8; 100]).unwrap();
        let log = ["log.*".to_owned()];
        let first = read(dir.path(), &log);
        assert_eq!(first[0], ("log.0".to_owned(), b"head".to_vec()));
        assert_eq!(first[1].1.len(), 100, "a short file is whole");

        let day = |n: u64| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(n * 86400);
        for n in 0..10 {
            let path = dir.path().join(format!("log.{n}"));
            fs::write(&path, vec![7; 1 << 20]).unwrap();
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(day(20 - n))
                .unwrap();
        }
        fs::write(dir.path().join("epoch"), "7").unwrap();
        let with_epoch = read(dir.path(), &["log.*".to_owned(), "epoch".to_owned()]);
        assert_eq!(
            (with_epoch.len(), names(&with_epoch)[7]),
            (8, "epoch"),
            "it is never crowded out"
        );
        let read = read(dir.path(), &log);
        let want: Vec<String> = (0..8).map(|n| format!("log.{n}")).collect();
        assert_eq!(names(&read), want);
    }
}
