//! The LibAFL fuzzer put together: options, learning runs, loop, limits, confirmation. Called by the CLI.
//!
//! Refuses to parse arguments, to draw a screen, and to touch processes: those are cli/, ui/ and the executor's.

mod cluster;
mod confirm;
mod drive;
mod engine;
mod learn;
mod options;
mod session;
mod snapshot;
mod stage;
mod store;
#[cfg(test)]
mod tests;

pub use cluster::run;
pub use drive::{Drive, Limits, Observers, median};
pub use engine::{Manager, Std, campaign};
pub use options::{EndReason, FaultSet, FuzzEnd, FuzzError, FuzzOptions, StrategyKind};
pub use session::describe;
pub use snapshot::{CurrentRun, FindLine, InjectedRates, NodeState, SharedSnapshot, Snapshot};

use crate::search::XoRand;
use libafl::corpus::{InMemoryCorpus, InMemoryOnDiskCorpus};
use libafl::state::StdState;
use warren_model::FaultSequence;

/// LibAFL's state: kept runs on disk under AFL's names, failing runs in memory (the campaign writes what stands).
pub type State = StdState<
    InMemoryOnDiskCorpus<FaultSequence>,
    FaultSequence,
    XoRand,
    InMemoryCorpus<FaultSequence>,
>;
