//! A campaign that was begun where packets can be dropped goes on where they cannot.

use super::resume::{Plan, moody, resumed, sim, small};
use super::*;
use crate::seeds::needs_kernel;

#[test]
fn where_packets_cannot_be_dropped_any_more_what_needs_it_is_left_out() {
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
        let begun = begun.borrow();
        let asked = begun.iter().map(|(text, _)| FaultSequence::from_text(text));
        assert!(asked.flatten().any(|s| needs_kernel(&s)), "{strategy}");
        let (mut e, judge) = executor(sim(), moody());
        e.kernel_cuts = Err("no rules here".into());
        let o = cuts(resumed(dir.path(), plan, 240));
        let snapshot = o.snapshot.clone();
        let end = campaign(o, e, &judge).unwrap();
        assert_eq!(end.sequences, 240, "{strategy}");
        let said = snapshot.get().lines;
        let told = said
            .iter()
            .filter(|l| l.contains("left out") && l.contains("no rules here"));
        assert_eq!(told.count(), 1, "{strategy}: {said:#?}");
    }
}
