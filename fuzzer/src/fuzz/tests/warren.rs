//! `--strategy warren` on the made-up cluster: its parts have their turns and say so, each can be left out, and what is told of them
//! adds up.

use super::resume::{moody, resumed, sim, small};
use super::*;
use crate::campaign::InstanceKind;
use crate::search::{FaultSet, StrategyKind};
use crate::search::{Parts, Swarm, Without};
use std::collections::BTreeMap;
use warren_model::CutHow;

fn without(parts: &str) -> Option<Without> {
    (!parts.is_empty()).then(|| parts.parse().unwrap())
}

/// Every part.
const ALL: [&str; 7] = [
    "shapes", "havoc", "tails", "strata", "symmetry", "state", "energy",
];

fn all_but(part: &str) -> String {
    let others: Vec<&str> = ALL.into_iter().filter(|p| *p != part).collect();
    others.join(",")
}

fn deep() -> Sim {
    Sim {
        deep: true,
        bug: false,
        rounds: 24,
        ..Sim::new(3, 1)
    }
}

/// How many fuzzed runs say that they were made so.
fn turns(folder: &Path) -> BTreeMap<String, usize> {
    let mut turns = BTreeMap::new();
    for l in lines(folder).iter().filter(|l| l["role"] == "fuzz") {
        let why = l["why"].as_str().unwrap();
        let mut words = why.split([' ', ',']);
        let turn = match (words.next().unwrap(), words.next()) {
            ("havoc", Some("tail")) => "tail",
            (first @ ("shape" | "havoc"), _) => first,
            _ => "child",
        };
        *turns.entry(turn.to_owned()).or_default() += 1;
    }
    turns
}

#[test]
fn the_parts_have_their_turns_and_each_can_be_left_out() {
    for (parts, shapes, havoc, tails) in [
        ("", true, true, true),
        ("shapes", false, true, true),
        ("havoc", true, false, true),
        ("tails", true, true, false),
        (&ALL.join(","), false, false, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut o = options(dir.path(), StrategyKind::Warren, 2, 70);
        o.without = without(parts);
        let end = fuzz(deep(), o, nothing());
        let turns = turns(&end.folder);
        let of = |turn: &str| turns.get(turn).copied().unwrap_or(0);
        assert_eq!(of("shape") > 3, shapes, "without {parts}: {turns:?}");
        assert_eq!(of("havoc") > 3, havoc, "without {parts}: {turns:?}");
        assert_eq!(of("tail") > 3, tails, "without {parts}: {turns:?}");
        assert!(of("child") > 10, "without {parts}: {turns:?}");
        let whys: Vec<String> = lines(&end.folder)
            .iter()
            .map(|l| l["why"].as_str().unwrap_or_default().to_owned())
            .collect();
        let said = |what: &str| whys.iter().any(|w| w.contains(what));
        assert_eq!(said("settled"), !parts.contains("strata"), "{parts}");
        let on = Parts {
            swarm: false,
            symmetry: false,
            ..without(parts).map_or(Parts::ALL, |w| w.0)
        };
        assert_eq!(stat(&end.folder, "parts"), on.to_string());
        assert_eq!(stat(&end.folder, "swarm"), "no");
        if shapes {
            assert_eq!(stat(&end.folder, "shapes_tried"), of("shape").to_string());
            assert!(said("shape "), "{whys:?}");
        }
        if havoc || tails {
            let tried = of("havoc") + of("tail");
            assert_eq!(stat(&end.folder, "havoc_tried"), tried.to_string());
        }
        // Whole sequences, and kept runs that go on.
        let whole = said("havoc tail of 000000") || said("havoc tail of 000001");
        assert_eq!(whole, tails, "{whys:?}");
    }
}

#[test]
fn without_its_parts_it_is_crashfuzz() {
    let picked = |strategy, parts: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut o = options(dir.path(), strategy, 5, 60);
        o.without = without(parts);
        let end = fuzz(Sim::new(3, 1), o, nothing());
        let part = |l: &serde_json::Value| format!("{} {} {}", l["kinds"], l["why"], l["seed_run"]);
        lines(&end.folder).iter().map(part).collect::<Vec<_>>()
    };
    let none = picked(StrategyKind::Warren, &ALL.join(","));
    assert_eq!(none, picked(StrategyKind::CrashFuzz, ""));
    for part in ["strata", "state"] {
        assert_ne!(none, picked(StrategyKind::Warren, &all_but(part)), "{part}");
    }
}

/// `energy` alone, in a space so small that faults meet the same again and again.
#[test]
fn energy_changes_the_picks_once_runs_are_alike() {
    let go = |parts: &str| {
        let dir = tempfile::tempdir().unwrap();
        let o = FuzzOptions {
            without: without(parts),
            faults: "crash,reboot".parse().unwrap(),
            ..options(dir.path(), StrategyKind::Warren, 5, 250)
        };
        let mut sim = Sim::new(3, 1);
        (sim.bug, sim.rounds) = (false, 4);
        let end = fuzz(sim, o, nothing());
        let part = |l: &serde_json::Value| format!("{} {} {}", l["kinds"], l["why"], l["seed_run"]);
        lines(&end.folder).iter().map(part).collect::<Vec<_>>()
    };
    let (with, without) = (go(&all_but("energy")), go(&ALL.join(",")));
    let both = with.iter().zip(&without);
    let same = both.take_while(|(a, b)| a == b).count();
    // At first no two runs are alike, and nothing is lost.
    assert!(
        (15..with.len()).contains(&same),
        "the first {same} are the same"
    );
}

/// `state` alone: what is kept for it, and that states are counted without it too.
#[test]
fn a_run_that_shows_a_new_state_is_kept_though_its_code_is_known() {
    let go = |parts: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut o = options(dir.path(), StrategyKind::Warren, 4, 120);
        o.without = without(parts);
        let mut sim = Sim::new(5, 2);
        sim.bug = false;
        let end = fuzz(sim, o, nothing());
        let (lines, found) = (lines(&end.folder), stat(&end.folder, "states_found"));
        assert_eq!(lines.last().unwrap()["states"].to_string(), found);
        lines
    };
    // Neither for new coverage nor for a last fault that is a crash or the start of a partition.
    let for_states = |lines: &[serde_json::Value]| -> Vec<u64> {
        let other = |l: &&serde_json::Value| {
            let last = l["kinds"].as_str().unwrap().rsplit('+').next().unwrap();
            let by_fault = ["crash", "partition-start"].contains(&last);
            l["role"] == "fuzz" && l["new_coverage"] == false && !by_fault
        };
        let kept = lines.iter().filter(other).filter(|l| !l["kept"].is_null());
        kept.map(|l| l["new_states"].as_u64().unwrap()).collect()
    };
    let (with, without) = (go(&all_but("state")), go(&ALL.join(",")));
    let kept = for_states(&with);
    assert!(!kept.is_empty() && kept.iter().all(|n| *n > 0), "{kept:?}");
    assert!(for_states(&without).is_empty());
    let states = |l: &serde_json::Value| l["states"].as_u64().unwrap();
    for lines in [&with, &without] {
        assert!(lines.is_sorted_by_key(states));
        let learned = lines.iter().filter(|l| l["role"] == "learning");
        let learned = learned.map(states).max().unwrap();
        assert!(states(lines.last().unwrap()) > learned);
    }
}

/// Five faults, the last three of which must come while a node joins: the queue alone hardly ever gets there.
#[test]
fn the_deep_bug_is_found_by_shapes() {
    // Eleven shapes share the turns, and one of them reaches it.
    let limit = 400;
    let until = |strategy, seed| {
        let dir = tempfile::tempdir().unwrap();
        let mut o = options(dir.path(), strategy, seed, limit);
        o.exit_on_bug = true;
        fuzz(deep(), o, nothing()).sequences
    };
    let of = |strategy| -> Vec<u64> { (1..=3).map(|seed| until(strategy, seed)).collect() };
    let (warren, crashfuzz) = (of(StrategyKind::Warren), of(StrategyKind::CrashFuzz));
    println!("warren {warren:?}, crashfuzz {crashfuzz:?}");
    assert!(
        median(&warren) * 2 <= median(&crashfuzz),
        "warren {warren:?}, crashfuzz {crashfuzz:?}"
    );
}

#[test]
fn other_parts_or_shapes_are_another_campaign() {
    let dir = tempfile::tempdir().unwrap();
    let first = FuzzOptions {
        without: without("havoc"),
        ..small(dir.path(), StrategyKind::Warren, 5)
    };
    fuzz(sim(), first, moody());
    let with = |parts: &str, shapes: usize, symmetry: bool| {
        let mut o = resumed(dir.path(), StrategyKind::Warren, 6);
        (o.without, o.symmetry) = (without(parts), symmetry);
        o.shapes.truncate(shapes);
        let (e, judge) = executor(sim(), moody());
        campaign(o, e, &judge).map_err(|e| e.to_string())
    };
    let ask = |parts, shapes| with(parts, shapes, false);
    let text = ask("", 99).unwrap_err();
    let part =
        "parts: was shapes,tails,strata,state,energy, asked shapes,havoc,tails,strata,state,energy";
    assert!(text.contains(part), "{text}");
    let text = with("havoc", 99, true).unwrap_err();
    assert!(
        text.contains("asked shapes,tails,strata,symmetry,state,energy"),
        "{text}"
    );
    let text = ask("havoc", 3).unwrap_err();
    assert!(text.contains("shapes: was 12 ("), "{text}");
    assert_eq!(ask("havoc", 99).unwrap().sequences, 6);
}

/// Instances may have strategies of their own: what one tested, the other believes.
#[test]
fn instances_of_other_strategies_believe_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let instance = |name: &str, strategy| FuzzOptions {
        instance: name.into(),
        kind: InstanceKind::Secondary,
        look_every: Duration::ZERO,
        ..small(dir.path(), strategy, 20)
    };
    let calm = || Sim {
        bug: false,
        ..sim()
    };
    fuzz(calm(), instance("a", StrategyKind::Warren), nothing());
    let end = fuzz(calm(), instance("b", StrategyKind::CrashFuzz), nothing());
    assert_eq!(stat(&end.folder, "others"), "1");
    let tested: u64 = stat(&end.folder, "others_tested").parse().unwrap();
    assert!(tested >= 20, "{tested}");
}

/// What was drawn is kept to, by every run of the campaign and by those after it was taken up again, whatever seed is asked for then.
#[test]
fn an_instance_of_a_swarm_keeps_to_what_it_drew() {
    let calm = || Sim {
        bug: false,
        ..Sim::new(5, 2)
    };
    let mut drawn = BTreeMap::new();
    for seed in 1..=6 {
        let dir = tempfile::tempdir().unwrap();
        let swarm = |runs, seed| FuzzOptions {
            swarm: true,
            ..options(dir.path(), StrategyKind::Warren, seed, runs)
        };
        let want = Swarm::draw(seed, FaultSet::default(), 10);
        let o = swarm(40, seed);
        let snapshot = o.snapshot.clone();
        let end = fuzz(calm(), o, nothing());
        let said = snapshot.drain_lines();
        assert!(
            said.iter().any(|l| l.ends_with(&want.to_string())),
            "{said:?}"
        );
        let resumed = FuzzOptions {
            resume: true,
            ..swarm(60, seed + 100)
        };
        fuzz(calm(), resumed, nothing());
        assert_eq!(stat(&end.folder, "swarm"), want.to_string());
        assert!(stat(&end.folder, "parts").ends_with(",swarm"));
        assert_eq!(stat(&end.folder, "sequences_tested"), "60");
        let kinds: Vec<String> = lines(&end.folder)
            .iter()
            .filter(|l| l["role"] == "fuzz")
            .map(|l| l["kinds"].as_str().unwrap().to_owned())
            .collect();
        let off = |on: bool, kind: &str| on || kinds.iter().all(|k| !k.contains(kind));
        assert!(off(want.faults.crash, "crash"), "{want}: {kinds:?}");
        assert!(off(want.faults.reboot, "reboot"), "{want}: {kinds:?}");
        assert!(off(want.faults.partition, "partition"), "{want}: {kinds:?}");
        assert!(
            kinds
                .iter()
                .all(|k| k.split('+').count() <= want.max_faults)
        );
        // Children crash as it was drawn, and cuts are made so.
        for entry in std::fs::read_dir(end.folder.join("queue")).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let how = if want.how == CutHow::Drop {
                "throw"
            } else {
                "drop"
            };
            assert!(
                !text.contains(&format!("how = \"{how}\"")),
                "{want}: {text}"
            );
        }
        drawn.insert(seed, want.to_string());
    }
    let distinct: std::collections::BTreeSet<&String> = drawn.values().collect();
    assert!(distinct.len() > 4, "{drawn:?}");
}

#[test]
fn without_swarm_the_flag_changes_nothing() {
    let story = |swarm: bool, parts: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut o = options(dir.path(), StrategyKind::Warren, 5, 30);
        (o.swarm, o.without) = (swarm, without(parts));
        let end = fuzz(Sim::new(3, 1), o, nothing());
        let part = |l: &serde_json::Value| format!("{} {} {}", l["kinds"], l["why"], l["seed_run"]);
        lines(&end.folder).iter().map(part).collect::<Vec<_>>()
    };
    let plain = story(false, "");
    assert_eq!(plain, story(true, "swarm"));
    assert_ne!(plain, story(true, ""));
}
