//! Real ZooKeeper 3.6.3, five servers, as users run it.

use std::fs;
use std::time::Duration;
use warren_tests::{Ran, cluster, root, run, stat, warren};

const MINUTE: Duration = Duration::from_secs(60);

fn corpus(file: &str) -> String {
    root()
        .join("corpus/zookeeper")
        .join(file)
        .display()
        .to_string()
}

/// The first use fetches the jars; a second needs no Maven.
#[test]
fn fault_free_runs_pass_and_later_ones_need_no_maven() {
    let _one = cluster();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("empty.toml");
    fs::write(&file, "version = 1\ntarget = \"zookeeper\"\n").unwrap();
    let file = file.display().to_string();
    let ran = run(warren(&["replay", &file, "-n", "2"]), 4 * MINUTE).expect_code(0);
    assert!(ran.out.contains("pass"), "{}", ran.text());
    let java = std::env::var("JAVA_HOME").ok().map_or_else(
        || {
            fs::canonicalize("/usr/bin/java")
                .ok()
                .and_then(|p| p.parent().map(|b| b.to_path_buf()))
        },
        |h| Some(std::path::Path::new(&h).join("bin")),
    );
    let Some(java) = java else { return };
    let mut offline = warren(&["replay", &file]);
    offline.env("PATH", java);
    run(offline, 2 * MINUTE).expect_code(0);
}

/// Races of 3.6.3's own that strike in one run of a thousand, whatever the faults (docs/evaluation.md): 4685 as followers and as the leader see it,
/// and `CommitProcessor.shutdown`, which does not wait for its own thread.
const RACES: [&str; 3] = ["a8bbfd11", "a6e9114a", "224e2520"];

/// Replays a sequence: nothing fails, or by nothing else than a race of [`RACES`].
#[track_caller]
fn passes(file: &str, times: &str) -> Ran {
    let ran = run(warren(&["replay", &corpus(file), "-n", times]), 4 * MINUTE);
    let failures: Vec<&str> = ran
        .out
        .lines()
        .filter(|l| l.starts_with("  failure: "))
        .collect();
    let theirs = |l: &&str| RACES.iter().any(|r| l.ends_with(&format!("signature {r}")));
    assert!(failures.iter().all(theirs), "{file}:\n{}", ran.text());
    let code = if failures.is_empty() { 0 } else { 77 };
    ran.expect_code(code)
}

/// A crash at a point and a reboot of each role: injected in full, and no finding.
#[test]
fn a_crash_and_a_reboot_of_each_role_pass() {
    let _one = cluster();
    for file in ["leader-crash-reboot.toml", "follower-crash-reboot.toml"] {
        let ran = passes(file, "1");
        assert!(
            ran.out.contains("injected 2 of 2"),
            "{file}: not injected in full\n{}",
            ran.text()
        );
    }
}

/// A partition of the leader with live traffic: the cut happens, is healed at the latest by the degraded check, no finding.
/// (Its stop waits for a follower that synchronises within the wait, which a slow election may miss: not asserted.)
#[test]
fn an_isolated_leader_passes() {
    let _one = cluster();
    let ran = passes("leader-isolated-throw.toml", "2");
    assert!(
        ran.out.contains("fault 1: partition-start"),
        "{}",
        ran.text()
    );
    assert!(!ran.out.contains("injected 0 of 2"), "{}", ran.text());
}

/// The main job, shortly: coverage grows past the fault-free run.
#[test]
fn a_short_campaign_grows_coverage() {
    let _one = cluster();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    run(
        warren(&[
            "fuzz",
            "zookeeper",
            "-o",
            &out,
            "-E",
            "5",
            "-s",
            "3",
            "--no-ui",
        ]),
        5 * MINUTE,
    )
    .expect_code(0);
    let instance = std::path::Path::new(&out).join("default");
    let edges = |key: &str| stat(&instance, key).parse::<u64>().unwrap();
    let (found, ordinary) = (edges("edges_found"), edges("edges_fault_free"));
    assert!(ordinary > 1000 && found > ordinary, "{ordinary} -> {found}");
    assert!(
        stat(&instance, "corpus_count").parse::<u64>().unwrap() > 1,
        "no run was kept"
    );
}
