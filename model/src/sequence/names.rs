//! How a fault and its parts are named, in the text form and wherever people read of them: logs, timelines, reports.
//!
//! One name for one thing: what a report prints of a node, a style or a cut is what a sequence file would say.

use super::{CrashStyle, CutHow, CutWay, CutWho, Fault, FaultKind, Member, Who};
use std::fmt::{self, Display, Formatter};

impl FaultKind {
    /// The text form used in sequences.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::Reboot => "reboot",
            FaultKind::PartitionStart => "partition-start",
            FaultKind::PartitionStop => "partition-stop",
            FaultKind::Stall => "stall",
        }
    }
}

impl Display for FaultKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Display for CrashStyle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CrashStyle::Process => "process",
            CrashStyle::Machine => "machine",
            CrashStyle::Outage => "outage",
        })
    }
}

impl Display for CutHow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CutHow::Drop => "drop",
            CutHow::Throw => "throw",
            CutHow::Lose => "lose",
        })
    }
}

impl Display for CutWay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CutWay::Both => "both",
            CutWay::To => "to",
            CutWay::From => "from",
        })
    }
}

impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Who::Executing => f.write_str("@executing"),
            Who::Node(n) => write!(f, "{n}"),
            Who::Role(r) => write!(f, "@{r}"),
            Who::FirstDead => f.write_str("@first-dead"),
        }
    }
}

impl Display for Member {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Member::Node(n) => write!(f, "{n}"),
            Member::Executing => f.write_str("@executing"),
            Member::Peer => f.write_str("@peer"),
            Member::Role(r) => write!(f, "@{r}"),
        }
    }
}

/// `crash n1 (machine)`, `reboot @first-dead`, `partition-start n1+n2 -> all others (drop, bridge n3)`: all but where it happens.
impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Fault::Crash { who, style } if *style == CrashStyle::default() => {
                write!(f, "{kind} {who}")
            }
            Fault::Crash { who, style } => write!(f, "{kind} {who} ({style})"),
            Fault::Reboot { who } => write!(f, "{kind} {who}"),
            Fault::PartitionStart { how, who } => {
                write!(f, "{kind} {} ({how}", sides(who))?;
                if let Some(bridge) = &who.bridge {
                    write!(f, ", bridge {bridge}")?;
                }
                f.write_str(")")
            }
            Fault::PartitionStop => write!(f, "{kind}"),
            Fault::Stall { ms, until_next } => {
                write!(f, "{kind} {ms} ms")?;
                if *until_next {
                    f.write_str(", or until the next fault is done")?;
                }
                Ok(())
            }
        }
    }
}

fn sides(who: &CutWho) -> String {
    let names = |side: &[Member]| {
        let names: Vec<String> = side.iter().map(ToString::to_string).collect();
        names.join("+")
    };
    let arrow = match who.way {
        CutWay::Both => "<->",
        CutWay::To => "->",
        CutWay::From => "<-",
    };
    let from = if who.from.is_empty() {
        "all others".to_owned()
    } else {
        names(&who.from)
    };
    format!("{} {arrow} {from}", names(&who.cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_named_as_a_sequence_file_names_its_parts() {
        let crash = |who, style| Fault::Crash { who, style };
        let cut = |from: &[&str], bridge: Option<&str>, way, how| Fault::PartitionStart {
            how,
            who: CutWho {
                cut: vec![Member::Executing, Member::Node("n2".into())],
                from: from.iter().map(|n| Member::Node((*n).into())).collect(),
                bridge: bridge.map(|n| Member::Node(n.into())),
                way,
            },
        };
        let stall = |until_next| Fault::Stall {
            ms: 500,
            until_next,
        };
        for (fault, want) in [
            (
                crash(Who::Executing, CrashStyle::Process),
                "crash @executing",
            ),
            (
                crash(Who::Role("leader".into()), CrashStyle::Outage),
                "crash @leader (outage)",
            ),
            (
                Fault::Reboot {
                    who: Who::FirstDead,
                },
                "reboot @first-dead",
            ),
            (
                cut(&[], None, CutWay::Both, CutHow::Drop),
                "partition-start @executing+n2 <-> all others (drop)",
            ),
            (
                cut(&["n4"], Some("n3"), CutWay::To, CutHow::Throw),
                "partition-start @executing+n2 -> n4 (throw, bridge n3)",
            ),
            (Fault::PartitionStop, "partition-stop"),
            (stall(false), "stall 500 ms"),
            (stall(true), "stall 500 ms, or until the next fault is done"),
        ] {
            assert_eq!(fault.to_string(), want);
        }
    }
}
