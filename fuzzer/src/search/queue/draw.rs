//! Which child of the queue comes next: by lineage, pool, stratum and score (section IV-B). Asked by the scheduler; nothing is taken before
//! it is known which one it is.

use super::{Entry, POOLS, Pick, Queue, TakenFrom, Why};
use crate::search::energy;
use crate::search::entry::Class;
use crate::search::rand::{below, chance, weighed};
use crate::search::reach;
use crate::search::score::{ScoreInput, score};
use crate::search::strata::Stratum;
use libafl_bolts::rands::Rand;

/// So often a child that is to come in a row is passed over at most, where no others wait.
const MAX_PASSED_OVER: u32 = 64;

/// Turns of a stratum with something that was not tried yet.
const FRESH_TURNS: u64 = 64;

/// A child that is to be taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Index of its seed run's entry.
    pub entry: usize,
    pub from: TakenFrom,
    /// Of the seed run.
    pub score: u64,
    /// The pool it was drawn from.
    pub why: Why,
}

/// What of a pool lies in one stratum.
#[derive(Clone, Copy, Debug, Default)]
struct Weighed {
    weight: u64,
    /// How often that of its children was tried in vain which was tried least.
    tries: u8,
}

impl Weighed {
    /// A class or a child of this weight lies there, too.
    fn add(&mut self, weight: u64, tries: u8) {
        if weight > 0 {
            self.tries = match self.weight {
                0 => tries,
                _ => self.tries.min(tries),
            };
            self.weight += weight;
        }
    }

    /// How often its turn comes, beside that of others: evenly, but where all was tried in vain, as a child that was weighs less.
    fn turns(&self) -> u64 {
        reach::again(FRESH_TURNS, self.tries)
    }
}

impl Queue {
    /// Takes one child; `None` when every class in memory is exhausted (see [`Queue::wanted`]). `cold_share` of the picks are
    /// children of runs that started cold, as long as there are children of both lineages. A pool is drawn by score x untried
    /// occurrences; with classes in strata, evenly over the strata that have any, then by score over classes.
    pub fn pick(&mut self, rand: &mut impl Rand, cold_share: f64) -> Option<Pick> {
        let found = self.find(rand, cold_share, &|_| false)?;
        self.take(found)
    }

    /// As [`Queue::pick`], for children that are taken in a row where they can share a prefix: then `true`, and the caller takes the others
    /// by [`Queue::pick_of`]. Such a child is taken once in `length` draws, so that rows, that long on average, leave each seed run, and each
    /// lineage, its share of the runs. A seed run whose row has `begun`, or with children of an older row that have not ended, is left out
    /// while its lineage has others. No rows at a length of 1.
    pub fn pick_rows(
        &mut self,
        rand: &mut impl Rand,
        cold_share: f64,
        length: f64,
        begun: impl Fn(u64) -> bool,
    ) -> Option<(Pick, bool)> {
        let rows = length > 1.0;
        for _ in 0..MAX_PASSED_OVER {
            let left_out =
                |e: &Entry| begun(e.seed) || rows && e.shares_prefix() && self.is_out(e.seed);
            let found = self.find(rand, cold_share, &left_out)?;
            let entry = &self.entries[found.entry];
            // A child that is tried again makes no prefix, and there is one already where its row has begun.
            let again = matches!(found.from, TakenFrom::Retry(_) | TakenFrom::FirstRetry);
            let row = rows && entry.shares_prefix() && !again && !left_out(entry);
            if !row || chance(rand, 1.0 / length) {
                return self.take(found).map(|pick| (pick, row));
            }
        }
        self.pick(rand, cold_share).map(|pick| (pick, false))
    }

    /// Where the next child is; it stays there. Seed runs are left out while their lineage has others.
    fn find(
        &self,
        rand: &mut impl Rand,
        cold_share: f64,
        left_out: &impl Fn(&Entry) -> bool,
    ) -> Option<Found> {
        let pending = |cold| {
            self.entries
                .iter()
                .any(|e| e.cold == cold && e.pending() > 0)
        };
        let cold = match (pending(true), pending(false)) {
            (true, true) => chance(rand, cold_share),
            (cold, _) => cold,
        };
        self.find_among(rand, |e| e.cold == cold && !left_out(e), true)
            .or_else(|| self.find_among(rand, |e| e.cold == cold, true))
    }

    /// Takes one more child of this seed run; `None` when it has none in memory.
    pub fn pick_of(&mut self, seed: u64, rand: &mut impl Rand) -> Option<Pick> {
        let found = self.find_among(rand, |entry| entry.seed == seed, false)?;
        self.take(found)
    }

    /// Of a seed run in memory: children to come can share its faults.
    #[must_use]
    pub fn shares_prefix(&self, seed: u64) -> bool {
        let entry = self.entries.iter().find(|e| e.seed == seed);
        entry.is_some_and(Entry::shares_prefix)
    }

    /// `passing`: a child of a seed run that is reached less than the others is passed over, and the next pool asked.
    fn find_among(
        &self,
        rand: &mut impl Rand,
        among: impl Fn(&Entry) -> bool,
        passing: bool,
    ) -> Option<Found> {
        let mut scores = self.scores();
        for (score, entry) in scores.iter_mut().zip(&self.entries) {
            // Without weight it is in no pool.
            if !among(entry) {
                *score = 0;
            }
        }
        for (why, probability) in POOLS {
            let strata = self.weigh(why, &scores);
            if strata.iter().all(|s| s.weight == 0) || !chance(rand, probability) {
                continue;
            }
            let found = self.draw(why, &scores, strata, rand)?;
            let reach = self.entries[found.entry].reach;
            if !passing
                || reach.missed == 0
                || chance(rand, reach.share() / self.mean_share(&scores))
            {
                return Some(found);
            }
        }
        let strata = self.weigh(Why::Any, &scores);
        self.draw(Why::Any, &scores, strata, rand)
    }

    /// What is left of a score on average, by score x untried occurrences: how often a draw among all brings what happens.
    fn mean_share(&self, scores: &[u64]) -> f64 {
        let weighed = (self.entries.iter().zip(scores))
            .map(|(e, score)| (score.saturating_mul(e.pending()) as f64, e.reach.share()));
        let (all, left) = weighed.fold((0.0, 0.0), |(all, left), (w, share)| {
            (all + w, left + w * share)
        });
        if all > 0.0 { left / all } else { 1.0 }
    }

    /// One of a pool, of which it is known what lies in each stratum; `None` when it is empty.
    fn draw(
        &self,
        pool: Why,
        scores: &[u64],
        strata: [Weighed; Stratum::EACH.len()],
        rand: &mut impl Rand,
    ) -> Option<Found> {
        let all = Stratum::EACH.into_iter().zip(strata);
        let some: Vec<(Stratum, Weighed)> = all.filter(|(_, s)| s.weight > 0).collect();
        // Where there is no choice nothing is drawn.
        let at = match some.len() {
            0 | 1 => 0,
            n => weighed(rand, n, |i| some[i].1.turns())?,
        };
        let (stratum, drawn) = *some.get(at)?;
        self.locate(pool, stratum, scores, below(rand, drawn.weight))
    }

    /// Of each seed run's children, as they are now.
    pub(super) fn scores(&self) -> Vec<u64> {
        self.scores_after(0)
    }

    /// As if each seed run had waited for so many picks at least.
    pub(super) fn scores_after(&self, waiting: u64) -> Vec<u64> {
        let averages = self.averages();
        let of = |e: &Entry| ScoreInput {
            time_ms: e.time_ms,
            coverage: e.coverage,
            waiting: waiting.max(self.picks - e.kept_at),
            faults: e.faults + 1,
        };
        self.entries
            .iter()
            .map(|e| {
                e.reach
                    .left(energy::left(score(of(e), averages), self.sharing(e.seed)))
            })
            .collect()
    }

    /// Kept runs like this one, itself among them, if it loses energy to them; else one.
    #[must_use]
    pub fn sharing(&self, seed: u64) -> u64 {
        let alike = self.losing.get(&seed);
        alike
            .and_then(|id| self.alike.get(id))
            .copied()
            .unwrap_or(1)
    }

    pub(super) fn belongs(&self, entry: &Entry, class: &Class, pool: Why) -> bool {
        match pool {
            Why::NewFaultId => {
                let id = class.key.fault_id();
                !self.tested.contains(&id) && self.running.iter().all(|r| r.1 != id)
            }
            Why::Recovery => class.recovery,
            Why::NewAmongSiblings => {
                let id = class.key.fault_id();
                !entry.tested.contains(&id) && !self.running.contains(&(entry.seed, id))
            }
            Why::Any | Why::Oldest => true,
        }
    }

    /// What of a pool lies in each stratum.
    fn weigh(&self, pool: Why, scores: &[u64]) -> [Weighed; Stratum::EACH.len()] {
        let mut strata = [Weighed::default(); Stratum::EACH.len()];
        for (e, score) in self.entries.iter().zip(scores) {
            // Left out: most are where children in a row are asked for, and each has thousands of classes.
            if *score == 0 {
                continue;
            }
            for c in e.classes.iter().filter(|c| self.belongs(e, c, pool)) {
                strata[c.key.stratum as usize].add(c.weight(*score), 0);
            }
            for r in &e.retries {
                if self.belongs(e, &r.class, pool) {
                    strata[r.class.key.stratum as usize].add(r.weight(*score), r.tries);
                }
            }
        }
        strata
    }

    /// The child under the `at`-th unit of weight of a pool in a stratum.
    fn locate(&self, pool: Why, stratum: Stratum, scores: &[u64], mut at: u64) -> Option<Found> {
        let found = |entry, from, score| {
            Some(Found {
                entry,
                from,
                score,
                why: pool,
            })
        };
        for (entry, (e, score)) in self.entries.iter().zip(scores).enumerate() {
            if *score == 0 {
                continue;
            }
            for (j, c) in e.classes.iter().enumerate() {
                if c.key.stratum == stratum && self.belongs(e, c, pool) {
                    let weight = c.weight(*score);
                    if at < weight {
                        return found(entry, TakenFrom::Class(j), *score);
                    }
                    at -= weight;
                }
            }
            for (j, r) in e.retries.iter().enumerate() {
                if r.class.key.stratum == stratum && self.belongs(e, &r.class, pool) {
                    let weight = r.weight(*score);
                    if at < weight {
                        return found(entry, TakenFrom::Retry(j), *score);
                    }
                    at -= weight;
                }
            }
        }
        None
    }
}
