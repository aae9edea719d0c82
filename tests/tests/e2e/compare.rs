//! A comparison that is killed in the middle goes on where it was, and what is done is not run again.

use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use warren_tests::{
    cluster, descendants, eventually, kill, levels, namespaces_of, nothing_is_left, run, warren,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Arm, repeat, tests of each campaign of the table.
fn rows(folder: &Path) -> Vec<(String, u64, u64)> {
    let text = fs::read_to_string(folder.join("table.jsonl")).unwrap();
    let row = |line: &str| {
        let r: serde_json::Value = serde_json::from_str(line).unwrap();
        (
            r["arm"].as_str().unwrap().to_owned(),
            r["repeat"].as_u64().unwrap(),
            r["tests"].as_u64().unwrap(),
        )
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn sigkill_in_a_comparison_costs_a_run_at_most() {
    let _one = cluster();
    let level = levels()[0].to_string();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("c");
    let compare = |repeat: &str| -> Command {
        warren(&[
            "compare",
            "canary",
            "--strategies",
            "crashfuzz,random-points",
            "--runs",
            "3",
            "--repeat",
            repeat,
            "-o",
            &folder.display().to_string(),
            "--snapshot",
            "off",
            "--level",
            &level,
        ])
    };
    let mut first = compare("1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let jsonl = folder.join("campaigns/crashfuzz-r001/default/runs.jsonl");
    eventually("a test is counted", 5 * MINUTE, || {
        fs::read_to_string(&jsonl).is_ok_and(|t| t.contains("\"sequences\":1,"))
    });
    let deployed = descendants(first.id());
    let namespaces = namespaces_of(&deployed);
    kill(first.id(), Signal::SIGKILL);
    first.wait().unwrap();
    nothing_is_left(&deployed, &namespaces);

    let ran = run(compare("1"), 10 * MINUTE).expect_code(0);
    assert!(ran.err.contains("crashfuzz-r001 goes on"), "{}", ran.text());
    let done = [
        ("crashfuzz".to_owned(), 1, 3),
        ("random-points".to_owned(), 1, 3),
    ];
    assert_eq!(rows(&folder), done);
    let lines = fs::read_to_string(jsonl).unwrap();
    for n in 1..=3 {
        assert!(lines.contains(&format!("\"sequences\":{n},")), "{lines}");
    }

    // Once more: nothing is left to run.
    let ran = run(compare("1"), MINUTE).expect_code(0);
    assert!(
        ran.err.contains("0 campaigns of 3 runs to run, 2 stand"),
        "{}",
        ran.text()
    );
    assert!(ran.out.contains("slots at the end"), "{}", ran.text());
    assert_eq!(rows(&folder), done);
}
