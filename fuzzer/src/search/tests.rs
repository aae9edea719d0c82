//! The strategies against the made-up cluster: children, constraints, classes, pools, random points.

mod parts;
mod queue;

use super::Pick;
use super::children::{ChildFault, CutForm, Drawing, Seed, SeedClasses, whoever_comes};
use super::queue::{Kept, MAX_TRIES, Queue, Why};
use super::rand::XoRand;
use super::shapes::Ground;
use super::sim::Sim;
use super::standing::Standing;
use super::{Bounds, Favour, Oldest, Parts, peers, random, random_points};
use crate::search::FaultSet;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashSet};
use warren_model::{
    At, ClusterShape, CutHow, EventFlags, Fault, FaultKind, FaultSequence, Injected, Interval,
    Phase, RunProduct, StackId, StartState,
};

fn drawing(shape: &ClusterShape, faults: FaultSet) -> Drawing<'_> {
    Drawing {
        shape,
        faults,
        how: CutHow::Drop,
        style: warren_model::CrashStyle::Process,
        salt: 5,
        parts: Parts::NONE,
        whole_start: false,
        favour: Favour::default(),
    }
}

fn seed(product: &RunProduct) -> Seed<'_> {
    Seed {
        trace: &product.trace,
        matched: product.record.matched.as_ref().unwrap(),
        injected: &product.record.injected,
        exits: &product.record.exits,
        incarnations: &product.record.incarnations,
        bounds: Bounds::of(product),
    }
}

/// A fault-free run from a cold start, for what is drawn from one.
fn cold(product: &RunProduct) -> Ground {
    Ground {
        incarnations: product.record.incarnations.clone(),
        ..Ground::new(
            StartState::Cold,
            product.record.matched.clone().unwrap().roles,
            "leader",
            product.trace.clone(),
        )
    }
}

/// Whether a sequence with resolved nodes keeps the rules.
fn keeps_rules(d: &Drawing<'_>, sequence: &FaultSequence) -> bool {
    Standing::behind(d.shape, sequence, &[], &[]).is_some()
}

fn set(text: &str) -> FaultSet {
    text.parse().unwrap()
}

fn all(classes: &SeedClasses) -> Vec<(u32, ChildFault)> {
    classes
        .iter()
        .flat_map(|(k, events)| events.iter().map(|e| (*e, k.fault)))
        .collect()
}

#[test]
fn first_children_are_a_crash_at_each_point_and_starts_at_message_points() {
    let sim = Sim::new(5, 2);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let crash_only = seed(&product).classes(&drawing(&shape, set("crash,reboot")));
    assert_eq!(all(&crash_only).len(), product.trace.events.len());
    assert!(crash_only.keys().all(|k| k.fault == ChildFault::Crash));

    let both = seed(&product).classes(&drawing(&shape, FaultSet::default()));
    let messages = product
        .trace
        .events
        .iter()
        .filter(|e| e.kind.is_message() && e.peer.is_some())
        .count();
    for form in CutForm::ALL {
        let n = all(&both)
            .iter()
            .filter(|(_, f)| *f == ChildFault::Start(form))
            .count();
        assert_eq!(n, messages, "{form:?}");
    }
    assert!(both.keys().all(|k| k.fault != ChildFault::Stop));
}

/// Off unless asked for; then one at each point of the test, whoever executes it, and drawn by random-points too.
#[test]
fn stalls_come_where_they_are_asked_for() {
    let sim = Sim::new(5, 2);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let of_test = |p: &&warren_model::TraceEvent| p.phase == Phase::Test;
    let points = product.trace.events.iter().filter(of_test).count();
    assert!(points > 0);
    for (faults, want) in [("crash,reboot,partition", 0), ("crash,stall", points)] {
        let drawing = drawing(&shape, set(faults));
        let seed = seed(&product);
        let mut children = all(&seed.classes(&drawing));
        children.retain(|(_, f)| *f == ChildFault::Stall);
        assert_eq!(children.len(), want, "{faults}");
        for (event, fault) in children {
            let child = seed.child(&drawing, event, fault).unwrap();
            assert_eq!(child.kinds(), "stall");
        }
        let mut rand = XoRand::new(3);
        let drawn =
            (0..40).map(|_| random_points::draw(&cold(&product), "sim", &drawing, &mut rand));
        let stalls = drawn.filter(|s| s.kinds().contains("stall")).count();
        assert_eq!(stalls > 0, want > 0, "{faults}: {stalls}");
    }
}

#[test]
fn three_nodes_have_no_splits() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, FaultSet::default()));
    let forms: BTreeSet<_> = classes
        .keys()
        .filter_map(|k| match k.fault {
            ChildFault::Start(f) => Some(f),
            _ => None,
        })
        .collect();
    assert_eq!(
        forms.into_iter().collect::<Vec<_>>(),
        [CutForm::Isolate, CutForm::Both, CutForm::To, CutForm::From]
    );
}

#[test]
fn a_stop_comes_at_the_first_occurrence_of_each_stack_and_role() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let d = drawing(&shape, set("partition"));
    let root = sim.run(&FaultSequence::empty("sim"));
    let (event, fault) = all(&seed(&root).classes(&d))
        .into_iter()
        .find(|(_, f)| *f == ChildFault::Start(CutForm::Isolate))
        .unwrap();
    let child = seed(&root).child(&d, event, fault).unwrap();
    let run = sim.run(&child);
    assert!(run.complete());
    let s = seed(&run);
    let classes = s.classes(&d);
    let mut first: HashSet<(StackId, u8)> = HashSet::new();
    let wanted: BTreeSet<u32> = s
        .later_points(false)
        .filter(|(_, e)| first.insert((e.stack, e.role)))
        .map(|(i, _)| i)
        .collect();
    let got: BTreeSet<u32> = all(&classes)
        .into_iter()
        .filter(|(_, f)| *f == ChildFault::Stop)
        .map(|(i, _)| i)
        .collect();
    assert_eq!(got, wanted);
    // One open cut: no further start.
    assert!(
        classes
            .keys()
            .all(|k| !matches!(k.fault, ChildFault::Start(_)))
    );
}

#[test]
fn points_passed_while_held_or_before_the_last_fault_get_no_children() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let d = drawing(&shape, FaultSet::default());
    let root = sim.run(&FaultSequence::empty("sim"));
    let (event, fault) = all(&seed(&root).classes(&d))[20];
    let mut run = sim.run(&seed(&root).child(&d, event, fault).unwrap());
    let (marked, _) = seed(&run).later_points(false).next().unwrap();
    run.trace.events[marked as usize].flags.0 |= EventFlags::DURING;
    let last = run.record.injected[0].event.unwrap();
    let children = all(&seed(&run).classes(&d));
    assert!(!children.is_empty());
    for (i, _) in children {
        assert!(i as usize > last);
        assert_ne!(i, marked);
    }
}

#[test]
fn a_process_that_ended_by_itself_is_dead_from_then_on() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let d = drawing(&shape, set("crash,reboot"));
    let mut root = sim.run(&FaultSequence::empty("sim"));
    let middle = root.trace.events.len() / 2;
    let t_ns = root.trace.events[middle].t_ns;
    root.record.exits.push(warren_model::Exit {
        node: sim.nodes[2].clone(),
        incarnation: 1,
        phase: Phase::Test,
        t_ns,
        status: Some(1),
        signal: None,
        role: None,
    });
    let children = all(&seed(&root).classes(&d));
    let (before, after): (Vec<_>, Vec<_>) =
        children.iter().partition(|(i, _)| (*i as usize) < middle);
    // Nobody else may die beside it, and from then on it can be brought back.
    let all_are = |of: &[&(u32, ChildFault)], kind| of.iter().all(|(_, f)| *f == kind);
    assert!(!before.is_empty() && all_are(&before, ChildFault::Crash));
    assert!(!after.is_empty() && all_are(&after, ChildFault::Reboot(2)));
    let child = seed(&root).child(&d, after[0].0, ChildFault::Reboot(2));
    let child = child.expect("the class offers it");

    // A run that did so is a seed run as any other: with the node back, one may die again.
    let at = &root.trace.events[after[0].0 as usize];
    let reboot = Injected {
        index: 0,
        matched: child.faults[0].clone(),
        event: Some(after[0].0 as usize),
        t_reached: at.t_ns,
        t_done: at.t_ns,
        late: false,
        drift: None,
        kill: None,
    };
    let done = at.t_ns;
    root.record.injected = vec![reboot];
    root.record.matched = Some(child);
    for e in root.trace.events.iter_mut().filter(|e| e.t_ns > done) {
        e.interval = Interval::new(Phase::Test, 1);
    }
    let children = all(&seed(&root).classes(&d));
    assert!(!children.is_empty());
    assert!(children.iter().all(|(_, f)| *f == ChildFault::Crash));
    assert!(random_points::tail(&seed(&root), &d, &mut XoRand::new(1)).is_some());
}

/// Walks down a random line of children and checks each against the constraints from scratch.
fn lineage(nodes: usize, max_dead: usize, choices: &[u16]) -> Result<(), TestCaseError> {
    let sim = Sim::new(nodes, max_dead);
    let shape = sim.shape();
    let d = drawing(&shape, FaultSet::default());
    let mut sequence = FaultSequence::empty("sim");
    for c in choices {
        let run = sim.run(&sequence);
        prop_assert!(run.complete(), "{:?}", run.record.not_injected);
        let s = seed(&run);
        let children = all(&s.classes(&d));
        if children.is_empty() {
            prop_assert!(
                sequence.faults.len() == sim.max_faults || s.later_points(false).count() == 0
            );
            return Ok(());
        }
        let (event, fault) = children[usize::from(*c) % children.len()];
        let child = s.child(&d, event, fault);
        prop_assert!(
            child.is_some(),
            "class offers {fault:?} at {event}, child refuses"
        );
        sequence = child.unwrap();
        prop_assert!(keeps_rules(&d, &sequence));
        prop_assert!(sequence.faults.len() <= sim.max_faults);
        if let Fault::PartitionStart { who, .. } = &sequence.faults.last().unwrap().fault {
            let sides = shape.sides(who).unwrap();
            prop_assert!(sides.side.len().min(sides.other.len()) <= max_dead);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn children_keep_the_constraints(choices in prop::collection::vec(any::<u16>(), 1..5)) {
        lineage(5, 2, &choices)?;
        lineage(3, 1, &choices)?;
        lineage(6, 2, &choices)?;
    }

    #[test]
    fn random_points_keep_the_constraints_and_come(salt in any::<u64>()) {
        let sim = Sim::new(5, 2);
        let shape = sim.shape();
        let d = drawing(&shape, FaultSet::default());
        let root = sim.run(&FaultSequence::empty("sim"));
        let mut rand = XoRand::new(salt);
        let s = random_points::draw(&cold(&root), "sim", &d, &mut rand);
        prop_assert!((1..=sim.max_faults).contains(&s.faults.len()));
        prop_assert!(s.faults.iter().all(|f| matches!(f.at, At::Pattern(_))));
        // The first fault's pattern is a point of the fault-free run: there it must come.
        let run = sim.run(&FaultSequence { faults: s.faults[..1].to_vec(), ..s.clone() });
        prop_assert!(run.complete(), "{:?} of {:?}", run.record.not_injected, s.faults[0]);
    }

    #[test]
    fn random_keeps_the_constraints_and_the_time(salt in any::<u64>(), mean in 0u64..5000) {
        let sim = Sim::new(5, 2);
        let shape = sim.shape();
        let d = drawing(&shape, FaultSet::default());
        let mut rand = XoRand::new(salt);
        let s = random::draw(mean, "sim", StartState::Cold, &d, &mut rand);
        prop_assert!((1..=sim.max_faults).contains(&s.faults.len()));
        prop_assert!(keeps_rules(&d, &s), "{s:?}");
        let mut sum = 0;
        for f in &s.faults {
            let At::After(ms) = f.at else { panic!("{f:?}") };
            sum += u64::from(ms);
        }
        prop_assert!(sum < mean.max(1), "{sum} of {mean}");
    }

    #[test]
    fn a_pattern_counts_from_the_previous_fault(salt in any::<u64>()) {
        // A cut that changes nothing before the second point leaves the fault-free order: both patterns must come.
        let sim = Sim::new(5, 2);
        let mut shape = sim.shape();
        shape.max_faults = 2;
        let d = drawing(&shape, set("partition"));
        let root = sim.run(&FaultSequence::empty("sim"));
        let mut rand = XoRand::new(salt);
        let s = random_points::draw(&cold(&root), "sim", &d, &mut rand);
        prop_assume!(s.faults.len() == 2);
        let At::Pattern(second) = &s.faults[1].at else { unreachable!() };
        let first = sim.run(&FaultSequence { faults: s.faults[..1].to_vec(), ..s.clone() });
        let at = first.record.injected[0].event.unwrap();
        let n = |trace: &warren_model::Trace| {
            trace.events[at + 1..]
                .iter()
                .filter(|e| Some(e.stack) == second.stack && Some(e.kind) == second.kind)
                .count()
        };
        prop_assert!(n(&root.trace) >= second.n as usize);
    }
}

#[test]
fn random_points_draw_kinds_evenly_on_small_clusters_too() {
    for nodes in [3, 5] {
        let mut sim = Sim::new(nodes, 1);
        sim.max_faults = 1;
        let shape = sim.shape();
        let d = drawing(&shape, set("crash,partition"));
        let root = sim.run(&FaultSequence::empty("sim"));
        let mut rand = XoRand::new(11);
        let draws = 400;
        let cuts = (0..draws)
            .filter(|_| {
                let s = random_points::draw(&cold(&root), "sim", &d, &mut rand);
                s.faults[0].fault.kind() == FaultKind::PartitionStart
            })
            .count();
        // Half, within four standard deviations.
        assert!(
            (160..=240).contains(&cuts),
            "{nodes} nodes: {cuts} of {draws}"
        );
    }
}

#[test]
fn random_draws_numbers_kinds_and_nodes_evenly() {
    let sim = Sim::new(4, 2);
    let shape = sim.shape();
    let d = drawing(&shape, FaultSet::default());
    let mut rand = XoRand::new(3);
    let mut numbers = [0; 11];
    let mut first = std::collections::BTreeMap::new();
    for _ in 0..4_000 {
        let s = random::draw(1_000, "sim", StartState::Cold, &d, &mut rand);
        numbers[s.faults.len()] += 1;
        let what = match &s.faults[0].fault {
            Fault::PartitionStart { .. } => "cut".to_owned(),
            other => format!("{other:?}"),
        };
        *first.entry(what).or_insert(0) += 1;
    }
    // A tenth each, and half cuts: within five standard deviations. Of four crashes each an eighth.
    assert!(
        numbers[1..].iter().all(|n| (305..=495).contains(n)),
        "{numbers:?}"
    );
    assert!((1840..=2160).contains(&first["cut"]), "{first:?}");
    assert_eq!(first.len(), 5, "{first:?}");
    let mut crashes = first.iter().filter(|(what, _)| *what != "cut");
    assert!(crashes.all(|(_, n)| (390..=610).contains(n)), "{first:?}");
}

#[test]
fn the_oldest_child_comes_first() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, set("crash")));
    let kept = |seed, cold| Kept {
        seed,
        cold,
        faults: 0,
        time_ms: 1,
        coverage: 1,
        alike: None,
    };
    let mut queue = Queue::default();
    let mut rand = XoRand::new(1);
    assert_eq!(queue.oldest(&mut rand, 1.0), Oldest::None);
    for id in [3, 5, 4] {
        queue.add(kept(id, id != 4), &classes, |_| false, |_| false);
    }
    assert_eq!(queue.oldest(&mut rand, 1.0), Oldest::In(3));
    assert_eq!(queue.oldest(&mut rand, 0.0), Oldest::In(4));
    // The youngest leaves memory, and nothing younger than what is away has its turn.
    let (id, entry) = queue.park_youngest(classes.len() * 2).unwrap();
    assert_eq!(id, 5);
    queue.add(kept(6, true), &classes, |_| false, |_| false);
    let mut events = Vec::new();
    let total: usize = classes.values().map(Vec::len).sum();
    for turn in 0..total {
        let pick = queue.take_oldest(3, &classes).unwrap();
        events.push(classes[&pick.key][pick.occurrence as usize]);
        assert_eq!(pick.why, Why::Oldest);
        // The first cannot be injected: it comes again after all others of its seed run.
        if turn == 0 {
            assert!(!queue.not_injected(&pick));
        } else {
            queue.tested(&pick);
        }
    }
    assert!(events.is_sorted(), "{events:?}");
    let again = queue.take_oldest(3, &classes).unwrap();
    assert_eq!(
        (again.tries, classes[&again.key][again.occurrence as usize]),
        (1, events[0])
    );
    queue.tested(&again);
    assert_eq!(queue.oldest(&mut rand, 0.0), Oldest::In(4));
    while let Some(pick) = queue.take_oldest(4, &classes) {
        queue.tested(&pick);
    }
    assert_eq!(queue.oldest(&mut rand, 1.0), Oldest::Parked(5));
    queue.unpark(entry);
    assert_eq!(queue.oldest(&mut rand, 1.0), Oldest::In(5));
    // The changes make the same queue again.
    let mut same = Queue::default();
    for change in queue.take_changes() {
        same.apply(change).unwrap();
    }
    assert_eq!(same.pending(), queue.pending());
    assert_eq!(same.oldest(&mut rand, 1.0), Oldest::In(5));
}

#[test]
fn reboots_target_each_dead_node_and_no_point_of_a_dead_one() {
    let sim = Sim::new(5, 2);
    let shape = sim.shape();
    let d = drawing(&shape, set("crash,reboot"));
    let mut sequence = FaultSequence::empty("sim");
    for _ in 0..2 {
        let run = sim.run(&sequence);
        let s = seed(&run);
        let (event, fault) = all(&s.classes(&d))
            .into_iter()
            .find(|(i, f)| {
                *f == ChildFault::Crash && run.trace.events[*i as usize].phase == Phase::Test
            })
            .unwrap();
        sequence = s.child(&d, event, fault).unwrap();
    }
    let run = sim.run(&sequence);
    let s = seed(&run);
    let classes = s.classes(&d);
    let dead: BTreeSet<u16> = classes
        .keys()
        .filter_map(|k| match k.fault {
            ChildFault::Reboot(n) => Some(n),
            _ => None,
        })
        .collect();
    assert_eq!(dead.len(), 2);
    // Two of five are dead: no further crash.
    assert!(classes.keys().all(|k| k.fault.kind() == FaultKind::Reboot));
    for (i, _) in all(&classes) {
        assert!(!dead.contains(&run.trace.events[i as usize].node));
    }
    assert_eq!(peers::node_of("127.0.0.12:1", &sim.nodes), Some(1));
}

#[test]
fn a_nodes_start_points_end_when_it_serves() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let d = drawing(&shape, set("crash"));
    let mut root = sim.run(&FaultSequence::empty("sim"));
    let starts = |run: &RunProduct| -> Vec<(u16, u64)> {
        let events = all(&seed(run).classes(&d));
        let events = events.iter().map(|(i, _)| &run.trace.events[*i as usize]);
        let starts = events.filter(|e| e.phase == Phase::Start);
        starts.map(|e| (e.node, e.t_ns)).collect()
    };
    let before = starts(&root);
    assert_eq!(before.len(), 6);
    let first = *before.iter().min_by_key(|(_, t)| t).unwrap();
    let last = *before.iter().max_by_key(|(_, t)| t).unwrap();
    let ready = |node: u16, number: u8, t_ns: u64| warren_model::Incarnation {
        node: root.trace.nodes[usize::from(node)].clone(),
        number,
        spawned_ns: 0,
        ready_ns: Some(t_ns),
        ended_ns: None,
        role: None,
    };
    // As ZooKeeper serves before a NameNode has begun: that one's start goes on.
    let served = vec![ready(first.0, 2, last.1), ready(first.0, 1, first.1)];
    root.record.incarnations = served;
    let mut left = before.clone();
    left.retain(|(node, _)| *node != first.0);
    assert_eq!(starts(&root), left);
    // Where the target says when the start is over, each of its points is before that.
    let whole = Drawing {
        whole_start: true,
        ..d.clone()
    };
    let events = all(&seed(&root).classes(&whole));
    assert_eq!(events.len(), root.trace.events.len());
    // Points of the test come anyway.
    let crashes = all(&seed(&root).classes(&d)).len();
    assert_eq!(crashes, root.trace.events.len() - (6 - left.len()));
}

#[test]
fn a_start_fault_that_did_not_come_is_left_to_whoever_comes() {
    let sim = Sim::new(5, 2);
    let shape = sim.shape();
    let d = drawing(&shape, set("crash"));
    let root = sim.run(&FaultSequence::empty("sim"));
    let s = seed(&root);
    let child = |phase: Phase| {
        let of_phase = |i: u32| root.trace.events[i as usize].phase == phase;
        let (event, fault) = all(&s.classes(&d))
            .into_iter()
            .find(|(i, _)| of_phase(*i))
            .unwrap();
        s.child(&d, event, fault).unwrap()
    };
    let test = child(Phase::Test);
    assert_eq!(whoever_comes(test.clone()), test);
    let start = child(Phase::Start);
    let At::Exact(asked) = &start.faults[0].at else {
        panic!("{start:?}");
    };
    let again = whoever_comes(start.clone());
    let run = sim.run(&again);
    assert!(run.complete(), "{:?}", run.record.not_injected);
    let came = run.record.matched.unwrap().faults.remove(0);
    let At::Exact(came_at) = &came.at else {
        panic!("{came:?}");
    };
    assert_eq!(
        (came_at.stack, came_at.kind, came_at.place, came_at.phase),
        (asked.stack, asked.kind, asked.place, Phase::Start)
    );
    // Whoever it was is the one that dies.
    let who = warren_model::Who::Node(came_at.node.clone());
    assert!(matches!(came.fault, Fault::Crash { who: w, .. } if w == who));
    // It may be any of those that come there, not only the one of the seed run.
    assert_eq!(whoever_comes(again.clone()), again);
}
