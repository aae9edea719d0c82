//! SIGKILL of Warren in the middle of a run: two seconds later nothing of the cluster lives, no namespace is left, and the
//! next start works.

use nix::sys::signal::Signal;
use std::time::Duration;
use warren_tests::{
    cluster, eventually, kill, levels, net_namespaces, processes_marked, ran_on, run, warren,
};

const MINUTE: Duration = Duration::from_secs(60);

fn java_of(mark: &str) -> Vec<String> {
    processes_marked(mark)
        .into_iter()
        .filter(|p| p.contains("java"))
        .collect()
}

#[test]
fn sigkill_leaves_nothing_behind() {
    let _one = cluster();
    let dir = tempfile::tempdir().unwrap();
    for level in levels() {
        let mark = format!("kill-{}-{level}", std::process::id());
        let level_text = level.to_string();
        let out = dir.path().join(&mark).display().to_string();
        let before = net_namespaces();
        let mut warren_process = warren(&[
            "fuzz",
            "canary",
            "-o",
            &out,
            "--no-ui",
            "--level",
            &level_text,
        ])
        .env("WARREN_TEST_MARK", &mark)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
        // Four JVMs: three nodes and the workload; then kill in the middle of a run.
        eventually("a cluster is up", 2 * MINUTE, || java_of(&mark).len() >= 4);
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
        eventually(
            "no process of the cluster lives",
            Duration::from_secs(2),
            || processes_marked(&mark).is_empty(),
        );
        if level < 3 {
            eventually("no namespace is left", Duration::from_secs(2), || {
                net_namespaces().is_subset(&before)
            });
        }
        ran_on(level, "SIGKILL of Warren");
    }
}
