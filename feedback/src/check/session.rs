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

/// What a session knows of a key.
#[derive(Default)]
struct Known<'o, 'p> {
    /// Everything it saw or made, in order.
    ops: Vec<&'o Op<'p>>,
    /// When the last operation began that saw or made it absent.
    absent: Option<u64>,
}

/// A session saw or made the key absent by this operation.
fn absent(o: &Op<'_>) -> bool {
    o.act == Act::Delete || (o.act == Act::Read && o.seen().is_none())
}

fn older_reads(own: &[&Op<'_>], ops: &Ops<'_>) -> Vec<Told> {
    let mut told = Vec::new();
    walk(
        own,
        |known: &mut BTreeMap<&str, Known<'_, '_>>, e| {
            if e.ok() && e.act != Act::Sync && ops.judged(e.key()) {
                let known = known.entry(e.key()).or_default();
                known.ops.push(e);
                if absent(e) {
                    known.absent = known.absent.max(Some(e.from));
                }
            }
        },
        |known, o| {
            if o.act != Act::Read || !o.ok() {
                return;
            }
            let Some(before) = known.get(o.key()) else {
                return;
            };
            let since = Since {
                absent: before.absent,
                deleted: match o.seen() {
                    None => deleted_until(o, ops),
                    Some(_) => None,
                },
            };
            for b in &before.ops {
                if let Some(what) = goes_back(b, since, o, ops) {
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

/// What a read is asked of all that came before it, once for all of them.
#[derive(Clone, Copy)]
struct Since {
    /// When the last operation of the session began that ended before the read and found the key absent: began it after another one had
    /// ended, it came between that and the read.
    absent: Option<u64>,
    /// Until when a delete may have happened of those that may have begun before the read ended; asked of a read that finds nothing.
    deleted: Option<u64>,
}

fn deleted_until(read: &Op<'_>, ops: &Ops<'_>) -> Option<u64> {
    let deletes = ops.deletes(read.key());
    let earlier = deletes.filter(|d| d.from < read.until);
    earlier.map(|d| d.until).max()
}

/// Whether a read shows an older state of the key than an earlier operation of the session.
fn goes_back(before: &Op<'_>, since: Since, read: &Op<'_>, ops: &Ops<'_>) -> Option<&'static str> {
    let key = read.key();
    let deleted_ever = ops.maybe_deleted(key) || ops.maybe_ephemeral(key);
    let content = match before.act {
        Act::Put => Some(before.put_value()),
        Act::Read => before.seen(),
        Act::Delete | Act::Sync => None,
    };
    match (content, read.seen()) {
        (Some(was), Some(now)) => {
            let gone_after = |t: u64| since.absent.is_some_and(|from| from > t);
            if let (Some(b), Some(r)) = (before.mzxid(), read.mzxid()) {
                if r < b {
                    return Some("a session saw an older change than before");
                }
                return (r == b && gone_after(before.until)).then_some(CAME_BACK);
            }
            if let (Some(b), Some(r), false) = (before.version(), read.version(), deleted_ever) {
                return (r < b).then_some("a session saw an older version than before");
            }
            // Without order numbers a value that one operation wrote is one change, unless that may have been on its way still when the key was absent.
            let sources = ops.written(key, now)?;
            if was == now && sources.once() && gone_after(before.until.max(sources.until)) {
                return Some(CAME_BACK);
            }
            let oldest_was = match before.act {
                Act::Put => before.from,
                _ => ops.written(key, was)?.from,
            };
            (sources.until < oldest_was).then_some("a session saw an older value than before")
        }
        (Some(was), None) => {
            if ops.maybe_ephemeral(key) {
                return None;
            }
            let oldest = match before.act {
                Act::Put => before.from,
                // The content may have been old when it was seen: a delete long before that read explains the absence.
                _ => ops.written(key, was)?.from,
            };
            let explained = since.deleted.is_some_and(|until| until > oldest);
            (!explained).then_some("a key that a session knew is absent and nobody deleted it")
        }
        (None, Some(now)) if before.act == Act::Delete => {
            // Read-your-writes for deletes: only a put that can lie after the delete brings the key back.
            let newest = ops.written(key, now)?.until;
            (newest < before.from).then_some("a session saw a key again that it had deleted")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
                if let (Some(b), Some(r), false) = (before.version(), read.version(), deleted_ever)
                {
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
}
