//! What a target says about judging it: the part of target.toml that feedback needs. Read by the executor's target loading,
//! handed over by the fuzzer, so that feedback never opens a file.

use serde::{Deserialize, Serialize};

/// The rules of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Errors that mean: it did not happen.
    pub definite: Vec<String>,
    /// Self-exits that are right.
    pub legal_exits: Vec<ExitRule>,
    /// A regex over the line in which a process says why it ends itself; its first group is the reason.
    pub exit_cause: Option<String>,
    /// Regexes over log lines; a match is a failure.
    pub fatal_log: Vec<String>,
    /// Where such a match is none.
    pub legal_log: Vec<LogRule>,
    /// Regexes of lines that are never novelties.
    pub log_ignore: Vec<String>,
    /// A restarted server synchronises before it serves.
    pub rejoin: bool,
    /// A read may show an older state than its session has seen: the target does not promise monotonic reads.
    pub may_go_back: bool,
    /// The key version of a replica is the order number (`mzxid`) of the change that wrote its content.
    pub numbered: bool,
    /// The target's own clock, ms.
    pub tick_ms: u64,
    pub session_ms: u64,
    /// The role of which there must be exactly one; empty = none.
    pub lead_role: String,
}

/// A self-exit that is right: the node's log since its launch matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRule {
    pub log: String,
    /// Only there it counts; none = anywhere. Its regexes have the same number of groups, one at most; with one, a span is ended by a line with the
    /// same text in it (a session's id).
    pub span: Option<LogSpan>,
    /// Only for a node of this role; empty = any.
    pub role: String,
    pub why: String,
}

/// Spans of a log: each begins with a line that matches `after` and ends before the next that matches `until`, or with the log. Both are regexes;
/// what their groups mean is the rule's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpan {
    pub after: String,
    pub until: String,
}

/// Lines that are right in a span of a node's log, though they are fatal elsewhere: those that match the regex `line`, but for a line that begins
/// one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRule {
    pub line: String,
    /// Its groups mean nothing.
    pub span: LogSpan,
    pub why: String,
}
