//! What a [`super::session::Session`] has beside its counts and figures: findings, what the search has been over, what is under way. Values alone; who
//! changes them is said at each.

use super::resume::saved::Job;
use super::slots::under_way::UnderWay;
use crate::campaign::KeptFinding;
use crate::search::shapes::Ground;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use warren_model::{FailureKind, StackId, StartState};

/// The findings of the campaign: of `confirming`.
#[derive(Default)]
pub struct Found {
    pub findings: Vec<KeptFinding>,
    /// Numbers of those that are known bugs, with what they are.
    pub known: BTreeMap<u64, String>,
    /// Signatures of findings that other instances have; never of known bugs, which each keeps for itself.
    pub elsewhere: BTreeSet<String>,
}

impl Found {
    /// Those that stand or are open: one that fell is none any more, and may be found anew.
    pub fn that_stand(&self) -> impl Iterator<Item = &KeptFinding> {
        self.findings.iter().filter(|f| !f.fell)
    }

    /// A finding of this signature stands here that is this known bug, or none as it is; or another instance has one that is none.
    #[must_use]
    pub fn stands_as(&self, signature: &str, known: Option<&str>) -> bool {
        let is = |f: &KeptFinding| {
            f.signature == signature && self.known.get(&f.number).map(String::as_str) == known
        };
        self.that_stand().any(is) || (known.is_none() && self.elsewhere.contains(signature))
    }

    /// A finding of this signature stands, whatever it is.
    #[must_use]
    pub fn stands(&self, signature: &str) -> bool {
        self.elsewhere.contains(signature) || self.that_stand().any(|f| f.signature == signature)
    }

    /// The known bugs among them: their numbers, and what they are.
    #[must_use]
    pub fn known_that_stand(&self) -> BTreeMap<u64, String> {
        let known = |f: &KeptFinding| Some((f.number, self.known.get(&f.number)?.clone()));
        self.that_stand().filter_map(known).collect()
    }

    /// How many of a kind stand, and how many of these are known bugs.
    #[must_use]
    pub fn count(&self, kind: fn(FailureKind) -> bool) -> (u64, u64) {
        let of_kind = || self.that_stand().filter(|f| kind(f.kind));
        let known = of_kind().filter(|f| self.known.contains_key(&f.number));
        (of_kind().count() as u64, known.count() as u64)
    }
}

/// What the search has been over, and what of the fault-free runs it draws from: of the stage and of what makes its jobs.
#[derive(Default)]
pub struct Explored {
    /// Hashes of the sequences tested: two seed runs may have a child in common.
    pub tested: BTreeSet<u64>,
    /// Hashes of drawn sequences that told nothing, or did not happen in full: not drawn again, and not tested, as the queue's child that is the
    /// same has tries of its own.
    pub tried: BTreeSet<u64>,
    /// Seed runs that found new coverage and have not yet passed a durability check on to a child.
    pub durable_due: BTreeSet<u64>,
    /// Points of phases start and test of fault-free runs.
    pub fault_free_stacks: BTreeSet<StackId>,
    /// How long the test phase of the first root lasted, ms; strategies without a queue alone ask.
    pub root_test_ms: u64,
    /// What shapes are cast on and `random-points` draws from, by the id of the root that was read for it.
    pub grounds: BTreeMap<u64, Rc<Ground>>,
    /// Shapes that no cast puts on this cluster; known with the first of the grounds.
    pub never_cast: BTreeSet<String>,
    /// How a kept run began, of those that were looked at; none of one whose file is damaged or gone.
    pub starts: BTreeMap<u64, Option<StartState>>,
}

/// Slots side by side (`-j`), and the sequences in them: of `slots`.
pub struct Beside {
    pub slots: usize,
    pub under_way: Vec<UnderWay>,
    /// Those that were under way when an earlier process ended.
    pub waiting: Vec<Job>,
    /// Key `n` wants an end of the run in the observers.
    pub giving_up: Arc<AtomicBool>,
}

impl Default for Beside {
    fn default() -> Self {
        Beside {
            slots: 1,
            under_way: Vec::new(),
            waiting: Vec::new(),
            giving_up: Arc::default(),
        }
    }
}
