//! What of a sequence can be refused before anything starts: names that the cluster does not have, faults that can never happen.
//!
//! Called by `Runner::run`. Pure. It refuses only what is surely wrong: names that stand for a node only when the fault comes are the
//! controller's to ask about.

use super::RunError;
use warren_model::{
    At, ClusterShape, ClusterState, Fault, FaultAt, FaultSequence, Member, NodeName, Violation, Who,
};

/// Refuses what is surely wrong. `shape.max_faults` is not asked: a longer sequence by hand is the user's wish.
///
/// # Errors
/// [`RunError::Illegal`] naming the fault and the rule or name.
pub(super) fn check(
    sequence: &FaultSequence,
    shape: &ClusterShape,
    roles: Option<&[String]>,
) -> Result<(), RunError> {
    let illegal = |i: usize, violation: Violation| RunError::Illegal {
        index: i + 1,
        violation,
    };
    for (i, f) in sequence.faults.iter().enumerate() {
        check_names(f, shape, roles).map_err(|v| illegal(i, v))?;
    }
    let mut shape = shape.clone();
    shape.max_faults = shape.max_faults.max(sequence.faults.len());
    let recorded = recorded(sequence);
    let mut state = ClusterState::default();
    for (i, f) in sequence.faults.iter().enumerate() {
        if !resolved(&f.fault) {
            // Roles and peers are known only when the fault comes: the controller asks then.
            break;
        }
        let executing = match &f.at {
            At::Exact(p) => Some(&p.node),
            _ => None,
        };
        if executing.is_none() && needs_executing(&f.fault) {
            break;
        }
        match shape.apply(&state, executing, &f.fault) {
            Ok(next) => state = next,
            Err(Violation::Unresolved(_)) => break,
            // In the recorded run that node had ended by itself, which is no fault of the sequence; it may do so again.
            Err(Violation::NotDead(_) | Violation::NobodyDead) if recorded => break,
            // Cut off from the others it took no more of its group.
            Err(Violation::MaxDead { .. })
                if recorded && matches!(f.fault, Fault::PartitionStart { .. }) =>
            {
                break;
            }
            Err(violation) => return Err(illegal(i, violation)),
        }
    }
    Ok(())
}

/// What a run left behind, as opposed to what a person wrote: it has the roles of that run or exact points.
fn recorded(sequence: &FaultSequence) -> bool {
    !sequence.roles.is_empty() || sequence.faults.iter().any(|f| matches!(f.at, At::Exact(_)))
}

fn check_names(
    f: &FaultAt,
    shape: &ClusterShape,
    roles: Option<&[String]>,
) -> Result<(), Violation> {
    let (mut nodes, mut used): (Vec<&NodeName>, Vec<&String>) = (Vec::new(), Vec::new());
    match &f.at {
        At::Exact(p) => nodes.push(&p.node),
        At::Joined(n) => nodes.push(n),
        At::Pattern(p) => {
            nodes.extend(&p.node);
            nodes.extend(&p.except);
            used.extend(&p.role);
        }
        At::AtOnce | At::After(_) => {}
    }
    match &f.fault {
        Fault::Crash { who, .. } | Fault::Reboot { who } => match who {
            Who::Node(n) => nodes.push(n),
            Who::Role(r) => used.push(r),
            Who::Executing | Who::FirstDead => {}
        },
        Fault::PartitionStart { who, .. } => {
            for m in who.cut.iter().chain(&who.from).chain(&who.bridge) {
                match m {
                    Member::Node(n) => nodes.push(n),
                    Member::Role(r) => used.push(r),
                    Member::Executing | Member::Peer => {}
                }
            }
        }
        Fault::PartitionStop | Fault::Stall { .. } => {}
    }
    if let Some(n) = nodes.iter().find(|n| !shape.nodes().any(|k| k == **n)) {
        let known: Vec<&str> = shape.nodes().map(NodeName::as_str).collect();
        return Err(no_such("node", n.as_str(), &known));
    }
    if let Some(known) = roles
        && let Some(r) = used.iter().find(|r| !known.contains(r))
    {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(no_such("role", r, &known));
    }
    Ok(())
}

fn no_such(what: &'static str, name: &str, known: &[&str]) -> Violation {
    Violation::NoSuch {
        what,
        name: name.to_owned(),
        known: if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        },
    }
}

fn resolved(fault: &Fault) -> bool {
    match fault {
        Fault::Crash { who, .. } | Fault::Reboot { who } => !matches!(who, Who::Role(_)),
        Fault::PartitionStart { who, .. } => who
            .cut
            .iter()
            .chain(&who.from)
            .chain(&who.bridge)
            .all(|m| matches!(m, Member::Node(_))),
        Fault::PartitionStop | Fault::Stall { .. } => true,
    }
}

fn needs_executing(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Crash {
            who: Who::Executing,
            ..
        } | Fault::Reboot {
            who: Who::Executing
        } | Fault::Stall { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::GroupShape;

    fn shape() -> ClusterShape {
        ClusterShape {
            groups: vec![GroupShape {
                name: "g".into(),
                nodes: ["c1", "c2", "c3"].map(NodeName::from).to_vec(),
                max_dead: 1,
            }],
            max_faults: 1,
        }
    }

    const POINT: &str = "[fault.at]\nnode = \"c2\"\nstack = \"0000000000000001\"\nkind = \"send\"\nplace = \"before\"\n";

    #[test]
    fn what_is_surely_wrong_is_refused_with_the_known_names() {
        let crash = |at: &str| format!("[[fault]]\nkind = \"crash\"\nnode = \"c1\"\n{at}");
        let once = "[fault.at]\nwhen = \"at-once\"\n";
        let reboot = |who: &str, at: &str| format!("[[fault]]\nkind = \"reboot\"\n{who}{at}");
        let cut = |member: &str| {
            format!(
                "[[fault]]\nkind = \"partition-start\"\nwho = {{ cut = [\"{member}\"] }}\n{once}"
            )
        };
        let pair = cut("c2").replace("] }", "], from = [\"c3\"] }");
        let table: Vec<(String, &str)> = vec![
            (crash(once), ""),
            (crash(POINT), ""),
            (crash(&POINT.replace("c2", "zz9")), "`zz9` is no node"),
            (
                crash("[fault.at]\nwhen = \"joined\"\nnode = \"zz9\"\n"),
                "known: c1, c2, c3",
            ),
            (
                crash("[fault.at]\nkind = \"send\"\nnode = \"zz9\"\n"),
                "`zz9` is no node",
            ),
            (
                crash("[fault.at]\nkind = \"send\"\nrole = \"leader\"\n"),
                "",
            ),
            (
                crash("[fault.at]\nkind = \"send\"\nrole = \"leadr\"\n"),
                "`leadr` is no role of this cluster; known: leader, follower",
            ),
            (
                crash(once).replace("\"c1\"", "\"@leadr\""),
                "`leadr` is no role",
            ),
            (cut("@leader"), ""),
            (cut("@leadr"), "`leadr` is no role"),
            (cut("zz9"), "`zz9` is no node"),
            // A name behind an open one is looked at all the same.
            (
                crash(once).replace("\"c1\"", "\"@leader\"") + &cut("zz9"),
                "fault 2 cannot happen: `zz9`",
            ),
            (reboot("node = \"c1\"\n", once), "c1 is alive"),
            (reboot("", once), "no node is dead"),
            // Recorded: c1 had ended by itself before, and the one at once was rebooted by its name.
            (reboot("node = \"c1\"\n", POINT), ""),
            (
                crash(POINT).replace("\"c1\"", "\"c3\"") + &reboot("node = \"c1\"\n", once),
                "",
            ),
            (
                format!(
                    "[roles]\nc1 = \"leader\"\n{}",
                    reboot("node = \"c1\"\n", once)
                ),
                "",
            ),
            // Recorded: c3 had ended by itself, and was cut off from c2 then.
            (crash(POINT) + &pair, ""),
            (
                crash(once) + &pair,
                "2 nodes dead or cut off, at most 1 allowed",
            ),
            // Other rules hold for recorded ones too.
            (crash(POINT) + &crash(once), "c1 is already dead"),
        ];
        let roles = ["leader", "follower"].map(str::to_owned);
        for (body, want) in table {
            let text = format!("version = 1\ntarget = \"t\"\n{body}");
            let sequence = FaultSequence::from_text(&text).unwrap();
            match check(&sequence, &shape(), Some(&roles)) {
                Ok(()) => assert_eq!(want, "", "accepted:\n{body}"),
                Err(e) => {
                    let e = e.to_string();
                    assert!(!want.is_empty() && e.contains(want), "{body}\n{e}");
                }
            }
        }
    }

    #[test]
    fn roles_that_only_a_probe_knows_are_not_judged() {
        let text = "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"crash\"\nnode = \"@primary\"\n[fault.at]\nwhen = \"at-once\"\n";
        let sequence = FaultSequence::from_text(text).unwrap();
        assert!(check(&sequence, &shape(), None).is_ok());
        let e = check(&sequence, &shape(), Some(&[])).unwrap_err();
        assert!(e.to_string().contains("known: none"), "{e}");
    }
}
