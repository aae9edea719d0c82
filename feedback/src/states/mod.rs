//! What a run showed beside the code it covered, as numbers that mean the same in every run: how the nodes stood at each fault and at
//! the end of the test, which message followed which, and which points a role met only after the last fault.
//!
//! Called by the run observer for each run; values in, values out. It refuses to say which of them are new: that is what the campaign
//! knows ([`KnownStates`]). docs/search.md, "State novelty", says what is in them and what cannot be had.

mod alike;
mod order;
mod standing;
#[cfg(test)]
mod testing;
mod version;

pub use alike::last_fault;
pub use standing::{Life, NodeState, Relation, Standings};

use crate::coverage::KnownSlots;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use warren_model::RunProduct;
use warren_model::ids::fnv1a;

/// Slots of the second map. The first one grows with the target's code; the states of a system do not.
pub const STATE_SLOTS: usize = 65_536;

/// The slots of the second map that a run sets, sorted.
#[must_use]
pub fn states(product: &RunProduct) -> Vec<u32> {
    let standings = Standings::new(product);
    let moments = (0..product.record.injected.len())
        .map(|fault| {
            let nodes = standings.after(fault);
            vector("fault", &nodes)
        })
        .chain([vector("end", &standings.at_the_end())]);
    let slots: BTreeSet<u32> = moments
        .chain(order::pairs(&product.trace))
        .chain(order::afterwards(product))
        .map(slot)
        .collect();
    slots.into_iter().collect()
}

/// How the nodes stood at a moment, whatever their names.
#[must_use]
pub fn vector(moment: &str, nodes: &[NodeState]) -> u64 {
    let mut lines: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    lines.sort_unstable();
    fnv1a(format!("nodes at {moment}\n{}", lines.join("\n")).as_bytes())
}

fn slot(id: u64) -> u32 {
    // A power of two: no slot is likelier than another. The high half is mixed best.
    ((id >> 32) as usize % STATE_SLOTS) as u32
}

/// The states a campaign has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownStates(KnownSlots);

impl KnownStates {
    /// Of these slots, those never seen.
    pub fn new_among<'a>(&'a self, slots: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        slots.iter().copied().filter(|s| !self.contains(*s))
    }

    /// Whether a slot was seen.
    #[must_use]
    pub fn contains(&self, slot: u32) -> bool {
        self.0.contains(slot as usize)
    }

    /// Takes slots in; those beyond the map are left out.
    pub fn learn(&mut self, slots: &[u32]) {
        let inside = slots.iter().map(|s| *s as usize);
        self.0.learn_slots(inside.filter(|s| *s < STATE_SLOTS));
    }

    /// All slots seen, in order.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        (0..STATE_SLOTS as u32).filter(|s| self.contains(*s))
    }

    /// How many slots were seen.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// How many were seen here or there.
    #[must_use]
    pub fn count_with(&self, other: &KnownStates) -> usize {
        self.0.count_with(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::trace_of;

    #[test]
    fn a_state_counts_once() {
        let mut known = KnownStates::default();
        known.learn(&[3, 70, 65_535, 65_536]);
        assert_eq!(known.count(), 3);
        let new: Vec<u32> = known.new_among(&[3, 4, 65_535]).collect();
        assert_eq!(new, [4]);
        assert!(known.contains(70) && !known.contains(65_536));
        assert_eq!(known.all().collect::<Vec<u32>>(), [3, 70, 65_535]);
        let bytes = serde_json::to_string(&known).unwrap();
        assert_eq!(serde_json::from_str::<KnownStates>(&bytes).unwrap(), known);
    }

    /// Stored with campaigns: the same run gives the same slots in every version of the state format.
    #[test]
    fn slots_are_stable() {
        let product = RunProduct {
            trace: trace_of(&[1, 2]),
            ..RunProduct::default()
        };
        let slots = states(&product);
        assert_eq!(slots, states(&product));
        assert_eq!(slots.len(), 3, "two points and the end: {slots:?}");
        assert!(slots.iter().all(|s| (*s as usize) < STATE_SLOTS));
        assert!(slots.is_sorted());
        assert_eq!(vector("end", &[]), fnv1a(b"nodes at end\n"));
    }

    #[test]
    fn names_of_nodes_do_not_count() {
        let node = |role: &str, life| NodeState {
            kind: "n".into(),
            role: role.into(),
            life,
            joining: false,
            epochs: vec![Relation::Equal],
            version: Relation::Unknown,
        };
        let (a, b) = (node("leader", Life::Alive), node("follower", Life::Dead));
        assert_eq!(
            vector("fault", &[a.clone(), b.clone()]),
            vector("fault", &[b.clone(), a.clone()])
        );
        assert_ne!(
            vector("fault", &[a.clone(), b.clone()]),
            vector("end", &[a.clone(), b])
        );
        let one = [a.clone()];
        assert_ne!(vector("end", &one), vector("end", &[a.clone(), a]));
    }
}
