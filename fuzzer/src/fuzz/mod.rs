//! The LibAFL fuzzer put together: options, learning runs, loop, limits, confirmation. Called by the CLI.
//!
//! Refuses to parse arguments, to draw a screen, and to touch processes: those are cli/, ui/ and the executor's.

mod cluster;
mod confirm;
mod counts;
mod cpu;
mod describe;
mod drive;
mod engine;
mod finds;
mod handed;
mod import;
mod job;
mod kept;
mod learn;
mod learnt;
mod minimise;
mod options;
mod owed;
mod replayed_otherwise;
mod replays;
mod saved;
mod session;
mod side_by_side;
mod snapshot;
mod stage;
mod stand;
mod starts;
mod starts_asked;
mod store;
mod story;
mod sync;
mod take_over;
mod tally;
#[cfg(test)]
mod tests;
mod under_way;
mod untaught;
mod waiting;

pub use cluster::run;
pub use counts::Spared;
pub use describe::describe;
pub use drive::{Drive, Limits, Observers, median};
pub use engine::{Manager, Std, campaign};
pub use learnt::{LearntRoot, least_stable};
pub use options::{
    COUNTED, EndReason, FaultSet, FuzzEnd, FuzzError, FuzzOptions, InstanceKind, Slots,
    StrategyKind, WayOut,
};
pub use saved::{check_resume, differences, identity};
pub use snapshot::{CurrentRun, FindLine, InjectedRates, NodeState, SharedSnapshot, Snapshot};
pub(crate) use stage::open_by_load;
pub use starts_asked::Starts;
pub use sync::{check_main, common_identity, is_instance_name};
pub use tally::NEEDED;

use crate::search::XoRand;
use libafl::corpus::InMemoryCorpus;
use libafl::state::StdState;
use warren_model::FaultSequence;

/// LibAFL's state. Its corpora hold no inputs: kept runs lie in runs/, their entries in queue/ are written after the journal's record
/// (campaign/state), and the campaign writes those failing runs that stand.
pub type State =
    StdState<InMemoryCorpus<FaultSequence>, FaultSequence, XoRand, InMemoryCorpus<FaultSequence>>;
