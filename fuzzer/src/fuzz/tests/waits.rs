//! A child's first run waits for its faults by how soon they came in the seed run; whatever is run or tried again has the whole wait.

use super::resume::moody;
use super::*;
use crate::campaign::Slots;
use crate::search::StrategyKind;
use std::collections::BTreeMap;

#[test]
fn only_the_first_run_of_a_child_waits_less() {
    for slots in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let seen: Rc<RefCell<BTreeMap<String, Vec<Vec<Duration>>>>> = Rc::default();
        let (noted, mut mood) = (seen.clone(), moody());
        // Void runs, runs over their limit, failures: repeated, retested, replayed, and some tried again.
        let tweak: Tweak = Box::new(move |run, input, options, product| {
            mood(run, input, options, product);
            assert_eq!(options.fault_wait, Duration::from_secs(5));
            let runs = &mut noted.borrow_mut();
            let runs = runs.entry(input.to_text()).or_default();
            runs.push(options.waits.clone());
        });
        let options = FuzzOptions {
            slots: Slots::Exactly(slots),
            ..options(dir.path(), StrategyKind::CrashFuzz, 3, 120)
        };
        fuzz(Sim::new(5, 2), options, tweak);
        let (mut less, mut again) = (0, 0);
        for (text, runs) in &*seen.borrow() {
            let faults = text.matches("[[fault]]").count();
            let first = &runs[0];
            assert!(first.is_empty() || first.len() == faults, "{text}");
            less += usize::from(first.iter().any(|w| *w < Duration::from_secs(5)));
            again += runs.len() - 1;
            assert!(runs[1..].iter().all(Vec::is_empty), "{runs:?} of {text}");
        }
        assert!(less > 20 && again > 20, "{less} {again}");
    }
}

/// The third fuzzed run passes its limit; with twice that it ends, and has lost data. That takes as long in its replays and smaller runs.
#[test]
fn data_lost_after_the_limit_shows_in_replays_that_are_given_as_long() {
    let dir = tempfile::tempdir().unwrap();
    let limits: Rc<RefCell<Vec<u64>>> = Rc::default();
    let asked = limits.clone();
    let tweak: Tweak = Box::new(move |run, input, options, product| {
        if run < 8 || input.faults.is_empty() {
            return;
        }
        asked.borrow_mut().push(options.limit.as_secs());
        if options.limit >= Duration::from_secs(40) {
            product.observations.push(lost(&product.trace.nodes[0]));
            product.record.times.total = 31_000;
        } else {
            product.record.timed_out = true;
        }
    });
    let quiet = Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let o = FuzzOptions {
        minimize: true,
        exit_on_bug: true,
        ..options(dir.path(), StrategyKind::CrashFuzz, 9, 20)
    };
    let end = fuzz(quiet, o, tweak);
    assert_eq!((end.reason, end.findings), (EndReason::Bug, 1));
    let rate = stat(&end.folder, "finding_000000");
    assert!(rate.ends_with("3/3"), "{rate}");
    let small = end.folder.join("findings/000000/minimised.toml");
    assert!(small.is_file(), "{:?}", limits.borrow());
    let limits = limits.borrow();
    assert_eq!(limits[0], 20);
    assert!(limits[1..].iter().all(|l| *l == 40), "{limits:?}");
}
