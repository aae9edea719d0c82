//! LibAFL's view of the runner: an `Executor` for fault sequences. Thin on purpose.
//!
//! Built by fuzzer/, which supplies the observers and the sink that hands each product to feedback's observers. Judges nothing.

use crate::run::{RunOptions, Runner};
use libafl::Error;
use libafl::executors::{Executor, ExitKind, HasObservers};
use libafl::state::HasExecutions;
use libafl_bolts::tuples::RefIndexable;
use warren_model::{FaultSequence, RunProduct};

/// Runs fault sequences on clusters. `OT` are the observers; `K` gets the product of each run before `post_exec`.
pub struct ClusterExecutor<OT, K> {
    runner: Runner,
    options: RunOptions,
    observers: OT,
    sink: K,
}

impl<OT, K> ClusterExecutor<OT, K>
where
    K: FnMut(RunProduct, &mut OT),
{
    /// An executor over a runner.
    pub fn new(runner: Runner, options: RunOptions, observers: OT, sink: K) -> Self {
        ClusterExecutor {
            runner,
            options,
            observers,
            sink,
        }
    }

    /// The runner, for its shape and rules.
    #[must_use]
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The runner, to change its settings between runs.
    pub fn runner_mut(&mut self) -> &mut Runner {
        &mut self.runner
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
        let product = self
            .runner
            .run(input, &self.options)
            .map_err(|e| Error::runtime(e.to_string()))?;
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
