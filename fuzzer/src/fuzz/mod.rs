//! The LibAFL fuzzer put together: options, learning runs, loop, limits, confirmation. Called by the CLI.
//!
//! Refuses to parse arguments, to draw a screen, and to touch processes: those are cli/, ui/ and the executor's.

mod cluster;
mod confirming;
mod drive;
mod engine;
mod figures;
mod handed;
mod import;
mod instances;
mod job;
mod kept;
mod learning;
mod options;
mod parts;
mod resume;
mod session;
mod slots;
mod stage;
mod store;
#[cfg(test)]
mod tests;

pub use cluster::run;
pub use confirming::tally::NEEDED;
pub use drive::{Drive, Limits, Observers, median};
pub use engine::{Manager, Std, campaign};
pub use figures::describe::describe;
pub use figures::snapshot::{CurrentRun, FindKind, FindLine, NodeState, SharedSnapshot, Snapshot};
pub use instances::beside::check_main;
pub use instances::sync::common_identity;
pub use learning::starts_asked::Starts;
pub use options::{COUNTED, EndReason, FuzzEnd, FuzzOptions};
pub use resume::saved::{check_resume, differences};
pub use resume::tested::{Tested, differences_told, is_of_tested};

use crate::search::XoRand;
use libafl::corpus::InMemoryCorpus;
use libafl::state::StdState;
use warren_model::FaultSequence;

/// LibAFL's state. Its corpora hold no inputs: kept runs lie in runs/, their entries in queue/ are written after the journal's record
/// (campaign/state), and the campaign writes those failing runs that stand.
pub type State =
    StdState<InMemoryCorpus<FaultSequence>, FaultSequence, XoRand, InMemoryCorpus<FaultSequence>>;
