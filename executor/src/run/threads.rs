//! What the threads of the living nodes do while the system does not serve: asked with SIGQUIT, which a JVM answers on its standard output
//! and then goes on. An outage seldom leaves a word in a log.
//!
//! Called by `flow` after questions that were not answered well, and by `collect`, which takes the answers out of the logs, as those are
//! judged. Judges nothing, and asks no JVM that is too young to know the signal, which would end it.

use super::collect::lines;
use super::flow::Flow;
use super::options::NodeStatus;
use super::spawn::STDOUT;
use crate::slot::Process;
use std::ops::Range;
use warren_model::{Observation, Phase};

/// So old a JVM surely answers, ns: it takes over the signal before any agent runs.
const GROWN: u64 = 3_000_000_000;
/// The folder of the answers among the collected files.
const FOLDER: &str = "threads";

/// One node was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadsAsked {
    pub node: usize,
    pub phase: Phase,
    /// Bytes of its standard output before.
    pub from: u64,
}

impl Flow<'_, '_, '_> {
    /// Asks when a node or a client was not served in the phase whose questions have been answered.
    pub(super) fn ask_threads_if_unserved(&mut self) {
        let path = self.drive.cluster.slot.root().join("observations.jsonl");
        // What cannot be read is told when the run is collected.
        let seen: Vec<Observation> = lines(&path, "observations.jsonl", &mut Vec::new());
        if seen.iter().any(|o| unserved(o, self.drive.phase)) {
            self.ask_threads();
        }
    }

    /// Asks all living nodes; they answer while the run goes on.
    pub(super) fn ask_threads(&mut self) {
        if self.drive.cluster.options.to_end() {
            return;
        }
        let (now, phase) = (self.drive.now(), self.drive.phase);
        for (node, n) in self.drive.cluster.nodes.iter().enumerate() {
            let young = n
                .incarnations
                .last()
                .is_none_or(|i| now < i.spawned_ns + GROWN);
            let serves = n.status == NodeStatus::Serving;
            if !n.alive() || young && !serves {
                continue;
            }
            let from = std::fs::metadata(n.dir.join(STDOUT)).map_or(0, |m| m.len());
            if n.process.as_ref().is_some_and(Process::ask_threads) {
                let asked = ThreadsAsked { node, phase, from };
                self.drive.so_far.threads_asked.push(asked);
            }
        }
    }
}

fn unserved(o: &Observation, now: Phase) -> bool {
    match o {
        Observation::Serve { phase, ok, .. } | Observation::Progress { phase, ok, .. } => {
            *phase == now && !ok
        }
        _ => false,
    }
}

/// The bytes of a log without the answers that stand in it.
pub(super) struct Log {
    pub bytes: Vec<u8>,
    taken: Vec<Range<usize>>,
}

impl Log {
    /// All of a log whose node was never asked.
    pub fn whole(bytes: Vec<u8>) -> Self {
        let taken = Vec::new();
        Log { bytes, taken }
    }

    pub fn without_answers(bytes: &[u8]) -> Self {
        let taken = answers(bytes);
        let mut kept = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for answer in &taken {
            kept.extend_from_slice(&bytes[from..answer.start]);
            from = answer.end;
        }
        kept.extend_from_slice(&bytes[from..]);
        Log { bytes: kept, taken }
    }

    /// Where the end of the file was when it had `size` bytes.
    pub fn end_at(&self, size: usize) -> usize {
        let before = |r: &Range<usize>| r.end.min(size) - r.start.min(size);
        size - self.taken.iter().map(before).sum::<usize>()
    }
}

/// The answers of a node in its standard output, each with a file name: the phase in which it was asked, and the node.
pub(super) fn files(stdout: &[u8], node: &str, asked: &[ThreadsAsked]) -> Vec<(String, Vec<u8>)> {
    answers(stdout)
        .into_iter()
        .filter_map(|r| {
            let asked = asked.iter().rfind(|a| a.from <= r.start as u64)?;
            let name = format!("{FOLDER}/{}-{node}.txt", asked.phase);
            Some((name, stdout[r].to_vec()))
        })
        .collect()
}

/// Where the answers stand: a date, "Full thread dump", the threads up to the count of JNI references, deadlocks, the heap. The last one may be
/// cut off by the end of its JVM.
fn answers(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut lines: Vec<(usize, &[u8])> = Vec::new();
    let mut at = 0;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        lines.push((at, line.trim_ascii_end()));
        at += line.len();
    }
    let start_of = |i: usize| lines.get(i).map_or(bytes.len(), |(at, _)| *at);
    let is = |i: usize, what: &dyn Fn(&[u8]) -> bool| lines.get(i).is_some_and(|(_, l)| what(l));
    let mut found = Vec::new();
    let mut i = 0;
    while i < lines.len() {
        if !is(i, &|l| l.starts_with(b"Full thread dump ")) {
            i += 1;
            continue;
        }
        let first = if i > 0 && is(i - 1, &is_date) {
            i - 1
        } else {
            i
        };
        while i < lines.len() && !is(i, &|l| l.starts_with(b"JNI global ref")) {
            i += 1;
        }
        let mut end = i + 1;
        // What follows it, each after an empty line or two.
        let after_blanks = |mut i: usize| {
            while is(i, &<[u8]>::is_empty) {
                i += 1;
            }
            i
        };
        let next = after_blanks(end);
        if is(next, &|l| l.starts_with(b"Found ")) {
            end = next + 1;
            while end < lines.len() && !is(end, &|l| l.starts_with(b"Found ")) {
                end += 1;
            }
            end += 1;
        }
        let next = after_blanks(end);
        if is(next, &|l| l == b"Heap") {
            end = next + 1;
            while is(end, &|l| l.starts_with(b" ")) {
                end += 1;
            }
        }
        end = after_blanks(end);
        found.push(start_of(first)..start_of(end));
        i = end;
    }
    found
}

/// As in `2026-11-25 09:05:05`.
fn is_date(line: &[u8]) -> bool {
    let like = b"0000-00-00 00:00:00";
    line.len() == like.len()
        && line.iter().zip(like).all(|(b, l)| match l {
            b'0' => b.is_ascii_digit(),
            _ => b == l,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "2026-11-25 09:05:05\n\
        Full thread dump OpenJDK 64-Bit Server VM (17.0.9+9 mixed mode, sharing):\n\n\
        \"main\" #1 prio=5 os_prio=0 cpu=35.94ms elapsed=8.01s tid=0x1 nid=0x2 waiting on condition  [0x3]\n   \
           java.lang.Thread.State: TIMED_WAITING (sleeping)\n\tat java.lang.Thread.sleep(java.base@17.0.9/Native Method)\n\n\
        JNI global refs: 18, weak refs: 0\n\n";
    const DEADLOCK: &str = "\nFound one Java-level deadlock:\n=====\n\"a\":\n  waits for \"b\"\n\nFound 1 deadlock.\n\n";
    const HEAP: &str = "Heap\n garbage-first heap   total 1K, used 1K [0x1, 0x2)\n  region size 1024K\n Metaspace       used 5K\n\n";

    #[test]
    fn answers_are_taken_out_of_a_log() {
        // (a log in parts: answers are those at odd places)
        let whole = format!("{ANSWER}{HEAP}");
        let dead = format!("{ANSWER}{DEADLOCK}{HEAP}");
        let cut_off = &ANSWER[..ANSWER.len() - 60];
        let no_date = ANSWER.split_once('\n').unwrap().1;
        let table: [&[&str]; 8] = [
            &["a line\n"],
            &["before\n", &whole, "after\n"],
            &["", &whole],
            &["before\n", ANSWER, "after, no heap\n"],
            &["one\n", &dead, "two\n", &whole, "three\n"],
            &["one\n", cut_off],
            &["INFO Full thread dump as a word of its own\n"],
            &["one\n", no_date, "two\n"],
        ];
        for parts in table {
            let log = parts.concat();
            let Log { bytes, taken } = Log::without_answers(log.as_bytes());
            let of = |odd: usize| parts.iter().skip(odd).step_by(2).copied();
            let kept: String = of(0).collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), kept, "{log}");
            let answers: Vec<&str> = taken.iter().map(|r| &log[r.clone()]).collect();
            assert_eq!(answers, of(1).collect::<Vec<_>>(), "{log}");
        }
    }

    #[test]
    fn places_in_a_log_move_with_it() {
        let text = format!("before\n{ANSWER}after\n");
        let log = Log::without_answers(text.as_bytes());
        let (from, to) = ("before\n".len(), "before\n".len() + ANSWER.len());
        // (bytes of the file at some time, where that is in what is kept)
        for (size, want) in [
            (0, 0),
            (from, from),
            (from + 9, from),
            (to, from),
            (to + 3, from + 3),
        ] {
            assert_eq!(log.end_at(size), want, "{size}");
        }
        assert_eq!(Log::whole(text.clone().into_bytes()).end_at(to), to);
    }

    #[test]
    fn an_answer_is_named_by_when_it_was_asked() {
        let text = format!("a\n{ANSWER}b\n{ANSWER}");
        let second = (2 + ANSWER.len() + 2) as u64;
        let asked = |phase, from| ThreadsAsked {
            node: 0,
            phase,
            from,
        };
        let all = [asked(Phase::Degraded, 2), asked(Phase::Heal, second)];
        let names = |asked: &[ThreadsAsked]| -> Vec<String> {
            let files = files(text.as_bytes(), "n1", asked);
            assert!(files.iter().all(|(_, b)| b == ANSWER.as_bytes()));
            files.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(
            names(&all),
            ["threads/degraded-n1.txt", "threads/heal-n1.txt"]
        );
        // What nobody asked for is the node's own, and stays where it is.
        assert_eq!(names(&all[1..]), ["threads/heal-n1.txt"]);
    }

    #[test]
    fn who_was_not_served_in_this_phase() {
        let serve = |phase, ok| Observation::Serve {
            phase,
            node: "n1".into(),
            ok,
            ms: 1,
            error: None,
        };
        assert!(unserved(&serve(Phase::Heal, false), Phase::Heal));
        assert!(!unserved(&serve(Phase::Heal, true), Phase::Heal));
        assert!(!unserved(&serve(Phase::Degraded, false), Phase::Heal));
    }
}
