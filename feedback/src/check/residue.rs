//! What the workload's last look reports as it is: leftovers, mismatches the system itself admits, and checks it could not make.
//!
//! Rules:
//! - leftover: an ephemeral, lease or lock that stands although its owner's session is over and the wait for its end has passed
//!   (the workload waits on the condition, two session timeouts at most): a leak;
//! - mismatch: the system says that it is inconsistent (ZooKeeper: "Digests are not matching"): safety;
//! - incomplete: the workload could not ask: unknown with its reason, never a pass.
//!
//! Why it is right: the workload alone can know these; it writes a leftover only when the limit has passed, so slowness is not
//! taken for a leak, and what it could not ask it says. A limit that passed while the machine stood still says nothing, as everywhere.

use super::liveness::failed;
use super::{CheckResult, Found};
use warren_model::{FailureKind, Observation, Phase, Rules, RunProduct, Stage};

/// Leaks.
#[must_use]
pub fn check_leftovers(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    for o in &product.observations {
        if let Observation::Leftover { kind, key, owner } = o {
            failed(
                &mut result,
                product,
                rules,
                Phase::Final,
                Found {
                    checker: "leftovers",
                    kind: FailureKind::Liveness,
                    stage: Stage::Healed,
                    role: None,
                    node: None,
                    what: format!("{kind} is still there though its owner is gone"),
                    evidence: vec![format!("{key}, owner {owner}")],
                },
            );
        }
    }
    result
}

/// What the system itself says is wrong.
#[must_use]
pub fn check_mismatch(product: &RunProduct, _: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    for o in &product.observations {
        if let Observation::Mismatch { node, what, detail } = o {
            result.fail(
                product,
                Found {
                    checker: "mismatch",
                    kind: FailureKind::Safety,
                    stage: Stage::Healed,
                    role: None,
                    node: Some(node.clone()),
                    what: format!("the system says it is inconsistent: {what}"),
                    evidence: vec![format!("{node}: {detail}")],
                },
            );
        }
    }
    result.sorted_without_names()
}

/// Questions the workload could not ask.
#[must_use]
pub fn check_incomplete(product: &RunProduct, _: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    for o in &product.observations {
        if let Observation::Incomplete { what, why } = o {
            result.unknown(what, why.clone());
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count};

    fn leftover(key: &str, owner: &str) -> Observation {
        Observation::Leftover {
            kind: "ephemeral".into(),
            key: key.into(),
            owner: owner.into(),
        }
    }

    fn mismatch(what: &str) -> Observation {
        Observation::Mismatch {
            node: "n1".into(),
            what: what.into(),
            detail: "zxid 0x7".into(),
        }
    }

    fn incomplete(why: &str) -> Observation {
        Observation::Incomplete {
            what: "leftovers".into(),
            why: why.into(),
        }
    }

    /// What was waited for in vain while the machine stood still may only have been late.
    #[test]
    fn a_stall_excuses_a_leftover() {
        let rules = Rules {
            tick_ms: 500,
            ..Rules::default()
        };
        for (still, expect) in [(200, (1, 0)), (300, (0, 1))] {
            let mut product = Build::new().obs(leftover("/e", "0x1")).product;
            product.record.stalls_ms.insert(Phase::Final, still);
            assert_eq!(
                count(&check_leftovers(&product, &rules)),
                expect,
                "{still} ms"
            );
        }
    }

    #[test]
    fn each_observation_goes_to_its_checker() {
        type Case = (Vec<Observation>, usize, usize, usize);
        let table: Vec<Case> = vec![
            (vec![], 0, 0, 0),
            (vec![incomplete("no quorum")], 0, 0, 1),
            (
                vec![incomplete("no quorum"), incomplete("no quorum")],
                0,
                0,
                1,
            ),
            (vec![leftover("/e1", "0x1")], 1, 0, 0),
            // The same story about two keys: one signature, told once.
            (
                vec![leftover("/e1", "0x1"), leftover("/e2", "0x2")],
                1,
                0,
                0,
            ),
            (
                vec![leftover("/e", "0x1"), leftover("/lock", "0x2")],
                1,
                0,
                0,
            ),
            (vec![mismatch("digest")], 0, 1, 0),
            (vec![mismatch("digest"), mismatch("epoch")], 0, 2, 0),
            (
                vec![mismatch("digest"), incomplete("x"), leftover("/e", "1")],
                1,
                1,
                1,
            ),
        ];
        for (seen, left, mis, inc) in table {
            let p = seen.iter().cloned().fold(Build::new(), Build::obs).product;
            let rules = Rules::default();
            assert_eq!(count(&check_leftovers(&p, &rules)), (left, 0), "{seen:?}");
            assert_eq!(count(&check_mismatch(&p, &rules)), (mis, 0), "{seen:?}");
            assert_eq!(count(&check_incomplete(&p, &rules)), (0, inc), "{seen:?}");
        }
    }
}
