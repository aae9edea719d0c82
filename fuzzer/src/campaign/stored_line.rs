//! What Warren reads back of runs.jsonl: the sum of CPU time and the list of finds of a campaign that is resumed, the rows of `compare`, the figures of
//! `bench`. Written by [`super::run_line`]; other programs read more of a line (docs/formats.md, section 15).

use super::run_line::{RUN_LINE_VERSION, RunRole};
use serde::Deserialize;
use std::io::{self, BufRead};
use warren_model::Void;

/// One line. Most of what an older Warren did not write is as if there were nothing to tell.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredLine {
    /// Its number, from 1: how many runs the campaign had made when it ended.
    #[serde(default)]
    pub run: u64,
    pub role: RunRole,
    #[serde(default)]
    pub version: u32,
    /// ms of fuzzing time when it ended.
    #[serde(default)]
    pub at_ms: u64,
    #[serde(default)]
    pub kinds: String,
    #[serde(default)]
    pub start: String,
    pub from_prefix: Option<usize>,
    /// Why not all of its faults happened.
    pub reason: Option<String>,
    pub void: Option<Void>,
    #[serde(default)]
    pub failures: Vec<String>,
    #[serde(default)]
    pub times_ms: Times,
    #[serde(default)]
    pub cpu_ms: u64,
    #[serde(default)]
    pub spent_ms: u64,
    #[serde(default)]
    pub kill_signal_us: Vec<u64>,
    #[serde(default)]
    pub kill_reap_us: Vec<u64>,
    #[serde(default)]
    pub late_events: u32,
    #[serde(default)]
    pub new_coverage: bool,
    #[serde(default)]
    pub new_states: usize,
    /// Corpus id, when it was kept.
    pub kept: Option<u64>,
    /// Slots of the coverage map set by any test so far.
    pub slots: u64,
    /// The same of the map of states; none where it was not told.
    pub states: Option<u64>,
    /// Sequences tested so far.
    pub sequences: u64,
}

/// Wall times of a run, ms.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Times {
    #[serde(default)]
    pub total: u64,
}

impl StoredLine {
    /// All lines of a runs.jsonl in their order; of one that is none the number and why.
    pub fn all(jsonl: &str) -> impl Iterator<Item = Result<Self, String>> + '_ {
        let numbered = jsonl.lines().enumerate();
        numbered.map(|(i, text)| read(text).map_err(|why| format!("line {}: {why}", i + 1)))
    }

    /// Those of a file that can be read, in their order; one at a time is in memory. Bytes that are no text cost their own line.
    pub fn readable(jsonl: impl BufRead) -> impl Iterator<Item = io::Result<Self>> {
        jsonl.split(b'\n').filter_map(|line| match line {
            Ok(bytes) => read(&String::from_utf8_lossy(&bytes)).ok().map(Ok),
            Err(e) => Some(Err(e)),
        })
    }

    /// It counts nowhere: its run was given up or cut off.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.void == Some(Void::CutOff)
    }
}

fn read(text: &str) -> Result<StoredLine, String> {
    let line: StoredLine = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if line.version > RUN_LINE_VERSION {
        return Err(format!(
            "has version {}, this program reads up to {RUN_LINE_VERSION}: use the Warren that wrote it",
            line.version
        ));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a campaign before lines had a version, and of one with version 1.
    #[test]
    fn stored_lines_are_read() {
        use RunRole::{Confirm, Fuzz, Learning, Minimise};
        for (version, text) in [
            (0, include_str!("../../tests/samples/runs-v0.jsonl")),
            (1, include_str!("../../tests/samples/runs-v1.jsonl")),
        ] {
            let lines: Result<Vec<StoredLine>, String> = StoredLine::all(text).collect();
            let lines = lines.unwrap();
            assert!(lines.iter().all(|l| l.version == version));
            let of = |l: &StoredLine| (l.role, l.at_ms, l.sequences, l.failures.len());
            assert_eq!(
                lines.iter().map(of).collect::<Vec<_>>(),
                [
                    (Learning, 0, 0, 0),
                    (Fuzz, 1297, 1, 5),
                    (Confirm, 3085, 1, 3),
                    (Minimise, 48_719, 1, 3)
                ]
            );
            let cut_off: Vec<bool> = lines.iter().map(StoredLine::is_cut_off).collect();
            assert_eq!(cut_off, [false, false, false, true]);
            assert_eq!((lines[0].times_ms.total, lines[0].states), (1053, Some(0)));
        }
    }

    /// A week's file has gigabytes.
    #[test]
    fn a_line_is_there_before_the_next_one_is_read() {
        struct Breaks;
        impl io::Read for Breaks {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::Other.into())
            }
        }
        let text = "{\"role\":\"fuzz\",\"run\":1,\"slots\":1,\"sequences\":1}\n\
                    no line\n\
                    {\"role\":\"fuzz\",\"run\":2,\"slots\":1,\"sequences\":1}\n";
        let file = io::Read::chain(text.as_bytes(), Breaks);
        let mut lines = StoredLine::readable(io::BufReader::new(file));
        for run in [1, 2] {
            assert_eq!(lines.next().unwrap().unwrap().run, run);
        }
        assert!(lines.next().unwrap().is_err());
    }

    #[test]
    fn what_is_no_line_is_told_with_its_number() {
        for (text, part) in [
            (
                "{\"role\":\"fuzz\",\"slots\":1,\"sequences\":1}\n{}\n",
                "line 2: missing field `role`",
            ),
            (
                "{\"role\":\"fuzz\",\"version\":2,\"slots\":1,\"sequences\":1}",
                "line 1: has version 2, this program reads up to 1",
            ),
            ("{\"role\":\"fuzz\",\"at", "line 1: "),
        ] {
            let all: Result<Vec<StoredLine>, String> = StoredLine::all(text).collect();
            let why = all.unwrap_err();
            assert!(why.starts_with(part), "{why}");
        }
    }
}
