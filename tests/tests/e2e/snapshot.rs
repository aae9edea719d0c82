//! Runs from snapshots of the live canary: a campaign that mostly starts from them, and the same sequence from a snapshot and cold.

use std::fs;
use std::time::Duration;
use warren_tests::{cluster, levels, ran_on, run, warren};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_campaign_starts_from_snapshots_and_what_it_kept_replays_both_ways() {
    let _one = cluster();
    if !levels().contains(&1) {
        eprintln!("SKIPPED snapshots: level 1 does not work here");
        return;
    }
    ran_on(1, "snapshots");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    let args = [
        "fuzz",
        "canary",
        "-o",
        &out,
        "-s",
        "3",
        "-E",
        "12",
        "--no-ui",
        "--snapshot",
        "require",
    ];
    let ran = run(warren(&args), 5 * MINUTE).expect_code(0);
    for number in 1..=3 {
        assert!(
            ran.out.contains(&format!("snapshot {number}/3: made in")),
            "{}",
            ran.text()
        );
    }
    let queue = dir.path().join("out/default/queue");
    let mut warm: Vec<_> = fs::read_dir(queue)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| {
            let text = fs::read_to_string(p).unwrap();
            text.contains("start = \"snapshot-") && text.contains("[[fault]]")
        })
        .collect();
    warm.sort();
    let entry = warm.first().expect("most picks start from a snapshot");
    let entry = entry.display().to_string();
    let restored = run(warren(&["replay", &entry]), 2 * MINUTE).expect_code(0);
    assert!(
        !restored.out.contains("started cold"),
        "{}",
        restored.text()
    );
    let cold = run(warren(&["replay", &entry, "--snapshot", "off"]), 2 * MINUTE).expect_code(0);
    assert!(
        cold.out.contains("started cold: snapshots are off"),
        "{}",
        cold.text()
    );
}
