//! Which contents can be the last of their keys, and which cannot.

use super::*;
use crate::check::testing::{Build, count, op};
use warren_model::Phase;

fn rules() -> Rules {
    Rules {
        definite: vec!["BadVersion".into()],
        ..Rules::default()
    }
}

fn run(b: Build) -> CheckResult {
    check(&b.product, &rules())
}

fn leader(node: &str) -> Observation {
    Observation::Leader {
        node: node.into(),
        epoch: "2".into(),
        durable: false,
    }
}

/// The look at the replicas begins at 20 ms, the second change is answered at 50 ms.
fn written_late() -> Build {
    Build::new()
        .op(op("s", "create", "/a", 1, 2).put("0"))
        .op(op("t", "write", "/a", 3, 50).put("1"))
        .phase(Phase::Final, 20)
}

fn deleted_late() -> Build {
    Build::new()
        .op(op("s", "create", "/a", 1, 2).put("0"))
        .op(op("t", "delete", "/a", 3, 50))
        .phase(Phase::Final, 20)
}

#[test]
fn legal_ends() {
    let table: Vec<(&str, Build)> = vec![
        (
            "the last write stands",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1"))
                .everywhere(&[("/a", "1")]),
        ),
        (
            "an unknown write may have happened",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                .everywhere(&[("/a", "1")]),
        ),
        (
            "an unknown write may not have happened",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                .everywhere(&[("/a", "0")]),
        ),
        (
            "an unknown write may take effect after a later acknowledged one, while its session lives",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                .op(op("t", "write", "/a", 5, 6).put("2"))
                .close("s", 9)
                .everywhere(&[("/a", "1")]),
        ),
        (
            "overlapping writes go either way",
            Build::new()
                .op(op("s", "write", "/a", 1, 5).put("1"))
                .op(op("t", "write", "/a", 2, 3).put("2"))
                .everywhere(&[("/a", "1")]),
        ),
        (
            "an unknown delete may have been the last",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "delete", "/a", 3, 4).unknown())
                .everywhere(&[]),
        ),
        (
            "a failed cas left nothing",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "cas", "/a", 3, 4).put("1").failed("BadVersion"))
                .everywhere(&[("/a", "0")]),
        ),
        (
            "an error that is not definite may have happened",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4)
                    .put("1")
                    .failed("OperationTimeout"))
                .everywhere(&[("/a", "1")]),
        ),
        (
            "an ephemeral may be gone",
            Build::new()
                .op(op("s", "ephemeral", "/e", 1, 2).put("x"))
                .expired("s", 5)
                .everywhere(&[]),
        ),
        (
            "keys nobody changed are the system's own",
            Build::new()
                .op(op("s", "read", "/sys", 1, 2).saw("x"))
                .everywhere(&[("/sys", "x")]),
        ),
        (
            "only an unknown create, and it did not happen",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0").open())
                .everywhere(&[]),
        ),
        (
            "an empty value is no value",
            Build::new()
                .op(op("s", "create", "/a", 1, 2))
                .everywhere(&[("/a", "")]),
        ),
        (
            "a write that was answered after the look began may be missing",
            written_late().everywhere(&[("/a", "0")]),
        ),
        ("or be there", written_late().everywhere(&[("/a", "1")])),
        (
            "answered before the second look began, which is not this one",
            written_late()
                .phase(Phase::Final, 60)
                .everywhere(&[("/a", "0")]),
        ),
        (
            "begun and answered after the look began",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .phase(Phase::Final, 20)
                .op(op("t", "write", "/a", 30, 40).put("1"))
                .everywhere(&[("/a", "0")]),
        ),
        (
            "a create that was answered after the look began may be missing",
            Build::new()
                .op(op("s", "create", "/a", 3, 50).put("0"))
                .phase(Phase::Final, 20)
                .everywhere(&[]),
        ),
        (
            "a delete that was answered after the look began may be missing",
            deleted_late().everywhere(&[("/a", "0")]),
        ),
        ("or have happened", deleted_late().everywhere(&[])),
        (
            "answered after the look began, with a later order number",
            Build::new()
                .op(op("s", "write", "/a", 1, 5).put("1").m(11))
                .op(op("t", "write", "/a", 2, 50).put("2").m(12))
                .phase(Phase::Final, 20)
                .everywhere(&[("/a", "1")]),
        ),
    ];
    for (name, b) in table {
        assert_eq!(count(&run(b)), (0, 0), "{name}");
    }
}

#[test]
fn lost_and_undone_changes() {
    let table: Vec<(&str, Build, &str)> = vec![
        (
            "an acknowledged write is gone everywhere",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1"))
                .everywhere(&[("/a", "0")]),
            "acknowledged change is lost",
        ),
        (
            "an acknowledged create is gone",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .everywhere(&[]),
            "acknowledged change is lost",
        ),
        (
            "an acknowledged delete was undone",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "delete", "/a", 3, 4))
                .everywhere(&[("/a", "0")]),
            "acknowledged change is lost",
        ),
        (
            "a failed cas has happened",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "cas", "/a", 3, 4).put("1").failed("BadVersion"))
                .everywhere(&[("/a", "1")]),
            "a change that failed has happened",
        ),
        (
            "an unknown write took effect after its session had ended",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                .expired("s", 9)
                .op(op("t", "write", "/a", 10, 11).put("2"))
                .everywhere(&[("/a", "1")]),
            "acknowledged change is lost",
        ),
        (
            "a value from nowhere",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .everywhere(&[("/a", "7")]),
            "nobody wrote",
        ),
        (
            "deleted, then created again, and absent",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "delete", "/a", 3, 4))
                .op(op("s", "create", "/a", 5, 6).put("1"))
                .everywhere(&[]),
            "acknowledged change is lost",
        ),
        (
            "overlapping writes whose order numbers tell the order",
            Build::new()
                .op(op("s", "write", "/a", 1, 5).put("1").m(11))
                .op(op("t", "write", "/a", 2, 3).put("2").m(12))
                .everywhere(&[("/a", "1")]),
            "acknowledged change is lost",
        ),
        (
            "answered just as the look began",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 20).put("1"))
                .phase(Phase::Final, 20)
                .everywhere(&[("/a", "0")]),
            "acknowledged change is lost",
        ),
        (
            "a late answer of another write excuses nothing",
            written_late().everywhere(&[]),
            "acknowledged change is lost",
        ),
        (
            "nor does one that is earlier by its order number",
            Build::new()
                .op(op("s", "write", "/a", 1, 50).put("1").m(11))
                .op(op("t", "write", "/a", 2, 3).put("2").m(12))
                .phase(Phase::Final, 20)
                .everywhere(&[("/a", "1")]),
            "acknowledged change is lost",
        ),
    ];
    for (name, b, expect) in table {
        let r = run(b);
        assert_eq!(count(&r), (1, 0), "{name}: {r:?}");
        assert!(r.failures[0].normalised.contains(expect), "{name}: {r:?}");
        assert!(
            r.failures[0].normalised.contains("on every replica"),
            "{name}"
        );
    }
}

#[test]
fn one_replica_is_enough() {
    let r = run(Build::new()
        .op(op("s", "create", "/a7", 1, 2).put("0"))
        .replica("n1", "9", "/a7", "0")
        .replica("n2", "9", "/other", "0")
        .round(true));
    assert_eq!(count(&r), (1, 0));
    assert_eq!(r.failures[0].node, Some("n2".into()));
    assert!(
        r.failures[0]
            .normalised
            .ends_with("lost on a part of the replicas")
    );
    assert!(r.failures[0].evidence[1].contains("/a7 on n2"), "{r:?}");
}

#[test]
fn a_node_without_a_key_has_lost_them() {
    let digest = |node: &str| Observation::Digest {
        node: node.into(),
        version: "0".into(),
        hash: "0".into(),
        durable: false,
    };
    let made = || Build::new().op(op("s", "create", "/a", 1, 2).put("0"));
    let all = |b: Build| b.obs(digest("n1")).obs(digest("n2"));
    let n1 = |b: Build| b.replica("n1", "9", "/a", "0");
    let table: Vec<(&str, Build, Option<&str>)> = vec![
        ("all of them", all(made()), Some("on every replica")),
        (
            "one, which gave its digest",
            n1(all(made())),
            Some("on a part"),
        ),
        (
            "nothing, of one that was not read and leads",
            n1(made()).obs(leader("n2")),
            None,
        ),
        ("nothing was written", all(Build::new()), None),
    ];
    for (name, b, expect) in table {
        let r = run(b.round(true));
        let places: Vec<&str> = r.failures.iter().map(|f| f.normalised.as_str()).collect();
        match expect {
            Some(place) => {
                assert_eq!(count(&r), (1, 0), "{name}: {r:?}");
                assert!(places[0].contains(place), "{name}: {places:?}");
            }
            None => assert_eq!(count(&r), (0, 0), "{name}: {r:?}"),
        }
    }
    let torn = all(made()).round(false);
    assert_eq!(count(&run(torn)), (0, 1), "an incomplete round");
}

/// It may be a cluster that has lost everything.
#[test]
fn a_round_in_which_no_node_tells_what_it_holds_is_unknown() {
    let made = || Build::new().op(op("s", "create", "/a", 1, 2).put("0"));
    let torn = |mut b: Build| {
        b.product.broken_lines.push("history.jsonl".into());
        b
    };
    let table = vec![
        ("nothing is told", made().round(true), 1),
        (
            "nothing is told, and the round is cut short",
            made().round(false),
            1,
        ),
        (
            "only who leads is told",
            made().obs(leader("n1")).round(true),
            1,
        ),
        (
            "another round tells it",
            made().everywhere(&[("/a", "0")]).round(true),
            0,
        ),
        (
            "nothing was acknowledged",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0").unknown())
                .op(op("s", "read", "/a", 3, 4))
                .round(true),
            0,
        ),
        (
            "whether anything was acknowledged is not known",
            torn(Build::new().round(true)),
            1,
        ),
    ];
    for (name, b, unknowns) in table {
        let r = run(b);
        assert_eq!(count(&r), (0, unknowns), "{name}: {r:?}");
    }
}

#[test]
fn what_cannot_be_told_is_unknown() {
    let lost = || Build::new().op(op("s", "create", "/a", 1, 2).put("0"));
    let r = run(lost().replica("n1", "9", "/b", "0").round(false));
    assert_eq!(count(&r), (0, 1), "incomplete round");
    assert_eq!(count(&run(lost())), (0, 1), "no observations at all");
    for file in ["history.jsonl", "observations.jsonl"] {
        let mut b = lost().everywhere(&[]);
        b.product.broken_lines.push(file.into());
        assert_eq!(count(&run(b)), (0, 1), "{file} is torn");
    }
}

/// One key on one node, written under this order number.
fn numbered(node: &str, value: &str, number: &str) -> Observation {
    Observation::Replica {
        node: node.into(),
        version: "9".into(),
        key: "/a".into(),
        value: Some(value.into()),
        key_version: Some(number.into()),
        durable: false,
    }
}

/// With `[promise] numbered` and without it: how many failures.
fn by_numbers(b: Build) -> [CheckResult; 2] {
    [true, false].map(|numbered| {
        let rules = Rules {
            numbered,
            ..rules()
        };
        check(&b.product, &rules)
    })
}

/// A create under 10, then a write without an answer that by time may have been the last.
fn doubtful() -> Build {
    Build::new()
        .op(op("s", "create", "/a", 1, 2).put("0").m(10))
        .op(op("t", "write", "/a", 3, 4).put("1").unknown())
}

#[test]
fn a_number_tells_what_time_does_not() {
    let wrote = |b: Build| b.op(op("s", "write", "/a", 5, 6).put("2").m(12));
    let lost: Vec<(&str, Build)> = vec![
        ("a write without an answer came before", wrote(doubtful())),
        (
            "a delete after it is undone",
            doubtful().op(op("s", "delete", "/a", 5, 6).m(12)),
        ),
        (
            "a delete among others",
            doubtful()
                .op(op("s", "delete", "/a", 5, 6).m(12))
                .op(op("t", "create", "/a", 7, 8).put("3").unknown()),
        ),
        (
            "a compare and set",
            doubtful().op(op("s", "cas", "/a", 5, 6).put("2").m(12)),
        ),
        (
            "answered just as the look began",
            wrote(doubtful()).phase(Phase::Final, 6),
        ),
    ];
    for (name, b) in lost {
        let b = b
            .obs(numbered("n1", "1", "11"))
            .obs(numbered("n2", "1", "11"));
        let [with, without] = by_numbers(b.round(true));
        assert_eq!(count(&with), (1, 0), "{name}: {with:?}");
        let failure = &with.failures[0];
        assert!(
            failure.normalised.ends_with("lost on every replica"),
            "{name}"
        );
        assert!(
            failure.evidence[2].ends_with("order number 0xb"),
            "{name}: {failure:?}"
        );
        assert_eq!(count(&without), (0, 0), "{name}, not promised");
    }
    let [part, _] = by_numbers(
        wrote(doubtful())
            .obs(numbered("n1", "1", "11"))
            .obs(numbered("n2", "2", "12"))
            .round(true),
    );
    assert_eq!(count(&part), (1, 0), "{part:?}");
    let failure = &part.failures[0];
    assert!(failure.normalised.ends_with("on a part of the replicas"));
    assert!(failure.evidence[1].contains("/a on n1"), "{failure:?}");
}

#[test]
fn numbers_that_are_right_or_say_nothing() {
    let table: Vec<(&str, Build, &str, &str)> = vec![
        ("the acknowledged change itself", doubtful(), "0", "10"),
        ("the write without an answer, later", doubtful(), "1", "11"),
        (
            "deleted and made again",
            doubtful()
                .op(op("s", "delete", "/a", 5, 6).m(12))
                .op(op("s", "create", "/a", 7, 8).put("0").m(13)),
            "0",
            "13",
        ),
        (
            "made again, nobody knows by whom",
            doubtful()
                .op(op("s", "delete", "/a", 5, 6).m(12))
                .op(op("t", "create", "/a", 7, 8).put("1").unknown()),
            "1",
            "13",
        ),
        (
            "an answer without a number",
            doubtful().op(op("s", "write", "/a", 5, 6).put("2")),
            "1",
            "11",
        ),
        (
            "what failed, or may have, claims nothing",
            doubtful()
                .op(op("s", "cas", "/a", 5, 6)
                    .put("2")
                    .m(12)
                    .failed("BadVersion"))
                .op(op("s", "write", "/a", 7, 8).put("3").m(13).unknown()),
            "1",
            "11",
        ),
        (
            "nor does what was seen",
            doubtful().op(op("s", "read", "/a", 5, 6).saw("0").m(12)),
            "1",
            "11",
        ),
        (
            "another key",
            doubtful().op(op("s", "write", "/b", 5, 6).put("2").m(12)),
            "1",
            "11",
        ),
        (
            "answered after the look began",
            doubtful()
                .phase(Phase::Final, 5)
                .op(op("s", "write", "/a", 5, 6).put("2").m(12)),
            "1",
            "11",
        ),
        (
            "a key version that is no number",
            doubtful().op(op("s", "write", "/a", 5, 6).put("2").m(12)),
            "1",
            "v1",
        ),
        (
            "nor zero",
            doubtful().op(op("s", "write", "/a", 5, 6).put("2").m(12)),
            "1",
            "0",
        ),
    ];
    for (name, b, value, number) in table {
        // Another key stays as it was made, so that it fails no check.
        let other = Observation::Replica {
            node: "n1".into(),
            version: "9".into(),
            key: "/b".into(),
            value: Some("2".into()),
            key_version: None,
            durable: false,
        };
        let b = b.obs(numbered("n1", value, number)).obs(other);
        let [with, _] = by_numbers(b.round(true));
        assert_eq!(count(&with), (0, 0), "{name}: {with:?}");
    }
}

/// A living node that could not be read: named by an `incomplete`, without a line in the round.
#[test]
fn a_node_that_did_not_speak_is_not_judged_and_excuses_no_other() {
    let made = || {
        Build::new()
            .op(op("s", "create", "/a", 1, 2).put("0"))
            .obs(Observation::Incomplete {
                what: "replicas".into(),
                why: "n3 could not be read".into(),
            })
    };
    let table = vec![
        (("0", "0"), None),
        (("0", "7"), Some("on a part of the replicas")),
        (("7", "7"), Some("on every replica")),
    ];
    for ((first, second), expect) in table {
        let r = run(made()
            .replica("n1", "9", "/a", first)
            .replica("n2", "9", "/a", second)
            .round(true));
        assert_eq!(count(&r), (usize::from(expect.is_some()), 0), "{r:?}");
        if let Some(place) = expect {
            assert!(r.failures[0].normalised.ends_with(place), "{r:?}");
            assert_ne!(r.failures[0].node, Some("n3".into()));
        }
    }
}
