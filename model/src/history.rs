//! What the workload's clients did and what was seen of the system: the lines of history.jsonl and observations.jsonl
//! (docs/formats.md sections 6 and 7). Judged by feedback, which knows no target's name.

use crate::ids::NodeName;
use crate::point::Phase;
use serde::{Deserialize, Serialize};

/// How an operation ended. `Ok` and `Failed` both bind: it happened, it did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Failed,
    /// May have happened, once, at any time up to the end of its session.
    Unknown,
}

/// An operation's begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpInvoke {
    pub id: u64,
    pub client: String,
    pub session: String,
    #[serde(default)]
    pub server: Option<NodeName>,
    /// create, write, cas, delete, read, sync, ephemeral.
    pub op: String,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub expect: Option<i64>,
    #[serde(default)]
    pub retry_of: Option<u64>,
    pub t_ns: u64,
}

/// An operation's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpDone {
    pub id: u64,
    pub t_ns: u64,
    pub outcome: Outcome,
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub version: Option<i64>,
    /// Order number of the system at this answer; 0 or absent when it has none.
    #[serde(default)]
    pub zxid: Option<i64>,
    /// Order number of the change that a read saw or a write made.
    #[serde(default)]
    pub mzxid: Option<i64>,
    #[serde(default)]
    pub error: Option<String>,
}

/// One line of history.jsonl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "lowercase")]
pub enum HistoryEvent {
    Open {
        client: String,
        session: String,
        server: Option<NodeName>,
        t_ns: u64,
    },
    Move {
        client: String,
        session: String,
        server: Option<NodeName>,
        t_ns: u64,
    },
    Close {
        client: String,
        session: String,
        t_ns: u64,
        #[serde(default)]
        outcome: Option<String>,
    },
    Invoke(OpInvoke),
    Done(OpDone),
    Phase {
        phase: Phase,
        t_ns: u64,
    },
}

/// One line of observations.jsonl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "obs", rename_all = "lowercase")]
pub enum Observation {
    Serve {
        phase: Phase,
        node: NodeName,
        ok: bool,
        #[serde(default)]
        ms: u64,
        #[serde(default)]
        error: Option<String>,
    },
    Progress {
        phase: Phase,
        client: String,
        ok: bool,
        #[serde(default)]
        ms: u64,
        #[serde(default)]
        error: Option<String>,
    },
    Replica {
        node: NodeName,
        version: String,
        key: String,
        value: Option<String>,
        #[serde(default)]
        key_version: Option<String>,
        #[serde(default)]
        durable: bool,
    },
    Digest {
        node: NodeName,
        version: String,
        hash: String,
        #[serde(default)]
        durable: bool,
    },
    Leader {
        node: NodeName,
        epoch: String,
        #[serde(default)]
        durable: bool,
    },
    Epoch {
        node: NodeName,
        name: String,
        value: i64,
        t_ns: u64,
    },
    Leftover {
        kind: String,
        key: String,
        owner: String,
    },
    Mismatch {
        node: NodeName,
        what: String,
        detail: String,
    },
    /// What an administrator may ask of a healthy system, and it did not do in its time.
    Refused {
        node: NodeName,
        what: String,
        why: String,
        #[serde(default)]
        durable: bool,
    },
    Incomplete {
        what: String,
        why: String,
    },
    Round {
        name: String,
        complete: bool,
        #[serde(default)]
        durable: bool,
    },
    /// What is no failure, and a reader of the run is to know.
    Note {
        text: String,
    },
}
