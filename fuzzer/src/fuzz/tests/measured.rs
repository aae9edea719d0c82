//! What a comparison reads of a campaign: CPU time as a budget over all starts, tests and coverage in runs.jsonl.

use super::*;
use crate::search::StrategyKind;
use std::time::Instant;

/// Each run takes some CPU time of this process.
fn busy() -> Tweak {
    Box::new(|_, _, _, _| {
        let since = Instant::now();
        let mut x = 1u64;
        while since.elapsed() < Duration::from_millis(8) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
    })
}

fn sum(folder: &Path) -> u64 {
    let counts = |l: &&serde_json::Value| l["role"] != "learning";
    let of = |l: &serde_json::Value| l["spent_ms"].as_u64().unwrap();
    lines(folder).iter().filter(counts).map(of).sum()
}

#[test]
fn cpu_time_is_a_budget_over_all_starts() {
    let dir = tempfile::tempdir().unwrap();
    let budget = |ms: u64, resume: bool| FuzzOptions {
        max_cpu: Some(Duration::from_millis(ms)),
        resume,
        ..options(dir.path(), StrategyKind::CrashFuzz, 3, 100_000)
    };
    let end = fuzz(Sim::new(5, 2), budget(200, false), busy());
    assert_eq!(end.reason, EndReason::CpuLimit);
    assert_eq!(stat(&end.folder, "ended"), "cpu");
    let first = sum(&end.folder);
    assert!(first >= 200, "{first}");
    // Reached already: nothing is run.
    let again = fuzz(Sim::new(5, 2), budget(200, true), busy());
    assert_eq!(
        (again.reason, again.execs),
        (EndReason::CpuLimit, end.execs)
    );
    let more = fuzz(Sim::new(5, 2), budget(first + 200, true), busy());
    assert!(more.execs > end.execs);
    let all = sum(&more.folder);
    assert!(all >= first + 200, "{first} {all}");
    assert_eq!(stat(&more.folder, "cpu_time"), (all / 1000).to_string());
}

#[test]
fn lines_tell_tests_and_coverage_so_far() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), StrategyKind::CrashFuzz, 3, 30);
    let end = fuzz(Sim::new(5, 2), o, nothing());
    let told = lines(&end.folder);
    let of = |key: &str| -> Vec<u64> { told.iter().map(|l| l[key].as_u64().unwrap()).collect() };
    for key in ["sequences", "slots"] {
        assert!(of(key).is_sorted(), "{key}: {:?}", of(key));
    }
    assert_eq!(of("sequences").last(), Some(&30));
    let edges = stat(&end.folder, "edges_found");
    assert!(told.iter().all(|l| l["verdict"] == "pass"));
    assert_eq!(of("slots").last().unwrap().to_string(), edges);
    assert_eq!(stat(&end.folder, "ended"), "runs");
}

/// The search learns nothing of a failure that is not well saved, but what its runs covered was covered; a campaign that goes on knows it.
#[test]
fn lines_count_what_failing_tests_covered() {
    let dir = tempfile::tempdir().unwrap();
    let fails = || -> Tweak {
        Box::new(|_, input, _, product| {
            if !input.faults.is_empty() {
                product.observations.push(Observation::Mismatch {
                    node: "n1".into(),
                    what: "digest".into(),
                    detail: "always".into(),
                });
            }
        })
    };
    let first = |key: &str, folder: &Path| {
        let told = lines(folder);
        let learnt = told.iter().rfind(|l| l["role"] == "learning").unwrap();
        learnt[key].as_u64().unwrap()
    };
    let mut before = (0, 0);
    for (tests, resume) in [(2, false), (4, true)] {
        let o = FuzzOptions {
            resume,
            ..options(dir.path(), StrategyKind::CrashFuzz, 3, tests)
        };
        let folder = fuzz(Sim::new(5, 2), o, fails()).folder;
        let told = lines(&folder);
        let of = |key| told.iter().map(move |l| l[key].as_u64().unwrap());
        let (slots, states) = (of("slots"), of("states"));
        assert!(slots.clone().is_sorted() && states.clone().is_sorted());
        let now = (slots.max().unwrap(), states.max().unwrap());
        assert!(before <= now, "{before:?} {now:?}");
        let edges = stat(&folder, "edges_found");
        assert_eq!(edges, first("slots", &folder).to_string(), "none taught");
        assert_eq!(
            stat(&folder, "states_found"),
            first("states", &folder).to_string()
        );
        assert!(now.0 > first("slots", &folder) && now.1 > first("states", &folder));
        before = now;
    }
}
