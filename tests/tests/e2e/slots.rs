//! Slots side by side (`-j`) on the live canary: one search over two clusters at once, on the best level and without snapshots.

use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use warren_tests::{
    cluster, descendants, eventually, kill, levels, namespaces_of, nothing_is_left, ran_on, run,
    warren,
};

const MINUTE: Duration = Duration::from_secs(60);

/// The lines of fuzzed runs; of a campaign that goes on the last line may be half written.
fn fuzzed(root: &Path) -> Vec<Value> {
    let text = fs::read_to_string(root.join("runs.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok())
        .filter(|l| l["role"] != "learning")
        .collect()
}

/// The sequences that were tested, by what the strategy picked: seed run, why, kinds.
fn tested(root: &Path) -> Vec<String> {
    fuzzed(root)
        .iter()
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
    let numbers: BTreeSet<&str> = all.iter().filter_map(|t| t.split(' ').next()).collect();
    assert_eq!(numbers.len(), 10, "a run has one number: {all:?}");
}

/// The process that holds a cluster is killed: its run is void and its sequence is made again, in a slot of its own; the one beside it goes on.
#[test]
fn a_cluster_that_is_killed_costs_no_more_than_its_run() {
    let _one = cluster();
    let Some(level) = levels().first().copied() else {
        eprintln!("SKIPPED slots: no level works here");
        return;
    };
    ran_on(level, "SIGKILL of a slot");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    let root = dir.path().join("out/default");
    let mut args = vec!["fuzz", "canary", "-o", &out, "-s", "5", "-j", "2"];
    args.extend(["-E", "8", "--no-ui", "--snapshot", "off"]);
    let mut campaign = warren(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it fuzzes", 4 * MINUTE, || !fuzzed(&root).is_empty());
    let is_void = |l: &&Value| !l["void"].is_null();
    let (mut deployed, mut namespaces) = (Vec::new(), BTreeSet::new());
    let mut killed: Option<Instant> = None;
    // A run that is over at that very moment is not void: then another one is killed.
    eventually("a run is void", MINUTE, || {
        if killed.is_none_or(|k| k.elapsed() > Duration::from_secs(15)) {
            deployed = descendants(campaign.id());
            namespaces = namespaces_of(&deployed);
            let init = deployed.iter().find(|p| {
                let below = descendants(p.pid);
                let jvms = below.iter().filter(|b| b.command.contains("/java "));
                let holds = !below.iter().any(|b| b.command.contains("__slot-init"));
                p.command.contains("__slot-init") && holds && jvms.count() >= 3
            });
            if let Some(init) = init {
                kill(init.pid, Signal::SIGKILL);
                killed = Some(Instant::now());
            }
        }
        fuzzed(&root).iter().any(|l| is_void(&l))
    });
    assert!(
        killed.is_some(),
        "void without a kill: {:#?}",
        fuzzed(&root)
    );
    let mut ended = None;
    eventually("the campaign ends", 4 * MINUTE, || {
        ended = campaign.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.is_some_and(|e| e.success()), "{ended:?}");
    let lines = fuzzed(&root);
    assert_eq!(tested(&root).len(), 8, "{lines:#?}");
    for void in lines.iter().filter(is_void) {
        let why = void["void"].as_str().unwrap_or_default();
        assert!(why.starts_with("slot lost: "), "{why}");
        // A replay of a finding is made again as one, whatever else as a repeat.
        let role = match void["role"] == "confirm" {
            true => "confirm",
            false => "repeat",
        };
        let again = lines.iter().find(|l| {
            l["role"] == role
                && l["kinds"] == void["kinds"]
                && l["run"].as_u64() > void["run"].as_u64()
        });
        assert!(again.is_some_and(|l| !is_void(&l)), "{void} {again:#?}");
    }
    nothing_is_left(&deployed, &namespaces);
}

/// A row is what the campaign's own files say, and a folder that has one is never written into again.
#[test]
fn a_bench_of_slots_counts_what_its_campaign_tested() {
    let _one = cluster();
    let Some(level) = levels().first().copied() else {
        eprintln!("SKIPPED bench of slots: no level works here");
        return;
    };
    ran_on(level, "bench of slots");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let mut args = vec!["bench", "canary", "--slots", "2/cold", "--seconds", "300"];
    args.extend(["-o", &out, "--json", "--", "-E", "4"]);
    let ran = run(warren(&args), 5 * MINUTE).expect_code(0);
    let rows: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.text()));
    let root = dir.path().join("j-2-cold/default");
    assert_eq!(tested(&root).len(), 4, "{}", ran.text());
    assert_eq!(rows.as_array().unwrap().len(), 1);
    let row = &rows[0];
    assert_eq!(row["slots"], "2/cold");
    assert_eq!((&row["took"], &row["sequences"]), (&2.into(), &4.into()));
    let last = fuzzed(&root)
        .iter()
        .filter_map(|l| l["at_ms"].as_f64())
        .fold(0.0, f64::max);
    assert!((row["seconds"].as_f64().unwrap() - last / 1000.0).abs() < 1e-6);
    assert!(fuzzed(&root).iter().all(|l| l["start"] == "cold"));
    let table = fs::read_to_string(dir.path().join("slots.md")).unwrap();
    assert!(table.contains("| `2/cold` | 4 |"), "{table}");
    // A plot is of rows with snapshots.
    assert!(!dir.path().join("slots.svg").exists());

    let again = run(warren(&args), MINUTE).expect_code(2);
    assert!(again.err.contains("is there already"), "{}", again.text());
    assert_eq!(tested(&root).len(), 4);
}
