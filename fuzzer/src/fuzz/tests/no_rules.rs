//! A campaign that was begun where packets can be dropped is gone on with where they cannot: it ends before such a run, and loses nothing.

use super::resume::{Plan, moody, resumed, sim, small};
use super::*;
use crate::seeds::needs_kernel;

#[test]
fn where_packets_cannot_be_dropped_any_more_nothing_is_lost() {
    for strategy in [StrategyKind::CrashFuzz, StrategyKind::Warren] {
        let dir = tempfile::tempdir().unwrap();
        // Side by side: some were begun when the campaign ended.
        let plan = Plan(strategy, 3);
        let cuts = |o: FuzzOptions| FuzzOptions {
            faults: "partition".parse().unwrap(),
            ..o
        };
        let (e, judge) = executor(sim(), moody());
        let begun = e.beside.clone();
        campaign(cuts(small(dir.path(), plan, 80)), e, &judge).unwrap();
        let dropped = |(text, _): &(String, usize)| {
            FaultSequence::from_text(text).is_ok_and(|s| needs_kernel(&s))
        };
        assert!(begun.borrow().iter().any(dropped), "{strategy}");
        // The same at each try.
        let mut tested = Vec::new();
        for _ in 0..2 {
            let before = lines(&dir.path().join("default")).len();
            let (mut e, judge) = executor(sim(), moody());
            e.kernel_cuts = Err("no rules here".into());
            let begun = e.beside.clone();
            let o = cuts(resumed(dir.path(), plan, 240));
            let text = campaign(o, e, &judge).unwrap_err().to_string();
            assert!(
                text.contains("no rules here") && text.contains("as root"),
                "{text}"
            );
            assert!(!begun.borrow().iter().any(dropped), "{strategy}");
            // What ran beside it was looked at.
            let after = lines(&dir.path().join("default")).len();
            assert!(after - before >= begun.borrow().len(), "{strategy}");
            tested.push(after);
        }
        assert_eq!(tested[0], tested[1], "{strategy}");
        let (e, judge) = executor(sim(), moody());
        let begun = e.beside.clone();
        let end = campaign(cuts(resumed(dir.path(), plan, 240)), e, &judge).unwrap();
        assert_eq!(end.sequences, 240, "{strategy}");
        assert!(begun.borrow().iter().any(dropped), "{strategy}");
    }
}
