//! Coverage maps as plain bytes: novelty, noise, fullness. Called by the LibAFL module and by learning; refuses to know where a map
//! came from.
//!
//! A slot is 0 or not 0, as in CrashFuzz section IV-C: hit counts are noise on JVMs. Slots seen in any learning run are known;
//! a slot first seen later counts once and stays known.

use serde::{Deserialize, Serialize};

/// A map fuller than this after a fault-free run loses too much to collisions.
pub const FULL_SHARE: f64 = 0.12;

/// Slots that are not 0.
#[must_use]
pub fn slots_set(map: &[u8]) -> usize {
    map.iter().filter(|b| **b != 0).count()
}

/// What the fault-free runs of one start state cover, and how far they agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Slots that at least one of them set.
    pub slots: u64,
    /// Of these, slots that not all of them set: noise.
    pub variable: u64,
}

impl Baseline {
    /// Of so many maps. Maps of unequal size count their missing slots as 0.
    #[must_use]
    pub fn of<M: AsRef<[u8]>>(runs: &[M]) -> Self {
        let size = runs.iter().map(|m| m.as_ref().len()).max().unwrap_or(0);
        let mut baseline = Baseline::default();
        for slot in 0..size {
            let set = runs
                .iter()
                .filter(|m| m.as_ref().get(slot).is_some_and(|b| *b != 0))
                .count();
            baseline.slots += u64::from(set > 0);
            baseline.variable += u64::from(set > 0 && set < runs.len());
        }
        baseline
    }

    /// Share of slots that all runs agree on: AFL's `stability`, 0..=1. No runs, one run or empty maps are perfectly stable.
    #[must_use]
    pub fn stability(&self) -> f64 {
        match self.slots {
            0 => 1.0,
            slots => (slots - self.variable) as f64 / slots as f64,
        }
    }
}

/// The next power of two that `set` slots fill to at most 12 %, or `None` when `size` is enough. A map of that size must be
/// measured again: fewer collisions set more slots.
#[must_use]
pub fn larger_map(set: usize, size: usize) -> Option<usize> {
    let fits = |size: usize| set as f64 <= size as f64 * FULL_SHARE;
    if fits(size) {
        return None;
    }
    let mut next = size.max(1).next_power_of_two();
    while !fits(next) || next <= size {
        next = next.checked_mul(2)?;
    }
    Some(next)
}

/// The slots a campaign has seen: one bit each, serialised as words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownSlots {
    words: Vec<u64>,
}

impl KnownSlots {
    /// Nothing known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a slot was seen.
    #[must_use]
    pub fn contains(&self, slot: usize) -> bool {
        self.words
            .get(slot / 64)
            .is_some_and(|w| w >> (slot % 64) & 1 == 1)
    }

    /// Slots of this map that were never seen.
    #[must_use]
    pub fn new_in(&self, map: &[u8]) -> usize {
        map.iter()
            .enumerate()
            .filter(|(slot, b)| **b != 0 && !self.contains(*slot))
            .count()
    }

    /// Takes all slots of a map in; returns how many of them were new.
    pub fn learn(&mut self, map: &[u8]) -> usize {
        let words = map.len().div_ceil(64);
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        let mut new = 0;
        for (slot, _) in map.iter().enumerate().filter(|(_, b)| **b != 0) {
            let bit = 1u64 << (slot % 64);
            let word = &mut self.words[slot / 64];
            new += usize::from(*word & bit == 0);
            *word |= bit;
        }
        new
    }

    /// Takes single slots in.
    pub fn learn_slots(&mut self, slots: impl IntoIterator<Item = usize>) {
        for slot in slots {
            let word = slot / 64;
            if self.words.len() <= word {
                self.words.resize(word + 1, 0);
            }
            self.words[word] |= 1u64 << (slot % 64);
        }
    }

    /// All slots seen: AFL's `edges_found`.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// All slots seen here or there.
    #[must_use]
    pub fn count_with(&self, other: &KnownSlots) -> usize {
        let (longer, shorter) = match self.words.len() >= other.words.len() {
            true => (&self.words, &other.words),
            false => (&other.words, &self.words),
        };
        let there = shorter.iter().copied().chain(std::iter::repeat(0));
        let both = longer.iter().zip(there);
        both.map(|(a, b)| (a | b).count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_counts_once() {
        let mut known = KnownSlots::new();
        assert_eq!(known.learn(&[1, 0, 0, 1]), 2);
        assert_eq!(known.new_in(&[0, 7, 0, 1]), 1);
        assert_eq!(known.learn(&[0, 7, 0, 1]), 1);
        assert_eq!(known.learn(&[0, 7, 0, 1]), 0);
        assert_eq!(known.count(), 3);
        assert!(known.contains(1) && !known.contains(2) && !known.contains(100_000));
        known.learn_slots([1, 200]);
        assert!(known.contains(200) && !known.contains(199) && known.count() == 4);
        let mut other = KnownSlots::new();
        other.learn_slots([1, 2, 64]);
        assert_eq!((known.count_with(&other), other.count_with(&known)), (6, 6));
        assert_eq!(known.count_with(&KnownSlots::new()), 4);
    }

    #[test]
    fn a_larger_map_keeps_what_was_known() {
        let mut known = KnownSlots::new();
        known.learn(&[1; 65]);
        let mut map = vec![0u8; 300];
        map[64] = 1;
        map[299] = 1;
        assert_eq!(known.new_in(&map), 1);
        assert_eq!(known.learn(&map), 1);
        assert_eq!(known.count(), 66);
    }

    #[test]
    fn stability_is_the_share_all_runs_agree_on() {
        let half = Baseline::of(&[vec![1u8, 1, 0], vec![1, 0, 0]]);
        assert_eq!((half.slots, half.variable), (2, 1));
        let stability = |maps: &[Vec<u8>]| Baseline::of(maps).stability();
        assert!((half.stability() - 0.5).abs() < 1e-9);
        assert!((stability(&[vec![1, 1], vec![1, 1]]) - 1.0).abs() < 1e-9);
        assert!(stability(&[vec![1, 0], vec![0, 1]]).abs() < 1e-9);
        assert!((stability(&[]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_full_map_grows_to_the_next_power_that_fits() {
        assert_eq!(larger_map(7864, 65536), None);
        assert_eq!(larger_map(7865, 65536), Some(131_072));
        assert_eq!(larger_map(20_000, 65536), Some(262_144));
        assert_eq!(larger_map(0, 0), None);
        assert_eq!(larger_map(1, 0), Some(16));
    }
}
