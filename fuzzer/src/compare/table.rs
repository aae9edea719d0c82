//! The stored table of a comparison, `table.jsonl`: a head that says what is compared, then one line for every campaign that reached its end
//! (docs/compare.md, docs/formats.md section 12). Reading is pure; writing appends whole lines. Refuses another version, another
//! comparison's head, and a campaign that stands there twice.

use crate::campaign::folder::{append, io};
use crate::campaign::state::Identity;
use crate::campaign::{FailedCheck, FuzzError};
use crate::fuzz::differences_told;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::Path;

/// How a campaign ended that was to end when it had shown a bug.
pub const FOUND: &str = "found";
/// How one ended at its budget of CPU time.
pub const CPU: &str = "cpu";
/// How one ended that had nothing left to try.
pub const EXHAUSTED: &str = "exhausted";
/// Between the builds that worked on one campaign.
pub const BUILDS: &str = "+";
/// Of head and rows.
pub const TABLE_VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub version: u32,
    /// What makes this comparison this one: target, versions, budget, seed, options; what is tested, unless an earlier Warren began it.
    pub comparison: Identity,
}

/// A campaign that reached its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Label of its arm.
    pub arm: String,
    pub strategy: String,
    pub without: Vec<String>,
    /// From 1.
    pub repeat: u64,
    pub seed: u64,
    /// Sum of the program that worked on it; of all of them, where others went on with it ([`BUILDS`] between them).
    pub build: String,
    /// Unix seconds of its end.
    pub finished: u64,
    /// `runs` or [`CPU`] (its budget), [`EXHAUSTED`], or [`FOUND`].
    pub ended: String,
    /// Processes that worked on it: one, and one more each time it was cut off.
    pub starts: u64,
    /// Sequences tested; all runs, those of learning and replays included.
    pub tests: u64,
    pub runs: u64,
    /// Fuzzing: without set-up and learning.
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub learning_runs: u64,
    pub learning_seconds: f64,
    pub learning_cpu_seconds: f64,
    pub void_runs: u64,
    pub unknown_runs: u64,
    /// Where something changed, and the end.
    pub curve: Vec<Point>,
    /// Tests that failed, in order, with the failures that count.
    pub failing: Vec<Failing>,
}

/// A place of the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub tests: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Coverage slots set so far by any test, failing ones too.
    pub slots: u64,
    /// Signatures that showed and count so far.
    pub findings: u64,
    /// Slots of the map of state novelty, where the campaign has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<u64>,
}

/// A test that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failing {
    /// Counted from 1, and the times at its end.
    pub tests: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Kinds of the sequence's faults, `crash+reboot`.
    pub faults: String,
    pub failures: Vec<FailedCheck>,
}

/// What a table's text says.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub head: Head,
    pub rows: Vec<Row>,
    /// Bytes of the whole lines; what follows is a line that a kill cut off.
    pub whole: u64,
}

impl Row {
    /// How many signatures showed and count.
    #[must_use]
    pub fn signatures(&self) -> u64 {
        self.curve.last().map_or(0, |p| p.findings)
    }
}

impl Head {
    /// The head of a new table.
    #[must_use]
    pub fn new(comparison: Identity) -> Self {
        Head {
            version: TABLE_VERSION,
            comparison,
        }
    }
}

impl Table {
    /// Reads a table; none when not even its head is whole.
    ///
    /// # Errors
    /// The line that cannot be read, or another version with both numbers.
    pub fn parse(bytes: &[u8]) -> Result<Option<Table>, String> {
        // Of the file's own bytes: what stands for others in a text has another length.
        let newline = bytes.iter().rposition(|b| *b == b'\n');
        let whole = newline.map_or(0, |at| at + 1);
        let text = std::str::from_utf8(&bytes[..whole]).map_err(|e| {
            let before = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n');
            let (line, byte) = (before.count() + 1, e.valid_up_to() + 1);
            format!("line {line}: what begins at byte {byte} of the file is not UTF-8")
        })?;
        let mut lines = text.lines().enumerate();
        let Some((_, first)) = lines.next() else {
            return Ok(None);
        };
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(first)
            .map_err(|e| format!("line 1 is no head of a comparison: {e}"))?;
        if version != TABLE_VERSION {
            return Err(format!(
                "it has version {version}, this Warren reads {TABLE_VERSION}"
            ));
        }
        let head = serde_json::from_str(first).map_err(|e| format!("line 1: {e}"))?;
        let mut there = BTreeSet::new();
        let mut rows = Vec::new();
        for (i, line) in lines {
            let row: Row =
                serde_json::from_str(line).map_err(|e| format!("line {}: {e}", i + 1))?;
            if !there.insert((row.arm.clone(), row.repeat)) {
                return Err(format!(
                    "line {}: {} repeat {} stands in it twice",
                    i + 1,
                    row.arm,
                    row.repeat
                ));
            }
            rows.push(row);
        }
        Ok(Some(Table {
            head,
            rows,
            whole: whole as u64,
        }))
    }

    /// Reads the table of a file; none when there is none.
    ///
    /// # Errors
    /// I/O or format, with the path.
    pub fn read(path: &Path) -> Result<Option<Table>, FuzzError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io("reading", path)(e)),
        };
        Self::parse(&bytes).map_err(|why| FuzzError::Format {
            path: path.to_owned(),
            why,
        })
    }

    /// The table of a file, ready to be added to: a line that was cut off is taken away, a new file gets its head.
    ///
    /// # Errors
    /// As [`Table::read`]; another comparison, with each difference.
    pub fn open(path: &Path, head: Head) -> Result<Table, FuzzError> {
        let Some(table) = Self::read(path)? else {
            let line = line(&head);
            crate::campaign::folder::write_whole(path, line.as_bytes())?;
            return Ok(Table {
                head,
                rows: Vec::new(),
                whole: line.len() as u64,
            });
        };
        table.fits(path, &head)?;
        OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|f| f.set_len(table.whole))
            .map_err(io("cutting", path))?;
        Ok(table)
    }

    /// Whether it is the comparison that is asked for.
    ///
    /// # Errors
    /// It is another one, with each difference.
    pub fn fits(&self, path: &Path, asked: &Head) -> Result<(), FuzzError> {
        let differences = differences_told(&self.head.comparison, &asked.comparison);
        if differences.is_empty() {
            return Ok(());
        }
        Err(FuzzError::Usage(format!(
            "{} holds another comparison, which is left as it is:\n  {}\n  ask for the same to go on with it, or choose another folder with -o",
            path.display(),
            differences.in_lines()
        )))
    }

    /// Adds a row, in the file first.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn add(&mut self, path: &Path, row: Row) -> Result<(), FuzzError> {
        append(path, &line(&row))?;
        std::fs::File::open(path)
            .and_then(|f| f.sync_data())
            .map_err(io("syncing", path))?;
        self.rows.push(row);
        Ok(())
    }

    /// Whether a campaign stands in it.
    #[must_use]
    pub fn has(&self, arm: &str, repeat: u64) -> bool {
        self.rows.iter().any(|r| r.arm == arm && r.repeat == repeat)
    }
}

/// Plain numbers and strings cannot fail to be written.
fn line<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).map_or_else(|_| String::new(), |s| s + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(target: &str) -> Head {
        Head::new(Identity::new([
            ("target", target.to_owned()),
            ("budget", "20 runs".to_owned()),
        ]))
    }

    fn row(arm: &str, repeat: u64) -> Row {
        Row {
            arm: arm.into(),
            repeat,
            curve: vec![Point {
                tests: 1,
                slots: 7,
                ..Point::default()
            }],
            ..Row::default()
        }
    }

    #[test]
    fn rows_come_back_and_a_cut_line_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.jsonl");
        assert_eq!(Table::read(&path).unwrap(), None);
        let mut table = Table::open(&path, head("canary")).unwrap();
        table.add(&path, row("a", 1)).unwrap();
        table.add(&path, row("b", 1)).unwrap();
        append(&path, "{\"arm\":\"a\",\"rep").unwrap();
        let mut again = Table::open(&path, head("canary")).unwrap();
        assert_eq!(again.rows, table.rows);
        assert!(again.has("b", 1) && !again.has("b", 2));
        again.add(&path, row("a", 2)).unwrap();
        assert_eq!(Table::read(&path).unwrap().unwrap().rows.len(), 3);
    }

    /// A block that a crash of the machine left in the file.
    #[test]
    fn other_bytes_are_told_in_a_whole_line_and_cut_off_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.jsonl");
        let good = [line(&head("canary")), line(&row("a", 1))].concat();
        std::fs::write(&path, [good.as_bytes(), b"\"b\xff\xff"].concat()).unwrap();
        let table = Table::open(&path, head("canary")).unwrap();
        assert_eq!((table.rows.len(), table.whole), (1, good.len() as u64));
        assert_eq!(std::fs::read(&path).unwrap(), good.as_bytes());
        let damaged = [good.as_bytes(), b"\"b\xff\"\n"].concat();
        std::fs::write(&path, &damaged).unwrap();
        let e = Table::open(&path, head("canary")).unwrap_err().to_string();
        let place = format!("line 3: what begins at byte {}", good.len() + 3);
        assert!(e.contains(&place), "{e}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged);
    }

    #[test]
    fn another_comparison_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.jsonl");
        Table::open(&path, head("canary")).unwrap();
        let before = std::fs::read(&path).unwrap();
        let e = Table::open(&path, head("zookeeper"))
            .unwrap_err()
            .to_string();
        assert!(e.contains("target: was canary, asked zookeeper"), "{e}");
        assert!(!e.contains("budget"), "{e}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn another_content_is_refused_and_one_that_is_not_told_is_not() {
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
        let with = |tested: &[(&str, &str)]| {
            let mut head = head("canary");
            for (name, value) in tested {
                head.comparison.put(name, value);
            }
            head
        };
        let (content, jdk) = ("target content", "JDK");
        let asked = with(&[(content, "bb"), (jdk, "21")]);
        let cases: [Case; 5] = [
            (&[], &[]),
            (&[(content, "bb"), (jdk, "21")], &[]),
            (
                &[(content, "aa"), (jdk, "21")],
                &["target content: was aa, asked bb"],
            ),
            (&[(content, "bb"), (jdk, "17")], &["JDK: was 17, asked 21"]),
            // None was there when it began.
            (&[(content, "aa")], &["target content: was aa, asked bb"]),
        ];
        for (was, refused) in cases {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("table.jsonl");
            let begun = Table::open(&path, with(was)).unwrap();
            match Table::open(&path, asked.clone()) {
                Ok(again) => assert!(refused.is_empty() && again.head == begun.head, "{was:?}"),
                Err(e) => {
                    let text = e.to_string();
                    assert!(text.contains("left as it is"), "{text}");
                    assert_eq!(text.matches("was ").count(), refused.len(), "{text}");
                    assert!(refused.iter().all(|part| text.contains(part)), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let good = line(&head("canary"));
        let one = line(&row("a", 1));
        for (text, part) in [
            ("garbage\n".to_owned(), "line 1"),
            (good.replace("\"version\":1", "\"version\":9"), "version 9"),
            (format!("{good}{one}x\n"), "line 3"),
            (format!("{good}{one}{one}"), "a repeat 1 stands in it twice"),
            (
                format!("{good}{}", one.replace("\"seed\"", "\"sead\"")),
                "sead",
            ),
        ] {
            let e = Table::parse(text.as_bytes()).unwrap_err();
            assert!(e.contains(part), "{e}");
        }
        assert_eq!(Table::parse(b"").unwrap(), None);
        assert_eq!(Table::parse(b"{\"version\":1").unwrap(), None);
    }
}
