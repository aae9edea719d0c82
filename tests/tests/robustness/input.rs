//! Sequences that are none, that name what is not there, or that no run may make.

use super::{MINUTE, file, refused};
use std::process::Stdio;
use warren_tests::{run, warren};

#[test]
fn whatever_is_no_sequence_is_refused_with_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let garbage: Vec<u8> = (0..4096u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let long = format!("version = {}", "1".repeat(100_000));
    let table = [
        (file(d, "garbage", garbage), "it is not text"),
        (
            file(d, "latin1", b"version = 1\n# caf\xe9\n"),
            "byte 17 is no UTF-8",
        ),
        (file(d, "empty", ""), "it is empty"),
        (
            file(d, "huge", vec![b'#'; 3 << 20]),
            "larger than 1048576 bytes",
        ),
        ("/dev/zero".into(), "larger than 1048576 bytes"),
        (d.display().to_string(), "it is a folder"),
        (d.join("absent").display().to_string(), "No such file"),
        (file(d, "jar", b"PK\x03\x04"), "not a fault sequence"),
        (file(d, "long", long), "not a fault sequence"),
    ];
    for (path, what) in &table {
        let ran = refused(warren(&["replay", path]), 2, &[path, what]);
        assert!(!ran.err.contains("setting up"), "{}", ran.text());
        assert!(ran.err.len() < 3000, "{} bytes of refusal", ran.err.len());
        assert!(
            !ran.err.chars().any(|c| c.is_control() && c != '\n'),
            "control characters reach the terminal: {:?}",
            ran.err
        );
    }
}

fn fault(kind: &str, node: &str) -> String {
    format!("[[fault]]\nkind = \"{kind}\"\nnode = \"{node}\"\n[fault.at]\nwhen = \"at-once\"\n")
}

const CUT: &str = "[[fault]]\nkind = \"partition-start\"\nwho = { cut = [\"c1\"] }\n[fault.at]\nwhen = \"at-once\"\n";
const STOP: &str = "[[fault]]\nkind = \"partition-stop\"\n[fault.at]\nwhen = \"at-once\"\n";

/// Needs the target set up (its nodes and roles decide), starts no run.
#[test]
fn a_sequence_that_no_run_may_make_names_fault_and_rule() {
    let dir = tempfile::tempdir().unwrap();
    let table = [
        ("absent node", fault("crash", "c9"), "fault 1", "`c9`"),
        ("absent role", fault("crash", "@king"), "fault 1", "`king`"),
        (
            "too many dead",
            fault("crash", "c1") + &fault("crash", "c2"),
            "fault 2",
            "dead",
        ),
        (
            "reboot of the living",
            fault("reboot", "c1"),
            "fault 1",
            "c1",
        ),
        (
            "dead twice",
            fault("crash", "c1") + &fault("crash", "c1"),
            "fault 2",
            "c1",
        ),
        ("stop without start", STOP.into(), "fault 1", "no cut"),
        ("two cuts", CUT.repeat(2), "fault 2", "cut"),
    ];
    for (name, faults, index, value) in table {
        let text = format!("version = 1\ntarget = \"canary\"\n{faults}");
        let path = file(dir.path(), "s.toml", text);
        let ran = run(warren(&["replay", &path]), 3 * MINUTE);
        assert_eq!(ran.code, Some(2), "{name}: {}", ran.text());
        for part in [index, value, "cannot happen"] {
            assert!(
                ran.err.contains(part),
                "{name}: `{part}` is not in {}",
                ran.text()
            );
        }
    }
}

#[test]
fn sequences_of_another_target_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let of = |target: &str| {
        let text = format!("version = 1\ntarget = \"{target}\"\n");
        file(dir.path(), &format!("{target}.toml"), text)
    };
    let nosuch = of("nosuch");
    refused(
        warren(&["replay", &nosuch]),
        2,
        &["no target `nosuch`", "known targets: canary", "--targets"],
    );
    refused(
        warren(&["replay", &of("canary"), &of("zookeeper")]),
        2,
        &["`canary`", "`zookeeper`", "one target at a time"],
    );
}

/// `warren targets | head -0`, `warren doctor` on a terminal that is gone.
#[test]
fn a_reader_that_is_gone_is_no_panic() {
    for verb in ["targets", "doctor"] {
        let mut child = warren(&[verb])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(matches!(done.status.code(), Some(0 | 1)), "{verb}: {err}");
        assert!(err.is_empty(), "{verb}: {err}");
    }
    let full = std::fs::File::create("/dev/full").unwrap();
    let done = warren(&["targets"]).stdout(full).output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(err.contains("writing to standard output"), "{err}");
    assert_eq!(done.status.code(), Some(1), "{err}");
}
