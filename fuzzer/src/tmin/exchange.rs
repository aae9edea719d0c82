//! What goes between the minimiser and who makes its runs ([`super::drive`]): settings, the run to make, how it ended, what is told of it.

use super::bar::Bar;
use super::facts::Facts;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use warren_model::FaultSequence;

/// What the user may set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Most runs in all.
    pub runs: u64,
    /// -n and -k.
    pub tries: Option<u32>,
    pub needed: Option<u32>,
    /// The failure to keep; none = the one seen most often. Where only a known bug of that signature is seen, that one.
    pub signature: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    Failed,
    Passed,
    /// A checker could not tell.
    Unknown,
    /// Not all faults happened, and what happened did not fail.
    NotInjected,
    /// It told nothing: the run itself went wrong, or the machine stood still.
    Void,
}

/// What the machine is told of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub ended: Ended,
    /// Of all failures, the first is the one it would be filed under; that of a known bug with its number (`drive::name`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
    /// It failed, and the machine left another question open: of a failure that it does not show it may tell nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_load: bool,
    /// Of a failing run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
    /// Runs it took: a run over its limit is made twice.
    pub cost: u64,
}

/// The run to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub sequence: FaultSequence,
    pub hash: u64,
    /// What it is for.
    pub what: String,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Kept,
    NotKept,
    /// The bound was reached before it was decided.
    Undecided,
}

/// A step that is over, for the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub number: u32,
    pub what: String,
    pub k: u32,
    pub n: u32,
    pub verdict: Verdict,
    /// Other failures of runs that did not show it.
    pub others: BTreeSet<String>,
    /// Runs that could not tell or did not come to their faults.
    pub unclear: u32,
}

/// What is printed while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Learned {
        signature: String,
        k: u32,
        n: u32,
        bar: Bar,
    },
    Step(Step),
}

/// Why nothing can be minimised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverFailed {
    pub runs: u32,
    /// Other signatures -> runs that had them.
    pub others: BTreeMap<String, u32>,
}
