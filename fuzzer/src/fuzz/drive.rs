//! What the loop needs of an executor beside LibAFL's traits, so that tests can put a made-up cluster in its place.

use libafl::Error;
use libafl_bolts::tuples::tuple_list_type;
use std::time::Duration;
use warren_executor::RunOptions;
use warren_feedback::{CoverageObserver, RunObserver};
use warren_model::{
    ClusterShape, Failure, FailureKind, FaultSequence, Judgement, RunRecord, StackId,
};

/// The observers of a campaign, in this order.
pub type Observers = tuple_list_type!(CoverageObserver, RunObserver);

/// An executor whose next run can be described.
pub trait Drive {
    /// Options of the next run.
    fn options_mut(&mut self) -> &mut RunOptions;

    /// What the constraints need to know.
    fn shape(&self) -> &ClusterShape;

    /// The target says itself when its start is over (`[started]`): every point of that phase is to be met again.
    fn whole_start(&self) -> bool;

    /// Kernel cuts work: `drop` may be drawn. Else why not.
    fn kernel_cuts(&self) -> Result<(), String>;

    /// Bytes of the coverage map.
    fn map_size(&self) -> usize;

    /// Takes another map size for the next run, observers included.
    ///
    /// # Errors
    /// A run goes on.
    fn resize_map(&mut self, size: usize) -> Result<(), Error>;

    /// Learns which stacks are background (once a target; cached by the executor).
    ///
    /// # Errors
    /// The cluster could not be run.
    fn learn_background(&mut self) -> Result<Vec<StackId>, Error>;

    /// Makes this snapshot of the target ready, so that runs can start from it; else why they cannot.
    ///
    /// # Errors
    /// The cluster could not be run.
    fn warm(&mut self, number: u8) -> Result<Result<(), String>, Error>;

    /// Takes up the background stacks that an earlier process of this campaign learned.
    ///
    /// # Errors
    /// A run goes on.
    fn take_up_background(&mut self, stacks: &[StackId]) -> Result<(), Error>;

    /// Starts a run in a slot of its own, beside others, under a number that none of them has.
    ///
    /// # Errors
    /// The system gives no more threads.
    fn start(
        &mut self,
        ticket: usize,
        sequence: &FaultSequence,
        options: RunOptions,
    ) -> Result<(), Error>;

    /// A run of this sequence that began from a prefix snapshot has failed: no other is to begin from that one.
    fn distrust_prefix(&self, sequence: &FaultSequence);

    /// Clusters that the machine's memory has room for now.
    fn room(&self) -> usize;

    /// Waits for the next started run that ends, or takes one that has: its number, none when there is none. The next
    /// `run_target` hands its product over and runs nothing.
    fn next_ended(&mut self) -> Option<usize>;

    /// Whether the started run of this number has ended: then the next `run_target` hands its product over and runs nothing.
    fn take_ended(&mut self, ticket: usize) -> bool;

    /// Started runs that go on.
    fn going_on(&self) -> usize;

    /// Waits for a started run to end; it is still to be asked for. False when none goes on.
    fn wait_for_one(&mut self) -> bool;

    /// Waits until no started run goes on; they are still to be asked for. What runs next has the machine for itself.
    fn wait_for_all(&mut self);
}

/// Limits of a run, from the learning runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Wall time of one run.
    pub run: Duration,
    /// Wait for one fault.
    pub fault_wait: Duration,
}

impl Limits {
    /// The longer of each: cold runs are slower than restored ones, and runs side by side slower than one alone.
    #[must_use]
    pub fn widened(self, by: Limits) -> Self {
        Limits {
            run: self.run.max(by.run),
            fault_wait: self.fault_wait.max(by.fault_wait),
        }
    }

    /// Of a run that is to show a failure of this run again. A run over its limit is made once more with twice that before it is judged, so a
    /// failure of service may need as long to be seen: with less, one that shows every time would never show again. A safety failure needs it
    /// where its run took it.
    #[must_use]
    pub fn again(self, failure: &Failure, record: &RunRecord, judgement: &Judgement) -> Duration {
        let took = Duration::from_millis(record.times.total);
        let longer = took > self.run && !record.timed_out || took > self.run * 2;
        // Only a run with twice the limit is a hang.
        let hangs = judgement
            .failures
            .iter()
            .any(|f| f.kind == FailureKind::Hang);
        match failure.kind {
            FailureKind::Safety if !longer && !hangs => self.run,
            _ => self.run * 2,
        }
    }

    /// max(20 s, 5 x the median fault-free run, `least`), max(5 s, 3 x the median test phase, `least`); `asked` is `-t`. Times in ms.
    #[must_use]
    pub fn from_learning(
        totals: &[u64],
        tests: &[u64],
        least: Limits,
        asked: Option<Duration>,
    ) -> Self {
        let seconds = Duration::from_secs;
        let learned = Duration::from_millis(5 * median(totals));
        Limits {
            run: asked.unwrap_or_else(|| seconds(20).max(learned).max(least.run)),
            fault_wait: seconds(5)
                .max(Duration::from_millis(3 * median(tests)))
                .max(least.fault_wait),
        }
    }
}

/// The median; of an even number the upper one; 0 of none.
#[must_use]
pub fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (kinds of the run's failures, ms it took, over its limit) -> seconds for the first of them.
    #[test]
    fn what_is_to_show_again_is_given_what_its_run_had() {
        use FailureKind::{Hang, Liveness, Safety};
        let limits = Limits {
            run: Duration::from_secs(20),
            fault_wait: Duration::from_secs(5),
        };
        let table: [(&[FailureKind], u64, bool, u64); 9] = [
            (&[Safety], 9_000, false, 20),
            (&[Safety, Liveness], 20_000, false, 20),
            // It stood by its evidence when its limit ended it.
            (&[Safety], 20_400, true, 20),
            // Its first run showed nothing in one limit, the retest did.
            (&[Safety], 31_000, false, 40),
            (&[Safety], 40_300, true, 40),
            (&[Safety, Hang], 39_900, true, 40),
            (&[Liveness], 9_000, false, 40),
            (&[Liveness, Hang], 40_300, true, 40),
            (&[Hang], 40_300, true, 40),
        ];
        for (kinds, total, timed_out, seconds) in table {
            let failure = |kind: &FailureKind| Failure {
                checker: "c".into(),
                kind: *kind,
                stage: warren_model::Stage::Healed,
                role: None,
                node: None,
                evidence: vec![],
                normalised: String::new(),
                signature: "00000001".into(),
            };
            let judgement = Judgement {
                failures: kinds.iter().map(failure).collect(),
                ..Judgement::default()
            };
            let mut record = RunRecord::default();
            (record.times.total, record.timed_out) = (total, timed_out);
            let got = limits.again(&judgement.failures[0], &record, &judgement);
            assert_eq!(got.as_secs(), seconds, "{kinds:?} {total} {timed_out}");
        }
    }

    #[test]
    fn limits() {
        let l = |totals: &[u64], tests: &[u64]| {
            Limits::from_learning(totals, tests, Limits::default(), None)
        };
        let s = Duration::from_secs;
        assert_eq!(
            l(&[], &[]),
            Limits {
                run: s(20),
                fault_wait: s(5)
            }
        );
        assert_eq!(
            l(&[3000, 3100, 2900], &[1000]),
            Limits {
                run: s(20),
                fault_wait: s(5)
            }
        );
        assert_eq!(
            l(&[6000, 9000, 5000], &[4000]),
            Limits {
                run: s(30),
                fault_wait: s(12)
            }
        );
        let least = |run, fault_wait| Limits { run, fault_wait };
        let slow = Limits::from_learning(&[3000], &[100], least(s(28), s(0)), None);
        let sessions = Limits::from_learning(&[3000], &[100], least(s(0), s(10)), None);
        assert_eq!((sessions.run, sessions.fault_wait), (s(20), s(10)));
        assert_eq!(slow.run, s(28));
        assert_eq!(slow.widened(l(&[9000], &[4000])).run, s(45));
        assert_eq!(slow.widened(l(&[], &[4000])).fault_wait, s(12));
        let asked = Limits::from_learning(&[6000], &[100], least(s(28), s(0)), Some(s(7)));
        assert_eq!(asked.run, s(7));
    }
}
