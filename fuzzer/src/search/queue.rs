//! CrashFuzz's queue of untested children, kept as class summaries: suspicious first, then weighted by score (section IV-B).
//!
//! Fed by the stage (`add`, `tested`, `not_injected`), asked by the scheduler (`pick`). Holds no trace and no sequence: a
//! child is rebuilt from its seed run's file when it is taken. Every change is also noted as a [`Change`], which the campaign's
//! journal keeps: the same changes applied to the same queue give the same queue, order included.

mod in_order;

use super::children::SeedClasses;
use super::energy::{self, Alike};
use super::entry::Retry;
pub use super::entry::{Class, Entry, Kept};
use super::halving;
pub use super::pick::{POOLS, Pick, Why};
use super::rand::{below, chance};
use super::score::{Averages, ScoreInput, score};
use super::strata::Stratum;
pub use in_order::Oldest;
use libafl_bolts::rands::Rand;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use warren_model::{FaultId, StackId};

/// Most classes in memory (32 bytes each); beyond it the seed runs of lowest score are parked in files.
pub const MAX_CLASSES: usize = 1_000_000;

/// So often a child that is to come in a row is passed over at most, where no others wait.
const MAX_PASSED_OVER: u32 = 64;

/// Times a sequence is tried before it counts as uninjectable.
pub const MAX_TRIES: u8 = 3;

/// The untested children of all kept runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    entries: Vec<Entry>,
    picks: u64,
    tested: HashSet<FaultId>,
    kept: u64,
    time_sum: u64,
    coverage_sum: u64,
    uninjectable: u64,
    parked: Vec<Parked>,
    /// Seed run and fault id of each child that was taken and has no result yet: several, with slots side by side.
    running: Vec<(u64, FaultId)>,
    /// How many runs were kept whose last fault met this.
    alike: BTreeMap<u64, u64>,
    /// Since they were last taken away; no part of what is saved.
    #[serde(skip)]
    changes: Vec<Change>,
}

/// Where a child was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TakenFrom {
    /// Index into the entry's classes.
    Class(usize),
    /// Index into the entry's children to be tried again.
    Retry(usize),
    /// Index into the entry's classes, of which the occurrences go in their order (`fifo`).
    Next(usize),
    /// The entry's child that has waited longest to be tried again.
    FirstRetry,
}

/// One change of the queue. Indices are those at the moment of the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Added {
        kept: Kept,
        classes: Vec<Class>,
    },
    Taken {
        entry: usize,
        from: TakenFrom,
    },
    Tested(Pick),
    NotInjected(Pick),
    Parked {
        entry: usize,
    },
    Unparked(Entry),
    /// Fault ids that other instances tested.
    Known(Vec<FaultId>),
    PutOff(Pick),
    BroughtBack {
        free: bool,
    },
}

/// A child that is to be taken.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Index of its seed run's entry.
    entry: usize,
    from: TakenFrom,
    /// Of the seed run.
    score: u64,
    /// The pool it was drawn from.
    why: Why,
}

/// A seed run whose classes lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Parked {
    seed: u64,
    pending: u64,
    classes: u64,
}

libafl_bolts::impl_serdeany!(Queue);

impl Queue {
    /// A run was kept: its classes join. `is_recovery` tells whether a stack was not in the parent's run.
    pub fn add(
        &mut self,
        kept: Kept,
        classes: &SeedClasses,
        is_recovery: impl Fn(StackId) -> bool,
    ) {
        let classes: Vec<Class> = classes
            .iter()
            .filter_map(|(key, events)| {
                let occurrences = u32::try_from(events.len()).ok()?;
                (occurrences > 0).then_some(Class {
                    key: *key,
                    occurrences,
                    taken: 0,
                    recovery: is_recovery(key.stack),
                })
            })
            .collect();
        self.join(kept, classes.clone());
        self.changes.push(Change::Added { kept, classes });
    }

    fn join(&mut self, kept: Kept, classes: Vec<Class>) {
        self.kept += 1;
        self.time_sum += kept.time_ms;
        self.coverage_sum += kept.coverage;
        if let Some(alike) = kept.alike {
            *self.alike.entry(alike.id).or_default() += 1;
        }
        if classes.is_empty() {
            return;
        }
        self.entries.push(Entry {
            seed: kept.seed,
            cold: kept.cold,
            faults: kept.faults,
            time_ms: kept.time_ms,
            coverage: kept.coverage,
            alike: kept.alike,
            kept_at: self.picks,
            classes,
            retries: Vec::new(),
            put_off: Vec::new(),
            tested: BTreeSet::new(),
        });
    }

    /// While more than `most` classes are in memory: the seed run to be parked, taken out. The caller writes it to a file.
    pub fn park(&mut self, most: usize) -> Option<(u64, Entry)> {
        let classes: usize = self.entries.iter().map(|e| e.classes.len()).sum();
        if classes <= most || self.entries.len() < 2 {
            return None;
        }
        let scores = self.scores();
        // A child that is out comes back to its seed run, perhaps to be tried again.
        let lowest = (0..self.entries.len())
            .filter(|i| !self.is_out(self.entries[*i].seed))
            .min_by_key(|i| scores[*i])?;
        let entry = self.leave(lowest);
        self.changes.push(Change::Parked { entry: lowest });
        Some((entry.seed, entry))
    }

    fn leave(&mut self, at: usize) -> Entry {
        let entry = self.entries.swap_remove(at);
        self.parked.push(Parked {
            seed: entry.seed,
            pending: entry.pending(),
            classes: entry.classes.len() as u64,
        });
        entry
    }

    /// The seed runs whose classes lie in files.
    pub fn parked(&self) -> impl Iterator<Item = u64> {
        self.parked.iter().map(|p| p.seed)
    }

    /// The seed run to be read back once nothing in memory is left: the one parked last.
    #[must_use]
    pub fn wanted(&self) -> Option<u64> {
        let empty = self.entries.iter().all(|e| e.pending() == 0);
        self.parked.last().filter(|_| empty).map(|p| p.seed)
    }

    /// A parked seed run comes back.
    pub fn unpark(&mut self, entry: Entry) {
        self.changes.push(Change::Unparked(entry.clone()));
        self.come_back(entry);
    }

    fn come_back(&mut self, entry: Entry) {
        self.parked.retain(|p| p.seed != entry.seed);
        self.entries.push(entry);
    }

    /// Takes one child; `None` when every class in memory is exhausted (see [`Queue::wanted`]). `cold_share` of the picks are
    /// children of runs that started cold, as long as there are children of both lineages. A pool is drawn by score x untried
    /// occurrences; with classes in strata, evenly over the strata that have any, then by score over classes.
    pub fn pick(&mut self, rand: &mut impl Rand, cold_share: f64) -> Option<Pick> {
        let found = self.find(rand, cold_share)?;
        self.take(found)
    }

    /// As [`Queue::pick`], for children that are taken `in_a_row` where they can share a prefix: then `true`, and the caller takes the
    /// others by [`Queue::pick_of`]. As often as there is more than one in a row such a child is passed over, so that rows leave each
    /// seed run, and each lineage, its share of the runs.
    pub fn pick_rows(
        &mut self,
        rand: &mut impl Rand,
        cold_share: f64,
        in_a_row: u32,
    ) -> Option<(Pick, bool)> {
        let passed = 1.0 / f64::from(in_a_row.max(1));
        for _ in 0..MAX_PASSED_OVER {
            let found = self.find(rand, cold_share)?;
            let row = in_a_row > 1 && self.entries[found.entry].shares_prefix();
            if !row || chance(rand, passed) {
                return self.take(found).map(|pick| (pick, row));
            }
        }
        self.pick(rand, cold_share).map(|pick| (pick, false))
    }

    /// Where the next child is; it stays there.
    fn find(&self, rand: &mut impl Rand, cold_share: f64) -> Option<Found> {
        let pending = |cold| {
            self.entries
                .iter()
                .any(|e| e.cold == cold && e.pending() > 0)
        };
        if pending(true) && pending(false) {
            let cold = chance(rand, cold_share);
            return self.find_among(rand, |entry| entry.cold == cold);
        }
        self.find_among(rand, |_| true)
    }

    /// Takes one more child of this seed run; `None` when it has none in memory.
    pub fn pick_of(&mut self, seed: u64, rand: &mut impl Rand) -> Option<Pick> {
        let found = self.find_among(rand, |entry| entry.seed == seed)?;
        self.take(found)
    }

    fn find_among(&self, rand: &mut impl Rand, among: impl Fn(&Entry) -> bool) -> Option<Found> {
        let mut scores = self.scores();
        for (score, entry) in scores.iter_mut().zip(&self.entries) {
            // Without weight it is in no pool.
            if !among(entry) {
                *score = 0;
            }
        }
        for (why, probability) in POOLS {
            let totals = self.weigh(why, &scores);
            if totals.iter().any(|t| *t > 0) && chance(rand, probability) {
                return self.draw(why, &scores, totals, rand);
            }
        }
        let totals = self.weigh(Why::Any, &scores);
        self.draw(Why::Any, &scores, totals, rand)
    }

    /// One of a pool, whose weight in each stratum is known; `None` when it is empty.
    fn draw(
        &self,
        pool: Why,
        scores: &[u64],
        totals: [u64; 4],
        rand: &mut impl Rand,
    ) -> Option<Found> {
        let some: Vec<(Stratum, u64)> = Stratum::EACH
            .into_iter()
            .zip(totals)
            .filter(|(_, total)| *total > 0)
            .collect();
        let (stratum, total) = match &some[..] {
            [] => return None,
            [only] => *only,
            several => several[below(rand, several.len() as u64) as usize],
        };
        self.locate(pool, stratum, scores, below(rand, total))
    }

    /// The child was tested with all its faults injected (whatever the verdict).
    pub fn tested(&mut self, pick: &Pick) {
        self.changes.push(Change::Tested(pick.clone()));
        self.done(pick);
    }

    /// A child of this seed run was taken and has no result yet.
    fn is_out(&self, seed: u64) -> bool {
        self.running.iter().any(|(s, _)| *s == seed)
    }

    fn came_back(&mut self, pick: &Pick) {
        let child = (pick.seed, pick.key.fault_id());
        if let Some(at) = self.running.iter().position(|r| *r == child) {
            self.running.swap_remove(at);
        }
    }

    fn done(&mut self, pick: &Pick) {
        self.came_back(pick);
        self.count_as_tested(pick);
    }

    fn count_as_tested(&mut self, pick: &Pick) {
        let id = pick.key.fault_id();
        self.tested.insert(id);
        let out = self.is_out(pick.seed);
        if let Some(at) = self.entries.iter().position(|e| e.seed == pick.seed) {
            let entry = &mut self.entries[at];
            entry.tested.insert(id);
            let empty = entry.classes.is_empty() && entry.retries.is_empty();
            if empty && entry.put_off.is_empty() && !out {
                self.entries.swap_remove(at);
            }
        }
    }

    /// The child's faults did not all happen: it is put back, or given up after [`MAX_TRIES`]. Answers whether it was given
    /// up. A fault id that was given up counts as tested: it would stay "new" and be preferred for ever.
    pub fn not_injected(&mut self, pick: &Pick) -> bool {
        self.changes.push(Change::NotInjected(pick.clone()));
        self.put_back(pick)
    }

    fn put_back(&mut self, pick: &Pick) -> bool {
        self.came_back(pick);
        let tries = pick.tries + 1;
        if tries >= MAX_TRIES {
            self.uninjectable += 1;
            self.count_as_tested(pick);
            return true;
        }
        if let Some(e) = self.entries.iter_mut().find(|e| e.seed == pick.seed) {
            e.retries.push(Retry::of(pick, tries));
        }
        false
    }

    /// Fault ids tested as last faults, here or elsewhere.
    #[must_use]
    pub fn tested_ids(&self) -> Vec<FaultId> {
        let mut ids: Vec<FaultId> = self.tested.iter().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Other instances tested these as last faults: they are not new here either.
    pub fn know(&mut self, ids: Vec<FaultId>) {
        self.tested.extend(&ids);
        self.changes.push(Change::Known(ids));
    }

    /// The child is another instance's to test: it is not pending until it is brought back.
    pub fn put_off(&mut self, pick: &Pick) {
        self.changes.push(Change::PutOff(pick.clone()));
        self.set_aside(pick);
    }

    fn set_aside(&mut self, pick: &Pick) {
        self.came_back(pick);
        if let Some(e) = self.entries.iter_mut().find(|e| e.seed == pick.seed) {
            e.put_off.push(Retry::of(pick, pick.tries));
        }
    }

    /// What was put off is pending again (of seed runs in memory); `free`: for whoever takes it. Answers how many there were.
    pub fn bring_back(&mut self, free: bool) -> usize {
        let count = self.take_back(free);
        if count > 0 {
            self.changes.push(Change::BroughtBack { free });
        }
        count
    }

    fn take_back(&mut self, free: bool) -> usize {
        let mut count = 0;
        for e in &mut self.entries {
            count += e.put_off.len();
            let back = e.put_off.drain(..).map(|r| Retry { free, ..r });
            e.retries.extend(back);
        }
        count
    }

    /// What changed since this was last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Makes a change that was noted before; it is not noted again.
    ///
    /// # Errors
    /// The change does not fit this queue: it belongs to another state of it.
    pub fn apply(&mut self, change: Change) -> Result<(), String> {
        match change {
            Change::Added { kept, classes } => self.join(kept, classes),
            Change::Taken { entry, from } => {
                self.remove(entry, from)
                    .ok_or_else(|| format!("the queue has no child at {entry} {from:?}"))?;
            }
            Change::Tested(pick) => self.done(&pick),
            Change::NotInjected(pick) => {
                self.put_back(&pick);
            }
            Change::Parked { entry } if entry < self.entries.len() => {
                self.leave(entry);
            }
            Change::Parked { entry } => return Err(format!("the queue has no entry {entry}")),
            Change::Unparked(entry) => self.come_back(entry),
            Change::Known(ids) => self.tested.extend(ids),
            Change::PutOff(pick) => self.set_aside(&pick),
            Change::BroughtBack { free } => {
                self.take_back(free);
            }
        }
        Ok(())
    }

    /// Untried occurrences and children to be tried again.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.entries.iter().map(Entry::pending).sum::<u64>()
            + self.parked.iter().map(|p| p.pending).sum::<u64>()
    }

    /// Of those in memory, those whose fault id was never tested as a last fault.
    #[must_use]
    pub fn pending_new(&self) -> u64 {
        let new = |e: &Entry, c: &Class| self.belongs(e, c, Why::NewFaultId);
        self.entries
            .iter()
            .map(|e| {
                let fresh = e.classes.iter().filter(|c| new(e, c));
                let again = e.retries.iter().filter(|r| new(e, &r.class)).count() as u64;
                again
                    + fresh
                        .map(|c| u64::from(c.occurrences - c.taken))
                        .sum::<u64>()
            })
            .sum()
    }

    /// Classes not yet exhausted.
    #[must_use]
    pub fn classes(&self) -> u64 {
        self.entries
            .iter()
            .map(|e| e.classes.len() as u64)
            .sum::<u64>()
            + self.parked.iter().map(|p| p.classes).sum::<u64>()
    }

    /// Sequences given up.
    #[must_use]
    pub fn uninjectable(&self) -> u64 {
        self.uninjectable
    }

    /// Means over all kept runs.
    #[must_use]
    pub fn averages(&self) -> Averages {
        Averages {
            time_ms: self.time_sum.checked_div(self.kept).unwrap_or(0),
            coverage: self.coverage_sum.checked_div(self.kept).unwrap_or(0),
        }
    }

    /// Of each seed run's children, as they are now.
    fn scores(&self) -> Vec<u64> {
        let averages = self.averages();
        let of = |e: &Entry| ScoreInput {
            time_ms: e.time_ms,
            coverage: e.coverage,
            waiting: self.picks - e.kept_at,
            faults: e.faults + 1,
        };
        self.entries
            .iter()
            .map(|e| self.left(e.alike, score(of(e), averages)))
            .collect()
    }

    /// What energy leaves of a score.
    fn left(&self, alike: Option<Alike>, score: u64) -> u64 {
        match alike.filter(|a| a.loses) {
            Some(a) => energy::left(score, self.alike.get(&a.id).copied().unwrap_or(1)),
            None => score,
        }
    }

    fn belongs(&self, entry: &Entry, class: &Class, pool: Why) -> bool {
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

    /// The weight of a pool in each stratum.
    fn weigh(&self, pool: Why, scores: &[u64]) -> [u64; 4] {
        let mut totals = [0; 4];
        for (e, score) in self.entries.iter().zip(scores) {
            for c in e.classes.iter().filter(|c| self.belongs(e, c, pool)) {
                totals[c.key.stratum as usize] += c.weight(*score);
            }
            for r in &e.retries {
                if self.belongs(e, &r.class, pool) {
                    totals[r.class.key.stratum as usize] += score;
                }
            }
        }
        totals
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
                    if at < *score {
                        return found(entry, TakenFrom::Retry(j), *score);
                    }
                    at -= score;
                }
            }
        }
        None
    }

    fn take(&mut self, found: Found) -> Option<Pick> {
        let Found {
            entry,
            from,
            score,
            why,
        } = found;
        let (seed, taken) = self.remove(entry, from)?;
        self.changes.push(Change::Taken { entry, from });
        Some(Pick {
            seed,
            key: taken.class.key,
            recovery: taken.class.recovery,
            occurrence: taken.occurrence,
            occurrences: taken.class.occurrences,
            tries: taken.tries,
            free: taken.free,
            why,
            score,
        })
    }

    /// Takes the next child of a class, or a child to be tried again, with its seed run.
    fn remove(&mut self, entry: usize, from: TakenFrom) -> Option<(u64, Retry)> {
        let entry = self.entries.get_mut(entry)?;
        let taken = match from {
            TakenFrom::Class(j) | TakenFrom::Next(j) => {
                let class = entry.classes.get_mut(j)?;
                let occurrence = match from {
                    TakenFrom::Next(_) => class.taken,
                    _ => halving::nth(class.occurrences, class.taken)?,
                };
                class.taken += 1;
                let class = *class;
                if class.taken == class.occurrences {
                    entry.classes.swap_remove(j);
                }
                Retry {
                    class,
                    occurrence,
                    tries: 0,
                    free: false,
                }
            }
            TakenFrom::Retry(j) => {
                if j >= entry.retries.len() {
                    return None;
                }
                entry.retries.swap_remove(j)
            }
            TakenFrom::FirstRetry => {
                if entry.retries.is_empty() {
                    return None;
                }
                entry.retries.remove(0)
            }
        };
        self.picks += 1;
        let seed = entry.seed;
        self.running.push((seed, taken.class.key.fault_id()));
        Some((seed, taken))
    }
}
