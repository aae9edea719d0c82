//! The agent link: shared memory between us and the JVMs of a run, laid out as docs/formats.md says.
//!
//! Made by `run` inside a slot's /dev/shm before any JVM starts; written and read word by word, because other processes write
//! the same memory. Decides nothing.

mod conf;
mod node_page;
mod page;
mod read;
mod run_page;
mod workload_page;

pub use conf::{AgentConf, write_agent_conf};
pub use node_page::{
    Arrivals, CutMode, EVENTS_REGION, HeldBy, NodePage, PLAN_MAX, PlanEntry, PlanStall, PlanWhere,
    Word, occ_key,
};
pub use page::SharedPage;
pub use read::{EventReading, NodeReading, merge_trace};
pub use run_page::{Claim, ReleaseAction, RunPage};
pub use workload_page::{Command, ToCome, WorkloadPage};

use std::path::PathBuf;

/// Version of every layout in this module. 2: arrivals are counted in PLAN, entry by entry, and HELD_N is there. 3: stalls, in PLAN.
pub const LAYOUT: u64 = 3;

/// Why a page cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(
        "making the shared page {path} of {bytes} bytes: {source}\n  is /dev/shm of the slot full?"
    )]
    Create {
        path: PathBuf,
        bytes: usize,
        source: std::io::Error,
    },
    #[error("opening the shared page {path}: {source}")]
    Open {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{what} does not fit: {value}, at most {max}")]
    TooMany {
        what: &'static str,
        value: usize,
        max: usize,
    },
    #[error("writing {path}: {source}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
}
