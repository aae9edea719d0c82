//! The feedback that keeps nothing by itself but seeds: when another one keeps a run, it writes `runs/<id>.run` (the queue entry
//! comes after the journal's record) and gives the entry AFL's name.

use super::import::{Importing, keeps_seed};
use super::session::Clock;
use crate::campaign::run_file::Shown;
use crate::campaign::state::hook;
use crate::campaign::{EntryName, Folder, FuzzError, StoredRun, names};
use crate::search::Bounds;
use libafl::corpus::{Corpus, Testcase};
use libafl::executors::ExitKind;
use libafl::feedbacks::{Feedback, StateInitializer};
use libafl::state::{HasCorpus, HasExecutions};
use libafl::{Error, HasMetadata};
use libafl_bolts::tuples::{Handle, MatchName, MatchNameRef};
use libafl_bolts::{Named, ToSlice};
use std::borrow::Cow;
use warren_feedback::{COVERAGE, CoverageObserver, KeptInfo, MatchedSequences, RUN, RunObserver};
use warren_model::FaultSequence;

/// Put after the feedback that decides: it reads the metadata that one leaves.
#[derive(Clone, Debug)]
pub struct StoreFeedback {
    coverage: Handle<CoverageObserver>,
    run: Handle<RunObserver>,
    folder: Folder,
    clock: Clock,
}

impl StoreFeedback {
    /// Stores into a campaign's folder.
    #[must_use]
    pub fn new(folder: Folder, clock: Clock) -> Self {
        StoreFeedback {
            coverage: Handle::new(Cow::Borrowed(COVERAGE)),
            run: Handle::new(Cow::Borrowed(RUN)),
            folder,
            clock,
        }
    }
}

impl Named for StoreFeedback {
    fn name(&self) -> &Cow<'static, str> {
        static NAME: Cow<'static, str> = Cow::Borrowed("store");
        &NAME
    }
}

impl<S> StateInitializer<S> for StoreFeedback {}

impl<EM, OT, S> Feedback<EM, FaultSequence, OT, S> for StoreFeedback
where
    OT: MatchName,
    S: HasCorpus<FaultSequence> + HasExecutions + HasMetadata,
{
    /// Seeds only: they are kept although nothing about them is new.
    fn is_interesting(
        &mut self,
        state: &mut S,
        _manager: &mut EM,
        _input: &FaultSequence,
        observers: &OT,
        _kind: &ExitKind,
    ) -> Result<bool, Error> {
        Ok(state.has_metadata::<Importing>()
            && observers
                .get(&self.run)
                .is_some_and(|run| keeps_seed(run.record(), run.judgement())))
    }

    fn append_metadata(
        &mut self,
        state: &mut S,
        _manager: &mut EM,
        observers: &OT,
        testcase: &mut Testcase<FaultSequence>,
    ) -> Result<(), Error> {
        let run = observers
            .get(&self.run)
            .ok_or_else(|| Error::key_not_found("no observer `run`"))?;
        let map = observers
            .get(&self.coverage)
            .ok_or_else(|| Error::key_not_found("no observer `coverage`"))?
            .to_slice();
        let id = usize::from(state.corpus().peek_free_id()) as u64;
        let parent = state.corpus().current().map(|c| usize::from(c) as u64);
        let stored = StoredRun {
            id,
            parent,
            record: run.record().clone(),
            trace: run.trace().clone(),
            bounds: Bounds::of(run.product()),
            shown: Some(Shown::new(map, run.states())),
            whole_ms: run.product().whole_ms(),
        };
        stored.write(&self.folder.runs()).map_err(|e| match e {
            // Comes out again as `FuzzError::Disk`.
            FuzzError::Io {
                doing,
                path,
                source,
            } => Error::os_error(
                source,
                format!("writing a kept run: {doing} {}", path.display()),
            ),
            other => Error::illegal_state(other.to_string()),
        })?;
        hook::point("run-file");
        let name = EntryName {
            id,
            sync: None,
            src: parent,
            orig: parent.is_none().then(|| {
                state
                    .metadata_map()
                    .get::<Importing>()
                    .map_or_else(|| "fault-free".to_owned(), |i| i.orig.clone())
            }),
            time_ms: self.clock.fuzz_ms(),
            execs: *state.executions(),
            op: stored.matched().map_or_else(String::new, names::op),
            new_coverage: testcase
                .metadata::<KeptInfo>()
                .is_ok_and(|k| k.new_slots > 0),
            bug: None,
        };
        // Of a seed that was not new nobody else takes note: a child that comes to the same would be kept once more.
        if let Ok(kept) = testcase.metadata::<KeptInfo>() {
            let matched = kept.matched;
            state
                .metadata_or_insert_with(MatchedSequences::default)
                .ids
                .insert(matched);
        }
        *testcase.filename_mut() = Some(name.to_string());
        testcase.set_executions(*state.executions());
        Ok(())
    }
}
