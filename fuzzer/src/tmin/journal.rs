//! The journal beside the result: a header, then one line for every run, appended and flushed before the next run begins. SIGKILL loses
//! at most the run in progress; the same command reads it back and goes on. A line that was cut short is taken off.
//!
//! Kept by `warren tmin` and, in a finding's folder, by `fuzz --minimize`: there a line says which run of the campaign it was, and a last
//! line closes the journal, so that a campaign that is resumed knows what is left to do.
//!
//! Refuses a journal of another sequence, target, set-up or list of known bugs, with the difference; and one that another process has open:
//! it is locked as long as it is open.

use super::exchange::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Version of the journal. Versions 1 and 2 are read too, where the target knows no bugs: neither said by which list a failure was named, nor did the
/// first ones of version 2 name any. Version 1 knew no line that closes it.
pub const JOURNAL_VERSION: u32 = 3;
/// How a journal begins.
const HEAD: &[u8] = b"{\"warren_tmin\"";

/// What outcomes are only good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub warren_tmin: u32,
    /// Hash of the given sequence.
    pub sequence: String,
    pub target: String,
    /// Set-up flags that change the target.
    pub flags: String,
    pub seed: u64,
    pub limit_ms: u64,
    /// What the target's known bugs are told by, which failures are named after (`KnownBugs::identity`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub known_bugs: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    candidate: String,
    /// Its number in the campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<u64>,
    #[serde(flatten)]
    outcome: Outcome,
}

/// The last line of a minimisation that is not to be gone on with: why.
#[derive(Serialize, Deserialize)]
struct Closed {
    closed: String,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{doing} the journal {path}: {source}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path} is version {found}: this Warren reads versions up to {JOURNAL_VERSION}\n  remove it to begin anew"
    )]
    Version { path: PathBuf, found: u64 },
    #[error(
        "{path} is no journal of `warren tmin` ({why})\n  choose another file with -o, or remove it to begin anew"
    )]
    Foreign { path: PathBuf, why: String },
    #[error(
        "{path} belongs to another minimisation: {difference}\n  choose another file with -o, or remove the journal to begin anew"
    )]
    Differs { path: PathBuf, difference: String },
    #[error(
        "{path} is being written by another Warren; end that one first, or choose another file with -o"
    )]
    Held { path: PathBuf },
}

/// Open for appending, and locked; holds what earlier runs told.
pub struct Journal {
    path: PathBuf,
    file: File,
    known: BTreeMap<String, VecDeque<Outcome>>,
    /// Runs read.
    pub read: usize,
}

/// Whether a journal says that it is not to be gone on with. One that is not there or cannot be read as one does not.
///
/// # Errors
/// I/O.
pub fn is_closed(path: &Path) -> Result<bool, JournalError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes
            .split(|b| *b == b'\n')
            .any(|line| serde_json::from_slice::<Closed>(line).is_ok())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(JournalError::Io {
            doing: "reading",
            path: path.to_owned(),
            source,
        }),
    }
}

impl Journal {
    /// Opens or begins the journal.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path, header: &Header) -> Result<Self, JournalError> {
        Self::open_until(path, header, u64::MAX)
    }

    /// As [`Journal::open`], without runs later than `last`: the campaign was killed before it had them in its own state, and they are
    /// made again.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open_until(path: &Path, header: &Header, last: u64) -> Result<Self, JournalError> {
        let io = |doing| {
            let path = path.to_owned();
            move |source| JournalError::Io {
                doing,
                path,
                source,
            }
        };
        let foreign = |why: String| JournalError::Foreign {
            path: path.to_owned(),
            why,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(io("opening"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Held {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(e)) => return Err(io("locking")(e)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io("reading"))?;
        // A line without its end was being written when Warren died.
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        let mut lines = bytes[..whole].split_inclusive(|b| *b == b'\n');
        let mut journal = Journal {
            path: path.to_owned(),
            file,
            known: BTreeMap::new(),
            read: 0,
        };
        let Some(first) = lines.next() else {
            if !bytes.starts_with(HEAD) && !HEAD.starts_with(&bytes) {
                return Err(foreign("its first line has no end".into()));
            }
            journal.cut(0)?;
            journal.put(header)?;
            return Ok(journal);
        };
        same(path, &String::from_utf8_lossy(first), header)?;
        let mut end = first.len();
        for (i, line) in lines.enumerate() {
            if serde_json::from_slice::<Closed>(line).is_err() {
                let l: Line = serde_json::from_slice(line)
                    .map_err(|e| foreign(format!("line {}: {e}", i + 2)))?;
                if l.run.is_some_and(|run| run > last) {
                    break;
                }
                let outcomes = journal.known.entry(l.candidate).or_default();
                outcomes.push_back(l.outcome);
                journal.read += 1;
            }
            end += line.len();
        }
        journal.cut(end as u64)?;
        Ok(journal)
    }

    /// Takes the file away: for one that holds no run.
    pub fn discard(self) {
        // One that stays is read again by the same command.
        let _ = std::fs::remove_file(&self.path);
    }

    /// What an earlier run of this candidate told, once for each run.
    pub fn take(&mut self, candidate: u64) -> Option<Outcome> {
        self.known.get_mut(&name(candidate))?.pop_front()
    }

    /// One run more; `run` is its number, where runs have one.
    ///
    /// # Errors
    /// I/O.
    pub fn append(
        &mut self,
        candidate: u64,
        run: Option<u64>,
        outcome: &Outcome,
    ) -> Result<(), JournalError> {
        self.put(&Line {
            candidate: name(candidate),
            run,
            outcome: outcome.clone(),
        })
    }

    /// The last line: it is not to be gone on with.
    ///
    /// # Errors
    /// I/O.
    pub fn close(&mut self, why: &str) -> Result<(), JournalError> {
        self.put(&Closed { closed: why.into() })
    }

    fn put(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let failed = |source| JournalError::Io {
            doing: "writing",
            path: self.path.clone(),
            source,
        };
        let mut text = serde_json::to_string(value).map_err(|e| failed(e.into()))?;
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data())
            .map_err(failed)
    }

    fn cut(&mut self, at: u64) -> Result<(), JournalError> {
        self.file.set_len(at).map_err(|source| JournalError::Io {
            doing: "writing",
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Journal {
    /// Not by closing alone: a child that is just being forked has the file open too, until it becomes its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

fn name(candidate: u64) -> String {
    format!("{candidate:016x}")
}

/// The header of the file against the one wanted.
fn same(path: &Path, first: &str, want: &Header) -> Result<(), JournalError> {
    let path = path.to_owned();
    let value: serde_json::Value = serde_json::from_str(first).unwrap_or_default();
    let Some(found) = value.get("warren_tmin").and_then(serde_json::Value::as_u64) else {
        return Err(JournalError::Foreign {
            path,
            why: "its first line is not a journal's".into(),
        });
    };
    if !(1..=u64::from(JOURNAL_VERSION)).contains(&found) {
        return Err(JournalError::Version { path, found });
    }
    let have: Header = serde_json::from_value(value).map_err(|e| JournalError::Foreign {
        path: path.clone(),
        why: e.to_string(),
    })?;
    let rows = [
        ("sequence", have.sequence, want.sequence.clone()),
        ("target", have.target, want.target.clone()),
        ("set-up flags", have.flags, want.flags.clone()),
        ("seed", have.seed.to_string(), want.seed.to_string()),
        (
            "limit",
            have.limit_ms.to_string(),
            want.limit_ms.to_string(),
        ),
        (
            "list of known bugs",
            have.known_bugs,
            want.known_bugs.clone(),
        ),
    ];
    let difference: Vec<String> = rows
        .into_iter()
        .filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| format!("{what} `{a}` there, `{b}` now"))
        .collect();
    if difference.is_empty() {
        return Ok(());
    }
    Err(JournalError::Differs {
        path,
        difference: difference.join("; "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tmin::exchange::Ended;

    fn header() -> Header {
        Header {
            warren_tmin: JOURNAL_VERSION,
            sequence: "00000000000000aa".into(),
            target: "canary".into(),
            flags: String::new(),
            seed: 1,
            limit_ms: 60_000,
            known_bugs: String::new(),
        }
    }

    fn outcome(signature: &str) -> Outcome {
        Outcome {
            ended: Ended::Failed,
            signatures: vec![signature.into()],
            facts: None,
            by_load: false,
            cost: 1,
        }
    }

    #[test]
    fn what_was_written_comes_back_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut j = Journal::open(&path, &header()).unwrap();
        j.append(1, None, &outcome("a")).unwrap();
        j.append(2, None, &outcome("b")).unwrap();
        j.append(1, None, &outcome("c")).unwrap();
        drop(j);
        // SIGKILL in the middle of a line.
        let mut bytes = std::fs::read(&path).unwrap();
        let whole = bytes.len();
        bytes.extend(b"{\"candidate\":\"00000000");
        std::fs::write(&path, &bytes).unwrap();
        let mut j = Journal::open(&path, &header()).unwrap();
        assert_eq!(j.read, 3);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), whole as u64);
        assert_eq!(j.take(1), Some(outcome("a")));
        assert_eq!(j.take(1), Some(outcome("c")));
        assert_eq!(j.take(1), None);
        assert_eq!(j.take(2), Some(outcome("b")));
        j.append(3, None, &outcome("d")).unwrap();
        drop(j);
        assert_eq!(Journal::open(&path, &header()).unwrap().read, 4);
    }

    /// Two calls with one `-o`: the second one changes nothing of the first one's.
    #[test]
    fn a_journal_is_open_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut first = Journal::open(&path, &header()).unwrap();
        first.append(1, None, &outcome("a")).unwrap();
        let there = std::fs::read(&path).unwrap();
        for other in [
            header(),
            Header {
                seed: 2,
                ..header()
            },
        ] {
            let text = match Journal::open(&path, &other) {
                Err(e @ JournalError::Held { .. }) => e.to_string(),
                Err(e) => panic!("{e}"),
                Ok(_) => panic!("two have it open"),
            };
            let folder = dir.path().display().to_string();
            assert!(text.contains(&folder) && text.contains("-o"), "{text}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), there);
        first.append(2, None, &outcome("b")).unwrap();
        drop(first);
        assert_eq!(Journal::open(&path, &header()).unwrap().read, 2);
    }

    #[test]
    fn others_are_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        Journal::open(&path, &header()).unwrap();
        let refused = |h: &Header| {
            Journal::open(&path, h)
                .err()
                .map_or_else(String::new, |e| e.to_string())
        };
        assert_eq!(refused(&header()), "");
        let mut other = header();
        other.seed = 2;
        other.target = "zookeeper".into();
        let text = refused(&other);
        assert!(
            text.contains("target `canary` there, `zookeeper` now; seed `1` there, `2` now"),
            "{text}"
        );
        for (content, part) in [
            ("hello\n", "no journal"),
            ("hello", "no journal"),
            ("{\"warren_tmin\":9}\n", "version 9"),
        ] {
            std::fs::write(&path, content).unwrap();
            let text = refused(&header());
            assert!(
                text.contains(part) && text.contains("remove"),
                "{content}: {text}"
            );
        }
        // Died while the header was written: nothing is lost.
        for torn in ["{\"warren_tmin\":1,\"seq", "{\"warr", ""] {
            std::fs::write(&path, torn).unwrap();
            assert_eq!(refused(&header()), "", "{torn}");
        }
    }

    #[test]
    fn runs_that_the_campaign_does_not_know_of_go_and_a_last_line_closes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        assert!(!is_closed(&path).unwrap());
        // The last run in the campaign's state, and the runs read.
        for (last, read) in [(u64::MAX, 3), (9, 3), (8, 2), (7, 2), (6, 1), (0, 0)] {
            let _ = std::fs::remove_file(&path);
            let mut j = Journal::open_until(&path, &header(), 0).unwrap();
            for run in [5, 7, 9] {
                j.append(1, Some(run), &outcome("a")).unwrap();
            }
            drop(j);
            let mut j = Journal::open_until(&path, &header(), last).unwrap();
            assert_eq!(j.read, read, "after run {last}");
            j.append(1, Some(last), &outcome("b")).unwrap();
            assert!(!is_closed(&path).unwrap());
            j.close("through").unwrap();
            drop(j);
            assert!(is_closed(&path).unwrap());
            let j = Journal::open_until(&path, &header(), last).unwrap();
            assert_eq!(j.read, read + 1, "after run {last}");
        }
        // What cannot be read closes nothing.
        for text in [
            "",
            "hello\n",
            "{\"candidate\":\"closed\"}\n",
            "{\"closed\":\"thr",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(!is_closed(&path).unwrap(), "{text}");
        }
    }

    /// Kept as version 3 was first written. What it tells is named by its list of known bugs.
    #[test]
    fn a_failure_named_by_another_list_is_not_gone_on_with() {
        let line = "{\"candidate\":\"0000000000000001\",\"ended\":\"failed\",\"signatures\":[\"1a2b3c4d T-1\",\"0000000a\"],\"by_load\":true,\"cost\":1}\n";
        let head = |version: u32, known: &str| {
            format!(
                "{{\"warren_tmin\":{version},\"sequence\":\"00000000000000aa\",\"target\":\"canary\",\"flags\":\"\",\"seed\":1,\"limit_ms\":60000{known}}}\n"
            )
        };
        let listed = ",\"known_bugs\":\"00000000000000cc\"";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        // (version, its list, today's) -> it is gone on with.
        for (version, known, today, read) in [
            (3, listed, "00000000000000cc", true),
            (3, listed, "00000000000000cd", false),
            (3, listed, "", false),
            (3, "", "", true),
            (3, "", "00000000000000cc", false),
            (2, "", "", true),
            (2, "", "00000000000000cc", false),
            (1, "", "00000000000000cc", false),
        ] {
            std::fs::write(&path, head(version, known) + line).unwrap();
            let want = Header {
                known_bugs: today.into(),
                ..header()
            };
            match Journal::open(&path, &want) {
                Ok(mut j) => {
                    let told = j.take(1).unwrap();
                    assert_eq!(told.signatures, ["1a2b3c4d T-1", "0000000a"]);
                    assert!(told.by_load && read, "{version} {known} {today}");
                }
                Err(e) => {
                    let text = e.to_string();
                    let says = text.contains("list of known bugs `");
                    assert!(says && !read, "{version} {known} {today}: {text}");
                }
            }
        }
        // As it is written today.
        let want = Header {
            known_bugs: "00000000000000cc".into(),
            ..header()
        };
        std::fs::remove_file(&path).unwrap();
        Journal::open(&path, &want).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), head(3, listed));
    }

    /// Kept as version 2 was first written, by a campaign.
    #[test]
    fn version_2_is_read() {
        let text = concat!(
            "{\"warren_tmin\":2,\"sequence\":\"00000000000000aa\",\"target\":\"canary\",\"flags\":\"\",\"seed\":1,\"limit_ms\":60000}\n",
            "{\"candidate\":\"0000000000000001\",\"run\":17,\"ended\":\"passed\",\"cost\":1}\n",
            "{\"closed\":\"through\"}\n",
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        std::fs::write(&path, text).unwrap();
        assert!(is_closed(&path).unwrap());
        let mut j = Journal::open_until(&path, &header(), 17).unwrap();
        assert_eq!(
            (j.read, j.take(1)),
            (
                1,
                Some(Outcome {
                    ended: Ended::Passed,
                    signatures: Vec::new(),
                    facts: None,
                    by_load: false,
                    cost: 1,
                })
            )
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    /// Kept as the first version wrote it.
    #[test]
    fn version_1_is_read() {
        let text = concat!(
            "{\"warren_tmin\":1,\"sequence\":\"00000000000000aa\",\"target\":\"canary\",\"flags\":\"\",\"seed\":1,\"limit_ms\":60000}\n",
            "{\"candidate\":\"0000000000000001\",\"ended\":\"failed\",\"signatures\":[\"1a2b3c4d\"],",
            "\"facts\":{\"roles\":{\"c1\":\"leader\"},",
            "\"faults\":[{\"matched\":{\"at\":{\"Exact\":{\"node\":\"c1\",\"stack\":\"9f3c27a1d0b84e55\",",
            "\"kind\":\"rename\",\"place\":\"before\",",
            "\"n\":1,\"phase\":\"test\"}},\"fault\":{\"Crash\":{\"who\":{\"Node\":\"c1\"},\"style\":\"Process\"}}},\"role\":\"leader\",",
            "\"frames\":[\"canary.Store.take\"],\"peer\":null,\"before\":[],\"earlier\":[]}]},\"cost\":1}\n",
            "{\"candidate\":\"0000000000000001\",\"ended\":\"not-injected\",\"cost\":2}\n",
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        std::fs::write(&path, text).unwrap();
        let mut j = Journal::open(&path, &header()).unwrap();
        let first = j.take(1).unwrap();
        assert_eq!(first.facts.unwrap().faults[0].frames, ["canary.Store.take"]);
        let second = j.take(1).unwrap();
        assert_eq!((second.ended, second.cost), (Ended::NotInjected, 2));
    }
}
