//! Energy: what is left of the score of a run that was kept for its last fault alone, when others like it were kept. A factor of the
//! queue's draw in `warren`, and as likely a parent of havoc or of a tail; the score itself (`score`) knows nothing of it. What makes two runs alike is feedback's (`states`).

use super::rand::below;
use libafl_bolts::rands::Rand;
use serde::{Deserialize, Serialize};

/// No run has less than this part of its score: the calm of a system may hide what no state shows.
pub const LEAST: u64 = 16;

/// What the last fault of a kept run met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alike {
    /// Equal for runs that are alike.
    pub id: u64,
    /// The run showed nothing new beside.
    pub loses: bool,
}

/// A score after so many alike were kept, the run itself among them: all those that lose together weigh about as much as one.
#[must_use]
pub fn left(score: u64, kept: u64) -> u64 {
    (score / kept.clamp(1, LEAST)).max(1)
}

/// Whether a run that shares its energy with so many (itself among them) is a parent for havoc or a tail when it was drawn, else one is drawn
/// anew: as likely as its score keeps its part.
pub fn is_enough(kept: u64, rand: &mut impl Rand) -> bool {
    below(rand, kept.clamp(1, LEAST)) == 0
}

#[cfg(test)]
mod tests {
    use super::super::docs_table;
    use super::super::rand::XoRand;
    use super::*;

    /// Rows `| kept | score | left |` of docs/search.md.
    #[test]
    fn table_of_the_docs() {
        let rows = docs_table::rows("energy");
        assert!(rows.len() >= 6, "the docs have {} rows", rows.len());
        for r in rows {
            assert_eq!(left(r[1], r[0]), r[2], "{r:?}");
        }
    }

    #[test]
    fn a_parent_is_as_likely_as_its_part_of_the_score() {
        let mut rand = XoRand::new(1);
        let mut of = |kept| (0..3200).filter(|_| is_enough(kept, &mut rand)).count();
        assert_eq!(of(1), 3200);
        // Within four standard deviations.
        assert!((687..913).contains(&of(4)), "a quarter");
        for kept in [LEAST, 1000] {
            assert!((145..255).contains(&of(kept)), "a sixteenth of {kept}");
        }
    }
}
