//! Slots side by side on the made-up cluster: one search, whatever `-j` is.

use super::*;
use crate::campaign::Slots;
use crate::fuzz::resume::saved::read_back;
use crate::search::StrategyKind;
use std::collections::HashSet;
use warren_model::{HistoryEvent, Instability::Outage, NotInjected};

fn with(out: &Path, slots: Slots, runs: u64) -> FuzzOptions {
    FuzzOptions {
        slots,
        ..options(out, StrategyKind::CrashFuzz, 5, runs)
    }
}

fn without_bug() -> Sim {
    Sim {
        bug: false,
        ..Sim::new(3, 1)
    }
}

/// Runs a campaign; answers its end, the faulty sequences in the order in which they were started, and the most at once.
fn watched(sim: Sim, o: FuzzOptions) -> (FuzzEnd, Vec<String>, usize) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let list = seen.clone();
    let tweak: Tweak = Box::new(move |_, input, _, _| {
        if !input.faults.is_empty() {
            list.borrow_mut().push(input.to_text());
        }
    });
    let (e, judge) = executor(sim, tweak);
    let most = e.most.clone();
    let end = campaign(o, e, &judge).unwrap();
    let seen = seen.borrow().clone();
    (end, seen, most.get())
}

#[test]
fn no_child_is_tested_twice_and_the_limit_is_exact() {
    let dir = tempfile::tempdir().unwrap();
    let (end, seen, most) = watched(without_bug(), with(dir.path(), Slots::Exactly(3), 50));
    assert_eq!((end.reason, end.sequences), (EndReason::SequenceLimit, 50));
    assert_eq!(most, 3);
    assert_eq!(seen.len(), 50, "none is begun that -E does not allow");
    let distinct: HashSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), 50);
    assert_eq!(stat(&end.folder, "sequences_tested"), "50");
    // Each entry of the queue names the seed run it is a child of, not the one that was picked last.
    let lines = lines(&end.folder);
    for entry in names(&end.folder.join("queue")).iter().skip(1) {
        let line = lines.iter().find(|l| l["kept"] == entry.id).unwrap();
        assert_eq!(line["seed_run"].as_u64(), entry.src, "{entry:?}");
    }
}

#[test]
fn the_same_space_is_exhausted() {
    let all = |slots| {
        let dir = tempfile::tempdir().unwrap();
        let mut sim = without_bug();
        (sim.rounds, sim.max_faults) = (2, 2);
        let mut o = with(dir.path(), Slots::Exactly(slots), 100_000);
        (o.max_faults, o.faults) = (2, "crash,reboot".parse().unwrap());
        o.max_classes = 20;
        let (end, _, most) = watched(sim, o);
        assert_eq!((end.reason, most), (EndReason::Exhausted, slots));
        assert_eq!(stat(&end.folder, "pending_total"), "0");
        (end.sequences, stat(&end.folder, "edges_found"))
    };
    assert_eq!(all(1), all(4));
}

/// What went on beside each of the three replays of the first finding.
fn beside_its_replays(sim: Sim, tweak: Tweak) -> Vec<usize> {
    let dir = tempfile::tempdir().unwrap();
    let mut o = with(dir.path(), Slots::Exactly(4), 2000);
    o.exit_on_bug = true;
    let (e, judge) = executor(sim, tweak);
    let (most, beside) = (e.most.clone(), e.beside.clone());
    let end = campaign(o, e, &judge).unwrap();
    assert_eq!(
        (end.reason, end.findings, most.get()),
        (EndReason::Bug, 1, 4)
    );
    assert!(stat(&end.folder, "finding_000000").ends_with("3/3"));
    let confirmed = lines(&end.folder)
        .iter()
        .filter(|l| l["role"] == "confirm")
        .count();
    assert_eq!(confirmed, 3);
    // Nothing else is begun before they have ended.
    let begun = beside.borrow();
    begun[begun.len() - 3..].iter().map(|(_, n)| *n).collect()
}

#[test]
fn replays_of_a_safety_failure_share_the_machine() {
    let beside = beside_its_replays(Sim::new(3, 1), nothing());
    assert!(beside.iter().all(|n| (1..4).contains(n)), "{beside:?}");
}

#[test]
fn replays_of_a_liveness_failure_have_it_for_themselves() {
    let tweak: Tweak = Box::new(|_, input, _, product| {
        if input.faults.len() == 2 {
            product.record.was_not_stable("heal", Outage, "no leader");
        }
    });
    assert_eq!(beside_its_replays(without_bug(), tweak), [0, 0, 0]);
}

/// Two replays without it: a third could not make it two of three, so none is begun, whatever `-j` is.
#[test]
fn a_liveness_failure_that_cannot_stand_any_more_is_not_replayed_again() {
    for slots in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let mut failed = false;
        let tweak: Tweak = Box::new(move |_, input, _, product| {
            if input.faults.len() == 2 && !failed {
                failed = true;
                product.record.was_not_stable("heal", Outage, "no leader");
            }
        });
        let o = with(dir.path(), Slots::Exactly(slots), 60);
        let (e, judge) = executor(without_bug(), tweak);
        let end = campaign(o, e, &judge).unwrap();
        let lines = lines(&end.folder);
        let replays = lines.iter().filter(|l| l["role"] == "confirm").count();
        assert_eq!((replays, end.findings), (2, 0), "-j {slots}");
    }
}

/// It is no replay of what happened: a failure that shows in each one that is injected stands at 3 of 3, and not at 3 of 5.
#[test]
fn a_replay_that_is_not_injected_in_full_is_made_again() {
    // In all of these replays, or in the first two only.
    for (in_vain, found) in [(2, 1), (usize::MAX, 0)] {
        let dir = tempfile::tempdir().unwrap();
        // The first run of two faults fails; the next ones are its replays.
        let mut since = 0;
        let tweak: Tweak = Box::new(move |_, input, _, product| {
            if input.faults.len() != 2 || since > 5 {
                return;
            }
            if (1..=in_vain).contains(&since) {
                product.record.not_injected = Some(NotInjected {
                    index: 1,
                    reason: "bound".into(),
                    detail: "it did not come".into(),
                    nearest: 0,
                });
            } else {
                product.record.was_not_stable("heal", Outage, "no leader");
            }
            since += 1;
        });
        let o = with(dir.path(), Slots::Exactly(1), 60);
        let (e, judge) = executor(without_bug(), tweak);
        let end = campaign(o, e, &judge).unwrap();
        let lines = lines(&end.folder);
        let confirms = lines.iter().filter(|l| l["role"] == "confirm").count();
        assert_eq!(end.findings, found, "{in_vain}");
        if found == 1 {
            assert_eq!(confirms, 5, "two in vain, three that tell");
            assert!(stat(&end.folder, "finding_000000").ends_with("3/3"));
            let evidence = end.folder.join("findings/000000/evidence.txt");
            let evidence = std::fs::read_to_string(evidence).unwrap();
            let want = "showed again in 3 of 3 replays, and 2 more were inconclusive";
            assert!(evidence.contains(want), "{evidence}");
        } else {
            // Not for ever: with two of three spent so none could show it twice.
            assert_eq!(confirms, 5);
            let story = std::fs::read_dir(end.folder.join("unconfirmed")).unwrap();
            let story = story.map(|e| e.unwrap().path().join("evidence.txt"));
            let evidence: String = story.map(|p| std::fs::read_to_string(p).unwrap()).collect();
            let want = "showed again in 0 of 0 replays, and 5 more were inconclusive: no finding";
            assert!(evidence.contains(want), "{evidence}");
        }
    }
}

/// A run that failed before any of its faults is replayed as it was asked for: one more in which none came is the same again.
#[test]
fn where_nothing_happened_a_replay_without_faults_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut since = 0;
    let tweak: Tweak = Box::new(move |_, input, _, product| {
        if input.faults.len() != 2 || since > 3 {
            return;
        }
        product.record.not_injected = Some(NotInjected {
            index: 0,
            reason: "bound".into(),
            detail: "it did not come".into(),
            nearest: 0,
        });
        product.record.matched = None;
        // The run and one of its replays.
        if since == 0 || since == 2 {
            product.record.was_not_stable("heal", Outage, "no leader");
        }
        since += 1;
    });
    let o = with(dir.path(), Slots::Exactly(1), 60);
    let (e, judge) = executor(without_bug(), tweak);
    let end = campaign(o, e, &judge).unwrap();
    let lines = lines(&end.folder);
    let confirms = lines.iter().filter(|l| l["role"] == "confirm").count();
    assert_eq!((confirms, end.findings), (3, 0), "1 of 3: no finding");
}

#[test]
fn auto_takes_fewer_where_fault_free_runs_are_disturbed() {
    let go = |disturbed: bool| {
        let dir = tempfile::tempdir().unwrap();
        let o = with(dir.path(), Slots::Auto, 8);
        let snapshot = o.snapshot.clone();
        let learning = o.learning_runs as u64;
        let tweak: Tweak = Box::new(move |run, input, _, product| {
            // A cluster that waits all the time: as many as there may be.
            (product.record.cpu_ms, product.record.times.total) = (1, 1000);
            if disturbed && run > learning && input.faults.is_empty() {
                product.history.push(HistoryEvent::Phase {
                    phase: warren_model::Phase::Test,
                    t_ns: 0,
                });
                product.history.push(HistoryEvent::Move {
                    client: "c1".into(),
                    session: "s1".into(),
                    server: None,
                    t_ns: 1,
                });
            }
        });
        let (e, judge) = executor(without_bug(), tweak);
        let end = campaign(o, e, &judge).unwrap();
        assert_eq!(end.sequences, 8);
        let slots = stat(&end.folder, "side_by_side");
        let cores = std::thread::available_parallelism().unwrap().get();
        let most = (3 * cores).min(crate::campaign::MAX_SLOTS);
        assert_eq!(slots, if disturbed { 1 } else { most }.to_string());
        // The first disturbed run decides a level: what is in the other slots then ends, and no more.
        let all = lines(&end.folder);
        let learned = all.iter().filter(|l| l["role"] == "learning").count();
        if disturbed {
            let (own, levels) = (usize::try_from(learning).unwrap(), most - 1);
            assert!(learned <= own + levels * (most + 1), "{learned}");
        }
        snapshot.drain_lines().join("\n")
    };
    let calm = go(false);
    assert!(
        calm.contains("runs with plain faults take 0.0 CPU s"),
        "{calm}"
    );
    assert!(
        calm.contains("20 of 20 fault-free runs undisturbed"),
        "{calm}"
    );
    let troubled = go(true);
    assert!(troubled.contains("c1 lost its server"), "{troubled}");
    assert!(troubled.contains("-j auto: one slot"), "{troubled}");
}

#[test]
fn what_is_asked_for_with_j() {
    let table = [("1", "1"), ("7", "7"), ("auto", "auto")];
    for (text, want) in table {
        assert_eq!(text.parse::<Slots>().unwrap().to_string(), want);
    }
    for wrong in ["0", "65", "-1", "two", ""] {
        let error = wrong.parse::<Slots>().unwrap_err();
        assert!(error.contains("nor auto"), "{error}");
    }
}

/// It ended while the replays of another one had the machine for themselves, and then the campaign ended: the user wanted no more, or no more than
/// that one.
#[test]
fn what_a_run_showed_that_nobody_looked_at_before_the_end_is_kept() {
    for reason in [EndReason::Stopped, EndReason::Bug] {
        let dir = tempfile::tempdir().unwrap();
        let o = FuzzOptions {
            exit_on_bug: reason == EndReason::Bug,
            ..with(dir.path(), Slots::Exactly(3), 100)
        };
        let stop = o.stop.clone();
        let mut tested = 0;
        let tweak: Tweak = Box::new(move |_, input, _, product| {
            tested += u32::from(!input.faults.is_empty());
            let mut refuse = || {
                let refused = refuses(&product.trace.nodes[0]);
                product.observations.push(refused);
            };
            match tested {
                1 => refuse(),
                3 => product
                    .observations
                    .push(warren_model::Observation::Mismatch {
                        node: "n1".into(),
                        what: "digest".into(),
                        detail: "once".into(),
                    }),
                // Replays.
                4 if reason == EndReason::Stopped => {
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                4..=6 => refuse(),
                _ => {}
            }
        });
        let (e, judge) = executor(without_bug(), tweak);
        let end = campaign(o, e, &judge).unwrap();
        assert_eq!((end.reason, end.findings), (reason, 1));
        let stories: Vec<_> = std::fs::read_dir(end.folder.join("unconfirmed"))
            .unwrap()
            .map(|e| std::fs::read_to_string(e.unwrap().path().join("evidence.txt")).unwrap())
            .collect();
        assert_eq!(stories.len(), 1, "{stories:?}");
        assert!(
            stories[0].contains("seen as Warren was ending"),
            "{stories:?}"
        );
        assert!(stories[0].contains("digest"), "{stories:?}");
        // Both are begun again.
        let (_, whole) = read_back(&with(dir.path(), Slots::Auto, 0).folder(5), |_| {}).unwrap();
        assert_eq!(whole.now.under_way.len(), 2, "{reason:?}");
    }
}
