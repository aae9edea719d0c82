//! Acknowledged changes survive the death of all nodes: on some runs every node is killed and started once more, and asked again.
//!
//! Rule: the final-state rule of [`super::acknowledged`], over the last complete round made after that restart. Right for the
//! same reason; SIGKILL keeps the page cache, so this asks whether data was written at all, not whether it was forced.

use super::CheckResult;
use super::acknowledged::{final_state, tells_content};
use super::rounds::{last_complete, rounds};
use warren_model::{Observation, Rules, RunProduct};

const NAME: &str = "durability";

/// The checker; silent when the restart was not made.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let all = rounds(product);
    let mut result = CheckResult::pass();
    match last_complete(&all, true, tells_content) {
        Ok(round) => return final_state(product, rules, NAME, round),
        Err(true) => result.unknown(
            NAME,
            "no round of observations after the restart is complete",
        ),
        Err(false) => {
            let said = product
                .observations
                .iter()
                .any(|o| matches!(o, Observation::Incomplete { what, .. } if what == NAME));
            if product.record.durable_asked && !said {
                result.unknown(NAME, "nothing was observed after the restart");
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count, op};
    use warren_model::{Phase, Stage};

    fn written() -> Build {
        let mut b = Build::new()
            .op(op("s", "create", "/a", 1, 2).put("0"))
            .op(op("s", "write", "/a", 3, 4).put("1"))
            .op(op("s", "create", "/b", 5, 6).put("0").unknown());
        b.product.record.durable_asked = true;
        b
    }

    /// With looks at 10 and 40 ms, and a further write that was answered then.
    fn written_between(answered: u64) -> Build {
        written()
            .phase(Phase::Final, 10)
            .op(op("t", "write", "/a", 11, answered).put("2"))
            .phase(Phase::Final, 40)
    }

    #[test]
    fn legal_restarts() {
        for (name, b) in [
            ("all is there", written().durable(&[("/a", "1")])),
            (
                "the unknown one is there too",
                written().durable(&[("/a", "1"), ("/b", "0")]),
            ),
            (
                "healed and durable are judged apart",
                written().everywhere(&[("/a", "0")]).durable(&[("/a", "1")]),
            ),
            (
                "answered after this look began, so it may be missing",
                written_between(50).durable(&[("/a", "1")]),
            ),
            ("not asked, nothing to say", Build::new()),
        ] {
            assert_eq!(
                count(&check(&b.product, &Rules::default())),
                (0, 0),
                "{name}"
            );
        }
    }

    #[test]
    fn losses_by_restart() {
        for (name, b) in [
            ("all is gone", written().durable(&[])),
            ("the last write is gone", written().durable(&[("/a", "0")])),
            ("another value", written().durable(&[("/a", "9")])),
            (
                "answered after the look before the restart, and gone in this one",
                written_between(30).durable(&[("/a", "1")]),
            ),
            (
                "it was there before the restart",
                written().everywhere(&[("/a", "1")]).durable(&[("/a", "0")]),
            ),
        ] {
            let r = check(&b.product, &Rules::default());
            assert_eq!(count(&r), (1, 0), "{name}");
            assert_eq!(r.failures[0].stage, Stage::Durable, "{name}");
        }
    }

    #[test]
    fn a_restart_nobody_looked_at_is_unknown() {
        assert_eq!(count(&check(&written().product, &Rules::default())), (0, 1));
        let told = written().obs(Observation::Incomplete {
            what: "durability".into(),
            why: "no quorum".into(),
        });
        assert_eq!(
            count(&check(&told.product, &Rules::default())),
            (0, 0),
            "told elsewhere"
        );
    }
}
