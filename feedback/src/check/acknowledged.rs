//! Acknowledged changes are there after healing, on every replica; failed ones are not.
//!
//! Rule: in a complete round of final observations each key has, on each replica, a content that some order of its operations
//! allows: it comes from a put that may have happened (ok or unknown) and after whose effect no acknowledged change of the key
//! began; a key is absent only if no acknowledged put was made, or a delete that may have happened can be the last change. Where a content tells
//! the order number of the change that wrote it (`[promise] numbered`), no acknowledged change of the key has a larger one.
//!
//! Why it is right: an acknowledged change that begins after another's latest possible effect comes after it in every order, so
//! the other's content cannot be the last. Operations that overlap may take either order; an unknown one may have happened up to
//! the end of its session, so it may well be the last one standing. Keys nobody changed are the system's own. Ephemerals may be
//! gone at any time here; that they are gone in the end is the leftovers' question. A change that was answered only after the
//! look at the replicas began may have happened after a node was read: it may be there, and need not. A round in which no
//! node tells what it holds may be a cluster that has lost everything: unknown, where anything was acknowledged. Design section 8,
//! Safety; CrashFuzz section V-B (data loss). A number says it whatever is not known of the operations: a state that holds a change shows it, or
//! what came after it, and a key that was deleted and made again has a larger number. So a write without an answer, which may by time have
//! been the last, excuses no loss of one that the system numbered after it. An answer without a number claims nothing.

use super::ops::{Act, Op, Ops, shown};
use super::rounds::{Content, Replicas, Round, last_complete, rounds, torn};
use super::{CheckResult, Found};
use std::collections::BTreeMap;
use warren_model::{FailureKind, NodeName, Observation, Rules, RunProduct, Stage};

const NAME: &str = "acknowledged";

/// The checker after healing.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let all = rounds(product);
    match last_complete(&all, false, tells_content) {
        Ok(round) => final_state(product, rules, NAME, round),
        Err(seen) => {
            let mut result = CheckResult::pass();
            if seen {
                result.unknown(NAME, "no round of final observations is complete");
            } else if all.iter().any(|r| !r.durable) {
                let ops = Ops::new(product, rules);
                if ops.any_acknowledged() {
                    let why = "no node tells what it holds in a round of final observations (`observe` writes a digest of each one that it read)";
                    result.unknown(NAME, why);
                }
                return ops.settle(NAME, result);
            } else if product.observations.is_empty() && !product.history.is_empty() {
                result.unknown(NAME, "the run ended without final observations");
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
    let looked = ops.looked(round.durable);
    let replicas = Replicas::of(round);
    let mut found: Vec<(Cause, bool, &NodeName, Vec<String>)> = Vec::new();
    for key in ops.changed_keys() {
        let mut wrong_at: Vec<(&NodeName, Wrong)> = Vec::new();
        for (node, contents) in &replicas.nodes {
            let content = contents.get(key).copied();
            if let Err(wrong) = possible_last(&ops, key, content, looked, rules.numbered) {
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

/// Whether `found` (`None` = absent) can be the content that all operations together leave behind, on a node that was read after `looked`.
fn possible_last(
    ops: &Ops<'_>,
    key: &str,
    found: Option<Content<'_>>,
    looked: u64,
    numbered: bool,
) -> Result<(), Wrong> {
    let Some(content) = found else {
        return possible_absence(ops, key, looked);
    };
    possible_content(ops, key, content.value, looked)?;
    match content.number().filter(|_| numbered) {
        Some(number) => possible_number(ops, key, number, looked),
        None => Ok(()),
    }
}

/// Whether a content can be the last that was written under this order number.
fn possible_number(ops: &Ops<'_>, key: &str, number: i64, looked: u64) -> Result<(), Wrong> {
    let acknowledged = ops.changes(key).filter(|x| x.ok_by(looked));
    let last = acknowledged.max_by_key(|x| x.mzxid());
    match last.filter(|x| x.mzxid().is_some_and(|m| m > number)) {
        None => Ok(()),
        Some(x) => Err(Wrong {
            cause: Cause::Lost,
            evidence: vec![
                format!("it holds what was written under order number {number:#x}"),
                format!("acknowledged after it: {}", ops.tell(x)),
            ],
        }),
    }
}

fn possible_content(ops: &Ops<'_>, key: &str, value: &str, looked: u64) -> Result<(), Wrong> {
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
        match overwritten_by(ops, key, s, looked) {
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

fn possible_absence(ops: &Ops<'_>, key: &str, looked: u64) -> Result<(), Wrong> {
    if ops.maybe_ephemeral(key) {
        return Ok(());
    }
    let Some(put) = ops
        .changes(key)
        .filter(|o| o.act == Act::Put && o.ok_by(looked))
        .max_by_key(|o| o.until)
    else {
        return Ok(());
    };
    let mut evidence = vec![format!("absent, but acknowledged: {}", ops.tell(put))];
    for d in ops.deletes(key) {
        match overwritten_by(ops, key, d, looked) {
            None => return Ok(()),
            Some(x) => evidence.push(format!("deleted before {}: {}", ops.tell(x), ops.tell(d))),
        }
    }
    Err(Wrong {
        cause: Cause::Lost,
        evidence,
    })
}

/// A change of the key that was acknowledged by `looked` and comes after `o` in every order: by time, or by the system's own order numbers.
fn overwritten_by<'a, 'p>(
    ops: &'a Ops<'p>,
    key: &str,
    o: &Op<'p>,
    looked: u64,
) -> Option<&'a Op<'p>> {
    ops.changes(key).find(|x| {
        let later = matches!((x.mzxid(), o.mzxid()), (Some(x), Some(o)) if x > o);
        x.ok_by(looked) && x.inv.id != o.inv.id && (x.from > o.until || (o.ok() && later))
    })
}

#[cfg(test)]
mod tests;
