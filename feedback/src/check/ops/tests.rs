//! What an operation may and must have done, and when the replicas were looked at.

use super::*;
use crate::check::testing::{Build, ms, op};

fn rules() -> Rules {
    Rules {
        definite: vec!["NodeExists".into()],
        ..Rules::default()
    }
}

#[test]
fn effects_are_bounded_by_answer_or_session() {
    let b = Build::new()
        .session("s", "n1", 0)
        .session("t", "n1", 0)
        .session("u", "n1", 0)
        .op(op("s", "write", "/a", 1, 2).put("1"))
        .op(op("s", "write", "/a", 3, 4).put("2").unknown())
        .op(op("s", "write", "/a", 5, 6).put("3").open())
        .op(op("s", "create", "/a", 7, 8)
            .put("4")
            .failed("NodeExists for /a"))
        .op(op("s", "create", "/a", 7, 8).put("5").failed("Timeout"))
        .op(op("t", "write", "/a", 9, 10).put("6").unknown())
        .op(op("u", "write", "/a", 9, 10).put("7").unknown())
        .close("s", 20)
        .end("u", 30, Some("lost"));
    let rules = rules();
    let ops = Ops::new(&b.product, &rules);
    let got: Vec<_> = ops.all.iter().map(|o| (o.outcome, o.until)).collect();
    assert_eq!(
        got,
        [
            (Outcome::Ok, ms(2)),
            (Outcome::Unknown, ms(20)),
            (Outcome::Unknown, ms(20)),
            (Outcome::Failed, ms(8)),
            (Outcome::Unknown, ms(20)),
            (Outcome::Unknown, u64::MAX),
            (Outcome::Unknown, u64::MAX),
        ]
    );
}

#[test]
fn each_look_at_the_replicas_has_its_time() {
    let rules = rules();
    let at = |b: &Build| {
        let ops = Ops::new(&b.product, &rules);
        (ops.looked(false), ops.looked(true))
    };
    let b = Build::new().phase(Phase::Test, 1).phase(Phase::Heal, 2);
    assert_eq!(at(&b), (u64::MAX, u64::MAX), "nobody has looked");
    let b = b.phase(Phase::Final, 3);
    assert_eq!(at(&b), (ms(3), u64::MAX));
    assert_eq!(at(&b.phase(Phase::Final, 4)), (ms(3), ms(4)));
}

#[test]
fn what_is_acknowledged_is_a_change_that_can_be_judged() {
    let table = [
        (op("s", "create", "/a", 1, 2).put("0"), true),
        (op("s", "delete", "/a", 1, 2), true),
        (op("s", "create", "/a", 1, 2).put("0").unknown(), false),
        (op("s", "create", "/a", 1, 2).failed("NodeExists"), false),
        (op("s", "read", "/a", 1, 2).saw("0"), false),
        (op("s", "append", "/a", 1, 2), false),
    ];
    let rules = rules();
    for (o, expect) in table {
        let b = Build::new().op(o);
        let ops = Ops::new(&b.product, &rules);
        assert_eq!(ops.any_acknowledged(), expect, "{:?}", b.product.history);
    }
}

#[test]
fn a_definite_error_after_a_lost_first_try_is_unknown() {
    let b = Build::new()
        .op(op("s", "create", "/a", 1, 2).put("1").unknown())
        .op(op("s", "create", "/a", 3, 4)
            .put("1")
            .failed("NodeExists")
            .retry_of(1))
        .op(op("s", "create", "/b", 5, 6).put("1").failed("NodeExists"))
        .op(op("s", "create", "/b", 7, 8)
            .put("1")
            .failed("NodeExists")
            .retry_of(3));
    let rules = rules();
    let ops = Ops::new(&b.product, &rules);
    assert_eq!(ops.all[1].outcome, Outcome::Unknown);
    assert_eq!(ops.all[3].outcome, Outcome::Failed);
}

#[test]
fn failed_binds_only_with_an_error_that_is_listed() {
    for (error, expect) in [
        (Some("NodeExists for /a"), Outcome::Failed),
        (Some("nodeexists"), Outcome::Failed),
        (Some("Timeout"), Outcome::Unknown),
        (Some(""), Outcome::Unknown),
        (None, Outcome::Unknown),
    ] {
        let mut b = Build::new().op(op("s", "create", "/a", 1, 2).put("1").failed(""));
        for event in &mut b.product.history {
            if let HistoryEvent::Done(done) = event {
                done.error = error.map(str::to_owned);
            }
        }
        let rules = rules();
        let ops = Ops::new(&b.product, &rules);
        assert_eq!(ops.all[0].outcome, expect, "{error:?}");
    }
}

#[test]
fn a_torn_history_convicts_nobody() {
    let mut b = Build::new().op(op("s", "append", "/a", 1, 2));
    b.product.broken_lines.push("history.jsonl".into());
    let ops = Ops::new(&b.product, &Rules::default());
    let mut r = CheckResult::pass();
    r.fail(
        &b.product,
        crate::check::Found {
            checker: "x",
            kind: warren_model::FailureKind::Safety,
            stage: warren_model::Stage::Test,
            role: None,
            node: None,
            what: "y".into(),
            evidence: vec![],
        },
    );
    let r = ops.settle("x", r);
    assert!(r.failures.is_empty());
    assert_eq!(
        r.unknowns.len(),
        2,
        "torn, and an operation of unknown kind"
    );
    assert!(!ops.judged("/a"));
    // Nor does it acquit.
    let nothing = ops.settle("x", CheckResult::pass());
    assert_eq!((nothing.failures.len(), nothing.unknowns.len()), (0, 2));
}
