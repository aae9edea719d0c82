//! The parts of `warren` against the made-up cluster: shapes come and keep the rules, havoc keeps them too and changes something, strata
//! are drawn evenly, twins are one child.

use super::*;
use crate::search::havoc::{Op, Parent, changed};
use crate::search::shapes::{self, Ground};
use crate::search::strata::Stratum;
use crate::search::{Alike, Warren, symmetry};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use warren_model::{CrashStyle, Fault, GroupShape, NodeName, Shape, Who};

fn deep(nodes: usize, max_dead: usize) -> Sim {
    let mut sim = Sim::new(nodes, max_dead);
    (sim.deep, sim.bug, sim.rounds) = (true, false, 60);
    sim
}

fn warren(shape: &ClusterShape) -> Drawing<'_> {
    Drawing {
        parts: Parts::ALL,
        ..drawing(shape, FaultSet::default())
    }
}

fn ground(sim: &Sim) -> Ground {
    let root = sim.run(&FaultSequence::empty("sim"));
    let roles = root.record.matched.unwrap().roles;
    Ground::new(StartState::Cold, roles, "leader", root.trace)
}

fn named(name: &str) -> Shape {
    let all = shapes::built_in().unwrap();
    all.into_iter().find(|s| s.name == name).unwrap()
}

/// A sequence reads back as itself and keeps the rules, as far as that can be told before its run.
fn sound(s: &FaultSequence, d: &Drawing<'_>) -> Result<(), TestCaseError> {
    prop_assert_eq!(&FaultSequence::from_text(&s.to_text()).unwrap(), s);
    let state = shapes::follow(s, "leader", d);
    prop_assert!(state.is_ok(), "{:?} in {}", state, s.to_text());
    prop_assert!(s.faults.len() <= d.shape.max_faults);
    Ok(())
}

#[test]
fn which_shapes_can_be_cast_where() {
    let all = shapes::built_in().unwrap();
    for (nodes, max_dead, not) in [(5, 2, &[][..]), (3, 1, &["stale-rejoin"])] {
        let sim = deep(nodes, max_dead);
        let shape = sim.shape();
        let d = warren(&shape);
        let ground = ground(&sim);
        let mut rand = XoRand::new(1);
        for s in &all {
            let cast = shapes::cast(s, &ground, "sim", &d, &mut rand);
            let want = !not.contains(&s.name.as_str());
            assert_eq!(cast.is_some(), want, "{} on {nodes} nodes", s.name);
        }
    }
    // Kinds that are not drawn, no leader, too few faults.
    let sim = deep(5, 2);
    let shape = sim.shape();
    let mut rand = XoRand::new(1);
    let crashes = Drawing {
        faults: set("crash,reboot"),
        ..warren(&shape)
    };
    let cast = |name: &str, d: &Drawing<'_>, g: &Ground, rand: &mut XoRand| {
        shapes::cast(&named(name), g, "sim", d, rand).is_some()
    };
    let g = ground(&sim);
    assert!(!cast("half-open-to", &crashes, &g, &mut rand));
    assert!(cast("flapping", &crashes, &g, &mut rand));
    let leaderless = Ground {
        lead: None,
        ..ground(&sim)
    };
    assert!(!cast(
        "leader-chase",
        &warren(&shape),
        &leaderless,
        &mut rand
    ));
    assert!(cast("flapping", &warren(&shape), &leaderless, &mut rand));
    let mut short = sim.shape();
    short.max_faults = 3;
    assert!(!cast("flapping", &warren(&short), &g, &mut rand));
    assert!(cast("leader-chase", &warren(&short), &g, &mut rand));
}

/// Like HDFS: a leader and one more in a group that bears one death, and a group where nobody leads.
#[test]
fn shapes_that_ask_for_no_leader_come_in_every_group_that_is_large_enough() {
    let sim = deep(5, 2);
    let one = sim.shape();
    let nodes = one.groups[0].nodes.clone();
    let leads = |n: &NodeName| ground(&sim).roles[n] == "leader";
    let leader = nodes.iter().position(leads).unwrap();
    let (mut lead, mut rest) = (vec![nodes[leader].clone()], nodes);
    rest.remove(leader);
    lead.push(rest.remove(0));
    let group = |nodes: &[NodeName], max_dead| GroupShape {
        nodes: nodes.to_vec(),
        max_dead,
        ..one.groups[0].clone()
    };
    let two = |of_rest| ClusterShape {
        groups: vec![group(&lead, 1), group(&rest, of_rest)],
        ..one.clone()
    };
    let ground = Rc::new(ground(&sim));
    let of = |shape: &ClusterShape, name: &str| -> BTreeSet<NodeName> {
        let (d, mut rand) = (warren(shape), XoRand::new(2));
        let casts =
            (0..60).filter_map(|_| shapes::cast(&named(name), &ground, "sim", &d, &mut rand));
        casts
            .flat_map(|s| symmetry::roles_of_named(&s).into_keys())
            .collect()
    };
    let set = |nodes: &[NodeName]| nodes.iter().cloned().collect::<BTreeSet<_>>();
    let all: BTreeSet<NodeName> = set(&lead).union(&set(&rest)).cloned().collect();
    assert_eq!(of(&two(1), "rolling-restart"), set(&rest));
    assert_eq!(of(&two(1), "flapping"), all);
    assert_eq!(
        of(&two(0), "flapping"),
        set(&lead),
        "a group that may lose nobody"
    );
    assert!(of(&two(1), "crash-while-joining").is_subset(&set(&lead)));

    let built_in = shapes::built_in().unwrap();
    let never = |shape: &ClusterShape| {
        shapes::never_cast(
            &built_in,
            std::slice::from_ref(&ground),
            "sim",
            &warren(shape),
        )
        .join(" ")
    };
    assert_eq!(never(&one), "");
    assert_eq!(never(&two(1)), "quorum-hand-over stale-rejoin");
    assert_eq!(
        never(&two(0)),
        "rolling-restart quorum-hand-over stale-rejoin"
    );
}

#[test]
fn a_whole_restart_takes_all_and_brings_them_back_in_any_order() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let d = warren(&shape);
    let ground = ground(&sim);
    let mut rand = XoRand::new(3);
    let mut orders = BTreeSet::new();
    for _ in 0..40 {
        let cast = shapes::cast(&named("whole-restart"), &ground, "sim", &d, &mut rand).unwrap();
        let of = |wanted: bool| -> Vec<String> {
            let all = cast.faults.iter().filter_map(|f| match &f.fault {
                Fault::Crash {
                    who: Who::Node(n),
                    style: CrashStyle::Outage,
                } if wanted => Some(n),
                Fault::Reboot { who: Who::Node(n) } if !wanted => Some(n),
                _ => None,
            });
            all.map(ToString::to_string).collect()
        };
        let (mut dead, mut back) = (of(true), of(false));
        orders.insert(back.clone());
        dead.sort();
        back.sort();
        assert_eq!(dead, ["n1", "n2", "n3", "n4", "n5"]);
        assert_eq!(back, dead);
        assert!(shapes::follow(&cast, "leader", &d).unwrap().beyond);
    }
    assert!(orders.len() > 20, "{} orders", orders.len());
    // What hangs below it as an ordinary child keeps max dead, and nothing else of the campaign goes beyond.
    let cast = shapes::cast(&named("whole-restart"), &ground, "sim", &d, &mut rand).unwrap();
    let run = sim.run(&FaultSequence {
        faults: cast.faults[..6].to_vec(),
        ..cast
    });
    assert!(run.complete(), "{:?}", run.record.not_injected);
    let kinds: BTreeSet<FaultKind> = seed(&run)
        .classes(&d)
        .keys()
        .map(|k| k.fault.kind())
        .collect();
    assert!(
        kinds.contains(&FaultKind::Reboot) && !kinds.contains(&FaultKind::Crash),
        "{kinds:?}"
    );
    // Too few faults for all, or a group that may lose nobody.
    let mut short = sim.shape();
    short.max_faults = 9;
    let none = |d: &Drawing<'_>, rand: &mut XoRand| {
        shapes::cast(&named("whole-restart"), &ground, "sim", d, rand).is_none()
    };
    assert!(none(&warren(&short), &mut rand));
    let mut spared = sim.shape();
    spared.groups[0].max_dead = 0;
    assert!(none(&warren(&spared), &mut rand));
}

#[test]
fn who_leads_where_the_target_does_not_say() {
    let roles = |text: &[&str]| -> BTreeMap<warren_model::NodeName, String> {
        let nodes = Sim::new(5, 2).nodes.into_iter();
        nodes.zip(text.iter().map(|r| (*r).to_owned())).collect()
    };
    let lead = |said: &str, r: &[&str]| {
        let trace = warren_model::Trace::default();
        Ground::new(StartState::Cold, roles(r), said, trace).lead
    };
    assert_eq!(
        lead("chief", &["chief", "x", "x"]).as_deref(),
        Some("chief")
    );
    assert_eq!(lead("chief", &["x", "x", "x"]), None);
    assert_eq!(lead("", &["x", "a", "x"]).as_deref(), Some("a"));
    assert_eq!(lead("", &["x", "a", "b"]), None);
    assert_eq!(lead("", &[]), None);
}

#[test]
fn most_casts_of_each_shape_are_injected_in_full() {
    for (nodes, max_dead) in [(5, 2), (3, 1)] {
        let sim = deep(nodes, max_dead);
        let shape = sim.shape();
        let d = warren(&shape);
        let ground = ground(&sim);
        let mut rand = XoRand::new(2);
        for s in shapes::built_in().unwrap() {
            let casts: Vec<FaultSequence> = (0..12)
                .filter_map(|_| shapes::cast(&s, &ground, "sim", &d, &mut rand))
                .collect();
            let full = casts.iter().filter(|c| sim.run(c).complete()).count();
            assert!(
                full * 2 >= casts.len(),
                "{}: {full} of {} on {nodes} nodes",
                s.name,
                casts.len()
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn shapes_keep_the_rules(salt in any::<u64>(), large in any::<bool>()) {
        let sim = if large { deep(5, 2) } else { deep(3, 1) };
        let shape = sim.shape();
        let d = warren(&shape);
        let all = shapes::built_in().unwrap();
        let mut rand = XoRand::new(salt);
        let drawn = shapes::draw(&all, &Warren::default(), &ground(&sim), "sim", &d, &mut rand);
        let (name, s) = drawn.unwrap();
        prop_assert!(all.iter().any(|s| s.name == name));
        sound(&s, &d)?;
        // No variable is left open.
        prop_assert!(!s.to_text().contains('$'), "{}", s.to_text());
        // What the run makes of it is a seed run like any other.
        let run = sim.run(&s);
        prop_assert!(d.state_after(run.record.matched.as_ref().unwrap()).is_some());
    }

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
            prop_assert!(d.state_after(matched).is_some(), "{}: {}", op, s.to_text());
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
            prop_assert!(d.state_after(matched).is_some(), "{}", s.to_text());
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
        let b = random_points::draw(
            &root.trace,
            &root.record.incarnations,
            "sim",
            StartState::Cold,
            &d,
            &mut rand,
        );
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

#[test]
fn strata_are_drawn_evenly_then_classes() {
    let mut sim = Sim::new(5, 2);
    sim.clients = true;
    let shape = sim.shape();
    let d = warren(&shape);
    let crashed = {
        let root = sim.run(&FaultSequence::empty("sim"));
        let s = seed(&root);
        let classes = s.classes(&d);
        // Once it has started, nothing was disturbed before the first fault.
        for (key, events) in &classes {
            let of_start = |e: &u32| root.trace.events[*e as usize].phase == Phase::Start;
            let starting = key.stratum == Stratum::Starting;
            assert_eq!(events.iter().all(of_start), starting, "{key:?}");
            assert!(starting || key.stratum == Stratum::Settled, "{key:?}");
        }
        assert!(classes.keys().any(|k| k.stratum == Stratum::Starting));
        let (event, fault) = all(&classes)
            .into_iter()
            .find(|(e, f)| {
                let e = &root.trace.events[*e as usize];
                *f == ChildFault::Crash && e.phase == Phase::Test && e.role == 2
            })
            .unwrap();
        sim.run(&s.child(&d, event, fault).unwrap())
    };
    let classes = seed(&crashed).classes(&d);
    let of = |s: Stratum| classes.keys().filter(|k| k.stratum == s).count();
    let (early, late) = (of(Stratum::Recovering), of(Stratum::Settled));
    assert!(early > 0 && late > 2 * early, "{early} {late}");
    let mut queue = Queue::default();
    let kept = Kept {
        cold: true,
        seed: 1,
        faults: 1,
        time_ms: 1000,
        coverage: 9,
        alike: None,
    };
    queue.add(kept, &classes, |_| false);
    let recovering = |queue: &Queue| {
        let first = |salt| {
            let pick = queue.clone().pick(&mut XoRand::new(salt), 1.0).unwrap();
            assert!(pick.reason().contains(&pick.key.stratum.to_string()));
            pick.key.stratum
        };
        let firsts = (0..200).map(first);
        firsts.filter(|s| *s == Stratum::Recovering).count()
    };
    // A half or a third, as there are two or three strata; not one of the many classes.
    let evenly = recovering(&queue);
    assert!((45..125).contains(&evenly), "{evenly} of 200");
    // The same where nothing is new.
    queue.know(classes.keys().map(|k| k.fault_id()).collect());
    let evenly = recovering(&queue);
    assert!((45..125).contains(&evenly), "{evenly} of 200");
}

/// Where nothing is left but what was tried in vain, the turn of a stratum comes a quarter as often.
#[test]
fn a_stratum_of_children_tried_in_vain_comes_seldom() {
    let mut sim = Sim::new(5, 2);
    sim.clients = true;
    let shape = sim.shape();
    let root = sim.run(&FaultSequence::empty("sim"));
    let all = seed(&root).classes(&warren(&shape));
    let most = |stratum| {
        let some = all.iter().filter(|(k, _)| k.stratum == stratum);
        some.max_by_key(|(_, events)| events.len()).unwrap()
    };
    let (start, first) = most(Stratum::Starting);
    let (settled, many) = most(Stratum::Settled);
    assert!(many.len() > 20, "{}", many.len());
    let classes = [(*start, first[..1].to_vec()), (*settled, many.clone())];
    let mut queue = Queue::default();
    let kept = Kept {
        cold: true,
        seed: 1,
        faults: 0,
        time_ms: 1000,
        coverage: 9,
        alike: None,
    };
    queue.add(kept, &classes.into(), |_| false);
    // A fault id stays new until it was tested, or given up.
    queue.know(vec![start.fault_id(), settled.fault_id()]);
    let first = |queue: &Queue, salt| queue.clone().pick(&mut XoRand::new(salt), 1.0).unwrap();
    let starting = |queue: &Queue| {
        let picks = (0..400).map(|salt| first(queue, salt));
        picks.filter(|p| p.key == *start).count()
    };
    let fresh = starting(&queue);
    assert!((160..240).contains(&fresh), "{fresh} of 400: a half");
    // Neither is new among its siblings any more.
    let (mut missed, mut tested) = (false, false);
    let mut turns = XoRand::new(7);
    while !(missed && tested) {
        let pick = queue.pick(&mut turns, 1.0).unwrap();
        if pick.key == *start {
            assert!(!queue.not_injected(&pick), "it is tried again");
            missed = true;
        } else {
            queue.tested(&pick);
            tested = true;
        }
        assert!(queue.pending() > 2);
    }
    let again = starting(&queue);
    assert!((45..115).contains(&again), "{again} of 400: a fifth");
}

/// Eight runs whose last fault met the same weigh as one, beside one that is like no other.
#[test]
fn runs_that_are_alike_share_their_energy() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, set("crash")));
    let picks = |loses: &[Option<bool>]| -> Vec<usize> {
        let mut queue = Queue::default();
        for (id, loses) in (0..).zip(loses) {
            let kept = Kept {
                cold: true,
                seed: id,
                faults: 1,
                time_ms: 1000,
                coverage: 9,
                alike: loses.map(|loses| Alike { id: 5, loses }),
            };
            queue.add(kept, &classes, |_| false);
        }
        // What comes back from a file is as it was.
        let bytes = postcard::to_allocvec(&queue).unwrap();
        let queue: Queue = postcard::from_bytes(&bytes).unwrap();
        // One that loses shares with all that are alike, exhausted or not.
        let like = loses.iter().flatten().count() as u64;
        for (id, loses) in (0..).zip(loses) {
            let sharing = if *loses == Some(true) { like } else { 1 };
            assert_eq!(queue.sharing(id), sharing, "{id}");
        }
        let first = |salt| queue.clone().pick(&mut XoRand::new(salt), 1.0).unwrap();
        let mut of = vec![0; loses.len()];
        for salt in 0..450 {
            of[first(salt).seed as usize] += 1;
        }
        of
    };
    let [mut none, mut all, mut one_has_more] = [vec![None; 9], vec![Some(true); 9], vec![]];
    // (of the last one, of 450; within four standard deviations)
    assert!((25..80).contains(&picks(&none)[8]), "a ninth each");
    all[8] = None;
    assert!((180..270).contains(&picks(&all)[8]), "half of all");
    // One that showed something new beside keeps what it has, and the others lose by it.
    one_has_more.extend_from_slice(&all[..8]);
    one_has_more.push(Some(false));
    let of = picks(&one_has_more);
    assert!((190..285).contains(&of[8]), "nine of seventeen: {of:?}");
    none.truncate(1);
    all.truncate(1);
    assert_eq!(picks(&none), picks(&all), "alone it loses nothing");
}

#[test]
fn twins_are_one_child() {
    let sim = Sim::new(5, 2);
    let shape = sim.shape();
    let with = warren(&shape);
    let without = Drawing {
        parts: Parts {
            symmetry: false,
            ..Parts::ALL
        },
        ..with
    };
    let root = sim.run(&FaultSequence::empty("sim"));
    let s = seed(&root);
    let (few, many) = (s.classes(&with), s.classes(&without));
    assert!(few.len() == many.len(), "no class is lost");
    let identity = |(event, fault): (u32, ChildFault)| {
        let child = s.child(&with, event, fault).unwrap();
        symmetry::identity(&child, &shape).unwrap()
    };
    let drawn = |f: &ChildFault| matches!(f, ChildFault::Start(CutForm::Split | CutForm::Bridge));
    let plain = |c: &SeedClasses| -> Vec<(u32, ChildFault)> {
        all(c).into_iter().filter(|(_, f)| !drawn(f)).collect()
    };
    let kept: Vec<u64> = plain(&few).into_iter().map(identity).collect();
    let all_of_them: HashSet<u64> = plain(&many).into_iter().map(identity).collect();
    let distinct: HashSet<u64> = kept.iter().copied().collect();
    assert_eq!(distinct, all_of_them, "nothing else is lost");
    let test_only = |c: &SeedClasses| {
        let test = |e: &u32| root.trace.events[*e as usize].phase == Phase::Test;
        plain(c).iter().filter(|(e, _)| test(e)).count()
    };
    assert!(test_only(&few) * 3 < test_only(&many) * 2);
}
