//! What to run next: strategies over kept runs, as pure values (docs/search.md has formula, table and reasons).
//!
//! `crashfuzz` is CrashFuzz's algorithm with lazy classes instead of a queue of children; `queue/in_order` has what its baselines `fifo` and
//! `brute-force` pick; `random` and `random_points` draw each sequence anew.
//! `warren` is crashfuzz's queue with parts that can be switched off: `shapes`, `havoc`, `tails`, `strata`, `symmetry`, `state`, `energy`, `swarm`.
//! Nothing here runs a cluster or opens a file; `scheduler` is the thin LibAFL side.

pub mod children;
#[cfg(test)]
mod docs_table;
pub mod energy;
pub mod entry;
pub mod favour;
pub mod halving;
pub mod havoc;
pub mod patterns;
pub mod peers;
pub mod pick;
pub mod queue;
pub mod rand;
pub mod random;
pub mod random_points;
pub mod reach;
pub mod scheduler;
pub mod score;
pub mod shapes;
#[cfg(test)]
pub mod sim;
pub mod standing;
pub mod strata;
mod strategy;
pub mod swarm;
pub mod symmetry;
#[cfg(test)]
mod tests;
pub mod waits;
pub mod warren;

pub use children::{ChildFault, ClassKey, CutForm, Drawing, Seed, SeedClasses};
pub use energy::Alike;
pub use favour::Favour;
pub use queue::{Oldest, Pick, Queue, Why};
pub use rand::XoRand;
pub use scheduler::{NextRun, SearchScheduler};
pub use score::{Averages, ScoreInput, score};
pub use strata::Bounds;
pub use strategy::{FaultSet, StrategyKind};
pub use swarm::Swarm;
pub use warren::{Origin, Parts, Shares, Turn, Warren, Without};
