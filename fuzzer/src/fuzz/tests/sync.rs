//! Instances of one output folder on the made-up cluster: nothing is tested twice, everything is known to all, and nobody is hurt by
//! half a copy.

use super::resume::{copy, moody, sim, story};
use super::seeds::{failing, seed};
use super::*;
use crate::campaign::state::hook::testing::looking;
use crate::campaign::sync_file::{self, Line, Place};
use crate::campaign::{FuzzError, InstanceKind};
use crate::fuzz::Tested;
use crate::fuzz::instances::sync::weight;
use crate::fuzz::resume::saved::{Whole, read_back};
use crate::search::StrategyKind;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::rc::Rc;
use warren_feedback::libafl_module::matched_id;

pub(super) type Asked = Arc<Mutex<BTreeSet<u64>>>;

/// The named one of this folder.
pub(super) fn instance(out: &Path, name: &str, runs: u64) -> FuzzOptions {
    FuzzOptions {
        instance: name.into(),
        kind: InstanceKind::Secondary,
        look_every: Duration::ZERO,
        learning_runs: 3,
        ..options(
            out,
            StrategyKind::CrashFuzz,
            name.bytes().map(u64::from).sum(),
            runs,
        )
    }
}

pub(super) fn again(o: FuzzOptions) -> FuzzOptions {
    let resume = crate::campaign::state::exists(&o.out.join(&o.instance));
    FuzzOptions { resume, ..o }
}

/// Nothing fails: every run that asks for faults tests a sequence.
fn harmless() -> Sim {
    Sim {
        bug: false,
        ..sim()
    }
}

/// A space that is soon exhausted.
pub(super) fn tiny(out: &Path, name: &str) -> FuzzOptions {
    FuzzOptions {
        max_faults: 2,
        faults: "crash,reboot".parse().unwrap(),
        ..instance(out, name, 100_000)
    }
}

pub(super) fn tiny_sim() -> Sim {
    Sim {
        rounds: 1,
        max_faults: 2,
        ..harmless()
    }
}

pub(super) fn noting(asked: &Asked) -> Tweak {
    let asked = asked.clone();
    Box::new(move |_, input, _, _| {
        if !input.faults.is_empty() {
            asked.lock().unwrap().insert(input.identity());
        }
    })
}

pub(super) fn asked() -> Asked {
    Asked::default()
}

fn state(o: &FuzzOptions) -> Whole {
    // Of a copy: reading it back brings files in line.
    let dir = tempfile::tempdir().unwrap();
    copy(&o.out, dir.path());
    let o = FuzzOptions {
        out: dir.path().to_owned(),
        ..o.clone()
    };
    read_back(&o.folder(0), |_| ()).unwrap().1
}

/// All hashes that an instance's file tells.
pub(super) fn told(out: &Path, name: &str) -> Vec<u64> {
    let heard = sync_file::read(&out.join(name), Place::default());
    let mut tested = Vec::new();
    for line in heard.unwrap().unwrap().lines {
        if let Line::Told(told) = line {
            tested.extend(told.tested);
        }
    }
    tested
}

#[test]
fn in_turns_no_sequence_is_tested_twice_and_all_is_known_to_both() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (asked(), asked());
    for runs in [12, 24, 36, 48] {
        for (name, asked) in [("a", &a), ("b", &b)] {
            let o = again(instance(dir.path(), name, runs));
            let end = fuzz(harmless(), o, noting(asked));
            assert_eq!(end.sequences, runs);
        }
    }
    let (a, b) = (a.lock().unwrap(), b.lock().unwrap());
    assert!(a.len() >= 40 && b.len() >= 40, "{} {}", a.len(), b.len());
    assert_eq!(a.intersection(&b).count(), 0);
    // b had the last word: it knows everything of a, and nothing was taken in twice, in four starts.
    let (of_a, of_b) = (
        state(&instance(dir.path(), "a", 0)),
        state(&instance(dir.path(), "b", 0)),
    );
    assert!(a.is_subset(&of_b.tested));
    let told = told(dir.path(), "a");
    let distinct: BTreeSet<u64> = told.iter().copied().collect();
    assert_eq!(distinct, *a);
    assert_eq!(of_b.others["a"].tested, told.len() as u64);
    let slots =
        |w: &Whole| -> BTreeSet<usize> { (0..MAP).filter(|s| w.slots.contains(*s)).collect() };
    assert!(slots(&of_a).is_subset(&slots(&of_b)));
    assert!(of_a.states.count() > 0);
    assert!(of_a.states.all().all(|s| of_b.states.contains(s)));
    assert_eq!(
        stat(&dir.path().join("b"), "edges_found"),
        slots(&of_b).len().to_string()
    );
    assert_eq!(stat(&dir.path().join("b"), "others"), "1");
    // What happened in a run that the other kept is not kept once more.
    let matched = |name: &str| -> BTreeSet<u64> {
        let runs = dir.path().join(name).join("runs");
        let count = fs::read_dir(&runs).unwrap().count() as u64;
        (1..count)
            .map(|id| matched_id(&crate::campaign::StoredRun::read(&runs, id).unwrap().record))
            .collect()
    };
    assert_eq!(matched("a").intersection(&matched("b")).count(), 0);
}

#[test]
fn at_the_same_time_common_children_are_divided() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (asked(), asked());
    let firsts: Arc<Mutex<Vec<u64>>> = Arc::default();
    // Children of the fault-free run only.
    let sim = || Sim {
        max_faults: 1,
        ..harmless()
    };
    let one_fault = |out: &Path, name: &str, runs| FuzzOptions {
        max_faults: 1,
        ..instance(out, name, runs)
    };
    let (mut note, out) = (noting(&a), dir.path().to_owned());
    let (b_asked, b_firsts) = (b.clone(), firsts.clone());
    // Begun when nobody else was there, and not told yet: the one that may be tested twice.
    let in_flight: Asked = asked();
    let flying = in_flight.clone();
    // In the middle of a's campaign b has a whole one.
    let tweak: Tweak = Box::new(move |run, input, options, product| {
        note(run, input, options, product);
        if run == 15 {
            flying.lock().unwrap().insert(input.identity());
            let (mut note, firsts) = (noting(&b_asked), b_firsts.clone());
            let tweak: Tweak = Box::new(move |run, input, options, product| {
                note(run, input, options, product);
                if input.faults.len() == 1 {
                    firsts.lock().unwrap().push(input.identity());
                }
            });
            fuzz(sim(), one_fault(&out, "b", 25), tweak);
        }
    });
    fuzz(sim(), one_fault(dir.path(), "a", 50), tweak);
    let (a, b) = (a.lock().unwrap(), b.lock().unwrap());
    assert!(a.len() >= 45 && b.len() >= 20, "{} {}", a.len(), b.len());
    let twice: BTreeSet<u64> = a.intersection(&b).copied().collect();
    assert!(twice.is_subset(&in_flight.lock().unwrap()), "{twice:?}");
    // a lived: its share of the children of the fault-free run was left to it.
    let firsts = firsts.lock().unwrap();
    assert!(firsts.len() >= 20);
    assert!(firsts.iter().all(|c| weight("b", *c) > weight("a", *c)));
}

#[test]
fn what_is_left_is_taken_over_and_the_space_is_covered_once() {
    let alone = asked();
    let dir = tempfile::tempdir().unwrap();
    let end = fuzz(tiny_sim(), tiny(dir.path(), "x"), noting(&alone));
    assert_eq!(end.reason, EndReason::Exhausted);
    let (a, b) = (asked(), asked());
    let dir = tempfile::tempdir().unwrap();
    let few = FuzzOptions {
        max_sequences: Some(30),
        ..tiny(dir.path(), "a")
    };
    fuzz(tiny_sim(), few, noting(&a));
    // First its runs cannot be read: b does what it can.
    let runs = dir.path().join("a/runs");
    let away = dir.path().join(".away");
    fs::rename(&runs, &away).unwrap();
    fs::create_dir(&runs).unwrap();
    for entry in fs::read_dir(&away).unwrap() {
        let entry = entry.unwrap();
        fs::write(runs.join(entry.file_name()), b"WARNRUN1half").unwrap();
    }
    let o = tiny(dir.path(), "b");
    let snapshot = o.snapshot.clone();
    let end = fuzz(tiny_sim(), o, noting(&b));
    assert_eq!(end.reason, EndReason::Exhausted);
    let said = snapshot.drain_lines().join("\n");
    assert!(said.contains("is not taken over now"), "{said}");
    assert!(a.lock().unwrap().len() + b.lock().unwrap().len() < alone.lock().unwrap().len());
    // The copy is whole now.
    fs::remove_dir_all(&runs).unwrap();
    fs::rename(&away, &runs).unwrap();
    let end = fuzz(tiny_sim(), again(tiny(dir.path(), "b")), noting(&b));
    assert_eq!(end.reason, EndReason::Exhausted);
    {
        let (a, b, alone) = (a.lock().unwrap(), b.lock().unwrap(), alone.lock().unwrap());
        assert_eq!(a.intersection(&b).count(), 0);
        let both: BTreeSet<u64> = a.union(&b).copied().collect();
        assert_eq!(both, *alone);
    }
    let imported: u64 = stat(&end.folder, "corpus_imported").parse().unwrap();
    let names = names(&end.folder.join("queue"));
    let of_a = names.iter().filter(|n| n.sync.as_deref() == Some("a"));
    assert!(imported > 0);
    assert_eq!(of_a.count() as u64, imported);
    // Nothing is left for a, and nothing is taken over twice.
    let before = a.lock().unwrap().len();
    for name in ["a", "b"] {
        let end = fuzz(tiny_sim(), again(tiny(dir.path(), name)), noting(&a));
        assert_eq!(end.reason, EndReason::Exhausted);
    }
    assert_eq!(a.lock().unwrap().len(), before);
    assert_eq!(stat(&end.folder, "corpus_imported"), imported.to_string());
}

#[test]
fn a_finding_is_confirmed_by_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let seeded = |name: &str, runs| FuzzOptions {
        seeds: vec![seed("known.toml", failing())],
        ..instance(dir.path(), name, runs)
    };
    let end = fuzz(Sim::new(3, 1), seeded("a", 3), nothing());
    assert_eq!(end.findings, 1);
    let o = seeded("b", 3);
    let snapshot = o.snapshot.clone();
    let end = fuzz(Sim::new(3, 1), o, nothing());
    assert_eq!(end.findings, 0);
    let confirms = |name: &str| {
        let lines = lines(&dir.path().join(name));
        lines.iter().filter(|l| l["role"] == "confirm").count()
    };
    assert_eq!((confirms("a"), confirms("b")), (3, 0));
    // The sequence is saved, as one more of a known bug.
    assert_eq!(names(&end.folder.join("crashes")).len(), 1);
    let said = snapshot.drain_lines().join("\n");
    assert!(said.contains("not confirmed again here"), "{said}");
    // Still so after a resume.
    let o = FuzzOptions {
        seeds: Vec::new(),
        ..again(seeded("b", 4))
    };
    fuzz(Sim::new(3, 1), o, nothing());
    let of_b = state(&instance(dir.path(), "b", 0));
    assert_eq!(of_b.others["a"].findings.len(), 1);
}

/// Ctrl-C cut its replays short: what more of them may refute is told when they confirm it.
#[test]
fn what_may_still_fall_is_told_to_nobody() {
    for (shows, want) in [(true, 1), (false, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let refuse = |product: &mut warren_model::RunProduct| {
            let refused = refuses(&product.trace.nodes[0]);
            product.observations.push(refused);
        };
        let a = || again(instance(dir.path(), "a", 6));
        let told = || {
            let text = fs::read_to_string(sync_file::path(&dir.path().join("a"))).unwrap();
            text.matches("\"findings\":[\"").count()
        };
        let o = a();
        let stop = o.stop.clone();
        let mut tested = 0;
        let first: Tweak = Box::new(move |_, input, _, product| {
            tested += u32::from(!input.faults.is_empty());
            match tested {
                1 => refuse(product),
                2 => stop.store(true, std::sync::atomic::Ordering::Relaxed),
                _ => {}
            }
        });
        let end = fuzz(harmless(), o, first);
        assert_eq!((end.reason, end.findings), (EndReason::Stopped, 1));
        assert_eq!(told(), 0);
        let mut replayed = 0;
        let second: Tweak = Box::new(move |_, _, _, product| {
            replayed += 1;
            if shows && replayed <= 3 {
                refuse(product);
            }
        });
        fuzz(harmless(), a(), second);
        assert_eq!(told(), want, "{shows}");
    }
}

#[test]
fn half_a_copy_hurts_nobody_and_is_heard_later() {
    let dir = tempfile::tempdir().unwrap();
    fuzz(harmless(), instance(dir.path(), "a", 20), nothing());
    let file = sync_file::path(&dir.path().join("a"));
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    let middle = whole.len() / 2;
    damaged[middle] ^= 0x11;
    let heard = |runs| {
        let o = again(instance(dir.path(), "b", runs));
        let snapshot = o.snapshot.clone();
        assert_eq!(fuzz(harmless(), o, nothing()).sequences, runs);
        let said = snapshot.drain_lines();
        let complaints = said.iter().filter(|l| l.contains("tried again later"));
        let of_b = state(&instance(dir.path(), "b", 0));
        let known = of_b.others.get("a").map_or(0, |o| o.tested);
        (known, complaints.count())
    };
    // Nothing, half of the first line, half of a later one, damage, a file that became shorter, all of it.
    fs::write(&file, b"").unwrap();
    assert_eq!(heard(3), (0, 0));
    fs::write(&file, &whole[..40]).unwrap();
    assert_eq!(heard(6), (0, 0));
    fs::write(&file, &damaged).unwrap();
    let (some, complaints) = heard(9);
    assert_eq!(complaints, 1);
    assert!(some > 0 && some < 20, "{some}");
    fs::write(&file, &whole[..whole.len() - 70]).unwrap();
    let (most, complaints) = heard(12);
    assert!(most > some && complaints == 0, "{most} {complaints}");
    fs::write(&file, &whole[..60 + whole.len() / 4]).unwrap();
    assert_eq!(heard(15), (most, 1));
    fs::write(&file, &whole).unwrap();
    assert_eq!(heard(18), (told(dir.path(), "a").len() as u64, 0));
}

#[test]
fn strangers_are_left_alone_with_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str, version: &str| FuzzOptions {
        identity: vec![("target version".into(), version.into())],
        ..instance(dir.path(), name, 8)
    };
    fuzz(harmless(), of("old", "3.5.8"), nothing());
    let alone = FuzzOptions {
        kind: InstanceKind::Alone,
        ..of("mute", "3.6.3")
    };
    fuzz(harmless(), alone, nothing());
    fs::create_dir(dir.path().join("plot")).unwrap();
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    let of_content = |content: &str| Tested {
        content: Some(content.into()),
        jdk: Some(format!("of {content}")),
        rules: Some(format!("of {content}")),
    };
    let edited = FuzzOptions {
        tested: of_content("aa"),
        ..of("edited", "3.6.3")
    };
    fuzz(harmless(), edited, nothing());
    // Another strategy is no other campaign, and one whose Warren told no content is none either.
    let random = FuzzOptions {
        strategy: StrategyKind::RandomPoints,
        ..of("random", "3.6.3")
    };
    fuzz(harmless(), random, nothing());
    // Nor is one with a JDK and rules of its own.
    let same = FuzzOptions {
        tested: Tested {
            content: Some("bb".into()),
            ..of_content("cc")
        },
        ..of("same", "3.6.3")
    };
    fuzz(harmless(), same, nothing());
    let o = FuzzOptions {
        tested: of_content("bb"),
        ..of("b", "3.6.3")
    };
    let snapshot = o.snapshot.clone();
    fuzz(harmless(), o, nothing());
    let said = snapshot.drain_lines();
    let about = |part: &str| said.iter().filter(|l| l.contains(part)).count();
    assert_eq!(about("target content: was aa, asked bb"), 1, "{said:?}");
    assert_eq!(about("JDK"), 0, "{said:?}");
    assert_eq!(
        about("target version: was 3.5.8, asked 3.6.3"),
        1,
        "{said:?}"
    );
    assert_eq!(about("mute tells nothing"), 1, "{said:?}");
    assert_eq!((about("plot"), about("notes")), (0, 0), "{said:?}");
    let known: Vec<String> = state(&of("b", "3.6.3")).others.into_keys().collect();
    assert_eq!(known, ["random", "same"]);
}

/// Begun by mistake with another version, removed, and begun anew in the middle of ours.
#[test]
fn a_stranger_that_is_begun_anew_is_heard() {
    let (dir, fine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let of = |out: &Path, name: &str, version: &str, runs: u64| FuzzOptions {
        identity: vec![("target version".into(), version.into())],
        ..instance(out, name, runs)
    };
    fuzz(harmless(), of(dir.path(), "a", "3.5.8", 8), nothing());
    fuzz(harmless(), of(fine.path(), "a", "3.6.3", 8), nothing());
    let (there, right) = (dir.path().join("a"), fine.path().join("a"));
    let mut runs = 0;
    let replace = Box::new(move |_, input: &FaultSequence, _: &_, _: &mut _| {
        runs += usize::from(!input.faults.is_empty());
        if runs == 6 && there.exists() && right.exists() {
            fs::remove_dir_all(&there).unwrap();
            fs::rename(&right, &there).unwrap();
        }
    });
    let o = of(dir.path(), "b", "3.6.3", 16);
    let snapshot = o.snapshot.clone();
    fuzz(harmless(), o.clone(), replace);
    let said = snapshot.drain_lines();
    let about = |part: &str| said.iter().filter(|l| l.contains(part)).count();
    assert_eq!(about("is another campaign"), 1, "{said:?}");
    assert_eq!(about("instance a: 8 sequences tested there"), 1, "{said:?}");
    assert_eq!(state(&o).others["a"].tested, 8);
}

#[test]
fn there_is_one_main_instance() {
    let dir = tempfile::tempdir().unwrap();
    let main = |name: &str| FuzzOptions {
        kind: InstanceKind::Main,
        ..instance(dir.path(), name, 3)
    };
    fuzz(harmless(), main("m"), nothing());
    let mark = dir.path().join("m/is_main_node");
    assert!(mark.exists());
    let (e, judge) = executor(harmless(), nothing());
    match campaign(main("n"), e, &judge) {
        Err(FuzzError::Usage(text)) => assert!(text.contains("-S n"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(!dir.path().join("n").exists());
    fuzz(harmless(), again(instance(dir.path(), "m", 4)), nothing());
    assert!(!mark.exists());
    fuzz(harmless(), main("n"), nothing());
}

#[test]
fn a_campaign_that_was_alone_for_a_while_begins_its_file_anew() {
    let dir = tempfile::tempdir().unwrap();
    let b = asked();
    fuzz(harmless(), instance(dir.path(), "b", 5), noting(&b));
    let alone = FuzzOptions {
        kind: InstanceKind::Alone,
        ..again(instance(dir.path(), "b", 10))
    };
    fuzz(harmless(), alone, noting(&b));
    assert!(!sync_file::path(&dir.path().join("b")).exists());
    fuzz(harmless(), again(instance(dir.path(), "b", 12)), noting(&b));
    let told: BTreeSet<u64> = told(dir.path(), "b").into_iter().collect();
    assert_eq!(told, *b.lock().unwrap());
}

#[test]
fn killed_at_any_point_nothing_is_told_or_taken_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, copies) = (dir.path().join("whole"), dir.path().join("copies"));
    fuzz(sim(), instance(&whole, "a", 25), moody());
    let o = |out: &Path| instance(out, "b", 6);
    let cuts = Rc::new(RefCell::new(Vec::new()));
    let (from, list, to) = (whole.clone(), cuts.clone(), copies);
    let look = move |point: &str| {
        let mut cuts = list.borrow_mut();
        let to = to.join(cuts.len().to_string());
        copy(&from, &to);
        // Half of what was told last.
        if point == "told" && cuts.len() % 2 == 1 {
            let file = sync_file::path(&to.join("b"));
            let file = fs::File::options().write(true).open(file).unwrap();
            file.set_len(file.metadata().unwrap().len() - 9).unwrap();
        }
        let what = format!("{}: {point}", cuts.len());
        cuts.push((what, to));
    };
    looking(look, || fuzz(sim(), o(&whole), moody()));
    let known = |out: &Path| {
        let of_b = state(&o(out));
        let mut told = told(out, "b");
        told.sort_unstable();
        (of_b.others["a"].clone(), of_b.tested.clone(), told)
    };
    let (mut heard, tested, mut said) = known(&whole);
    said.dedup();
    heard.heard_ms = 0;
    let want = story(&whole.join("b"));
    let cuts = cuts.borrow().clone();
    assert!(cuts.iter().any(|(what, _)| what.ends_with(": told")));
    let (of, mut resumed) = (cuts.len(), 0);
    for (what, out) in cuts {
        if !crate::campaign::state::exists(&out.join("b")) {
            continue;
        }
        resumed += 1;
        let (e, judge) = executor(sim(), moody());
        campaign(again(o(&out)), e, &judge).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(story(&out.join("b")), want, "{what}");
        let (mut now, tested_now, mut said_now) = known(&out);
        now.heard_ms = 0;
        said_now.dedup();
        assert_eq!((&now, &tested_now), (&heard, &tested), "{what}");
        assert_eq!(said_now, said, "{what}");
        let _ = fs::remove_dir_all(out);
    }
    assert!(2 * resumed > of, "{resumed} of {of} were gone on with");
}
