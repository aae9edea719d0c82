//! What a run is asked and what it tells while it goes on: options, progress, errors.
//!
//! Written by the fuzzer and the command line before each run; read by [`super::Runner`]. Plain data.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use warren_model::{NodeName, Phase, Violation};

/// Called from the runner's thread at each change of phase, node state or awaited fault; must return at once.
pub type ProgressFn = Arc<dyn Fn(RunProgress) + Send + Sync>;

/// How one run is made.
#[derive(Clone)]
pub struct RunOptions {
    /// Seed of the workload's own choices.
    pub seed: u64,
    /// Wall time from taking the slot; every phase has its share. A run past it is judged as timed out, never left hanging.
    pub limit: Duration,
    /// The limit of most runs; none = this one's. Clients ask for service as long as this allows, in whichever run, and of whichever a snapshot was made for.
    pub usual_limit: Option<Duration>,
    /// Longest wait for one fault's point, from GO or from the previous fault done.
    pub fault_wait: Duration,
    /// The same for single faults, by index, where it is known how soon they came before: never longer.
    pub waits: Vec<Duration>,
    /// No event of a non-background stack for so long ends the wait for a fault.
    pub idle: Duration,
    /// Longest time a thread is held for a reboot or a partition.
    pub max_hold: Duration,
    /// Set what the agents see of the nodes' traffic beside what the kernel carries (a run without faults, from a cold start).
    pub traffic: bool,
    /// Kill all nodes after the checks, start them again and ask once more.
    pub durable: bool,
    /// `false`: plain JVMs without the agent (bench).
    pub agent: bool,
    /// bench: the workload makes so many operations without any sleep and ends.
    pub plain_ops: Option<u32>,
    /// The cluster is started to be dumped: the workload may warm it up first (`warm_ops` in target.toml).
    pub for_snapshot: bool,
    /// Folder for the transformed classes.
    pub dump_classes: Option<PathBuf>,
    /// Set by Ctrl-C: the run ends as soon as it can, its record says `stopped`.
    pub stop: Arc<AtomicBool>,
    /// Set by key `n` of the screen: the same for this run alone.
    pub give_up: Arc<AtomicBool>,
    pub progress: Option<ProgressFn>,
    /// Whether the first faults may have happened in another run.
    pub prefix: PrefixUse,
}

/// Whether a run may begin from a prefix snapshot, just after those of its faults that come before the first reboot and before the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixUse {
    /// All its faults happen in this run.
    #[default]
    Never,
    /// Where there is one.
    IfThere,
    /// One is made if there is none: more runs with these faults are to come.
    Make,
}

impl RunOptions {
    /// It may go on from a snapshot: with the agent, and with nothing to be seen of the start.
    pub(super) fn restorable(&self) -> bool {
        self.agent && self.dump_classes.is_none()
    }

    /// The run is to end as soon as it can.
    pub(super) fn to_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.give_up.load(Ordering::Relaxed)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seed: 1,
            limit: Duration::from_secs(60),
            usual_limit: None,
            fault_wait: Duration::from_secs(5),
            waits: Vec::new(),
            idle: Duration::from_secs(2),
            max_hold: Duration::from_millis(500),
            traffic: false,
            durable: false,
            agent: true,
            plain_ops: None,
            for_snapshot: false,
            dump_classes: None,
            stop: Arc::new(AtomicBool::new(false)),
            give_up: Arc::new(AtomicBool::new(false)),
            progress: None,
            prefix: PrefixUse::Never,
        }
    }
}

/// A picture of a run in progress, for the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProgress {
    pub phase: Phase,
    /// Since the slot was asked for.
    pub elapsed: Duration,
    pub nodes: Vec<NodeProgress>,
    /// The fault that is waited for, for people; none when all are done or given up.
    pub awaited: Option<String>,
    /// Faults done, and faults asked for.
    pub injected: usize,
    pub asked: usize,
    /// A cut is in force: the nodes of its smaller side, or of both where they are alike.
    pub cut: Vec<NodeName>,
}

/// One node of the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProgress {
    pub name: NodeName,
    pub role: Option<String>,
    pub status: NodeStatus,
    pub incarnation: u8,
    /// Its own logs as Warren sees them; they are gone when the run is over.
    pub logs: Vec<PathBuf>,
}

/// What a node is doing as far as the executor knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    Absent,
    Starting,
    Serving,
    /// A thread of it waits at the awaited point.
    Held,
    /// Killed by us.
    Dead,
    /// Ended by itself.
    Exited,
}

/// Why a run could not be made at all. What the cluster does is never an error: that is in the record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the slot could not be used: {0}")]
    Slot(String),
    #[error("{what}: {why}")]
    Io { what: String, why: String },
    /// No dump in the middle of this run has all that its cluster has still to say.
    #[error("making a prefix snapshot: {0}")]
    NoPrefix(String),
    #[error(
        "configuration template {file}: {why}\n  mend the template in the target's conf/ folder"
    )]
    Template { file: String, why: String },
    #[error(
        "fault {index} needs {needs}, which is not available here: {why}\n  use how = \"throw\" and style = \"process\", or see `warren doctor`"
    )]
    Unavailable {
        /// 1-based.
        index: usize,
        needs: &'static str,
        why: String,
    },
    #[error("fault {index} cannot happen: {violation}")]
    Illegal {
        /// 1-based.
        index: usize,
        violation: Violation,
    },
    #[error("the sequence is for target `{found}`, this is `{target}`")]
    WrongTarget { found: String, target: String },
    #[error(
        "no class of the target was instrumented: the coverage map is still empty after the start\n  check: [target] include in {target_toml} (found: {include}) against the classes in the jars; lines of `{log_hint}`; \
         that the JVM's options have no -Xshare:on with another archive"
    )]
    EmptyMap {
        target_toml: String,
        include: String,
        log_hint: String,
    },
    #[error(
        "--snapshot require: a run cannot begin from its snapshot: {0}\n  `warren doctor` says what snapshots need; without the flag such a run starts cold"
    )]
    BeganCold(String),
    #[error("the agent refused to start on {node}: {why}")]
    AgentRefused { node: NodeName, why: String },
    /// What was waited for did not come in time, while everything lived: on a busy machine it may the next time.
    #[error("{what}: {why}")]
    Late { what: String, why: String },
}

impl RunError {
    /// Another try comes to the same: it is of what was asked for or described, not of how the cluster did this time.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            RunError::Template { .. }
            | RunError::Unavailable { .. }
            | RunError::Illegal { .. }
            | RunError::WrongTarget { .. }
            | RunError::EmptyMap { .. }
            | RunError::AgentRefused { .. } => true,
            RunError::Slot(_)
            | RunError::Io { .. }
            | RunError::NoPrefix(_)
            | RunError::BeganCold(_)
            | RunError::Late { .. } => false,
        }
    }

    pub(crate) fn io(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        RunError::Io {
            what: what.into(),
            why: why.to_string(),
        }
    }
}
