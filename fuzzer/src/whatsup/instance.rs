//! The instances of a campaign folder and what their fuzzer_stats say; whether the process behind one still lives. Reads only.

use crate::campaign::folder::shell_line;
use crate::campaign::state::LOCK;
use crate::campaign::{ALONE, FindingLine};
use crate::text::{clip, one_line};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use warren_model::FailureKind;

/// Seconds without new figures after which a living instance is called silent. They are written after each run.
pub const SILENT_S: u64 = 60;

/// The keys of a fuzzer_stats file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats(BTreeMap<String, String>);

/// How an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Alive,
    /// Its process lives, but it has not written for so many seconds.
    Silent(u64),
    /// Its process is gone, and has not said why.
    Dead,
    /// It said that it ended; why is its figure `ended`.
    Ended,
    /// The process of this number lives and has not fuzzed yet.
    Learning(u64),
    /// The process of this number goes on with the campaign, and has not fuzzed yet: the figures are of the one before it.
    Resuming(u64),
    /// It has not fuzzed, and no process is at it.
    NotBegun,
}

/// One instance's folder.
#[derive(Clone, Debug)]
pub struct Instance {
    pub name: String,
    pub folder: PathBuf,
    /// None before the first fuzzed run; an error when the file is not one of ours or AFL's.
    pub stats: Option<Result<Stats, String>>,
    pub life: Life,
    /// Started with -M.
    pub main: bool,
}

impl Stats {
    /// Reads `key : value` lines.
    ///
    /// # Errors
    /// The line that is none, or the key that every such file has and this one has not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys = BTreeMap::new();
        for (i, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let (key, value) = line.split_once(':').ok_or_else(|| {
                format!(
                    "line {}: `{}` is no `key : value`",
                    i + 1,
                    clip(&one_line(line), 60)
                )
            })?;
            keys.insert(key.trim().to_owned(), value.trim().to_owned());
        }
        for needed in ["start_time", "last_update", "fuzzer_pid", "execs_done"] {
            match keys.get(needed).map(|v| v.parse::<u64>()) {
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(format!("`{needed}` is no number")),
                None => return Err(format!("it has no `{needed}`: is it a fuzzer_stats file?")),
            }
        }
        Ok(Stats(keys))
    }

    /// The text of a key; empty when it is not there.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// The number of a key; 0 when it is not there or none.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        self.text(key).parse().unwrap_or(0)
    }

    /// Percentages and other numbers with a point.
    #[must_use]
    pub fn decimal(&self, key: &str) -> f64 {
        self.text(key).trim_end_matches('%').parse().unwrap_or(0.0)
    }

    /// The findings in order: (number, `signature kind checker k/n`).
    #[must_use]
    pub fn findings(&self) -> Vec<(&str, &str)> {
        self.0
            .iter()
            .filter_map(|(k, v)| Some((k.strip_prefix("finding_")?, v.as_str())))
            .filter(|(k, _)| k.bytes().all(|b| b.is_ascii_digit()))
            .collect()
    }

    /// The known bug that the finding of this number is, if it is one.
    #[must_use]
    pub fn known(&self, number: &str) -> Option<&str> {
        Some(self.text(&format!("known_{number}"))).filter(|k| !k.is_empty())
    }

    /// A finding as people read it: `signature kind checker k/n`, and which known bug it is. A hang has no replays, and its 1/1 is of none.
    #[must_use]
    pub fn told(&self, number: &str, what: &str) -> String {
        let hang = FindingLine::read(what).is_some_and(|f| f.kind == FailureKind::Hang);
        let rated = match what.rsplit_once(' ') {
            Some((found, _)) if hang => format!("{found}, over its limit twice"),
            _ => what.to_owned(),
        };
        match self.known(number) {
            Some(known) => format!("{rated}, known: {known}"),
            None => rated,
        }
    }
}

/// The instances in a campaign's folder; the folder itself when it is one.
///
/// # Errors
/// The folder cannot be read.
pub fn instances(out: &Path, now: u64) -> std::io::Result<Vec<Instance>> {
    let one = |folder: &Path| {
        ["fuzzer_stats", "plot_data", "queue", "runs.jsonl"]
            .iter()
            .any(|m| folder.join(m).exists())
    };
    if one(out) {
        return Ok(vec![Instance::read(out, now)]);
    }
    let mut folders: Vec<PathBuf> = std::fs::read_dir(out)?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir() && one(p))
        .collect();
    folders.sort();
    Ok(folders.iter().map(|f| Instance::read(f, now)).collect())
}

impl Instance {
    fn read(folder: &Path, now: u64) -> Self {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let name = absolute
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let file = folder.join("fuzzer_stats");
        let stats = file.exists().then(|| {
            std::fs::read(&file)
                .map_err(|e| e.to_string())
                .and_then(|b| Stats::parse(&String::from_utf8_lossy(&b)))
                .map_err(|e| format!("{}: {e}", file.display()))
        });
        let life = life(Path::new("/proc"), folder, stats.as_ref(), now);
        Instance {
            name,
            folder: folder.to_owned(),
            stats,
            life,
            main: folder.join("is_main_node").exists(),
        }
    }
}

/// What the processes that work or worked in the folder say, and its figures.
fn life(proc: &Path, folder: &Path, stats: Option<&Result<Stats, String>>, now: u64) -> Life {
    let at_work = at_work(proc, folder);
    let s = match stats {
        None => return at_work.map_or(Life::NotBegun, Life::Learning),
        Some(Err(_)) => return Life::Dead,
        Some(Ok(s)) => s,
    };
    let pid = s.number("fuzzer_pid");
    // A campaign gone on with has figures of the process before, until its own first run ends. In a container both have one number.
    let before = |new: &u64| *new != pid || locked_s(folder) > s.number("last_update");
    if let Some(new) = at_work.filter(before) {
        return Life::Resuming(new);
    }
    let lives = at_work.is_some() || lives(proc, pid, s.text("command_line"), &named(folder));
    let age = now.saturating_sub(s.number("last_update"));
    match (lives, s.text("ended")) {
        (true, _) if age > SILENT_S => Life::Silent(age),
        (true, _) => Life::Alive,
        // Afl-fuzz's have no such key.
        (false, "" | "no") => Life::Dead,
        (false, _) => Life::Ended,
    }
}

/// The living process that has the folder's lock: it is there before any figures are.
fn at_work(proc: &Path, folder: &Path) -> Option<u64> {
    let read = |file| std::fs::read_to_string(folder.join(file)).ok();
    let pid = read(LOCK)?.trim().parse().ok()?;
    let command_line = read("cmdline").unwrap_or_default();
    lives(proc, pid, command_line.trim(), &named(folder)).then_some(pid)
}

/// When a process took the folder's lock last, seconds since 1970; 0 where none did.
fn locked_s(folder: &Path) -> u64 {
    let taken = std::fs::metadata(folder.join(LOCK)).and_then(|m| m.modified());
    let since = taken.ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |d| d.as_secs())
}

/// Name of the instance that a folder is of.
fn named(folder: &Path) -> String {
    let whole = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether the process of that number is the one that was started so, for that instance; numbers are given again to other processes, and each
/// container has its own.
fn lives(proc: &Path, pid: u64, command_line: &str, instance: &str) -> bool {
    let folder = proc.join(pid.to_string());
    let Ok(bytes) = std::fs::read(folder.join("cmdline")) else {
        return false;
    };
    let words: Vec<String> = bytes
        .split(|b| *b == 0)
        .map(|w| String::from_utf8_lossy(w).into_owned())
        .collect();
    // Every word ends with a zero byte: the last piece is empty. A zombie has no words.
    let words = words.split_last().map_or(&[][..], |(_, w)| w);
    if words.is_empty() {
        return false;
    }
    if shell_line(words) == command_line {
        return true;
    }
    // Resumed or renamed, but still Warren, fuzzing.
    let program = Path::new(&words[0])
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let name = words.iter().enumerate().find_map(|(at, word)| {
        let name = word.strip_prefix("-M").or(word.strip_prefix("-S"))?;
        match name {
            "" => words.get(at + 1).map(String::as_str),
            name => Some(name.trim_start_matches('=')),
        }
    });
    program.contains("warren")
        && words.get(1).is_some_and(|w| w == "fuzz")
        && name.unwrap_or(ALONE) == instance
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn stats_of_ours_afls_and_nobodys() {
        let text = "start_time        : 1\nlast_update       : 5\nfuzzer_pid        : 7\nexecs_done        : 61\n\
                    stability         : 98.62%\ncommand_line      : a b: c\nfinding_000000    : x safety r 1/3\nfinding_x : y\nknown_000000 : SIM-1\n";
        let s = Stats::parse(text).unwrap();
        assert_eq!(
            (s.number("execs_done"), s.text("command_line")),
            (61, "a b: c")
        );
        assert!((s.decimal("stability") - 98.62).abs() < 1e-9);
        assert_eq!(s.findings(), [("000000", "x safety r 1/3")]);
        assert_eq!(
            (s.known("000000"), s.known("000001")),
            (Some("SIM-1"), None)
        );
        assert_eq!((s.number("absent"), s.text("absent")), (0, ""));
        for (bad, part) in [
            ("\u{0}\u{1}garbage", "line 1"),
            ("start_time : 1\n", "`last_update`"),
            (
                "start_time : x\nlast_update : 1\nfuzzer_pid : 1\nexecs_done : 1\n",
                "no number",
            ),
            ("", "is it a fuzzer_stats"),
        ] {
            let e = Stats::parse(bad).unwrap_err();
            assert!(e.contains(part), "{e}");
            assert!(!e.contains(char::is_control), "{e:?}");
        }
    }

    #[test]
    fn how_an_instance_is() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, folder) = (dir.path().join("proc"), dir.path().join(ALONE));
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir_all(proc.join("7")).unwrap();
        std::fs::write(proc.join("7/cmdline"), b"warren\0fuzz\0x\0").unwrap();
        let stats = |pid: u64, updated: u64, ended: &str| {
            let text = format!(
                "start_time : 1\nlast_update : {updated}\nfuzzer_pid : {pid}\nexecs_done : 1\ncommand_line : warren fuzz x\nended : {ended}\n"
            );
            Some(Stats::parse(&text))
        };
        let table = [
            // The lock's pid (taken at 90 s), the figures, now.
            ("", stats(7, 100, "no"), 100 + SILENT_S, Life::Alive),
            ("", stats(7, 100, "no"), 200, Life::Silent(100)),
            // A clock set back is no age.
            ("", stats(7, 500, "no"), 100, Life::Alive),
            ("8\n", stats(8, 100, "no"), 101, Life::Dead),
            ("8\n", stats(8, 100, "runs"), 101, Life::Ended),
            ("7\n", stats(7, 100, "no"), 101, Life::Alive),
            // Gone on with: another process has it now, whatever became of the one before and however long ago.
            ("7\n", stats(8, 100, "runs"), 101, Life::Resuming(7)),
            ("7\n", stats(8, 100, "no"), 300_000, Life::Resuming(7)),
            ("7\n", None, 100, Life::Learning(7)),
            ("8\n", None, 100, Life::NotBegun),
            ("", None, 100, Life::NotBegun),
            ("", Some(Err("broken".into())), 100, Life::Dead),
        ];
        let take = |lock: &str, at_s: u64| {
            std::fs::write(folder.join(LOCK), lock).unwrap();
            let file = std::fs::File::options()
                .write(true)
                .open(folder.join(LOCK))
                .unwrap();
            let at = UNIX_EPOCH + Duration::from_secs(at_s);
            file.set_modified(at).unwrap();
        };
        for (lock, stats, now, want) in table {
            take(lock, 90);
            let got = life(&proc, &folder, stats.as_ref(), now);
            assert_eq!(got, want, "{lock:?} {stats:?}");
        }
        // By a process of the same number, as the first of each container has: only the time of the lock tells.
        take("7\n", 200_000);
        for (updated, want) in [
            (100, Life::Resuming(7)),
            (200_000, Life::Alive),
            (200_040, Life::Alive),
        ] {
            let got = life(&proc, &folder, stats(7, updated, "no").as_ref(), 200_050);
            assert_eq!(got, want, "{updated}");
        }
    }

    #[test]
    fn a_number_given_to_another_process_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let process = |pid: &str, cmdline: &[u8]| {
            let f = dir.path().join(pid);
            std::fs::create_dir_all(&f).unwrap();
            std::fs::write(f.join("cmdline"), cmdline).unwrap();
        };
        process("1", b"/x/warren\0fuzz\0canary\0-o\0a b\0");
        process("2", b"vi\0warren\0fuzz\0");
        process("3", b"");
        process("4", b"./warren\0fuzz\0-i\0-\0");
        process("5", b"warren\0report\0out\0");
        process("6", b"renamed\0fuzz\0x\0");
        process("7", b"/y/warren\0fuzz\0canary\0-S\0second\0-i\0-\0");
        process("8", b"/y/warren\0fuzz\0canary\0-Msecond\0-i\0-\0");
        let line = "/x/warren fuzz canary -o 'a b'";
        let table = [
            (1, line, "default", true),
            (2, line, "default", false),
            (3, line, "default", false),
            (4, line, "default", true),
            (5, line, "default", false),
            (6, "renamed fuzz x", "default", true),
            // Another container's of the same folder has the same number.
            (4, line, "second", false),
            (7, line, "default", false),
            (7, line, "second", true),
            (8, line, "second", true),
            (99, line, "default", false),
        ];
        for (pid, line, instance, want) in table {
            assert_eq!(
                lives(dir.path(), pid, line, instance),
                want,
                "{pid} {instance}"
            );
        }
    }
}
