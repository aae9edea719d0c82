//! The baselines of the paper's evaluation on the made-up cluster: order, what is kept, times.

use super::*;
use crate::search::StrategyKind;
use std::collections::{BTreeMap, BTreeSet};
use warren_model::At;

/// What was run after learning, in order; sequences that were injected in full but once each.
fn ran(o: FuzzOptions, sim: Sim) -> (Vec<FaultSequence>, FuzzEnd) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let tweak: Tweak = Box::new(move |_, input, _, _| {
        if !input.faults.is_empty() {
            log.lock().unwrap().push(input.clone());
        }
    });
    let end = fuzz(sim, o, tweak);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (seen, end)
}

/// No bug, and little of it.
fn small(max_faults: usize) -> Sim {
    let mut sim = Sim::new(3, 1);
    (sim.rounds, sim.max_faults, sim.bug) = (2, max_faults, false);
    sim
}

fn exhausting(dir: &Path, strategy: StrategyKind, max_faults: usize) -> FuzzOptions {
    let mut o = options(dir, strategy, 3, 100_000);
    (o.max_faults, o.faults) = (max_faults, "crash,reboot".parse().unwrap());
    o
}

/// Where the first fault of a one-fault sequence lies in a fault-free run.
fn place(sequence: &FaultSequence, root: &warren_model::Trace) -> usize {
    let At::Exact(p) = &sequence.faults[0].at else {
        panic!("{sequence:?}")
    };
    let at = root.events.iter().position(|e| root.point(e) == *p);
    at.expect("a point of the fault-free run")
}

#[test]
fn fifo_goes_through_the_queue_in_order_and_tests_the_same() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let all = exhausting(dirs[0].path(), StrategyKind::CrashFuzz, 2);
    let (unordered, _) = ran(all, small(2));
    let (fifo, end) = ran(exhausting(dirs[1].path(), StrategyKind::Fifo, 2), small(2));
    assert_eq!(end.reason, EndReason::Exhausted);
    assert_eq!(stat(&end.folder, "pending_total"), "0");
    assert_eq!(stat(&end.folder, "strategy"), "fifo");
    let set = |s: &[FaultSequence]| {
        s.iter()
            .map(FaultSequence::to_text)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(set(&fifo), set(&unordered));
    assert_ne!(fifo, unordered);
    // Crashes at the points of the fault-free run, one after the other; then the children of the first of them, and so on.
    let root = Sim::run(&small(2), &FaultSequence::empty("sim")).trace;
    let ones = fifo.iter().take_while(|s| s.faults.len() == 1);
    let places: Vec<usize> = ones.map(|s| place(s, &root)).collect();
    assert_eq!(places, (0..root.events.len()).collect::<Vec<_>>());
    let seeds: Vec<u64> = lines(&end.folder)
        .iter()
        .filter(|l| l["role"] == "fuzz")
        .map(|l| l["seed_run"].as_u64().unwrap())
        .collect();
    assert!(seeds.is_sorted() && seeds.last() > Some(&1), "{seeds:?}");
    // With most of the queue in files the order is the same.
    let mut little = exhausting(dirs[2].path(), StrategyKind::Fifo, 2);
    little.max_classes = 20;
    assert_eq!(ran(little, small(2)).0, fifo);
}

/// As the queue's strategies do, by which the same checks are asked of all (VI-C): once for each run with new coverage, and in one of ten.
#[test]
fn a_baseline_without_a_queue_pays_for_new_coverage_with_durability_checks() {
    for strategy in [StrategyKind::Random, StrategyKind::RandomPoints] {
        let dir = tempfile::tempdir().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let list = asked.clone();
        let tweak: Tweak = Box::new(move |_, input, options, _| {
            if !input.faults.is_empty() {
                list.lock().unwrap().push(options.durable);
            }
        });
        let end = fuzz(
            Sim {
                bug: false,
                ..Sim::new(3, 1)
            },
            options(dir.path(), strategy, 3, 60),
            tweak,
        );
        let fuzzed = |l: &&serde_json::Value| l["role"] == "fuzz";
        let all = lines(&end.folder);
        let fuzzed = all.iter().filter(fuzzed);
        let new: Vec<bool> = fuzzed.map(|l| l["new_coverage"] == true).collect();
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), new.len(), "{strategy}");
        // The run that follows pays.
        let follows = new.iter().zip(&asked[1..]).filter(|(new, _)| **new);
        let owed: Vec<bool> = follows.map(|(_, durable)| *durable).collect();
        assert!(owed.len() > 2, "{strategy}: {owed:?}");
        assert!(owed.iter().all(|durable| *durable), "{strategy}: {owed:?}");
        assert!(!asked.iter().all(|durable| *durable), "{strategy}");
    }
}

/// A tail of one fault may be the child of its run, as an exact sequence: what happened is what was tested.
#[test]
fn nothing_is_tested_again_that_patterns_met() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), StrategyKind::Warren, 4, 400);
    (o.max_faults, o.faults) = (2, "crash,reboot".parse().unwrap());
    let happened = Arc::new(Mutex::new(Vec::new()));
    let log = happened.clone();
    let tweak: Tweak = Box::new(move |_, input, _, product| {
        let full = product.record.not_injected.is_none() && product.record.void.is_none();
        let matched = product.record.matched.as_ref().filter(|_| full);
        if let Some(matched) = matched.filter(|m| !m.faults.is_empty()) {
            let exact = input.identity() == matched.identity();
            log.lock().unwrap().push((matched.identity(), exact));
        }
    });
    fuzz(small(2), o, tweak);
    let happened = std::mem::take(&mut *happened.lock().unwrap());
    assert!(happened.iter().any(|(_, exact)| !exact));
    let mut met: BTreeSet<u64> = BTreeSet::new();
    for (i, (id, exact)) in happened.iter().enumerate() {
        assert!(!exact || !met.contains(id), "run {i} was made before");
        met.insert(*id);
    }
}

/// A drawn sequence that did not happen is a child of the queue text for text: the child has its tries still.
#[test]
fn what_was_drawn_in_vain_is_no_tested_child() {
    let dir = tempfile::tempdir().unwrap();
    // To the end, so that each child has its turn.
    let o = exhausting(dir.path(), StrategyKind::Warren, 2);
    // The first try of each sequence with two faults misses its last. By identity: the runs that asked it.
    let asked = Arc::new(Mutex::new(BTreeMap::<u64, Vec<u64>>::new()));
    let log = asked.clone();
    let tweak: Tweak = Box::new(move |run, input, _, product| {
        if input.faults.len() < 2 || product.record.not_injected.is_some() {
            return;
        }
        let mut asked = log.lock().unwrap();
        let runs = asked.entry(input.identity()).or_default();
        runs.push(run);
        if runs.len() == 1 && product.record.injected.len() == 2 {
            product.record.injected.pop();
            if let Some(matched) = &mut product.record.matched {
                matched.faults.pop();
            }
            product.record.not_injected = Some(warren_model::NotInjected {
                index: 1,
                reason: "silence".into(),
                detail: String::new(),
                nearest: 0,
            });
        }
    });
    let end = fuzz(small(2), o, tweak);
    let drawn = |l: &serde_json::Value| {
        let why = l["why"].as_str().unwrap_or_default();
        why.starts_with("havoc") || why.starts_with("shape")
    };
    let drawn: BTreeMap<u64, bool> = lines(&end.folder)
        .iter()
        .map(|l| (l["run"].as_u64().unwrap(), drawn(l)))
        .collect();
    let asked = asked.lock().unwrap();
    let in_vain = asked.values().filter(|runs| drawn[&runs[0]]);
    let then_a_child = in_vain.filter(|runs| runs[1..].iter().any(|r| !drawn[r]));
    let both = then_a_child.count();
    assert!(both > 2, "{both} of {}", asked.len());
    assert_eq!(end.reason, EndReason::Exhausted);
}

#[test]
fn brute_force_tests_one_fault_then_two_then_three_and_keeps_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = exhausting(dir.path(), StrategyKind::BruteForce, 3);
    o.max_sequences = Some(1500);
    let (tested, end) = ran(o, small(3));
    let lengths: Vec<usize> = tested.iter().map(|s| s.faults.len()).collect();
    assert!(lengths.is_sorted(), "{lengths:?}");
    assert_eq!(lengths.last(), Some(&3));
    let ids = names(&end.folder.join("queue"));
    let full = lines(&end.folder)
        .iter()
        .filter(|l| l["role"] == "fuzz" && l["not_injected"].is_null())
        .count();
    assert_eq!(
        ids.len() - 1,
        full,
        "the root, and every run of all its faults"
    );
    // By coverage some runs that end in a reboot are not kept.
    let other = tempfile::tempdir().unwrap();
    let mut o = exhausting(other.path(), StrategyKind::Fifo, 3);
    o.max_sequences = Some(1500);
    let (_, guided) = ran(o, small(3));
    assert!(names(&guided.folder.join("queue")).len() < ids.len());
}

#[test]
fn random_strikes_at_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), StrategyKind::Random, 5, 300);
    o.faults = "crash,reboot".parse().unwrap();
    let (tested, end) = ran(o, Sim::new(3, 1));
    assert_eq!(end.sequences, 300);
    for s in &tested {
        let ms = |f: &warren_model::FaultAt| match f.at {
            At::After(ms) => ms,
            _ => panic!("{s:?}"),
        };
        // Test phases of the made-up cluster take 900 ms.
        assert!(s.faults.iter().map(ms).sum::<u32>() < 900, "{s:?}");
    }
    let longest = tested.iter().map(|s| s.faults.len()).max();
    assert_eq!(longest, Some(10));
    let full = stat(&end.folder, "longer_full");
    assert!(full.parse::<u32>().unwrap() > 0, "{full}");
    // It draws from nothing that was kept.
    let drawn = lines(&end.folder);
    assert!(
        drawn
            .iter()
            .filter(|l| l["role"] == "fuzz")
            .all(|l| l["why"] == "random")
    );
}
