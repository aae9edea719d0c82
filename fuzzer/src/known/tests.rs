//! Which failure is which known bug, in which version; and the lists that come with the targets.

use super::*;
use warren_executor::target::load_target;
use warren_feedback::signature::{normalise, signature};
use warren_model::{FailureKind, Stage};

const HEAD: &str = "version = 1\ntarget = \"t\"\n\n";

fn failure(signature: &str) -> Failure {
    Failure {
        checker: "serve".into(),
        kind: FailureKind::Liveness,
        stage: Stage::Degraded,
        role: None,
        node: None,
        evidence: vec![],
        normalised: String::new(),
        signature: signature.into(),
    }
}

/// What is changed in a list -> whether it tells other bugs.
#[test]
fn the_identity_of_a_list_is_what_it_tells_bugs_by() {
    let text =
        "[[bug]]\nid = \"T-1\"\ntitle = \"one\"\nsignatures = [\"00000001\"]\nlog = ['a line']\n";
    let identity = |bugs: &str| {
        let (known, _) = KnownBugs::parse(&format!("{HEAD}{bugs}"), "t").unwrap();
        known.identity()
    };
    assert_eq!(identity(""), "");
    assert_eq!(identity(text).len(), 16);
    for (old, new, other) in [
        ("", "", false),
        ("one", "another title", false),
        ("T-1", "T-2", true),
        ("00000001", "00000002", true),
        ("a line", "a lin", true),
        ("log", "evidence", true),
        ("log", "unless_evidence", true),
        (
            "signatures = [\"00000001\"]",
            "checkers = [\"serve\"]",
            true,
        ),
    ] {
        let changed = identity(&text.replacen(old, new, 1)) != identity(text);
        assert_eq!(changed, other, "{old} {new}");
    }
    // By which name signatures are had is nothing that tells bugs.
    let named = format!("[signatures]\nx = [\"00000001\"]\n{text}")
        .replace("signatures = [\"00000001\"]", "signatures = [\"$x\"]");
    assert_eq!(identity(&named), identity(text));
    let one = text.replace("signatures = [\"00000001\"]", "checkers = [\"serve\"]");
    assert_ne!(identity(&one), identity(&one.replace("serve", "stable")));
}

/// Checker and evidence of a failure, whether the line is in a log -> the bug.
#[test]
fn a_bug_is_known_by_its_checkers_and_lines() {
    let text = format!(
        "{HEAD}[[bug]]\nid = \"T-1\"\ntitle = \"one\"\ncheckers = [\"serve\", \"progress\"]\nlog = ['no quorum']\n\
         [[bug]]\nid = \"T-2\"\ntitle = \"two\"\ncheckers = [\"leftovers\"]\nevidence = ['^lock ']\nunless_evidence = ['PEER']\nfixed_in = \"2.1\"\n\
         [[bug]]\nid = \"T-3\"\ntitle = \"three\"\ncheckers = [\"hang\"]\nevidence = ['asked']\nlog = ['no quorum']\n"
    );
    for (checker, seen, logged, id) in [
        ("serve", "", true, Some("T-1")),
        ("progress", "", true, Some("T-1")),
        ("serve", "", false, None),
        ("stable", "", true, None),
        ("leftovers", "lock TABLE", true, Some("T-2")),
        ("leftovers", "lock TABLE", false, Some("T-2")),
        ("leftovers", "a lock", true, None),
        ("leftovers", "lock TABLE\nlock PEER", true, None),
        ("mismatch", "lock TABLE", true, None),
        ("hang", "asked", true, Some("T-3")),
        ("hang", "asked", false, None),
        ("hang", "", true, None),
    ] {
        let failure = Failure {
            checker: checker.into(),
            evidence: vec![seen.to_owned()],
            ..failure("00000001")
        };
        let log = if logged { "there is no quorum" } else { "up" };
        let logs = [(NodeName::from("n1"), log.to_owned())].into();
        let (known, _) = KnownBugs::parse(&text, "t").unwrap();
        let told = known.of(&failure, &logs).map(|b| b.id.as_str());
        assert_eq!(told, id, "{checker} {seen:?} {logged}");
        let fixed = known.in_version("2.1");
        let told = fixed.of(&failure, &logs).map(|b| b.id.as_str());
        assert_eq!(
            told,
            id.filter(|id| *id != "T-2"),
            "{checker} {seen:?} {logged}"
        );
    }
}

#[test]
fn a_list_of_signatures_stands_for_them() {
    let text = format!(
        "{HEAD}[signatures]\nwaiting = [\"00000002\", \"00000003\"]\ngone = [\"00000005\"]\n\
         [[bug]]\nid = \"T-1\"\ntitle = \"one\"\nsignatures = [\"00000001\", \"$waiting\", \"00000004\"]\nlog = ['no quorum']\n\
         [[bug]]\nid = \"T-2\"\ntitle = \"two\"\nsignatures = [\"$gone\", \"$waiting\"]\n"
    );
    let (known, _) = KnownBugs::parse(&text, "t").unwrap();
    let of = |i: usize| known.0[i].signatures.join(" ");
    assert_eq!(of(0), "00000001 00000002 00000003 00000004");
    assert_eq!(of(1), "00000005 00000002 00000003");
}

#[test]
fn a_bug_is_known_by_its_signature_and_its_lines() {
    let text = format!(
        "{HEAD}[[bug]]\nid = \"T-1\"\ntitle = \"one\"\nsignatures = [\"00000001\", \"00000002\"]\nfixed_in = \"2.0\"\n\
         [[bug]]\nid = \"T-2\"\ntitle = \"two\"\nsignatures = [\"00000003\"]\nlog = ['ACK \\d+ dropped', 'no quorum']\n\
         [[bug]]\nid = \"T-3\"\ntitle = \"three\"\nsignatures = [\"00000005\"]\nevidence = ['waits', '^pid=\\d+']\n"
    );
    let (known, _) = KnownBugs::parse(&text, "t").unwrap();
    let logs = |texts: [&str; 2]| -> BTreeMap<NodeName, String> {
        [("a", texts[0]), ("b", texts[1])]
            .map(|(n, t)| (NodeName::from(n), t.to_owned()))
            .into()
    };
    let none = logs(["", ""]);
    let both = logs(["x", "ACK 12 dropped\nthere is no quorum"]);
    let apart = logs(["ACK 12 dropped", "no quorum"]);
    for (signature, logs, id) in [
        ("00000001", &none, Some("T-1")),
        ("00000002", &both, Some("T-1")),
        ("00000003", &both, Some("T-2")),
        ("00000003", &apart, None),
        ("00000003", &none, None),
        ("00000004", &both, None),
    ] {
        let got = known.of(&failure(signature), logs).map(|b| b.id.as_str());
        assert_eq!(got, id, "{signature} {logs:?}");
    }
    let ended = |node: &str| Failure {
        checker: EXIT.into(),
        node: Some(node.into()),
        ..failure("00000003")
    };
    assert!(known.of(&ended("b"), &both).is_some());
    assert!(
        known.of(&ended("a"), &both).is_none(),
        "that b ended so says nothing of a"
    );
    for (evidence, id) in [
        (vec!["it waits", "pid=7, RUNNABLE"], Some("T-3")),
        (vec!["it waits\npid=7, RUNNABLE"], Some("T-3")),
        (vec!["it waits", "no pid=7"], None),
        (vec![], None),
    ] {
        let seen = Failure {
            evidence: evidence.iter().map(ToString::to_string).collect(),
            ..failure("00000005")
        };
        let got = known.of(&seen, &both).map(|b| b.id.as_str());
        assert_eq!(got, id, "{evidence:?}");
    }
    let one = known.of(&failure("00000001"), &none).unwrap();
    assert_eq!(one.to_string(), "T-1 (one), fixed in 2.0");
}

/// `fixed_in`, the version that is run -> whether it has the fix.
#[test]
fn a_fix_is_in_the_lines_of_releases_that_got_it() {
    for (fixed_in, version, is) in [
        ("3.5.0", "3.3.1", false),
        ("3.5.0", "3.4.9", false),
        ("3.5.0", "3.5.0", true),
        ("3.5.0", "3.5", true),
        ("3.5", "3.5.0", true),
        ("3.5.0", "3.10.0", true),
        ("3.5.0", "4.0.0", true),
        ("3.8.5, 3.9.2", "3.8.4", false),
        ("3.8.5, 3.9.2", "3.8.5", true),
        ("3.8.5, 3.9.2", "3.8.10", true),
        ("3.8.5, 3.9.2", "3.9.1", false),
        ("3.9.2,3.8.5", "3.9.2", true),
        ("3.8.5, 3.9.2", "3.7.9", false),
        ("3.8.5, 3.9.2", "3.10.0", true),
        // Told as known rather than left out by mistake.
        ("3.5.0", "3.6.0-SNAPSHOT", false),
        ("3.5.0", "trunk", false),
        ("3.5.0", "", false),
        ("trunk", "3.6.0", false),
        ("3.5.0, some day", "3.6.0", false),
        ("3.5.0", "1.2.3.4.5", false),
    ] {
        assert_eq!(is_fixed(fixed_in, version), is, "{fixed_in}: {version}");
    }
}

#[test]
fn a_bug_is_not_known_in_a_version_that_has_its_fix() {
    let text = format!(
        "{HEAD}[[bug]]\nid = \"T-1\"\ntitle = \"one\"\nsignatures = [\"00000001\"]\nfixed_in = \"2.1\"\n\
         [[bug]]\nid = \"T-2\"\ntitle = \"two\"\nsignatures = [\"00000001\"]\n"
    );
    for (version, id) in [("2.0.9", "T-1"), ("2.1.0", "T-2"), ("2.2", "T-2")] {
        let (known, _) = KnownBugs::parse(&text, "t").unwrap();
        let known = known.in_version(version);
        let bug = known.of(&failure("00000001"), &BTreeMap::new());
        assert_eq!(bug.map(|b| b.id.as_str()), Some(id), "{version}");
    }
}

#[test]
fn a_bad_file_is_refused_with_its_line() {
    let bug = |rest: &str| format!("{HEAD}[[bug]]\nid = \"T-1\"\ntitle = \"one\"\n{rest}");
    let lists = |lists: &str, of_bug: &str| {
        format!(
            "{HEAD}[signatures]\n{lists}[[bug]]\nid = \"T-1\"\ntitle = \"one\"\nsignatures = {of_bug}\n"
        )
    };
    for (text, line, part) in [
        ("version = 2\ntarget = \"t\"\n".to_owned(), 1, "version 2"),
        (
            "version = 1\ntarget = \"u\"\n".to_owned(),
            2,
            "`u`, this is `t`",
        ),
        ("version = 1\n".to_owned(), 1, "target"),
        (format!("{HEAD}[[bug]\n"), 4, ""),
        (bug(""), 5, "T-1 has neither signatures nor checkers"),
        (
            bug("log = ['x']\n"),
            5,
            "T-1 has neither signatures nor checkers",
        ),
        (
            bug("signatures = [\"00000001\"]\ncheckers = [\"serve\"]\nlog = ['x']\n"),
            8,
            "remove one of the two",
        ),
        (
            bug("checkers = [\n  \"serve\",\n  \"server\"]\nlog = ['x']\n"),
            9,
            "`server` is no checker that fails a run: write one of replicas, acknowledged, ",
        ),
        (bug("checkers = [\"00000001\"]\n"), 7, "refused, hang"),
        (
            bug("checkers = [\"incomplete\"]\n"),
            7,
            "no checker that fails a run",
        ),
        (bug("checkers = []\nlog = ['x']\n"), 7, "T-1 has no checker"),
        (bug("checkers = \"serve\"\nlog = ['x']\n"), 7, "sequence"),
        (bug("checker = [\"serve\"]\nlog = ['x']\n"), 7, "checkers"),
        // Whatever it finds would be known.
        (bug("checkers = [\"serve\"]\n"), 7, "add evidence or log"),
        (
            bug("checkers = [\"serve\"]\nunless_evidence = ['x']\n"),
            7,
            "add evidence or log",
        ),
        (
            bug("signatures = [\n  \"$waiting\"]\n"),
            8,
            "`$waiting` is no list of [signatures] that may stand here: write signatures",
        ),
        (
            lists("b = [\"00000001\"]\na = [\"00000002\"]\n", "[\"$c\"]"),
            10,
            "`$c` is no list of [signatures] that may stand here: write one of `$a`, `$b`",
        ),
        (
            lists("a = [\"00000001\"]\n", "[\"a\"]"),
            9,
            "`a` is no signature",
        ),
        (lists("a = []\n", "[\"$a\"]"), 5, "a has no signature"),
        (
            lists("a = [\"0000001\"]\n", "[\"$a\"]"),
            5,
            "`0000001` is no signature",
        ),
        (
            lists("a = [\"00000001\"]\nb = [\"$a\"]\n", "[\"$b\"]"),
            6,
            "`$a` is no list",
        ),
        (bug("signatures = []\n"), 7, "no signature"),
        (bug("signatures = [\n  \"0000001\"]\n"), 8, "`0000001`"),
        (bug("signatures = [\"0000000A\"]\n"), 7, "`0000000A`"),
        (
            bug("signatures = [\"00000001\"]\nlog = [\"(\"]\n"),
            8,
            "unclosed",
        ),
        (
            bug("signatures = [\"00000001\"]\nevidence = [\n  \"ok\",\n  \"[\"]\n"),
            10,
            "unclosed",
        ),
        (
            bug("signatures = [\"00000001\"]\nlink = \"x\"\n"),
            8,
            "link",
        ),
        (
            bug(
                "signatures = [\"00000001\"]\n[[bug]]\nid = \"T-1\"\ntitle = \"two\"\nsignatures = [\"00000002\"]\n",
            ),
            9,
            "once in a file",
        ),
    ] {
        let (at, why) = KnownBugs::parse(&text, "t").unwrap_err();
        assert!(at == line && why.contains(part), "{text}: line {at}: {why}");
    }
}

#[test]
fn no_file_is_no_bug_and_the_path_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    assert!(KnownBugs::read(&path, "t").unwrap().0.is_empty());
    std::fs::write(&path, "version = 1\ntarget = 5\n").unwrap();
    let e = KnownBugs::read(&path, "t").unwrap_err();
    assert!(e.contains("known-bugs.toml, line 2: "), "{e}");
}

#[test]
fn a_list_has_its_bases_bugs_too() {
    let dir = tempfile::tempdir().unwrap();
    let put = |target: &str, rest: &str| {
        let folder = dir.path().join(target);
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("version = 1\ntarget = \"{target}\"\n{rest}");
        std::fs::write(folder.join(FILE), text).unwrap();
        folder.join(FILE)
    };
    let bug =
        |id: &str| format!("[[bug]]\nid = \"{id}\"\ntitle = \"x\"\nsignatures = [\"00000001\"]\n");
    put("t", &bug("T-1"));
    let list = put("u", &format!("base = \"../t\"\n{}", bug("U-1")));
    let known = KnownBugs::read(&list, "u").unwrap();
    let ids: Vec<_> = known.0.iter().map(|b| b.id.as_str()).collect();
    assert_eq!(ids, ["U-1", "T-1"]);

    for (rest, part) in [
        (
            "base = \"../none\"\n".to_owned(),
            "u/known-bugs.toml, line 3: `../none` is no ",
        ),
        ("base = \"t\"\n".to_owned(), "line 3: `t` is no "),
        (
            "base = \"../u\"\n".to_owned(),
            "line 3: `../u` has a base itself",
        ),
        (
            format!("\nbase = \"../t\"\n{}", bug("T-1")),
            "line 4: `T-1` is in both lists",
        ),
    ] {
        let e = KnownBugs::read(&put("u", &rest), "u").unwrap_err();
        assert!(e.contains(part), "{rest}: {e}");
    }
    put("t", "[[bug]]\n");
    let e = KnownBugs::read(&put("u", "base = \"../t\"\n"), "u").unwrap_err();
    assert!(e.contains("t/known-bugs.toml, line 3: "), "{e}");
}

/// The same daemons, configuration and workload, so the same bugs.
#[test]
fn faults_on_journal_nodes_show_hdfs_known_bugs_as_known() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
    let of = |name: &str| {
        let known = KnownBugs::read(&targets.join(name).join(FILE), name).unwrap();
        known.0.iter().map(|b| b.id.clone()).collect::<Vec<_>>()
    };
    let hdfs = of("hdfs");
    assert!(!hdfs.is_empty());
    assert_eq!(of("hdfs-journal"), hdfs);
}

/// As `warren replay corpus/hbase/namespace-locked.toml` showed it, but for the table's lock, which is by the source; other namespaces and tables are told by
/// the same first line.
#[test]
fn a_locked_namespace_is_told_by_the_procedure_that_waits() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/hbase");
    let known = KnownBugs::read(&list.join(FILE), "hbase").unwrap();
    let procedure = "CreateNamespaceProcedure, owner RUNNABLE";
    let lock = r#"{"resourceType":"NAMESPACE","resourceName":"hbase","lockType":"EXCLUSIVE","exclusiveLockOwnerProcedure":{"className":"org.apache.hadoop.hbase.master.procedure.CreateNamespaceProcedure","procId":"8"}}"#;
    let table = r#"{"resourceType":"TABLE","resourceName":"hbase:namespace","lockType":"SHARED","sharedLockCount":1}"#;
    let own = "procedure CreateNamespaceProcedure";
    for (checker, kind, seen, is) in [
        ("leftovers", own, procedure.to_owned(), true),
        ("leftovers", "lock NAMESPACE", lock.to_owned(), true),
        ("leftovers", "lock TABLE", table.to_owned(), true),
        (
            "leftovers",
            own,
            procedure.replace("RUNNABLE", "WAITING"),
            false,
        ),
        (
            "leftovers",
            "lock NAMESPACE",
            lock.replace("\"hbase\"", "\"default\""),
            false,
        ),
        (
            "leftovers",
            "lock TABLE",
            table.replace("hbase:namespace", "live"),
            false,
        ),
        // No other thing that is left is this bug, whatever is in its line; nor is what another check saw.
        ("leftovers", "lock REGION", lock.to_owned(), false),
        (
            "leftovers",
            "region in transition",
            procedure.to_owned(),
            false,
        ),
        (
            "leftovers",
            "procedure CreateTableProcedure",
            procedure.to_owned(),
            false,
        ),
        ("mismatch", own, procedure.to_owned(), false),
    ] {
        let what = format!("{kind} is still there though its owner is gone");
        let failure = Failure {
            checker: checker.into(),
            signature: signature(checker, &normalise(&what, &[]), None, Stage::Healed),
            evidence: vec![what, seen],
            ..failure("")
        };
        let bug = known.of(&failure, &BTreeMap::new());
        assert_eq!(bug.is_some(), is, "{failure:?}");
    }
}

/// Which procedures wait, and for which locks, is chance: all that HbaseObserver.java can tell in the workload's runs.
#[test]
fn whatever_waits_behind_a_bug_of_hbase_is_told_as_that_bug() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/hbase");
    let known = KnownBugs::read(&list.join(FILE), "hbase").unwrap();
    let left = |kind: &str| {
        let what = format!("{kind} is still there though its owner is gone");
        let signature = signature("leftovers", &normalise(&what, &[]), None, Stage::Healed);
        Failure {
            checker: "leftovers".into(),
            ..failure(&signature)
        }
    };
    let told = |failure: &Failure, line: &str| {
        let logs = [(NodeName::from("n1"), line.to_owned())].into();
        known.of(failure, &logs).map(|b| b.id.clone())
    };
    let procedures = "CreateTable ModifyTable ReopenTableRegions DisableTable EnableTable TruncateTable DeleteTable TransitRegionState \
        OpenRegion CloseRegion ServerCrash SplitWAL SplitWALRemote ClaimReplicationQueues InitMeta CreateNamespace";
    let procedures = procedures
        .split(' ')
        .map(|class| format!("procedure {class}Procedure"));
    let locks = ["SERVER", "NAMESPACE", "TABLE", "REGION"].map(|of| format!("lock {of}"));
    let meta = "Received OPEN for hbase:meta,,1.1588230740 which is already online";
    let report = "Failed report transition x; retry (#7648) after 201630ms delay";
    let split = "Failed split of hdfs://a/b-splitting/127.0.0.15,16020,1795697947049, retry";
    let open = "Failed to open region x, will report to master\nMissing table descriptor for x";
    for kind in procedures.chain(locks) {
        for (line, bug) in [
            (meta, Some("HBASE-26897")),
            (
                report,
                Some("a report that waits 200 s (no number known to us)"),
            ),
            (
                split,
                Some("a folder split as a log (number not looked up)"),
            ),
            (
                open,
                Some("a deposed master ends its truncate (no number known to us)"),
            ),
            ("INFO up", None),
        ] {
            assert_eq!(told(&left(&kind), line).as_deref(), bug, "{kind}: {line}");
        }
    }
    // What none of them leaves is news beside any of their lines.
    for kind in [
        "region server that the master does not know",
        "procedure SnapshotProcedure",
        "lock PEER",
    ] {
        for line in [meta, report, split, open] {
            assert_eq!(told(&left(kind), line), None, "{kind}: {line}");
        }
    }
    let region = left("region in transition");
    for (line, is) in [(meta, true), (report, true), (split, false), (open, true)] {
        assert_eq!(told(&region, line).is_some(), is, "{line}");
    }
}

/// What the line of a log alone would take for the bug: any recovery of a block, and a deposed master's table descriptor.
#[test]
fn what_a_check_saw_tells_a_bug_from_its_neighbours() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
    let recovery =
        "Inconsistent size of finalized replicas. Replica blk_1073741825_1002[numBytes=60]";
    let open = "Failed to open region x, will report to master\nCannot append; log is closed, regionName = x";
    for (target, signature, seen, log, is) in [
        (
            "hdfs",
            "cbbdadd6",
            "/usr/root/fav2/file01 at version 31",
            recovery,
            true,
        ),
        (
            "hdfs",
            "de180f3f",
            "/usr/root/final, owner DFSClient_1",
            recovery,
            true,
        ),
        // One failure tells of all keys: what no truncate does is another bug.
        (
            "hdfs",
            "cbbdadd6",
            "/usr/root/fav2/file01 at version 31\n/client-1/c1-3 at version 7",
            recovery,
            false,
        ),
        (
            "hdfs",
            "de180f3f",
            "/client-1/c0-3, owner DFSClient_1",
            recovery,
            false,
        ),
        (
            "hbase",
            "254dfda2",
            "hm1: t: [e/.regioninfo (41 bytes), e/recovered.edits/1.seqid (0 bytes)]",
            open,
            true,
        ),
        (
            "hbase",
            "3eb399a8",
            "hm1: t/e: [recovered.edits/1.seqid (0 bytes)]",
            open,
            true,
        ),
        (
            "hbase",
            "254dfda2",
            "hm1: t: [e/.regioninfo (41 bytes), e/Personal/9f33 (5000 bytes)]",
            open,
            false,
        ),
        (
            "hbase",
            "254dfda2",
            "hm1: t: [.tabledesc/.tableinfo.0000000003 (700 bytes)]",
            open,
            false,
        ),
    ] {
        let known = KnownBugs::read(&targets.join(target).join(FILE), target).unwrap();
        let failure = Failure {
            evidence: vec![seen.to_owned()],
            ..failure(signature)
        };
        let logs = [(NodeName::from("n1"), log.to_owned())].into();
        assert_eq!(known.of(&failure, &logs).is_some(), is, "{failure:?}");
    }
}

/// The lists that Warren comes with. Each bug was shown in the version that target.toml names.
#[test]
fn the_lists_of_the_targets_are_good() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
    let mut lists = 0;
    for entry in std::fs::read_dir(targets).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let known = KnownBugs::read(&folder.join(FILE), &name).unwrap();
        lists += usize::from(!known.0.is_empty());
        let target = load_target(&folder, None, false, &[]).unwrap();
        let here = KnownBugs::of_target(&target).unwrap();
        assert_eq!(here.0.len(), known.0.len(), "{name}");
    }
    assert!(lists > 0);
}
