//! Which sequences are the same but for the names of nodes that nothing tells apart: same group, same role at GO, nothing done to either.
//!
//! A permutation of such nodes over the whole sequence keeps every node's fault history. Called where a sequence is looked up among
//! those tested, and where a seed run's children are enumerated. Names of start faults are never changed: before GO there are no roles.

use std::collections::{BTreeMap, BTreeSet};
use warren_model::ids::fnv1a;
use warren_model::{
    ClusterShape, CutWay, CutWho, Fault, FaultAt, FaultSequence, Member, NodeName, Phase,
};

/// Permutations tried for the smallest name of a sequence; of clusters with more, nodes are named in order of appearance.
const MOST: usize = 720;

/// Nodes that may change places, by group and role at GO: those of start faults, and those whose role is not known, stay.
fn kinds_of_nodes(
    sequence: &FaultSequence,
    shape: &ClusterShape,
) -> BTreeMap<(usize, String), Vec<NodeName>> {
    let pinned: BTreeSet<&NodeName> = sequence
        .faults
        .iter()
        .filter(|f| f.at.phase() == Phase::Start)
        .flat_map(FaultAt::named_nodes)
        .collect();
    let mut kinds: BTreeMap<(usize, String), Vec<NodeName>> = BTreeMap::new();
    for (g, group) in shape.groups.iter().enumerate() {
        for node in group.nodes.iter().filter(|n| !pinned.contains(n)) {
            if let Some(role) = sequence.roles.get(node) {
                let kind = kinds.entry((g, role.clone())).or_default();
                kind.push(node.clone());
            }
        }
    }
    kinds
}

/// Two sequences have the same one exactly when a permutation of interchangeable nodes makes one of the other (of clusters with more than
/// [`MOST`] permutations: at most when). None where nothing may change places.
#[must_use]
pub fn identity(sequence: &FaultSequence, shape: &ClusterShape) -> Option<u64> {
    let kinds = kinds_of_nodes(sequence, shape);
    let kinds: Vec<Vec<NodeName>> = kinds.into_values().filter(|k| k.len() > 1).collect();
    if kinds.is_empty() {
        return None;
    }
    let hash = |map: &BTreeMap<NodeName, NodeName>| {
        let new = |n: &NodeName| map.get(n).unwrap_or(n).clone();
        let mut renamed = sequence.clone();
        for f in &mut renamed.faults {
            *f = f.renamed(&new);
            if let Fault::PartitionStart { who, .. } = &mut f.fault {
                order_sides(who, shape);
            }
        }
        // Who changes places has the same role: what a node is stays as it was.
        renamed.roles = renamed.roles_of_named();
        fnv1a(format!("by symmetry\n{}", renamed.to_text()).as_bytes())
    };
    let many = |k: &Vec<NodeName>| (1..=k.len()).product::<usize>();
    if kinds.iter().map(many).product::<usize>() > MOST {
        return Some(hash(&in_order(sequence, &kinds)));
    }
    let mut maps = vec![BTreeMap::new()];
    for kind in &kinds {
        let mut longer = Vec::new();
        for order in permutations(kind) {
            for map in &maps {
                let mut map: BTreeMap<NodeName, NodeName> = map.clone();
                map.extend(kind.iter().cloned().zip(order.iter().cloned()));
                longer.push(map);
            }
        }
        maps = longer;
    }
    maps.iter().map(hash).min()
}

/// Sides are sets, and of a cut in both ways it does not matter which one is named first. Who comes is not known of `@executing` and
/// its like: such a cut stays as it is said.
fn order_sides(who: &mut CutWho, shape: &ClusterShape) {
    who.cut.sort();
    who.from.sort();
    let known = |m: &Member| matches!(m, Member::Node(_));
    if who.way != CutWay::Both || !who.cut.iter().chain(&who.from).all(known) {
        return;
    }
    if who.from.is_empty() {
        let rest = shape.nodes().cloned().map(Member::Node);
        who.from = rest
            .filter(|m| !who.cut.contains(m) && who.bridge.as_ref() != Some(m))
            .collect();
        who.from.sort();
    }
    if who.from < who.cut {
        std::mem::swap(&mut who.cut, &mut who.from);
    }
}

/// Each kind's nodes in the order in which the faults name them.
fn in_order(sequence: &FaultSequence, kinds: &[Vec<NodeName>]) -> BTreeMap<NodeName, NodeName> {
    let mut map = BTreeMap::new();
    for kind in kinds {
        let mut free = kind.iter();
        let first = sequence.faults.iter().flat_map(FaultAt::named_nodes);
        for node in first.chain(kind).filter(|n| kind.contains(n)) {
            if !map.contains_key(node)
                && let Some(new) = free.next()
            {
                map.insert(node.clone(), new.clone());
            }
        }
    }
    map
}

fn permutations(of: &[NodeName]) -> Vec<Vec<NodeName>> {
    if of.len() <= 1 {
        return vec![of.to_vec()];
    }
    let mut all = Vec::new();
    for i in 0..of.len() {
        let mut rest = of.to_vec();
        let first = rest.remove(i);
        for mut tail in permutations(&rest) {
            tail.insert(0, first.clone());
            all.push(tail);
        }
    }
    all
}

/// What tells the nodes of a run apart after its faults: untouched nodes of the same group and role at GO have the same number, any
/// other node has one of its own, as has one that `ended` by itself. By index into `nodes`.
#[must_use]
pub fn alike<'a>(
    matched: &'a FaultSequence,
    ended: impl IntoIterator<Item = &'a NodeName>,
    nodes: &[NodeName],
    shape: &ClusterShape,
) -> Vec<usize> {
    let named = matched.faults.iter().flat_map(FaultAt::named_nodes);
    let touched: BTreeSet<&NodeName> = named.chain(ended).collect();
    let kinds = kinds_of_nodes(matched, shape);
    nodes
        .iter()
        .enumerate()
        .map(|(i, node)| {
            let kind = kinds.values().find(|k| k.contains(node));
            let first = kind
                .filter(|_| !touched.contains(node))
                .and_then(|k| k.iter().find(|n| !touched.contains(n)))
                .and_then(|first| nodes.iter().position(|n| n == first));
            first.unwrap_or(i)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;
    use proptest::prelude::*;
    use warren_model::{At, CrashStyle, CutHow, Kind, Pattern, Who};

    fn at(node: &str) -> At {
        At::Pattern(Pattern {
            node: Some(node.into()),
            except: None,
            role: None,
            frames: Vec::new(),
            stack: None,
            kind: Some(Kind::Force),
            place: None,
            n: 1,
            phase: Phase::Test,
        })
    }

    fn crash(node: &str) -> FaultAt {
        FaultAt {
            at: at(node),
            fault: Fault::Crash {
                who: Who::Node(node.into()),
                style: CrashStyle::Process,
            },
        }
    }

    fn reboot(at_node: &str, node: &str) -> FaultAt {
        FaultAt {
            at: at(at_node),
            fault: Fault::Reboot {
                who: Who::Node(node.into()),
            },
        }
    }

    /// From all others, at a point of this node.
    fn cut(at_node: &str, side: &[&str]) -> FaultAt {
        let mut between = between(side, &[], CutWay::Both);
        between.at = at(at_node);
        between
    }

    fn between(cut: &[&str], from: &[&str], way: CutWay) -> FaultAt {
        let members = |of: &[&str]| of.iter().map(|n| Member::Node((*n).into())).collect();
        let (cut, from, bridge) = (members(cut), members(from), None);
        FaultAt {
            at: at("n1"),
            fault: Fault::PartitionStart {
                how: CutHow::Drop,
                who: CutWho {
                    cut,
                    from,
                    bridge,
                    way,
                },
            },
        }
    }

    /// n1 leads, n2 to n5 follow.
    fn sequence(faults: Vec<FaultAt>) -> FaultSequence {
        let mut s = FaultSequence::empty("sim");
        for i in 1..=5 {
            let role = if i == 1 { "leader" } else { "follower" };
            s.roles.insert(NodeName(format!("n{i}")), role.to_owned());
        }
        s.faults = faults;
        s
    }

    #[test]
    fn table() {
        let shape = Sim::new(5, 2).shape();
        let of = |faults| identity(&sequence(faults), &shape).unwrap();
        type Pair = (Vec<FaultAt>, Vec<FaultAt>, bool);
        let pairs: Vec<Pair> = vec![
            (vec![crash("n2")], vec![crash("n3")], true),
            (vec![crash("n1")], vec![crash("n2")], false),
            (
                vec![crash("n2"), reboot("n1", "n2")],
                vec![crash("n4"), reboot("n1", "n4")],
                true,
            ),
            // The same node again is not another one.
            (
                vec![crash("n2"), reboot("n3", "n2")],
                vec![crash("n2"), reboot("n1", "n2")],
                false,
            ),
            (
                vec![crash("n2"), crash("n3")],
                vec![crash("n3"), crash("n2")],
                true,
            ),
            // A side is a set: which of its nodes is named first does not matter.
            (
                vec![cut("n1", &["n2", "n3"]), crash("n2")],
                vec![cut("n1", &["n2", "n3"]), crash("n3")],
                true,
            ),
            (
                vec![cut("n1", &["n2", "n3"]), crash("n2")],
                vec![cut("n1", &["n2", "n3"]), crash("n4")],
                false,
            ),
            // Two from three is three from two, whoever the two are; one way only, or between others, it is not.
            (
                vec![cut("n1", &["n2", "n3"])],
                vec![cut("n1", &["n1", "n4", "n5"])],
                true,
            ),
            (
                vec![between(&["n2", "n3"], &["n1", "n4", "n5"], CutWay::Both)],
                vec![cut("n1", &["n2", "n3"])],
                true,
            ),
            (
                vec![between(&["n2"], &["n1"], CutWay::To)],
                vec![between(&["n1"], &["n2"], CutWay::To)],
                false,
            ),
            (
                vec![between(&["n2"], &["n1"], CutWay::Both)],
                vec![between(&["n1"], &["n3"], CutWay::Both)],
                true,
            ),
            (vec![cut("n1", &["n2"])], vec![cut("n1", &["n1"])], false),
        ];
        for (i, (a, b, same)) in pairs.into_iter().enumerate() {
            assert_eq!(of(a) == of(b), same, "pair {i}");
        }
        // The same names where another node leads.
        let led_by = |leader: &str| {
            let mut s = sequence(vec![crash("n2")]);
            for (node, role) in &mut s.roles {
                let leads = node.as_str() == leader;
                *role = if leads { "leader" } else { "follower" }.into();
            }
            s
        };
        let roles = |leader| led_by(leader).roles_of_named();
        assert_ne!(
            identity(&led_by("n2"), &shape),
            identity(&led_by("n1"), &shape)
        );
        assert_ne!(roles("n2"), roles("n1"));
        // Where one leads that no fault names, it is the same test.
        assert_eq!(roles("n3"), roles("n1"));
        let mut unknown = sequence(vec![crash("n2")]);
        unknown.roles.clear();
        assert_eq!(identity(&unknown, &shape), None);
    }

    #[test]
    fn who_is_alike_after_faults() {
        let shape = Sim::new(5, 2).shape();
        let nodes = Sim::new(5, 2).nodes;
        let of = |faults| alike(&sequence(faults), [], &nodes, &shape);
        assert_eq!(of(vec![]), [0, 1, 1, 1, 1]);
        assert_eq!(of(vec![crash("n3")]), [0, 1, 2, 1, 1]);
        assert_eq!(of(vec![crash("n2")]), [0, 1, 2, 2, 2]);
        let mut start = crash("n2");
        if let At::Pattern(p) = &mut start.at {
            p.phase = Phase::Start;
        }
        assert_eq!(of(vec![start]), [0, 1, 2, 2, 2]);
        // Who ended by itself is no twin of who still serves.
        let quiet = sequence(Vec::new());
        assert_eq!(alike(&quiet, [&nodes[2]], &nodes, &shape), [0, 1, 2, 1, 1]);
    }

    proptest! {
        #[test]
        fn any_permutation_of_followers_is_the_same(picks in prop::collection::vec((0usize..4, 0usize..4), 1..5), order in 0usize..24) {
            let shape = Sim::new(5, 2).shape();
            let followers: Vec<NodeName> = (2..=5).map(|i| NodeName(format!("n{i}"))).collect();
            let s = sequence(picks.iter().map(|(a, b)| reboot(followers[*a].as_str(), followers[*b].as_str())).collect());
            let to = &permutations(&followers)[order];
            let mut other = s.clone();
            for f in &mut other.faults {
                *f = f.renamed(&|n: &NodeName| {
                    followers.iter().position(|x| x == n).map_or_else(|| n.clone(), |i| to[i].clone())
                });
            }
            prop_assert_eq!(identity(&s, &shape), identity(&other, &shape));
        }
    }
}
