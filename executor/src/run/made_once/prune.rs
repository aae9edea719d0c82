//! Old class data archives are taken out of the cache: every new version of a target, agent or JDK leaves a set of 30 to 60 MB behind.
//!
//! Called at set-up. Of each target the sets used last stay, and any that was used a short while ago: every run marks its own, so a
//! living Warren never loses one. A Warren that was paused for longer goes on without them, only slower. Removes nothing it cannot
//! name: other files in the folder stay.

use crate::setup::cache::{self, IN_USE, KEEP};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

/// The parts of a set; the last one says that the set was tried.
const PARTS: [&str; 6] = ["nodes", "plain", "workload", "hot", "hotworkload", "tried"];

/// Marks a set as used now. A cache that cannot be written stays as it is.
pub(in crate::run) fn mark_used(marker: &Path) {
    if let Ok(file) = std::fs::File::options().append(true).open(marker) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Takes away what [`superfluous`] names in this folder. What cannot be removed stays: the next set-up tries again.
pub(in crate::run) fn archives(folder: &Path) {
    for name in superfluous(&cache::with_last_use(folder), SystemTime::now()) {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// Names to remove, of files with their last use. The marker of a set goes first: without it the set is made again as a whole.
fn superfluous(files: &[(String, SystemTime)], now: SystemTime) -> Vec<String> {
    let old = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age > IN_USE);
    let mut out = Vec::new();
    let mut sets: BTreeMap<&str, (SystemTime, Vec<&str>)> = BTreeMap::new();
    for (name, used) in files {
        match set_of(name) {
            Some((set, false)) => {
                let entry = sets.entry(set).or_insert((*used, Vec::new()));
                entry.0 = entry.0.max(*used);
                entry.1.push(name);
            }
            // Half-made, by a Warren that was killed.
            Some((_, true)) if old(*used) => out.push(name.clone()),
            _ => {}
        }
    }
    let mut by_target: BTreeMap<&str, Vec<(SystemTime, Vec<&str>)>> = BTreeMap::new();
    for (set, files) in sets {
        // Sets of earlier versions of Warren have no target in their names: together they are one.
        let target = set.rsplit_once('-').map_or("", |(target, _)| target);
        by_target.entry(target).or_default().push(files);
    }
    for mut sets in by_target.into_values() {
        sets.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
        for (used, mut names) in sets.into_iter().skip(KEEP) {
            if old(used) {
                names.sort_by_key(|n| !n.contains("-tried."));
                out.extend(names.into_iter().map(str::to_owned));
            }
        }
    }
    out
}

/// The set `[<target>-]<key>` a file belongs to, and whether it is only half-made; none for a file that is not ours.
fn set_of(name: &str) -> Option<(&str, bool)> {
    // A text's seal goes with it.
    let name = name.strip_suffix(".sha256").unwrap_or(name);
    let (stem, extension) = name.rsplit_once('.')?;
    let (set, part) = stem.rsplit_once('-')?;
    let key = set.rsplit_once('-').map_or(set, |(_, key)| key);
    let ours = PARTS.contains(&part) && cache::is_key(key);
    let half = ["list", "part"].iter().any(|h| {
        extension
            .strip_prefix(h)
            .is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
    });
    (ours && (half || extension == "jsa" || extension == "txt")).then_some((set, half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HOUR: u64 = 3600;

    fn at(hours_ago: u64, now: SystemTime) -> SystemTime {
        now - Duration::from_secs(hours_ago * HOUR)
    }

    #[test]
    fn the_newest_of_each_target_stay_and_what_may_be_in_use() {
        let now = SystemTime::now();
        let key = |n: u32| format!("{n:016x}");
        let mut files = Vec::new();
        let mut set = |target: &str, n: u32, made: u64, used: u64| {
            for part in ["nodes.jsa", "plain.jsa", "workload.jsa"] {
                files.push((format!("{target}{}-{part}", key(n)), at(made, now)));
            }
            files.push((format!("{target}{}-tried.txt", key(n)), at(used, now)));
        };
        for (n, used) in [(1, 1), (2, 100), (3, 90), (4, 80), (5, 300)] {
            set("zoo-keeper-", n, 400, used);
        }
        for n in 6..=10 {
            set("canary-", n, 30, 1);
        }
        set("", 11, 500, 500);
        let of = |gone: &[String]| {
            let mut sets: Vec<String> = gone
                .iter()
                .filter_map(|n| set_of(n).map(|(s, _)| s.to_owned()))
                .collect();
            sets.sort();
            sets.dedup();
            sets
        };
        let gone = superfluous(&files, now);
        assert_eq!(
            of(&gone),
            [
                format!("zoo-keeper-{}", key(2)),
                format!("zoo-keeper-{}", key(5))
            ]
        );
        assert_eq!(gone.len(), 8);
        assert!(gone[0].ends_with("-tried.txt") && gone[4].ends_with("-tried.txt"));
    }

    #[test]
    fn half_made_ones_go_when_old_and_strangers_stay() {
        let now = SystemTime::now();
        let k = "00000000000000aa";
        for (name, hours, want) in [
            (format!("{k}-nodes.part123"), 3, true),
            (format!("toy-{k}-nodes.list9"), 3, true),
            (format!("toy-{k}-nodes.part123"), 1, false),
            (format!("toy-{k}-nodes.partly"), 300, false),
            (format!("toy-{k}-other.part1"), 300, false),
            ("notes.txt".to_owned(), 300, false),
            ("README".to_owned(), 300, false),
        ] {
            let gone = superfluous(&[(name.clone(), at(hours, now))], now);
            assert_eq!(gone == [name.clone()], want, "{name}");
        }
    }

    #[test]
    fn seals_go_with_what_they_seal() {
        let now = SystemTime::now();
        let mut files = Vec::new();
        for n in 0..=KEEP {
            for part in ["hot.txt", "hot.txt.sha256", "tried.txt.sha256"] {
                files.push((format!("toy-{n:016x}-{part}"), at(50 + n as u64, now)));
            }
        }
        let gone = superfluous(&files, now);
        assert_eq!(gone.len(), 3);
        assert!(gone.iter().all(|n| n.contains(&format!("{KEEP:016x}-"))));
    }

    #[test]
    fn a_use_is_seen_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - Duration::from_secs(50 * HOUR);
        let marker = |n: usize| dir.path().join(format!("toy-{n:016x}-tried.txt"));
        for n in 0..=KEEP {
            std::fs::write(marker(n), "").unwrap();
            let file = std::fs::File::options().append(true).open(marker(n));
            let later = Duration::from_secs(n as u64);
            file.unwrap().set_modified(old + later).unwrap();
        }
        mark_used(&marker(0));
        archives(dir.path());
        let left: Vec<bool> = (0..=KEEP).map(|n| marker(n).exists()).collect();
        assert_eq!(
            left,
            [true, false, true, true],
            "0 was used, 1 is the oldest"
        );
        mark_used(&dir.path().join("none"));
        archives(&dir.path().join("none"));
    }
}
