//! Acknowledged changes are there after healing, on every replica; failed ones are not.
//!
//! Rule: in a complete round of final observations each key has, on each replica, a content that some order of its operations
//! allows: it comes from a put that may have happened (ok or unknown) and after whose effect no acknowledged change of the key
//! began; a key is absent only if no acknowledged put was made, or a delete that may have happened can be the last change.
//!
//! Why it is right: an acknowledged change that begins after another's latest possible effect comes after it in every order, so
//! the other's content cannot be the last. Operations that overlap may take either order; an unknown one may have happened up to
//! the end of its session, so it may well be the last one standing. Keys nobody changed are the system's own. Ephemerals may be
//! gone at any time here; that they are gone in the end is the leftovers' question. Design section 8, Safety; CrashFuzz section
//! V-B (data loss).

use super::ops::{Act, Op, Ops, shown};
use super::rounds::{Replicas, Round, last_complete, rounds, torn};
use super::{CheckResult, Found};
use std::collections::BTreeMap;
use warren_model::{FailureKind, NodeName, Observation, Rules, RunProduct, Stage};

/// The checker after healing.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let all = rounds(product);
    match last_complete(&all, false, tells_content) {
        Ok(round) => final_state(product, rules, "acknowledged", round),
        Err(seen) => {
            let mut result = CheckResult::pass();
            if seen {
                result.unknown("acknowledged", "no round of final observations is complete");
            } else if product.observations.is_empty() && !product.history.is_empty() {
                result.unknown("acknowledged", "the run ended without final observations");
            }
            result
        }
    }
}

/// What shows that contents were read: a round of digests without one key is a cluster that has lost everything.
pub(super) fn tells_content(o: &Observation) -> bool {
    matches!(o, Observation::Replica { .. } | Observation::Digest { .. })
}

/// What must have happened for a content that cannot be the last of its key. Absent and older content are one cause: it is chance
/// whether the lost change was the first of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Failed,
    Nobody,
    Lost,
}

impl Cause {
    fn text(self) -> &'static str {
        match self {
            Cause::Failed => "a change that failed has happened",
            Cause::Nobody => "there is a value that nobody wrote",
            Cause::Lost => "an acknowledged change is lost",
        }
    }
}

struct Wrong {
    cause: Cause,
    evidence: Vec<String>,
}

/// Judges the replicas of one round; also used after a durability restart.
pub(super) fn final_state(
    product: &RunProduct,
    rules: &Rules,
    checker: &str,
    round: &Round<'_>,
) -> CheckResult {
    let mut result = CheckResult::pass();
    if torn(product) {
        result.unknown(checker, "a line of the observations is broken");
        return result;
    }
    let ops = Ops::new(product, rules);
    let replicas = Replicas::of(round);
    let mut found: Vec<(Cause, bool, &NodeName, Vec<String>)> = Vec::new();
    for key in ops.changed_keys() {
        let mut wrong_at: Vec<(&NodeName, Wrong)> = Vec::new();
        for (node, contents) in &replicas.nodes {
            let content = contents.get(key).map(|c| c.value);
            if let Err(wrong) = possible_last(&ops, key, content) {
                wrong_at.push((*node, wrong));
            }
        }
        let part = wrong_at.len() < replicas.nodes.len();
        let mut by_cause: BTreeMap<Cause, (Vec<&NodeName>, Vec<String>)> = BTreeMap::new();
        for (node, wrong) in wrong_at {
            let entry = by_cause.entry(wrong.cause).or_default();
            entry.0.push(node);
            // What explains one node explains the others with the same content.
            if entry.1.is_empty() {
                entry.1 = wrong.evidence;
            }
        }
        for (cause, (nodes, evidence)) in by_cause {
            let names: Vec<&str> = nodes.iter().map(|n| n.as_str()).collect();
            let mut lines = vec![format!("{key} on {}", names.join(", "))];
            lines.extend(evidence);
            found.push((cause, part, nodes[0], lines));
        }
    }
    // In a fixed order, so that the same bug is filed under the same name whichever keys it hit.
    found.sort_by_key(|(cause, part, ..)| (*cause, *part));
    for (cause, part, node, evidence) in found {
        let place = if part {
            "on a part of the replicas"
        } else {
            "on every replica"
        };
        result.fail(
            product,
            Found {
                checker,
                kind: FailureKind::Safety,
                stage: if round.durable {
                    Stage::Durable
                } else {
                    Stage::Healed
                },
                role: None,
                node: Some(node.clone()),
                what: format!("{} {place}", cause.text()),
                evidence,
            },
        );
    }
    ops.settle(checker, result)
}

/// Whether `found` (`None` = absent) can be the content that all operations together leave behind.
fn possible_last(ops: &Ops<'_>, key: &str, found: Option<&str>) -> Result<(), Wrong> {
    match found {
        Some(value) => possible_content(ops, key, value),
        None => possible_absence(ops, key),
    }
}

fn possible_content(ops: &Ops<'_>, key: &str, value: &str) -> Result<(), Wrong> {
    let sources = ops.sources(key, value);
    if sources.is_empty() {
        // The phantom checker says whose value it is; here it only cannot be.
        let failed = ops
            .changes(key)
            .find(|o| o.act == Act::Put && o.put_value() == value);
        return Err(match failed {
            Some(o) => Wrong {
                cause: Cause::Failed,
                evidence: vec![ops.tell(o)],
            },
            None => Wrong {
                cause: Cause::Nobody,
                evidence: vec![format!("value {}", shown(value))],
            },
        });
    }
    let mut evidence = Vec::new();
    for s in sources {
        match overwritten_by(ops, key, s) {
            None => return Ok(()),
            Some(x) => {
                evidence.push(format!("it holds what was left by {}", ops.tell(s)));
                evidence.push(format!("acknowledged after it: {}", ops.tell(x)));
            }
        }
    }
    Err(Wrong {
        cause: Cause::Lost,
        evidence,
    })
}

fn possible_absence(ops: &Ops<'_>, key: &str) -> Result<(), Wrong> {
    if ops.maybe_ephemeral(key) {
        return Ok(());
    }
    let Some(put) = ops
        .changes(key)
        .filter(|o| o.act == Act::Put && o.ok())
        .max_by_key(|o| o.until)
    else {
        return Ok(());
    };
    let mut evidence = vec![format!("absent, but acknowledged: {}", ops.tell(put))];
    for d in ops.deletes(key) {
        match overwritten_by(ops, key, d) {
            None => return Ok(()),
            Some(x) => evidence.push(format!("deleted before {}: {}", ops.tell(x), ops.tell(d))),
        }
    }
    Err(Wrong {
        cause: Cause::Lost,
        evidence,
    })
}

/// An acknowledged change of the key that comes after `o` in every order: by time, or by the system's own order numbers.
fn overwritten_by<'a, 'p>(ops: &'a Ops<'p>, key: &str, o: &Op<'p>) -> Option<&'a Op<'p>> {
    ops.changes(key).find(|x| {
        let later = matches!((x.mzxid(), o.mzxid()), (Some(x), Some(o)) if x > o);
        x.ok() && x.inv.id != o.inv.id && (x.from > o.until || (o.ok() && later))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count, op};

    fn rules() -> Rules {
        Rules {
            definite: vec!["BadVersion".into()],
            ..Rules::default()
        }
    }

    fn run(b: Build) -> CheckResult {
        check(&b.product, &rules())
    }

    #[test]
    fn legal_ends() {
        let table: Vec<(&str, Build)> = vec![
            (
                "the last write stands",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4).put("1"))
                    .everywhere(&[("/a", "1")]),
            ),
            (
                "an unknown write may have happened",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                    .everywhere(&[("/a", "1")]),
            ),
            (
                "an unknown write may not have happened",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                    .everywhere(&[("/a", "0")]),
            ),
            (
                "an unknown write may take effect after a later acknowledged one, while its session lives",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                    .op(op("t", "write", "/a", 5, 6).put("2"))
                    .close("s", 9)
                    .everywhere(&[("/a", "1")]),
            ),
            (
                "overlapping writes go either way",
                Build::new()
                    .op(op("s", "write", "/a", 1, 5).put("1"))
                    .op(op("t", "write", "/a", 2, 3).put("2"))
                    .everywhere(&[("/a", "1")]),
            ),
            (
                "an unknown delete may have been the last",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "delete", "/a", 3, 4).unknown())
                    .everywhere(&[]),
            ),
            (
                "a failed cas left nothing",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "cas", "/a", 3, 4).put("1").failed("BadVersion"))
                    .everywhere(&[("/a", "0")]),
            ),
            (
                "an error that is not definite may have happened",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4)
                        .put("1")
                        .failed("OperationTimeout"))
                    .everywhere(&[("/a", "1")]),
            ),
            (
                "an ephemeral may be gone",
                Build::new()
                    .op(op("s", "ephemeral", "/e", 1, 2).put("x"))
                    .expired("s", 5)
                    .everywhere(&[]),
            ),
            (
                "keys nobody changed are the system's own",
                Build::new()
                    .op(op("s", "read", "/sys", 1, 2).saw("x"))
                    .everywhere(&[("/sys", "x")]),
            ),
            (
                "only an unknown create, and it did not happen",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0").open())
                    .everywhere(&[]),
            ),
            (
                "an empty value is no value",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2))
                    .everywhere(&[("/a", "")]),
            ),
        ];
        for (name, b) in table {
            assert_eq!(count(&run(b)), (0, 0), "{name}");
        }
    }

    #[test]
    fn lost_and_undone_changes() {
        let table: Vec<(&str, Build, &str)> = vec![
            (
                "an acknowledged write is gone everywhere",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4).put("1"))
                    .everywhere(&[("/a", "0")]),
                "acknowledged change is lost",
            ),
            (
                "an acknowledged create is gone",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .everywhere(&[]),
                "acknowledged change is lost",
            ),
            (
                "an acknowledged delete was undone",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "delete", "/a", 3, 4))
                    .everywhere(&[("/a", "0")]),
                "acknowledged change is lost",
            ),
            (
                "a failed cas has happened",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "cas", "/a", 3, 4).put("1").failed("BadVersion"))
                    .everywhere(&[("/a", "1")]),
                "a change that failed has happened",
            ),
            (
                "an unknown write took effect after its session had ended",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "write", "/a", 3, 4).put("1").unknown())
                    .expired("s", 9)
                    .op(op("t", "write", "/a", 10, 11).put("2"))
                    .everywhere(&[("/a", "1")]),
                "acknowledged change is lost",
            ),
            (
                "a value from nowhere",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .everywhere(&[("/a", "7")]),
                "nobody wrote",
            ),
            (
                "deleted, then created again, and absent",
                Build::new()
                    .op(op("s", "create", "/a", 1, 2).put("0"))
                    .op(op("s", "delete", "/a", 3, 4))
                    .op(op("s", "create", "/a", 5, 6).put("1"))
                    .everywhere(&[]),
                "acknowledged change is lost",
            ),
            (
                "overlapping writes whose order numbers tell the order",
                Build::new()
                    .op(op("s", "write", "/a", 1, 5).put("1").m(11))
                    .op(op("t", "write", "/a", 2, 3).put("2").m(12))
                    .everywhere(&[("/a", "1")]),
                "acknowledged change is lost",
            ),
        ];
        for (name, b, expect) in table {
            let r = run(b);
            assert_eq!(count(&r), (1, 0), "{name}: {r:?}");
            assert!(r.failures[0].normalised.contains(expect), "{name}: {r:?}");
            assert!(
                r.failures[0].normalised.contains("on every replica"),
                "{name}"
            );
        }
    }

    #[test]
    fn one_replica_is_enough() {
        let r = run(Build::new()
            .op(op("s", "create", "/a7", 1, 2).put("0"))
            .replica("n1", "9", "/a7", "0")
            .replica("n2", "9", "/other", "0")
            .round(true));
        assert_eq!(count(&r), (1, 0));
        assert_eq!(r.failures[0].node, Some("n2".into()));
        assert!(
            r.failures[0]
                .normalised
                .ends_with("lost on a part of the replicas")
        );
        assert!(r.failures[0].evidence[1].contains("/a7 on n2"), "{r:?}");
    }

    #[test]
    fn a_node_without_a_key_has_lost_them() {
        let digest = |node: &str| Observation::Digest {
            node: node.into(),
            version: "0".into(),
            hash: "0".into(),
            durable: false,
        };
        let leader = |node: &str| Observation::Leader {
            node: node.into(),
            epoch: "2".into(),
            durable: false,
        };
        let made = || Build::new().op(op("s", "create", "/a", 1, 2).put("0"));
        let all = |b: Build| b.obs(digest("n1")).obs(digest("n2"));
        let n1 = |b: Build| b.replica("n1", "9", "/a", "0");
        let table: Vec<(&str, Build, Option<&str>)> = vec![
            ("all of them", all(made()), Some("on every replica")),
            (
                "one, which gave its digest",
                n1(all(made())),
                Some("on a part"),
            ),
            (
                "one, which leads",
                n1(made()).obs(leader("n2")),
                Some("on a part"),
            ),
            ("nothing was written", all(Build::new()), None),
            (
                "contents are not told at all",
                made().obs(leader("n1")),
                None,
            ),
        ];
        for (name, b, expect) in table {
            let r = run(b.round(true));
            let places: Vec<&str> = r.failures.iter().map(|f| f.normalised.as_str()).collect();
            match expect {
                Some(place) => {
                    assert_eq!(count(&r), (1, 0), "{name}: {r:?}");
                    assert!(places[0].contains(place), "{name}: {places:?}");
                }
                None => assert_eq!(count(&r), (0, 0), "{name}: {r:?}"),
            }
        }
        let torn = all(made()).round(false);
        assert_eq!(count(&run(torn)), (0, 1), "an incomplete round");
    }

    #[test]
    fn what_cannot_be_told_is_unknown() {
        let lost = || Build::new().op(op("s", "create", "/a", 1, 2).put("0"));
        let r = run(lost().replica("n1", "9", "/b", "0").round(false));
        assert_eq!(count(&r), (0, 1), "incomplete round");
        assert_eq!(count(&run(lost())), (0, 1), "no observations at all");
        for file in ["history.jsonl", "observations.jsonl"] {
            let mut b = lost().everywhere(&[]);
            b.product.broken_lines.push(file.into());
            assert_eq!(count(&run(b)), (0, 1), "{file} is torn");
        }
    }
}
