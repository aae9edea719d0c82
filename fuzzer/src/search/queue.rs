//! CrashFuzz's queue of untested children, kept as class summaries: suspicious first, then weighted by score (section IV-B).
//!
//! Fed by the stage (`add`, `tested`, `needs_no_run`, `not_injected`, `told_nothing`, `lose`), asked by the scheduler (`pick`). Holds no trace and no sequence: a
//! child is rebuilt from its seed run's file when it is taken. Every change is also noted as a [`Change`], which the campaign's
//! journal keeps: the same changes applied to the same queue give the same queue, order included.

mod draw;
mod in_order;

use super::children::SeedClasses;
use super::entry::Retry;
pub use super::entry::{Class, Entry, Kept};
use super::halving;
pub use super::pick::{POOLS, Pick, Why};
use super::reach::Reach;
use super::score::{Averages, LONGEST_WAIT};
use draw::Found;
pub use in_order::Oldest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use warren_model::{FaultId, StackId};

/// Most classes in memory (32 bytes each); beyond it the seed runs of lowest score are parked in files.
pub const MAX_CLASSES: usize = 1_000_000;

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
    /// What the last fault met of each kept run that was kept for it alone, by corpus id.
    losing: BTreeMap<u64, u64>,
    /// Since they were last taken away; no part of what is saved.
    #[serde(skip)]
    changes: Vec<Change>,
    /// Kept runs whose files cannot be read; no part of what is saved: their entries are gone for good, and another process finds such a file out anew
    /// where it draws from all kept runs.
    #[serde(skip)]
    lost: BTreeSet<u64>,
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
    NeedsNoRun(Pick),
    NotInjected(Pick),
    ToldNothing(Pick),
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
    /// The file of this kept run cannot be read. Last: the number of a variant is stored.
    Lost(u64),
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
    /// A run was kept: its classes join. `is_recovery` tells whether a stack was not in the parent's run, `is_favoured` whether a dictionary
    /// favours it.
    pub fn add(
        &mut self,
        kept: Kept,
        classes: &SeedClasses,
        is_recovery: impl Fn(StackId) -> bool,
        is_favoured: impl Fn(StackId) -> bool,
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
                    favoured: is_favoured(key.stack),
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
            if alike.loses {
                self.losing.insert(kept.seed, alike.id);
            }
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
            kept_at: self.picks,
            classes,
            retries: Vec::new(),
            put_off: Vec::new(),
            tested: BTreeSet::new(),
            reach: Reach::default(),
        });
    }

    /// While more than `most` classes are in memory: the seed run to be parked, taken out. The caller writes it to a file.
    pub fn park(&mut self, most: usize) -> Option<(u64, Entry)> {
        let classes: usize = self.entries.iter().map(|e| e.classes.len()).sum();
        if classes <= most || self.entries.len() < 2 {
            return None;
        }
        // One that was kept just now would else be the lowest for that alone, and its children would never have a turn.
        let scores = self.scores_after(LONGEST_WAIT);
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

    /// The file of this kept run cannot be read, so no child of it can be made: what it has left goes, and what is out does not come back.
    /// Answers whether that was not known.
    pub fn lose(&mut self, seed: u64) -> bool {
        let new = !self.is_lost(seed);
        if new {
            self.changes.push(Change::Lost(seed));
            self.leave_out(seed);
        }
        new
    }

    fn leave_out(&mut self, seed: u64) {
        self.lost.insert(seed);
        if let Some(at) = self.entries.iter().position(|e| e.seed == seed) {
            self.entries.swap_remove(at);
        }
        self.parked.retain(|p| p.seed != seed);
        self.running.retain(|(of, _)| *of != seed);
    }

    /// It is known that the file of this kept run cannot be read.
    #[must_use]
    pub fn is_lost(&self, seed: u64) -> bool {
        self.lost.contains(&seed)
    }

    /// The child was tested with all its faults injected (whatever the verdict).
    pub fn tested(&mut self, pick: &Pick) {
        self.changes.push(Change::Tested(pick.clone()));
        self.done(pick);
    }

    /// The child needs no run: the same sequence was tested, or it is not possible after all.
    pub fn needs_no_run(&mut self, pick: &Pick) {
        self.changes.push(Change::NeedsNoRun(pick.clone()));
        self.dismiss(pick);
    }

    /// A child of this seed run was taken and has no result yet.
    pub(super) fn is_out(&self, seed: u64) -> bool {
        self.running.iter().any(|(s, _)| *s == seed)
    }

    fn came_back(&mut self, pick: &Pick) {
        let child = (pick.seed, pick.key.fault_id());
        if let Some(at) = self.running.iter().position(|r| *r == child) {
            self.running.swap_remove(at);
        }
    }

    fn done(&mut self, pick: &Pick) {
        if let Some(e) = self.entry_of(pick) {
            e.reach.injected += 1;
        }
        self.dismiss(pick);
    }

    fn dismiss(&mut self, pick: &Pick) {
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
        self.miss(pick)
    }

    /// The child's run says nothing of it, void or given up: as [`Queue::not_injected`], but no word against its seed run.
    pub fn told_nothing(&mut self, pick: &Pick) -> bool {
        self.changes.push(Change::ToldNothing(pick.clone()));
        self.put_back(pick)
    }

    fn miss(&mut self, pick: &Pick) -> bool {
        if let Some(e) = self.entry_of(pick) {
            e.reach.missed += 1;
            // New among its siblings no more: that pool would be left with what does not happen.
            e.tested.insert(pick.key.fault_id());
        }
        self.put_back(pick)
    }

    /// Tries of a seed run's children that were not injected in full.
    #[must_use]
    pub fn missed(&self, seed: u64) -> u32 {
        let entry = self.entries.iter().find(|e| e.seed == seed);
        entry.map_or(0, |e| e.reach.missed)
    }

    fn entry_of(&mut self, pick: &Pick) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.seed == pick.seed)
    }

    fn put_back(&mut self, pick: &Pick) -> bool {
        self.came_back(pick);
        let tries = pick.tries + 1;
        if tries >= MAX_TRIES {
            self.uninjectable += 1;
            self.count_as_tested(pick);
            return true;
        }
        if let Some(e) = self.entry_of(pick) {
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
        if let Some(e) = self.entry_of(pick) {
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
            Change::NeedsNoRun(pick) => self.dismiss(&pick),
            Change::NotInjected(pick) => {
                self.miss(&pick);
            }
            Change::ToldNothing(pick) => {
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
            Change::Lost(seed) => self.leave_out(seed),
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

    /// Takes what was drawn.
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
            favoured: taken.class.favoured,
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
