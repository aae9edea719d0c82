//! Resuming on the made-up cluster: the folder is copied at every instant at which a kill may come, each copy is resumed, and must
//! become the campaign that was never interrupted.

use super::seeds::{crash, failing, seed};
use super::*;
use crate::campaign::state::hook::testing::looking;
use crate::campaign::{FuzzError, Slots};
use crate::fuzz::FindKind;
use crate::search::StrategyKind;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use warren_model::{Kind, ids::fnv1a};

/// What goes wrong follows from where the faults are, not from when: an interrupted campaign meets the same.
pub(super) fn moody() -> Tweak {
    Box::new(|_, input, _, product| {
        if input.faults.is_empty() {
            return;
        }
        let points: Vec<_> = input.faults.iter().map(|f| &f.at).collect();
        match fnv1a(format!("{points:?}").as_bytes()) % 9 {
            0 => product.record.timed_out = true,
            1 => product.record.void = Some("tmpfs full".into()),
            2 => product.observations.push(Observation::Mismatch {
                node: "n1".into(),
                what: "digest".into(),
                detail: "always".into(),
            }),
            3 => product.observations.push(refuses(&"n1".into())),
            _ => {}
        }
    })
}

pub(super) fn sim() -> Sim {
    Sim {
        rounds: 4,
        ..Sim::new(3, 1)
    }
}

/// A strategy, and how many slots side by side.
#[derive(Clone, Copy)]
pub(super) struct Plan(pub StrategyKind, pub usize);

impl From<StrategyKind> for Plan {
    fn from(strategy: StrategyKind) -> Self {
        Plan(strategy, 1)
    }
}

pub(super) fn small(out: &Path, plan: impl Into<Plan>, runs: u64) -> FuzzOptions {
    let Plan(strategy, slots) = plan.into();
    FuzzOptions {
        slots: Slots::Exactly(slots),
        max_classes: 30,
        learning_runs: 3,
        // Kills between the roots too.
        starts: Starts {
            snapshots: 1,
            cold_share: 0.3,
            required: true,
            in_a_row: 1,
        },
        ..options(out, strategy, 3, runs)
    }
}

pub(super) fn resumed(out: &Path, plan: impl Into<Plan>, runs: u64) -> FuzzOptions {
    FuzzOptions {
        resume: true,
        ..small(out, plan, runs)
    }
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// File names of queue/, crashes/, hangs/ and findings/: what a user saw.
pub(super) fn seen(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for sub in ["queue", "crashes", "hangs", "findings"] {
        let Ok(entries) = fs::read_dir(root.join(sub)) else {
            continue;
        };
        for e in entries {
            let name = e.unwrap().file_name().into_string().unwrap();
            if !name.starts_with('.') {
                names.insert(format!("{sub}/{name}"));
            }
        }
    }
    names
}

/// All of a campaign but its times.
pub(super) fn story(root: &Path) -> Vec<String> {
    let mut story = Vec::new();
    for l in lines(root) {
        let part = |key: &str| l[key].to_string();
        let keys = [
            "run",
            "role",
            "kinds",
            "why",
            "seed_run",
            "kept",
            "verdict",
            "void",
            "signature",
            "sequences",
            "slots",
            "states",
            "new_states",
            "durable",
            "new_coverage",
            "coverage",
            "novelties",
        ];
        story.push(keys.map(part).join(" "));
    }
    for sub in ["queue", "crashes", "hangs"] {
        for n in names(&root.join(sub)) {
            let n = EntryName { time_ms: 0, ..n };
            story.push(format!("{sub} {n}"));
        }
    }
    for entry in fs::read_dir(root.join("findings")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(path.join("evidence.txt")).unwrap();
        let confirmed = text.lines().find(|l| l.starts_with("confirmed: ")).unwrap();
        story.push(format!(
            "{} {confirmed}",
            path.file_name().unwrap().display()
        ));
        for file in ["toml", "passing.toml", "journal.jsonl"] {
            if let Ok(text) = fs::read_to_string(path.join(format!("minimised.{file}"))) {
                story.push(format!(
                    "{} {file}: {text}",
                    path.file_name().unwrap().display()
                ));
            }
        }
    }
    let findings = root.join("findings");
    story.push(format!("{:?}", fs::read_dir(findings).unwrap().count()));
    for key in [
        "execs_done",
        "sequences_tested",
        "learning_runs",
        "corpus_count",
        "corpus_found",
        "max_depth",
        "pending_total",
        "pending_favs",
        "saved_crashes",
        "saved_hangs",
        "edges_found",
        "edges_fault_free",
        "stability",
        "var_byte_count",
        "slots_of_cold",
        "from_prefix",
        "failing_runs",
        "unknown_runs",
        "void_runs",
        "timed_out_runs",
        "durable_runs",
        "one_fault_asked",
        "one_fault_full",
        "longer_asked",
        "longer_full",
        "uninjectable",
        "seed",
        "exec_timeout",
        "mean_ms_total",
        "cur_item",
        "seeds_given",
        "seeds_kept",
        "seeds_failing",
        "seeds_unmatched",
    ] {
        story.push(format!("{key} {}", stat(root, key)));
    }
    story.sort();
    story
}

/// The uninterrupted campaign, and copies of its folder at each point; at a record also with the record torn.
pub(super) fn cut_everywhere(
    mood: fn() -> Tweak,
    asked: impl FnOnce(&Path) -> FuzzOptions,
) -> (tempfile::TempDir, Vec<(String, PathBuf)>) {
    let dir = tempfile::tempdir().unwrap();
    let (whole, copies) = (dir.path().join("whole"), dir.path().join("copies"));
    let cuts = Rc::new(RefCell::new(Vec::new()));
    let (from, list) = (whole.clone(), cuts.clone());
    let mut before = 0;
    let look = move |point: &str| {
        let mut cuts = list.borrow_mut();
        let take = |cuts: &mut Vec<(String, PathBuf)>, what: String, length: Option<u64>| {
            let to = copies.join(cuts.len().to_string());
            copy(&from, &to);
            if let Some(length) = length {
                let journal = to.join("default/state/journal");
                let file = fs::File::options().write(true).open(journal).unwrap();
                file.set_len(length).unwrap();
            }
            let what = format!("{}: {what}", cuts.len());
            cuts.push((what, to));
        };
        let journal = from.join("default/state/journal");
        let length = fs::metadata(journal).map_or(0, |m| m.len());
        if point == "before-record" {
            before = length;
        }
        take(&mut cuts, point.to_owned(), None);
        if point == "record" {
            for torn in [before + 3, (before + length) / 2, length - 1] {
                take(&mut cuts, format!("torn at {torn}"), Some(torn));
            }
        }
    };
    let o = asked(&whole);
    looking(look, || fuzz(sim(), o, mood()));
    let cuts = cuts.borrow().clone();
    (dir, cuts)
}

fn killed_at_any_point(plan: impl Into<Plan>, runs: u64) {
    killed_at_every(1, plan, runs);
}

/// Of all points every so many, where a sequence takes its time to be picked.
fn killed_at_every(step: usize, plan: impl Into<Plan>, runs: u64) {
    let plan = plan.into();
    let (dir, cuts) = cut_everywhere(moody, |out| small(out, plan, runs));
    // Everything that may be cut off is there.
    let points: BTreeSet<&str> = cuts
        .iter()
        .map(|(w, _)| w.split(": ").nth(1).unwrap())
        .collect();
    for point in [
        "before-record",
        "record",
        "line",
        "owed",
        "saved-sequence",
        "finding",
        "decided",
        "checkpoint",
    ] {
        assert!(points.contains(point), "no {point} in {points:?}");
    }
    if plan.0 == StrategyKind::CrashFuzz {
        for point in ["queue", "run-file", "parked"] {
            assert!(points.contains(point), "no {point} in {points:?}");
        }
    }
    let cuts = cuts.into_iter().step_by(step).collect();
    become_the_same(dir.path(), cuts, moody, |out| resumed(out, plan, runs));
}

/// Each copy is resumed, without the seeds' files: what it needs of them is in its state.
pub(super) fn become_the_same(
    dir: &Path,
    cuts: Vec<(String, PathBuf)>,
    mood: fn() -> Tweak,
    again: impl Fn(&Path) -> FuzzOptions,
) {
    let whole = dir.join("whole/default");
    let want = story(&whole);
    let all = lines(&whole).len();
    println!("{} cuts of {all} runs", cuts.len());
    let (of, mut resumed) = (cuts.len(), 0);
    for (what, copy) in cuts {
        let root = copy.join("default");
        if !crate::campaign::state::exists(&root) {
            continue;
        }
        resumed += 1;
        let there = seen(&root);
        let run_before =
            fs::read_to_string(root.join("runs.jsonl")).map_or(0, |t| t.lines().count());
        let (e, judge) = executor(sim(), mood());
        let end = campaign(again(&copy), e, &judge).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(end.reason, EndReason::SequenceLimit, "{what}");
        let now = seen(&root);
        assert!(
            there.is_subset(&now),
            "{what}: lost {:?}",
            there.difference(&now)
        );
        let got = story(&root);
        if got != want {
            // Sorted lists: a line that one has and the other lacks shifts all that follow.
            let only = |of: &[String], not: &[String]| -> Vec<String> {
                let lacks = |l: &&String| !not.contains(l);
                of.iter().filter(lacks).take(5).cloned().collect()
            };
            let differ = (only(&want, &got), only(&got, &want));
            panic!(
                "{what} (after {run_before} lines): {} and {} lines; {differ:#?}",
                want.len(),
                got.len()
            );
        }
        let _ = fs::remove_dir_all(copy);
    }
    // The others were cut before there was a state.
    assert!(2 * resumed > of, "{resumed} of {of} were gone on with");
}

#[test]
fn killed_at_any_point_the_campaign_becomes_the_same() {
    killed_at_any_point(StrategyKind::CrashFuzz, 24);
}

#[test]
fn killed_at_any_point_shapes_and_havoc_become_the_same() {
    killed_at_any_point(StrategyKind::Warren, 24);
    let plan = Plan(StrategyKind::Warren, 3);
    let (dir, cuts) = cut_everywhere(moody, |out| small(out, plan, 9));
    become_the_same(dir.path(), cuts, moody, |out| resumed(out, plan, 9));
}

#[test]
fn killed_at_any_point_the_baseline_becomes_the_same() {
    killed_at_any_point(StrategyKind::RandomPoints, 10);
    killed_at_any_point(StrategyKind::Random, 10);
}

#[test]
fn killed_at_any_point_the_order_goes_on() {
    killed_at_every(5, StrategyKind::Fifo, 14);
}

/// What was under way beside the run that was looked at is begun again, in its order.
#[test]
fn killed_at_any_point_what_was_under_way_is_not_lost() {
    killed_at_any_point(Plan(StrategyKind::CrashFuzz, 3), 12);
}

/// Killed while seeds are imported: none is lost, none is run twice, and those that wait for another try have it.
#[test]
fn killed_at_any_point_the_import_goes_on() {
    let force = |n| crash("log.force", Kind::Force, n);
    let seeds = vec![
        seed("a.toml", force(1)),
        seed("b.toml", force(99)),
        seed("c.toml", failing()),
        seed("d.toml", force(2)),
        seed("e.toml", crash("log.append", Kind::Write, 1)),
        seed("f.toml", crash("log.append", Kind::Write, 2)),
    ];
    let names: Vec<String> = seeds.iter().map(|s| format!("seed {}", s.name)).collect();
    let runs = 33;
    let (dir, cuts) = cut_everywhere(moody, |out| FuzzOptions {
        seeds,
        ..small(out, StrategyKind::CrashFuzz, runs)
    });
    // The whole one is what it should be: each once, in order, b.toml once more.
    let whole = dir.path().join("whole/default");
    let of_seeds = |roles: &[&str]| -> Vec<String> {
        lines(&whole)
            .iter()
            .filter(|l| roles.contains(&l["role"].as_str().unwrap()))
            .filter_map(|l| l["why"].as_str().map(str::to_owned))
            .filter(|w| w.starts_with("seed "))
            .collect()
    };
    let tested = of_seeds(&["fuzz"]);
    assert_eq!(tested[..names.len()], names);
    assert_eq!(tested[names.len()..], ["seed b.toml, try 2"]);
    // Some of them were run again (void, over the limit): cut off between two runs of one seed, too.
    let again = of_seeds(&["repeat", "retest"]);
    assert!(!again.is_empty(), "{again:?}");
    become_the_same(dir.path(), cuts, moody, |out| {
        resumed(out, StrategyKind::CrashFuzz, runs)
    });
}

#[test]
fn a_limit_ctrl_c_and_a_larger_limit_make_one_campaign() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fuzz(sim(), small(&a, StrategyKind::CrashFuzz, 30), moody());
    fuzz(sim(), small(&b, StrategyKind::CrashFuzz, 12), moody());
    // Reached already: nothing is run.
    let runs = lines(&b.join("default")).len();
    let end = fuzz(sim(), resumed(&b, StrategyKind::CrashFuzz, 12), moody());
    assert_eq!(
        (end.reason, end.execs),
        (EndReason::SequenceLimit, runs as u64)
    );
    // Ctrl-C, also in a confirmation: what is cut off counts nowhere.
    for after in [3, 2, 5, 4] {
        let o = resumed(&b, StrategyKind::CrashFuzz, 30);
        let stop = o.stop.clone();
        let mut mood = moody();
        let tweak: Tweak = Box::new(move |run, input, options, product| {
            mood(run, input, options, product);
            if run == after {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        assert_eq!(fuzz(sim(), o, tweak).reason, EndReason::Stopped);
    }
    // The plot goes on where it was.
    let o = resumed(&b, StrategyKind::CrashFuzz, 30);
    assert_eq!(fuzz(sim(), o, moody()).reason, EndReason::SequenceLimit);
    let plot = fs::read_to_string(b.join("default/plot_data")).unwrap();
    assert_eq!(plot.matches('#').count(), 1, "{plot}");
    assert_eq!(story(&b.join("default")), story(&a.join("default")));
}

#[test]
fn the_screen_of_a_resumed_campaign_shows_what_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let finds = |o: FuzzOptions| {
        // Nothing is put aside: so the list has finds of each kind.
        let o = FuzzOptions {
            max_classes: 10_000,
            ..o
        };
        let snapshot = o.snapshot.clone();
        fuzz(sim(), o, moody());
        let s = snapshot.get();
        // What left no file is not shown again. (How many slots were new is in no name.)
        let again = ["coverage", "state", "finding", "hang"];
        let told = s.finds.iter().filter(|f| again.contains(&f.what.word()));
        let mut kinds: Vec<(String, Option<String>)> = told
            .map(|f| {
                (
                    f.what.word().to_owned(),
                    Some(f.text.clone()).filter(|_| f.what == FindKind::State),
                )
            })
            .collect();
        kinds.sort();
        let times = (s.last_find_ms, s.last_crash_ms, s.last_hang_ms);
        (kinds, times, (s.findings, s.hangs, s.corpus, s.coverage))
    };
    let was = finds(small(dir.path(), StrategyKind::CrashFuzz, 30));
    let (kinds, times, _) = &was;
    for kind in ["coverage", "state", "finding", "hang"] {
        assert!(kinds.iter().any(|(k, _)| k == kind), "{kind}: {kinds:?}");
    }
    assert!(times.0.is_some() && times.1.is_some() && times.2.is_some());
    // The limit is reached: nothing is run.
    let is = finds(resumed(dir.path(), StrategyKind::CrashFuzz, 30));
    assert_eq!(is, was);
}

#[test]
fn another_campaign_is_refused_with_every_difference() {
    let dir = tempfile::tempdir().unwrap();
    let with = |version: &str, agent: &str, paper: &str| {
        [
            ("target version", version),
            ("agent", agent),
            ("--paper", paper),
        ]
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .to_vec()
    };
    let first = FuzzOptions {
        identity: with("3.6.3", "aa", "no"),
        tested: Tested {
            content: Some("cc".into()),
            jdk: Some("17".into()),
            ..Tested::default()
        },
        ..small(dir.path(), StrategyKind::CrashFuzz, 5)
    };
    fuzz(sim(), first.clone(), moody());
    let root = dir.path().join("default");
    let before = story(&root);
    let ask = |o: FuzzOptions| {
        let (e, judge) = executor(sim(), moody());
        match campaign(o, e, &judge) {
            Err(FuzzError::Usage(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    let again = FuzzOptions {
        resume: true,
        ..first.clone()
    };
    let other = |change: fn(&mut FuzzOptions)| {
        let mut o = again.clone();
        change(&mut o);
        ask(o)
    };
    let table = [
        (
            other(|o| o.target = "zookeeper".into()),
            "target: was sim, asked zookeeper",
        ),
        (
            other(|o| o.strategy = StrategyKind::RandomPoints),
            "strategy: was crashfuzz, asked random-points",
        ),
        (other(|o| o.max_faults = 3), "--max-faults: was 10, asked 3"),
        (
            other(|o| o.faults = "crash".parse().unwrap()),
            "--faults: was crash,reboot,partition, asked crash",
        ),
        (
            other(|o| o.identity[0].1 = "3.5.8".into()),
            "target version: was 3.6.3, asked 3.5.8",
        ),
        (
            other(|o| o.identity[1].1 = "bb".into()),
            "agent: was aa, asked bb",
        ),
        (
            other(|o| o.identity[2].1 = "yes".into()),
            "--paper: was no, asked yes",
        ),
        (
            other(|o| o.tested.content = Some("dd".into())),
            "target content: was cc, asked dd",
        ),
        (
            other(|o| o.tested.jdk = Some("21".into())),
            "JDK: was 17, asked 21",
        ),
    ];
    for (text, part) in &table {
        assert!(text.contains(part) && text.contains("-o"), "{text}");
    }
    assert_eq!(story(&root), before, "never touched");
    // Without -i -: refused, and told how.
    let (e, judge) = executor(sim(), moody());
    let text = campaign(first.clone(), e, &judge).unwrap_err().to_string();
    assert!(
        text.contains("-i -") && text.contains("WARREN_AUTORESUME"),
        "{text}"
    );
    // Nothing to resume.
    let empty = tempfile::tempdir().unwrap();
    let none = |o: &FuzzOptions| FuzzOptions {
        out: empty.path().to_owned(),
        ..o.clone()
    };
    assert!(ask(none(&again)).contains("holds none"));
    fs::create_dir_all(empty.path().join("default/queue")).unwrap();
    assert!(ask(none(&again)).contains("holds none"));
    fs::write(empty.path().join("default/queue/id:000000"), "x").unwrap();
    assert!(ask(none(&again)).contains("not its state (state/checkpoint)"));
    // Two at once.
    let lock = crate::campaign::state::Lock::take(&root).unwrap();
    let text = ask(again.clone());
    assert!(
        text.contains(&format!("process {}", std::process::id())),
        "{text}"
    );
    // Also where only that is asked, before set-up.
    let before = crate::fuzz::check_resume(&again).unwrap_err();
    assert_eq!(before.to_string(), text);
    drop(lock);
    // Another seed changes nothing, and is told; what is tested is not known, and no difference.
    let o = FuzzOptions {
        seed: Some(99),
        tested: Tested::default(),
        max_sequences: Some(6),
        ..again
    };
    let snapshot = o.snapshot.clone();
    fuzz(sim(), o, moody());
    assert_eq!(stat(&root, "seed"), "3");
    let said = snapshot.drain_lines().join("\n");
    assert!(
        said.contains("-s 99 is ignored") && said.contains("resuming: "),
        "{said}"
    );
}
