//! LibAFL's observers, feedback and objective over the pure parts of this crate. Put together by `fuzzer/`; thin on purpose: every
//! rule here is a small pure function beside the trait it is called from.
//!
//! How a run passes through (LibAFL 0.16.1): `pre_exec` zeroes coverage and forgets the last run; the executor's `run_target` calls
//! [`sink`], which copies the map and the product in; `post_exec` of [`RunObserver`] judges; the objective is asked first, and
//! only when it says no is [`KeepFeedback`] asked.

mod feedback;
mod objective;
mod observer;

pub use feedback::{KeepFeedback, KeptInfo, MatchedSequences};
pub use objective::{SAVED_EACH, SavedBugs, VerdictObjective};
pub use observer::{
    COVERAGE, CoverageObserver, RUN, RunObserver, coverage_observer, matched_id, sink,
};

#[cfg(test)]
mod tests;
