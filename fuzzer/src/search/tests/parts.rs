//! The parts of `warren` against the made-up cluster: shapes come and keep the rules. Below it what changes kept runs (`changed`) and what
//! draws among them (`drawn`).

mod changed;
mod drawn;
mod tails;

use super::*;
use crate::search::havoc::{Op, Parent, changed};
use crate::search::shapes::{self, Ground};
use crate::search::strata::Stratum;
use crate::search::{Alike, Warren, symmetry};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use warren_model::{CrashStyle, Fault, GroupShape, Kind, NodeName, Shape, Who};

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
    cold(&sim.run(&FaultSequence::empty("sim")))
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
    for (nodes, max_dead, not) in [(5, 2, &[][..]), (3, 1, &["few-holders", "stale-rejoin"])] {
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

/// Like HBase, whose files are HDFS': nobody forces or writes anything, and what is sent stands for it.
#[test]
fn where_nothing_is_forced_shapes_come_at_what_is_sent() {
    let sim = deep(5, 2);
    let shape = sim.shape();
    let mut ground = ground(&sim);
    let elsewhere = |kind: Kind| match kind {
        Kind::Force | Kind::Write => Kind::Send,
        other => other,
    };
    for e in &mut ground.trace.events {
        e.kind = elsewhere(e.kind);
    }
    let mut rand = XoRand::new(1);
    for s in shapes::built_in().unwrap() {
        let cast = shapes::cast(&s, &ground, "sim", &warren(&shape), &mut rand);
        let faults = cast.unwrap_or_else(|| panic!("{}", s.name)).faults;
        let kinds = faults.iter().filter_map(|f| match &f.at {
            At::Pattern(p) => p.kind,
            _ => None,
        });
        let all: Vec<Kind> = kinds.collect();
        assert!(
            all.iter().all(|k| elsewhere(*k) == *k),
            "{}: {all:?}",
            s.name
        );
    }
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
        casts.flat_map(|s| s.roles_of_named().into_keys()).collect()
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
            true,
        )
        .join(" ")
    };
    assert_eq!(never(&one), "");
    // Of machines' crashes packets must be dropped.
    let machine = Shape::all_of_text(
        "version = 1\n[[shape]]\nname = \"dark\"\nnodes = { a = \"any\" }\n\
         [[shape.fault]]\nkind = \"crash\"\nstyle = \"machine\"\nnode = \"$a\"\nat = { when = \"at-once\" }\n",
    )
    .unwrap();
    for (kernel, want) in [(true, vec![]), (false, vec!["dark"])] {
        let grounds = std::slice::from_ref(&ground);
        let never = shapes::never_cast(&machine, grounds, "sim", &warren(&one), kernel);
        assert_eq!(never, want);
    }
    assert_eq!(never(&two(1)), "quorum-hand-over few-holders stale-rejoin");
    assert_eq!(
        never(&two(0)),
        "rolling-restart quorum-hand-over few-holders stale-rejoin"
    );
    // Who leads after the leader is one of its own group, wherever the description names that.
    let (storage, servers) = (group(&rest[..2], 0), [&lead[..], &rest[2..]].concat());
    let in_order = |groups| ClusterShape {
        groups,
        ..one.clone()
    };
    let first = never(&in_order(vec![group(&servers, 1), storage.clone()]));
    assert_eq!(first, "few-holders stale-rejoin");
    assert_eq!(never(&in_order(vec![storage, group(&servers, 1)])), first);
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
        let all = shapes::built_in().unwrap();
        let grounds = [std::rc::Rc::new(ground)];
        let never = shapes::never_cast(&all, &grounds, "sim", &d, true);
        assert!(never.len() < 4, "{never:?}");
        for s in all.iter().filter(|s| !never.contains(&s.name.as_str())) {
            let casts: Vec<FaultSequence> = (0..12)
                .filter_map(|_| shapes::cast(s, &grounds[0], "sim", &d, &mut rand))
                .collect();
            let full = casts.iter().filter(|c| sim.run(c).complete()).count();
            assert!(
                casts.len() >= 6 && full * 2 >= casts.len(),
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
        prop_assert!(keeps_rules(&d, run.record.matched.as_ref().unwrap()));
    }
}
