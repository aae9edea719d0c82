//! Tails, and the baseline that draws as they do: they keep the rules, come after all that is there, know who ended by itself, and are injected
//! mostly.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of a fault-free run and of its own result: the faults that were there stay.
    #[test]
    fn tails_follow_what_is_there(salt in any::<u64>(), large in any::<bool>()) {
        let sim = if large { deep(5, 2) } else { deep(3, 1) };
        let shape = sim.shape();
        let d = warren(&shape);
        let mut rand = XoRand::new(salt);
        let mut run = sim.run(&FaultSequence::empty("sim"));
        for _ in 0..3 {
            let was = run.record.matched.clone().unwrap();
            let Some(s) = random_points::tail(&seed(&run), &d, &mut rand) else {
                break;
            };
            prop_assert!(s.faults.len() > was.faults.len());
            prop_assert_eq!(&s.faults[..was.faults.len()], &was.faults[..]);
            prop_assert_eq!((&s.start, &s.roles, &s.target), (&was.start, &was.roles, &was.target));
            prop_assert_eq!(&FaultSequence::from_text(&s.to_text()).unwrap(), &s);
            prop_assert!(s.faults.len() <= shape.max_faults);
            run = sim.run(&s);
        }
    }
}

/// Where one node at most may be dead, the node that meets a point is often another one than in the trace: what is drawn must be allowed to it
/// too, by the baseline as by tails.
#[test]
fn what_is_drawn_is_not_refused_where_another_node_meets_it() {
    let sim = deep(3, 1);
    let shape = sim.shape();
    let d = warren(&shape);
    let root = sim.run(&FaultSequence::empty("sim"));
    let mut rand = XoRand::new(21);
    let run = |s: &FaultSequence| {
        let run = sim.run(s);
        let reason = run.record.not_injected.map(|n| n.reason);
        assert_ne!(reason.as_deref(), Some("constraint"), "{}", s.to_text());
        s.faults.len()
    };
    let mut most = [0, 0];
    for _ in 0..200 {
        most[0] = most[0].max(run(&random_points::draw(
            &cold(&root),
            "sim",
            &d,
            &mut rand,
        )));
        let tail = random_points::tail(&seed(&root), &d, &mut rand).unwrap();
        most[1] = most[1].max(run(&tail));
    }
    assert!(most.iter().all(|n| *n > 4), "{most:?}");
}

/// A process that ended by itself counts among the dead that a group bears: no crash is drawn that the run would refuse.
#[test]
fn a_tail_counts_who_ended_by_itself() {
    let sim = deep(3, 1);
    let shape = sim.shape();
    let d = warren(&shape);
    let mut rand = XoRand::new(8);
    let mut root = sim.run(&FaultSequence::empty("sim"));
    let first = |root: &RunProduct, rand: &mut XoRand| {
        let drawn = (0..100).filter_map(|_| random_points::tail(&seed(root), &d, rand));
        let crashes = drawn.filter(|s| matches!(s.faults[0].fault, Fault::Crash { .. }));
        crashes.count()
    };
    assert!(first(&root, &mut rand) > 20);
    root.record.exits.push(warren_model::Exit {
        node: root.trace.nodes[0].clone(),
        incarnation: 1,
        status: Some(1),
        signal: None,
        t_ns: 1,
        phase: Phase::Start,
        role: None,
    });
    assert_eq!(first(&root, &mut rand), 0);
}

#[test]
fn a_tail_has_room_or_is_none() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = warren(&shape);
    let mut rand = XoRand::new(3);
    let root = sim.run(&FaultSequence::empty("sim"));
    let mut lengths = BTreeMap::new();
    let mut last = None;
    for _ in 0..200 {
        let s = random_points::tail(&seed(&root), &d, &mut rand).unwrap();
        *lengths.entry(s.faults.len()).or_insert(0u32) += 1;
        last = Some(s);
    }
    // Of the same points, more come than of a whole sequence of the baseline's. None ends by the constraints: of three in four, and of the
    // baseline's, these let whoever comes have them; of the others nodes are named where that matters, as for a crash beside a cut.
    let (mut baseline, mut tails, mut refused) = ([0, 0], [0, 0], [0, 0]);
    let done = |s: &FaultSequence, refused: &mut u32| {
        let record = sim.run(s).record;
        let reason = record.not_injected.map(|n| n.reason);
        *refused += u32::from(reason.as_deref() == Some("constraint"));
        record.injected.len()
    };
    for _ in 0..200 {
        let b = random_points::draw(&cold(&root), "sim", &d, &mut rand);
        let t = random_points::tail(&seed(&root), &d, &mut rand).unwrap();
        let [of_b, of_t] = &mut refused;
        baseline = [baseline[0] + b.faults.len(), baseline[1] + done(&b, of_b)];
        tails = [tails[0] + t.faults.len(), tails[1] + done(&t, of_t)];
    }
    println!("baseline {baseline:?}, tails {tails:?}, refused {refused:?}");
    assert_eq!(refused, [0, 0]);
    let beside_a_cut = |s: &FaultSequence| {
        let mut open = false;
        s.faults.iter().any(|f| {
            match f.fault {
                Fault::PartitionStart { .. } => open = true,
                Fault::PartitionStop => open = false,
                _ => {}
            }
            let named = matches!(&f.at, At::Pattern(p) if p.node.is_some());
            open && named && matches!(f.fault, Fault::Crash { .. })
        })
    };
    let mut drawn = (0..200).filter_map(|_| random_points::tail(&seed(&root), &d, &mut rand));
    assert!(drawn.any(|s| beside_a_cut(&s)));
    assert!(
        tails[1] * baseline[0] > baseline[1] * tails[0],
        "{tails:?} {baseline:?}"
    );
    // Long ones from the first on, as `random-points` draws them.
    assert!(
        lengths.range(4..).map(|(_, n)| n).sum::<u32>() > 60,
        "{lengths:?}"
    );
    let full = ClusterShape {
        max_faults: 0,
        ..shape.clone()
    };
    assert!(random_points::tail(&seed(&root), &warren(&full), &mut rand).is_none());
    // What happened of one goes on behind its own last fault.
    let run = sim.run(&last.unwrap());
    let done = run.record.matched.as_ref().unwrap().faults.len();
    let behind: Vec<FaultSequence> = (0..20)
        .filter_map(|_| random_points::tail(&seed(&run), &d, &mut rand))
        .collect();
    assert!(!behind.is_empty(), "{done} faults happened");
    for s in behind {
        let own = |f: &warren_model::FaultAt| matches!(f.at, At::Pattern(_));
        assert!(s.faults[done..].iter().all(own));
    }
}

/// A reboot is drawn where somebody is dead by then.
#[test]
fn a_tail_brings_back_only_who_has_ended() {
    let sim = deep(3, 1);
    let shape = sim.shape();
    let d = Drawing {
        faults: set("crash,reboot"),
        ..warren(&shape)
    };
    let mut root = sim.run(&FaultSequence::empty("sim"));
    let middle = root.trace.events.len() / 2;
    let t_ns = root.trace.events[middle].t_ns;
    root.record.exits.push(warren_model::Exit {
        node: sim.nodes[2].clone(),
        incarnation: 1,
        status: Some(1),
        signal: None,
        t_ns,
        phase: Phase::Test,
        role: None,
    });
    let mut rand = XoRand::new(8);
    let mut drawn = 0;
    for _ in 0..50 {
        let Some(s) = random_points::tail(&seed(&root), &d, &mut rand) else {
            continue;
        };
        let At::Pattern(p) = &s.faults[0].at else {
            panic!()
        };
        let met = crate::search::patterns::resolve(p, Interval::new(Phase::Test, 0).0, &root.trace);
        // Met at the earliest by a node of the role of the one it was drawn at: the n-th of another comes little earlier.
        assert!(root.trace.events[met.unwrap()].t_ns + 100 > t_ns);
        drawn += 1;
    }
    assert!(drawn > 10, "{drawn}");
}
