//! `--minimize` on the made-up cluster.

use super::resume::{become_the_same, cut_everywhere, resumed, sim, small};
use super::seeds::{failing, seed};
use super::*;
use crate::search::StrategyKind;
use std::fs;

#[test]
fn a_finding_is_made_smaller_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 3, 2000);
    o.exit_on_bug = true;
    o.minimize = true;
    let end = fuzz(Sim::new(5, 2), o, nothing());
    assert_eq!(end.reason, EndReason::Bug);
    let path = end.folder.join("findings/000000/minimised.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let small = FaultSequence::from_text(&text).unwrap();
    assert_eq!(small.kinds(), "crash+reboot", "{text}");
    assert!(
        text.contains("-> 2") && text.contains("shows in 5 of 5"),
        "{text}"
    );
    let runs = lines(&end.folder);
    let made = runs.iter().filter(|l| l["role"] == "minimise").count();
    assert!((5..=60).contains(&made), "{made} runs");
    assert_eq!(runs.len() as u64, end.execs, "each has its line");
    // Runs of the minimiser are no sequences tested.
    assert_eq!(
        stat(&end.folder, "sequences_tested"),
        end.sequences.to_string()
    );
    let tested = runs.iter().filter(|l| l["role"] == "fuzz").count();
    assert!(end.sequences <= tested as u64);
}

#[test]
fn ctrl_c_while_minimising_keeps_the_best_so_far() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 3, 2000);
    o.minimize = true;
    let stop = o.stop.clone();
    let end = fuzz(
        Sim::new(5, 2),
        o,
        Box::new(move |_, sequence, _, _| {
            // Only the minimiser asks for points that say no node.
            let pattern = |f: &warren_model::FaultAt| matches!(f.at, warren_model::At::Pattern(_));
            if sequence.faults.iter().any(pattern) {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }),
    );
    assert_eq!(end.reason, EndReason::Stopped);
    let runs = lines(&end.folder);
    let last = runs.last().unwrap();
    assert_eq!(
        (&last["role"], &last["void"]),
        (&"minimise".into(), &"stopped".into())
    );
    let text = std::fs::read_to_string(end.folder.join("findings/000000/minimised.toml")).unwrap();
    assert!(text.contains("not finished"), "{text}");
    FaultSequence::from_text(&text).unwrap();
}

/// A campaign whose first sequence fails.
fn first(out: &Path) -> FuzzOptions {
    FuzzOptions {
        minimize: true,
        seeds: vec![seed("bug.toml", failing())],
        ..small(out, StrategyKind::CrashFuzz, 3)
    }
}

/// It, resumed.
fn again(out: &Path) -> FuzzOptions {
    FuzzOptions {
        minimize: true,
        ..resumed(out, StrategyKind::CrashFuzz, 3)
    }
}

/// Killed before, in and after the minimising of a finding: no try is made twice, each has its line, and the result is the same.
#[test]
fn killed_at_any_point_the_minimising_goes_on() {
    let (dir, mut cuts) = cut_everywhere(nothing, first);
    let whole = dir.path().join("whole/default");
    let journal = whole.join("findings/000000/minimised.journal.jsonl");
    let journal = fs::read_to_string(journal).unwrap();
    assert!(journal.ends_with("{\"closed\":\"through\"}\n"), "{journal}");
    let role = |l: &&serde_json::Value| l["role"] == "minimise";
    let tries = lines(&whole).iter().filter(role).count();
    assert!(tries > 5, "{tries}");
    // What comes before is the business of resume's own tests.
    let decided = cuts.iter().position(|(w, _)| w.ends_with(": decided"));
    cuts.drain(..decided.unwrap());
    for point in ["before-record", "record", "line", "minimised"] {
        assert!(cuts.iter().any(|(w, _)| w.ends_with(point)), "no {point}");
    }
    become_the_same(dir.path(), cuts, nothing, again);
}

#[test]
fn what_cannot_be_gone_on_with_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fuzz(sim(), first(dir.path()), nothing());
    let root = dir.path().join("default");
    let finding = root.join("findings/000000");
    let journal = finding.join("minimised.journal.jsonl");
    let result = finding.join("minimised.toml");
    let faults = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        FaultSequence::from_text(&text).unwrap()
    };
    let want = faults(&result);
    let resume = |change: fn(&mut FuzzOptions)| {
        let mut o = again(dir.path());
        change(&mut o);
        let snapshot = o.snapshot.clone();
        fuzz(sim(), o, nothing());
        snapshot.drain_lines().join("\n")
    };
    // It is closed: nothing is run, and nothing is said of it.
    let runs = lines(&root).len();
    let said = resume(|_| {});
    assert!(!said.contains("minimis"), "{said}");
    assert_eq!(lines(&root).len(), runs);
    // Somebody's text, and a journal of another limit, are begun anew.
    fs::write(&journal, "not a journal\n").unwrap();
    let said = resume(|_| {});
    assert!(
        said.contains("begins anew") && said.contains("is no journal"),
        "{said}"
    );
    assert_eq!(faults(&result), want);
    let open = fs::read_to_string(&journal).unwrap();
    let open: String = open.split_inclusive('\n').take(3).collect();
    fs::write(&journal, &open).unwrap();
    let said = resume(|o| o.minimize = false);
    assert!(said.contains("--minimize goes on with it"), "{said}");
    assert_eq!(fs::read_to_string(&journal).unwrap(), open);
    // A `warren tmin` with the same result is at work: it is left alone.
    let held = fs::File::open(&journal).unwrap();
    held.try_lock().unwrap();
    let said = resume(|_| {});
    assert!(
        said.contains("not minimised") && said.contains("being written by another Warren"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&journal).unwrap(), open);
    // A child that another test is starting may have the file for a moment.
    held.unlock().unwrap();
    drop(held);
    let said = resume(|o| o.run_limit = Some(Duration::from_secs(99)));
    assert!(
        said.contains("begins anew") && said.contains("limit `"),
        "{said}"
    );
    // The finding's own files are gone: said, and no more.
    fs::remove_file(&journal).unwrap();
    fs::remove_file(&result).unwrap();
    fs::remove_file(finding.join("record.json")).unwrap();
    let said = resume(|_| {});
    assert!(
        said.contains("cannot be minimised") && said.contains("record.json"),
        "{said}"
    );
}

#[test]
fn what_ends_a_campaign_is_made_small_when_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let o = FuzzOptions {
        exit_on_bug: true,
        ..first(dir.path())
    };
    let stop = o.stop.clone();
    // Learning of two roots, the seed, its replays, and some tries.
    let tweak: Tweak = Box::new(move |run, _, _, _| {
        stop.fetch_or(run == 14, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(fuzz(sim(), o, tweak).reason, EndReason::Bug);
    let journal = dir
        .path()
        .join("default/findings/000000/minimised.journal.jsonl");
    let before = fs::read_to_string(&journal).unwrap();
    assert!(
        before.lines().count() > 2 && !before.contains("closed"),
        "{before}"
    );
    let o = FuzzOptions {
        exit_on_bug: true,
        ..again(dir.path())
    };
    assert_eq!(fuzz(sim(), o, nothing()).reason, EndReason::Bug);
    let after = fs::read_to_string(&journal).unwrap();
    assert!(after.starts_with(&before) && after.ends_with("{\"closed\":\"through\"}\n"));
}

#[test]
fn a_budget_of_cpu_time_ends_the_minimising_too() {
    let dir = tempfile::tempdir().unwrap();
    let o = FuzzOptions {
        max_cpu: Some(Duration::from_millis(1)),
        ..first(dir.path())
    };
    // Enough for one run, which is then decided on.
    let end = fuzz(sim(), o, nothing());
    assert_eq!((end.reason, end.findings), (EndReason::CpuLimit, 1));
    let roles = |l: &&serde_json::Value| l["role"] == "minimise";
    assert_eq!(lines(&end.folder).iter().filter(roles).count(), 0);
    // A larger one: it is made smaller now.
    fuzz(sim(), again(dir.path()), nothing());
    assert!(end.folder.join("findings/000000/minimised.toml").exists());
}
