//! `coverage/` of an instance: which exact probes its runs executed, and when each was first (docs/formats.md section 14).
//!
//! Written by the campaign after each run that executed a new one, read by `warren coverage`. All runs count: learning, void ones,
//! retests and replays too, as an agent of JaCoCo's would count them. Judges nothing and decides nothing.

use super::table::Table;
use crate::campaign::FuzzError;
use crate::campaign::folder::{append, io, write_whole};
use crate::campaign::packed::LEVEL;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use warren_model::ids::fnv1a;

/// Version of found.jsonl.
pub const FOUND_VERSION: u32 = 1;

/// First line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    version: u32,
    /// FNV-1a 64 of the table's text, 16 hex digits.
    table: String,
    probes: usize,
    /// When the campaign began, seconds since 1970.
    began: u64,
}

/// What one run was the first to execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// When it ended, in ms of the campaign: learning and fuzzing over all processes, pauses and the time between a stop and going on left out.
    pub ms: u64,
    /// Faults that were asked of it.
    pub faults: usize,
    pub probes: Vec<usize>,
}

/// What an instance's folder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub table_text: String,
    /// Seconds since 1970.
    pub began: u64,
    pub found: Vec<Found>,
}

fn place(instance: &Path) -> (PathBuf, PathBuf) {
    let folder = instance.join("coverage");
    (folder.join("table.zst"), folder.join("found.jsonl"))
}

/// Whether an instance counts lines and branches.
#[must_use]
pub fn is_there(instance: &Path) -> bool {
    place(instance).1.is_file()
}

fn hash(table: &str) -> String {
    format!("{:016x}", fnv1a(table.as_bytes()))
}

/// Reads an instance's folder. A last line without its end, of a campaign that was killed, counts for nothing.
///
/// # Errors
/// I/O; another version (both numbers in the text); damage, with its line.
pub fn read(instance: &Path) -> Result<Held, FuzzError> {
    let (table, log) = place(instance);
    let packed = std::fs::read(&table).map_err(io("reading", &table))?;
    let wrong = |path: &Path, why: String| FuzzError::Format {
        path: path.to_owned(),
        why,
    };
    let plain = zstd::decode_all(&packed[..]).map_err(|e| wrong(&table, e.to_string()))?;
    let table_text = String::from_utf8(plain).map_err(|e| wrong(&table, e.to_string()))?;
    let text = std::fs::read_to_string(&log).map_err(io("reading", &log))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().zip(1usize..);
    let head = lines.next().map_or("", |(line, _)| line);
    let version = serde_json::from_str::<serde_json::Value>(head)
        .ok()
        .and_then(|v| v.get("version")?.as_u64());
    if version.is_some_and(|v| v != u64::from(FOUND_VERSION)) {
        let why = format!(
            "has version {}, this program reads {FOUND_VERSION}",
            version.unwrap_or_default()
        );
        return Err(wrong(&log, why));
    }
    let head: Head = serde_json::from_str(head).map_err(|e| wrong(&log, format!("line 1: {e}")))?;
    if head.table != hash(&table_text) {
        return Err(wrong(&log, "is of another table than table.zst".into()));
    }
    let mut found: Vec<Found> = Vec::new();
    for (line, at) in lines {
        let one: Found =
            serde_json::from_str(line).map_err(|e| wrong(&log, format!("line {at}: {e}")))?;
        if one.probes.iter().any(|p| *p >= head.probes) {
            return Err(wrong(&log, format!("line {at}: a probe that is not there")));
        }
        found.push(one);
    }
    Ok(Held {
        table_text,
        began: head.began,
        found,
    })
}

/// Writes down what runs execute, as they come.
#[derive(Debug)]
pub struct Recorder {
    log: PathBuf,
    executed: Vec<bool>,
    /// Of the last find: time never runs back.
    last_ms: u64,
}

impl Recorder {
    /// Begins in an instance's folder, or goes on with what is there. `began` is when the campaign began, seconds since 1970.
    ///
    /// # Errors
    /// I/O; what is there cannot be read, or is of other classes.
    pub fn open(instance: &Path, table: &Path, began: u64) -> Result<Self, FuzzError> {
        let (kept, log) = place(instance);
        let text = std::fs::read_to_string(table).map_err(io("reading", table))?;
        let parsed = Table::parse(&text).map_err(|why| FuzzError::Format {
            path: table.to_owned(),
            why,
        })?;
        let mut recorder = Recorder {
            log: log.clone(),
            executed: vec![false; parsed.probes],
            last_ms: 0,
        };
        if is_there(instance) {
            let held = read(instance)?;
            if held.table_text != text {
                return Err(FuzzError::Format {
                    path: kept,
                    why: "is of other classes than those that run now".into(),
                });
            }
            for one in &held.found {
                recorder.last_ms = recorder.last_ms.max(one.ms);
                for p in &one.probes {
                    recorder.executed[*p] = true;
                }
            }
            // Without the line that a kill cut off.
            let text = std::fs::read_to_string(&log).map_err(io("reading", &log))?;
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            if whole < text.len() {
                write_whole(&log, &text.as_bytes()[..whole])?;
            }
            return Ok(recorder);
        }
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder).map_err(io("making the folder", folder))?;
        }
        let packed = zstd::encode_all(text.as_bytes(), LEVEL).map_err(io("packing", table))?;
        write_whole(&kept, &packed)?;
        let head = Head {
            version: FOUND_VERSION,
            table: hash(&text),
            probes: parsed.probes,
            began,
        };
        write_whole(&log, line(&head, &log)?.as_bytes())?;
        Ok(recorder)
    }

    /// Takes in the map of a run that ended at so many ms of the campaign; writes a line if it executed something new.
    ///
    /// # Errors
    /// I/O: then the run's probes are new to the next one.
    pub fn take(&mut self, map: &[u8], faults: usize, ms: u64) -> Result<(), FuzzError> {
        let new: Vec<usize> = map
            .iter()
            .zip(&self.executed)
            .enumerate()
            .filter(|(_, (hit, known))| **hit != 0 && !**known)
            .map(|(p, _)| p)
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        // After a kill the campaign's clock may stand a little before what was found last.
        self.last_ms = self.last_ms.max(ms);
        let found = Found {
            ms: self.last_ms,
            faults,
            probes: new,
        };
        append(&self.log, &line(&found, &self.log)?)?;
        for p in found.probes {
            self.executed[p] = true;
        }
        Ok(())
    }
}

fn line(value: &impl Serialize, path: &Path) -> Result<String, FuzzError> {
    let json = serde_json::to_string(value).map_err(|e| FuzzError::Format {
        path: path.to_owned(),
        why: e.to_string(),
    })?;
    Ok(json + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::table::SAMPLE;
    use super::*;

    #[test]
    fn what_runs_execute_is_kept_over_starts() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("table");
        std::fs::write(&table, SAMPLE).unwrap();
        let root = dir.path().join("default");
        assert!(!is_there(&root));
        let mut r = Recorder::open(&root, &table, 77).unwrap();
        r.take(&[1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1], 0, 3_000)
            .unwrap(); // the map is larger than the probes
        r.take(&[1, 0, 1], 1, 4_000).unwrap();
        r.take(&[0, 1, 0], 2, 5_000).unwrap();
        let log = root.join("coverage/found.jsonl");
        append(&log, "{\"ms\":1,\"faults\":3,\"pro").unwrap();
        let mut r = Recorder::open(&root, &table, 99).unwrap();
        // The campaign went on for a minute after its last find. Then a journal that a kill cut off says less than was found.
        r.take(&[1, 1, 1, 1], 4, 65_000).unwrap();
        let mut r = Recorder::open(&root, &table, 199).unwrap();
        r.take(&[0, 0, 0, 0, 1], 5, 64_000).unwrap();
        let held = read(&root).unwrap();
        assert_eq!((held.began, held.table_text.as_str()), (77, SAMPLE));
        let found: Vec<(u64, usize, Vec<usize>)> = held
            .found
            .into_iter()
            .map(|f| (f.ms, f.faults, f.probes))
            .collect();
        assert_eq!(
            found,
            [
                (3_000, 0, vec![0, 2]),
                (5_000, 2, vec![1]),
                (65_000, 4, vec![3]),
                (65_000, 5, vec![4]),
            ]
        );
        std::fs::write(&table, SAMPLE.replace("13 1", "14 1")).unwrap();
        let other = Recorder::open(&root, &table, 99).unwrap_err().to_string();
        assert!(other.contains("of other classes"), "{other}");
    }

    #[test]
    fn damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("table");
        std::fs::write(&table, SAMPLE).unwrap();
        Recorder::open(dir.path(), &table, 77).unwrap();
        let log = dir.path().join("coverage/found.jsonl");
        let good = std::fs::read_to_string(&log).unwrap();
        for (text, want) in [
            (
                good.replace("\"version\":1", "\"version\":2"),
                "has version 2, this program reads 1",
            ),
            (
                good.replace("\"table\":\"", "\"table\":\"0"),
                "of another table",
            ),
            (good.clone() + "{}\n", "line 2"),
            (
                good.clone() + "{\"ms\":1,\"faults\":0,\"probes\":[9]}\n",
                "line 2: a probe",
            ),
            (String::new(), "line 1"),
        ] {
            std::fs::write(&log, text).unwrap();
            let why = read(dir.path()).unwrap_err().to_string();
            assert!(why.contains(want), "{why}");
        }
    }
}
