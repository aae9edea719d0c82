//! Order numbers of changes: one content per change, one change per number, each change once, in the order of time.
//!
//! Rules, over ok operations that carry an order number (`mzxid`):
//! - two answers about one (key, mzxid) have one content;
//! - one number belongs to one change: never to two keys, never to two acknowledged operations;
//! - a value stands under at most as many numbers as there are operations that may have written it: an operation whose answer
//!   was lost may have happened once, not twice;
//! - a change of a key that begins after another was acknowledged has the larger number;
//! - of two acknowledged changes of a key that is never deleted none gives the same version, and no two acknowledged cas asked
//!   for the same one.
//!
//! Why it is right: the number is the system's own name of a change (ZooKeeper's zxid); replicas that disagree about it have
//! diverged, whatever a client may still read.

use super::ops::{Act, Op, Ops};
use super::{CheckResult, Found};
use std::collections::{BTreeMap, BTreeSet};
use warren_model::{Rules, RunProduct};

const NAME: &str = "order";

/// Takes what is wrong and the operations that show it.
type Tell<'t> = &'t mut dyn FnMut(&str, &[&Op<'_>]);

/// The checker.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let ops = Ops::new(product, rules);
    let mut result = CheckResult::pass();
    let mut tell = |what: &str, about: &[&Op<'_>]| {
        let evidence = about.iter().map(|o| ops.tell(o)).collect();
        result.fail(product, Found::of_operations(NAME, what, evidence));
    };
    contents(&ops, &mut tell);
    for rule in [in_time, happened_once, versions] {
        for key in ops.changed_keys() {
            rule(&ops, key, &mut tell);
        }
    }
    // Which names the finding must depend neither on keys nor on which came first.
    ops.settle(NAME, result.sorted_without_names())
}

/// The content an ok operation shows under its order number; `None` in the pair = a delete.
fn shows<'a>(o: &'a Op<'_>) -> Option<(i64, Option<&'a str>)> {
    let m = o.mzxid().filter(|_| o.ok())?;
    match o.act {
        Act::Put => Some((m, Some(o.put_value()))),
        Act::Read => o.seen().map(|v| (m, Some(v))),
        Act::Delete => Some((m, None)),
        Act::Sync => None,
    }
}

fn contents(ops: &Ops<'_>, tell: Tell<'_>) {
    let mut first: BTreeMap<i64, (&Op<'_>, Option<&str>)> = BTreeMap::new();
    let mut change: BTreeMap<i64, &Op<'_>> = BTreeMap::new();
    for o in &ops.all {
        let Some((m, content)) = shows(o) else {
            continue;
        };
        let (known, before) = *first.entry(m).or_insert((o, content));
        if known.key() != o.key() {
            tell(
                "one order number stands for changes of two keys",
                &[known, o],
            );
        } else if before != content {
            tell("one change is shown with two contents", &[known, o]);
        }
        if o.act == Act::Read {
            continue;
        }
        let owner = *change.entry(m).or_insert(o);
        if owner.inv.id != o.inv.id && owner.key() == o.key() && before == content {
            tell(
                "two acknowledged changes have one order number",
                &[owner, o],
            );
        }
    }
}

fn happened_once(ops: &Ops<'_>, key: &str, tell: Tell<'_>) {
    let mut numbers: BTreeMap<&str, (BTreeSet<i64>, Vec<&Op<'_>>)> = BTreeMap::new();
    for o in ops.touching(key) {
        if let Some((m, Some(value))) = shows(o) {
            let entry = numbers.entry(value).or_default();
            if entry.0.insert(m) {
                entry.1.push(o);
            }
        }
    }
    for (value, (numbers, shown)) in numbers {
        let writers = ops.sources(key, value);
        // No writer at all is the phantom checker's finding.
        if !writers.is_empty() && numbers.len() > writers.len() {
            let about: Vec<&Op<'_>> = writers.into_iter().chain(shown).collect();
            tell("a change happened more often than it was asked for", &about);
        }
    }
}

fn in_time(ops: &Ops<'_>, key: &str, tell: Tell<'_>) {
    let mut acknowledged: Vec<(i64, &Op<'_>)> = ops
        .changes(key)
        .filter(|o| o.ok())
        .filter_map(|o| o.mzxid().map(|m| (m, o)))
        .collect();
    acknowledged.sort_by_key(|(_, o)| o.from);
    for (i, (m, o)) in acknowledged.iter().enumerate() {
        let before = acknowledged[..i]
            .iter()
            .find(|(b, e)| e.until < o.from && b > m);
        if let Some((_, e)) = before {
            tell("a later change has a smaller order number", &[e, o]);
            return;
        }
    }
}

fn versions(ops: &Ops<'_>, key: &str, tell: Tell<'_>) {
    if ops.maybe_deleted(key) || ops.maybe_ephemeral(key) {
        return;
    }
    let mut given: BTreeMap<i64, &Op<'_>> = BTreeMap::new();
    let mut asked: BTreeMap<i64, &Op<'_>> = BTreeMap::new();
    for o in ops.changes(key).filter(|o| o.ok()) {
        if let Some(e) = o.inv.expect.filter(|e| *e >= 0 && o.inv.op == "cas") {
            let first = *asked.entry(e).or_insert(o);
            if first.inv.id != o.inv.id {
                tell("two compare-and-set succeeded on one version", &[first, o]);
                return;
            }
        }
        if let Some(v) = o.version() {
            let first = *given.entry(v).or_insert(o);
            if first.inv.id != o.inv.id {
                tell("two acknowledged changes gave one version", &[first, o]);
                return;
            }
        }
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
    fn legal_orders() {
        let table = vec![
            (
                "reads and the write agree",
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").m(5).version(1))
                    .op(op("t", "read", "/a", 3, 4).saw("0").m(5).version(1))
                    .op(op("u", "read", "/a", 3, 4).saw("0").m(5).version(1)),
            ),
            (
                "overlapping writes in either order",
                Build::new()
                    .op(op("s", "write", "/a", 1, 9).put("0").m(7))
                    .op(op("t", "write", "/a", 2, 5).put("1").m(6)),
            ),
            (
                "a retried unknown write may have happened twice: two operations",
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").unknown())
                    .op(op("s", "write", "/a", 3, 4).put("0").m(7).retry_of(1))
                    .op(op("t", "read", "/a", 3, 4).saw("0").m(6)),
            ),
            (
                "versions start again after a delete",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0").m(1).version(0))
                    .op(op("s", "delete", "/a", 3, 4).m(2))
                    .op(op("s", "create", "/a", 5, 6).put("0").m(3).version(0)),
            ),
            (
                "one of two cas failed or is unknown",
                Build::new()
                    .op(op("s", "cas", "/a", 1, 2).put("0").expect(3).version(4))
                    .op(op("t", "cas", "/a", 1, 2)
                        .put("1")
                        .expect(3)
                        .failed("BadVersion"))
                    .op(op("u", "cas", "/a", 1, 2).put("2").expect(3).unknown()),
            ),
            (
                "no order numbers, nothing to compare",
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").m(0))
                    .op(op("s", "write", "/b", 3, 4).put("1").m(0)),
            ),
        ];
        for (name, b) in table {
            assert_eq!(count(&run(&b)), (0, 0), "{name}: {:?}", run(&b));
        }
    }

    #[test]
    fn broken_orders() {
        let table = vec![
            (
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").m(5))
                    .op(op("t", "read", "/a", 3, 4).saw("9").m(5)),
                "two contents",
            ),
            (
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").m(5))
                    .op(op("t", "read", "/b", 3, 4).saw("0").m(5)),
                "two keys",
            ),
            (
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").m(5))
                    .op(op("t", "write", "/a", 1, 2).put("0").m(5)),
                "one order number",
            ),
            (
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").unknown())
                    .op(op("t", "read", "/a", 3, 4).saw("0").m(5))
                    .op(op("t", "read", "/a", 5, 6).saw("0").m(8)),
                "more often",
            ),
            (
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").m(9))
                    .op(op("t", "write", "/a", 3, 4).put("1").m(8)),
                "smaller order number",
            ),
            (
                Build::new()
                    .op(op("s", "cas", "/a", 1, 2).put("0").expect(3))
                    .op(op("t", "cas", "/a", 1, 2).put("1").expect(3)),
                "two compare-and-set",
            ),
            (
                Build::new()
                    .op(op("s", "write", "/a", 1, 2).put("0").version(3))
                    .op(op("t", "write", "/a", 3, 4).put("1").version(3)),
                "gave one version",
            ),
        ];
        for (b, expect) in table {
            let r = run(&b);
            assert_eq!(count(&r), (1, 0), "{expect}: {r:?}");
            assert!(r.failures[0].normalised.contains(expect), "{r:?}");
        }
    }
}
