//! The constraints: by a table of the rules, and by walks of random faults that must never leave the allowed states.

mod arbitrary;

use proptest::prelude::*;
use warren_model::*;

fn shape() -> ClusterShape {
    let nodes = |names: &[&str]| names.iter().map(|n| NodeName::from(*n)).collect();
    ClusterShape {
        groups: vec![GroupShape {
            name: "server".into(),
            nodes: nodes(&["n1", "n2", "n3", "n4", "n5"]),
            max_dead: 2,
        }],
        max_faults: 10,
    }
}

fn crash(n: &str) -> Fault {
    Fault::Crash {
        who: Who::Node(n.into()),
        style: CrashStyle::Process,
    }
}

fn outage(n: &str) -> Fault {
    Fault::Crash {
        who: Who::Node(n.into()),
        style: CrashStyle::Outage,
    }
}

fn reboot(n: &str) -> Fault {
    Fault::Reboot {
        who: Who::Node(n.into()),
    }
}

fn stall() -> Fault {
    Fault::Stall {
        ms: 500,
        until_next: true,
    }
}

fn cut(side: &[&str], from: &[&str], bridge: Option<&str>) -> Fault {
    let m = |n: &&str| Member::Node((*n).into());
    Fault::PartitionStart {
        how: CutHow::Drop,
        who: CutWho {
            cut: side.iter().map(m).collect(),
            from: from.iter().map(m).collect(),
            bridge: bridge.map(|b| Member::Node(b.into())),
            way: CutWay::Both,
        },
    }
}

/// A name, the faults with their executing nodes, and the refusal expected (index, why).
type Case = (
    &'static str,
    Vec<(Option<&'static str>, Fault)>,
    Option<(usize, Violation)>,
);

/// Applies all; the error of the first that is refused, with its index.
fn walk(faults: &[(Option<&str>, Fault)]) -> Result<ClusterState, (usize, Violation)> {
    let shape = shape();
    faults
        .iter()
        .enumerate()
        .try_fold(ClusterState::default(), |s, (i, (exec, f))| {
            shape
                .apply(&s, exec.map(NodeName::from).as_ref(), f)
                .map_err(|v| (i, v))
        })
}

#[test]
fn table_of_rules() {
    use Violation::*;
    let max = |would| MaxDead {
        group: "server".into(),
        would,
        max: 2,
    };
    let cases: Vec<Case> = vec![
        (
            "two crashes",
            vec![(None, crash("n1")), (None, crash("n2"))],
            None,
        ),
        (
            "a third crash",
            vec![
                (None, crash("n1")),
                (None, crash("n2")),
                (None, crash("n3")),
            ],
            Some((2, max(3))),
        ),
        (
            "an outage takes all, and they come back one by one",
            ["n1", "n2", "n3", "n4", "n5"]
                .map(|n| (None, outage(n)))
                .into_iter()
                .chain(["n4", "n1", "n5", "n2", "n3"].map(|n| (None, reboot(n))))
                .collect(),
            None,
        ),
        (
            "while too many are gone another crash is refused",
            vec![
                (None, crash("n1")),
                (None, outage("n2")),
                (None, outage("n3")),
                (None, crash("n4")),
            ],
            Some((3, max(4))),
        ),
        (
            "of those cut off none may die while too many are gone",
            vec![
                (None, cut(&["n4", "n5"], &[], None)),
                (None, outage("n1")),
                (None, crash("n4")),
            ],
            Some((2, max(3))),
        ),
        (
            "back within max dead the rule holds again",
            vec![
                (None, outage("n1")),
                (None, outage("n2")),
                (None, outage("n3")),
                (None, reboot("n1")),
                (None, crash("n1")),
            ],
            Some((4, max(3))),
        ),
        (
            "a cut of what is gone already takes no more",
            vec![
                (None, outage("n1")),
                (None, outage("n2")),
                (None, outage("n3")),
                (Some("n5"), cut(&["n1"], &[], None)),
                (Some("n5"), Fault::PartitionStop),
            ],
            None,
        ),
        (
            "crash, reboot, crash, crash",
            vec![
                (None, crash("n1")),
                (None, reboot("n1")),
                (None, crash("n2")),
                (None, crash("n3")),
            ],
            None,
        ),
        (
            "crash of the dead",
            vec![(None, crash("n1")), (None, crash("n1"))],
            Some((1, AlreadyDead("n1".into()))),
        ),
        (
            "a dead executor",
            vec![(None, crash("n1")), (Some("n1"), crash("n2"))],
            Some((1, ExecutorDead("n1".into()))),
        ),
        (
            "reboot of the living",
            vec![(None, reboot("n1"))],
            Some((0, NotDead("n1".into()))),
        ),
        (
            "nobody dead",
            vec![(
                None,
                Fault::Reboot {
                    who: Who::FirstDead,
                },
            )],
            Some((0, NobodyDead)),
        ),
        (
            "stop without a cut",
            vec![(None, Fault::PartitionStop)],
            Some((0, NoCutOpen)),
        ),
        (
            "a stall takes nobody, at max dead too",
            vec![
                (None, crash("n1")),
                (None, crash("n2")),
                (Some("n3"), stall()),
            ],
            None,
        ),
        (
            "a stall at no point",
            vec![(None, stall())],
            Some((0, Unresolved("@executing".into()))),
        ),
        (
            "a stall of the dead",
            vec![(None, crash("n1")), (Some("n1"), stall())],
            Some((1, ExecutorDead("n1".into()))),
        ),
        (
            "two cuts",
            vec![
                (None, cut(&["n1"], &[], None)),
                (None, cut(&["n2"], &[], None)),
            ],
            Some((1, CutOpen)),
        ),
        (
            "isolate one, one dead",
            vec![(None, crash("n1")), (None, cut(&["n2"], &[], None))],
            None,
        ),
        (
            "isolate one, two dead",
            vec![
                (None, crash("n1")),
                (None, crash("n3")),
                (None, cut(&["n2"], &[], None)),
            ],
            Some((2, max(3))),
        ),
        (
            "isolate the dead, two dead",
            vec![
                (None, crash("n1")),
                (None, crash("n3")),
                (None, cut(&["n1"], &[], None)),
            ],
            None,
        ),
        (
            "split 2-3",
            vec![(None, cut(&["n1", "n2"], &[], None))],
            None,
        ),
        (
            "split 3-2 counts the smaller side",
            vec![(None, cut(&["n1", "n2", "n3"], &[], None))],
            None,
        ),
        (
            "split 2-3 and a crash on the other side",
            vec![(None, cut(&["n1", "n2"], &[], None)), (None, crash("n3"))],
            Some((1, max(3))),
        ),
        (
            "split 2-3 and a crash on the smaller side",
            vec![(None, cut(&["n1", "n2"], &[], None)), (None, crash("n2"))],
            None,
        ),
        (
            "a link is one node",
            vec![(None, crash("n3")), (None, cut(&["n1"], &["n2"], None))],
            None,
        ),
        (
            "bridge",
            vec![(None, cut(&["n1", "n2"], &[], Some("n3")))],
            None,
        ),
        (
            "a side in both",
            vec![(None, cut(&["n1"], &["n1", "n2"], None))],
            Some((0, Sides)),
        ),
        (
            "everybody on one side",
            vec![(None, cut(&["n1", "n2", "n3", "n4", "n5"], &[], None))],
            Some((0, Sides)),
        ),
        (
            "a stranger",
            vec![(None, crash("n9"))],
            Some((0, Unknown("n9".into()))),
        ),
        (
            "an unresolved role",
            vec![(
                None,
                Fault::Crash {
                    who: Who::Role("leader".into()),
                    style: CrashStyle::Process,
                },
            )],
            Some((0, Unresolved("@leader".into()))),
        ),
        (
            "the executing node",
            vec![(
                Some("n4"),
                Fault::Crash {
                    who: Who::Executing,
                    style: CrashStyle::Process,
                },
            )],
            None,
        ),
    ];
    for (name, faults, expected) in cases {
        assert_eq!(walk(&faults).err(), expected, "{name}");
    }
}

#[test]
fn max_faults_is_kept() {
    let faults: Vec<_> = (0..6)
        .flat_map(|_| [(None, crash("n1")), (None, reboot("n1"))])
        .collect();
    assert_eq!(walk(&faults).err(), Some((10, Violation::MaxFaults(10))));
}

#[test]
fn the_state_says_that_an_outage_went_beyond() {
    let beyond = |faults: &[Fault]| {
        let faults: Vec<_> = faults.iter().map(|f| (None, f.clone())).collect();
        walk(&faults).map(|s| s.beyond)
    };
    let three = [outage("n1"), crash("n2"), outage("n3")];
    assert_eq!(beyond(&three[..2]), Ok(false));
    assert_eq!(beyond(&three), Ok(true));
    let mut back = three.to_vec();
    back.extend([reboot("n1"), reboot("n2"), reboot("n3")]);
    assert_eq!(beyond(&back), Ok(true), "of the run, not of the moment");
    // A group that may lose nobody loses nobody.
    let mut shape = shape();
    shape.groups[0].max_dead = 0;
    let refused = shape.apply(&ClusterState::default(), None, &outage("n1"));
    assert!(matches!(refused, Err(Violation::MaxDead { max: 0, .. })));
}

#[test]
fn first_dead_is_the_one_dead_longest() {
    let s = walk(&[
        (None, crash("n4")),
        (None, crash("n2")),
        (
            None,
            Fault::Reboot {
                who: Who::FirstDead,
            },
        ),
    ])
    .unwrap();
    assert_eq!(s.dead, vec![NodeName::from("n2")]);
}

proptest! {
    /// Whatever is tried, the accepted states never break a rule, and a refusal changes nothing.
    #[test]
    fn walks_stay_within_the_rules(steps in prop::collection::vec((prop::option::of(arbitrary::node()), arbitrary::fault()), 0..40)) {
        let shape = shape();
        let mut state = ClusterState::default();
        for (exec, fault) in steps {
            let Ok(next) = shape.apply(&state, exec.as_ref(), &fault) else { continue };
            let at_a_point = exec.is_some();
            prop_assert!(exec.is_none_or(|e| !state.dead.contains(&e)), "a dead node executed a point");
            prop_assert_eq!(next.faults, state.faults + 1);
            prop_assert!(next.faults <= shape.max_faults);
            let mut dead = next.dead.clone();
            dead.sort();
            dead.dedup();
            prop_assert_eq!(dead.len(), next.dead.len(), "dead twice");
            // Nothing but an outage lifts the rule.
            let outage = matches!(fault, Fault::Crash { style: CrashStyle::Outage, .. });
            prop_assert_eq!(next.beyond, state.beyond || outage && next.beyond);
            prop_assert!(next.dead.len() <= 2 || next.beyond);
            if let Some(c) = &next.cut {
                prop_assert!(c.side.is_disjoint(&c.other) && !c.side.is_empty() && !c.other.is_empty());
                let gone = |side: &std::collections::BTreeSet<NodeName>| side.iter().chain(&next.dead).collect::<std::collections::BTreeSet<_>>().len();
                prop_assert!(gone(&c.side).min(gone(&c.other)) <= 2 || next.beyond);
            }
            match fault.kind() {
                FaultKind::Crash => prop_assert_eq!(next.dead.len(), state.dead.len() + 1),
                FaultKind::Reboot => prop_assert_eq!(next.dead.len() + 1, state.dead.len()),
                FaultKind::PartitionStart => prop_assert!(state.cut.is_none() && next.cut.is_some()),
                FaultKind::PartitionStop => prop_assert!(state.cut.is_some() && next.cut.is_none()),
                FaultKind::Stall => {
                    let counted = ClusterState { faults: next.faults, ..state.clone() };
                    prop_assert!(at_a_point && next == counted, "a stall changes who is dead or cut");
                }
            }
            state = next;
        }
    }
}

#[test]
fn the_smaller_side_of_a_cut() {
    let side = |names: &[&str]| names.iter().map(|n| NodeName::from(*n)).collect();
    let table: [(&[&str], &[&str], &[&str]); 3] = [
        (&["n1"], &["n2", "n3"], &["n1"]),
        (&["n1", "n2"], &["n3"], &["n3"]),
        (&["n2"], &["n1"], &["n2"]),
    ];
    for (a, b, smaller) in table {
        let cut = constraints::OpenCut {
            side: side(a),
            other: side(b),
        };
        assert_eq!(*cut.smaller(), side(smaller), "{a:?} {b:?}");
    }
}

/// Patterns meet whichever node comes: allowed is what a group bears whoever that was.
#[test]
fn borne_apart() {
    let shape = shape();
    let after = |faults: &[Fault]| {
        let mut states = vec![ClusterState::default()];
        for f in faults {
            let last = &states[states.len() - 1];
            let next = shape.apply(last, Some(&"n5".into()), f);
            states.push(next.unwrap_or_else(|e| panic!("{f:?}: {e}")));
        }
        let two = states.len() - 2;
        shape.allowed_for_any_nodes(&states[two], &states[two + 1])
    };
    let isolated = cut(&["n1"], &[], None);
    let split = cut(&["n1", "n2"], &[], None);
    let table: [(&[Fault], bool); 9] = [
        (&[crash("n1")], true),
        (&[crash("n1"), crash("n2")], true),
        (&[crash("n1"), isolated.clone()], true),
        // Who was cut off dies: one node is gone. Had another one come, it were two, and three with one more.
        (&[isolated.clone(), crash("n1")], true),
        (&[isolated.clone(), crash("n2"), crash("n1")], false),
        (&[crash("n1"), split.clone()], false),
        (std::slice::from_ref(&split), true),
        (&[split.clone(), crash("n1")], false),
        // What takes no more is no offence, also where there are too many already.
        (
            &[split.clone(), crash("n1"), crash("n2"), reboot("n1")],
            true,
        ),
    ];
    for (faults, want) in table {
        assert_eq!(after(faults), want, "{faults:?}");
    }
}
