//! A child's first run waits for its faults by how soon they came in the seed run; whatever is run or tried again has the whole wait.

use super::resume::moody;
use super::*;
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
