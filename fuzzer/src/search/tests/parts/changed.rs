//! Havoc and tails: what they make of a kept run keeps the rules, changes something or comes after all of it, and is injected mostly.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn havoc_keeps_the_rules_and_changes_something(salt in any::<u64>(), large in any::<bool>()) {
        let sim = if large { deep(5, 2) } else { deep(3, 1) };
        let shape = sim.shape();
        let d = warren(&shape);
        let all = shapes::built_in().unwrap();
        let ground = ground(&sim);
        let mut rand = XoRand::new(salt);
        let mut one = || {
            let drawn = shapes::draw(&all, &Warren::default(), &ground, "sim", &d, &mut rand);
            sim.run(&drawn.unwrap().1)
        };
        let (a, b) = (one(), one());
        let of = |p| Parent::new(seed(p), &p.record.injected);
        let (Some(parent), other) = (of(&a), of(&b)) else {
            return Ok(());
        };
        let was = a.record.matched.as_ref().unwrap();
        for op in Op::ALL {
            let Some(s) = changed(op, &parent, other.as_ref(), &d, &mut rand) else {
                continue;
            };
            prop_assert_ne!(&s, was, "{}", op);
            prop_assert_eq!((&s.start, &s.roles, &s.target), (&was.start, &was.roles, &was.target));
            prop_assert_eq!(&FaultSequence::from_text(&s.to_text()).unwrap(), &s);
            prop_assert!(s.faults.len() <= shape.max_faults);
            let run = sim.run(&s);
            let matched = run.record.matched.as_ref().unwrap();
            prop_assert!(keeps_rules(&d, matched), "{}: {}", op, s.to_text());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of a fault-free run and of its own result: the faults that were there stay, those that follow keep the rules and come later.
    #[test]
    fn tails_follow_what_is_there_and_keep_the_rules(salt in any::<u64>(), large in any::<bool>()) {
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
            let matched = run.record.matched.as_ref().unwrap();
            prop_assert!(keeps_rules(&d, matched), "{}", s.to_text());
        }
    }
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
    // Of the same points, more come than of a whole sequence of the baseline's; and few end by the constraints: of three in four the constraints let
    // whoever comes have them, of the others nodes are named where that matters, as for a crash beside a cut.
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
    assert!(
        refused[0] > 10 && refused[1] * 5 < refused[0],
        "{refused:?}"
    );
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
    if let Some(s) = random_points::tail(&seed(&run), &d, &mut rand) {
        assert!(
            s.faults[done..]
                .iter()
                .all(|f| matches!(f.at, At::Pattern(_)))
        );
    }
}

#[test]
fn each_operator_makes_something_of_ordinary_runs() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = warren(&shape);
    let ground = ground(&sim);
    let mut rand = XoRand::new(5);
    let mut full: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    let all = shapes::built_in().unwrap();
    for _ in 0..25 {
        let mut one = || {
            let drawn = shapes::draw(&all, &Warren::default(), &ground, "sim", &d, &mut rand);
            sim.run(&drawn.unwrap().1)
        };
        let (a, b) = (one(), one());
        let parent = Parent::new(seed(&a), &a.record.injected);
        let other = Parent::new(seed(&b), &b.record.injected);
        let Some(parent) = parent else { continue };
        for op in Op::ALL {
            if let Some(s) = changed(op, &parent, other.as_ref(), &d, &mut rand) {
                let of = full.entry(op.to_string()).or_default();
                of[0] += 1;
                of[1] += u32::from(sim.run(&s).complete());
            }
        }
    }
    println!("{full:?}");
    for op in Op::ALL {
        let [made, full] = full.get(&op.to_string()).copied().unwrap_or_default();
        assert!(made >= 6, "{op}: {made} made");
        assert!(full * 2 >= made, "{op}: {full} of {made} injected in full");
    }
}
