//! What learning leaves behind: the roots of the search with what the fault-free runs of each start state cover, and what was learned
//! on the way. A part of the saved state (resume/saved.rs); filled by learning, starts and side_by_side, read by all that draw from a root.
//! It runs nothing.

use crate::campaign::{LearntRoot, least_stable};
use crate::fuzz::slots::side_by_side::Rehearsed;
use serde::{Deserialize, Serialize};
use warren_model::{StackId, StartState};

/// What learning leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// All roots of the search are there.
    pub done: bool,
    /// That of the cold start first, then one for each snapshot. Those made when a campaign was resumed have later runs.
    pub roots: Vec<LearntRoot>,
    /// Of usable runs of the cold start: total and test time, ms.
    pub totals: Vec<u64>,
    pub tests: Vec<u64>,
    /// Maps of usable runs of the start whose root is not made yet.
    pub maps: Vec<Vec<u8>>,
    /// Why runs were not usable.
    pub wrong: Vec<String>,
    /// Background stacks; none = not learned yet.
    pub background: Option<Vec<StackId>>,
    /// What `-j` was asked for, and the slots it came to.
    pub side_by_side: Option<(String, usize)>,
    /// While that is tried.
    pub rehearsed: Option<Rehearsed>,
}

impl Learnt {
    /// Snapshots that runs can start from: they are numbered from 1.
    #[must_use]
    pub fn snapshots(&self) -> u8 {
        let snapshots = self.roots.len().saturating_sub(1);
        u8::try_from(snapshots).unwrap_or(u8::MAX)
    }

    /// The root of a start state; that of the cold start, the first of all kept runs, where this one has none.
    #[must_use]
    pub fn root_of(&self, start: StartState) -> u64 {
        let root = self.roots.iter().find(|r| r.start == start);
        root.map_or(0, |r| r.run)
    }

    /// A fault-free run that the search starts from.
    #[must_use]
    pub fn is_root(&self, run: u64) -> bool {
        self.roots.iter().any(|r| r.run == run)
    }

    /// Of the kept runs that are no roots the n-th, from 0.
    #[must_use]
    pub fn nth_kept(&self, n: u64) -> u64 {
        // They are in the order in which they were kept.
        self.roots
            .iter()
            .fold(n, |run, root| run + u64::from(root.run <= run))
    }

    /// AFL's `stability`, percent, of the start state whose fault-free runs agree least; 100 before there is one.
    #[must_use]
    pub fn stability(&self) -> f64 {
        100.0 * least_stable(&self.roots).stability()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_feedback::coverage::Baseline;

    #[test]
    fn a_late_root_is_known_by_its_start_and_the_least_stable_start_tells_the_stability() {
        let root = |start, run, variable| LearntRoot {
            start,
            run,
            baseline: Baseline {
                slots: 200,
                variable,
            },
        };
        let mut learnt = Learnt::default();
        assert_eq!((learnt.snapshots(), learnt.stability()), (0, 100.0));
        learnt.roots = vec![
            root(StartState::Cold, 0, 2),
            root(StartState::Snapshot(1), 1, 20),
            root(StartState::Snapshot(2), 77, 1),
        ];
        assert_eq!(learnt.snapshots(), 2);
        assert_eq!(learnt.root_of(StartState::Snapshot(2)), 77);
        assert_eq!(learnt.root_of(StartState::Snapshot(3)), 0);
        let kept: Vec<u64> = (0..77).map(|n| learnt.nth_kept(n)).collect();
        assert_eq!(kept[..2], [2, 3]);
        assert_eq!(kept[74..], [76, 78, 79]);
        assert_eq!(Learnt::default().nth_kept(5), 5);
        assert!((learnt.stability() - 90.0).abs() < 1e-9);
    }
}
