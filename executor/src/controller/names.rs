//! Renaming nodes at GO so that recorded roles fall on present ones. Pure.

use std::collections::{BTreeMap, BTreeSet};
use warren_model::{ClusterShape, FaultAt, FaultSequence, NodeName, Phase};

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
        let free: Vec<&NodeName> = group
            .nodes
            .iter()
            .filter(|n| !pinned.contains(*n))
            .collect();
        map.extend(
            in_order(sequence, present, &free).unwrap_or_else(|| few(sequence, present, &free)),
        );
    }
    map.retain(|old, new| old != new);
    map
}

/// Where each role is played by as many as before: its first node then is its first node now, and so on. Systems with ids let the
/// highest one win, so who comes next after a death depends on the order of those that are left.
fn in_order(
    sequence: &FaultSequence,
    present: &BTreeMap<NodeName, String>,
    free: &[&NodeName],
) -> Option<BTreeMap<NodeName, NodeName>> {
    let mut players: BTreeMap<&String, (Vec<&NodeName>, Vec<&NodeName>)> = BTreeMap::new();
    for node in free {
        players
            .entry(sequence.roles.get(*node)?)
            .or_default()
            .0
            .push(node);
        players.entry(present.get(*node)?).or_default().1.push(node);
    }
    if players.values().any(|(then, now)| then.len() != now.len()) {
        return None;
    }
    let pairs = players
        .into_values()
        .flat_map(|(then, now)| then.into_iter().zip(now));
    Some(pairs.map(|(old, new)| (old.clone(), new.clone())).collect())
}

/// Where roles are not known of all, or played by more or fewer: who plays the same role again keeps its name; the rest are matched by role,
/// then in order.
fn few(
    sequence: &FaultSequence,
    present: &BTreeMap<NodeName, String>,
    free: &[&NodeName],
) -> BTreeMap<NodeName, NodeName> {
    let mut map = BTreeMap::new();
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
    map
}

/// All that faults of the start name, as members of a cut, too: they come before roles are known, so they mean these very nodes.
fn start_nodes(sequence: &FaultSequence) -> BTreeSet<&NodeName> {
    let faults = sequence.faults.iter();
    faults
        .filter(|f| f.at.phase() == Phase::Start)
        .flat_map(FaultAt::named_nodes)
        .collect()
}

/// The faults in the names of this run. Start faults keep theirs.
#[must_use]
pub fn rename(faults: &[FaultAt], map: &BTreeMap<NodeName, NodeName>) -> Vec<FaultAt> {
    let new = |n: &NodeName| map.get(n).unwrap_or(n).clone();
    faults.iter().map(|f| f.renamed(&new)).collect()
}
