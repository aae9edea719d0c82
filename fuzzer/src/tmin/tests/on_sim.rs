//! On the made-up cluster: real traces, numbers counted anew, points that say less.

use super::*;

/// On the made-up cluster: real traces, numbers counted anew, points that say less.
fn on_sim(given: &FaultSequence, sim: &Sim, runs: u64) -> (Minimiser, Vec<Told>) {
    let judge = Judge::new(Rules::default()).unwrap();
    let mut m = Minimiser::new(given.clone(), sim.shape(), settings(runs));
    let told = play(&mut m, 1000, &mut |ask| {
        // The sim matches patterns by stack alone.
        let frames = ask
            .sequence
            .faults
            .iter()
            .any(|f| matches!(&f.at, At::Pattern(p) if p.stack.is_none()));
        if frames {
            return passes();
        }
        let product = sim.run(&ask.sequence);
        outcome(
            &ask.sequence,
            &product,
            &judge.judge(&product),
            &sim.nodes,
            1,
            &|f| Some(f.signature.clone()),
        )
    });
    (m, told)
}

/// The point of the `i`-th event that fits, in the run of the sequence so far.
fn point(sim: &Sim, so_far: &FaultSequence, stack: &str, kind: Kind, on: u16, i: usize) -> IoPoint {
    let t = sim.run(so_far).trace;
    let interval = so_far.faults.len();
    let e = t
        .events
        .iter()
        .filter(|e| {
            e.stack == StackId::of_frames([stack, "main.run"])
                && e.kind == kind
                && e.node == on
                && e.phase == Phase::Test
                && e.interval.faults_done() == interval
        })
        .nth(i)
        .unwrap_or_else(|| panic!("no {i}-th {stack} on {on}"));
    t.point(e)
}

#[test]
fn five_faults_of_a_made_up_cluster_come_down_to_two() {
    let sim = Sim::new(5, 2);
    let here = || Who::Executing;
    let style = CrashStyle::Process;
    let mut s = FaultSequence::empty("sim");
    // Harmless: n5 dies and comes back, then a cut of n4.
    let p = point(&sim, &s, "log.append", Kind::Force, 4, 0);
    s = s.with(At::Exact(p), Fault::Crash { who: here(), style });
    let p = point(&sim, &s, "lead.batch", Kind::MsgSend, 0, 0);
    s = s.with(
        At::Exact(p),
        Fault::Reboot {
            who: Who::Node("n5".into()),
        },
    );
    // Needed: a follower dies where its log is forced, and is back before the tail is truncated.
    let p = point(&sim, &s, "log.force", Kind::Force, 1, 0);
    s = s.with(At::Exact(p), Fault::Crash { who: here(), style });
    let p = point(&sim, &s, "resync.truncate", Kind::Truncate, 0, 0);
    s = s.with(
        At::Exact(p),
        Fault::Reboot {
            who: Who::Node("n2".into()),
        },
    );
    let p = point(&sim, &s, "log.roll", Kind::Force, 2, 0);
    s = s.with(At::Exact(p), Fault::Crash { who: here(), style });
    s.roles = sim.run(&s).record.matched.unwrap().roles;
    assert_eq!(sim.run(&s).record.injected.len(), 5);

    let (m, told) = on_sim(&s, &sim, 300);
    assert!(m.is_over());
    let best = &m.best().candidate;
    assert_eq!(best.ids, [2, 3], "{told:?}");
    assert_eq!(best.sequence.kinds(), "crash+reboot");
    assert_eq!(m.result(), (5, 5));
    // Points say roles and the reboot says who: no node is named any more.
    assert!(
        best.sequence
            .faults
            .iter()
            .all(|f| matches!(&f.at, At::Pattern(p) if p.role.is_some())),
        "{:?}",
        best.sequence
    );
    assert!(matches!(
        best.sequence.faults[1].fault,
        Fault::Reboot {
            who: Who::FirstDead
        }
    ));
    assert!(best.sequence.roles.is_empty());
    let table =
        crate::tmin::report::table(&m, &Candidate::given(s.clone()), &Facts::default(), &[]);
    assert!(table.contains("faults 5 -> 2, shows in 5 of 5"), "{table}");
    let text = crate::tmin::report::result_text(&m, "x\n[[fault]]", 5);
    assert_eq!(FaultSequence::from_text(&text).unwrap(), best.sequence);
    let text = crate::tmin::report::neighbour_text(&m, "min.toml").unwrap();
    assert_ne!(FaultSequence::from_text(&text).unwrap(), best.sequence);
}

#[test]
fn numbers_are_counted_anew_when_a_fault_goes() {
    let sim = Sim::new(3, 1);
    let judge = Judge::new(Rules::default()).unwrap();
    let mut s = FaultSequence::empty("sim");
    let style = CrashStyle::Process;
    let p = point(&sim, &s, "log.sync", Kind::Force, 2, 0);
    s = s.with(
        At::Exact(p),
        Fault::Crash {
            who: Who::Executing,
            style,
        },
    );
    let p = point(&sim, &s, "lead.propose", Kind::MsgSend, 0, 0);
    s = s.with(
        At::Exact(p),
        Fault::Reboot {
            who: Who::Node("n3".into()),
        },
    );
    let p = point(&sim, &s, "lead.propose", Kind::MsgSend, 0, 0);
    assert_eq!(p.n, 1);
    s = s.with(
        At::Exact(p),
        Fault::Crash {
            who: Who::Executing,
            style,
        },
    );
    let product = sim.run(&s);
    let best = Best {
        candidate: Candidate::given(s.clone()),
        facts: Facts::of(&s, &product, &sim.nodes),
        k: 1,
        n: 1,
    };
    let _ = judge;
    let third = product.record.injected[2].event.unwrap();
    let event = &product.trace.events[third];
    let before = product.trace.events[..third]
        .iter()
        .filter(|e| (e.node, e.stack, e.phase) == (event.node, event.stack, Phase::Test))
        .count();
    let At::Exact(p) = &best.only(&[2], true).sequence.faults[0].at else {
        panic!()
    };
    assert_eq!(p.n as usize, before + 1);
    let At::Exact(p) = &best.only(&[2], false).sequence.faults[0].at else {
        panic!()
    };
    assert_eq!(p.n, 1);
    // Nothing taken out: nothing changes.
    assert_eq!(best.only(&[0, 1, 2], true), best.candidate);
}
