//! How the children of a launcher ended: it reaps them, so slot init, which tells all other ends, cannot.
//!
//! The launcher appends a line per end to a file; Warren's end of the slot reads it once such a process is seen dead. Nothing
//! is held open between two ends, for CRIU dumps the launcher. The file is no part of a snapshot: each slot has its own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::namespaces::ROOT;
use super::tree::{Ended, reaped_file};
use super::{Exit, Process, Slot, now_ns};

/// How long a line is waited for. The launcher writes it some microseconds after the end, on a busy machine some milliseconds.
const LIMIT_NS: u64 = 1_000_000_000;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    pid: i32,
    status: Option<i32>,
    signal: Option<i32>,
    /// When it was reaped, on the clock of the tree, which is the slot's.
    t_ns: u64,
}

/// The launcher has reaped this child.
pub(super) fn note(pid: i32, ended: Ended) -> io::Result<()> {
    let (status, signal) = ended.told();
    let mut line = serde_json::to_vec(&Line {
        pid,
        status,
        signal,
        t_ns: now_ns(),
    })?;
    line.push(b'\n');
    let mut open = OpenOptions::new();
    let mut file = open
        .append(true)
        .create(true)
        .open(reaped_file(Path::new(ROOT)))?;
    file.write_all(&line)
}

/// The newest line of that pid that is no older than this time. What is no line is passed over: the last may be half written.
fn newest(text: &[u8], pid: i32, since_ns: u64) -> Option<Line> {
    let lines = text.split(|b| *b == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice::<Line>(line).ok())
        .filter(|line| line.pid == pid && line.t_ns >= since_ns)
        .max_by_key(|line| line.t_ns)
}

impl Slot {
    /// How a process below a launcher ended. `None` while it lives, and for a moment after that: ask again. Where the launcher says nothing
    /// within a second (it may be gone, or find no room) the end is told without status, as by our SIGKILL if one was sent.
    pub fn launched_exit(&self, process: &Process) -> Option<Exit> {
        if !process.is_dead() {
            return None;
        }
        let now = self.now_ns();
        let seen = *process.seen_dead_ns.get_or_init(|| now);
        // Before the first end there is no file.
        let text = fs::read(reaped_file(self.root())).unwrap_or_default();
        let line = newest(&text, process.pid_inside, process.spawned_ns);
        if line.is_none() && now.saturating_sub(seen) < LIMIT_NS {
            return None;
        }
        Some(exit_of(process, line, seen))
    }
}

/// The end of a process by its line, or without one as far as it can be known.
fn exit_of(process: &Process, line: Option<Line>, seen_ns: u64) -> Exit {
    let marked = process.killed_by_us();
    let line = line.unwrap_or_else(|| Line {
        pid: process.pid_inside,
        status: None,
        signal: marked.then_some(libc::SIGKILL),
        t_ns: seen_ns,
    });
    Exit {
        name: process.name.clone(),
        pid: process.pid_inside,
        status: line.status,
        signal: line.signal,
        t_ns: line.t_ns,
        by_us: Exit::is_by_us(marked, line.signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn line(pid: i32, status: Option<i32>, signal: Option<i32>, t_ns: u64) -> Line {
        Line {
            pid,
            status,
            signal,
            t_ns,
        }
    }

    fn text(lines: &[Line]) -> Vec<u8> {
        let lines = lines.iter().map(|l| serde_json::to_string(l).unwrap());
        lines.flat_map(|l| format!("{l}\n").into_bytes()).collect()
    }

    #[test]
    fn the_newest_line_of_a_pid_since_it_was_spawned() {
        let first = line(1002, Some(3), None, 10);
        let other = line(1003, None, Some(9), 15);
        let second = line(1002, None, Some(11), 20);
        let file = text(&[first.clone(), other.clone(), second.clone()]);
        for (pid, since, want) in [
            (1002, 0, Some(&second)),
            (1002, 11, Some(&second)),
            (1002, 20, Some(&second)),
            (1002, 21, None),
            (1003, 15, Some(&other)),
            (1003, 16, None),
            (1004, 0, None),
        ] {
            assert_eq!(
                newest(&file, pid, since).as_ref(),
                want,
                "{pid} since {since}"
            );
        }
        assert_eq!(
            newest(&text(std::slice::from_ref(&first)), 1002, 5),
            Some(first)
        );
        assert_eq!(newest(b"", 1002, 0), None);
    }

    #[test]
    fn what_is_no_line_is_passed_over() {
        let whole = line(1002, Some(1), None, 10);
        let ends = text(std::slice::from_ref(&whole));
        // However much of the last line is written.
        let half = text(&[line(1002, None, Some(9), 20)]);
        for length in 0..half.len() - 1 {
            let file = [&ends, &half[..length]].concat();
            assert_eq!(newest(&file, 1002, 0).as_ref(), Some(&whole), "{length}");
        }
        for garbage in [
            &b"\n\n"[..],
            b"\xff\xfe\x00\n",
            b"{}\n",
            b"[1,2]\n",
            b"{\"pid\":1002}\n",
            b"{\"pid\":\"1002\",\"t_ns\":99}\n",
            b"{\"pid\":99999999999,\"t_ns\":99}\n",
            b"{\"pid\":1002,\"t_ns\":-1}\n",
        ] {
            for file in [[garbage, &ends].concat(), [&ends, garbage].concat()] {
                assert_eq!(newest(&file, 1002, 0).as_ref(), Some(&whole));
            }
        }
    }

    #[test]
    fn only_sigkill_after_our_mark_is_ours() {
        // Marked, its line: status, signal, time, by us.
        let status = line(7, Some(1), None, 30);
        let killed = line(7, None, Some(9), 30);
        let aborted = line(7, None, Some(6), 30);
        for (marked, line, want) in [
            (true, Some(&status), (Some(1), None, 30, false)),
            (true, Some(&aborted), (None, Some(6), 30, false)),
            (true, Some(&killed), (None, Some(9), 30, true)),
            (false, Some(&status), (Some(1), None, 30, false)),
            (false, Some(&killed), (None, Some(9), 30, false)),
            (true, None, (None, Some(9), 40, true)),
            (false, None, (None, None, 40, false)),
        ] {
            let process = Process {
                name: "n1".into(),
                pid_inside: 7,
                spawned_ns: 20,
                pidfd: Arc::new(std::io::pipe().unwrap().0.into()),
                by_us: Arc::new(AtomicBool::new(marked)),
                seen_dead_ns: Arc::default(),
            };
            let exit = exit_of(&process, line.cloned(), 40);
            assert_eq!((exit.name.as_str(), exit.pid), ("n1", 7));
            let got = (exit.status, exit.signal, exit.t_ns, exit.by_us);
            assert_eq!(got, want, "{marked} {line:?}");
        }
    }
}
