//! Clusters that do not come up and workloads that end: said in the words of who failed, at once where waiting is of no use, and with
//! nothing left of the slot.

use super::{Broken, MINUTE, refused};
use warren_tests::{cluster, descendants, eventually, namespaces_of, nothing_is_left};

#[test]
fn a_node_that_never_serves_is_told_with_the_question_and_its_answers() {
    let _one = cluster();
    let broken = Broken::new();
    broken.change("target.toml", "timeout_ms = 20000", "timeout_ms = 4000");
    broken.change(
        "target.toml",
        "expect = \"Mode: (leader|",
        "expect = \"Mode: (king|",
    );
    broken.change("target.toml", "(king|follower)", "(king|knave)");
    refused(
        broken.replay(),
        1,
        &[
            "not serving: c1 (answers: ",
            "as [ready] of",
            "target.toml",
            "port 7401, send `srvr`, expect `Mode: (king|knave)`, for 4000 ms",
        ],
    );
}

#[test]
fn a_node_that_dies_at_start_is_told_with_its_last_words() {
    let _one = cluster();
    let broken = Broken::new();
    broken.change(
        "target.toml",
        "main = \"canary.Main\"",
        "main = \"canary.Mian\"",
    );
    refused(
        broken.replay(),
        1,
        &[
            "ended by itself with exit status 1",
            "canary.Mian",
            "ClassNotFoundException",
        ],
    );
}

#[test]
fn patterns_that_instrument_nothing_are_told() {
    let _one = cluster();
    let broken = Broken::new();
    broken.change("target.toml", "\"canary.**\"", "\"canray.**\"");
    refused(
        broken.replay(),
        1,
        &[
            "no class of the target was instrumented",
            "canray.**",
            "target.toml",
        ],
    );
}

#[test]
fn a_workload_that_crashes_or_hangs_at_its_start_is_told_and_leaves_nothing() {
    let _one = cluster();
    let main = "Runner.main(args, new CanaryWorkload());";
    let broken = Broken::new();
    let source = "workload/CanaryWorkload.java";
    broken.change(
        source,
        main,
        "throw new IllegalStateException(\"no licence\");",
    );
    refused(
        broken.replay(),
        1,
        &["the workload ended by itself (exit status 1)", "no licence"],
    );

    let broken = Broken::new();
    broken.change("target.toml", "timeout_ms = 20000", "timeout_ms = 15000");
    let hang = "System.out.println(\"asking for a licence\"); while (true) { LockSupport.parkNanos(1000000000L); }";
    broken.change(source, main, hang);
    let mut child = broken
        .replay()
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let java = |pid| {
        let all = descendants(pid);
        all.iter()
            .filter(|p| p.command.contains("CanaryWorkload"))
            .count()
    };
    eventually("the workload hangs", 2 * MINUTE, || java(child.id()) > 0);
    let seen = descendants(child.id());
    let namespaces = namespaces_of(&seen);
    let mut err = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{err}");
    for part in [
        "the workload did not answer in time",
        "`asking for a licence`",
    ] {
        assert!(err.contains(part), "`{part}` is not in {err}");
    }
    nothing_is_left(&seen, &namespaces);
}
