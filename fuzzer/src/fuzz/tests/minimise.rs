//! `--minimize` on the made-up cluster.

use super::*;

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
