//! The queue asked first in, first out: what `fifo` and `brute-force` pick. The order is that in which CrashFuzz's Algorithm 1 makes children: by
//! seed run as they were kept, in one by point, at one crash, reboots, cuts. Classes know no points: whoever takes a child reads its seed
//! run's file and brings its classes along.

use super::{Change, Entry, Found, Pick, Queue, TakenFrom, Why};
use crate::search::children::SeedClasses;
use crate::search::rand::chance;
use libafl_bolts::rands::Rand;

/// Whose child comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oldest {
    /// Of this seed run.
    In(u64),
    /// Of this one, which is parked.
    Parked(u64),
    /// All are exhausted.
    None,
}

impl Queue {
    /// The seed run that was kept first among those with children. `cold_share` as in [`Queue::pick`].
    pub fn oldest(&self, rand: &mut impl Rand, cold_share: f64) -> Oldest {
        let of = |cold| {
            let some = |e: &&Entry| e.cold == cold && e.pending() > 0;
            self.entries.iter().filter(some).map(|e| e.seed).min()
        };
        let parked = self.parked.iter().map(|p| p.seed).min();
        let (cold, warm) = (of(true), of(false));
        // Which start a parked one has stands in its file: it comes back before any younger one has its turn.
        let first = cold.into_iter().chain(warm).min();
        match (parked, first) {
            (Some(p), None) => return Oldest::Parked(p),
            (Some(p), Some(f)) if p < f => return Oldest::Parked(p),
            _ => {}
        }
        match (cold, warm) {
            (Some(c), Some(w)) => Oldest::In(if chance(rand, cold_share) { c } else { w }),
            (Some(one), None) | (None, Some(one)) => Oldest::In(one),
            (None, None) => Oldest::None,
        }
    }

    /// Takes the next child of this seed run; `classes` are those of its file. Children to be tried again come after its others.
    pub fn take_oldest(&mut self, seed: u64, classes: &SeedClasses) -> Option<Pick> {
        let entry = self.entries.iter().position(|e| e.seed == seed)?;
        let next = (self.entries[entry].classes.iter().enumerate())
            .filter(|(_, c)| c.taken < c.occurrences)
            .min_by_key(|(_, c)| {
                let events = classes.get(&c.key);
                let event = events.and_then(|e| e.get(c.taken as usize));
                (event.copied().unwrap_or(u32::MAX), c.key.fault)
            });
        let from = match next {
            Some((j, _)) => TakenFrom::Next(j),
            None => TakenFrom::FirstRetry,
        };
        self.take(Found {
            entry,
            from,
            score: 0,
            why: Why::Oldest,
        })
    }

    /// While more than `most` classes are in memory: the seed run that comes last, taken out. The caller writes it to a file.
    pub fn park_youngest(&mut self, most: usize) -> Option<(u64, Entry)> {
        let classes: usize = self.entries.iter().map(|e| e.classes.len()).sum();
        if classes <= most || self.entries.len() < 2 {
            return None;
        }
        let youngest = (0..self.entries.len())
            .filter(|i| !self.is_out(self.entries[*i].seed))
            .max_by_key(|i| self.entries[*i].seed)?;
        let entry = self.leave(youngest);
        self.changes.push(Change::Parked { entry: youngest });
        Some((entry.seed, entry))
    }
}
