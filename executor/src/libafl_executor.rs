//! LibAFL's view of the runner: an `Executor` for fault sequences. Thin on purpose.
//!
//! With slots side by side a run is started ahead, and `run_target` is where its product is handed over: LibAFL sees one run after
//! the other, each with its own observers' pre_exec and post_exec (decision 0006).
//!
//! Built by fuzzer/, which supplies the observers and the sink that hands each product to feedback's observers. Judges nothing.

use crate::run::{RunError, RunOptions, Runner};
use crate::side_by_side::{Ended, SideBySide};
use libafl::Error;
use libafl::executors::{Executor, ExitKind, HasObservers};
use libafl::state::HasExecutions;
use libafl_bolts::tuples::RefIndexable;
use std::sync::Arc;
use warren_model::{FaultSequence, RunProduct};

/// Runs fault sequences on clusters. `OT` are the observers; `K` gets the product of each run before `post_exec`.
pub struct ClusterExecutor<OT, K> {
    runner: Arc<Runner>,
    options: RunOptions,
    observers: OT,
    sink: K,
    side_by_side: SideBySide,
    /// What the next `run_target` hands over in place of a run.
    ended: Option<Ended>,
}

impl<OT, K> ClusterExecutor<OT, K>
where
    K: FnMut(RunProduct, &mut OT),
{
    /// An executor over a runner.
    pub fn new(runner: Runner, options: RunOptions, observers: OT, sink: K) -> Self {
        ClusterExecutor {
            runner: Arc::new(runner),
            options,
            observers,
            sink,
            side_by_side: SideBySide::default(),
            ended: None,
        }
    }

    /// The runner, for its shape and rules.
    #[must_use]
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The runner, to change its settings between runs.
    ///
    /// # Errors
    /// A run goes on.
    pub fn runner_mut(&mut self) -> Result<&mut Runner, Error> {
        Arc::get_mut(&mut self.runner)
            .ok_or_else(|| Error::illegal_state("settings cannot change while a run goes on"))
    }

    /// Starts a run under a number that no other one has now.
    ///
    /// # Errors
    /// The system gives no thread, and no run has worked yet.
    pub fn start(
        &mut self,
        ticket: usize,
        sequence: &FaultSequence,
        options: RunOptions,
    ) -> Result<(), Error> {
        let runner = Arc::clone(&self.runner);
        self.side_by_side
            .start(ticket, runner, sequence.clone(), options)
            .map_err(|e| Error::runtime(e.to_string()))
    }

    /// Waits for the next started run that ends: its number, or none when none goes on. The next `run_target` hands it over.
    pub fn next_ended(&mut self) -> Option<usize> {
        let (ticket, ended) = self.side_by_side.next()?;
        self.ended = Some(ended);
        Some(ticket)
    }

    /// Whether the started run of this number has ended: then the next `run_target` hands it over.
    pub fn take_ended(&mut self, ticket: usize) -> bool {
        match self.side_by_side.take(ticket) {
            Some(ended) => {
                self.ended = Some(ended);
                true
            }
            None => false,
        }
    }

    /// Started runs that go on.
    pub fn going_on(&self) -> usize {
        self.side_by_side.going_on()
    }

    /// Waits for a started run to end, which is still to be asked for; false when none goes on.
    pub fn wait_for_one(&mut self) -> bool {
        self.side_by_side.wait_for_one()
    }

    /// Waits until no started run goes on; what they came to is still to be asked for.
    pub fn wait_for_all(&mut self) {
        self.side_by_side.wait_for_all();
    }

    /// Options of the next run (seed, limit, durability): set just before a sequence is evaluated.
    pub fn options_mut(&mut self) -> &mut RunOptions {
        &mut self.options
    }
}

impl<EM, S, Z, OT, K> Executor<EM, FaultSequence, S, Z> for ClusterExecutor<OT, K>
where
    S: HasExecutions,
    K: FnMut(RunProduct, &mut OT),
{
    /// `Timeout` for a run over its limit, `Ok` for every other: what it means is the observers' business.
    fn run_target(
        &mut self,
        _fuzzer: &mut Z,
        state: &mut S,
        _mgr: &mut EM,
        input: &FaultSequence,
    ) -> Result<ExitKind, Error> {
        // Nobody else counts executions.
        *state.executions_mut() += 1;
        let product = match self.ended.take() {
            Some(ended) => ended,
            None => self.runner.run(input, &self.options),
        }
        .map_err(|e: RunError| Error::runtime(e.to_string()))?;
        let kind = if product.record.timed_out {
            ExitKind::Timeout
        } else {
            ExitKind::Ok
        };
        (self.sink)(product, &mut self.observers);
        Ok(kind)
    }
}

impl<OT, K> HasObservers for ClusterExecutor<OT, K> {
    type Observers = OT;

    fn observers(&self) -> RefIndexable<&Self::Observers, Self::Observers> {
        RefIndexable::from(&self.observers)
    }

    fn observers_mut(&mut self) -> RefIndexable<&mut Self::Observers, Self::Observers> {
        RefIndexable::from(&mut self.observers)
    }
}
