//! Tables: what was seen, what must follow.

use super::*;
use std::collections::BTreeMap;
use warren_model::{CutHow, CutWay, CutWho, IoPoint, Kind, Member, Who};
use warren_model::{GroupShape, Place, StackId, StartState};

const MS: u64 = 1_000_000;

fn name(n: u8) -> NodeName {
    NodeName(format!("n{n}"))
}

fn shape(nodes: u8, max_dead: usize) -> ClusterShape {
    ClusterShape {
        groups: vec![GroupShape {
            name: "g".into(),
            nodes: (1..=nodes).map(name).collect(),
            max_dead,
        }],
        max_faults: 10,
    }
}

fn point(node: u8, n: u32) -> IoPoint {
    IoPoint {
        node: name(node),
        stack: StackId(9),
        kind: Kind::MsgSend,
        place: Place::Before,
        n,
        phase: Phase::Test,
    }
}

fn exact(node: u8, n: u32) -> At {
    At::Exact(point(node, n))
}

fn crash(who: Who) -> Fault {
    Fault::Crash {
        who,
        style: CrashStyle::Process,
    }
}

fn cut(cut: &[Member], how: CutHow, way: CutWay) -> Fault {
    Fault::PartitionStart {
        how,
        who: CutWho {
            cut: cut.to_vec(),
            from: vec![],
            bridge: None,
            way,
        },
    }
}

fn at(at: At, fault: Fault) -> FaultAt {
    FaultAt { at, fault }
}

fn limits() -> Limits {
    Limits {
        fault_wait: Duration::from_secs(5),
        idle: Duration::from_secs(2),
        idle_cut: Duration::from_secs(4),
        max_hold: Duration::from_millis(500),
    }
}

fn start(faults: Vec<FaultAt>) -> Controller {
    let mut c = Controller::new(faults, shape(5, 2), limits(), 0);
    let first = c.on(Seen::Go, 0);
    assert!(
        first.is_empty() || c.finished() || !c.acting.is_empty(),
        "{first:?}"
    );
    c
}

fn claim(fault: usize, node: u8, n: u32, t: u64) -> Seen {
    Seen::Claimed {
        fault,
        node: name(node),
        t_reached: t,
        at: Some(SeenPoint {
            point: point(node, n),
            peer: Some(name(3)),
            event: Some(7),
            arrival: n,
        }),
    }
}

fn dead(node: u8, by_us: bool) -> Seen {
    Seen::Dead {
        node: name(node),
        by_us,
    }
}

fn quiet() -> Watch {
    Watch::default()
}

/// Node, arrivals, time of the last in ms.
fn came(table: &[(u8, u32, u64)]) -> Vec<(NodeName, Arrivals)> {
    table
        .iter()
        .map(|(node, n, ms)| {
            let last = ms * MS;
            (name(*node), Arrivals { n: *n, last })
        })
        .collect()
}

fn less(node: u8) -> Action {
    Action::AcceptLess {
        fault: 0,
        node: name(node),
    }
}

fn kill(fault: usize, node: u8) -> Action {
    Action::Kill {
        fault,
        node: name(node),
    }
}

fn go_on(fault: usize) -> Action {
    Action::Release {
        fault,
        action: Release::GoOn,
    }
}

fn current(done: usize) -> Action {
    Action::SetCurrent { done }
}

#[test]
fn fault_free_is_finished_at_go() {
    let mut c = Controller::new(vec![], shape(3, 1), limits(), 0);
    assert!(!c.finished());
    assert_eq!(c.on(Seen::Go, 1), [Action::Finished]);
    assert!(c.finished() && c.not_injected().is_none());
}

#[test]
fn crash_then_reboot() {
    let mut c = start(vec![
        at(exact(2, 3), crash(Who::Executing)),
        at(
            exact(1, 1),
            Fault::Reboot {
                who: Who::FirstDead,
            },
        ),
    ]);
    assert_eq!(c.on(claim(0, 2, 3, 10), 11), [kill(0, 2)]);
    assert_eq!(c.on(dead(2, true), 20), [current(1), go_on(0)]);
    assert_eq!(
        c.on(claim(1, 1, 1, 30), 31),
        [Action::Spawn { node: name(2) }]
    );
    assert_eq!(
        c.on(Seen::Spawned { node: name(2) }, 40),
        [current(2), go_on(1), Action::Finished]
    );
    let d = c.done();
    assert_eq!((d.len(), d[0].t_reached, d[0].t_done), (2, 10, 20));
    assert_eq!(d[0].event, Some((name(2), 7)));
    assert_eq!(d[0].victim, Some(name(2)));
    assert_eq!(
        d[1].matched.fault,
        Fault::Reboot {
            who: Who::Node(name(2))
        }
    );
    assert!(c.state().dead.is_empty());
}

#[test]
fn a_crashing_thread_is_held_for_ever_others_at_most_max_hold() {
    let mut c = start(vec![at(exact(2, 1), crash(Who::Executing))]);
    c.on(claim(0, 2, 1, 0), 0);
    assert!(c.on(Seen::Tick(quiet()), 900 * MS).is_empty());

    let mut c = start(vec![at(exact(2, 1), crash(Who::Node(name(4))))]);
    assert_eq!(c.on(claim(0, 2, 1, 0), 0), [kill(0, 4)]);
    assert!(c.on(Seen::Tick(quiet()), 400 * MS).is_empty());
    assert_eq!(c.on(Seen::Tick(quiet()), 501 * MS), [go_on(0)]);
    assert!(c.on(Seen::Tick(quiet()), 600 * MS).is_empty(), "once");
    assert_eq!(
        c.on(dead(4, true), 700 * MS),
        [current(1), Action::Finished]
    );
    assert!(c.done()[0].late);
}

#[test]
fn two_crashes_at_once_are_one_action() {
    let mut c = start(vec![
        at(exact(2, 1), crash(Who::Executing)),
        at(At::AtOnce, crash(Who::Node(name(3)))),
        at(
            At::AtOnce,
            Fault::Reboot {
                who: Who::FirstDead,
            },
        ),
    ]);
    assert_eq!(c.on(claim(0, 2, 1, 5), 5), [kill(0, 2), kill(1, 3)]);
    assert!(c.on(dead(3, true), 6).is_empty(), "done in their order");
    assert_eq!(
        c.on(dead(2, true), 7),
        [
            current(1),
            go_on(0),
            current(2),
            Action::Spawn { node: name(2) }
        ]
    );
    assert_eq!(
        c.on(Seen::Spawned { node: name(2) }, 8),
        [current(3), Action::Finished]
    );
    assert_eq!(c.state().dead, [name(3)]);
}

#[test]
fn at_once_first_begins_at_go_and_joined_when_the_probe_passes() {
    let mut c = Controller::new(
        vec![
            at(At::AtOnce, crash(Who::Node(name(1)))),
            at(
                At::AtOnce,
                Fault::Reboot {
                    who: Who::Node(name(1)),
                },
            ),
            at(At::Joined(name(1)), crash(Who::Node(name(2)))),
        ],
        shape(5, 2),
        limits(),
        0,
    );
    assert_eq!(c.on(Seen::Go, 1), [kill(0, 1)]);
    assert_eq!(
        c.on(dead(1, true), 2),
        [current(1), Action::Spawn { node: name(1) }]
    );
    assert_eq!(c.on(Seen::Spawned { node: name(1) }, 3), [current(2)]);
    assert!(c.on(Seen::Tick(quiet()), 4).is_empty());
    assert_eq!(c.on(Seen::Joined { node: name(1) }, 5), [kill(2, 2)]);
}

#[test]
fn roles_and_peers_are_resolved_when_the_fault_comes() {
    let mut c = start(vec![at(exact(2, 1), crash(Who::Role("leader".into())))]);
    c.set_role(&name(5), Some("leader"));
    assert_eq!(c.on(claim(0, 2, 1, 0), 0), [kill(0, 5)]);

    let mut c = start(vec![at(exact(2, 1), crash(Who::Role("leader".into())))]);
    assert_eq!(c.on(claim(0, 2, 1, 0), 0), [go_on(0), Action::Finished]);
    let why = c.not_injected().unwrap();
    assert_eq!((why.reason.as_str(), why.index), ("constraint", 0));

    let mut c = start(vec![at(
        exact(2, 1),
        cut(&[Member::Peer], CutHow::Drop, CutWay::Both),
    )]);
    let out = c.on(claim(0, 2, 1, 0), 0);
    let [
        Action::Cut {
            how: CutHow::Drop,
            cut,
            ..
        },
    ] = out.as_slice()
    else {
        panic!("{out:?}");
    };
    assert!(cut.side.contains(&name(3)) && cut.other.len() == 4);
}

#[test]
fn the_held_send_is_the_first_one_cut() {
    for (how, way, members, want) in [
        (
            CutHow::Throw,
            CutWay::Both,
            Member::Executing,
            Release::Throw,
        ),
        (CutHow::Lose, CutWay::To, Member::Executing, Release::Lose),
        (CutHow::Lose, CutWay::From, Member::Executing, Release::GoOn),
        (CutHow::Drop, CutWay::Both, Member::Executing, Release::GoOn),
        (
            CutHow::Throw,
            CutWay::To,
            Member::Node(name(4)),
            Release::GoOn,
        ),
    ] {
        let mut c = start(vec![
            at(exact(2, 1), cut(&[members], how, way)),
            at(exact(1, 1), Fault::PartitionStop),
        ]);
        c.on(claim(0, 2, 1, 0), 0);
        let out = c.on(Seen::CutInForce, 1);
        assert_eq!(
            out,
            [
                current(1),
                Action::Release {
                    fault: 0,
                    action: want
                }
            ],
            "{how:?} {way:?}"
        );
        assert_eq!(c.on(claim(1, 1, 1, 2), 2), [Action::Uncut]);
        assert_eq!(
            c.on(Seen::CutGone, 3),
            [current(2), go_on(1), Action::Finished]
        );
    }
}

#[test]
fn machine_style_cuts_first_and_its_cut_ends_at_reboot() {
    let mut c = start(vec![
        at(
            exact(2, 1),
            Fault::Crash {
                who: Who::Executing,
                style: CrashStyle::Machine,
            },
        ),
        at(
            At::AtOnce,
            Fault::Reboot {
                who: Who::FirstDead,
            },
        ),
    ]);
    assert_eq!(
        c.on(claim(0, 2, 1, 0), 0),
        [Action::CutMachine { node: name(2) }, kill(0, 2)]
    );
    assert_eq!(
        c.on(dead(2, true), 1),
        [
            current(1),
            go_on(0),
            Action::UncutMachine { node: name(2) },
            Action::Spawn { node: name(2) }
        ]
    );
}

#[test]
fn constraints_stop_the_rest() {
    let mut c = start(vec![
        at(exact(1, 1), crash(Who::Executing)),
        at(exact(2, 1), crash(Who::Executing)),
        at(exact(3, 1), crash(Who::Executing)),
    ]);
    for n in 1..=2u8 {
        c.on(claim(usize::from(n) - 1, n, 1, 0), 0);
        c.on(dead(n, true), 0);
    }
    assert_eq!(c.on(claim(2, 3, 1, 0), 0), [go_on(2), Action::Finished]);
    let why = c.not_injected().unwrap();
    assert_eq!((why.index, why.reason.as_str()), (2, "constraint"));
    // By this the claim is known as one that no fault came of.
    assert!(c.finished() && c.current() == 2);
    assert!(why.detail.contains("at most 2"), "{}", why.detail);
}

#[test]
fn ways_to_miss() {
    let busy = |now: u64| Watch {
        last_event: now,
        ..Watch::default()
    };
    let table: Vec<(&str, Watch, u64)> = vec![
        (
            "stopped",
            Watch {
                stopped: true,
                ..busy(1)
            },
            1,
        ),
        (
            "limit",
            Watch {
                limit: true,
                ..busy(1)
            },
            1,
        ),
        (
            "bound",
            Watch {
                workload_over: true,
                ..busy(1)
            },
            1,
        ),
        ("bound", busy(5_001 * MS), 5_001 * MS),
        (
            "silence",
            Watch {
                entries: came(&[(2, 4, 0)]),
                ..busy(100 * MS)
            },
            2_101 * MS,
        ),
    ];
    for (reason, watch, now) in table {
        let mut c = start(vec![at(exact(2, 1), crash(Who::Executing))]);
        let arrivals = watch.entries.first().map_or(0, |(_, a)| a.n);
        assert_eq!(
            c.on(Seen::Tick(watch), now),
            [Action::Cancel { fault: 0 }],
            "{reason}"
        );
        assert!(!c.finished());
        assert_eq!(c.on(Seen::Cancelled { fault: 0 }, now), [Action::Finished]);
        let why = c.not_injected().unwrap();
        assert_eq!((why.reason.as_str(), why.nearest), (reason, arrivals));
    }
}

#[test]
fn a_claim_that_was_faster_than_the_cancel_is_served() {
    let mut c = start(vec![at(exact(2, 1), crash(Who::Executing))]);
    let late = Watch {
        workload_over: true,
        ..Watch::default()
    };
    assert_eq!(c.on(Seen::Tick(late), 5), [Action::Cancel { fault: 0 }]);
    assert_eq!(c.on(claim(0, 2, 1, 4), 6), [kill(0, 2)]);
    assert_eq!(
        c.on(dead(2, true), 7),
        [current(1), go_on(0), Action::Finished]
    );
    assert!(c.not_injected().is_none());
}

#[test]
fn a_stale_claim_is_never_left_held() {
    let mut c = start(vec![at(exact(2, 1), crash(Who::Executing))]);
    c.on(
        Seen::Tick(Watch {
            stopped: true,
            ..quiet()
        }),
        1,
    );
    c.on(Seen::Cancelled { fault: 0 }, 2);
    assert_eq!(c.on(claim(0, 2, 1, 3), 4), [go_on(0)]);
}

/// A silent cut is noticed by the target's own clock only: silence is longer patience then.
#[test]
fn silence_is_borne_longer_while_a_cut_is_open() {
    let start_cut = cut(&[Member::Executing], CutHow::Drop, CutWay::Both);
    let mut c = start(vec![
        at(exact(2, 1), start_cut),
        at(exact(3, 1), Fault::PartitionStop),
    ]);
    c.on(claim(0, 2, 1, 1), 2);
    c.on(Seen::CutInForce, 3);
    assert!(c.on(Seen::Tick(quiet()), 3_000 * MS).is_empty());
    assert_eq!(
        c.on(Seen::Tick(quiet()), 4_100 * MS),
        [Action::Cancel { fault: 1 }]
    );
}

#[test]
fn drift_after_a_second_of_silence_of_that_stack() {
    let watch = |now: u64, n: u32, last: u64| {
        Seen::Tick(Watch {
            entries: came(&[(2, n, last)]),
            last_event: now,
            ..Watch::default()
        })
    };
    let mut c = start(vec![at(exact(2, 5), crash(Who::Executing))]);
    assert!(c.on(watch(900 * MS, 0, 0), 900 * MS).is_empty());
    assert!(
        c.on(watch(1500 * MS, 2, 800), 1500 * MS).is_empty(),
        "0.7 s of silence"
    );
    assert_eq!(c.on(watch(1900 * MS, 2, 800), 1900 * MS), [less(2)]);
    assert!(c.on(watch(2000 * MS, 2, 800), 2000 * MS).is_empty());
    c.on(claim(0, 2, 3, 2000 * MS), 2000 * MS);
    c.on(dead(2, true), 2001 * MS);
    assert_eq!(c.done()[0].drift, Some((5, 3)));

    let mut c = start(vec![at(exact(2, 1), crash(Who::Executing))]);
    assert!(
        c.on(watch(1900 * MS, 0, 0), 1900 * MS).is_empty(),
        "the first occurrence cannot drift"
    );
}

/// A pattern waits on several nodes at once: each is judged by its own silence.
#[test]
fn drift_of_a_pattern_is_each_nodes_own() {
    // (node, arrivals, time of the last in ms) at 1900 ms, GO at 0; who accepts less then.
    type Case = (&'static str, &'static [(u8, u32, u64)], &'static [u8]);
    let table: [Case; 6] = [
        ("it still comes", &[(1, 3, 1000), (2, 2, 1500)], &[]),
        (
            "n1 fell silent, n2 did not",
            &[(1, 3, 800), (2, 2, 1500)],
            &[1],
        ),
        (
            "where it never came it is not expected while it comes elsewhere",
            &[(1, 3, 1500), (2, 0, 0)],
            &[],
        ),
        (
            "nowhere any more: wherever it comes next",
            &[(1, 3, 800), (2, 0, 0)],
            &[1, 2],
        ),
        ("it never came", &[(1, 0, 0), (2, 0, 0)], &[1, 2]),
        ("no node waits", &[], &[]),
    ];
    let pattern = At::Pattern(warren_model::Pattern {
        node: None,
        role: None,
        frames: vec!["*.x".into()],
        stack: None,
        kind: None,
        place: None,
        n: 9,
        phase: Phase::Test,
    });
    let now = 1900 * MS;
    for (what, entries, want) in table {
        let mut c = start(vec![at(pattern.clone(), crash(Who::Executing))]);
        let watch = Watch {
            entries: came(entries),
            last_event: now,
            ..Watch::default()
        };
        let want: Vec<Action> = want.iter().map(|n| less(*n)).collect();
        assert_eq!(c.on(Seen::Tick(watch.clone()), now), want, "{what}");
        assert!(c.on(Seen::Tick(watch), now).is_empty(), "{what}: once");
    }
    // The event's n counts its own stack, the drift is in the pattern's numbers.
    for (arrival, want) in [(4, Some((9, 4))), (9, None)] {
        let mut c = start(vec![at(pattern.clone(), crash(Who::Executing))]);
        let mut seen = claim(0, 2, 1, now);
        if let Seen::Claimed { at: Some(s), .. } = &mut seen {
            s.arrival = arrival;
        }
        c.on(seen, now);
        c.on(dead(2, true), now + MS);
        assert_eq!(c.done()[0].drift, want);
    }
}

#[test]
fn a_node_that_ends_by_itself_counts_as_dead() {
    let mut c = start(vec![at(exact(2, 1), crash(Who::Executing))]);
    assert_eq!(c.on(dead(2, false), 1), [Action::Cancel { fault: 0 }]);
    c.on(Seen::Cancelled { fault: 0 }, 1);
    assert_eq!(c.not_injected().unwrap().reason, "self-exit");
    assert_eq!(c.state().dead, [name(2)]);

    // It may be rebooted by the sequence.
    let mut c = start(vec![at(
        exact(1, 1),
        Fault::Reboot {
            who: Who::FirstDead,
        },
    )]);
    assert!(c.on(dead(4, false), 1).is_empty());
    assert_eq!(
        c.on(claim(0, 1, 1, 2), 2),
        [Action::Spawn { node: name(4) }]
    );
}

#[test]
fn a_point_on_a_node_we_killed_never_comes() {
    let mut c = start(vec![
        at(exact(2, 1), crash(Who::Executing)),
        at(exact(2, 4), crash(Who::Node(name(3)))),
    ]);
    c.on(claim(0, 2, 1, 0), 0);
    assert_eq!(
        c.on(dead(2, true), 1),
        [current(1), go_on(0), Action::Cancel { fault: 1 }]
    );
    c.on(Seen::Cancelled { fault: 1 }, 1);
    let why = c.not_injected().unwrap();
    assert_eq!((why.index, why.reason.as_str()), (1, "node-dead"));
}

#[test]
fn start_faults_come_before_go() {
    let mut p = point(2, 1);
    p.phase = Phase::Start;
    let faults = vec![
        at(At::Exact(p), crash(Who::Executing)),
        at(
            At::AtOnce,
            Fault::Reboot {
                who: Who::FirstDead,
            },
        ),
    ];
    let mut c = Controller::new(faults.clone(), shape(5, 2), limits(), 0);
    assert_eq!(c.on(claim(0, 2, 1, 5), 6), [kill(0, 2)]);
    assert_eq!(c.on(dead(2, true), 7), [current(1), go_on(0)]);
    assert_eq!(c.on(Seen::Go, 8), [Action::Spawn { node: name(2) }]);

    let mut c = Controller::new(faults, shape(5, 2), limits(), 0);
    assert_eq!(c.on(Seen::Go, 8), [Action::Cancel { fault: 0 }]);
    c.on(Seen::Cancelled { fault: 0 }, 8);
    assert_eq!(c.not_injected().unwrap().reason, "bound");
}

#[test]
fn an_action_that_fails_ends_the_rest_and_holds_nobody() {
    let mut c = start(vec![at(
        exact(2, 1),
        cut(&[Member::Executing], CutHow::Drop, CutWay::Both),
    )]);
    c.on(claim(0, 2, 1, 0), 0);
    let failed = Seen::Failed {
        why: "no rules".into(),
    };
    assert_eq!(c.on(failed, 1), [go_on(0), Action::Finished]);
    assert_eq!(c.not_injected().unwrap().reason, "unavailable");
}

#[test]
fn roles_are_matched_by_renaming() {
    let roles = |leader: u8| -> BTreeMap<NodeName, String> {
        (1..=5)
            .map(|n| {
                let r = if n == leader { "leader" } else { "follower" };
                (name(n), r.to_owned())
            })
            .collect()
    };
    let mut s = FaultSequenceFor(roles(3)).with(at(exact(3, 1), crash(Who::Executing)));
    let map = rename_map(&s, &roles(5), &shape(5, 2));
    let want: BTreeMap<_, _> = [(name(3), name(5)), (name(5), name(3))].into();
    assert_eq!(map, want);
    let renamed = rename(&s.faults, &map);
    assert_eq!(renamed[0].at, exact(5, 1));
    assert!(rename_map(&s, &roles(3), &shape(5, 2)).is_empty());
    // Nodes of start faults stay.
    let mut p = point(5, 1);
    p.phase = Phase::Start;
    s.faults.insert(0, at(At::Exact(p), crash(Who::Executing)));
    let map = rename_map(&s, &roles(5), &shape(5, 2));
    assert!(!map.contains_key(&name(5)), "{map:?}");
    s.roles.clear();
    assert!(rename_map(&s, &roles(5), &shape(5, 2)).is_empty());
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
            role: role.map(str::to_owned),
            frames: vec!["*.x".into()],
            stack: None,
            kind: None,
            place: None,
            n: 1,
            phase: Phase::Test,
        })
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
