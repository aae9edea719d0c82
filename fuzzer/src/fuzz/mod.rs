//! The LibAFL fuzzer put together: options, learning runs, loop, limits, confirmation. Called by the CLI.
//!
//! Refuses to parse arguments, to draw a screen, and to touch processes: those are cli/, ui/ and the executor's.

mod options;
mod snapshot;

pub use options::{EndReason, FaultSet, FuzzEnd, FuzzError, FuzzOptions, StrategyKind};
pub use snapshot::{CurrentRun, FindLine, InjectedRates, NodeState, SharedSnapshot, Snapshot};
