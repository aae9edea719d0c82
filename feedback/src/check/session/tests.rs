//! Which sessions go back, and which only lag.

use super::*;
use crate::check::testing::{Build, count, op};
use proptest::prelude::*;

fn run(b: &Build) -> CheckResult {
    check(&b.product, &Rules::default())
}

fn sources<'o, 'p>(ops: &'o Ops<'p>, key: &str, value: &str) -> Vec<&'o Op<'p>> {
    let puts = ops
        .changes(key)
        .filter(|p| p.act == Act::Put && p.possible());
    puts.filter(|p| p.put_value() == value).collect()
}

/// [`goes_back`] without what is counted ahead: all that lies between the two, and all puts of the history.
fn by_definition(
    before: &Op<'_>,
    between: &[&Op<'_>],
    read: &Op<'_>,
    ops: &Ops<'_>,
) -> Option<&'static str> {
    let key = read.key();
    let deleted_ever = ops.maybe_deleted(key) || ops.maybe_ephemeral(key);
    let content = match before.act {
        Act::Put => Some(before.put_value()),
        Act::Read => before.seen(),
        Act::Delete | Act::Sync => None,
    };
    match (content, read.seen()) {
        (Some(was), Some(now)) => {
            let gone = |o: &Op<'_>| {
                let absent = o.act == Act::Delete || (o.act == Act::Read && o.seen().is_none());
                absent && o.from > before.until
            };
            let gone_between = || between.iter().any(|o| gone(o));
            if let (Some(b), Some(r)) = (before.mzxid(), read.mzxid()) {
                if r < b {
                    return Some("a session saw an older change than before");
                }
                return (r == b && gone_between()).then_some(CAME_BACK);
            }
            if let (Some(b), Some(r), false) = (before.version(), read.version(), deleted_ever) {
                return (r < b).then_some("a session saw an older version than before");
            }
            if was == now
                && let [only] = sources(ops, key, now)[..]
                && between.iter().any(|o| gone(o) && only.until < o.from)
            {
                return Some(CAME_BACK);
            }
            let newest_now = sources(ops, key, now).iter().map(|s| s.until).max()?;
            let oldest_was = match before.act {
                Act::Put => before.from,
                _ => sources(ops, key, was).iter().map(|s| s.from).min()?,
            };
            (newest_now < oldest_was).then_some("a session saw an older value than before")
        }
        (Some(was), None) => {
            if ops.maybe_ephemeral(key) {
                return None;
            }
            let oldest = match before.act {
                Act::Put => before.from,
                _ => sources(ops, key, was).iter().map(|s| s.from).min()?,
            };
            let explained = ops
                .deletes(key)
                .any(|d| d.until > oldest && d.from < read.until);
            (!explained).then_some("a key that a session knew is absent and nobody deleted it")
        }
        (None, Some(now)) if before.act == Act::Delete => {
            let newest = sources(ops, key, now).iter().map(|s| s.until).max()?;
            (newest < before.from).then_some("a session saw a key again that it had deleted")
        }
        _ => None,
    }
}

/// [`older_reads`] by it: each read with each operation before it.
fn all_pairs(own: &[&Op<'_>], ops: &Ops<'_>) -> Vec<Told> {
    let ends = |o: &Op<'_>| o.done.map_or(u64::MAX, |d| d.t_ns);
    let mut begins = own.to_vec();
    begins.sort_by_key(|o| o.from);
    let mut ended = own.to_vec();
    ended.sort_by_key(|o| ends(o));
    let mut told = Vec::new();
    for o in begins.iter().filter(|o| o.act == Act::Read && o.ok()) {
        let known = |b: &&&Op<'_>| {
            let ended = b.done.is_some() && ends(b) < o.from && b.key() == o.key();
            ended && b.ok() && b.act != Act::Sync && ops.judged(b.key())
        };
        let before: Vec<&Op<'_>> = ended.iter().filter(known).copied().collect();
        let mut pairs = before.iter().enumerate();
        let first = pairs.find_map(|(i, b)| {
            let what = by_definition(b, &before[i + 1..], o, ops)?;
            Some(vec![what.to_owned(), ops.tell(b), ops.tell(o)])
        });
        let what = "a session saw an older state of a key than before";
        told.extend(first.map(|evidence| (what.to_owned(), evidence)));
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Any history, most of them illegal: kind, key, value, begin, length, outcome, order number; every third by others.
    #[test]
    fn what_is_told_follows_the_definition(
        steps in prop::collection::vec((0u8..6, 0u8..2, 0u8..3, 0u64..60, 0u64..9, 0u8..6, 0i64..5), 1..40),
        numbers in any::<bool>(),
    ) {
        let mut b = Build::new();
        for (i, (kind, key, value, from, length, outcome, number)) in steps.into_iter().enumerate() {
            let who = if i % 3 == 0 { "w" } else { "s" };
            let name = ["create", "write", "delete", "read", "read", "read"][kind as usize];
            let key = ["/a", "/b"][key as usize];
            let mut o = op(who, name, key, from, from + length);
            let value = value.to_string();
            o = match name {
                "read" if number == 0 => o,
                "read" => o.saw(&value),
                "delete" => o,
                _ => o.put(&value),
            };
            if numbers && number > 0 {
                o = o.m(number);
            }
            b = b.op(match outcome {
                0 => o.unknown(),
                1 => o.failed("NoNode"),
                _ => o,
            });
        }
        let rules = Rules { definite: vec!["NoNode".into()], ..Rules::default() };
        let ops = Ops::new(&b.product, &rules);
        let own: Vec<&Op<'_>> = ops.all.iter().filter(|o| o.inv.session == "s").collect();
        prop_assert_eq!(older_reads(&own, &ops), all_pairs(&own, &ops));
    }
}

#[test]
fn legal_sessions() {
    let table = vec![
        (
            "stale, then fresh",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").m(1))
                .op(op("w", "write", "/a", 3, 4).put("1").m(2))
                .op(op("s", "read", "/a", 5, 6).saw("0").m(1).z(1))
                .op(op("s", "read", "/a", 7, 8).saw("1").m(2).z(2)),
        ),
        (
            "another session may be behind",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").m(1))
                .op(op("w", "write", "/a", 3, 4).put("1").m(2))
                .op(op("s", "read", "/a", 5, 6).saw("1").m(2).z(9))
                .op(op("t", "read", "/a", 7, 8).saw("0").m(1).z(3)),
        ),
        (
            "overlapping reads are not compared",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").m(1))
                .op(op("w", "write", "/a", 3, 4).put("1").m(2))
                .op(op("s", "read", "/a", 5, 9).saw("1").m(2).z(9))
                .op(op("s", "read", "/a", 6, 8).saw("0").m(1).z(3)),
        ),
        (
            "a delete before the stale read explains a later absence",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").m(1))
                .op(op("w", "delete", "/a", 3, 4))
                .op(op("s", "read", "/a", 5, 6).saw("0").m(1))
                .op(op("s", "read", "/a", 7, 8)),
        ),
        (
            "deleted and created again: version falls, order number rises",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").m(1).version(0))
                .op(op("w", "write", "/a", 3, 4).put("1").m(2).version(1))
                .op(op("w", "delete", "/a", 5, 6))
                .op(op("w", "create", "/a", 7, 8).put("2").m(4).version(0))
                .op(op("s", "read", "/a", 4, 5).saw("1").m(2).version(1))
                .op(op("s", "read", "/a", 9, 10).saw("2").m(4).version(0)),
        ),
        (
            "an unknown delete may explain an absence",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("w", "delete", "/a", 3, 4).unknown())
                .op(op("s", "read", "/a", 7, 8)),
        ),
        (
            "without order numbers: written twice, so it may have come back",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0"))
                .op(op("s", "read", "/a", 3, 4).saw("0"))
                .op(op("w", "delete", "/a", 5, 6))
                .op(op("s", "read", "/a", 7, 8))
                .op(op("w", "create", "/a", 7, 9).put("0"))
                .op(op("s", "read", "/a", 9, 10).saw("0")),
        ),
        (
            "without order numbers: a write without an answer may come once more",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").unknown())
                .op(op("s", "read", "/a", 3, 4).saw("0"))
                .op(op("w", "delete", "/a", 5, 6))
                .op(op("s", "read", "/a", 7, 8))
                .op(op("s", "read", "/a", 9, 10).saw("0")),
        ),
        (
            "without order numbers: absent before it was seen, not between",
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0"))
                .op(op("s", "read", "/a", 3, 4))
                .op(op("s", "read", "/a", 5, 6).saw("0"))
                .op(op("s", "read", "/a", 7, 8).saw("0")),
        ),
        (
            "an ephemeral goes with its session",
            Build::new()
                .op(op("w", "ephemeral", "/e", 1, 2).put("x"))
                .op(op("s", "read", "/e", 3, 4).saw("x"))
                .op(op("s", "read", "/e", 7, 8)),
        ),
        (
            "an unknown write of one's own need not be seen",
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                .op(op("s", "read", "/a", 5, 6).saw("0")),
        ),
        (
            "somebody else overwrote it",
            Build::new()
                .op(op("s", "write", "/a", 1, 2).put("0"))
                .op(op("w", "write", "/a", 3, 4).put("1"))
                .op(op("s", "read", "/a", 5, 6).saw("1")),
        ),
        (
            "a read that began before the write may have missed it",
            Build::new()
                .op(op("s", "create", "/a", 2, 3).put("0").m(1))
                .op(op("s", "read", "/a", 1, 4))
                .op(op("s", "read", "/a", 5, 6).saw("0").m(1)),
        ),
        (
            "an operation without an answer has no order number",
            Build::new()
                .op(op("s", "write", "/a", 1, 2).put("0").z(9).m(9))
                .op(op("s", "write", "/a", 3, 4).put("1").z(1).unknown())
                .op(op("s", "read", "/a", 5, 6).saw("0").m(9).z(0)),
        ),
    ];
    for (name, b) in table {
        assert_eq!(count(&run(&b)), (0, 0), "{name}: {:?}", run(&b));
    }
}

#[test]
fn what_names_the_finding_does_not_depend_on_names_of_sessions() {
    for (falls, older) in [("s", "t"), ("t", "s")] {
        let b = Build::new()
            .op(op("w", "create", "/a", 1, 2).put("0").m(1))
            .op(op("w", "write", "/a", 3, 4).put("1").m(2))
            .op(op(older, "read", "/a", 5, 6).saw("1").m(2))
            .op(op(older, "read", "/a", 7, 8).saw("0").m(1))
            .op(op(falls, "read", "/x", 5, 6).z(9))
            .op(op(falls, "read", "/y", 7, 8).z(8));
        let r = run(&b);
        assert_eq!(count(&r), (2, 0), "{r:?}");
        assert!(
            r.failures[0]
                .normalised
                .contains("order number of the system fell"),
            "{r:?}"
        );
    }
}

#[test]
fn sessions_that_go_back() {
    let table = vec![
        (
            Build::new()
                .op(op("s", "read", "/x", 1, 2).z(9))
                .op(op("s", "read", "/y", 3, 4).z(8)),
            "order number of the system fell",
        ),
        (
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").m(1))
                .op(op("w", "write", "/a", 3, 4).put("1").m(2))
                .op(op("s", "read", "/a", 5, 6).saw("1").m(2))
                .op(op("s", "read", "/a", 7, 8).saw("0").m(1)),
            "an older change",
        ),
        (
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0").m(1))
                .op(op("s", "write", "/a", 3, 4).put("1").m(2))
                .op(op("s", "read", "/a", 7, 8).saw("0").m(1)),
            "an older change",
        ),
        (
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").version(0))
                .op(op("w", "write", "/a", 3, 4).put("1").version(1))
                .op(op("s", "read", "/a", 5, 6).saw("1").version(1))
                .op(op("s", "read", "/a", 7, 8).saw("0").version(0)),
            "an older version",
        ),
        (
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "write", "/a", 3, 4).put("1"))
                .op(op("s", "read", "/a", 7, 8).saw("0")),
            "an older value",
        ),
        (
            Build::new()
                .op(op("s", "create", "/a", 1, 2).put("0"))
                .op(op("s", "read", "/a", 7, 8)),
            "nobody deleted it",
        ),
        (
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0").m(1))
                .op(op("w", "delete", "/a", 3, 20))
                .op(op("s", "read", "/a", 5, 6).saw("0").m(1))
                .op(op("s", "read", "/a", 7, 8))
                .op(op("s", "read", "/a", 9, 10).saw("0").m(1)),
            "had seen absent",
        ),
        (
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0"))
                .op(op("w", "delete", "/a", 3, 20))
                .op(op("s", "read", "/a", 5, 6).saw("0"))
                .op(op("s", "read", "/a", 7, 8))
                .op(op("s", "read", "/a", 9, 10).saw("0")),
            "had seen absent",
        ),
        (
            Build::new()
                .op(op("w", "create", "/a", 1, 2).put("0"))
                .op(op("s", "delete", "/a", 3, 4))
                .op(op("s", "read", "/a", 9, 10).saw("0")),
            "that it had deleted",
        ),
    ];
    for (b, expect) in table {
        let r = run(&b);
        assert_eq!(count(&r), (1, 0), "{expect}: {r:?}");
        assert!(r.failures[0].evidence.concat().contains(expect), "{r:?}");
    }
}

/// Without the promise no read is asked; an acknowledged change still comes after the one before.
#[test]
fn a_target_whose_reads_may_go_back() {
    let rules = |may_go_back| Rules {
        definite: vec!["BadVersion".into()],
        may_go_back,
        ..Rules::default()
    };
    let written = || {
        Build::new()
            .op(op("s", "write", "/a", 1, 2).put("0").z(5).m(5))
            .op(op("s", "write", "/a", 3, 4).put("1").z(7).m(7))
    };
    // With how many failures where reads are promised to be monotonic, and where they are not.
    let table = vec![
        (
            "an older value",
            written().op(op("s", "read", "/a", 5, 6).saw("0")),
            (1, 0),
        ),
        (
            "an older change",
            written().op(op("s", "read", "/a", 5, 6).saw("0").m(5)),
            (1, 0),
        ),
        (
            "a state of before",
            written().op(op("s", "read", "/a", 5, 6).saw("1").z(6)),
            (1, 0),
        ),
        (
            "nothing yet",
            written().op(op("s", "read", "/a", 5, 6)),
            (1, 0),
        ),
        (
            "what it had deleted",
            written()
                .op(op("s", "delete", "/a", 5, 6).z(8).m(8))
                .op(op("s", "read", "/a", 7, 8).saw("1")),
            (1, 0),
        ),
        (
            "a refusal by a leader that does not know better",
            written().op(op("s", "cas", "/a", 5, 6)
                .put("2")
                .z(6)
                .failed("BadVersion")),
            (1, 0),
        ),
        (
            "a change with a smaller number",
            written().op(op("s", "write", "/b", 5, 6).put("2").z(6).m(6)),
            (1, 1),
        ),
        (
            "the last value",
            written().op(op("s", "read", "/a", 5, 6).saw("1")),
            (0, 0),
        ),
    ];
    for (name, b, (promised, not)) in table {
        for (may_go_back, expect) in [(false, promised), (true, not)] {
            let r = check(&b.product, &rules(may_go_back));
            assert_eq!(count(&r), (expect, 0), "{name}, {may_go_back}: {r:?}");
        }
    }
}
