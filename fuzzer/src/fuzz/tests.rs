//! The assembled fuzzer on the made-up cluster: LibAFL's loop, feedback's judge, the campaign folder; no process anywhere.

mod baselines;
mod brokers;
mod cmin;
mod damage;
mod known;
mod made_up;
mod measured;
mod minimise;
mod no_rules;
mod otherwise;
mod resume;
mod samples;
mod seeds;
mod slots;
mod starts;
mod sync;
mod two_ways;
mod waits;
mod warren;

use super::engine::campaign;
use super::*;
use crate::campaign::EntryName;
use crate::campaign::FuzzError;
use crate::fuzz::FindKind;
use crate::search::StrategyKind;
use crate::search::sim::{MAP, Sim};
use made_up::{Tweak, executor};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use warren_model::{FaultSequence, NodeName, Observation, Phase, StackId};

fn nothing() -> Tweak {
    Box::new(|_, _, _, _| {})
}

fn options(out: &Path, strategy: StrategyKind, seed: u64, runs: u64) -> FuzzOptions {
    FuzzOptions {
        strategy,
        shapes: crate::search::shapes::built_in().unwrap(),
        seed: Some(seed),
        max_sequences: Some(runs),
        max_faults: 10,
        command_line: ["warren", "fuzz", "sim"].map(String::from).to_vec(),
        ..FuzzOptions::new("sim", out)
    }
}

fn fuzz(sim: Sim, options: FuzzOptions, tweak: Tweak) -> FuzzEnd {
    let (e, judge) = executor(sim, tweak);
    campaign(options, e, &judge).unwrap()
}

fn names(folder: &Path) -> Vec<EntryName> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n != "README.txt")
        .collect();
    names.sort();
    names.iter().map(|n| n.parse().unwrap()).collect()
}

/// The healed node does not serve.
fn refuses(node: &NodeName) -> Observation {
    Observation::Serve {
        phase: Phase::Heal,
        node: node.clone(),
        ok: false,
        ms: 9000,
        error: Some("refused".into()),
    }
}

/// Run 8 leaves a node silent, and Ctrl-C comes in its first replay: the failure is saved, and open.
fn left_open(sim: Sim, o: FuzzOptions) {
    let stop = o.stop.clone();
    let tweak: Tweak = Box::new(move |run, _, _, product| {
        if run == 8 {
            let refused = refuses(&product.trace.nodes[0]);
            product.observations.push(refused);
        }
        if run == 9 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let end = fuzz(sim, o, tweak);
    assert_eq!((end.reason, end.findings), (EndReason::Stopped, 1));
}

/// Data was lost on the node.
fn lost(node: &NodeName) -> Observation {
    Observation::Mismatch {
        node: node.clone(),
        what: "digest".into(),
        detail: "planted".into(),
    }
}

fn stat(folder: &Path, key: &str) -> String {
    let text = std::fs::read_to_string(folder.join("fuzzer_stats")).unwrap();
    text.lines()
        .find_map(|l| {
            let (k, v) = l.split_once(':')?;
            (k.trim() == key).then(|| v.trim().to_owned())
        })
        .unwrap_or_else(|| panic!("no {key} in {text}"))
}

fn lines(folder: &Path) -> Vec<serde_json::Value> {
    std::fs::read_to_string(folder.join("runs.jsonl"))
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn crashfuzz_finds_the_planted_bug_and_tells_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 1, 2000);
    o.exit_on_bug = true;
    let snapshot = o.snapshot.clone();
    let end = fuzz(Sim::new(3, 1), o, nothing());
    assert_eq!(end.reason, EndReason::Bug);
    assert_eq!(end.findings, 1);
    let f = &end.folder;
    // One bug of two faults, its file, its story.
    let crashes = names(&f.join("crashes"));
    assert_eq!(crashes.len(), 1);
    assert!(crashes[0].op.starts_with("crash"), "{:?}", crashes[0]);
    assert!(crashes[0].src.is_some_and(|s| s > 0));
    let evidence = std::fs::read_to_string(f.join("findings/000000/evidence.txt")).unwrap();
    assert!(evidence.contains("3 of 3 replays"), "{evidence}");
    assert!(evidence.contains("planted: entry lost"), "{evidence}");
    assert!(evidence.contains("reproduce: warren replay "), "{evidence}");
    // The saved sequence is what fails.
    let file = std::fs::read_dir(f.join("crashes"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| !p.ends_with("README.txt"))
        .unwrap();
    let saved = FaultSequence::from_text(&std::fs::read_to_string(file).unwrap()).unwrap();
    let again = Sim::new(3, 1).run(&saved);
    assert!(format!("{:?}", again.observations).contains("planted"));
    // Figures agree with the lines.
    let lines = lines(f);
    let fuzzed = lines.iter().filter(|l| l["role"] == "fuzz").count();
    assert_eq!(stat(f, "sequences_tested"), fuzzed.to_string());
    assert_eq!(stat(f, "execs_done"), lines.len().to_string());
    assert_eq!(end.execs, lines.len() as u64);
    assert_eq!(lines.iter().filter(|l| l["role"] == "learning").count(), 5);
    assert_eq!(lines.iter().filter(|l| l["role"] == "confirm").count(), 3);
    let queue = names(&f.join("queue"));
    assert_eq!(stat(f, "corpus_count"), queue.len().to_string());
    assert_eq!(queue[0].orig.as_deref(), Some("fault-free"));
    assert!(queue[1..].iter().all(|q| q.src.is_some()));
    assert_eq!(
        std::fs::read_dir(f.join("runs")).unwrap().count(),
        queue.len()
    );
    assert!(stat(f, "finding_000000").ends_with("3/3"));
    let said = snapshot.drain_lines();
    assert!(
        said.iter().any(|l| l.contains("reproduce: warren replay ")),
        "{said:?}"
    );
    assert!(snapshot.get().ended);
}

/// Most runs are kept for a last fault that is a crash: that is nothing new.
#[test]
fn the_last_new_find_is_the_last_run_that_showed_anything_new() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), StrategyKind::CrashFuzz, 1, 60);
    let snapshot = o.snapshot.clone();
    let tweak: Tweak = Box::new(|run, _, _, product| {
        if run > 30 {
            product.coverage.fill(0);
        }
        // So that no two runs end at one ms.
        std::thread::sleep(Duration::from_millis(2));
    });
    let end = fuzz(Sim::new(3, 1), o, tweak);
    let lines = lines(&end.folder);
    let kept: Vec<_> = lines.iter().filter(|l| !l["kept"].is_null()).collect();
    let new = |l: &&&serde_json::Value| l["new_coverage"] == true || l["new_states"] != 0;
    let last = kept.iter().rfind(new).unwrap();
    assert_ne!(kept.last().unwrap()["kept"], last["kept"]);
    let shown = snapshot.get();
    assert_eq!(shown.last_find_ms, last["at_ms"].as_u64());
    // New states stand in the list as new coverage does, or the list would say less than the time.
    assert_eq!(last["new_coverage"], false);
    let text = format!(
        "{} new states by {}",
        last["new_states"],
        last["kinds"].as_str().unwrap()
    );
    let finds = shown.finds.iter();
    let news: Vec<_> = finds
        .filter(|f| [FindKind::Coverage, FindKind::State].contains(&f.what))
        .collect();
    assert_eq!(news.last().map(|f| &f.text), Some(&text));
}

/// Sequences until the bug, by strategy; the limit when it was not found.
fn runs_until_bug(strategy: StrategyKind, seed: u64, limit: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), strategy, seed, limit);
    o.exit_on_bug = true;
    fuzz(Sim::new(3, 1), o, nothing()).sequences
}

#[test]
fn crashfuzz_needs_far_fewer_runs_than_random_points() {
    let limit = 400;
    let of = |strategy| {
        let runs: Vec<u64> = (1..=3)
            .map(|seed| runs_until_bug(strategy, seed, limit))
            .collect();
        (median(&runs), runs)
    };
    let (crashfuzz, a) = of(StrategyKind::CrashFuzz);
    let (random, b) = of(StrategyKind::RandomPoints);
    println!("crashfuzz {a:?}, random-points {b:?}");
    assert!(a.iter().all(|r| *r < limit), "crashfuzz: {a:?}");
    assert!(
        random >= 3 * crashfuzz,
        "crashfuzz {a:?}, random-points {b:?}"
    );
}

/// Everything there is, with so many classes in memory.
fn exhaust(max_classes: usize) -> (FuzzEnd, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut sim = Sim::new(3, 1);
    (sim.rounds, sim.max_faults, sim.bug) = (2, 2, false);
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 3, 100_000);
    (o.max_faults, o.faults) = (2, "crash,reboot".parse().unwrap());
    o.max_classes = max_classes;
    (fuzz(sim, o, nothing()), dir)
}

#[test]
fn a_small_space_is_exhausted() {
    let (end, _dir) = exhaust(1_000_000);
    assert_eq!(end.reason, EndReason::Exhausted);
    assert_eq!(stat(&end.folder, "pending_total"), "0");
    assert_eq!(end.findings, 0);
    assert!(end.sequences > 100);
}

#[test]
fn with_little_memory_the_same_space_is_exhausted() {
    let (all, _a) = exhaust(1_000_000);
    let (few, _b) = exhaust(20);
    assert_eq!(few.reason, EndReason::Exhausted);
    assert_eq!(few.sequences, all.sequences);
    assert_eq!(stat(&few.folder, "pending_total"), "0");
    let parked = std::fs::read_dir(few.folder.join("runs"))
        .unwrap()
        .filter(|e| {
            let name = e.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".parked")
        })
        .count();
    assert_eq!(parked, 0);
}

#[test]
fn the_same_seed_makes_the_same_campaign() {
    let go = |seed| {
        let dir = tempfile::tempdir().unwrap();
        let end = fuzz(
            Sim::new(5, 2),
            options(dir.path(), StrategyKind::CrashFuzz, seed, 60),
            nothing(),
        );
        lines(&end.folder)
            .iter()
            .map(|l| format!("{} {} {}", l["kinds"], l["seed_run"], l["why"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(go(4), go(4));
    assert_ne!(go(4), go(5));
}

#[test]
fn what_never_comes_is_tried_three_times_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let sim = Sim {
        bug: false,
        // So few children that each has its turn.
        rounds: 2,
        max_faults: 2,
        ..Sim::new(3, 1)
    };
    let runs_of = Rc::new(RefCell::new(std::collections::BTreeMap::new()));
    let count = runs_of.clone();
    let tweak: Tweak = Box::new(move |_, input, _, product| {
        let last = input.faults.last();
        if last.is_some_and(|f| matches!(f.at, warren_model::At::Pattern(_))) {
            let text = format!("{input:?}");
            *count.borrow_mut().entry(text).or_insert(0) += 1;
        }
        // Faults before GO never come: the executor would say so.
        let asks = input
            .faults
            .iter()
            .any(|f| f.at.phase() == warren_model::Phase::Start);
        if asks {
            product.record.injected.clear();
            if let Some(m) = product.record.matched.as_mut() {
                m.faults.clear();
            }
            product.record.not_injected = Some(warren_model::NotInjected {
                index: 0,
                reason: "silence".into(),
                detail: "its stack never came".into(),
                nearest: 0,
            });
        }
    });
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 6, 100_000);
    o.faults = "crash,reboot".parse().unwrap();
    o.max_faults = 2;
    let end = fuzz(sim, o, tweak);
    assert_eq!(end.reason, EndReason::Exhausted);
    let uninjectable: u64 = stat(&end.folder, "uninjectable").parse().unwrap();
    let tries = lines(&end.folder)
        .iter()
        .filter(|l| l["reason"] == "silence")
        .count() as u64;
    assert!(
        uninjectable > 0 && tries >= 3 * uninjectable,
        "{uninjectable} {tries}"
    );
    // Left to whoever comes, twice: once for all siblings that are the same then.
    let runs_of = runs_of.borrow();
    assert!(
        !runs_of.is_empty() && runs_of.values().all(|n| *n <= 2),
        "{runs_of:#?}"
    );
    let silence: u64 = stat(&end.folder, "not_injected_one_fault_silence")
        .parse()
        .unwrap();
    let asked: u64 = stat(&end.folder, "one_fault_asked").parse().unwrap();
    let full: u64 = stat(&end.folder, "one_fault_full").parse().unwrap();
    assert!(full < asked);
    assert_eq!(silence, asked - full, "reasons are of first tries");
}

#[test]
fn void_runs_are_repeated_and_say_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut sim = Sim::new(3, 1);
    sim.bug = false;
    let tweak: Tweak = Box::new(|run, _, _, product| {
        if run % 4 == 0 {
            product.record.void = Some("tmpfs full".into());
        }
    });
    let end = fuzz(
        sim,
        options(dir.path(), StrategyKind::CrashFuzz, 7, 30),
        tweak,
    );
    assert_eq!(end.sequences, 30);
    let lines = lines(&end.folder);
    let voids = lines.iter().filter(|l| !l["void"].is_null()).count();
    assert!(voids >= 5);
    assert_eq!(stat(&end.folder, "void_runs"), voids.to_string());
    assert!(
        lines
            .iter()
            .filter(|l| !l["void"].is_null())
            .all(|l| l["kept"].is_null())
    );
    let repeats = lines.iter().filter(|l| l["role"] == "repeat").count();
    assert!(repeats > 0);
    assert_eq!(end.execs, lines.len() as u64);
}

#[test]
fn a_run_over_its_limit_is_made_once_more_with_twice_the_limit() {
    for (both, hangs) in [(true, true), (false, false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut sim = Sim::new(3, 1);
        sim.bug = false;
        let limits = Arc::new(Mutex::new(Vec::new()));
        let seen = limits.clone();
        let tweak: Tweak = Box::new(move |run, _, options, product| {
            if run == 7 || (run == 8 && both) {
                product.record.timed_out = true;
            }
            seen.lock().unwrap().push(options.limit);
        });
        let end = fuzz(
            sim,
            options(dir.path(), StrategyKind::CrashFuzz, 8, 10),
            tweak,
        );
        let limits = limits.lock().unwrap();
        assert_eq!(limits[7], limits[6] * 2);
        assert_eq!(limits[6], Duration::from_secs(20));
        assert_eq!(end.hangs > 0, hangs);
        assert_eq!(names(&end.folder.join("hangs")).len(), usize::from(hangs));
        assert_eq!(end.sequences, 10);
    }
}

/// The third fuzzed run passes its limit, and with twice that no node serves; in its replays none does either, where they are given as long.
#[test]
fn what_needs_twice_the_limit_to_be_seen_is_given_it_in_replays() {
    for (hangs, silent) in [(false, true), (true, false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut sim = Sim::new(3, 1);
        sim.bug = false;
        let tweak: Tweak = Box::new(move |run, _, options, product| {
            let whole = options.limit >= Duration::from_secs(40);
            if run == 8 || !whole && (run == 9 || run == 10) {
                product.record.timed_out = true;
            }
            if run == 9 && hangs {
                product.record.timed_out = true;
            }
            if run == 9 || silent && whole && (10..13).contains(&run) {
                let nodes = product.trace.nodes.clone();
                product.observations.extend(nodes.iter().map(refuses));
            }
        });
        let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 8);
        let end = fuzz(sim, o, tweak);
        let lines = lines(&end.folder);
        let of = |role: &str| lines.iter().filter(|l| l["role"] == role).count();
        assert_eq!(
            (of("retest"), of("confirm")),
            (1, if silent { 3 } else { 2 })
        );
        // Where its failure of service does not show again, a run that never ended is a hang still.
        assert_eq!(
            (end.findings, end.hangs),
            (u64::from(silent), u64::from(hangs))
        );
        assert_eq!(names(&end.folder.join("hangs")).len(), usize::from(hangs));
        assert_eq!(stat(&end.folder, "failing_runs"), "1", "{hangs}");
    }
}

#[test]
fn a_liveness_failure_must_show_again() {
    // After two replays without it a third could not make it two of three.
    for (again, replays, found) in [(true, 3, 1), (false, 2, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let mut sim = Sim::new(3, 1);
        sim.bug = false;
        let tweak: Tweak = Box::new(move |run, _, _, product| {
            // The third fuzzed run fails, and its replays if asked so.
            if run == 8 || (again && (9..12).contains(&run)) {
                for node in &product.trace.nodes {
                    product.observations.push(refuses(node));
                }
            }
        });
        let end = fuzz(
            sim,
            options(dir.path(), StrategyKind::CrashFuzz, 9, 8),
            tweak,
        );
        let confirms = lines(&end.folder)
            .iter()
            .filter(|l| l["role"] == "confirm")
            .count();
        assert_eq!(confirms, replays, "again {again}");
        assert_eq!(end.findings, found, "again {again}");
        assert_eq!(names(&end.folder.join("crashes")).len() as u64, found);
        assert_eq!(end.sequences, 8);
        // What did not show again is no finding, and its story is there to be read.
        let stories = std::fs::read_dir(end.folder.join("unconfirmed"));
        let stories: Vec<_> = stories.into_iter().flatten().flatten().collect();
        assert_eq!(stories.len() as u64, 1 - found, "{stories:?}");
        for story in stories {
            let evidence = std::fs::read_to_string(story.path().join("evidence.txt")).unwrap();
            assert!(
                evidence.contains("showed again in 0 of 2 replays: no finding"),
                "{evidence}"
            );
        }
        // A run is failing or unknown, never both.
        assert_eq!(stat(&end.folder, "failing_runs"), found.to_string());
        assert_eq!(stat(&end.folder, "unknown_runs"), (1 - found).to_string());
    }
}

#[test]
fn ctrl_c_while_confirming_keeps_a_liveness_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mut sim = Sim::new(3, 1);
    sim.bug = false;
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 8);
    let stop = o.stop.clone();
    let tweak: Tweak = Box::new(move |run, _, _, product| {
        if run == 8 {
            let refused = refuses(&product.trace.nodes[0]);
            product.observations.push(refused);
        }
        if run == 9 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let end = fuzz(sim, o, tweak);
    assert_eq!((end.reason, end.findings), (EndReason::Stopped, 1));
    assert_eq!(names(&end.folder.join("crashes")).len(), 1);
    assert!(stat(&end.folder, "finding_000000").ends_with("0/0"));
    let evidence = end.folder.join("findings/000000/evidence.txt");
    let evidence = std::fs::read_to_string(evidence).unwrap();
    assert!(evidence.contains("after 0 of 3 replays"), "{evidence}");
}

#[test]
fn passing_single_faults_teach_log_templates() {
    let dir = tempfile::tempdir().unwrap();
    let mut sim = Sim::new(3, 1);
    sim.bug = false;
    let (e, judge) = executor(sim, nothing());
    let o = options(dir.path(), StrategyKind::CrashFuzz, 12, 40);
    let end = campaign(o, e, &judge).unwrap();
    let plain = lines(&end.folder)
        .iter()
        .filter(|l| l["role"] == "fuzz" && l["asked"] == 1 && l["injected"] == 1)
        .count();
    assert!(plain > 0);
    let learned = judge.lock().unwrap().learned().single_fault_runs;
    assert_eq!(learned as usize, plain);
}

#[test]
fn the_stop_flag_ends_it_and_a_second_campaign_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), StrategyKind::CrashFuzz, 10, 1000);
    let stop = o.stop.clone();
    let tweak: Tweak = Box::new(move |run, _, _, _| {
        if run == 12 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let end = fuzz(Sim::new(3, 1), o, tweak);
    assert_eq!(end.reason, EndReason::Stopped);
    assert_eq!(end.sequences, 6);
    // The run that was cut off has its line and counts nowhere.
    assert_eq!(end.execs, 11);
    assert_eq!(stat(&end.folder, "execs_done"), "11");
    assert_eq!(stat(&end.folder, "void_runs"), "0");
    assert_eq!(lines(&end.folder).last().unwrap()["void"], "stopped");
    let (e, judge) = executor(Sim::new(3, 1), nothing());
    match campaign(
        options(dir.path(), StrategyKind::CrashFuzz, 10, 1),
        e,
        &judge,
    ) {
        Err(FuzzError::HoldsCampaign { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cluster_that_fails_without_faults_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (e, judge) = executor(
        Sim::new(3, 1),
        Box::new(|_, _, _, product| {
            product
                .observations
                .push(warren_model::Observation::Mismatch {
                    node: "n1".into(),
                    what: "digest".into(),
                    detail: "always".into(),
                });
        }),
    );
    let o = options(dir.path(), StrategyKind::CrashFuzz, 11, 10);
    match campaign(o, e, &judge) {
        Err(FuzzError::Learning(why)) => assert!(why.contains("FAILS"), "{why}"),
        other => panic!("{other:?}"),
    }
}
