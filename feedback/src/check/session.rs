//! Session guarantees: within one session time does not run backwards.
//!
//! Rules, over operations of one session of which the first had ended before the second began:
//! - the system's order number (`zxid`) never falls;
//! - a read never sees an older change of a key than this session saw or made before (by `mzxid`; without it by version when the
//!   key is never deleted; without that by values whose puts are strictly ordered in time);
//! - what this session saw or made is not absent later unless a delete that may have happened can lie between, and what was
//!   absent does not come back unchanged.
//!
//! Why it is right: monotonic reads and read-your-writes hold in every system that lets a client reconnect only to a server at
//! least as new as what it saw. Staleness is legal: a session may see old states, only never older ones than before, also after
//! a move. Operations that overlap are not compared.

use super::ops::{Act, Op, Ops};
use super::{CheckResult, Found};
use std::collections::BTreeMap;
use warren_model::{Outcome, Rules, RunProduct};

const NAME: &str = "session";
const CAME_BACK: &str = "a session saw a key again that it had seen absent";

/// The checker.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let ops = Ops::new(product, rules);
    let mut result = CheckResult::pass();
    let mut sessions: BTreeMap<&str, Vec<&Op<'_>>> = BTreeMap::new();
    for o in &ops.all {
        sessions.entry(&o.inv.session).or_default().push(o);
    }
    // Rule by rule: which comes first, and so names the finding, must not depend on the names of sessions.
    for rule in [falling_order as Rule, older_reads] {
        for (what, evidence) in sessions.values().flat_map(|own| rule(own, &ops)) {
            result.fail(product, Found::of_operations(NAME, what, evidence));
        }
    }
    ops.settle(NAME, result)
}

type Told = (String, Vec<String>);
/// What a rule tells of one session's operations.
type Rule = fn(&[&Op<'_>], &Ops<'_>) -> Vec<Told>;

/// Calls `each(before, op)` for every operation in order of its begin, after `before` took in all that had ended by then.
fn walk<'o, 'p, B: Default>(
    own: &[&'o Op<'p>],
    mut take: impl FnMut(&mut B, &'o Op<'p>),
    mut each: impl FnMut(&B, &'o Op<'p>),
) {
    let mut begins = own.to_vec();
    begins.sort_by_key(|o| o.from);
    let mut ends: Vec<_> = own.iter().filter(|o| o.done.is_some()).copied().collect();
    ends.sort_by_key(|o| o.done.map_or(u64::MAX, |d| d.t_ns));
    let mut ends = ends.into_iter().peekable();
    let mut before = B::default();
    for o in begins {
        while let Some(e) = ends.next_if(|e| e.done.is_some_and(|d| d.t_ns < o.from)) {
            take(&mut before, e);
        }
        each(&before, o);
    }
}

fn falling_order(own: &[&Op<'_>], ops: &Ops<'_>) -> Vec<Told> {
    let mut told = Vec::new();
    let answered = |o: &Op<'_>| o.zxid().filter(|_| o.outcome != Outcome::Unknown);
    walk(
        own,
        |best: &mut Option<(i64, &Op<'_>)>, e| {
            if let Some(z) = answered(e)
                && best.is_none_or(|(b, _)| z > b)
            {
                *best = Some((z, e));
            }
        },
        |best, o| {
            if let (Some((z, e)), Some(now)) = (*best, answered(o))
                && now < z
            {
                told.push((
                    "the order number of the system fell within a session".to_owned(),
                    vec![
                        format!("{z:#x} at {}", ops.tell(e)),
                        format!("{now:#x} at {}", ops.tell(o)),
                    ],
                ));
            }
        },
    );
    told
}

/// What a session knows of a key: everything it saw or made, in order.
type Known<'o, 'p> = BTreeMap<&'o str, Vec<&'o Op<'p>>>;

fn older_reads(own: &[&Op<'_>], ops: &Ops<'_>) -> Vec<Told> {
    let mut told = Vec::new();
    walk(
        own,
        |known: &mut Known<'_, '_>, e| {
            if e.ok() && e.act != Act::Sync && ops.judged(e.key()) {
                known.entry(e.key()).or_default().push(e);
            }
        },
        |known, o| {
            if o.act != Act::Read || !o.ok() {
                return;
            }
            let Some(before) = known.get(o.key()) else {
                return;
            };
            for (i, b) in before.iter().enumerate() {
                let between = &before[i + 1..];
                if let Some(what) = goes_back(b, between, o, ops) {
                    told.push((
                        "a session saw an older state of a key than before".to_owned(),
                        vec![what.to_owned(), ops.tell(b), ops.tell(o)],
                    ));
                    return;
                }
            }
        },
    );
    told
}

/// Whether a read shows an older state of the key than an earlier operation of the session. `between` are the operations of
/// the session on this key that ended after `before` and before the read; they may have begun before it.
fn goes_back(
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
            // Asked of few only: histories are long.
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
            // Without order numbers a value that one operation wrote is one change, unless that may have been on its way still when the key was absent.
            if was == now
                && let [only] = ops.sources(key, now)[..]
                && between.iter().any(|o| gone(o) && only.until < o.from)
            {
                return Some(CAME_BACK);
            }
            let newest_now = ops.sources(key, now).iter().map(|s| s.until).max()?;
            let oldest_was = match before.act {
                Act::Put => before.from,
                _ => ops.sources(key, was).iter().map(|s| s.from).min()?,
            };
            (newest_now < oldest_was).then_some("a session saw an older value than before")
        }
        (Some(was), None) => {
            if ops.maybe_ephemeral(key) {
                return None;
            }
            let oldest = match before.act {
                Act::Put => before.from,
                // The content may have been old when it was seen: a delete long before that read explains the absence.
                _ => ops.sources(key, was).iter().map(|s| s.from).min()?,
            };
            let explained = ops
                .deletes(key)
                .any(|d| d.until > oldest && d.from < read.until);
            (!explained).then_some("a key that a session knew is absent and nobody deleted it")
        }
        (None, Some(now)) if before.act == Act::Delete => {
            // Read-your-writes for deletes: only a put that can lie after the delete brings the key back.
            let newest = ops.sources(key, now).iter().map(|s| s.until).max()?;
            (newest < before.from).then_some("a session saw a key again that it had deleted")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count, op};

    fn run(b: &Build) -> CheckResult {
        check(&b.product, &Rules::default())
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
}
