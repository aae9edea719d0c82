//! Renaming nodes at GO so that recorded roles fall on present ones (design: I/O point identity). Pure.

use std::collections::{BTreeMap, BTreeSet};
use warren_model::{At, ClusterShape, Fault, FaultAt, FaultSequence, NodeName, Phase, Who};

/// Recorded name -> name in this run, within each group; names that stay are not in it. Nodes of start faults are never
/// renamed; a sequence that knows no roles is taken as it stands.
#[must_use]
pub fn rename_map(
    sequence: &FaultSequence,
    present: &BTreeMap<NodeName, String>,
    shape: &ClusterShape,
) -> BTreeMap<NodeName, NodeName> {
    let mut map = BTreeMap::new();
    if sequence.roles.is_empty() {
        return map;
    }
    let pinned = start_nodes(sequence);
    for group in &shape.groups {
        let free: Vec<&NodeName> = group.nodes.iter().filter(|n| !pinned.contains(n)).collect();
        // Who plays the same role again keeps its name; the rest are matched by role, then in order.
        let stays = |n: &NodeName| {
            sequence
                .roles
                .get(n)
                .is_some_and(|r| present.get(n) == Some(r))
        };
        let mut from: Vec<&NodeName> = free.iter().copied().filter(|n| !stays(n)).collect();
        let mut to = from.clone();
        from.retain(|old| {
            let Some(role) = sequence.roles.get(*old) else {
                return true;
            };
            match to.iter().position(|new| present.get(*new) == Some(role)) {
                Some(i) => {
                    let new = to.remove(i);
                    map.insert((*old).clone(), new.clone());
                    false
                }
                None => true,
            }
        });
        for old in from {
            // An unmatched name keeps itself where it can, so that as little as possible moves.
            let i = to.iter().position(|new| *new == old).unwrap_or(0);
            if i < to.len() {
                let new = to.remove(i);
                map.insert(old.clone(), new.clone());
            }
        }
    }
    map.retain(|old, new| old != new);
    map
}

fn start_nodes(sequence: &FaultSequence) -> BTreeSet<NodeName> {
    sequence
        .faults
        .iter()
        .filter(|f| f.at.phase() == Phase::Start)
        .flat_map(|f| {
            let at = match &f.at {
                At::Exact(p) => Some(p.node.clone()),
                At::Pattern(p) => p.node.clone(),
                At::Joined(n) => Some(n.clone()),
                At::AtOnce | At::After(_) => None,
            };
            let who = match &f.fault {
                Fault::Crash {
                    who: Who::Node(n), ..
                }
                | Fault::Reboot { who: Who::Node(n) } => Some(n.clone()),
                _ => None,
            };
            at.into_iter().chain(who)
        })
        .collect()
}

/// The faults in the names of this run. Start faults keep theirs.
#[must_use]
pub fn rename(faults: &[FaultAt], map: &BTreeMap<NodeName, NodeName>) -> Vec<FaultAt> {
    let new = |n: &NodeName| map.get(n).unwrap_or(n).clone();
    faults.iter().map(|f| f.renamed(&new)).collect()
}
