//! What a read's own order number covers: an answer that says which state it is of must show that state.
//!
//! Rule, over ok reads that saw a value and carry both numbers (`zxid` of the answer, `mzxid` of the change seen): no acknowledged change
//! of the key has an order number above the change seen and not above the answer's.
//!
//! Why it is right: the answer's number says that all changes up to it are in the state that was read; a change of the key among them,
//! later than the one that is shown, would have replaced it. Neither lag nor a move explains that: a stale answer has a stale number
//! (without `sync` a stale read is legal). A read that saw nothing is not asked: a delete whose answer was lost, or a
//! session's end, may have come in between.

use super::ops::{Op, Ops};
use super::{CheckResult, Found};
use warren_model::{Rules, RunProduct};

const NAME: &str = "covered";

/// The checker.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let ops = Ops::new(product, rules);
    let mut result = CheckResult::pass();
    for read in ops.reads() {
        if let Some(change) = hidden(&ops, read) {
            result.fail(
                product,
                Found::of_operations(
                    NAME,
                    "a read does not show an acknowledged change that its order number covers",
                    vec![
                        ops.tell(change),
                        format!(
                            "{}, answered at {:#x}",
                            ops.tell(read),
                            read.zxid().unwrap_or(0)
                        ),
                    ],
                ),
            );
        }
    }
    ops.settle(NAME, result)
}

/// The first acknowledged change of the key that the answer covers and what it shows comes before.
fn hidden<'o, 'a>(ops: &'o Ops<'a>, read: &Op<'_>) -> Option<&'o Op<'a>> {
    read.seen()?;
    let (seen, covered) = (read.mzxid()?, read.zxid()?);
    ops.changes(read.key())
        .filter(|c| c.ok())
        .filter_map(|c| Some((c.mzxid()?, c)))
        .filter(|(m, _)| seen < *m && *m <= covered)
        .min_by_key(|(m, _)| *m)
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, Op, count, op};

    /// A write that was acknowledged with number 7, and this read.
    fn with(read: Op) -> CheckResult {
        let b = Build::new()
            .op(op("s", "create", "/a", 1, 2).put("0").z(5).m(5))
            .op(op("s", "write", "/a", 3, 4).put("1").z(7).m(7))
            .op(read);
        check(&b.product, &Rules::default())
    }

    fn read() -> Op {
        op("t", "read", "/a", 5, 6)
    }

    #[test]
    fn stale_answers_have_stale_numbers() {
        let table = [
            ("the change", read().saw("1").m(7).z(7)),
            ("the change, later", read().saw("1").m(7).z(9)),
            ("the state before it", read().saw("0").m(5).z(6)),
            ("a later change", read().saw("2").m(8).z(8)),
            ("nothing: a lost delete may have come", read().z(9)),
            ("no number of the answer", read().saw("0").m(5)),
            ("no number of the change", read().saw("0").z(9)),
            ("no answer", read().saw("0").m(5).z(9).unknown()),
            (
                "another key",
                op("t", "read", "/b", 5, 6).saw("0").m(5).z(9),
            ),
        ];
        for (name, read) in table {
            let r = with(read);
            assert_eq!(count(&r), (0, 0), "{name}: {r:?}");
        }
    }

    #[test]
    fn a_covered_change_that_is_not_shown() {
        for z in [7, 8, 100] {
            let r = with(read().saw("0").m(5).z(z));
            assert_eq!(count(&r), (1, 0), "{z}: {r:?}");
            assert!(r.failures[0].evidence[1].contains("write /a=1"), "{r:?}");
            // Lists of known bugs name it.
            assert_eq!(r.failures[0].signature, "816ccd2b");
        }
    }

    #[test]
    fn a_covered_delete() {
        let b = Build::new()
            .op(op("s", "create", "/a", 1, 2).put("0").z(5).m(5))
            .op(op("s", "delete", "/a", 3, 4).z(7).m(7))
            .op(read().saw("0").m(5).z(7));
        let r = check(&b.product, &Rules::default());
        assert_eq!(count(&r), (1, 0), "{r:?}");
    }

    #[test]
    fn a_change_that_nobody_acknowledged_is_not_missed() {
        let b = Build::new()
            .op(op("s", "create", "/a", 1, 2).put("0").z(5).m(5))
            .op(op("s", "write", "/a", 3, 4).put("1").unknown())
            .op(read().saw("0").m(5).z(9));
        let r = check(&b.product, &Rules::default());
        assert_eq!(count(&r), (0, 0), "{r:?}");
    }
}
