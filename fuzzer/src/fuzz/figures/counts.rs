//! The clock and the plain counts of a campaign: saved with its state, shown in fuzzer_stats. Filled by session and stage; they know
//! nothing of files.

use crate::campaign::{InjectedRates, Spared};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use warren_model::{Fault, Judgement, PhaseTimes, RunRecord, Verdict};

/// Fuzzing time of the campaign, over all processes that worked on it; shared by session and store.
#[derive(Clone, Debug, Default)]
pub struct Clock(Rc<Times>);

#[derive(Debug, Default)]
struct Times {
    /// Of processes before this one.
    before: Cell<Duration>,
    began: Cell<Option<Instant>>,
}

impl Clock {
    /// The first fuzzed run of this process begins.
    pub fn start(&self) {
        self.0.began.set(Some(Instant::now()));
    }

    /// An earlier process fuzzed so long.
    pub fn resume_at(&self, before: Duration) {
        self.0.before.set(before);
    }

    /// A pause of the user's is no fuzzing time.
    pub fn shift(&self, pause: Duration) {
        self.0.began.set(self.0.began.get().map(|t| t + pause));
    }

    /// Fuzzing time so far; zero in learning.
    #[must_use]
    pub fn fuzz_time(&self) -> Duration {
        self.0.before.get() + self.here()
    }

    /// Fuzzing time of this process.
    #[must_use]
    pub fn here(&self) -> Duration {
        self.0.began.get().map_or(Duration::ZERO, |t| t.elapsed())
    }

    /// The same over all, in ms.
    #[must_use]
    pub fn fuzz_ms(&self) -> u64 {
        u64::try_from(self.fuzz_time().as_millis()).unwrap_or(u64::MAX)
    }

    /// When this process began to fuzz.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        self.0.began.get()
    }

    /// When the campaign would have begun, had it never been interrupted.
    #[must_use]
    pub fn started_all(&self) -> Option<Instant> {
        let began = self.0.began.get()?;
        Some(began.checked_sub(self.0.before.get()).unwrap_or(began))
    }
}

/// Plain counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub sequences: u64,
    pub learning_runs: u64,
    pub rates: InjectedRates,
    /// `one_fault_<reason>` and `longer_<reason>`, of first tries: together asked minus full.
    pub not_injected: BTreeMap<String, u64>,
    pub with_reboot: u64,
    pub with_partition: u64,
    pub failing: u64,
    pub unknowns: u64,
    pub voids: u64,
    /// Runs that the user gave up (key n).
    pub stopped: u64,
    pub timeouts: u64,
    pub durable: u64,
    pub kept: u64,
    /// Runs taken over from other instances.
    pub imported: u64,
    pub max_depth: u64,
    pub slowest_ms: u64,
    pub spared: Spared,
    pub saved_crashes: u64,
    pub saved_hangs: u64,
    pub execs_at_crash: u64,
    /// Fuzzing ms of the last of each.
    pub last_find: Option<u64>,
    pub last_crash: Option<u64>,
    pub last_hang: Option<u64>,
    /// Sums of phase times over tested sequences, and of how many: a void run has no times worth a mean.
    phase_sums: PhaseTimes,
    timed: u64,
}

impl Counts {
    /// A sequence was tested: its last run (retests replaced earlier ones).
    pub fn tested(&mut self, record: &RunRecord, judgement: &Judgement, first_try: bool) {
        self.sequences += 1;
        let asked = record.sequence.as_ref().map_or(0, |s| s.faults.len());
        let full = record.not_injected.is_none();
        if first_try {
            let length = if asked <= 1 { "one_fault" } else { "longer" };
            if let Some(n) = &record.not_injected {
                let key = format!("{length}_{}", n.reason);
                *self.not_injected.entry(key).or_default() += 1;
            }
            let (of, done) = if asked <= 1 {
                (
                    &mut self.rates.one_fault_asked,
                    &mut self.rates.one_fault_full,
                )
            } else {
                (&mut self.rates.longer_asked, &mut self.rates.longer_full)
            };
            *of += 1;
            *done += u64::from(full);
            if full {
                self.rates.drift += u64::from(record.injected.iter().any(|i| i.drift.is_some()));
                self.rates.late += u64::from(record.injected.iter().any(|i| i.late));
            }
        }
        let any = |f: fn(&Fault) -> bool| record.injected.iter().any(|i| f(&i.matched.fault));
        self.with_reboot += u64::from(any(|f| matches!(f, Fault::Reboot { .. })));
        self.with_partition += u64::from(any(|f| matches!(f, Fault::PartitionStart { .. })));
        self.failing += u64::from(judgement.verdict == Verdict::Fail);
        self.unknowns +=
            u64::from(judgement.verdict == Verdict::Unknown && judgement.void.is_none());
        self.max_depth = self.max_depth.max(record.injected.len() as u64);
        self.timed += 1;
        let (sum, t) = (&mut self.phase_sums, &record.times);
        for (s, v) in [
            (&mut sum.slot, t.slot),
            (&mut sum.start, t.start),
            (&mut sum.setup, t.setup),
            (&mut sum.test, t.test),
            (&mut sum.degraded, t.degraded),
            (&mut sum.heal, t.heal),
            (&mut sum.finale, t.finale),
            (&mut sum.collect, t.collect),
            (&mut sum.total, t.total),
        ] {
            *s += v;
        }
    }

    /// Time of all test phases that `phase_means` counts, ms, and their number.
    #[must_use]
    pub fn test_ms(&self) -> (u64, u64) {
        (self.phase_sums.test, self.timed)
    }

    /// Mean ms of each phase over tested sequences that were not void.
    #[must_use]
    pub fn phase_means(&self) -> Vec<(String, u64)> {
        let s = &self.phase_sums;
        [
            ("slot", s.slot),
            ("start", s.start),
            ("setup", s.setup),
            ("test", s.test),
            ("degraded", s.degraded),
            ("heal", s.heal),
            ("final", s.finale),
            ("collect", s.collect),
            ("total", s.total),
        ]
        .map(|(name, sum)| (name.to_owned(), sum.checked_div(self.timed).unwrap_or(0)))
        .to_vec()
    }
}
