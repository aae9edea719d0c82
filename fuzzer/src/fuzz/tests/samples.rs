//! Campaigns as Warren stored them, one of each version of the state: today's is read and goes on, any other is refused with both
//! numbers. Made by the simulator; a change of what is stored raises STATE_VERSION (or RUN_FILE_VERSION) and makes one more with
//! `cargo test -p warren --lib makes_a_sample -- --ignored`. Old ones stay.

use super::resume::{copy, moody, resumed, seen, sim, small};
use super::*;
use crate::campaign::run_file::{StoredRun, parked};
use crate::campaign::state::{STATE_VERSION, hook::testing::looking};
use crate::fuzz::{confirming::owed, resume::saved::read_back};
use crate::search::StrategyKind;
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

/// Sequences of a sample's campaign, if it went to its end.
const RUNS: u64 = 40;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples")
}

fn count(folder: &Path, end: &str) -> usize {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name());
    names.filter(|n| n.to_string_lossy().ends_with(end)).count()
}

/// The campaign's folder at an instant when it holds everything that can be stored: records after the checkpoint, runs with and
/// without their classes in memory, a failing run that is not decided on.
#[test]
#[ignore = "writes tests/samples/state-v<version>"]
fn makes_a_sample() {
    let to = samples().join(format!("state-v{STATE_VERSION}"));
    assert!(!to.exists(), "{} is there already", to.display());
    let dir = tempfile::tempdir().unwrap();
    let (whole, made) = (dir.path().join("whole"), Rc::new(Cell::new(false)));
    let (root, into, done) = (whole.join("default"), to.join("default"), made.clone());
    let look = move |point: &str| {
        if done.get() || point != "finding" || count(&root.join("runs"), ".parked") == 0 {
            return;
        }
        done.set(true);
        copy(&root, &into);
        fs::remove_file(into.join("lock")).unwrap();
    };
    looking(look, || {
        fuzz(sim(), small(&whole, StrategyKind::CrashFuzz, RUNS), moody())
    });
    assert!(made.get(), "no such instant");
    // Where it was made is nobody's business.
    let mut folders = vec![to.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let here = whole.display().to_string();
                fs::write(path, text.replace(&here, "out/sim")).unwrap();
            }
        }
    }
}

#[test]
fn stored_campaigns_go_on_or_are_refused() {
    let mut today = false;
    for entry in fs::read_dir(samples()).unwrap() {
        let sample = entry.unwrap();
        let name = sample.file_name().into_string().unwrap();
        let Some(version) = name.strip_prefix("state-v") else {
            continue;
        };
        let dir = tempfile::tempdir().unwrap();
        copy(&sample.path(), dir.path());
        let root = dir.path().join("default");
        let (e, judge) = executor(sim(), moody());
        let ask = resumed(dir.path(), StrategyKind::CrashFuzz, RUNS);
        if version == STATE_VERSION.to_string() {
            today = true;
            all_of_it_is_read(&sample.path());
            let there = seen(&root);
            let end = campaign(ask, e, &judge).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(end.reason, EndReason::SequenceLimit, "{name}");
            assert!(there.is_subset(&seen(&root)), "{name}: something was lost");
            assert_eq!(stat(&root, "sequences_tested"), RUNS.to_string());
            continue;
        }
        let folder = ask.folder(3);
        let direct = read_back(&folder, |_| {}).unwrap_err().to_string();
        let both = format!("version {version}, this program reads {STATE_VERSION}");
        assert!(direct.contains(&both), "{name}: {direct}");
        let text = campaign(ask, e, &judge).unwrap_err().to_string();
        let both = format!("state format: was {version}, asked {STATE_VERSION}");
        assert!(text.contains(&both), "{name}: {text}");
    }
    assert!(
        today,
        "no sample of version {STATE_VERSION}: make it as the head of this file says"
    );
}

/// Each stored form, by its own reader.
fn all_of_it_is_read(sample: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    copy(sample, scratch.path());
    let folder = resumed(scratch.path(), StrategyKind::CrashFuzz, RUNS).folder(3);
    let root = folder.root();
    let (store, whole) = read_back(&folder, |_| {}).unwrap();
    assert!(
        store.since_checkpoint().0 > 0,
        "records after the checkpoint"
    );
    assert_eq!((whole.seed, whole.now.owed.is_some()), (3, true));
    assert_eq!(whole.now.kept, count(&root.join("queue"), "") as u64);
    let owed = owed::read(root, owed::Which::Run).unwrap();
    assert!(!owed.judgement.failures.is_empty() && !owed.product.trace.events.is_empty());
    let runs = root.join("runs");
    let mut parked = 0;
    for id in 0..whole.now.kept {
        let run = StoredRun::read(&runs, id).unwrap();
        assert!(run.id == id && run.matched().is_some() && !run.trace.events.is_empty());
        if runs.join(format!("{id:06}.parked")).exists() {
            parked::read(&runs, id).unwrap();
            parked += 1;
        }
    }
    assert!(parked > 0);
}
