//! Judges a run: coverage novelty, states, checkers, signatures; and, in [`libafl_module`], LibAFL's observers, feedbacks
//! and objective over them.
//!
//! Called by `fuzzer/` with the product of each run. It starts no process, opens no file and reads no clock: values in, values
//! out, so the same product and the same state always give the same judgement. It knows no target's name: what a system may do
//! comes in [`warren_model::Rules`], what it did comes in the operation history and the observations.

pub mod check;
pub mod coverage;
pub mod judge;
pub mod libafl_module;
mod log_parts;
mod log_spans;
pub mod logs;
pub mod signature;
pub mod states;

pub use check::CheckResult;
pub use coverage::KnownSlots;
pub use judge::{Judge, Learned, RuleError};
pub use libafl_module::{
    COVERAGE, CoverageObserver, KeepFeedback, KeptInfo, MatchedSequences, RUN, RunObserver,
    SavedBugs, VerdictObjective, coverage_observer, sink,
};
pub use states::KnownStates;
