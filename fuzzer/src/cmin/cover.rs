//! Which entries are enough: a small set of them that together has every slot that all have. Pure.
//!
//! afl-cmin's way: each slot has a cheapest entry; slots are gone through from the rarest, and the cheapest entry of one that nothing
//! taken has yet is taken. Not the smallest set there is (that is NP-hard), but small, cheap and the same each time.

use std::collections::BTreeMap;

/// An entry, as far as the choice goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The less the better; compared part by part.
    pub cost: (usize, u64),
    /// Of both maps: those of the second one lie above all of the first.
    pub slots: Vec<u32>,
}

/// Indices of the entries to keep, in order. `free` slots need no entry.
#[must_use]
pub fn cover(all: &[Candidate], free: &[u32]) -> Vec<usize> {
    // Of each slot: how many entries have it, and the cheapest; of equally cheap ones the first.
    let mut slots: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (i, candidate) in all.iter().enumerate() {
        for slot in &candidate.slots {
            let (count, cheapest) = slots.entry(*slot).or_insert((0, i));
            *count += 1;
            if candidate.cost < all[*cheapest].cost {
                *cheapest = i;
            }
        }
    }
    for slot in free {
        slots.remove(slot);
    }
    let mut order: Vec<(usize, u32)> = slots.iter().map(|(s, (count, _))| (*count, *s)).collect();
    order.sort_unstable();
    let mut taken = Vec::new();
    for (_, slot) in order {
        let Some((_, cheapest)) = slots.remove(&slot) else {
            continue;
        };
        for covered in &all[cheapest].slots {
            slots.remove(covered);
        }
        taken.push(cheapest);
    }
    taken.sort_unstable();
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(table: &[(usize, u64, &[u32])]) -> Vec<Candidate> {
        table
            .iter()
            .map(|(faults, ms, slots)| Candidate {
                cost: (*faults, *ms),
                slots: slots.to_vec(),
            })
            .collect()
    }

    type Row<'a> = (usize, u64, &'a [u32]);

    #[test]
    fn table() {
        let cases: [(&[Row<'_>], &[u32], &[usize]); 8] = [
            (&[], &[], &[]),
            (&[(1, 5, &[])], &[], &[]),
            // Alike: the cheapest, by faults, then by time, then the first.
            (&[(2, 1, &[1, 2]), (1, 9, &[1, 2])], &[], &[1]),
            (&[(1, 9, &[1]), (1, 8, &[1])], &[], &[1]),
            (&[(1, 8, &[1]), (1, 8, &[1])], &[], &[0]),
            // The rare slot 3 takes the one entry that has it, and with it what others have.
            (&[(1, 1, &[1, 2]), (2, 9, &[1, 2, 3])], &[], &[1]),
            (
                &[(1, 1, &[1, 2]), (2, 9, &[2, 3]), (1, 1, &[4])],
                &[],
                &[0, 1, 2],
            ),
            // What every run shows keeps nobody.
            (&[(1, 1, &[1, 2]), (1, 2, &[1, 3])], &[1, 2], &[1]),
        ];
        for (table, free, want) in cases {
            assert_eq!(cover(&of(table), free), want, "{table:?} less {free:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(
            table in prop::collection::vec((1usize..4, 0u64..50, prop::collection::btree_set(0u32..60, 0..20)), 0..40),
            free in prop::collection::btree_set(0u32..60, 0..10),
        ) {
            let all: Vec<Candidate> = table
                .iter()
                .map(|(f, ms, slots)| Candidate { cost: (*f, *ms), slots: slots.iter().copied().collect() })
                .collect();
            let free: Vec<u32> = free.into_iter().collect();
            let kept = cover(&all, &free);
            let union = |of: &mut dyn Iterator<Item = usize>| -> BTreeSet<u32> {
                of.flat_map(|i| all[i].slots.clone()).chain(free.clone()).collect()
            };
            prop_assert_eq!(union(&mut kept.iter().copied()), union(&mut (0..all.len())));
            prop_assert!(kept.is_sorted() && kept.windows(2).all(|w| w[0] != w[1]));
            // Nobody is kept for nothing: each was the cheapest of a slot.
            for k in &kept {
                let own = all[*k].slots.iter().filter(|s| !free.contains(s));
                let cheapest = |s: &u32| {
                    let mut others = all.iter().filter(|c| c.slots.contains(s));
                    others.all(|c| c.cost >= all[*k].cost)
                };
                let needed = own.clone().any(cheapest);
                prop_assert!(needed);
            }
        }
    }
}
