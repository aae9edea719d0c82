//! The exclusive role: after healing exactly one node has it, one per epoch; and epochs never fall on a node.
//!
//! Rules:
//! - in the last complete round with leaders, no two nodes say they lead in one epoch, and no two lead at all;
//! - a number written as `epoch` observation never falls on its node, over all incarnations, by time.
//!
//! Why it is right: only after healing. During a fault a deposed leader that does not know it yet is legal, so nothing before
//! the healed round is asked. One leader per epoch is what elections promise; a vote or epoch that falls on a node's disk lets
//! it vote twice. No leader at all is a question of liveness and asked by the stable state; here it is unknown. Only for targets
//! with a role of which there must be one (`[role] lead`).

use super::rounds::{last_complete, rounds};
use super::{CheckResult, Found};
use std::collections::{BTreeMap, BTreeSet};
use warren_model::{FailureKind, NodeName, Observation, Rules, RunProduct, Stage};

const LEADER: &str = "leader";
const EPOCHS: &str = "epochs";

/// The exclusive role.
#[must_use]
pub fn check_leader(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    if rules.lead_role.is_empty() {
        return result;
    }
    let all = rounds(product);
    for durable in [false, true] {
        let wanted = |o: &Observation| matches!(o, Observation::Leader { .. });
        let round = match last_complete(&all, durable, wanted) {
            Ok(round) => round,
            Err(seen) => {
                let said = product
                    .observations
                    .iter()
                    .any(|o| matches!(o, Observation::Incomplete { what, .. } if what == LEADER));
                if seen {
                    result.unknown(LEADER, "no round with a leader is complete");
                } else if !said && all.iter().any(|r| r.complete && r.durable == durable) {
                    result.unknown(LEADER, "no node says that it leads");
                }
                continue;
            }
        };
        let mut by_epoch: BTreeMap<&str, BTreeSet<&NodeName>> = BTreeMap::new();
        for o in &round.seen {
            if let Observation::Leader { node, epoch, .. } = o {
                by_epoch.entry(epoch).or_default().insert(node);
            }
        }
        let nodes: BTreeSet<_> = by_epoch.values().flatten().collect();
        if nodes.len() < 2 {
            continue;
        }
        let same = by_epoch.values().any(|n| n.len() > 1);
        result.fail(
            product,
            Found {
                checker: LEADER,
                kind: FailureKind::Safety,
                stage: if durable {
                    Stage::Durable
                } else {
                    Stage::Healed
                },
                role: Some(rules.lead_role.clone()),
                node: None,
                what: if same {
                    "two nodes lead in one epoch".into()
                } else {
                    "two nodes lead, in different epochs".into()
                },
                evidence: by_epoch
                    .iter()
                    .map(|(epoch, nodes)| format!("epoch {epoch}: {nodes:?}"))
                    .collect(),
            },
        );
    }
    result
}

/// The epochs that were read during the run: node, the number's name, when, value.
pub(crate) fn sampled_epochs(
    product: &RunProduct,
) -> impl Iterator<Item = (&NodeName, &str, u64, i64)> {
    product.observations.iter().filter_map(|o| match o {
        Observation::Epoch {
            node,
            name,
            value,
            t_ns,
        } => Some((node, name.as_str(), *t_ns, *value)),
        _ => None,
    })
}

/// Numbers that never fall.
#[must_use]
pub fn check_epochs(product: &RunProduct, _: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    let mut series: BTreeMap<(&NodeName, &str), Vec<(u64, i64)>> = BTreeMap::new();
    for (node, name, t, value) in sampled_epochs(product) {
        series.entry((node, name)).or_default().push((t, value));
    }
    for ((node, name), mut values) in series {
        values.sort_by_key(|(t, _)| *t);
        let fall = values.windows(2).find(|w| w[1].1 < w[0].1);
        if let Some([(t0, from), (t1, to)]) = fall {
            result.fail(
                product,
                Found {
                    checker: EPOCHS,
                    kind: FailureKind::Safety,
                    stage: Stage::Test,
                    role: None,
                    node: Some(node.clone()),
                    what: format!("{name} fell on a node"),
                    evidence: vec![format!(
                        "{node}: {from} at {t0} ns, {to} at {t1} ns; all: {values:?}"
                    )],
                },
            );
        }
    }
    result.sorted_without_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count};

    fn rules() -> Rules {
        Rules {
            lead_role: "leader".into(),
            ..Rules::default()
        }
    }

    fn leads(b: Build, leaders: &[(&str, &str)]) -> Build {
        leaders.iter().fold(b, |b, (node, epoch)| {
            b.obs(Observation::Leader {
                node: (*node).into(),
                epoch: (*epoch).into(),
                durable: false,
            })
        })
    }

    #[test]
    fn one_leader_after_healing() {
        type Case = (
            &'static str,
            Vec<(&'static str, &'static str)>,
            bool,
            (usize, usize),
        );
        let table: Vec<Case> = vec![
            ("one", vec![("n1", "3")], true, (0, 0)),
            ("said twice", vec![("n1", "3"), ("n1", "3")], true, (0, 0)),
            (
                "said in two epochs by one",
                vec![("n1", "3"), ("n1", "4")],
                true,
                (0, 0),
            ),
            ("torn round", vec![("n1", "3"), ("n2", "3")], false, (0, 1)),
            ("nobody", vec![], true, (0, 1)),
            (
                "two in one epoch",
                vec![("n1", "3"), ("n2", "3")],
                true,
                (1, 0),
            ),
            ("two epochs", vec![("n1", "3"), ("n2", "4")], true, (1, 0)),
            (
                "three",
                vec![("n1", "3"), ("n2", "4"), ("n3", "4")],
                true,
                (1, 0),
            ),
        ];
        for (name, leaders, complete, expect) in table {
            let b = leads(Build::new(), &leaders).round(complete);
            assert_eq!(count(&check_leader(&b.product, &rules())), expect, "{name}");
            assert_eq!(count(&check_leader(&b.product, &Rules::default())), (0, 0));
        }
        // An earlier round with the old leader is history.
        let b = leads(
            leads(Build::new(), &[("n1", "3")]).round(true),
            &[("n2", "4")],
        )
        .round(true);
        assert_eq!(count(&check_leader(&b.product, &rules())), (0, 0));
        assert_eq!(
            count(&check_leader(&Build::new().product, &rules())),
            (0, 0)
        );
    }

    #[test]
    fn epochs_rise_on_each_node() {
        type Case = (Vec<(&'static str, &'static str, i64, u64)>, usize);
        let table: Vec<Case> = vec![
            (vec![], 0),
            (
                vec![("n1", "e", 1, 1), ("n1", "e", 1, 2), ("n1", "e", 2, 3)],
                0,
            ),
            (vec![("n1", "e", 2, 1), ("n2", "e", 1, 2)], 0),
            (vec![("n1", "e", 2, 1), ("n1", "f", 1, 2)], 0),
            (vec![("n1", "e", 2, 5), ("n1", "e", 1, 4)], 0),
            (vec![("n1", "e", 2, 1), ("n1", "e", 1, 2)], 1),
            (
                vec![("n1", "e", 2, 1), ("n1", "e", 0, 2), ("n1", "e", 3, 3)],
                1,
            ),
            (
                vec![
                    ("n1", "e", 2, 1),
                    ("n1", "e", 1, 2),
                    ("n2", "f", 2, 1),
                    ("n2", "f", 1, 2),
                ],
                2,
            ),
        ];
        for (values, expect) in table {
            let mut b = Build::new();
            for (node, name, value, t) in &values {
                b = b.obs(Observation::Epoch {
                    node: (*node).into(),
                    name: (*name).into(),
                    value: *value,
                    t_ns: *t,
                });
            }
            let r = check_epochs(&b.product, &rules());
            assert_eq!(count(&r), (expect, 0), "{values:?}");
        }
    }
}
