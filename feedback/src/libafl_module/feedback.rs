//! Which runs become seeds. CrashFuzz section III-D: a run is kept if it has new coverage or its last fault is a crash; with
//! partitions on, a partition-start counts like a crash. With state novelty on, a new state counts like new
//! coverage; states are counted either way, so that searches without it can be compared by them.

use super::objective::SavedBugs;
use super::observer::{COVERAGE, CoverageObserver, RUN, RunObserver, matched_id, missing};
use crate::coverage::{KnownSlots, slots_set};
use crate::states::KnownStates;
use libafl::{
    Error, HasMetadata,
    corpus::Testcase,
    executors::ExitKind,
    feedbacks::{Feedback, StateInitializer},
};
use libafl_bolts::{
    Named, ToSlice, impl_serdeany,
    tuples::{Handle, MatchName, MatchNameRef},
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use warren_model::{FaultKind, FaultSequence, Judgement, RunRecord, Verdict};

impl_serdeany!(KnownSlots);
impl_serdeany!(KnownStates);

/// Sequences that runs were kept for, as they really matched: the same one is not kept twice. Exact, so no run is lost to a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedSequences {
    pub ids: BTreeSet<u64>,
}
impl_serdeany!(MatchedSequences);

/// What the scheduler's score needs of a kept run; on its testcase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptInfo {
    /// Slots its run set.
    pub slots: usize,
    /// Slots nobody had set before it.
    pub new_slots: usize,
    /// Slots of the second map nobody had set before it.
    pub new_states: usize,
    /// It was kept for its last fault and nothing else.
    pub for_its_last_fault: bool,
    /// From GO to the end of the workload, ms.
    pub test_ms: u64,
    /// [`warren_model::RunProduct::whole_ms`].
    pub total_ms: u64,
    /// [`matched_id`] of its run.
    pub matched: u64,
    pub verdict: Verdict,
}
impl_serdeany!(KeptInfo);

/// Keeps seeds; see [`keeps`] for the rule. State: [`KnownSlots`], [`KnownStates`] and [`MatchedSequences`] in the state's metadata.
#[derive(Clone, Debug)]
pub struct KeepFeedback {
    coverage: Handle<CoverageObserver>,
    run: Handle<RunObserver>,
    by_states: bool,
    all: bool,
    new_slots: usize,
    new_states: usize,
}

impl KeepFeedback {
    /// Over the observers named `coverage` and `run`.
    #[must_use]
    pub fn new() -> Self {
        KeepFeedback {
            coverage: Handle::new(Cow::Borrowed(COVERAGE)),
            run: Handle::new(Cow::Borrowed(RUN)),
            by_states: false,
            all: false,
            new_slots: 0,
            new_states: 0,
        }
    }

    /// Whether runs are kept for new states too.
    #[must_use]
    pub fn by_states(mut self, by_states: bool) -> Self {
        self.by_states = by_states;
        self
    }

    /// Whether a run of all its faults is kept whatever it shows, and no other: then coverage guides nothing.
    #[must_use]
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Slots of both maps that count as new.
    fn new_found(&self) -> usize {
        self.new_slots + if self.by_states { self.new_states } else { 0 }
    }
}

impl Default for KeepFeedback {
    fn default() -> Self {
        Self::new()
    }
}

/// What the rule asks of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Or it ended before GO, as its workload could not be set up.
    pub void: bool,
    pub timed_out: bool,
    /// It fails, and one of its failures may be a bug that is not known well ([`SavedBugs::promises`]).
    pub fails_promising: bool,
    pub asked: usize,
    pub injected: usize,
    pub matched_before: bool,
    /// In the maps that count.
    pub new_found: usize,
    pub last_keeps: bool,
    /// Coverage guides nothing.
    pub all: bool,
}

/// Whether a run becomes a seed. Void runs say nothing. A run over its limit is decided by its retest. A failing run gets no
/// children until its bug is well saved, or fell often. A run with none of its faults is a fault-free run again. The fault-free run itself is
/// the root of the search. Else the paper's rule; where coverage guides nothing, all faults.
pub(super) fn keeps(f: &Facts) -> bool {
    if f.void || f.timed_out || f.fails_promising || f.matched_before {
        return false;
    }
    if f.asked == 0 {
        return true;
    }
    if f.all {
        return f.injected == f.asked;
    }
    f.injected > 0 && (f.new_found > 0 || f.last_keeps)
}

/// Whether a run's slots, of both maps, become known although it is not kept. What a passing run shows is noise once it was not worth a seed; what
/// a void or a promising failing run shows must stay new for a run that can be kept.
pub(super) fn teaches(f: &Facts) -> bool {
    !(f.void || f.timed_out || f.fails_promising)
}

/// Whether the last fault is one that a run is kept for.
fn last_keeps(record: &RunRecord) -> bool {
    let last = record.injected.last().map(|i| i.matched.fault.kind());
    matches!(last, Some(FaultKind::Crash | FaultKind::PartitionStart))
}

fn facts(
    record: &RunRecord,
    judgement: &Judgement,
    bugs: Option<&SavedBugs>,
    matched_before: bool,
    new_found: usize,
) -> Facts {
    let fails = judgement.verdict == Verdict::Fail;
    let promises = bugs.is_none_or(|b| b.promises(judgement));
    Facts {
        void: judgement.void.is_some() || record.set_up_failed(),
        timed_out: record.timed_out,
        fails_promising: fails && promises,
        asked: record.sequence.as_ref().map_or(0, |s| s.faults.len()),
        injected: record.injected.len(),
        matched_before,
        new_found,
        last_keeps: last_keeps(record),
        all: false,
    }
}

impl Named for KeepFeedback {
    fn name(&self) -> &Cow<'static, str> {
        static NAME: Cow<'static, str> = Cow::Borrowed("keep");
        &NAME
    }
}

impl<S: HasMetadata> StateInitializer<S> for KeepFeedback {
    fn init_state(&mut self, state: &mut S) -> Result<(), Error> {
        // Learning runs may have come first: what they taught stays.
        state.metadata_or_insert_with(KnownSlots::new);
        state.metadata_or_insert_with(KnownStates::default);
        state.metadata_or_insert_with(MatchedSequences::default);
        Ok(())
    }
}

impl<EM, OT, S> Feedback<EM, FaultSequence, OT, S> for KeepFeedback
where
    OT: MatchName,
    S: HasMetadata,
{
    fn is_interesting(
        &mut self,
        state: &mut S,
        _manager: &mut EM,
        _input: &FaultSequence,
        observers: &OT,
        _kind: &ExitKind,
    ) -> Result<bool, Error> {
        let run = observers.get(&self.run).ok_or_else(|| missing(RUN))?;
        let map = observers
            .get(&self.coverage)
            .ok_or_else(|| missing(COVERAGE))?
            .to_slice();
        let id = matched_id(run.record());
        let before = state
            .metadata_or_insert_with(MatchedSequences::default)
            .ids
            .contains(&id);
        let known = state.metadata_or_insert_with(KnownSlots::new);
        self.new_slots = known.new_in(map);
        let known = state.metadata_or_insert_with(KnownStates::default);
        self.new_states = known.new_among(run.states()).count();
        let mut facts = facts(
            run.record(),
            run.judgement(),
            state.metadata_map().get::<SavedBugs>(),
            before,
            self.new_found(),
        );
        facts.all = self.all;
        let keep = keeps(&facts);
        if keep || teaches(&facts) {
            state.metadata_mut::<KnownSlots>()?.learn(map);
            state.metadata_mut::<KnownStates>()?.learn(run.states());
        }
        if keep {
            state.metadata_mut::<MatchedSequences>()?.ids.insert(id);
        }
        Ok(keep)
    }

    /// The corpus holds runs as they really happened, so the testcase takes the matched sequence as its input.
    fn append_metadata(
        &mut self,
        _state: &mut S,
        _manager: &mut EM,
        observers: &OT,
        testcase: &mut Testcase<FaultSequence>,
    ) -> Result<(), Error> {
        let run = observers.get(&self.run).ok_or_else(|| missing(RUN))?;
        let map = observers
            .get(&self.coverage)
            .ok_or_else(|| missing(COVERAGE))?
            .to_slice();
        let record = run.record();
        testcase.add_metadata(KeptInfo {
            slots: slots_set(map),
            new_slots: self.new_slots,
            new_states: self.new_states,
            for_its_last_fault: self.new_found() == 0 && last_keeps(record),
            test_ms: record.times.test,
            total_ms: run.product().whole_ms(),
            matched: matched_id(record),
            verdict: run.judgement().verdict,
        });
        if let Some(matched) = &record.matched {
            testcase.set_input(matched.clone());
        }
        Ok(())
    }
}
