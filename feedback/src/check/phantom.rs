//! Reads see only what somebody wrote: never a value nobody wrote, never one of an operation that failed, never one of the future.
//!
//! Rule: an ok read of a key that the history changes returns, if it returns a value, that of a put that may have happened and
//! that began before the read ended. Why it is right: it holds however stale a read may be, so no promise of freshness is needed
//! (CrashFuzz section V-B, data staleness and wrong data). A read that found nothing is not asked:
//! a lagging replica may not have the key yet. A read whose own outcome is unknown tells nothing.

use super::ops::{Act, Ops};
use super::{CheckResult, Found};
use warren_model::{Rules, RunProduct};

const NAME: &str = "phantom";

/// The checker.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let ops = Ops::new(product, rules);
    let mut result = CheckResult::pass();
    for read in ops.reads() {
        let Some(value) = read.seen() else { continue };
        let sources = ops.sources(read.key(), value);
        if sources.iter().any(|s| s.from < read.until) {
            continue;
        }
        let failed = ops
            .changes(read.key())
            .find(|o| o.act == Act::Put && !o.possible() && o.put_value() == value);
        let (what, cause) = match (sources.first(), failed) {
            (Some(s), _) => ("a read saw a value that was written later", Some(*s)),
            (None, Some(f)) => ("a read saw the value of a change that failed", Some(f)),
            (None, None) => ("a read saw a value that nobody wrote", None),
        };
        let mut evidence = vec![ops.tell(read)];
        evidence.extend(cause.map(|o| ops.tell(o)));
        result.fail(
            product,
            Found {
                node: read.inv.server.clone(),
                ..Found::of_operations(NAME, what, evidence)
            },
        );
    }
    ops.settle(NAME, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count, op};

    fn run(b: Build) -> CheckResult {
        let rules = Rules {
            definite: vec!["NodeExists".into()],
            ..Rules::default()
        };
        check(&b.product, &rules)
    }

    #[test]
    fn legal_reads() {
        let table = [
            (
                "a stale read in a new session",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4).put("1"))
                    .op(op("t", "read", "/a", 9, 10).saw("0")),
            ),
            (
                "nothing there yet on a lagging replica",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("t", "read", "/a", 9, 10)),
            ),
            (
                "the value of a write that is still going on",
                Build::new()
                    .op(op("s", "create", "/a", 1, 8).put("0"))
                    .op(op("t", "read", "/a", 2, 3).saw("0")),
            ),
            (
                "the value of an unknown write",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0").unknown())
                    .op(op("t", "read", "/a", 9, 10).saw("0")),
            ),
            (
                "the first try of a create whose retry found it there",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0").unknown())
                    .op(op("s", "create", "/a", 3, 4)
                        .put("0")
                        .failed("NodeExists")
                        .retry_of(1))
                    .op(op("t", "read", "/a", 9, 10).saw("0")),
            ),
            (
                "a read whose outcome is unknown tells nothing",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("t", "read", "/a", 9, 10).saw("junk").unknown()),
            ),
            (
                "a key nobody changed",
                Build::new().op(op("t", "read", "/zookeeper", 9, 10).saw("x")),
            ),
        ];
        for (name, b) in table {
            assert_eq!(count(&run(b)), (0, 0), "{name}");
        }
    }

    #[test]
    fn phantoms() {
        let table = [
            (
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("t", "read", "/a", 3, 4).saw("5")),
                "nobody wrote",
            ),
            (
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("u", "create", "/a", 3, 4).put("1").failed("NodeExists"))
                    .op(op("t", "read", "/a", 5, 6).saw("1")),
                "change that failed",
            ),
            (
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("t", "read", "/a", 3, 4).saw("1"))
                    .op(op("s", "write", "/a", 5, 6).put("1")),
                "written later",
            ),
        ];
        for (b, expect) in table {
            let r = run(b);
            assert_eq!(count(&r), (1, 0), "{expect}");
            assert!(r.failures[0].normalised.contains(expect), "{r:?}");
        }
    }

    #[test]
    fn a_torn_history_is_no_evidence() {
        let mut b = Build::new()
            .op(op("s", "create", "/a", 1, 2).put("0"))
            .op(op("t", "read", "/a", 3, 4).saw("5"));
        b.product.broken_lines.push("history.jsonl".into());
        assert_eq!(count(&run(b)), (0, 1));
    }
}
