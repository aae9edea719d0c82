//! Rounds of final observations: what was seen between two `round` marks belongs together. Used by the checkers of final states;
//! judges nothing.
//!
//! Only a round that says it is complete can be compared: the workload made sure nothing changed meanwhile (for ZooKeeper: equal
//! zxid before and after). A later complete round makes up for an earlier incomplete one.
//!
//! A round may be complete without a living node that could not be read, as it is without a dead one, if more than half of all nodes told what
//! they hold: that node has no line in it, an `incomplete` names it, and nothing is said of it. Each node that spoke was made to show all that
//! was acknowledged (a sync, an index of the log), so what it lacks is lost whoever is silent.

use std::collections::{BTreeMap, BTreeSet};
use warren_model::{NodeName, Observation, RunProduct};

/// One round.
#[derive(Clone, Debug, Default)]
pub struct Round<'a> {
    pub complete: bool,
    /// Made after the restart of a durability check.
    pub durable: bool,
    pub seen: Vec<&'a Observation>,
}

/// The rounds of a run, in order; observations after the last mark form an incomplete one.
#[must_use]
pub fn rounds(product: &RunProduct) -> Vec<Round<'_>> {
    let mut all = Vec::new();
    let mut open = Round::default();
    for o in &product.observations {
        if let Observation::Round {
            complete, durable, ..
        } = o
        {
            open.complete = *complete;
            open.durable |= *durable;
            all.push(std::mem::take(&mut open));
        } else {
            open.durable |= matches!(
                o,
                Observation::Replica { durable: true, .. }
                    | Observation::Digest { durable: true, .. }
                    | Observation::Leader { durable: true, .. }
            );
            open.seen.push(o);
        }
    }
    if open.seen.iter().any(|o| is_final(o)) {
        open.complete = false;
        all.push(open);
    }
    all
}

fn is_final(o: &Observation) -> bool {
    matches!(
        o,
        Observation::Replica { .. } | Observation::Digest { .. } | Observation::Leader { .. }
    )
}

/// The round a checker looks at: the last complete one with something it asks for. `Err(true)`: only incomplete ones have it;
/// `Err(false)`: none has.
pub fn last_complete<'a, 'p>(
    rounds: &'a [Round<'p>],
    durable: bool,
    wanted: impl Fn(&Observation) -> bool,
) -> Result<&'a Round<'p>, bool> {
    let mine = || {
        rounds
            .iter()
            .filter(|r| r.durable == durable && r.seen.iter().any(|o| wanted(o)))
    };
    mine()
        .rev()
        .find(|r| r.complete)
        .ok_or_else(|| mine().next().is_some())
}

/// The content of one key on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content<'a> {
    /// No content and empty content are the same.
    pub value: &'a str,
    pub key_version: Option<&'a str>,
}

impl Content<'_> {
    /// The order number of the change that wrote it, of a target whose key versions are that.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        let number = self.key_version?.parse().ok()?;
        (number > 0).then_some(number)
    }
}

/// The replicas of a round: per node its version and all its keys. A key that is not listed is absent: a node that only gave its
/// digest or says it leads was read too, and has no key at all.
#[derive(Clone, Debug, Default)]
pub struct Replicas<'a> {
    pub nodes: BTreeMap<&'a NodeName, BTreeMap<&'a str, Content<'a>>>,
    pub versions: BTreeMap<&'a NodeName, BTreeSet<&'a str>>,
}

impl<'a> Replicas<'a> {
    /// Gathers a round's replicas.
    #[must_use]
    pub fn of(round: &Round<'a>) -> Self {
        let mut r = Replicas::default();
        for o in &round.seen {
            match o {
                Observation::Replica {
                    node,
                    version,
                    key,
                    value,
                    key_version,
                    ..
                } => {
                    r.versions.entry(node).or_default().insert(version);
                    r.nodes.entry(node).or_default().insert(
                        key,
                        Content {
                            value: value.as_deref().unwrap_or(""),
                            key_version: key_version.as_deref(),
                        },
                    );
                }
                // A line that one leads does not say that it was read.
                Observation::Digest { node, .. } => {
                    r.nodes.entry(node).or_default();
                }
                _ => {}
            }
        }
        r
    }

    /// All keys on any node.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<&'a str> {
        self.nodes
            .values()
            .flat_map(|c| c.keys().copied())
            .collect()
    }
}

/// Whether lines of observations.jsonl are missing, so that a key that is not listed may only be a lost line.
#[must_use]
pub fn torn(product: &RunProduct) -> bool {
    product
        .broken_lines
        .iter()
        .any(|f| f.contains("observations"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::Build;

    fn is_replica(o: &Observation) -> bool {
        matches!(o, Observation::Replica { .. })
    }

    #[test]
    fn the_last_complete_round_counts() {
        let b = Build::new()
            .replica("n1", "1", "/a", "old")
            .round(true)
            .replica("n1", "2", "/a", "torn")
            .round(false)
            .durable(&[("/a", "durable")])
            .replica("n1", "3", "/a", "after the last mark");
        let all = rounds(&b.product);
        assert_eq!(all.len(), 4);
        let last = last_complete(&all, false, is_replica).unwrap();
        assert_eq!(
            Replicas::of(last).nodes[&NodeName::from("n1")]["/a"].value,
            "old"
        );
        let durable = last_complete(&all, true, is_replica).unwrap();
        assert_eq!(Replicas::of(durable).nodes.len(), 3);
    }

    #[test]
    fn incomplete_and_missing_are_told_apart() {
        let b = Build::new().replica("n1", "2", "/a", "x").round(false);
        let all = rounds(&b.product);
        assert_eq!(last_complete(&all, false, is_replica).err(), Some(true));
        assert_eq!(last_complete(&all, true, is_replica).err(), Some(false));
    }
}
