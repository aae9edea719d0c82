//! A fault from its claim to its end.

use super::*;

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

/// A node is started, and a cut made, in one go: that a thread was held for too long meanwhile is seen when it is done.
#[test]
fn what_took_longer_than_max_hold_is_late() {
    for (took, late) in [(500, false), (501, true)] {
        let cut = cut(&[Member::Executing], CutHow::Drop, CutWay::Both);
        let mut c = start(vec![at(exact(2, 1), cut)]);
        c.on(claim(0, 2, 1, 0), 0);
        c.on(Seen::CutInForce, took * MS);
        assert_eq!(c.done()[0].late, late, "{took} ms");
        // The one that dies holds until it does.
        let mut c = start(vec![at(exact(2, 1), crash(Who::Executing))]);
        c.on(claim(0, 2, 1, 0), 0);
        c.on(dead(2, true), took * MS);
        assert!(!c.done()[0].late);
    }
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

/// One of its threads met the point while another ended the process: our signal met nobody, and so there was no crash.
#[test]
fn a_node_that_ends_by_itself_before_the_signal_was_not_crashed() {
    let of = |who, style| Fault::Crash { who, style };
    let uncut = Action::UncutMachine { node: name(2) };
    // The crash at a point of node 2; who dies; whether the point's thread was released before; whether it was us -> what follows; done.
    let own = || crash(Who::Executing);
    let other = || crash(Who::Node(name(4)));
    let machine = || of(Who::Executing, CrashStyle::Machine);
    let nothing = || vec![go_on(0), Action::Finished];
    let reboot = |n| Action::Spawn { node: name(n) };
    let table = [
        (own(), 2, false, false, nothing(), 0),
        (other(), 4, false, false, nothing(), 0),
        (other(), 4, true, false, nothing(), 0),
        (
            machine(),
            2,
            false,
            false,
            vec![uncut, go_on(0), Action::Finished],
            0,
        ),
        (
            own(),
            2,
            false,
            true,
            vec![current(1), go_on(0), reboot(2)],
            1,
        ),
        (other(), 4, true, true, vec![current(1), reboot(4)], 1),
    ];
    for (i, (fault, dies, late, by_us, want, done)) in table.into_iter().enumerate() {
        let reboot = Fault::Reboot {
            who: Who::FirstDead,
        };
        let mut c = start(vec![at(exact(2, 1), fault), at(At::AtOnce, reboot)]);
        c.on(claim(0, 2, 1, 0), 0);
        if late {
            assert_eq!(c.on(Seen::Tick(quiet()), 501 * MS), [go_on(0)]);
        }
        assert_eq!(c.on(dead(dies, by_us), 600 * MS), want, "case {i}");
        assert_eq!((c.done().len(), c.current()), (done, done), "case {i}");
        assert_eq!(c.state().dead, [name(dies)], "case {i}");
        let why = c.not_injected().map(|n| (n.index, n.reason.as_str()));
        let skipped = (!by_us).then_some((0, "self-exit"));
        assert_eq!((why, c.finished()), (skipped, !by_us), "case {i}");
        assert_eq!(c.under_way(), by_us, "case {i}");
    }
}

/// The end of a node that is not the one to be killed changes nothing about the crash.
#[test]
fn a_crash_goes_on_when_another_node_ends_by_itself() {
    for (victim, ends) in [(2, 4), (4, 2)] {
        let mut c = start(vec![at(exact(2, 1), crash(Who::Node(name(victim))))]);
        c.on(claim(0, 2, 1, 0), 0);
        assert!(c.on(dead(ends, false), 1).is_empty());
        assert_eq!(
            c.on(dead(victim, true), 2),
            [current(1), go_on(0), Action::Finished]
        );
        assert_eq!(c.done()[0].victim, Some(name(victim)));
        assert!(c.not_injected().is_none());
    }
}

#[test]
fn of_two_crashes_at_once_one_may_come_to_nothing() {
    let void = |out: &[Action]| out.iter().any(|a| matches!(a, Action::Void { .. }));
    // Who dies, by us or not, in this order -> done, the first one not injected, whether that can be told.
    for (deaths, done, index, told) in [
        ([(2, true), (3, false)], 1, 1, true),
        ([(3, false), (2, true)], 1, 1, true),
        // The second one happened without the first.
        ([(2, false), (3, true)], 0, 0, false),
        ([(3, true), (2, false)], 0, 0, false),
        ([(2, false), (3, false)], 0, 0, false),
    ] {
        let mut c = start(vec![
            at(exact(2, 1), crash(Who::Executing)),
            at(At::AtOnce, crash(Who::Node(name(3)))),
        ]);
        assert_eq!(c.on(claim(0, 2, 1, 5), 5), [kill(0, 2), kill(1, 3)]);
        let mut out = Vec::new();
        for (node, by_us) in deaths {
            out.extend(c.on(dead(node, by_us), 6));
        }
        assert_eq!(void(&out), !told, "{deaths:?}: {out:?}");
        assert!(out.contains(&go_on(0)), "{deaths:?}: {out:?}");
        assert_eq!(c.done().len(), done, "{deaths:?}");
        assert!(c.finished() && !c.under_way(), "{deaths:?}");
        let why = c.not_injected().unwrap();
        assert_eq!((why.index, why.reason.as_str()), (index, "self-exit"));
        let mut gone = c.state().dead.clone();
        gone.sort();
        assert_eq!(gone, [name(2), name(3)], "{deaths:?}");
    }
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
fn what_may_come_after_go_is_known_before_it() {
    let mut p = point(2, 1);
    p.phase = Phase::Start;
    let of_start = || at(At::Exact(p.clone()), crash(Who::Executing));
    let once = || {
        at(
            At::AtOnce,
            Fault::Reboot {
                who: Who::FirstDead,
            },
        )
    };
    // Faults; whether the first one's point came, and its node died, before GO; whether one may come after it.
    let table = [
        (vec![], false, false, false),
        (vec![of_start()], false, false, false),
        (vec![of_start()], true, false, true),
        (vec![of_start()], true, true, false),
        (vec![of_start(), once()], true, true, true),
        (
            vec![at(exact(2, 1), crash(Who::Executing))],
            false,
            false,
            true,
        ),
    ];
    for (i, (faults, came, died, want)) in table.into_iter().enumerate() {
        let mut c = Controller::new(faults, shape(5, 2), limits(), 0);
        if came {
            c.on(claim(0, 2, 1, 5), 6);
        }
        if died {
            c.on(dead(2, true), 7);
        }
        assert_eq!(c.awaits_after_go(), want, "case {i}");
    }
}

#[test]
fn only_a_cut_asks_who_is_at_the_other_end() {
    let reboot = Fault::Reboot {
        who: Who::FirstDead,
    };
    for (fault, want) in [
        (crash(Who::Executing), false),
        (reboot, false),
        (stall(50), false),
        (Fault::PartitionStop, false),
        (cut(&[Member::Peer], CutHow::Drop, CutWay::Both), true),
        (cut(&[Member::Executing], CutHow::Throw, CutWay::To), true),
    ] {
        let c = start(vec![at(exact(2, 1), fault)]);
        assert_eq!(c.wants_peer(), want, "{:?}", c.awaited());
    }
}

/// Its thread lets go by itself: for the others it is done when it holds, and they go on to what follows.
#[test]
fn a_stall_is_done_when_its_thread_holds() {
    let mut c = start(vec![
        at(exact(2, 3), stall(700)),
        at(At::AtOnce, crash(Who::Node(name(1)))),
        at(exact(3, 1), stall(300)),
    ]);
    assert_eq!(c.stalls(), Duration::from_secs(1));
    assert_eq!(
        c.on(claim(0, 2, 3, 10), 11),
        [current(1), go_on(0), kill(1, 1)]
    );
    assert_eq!(c.on(dead(1, true), 20), [current(2)]);
    assert_eq!(
        c.on(claim(2, 3, 1, 30), 31),
        [current(3), go_on(2), Action::Finished]
    );
    let d = c.done();
    assert_eq!((d[0].t_reached, d[0].t_done), (10, 11));
    assert_eq!(d[0].event, Some((name(2), 7)));
    assert_eq!(d[0].victim, None);
    assert_eq!(c.state().dead, [name(1)]);
}

/// What the constraints refuse is not done, by which the agent knows that it is not to hold.
#[test]
fn a_stall_beyond_the_most_faults_is_none() {
    let faults = (0..11).map(|_| at(exact(2, 1), stall(50))).collect();
    let mut c = start(faults);
    for i in 0..10 {
        let did = c.on(claim(i, 2, 1, 1), 1);
        assert_eq!(did[..2], [current(i + 1), go_on(i)]);
    }
    assert_eq!(c.on(claim(10, 2, 1, 1), 1), [go_on(10), Action::Finished]);
    assert_eq!(
        c.not_injected().map(|n| n.reason.as_str()),
        Some("constraint")
    );
}
