//! What the threads of the living nodes do while the system does not serve: asked with SIGQUIT, which a JVM answers on its standard output
//! and then goes on. An outage seldom leaves a word in a log.
//!
//! Called by `flow` after questions that were not answered well, and by `collect`, which takes the answers out of the logs, as those are
//! judged. Judges nothing, and asks no process that does not know the signal, which would end it.

use crate::run::RunError;
use crate::run::evidence::collect::lines;
use crate::run::nodes::spawn::STDOUT;
use crate::run::phases::flow::Flow;
use crate::slot::Process;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use warren_model::{Observation, Phase};

/// The folder of the answers among the collected files.
const FOLDER: &str = "threads";
/// So long nodes have to write what their threads do before they are killed.
const ANSWERED: Duration = Duration::from_millis(300);
/// So many lines in a row that no answer has end one that was cut off.
const STRANGE_MAX: usize = 3;

/// One node was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct ThreadsAsked {
    pub node: usize,
    pub phase: Phase,
    /// Bytes of its standard output before.
    pub from: u64,
}

impl Flow<'_, '_, '_> {
    /// Asks when a node or a client was not served in the phase whose questions have been answered.
    pub(in crate::run) fn ask_threads_if_unserved(&mut self) {
        let path = self.drive.cluster.slot.root().join("observations.jsonl");
        // What cannot be read is told when the run is collected.
        let seen: Vec<Observation> = lines(&path, "observations.jsonl", &mut Vec::new());
        if seen.iter().any(|o| unserved(o, self.drive.phase)) {
            self.ask_threads();
        }
    }

    /// Asks all living nodes that can answer; they do while the run goes on.
    pub(in crate::run) fn ask_threads(&mut self) {
        if self.drive.cluster.options.to_end() {
            return;
        }
        let phase = self.drive.phase;
        for (node, n) in self.drive.cluster.nodes.iter().enumerate() {
            let from = std::fs::metadata(n.dir.join(STDOUT)).map_or(0, |m| m.len());
            if n.alive() && n.process.as_ref().is_some_and(Process::ask_threads) {
                let asked = ThreadsAsked { node, phase, from };
                self.drive.so_far.threads_asked.push(asked);
            }
        }
    }

    /// Leaves those that were asked the time to answer: the nodes are about to be killed.
    pub(in crate::run) fn wait_for_threads(&mut self) -> Result<(), RunError> {
        let answered = self.drive.now() + ANSWERED.as_nanos() as u64;
        self.drive.until(answered, |_| false)?;
        Ok(())
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
pub(in crate::run) struct Log {
    pub bytes: Vec<u8>,
    taken: Vec<Range<usize>>,
}

impl Log {
    /// All of a log whose node was never asked.
    pub fn whole(bytes: Vec<u8>) -> Self {
        let taken = Vec::new();
        Log { bytes, taken }
    }

    fn without(bytes: &[u8], taken: Vec<Range<usize>>) -> Self {
        let mut kept = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for piece in &taken {
            kept.extend_from_slice(&bytes[from..piece.start]);
            from = piece.end;
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

/// The standard output of a node that was asked, in two: its log, and the answers, each with a file name: the phase in which it was asked, the
/// node, and from the second of a phase on which one it is.
pub(in crate::run) fn take_out(
    stdout: &[u8],
    node: &str,
    asked: &[ThreadsAsked],
) -> (Log, Vec<(String, Vec<u8>)>) {
    let mut of_phase: BTreeMap<Phase, usize> = BTreeMap::new();
    let (mut files, mut taken) = (Vec::new(), Vec::new());
    for (phase, pieces) in answers(stdout, asked) {
        let n = of_phase.entry(phase).or_default();
        *n += 1;
        let name = match n {
            1 => format!("{FOLDER}/{phase}-{node}.txt"),
            n => format!("{FOLDER}/{phase}-{node}-{n}.txt"),
        };
        let text = pieces.iter().flat_map(|r| &stdout[r.clone()]);
        files.push((name, text.copied().collect()));
        taken.extend(pieces);
    }
    (Log::without(stdout, taken), files)
}

/// Where the answers to what was asked stand, each with the phase and in pieces: other threads go on logging while a JVM writes its own, so what
/// no answer has is the log's. An answer is a date, "Full thread dump", the threads, the count of JNI references, deadlocks, the heap; the end of
/// its JVM may cut it off.
fn answers(bytes: &[u8], asked: &[ThreadsAsked]) -> Vec<(Phase, Vec<Range<usize>>)> {
    let mut found: Vec<(Phase, Vec<Range<usize>>)> = Vec::new();
    let mut part = Part::None;
    let mut date = None;
    let mut at = 0;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let (span, text) = (at..at + line.len(), line.trim_ascii_end());
        at = span.end;
        if text.starts_with(b"Full thread dump ") {
            let asked = asked.iter().rfind(|a| a.from <= span.start as u64);
            part = match asked {
                Some(asked) => {
                    let first = date.take().unwrap_or(span.start)..span.end;
                    found.push((asked.phase, vec![first]));
                    Part::Threads { strange: 0 }
                }
                None => Part::None,
            };
            continue;
        }
        date = is_date(text).then_some(span.start);
        part = part.after(text);
        if let (Part::Threads { strange: 0 } | Part::Heap, Some((_, pieces))) =
            (part, found.last_mut())
        {
            match pieces.last_mut() {
                Some(last) if last.end == span.start => last.end = span.end,
                _ => pieces.push(span),
            }
        }
    }
    found
}

/// Where in an answer a line is.
#[derive(Clone, Copy)]
enum Part {
    /// In none.
    None,
    /// So many lines that no answer has came last.
    Threads {
        strange: usize,
    },
    Heap,
}

impl Part {
    /// With one line more.
    fn after(self, line: &[u8]) -> Part {
        match self {
            Part::None => Part::None,
            Part::Threads { .. } if line == b"Heap" => Part::Heap,
            Part::Threads { .. } if of_an_answer(line) => Part::Threads { strange: 0 },
            Part::Threads { strange } if strange + 1 < STRANGE_MAX => Part::Threads {
                strange: strange + 1,
            },
            Part::Threads { .. } => Part::None,
            Part::Heap if line.is_empty() || line.starts_with(b" ") => Part::Heap,
            Part::Heap => Part::None,
        }
    }
}

/// A thread, its state and frames, what it holds; the tables of threads and deadlocks.
fn of_an_answer(line: &[u8]) -> bool {
    const HEADS: [&[u8]; 12] = [
        b"\"",
        b" ",
        b"\t",
        b"JNI global ref",
        b"Threads class SMR",
        b"_java_thread_list",
        b"0x",
        b"}",
        b"Found ",
        b"===",
        b"---",
        b"Java stack information",
    ];
    line.is_empty() || HEADS.iter().any(|head| line.starts_with(head))
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

    fn asked(phase: Phase, from: usize) -> ThreadsAsked {
        let from = from as u64;
        ThreadsAsked {
            node: 0,
            phase,
            from,
        }
    }

    #[test]
    fn answers_are_taken_out_of_a_log() {
        // (a log in parts: those at odd places are an answer's)
        let whole = format!("{ANSWER}{HEAP}");
        let dead = format!("{ANSWER}{DEADLOCK}{HEAP}");
        let cut_off = &ANSWER[..ANSWER.len() - 60];
        let no_date = ANSWER.split_once('\n').unwrap().1;
        let (threads, jni) = ANSWER.split_at(ANSWER.find("JNI").unwrap());
        let other = "INFO one\nINFO two\nERROR [x] - three\n\tat a.B.c(B.java:1)\nINFO four\n";
        let table: [&[&str]; 10] = [
            &["a line\n"],
            &["before\n", &whole, "after\n"],
            &["", &whole],
            &["before\n", ANSWER, "after, no heap\n"],
            &["one\n", &dead, "two\n", &whole, "three\n"],
            &["one\n", cut_off],
            &["INFO Full thread dump as a word of its own\n"],
            &["one\n", no_date, "two\n"],
            // Other threads log in between.
            &[
                "one\n",
                threads,
                "INFO two\n",
                jni,
                "INFO three\n",
                HEAP,
                "INFO four\n",
            ],
            // The JVM after it has the rest of the log to itself.
            &["one\n", threads, other],
        ];
        for parts in table {
            let log = parts.concat();
            let asked = [asked(Phase::Heal, 0)];
            let (Log { bytes, .. }, files) = take_out(log.as_bytes(), "n1", &asked);
            let of = |odd: usize| parts.iter().skip(odd).step_by(2).copied();
            let kept: String = of(0).collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), kept, "{log}");
            let answers: String = files
                .into_iter()
                .map(|(_, b)| String::from_utf8(b).unwrap())
                .collect();
            assert_eq!(answers, of(1).collect::<String>(), "{log}");
        }
    }

    #[test]
    fn places_in_a_log_move_with_it() {
        let text = format!("before\n{ANSWER}after\n");
        let (log, _) = take_out(text.as_bytes(), "n1", &[asked(Phase::Heal, 0)]);
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
        let text = format!("a\n{ANSWER}b\n{ANSWER}c\n{ANSWER}");
        let second = 2 + ANSWER.len() + 2;
        let all = [
            asked(Phase::Degraded, 2),
            asked(Phase::Heal, second),
            asked(Phase::Heal, second + ANSWER.len() + 2),
        ];
        let names = |asked: &[ThreadsAsked]| -> Vec<String> {
            let (_, files) = take_out(text.as_bytes(), "n1", asked);
            assert!(files.iter().all(|(_, b)| b == ANSWER.as_bytes()));
            files.into_iter().map(|(name, _)| name).collect()
        };
        let of = ["degraded-n1", "heal-n1", "heal-n1-2"].map(|n| format!("threads/{n}.txt"));
        assert_eq!(names(&all), of);
        // What nobody asked for is the node's own, and stays where it is.
        assert_eq!(names(&all[1..]), of[1..]);
        let (log, _) = take_out(text.as_bytes(), "n1", &all[1..]);
        assert_eq!(log.bytes, format!("a\n{ANSWER}b\nc\n").into_bytes());
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
