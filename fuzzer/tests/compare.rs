//! `warren compare` from outside, on a stored comparison. Starts no cluster: what would begin a campaign is refused before.

use std::path::{Path, PathBuf};
use std::process::Command;

/// (exit code, stdout, stderr).
fn warren(args: &[&str]) -> (Option<i32>, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let o = Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(args)
        .current_dir(root)
        .output()
        .expect("warren starts");
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (o.status.code(), text(&o.stdout), text(&o.stderr))
}

/// A copy of the sample, as its path.
fn stored(dir: &tempfile::TempDir, version: u32) -> (PathBuf, String) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/samples/compare-v{version}/table.jsonl"));
    let folder = dir.path().join("c");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(sample, folder.join("table.jsonl")).unwrap();
    let text = folder.display().to_string();
    (folder, text)
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_stored_comparison_of_the_present_version_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, text) = stored(&dir, 1);
    let before = std::fs::read(folder.join("table.jsonl")).unwrap();
    // Left by a report that told of more bugs; and what somebody put there.
    let (stale, own) = ("report/bug-20.svg", "report/bug-notes.txt");
    std::fs::create_dir_all(folder.join("report")).unwrap();
    for file in [stale, own] {
        std::fs::write(folder.join(file), "x").unwrap();
    }
    let (code, out, err) = warren(&["compare", "canary", "--report", "-o", &text]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(!folder.join(stale).exists() && folder.join(own).exists());
    contains(
        &out,
        &[
            "canary 1: 4 campaigns of 6 runs each (",
            "crashfuzz 2",
            "random-points 2",
            "Arms: median (smallest..largest)",
            "slots at the end",
            "Against ",
            "n too small",
            "(a) checkpoint's owner",
            "0 of 2",
        ],
    );
    for file in [
        "report.txt",
        "report.md",
        "campaigns.csv",
        "curves.csv",
        "bugs.csv",
        "survival.csv",
        "pairs.csv",
        "coverage-tests.svg",
        "coverage-seconds.svg",
        "coverage-cpu.svg",
        "bug-1.svg",
    ] {
        assert!(folder.join("report").join(file).is_file(), "{file}");
    }
    assert_eq!(std::fs::read(folder.join("table.jsonl")).unwrap(), before);
    let (code, out, _) = warren(&[
        "compare",
        "canary",
        "--report",
        "-o",
        &text,
        "--against",
        "random-points",
    ]);
    assert_eq!(code, Some(0));
    contains(&out, &["Against random-points"]);
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, text) = stored(&dir, 1);
    let none = dir.path().join("none").display().to_string();
    let begin = |more: &[&str]| {
        let mut args = vec!["compare", "canary", "--strategies", "crashfuzz"];
        args.extend(more);
        warren(&args)
    };
    for (more, parts) in [
        (
            &["--runs", "7", "-o", text.as_str()][..],
            &[
                "holds another comparison",
                "budget: was 6 runs, asked 7 runs",
            ][..],
        ),
        (
            &["--runs", "6", "-s", "2", "-o", &text, "--", "-j", "2"],
            &[
                "first seed: was 1, asked 2",
                "options of fuzz: was none, asked -j 2",
            ],
        ),
        (
            &["--cpu-seconds", "60", "-o", &text],
            &["budget: was 6 runs, asked 60 CPU seconds"],
        ),
        (
            &["--runs", "6", "-o", &none, "--", "-E", "5"],
            &["-E is set by the comparison itself"],
        ),
        (
            &["--runs", "6", "-o", &none, "--against", "nobody"],
            &["--against nobody", "crashfuzz"],
        ),
        (
            &["--runs", "6", "-o", &none, "--bugs", "/nonexistent"],
            &["/nonexistent"],
        ),
        (
            &["--runs", "6", "-o", &none, "--ablate", "nosuch"],
            &["--ablate"],
        ),
        (&["--report", "-o", &none], &["holds no comparison"]),
        (
            &["--report", "-o", &text, "--against", "nobody"],
            &["crashfuzz, random-points"],
        ),
    ] {
        let (code, _, err) = begin(more);
        assert_eq!(code, Some(2), "{more:?}: {err}");
        contains(&err, parts);
    }
    assert!(!dir.path().join("none").exists());
    let (code, _, err) = warren(&["compare", "canary", "--strategies", "best", "--runs", "5"]);
    assert_eq!(code, Some(2));
    contains(&err, &["`best`"]);
    let (code, _, err) = warren(&["compare", "zookeeper", "--report", "-o", &text]);
    assert_eq!(code, Some(2));
    contains(&err, &["a comparison of canary, asked zookeeper"]);
    // Nothing was made in the folder of the other comparison.
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// A table of before it was noted, as the sample, says nothing of it.
#[test]
fn a_comparison_of_other_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, text) = stored(&dir, 1);
    let path = folder.join("table.jsonl");
    let begin = || {
        let mut args = vec!["compare", "canary", "--strategies", "crashfuzz"];
        args.extend(["--runs", "7", "-o", text.as_str()]);
        let (code, _, err) = warren(&args);
        assert_eq!(code, Some(2), "{err}");
        contains(&err, &["budget: was 6 runs, asked 7 runs"]);
        err
    };
    let noted = "target content: was ";
    let err = begin();
    assert!(!err.contains(noted) && !err.contains("JDK"), "{err}");
    let old = std::fs::read_to_string(&path).unwrap();
    let head = "\"comparison\":[";
    let new = old.replacen(head, &format!("{head}[\"target content\",\"0\"],"), 1);
    std::fs::write(&path, &new).unwrap();
    contains(&begin(), &["target content: was 0, asked "]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), new);
}

/// Another version says both numbers; what is no table says where.
#[test]
fn a_table_that_cannot_be_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, text) = stored(&dir, 1);
    let path = folder.join("table.jsonl");
    let good = std::fs::read_to_string(&path).unwrap();
    for (bad, part) in [
        (
            good.replacen("\"version\":1", "\"version\":7", 1),
            "it has version 7, this Warren reads 1",
        ),
        ("\u{1}\u{2}garbage\n".to_owned(), "line 1"),
        (format!("{good}{{}}\n"), "line 6"),
    ] {
        std::fs::write(&path, bad).unwrap();
        let (code, _, err) = warren(&["compare", "canary", "--report", "-o", &text]);
        assert_eq!(code, Some(1), "{err}");
        contains(&err, &[part, "table.jsonl"]);
        assert!(!err.contains("panicked"), "{err}");
    }
}
