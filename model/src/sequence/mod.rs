//! The fuzz input: a start state and an ordered list of (where, fault). LibAFL's `Input`.
//!
//! Made by strategies and by hand; run by the executor. Says nothing about whether it is legal: that is
//! [`crate::constraints`]. The text form is in [`text`], what people read
//! of a fault in [`names`], when two faults are the same in [`fault_id`], two sequences in [`identity`].

mod fault_id;
mod identity;
mod names;
pub mod shape;
mod text;

pub use fault_id::fault_id;
pub use shape::{Cast, Repeat, Shape, ShapeError, ShapeFault};
pub use text::TextError;

use crate::ids::NodeName;
use crate::point::{IoPoint, Pattern, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the text form and of stored sequences.
pub const SEQUENCE_VERSION: u32 = 1;

/// A fault sequence. An empty one is legal: the fault-free run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FaultSequence {
    pub version: u32,
    pub target: String,
    pub start: StartState,
    /// Roles at GO of the run these nodes were recorded in: lets a later run rename nodes so that roles fall on present ones.
    /// Empty = not known, names are taken as they stand.
    pub roles: BTreeMap<NodeName, String>,
    pub faults: Vec<FaultAt>,
}

/// Where a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StartState {
    /// Processes launched from empty data.
    #[default]
    Cold,
    /// The live cluster of this snapshot of the target (counted from 1), restored. Which leader it has differs from one making
    /// of it to the next: `roles` say what the sequence was recorded with.
    Snapshot(u8),
}

impl fmt::Display for StartState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartState::Cold => f.write_str("cold"),
            StartState::Snapshot(k) => write!(f, "snapshot-{k}"),
        }
    }
}

impl std::str::FromStr for StartState {
    type Err = TextError;
    fn from_str(s: &str) -> Result<Self, TextError> {
        if s == "cold" {
            return Ok(StartState::Cold);
        }
        s.strip_prefix("snapshot-")
            .and_then(|k| k.parse().ok())
            .filter(|k| *k > 0)
            .map(StartState::Snapshot)
            .ok_or_else(|| TextError::Start(s.to_owned()))
    }
}

/// One fault and its place in the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FaultAt {
    pub at: At,
    pub fault: Fault,
}

/// When a fault happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum At {
    /// At this execution of an I/O call.
    Exact(IoPoint),
    /// At the first execution that looks so.
    Pattern(Pattern),
    /// As soon as the previous fault is done (two crashes: in the same action).
    AtOnce,
    /// When this node's ready probe passes.
    Joined(NodeName),
    /// So many ms after GO, or after the previous fault was done; at no point.
    After(u32),
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fault {
    Crash {
        who: Who,
        style: CrashStyle,
    },
    Reboot {
        who: Who,
    },
    PartitionStart {
        how: CutHow,
        who: CutWho,
    },
    PartitionStop,
    /// The thread that executes the point goes on holding when the fault is done: a race window made wide (off unless asked for).
    Stall {
        /// At most so long, in ms; and never beyond the test phase.
        ms: u32,
        /// Only until the fault after it is done, if that comes first.
        until_next: bool,
    },
}

/// Longest stall, in ms: more is a node that hangs, and no wide window.
pub const MAX_STALL_MS: u32 = 60_000;

/// The kind of a fault without style, how, who or target: what fault ids and user options speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FaultKind {
    #[serde(rename = "crash")]
    Crash,
    #[serde(rename = "reboot")]
    Reboot,
    #[serde(rename = "partition-start")]
    PartitionStart,
    #[serde(rename = "partition-stop")]
    PartitionStop,
    #[serde(rename = "stall")]
    Stall,
}

/// The node a crash or reboot is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Who {
    /// The node that executes the point.
    Executing,
    Node(NodeName),
    /// The node that has this role when the fault comes.
    Role(String),
    /// The node that has been dead longest.
    FirstDead,
}

/// How a node dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CrashStyle {
    /// SIGKILL: peers see their connections close.
    #[default]
    Process,
    /// Links cut silently first, then SIGKILL; the cut ends at reboot.
    Machine,
    /// SIGKILL as one of many, with no regard to max dead: from then on the run is asked for safety, and for service only after healing.
    Outage,
}

/// How a link is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CutHow {
    /// Packets vanish (kernel rules inside the slot).
    #[default]
    Drop,
    /// The sender gets an IOException.
    Throw,
    /// Whole messages are silently not sent, at application-level hooks.
    Lose,
}

/// Which direction of the links between `cut` and `from` is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CutWay {
    #[default]
    Both,
    /// Only what `cut` sends to `from`.
    To,
    /// Only what `from` sends to `cut`.
    From,
}

/// Who is cut from whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CutWho {
    pub cut: Vec<Member>,
    /// Empty = all other servers.
    pub from: Vec<Member>,
    /// A node that sees both sides.
    pub bridge: Option<Member>,
    pub way: CutWay,
}

/// One name in a cut: a node, or something resolved when the fault comes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Member {
    Node(NodeName),
    /// `@executing`: the node that executes the point.
    Executing,
    /// `@peer`: the other end of the message at the point.
    Peer,
    /// `@<role>`: the nodes that have this role now.
    Role(String),
}

impl Fault {
    /// The kind without its parameters.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        match self {
            Fault::Crash { .. } => FaultKind::Crash,
            Fault::Reboot { .. } => FaultKind::Reboot,
            Fault::PartitionStart { .. } => FaultKind::PartitionStart,
            Fault::PartitionStop => FaultKind::PartitionStop,
            Fault::Stall { .. } => FaultKind::Stall,
        }
    }
}

impl At {
    /// The phase the fault belongs to.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self {
            At::Exact(p) => p.phase,
            At::Pattern(p) => p.phase,
            At::AtOnce | At::Joined(_) | At::After(_) => Phase::Test,
        }
    }

    /// The occurrence it waits for, counted from 1; none where it waits for no point.
    #[must_use]
    pub fn occurrence(&self) -> Option<u32> {
        match self {
            At::Exact(p) => Some(p.n),
            At::Pattern(p) => Some(p.n),
            At::AtOnce | At::Joined(_) | At::After(_) => None,
        }
    }
}

impl FaultAt {
    /// The same in other names. A start fault keeps its own: it comes before roles, and so names, are known.
    #[must_use]
    pub fn renamed(&self, new: &impl Fn(&NodeName) -> NodeName) -> Self {
        if self.at.phase() == Phase::Start {
            return self.clone();
        }
        let who = |w: &Who| match w {
            Who::Node(n) => Who::Node(new(n)),
            other => other.clone(),
        };
        let member = |m: &Member| match m {
            Member::Node(n) => Member::Node(new(n)),
            other => other.clone(),
        };
        let mut at = self.at.clone();
        match &mut at {
            At::Exact(p) => p.node = new(&p.node),
            At::Pattern(p) => {
                p.node = p.node.as_ref().map(new);
                p.except = p.except.as_ref().map(new);
            }
            At::Joined(n) => *n = new(n),
            At::AtOnce | At::After(_) => {}
        }
        let fault = match &self.fault {
            Fault::Crash { who: w, style } => Fault::Crash {
                who: who(w),
                style: *style,
            },
            Fault::Reboot { who: w } => Fault::Reboot { who: who(w) },
            Fault::PartitionStart { how, who: w } => Fault::PartitionStart {
                how: *how,
                who: CutWho {
                    cut: w.cut.iter().map(member).collect(),
                    from: w.from.iter().map(member).collect(),
                    bridge: w.bridge.as_ref().map(member),
                    way: w.way,
                },
            },
            Fault::PartitionStop | Fault::Stall { .. } => self.fault.clone(),
        };
        FaultAt { at, fault }
    }
}

impl FaultSequence {
    /// The fault-free sequence of a target.
    #[must_use]
    pub fn empty(target: &str) -> Self {
        FaultSequence {
            version: SEQUENCE_VERSION,
            target: target.to_owned(),
            start: StartState::Cold,
            roles: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// This sequence with one more fault after its last.
    #[must_use]
    pub fn with(&self, at: At, fault: Fault) -> Self {
        let mut s = self.clone();
        s.faults.push(FaultAt { at, fault });
        s
    }

    /// Whether a fault of it waits for a point of the start: only a cold start has any.
    #[must_use]
    pub fn needs_start(&self) -> bool {
        self.faults
            .iter()
            .any(|f| f.at.phase() == crate::point::Phase::Start)
    }

    /// Kinds in order, as file names and screens show them: `crash+reboot`.
    #[must_use]
    pub fn kinds(&self) -> String {
        let kinds: Vec<String> = self
            .faults
            .iter()
            .map(|f| f.fault.kind().to_string())
            .collect();
        if kinds.is_empty() {
            "fault-free".into()
        } else {
            kinds.join("+")
        }
    }
}

impl std::str::FromStr for Member {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "" | "@" => {
                Err("an empty name in a cut: write a node, @executing, @peer or @<role>".into())
            }
            "@executing" => Ok(Member::Executing),
            "@peer" => Ok(Member::Peer),
            _ => Ok(s
                .strip_prefix('@')
                .map_or_else(|| Member::Node(s.into()), |r| Member::Role(r.to_owned()))),
        }
    }
}
