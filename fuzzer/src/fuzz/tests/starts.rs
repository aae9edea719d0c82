//! Start states on the made-up cluster: a root for each, children that inherit them, and what happens where snapshots do not work.

use super::*;
use crate::campaign::StoredRun;
use crate::search::StrategyKind;
use std::rc::Rc;
use warren_model::{Fallbacks, FromPrefix, Observation, StartState};

fn starting(out: &Path, snapshots: u8, cold_share: f64, runs: u64) -> FuzzOptions {
    FuzzOptions {
        starts: Starts {
            snapshots,
            cold_share,
            required: false,
            in_a_row: 1,
        },
        ..options(out, StrategyKind::CrashFuzz, 4, runs)
    }
}

/// Start states of all kept runs, the roots first.
fn starts(root: &Path) -> Vec<(StartState, usize)> {
    (0..)
        .map_while(|id| StoredRun::read(&root.join("runs"), id).ok())
        .map(|run| {
            let matched = run.record.matched.unwrap();
            (matched.start, matched.faults.len())
        })
        .collect()
}

#[test]
fn each_start_has_its_root_and_children_inherit_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("default");
    fuzz(Sim::new(5, 2), starting(dir.path(), 3, 0.15, 60), nothing());
    let starts = starts(&root);
    let roots: Vec<String> = starts[..4].iter().map(|(s, _)| s.to_string()).collect();
    assert_eq!(roots, ["cold", "snapshot-1", "snapshot-2", "snapshot-3"]);
    assert!(starts[..4].iter().all(|(_, faults)| *faults == 0));
    let children = &starts[4..];
    let cold = children.iter().filter(|(s, _)| *s == StartState::Cold);
    let cold = cold.count();
    assert!(
        cold > 0 && cold * 3 < children.len(),
        "{cold} cold of {}",
        children.len()
    );
    let text: String = std::fs::read_dir(root.join("queue"))
        .unwrap()
        .map(|e| std::fs::read_to_string(e.unwrap().path()).unwrap())
        .collect();
    assert!(text.contains("start = \"snapshot-2\"") && text.contains("start = \"cold\""));
}

/// What is noise is learned of each start by itself.
#[test]
fn each_start_has_its_own_baseline_and_noise() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("default");
    // A slot that one run in two sets, from the second snapshot alone.
    let mut turn = 0;
    let varies: Tweak = Box::new(move |_, input, _, product| {
        if input.start == StartState::Snapshot(2) {
            turn += 1;
            product.coverage[MAP - 1] = u8::from(turn % 2 == 0);
        }
    });
    fuzz(Sim::new(5, 2), starting(dir.path(), 3, 0.15, 10), varies);
    // What comes before GO is no part of a run from a snapshot.
    for (start, slots, vary) in [
        ("cold", 16, 0),
        ("snapshot_1", 14, 0),
        ("snapshot_2", 15, 1),
    ] {
        assert_eq!(
            stat(&root, &format!("slots_of_{start}")),
            format!("{slots} fault-free, {vary} vary")
        );
    }
    assert_eq!(stat(&root, "var_byte_count"), "1");
    assert_eq!(stat(&root, "stability"), "93.33%");
    // The noise of one start is new to none.
    assert_eq!(stat(&root, "edges_fault_free"), "17");
    let learning = lines(&root);
    let from_2 = learning
        .iter()
        .filter(|l| l["role"] == "learning" && l["start"] == "snapshot-2");
    assert_eq!(from_2.count(), 2);
}

/// Snapshots that come to a campaign when it is resumed: their roots are not the first kept runs, and shapes, tails and draws find them.
#[test]
fn roots_made_at_a_resume_are_found_by_their_start() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("default");
    let with = |snapshots, runs| FuzzOptions {
        strategy: StrategyKind::Warren,
        ..starting(dir.path(), snapshots, 0.1, runs)
    };
    fuzz(Sim::new(5, 2), with(0, 20), nothing());
    let before = starts(&root).len();
    assert!(before > 2, "{before}");
    let again = FuzzOptions {
        resume: true,
        ..with(2, 120)
    };
    fuzz(Sim::new(5, 2), again, nothing());
    let kept = starts(&root);
    let late = [(StartState::Snapshot(1), 0), (StartState::Snapshot(2), 0)];
    assert_eq!(kept[before..before + 2], late);
    // A shape, a tail of the fault-free run, and a child, each from a snapshot.
    let all = lines(&root);
    for what in ["shape ", "havoc tail of ", "new "] {
        let of = |l: &&serde_json::Value| {
            let why = l["why"].as_str().unwrap_or_default();
            why.starts_with(what) && l["start"] == "snapshot-2"
        };
        assert!(all.iter().any(|l| of(&l)), "no {what:?} from snapshot 2");
    }
    let tail = format!("havoc tail of {:06}, from snapshot-2", before + 1);
    assert!(all.iter().any(|l| l["why"] == tail), "no {tail:?}");
}

#[test]
fn where_snapshots_do_not_work_every_run_starts_cold_or_it_is_an_error() {
    // The made-up cluster has three.
    let dir = tempfile::tempdir().unwrap();
    fuzz(Sim::new(5, 2), starting(dir.path(), 4, 0.0, 20), nothing());
    let kept = starts(&dir.path().join("default"));
    assert_eq!(kept.iter().filter(|(_, faults)| *faults == 0).count(), 4);

    let dir = tempfile::tempdir().unwrap();
    let mut required = starting(dir.path(), 4, 0.5, 20);
    required.starts.required = true;
    let (e, judge) = executor(Sim::new(5, 2), nothing());
    let error = campaign(required, e, &judge).unwrap_err().to_string();
    assert!(
        error.contains("--snapshot require") && error.contains("has three"),
        "{error}"
    );

    // A run that fell back to a cold start is no root of a snapshot.
    let dir = tempfile::tempdir().unwrap();
    let fell_back: Tweak = Box::new(|_, _, _, product| {
        let record = &mut product.record;
        for s in [&mut record.sequence, &mut record.matched]
            .into_iter()
            .flatten()
        {
            s.start = StartState::Cold;
        }
    });
    fuzz(Sim::new(5, 2), starting(dir.path(), 2, 0.1, 20), fell_back);
    let kept = starts(&dir.path().join("default"));
    assert!(kept.iter().all(|(s, _)| *s == StartState::Cold));
    assert_eq!(kept.iter().filter(|(_, faults)| *faults == 0).count(), 1);
}

#[test]
fn the_baseline_draws_where_to_begin() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = starting(dir.path(), 2, 0.5, 40);
    options.strategy = StrategyKind::RandomPoints;
    let seen = std::sync::Arc::new(Mutex::new(std::collections::BTreeMap::new()));
    let log = seen.clone();
    let tweak: Tweak = Box::new(move |_, input, _, _| {
        if !input.faults.is_empty() {
            *log.lock()
                .unwrap()
                .entry(input.start.to_string())
                .or_insert(0) += 1;
            let start = input.needs_start();
            assert!(!start || input.start == StartState::Cold, "{input:?}");
        }
    });
    fuzz(Sim::new(5, 2), options, tweak);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen.values().all(|n| *n > 3), "{seen:?}");
}

#[test]
fn a_run_that_falls_back_is_said_once_and_require_ends_the_campaign() {
    let fall_back = || -> Tweak {
        Box::new(|run, input, _, product| {
            if run > 12 && input.start != StartState::Cold {
                product.fell_back(Fallbacks {
                    cold: Some("no memory".into()),
                    ..Fallbacks::default()
                });
                let record = &mut product.record;
                for s in [&mut record.sequence, &mut record.matched]
                    .into_iter()
                    .flatten()
                {
                    s.start = StartState::Cold;
                }
            }
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let options = starting(dir.path(), 2, 0.1, 20);
    let screen = options.snapshot.clone();
    fuzz(Sim::new(5, 2), options, fall_back());
    let lines = screen.drain_lines();
    let said = lines.iter().filter(|l| l.contains("start cold: no memory"));
    assert_eq!(said.count(), 1, "{lines:?}");
    let text = std::fs::read_to_string(dir.path().join("default/runs.jsonl")).unwrap();
    assert!(text.contains("\"start\":\"snapshot-2\"") && text.contains("\"cold\":\"no memory\""));

    let dir = tempfile::tempdir().unwrap();
    let mut required = starting(dir.path(), 2, 0.1, 20);
    required.starts.required = true;
    let (e, judge) = executor(Sim::new(5, 2), fall_back());
    let error = campaign(required, e, &judge).unwrap_err().to_string();
    assert!(
        error.contains("--snapshot require") && error.contains("no memory"),
        "{error}"
    );
}

/// What was dumped may be why it failed, and all that followed would count as other runs that did.
#[test]
fn a_prefix_from_which_a_run_failed_is_distrusted() {
    let dir = tempfile::tempdir().unwrap();
    let tweak: Tweak = Box::new(|run, _, _, product| {
        // Every other run of the campaign.
        product.from_prefix = (run % 2 == 0).then_some(FromPrefix {
            faults: 1,
            spared_ms: 10,
        });
    });
    let (e, judge) = executor(Sim::new(3, 1), tweak);
    let distrusted = Rc::clone(&e.distrusted);
    let o = options(dir.path(), StrategyKind::CrashFuzz, 1, 300);
    campaign(o, e, &judge).unwrap();
    let distrusted = distrusted.borrow();
    assert!(!distrusted.is_empty());
    for s in &*distrusted {
        let again = Sim::new(3, 1).run(s);
        assert!(format!("{:?}", again.observations).contains("planted"));
    }
    let lines = lines(&dir.path().join("default"));
    let failed = |l: &&serde_json::Value| {
        l["role"] == "fuzz" && l["verdict"] == "fail" && l["from_prefix"] == 1
    };
    assert_eq!(lines.iter().filter(failed).count(), distrusted.len());
    assert!(
        lines
            .iter()
            .any(|l| l["role"] == "fuzz" && l["verdict"] == "fail" && l["from_prefix"].is_null())
    );
}

#[test]
fn what_a_run_was_not_spared_is_in_its_line_and_a_warning_for_people() {
    let dir = tempfile::tempdir().unwrap();
    let tweak: Tweak = Box::new(|run, _, _, product| {
        if run > 12 {
            product.fell_back(Fallbacks {
                no_prefix: Some("another run makes it still".into()),
                ..Fallbacks::default()
            });
            for n in ["n1", "n2"] {
                let why = format!("that of {n} did not go on");
                product.fell_back(Fallbacks {
                    no_parked: Some(why),
                    ..Fallbacks::default()
                });
            }
            assert_eq!(
                product.record.warnings,
                [
                    "no prefix snapshot: another run makes it still",
                    "no parked JVM: that of n1 did not go on",
                    "no parked JVM: that of n2 did not go on"
                ]
            );
        }
    });
    fuzz(Sim::new(5, 2), starting(dir.path(), 2, 0.1, 20), tweak);
    let text = std::fs::read_to_string(dir.path().join("default/runs.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(last["cold"].is_null(), "{last:#}");
    assert_eq!(last["no_prefix"], "another run makes it still");
    assert_eq!(last["no_parked"], "that of n1 did not go on");
    assert_eq!(last["warnings"], 3);
}

#[test]
fn what_a_workload_noted_is_in_each_line_and_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let tweak: Tweak = Box::new(|run, _, _, product| {
        if run > 12 {
            product.observations.push(Observation::Note {
                text: format!("refused, and done: try {run}"),
            });
        }
    });
    let options = starting(dir.path(), 2, 0.1, 20);
    let screen = options.snapshot.clone();
    fuzz(Sim::new(5, 2), options, tweak);
    let text = std::fs::read_to_string(dir.path().join("default/runs.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines[0]["notes"], serde_json::json!([]));
    let noted: Vec<&serde_json::Value> =
        lines.iter().filter(|l| l["notes"][0].is_string()).collect();
    assert!(noted.len() > 1, "{text}");
    let said: Vec<String> = screen.drain_lines();
    let said: Vec<&String> = said.iter().filter(|l| l.contains("noted")).collect();
    let first = &noted[0]["notes"][0];
    let want = format!(
        "run {}, noted for the first time: {}",
        noted[0]["run"],
        first.as_str().unwrap()
    );
    assert!(
        said.len() == 1 && said[0].contains(&want),
        "{said:?}, {want}"
    );
}

/// It may be the only run of its kind: its logs are worth more than a line.
#[test]
fn a_fault_free_run_that_fails_leaves_its_story() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 5);
    let snapshot = o.snapshot.clone();
    let tweak: Tweak = Box::new(|run, _, _, product| {
        if run == 2 {
            product.observations.push(lost(&"n1".into()));
        }
    });
    let quiet = Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let end = fuzz(quiet, o, tweak);
    assert_eq!((end.reason, end.findings), (EndReason::SequenceLimit, 0));
    let stories = std::fs::read_dir(end.folder.join("unconfirmed")).unwrap();
    let stories: Vec<_> = stories.map(|e| e.unwrap().path()).collect();
    assert_eq!(stories.len(), 1, "{stories:?}");
    let sheet = crate::campaign::finding::Sheet::read(&stories[0].join("finding.json")).unwrap();
    assert!(sheet.found.unconfirmed && sheet.found.confirmed.contains("without any fault"));
    let told = snapshot.drain_lines();
    assert!(told.iter().any(|l| l.contains("story:")), "{told:?}");
}

/// Why a run told nothing is said once, not each time.
#[test]
fn the_reason_of_a_void_run_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 12);
    let snapshot = o.snapshot.clone();
    let tweak: Tweak = Box::new(|run, input, _, product| {
        if !input.faults.is_empty() && run % 3 == 0 {
            product.record.void = Some(format!("tmpfs full: {run} bytes").into());
        }
    });
    fuzz(Sim::new(3, 1), o, tweak);
    let told = snapshot.drain_lines();
    let void: Vec<_> = told
        .iter()
        .filter(|l| l.contains("tells nothing"))
        .collect();
    assert_eq!(void.len(), 1, "{told:?}");
    assert!(void[0].contains("tmpfs full: "), "{void:?}");
}
