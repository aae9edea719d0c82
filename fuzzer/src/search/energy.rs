//! Energy: what is left of the score of a run that was kept for its last fault alone, when others like it were kept. A factor of the
//! queue's draw in `warren`, and as likely a parent of havoc or of a tail; the score itself (`score`) knows nothing of it. What makes two runs alike is feedback's (`states`).

use super::rand::below;
use libafl::state::HasRand;
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

/// Draws one of so many kept runs, evenly, until one fits and has the energy. Where the tries run out: the last that fitted, if any did.
/// `look`: with how many a run shares its energy, itself among them; none where it does not fit.
///
/// # Errors
/// Those of `look`.
pub fn draw_parent<S: HasRand, E>(
    state: &mut S,
    runs: u64,
    tries: u32,
    mut look: impl FnMut(&S, u64) -> Result<Option<u64>, E>,
) -> Result<u64, E> {
    let mut fitted = None;
    let mut at = 0;
    for _ in 0..tries {
        at = below(state.rand_mut(), runs);
        let Some(kept) = look(state, at)? else {
            continue;
        };
        if is_enough(kept, state.rand_mut()) {
            return Ok(at);
        }
        fitted = Some(at);
    }
    Ok(fitted.unwrap_or(at))
}

/// As likely as a run that shares its energy with so many keeps its part of the score.
fn is_enough(kept: u64, rand: &mut impl Rand) -> bool {
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

    struct Only(XoRand);

    impl HasRand for Only {
        type Rand = XoRand;

        fn rand(&self) -> &XoRand {
            &self.0
        }

        fn rand_mut(&mut self) -> &mut XoRand {
            &mut self.0
        }
    }

    /// How often each of eight runs is drawn, of 800 times, with 40 tries each.
    fn drawn(look: fn(u64) -> Option<u64>) -> [u32; 8] {
        let mut state = Only(XoRand::new(1));
        let mut of = [0; 8];
        for _ in 0..800 {
            let at = draw_parent(&mut state, 8, 40, |_, at| Ok::<_, ()>(look(at)));
            of[at.unwrap() as usize] += 1;
        }
        of
    }

    #[test]
    fn parents_fit_and_have_the_energy() {
        // Within four standard deviations.
        let even = drawn(|_| Some(1));
        assert!(even.iter().all(|n| (62..138).contains(n)), "{even:?}");
        let half = drawn(|at| (at < 4).then_some(1));
        assert_eq!(half[4..], [0; 4]);
        // Seven that share with four are drawn as often as one and three quarters that shares with nobody.
        let one = drawn(|at| Some(if at == 0 { 1 } else { 4 }));
        assert!((235..347).contains(&one[0]), "four elevenths: {one:?}");
        // The only one that fits has little energy, and comes before all that do not fit (of 800 draws some four never look at it).
        let tired = drawn(|at| (at == 0).then_some(1000));
        assert!(tired[0] > 780, "{tired:?}");
        assert_eq!(drawn(|_| None).iter().sum::<u32>(), 800);
    }
}
