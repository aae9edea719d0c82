//! How long a fault is waited for, and why it is given up.

use super::*;

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
    Action::AcceptEarlier {
        fault: 0,
        node: name(node),
    }
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
fn a_fault_may_be_waited_for_less_long_and_never_longer() {
    // Of the second fault: how long it may take at most, and when it is given up, ms.
    for (most, ends) in [(1_200, 1_200), (90_000, 5_000)] {
        let mut c = start(vec![
            at(exact(2, 1), crash(Who::Executing)),
            at(exact(3, 1), crash(Who::Executing)),
        ]);
        c.wait_at_most(&[Duration::from_secs(5), Duration::from_millis(most)]);
        let busy = |ms: u64| {
            Seen::Tick(Watch {
                last_event: ms * MS,
                ..Watch::default()
            })
        };
        assert!(c.on(busy(4_000), 4_000 * MS).is_empty());
        c.on(claim(0, 2, 1, 4_000 * MS), 4_000 * MS);
        c.on(dead(2, true), 4_000 * MS);
        assert!(c.on(busy(3_990 + ends), (3_990 + ends) * MS).is_empty());
        assert_eq!(
            c.on(busy(4_010 + ends), (4_010 + ends) * MS),
            [Action::Cancel { fault: 1 }]
        );
    }
}

#[test]
fn what_the_runs_end_came_before_did_not_happen() {
    let faults = || {
        vec![
            at(exact(2, 1), crash(Who::Executing)),
            at(exact(3, 1), crash(Who::Executing)),
        ]
    };
    let mut c = start(faults());
    c.on(claim(0, 2, 1, 4), 4);
    c.on(dead(2, true), 5);
    c.run_ended("start: no leader");
    let why = c.not_injected().unwrap();
    assert_eq!(
        (why.index, why.reason.as_str(), why.detail.as_str()),
        (1, "ended", "start: no leader")
    );
    // What dies at the end of the run is no other reason.
    c.on(dead(3, true), 6);
    c.on(Seen::Tick(Watch::default()), 7);
    assert_eq!(c.not_injected().unwrap().reason, "ended");
    // Nothing is said of a sequence that was over by then, or empty.
    let mut c = start(Vec::new());
    c.run_ended("anything");
    assert!(c.not_injected().is_none());
    let mut c = start(faults()[..1].to_vec());
    c.on(claim(0, 2, 1, 4), 4);
    c.on(dead(2, true), 5);
    c.run_ended("anything");
    assert!(c.not_injected().is_none());
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

/// Who watches by sessions knows of a death when the last one is over: silence counts from there.
#[test]
fn silence_after_a_death_counts_from_when_it_is_noticed() {
    let patient = Limits {
        fault_wait: Duration::from_secs(10),
        ..limits()
    };
    let faults = [2, 3].map(|n| at(exact(n, 1), crash(Who::Executing)));
    let with = |limits| {
        let mut c = Controller::new(faults.to_vec(), shape(5, 2), limits, 0);
        c.on(Seen::Go, 0);
        c.on(claim(0, 2, 1, 1), 2);
        c.on(dead(2, true), 3);
        c
    };
    let mut c = with(patient);
    for quiet_ms in [2_100, 5_000, 6_000] {
        let said = c.on(Seen::Tick(quiet()), quiet_ms * MS);
        assert!(said.is_empty(), "{quiet_ms}: {said:?}");
    }
    // 4 s until it is noticed, 2 s of silence.
    assert_eq!(
        c.on(Seen::Tick(quiet()), 6_004 * MS),
        [Action::Cancel { fault: 1 }]
    );
    // A wait of 5 s would be over by then: it is not made longer.
    assert_eq!(
        with(limits()).on(Seen::Tick(quiet()), 2_100 * MS),
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

/// What reaches it may only begin later: an exact point that has not come at all has half of its wait for itself, and its node the time to
/// start.
#[test]
fn an_exact_point_that_never_came_has_half_of_its_wait() {
    let watch = |ms: u64| {
        Seen::Tick(Watch {
            entries: came(&[(2, 0, 0)]),
            last_event: ms * MS,
            ..Watch::default()
        })
    };
    let joined = || Seen::Joined { node: name(2) };
    // The longest wait for it, whether its node has started, silence (all in ms), and whether a smaller n will do then.
    for (most, started, ms, want) in [
        (5_000, true, 1_100, false),
        (5_000, true, 2_500, false),
        (5_000, true, 2_510, true),
        (5_000, false, 4_000, false),
        (3_000, true, 1_510, true),
        // Never sooner than one that fell silent.
        (1_600, true, 900, false),
        (1_600, true, 1_010, true),
    ] {
        let mut c = start(vec![at(exact(2, 5), crash(Who::Executing))]);
        c.wait_at_most(&[Duration::from_millis(most)]);
        if started {
            c.on(joined(), 0);
        }
        let want: Vec<Action> = want.then(|| less(2)).into_iter().collect();
        let did = c.on(watch(ms), ms * MS);
        assert_eq!(did, want, "{most} {started} {ms}");
    }
    // One that is rebooted has not started any more.
    let mut c = start(vec![
        at(exact(1, 1), crash(Who::Node(name(2)))),
        at(
            At::AtOnce,
            Fault::Reboot {
                who: Who::FirstDead,
            },
        ),
        at(exact(2, 3), crash(Who::Executing)),
    ]);
    c.on(joined(), 0);
    c.on(claim(0, 1, 1, 0), 0);
    c.on(dead(2, true), 0);
    c.on(Seen::Spawned { node: name(2) }, 0);
    assert_eq!(c.current(), 2);
    assert!(c.on(watch(4_000), 4_000 * MS).is_empty());
    c.on(joined(), 4_100 * MS);
    let less = Action::AcceptEarlier {
        fault: 2,
        node: name(2),
    };
    assert_eq!(c.on(watch(4_200), 4_200 * MS), [less]);
}

/// The points of a background stack are hardly ever events; that the awaited one comes its entries say.
#[test]
fn a_point_that_comes_is_no_silence() {
    // (node, arrivals, time of the last in ms) at 2,600 ms, with no event at all; whether it is given up.
    type Case = (&'static [(u8, u32, u64)], bool);
    let table: [Case; 4] = [
        (&[(2, 3, 2_400)], false),
        (&[(2, 3, 500)], true),
        (&[(1, 0, 0), (2, 1, 2_000)], false),
        (&[(2, 0, 0)], true),
    ];
    for (entries, given_up) in table {
        let mut c = start(vec![at(exact(2, 9), crash(Who::Executing))]);
        let watch = Watch {
            entries: came(entries),
            ..quiet()
        };
        let did = c.on(Seen::Tick(watch), 2_600 * MS);
        assert_eq!(
            did == [Action::Cancel { fault: 0 }],
            given_up,
            "{entries:?}: {did:?}"
        );
    }
}

/// A pattern waits on several nodes at once: each is judged by its own silence.
#[test]
fn drift_of_a_pattern_is_each_nodes_own() {
    // The time in ms, GO at 0, both nodes started, at most 5 s of waiting; (node, arrivals, time of the last in ms); who accepts less then.
    type Case = (&'static str, u64, &'static [(u8, u32, u64)], &'static [u8]);
    let table: [Case; 7] = [
        ("it still comes", 1900, &[(1, 3, 1000), (2, 2, 1500)], &[]),
        (
            "n1 fell silent, n2 did not",
            1900,
            &[(1, 3, 800), (2, 2, 1500)],
            &[1],
        ),
        (
            "where it never came it is not expected while it comes elsewhere",
            1900,
            &[(1, 3, 1500), (2, 0, 0)],
            &[],
        ),
        (
            "nowhere any more: wherever it comes next",
            1900,
            &[(1, 3, 800), (2, 0, 0)],
            &[1, 2],
        ),
        (
            "nowhere yet: what leads to it may begin later",
            2500,
            &[(1, 0, 0), (2, 0, 0)],
            &[],
        ),
        ("it never came", 2510, &[(1, 0, 0), (2, 0, 0)], &[1, 2]),
        ("no node waits", 2510, &[], &[]),
    ];
    let pattern = At::Pattern(warren_model::Pattern {
        node: None,
        except: None,
        role: None,
        frames: vec!["*.x".into()],
        stack: None,
        kind: None,
        place: None,
        n: 9,
        phase: Phase::Test,
    });
    for (what, ms, entries, want) in table {
        let now = ms * MS;
        let mut c = start(vec![at(pattern.clone(), crash(Who::Executing))]);
        for node in [1, 2] {
            c.on(Seen::Joined { node: name(node) }, 0);
        }
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
        let now = 1900 * MS;
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
fn another_sequence_goes_on_after_faults_that_are_the_same() {
    let first = || at(exact(2, 1), crash(Who::Executing));
    let mut c = start(vec![first(), at(exact(3, 9), crash(Who::Executing))]);
    assert_eq!(c.on(claim(0, 2, 1, 5), 6), [kill(0, 2)]);
    assert!(c.on(dead(2, true), 7).contains(&current(1)));
    // Its last fault comes at another node, and is waited for from now on.
    let mut other = c.clone();
    let faults = vec![first(), at(exact(4, 1), crash(Who::Executing))];
    assert!(other.go_with_others(faults, 9_000 * MS).is_empty());
    let busy = Watch {
        last_event: 13_000 * MS,
        ..Watch::default()
    };
    assert!(other.on(Seen::Tick(busy), 13_000 * MS).is_empty());
    assert_eq!(
        other.on(claim(1, 4, 1, 13_001 * MS), 13_001 * MS),
        [kill(1, 4)]
    );
    // Bounds are those of the run it is.
    for most in [1, 2] {
        let mut other = c.clone();
        let own = ClusterShape {
            max_faults: most,
            ..shape(5, 2)
        };
        other.bounded_as(&Controller::new(vec![], own, limits(), 0));
        let faults = vec![first(), at(exact(4, 1), crash(Who::Executing))];
        assert!(other.go_with_others(faults, 9_000 * MS).is_empty());
        let came = other.on(claim(1, 4, 1, 9_001 * MS), 9_001 * MS);
        assert_eq!(came == [kill(1, 4)], most == 2, "{came:?}");
    }
    // One that is dead by then is not waited for.
    let mut other = c.clone();
    let faults = vec![first(), at(exact(2, 1), crash(Who::Executing))];
    let cancel = [Action::Cancel { fault: 1 }];
    assert_eq!(other.go_with_others(faults, 9_000 * MS), cancel);
}

#[test]
fn a_time_comes_whatever_the_cluster_does() {
    let busy = |now: u64| {
        Seen::Tick(Watch {
            last_event: now,
            ..Watch::default()
        })
    };
    let node = |n| Who::Node(name(n));
    let mut c = start(vec![
        at(At::After(120), crash(node(2))),
        at(At::After(0), crash(node(3))),
        at(At::After(9_000), Fault::Reboot { who: node(2) }),
    ]);
    assert_eq!(c.on(busy(119 * MS), 119 * MS), []);
    assert_eq!(c.on(busy(121 * MS), 121 * MS), [kill(0, 2)]);
    // From the moment the fault before is done, and at once where that is its time.
    assert_eq!(c.on(dead(2, true), 130 * MS), [current(1), kill(1, 3)]);
    assert_eq!(c.on(dead(3, true), 140 * MS), [current(2)]);
    // Neither silence nor a wait longer than for a point gives it up.
    assert_eq!(c.on(Seen::Tick(quiet()), 9_139 * MS), []);
    let spawn = [Action::Spawn { node: name(2) }];
    assert_eq!(c.on(Seen::Tick(quiet()), 9_140 * MS), spawn);
    let done: Vec<(At, u64)> = c
        .done()
        .iter()
        .map(|d| (d.matched.at.clone(), d.t_reached / MS))
        .collect();
    assert_eq!(done, [(At::After(120), 121), (At::After(0), 130)]);
}

#[test]
fn a_time_past_the_workload_is_given_up() {
    let node = Who::Node(name(2));
    let mut c = start(vec![at(At::After(500), crash(node))]);
    let over = Watch {
        workload_over: true,
        ..quiet()
    };
    assert_eq!(
        c.on(Seen::Tick(over), 500 * MS),
        [Action::Cancel { fault: 0 }]
    );
    assert_eq!(
        c.on(Seen::Cancelled { fault: 0 }, 501 * MS),
        [Action::Finished]
    );
    assert_eq!(c.not_injected().unwrap().reason, "bound");
}

#[test]
fn what_may_not_happen_at_its_time_ends_the_sequence() {
    let mut c = start(vec![at(
        At::After(5),
        Fault::Reboot {
            who: Who::FirstDead,
        },
    )]);
    assert_eq!(c.on(Seen::Tick(quiet()), 5 * MS), [Action::Finished]);
    assert_eq!(c.not_injected().unwrap().reason, "constraint");
}

/// Of the time that a stall may hold its thread none is silence, nor wait.
#[test]
fn a_stall_is_no_silence() {
    let next = at(exact(3, 5), crash(Who::Executing));
    let mut c = start(vec![at(exact(2, 1), stall(6_000)), next]);
    c.on(claim(0, 2, 1, 0), 0);
    for ms in [2_500, 5_500, 6_900] {
        let did = c.on(Seen::Tick(quiet()), ms * MS);
        assert!(did.is_empty(), "{ms} ms: {did:?}");
    }
    assert_eq!(
        c.on(Seen::Tick(quiet()), 8_100 * MS),
        [Action::Cancel { fault: 1 }]
    );
}

/// One until the next fault is over with that: what follows is waited for as ever.
#[test]
fn a_stall_that_is_over_excuses_nothing() {
    let until_next = Fault::Stall {
        ms: 60_000,
        until_next: true,
    };
    let mut c = start(vec![
        at(exact(2, 1), until_next),
        at(exact(3, 1), stall(1)),
        at(exact(3, 5), crash(Who::Executing)),
    ]);
    c.on(claim(0, 2, 1, 0), 0);
    let still = c.on(Seen::Tick(quiet()), 4_000 * MS);
    assert!(still.is_empty(), "it holds: {still:?}");
    c.on(claim(1, 3, 1, 5_000 * MS), 5_000 * MS);
    assert!(c.on(Seen::Tick(quiet()), 6_900 * MS).is_empty());
    assert_eq!(
        c.on(Seen::Tick(quiet()), 7_100 * MS),
        [Action::Cancel { fault: 2 }]
    );
}
