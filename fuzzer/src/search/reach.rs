//! Reach: what is left of a seed run's score when its children are not injected in full. A factor of the queue's draw, for every strategy
//! that draws by score; the score itself (`score`) knows nothing of it. The paper tries each child as if the run could be had again at will; a run whose
//! later points come in one timing only would take most of a campaign's time, as a child in vain costs more than one that happens.

use serde::{Deserialize, Serialize};

/// No seed run has less than this part of its score: its next child may be the one that happens.
pub const LEAST: u64 = 16;

/// How the children of a seed run fared, in tries that told something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// All faults happened.
    pub injected: u32,
    /// Some did not.
    pub missed: u32,
}

impl Reach {
    /// A score times (injected + 1) / (injected + missed + 1), at least a [`LEAST`]th of it, at least 1.
    #[must_use]
    pub fn left(self, score: u64) -> u64 {
        let (injected, missed) = (u64::from(self.injected), u64::from(self.missed));
        let left = score * (injected + 1) / (injected + missed + 1);
        left.max(score / LEAST).max(1)
    }

    /// The part of a score that is left. The queue compares it with that of the others: by weight alone a pool would end up with the children
    /// of seed runs in vain, which stay in it because they do not happen.
    #[must_use]
    pub fn share(self) -> f64 {
        const WHOLE: u64 = 1 << 20;
        self.left(WHOLE) as f64 / WHOLE as f64
    }
}

/// The weight of a child that was tried in vain so many times: a quarter for each, at least 1. Of a seed run that is left out of a draw
/// (its score is 0 there) no child weighs anything.
#[must_use]
pub fn again(score: u64, tries: u8) -> u64 {
    (score >> (2 * u32::from(tries)).min(63)).max(score.min(1))
}

#[cfg(test)]
mod tests {
    use super::super::docs_table;
    use super::*;

    /// Rows `| injected | missed | score | left |` of docs/search.md.
    #[test]
    fn table_of_the_docs() {
        let rows = docs_table::rows("reach");
        assert!(rows.len() >= 6, "the docs have {} rows", rows.len());
        for r in rows {
            let count = |at: usize| u32::try_from(r[at]).unwrap();
            let reach = Reach {
                injected: count(0),
                missed: count(1),
            };
            assert_eq!(reach.left(r[2]), r[3], "{r:?}");
        }
    }

    #[test]
    fn each_vain_try_leaves_a_quarter() {
        let weights = [(0, 400), (1, 100), (2, 25), (3, 6), (9, 1), (255, 1)];
        for (tries, weight) in weights {
            assert_eq!(again(400, tries), weight, "{tries}");
            assert_eq!(again(0, tries), 0, "left out of the draw");
        }
    }
}
