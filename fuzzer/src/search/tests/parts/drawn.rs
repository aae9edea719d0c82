//! Strata are drawn evenly, runs that are alike share their energy, twins are one child.

use super::*;

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
    queue.add(kept, &classes, |_| false, |_| false);
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
    queue.add(kept, &classes.into(), |_| false, |_| false);
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
            queue.add(kept, &classes, |_| false, |_| false);
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
    let [none, mut all, mut one_has_more] = [vec![None; 9], vec![Some(true); 9], vec![]];
    // Alone it loses nothing (`sharing`, asked in it).
    picks(&[Some(true)]);
    // (of the last one, of 450; within four standard deviations)
    assert!((25..80).contains(&picks(&none)[8]), "a ninth each");
    all[8] = None;
    assert!((180..270).contains(&picks(&all)[8]), "half of all");
    // One that showed something new beside keeps what it has, and the others lose by it.
    one_has_more.extend_from_slice(&all[..8]);
    one_has_more.push(Some(false));
    let of = picks(&one_has_more);
    assert!((190..285).contains(&of[8]), "nine of seventeen: {of:?}");
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
        ..with.clone()
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
