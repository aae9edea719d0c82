//! Files of a campaign that are damaged or gone: it goes on without them, says so once, and later processes do not come to them again. And a
//! machine that makes no runs any more.

use super::resume::{copy, small};
use super::*;
use crate::campaign::Slots;
use crate::campaign::state::hook::testing::looking;
use crate::fuzz::resume::saved::read_back;
use crate::search::StrategyKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn quiet() -> Sim {
    Sim {
        bug: false,
        ..Sim::new(3, 1)
    }
}

/// So few children that a campaign comes to its end.
fn few() -> Sim {
    Sim {
        rounds: 4,
        max_faults: 2,
        ..quiet()
    }
}

fn to_the_end(out: &Path, strategy: StrategyKind) -> FuzzOptions {
    FuzzOptions {
        faults: "crash,reboot".parse().unwrap(),
        max_faults: 2,
        ..options(out, strategy, 3, 100_000)
    }
}

/// Ids of the kept runs with a file of this end, all but the roots: one for the cold start, and one for a snapshot where there is one.
fn there(root: &Path, end: &str) -> BTreeSet<u64> {
    let entries = fs::read_dir(root.join("runs")).into_iter().flatten();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let ids = names.filter_map(|n| n.strip_suffix(end)?.parse().ok());
    ids.filter(|id| *id > 1).collect()
}

/// Of each of them the beginning is left.
fn damage(root: &Path, end: &str) -> BTreeSet<u64> {
    let all = there(root, end);
    for id in &all {
        let path = root.join("runs").join(format!("{id:06}{end}"));
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(20).unwrap();
    }
    all
}

/// As [`damage`], once so many lines are in runs.jsonl, as soon as there is such a file: no run is under way then.
fn damaged_after(
    lines: usize,
    root: PathBuf,
    end: &'static str,
) -> (impl FnMut(&str) + 'static, Rc<RefCell<BTreeSet<u64>>>) {
    let ids = Rc::new(RefCell::new(BTreeSet::new()));
    let (into, mut written) = (ids.clone(), 0);
    let look = move |point: &str| {
        written += usize::from(point == "line");
        if point == "line" && written >= lines && into.borrow().is_empty() {
            *into.borrow_mut() = damage(&root, end);
        }
    };
    (look, ids)
}

/// The runs that are told as left out; each once.
fn left_out(said: &[String]) -> BTreeSet<u64> {
    let told = said.iter().filter(|l| l.contains("cannot be read"));
    let told: Vec<u64> = told
        .map(|l| {
            assert!(l.contains("is damaged") && l.contains("left out"), "{l}");
            l["run ".len()..][..6].parse().unwrap()
        })
        .collect();
    let ids: BTreeSet<u64> = told.iter().copied().collect();
    assert_eq!(ids.len(), told.len(), "{said:#?}");
    ids
}

#[test]
fn damaged_runs_cost_their_children_and_no_more() {
    use StrategyKind::{CrashFuzz, Fifo};
    for (strategy, end, max_classes) in [
        (CrashFuzz, ".run", 1_000_000),
        (Fifo, ".run", 1_000_000),
        (CrashFuzz, ".parked", 10),
        (Fifo, ".parked", 10),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut o = to_the_end(dir.path(), strategy);
        o.max_classes = max_classes;
        let (snapshot, again) = (o.snapshot.clone(), o.clone());
        let (look, damaged) = damaged_after(40, dir.path().join("default"), end);
        let end_of_it = looking(look, || fuzz(few(), o, nothing()));
        assert_eq!(end_of_it.reason, EndReason::Exhausted, "{strategy} {end}");
        assert_eq!(stat(&end_of_it.folder, "pending_total"), "0");
        let lost = left_out(&snapshot.drain_lines());
        let damaged = damaged.borrow().clone();
        assert!(!lost.is_empty(), "{strategy} {end}: of {damaged:?}");
        assert!(lost.is_subset(&damaged), "{lost:?} of {damaged:?}");
        // They are in no queue any more: a later process does not come to them.
        let sequences = end_of_it.sequences;
        let o = FuzzOptions {
            resume: true,
            ..again
        };
        let end_of_it = fuzz(few(), o, nothing());
        assert_eq!(
            (end_of_it.reason, end_of_it.sequences),
            (EndReason::Exhausted, sequences)
        );
        assert!(left_out(&snapshot.drain_lines()).is_empty());
    }
}

/// Drawn as they are for havoc, splices and tails; with and without snapshots.
#[test]
fn damaged_runs_are_no_parents_of_what_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let warren = StrategyKind::Warren;
    for o in [options(&one, warren, 3, 160), small(&two, warren, 160)] {
        let (snapshot, root) = (o.snapshot.clone(), o.out.join("default"));
        let again = FuzzOptions {
            resume: true,
            max_sequences: Some(200),
            ..o.clone()
        };
        let (look, damaged) = damaged_after(60, root, ".run");
        let end = looking(look, || fuzz(quiet(), o, nothing()));
        assert_eq!(end.reason, EndReason::SequenceLimit);
        let lost = left_out(&snapshot.drain_lines());
        assert!(!lost.is_empty(), "of {:?}", damaged.borrow());
        assert!(lost.is_subset(&damaged.borrow()), "{lost:?}");
        // Each is met again, by chance, and said once.
        let end = fuzz(quiet(), again, nothing());
        assert_eq!((end.reason, end.sequences), (EndReason::SequenceLimit, 200));
        left_out(&snapshot.drain_lines());
    }
}

/// Each seed run is damaged while its children are under way: what they show is kept, and what the journal says of it can be made again.
#[test]
fn a_run_that_is_damaged_while_its_child_runs_is_left_out() {
    for slots in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let o = FuzzOptions {
            slots: Slots::Exactly(slots),
            ..options(dir.path(), StrategyKind::CrashFuzz, 3, 150)
        };
        let root = dir.path().join("default");
        let tweak: Tweak = Box::new(move |run, _, _, _| {
            if run > 30 {
                damage(&root, ".run");
            }
        });
        let (snapshot, folder) = (o.snapshot.clone(), o.folder(3));
        let end = fuzz(quiet(), o, tweak);
        assert_eq!((end.reason, end.sequences), (EndReason::SequenceLimit, 150));
        assert!(!left_out(&snapshot.drain_lines()).is_empty());
        let pending = stat(&end.folder, "pending_total");
        let (_, whole) = read_back(&folder, |_| {}).unwrap();
        assert_eq!(whole.queue.pending().to_string(), pending, "-j {slots}");
    }
}

#[test]
fn runs_that_are_gone_at_resume_are_said_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("default");
    let mut o = to_the_end(dir.path(), StrategyKind::CrashFuzz);
    let again = FuzzOptions {
        resume: true,
        ..o.clone()
    };
    o.max_sequences = Some(35);
    fuzz(few(), o, nothing());
    // More would be half a copy.
    let gone: Vec<u64> = there(&root, ".run").into_iter().take(3).collect();
    assert_eq!(gone.len(), 3);
    for id in &gone {
        fs::remove_file(root.join(format!("runs/{id:06}.run"))).unwrap();
    }
    for _ in 0..2 {
        let end = fuzz(few(), again.clone(), nothing());
        assert_eq!(end.reason, EndReason::Exhausted);
        assert_eq!(stat(&root, "pending_total"), "0");
        let said = again.snapshot.drain_lines();
        let missing: Vec<_> = said.iter().filter(|l| l.contains("is missing")).collect();
        assert!(
            missing.len() == 1 && missing[0].contains("left out"),
            "{said:#?}"
        );
        assert!(left_out(&said).is_empty(), "it was said");
    }
    // Without the run that all began from there is nothing to go on with.
    fs::remove_file(root.join("runs/000000.run")).unwrap();
    let (e, judge) = executor(few(), nothing());
    let text = campaign(again, e, &judge).unwrap_err().to_string();
    assert!(text.contains("runs/000000.run: is missing"), "{text}");
}

#[test]
fn a_failing_run_that_cannot_be_read_back_is_dropped() {
    for damaged in [Some("x"), None] {
        let dir = tempfile::tempdir().unwrap();
        left_open(quiet(), options(dir.path(), StrategyKind::CrashFuzz, 9, 8));
        let owed = dir.path().join("default/state/owed");
        assert!(owed.is_file());
        match damaged {
            Some(text) => fs::write(&owed, text).unwrap(),
            None => fs::remove_file(&owed).unwrap(),
        }
        let resumed = |runs| FuzzOptions {
            resume: true,
            ..options(dir.path(), StrategyKind::CrashFuzz, 9, runs)
        };
        let o = resumed(12);
        let snapshot = o.snapshot.clone();
        let end = fuzz(quiet(), o, nothing());
        assert_eq!((end.reason, end.sequences), (EndReason::SequenceLimit, 12));
        // What was saved of it stays.
        assert_eq!(end.findings, 1, "{damaged:?}");
        assert!(!owed.exists());
        let said = snapshot.drain_lines().join("\n");
        assert!(
            said.contains("state/owed") && said.contains("dropped"),
            "{said}"
        );
        let o = resumed(13);
        let snapshot = o.snapshot.clone();
        fuzz(quiet(), o, nothing());
        let said = snapshot.drain_lines().join("\n");
        assert!(!said.contains("dropped"), "{said}");
    }
}

/// A replay that loses data, where its run was silent: killed before that is told, and then it cannot be read.
#[test]
fn a_replay_that_cannot_be_read_back_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (first, copies) = (dir.path().join("first"), dir.path().join("copies"));
    let cuts = Rc::new(RefCell::new(Vec::new()));
    let (from, list) = (first.join("default"), cuts.clone());
    let look = move |point: &str| {
        if point == "record" && from.join("state/owed-replay").is_file() {
            let to = copies.join(list.borrow().len().to_string());
            copy(&from, &to.join("default"));
            list.borrow_mut().push(to);
        }
    };
    let tweak: Tweak = Box::new(|run, _, _, product| {
        let nodes = product.trace.nodes.clone();
        match run {
            8 => product.observations.extend(nodes.iter().map(refuses)),
            9 => product.observations.push(lost(&nodes[0])),
            _ => {}
        }
    });
    let o = options(&first, StrategyKind::CrashFuzz, 9, 3);
    looking(look, || fuzz(quiet(), o, tweak));
    let mut dropped = 0;
    for out in cuts.borrow().iter() {
        let owed = out.join("default/state/owed-replay");
        fs::write(&owed, "x").unwrap();
        let o = FuzzOptions {
            resume: true,
            ..options(out, StrategyKind::CrashFuzz, 9, 5)
        };
        let snapshot = o.snapshot.clone();
        let end = fuzz(quiet(), o, nothing());
        assert_eq!((end.reason, end.sequences), (EndReason::SequenceLimit, 5));
        assert!(!owed.exists());
        let said = snapshot.drain_lines().join("\n");
        dropped += usize::from(said.contains("state/owed-replay") && said.contains("dropped"));
    }
    assert!(dropped > 0, "of {}", cuts.borrow().len());
}

/// What a power cut takes of runs.jsonl, which is not synced: more than the line that is written anew.
#[test]
fn lines_that_a_power_cut_took_leave_no_half_one() {
    let dir = tempfile::tempdir().unwrap();
    let again = FuzzOptions {
        resume: true,
        ..small(dir.path(), StrategyKind::CrashFuzz, 12)
    };
    fuzz(
        quiet(),
        small(dir.path(), StrategyKind::CrashFuzz, 12),
        nothing(),
    );
    let root = dir.path().join("default");
    let path = root.join("runs.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let last = text.split_inclusive('\n').next_back().unwrap().len();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len((text.len() - last - 10) as u64).unwrap();
    fuzz(quiet(), again.clone(), nothing());
    // The last one is there again; of the one before it half was left.
    let whole = lines(&root).len();
    assert_eq!(whole, text.lines().count() - 1);
    let more = FuzzOptions {
        max_sequences: Some(14),
        ..again
    };
    fuzz(quiet(), more, nothing());
    let runs = lines(&root);
    assert!(runs.len() > whole);
    let each: BTreeSet<_> = runs.iter().map(|l| l["run"].as_u64()).collect();
    assert_eq!(each.len(), runs.len(), "each once");
}

/// A machine that stays short: not each child in turn is given up, and the end is no end of the search.
#[test]
fn a_machine_that_makes_no_runs_ends_the_campaign_which_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let tweak: Tweak = Box::new(|run, input, _, product| {
        if run > 20 && !input.faults.is_empty() {
            product.record.void = Some("tmpfs full".into());
        }
    });
    let (e, judge) = executor(quiet(), tweak);
    let o = options(dir.path(), StrategyKind::CrashFuzz, 7, 1000);
    let text = campaign(o, e, &judge).unwrap_err().to_string();
    for part in ["50 sequences in a row", "tmpfs full", "-i -"] {
        assert!(text.contains(part), "{text}");
    }
    let root = dir.path().join("default");
    let sequences: u64 = stat(&root, "sequences_tested").parse().unwrap();
    assert!((65..1000).contains(&sequences), "{sequences}");
    // It bears runs again.
    let o = FuzzOptions {
        resume: true,
        ..options(dir.path(), StrategyKind::CrashFuzz, 7, sequences + 30)
    };
    let end = fuzz(quiet(), o, nothing());
    assert_eq!(
        (end.reason, end.sequences),
        (EndReason::SequenceLimit, sequences + 30)
    );
}
