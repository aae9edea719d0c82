//! `sync.jsonl`: what an instance (`-M`, `-S`) tells the other instances of its output folder, line by line. Written by its owner
//! after the record of the journal, read by the others, perhaps out of a copy that rsync is just making.
//!
//! A line is the FNV-1a 64 of its JSON as 16 hex digits, a blank, the JSON. The file only grows; only a line that says that the
//! instance ended is taken away again, when it goes on. So a reader keeps how far it has read. It takes whole lines only, never
//! half a one, and refuses another version; what it makes of the lines is `fuzz/instances/sync`'s business.

use super::folder::{append, io};
use super::state::Identity;
use crate::campaign::FuzzError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use warren_model::{FaultId, ids::fnv1a};

/// Version of the lines.
pub const SYNC_VERSION: u32 = 1;
/// Read at once: a look never takes much memory. The longest line (all slots of a map of a million) fits.
const AT_ONCE: u64 = 16 << 20;
/// Values of a kind in a line. Where a file begins late, all that was tested so far is told: in one line it could be longer than what is
/// read at once, and nobody would ever hear it.
const IN_A_LINE: usize = 1 << 17;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A process of the instance began to fuzz.
    Begin(Begin),
    /// What came since the line before.
    Told(Told),
    /// The instance ended: its share of the work is the others'.
    End,
}

/// Who speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    pub version: u32,
    pub identity: Identity,
    /// ms since 1970: no two campaigns begin with the same line.
    pub at: u64,
    /// Slots can be taken over only from a map of the same size.
    pub map_size: u64,
    /// Identities of its fault-free runs, whose children all instances have in common.
    pub roots: Vec<u64>,
}

/// What an instance learned. What it took in from others is not told again: they tell it themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// Hashes of sequences tested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tested: Vec<u64>,
    /// Fault ids tested as last faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fault_ids: Vec<FaultId>,
    /// Coverage slots that became known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<u32>,
    /// States that became known. Lines of version 1 without them say that none did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<u32>,
    /// Identities of what happened in runs that were kept: others need not keep the like.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matched: Vec<u64>,
    /// Kept runs that others may take over when they have nothing left to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptThere>,
    /// Signatures of findings that stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// A kept run of an instance: its number there, and how many slots it set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptThere {
    pub id: u64,
    pub slots: u64,
}

impl Told {
    /// Nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Told::default()
    }

    /// Its lines: one, where there is not very much to tell; none for nothing.
    #[must_use]
    pub fn to_text(mut self) -> String {
        fn some<T>(of: &mut Vec<T>) -> Vec<T> {
            of.drain(..of.len().min(IN_A_LINE)).collect()
        }
        let mut text = String::new();
        while !self.is_empty() {
            let part = Told {
                tested: some(&mut self.tested),
                fault_ids: some(&mut self.fault_ids),
                slots: some(&mut self.slots),
                states: some(&mut self.states),
                matched: some(&mut self.matched),
                kept: some(&mut self.kept),
                findings: some(&mut self.findings),
            };
            text.push_str(&Line::Told(part).to_text());
        }
        text
    }
}

impl Line {
    /// The line with its sum and its end.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Numbers, strings and lists only: cannot fail.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{:016x} {json}\n", fnv1a(json.as_bytes()))
    }

    fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(checked(line)?).ok()
    }
}

/// The JSON of a whole line whose sum is right.
fn checked(line: &str) -> Option<&str> {
    let (sum, json) = line.split_once(' ')?;
    (u64::from_str_radix(sum, 16) == Ok(fnv1a(json.as_bytes()))).then_some(json)
}

/// The file of an instance.
#[must_use]
pub fn path(root: &Path) -> PathBuf {
    root.join("sync.jsonl")
}

/// How far an instance was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Hash of the file's first line: another one is another campaign.
    pub first: u64,
    /// Bytes taken in.
    pub at: u64,
}

/// What a look at an instance's file gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The file was begun anew: what was known of the instance is of an earlier one.
    pub anew: bool,
    pub lines: Vec<Line>,
    pub to: Place,
    /// The last line says that it ended. That line is not passed: it goes when the instance goes on.
    pub ended: bool,
    /// There may be more to be read at once.
    pub more: bool,
}

/// Why a file cannot be read just now.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("reading {path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} has version {version}, this program reads {SYNC_VERSION}")]
    Version { path: PathBuf, version: u64 },
    #[error("{path} is shorter than it was: it had {was} bytes, now {now}")]
    Shorter { path: PathBuf, was: u64, now: u64 },
    #[error("{path}: the line at byte {at} is damaged")]
    Damaged { path: PathBuf, at: u64 },
}

/// Reads what is new since a place. A half-written line is left for the next time; `None`: not even the first line is there.
///
/// # Errors
/// [`SyncError`]: to be tried again later.
pub fn read(root: &Path, from: Place) -> Result<Option<Heard>, SyncError> {
    let path = path(root);
    let failed = |source| SyncError::Io {
        path: path.clone(),
        source,
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let length = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::new(file);
    let mut first = Vec::new();
    reader
        .by_ref()
        .take(AT_ONCE)
        .read_until(b'\n', &mut first)
        .map_err(failed)?;
    if !first.ends_with(b"\n") {
        return Ok(None);
    }
    check_version(&path, &first)?;
    let first = fnv1a(&first);
    let anew = first != from.first;
    let mut at = if anew { 0 } else { from.at };
    if length < at {
        return Err(SyncError::Shorter {
            path,
            was: at,
            now: length,
        });
    }
    reader.seek(SeekFrom::Start(at)).map_err(failed)?;
    let mut bytes = Vec::new();
    reader
        .take(AT_ONCE)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let mut heard = Heard {
        anew,
        more: bytes.len() as u64 == AT_ONCE,
        ..Heard::default()
    };
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let Some(text) = line.strip_suffix(b"\n") else {
            break;
        };
        match std::str::from_utf8(text).ok().and_then(Line::parse) {
            Some(Line::End) => {
                heard.ended = true;
                heard.more = false;
                break;
            }
            Some(line) => heard.lines.push(line),
            // What came before it counts; the next look meets it again.
            None if heard.lines.is_empty() => return Err(SyncError::Damaged { path, at }),
            None => {
                heard.more = false;
                break;
            }
        }
        at += line.len() as u64;
    }
    heard.more &= !heard.lines.is_empty();
    heard.to = Place { first, at };
    Ok(Some(heard))
}

/// Another version may mean anything by its lines; only this is asked of all.
fn check_version(path: &Path, first: &[u8]) -> Result<(), SyncError> {
    let damaged = || SyncError::Damaged {
        path: path.to_owned(),
        at: 0,
    };
    let text = std::str::from_utf8(first).map_err(|_| damaged())?;
    let json = checked(text.trim_end_matches('\n')).ok_or_else(damaged)?;
    let value: serde_json::Value = serde_json::from_str(json).map_err(|_| damaged())?;
    match value["begin"]["version"].as_u64() {
        Some(version) if version == u64::from(SYNC_VERSION) => Ok(()),
        Some(version) => Err(SyncError::Version {
            path: path.to_owned(),
            version,
        }),
        None => Err(damaged()),
    }
}

/// Brings the file of a campaign that is resumed in line with its journal: it holds `at` bytes and then `told`, of which all,
/// a part or nothing is written; a line that says that the instance ended is cut off. Answers whether `told` is there; `None`:
/// the file is not what the journal says (a power cut, a hand), it was removed and is to be begun anew.
///
/// # Errors
/// I/O, with the path.
pub fn mend(root: &Path, at: u64, told: &str) -> Result<Option<bool>, FuzzError> {
    let path = path(root);
    let mut tail = Vec::new();
    let there = File::open(&path).and_then(|mut f| {
        let length = f.metadata()?.len();
        f.seek(SeekFrom::Start(at))?;
        f.read_to_end(&mut tail)?;
        Ok(length >= at)
    });
    let end = Line::End.to_text();
    let keep = match there {
        Ok(true) => match tail.strip_prefix(told.as_bytes()) {
            Some(rest) if end.as_bytes().starts_with(rest) => Some(at + told.len() as u64),
            None if told.as_bytes().starts_with(&tail) => Some(at),
            _ => None,
        },
        Ok(false) => None,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && at == 0 => return Ok(Some(false)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(io("reading", &path)(e)),
    };
    match keep {
        Some(length) => {
            File::options()
                .write(true)
                .open(&path)
                .and_then(|f| f.set_len(length))
                .map_err(io("cutting", &path))?;
            Ok(Some(length > at))
        }
        None => remove(root).map(|()| None),
    }
}

/// The instance tells nothing any more, or begins anew.
///
/// # Errors
/// I/O, with the path.
pub fn remove(root: &Path) -> Result<(), FuzzError> {
    let path = path(root);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io("removing", &path)(e)),
        _ => Ok(()),
    }
}

/// The instance ended by itself.
///
/// # Errors
/// I/O, with the path.
pub fn end(root: &Path) -> Result<(), FuzzError> {
    append(&path(root), &Line::End.to_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(at: u64) -> Line {
        Line::Begin(Begin {
            version: SYNC_VERSION,
            identity: Identity::new([("target", "canary".into())]),
            at,
            map_size: 64,
            roots: vec![7],
        })
    }

    fn told(n: u64) -> Line {
        Line::Told(Told {
            tested: vec![n],
            fault_ids: vec![FaultId(n)],
            slots: vec![3],
            states: vec![7],
            matched: vec![n],
            kept: vec![KeptThere { id: n, slots: 9 }],
            findings: vec!["1f".into()],
        })
    }

    fn write(root: &Path, lines: &[Line]) -> Vec<u8> {
        let text: String = lines.iter().map(Line::to_text).collect();
        fs::write(path(root), &text).unwrap();
        text.into_bytes()
    }

    #[test]
    fn however_much_there_is_to_tell_is_heard() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let all: Vec<u64> = (0..1_000_000).map(|n| u64::MAX - n).collect();
        let told = Told {
            tested: all.clone(),
            findings: vec!["1f".into()],
            ..Told::default()
        };
        assert!(Told::default().to_text().is_empty());
        let text = begin(1).to_text() + &told.to_text();
        assert!(text.len() as u64 > AT_ONCE);
        fs::write(path(root), text).unwrap();
        let (mut place, mut tested, mut findings) = (Place::default(), Vec::new(), 0);
        loop {
            let heard = read(root, place).unwrap().unwrap();
            for line in heard.lines {
                if let Line::Told(told) = line {
                    tested.extend(told.tested);
                    findings += told.findings.len();
                }
            }
            place = heard.to;
            if !heard.more {
                break;
            }
        }
        assert!(tested == all && findings == 1);
    }

    #[test]
    fn each_line_is_heard_once_and_an_end_is_not_passed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(read(root, Place::default()).unwrap(), None);
        write(root, &[begin(1), told(1)]);
        let heard = read(root, Place::default()).unwrap().unwrap();
        assert_eq!(heard.lines, [begin(1), told(1)]);
        assert!(heard.anew && !heard.ended && !heard.more);
        let again = read(root, heard.to).unwrap().unwrap();
        assert_eq!(
            (again.lines.len(), again.to, again.anew),
            (0, heard.to, false)
        );
        write(root, &[begin(1), told(1), told(2), Line::End]);
        let ended = read(root, heard.to).unwrap().unwrap();
        assert_eq!((ended.lines, ended.ended), (vec![told(2)], true));
        // It goes on: the end was cut off.
        write(root, &[begin(1), told(1), told(2), begin(5), told(3)]);
        let on = read(root, ended.to).unwrap().unwrap();
        assert_eq!((on.lines, on.ended), (vec![begin(5), told(3)], false));
        // Another campaign under the same name.
        write(root, &[begin(8)]);
        let other = read(root, on.to).unwrap().unwrap();
        assert!(other.anew);
        assert_eq!(other.lines, [begin(8)]);
    }

    #[test]
    fn wherever_a_copy_stops_nothing_is_taken_half_and_nothing_twice() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let all = [begin(1), told(1), told(2)];
        let whole = write(root, &all);
        for cut in 0..=whole.len() {
            fs::write(path(root), &whole[..cut]).unwrap();
            let mut lines = Vec::new();
            let mut place = Place::default();
            if let Some(heard) = read(root, place).unwrap() {
                lines.extend(heard.lines);
                place = heard.to;
            }
            fs::write(path(root), &whole).unwrap();
            lines.extend(read(root, place).unwrap().unwrap().lines);
            assert_eq!(lines, all, "cut at {cut}");
        }
    }

    #[test]
    fn damage_shrinking_and_other_versions_are_named_and_pass_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let whole = write(root, &[begin(1), told(1), told(2)]);
        let place = read(root, Place::default()).unwrap().unwrap().to;
        fs::write(path(root), &whole[..whole.len() - 5]).unwrap();
        let e = read(root, place).unwrap_err().to_string();
        assert!(e.contains("shorter") && e.contains("sync.jsonl"), "{e}");
        // A byte of the last line: what is before it counts, then it is met.
        let mut bytes = whole.clone();
        let last = bytes.len() - 3;
        bytes[last] ^= 1;
        fs::write(path(root), &bytes).unwrap();
        let before = read(root, Place::default()).unwrap().unwrap();
        assert_eq!(before.lines.len(), 2);
        let e = read(root, before.to).unwrap_err().to_string();
        assert!(e.contains("damaged"), "{e}");
        fs::write(path(root), &whole).unwrap();
        assert_eq!(read(root, before.to).unwrap().unwrap().lines, [told(2)]);
        let mut bytes = whole;
        bytes[30] ^= 1;
        fs::write(path(root), &bytes).unwrap();
        assert!(read(root, Place::default()).is_err());
        let Line::Begin(b) = begin(1) else {
            unreachable!()
        };
        write(root, &[Line::Begin(Begin { version: 9, ..b })]);
        let e = read(root, Place::default()).unwrap_err().to_string();
        assert!(e.contains("version 9, this program reads 1"), "{e}");
    }

    #[test]
    fn a_killed_writer_goes_on_where_its_journal_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let before = begin(1).to_text();
        let (at, line, end) = (before.len() as u64, told(1).to_text(), Line::End.to_text());
        // What is behind `at`, whether the line is there then (none: begun anew), what the file holds.
        for (tail, want) in [
            (String::new(), Some(false)),
            (line[..9].to_owned(), Some(false)),
            (line.clone(), Some(true)),
            (format!("{line}{end}"), Some(true)),
            (format!("{line}{}", &end[..5]), Some(true)),
            // The journal lost its end in a power cut.
            (format!("{line}{}", told(2).to_text()), None),
            (told(2).to_text(), None),
        ] {
            fs::write(path(root), format!("{before}{tail}")).unwrap();
            assert_eq!(mend(root, at, &line).unwrap(), want, "{tail}");
            let left = fs::read_to_string(path(root)).unwrap_or_default();
            let wanted = match want {
                None => String::new(),
                Some(true) => format!("{before}{line}"),
                Some(false) => before.clone(),
            };
            assert_eq!(left, wanted);
        }
        fs::write(path(root), format!("{before}{end}")).unwrap();
        assert_eq!(mend(root, at, "").unwrap(), Some(false));
        assert_eq!(fs::read_to_string(path(root)).unwrap(), before);
        fs::write(path(root), &before[..4]).unwrap();
        assert_eq!(mend(root, at, &line).unwrap(), None);
        assert_eq!(mend(root, 0, &line).unwrap(), Some(false));
    }
}
