//! Known bugs on the made-up cluster: saved once, counted, no news; and what only looks like one is a finding beside it.

use super::*;
use crate::campaign::InstanceKind;
use crate::known::KnownBugs;
use crate::search::StrategyKind;

/// A campaign in which the planted bug's signature is known, if a node's log has the line.
fn knowing(dir: &Path, known: KnownBugs, runs: u64, tweak: Tweak) -> (FuzzEnd, Vec<String>) {
    let mut o = options(dir, StrategyKind::CrashFuzz, 1, runs);
    o.known = known;
    let snapshot = o.snapshot.clone();
    let end = fuzz(Sim::new(3, 1), o, tweak);
    (end, snapshot.drain_lines())
}

pub(super) fn list(signature: &str, log: &str) -> KnownBugs {
    let text = format!(
        "version = 1\ntarget = \"sim\"\n[[bug]]\nid = \"SIM-1\"\ntitle = \"entry lost\"\nsignatures = [\"{signature}\"]\nlog = [{log}]\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("known-bugs.toml");
    std::fs::write(&path, text).unwrap();
    KnownBugs::read(&path, "sim").unwrap()
}

fn files(end: &FuzzEnd, sub: &str) -> usize {
    let entries = std::fs::read_dir(end.folder.join(sub)).unwrap();
    let names = entries.map(|e| e.unwrap().file_name());
    names.filter(|n| *n != "README.txt").count()
}

#[test]
fn a_known_bug_is_saved_once_and_is_no_news() {
    let dir = tempfile::tempdir().unwrap();
    let (end, said) = knowing(dir.path(), KnownBugs::default(), 150, nothing());
    let f = &end.folder;
    assert_eq!((end.findings, end.known), (1, 0));
    assert_eq!(stat(f, "known_findings"), "0");
    let several = files(&end, "crashes");
    assert!(several > 1 && said.iter().any(|l| l.starts_with("FINDING 000000: ")));
    let signature = stat(f, "finding_000000")[..8].to_owned();

    let dir = tempfile::tempdir().unwrap();
    let (end, said) = knowing(dir.path(), list(&signature, ""), 150, nothing());
    let f = &end.folder;
    assert_eq!((end.findings, end.known), (1, 1));
    assert_eq!((files(&end, "crashes"), files(&end, "findings")), (1, 1));
    assert_eq!(stat(f, "known_findings"), "1");
    assert_eq!(stat(f, "known_000000"), "SIM-1 (entry lost)");
    assert!(
        said.iter()
            .any(|l| l.starts_with("KNOWN 000000: SIM-1 (entry lost): "))
    );
    assert!(!said.iter().any(|l| l.starts_with("FINDING ")), "{said:?}");
    let evidence = std::fs::read_to_string(f.join("findings/000000/evidence.txt")).unwrap();
    assert!(
        evidence.contains("\nknown: SIM-1 (entry lost)\n"),
        "{evidence}"
    );
    // Its list has no lines to tell it by, so it is replayed.
    assert!(stat(f, "finding_000000").ends_with("3/3"));

    // It does not end a campaign that waits for news, and is known again when it goes on.
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 1, 160);
    (o.resume, o.exit_on_bug, o.known) = (true, true, list(&signature, ""));
    let end = fuzz(Sim::new(3, 1), o, nothing());
    assert_eq!(end.reason, EndReason::SequenceLimit);
    assert_eq!((end.findings, end.known), (1, 1));
    assert_eq!(stat(&end.folder, "known_000000"), "SIM-1 (entry lost)");

    // Nor is it told to others when the campaign is no longer alone: each keeps its own, and what only looks like it is news to them.
    for (known, told) in [(list(&signature, ""), false), (KnownBugs::default(), true)] {
        let dir = tempfile::tempdir().unwrap();
        knowing(dir.path(), known.clone(), 150, nothing());
        let mut o = options(dir.path(), StrategyKind::CrashFuzz, 1, 151);
        (o.resume, o.kind, o.known) = (true, InstanceKind::Secondary, known);
        let end = fuzz(Sim::new(3, 1), o, nothing());
        let file = crate::campaign::sync_file::path(&end.folder);
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(text.contains(&signature), told, "{text}");
    }

    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 1, 150);
    (o.exit_on_bug, o.known) = (true, list(&signature, "'no such line'"));
    assert_eq!(fuzz(Sim::new(3, 1), o, nothing()).reason, EndReason::Bug);
}

/// Every fourth sequence, by what really happened, shows the planted bug's signature; only the first seven such have the line. By then the
/// signature was saved often enough.
#[test]
fn what_looks_like_a_known_bug_is_a_finding_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let (end, _) = knowing(dir.path(), KnownBugs::default(), 150, nothing());
    let signature = stat(&end.folder, "finding_000000")[..8].to_owned();
    let mut known = Vec::new();
    let tweak: Tweak = Box::new(move |_, _, _, product| {
        let matched = product.record.matched.as_ref();
        let Some(matched) = matched.filter(|m| !m.faults.is_empty()) else {
            return;
        };
        let id = matched.identity();
        if !id.is_multiple_of(4) {
            return;
        }
        product.observations.push(Observation::Mismatch {
            node: "n1".into(),
            what: "digest".into(),
            detail: "planted: entry lost on resync".into(),
        });
        if known.len() < 7 && !known.contains(&id) {
            known.push(id);
        }
        if known.contains(&id) {
            product.logs.insert("n1".into(), "a\nthe line\n".into());
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let (end, said) = knowing(dir.path(), list(&signature, "'^the line$'"), 80, tweak);
    assert_eq!((end.findings, end.known), (2, 1), "{said:?}");
    assert!(stat(&end.folder, "failing_runs").parse::<u32>().unwrap() > 8);
    assert_eq!(stat(&end.folder, "known_000000"), "SIM-1 (entry lost)");
    let news = said.iter().filter(|l| l.starts_with("FINDING 000001: "));
    assert_eq!(news.count(), 1, "{said:?}");
    // The line tells it, so it is not replayed; the other one is.
    let story = |n: u8| {
        let path = format!("findings/00000{n}/evidence.txt");
        std::fs::read_to_string(end.folder.join(path)).unwrap()
    };
    assert!(story(0).contains("\nconfirmed: not replayed: a known bug"));
    assert!(story(1).contains("\nconfirmed: showed again in "));
    assert!(stat(&end.folder, "finding_000000").ends_with(" 0/0"));
}

/// A liveness failure that Ctrl-C left open fell; then a known bug of its signature stands: later failures that are not that bug are
/// replayed, each as one of which nothing stands.
#[test]
fn what_fell_hides_no_failure_of_its_signature() {
    let quiet = || Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let refuse = |product: &mut warren_model::RunProduct| {
        let refused = refuses(&product.trace.nodes[0]);
        product.observations.push(refused);
    };
    let signature = {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 6);
        let all: Tweak = Box::new(move |_, input, _, product| {
            if !input.faults.is_empty() {
                refuse(product);
            }
        });
        let end = fuzz(quiet(), o, all);
        stat(&end.folder, "finding_000000")[..8].to_owned()
    };
    let dir = tempfile::tempdir().unwrap();
    let known = || list(&signature, "'^the line$'");
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 9, 40);
    o.known = known();
    left_open(quiet(), o);
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 9, 40);
    (o.resume, o.known) = (true, known());
    // Three replays, by which it falls. Then the known bug once, and later what is not it, which shows each time.
    let second: Tweak = Box::new(move |run, input, _, product| {
        if input.faults.is_empty() || run < 6 {
            return;
        }
        if run == 6 {
            refuse(product);
            product.logs.insert("n1".into(), "a\nthe line\n".into());
        }
        if run > 8 {
            refuse(product);
        }
    });
    let end = fuzz(quiet(), o, second);
    assert_eq!((end.findings, end.known), (2, 1));
    assert!(
        stat(&end.folder, "finding_000001").ends_with(" 0/0"),
        "the known one"
    );
    let news = stat(&end.folder, "finding_000002");
    assert!(
        news.starts_with(&signature) && !news.ends_with("0/0"),
        "{news}"
    );
    // Nor is it told of what stands.
    let sheet = end.folder.join("findings/000002/finding.json");
    let sheet = crate::campaign::finding::Sheet::read(&sheet).unwrap();
    let fell = |a: &String| a.starts_with("000000");
    assert!(!sheet.found.alike.iter().any(fell));
}

/// The known bug was saved as often as one is. A run then shows what only looks like it, and another failure that stands already: that must not
/// hide it.
#[test]
fn what_stands_hides_no_failure_that_only_looks_like_a_known_bug() {
    let failing = |lines_until: u64, other_from: u64| -> Tweak {
        let mut failed = 0;
        Box::new(move |_, input, _, product| {
            if input.faults.is_empty() {
                return;
            }
            failed += 1;
            product.observations.push(lost(&"n1".into()));
            if failed <= lines_until {
                product.logs.insert("n1".into(), "a\nthe line\n".into());
            }
            if failed >= other_from {
                product.observations.push(Observation::Mismatch {
                    node: "n1".into(),
                    what: "version".into(),
                    detail: "planted: another".into(),
                });
            }
        })
    };
    let quiet = || Sim {
        bug: false,
        ..Sim::new(3, 1)
    };
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 3);
    let end = fuzz(quiet(), o, failing(0, 1000));
    let signature = stat(&end.folder, "finding_000000")[..8].to_owned();

    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), StrategyKind::CrashFuzz, 9, 20);
    o.known = list(&signature, "'^the line$'");
    let end = fuzz(quiet(), o, failing(8, 8));
    let bugs: Vec<String> = names(&end.folder.join("crashes"))
        .into_iter()
        .filter_map(|n| n.bug)
        .collect();
    // The known one, the other, and at once what only looks like the known one.
    assert!(bugs.len() > 2, "{bugs:?}");
    assert_eq!((&bugs[0], &bugs[2]), (&signature, &signature), "{bugs:?}");
    assert_ne!(bugs[1], signature);
    assert_eq!((end.findings, end.known), (3, 1));
}

/// Each of the first twelve runs with faults fails in two ways, and one of them is known.
#[test]
fn a_known_bug_hides_no_other_in_its_run() {
    let failing = || -> Tweak {
        let mut left = 12;
        Box::new(move |_, input, _, product| {
            if input.faults.is_empty() || left == 0 {
                return;
            }
            left -= 1;
            for what in ["digest", "version"] {
                product.observations.push(Observation::Mismatch {
                    node: "n1".into(),
                    what: what.into(),
                    detail: format!("planted: another {what}"),
                });
            }
            product.logs.insert("n1".into(), "the line\n".into());
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let (end, _) = knowing(dir.path(), KnownBugs::default(), 12, failing());
    let signature = stat(&end.folder, "finding_000000")[..8].to_owned();

    let dir = tempfile::tempdir().unwrap();
    let (end, said) = knowing(dir.path(), list(&signature, "'^the line$'"), 30, failing());
    let news = |l: &&String| l.starts_with("FINDING ") || l.starts_with("KNOWN ");
    let told: Vec<&String> = said.iter().filter(news).collect();
    assert!(told[0].starts_with("FINDING 000000: "), "{told:?}");
    assert_ne!(stat(&end.folder, "finding_000000")[..8], signature);
    // Its turn comes when the other was saved often enough.
    assert!(told[1].starts_with("KNOWN 000001: SIM-1"), "{told:?}");
    // And its story says whose failure its run shows beside it; the first one is like none before it.
    let story = |n: u8| {
        let path = format!("findings/00000{n}/evidence.txt");
        std::fs::read_to_string(end.folder.join(path)).unwrap()
    };
    let first = &stat(&end.folder, "finding_000000")[..8];
    assert!(!story(0).contains("fails also as"), "{}", story(0));
    let like = format!("\nfails also as: 000000 [{first}]\n");
    assert!(story(1).contains(&like), "{}", story(1));
}

/// The third fuzzed run loses data as no known bug does. Later runs lose it with the line that tells one, as often as asked.
#[test]
fn a_replay_that_shows_a_known_bug_says_nothing_for_what_looks_like_it() {
    let campaign = |dir: &Path, known: KnownBugs, lines_from: u64| {
        let tweak: Tweak = Box::new(move |run, input, _, product| {
            if run < 8 || input.faults.is_empty() {
                return;
            }
            product.observations.push(lost(&"n1".into()));
            if run >= lines_from {
                product.logs.insert("n1".into(), "a\nthe line\n".into());
            }
        });
        let quiet = Sim {
            bug: false,
            ..Sim::new(3, 1)
        };
        let o = FuzzOptions {
            known,
            minimize: true,
            exit_on_bug: true,
            ..options(dir, StrategyKind::CrashFuzz, 9, 20)
        };
        let snapshot = o.snapshot.clone();
        (fuzz(quiet, o, tweak), snapshot.drain_lines())
    };
    let dir = tempfile::tempdir().unwrap();
    let (end, _) = campaign(dir.path(), KnownBugs::default(), 8);
    let signature = stat(&end.folder, "finding_000000")[..8].to_owned();
    // Run 8 fails, 9 to 11 are its replays, what follows makes it smaller.
    for (lines_from, rate, small) in [
        (100, "3/3", "minimised: faults"),
        (12, "3/3", "minimised: no: it did not show"),
        (10, "1/3", "minimised: no: it did not show"),
        (9, "0/3", "minimised: no: it did not show"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let known = list(&signature, "'^the line$'");
        let (end, said) = campaign(dir.path(), known, lines_from);
        assert_eq!((end.findings, end.known), (1, 0), "{lines_from}");
        let stands = stat(&end.folder, "finding_000000");
        assert!(stands.ends_with(rate), "{lines_from}: {stands}");
        let told = said.iter().any(|l| l.contains(small));
        assert!(told, "{lines_from}: {said:?}");
    }
}
