//! The hand-writable text form of a sequence (TOML): a DTO of its own, so that the input type stays plain serde.
//!
//! Called by `Input::to_file/from_file`, the CLI and tests. Every refusal names the fault, the key, the value and the remedy.
//! It does not ask whether a sequence is legal on a cluster: that is `constraints`.

use super::{
    At, CrashStyle, CutHow, CutWay, CutWho, Fault, FaultAt, FaultKind, FaultSequence, MAX_STALL_MS,
    Member, SEQUENCE_VERSION, StartState, Who,
};
use crate::ids::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod at;

use at::AtText;

/// Why a text is no fault sequence.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error(
        "not a fault sequence: {0}\n  a sequence is TOML with `version`, `target` and [[fault]] tables"
    )]
    Toml(String),
    #[error(
        "sequence version {found} cannot be read: this Warren reads version {SEQUENCE_VERSION}"
    )]
    Version { found: u32 },
    #[error("fault {index}: key `{key}`: {problem}")]
    Fault {
        /// 1-based, as a reader counts.
        index: usize,
        key: &'static str,
        problem: String,
    },
    #[error(
        "key `start`: `{0}` is not a start state; write start = \"cold\" or start = \"snapshot-1\""
    )]
    Start(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceText {
    version: u32,
    target: String,
    #[serde(default = "cold")]
    start: String,
    /// `[roles]`: node = role at GO of the recording run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    roles: BTreeMap<NodeName, String>,
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    faults: Vec<FaultText>,
}

fn cold() -> String {
    "cold".into()
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a [[fault]] table")]
struct FaultText {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    style: Option<String>,
    /// Target of a crash or reboot: a node, `@<role>`, `@executing`, `@first-dead`.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<WhoText>,
    /// Of a stall: its longest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u32>,
    /// Of a stall: `next`, absent where it lasts its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<AtText>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table who = { cut = [\"a node\"] }, which only a partition-start takes (a crash or reboot takes node = \"a node\")"
)]
struct WhoText {
    cut: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    from: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bridge: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<String>,
}

impl FaultSequence {
    /// Reads the text form.
    ///
    /// # Errors
    /// [`TextError`] with fault, key, value and remedy.
    pub fn from_text(text: &str) -> Result<Self, TextError> {
        let dto: SequenceText =
            toml::from_str(text).map_err(|e| TextError::Toml(e.to_string().trim().to_owned()))?;
        if dto.version != SEQUENCE_VERSION {
            return Err(TextError::Version { found: dto.version });
        }
        let start: StartState = dto.start.parse()?;
        let faults = dto
            .faults
            .into_iter()
            .enumerate()
            .map(|(i, f)| f.into_fault(i + 1))
            .collect::<Result<_, _>>()?;
        Ok(FaultSequence {
            version: dto.version,
            target: dto.target,
            start,
            roles: dto.roles,
            faults,
        })
    }

    /// Writes the text form; [`FaultSequence::from_text`] gives the same sequence back.
    #[must_use]
    pub fn to_text(&self) -> String {
        let dto = SequenceText {
            version: self.version,
            target: self.target.clone(),
            start: self.start.to_string(),
            roles: self.roles.clone(),
            faults: self.faults.iter().map(FaultText::from_fault).collect(),
        };
        // Strings, integers and tables only: nothing in the DTO can fail to serialise.
        toml::to_string(&dto).unwrap_or_else(|e| format!("# cannot be written: {e}\n"))
    }
}

/// One `[[fault]]` table of a shape, read as a sequence's would be.
pub(super) fn fault_of_table(index: usize, table: toml::Table) -> Result<FaultAt, TextError> {
    let text: FaultText = toml::Value::Table(table)
        .try_into()
        .map_err(|e: toml::de::Error| TextError::Fault {
            index,
            key: "fault",
            problem: e.message().to_owned(),
        })?;
    text.into_fault(index)
}

fn parse<T: std::str::FromStr<Err = String>>(
    index: usize,
    key: &'static str,
    value: &str,
) -> Result<T, TextError> {
    value.parse().map_err(|problem| TextError::Fault {
        index,
        key,
        problem,
    })
}

fn wrong(index: usize, key: &'static str, problem: impl Into<String>) -> TextError {
    TextError::Fault {
        index,
        key,
        problem: problem.into(),
    }
}

impl FaultText {
    fn into_fault(self, index: usize) -> Result<FaultAt, TextError> {
        self.refuse_strangers(index)?;
        let fault = match self.kind.as_str() {
            "crash" => Fault::Crash {
                who: self.target(index, Who::Executing)?,
                style: match self.style.as_deref() {
                    None | Some("process") => CrashStyle::Process,
                    Some("machine") => CrashStyle::Machine,
                    Some("outage") => CrashStyle::Outage,
                    Some(s) => {
                        return Err(wrong(index, "style", format!("`{s}` is none of process, machine, outage")));
                    }
                },
            },
            "reboot" => Fault::Reboot {
                who: self.target(index, Who::FirstDead)?,
            },
            "partition-start" => Fault::PartitionStart {
                how: match self.how.as_deref() {
                    None | Some("drop") => CutHow::Drop,
                    Some("throw") => CutHow::Throw,
                    Some("lose") => CutHow::Lose,
                    Some(s) => {
                        return Err(wrong(index, "how", format!("`{s}` is none of drop, throw, lose")));
                    }
                },
                who: self
                    .who
                    .as_ref()
                    .ok_or_else(|| {
                        wrong(index, "who", "missing; write who = { cut = [\"a node\"] } (from = [] means all others)")
                    })?
                    .to_cut(index)?,
            },
            "partition-stop" => Fault::PartitionStop,
            "stall" => self.stall(index)?,
            other => {
                return Err(wrong(
                    index,
                    "kind",
                    format!("`{other}` is none of crash, reboot, partition-start, partition-stop, stall"),
                ));
            }
        };
        let at = self
            .at
            .ok_or_else(|| {
                wrong(
                    index,
                    "at",
                    "missing; write a [fault.at] table (a point, a pattern, or when = \"at-once\")",
                )
            })?
            .into_at(index)?;
        let no_point = matches!(at, At::AtOnce | At::Joined(_) | At::After(_));
        if no_point && fault.kind() == FaultKind::Stall {
            return Err(wrong(
                index,
                "at.when",
                "a stall holds the thread that comes to a point: write frames = [\"*.Class.method\"], or a point",
            ));
        }
        if no_point && executing(&fault) {
            return Err(wrong(
                index,
                "node",
                "no point executes here: name the node (node = \"…\" or node = \"@leader\")",
            ));
        }
        let kind = match &at {
            At::Exact(p) => Some(p.kind),
            At::Pattern(p) => p.kind,
            At::AtOnce | At::Joined(_) | At::After(_) => None,
        };
        if let Some(kind) = kind.filter(|k| !k.is_message() && names(&fault, &Member::Peer)) {
            return Err(wrong(
                index,
                "who",
                format!(
                    "@peer is the other end of a message, and a {kind} has none: name a node, @executing or @<role>, or ask for a message (send, receive, msg-send, msg-receive)"
                ),
            ));
        }
        Ok(FaultAt { at, fault })
    }

    /// A key that means nothing for this kind is a mistake, not noise.
    fn refuse_strangers(&self, index: usize) -> Result<(), TextError> {
        let crash = self.kind == "crash";
        let start = self.kind == "partition-start";
        let aims = crash || self.kind == "reboot";
        let stall = self.kind == "stall";
        for (key, present, allowed) in [
            ("style", self.style.is_some(), crash),
            ("node", self.node.is_some(), aims),
            ("how", self.how.is_some(), start),
            ("who", self.who.is_some(), start),
            ("ms", self.ms.is_some(), stall),
            ("until", self.until.is_some(), stall),
        ] {
            if present && !allowed {
                let instead = if aims && key == "who" {
                    "write node = \"a node\""
                } else {
                    "remove it"
                };
                return Err(wrong(
                    index,
                    key,
                    format!("means nothing for a {}: {instead}", self.kind),
                ));
            }
        }
        Ok(())
    }

    fn target(&self, index: usize, default: Who) -> Result<Who, TextError> {
        Ok(match self.node.as_deref() {
            None => default,
            Some("@executing") => Who::Executing,
            Some("@first-dead") => Who::FirstDead,
            Some("" | "@") => return Err(wrong(index, "node", "empty: write a node or @<role>")),
            Some(s) => s
                .strip_prefix('@')
                .map_or_else(|| Who::Node(s.into()), |r| Who::Role(r.to_owned())),
        })
    }

    fn stall(&self, index: usize) -> Result<Fault, TextError> {
        let ms = match self.ms {
            Some(ms) if ms <= MAX_STALL_MS => ms,
            Some(ms) => {
                let problem = format!("{ms} is longer than a stall may be: at most {MAX_STALL_MS}");
                return Err(wrong(index, "ms", problem));
            }
            None => {
                return Err(wrong(
                    index,
                    "ms",
                    "missing: how many ms does the thread hold at most?",
                ));
            }
        };
        let until_next = match self.until.as_deref() {
            None => false,
            Some("next") => true,
            Some(s) => {
                let problem = format!(
                    "`{s}` is not next, the only one there is: until the fault after it is done"
                );
                return Err(wrong(index, "until", problem));
            }
        };
        Ok(Fault::Stall { ms, until_next })
    }

    fn from_fault(f: &FaultAt) -> Self {
        let mut t = FaultText {
            kind: f.fault.kind().to_string(),
            at: Some(AtText::from_at(&f.at)),
            ..FaultText::default()
        };
        match &f.fault {
            Fault::Crash { who, style } => {
                t.style = Some(style.to_string());
                if *who != Who::Executing {
                    t.node = Some(who.to_string());
                }
            }
            Fault::Reboot { who } => {
                if *who != Who::FirstDead {
                    t.node = Some(who.to_string());
                }
            }
            Fault::PartitionStart { how, who } => {
                t.how = Some(how.to_string());
                t.who = Some(WhoText::from_cut(who));
            }
            Fault::PartitionStop => {}
            Fault::Stall { ms, until_next } => {
                t.ms = Some(*ms);
                t.until = until_next.then(|| "next".into());
            }
        }
        t
    }
}

fn executing(fault: &Fault) -> bool {
    match fault {
        Fault::Crash { who, .. } | Fault::Reboot { who } => *who == Who::Executing,
        _ => names(fault, &Member::Executing) || names(fault, &Member::Peer),
    }
}

/// Whether a cut names this member.
fn names(fault: &Fault, member: &Member) -> bool {
    let Fault::PartitionStart { who, .. } = fault else {
        return false;
    };
    let mut all = who.cut.iter().chain(&who.from).chain(&who.bridge);
    all.any(|m| m == member)
}

impl WhoText {
    fn to_cut(&self, index: usize) -> Result<CutWho, TextError> {
        if self.cut.is_empty() {
            return Err(wrong(index, "who.cut", "empty: name at least one node"));
        }
        let members = |names: &[String], key| {
            names
                .iter()
                .map(|n| parse::<Member>(index, key, n))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(CutWho {
            cut: members(&self.cut, "who.cut")?,
            from: members(&self.from, "who.from")?,
            bridge: self
                .bridge
                .as_deref()
                .map(|b| parse(index, "who.bridge", b))
                .transpose()?,
            way: match self.way.as_deref() {
                None | Some("both") => CutWay::Both,
                Some("to") => CutWay::To,
                Some("from") => CutWay::From,
                Some(s) => {
                    return Err(wrong(
                        index,
                        "who.way",
                        format!("`{s}` is none of both, to, from"),
                    ));
                }
            },
        })
    }

    fn from_cut(who: &CutWho) -> Self {
        let names = |m: &[Member]| m.iter().map(ToString::to_string).collect();
        WhoText {
            cut: names(&who.cut),
            from: names(&who.from),
            bridge: who.bridge.as_ref().map(ToString::to_string),
            way: Some(who.way.to_string()),
        }
    }
}
