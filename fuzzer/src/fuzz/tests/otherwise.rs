//! Runs that fail as a finding that stands does, and otherwise too: their stories are kept in its folder, one of each way.

use super::known::list;
use super::resume::{copy, seen};
use super::*;
use crate::campaign::finding::Sheet;
use crate::campaign::state::hook::testing::looking;
use crate::known::KnownBugs;
use crate::search::StrategyKind;
use std::collections::BTreeSet;

/// The third fuzzed run and the three after its replays lose data on one node; the last two of them leave that node silent, too.
fn failing() -> Tweak {
    Box::new(|run, _, _, product| {
        if !(8..=14).contains(&run) {
            return;
        }
        let node = product.trace.nodes[0].clone();
        product.logs.insert(node.clone(), format!("of run {run}\n"));
        if run >= 13 {
            product.observations.push(refuses(&node));
        }
        product.observations.push(lost(&node));
    })
}

#[test]
fn another_way_to_fail_is_told_once_in_the_finding_that_stands() {
    let dir = tempfile::tempdir().unwrap();
    let sim = Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 12);
    let end = fuzz(sim, o, failing());
    assert_eq!(end.findings, 1);
    assert_eq!(names(&end.folder.join("crashes")).len(), 4);
    let finding = end.folder.join("findings/000000");
    let told: Vec<_> = std::fs::read_dir(finding.join("otherwise"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    let [other] = told.as_slice() else {
        panic!("one way that the finding has not: {told:?}");
    };
    let failures = |folder: &Path| {
        let sheet = Sheet::read(&folder.join("finding.json")).unwrap();
        let failures = sheet.judgement.failures;
        failures
            .into_iter()
            .map(|f| f.signature)
            .collect::<Vec<_>>()
    };
    assert_eq!(failures(&finding).len(), 1);
    let both = failures(other);
    assert_eq!(both.len(), 2);
    assert!(both.contains(&failures(&finding)[0]), "{both:?}");
    let log = std::fs::read_to_string(other.join("logs/n1.log")).unwrap();
    assert_eq!(log, "of run 13\n");
    let evidence = std::fs::read_to_string(other.join("evidence.txt")).unwrap();
    assert!(
        evidence.contains("one more run of finding 000000, not replayed"),
        "{evidence}"
    );
    assert!(
        !evidence.contains("fails also as"),
        "no other finding: {evidence}"
    );
}

/// The third fuzzed run leaves all nodes silent; of its two replays the first loses data instead, in the second a client is stuck.
fn replays_failing_otherwise() -> Tweak {
    Box::new(|run, _, _, product| {
        let nodes = product.trace.nodes.clone();
        product
            .logs
            .insert(nodes[0].clone(), format!("of run {run}\n"));
        match run {
            8 => product.observations.extend(nodes.iter().map(refuses)),
            9 => product.observations.push(lost(&nodes[0])),
            10 => product.observations.push(Observation::Progress {
                phase: Phase::Heal,
                client: "c1".into(),
                ok: false,
                ms: 9000,
                error: Some("refused".into()),
            }),
            _ => {}
        }
    })
}

#[test]
fn what_a_replay_shows_instead_is_kept_with_its_logs() {
    let dir = tempfile::tempdir().unwrap();
    let sim = Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 8);
    let end = fuzz(sim, o, replays_failing_otherwise());
    let roles: Vec<_> = lines(&end.folder)
        .iter()
        .map(|l| l["role"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles[8..10], ["confirm", "confirm"], "{roles:?}");

    assert_eq!(end.findings, 1);
    assert_eq!(names(&end.folder.join("crashes")).len(), 1);
    let finding = end.folder.join("findings/000000");
    let sheet = Sheet::read(&finding.join("finding.json")).unwrap();
    assert_eq!((sheet.found.k, sheet.found.n), (0, 0));
    let log = std::fs::read_to_string(finding.join("logs/n1.log")).unwrap();
    assert_eq!(log, "of run 9\n");
    let evidence = std::fs::read_to_string(finding.join("evidence.txt")).unwrap();
    assert!(evidence.contains("seen in a replay of "), "{evidence}");
    assert!(evidence.contains("stands by its evidence"), "{evidence}");

    let mut unconfirmed: Vec<_> = std::fs::read_dir(end.folder.join("unconfirmed"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    unconfirmed.sort();
    let logs: Vec<_> = unconfirmed
        .iter()
        .map(|story| std::fs::read_to_string(story.join("logs/n1.log")).unwrap())
        .collect();
    assert_eq!(logs, ["of run 8\n", "of run 10\n"]);
    let evidence = std::fs::read_to_string(unconfirmed[1].join("evidence.txt")).unwrap();
    assert!(
        evidence.contains("seen in a replay of ") && evidence.contains("no finding"),
        "{evidence}"
    );
}

/// Killed at any instant around a replay that loses data; made again it does not, and a later test loses data in another way.
#[test]
fn what_a_replay_showed_keeps_its_number_whenever_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (first, copies) = (dir.path().join("first"), dir.path().join("copies"));
    let cuts = Rc::new(RefCell::new(Vec::new()));
    let (from, list) = (first.join("default"), cuts.clone());
    let look = move |point: &str| {
        let to = copies.join(format!("{}-{point}", list.borrow().len()));
        copy(&from, &to.join("default"));
        std::fs::remove_file(to.join("default/lock")).unwrap();
        list.borrow_mut().push(to);
    };
    let quiet = || Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let o = options(&first, StrategyKind::CrashFuzz, 9, 3);
    looking(look, || fuzz(quiet(), o, replays_failing_otherwise()));
    let found = |out: &Path| {
        let sheet = out.join("default/findings/000000/finding.json");
        Sheet::read(&sheet).ok().map(|s| s.found.signature)
    };
    let own = found(&first).unwrap();
    let mut told = 0;
    for out in cuts.borrow().iter() {
        let there = seen(&out.join("default"));
        if !out.join("default/state/checkpoint").is_file() {
            continue;
        }
        told += usize::from(found(out).is_some());
        let o = FuzzOptions {
            resume: true,
            ..options(out, StrategyKind::CrashFuzz, 9, 4)
        };
        let tests_lose: Tweak = Box::new(|_, input, options, product| {
            if !input.faults.is_empty() && options.limit < Duration::from_secs(40) {
                product.observations.push(Observation::Mismatch {
                    node: "n1".into(),
                    what: "order".into(),
                    detail: "planted".into(),
                });
            }
        });
        let had = found(out).is_some();
        fuzz(quiet(), o, tests_lose);
        let now = seen(&out.join("default"));
        let lost: Vec<_> = there.difference(&now).collect();
        assert!(lost.is_empty(), "{}: {lost:?}", out.display());
        if had {
            assert_eq!(found(out).as_ref(), Some(&own), "{}", out.display());
        }
        let ids: Vec<_> = names(&out.join("default/crashes"));
        let ids: Vec<u64> = ids.into_iter().map(|n| n.id).collect();
        let each: BTreeSet<u64> = ids.iter().copied().collect();
        assert_eq!(ids.len(), each.len(), "{}: {ids:?}", out.display());
    }
    assert!(told > 1, "{told}");
}

/// The first fuzzed run loses data as a known bug does, with its line; a replay of the third one loses data so without it.
#[test]
fn a_replay_that_only_looks_like_a_known_bug_is_a_finding_beside_it() {
    let fuzzed = |dir: &Path, known: KnownBugs, runs: u64| {
        let tweak: Tweak = Box::new(|run, _, _, product| {
            let nodes = product.trace.nodes.clone();
            match run {
                6 => {
                    let log = "the line\n".to_owned();
                    product.logs.insert(nodes[0].clone(), log);
                    product.observations.push(lost(&nodes[0]));
                }
                8 => product.observations.extend(nodes.iter().map(refuses)),
                9 => product.observations.push(lost(&nodes[0])),
                _ => {}
            }
        });
        let sim = Sim {
            bug: false,
            ..Sim::new(3, 1)
        };
        let mut o = options(dir, StrategyKind::CrashFuzz, 9, runs);
        o.known = known;
        fuzz(sim, o, tweak)
    };
    let dir = tempfile::tempdir().unwrap();
    let end = fuzzed(dir.path(), KnownBugs::default(), 1);
    let signature = stat(&end.folder, "finding_000000")[..8].to_owned();

    let dir = tempfile::tempdir().unwrap();
    let end = fuzzed(dir.path(), list(&signature, "'^the line$'"), 5);
    assert_eq!((end.findings, end.known), (2, 1));
    let finding = end.folder.join("findings/000001");
    let sheet = Sheet::read(&finding.join("finding.json")).unwrap();
    assert_eq!((sheet.found.signature, sheet.found.n), (signature, 0));
    let evidence = std::fs::read_to_string(finding.join("evidence.txt")).unwrap();
    assert!(evidence.contains("seen in a replay of "), "{evidence}");
}

/// Each failing run fails in the same two ways.
#[test]
fn a_replay_that_fails_as_its_run_did_brings_no_other_finding() {
    let tweak: Tweak = Box::new(|run, _, _, product| {
        let node = product.trace.nodes[0].clone();
        if (8..=11).contains(&run) {
            product.observations.push(lost(&node));
            product.observations.push(Observation::Mismatch {
                node,
                what: "order".into(),
                detail: "planted".into(),
            });
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let sim = Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 4);
    let end = fuzz(sim, o, tweak);
    let finding = end.folder.join("findings/000000/finding.json");
    let sheet = Sheet::read(&finding).unwrap();
    let failures = &sheet.judgement.failures;
    let signatures: BTreeSet<_> = failures.iter().map(|f| &f.signature).collect();
    assert_eq!(signatures.len(), 2, "{failures:?}");
    assert_eq!((sheet.found.k, sheet.found.n), (3, 3));
    assert_eq!(end.findings, 1);
    assert_eq!(names(&end.folder.join("crashes")).len(), 1);
}

/// The rate in the story of a first finding that is counted no more.
fn fallen(end: &FuzzEnd) -> (u32, u32) {
    let stats = std::fs::read_to_string(end.folder.join("fuzzer_stats")).unwrap();
    assert!(!stats.contains("finding_"), "{stats}");
    assert_eq!(end.findings, 0);
    let sheet = Sheet::read(&end.folder.join("findings/000000/finding.json")).unwrap();
    (sheet.found.k, sheet.found.n)
}

/// Its replays, made when the campaign goes on, do not show it: it is told as it was saved, and its signature stands no more.
#[test]
fn what_ctrl_c_saved_and_replays_did_not_show_is_replayed_when_it_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = || Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let fails_at = |at: u64| {
        move |run: u64, product: &mut warren_model::RunProduct| {
            if run == at {
                let refused = refuses(&product.trace.nodes[0]);
                product.observations.push(refused);
            }
        }
    };
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 9, 30);
    // What is open is no bug yet.
    o.exit_on_bug = true;
    let stop = o.stop.clone();
    let fails = fails_at(8);
    let first: Tweak = Box::new(move |run, _, _, product| {
        fails(run, product);
        if run == 9 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let end = fuzz(quiet(), o, first);
    assert_eq!((end.reason, end.findings), (EndReason::Stopped, 1));
    let o = FuzzOptions {
        resume: true,
        // What fell is not made smaller, and ends no campaign.
        minimize: true,
        exit_on_bug: true,
        ..options(dir.path(), StrategyKind::CrashFuzz, 9, 30)
    };
    // Three replays of what was left open, then tests.
    let fails = fails_at(6);
    let second: Tweak = Box::new(move |run, _, _, product| fails(run, product));
    let end = fuzz(quiet(), o, second);
    assert_eq!(end.reason, EndReason::SequenceLimit);
    let smaller = |l: &serde_json::Value| l["role"] == "minimise";
    assert!(!lines(&end.folder).iter().any(smaller));
    assert_eq!(fallen(&end), (0, 3));
    let unknown = stat(&end.folder, "unknown_runs");
    assert_eq!(
        (stat(&end.folder, "failing_runs"), unknown),
        ("0".into(), "2".into())
    );
    let confirm = |l: &&serde_json::Value| l["role"] == "confirm" && l["void"].is_null();
    let replays = lines(&end.folder).iter().filter(confirm).count();
    assert_eq!(replays, 5, "three of the first, two of the second");
}

/// A run fails in two ways; Ctrl-C comes when one of them fell and the other is open still. The fall is counted when the run is decided on, once.
#[test]
fn a_fall_is_counted_once_for_a_run_that_is_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = || Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let refuse = |product: &mut warren_model::RunProduct, phases: &[Phase]| {
        for phase in phases {
            product.observations.push(Observation::Serve {
                phase: *phase,
                node: product.trace.nodes[0].clone(),
                ok: false,
                ms: 9000,
                error: Some("refused".into()),
            });
        }
    };
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 30);
    let stop = o.stop.clone();
    // Of two replays one shows the second way, and none the first.
    let first: Tweak = Box::new(move |run, _, _, product| match run {
        8 => refuse(product, &[Phase::Degraded, Phase::Heal]),
        9 => refuse(product, &[Phase::Heal]),
        11 => stop.store(true, std::sync::atomic::Ordering::Relaxed),
        _ => {}
    });
    let end = fuzz(quiet(), o, first);
    assert_eq!((end.reason, end.findings), (EndReason::Stopped, 1));
    let o = FuzzOptions {
        resume: true,
        ..options(dir.path(), StrategyKind::CrashFuzz, 9, 6)
    };
    let folder = o.folder(9);
    fuzz(quiet(), o, nothing());
    let (_, whole) = crate::fuzz::resume::saved::read_back(&folder, |_| {}).unwrap();
    let fell: Vec<u32> = whole.now.bugs.bugs.values().map(|b| b.fell).collect();
    assert_eq!(fell, [1, 1], "each once");
}

/// As above, but most of its replays tell nothing: fewer than three say that it fell, and it fell for processes that come later, too.
#[test]
fn what_fell_by_fewer_replays_than_three_stands_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = || Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let replays = |folder: &Path| {
        let confirm = |l: &&serde_json::Value| l["role"] == "confirm" && l["void"] != "stopped";
        lines(folder).iter().filter(confirm).count()
    };
    let refuse = |product: &mut warren_model::RunProduct| {
        let refused = refuses(&product.trace.nodes[0]);
        product.observations.push(refused);
    };
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 30);
    left_open(quiet(), o);
    let go_on = |runs: u64| FuzzOptions {
        resume: true,
        ..options(dir.path(), StrategyKind::CrashFuzz, 9, runs)
    };
    // Six replays of what was left open, one of which shows it; then a test that does, too.
    let second: Tweak = Box::new(move |run, _, _, product| match run {
        2..=5 => product.record.void = Some("tmpfs full".into()),
        1 | 7 => refuse(product),
        _ => {}
    });
    let end = fuzz(quiet(), go_on(4), second);
    assert_eq!(fallen(&end), (1, 2));
    assert_eq!(replays(&end.folder), 8, "six of the first, two of the next");
    // And one in another process.
    let third: Tweak = Box::new(move |run, _, _, product| {
        if run == 1 {
            refuse(product);
        }
    });
    let end = fuzz(quiet(), go_on(5), third);
    assert_eq!(replays(&end.folder), 10, "two of the third");
}

/// The third fuzzed run and what comes after it leave all nodes silent; the machine stands still in the first two replays.
#[test]
fn a_replay_under_a_stall_says_nothing_of_a_failure_of_service() {
    let dir = tempfile::tempdir().unwrap();
    let sim = Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 8);
    let tweak: Tweak = Box::new(|run, _, _, product| {
        if (8..=13).contains(&run) {
            let nodes = product.trace.nodes.clone();
            product.observations.extend(nodes.iter().map(refuses));
        }
        if run == 9 || run == 10 {
            product.record.stalls_ms.insert(Phase::Heal, 60_000);
        }
    });
    let end = fuzz(sim, o, tweak);
    assert_eq!(end.findings, 1);
    let finding = Sheet::read(&end.folder.join("findings/000000/finding.json")).unwrap();
    assert_eq!((finding.found.k, finding.found.n), (3, 3));
    let evidence =
        std::fs::read_to_string(end.folder.join("findings/000000/evidence.txt")).unwrap();
    assert!(
        evidence.contains("and 2 more were inconclusive"),
        "{evidence}"
    );
}

/// Killed in the first replay of what stands already: the process that goes on ends for it as the one that saw it would have.
#[test]
fn exit_on_bug_holds_for_a_finding_whose_replays_were_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let asked = |out: &Path| FuzzOptions {
        exit_on_bug: true,
        ..options(out, StrategyKind::CrashFuzz, 9, 30)
    };
    let sim = || Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let loses = |product: &mut warren_model::RunProduct| {
        let node = product.trace.nodes[0].clone();
        product.observations.push(lost(&node));
    };
    let (from, to) = (first.join("default"), second.join("default"));
    let tweak: Tweak = Box::new(move |run, _, _, product| {
        if run == 9 {
            copy(&from, &to);
            std::fs::remove_file(to.join("lock")).unwrap();
        }
        if (8..=11).contains(&run) {
            loses(product);
        }
    });
    assert_eq!(fuzz(sim(), asked(&first), tweak).reason, EndReason::Bug);
    let o = FuzzOptions {
        resume: true,
        ..asked(&second)
    };
    let end = fuzz(sim(), o, Box::new(move |_, _, _, product| loses(product)));
    assert_eq!((end.reason, end.findings), (EndReason::Bug, 1));
}
