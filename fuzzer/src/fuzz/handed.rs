//! What LibAFL hands to a stage, as one argument: the fuzzer, the executor, the state, the event manager; and what each of the first two
//! must be.
//!
//! Made at LibAFL's border (`engine`, and `perform` of the stage), passed on by all that makes runs. It refuses to hold anything of the
//! campaign's own: that is the session's.

use super::State;
use super::drive::{Drive, Observers};
use libafl::Error;
use libafl::corpus::CorpusId;
use libafl::executors::{ExitKind, HasObservers};
use libafl::fuzzer::{ExecuteInputResult, ExecutesInput, ExecutionProcessor};
use warren_model::FaultSequence;

/// An executor that can be driven and leaves what a run showed in the campaign's observers.
pub trait Cluster: HasObservers<Observers = Observers> + Drive {}

impl<E: HasObservers<Observers = Observers> + Drive> Cluster for E {}

/// A fuzzer that makes runs and evaluates them.
pub trait Fuzzes<E, EM>:
    ExecutesInput<E, EM, FaultSequence, State> + ExecutionProcessor<EM, FaultSequence, Observers, State>
{
}

impl<E, EM, Z> Fuzzes<E, EM> for Z where
    Z: ExecutesInput<E, EM, FaultSequence, State>
        + ExecutionProcessor<EM, FaultSequence, Observers, State>
{
}

/// LibAFL's four. Each field is borrowed by itself, so what is in the observers can be read while the state is written.
pub struct Handed<'a, E, EM, Z> {
    pub fuzzer: &'a mut Z,
    pub executor: &'a mut E,
    pub state: &'a mut State,
    pub manager: &'a mut EM,
}

impl<E: Cluster, EM, Z: Fuzzes<E, EM>> Handed<'_, E, EM, Z> {
    /// Runs it, or takes the run of it that the executor hands over next.
    ///
    /// # Errors
    /// The cluster cannot be run any more.
    pub fn execute(&mut self, sequence: &FaultSequence) -> Result<ExitKind, Error> {
        (self.fuzzer).execute_input(self.state, self.executor, self.manager, sequence)
    }

    /// Lets LibAFL judge the run in the observers, and keep it.
    ///
    /// # Errors
    /// As LibAFL's.
    pub fn evaluate(
        &mut self,
        sequence: &FaultSequence,
        kind: &ExitKind,
    ) -> Result<(ExecuteInputResult, Option<CorpusId>), Error> {
        self.fuzzer.evaluate_execution(
            self.state,
            self.manager,
            sequence,
            &*self.executor.observers(),
            kind,
            true,
        )
    }
}
