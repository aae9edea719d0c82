//! Seeds in a campaign (`-i`): run after learning as the first fuzzed runs, kept when they were injected in full, tried again later
//! when they were not. Called by the loop before each pick and by the stage at each sequence's end; reading seed files is
//! `crate::seeds`. A seed becomes the session's job, so that the journal knows of it like of any other.
//!
//! Seeds are AFL's dry run: each counts as a sequence, and each that was injected in full joins the queue whether it found
//! coverage or not. One that fails goes the way of every failing run. None is dropped in silence: what did not match is told with what
//! came nearest, and tried again.

use super::State;
use super::drive::Drive;
use super::session::Session;
use super::stage::DURABLE_EVERY;
use crate::fuzz::figures::describe::describe;
use crate::fuzz::resume::saved::Job;
use crate::search::{Queue, queue::MAX_TRIES};
use crate::seeds::{SeedFile, near_lines, nearest, needs_kernel};
use libafl::HasMetadata;
use libafl::corpus::Corpus;
use libafl::state::HasCorpus;
use serde::{Deserialize, Serialize};
use warren_feedback::RunObserver;
use warren_model::{FaultSequence, Judgement, RunRecord, Trace, Verdict};

/// A seed that did not match is tried again when so many sequences were tested since the last such try.
const AGAIN_EVERY: u64 = 25;
/// Longest `orig:`; file names end at 255 bytes, and `op:` takes its share.
const ORIG_MAX: usize = 60;

/// In LibAFL's state while a seed runs: what keeps and names runs asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Importing {
    /// For `orig:`.
    pub orig: String,
}

libafl_bolts::impl_serdeany!(Importing);

/// A seed that is still to be injected in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub name: String,
    pub sequence: FaultSequence,
    /// Tries made.
    pub tries: u8,
}

/// The seeds of a campaign. Plain data: a campaign that is resumed needs it as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeds {
    pub given: u64,
    pub waiting: Vec<Waiting>,
    /// Injected in full and in the queue.
    pub kept: u64,
    /// Failed: decided on as findings.
    pub failing: u64,
    /// Injected in full, neither kept nor failing: over the limit, or undecided.
    pub other: u64,
    /// Did not match in [`MAX_TRIES`] tries, or cannot be made here.
    pub given_up: u64,
    /// What did not match at its first try, for the end of the import.
    missed: Vec<String>,
    told: bool,
    /// Sequences tested when a seed was tried last.
    last: u64,
    /// Index of the one that is the present job.
    running: Option<usize>,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    Kept,
    Failing,
    Other,
    /// Not all faults happened, or the run said nothing.
    Missed,
}

impl Seeds {
    /// All are still to be tried.
    #[must_use]
    pub fn new(files: &[SeedFile]) -> Self {
        Seeds {
            given: files.len() as u64,
            waiting: files
                .iter()
                .map(|f| Waiting {
                    name: f.name.clone(),
                    sequence: f.sequence.clone(),
                    tries: 0,
                })
                .collect(),
            ..Seeds::default()
        }
    }

    /// Did not match so far, given up or not.
    #[must_use]
    pub fn unmatched(&self) -> u64 {
        self.given_up + self.waiting.iter().filter(|w| w.tries > 0).count() as u64
    }

    /// Whether the present job is a seed's first try; none = it is no seed.
    #[must_use]
    pub fn first_try(&self) -> Option<bool> {
        Some(self.waiting.get(self.running?)?.tries == 0)
    }

    /// The seed to be tried now: those never tried in their order, then from time to time (or when nothing else is left) the one
    /// tried least.
    fn next(&self, sequences: u64, exhausted: bool) -> Option<usize> {
        let least = self.waiting.iter().map(|w| w.tries).min()?;
        let again = exhausted || sequences >= self.last + AGAIN_EVERY;
        if least > 0 && !again {
            return None;
        }
        self.waiting.iter().position(|w| w.tries == least)
    }

    /// Takes note of a try; answers whether the seed is given up.
    fn tried(&mut self, at: usize, tried: Tried, sequences: u64) -> bool {
        self.last = sequences;
        if tried != Tried::Missed {
            self.waiting.remove(at);
        }
        match tried {
            Tried::Kept => self.kept += 1,
            Tried::Failing => self.failing += 1,
            Tried::Other => self.other += 1,
            Tried::Missed => {
                self.waiting[at].tries += 1;
                if self.waiting[at].tries >= MAX_TRIES {
                    self.waiting.remove(at);
                    self.given_up += 1;
                    return true;
                }
            }
        }
        false
    }

    /// Once, when every seed was tried: what the import came to.
    fn report(&mut self) -> Vec<String> {
        if self.told || self.given == 0 || self.waiting.iter().any(|w| w.tries == 0) {
            return Vec::new();
        }
        self.told = true;
        let mut lines = vec![format!(
            "seeds: {} given, {} kept, {} failing, {} did not match",
            self.given,
            self.kept,
            self.failing,
            self.unmatched()
        )];
        lines.append(&mut self.missed);
        lines
    }
}

/// `orig:` of a seed file: nothing that ends a part of a name, and not too long.
#[must_use]
pub fn orig(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ',' || c == '/' || c.is_control() {
                '_'
            } else {
                c
            }
        })
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= ORIG_MAX).then_some(c)
        })
        .collect()
}

/// Whether a seed's run joins the queue although nothing about it is new. A failing one is decided on elsewhere.
#[must_use]
pub fn keeps_seed(record: &RunRecord, judgement: &Judgement) -> bool {
    record.not_injected.is_none()
        && !record.timed_out
        && judgement.void.is_none()
        && !record.set_up_failed()
        && judgement.verdict != Verdict::Fail
}

impl Session {
    /// Before anything is run: makes the seed that is due the job to be run next, unless a job is waiting already.
    pub fn import<E: Drive>(&mut self, executor: &E, state: &mut State) {
        if self.job.is_none() {
            self.seeds.running = None;
            while let Some(at) = self.due_seed(state) {
                let waiting = self.seeds.waiting[at].clone();
                if needs_kernel(&waiting.sequence)
                    && let Err(why) = executor.kernel_cuts()
                {
                    self.cannot_be_made(at, &why);
                    continue;
                }
                self.seeds.running = Some(at);
                self.job = Some(self.seed_job(&waiting));
                break;
            }
        }
        // What keeps and names runs asks the state.
        match self.seeds.running.and_then(|at| self.seeds.waiting.get(at)) {
            Some(waiting) => {
                state.add_metadata(Importing {
                    orig: orig(&waiting.name),
                });
                // No seed run is behind it, so its name has `orig:` and not `src:`.
                *state.corpus_mut().current_mut() = None;
            }
            None => drop(state.metadata_map_mut().remove::<Importing>()),
        }
    }

    /// A seed is to be tried now; it is run alone.
    #[must_use]
    pub fn seed_is_due(&self, state: &State) -> bool {
        self.due_seed(state).is_some()
    }

    fn due_seed(&self, state: &State) -> Option<usize> {
        if self.seeds.waiting.is_empty() {
            return None;
        }
        let exhausted = self.options.strategy.has_queue()
            && state
                .metadata_map()
                .get::<Queue>()
                .is_none_or(|q| q.pending() == 0);
        self.seeds.next(self.counts.sequences, exhausted)
    }

    fn seed_job(&mut self, waiting: &Waiting) -> Job {
        self.note_tested(waiting.sequence.identity());
        let again = match waiting.tries {
            0 => String::new(),
            n => format!(", try {}", n + 1),
        };
        Job {
            lines: describe(&waiting.sequence, &Trace::default()),
            sequence: waiting.sequence.clone(),
            why: format!("seed {}{again}", waiting.name),
            durable: self.counts.sequences % DURABLE_EVERY == DURABLE_EVERY - 1,
            ..Job::default()
        }
    }

    /// A tested sequence is counted: if it was a seed, it is known now what became of it.
    pub fn seed_settled(&mut self, run: &RunObserver, kept: bool) {
        let Some(at) = self.seeds.running.take() else {
            return;
        };
        let Some(waiting) = self.seeds.waiting.get(at).cloned() else {
            return;
        };
        let (record, judgement) = (run.record(), run.judgement());
        let tried = tried(record, judgement, kept);
        if tried == Tried::Missed {
            let lines = missed_lines(&waiting, record, judgement, run.trace());
            if self.seeds.told {
                lines.into_iter().for_each(|l| self.say(l));
            } else {
                self.seeds.missed.extend(lines);
            }
        }
        self.tried_seed(at, &waiting.name, tried);
    }

    /// The user gave the present job up: if it is a seed, that was a try.
    pub fn seed_skipped(&mut self) {
        let Some(at) = self.seeds.running.take() else {
            return;
        };
        let Some(name) = self.seeds.waiting.get(at).map(|w| w.name.clone()) else {
            return;
        };
        let line = format!("  {name}: its run was given up with key n");
        if self.seeds.told {
            self.say(line);
        } else {
            self.seeds.missed.push(line);
        }
        self.tried_seed(at, &name, Tried::Missed);
    }

    fn tried_seed(&mut self, at: usize, name: &str, tried: Tried) {
        if self.seeds.tried(at, tried, self.counts.sequences) {
            self.say(format!("seed {name}: given up after {MAX_TRIES} tries"));
        }
        for line in self.seeds.report() {
            self.say(line);
        }
    }

    /// Without kernel rules in the slot such a run is refused, at every try.
    fn cannot_be_made(&mut self, at: usize, why: &str) {
        let seed = self.seeds.waiting.remove(at);
        self.seeds.given_up += 1;
        self.seeds.missed.push(format!(
            "  {}: not run: it needs packets dropped (how = \"drop\" or style = \"machine\"), which does not work here: {why}",
            seed.name
        ));
        for line in self.seeds.report() {
            self.say(line);
        }
    }
}

/// What became of a seed's run. One that fails is decided on elsewhere; what failed before all its faults happened was its prefix.
fn tried(record: &RunRecord, judgement: &Judgement, kept: bool) -> Tried {
    let fails = judgement.verdict == Verdict::Fail;
    let void = judgement.void.is_some() || record.set_up_failed() && !fails;
    if void || record.not_injected.is_some() {
        Tried::Missed
    } else if kept {
        Tried::Kept
    } else if fails {
        Tried::Failing
    } else {
        Tried::Other
    }
}

/// Which fault of a seed did not match, and what came nearest.
fn missed_lines(
    waiting: &Waiting,
    record: &RunRecord,
    judgement: &Judgement,
    trace: &Trace,
) -> Vec<String> {
    let name = &waiting.name;
    if let Some(why) = judgement.void.as_ref().or(record.void.as_ref()) {
        return vec![format!("  {name}: its run went wrong by itself: {why}")];
    }
    let Some(n) = &record.not_injected else {
        return vec![format!("  {name}: its run could not be used")];
    };
    let mut lines = vec![format!(
        "  {name}: fault {} of {} did not match: {}: {}; it is tried again after {AGAIN_EVERY} sequences, {MAX_TRIES} times in all",
        n.index + 1,
        waiting.sequence.faults.len(),
        n.reason,
        n.detail
    )];
    let near = waiting
        .sequence
        .faults
        .get(n.index)
        .map_or_else(Vec::new, |f| nearest(&f.at, n.index, trace));
    let near = near_lines(&near, trace);
    lines.extend(near.into_iter().map(|l| format!("    nearest: {l}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::NotInjected;

    fn seeds(tries: &[u8]) -> Seeds {
        Seeds {
            given: tries.len() as u64,
            waiting: tries
                .iter()
                .enumerate()
                .map(|(i, tries)| Waiting {
                    name: format!("s{i}"),
                    sequence: FaultSequence::empty("t"),
                    tries: *tries,
                })
                .collect(),
            last: 10,
            ..Seeds::default()
        }
    }

    #[test]
    fn which_seed_is_next() {
        // Tries made of each that waits, sequences tested, nothing else left, which one.
        type Case<'a> = (&'a [u8], u64, bool, Option<usize>);
        let table: [Case<'_>; 9] = [
            (&[], 0, true, None),
            (&[0, 0], 0, false, Some(0)),
            (&[1, 0], 11, false, Some(1)),
            (&[1, 1], 11, false, None),
            (&[1, 1], 34, false, None),
            (&[1, 1], 35, false, Some(0)),
            (&[2, 1], 35, false, Some(1)),
            (&[2, 1], 11, true, Some(1)),
            (&[2], 36, false, Some(0)),
        ];
        for (tries, sequences, exhausted, want) in table {
            assert_eq!(
                seeds(tries).next(sequences, exhausted),
                want,
                "{tries:?} {sequences} {exhausted}"
            );
        }
    }

    #[test]
    fn what_became_of_it() {
        let record = |full: bool| RunRecord {
            not_injected: (!full).then(|| NotInjected {
                index: 0,
                reason: "bound".into(),
                detail: String::new(),
                nearest: 0,
            }),
            ..RunRecord::default()
        };
        let judged = |verdict, void: bool| Judgement {
            verdict,
            void: void.then(|| "slot lost".into()),
            ..Judgement::default()
        };
        use Verdict::{Fail, Pass, Unknown};
        // Injected in full, verdict, void, kept.
        for (full, verdict, void, kept, want) in [
            (true, Pass, false, true, Tried::Kept),
            (true, Unknown, false, false, Tried::Other),
            (true, Fail, false, false, Tried::Failing),
            // Its bug was saved often enough.
            (true, Fail, false, true, Tried::Kept),
            (false, Fail, false, false, Tried::Missed),
            // The prefix may be kept: the seed itself did not match.
            (false, Pass, false, true, Tried::Missed),
            (true, Pass, true, false, Tried::Missed),
        ] {
            let (record, judgement) = (record(full), judged(verdict, void));
            assert_eq!(tried(&record, &judgement, kept), want);
            let in_full = full && !void && verdict != Fail;
            assert_eq!(keeps_seed(&record, &judgement), in_full);
        }
    }

    #[test]
    fn none_is_dropped_in_silence() {
        let mut s = seeds(&[0, 0, 0, 0]);
        assert!(s.report().is_empty(), "not all were tried");
        assert!(!s.tried(0, Tried::Kept, 11));
        assert!(!s.tried(0, Tried::Failing, 12));
        assert!(!s.tried(0, Tried::Missed, 13));
        s.missed.push("  s2: why".into());
        assert!(!s.tried(1, Tried::Other, 14));
        assert_eq!((s.kept, s.failing, s.other, s.unmatched()), (1, 1, 1, 1));
        let told = s.report();
        assert_eq!(
            told,
            [
                "seeds: 4 given, 1 kept, 1 failing, 1 did not match",
                "  s2: why"
            ]
        );
        assert!(s.report().is_empty(), "told once");
        assert!(!s.tried(0, Tried::Missed, 39));
        assert!(s.tried(0, Tried::Missed, 64), "the third try");
        assert!(s.waiting.is_empty());
        assert_eq!(s.unmatched(), 1);
    }

    #[test]
    fn orig_fits_a_name() {
        for (name, want) in [
            ("leader-crash.toml", "leader-crash.toml"),
            ("id:000001,src:000000", "id:000001_src:000000"),
            ("a/b\n", "a_b_"),
        ] {
            assert_eq!(orig(name), want);
        }
        assert_eq!(orig(&"é".repeat(200)).len(), ORIG_MAX);
    }
}
