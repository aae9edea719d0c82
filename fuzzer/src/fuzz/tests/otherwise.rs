//! Runs that fail as a finding that stands does, and otherwise too: their stories are kept in its folder, one of each way.

use super::*;
use crate::campaign::finding::Sheet;
use warren_model::{Observation, Phase};

/// The third fuzzed run and the three after its replays lose data on one node; the last two of them leave that node silent, too.
fn failing() -> Tweak {
    Box::new(|run, _, _, product| {
        if !(8..=14).contains(&run) {
            return;
        }
        let node = product.trace.nodes[0].clone();
        product.logs.insert(node.clone(), format!("of run {run}\n"));
        if run >= 13 {
            product.observations.push(Observation::Serve {
                phase: Phase::Heal,
                node: node.clone(),
                ok: false,
                ms: 9000,
                error: Some("refused".into()),
            });
        }
        product.observations.push(Observation::Mismatch {
            node,
            what: "digest".into(),
            detail: "planted".into(),
        });
    })
}

#[test]
fn another_way_to_fail_is_told_once_in_the_finding_that_stands() {
    let dir = tempfile::tempdir().unwrap();
    let sim = Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 12);
    let end = fuzz(sim, o, failing());
    assert_eq!(end.findings, 1);
    assert_eq!(names(&end.folder.join("crashes")).len(), 4);
    let finding = end.folder.join("findings/000000");
    let told: Vec<_> = std::fs::read_dir(finding.join("otherwise"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    let [other] = told.as_slice() else {
        panic!("one way that the finding has not: {told:?}");
    };
    let failures = |folder: &Path| {
        let sheet = Sheet::read(&folder.join("finding.json")).unwrap();
        let failures = sheet.judgement.failures;
        failures
            .into_iter()
            .map(|f| f.signature)
            .collect::<Vec<_>>()
    };
    assert_eq!(failures(&finding).len(), 1);
    let both = failures(other);
    assert_eq!(both.len(), 2);
    assert!(both.contains(&failures(&finding)[0]), "{both:?}");
    let log = std::fs::read_to_string(other.join("logs/n1.log")).unwrap();
    assert_eq!(log, "of run 13\n");
    let evidence = std::fs::read_to_string(other.join("evidence.txt")).unwrap();
    assert!(
        evidence.contains("one more run of finding 000000, not replayed"),
        "{evidence}"
    );
    assert!(
        !evidence.contains("fails also as"),
        "no other finding: {evidence}"
    );
}
