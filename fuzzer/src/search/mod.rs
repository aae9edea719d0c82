//! What to run next: strategies over kept runs, as pure values (docs/search.md has formula, table and reasons).
//!
//! `crashfuzz` is CrashFuzz's algorithm with lazy classes instead of a queue of children; `random_points` is its baseline.
//! Nothing here runs a cluster or opens a file; `scheduler` is the thin LibAFL side.

pub mod children;
pub mod halving;
pub mod peers;
pub mod pick;
pub mod queue;
pub mod rand;
pub mod random_points;
pub mod scheduler;
pub mod score;
#[cfg(test)]
pub mod sim;
#[cfg(test)]
mod tests;

pub use children::{ChildFault, ClassKey, CutForm, Drawing, Seed, SeedClasses};
pub use queue::{Pick, Queue, Why};
pub use rand::XoRand;
pub use scheduler::{NextRun, SearchScheduler};
pub use score::{Averages, ScoreInput, score};
