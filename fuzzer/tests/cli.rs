//! The command line from outside: exit codes, texts, and that nothing panics on bad input. Starts no cluster.

use std::path::PathBuf;
use std::process::{Command, Output};

fn warren(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(args)
        .output()
        .expect("warren starts")
}

/// (exit code, stdout, stderr).
fn said(o: &Output) -> (Option<i32>, String, String) {
    (
        o.status.code(),
        String::from_utf8_lossy(&o.stdout).into_owned(),
        String::from_utf8_lossy(&o.stderr).into_owned(),
    )
}

fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["fuzz", "--help"],
        &["replay", "--help"],
        &["bench", "-h"],
    ] {
        let (code, out, err) = said(&warren(args));
        assert_eq!(code, Some(0), "{args:?}");
        assert!(!out.is_empty() && err.is_empty(), "{args:?}: {err}");
    }
    assert!(said(&warren(&["--version"])).1.starts_with("warren "));
}

/// With a JDK that is none: had set-up begun, the exit code would be 1.
#[test]
fn what_can_never_run_is_refused_before_set_up() {
    let dir = tempfile::tempdir().unwrap();
    let sequence = |who: &str, role: &str| {
        format!(
            "version = 1\ntarget = \"canary\"\n[[fault]]\nkind = \"crash\"\nnode = \"{who}\"\n[fault.at]\nrole = \"{role}\"\nkind = \"force\"\n"
        )
    };
    let good = file(&dir, "good.toml", &sequence("c1", "leader"));
    for (name, text, wants) in [
        (
            "node.toml",
            sequence("zz9", "leader"),
            ["`zz9`", "c1, c2, c3"],
        ),
        ("role.toml", sequence("c1", "leadr"), ["`leadr`", "leader"]),
        (
            "member.toml",
            sequence("@leadr", "leader"),
            ["`leadr`", "leader"],
        ),
    ] {
        let bad = file(&dir, name, &text);
        let (code, _, err) = said(&warren(&["replay", &good, &bad, "--java", "/nonexistent"]));
        assert_eq!(code, Some(2), "{name}: {err}");
        for want in wants.iter().chain(&[name, "fault 1", "[[fault]]"]) {
            assert!(err.contains(want), "{name}: no `{want}` in: {err}");
        }
    }
    let (code, _, err) = said(&warren(&["replay", &good, "--java", "/nonexistent"]));
    assert_eq!(code, Some(1), "{err}");
    let (code, _, err) = said(&warren(&["replay", &good, "--version", "9"]));
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("`9`") && err.contains("leave --version out"),
        "{err}"
    );
}

/// Likewise: a list of known bugs that cannot be read, with its line.
#[test]
fn a_bad_list_of_known_bugs_is_refused_before_set_up() {
    let dir = tempfile::tempdir().unwrap();
    // As the templates and the dictionary are asked for, too.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let copied = dir.path().join("targets/canary");
    std::fs::create_dir_all(copied.join("conf")).unwrap();
    std::fs::create_dir(dir.path().join("dictionaries")).unwrap();
    let templates = std::fs::read_dir(root.join("targets/canary/conf")).unwrap();
    let templates = templates.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = templates
        .map(|name| format!("targets/canary/conf/{name}"))
        .collect();
    files.push("targets/canary/target.toml".into());
    files.push("dictionaries/canary.dict".into());
    for name in files {
        std::fs::copy(root.join(&name), dir.path().join(&name)).unwrap();
    }
    let list = "version = 1\ntarget = \"canary\"\n[[bug]]\nid = \"X-1\"\ntitle = \"x\"\nsignatures = [\"nosuch\"]\n";
    std::fs::write(copied.join("known-bugs.toml"), list).unwrap();
    let empty = file(&dir, "empty.toml", "version = 1\ntarget = \"canary\"\n");
    let targets = dir.path().join("targets");
    let targets = targets.to_str().unwrap();
    let out = dir.path().join("out");
    for args in [
        &["fuzz", "canary", "-o", out.to_str().unwrap()][..],
        &["replay", &empty],
    ] {
        let (code, _, err) = said(&warren(
            &[args, &["--targets", targets, "--java", "/nonexistent"]].concat(),
        ));
        assert_eq!(code, Some(2), "{args:?}: {err}");
        assert!(
            err.contains("known-bugs.toml, line 6: `nosuch` is no signature"),
            "{err}"
        );
    }
    assert!(!out.exists());
}

#[test]
fn usage_errors_exit_2_and_never_panic() {
    let cold = "every run starts cold: leave one of them out";
    let require = "--snapshot require wants runs from snapshots";
    let table: [(&str, &str); 14] = [
        ("", "Usage"),
        ("fuss canary", "fuss"),
        ("fuzz", "<TARGET>"),
        ("fuzz canary -V soon", "soon"),
        ("fuzz canary --faults reboot", "reboot"),
        ("fuzz canary --level 0", "--level"),
        ("fuzz canary --snapshot require --paper", require),
        ("fuzz canary --snapshot require --cold-share 1", require),
        // Flags that would say nothing.
        ("fuzz canary --snapshot off --in-a-row 2", cold),
        ("fuzz canary --paper --cold-share 0.5", cold),
        ("fuzz canary --swarm --cold-share 0.5", "--swarm draws"),
        ("fuzz canary --broker-bind 127.0.0.1", "--broker-port"),
        ("replay", "required"),
        ("bench canary --runs 0", "--runs"),
    ];
    for (line, part) in table {
        let args: Vec<&str> = line.split_whitespace().collect();
        let (code, _, err) = said(&warren(&args));
        assert_eq!(code, Some(2), "{line}: {err}");
        assert!(
            err.contains(part) && !err.contains("panicked"),
            "{line}: {err}"
        );
    }
}

#[test]
fn an_unknown_target_names_the_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    let targets = dir.path().to_str().unwrap();
    let out = dir.path().join("out");
    let (code, _, err) = said(&warren(&[
        "fuzz",
        "nosuch",
        "--targets",
        targets,
        "-o",
        out.to_str().unwrap(),
    ]));
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("`nosuch`") && err.contains("--targets"),
        "{err}"
    );
    assert!(!out.exists(), "a refused campaign made its folder");
}

#[test]
fn a_folder_that_holds_a_campaign_is_refused_before_set_up() {
    let dir = tempfile::tempdir().unwrap();
    let instance = dir.path().join("default");
    // Results alone, of which the rest was removed by hand.
    std::fs::create_dir_all(instance.join("crashes")).unwrap();
    std::fs::write(instance.join("crashes/id:000000"), "a month's work").unwrap();
    let (code, _, err) = said(&warren(&[
        "fuzz",
        "canary",
        "-o",
        dir.path().to_str().unwrap(),
        "--java",
        "/nonexistent",
    ]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("(crashes is there)"), "{err}");
    std::fs::write(instance.join("fuzzer_stats"), "start_time : 1\n").unwrap();
    let (code, _, err) = said(&warren(&[
        "fuzz",
        "canary",
        "-o",
        dir.path().to_str().unwrap(),
    ]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("holds what is left of a campaign"), "{err}");
    assert!(err.contains(dir.path().to_str().unwrap()), "{err}");
    std::fs::create_dir(instance.join("state")).unwrap();
    std::fs::write(instance.join("state/checkpoint"), "").unwrap();
    let (code, _, err) = said(&warren(&[
        "fuzz",
        "canary",
        "-o",
        dir.path().to_str().unwrap(),
    ]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("already holds a campaign"), "{err}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused_before_set_up() {
    let dir = tempfile::tempdir().unwrap();
    let out = file(&dir, "file", "x");
    let (code, _, err) = said(&warren(&["fuzz", "canary", "-o", &out]));
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains(&out) && err.contains("choose another folder with -o"),
        "{err}"
    );
    assert!(!err.contains("setting up"), "{err}");
}

#[test]
fn replay_says_what_is_wrong_with_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let table = [
        ("no.toml", None, "no.toml"),
        ("a.toml", Some("not a sequence"), "not a fault sequence"),
        (
            "b.toml",
            Some("version = 9\ntarget = \"canary\"\n"),
            "version 9",
        ),
        (
            "c.toml",
            Some(
                "version = 1\ntarget = \"canary\"\n[[fault]]\nkind = \"crush\"\n[fault.at]\nkind = \"force\"\n",
            ),
            "crush",
        ),
    ];
    for (name, text, want) in table {
        let path = match text {
            Some(t) => file(&dir, name, t),
            None => dir.path().join(name).to_str().unwrap().to_owned(),
        };
        let (code, _, err) = said(&warren(&["replay", &path]));
        assert_eq!(code, Some(2), "{name}: {err}");
        assert!(err.contains(want) && err.contains(name), "{name}: {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}

/// Bad seeds, each with what its refusal must name.
fn bad_seeds() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    const HEAD: &str = "version = 1\ntarget = \"canary\"\n[[fault]]\n";
    const AT: &str = "[fault.at]\nrole = \"leader\"\nkind = \"force\"\n";
    let crash = format!("{HEAD}kind = \"crash\"\n{AT}");
    let of = |from: &str, to: &str| crash.replace(from, to).into_bytes();
    vec![
        (
            "a.toml",
            b"\x7fELF\xfe".to_vec(),
            &["a.toml", "is not text", "docs/formats.md"],
        ),
        (
            "b.toml",
            b"hello".to_vec(),
            &["b.toml", "not a fault sequence", "[[fault]]"],
        ),
        (
            "c.toml",
            of("force", "forse"),
            &["c.toml", "fault 1", "at.kind", "`forse`", "force"],
        ),
        (
            "d.toml",
            of("leader", "leadr"),
            &[
                "d.toml",
                "fault 1",
                "`leadr` is no role",
                "known: ",
                "leader",
            ],
        ),
        (
            "e.toml",
            of("\"crash\"\n", "\"crash\"\nnode = \"zz9\"\n"),
            &["e.toml", "`zz9` is no node", "known: c1"],
        ),
        (
            "f.toml",
            of("crash", "reboot"),
            &[
                "f.toml",
                "fault 1",
                "no node is dead",
                "mend that [[fault]]",
            ],
        ),
        (
            "h.toml",
            b"version = 1\ntarget = \"canary\"\n".to_vec(),
            &["no usable seed", "h.toml", "none has a fault"],
        ),
    ]
}

#[test]
fn seed_check_refuses_bad_files_before_set_up() {
    for (name, content, wants) in bad_seeds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        let (code, _, err) = said(&warren(&["seed", "check", path.to_str().unwrap()]));
        assert_eq!(code, Some(2), "{name}: {err}");
        for want in wants {
            assert!(err.contains(want), "{name} lacks `{want}`: {err}");
        }
        assert!(!err.contains("setting up"), "{name}: {err}");
    }
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str, target: &str| {
        let text = format!(
            "version = 1\ntarget = \"{target}\"\n[[fault]]\nkind = \"crash\"\n[fault.at]\nkind = \"force\"\n"
        );
        file(&dir, name, &text)
    };
    let (a, b) = (of("a.toml", "canary"), of("b.toml", "zookeeper"));
    let (code, _, err) = said(&warren(&["seed", "check", &a, &b]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("one target at a time"), "{err}");
    assert_eq!(said(&warren(&["seed", "check"])).0, Some(2));
}

#[test]
fn fuzz_refuses_bad_seeds_before_set_up_with_file_key_value_and_remedy() {
    const GOOD: &str = "version = 1\ntarget = \"canary\"\n[[fault]]\nkind = \"crash\"\n\
                        [fault.at]\nrole = \"leader\"\nkind = \"force\"\n";
    let fuzz = |input: &std::path::Path, out: &std::path::Path| {
        let [input, out] = [input, out].map(|p| p.to_str().unwrap());
        said(&warren(&["fuzz", "canary", "-i", input, "-o", out]))
    };
    let other = (
        "g.toml",
        GOOD.replace("canary", "zookeeper").into_bytes(),
        &["g.toml", "`zookeeper`", "`canary`", "key `target`"][..],
    );
    for (name, content, wants) in bad_seeds().into_iter().chain([other]) {
        let dir = tempfile::tempdir().unwrap();
        let bad = dir.path().join(name);
        std::fs::write(&bad, content).unwrap();
        file(&dir, "z-good.toml", GOOD);
        let out = dir.path().join("out");
        // One without a fault is only left out of a folder.
        let input = if name == "h.toml" { &bad } else { dir.path() };
        let (code, _, err) = fuzz(input, &out);
        assert_eq!(code, Some(2), "{name}: {err}");
        for want in wants {
            assert!(err.contains(want), "{name} lacks `{want}`: {err}");
        }
        assert!(!err.contains("setting up"), "{name}: {err}");
        assert!(!out.exists(), "{name}: a refused campaign made its folder");
    }
    let empty = tempfile::tempdir().unwrap();
    let out = empty.path().join("out");
    let (code, _, err) = fuzz(empty.path(), &out);
    assert_eq!(code, Some(2), "{err}");
    for want in [
        "no usable seed",
        empty.path().to_str().unwrap(),
        "at least one sequence that has a fault",
    ] {
        assert!(err.contains(want), "lacks `{want}`: {err}");
    }
    let (code, _, err) = fuzz(&empty.path().join("nosuch.toml"), &out);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("nosuch.toml") && !out.exists(), "{err}");
}

#[test]
fn targets_lists_and_says_where_it_looked() {
    let empty = tempfile::tempdir().unwrap();
    let (code, _, err) = said(&warren(&[
        "targets",
        "--targets",
        empty.path().to_str().unwrap(),
    ]));
    assert_eq!(code, Some(2));
    assert!(
        err.contains("target.toml") && err.contains("--targets"),
        "{err}"
    );

    let broken = empty.path().join("half");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("target.toml"), "[target]\nname = 3\n").unwrap();
    let (code, out, err) = said(&warren(&[
        "targets",
        "--targets",
        empty.path().to_str().unwrap(),
    ]));
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("half") && out.contains("cannot be used"),
        "{out}"
    );
}

#[test]
fn doctor_has_a_line_for_everything() {
    let (code, out, err) = said(&warren(&["doctor"]));
    assert!(matches!(code, Some(0 | 1)), "{err}");
    for what in [
        "isolation level 1",
        "isolation level 2",
        "isolation level 3",
        "kernel cuts",
        "nft",
        "JDK",
        "Maven",
        "cache",
        "memory",
        "tmpfs",
        "kernel",
    ] {
        assert!(out.contains(what), "no line for {what}:\n{out}");
    }
    for line in out.lines().take_while(|l| !l.is_empty()) {
        assert!(
            line.starts_with("ok ")
                || line.starts_with("missing ")
                || line.trim_start().starts_with("->"),
            "`{line}` says neither ok nor missing"
        );
    }
}

#[test]
fn slot_init_by_hand_is_refused_with_a_reason() {
    let out = Command::new(env!("CARGO_BIN_EXE_warren"))
        .arg("__slot-init")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("warren starts");
    let (code, _, err) = said(&out);
    assert_ne!(code, Some(0));
    assert!(err.contains("started by warren itself"), "{err}");
}

/// With a JDK that is none: had set-up begun, the exit code would be 1.
#[test]
fn tmin_asks_for_a_place_and_a_signature_before_any_run() {
    let dir = tempfile::tempdir().unwrap();
    let input = file(&dir, "in.toml", "version = 1\ntarget = \"canary\"\n");
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (args, part) in [
        (
            vec!["-o".into(), place("no/such/min.toml")],
            "no/such is no folder that is there",
        ),
        (
            vec![
                "-o".into(),
                place("min.toml"),
                "--signature".into(),
                "zzz".to_owned(),
            ],
            "`zzz` is no signature",
        ),
    ] {
        let mut all = vec!["tmin", &input, "--java", "/nonexistent"];
        all.extend(args.iter().map(String::as_str));
        let (code, _, err) = said(&warren(&all));
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn a_way_out_is_one_that_the_verb_has() {
    let dir = tempfile::tempdir().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let sample = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let there = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    };
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    there("compared/table.jsonl", "garbage\n");
    there("kept/queue/id:000000", "x");
    there("kept/runs/000000.run", "garbage");
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let table = [
        (
            vec![
                "coverage",
                &sample("coverage-v1"),
                "--csv",
                &place("no/such.csv"),
            ],
            "another folder with --csv",
        ),
        (
            vec![
                "compare",
                "canary",
                "--strategies",
                "fifo",
                "--runs",
                "5",
                "-o",
                &place("compared"),
            ],
            "choose another folder with -o to begin anew",
        ),
        (
            vec!["cmin", &place("kept"), "-o", &place("small")],
            "name a campaign, or an instance of it, that is whole",
        ),
        (
            vec!["seed", "check", &place("empty")],
            "give a file or a folder with at least one sequence",
        ),
    ]
    .map(|(args, part): (Vec<&str>, _)| {
        (
            args.into_iter().map(str::to_owned).collect::<Vec<_>>(),
            part,
        )
    });
    for (args, part) in table {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (code, _, err) = said(&warren(&args));
        assert!(matches!(code, Some(1 | 2)), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: {err}");
        assert!(!err.contains("-i "), "{args:?}: {err}");
        assert!(
            err.contains("-o") == (args[0] == "compare"),
            "{args:?}: {err}"
        );
    }
}
