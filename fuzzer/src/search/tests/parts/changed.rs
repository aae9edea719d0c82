//! Havoc: what it makes of a kept run keeps the rules, changes something, and is injected mostly.

use super::*;
use crate::search::patterns::generalise;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn havoc_changes_something_and_keeps_the_rest(salt in any::<u64>(), large in any::<bool>()) {
        let sim = if large { deep(5, 2) } else { deep(3, 1) };
        let shape = sim.shape();
        let d = warren(&shape);
        let ground = ground(&sim);
        let mut rand = XoRand::new(salt);
        let mut one = || cast(&sim, &d, &ground, &mut rand);
        let (a, b) = (one(), one());
        let of = |p| Parent::new(seed(p), &d);
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
            // What comes behind the change is the run's to make exact.
            let same = s.faults.iter().zip(&was.faults).take_while(|(a, b)| a == b).count();
            let exact = |f: &&warren_model::FaultAt| matches!(f.at, At::Exact(_));
            let behind = s.faults.iter().skip(same + 1).filter(exact).count();
            prop_assert_eq!(behind, 0, "{}:\n{}\nof\n{}", op, s.to_text(), was.to_text());
        }
    }
}

/// A run that did what a shape, drawn, asks for.
fn cast(sim: &Sim, d: &Drawing<'_>, ground: &Ground, rand: &mut XoRand) -> RunProduct {
    let all = shapes::built_in().unwrap();
    let drawn = shapes::draw(&all, &Warren::default(), ground, "sim", d, rand);
    sim.run(&drawn.unwrap().1)
}

#[test]
fn a_node_is_changed_for_one_that_served_as_the_same_by_then() {
    let sim = deep(5, 3);
    let shape = sim.shape();
    let d = warren(&shape);
    let root = sim.run(&FaultSequence::empty("sim"));
    let leads = |run: &RunProduct, e: &warren_model::TraceEvent| {
        run.trace.role(e) == Some("leader") && e.phase == Phase::Test
    };
    let crash = |run: &RunProduct| {
        let done = run.record.injected.len();
        let mut events = run.trace.events.iter();
        let at = events.position(|e| leads(run, e) && e.interval.faults_done() == done && e.n > 3);
        let child = seed(run).child(&d, at.unwrap() as u32, ChildFault::Crash);
        sim.run(&child.unwrap())
    };
    // The leader at GO, then the next one.
    let run = crash(&crash(&root));
    assert!(run.complete());
    let names: Vec<NodeName> = run
        .record
        .injected
        .iter()
        .map(|i| match &i.matched.at {
            At::Exact(p) => p.node.clone(),
            at => panic!("{at:?}"),
        })
        .collect();
    let parent = Parent::new(seed(&run), &d).unwrap();
    let mut rand = XoRand::new(1);
    let mut others = |node: &NodeName, then, now| -> BTreeSet<NodeName> {
        (0..50)
            .filter_map(|_| parent.other(node, then, now, &d, &mut rand))
            .collect()
    };
    let all: BTreeSet<NodeName> = sim.nodes.iter().cloned().collect();
    let but = |gone: &[NodeName]| -> BTreeSet<NodeName> {
        all.iter().filter(|n| !gone.contains(n)).cloned().collect()
    };
    // It followed at GO, as three others did; when it was crashed it led, and so does nobody else who lives.
    let second = names[1].clone();
    assert_eq!(others(&second, 0, 0), but(&names));
    assert!(!others(&second, 1, 1).contains(but(&names).first().unwrap()));
    // Who led first changes places at the second fault with who leads by then.
    assert_eq!(others(&names[0], 0, 1), BTreeSet::from([second]));
}

/// A run and one more fault of this kind, in the middle of where it can be.
fn after(sim: &Sim, d: &Drawing<'_>, run: &RunProduct, kind: fn(ChildFault) -> bool) -> RunProduct {
    let classes = all(&seed(run).classes(d));
    let of: Vec<_> = classes.iter().filter(|(_, f)| kind(*f)).collect();
    let (event, fault) = of[of.len() / 2];
    sim.run(&seed(run).child(d, *event, *fault).unwrap())
}

/// Where one node at most may be dead or cut off, only the one that is cut off may be crashed.
#[test]
fn what_max_dead_allows_of_one_node_alone_stays_with_it() {
    let sim = deep(3, 1);
    let shape = sim.shape();
    let d = warren(&shape);
    let crash = |f| f == ChildFault::Crash;
    let reboot = |f| matches!(f, ChildFault::Reboot(_));
    let cut = |f| f == ChildFault::Start(CutForm::Isolate);
    // With the first crash its reboot goes: the cut and the crash are left, the crash behind the change or right at it.
    type Kind = fn(ChildFault) -> bool;
    let runs: [[Kind; 4]; 2] = [[crash, reboot, cut, crash], [cut, crash, reboot, crash]];
    for (i, kinds) in runs.into_iter().enumerate() {
        let mut run = sim.run(&FaultSequence::empty("sim"));
        for kind in kinds {
            run = after(&sim, &d, &run, kind);
        }
        let last = run.record.matched.as_ref().unwrap().faults.last().unwrap();
        let At::Exact(point) = &last.at else {
            panic!("{last:?}")
        };
        let parent = Parent::new(seed(&run), &d).unwrap();
        let mut rand = XoRand::new(1);
        let made = (0..30).filter_map(|_| changed(Op::Drop, &parent, None, &d, &mut rand));
        let made: Vec<FaultSequence> = made.filter(|s| s.faults.len() == 2).collect();
        assert!(!made.is_empty(), "{i}");
        for s in made {
            let At::Pattern(p) = &s.faults[1].at else {
                panic!("{}", s.to_text())
            };
            assert_eq!(p.node.as_ref(), Some(&point.node), "{}", s.to_text());
        }
    }
}

/// So its number is that of the node's arrivals, those as something else with them: by the number that it has in its role it would come too
/// early.
#[test]
fn what_keeps_its_node_counts_whatever_that_served_as() {
    let sim = deep(3, 1);
    let shape = sim.shape();
    let d = warren(&shape);
    let after = |run: &RunProduct, kind: fn(ChildFault) -> bool, least: u32| {
        let there = |e: &warren_model::TraceEvent| e.phase == Phase::Test && e.n >= least;
        let classes = all(&seed(run).classes(&d)).into_iter();
        let of = classes.filter(|(e, f)| kind(*f) && there(&run.trace.events[*e as usize]));
        let (event, fault) = of.min().unwrap();
        sim.run(&seed(run).child(&d, event, fault).unwrap())
    };
    let run = sim.run(&FaultSequence::empty("sim"));
    let run = after(&run, |f| f == ChildFault::Crash, 1);
    let run = after(&run, |f| matches!(f, ChildFault::Reboot(_)), 1);
    let run = after(&run, |f| f == ChildFault::Start(CutForm::Isolate), 1);
    let run = after(&run, |f| f == ChildFault::Crash, 5);
    assert!(run.complete());
    let met = run.record.injected[3].event.unwrap();
    let met = run.trace.events[met].clone();
    let node = run.trace.nodes[usize::from(met.node)].clone();
    // How often it came there as something else before, and its number in its role.
    for (else_before, in_role) in [(0, 5), (1, 4), (2, 3)] {
        let mut run = run.clone();
        let same = |e: &&mut warren_model::TraceEvent| {
            (e.node, e.stack, e.interval) == (met.node, met.stack, met.interval)
        };
        let same = run.trace.events.iter_mut().filter(same);
        same.take(else_before).for_each(|e| e.role = 3 - e.role);
        let of = seed(&run);
        let open = generalise(of.matched, of.injected, of.exits, of.trace).sequence;
        let At::Pattern(p) = &open.faults[3].at else {
            panic!("{}", open.to_text())
        };
        assert!(p.role.is_some() && p.n == in_role, "{}", open.to_text());
        let parent = Parent::new(of, &d).unwrap();
        let mut rand = XoRand::new(1);
        let made = (0..30).filter_map(|_| changed(Op::Drop, &parent, None, &d, &mut rand));
        let made: Vec<FaultSequence> = made.filter(|s| s.faults.len() == 2).collect();
        assert!(!made.is_empty());
        for s in made {
            let At::Pattern(p) = &s.faults[1].at else {
                panic!("{}", s.to_text())
            };
            let has = (p.node.as_ref(), p.role.as_deref(), p.n);
            assert_eq!(has, (Some(&node), None, 5), "{}", s.to_text());
        }
    }
}

/// By role the node of the first time would often be the first again, where it is back.
#[test]
fn what_is_repeated_comes_on_another_node() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = warren(&shape);
    let root = sim.run(&FaultSequence::empty("sim"));
    let reboot = |f| matches!(f, ChildFault::Reboot(_));
    let run = after(&sim, &d, &root, |f| f == ChildFault::Crash);
    let run = after(&sim, &d, &run, reboot);
    let crash = &run.record.matched.as_ref().unwrap().faults[0].fault;
    let Fault::Crash {
        who: Who::Node(first),
        ..
    } = crash
    else {
        panic!("{crash:?}")
    };
    let parent = Parent::new(seed(&run), &d).unwrap();
    let mut rand = XoRand::new(1);
    let made = (0..30).filter_map(|_| changed(Op::Repeat, &parent, None, &d, &mut rand));
    let made: Vec<FaultSequence> = made.collect();
    assert!(!made.is_empty());
    for s in made {
        let again = sim.run(&s);
        for i in again.record.injected.iter().skip(2) {
            if let Fault::Crash { who, .. } = &i.matched.fault {
                assert_ne!(who, &Who::Node(first.clone()), "{}", s.to_text());
            }
        }
        assert!(again.complete(), "{}", s.to_text());
    }
}

#[test]
fn a_run_is_not_spliced_with_its_own_end() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = warren(&shape);
    let root = sim.run(&FaultSequence::empty("sim"));
    let run = after(&sim, &d, &root, |f| f == ChildFault::Crash);
    let run = after(&sim, &d, &run, |f| matches!(f, ChildFault::Reboot(_)));
    let parent = Parent::new(seed(&run), &d).unwrap();
    let itself = Parent::new(seed(&run), &d).unwrap();
    let mut rand = XoRand::new(1);
    let made = (0..60).filter_map(|_| changed(Op::Splice, &parent, Some(&itself), &d, &mut rand));
    let lengths: BTreeSet<usize> = made.map(|s| s.faults.len()).collect();
    // Crash, reboot, and both again; a crash and its reboot would be what it did.
    assert_eq!(lengths, BTreeSet::from([4]));
}

/// Of a cold run the first fault may move to a point of the start, but not if it is a cut.
#[test]
fn no_start_is_cut() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = Drawing {
        whole_start: true,
        ..warren(&shape)
    };
    let root = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&root).classes(&d);
    let first = |kind| {
        let of_test = |e: &u32| root.trace.events[*e as usize].phase == Phase::Test;
        let all = all(&classes).into_iter();
        let (event, fault) = all.filter(|(e, f)| *f == kind && of_test(e)).min().unwrap();
        sim.run(&seed(&root).child(&d, event, fault).unwrap())
    };
    let mut rand = XoRand::new(1);
    let mut moved_to_start = |kind| -> usize {
        let run = first(kind);
        let parent = Parent::new(seed(&run), &d).unwrap();
        let made = (0..60).filter_map(|_| changed(Op::Shift, &parent, None, &d, &mut rand));
        let made: Vec<FaultSequence> = made.collect();
        assert!(!made.is_empty());
        let start = made
            .iter()
            .filter(|s| s.faults[0].at.phase() == Phase::Start);
        start.count()
    };
    assert!(moved_to_start(ChildFault::Crash) > 0);
    assert_eq!(moved_to_start(ChildFault::Start(CutForm::Isolate)), 0);
}

/// A cut that is not at its exact point any more cuts off whoever meets its pattern.
#[test]
fn a_cut_behind_a_change_follows_the_node_that_meets_it() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = warren(&shape);
    let root = sim.run(&FaultSequence::empty("sim"));
    let after = |run: &RunProduct, kind| after(&sim, &d, run, kind);
    let mut rand = XoRand::new(1);
    let mut forms = |kind: fn(ChildFault) -> bool| -> BTreeSet<String> {
        let run = after(&after(&root, |f| f == ChildFault::Crash), kind);
        let parent = Parent::new(seed(&run), &d).unwrap();
        let made = (0..30).filter_map(|_| changed(Op::Drop, &parent, None, &d, &mut rand));
        made.map(|s| match &s.faults[0].fault {
            Fault::PartitionStart { who, .. } => format!("{:?} from {:?}", who.cut, who.from),
            other => panic!("{other:?}"),
        })
        .collect()
    };
    let isolated = forms(|f| f == ChildFault::Start(CutForm::Isolate));
    assert_eq!(isolated, BTreeSet::from(["[Executing] from []".into()]));
    let pair = forms(|f| f == ChildFault::Start(CutForm::Both));
    assert_eq!(pair, BTreeSet::from(["[Executing] from [Peer]".into()]));
    let split = forms(|f| f == ChildFault::Start(CutForm::Split));
    assert!(!split.is_empty());
    assert!(
        split
            .iter()
            .all(|s| s.contains("Node") && !s.contains("Executing")),
        "{split:?}"
    );
}

/// Behind a fault that is new, and in the place of one that is gone, a point is found by its pattern where the run has it: steps that need not move
/// do not.
#[test]
fn what_follows_a_change_is_counted_from_what_comes_before_it_now() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = warren(&shape);
    // A stall changes nothing in the made-up cluster.
    let d = Drawing {
        faults: set("crash,stall"),
        ..d
    };
    // Where one node alone serves so, and where another may come first.
    for role in ["leader", "follower"] {
        stalls_move_nothing(&sim, &d, role);
    }
}

fn stalls_move_nothing(sim: &Sim, d: &Drawing<'_>, role: &str) {
    let root = sim.run(&FaultSequence::empty("sim"));
    let leads = |e: &&warren_model::TraceEvent| {
        root.trace.role(e) == Some(role) && e.phase == Phase::Test && e.n > 20
    };
    let event = root.trace.events.iter().rfind(leads).unwrap();
    let at = root.trace.events.iter().position(|e| e == event).unwrap() as u32;
    let run = sim.run(&seed(&root).child(d, at, ChildFault::Crash).unwrap());
    let crashed = |run: &RunProduct| {
        let of = run.record.injected.iter();
        let mut of = of.filter(|i| matches!(i.matched.fault, Fault::Crash { .. }));
        let index = of.next().unwrap().event.unwrap();
        let event = &run.trace.events[index];
        (event.node, event.stack, index)
    };
    let was = crashed(&run);
    let mut rand = XoRand::new(3);
    let parent = Parent::new(seed(&run), d).unwrap();
    let mut stalled = 0;
    for _ in 0..40 {
        let made = changed(Op::Insert, &parent, None, d, &mut rand);
        let made = made.filter(|s| matches!(s.faults[0].fault, Fault::Stall { .. }));
        let Some(with) = made else { continue };
        let inserted = sim.run(&with);
        assert!(inserted.complete(), "{}", with.to_text());
        assert_eq!(crashed(&inserted), was, "{}", with.to_text());
        // And with the stall dropped again it is the crash alone, where it was.
        let parent = Parent::new(seed(&inserted), d).unwrap();
        let less = changed(Op::Drop, &parent, None, d, &mut rand).unwrap();
        assert_eq!(less.faults.len(), 1);
        assert_eq!(crashed(&sim.run(&less)), was, "{}", less.to_text());
        stalled += 1;
    }
    assert!(stalled > 5, "{stalled}");
}

/// A run of which a node ended by itself, at a point before the middle, and that brought it back.
fn with_an_end(sim: &Sim, d: &Drawing<'_>) -> (RunProduct, NodeName) {
    let root = sim.run(&FaultSequence::empty("sim"));
    let test = |e: &&warren_model::TraceEvent| e.phase == Phase::Test && e.node == 0;
    let points: Vec<_> = root.trace.events.iter().filter(test).collect();
    let (died, back) = (points[points.len() / 4], points[points.len() / 2]);
    let ended = sim.nodes[2].clone();
    let mut run = root.clone();
    run.record.exits.push(warren_model::Exit {
        node: ended.clone(),
        incarnation: 1,
        status: Some(1),
        signal: None,
        t_ns: died.t_ns,
        phase: Phase::Test,
        role: None,
    });
    let at = root.trace.events.iter().position(|e| e == back).unwrap();
    let child = seed(&run)
        .child(d, at as u32, ChildFault::Reboot(2))
        .unwrap();
    run.record.injected = vec![Injected {
        index: 0,
        matched: child.faults[0].clone(),
        event: Some(at),
        t_reached: back.t_ns,
        t_done: back.t_ns,
        late: false,
        drift: None,
        kill: None,
    }];
    run.record.matched = Some(child);
    let t_ns = back.t_ns;
    for e in run.trace.events.iter_mut().filter(|e| e.t_ns > t_ns) {
        e.interval = Interval::new(Phase::Test, 1);
    }
    (run, ended)
}

/// What ended by itself is dead where it was in the run: it can be brought back, and counts among those that a group bears.
#[test]
fn havoc_knows_who_ended_by_itself() {
    let sim = deep(3, 1);
    let shape = sim.shape();
    let d = warren(&shape);
    let (run, ended) = with_an_end(&sim, &d);
    let parent = Parent::new(seed(&run), &d).unwrap();
    let mut rand = XoRand::new(1);
    let first_dead = Fault::Reboot {
        who: Who::FirstDead,
    };
    let mut kinds = BTreeMap::new();
    for _ in 0..200 {
        let Some(s) = changed(Op::Insert, &parent, None, &d, &mut rand) else {
            continue;
        };
        *kinds.entry(s.faults[0].fault.kind()).or_insert(0) += 1;
        let At::Exact(p) = &s.faults[0].at else {
            panic!("what is new is exact")
        };
        let t_ns = run
            .trace
            .events
            .iter()
            .find(|e| run.trace.point(e) == *p)
            .unwrap()
            .t_ns;
        let gone = t_ns >= run.record.exits[0].t_ns;
        // With it dead nobody else may die; before that, who dies is brought back for it to end.
        assert!(
            !gone || !matches!(s.faults[0].fault, Fault::Crash { .. }),
            "{}",
            s.to_text()
        );
        assert!(!gone || p.node != ended, "a dead node passes no point");
        // The reboot of the run is that of the first dead, unless one died before it, or it is itself the one that is new.
        let back = s.faults.last().unwrap();
        assert!(
            back.fault == first_dead || !gone || s.faults.len() == 1,
            "{}",
            s.to_text()
        );
    }
    assert!(kinds[&FaultKind::Crash] > 5 && kinds.len() > 1, "{kinds:?}");
}

#[test]
fn favoured_stacks_come_more_often_in_tails_and_inserts() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let plain = warren(&shape);
    let favours = Drawing {
        favour: Favour::new(&["log.force".into()]),
        ..plain.clone()
    };
    let root = sim.run(&FaultSequence::empty("sim"));
    let stacks = favours.favour.stacks(&root.trace);
    assert_eq!(stacks.len(), 1);
    let run = cast(&sim, &plain, &cold(&root), &mut XoRand::new(2));
    let met = |s: &FaultSequence| match &s.faults[0].at {
        At::Exact(p) => stacks.contains(&p.stack),
        At::Pattern(p) => p.stack.is_some_and(|s| stacks.contains(&s)),
        _ => false,
    };
    let count = |d: &Drawing<'_>| {
        let mut rand = XoRand::new(4);
        let parent = Parent::new(seed(&run), d).unwrap();
        let tails = (0..200).filter_map(|_| random_points::tail(&seed(&root), d, &mut rand));
        let tails = tails.filter(&met).count();
        let inserts = (0..200).filter_map(|_| changed(Op::Insert, &parent, None, d, &mut rand));
        let first =
            |s: &FaultSequence| s.faults[0] != run.record.matched.as_ref().unwrap().faults[0];
        (tails, inserts.filter(first).filter(&met).count())
    };
    let (without, with) = (count(&plain), count(&favours));
    assert!(
        with.0 > 2 * without.0 + 10 && with.1 > 2 * without.1 + 5,
        "{without:?} {with:?}"
    );
}

#[test]
fn each_operator_makes_something_of_ordinary_runs() {
    most_are_made_and_come(&deep(5, 2));
    // Where one node at most may be dead, too.
    most_are_made_and_come(&deep(3, 1));
}

fn most_are_made_and_come(sim: &Sim) {
    let shape = sim.shape();
    let d = warren(&shape);
    let ground = ground(sim);
    let mut rand = XoRand::new(5);
    let mut full: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    let mut refused = 0;
    for _ in 0..25 {
        let mut one = || cast(sim, &d, &ground, &mut rand);
        let (a, b) = (one(), one());
        let parent = Parent::new(seed(&a), &d);
        let other = Parent::new(seed(&b), &d);
        let Some(parent) = parent else { continue };
        for op in Op::ALL {
            if let Some(s) = changed(op, &parent, other.as_ref(), &d, &mut rand) {
                let of = full.entry(op.to_string()).or_default();
                let run = sim.run(&s);
                of[0] += 1;
                of[1] += u32::from(run.complete());
                let reason = run.record.not_injected.map(|n| n.reason);
                refused += u32::from(reason.as_deref() == Some("constraint"));
            }
        }
    }
    println!("{full:?}, refused {refused}");
    // Each was asked of the constraints; what comes otherwise than in the parent's run may still break them.
    let all: u32 = full.values().map(|[made, _]| made).sum();
    assert!(refused * 20 < all, "{refused} of {all}");
    for op in Op::ALL {
        let [made, full] = full.get(&op.to_string()).copied().unwrap_or_default();
        assert!(made >= 12, "{op}: {made} made");
        assert!(full * 2 >= made, "{op}: {full} of {made} injected in full");
    }
}
