//! Names and plans: whose agent waits for what.

use super::*;

#[test]
fn roles_are_matched_by_renaming() {
    let roles = |leader: u8| led_by(leader, 5);
    let mut s = FaultSequenceFor(roles(3)).with(at(exact(3, 1), crash(Who::Executing)));
    let map = rename_map(&s, &roles(5), &shape(5, 2));
    // The others keep their order: whoever would have been next by its id (5) is so again (4).
    let want: BTreeMap<_, _> = [(name(3), name(5)), (name(4), name(3)), (name(5), name(4))].into();
    assert_eq!(map, want);
    let renamed = rename(&s.faults, &map);
    assert_eq!(renamed[0].at, exact(5, 1));
    assert!(rename_map(&s, &roles(3), &shape(5, 2)).is_empty());
    // One of them plays no role just now: who plays the same role again stays, the rest are matched by role, then in order.
    let mut fewer = roles(5);
    fewer.remove(&name(1));
    let map = rename_map(&s, &fewer, &shape(5, 2));
    let want: BTreeMap<_, _> = [(1, 3), (3, 5), (5, 1)]
        .map(|(old, new)| (name(old), name(new)))
        .into();
    assert_eq!(map, want);
    // Nodes of start faults stay.
    let mut p = point(5, 1);
    p.phase = Phase::Start;
    s.faults.insert(0, at(At::Exact(p), crash(Who::Executing)));
    let map = rename_map(&s, &roles(5), &shape(5, 2));
    assert!(!map.contains_key(&name(5)), "{map:?}");
    s.roles.clear();
    assert!(rename_map(&s, &roles(5), &shape(5, 2)).is_empty());
}

fn led_by(leader: u8, nodes: u8) -> BTreeMap<NodeName, String> {
    (1..=nodes)
        .map(|n| {
            let r = if n == leader { "leader" } else { "follower" };
            (name(n), r.to_owned())
        })
        .collect()
}

/// Wherever a start fault names a node, that node is meant, whatever it is at GO.
#[test]
fn nodes_that_start_faults_name_stay() {
    let mut p = point(2, 1);
    p.phase = Phase::Start;
    let on_2 = || At::Exact(p.clone());
    let node = |n: u8| Member::Node(name(n));
    let start_cut = |cut: u8, from: u8, bridge: Option<u8>| Fault::PartitionStart {
        how: CutHow::Drop,
        who: CutWho {
            cut: vec![node(cut)],
            from: vec![node(from)],
            bridge: bridge.map(node),
            way: CutWay::Both,
        },
    };
    let but_3 = At::Pattern(warren_model::Pattern {
        node: None,
        except: Some(name(3)),
        role: None,
        frames: vec!["*.x".into()],
        stack: None,
        kind: None,
        place: None,
        n: 1,
        phase: Phase::Start,
    });
    for (what, fault) in [
        ("cut off", at(on_2(), start_cut(3, 2, None))),
        ("cut from", at(on_2(), start_cut(2, 3, None))),
        ("bridge", at(on_2(), start_cut(1, 2, Some(3)))),
        ("crashed", at(on_2(), crash(Who::Node(name(3))))),
        ("excepted", at(but_3, crash(Who::Executing))),
    ] {
        let mut s = FaultSequenceFor(led_by(1, 3)).with(fault);
        s.faults.push(at(exact(3, 1), crash(Who::Executing)));
        let map = rename_map(&s, &led_by(3, 3), &shape(3, 1));
        let stays = map.iter().all(|(old, new)| ![old, new].contains(&&name(3)));
        assert!(stays, "{what}: {map:?}");
    }
}

struct FaultSequenceFor(BTreeMap<NodeName, String>);

impl FaultSequenceFor {
    fn with(self, fault: FaultAt) -> warren_model::FaultSequence {
        warren_model::FaultSequence {
            version: 1,
            target: "t".into(),
            start: StartState::Cold,
            roles: self.0,
            faults: vec![fault],
        }
    }
}

#[test]
fn plans_go_to_the_nodes_they_speak_of() {
    let pattern = |node: Option<u8>, role: Option<&str>| {
        At::Pattern(warren_model::Pattern {
            node: node.map(name),
            except: None,
            role: role.map(str::to_owned),
            frames: vec!["*.x".into()],
            stack: None,
            kind: None,
            place: None,
            n: 1,
            phase: Phase::Test,
        })
    };
    let but = |node: u8| match pattern(None, Some("leader")) {
        At::Pattern(p) => At::Pattern(warren_model::Pattern {
            except: Some(name(node)),
            ..p
        }),
        other => other,
    };
    let nodes: Vec<NodeName> = (1..=3).map(name).collect();
    let probed: BTreeMap<_, _> = [(name(2), "chief".to_owned())].into();
    for (where_, want) in [
        (exact(2, 1), vec![1]),
        (At::AtOnce, vec![]),
        (pattern(None, None), vec![0, 1, 2]),
        (pattern(Some(3), None), vec![2]),
        (pattern(None, Some("leader")), vec![0, 1, 2]),
        (pattern(None, Some("chief")), vec![1]),
        (but(1), vec![1, 2]),
    ] {
        let plans = make_plans(
            &[at(where_.clone(), crash(Who::Executing))],
            &nodes,
            &["leader".to_owned()],
            &probed,
            false,
        );
        let got: Vec<usize> = (0..3).filter(|i| !plans[*i].is_empty()).collect();
        assert_eq!(got, want, "{where_:?}");
        let none = make_plans(
            &[at(where_, crash(Who::Executing))],
            &nodes,
            &[],
            &probed,
            true,
        );
        assert!(none.iter().all(Vec::is_empty), "no start fault");
    }
}
