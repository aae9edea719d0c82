//! What the queue holds of a kept run: its classes, which occurrences of them were taken, and children to be tried again. Plain values,
//! saved with a campaign's state or parked in a file; changed by the queue alone.

use super::children::ClassKey;
use super::energy::Alike;
use super::favour;
use super::pick::Pick;
use super::reach::{self, Reach};
use super::strata::Stratum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use warren_model::FaultId;

/// What is kept in memory of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    pub(super) key: ClassKey,
    pub(super) occurrences: u32,
    /// How many were taken; which ones is `halving::nth`'s business.
    pub(super) taken: u32,
    pub(super) recovery: bool,
    /// Its stack is one of those that a dictionary favours.
    pub(super) favoured: bool,
}

impl Class {
    /// In strata each class has its turn, however many occurrences it has.
    pub(super) fn weight(&self, score: u64) -> u64 {
        let score = score * favour::weight(self.favoured);
        match self.key.stratum {
            Stratum::All => score * u64::from(self.occurrences - self.taken),
            _ => score,
        }
    }
}

/// A child to be tried again, or one that was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub(super) class: Class,
    pub(super) occurrence: u32,
    pub(super) tries: u8,
    pub(super) free: bool,
}

impl Retry {
    /// The child of a pick, after so many tries.
    pub(super) fn of(pick: &Pick, tries: u8) -> Self {
        Retry {
            class: Class {
                key: pick.key,
                occurrences: pick.occurrences,
                taken: pick.occurrences,
                recovery: pick.recovery,
                favoured: pick.favoured,
            },
            occurrence: pick.occurrence,
            tries,
            free: pick.free,
        }
    }

    /// What it weighs in a draw, by the score of its seed run.
    pub(super) fn weight(&self, score: u64) -> u64 {
        reach::again(score * favour::weight(self.class.favoured), self.tries)
    }
}

/// A seed run with its classes and which occurrences of them were taken: what is kept in memory, or parked in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub(super) seed: u64,
    pub(super) cold: bool,
    pub(super) faults: usize,
    pub(super) time_ms: u64,
    pub(super) coverage: u64,
    pub(super) kept_at: u64,
    pub(super) classes: Vec<Class>,
    pub(super) retries: Vec<Retry>,
    /// Children that another instance is to test: not pending here.
    pub(super) put_off: Vec<Retry>,
    /// Fault ids tested as last faults of its children, or tried in vain.
    pub(super) tested: BTreeSet<FaultId>,
    pub(super) reach: Reach,
}

/// With so many children that wait, the faults of a seed run are worth a snapshot.
const MANY_CHILDREN: u64 = 10;

impl Entry {
    /// Its faults are worth a prefix snapshot: there are some, they do not need a cold start, and many children wait.
    pub(super) fn shares_prefix(&self) -> bool {
        self.faults > 0 && !self.cold && self.pending() >= MANY_CHILDREN
    }

    pub(super) fn pending(&self) -> u64 {
        let fresh = |c: &Class| u64::from(c.occurrences - c.taken);
        self.retries.len() as u64 + self.classes.iter().map(fresh).sum::<u64>()
    }
}

/// What the queue needs to know of a kept run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Corpus id.
    pub seed: u64,
    /// It started from empty data, and so will its children; else from a snapshot.
    pub cold: bool,
    /// Faults really injected.
    pub faults: usize,
    pub time_ms: u64,
    pub coverage: u64,
    /// What its last fault met; none where energy is off, and of a run without faults.
    pub alike: Option<Alike>,
}
