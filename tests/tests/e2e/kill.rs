//! SIGKILL of Warren in the middle of a run: two seconds later nothing of the cluster lives, no namespace is left, and the
//! next start works.

use nix::sys::signal::Signal;
use std::time::Duration;
use warren_tests::{
    cluster, descendants, eventually, kill, levels, namespaces_of, nothing_is_left, ran_on, run,
    warren,
};

const MINUTE: Duration = Duration::from_secs(60);

fn jvms(warren: u32) -> usize {
    descendants(warren)
        .iter()
        .filter(|p| p.command.contains("/java "))
        .count()
}

#[test]
fn sigkill_leaves_nothing_behind() {
    let _one = cluster();
    let dir = tempfile::tempdir().unwrap();
    for level in levels() {
        let name = format!("out-{level}");
        let level_text = level.to_string();
        let out = dir.path().join(&name).display().to_string();
        let mut warren_process = warren(&[
            "fuzz",
            "canary",
            "-o",
            &out,
            "--no-ui",
            "--level",
            &level_text,
        ])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
        // Four JVMs: three nodes and the workload; then kill in the middle of a run.
        eventually("a cluster is up", 2 * MINUTE, || {
            jvms(warren_process.id()) >= 4
        });
        let deployed = descendants(warren_process.id());
        let namespaces = namespaces_of(&deployed);
        assert_eq!(namespaces.is_empty(), level == 3, "{namespaces:?}");
        kill(warren_process.id(), Signal::SIGKILL);
        warren_process.wait().unwrap();
        if level == 3 {
            // No namespace there: PDEATHSIG ends the children, the next start sweeps what it missed.
            let again = dir.path().join("again").display().to_string();
            run(
                warren(&[
                    "fuzz", "canary", "-o", &again, "-E", "1", "--no-ui", "--level", "3",
                ]),
                5 * MINUTE,
            )
            .expect_code(0);
        }
        nothing_is_left(&deployed, &namespaces);
        ran_on(level, "SIGKILL of Warren");
    }
}

/// The images are gone with Warren too: they lie in the memory of a slot.
#[test]
fn sigkill_in_a_dump_and_in_a_restore_leaves_nothing_behind() {
    let _one = cluster();
    if !levels().contains(&1) {
        eprintln!("SKIPPED snapshots: level 1 does not work here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for doing in ["dump", "restore"] {
        let out = dir.path().join(doing).display().to_string();
        let mut warren_process = warren(&[
            "fuzz",
            "canary",
            "-o",
            &out,
            "--no-ui",
            "--snapshot",
            "require",
        ])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
        let criu = |p: &warren_tests::Seen| {
            p.command.contains("criu") && p.command.contains(&format!(" {doing} "))
        };
        // Before the first run CRIU is only tried.
        let lines = dir.path().join(doing).join("default/runs.jsonl");
        eventually("CRIU is at work", 4 * MINUTE, || {
            std::fs::metadata(&lines).is_ok_and(|m| m.len() > 0)
                && descendants(warren_process.id()).iter().any(criu)
        });
        let deployed = descendants(warren_process.id());
        let namespaces = namespaces_of(&deployed);
        kill(warren_process.id(), Signal::SIGKILL);
        warren_process.wait().unwrap();
        nothing_is_left(&deployed, &namespaces);
        ran_on(1, &format!("SIGKILL of Warren in a {doing}"));
    }
}
