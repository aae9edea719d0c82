//! The queue: each child once, pools in their order, tries, lineages, and what saving keeps.

use super::*;

/// A run without faults, as the queue knows it.
fn kept(seed: u64, cold: bool) -> Kept {
    Kept {
        cold,
        seed,
        faults: 0,
        time_ms: 2000,
        coverage: 30,
        alike: None,
    }
}

fn queue_of(sim: &Sim) -> (Queue, u64) {
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, FaultSet::default()));
    let children = all(&classes).len() as u64;
    let mut queue = Queue::default();
    queue.add(kept(0, true), &classes, |_| false, |_| false);
    (queue, children)
}

/// With slots side by side several children of a class are out: one that is given up takes no other one's way back.
#[test]
fn a_child_that_is_out_keeps_its_seed_run() {
    let (mut queue, children) = queue_of(&Sim::new(3, 1));
    let mut rand = XoRand::new(7);
    let mut out: Vec<Pick> = Vec::new();
    while let Some(p) = queue.pick(&mut rand, 1.0) {
        out.push(p);
    }
    assert_eq!(out.len() as u64, children);
    let kept = out.pop().unwrap();
    let same = |p: &Pick| p.key == kept.key;
    assert!(
        out.iter().any(same),
        "another one of the same class is out too"
    );
    for p in &out {
        let last = Pick {
            tries: 2,
            ..p.clone()
        };
        assert!(queue.not_injected(&last), "given up");
    }
    assert!(!queue.not_injected(&kept));
    let again = queue.pick(&mut rand, 1.0).expect("it comes back");
    assert_eq!(
        (again.key, again.occurrence, again.tries),
        (kept.key, kept.occurrence, 1)
    );
    queue.tested(&again);
    assert!(queue.pick(&mut rand, 1.0).is_none());
}

#[test]
fn the_queue_gives_each_child_once_and_then_is_exhausted() {
    let (mut queue, children) = queue_of(&Sim::new(3, 1));
    let mut rand = XoRand::new(1);
    let mut seen = HashSet::new();
    assert_eq!(queue.pending(), children);
    while let Some(p) = queue.pick(&mut rand, 1.0) {
        queue.tested(&p);
        assert!(seen.insert((p.key, p.occurrence)), "{p:?} twice");
        assert_eq!(queue.pending() + seen.len() as u64, children);
    }
    assert_eq!(seen.len() as u64, children);
    assert_eq!(queue.classes(), 0);
    assert!(queue.pick(&mut rand, 1.0).is_none());
}

#[test]
fn new_fault_ids_come_first() {
    let (mut queue, _) = queue_of(&Sim::new(3, 1));
    let mut rand = XoRand::new(2);
    let ids = {
        let sim = Sim::new(3, 1);
        let shape = sim.shape();
        let product = sim.run(&FaultSequence::empty("sim"));
        seed(&product)
            .classes(&drawing(&shape, FaultSet::default()))
            .keys()
            .map(|k| k.fault_id())
            .collect::<HashSet<_>>()
            .len()
    };
    let mut tested = HashSet::new();
    let mut passed_by = 0;
    for _ in 0..ids {
        let p = queue.pick(&mut rand, 1.0).unwrap();
        if p.why == Why::NewFaultId {
            assert!(tested.insert(p.key.fault_id()), "{p:?} is not new");
        } else {
            passed_by += 1;
        }
        queue.tested(&p);
    }
    assert!(
        passed_by <= ids / 10,
        "{passed_by} of {ids} passed by at 0.99"
    );
}

#[test]
fn recovery_comes_second_and_siblings_third() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, set("crash")));
    let special = classes.keys().next().unwrap().stack;
    let mut queue = Queue::default();
    // Everything was tested once through another seed run.
    queue.add(kept(0, true), &classes, |_| false, |_| false);
    let mut rand = XoRand::new(3);
    while let Some(p) = queue.pick(&mut rand, 1.0) {
        queue.tested(&p);
    }
    queue.add(kept(1, true), &classes, |s| s == special, |_| false);
    let mut why = Vec::new();
    while let Some(p) = queue.pick(&mut rand, 1.0) {
        if p.why == Why::Recovery {
            assert_eq!(p.key.stack, special);
        }
        assert_ne!(p.why, Why::NewFaultId);
        why.push(p.why);
        queue.tested(&p);
    }
    let recovery = why.iter().filter(|w| **w == Why::Recovery).count();
    let siblings = why.iter().filter(|w| **w == Why::NewAmongSiblings).count();
    assert!(recovery >= 1 && siblings >= 5, "{recovery} {siblings}");
    assert!(why[..3].contains(&Why::Recovery));
}

#[test]
fn not_injected_is_tried_three_times_in_all() {
    let (mut queue, children) = queue_of(&Sim::new(3, 1));
    let mut rand = XoRand::new(4);
    let mut tries = 0u64;
    let mut given_up = 0u64;
    while let Some(p) = queue.pick(&mut rand, 1.0) {
        assert!(p.tries < MAX_TRIES);
        tries += 1;
        given_up += u64::from(queue.not_injected(&p));
    }
    assert_eq!(given_up, children);
    assert_eq!(queue.uninjectable(), children);
    assert_eq!(tries, 3 * children);
}

/// Two seed runs with the same children; those of the second do not happen, or their runs tell nothing.
#[test]
fn a_seed_run_whose_children_do_not_happen_is_picked_less() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, FaultSet::default()));
    let picks_of_second = |back: fn(&mut Queue, &Pick) -> bool| {
        let mut queue = Queue::default();
        for id in [0, 1] {
            queue.add(kept(id, true), &classes, |_| false, |_| false);
        }
        let mut rand = XoRand::new(11);
        // So many are picked before no fault id is new any more.
        let seeds: Vec<u64> = (0..28)
            .map(|_| {
                let p = queue.pick(&mut rand, 1.0).unwrap();
                match p.seed {
                    0 => queue.tested(&p),
                    _ => _ = back(&mut queue, &p),
                }
                p.seed
            })
            .collect();
        let mut same = Queue::default();
        for change in queue.take_changes() {
            same.apply(change).unwrap();
        }
        assert!(same == queue, "the changes make the same queue");
        seeds.into_iter().filter(|s| *s == 1).count()
    };
    let missed = picks_of_second(Queue::not_injected);
    let void = picks_of_second(Queue::told_nothing);
    assert!((1..8).contains(&missed), "{missed} of 28");
    assert!(void > 8, "{void} of 28");
}

/// All that is new are children of a seed run in vain; those of another happen, and their fault ids were tested long ago.
#[test]
fn what_is_new_because_it_does_not_happen_is_left_for_what_does() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let of = |kinds| seed(&product).classes(&drawing(&shape, set(kinds)));
    let (crashes, all) = (of("crash"), of("crash,partition"));
    let mut queue = Queue::default();
    queue.add(kept(0, true), &crashes, |_| false, |_| false);
    queue.know(crashes.keys().map(|k| k.fault_id()).collect());
    queue.add(kept(1, true), &all, |_| false, |_| false);
    let mut rand = XoRand::new(13);
    let picks: Vec<Pick> = (0..60)
        .map_while(|_| {
            let p = queue.pick(&mut rand, 1.0)?;
            match p.seed {
                0 => queue.tested(&p),
                _ => _ = queue.not_injected(&p),
            }
            Some(p)
        })
        .collect();
    assert_eq!(picks[0].why, Why::NewFaultId);
    let in_vain = picks.iter().filter(|p| p.seed == 1).count();
    let new = |p: &&Pick| p.why == Why::NewFaultId;
    let still_new = picks[20..].iter().filter(new).count();
    assert!((1..30).contains(&in_vain), "{in_vain} of {}", picks.len());
    // Nothing is left out.
    assert!(
        (1..20).contains(&still_new),
        "{still_new} of {}",
        picks.len()
    );
}

/// A child that waits for its next try weighs something only where its seed run does.
#[test]
fn a_draw_among_some_seed_runs_takes_no_others_next_try() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, FaultSet::default()));
    let mut queue = Queue::default();
    for (id, cold) in [(0, false), (1, true)] {
        queue.add(kept(id, cold), &classes, |_| false, |_| false);
    }
    let mut rand = XoRand::new(12);
    while let Some(p) = queue.pick_of(0, &mut rand) {
        assert_eq!(p.seed, 0);
        // Of one seed run nothing is left but next tries, whose fault ids are still new.
        if p.tries == 0 {
            queue.not_injected(&p);
        }
    }
    assert!(queue.pick_of(0, &mut rand).is_none());
    let (mut queue, mut cold) = (queue, 0);
    while let Some(p) = queue.pick_of(1, &mut rand) {
        assert_eq!(p.seed, 1);
        queue.tested(&p);
        cold += 1;
    }
    assert_eq!(cold, all(&classes).len());
}

#[test]
fn the_same_seed_picks_the_same_children() {
    let picks = |s| {
        let (mut queue, _) = queue_of(&Sim::new(5, 2));
        let mut rand = XoRand::new(s);
        (0..50)
            .map(|_| {
                let p = queue.pick(&mut rand, 1.0).unwrap();
                queue.tested(&p);
                (p.key, p.occurrence)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(picks(9), picks(9));
    assert_ne!(picks(9), picks(10));
}

#[test]
fn the_queue_survives_saving() {
    let (mut queue, _) = queue_of(&Sim::new(3, 1));
    let mut rand = XoRand::new(5);
    for _ in 0..10 {
        let p = queue.pick(&mut rand, 1.0).unwrap();
        queue.tested(&p);
    }
    let bytes = postcard::to_allocvec(&queue).unwrap();
    let mut back: Queue = postcard::from_bytes(&bytes).unwrap();
    let mut other = rand.clone();
    assert_eq!(back.pick(&mut other, 1.0), queue.pick(&mut rand, 1.0));
}

#[test]
fn a_share_of_the_picks_starts_cold_while_there_are_both() {
    let sim = Sim::new(5, 2);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, FaultSet::default()));
    for share in [0.0, 0.15, 1.0] {
        let mut queue = Queue::default();
        for (id, cold) in [(0, true), (1, false), (2, false)] {
            queue.add(kept(id, cold), &classes, |_| false, |_| false);
        }
        let mut rand = XoRand::new(9);
        let picks: Vec<u64> = (0..300)
            .map(|_| queue.pick(&mut rand, share).unwrap().seed)
            .collect();
        let cold = picks.iter().filter(|s| **s == 0).count();
        // Within four standard deviations.
        let (low, high) = if share == 0.15 { (20, 70) } else { (0, 300) };
        assert!((low..=high).contains(&cold), "{cold} of 300 at {share}");
        match share {
            0.0 => assert_eq!(cold, 0),
            1.0 => assert_eq!(cold, 300),
            _ => {}
        }
        // With one lineage exhausted the other goes on, whatever the share.
        let mut rest = 0;
        while queue.pick(&mut rand, share).is_some() {
            rest += 1;
        }
        let all: usize = classes.values().map(Vec::len).sum();
        assert_eq!(300 + rest, 3 * all, "at {share}");
    }
}

#[test]
fn what_is_favoured_is_taken_more_often() {
    let sim = Sim::new(3, 1);
    let shape = sim.shape();
    let product = sim.run(&FaultSequence::empty("sim"));
    let classes = seed(&product).classes(&drawing(&shape, set("crash")));
    let special = classes.keys().last().unwrap().stack;
    // Of the first picks, those of one stack: all fault ids were tested, so that they are drawn by score alone.
    let taken = |favour: bool| {
        let mut count = 0;
        for s in 0..200 {
            let mut queue = Queue::default();
            queue.know(classes.keys().map(|k| k.fault_id()).collect());
            queue.add(
                kept(0, true),
                &classes,
                |_| false,
                |id| favour && id == special,
            );
            let pick = queue.pick(&mut XoRand::new(s), 1.0).unwrap();
            assert_eq!(pick.favoured, favour && pick.key.stack == special);
            count += usize::from(pick.key.stack == special);
        }
        count
    };
    let (without, with) = (taken(false), taken(true));
    assert!(without > 0 && with > without + 20, "{without} {with}");
}

/// A run that was kept just now waits for its first turn: among runs like it the one that leaves memory is not it for that alone.
#[test]
fn what_was_kept_just_now_is_not_the_first_to_be_parked() {
    let sim = Sim::new(3, 1);
    let (mut queue, _) = queue_of(&sim);
    let shape = sim.shape();
    let classes =
        seed(&sim.run(&FaultSequence::empty("sim"))).classes(&drawing(&shape, FaultSet::default()));
    let mut rand = XoRand::new(7);
    let mut picks = |queue: &mut Queue| {
        for _ in 0..10 {
            let pick = queue.pick(&mut rand, 1.0).unwrap();
            queue.tested(&pick);
        }
    };
    // Ever better ones, each after some picks.
    for id in 1..4 {
        picks(&mut queue);
        let better = Kept {
            coverage: 30 + 10 * id,
            ..kept(id, true)
        };
        queue.add(better, &classes, |_| false, |_| false);
    }
    let (parked, _) = queue.park(classes.len() * 3).unwrap();
    assert_eq!(parked, 0, "the one with the least coverage");
}
