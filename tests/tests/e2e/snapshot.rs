//! Runs from snapshots of the live canary: a campaign that mostly starts from them, and the same sequence from a snapshot and cold.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use warren_tests::{Ran, cluster, levels, ran_on, run, warren};

const MINUTE: Duration = Duration::from_secs(60);

/// So many sequences of the canary, started from snapshots, in `out` of a folder: how it ended.
fn campaign(dir: &Path, sequences: &str, more: &[&str]) -> Ran {
    let out = dir.join("out").display().to_string();
    let first = ["fuzz", "canary", "-o", &out, "-s", "3", "-E", sequences];
    // A strategy that makes nothing but children of kept runs.
    let then = [
        "--no-ui",
        "--snapshot",
        "require",
        "--strategy",
        "crashfuzz",
    ];
    let args = [&first[..], &then, more].concat();
    run(warren(&args), 6 * MINUTE)
}

#[test]
fn a_campaign_starts_from_snapshots_and_what_it_kept_replays_both_ways() {
    let _one = cluster();
    if !levels().contains(&1) {
        eprintln!("SKIPPED snapshots: level 1 does not work here");
        return;
    }
    ran_on(1, "snapshots");
    let dir = tempfile::tempdir().unwrap();
    let ran = campaign(dir.path(), "12", &[]).expect_code(0);
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

#[test]
fn children_of_one_run_begin_where_it_was_dumped_after_its_faults() {
    let _one = cluster();
    if !levels().contains(&1) {
        eprintln!("SKIPPED prefix snapshots: level 1 does not work here");
        return;
    }
    ran_on(1, "prefix snapshots");
    let dir = tempfile::tempdir().unwrap();
    let runs_of = |sequences: &str, more: &[&str]| {
        // Whatever it found.
        campaign(
            dir.path(),
            sequences,
            &[&["--cold-share", "0"], more].concat(),
        );
        let lines = fs::read_to_string(dir.path().join("out/default/runs.jsonl")).unwrap();
        let lines = lines.lines().map(|l| serde_json::from_str(l).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    fn begun(lines: &[serde_json::Value]) -> Vec<&serde_json::Value> {
        lines.iter().filter(|l| l["from_prefix"].is_u64()).collect()
    }
    // How many children are drawn in a row, of which the first makes the dump and the others begin there, is chance.
    let mut lines = runs_of("24", &[]);
    for sequences in ["48", "72"] {
        if begun(&lines).len() < 4 {
            lines = runs_of(sequences, &["-i", "-"]);
        }
    }
    let from_prefix = begun(&lines);
    assert!(from_prefix.len() >= 4, "{lines:#?}");
    for l in &from_prefix {
        // Faults before the first reboot were there, all of them but where the next is due at once, never the last one, in its record too,
        // and only first tries begin so.
        let kinds: Vec<&str> = l["kinds"].as_str().unwrap().split('+').collect();
        let before_last = kinds.iter().take(kinds.len() - 1);
        let shared = before_last.take_while(|k| **k != "reboot").count();
        let there = l["from_prefix"].as_u64().unwrap();
        assert!((1..=shared as u64).contains(&there), "{l:#}");
        assert!(l["injected"].as_u64() >= l["from_prefix"].as_u64(), "{l:#}");
        assert_eq!(l["role"], "fuzz", "{l:#}");
    }
    // Events of a killed node long after its signal: a busy machine has some, and clocks that do not agree have them in each run.
    let on_time = |l: &&&serde_json::Value| l["late_events"] == 0;
    assert!(from_prefix.iter().any(|l| on_time(&l)), "{from_prefix:#?}");
    // Nodes that started again went on from parked JVMs, but where a tree was to be dumped once more.
    let unparked = |l: &&serde_json::Value| l["unparked"].as_u64() > Some(0);
    assert!(lines.iter().any(|l| unparked(&l)), "{lines:#?}");
    assert!(lines.iter().all(|l| l["no_parked"].is_null()), "{lines:#?}");
    // What a kept one came to shows from the prefix and without it. Whether one of them was kept is chance; one that could have begun so does too.
    let could = |l: &serde_json::Value| {
        let kinds = l["kinds"].as_str().unwrap();
        let warm = l["start"].as_str().unwrap().starts_with("snapshot-");
        warm && kinds.contains('+') && !kinds.starts_with("reboot")
    };
    let kept = from_prefix
        .iter()
        .copied()
        .chain(lines.iter().filter(|l| could(l)))
        .filter(|l| l["reason"].is_null())
        .find_map(|l| l["kept"].as_u64())
        .expect("a run of two faults and more was kept");
    let entry = fs::read_dir(dir.path().join("out/default/queue"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.display().to_string().contains(&format!("id:{kept:06}")))
        .unwrap()
        .display()
        .to_string();
    let shared = run(
        warren(&["replay", &entry, "-n", "3", "--prefix"]),
        3 * MINUTE,
    );
    // Or it says why not: what else the cluster does may have passed its point before it stood still, or the run that was to be dumped
    // did not come to its faults in time.
    let begun = shared
        .out
        .matches("begun where another run was dumped after fault")
        .count();
    let told = shared.out.matches("no prefix snapshot: ").count();
    assert!(begun + told >= 3, "{}", shared.text());
    let whole = run(warren(&["replay", &entry]), 2 * MINUTE);
    assert!(!whole.out.contains("was dumped"), "{}", whole.text());
}

/// A CRIU of the system that starts and dumps nothing is passed over: our own is taken, and a campaign says so as the doctor does.
#[test]
fn a_criu_of_the_system_that_dumps_nothing_is_passed_over() {
    let _one = cluster();
    if !levels().contains(&1) {
        eprintln!("SKIPPED snapshots: level 1 does not work here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let text = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Version: 9.9' && exit 0\nexit 1\n";
    fs::write(bin.join("criu"), text).unwrap();
    fs::set_permissions(bin.join("criu"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let with = |args: &[&str], limit| {
        let mut warren = warren(args);
        warren.env("PATH", format!("{}:{path}", bin.display()));
        run(warren, limit).expect_code(0)
    };
    let out = dir.path().join("out").display().to_string();
    let mut args = vec!["fuzz", "canary", "-o", &out, "-E", "1", "--no-ui"];
    args.extend(["--snapshot", "require"]);
    let ran = with(&args, 4 * MINUTE);
    let passed_over = format!("{}/criu does not work here: ", bin.display());
    assert!(ran.err.contains(&passed_over), "{}", ran.text());
    let told = with(&["doctor"], MINUTE);
    let (_, line) = told.out.split_once("ok      snapshots ").unwrap();
    assert!(
        line.contains(", our own copy: a JVM was dumped, and restored in ")
            && line.contains(&format!("-> CRIU 9.9, {}/criu: ", bin.display())),
        "{}",
        told.text()
    );
}
