//! Slots side by side (`-j`) on the live canary: one search over two clusters at once, on the best level and without snapshots.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;
use warren_tests::{cluster, levels, ran_on, run, warren};

const MINUTE: Duration = Duration::from_secs(60);

/// The sequences that were tested, by what the strategy picked: seed run, why, kinds.
fn tested(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join("runs.jsonl")).unwrap();
    text.lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
        .filter(|l| l["role"] == "fuzz")
        .map(|l| format!("{} {}", l["run"], l["kinds"]))
        .collect()
}

#[test]
fn two_clusters_at_once_are_one_campaign() {
    let _one = cluster();
    let Some(level) = levels().first().copied() else {
        eprintln!("SKIPPED slots: no level works here");
        return;
    };
    ran_on(level, "slots");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    let fuzz = |more: &[&str]| {
        let mut args = vec![
            "fuzz", "canary", "-o", &out, "-s", "3", "-j", "2", "--no-ui",
        ];
        args.extend(["--snapshot", "off"]);
        args.extend(more);
        run(warren(&args), 5 * MINUTE).expect_code(0)
    };
    let ran = fuzz(&["-E", "7"]);
    assert!(ran.out.contains("2 slots side by side: "), "{}", ran.text());
    let root = dir.path().join("out/default");
    assert_eq!(tested(&root).len(), 7, "{}", ran.text());
    // It goes on with the number of slots it has settled on, and rehearses nothing again.
    let again = fuzz(&["-E", "10", "-i", "-"]);
    assert!(!again.out.contains("side by side"), "{}", again.text());
    let all = tested(&root);
    assert_eq!(all.len(), 10, "{}", again.text());
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), 10, "a run has one number: {all:?}");
}
