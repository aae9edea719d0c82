//! report, whatsup and plot from outside, on stored folders of every form Warren has written. Starts no cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/samples")
        .join(name)
}

/// (exit code, stdout, stderr).
fn warren(args: &[&str]) -> (Option<i32>, String, String) {
    let o = Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(args)
        .output()
        .expect("warren starts");
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (o.status.code(), text(&o.stdout), text(&o.stderr))
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

/// finding-v0 is what Warren wrote before finding.json.
#[test]
fn a_finding_of_the_first_form_is_reported() {
    let folder = sample("finding-v0");
    let folder = folder.to_str().unwrap();
    let (code, out, err) = warren(&["report", folder]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    contains(
        &out,
        &[
            "finding 000000: replicas (safety, healed) at c3 [cbbdadd6]\n",
            "confirmed       showed again in 1 of 3 replays",
            "written by an earlier Warren",
            "replicas at one version differ",
            "fault 1: crash c1 done",
            "c3 lost c2: Connection reset",
            "warren replay out/canary/default/crashes/id:000000",
            "logs/c2.log",
        ],
    );
    let (code, out, _) = warren(&["report", folder, "--markdown"]);
    assert_eq!(code, Some(0));
    contains(
        &out,
        &[
            "## finding 000000: replicas",
            "### What was observed",
            "### Timeline",
            "### Reproduce",
            "warren replay matched.toml -n 5",
            "stack = \"89c195d44eaaf3e4\"",
        ],
    );
    assert!(!out.contains(folder), "a path of this machine in\n{out}");
}

/// finding-v1: with finding.json version 1, as a campaign on the canary (`-s 1`) found it; docs/tutorial-read-a-finding.md quotes
/// its report.
#[test]
fn a_finding_of_today_is_reported() {
    let folder = sample("finding-v1");
    let folder = folder.to_str().unwrap();
    let (code, out, err) = warren(&["report", folder]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    contains(
        &out,
        &[
            "finding 000000: replicas (safety, healed) at c2 [cbbdadd6]\n",
            "  confirmed       showed again in 3 of 3 replays; stands by its evidence\n",
            "  found           by crashfuzz (seed 1), run 15, after 18 s of fuzzing\n",
            "  because         new fault id, score 600, occurrence 1/1\n",
            "  target          canary 1\n",
            "  JDK             17.",
            "  kernel          Linux ",
            "  isolation level 1 (root: namespaces)\n",
            "  flags           --snapshot off\n",
            "  faults          2 asked, 2 injected\n",
            "what failed",
            "    absent, but acknowledged: #82 client-3#2 create fresh-2-5=f21 mzxid 0x43 [285.1..290.2 ms] ok\n",
            "!!  FAILED: ",
            "phase test: GO",
            "934.681 | 465.132 | **  fault 2: reboot c1: its moment is reached\n",
            "reproduce.sh",
            "around-faults.txt",
        ],
    );
    let (code, out, _) = warren(&["report", folder, "--markdown"]);
    assert_eq!(code, Some(0));
    contains(
        &out,
        &[
            "| target | `canary 1` |",
            "### Faults, in order",
            "<details><summary>Logs of the nodes around the faults</summary>",
            "frames = [",
        ],
    );
    assert!(!out.contains(folder) && out.len() < 65_536);
}

#[test]
fn a_folder_that_is_no_finding_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let (code, out, err) = warren(&["report", path]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    contains(
        &err,
        &[
            path,
            "neither the folder of a finding nor that of a campaign",
        ],
    );
    for (content, part) in [
        ("\u{0}\u{1}", "not a finding"),
        (
            "{\"version\": 9}",
            "version 9 cannot be read: this Warren reads version 1",
        ),
        ("{}", "no `version`"),
    ] {
        std::fs::write(dir.path().join("finding.json"), content).unwrap();
        let (code, _, err) = warren(&["report", path]);
        assert_eq!(code, Some(2), "{err}");
        contains(&err, &["finding.json", part]);
    }
    let (code, _, err) = warren(&["report", "/no/such/folder"]);
    assert_eq!(code, Some(2));
    contains(&err, &["/no/such/folder"]);
}

#[test]
fn whatsup_on_a_stored_campaign() {
    let (code, out, err) = warren(&["whatsup", sample("campaign").to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    contains(
        &out,
        &[
            ">>> default (canary, ",
            "dead or on another machine",
            ">>> learning <<<",
            "no figures: it ended before",
            "000000 cbbdadd6 safety replicas 1/3",
            "Instances alive : 0\n",
            "Dead or remote : 1\n",
            "Without figures : 1\n",
        ],
    );
    let (code, short, _) = warren(&["whatsup", "-s", sample("campaign").to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(short.starts_with("Summary\n"), "{short}");
    // One instance's own folder will do.
    let (code, _, _) = warren(&["whatsup", sample("campaign/default").to_str().unwrap()]);
    assert_eq!(code, Some(0));
    for bad in ["garbage", "nothing"] {
        let (code, _, err) = warren(&["whatsup", sample(bad).to_str().unwrap()]);
        assert_eq!(code, Some(2), "{bad}: {err}");
        contains(&err, &[bad]);
    }
}

#[test]
fn plot_on_a_campaign_an_empty_one_and_garbage() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("p");
    let to = to.to_str().unwrap();
    let read = |name: &str| std::fs::read_to_string(Path::new(to).join(name)).unwrap();
    let (code, out, err) = warren(&["plot", sample("campaign").to_str().unwrap(), "-o", to]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    contains(
        &out,
        &["109 rows of plot_data from 2 instances", "index.html"],
    );
    for name in ["coverage.svg", "queue.svg", "findings.svg", "execs.svg"] {
        let svg = read(name);
        assert!(
            svg.starts_with("<svg") && svg.contains("<polyline"),
            "{name}"
        );
    }
    let page = read("index.html");
    assert_eq!(page.matches("<svg").count(), 4);
    contains(&page, &["cbbdadd6 safety replicas 1/3", "canary"]);
    for outside in ["<script", "src=", "href="] {
        assert!(!page.contains(outside), "{outside}");
    }

    // Header only: a campaign that has just begun.
    let empty = dir.path().join("empty/default");
    std::fs::create_dir_all(&empty).unwrap();
    let header = std::fs::read_to_string(sample("campaign/default/plot_data")).unwrap();
    let header = header.lines().next().unwrap().to_owned() + "\n";
    std::fs::write(empty.join("plot_data"), header).unwrap();
    let out_dir = dir.path().join("empty");
    let (code, out, err) = warren(&["plot", out_dir.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    contains(&out, &["0 rows", "no figures yet"]);
    assert!(out_dir.join("plot/index.html").exists());

    let (code, _, err) = warren(&["plot", sample("garbage").to_str().unwrap(), "-o", to]);
    assert_eq!(code, Some(2), "{err}");
    contains(
        &err,
        &[
            "garbage/default/plot_data",
            "line 1",
            "no plot_data of Warren",
        ],
    );
    let (code, _, err) = warren(&[
        "plot",
        sample("campaign").to_str().unwrap(),
        "-o",
        "/proc/x",
    ]);
    assert_eq!(code, Some(1), "{err}");
    contains(&err, &["/proc/x", "-o"]);
}

#[test]
fn a_junit_file_that_cannot_be_written_is_said_before_set_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    std::fs::write(&file, "version = 1\ntarget = \"canary\"\n").unwrap();
    let bad = dir.path().join("no/such/out.xml");
    let (code, _, err) = warren(&[
        "replay",
        file.to_str().unwrap(),
        "--junit",
        bad.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(1), "{err}");
    contains(&err, &["--junit", "no/such/out.xml"]);
    assert!(!err.contains("setting up"), "{err}");
    // A target that cannot be set up: the report says so.
    let good = dir.path().join("out.xml");
    let (code, _, _) = warren(&[
        "replay",
        file.to_str().unwrap(),
        "--junit",
        good.to_str().unwrap(),
        "--targets",
        dir.path().to_str().unwrap(),
    ]);
    assert_eq!(code, Some(2));
    let xml = std::fs::read_to_string(&good).unwrap();
    contains(&xml, &["<error message=", "errors=\"1\"", "canary"]);
}

#[test]
fn what_cannot_be_printed_is_told_by_the_exit_code() {
    for (verb, of) in [
        ("report", "finding-v1"),
        ("whatsup", "campaign"),
        ("coverage", "coverage-v1"),
    ] {
        let said = |stdout: Stdio| {
            Command::new(env!("CARGO_BIN_EXE_warren"))
                .args([verb, sample(of).to_str().unwrap()])
                .stdout(stdout)
                .output()
                .unwrap()
        };
        let full = said(std::fs::File::create("/dev/full").unwrap().into());
        let err = String::from_utf8_lossy(&full.stderr);
        assert_eq!(full.status.code(), Some(1), "{verb}: {err}");
        contains(&err, &["writing to standard output: No space left"]);
        // A reader that has seen enough misses nothing.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let gone = said(writer.into());
        let err = String::from_utf8_lossy(&gone.stderr);
        assert_eq!((gone.status.code(), &*err), (Some(0), ""), "{verb}");
    }
}
