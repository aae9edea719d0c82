//! What feedback says about a run: pass < unknown < fail, with evidence; beside it `void` (the run itself went wrong).

use crate::ids::NodeName;
use crate::void::Void;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The worst thing found.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    #[default]
    Pass,
    Unknown,
    Fail,
}

/// Safety needs complete evidence once; liveness must show again; a hang is a run over its limit twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    Safety,
    Liveness,
    Hang,
}

impl FailureKind {
    /// The most serious first: what a finding is filed under, and what its run is saved for.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            FailureKind::Safety => 0,
            FailureKind::Liveness => 1,
            FailureKind::Hang => 2,
        }
    }
}

/// As in every file and message.
impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FailureKind::Safety => "safety",
            FailureKind::Liveness => "liveness",
            FailureKind::Hang => "hang",
        })
    }
}

impl FromStr for FailureKind {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "safety" => Ok(FailureKind::Safety),
            "liveness" => Ok(FailureKind::Liveness),
            "hang" => Ok(FailureKind::Hang),
            _ => Err(format!("`{s}` is none of safety, liveness, hang")),
        }
    }
}

/// Which question failed: degraded service, healed service, or neither. In the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    Test,
    Degraded,
    Healed,
    Durable,
}

/// As in every file and message.
impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::Test => "test",
            Stage::Degraded => "degraded",
            Stage::Healed => "healed",
            Stage::Durable => "durable",
        })
    }
}

/// One failed check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The checker's name, such as `replicas` or `serve`.
    pub checker: String,
    pub kind: FailureKind,
    pub stage: Stage,
    pub role: Option<String>,
    pub node: Option<NodeName>,
    /// What was seen, for people; lines.
    pub evidence: Vec<String>,
    /// Evidence without numbers, names and addresses.
    pub normalised: String,
    /// 8 hex digits over checker, normalised evidence, role and stage.
    pub signature: String,
}

/// One check that could not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    pub checker: String,
    pub why: String,
    /// Its question failed while the machine stood still: asked again, it may have an answer.
    #[serde(default)]
    pub by_load: bool,
}

/// The whole judgement of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Why the run is no test: then nothing of it was checked.
    pub void: Option<Void>,
    pub failures: Vec<Failure>,
    pub unknowns: Vec<Unknown>,
    /// New log templates: shown, never a failure.
    pub novelties: Vec<String>,
}

impl Judgement {
    /// The signatures of its failures, each once.
    #[must_use]
    pub fn signatures(&self) -> BTreeSet<&str> {
        let all = self.failures.iter();
        all.map(|f| f.signature.as_str()).collect()
    }

    /// The checkers of liveness questions that stayed open because the machine stalled, whatever else failed in the run.
    pub fn open_by_load(&self) -> impl Iterator<Item = &str> {
        let by_load = self.unknowns.iter().filter(|u| u.by_load);
        by_load.map(|u| u.checker.as_str())
    }

    /// The signature a finding is filed under: that of its first failure, safety before liveness.
    #[must_use]
    pub fn signature(&self) -> Option<&str> {
        self.failures
            .iter()
            .min_by_key(|f| f.kind.rank())
            .map(|f| f.signature.as_str())
    }
}
