//! Deploys clusters of JVM processes and injects faults at exact I/O points of theirs.
//!
//! The only crate that starts processes of a target. `setup` gets JDKs and jars, `slot` is the isolated place a run lives in,
//! `target` reads target.toml, `prepare` makes everything ready once, `link` is the shared memory between us and the agents,
//! `controller` decides (pure), `run` drives one run from left to right, `side_by_side` several at once, `locked` keeps other Warrens out, `disk` tells what room is left, `libafl_executor` is LibAFL's thin view of it.
//! Knows nothing of corpora, novelty or verdicts, and no target by name.

pub mod controller;
pub mod disk;
pub mod libafl_executor;
pub mod link;
mod locked;
pub mod prepare;
pub mod run;
pub mod setup;
mod side_by_side;
pub mod slot;
pub mod target;

pub use locked::Locked;
pub use run::{NodeProgress, NodeStatus, PrefixUse, ProgressFn, RunError, RunOptions, RunProgress};

/// Hash of the agent's jars: campaigns made by different agents do not mix.
#[must_use]
pub fn agent_hash() -> String {
    format!("{:016x}", warren_agent::JARS_HASH)
}
