//! The campaign's random numbers: xoshiro256++ behind LibAFL's `Rand`, so that `-s SEED` decides every draw.
//! What is drawn from is not the seed's alone: the score of kept runs has their times in it (CrashFuzz's table), and runs take as long as they take.

use libafl_bolts::rands::Rand;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

/// Saved with the campaign's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct XoRand(Xoshiro256PlusPlus);

impl XoRand {
    /// The same seed gives the same choices.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        XoRand(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
}

impl Rand for XoRand {
    fn set_seed(&mut self, seed: u64) {
        self.0 = Xoshiro256PlusPlus::seed_from_u64(seed);
    }

    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// Uniform in `0..n`; `n` = 0 gives 0. By multiplication: the bias is below 2^-32 for the sizes met here.
pub fn below(rand: &mut impl Rand, n: u64) -> u64 {
    ((u128::from(rand.next()) * u128::from(n)) >> 64) as u64
}

/// An index uniform in `0..n` by weight; none of nothing. Equal weights of 1 draw what [`below`] draws.
pub fn weighed(rand: &mut impl Rand, n: usize, weight: impl Fn(usize) -> u64) -> Option<usize> {
    let mut at = below(rand, (0..n).map(&weight).sum());
    (0..n).find(|i| {
        let here = at < weight(*i);
        at = at.saturating_sub(weight(*i));
        here
    })
}

/// True with probability `p`.
pub fn chance(rand: &mut impl Rand, p: f64) -> bool {
    ((rand.next() >> 11) as f64) * (1.0 / (1u64 << 53) as f64) < p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_choices() {
        let draw = |seed| {
            let mut r = XoRand::new(seed);
            (0..20).map(|_| below(&mut r, 1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn below_stays_below_and_chance_is_fair() {
        let mut r = XoRand::new(1);
        assert_eq!(below(&mut r, 0), 0);
        assert!((0..1000).all(|_| below(&mut r, 3) < 3));
        let hits = (0..10_000).filter(|_| chance(&mut r, 0.95)).count();
        assert!((9_300..9_700).contains(&hits), "{hits}");
        assert!(!chance(&mut r, 0.0));
        assert!(chance(&mut r, 1.0));
    }

    #[test]
    fn weights_are_kept() {
        let mut r = XoRand::new(2);
        assert_eq!(weighed(&mut r, 0, |_| 1), None);
        let mut drawn = [0; 3];
        for _ in 0..10_000 {
            drawn[weighed(&mut r, 3, |i| [1, 0, 3][i]).unwrap()] += 1;
        }
        assert!((2_300..2_700).contains(&drawn[0]), "{drawn:?}");
        assert_eq!(drawn[1], 0);
        let (mut a, mut b) = (XoRand::new(5), XoRand::new(5));
        for _ in 0..100 {
            let even = weighed(&mut a, 7, |_| 1).unwrap();
            assert_eq!(even as u64, below(&mut b, 7));
        }
    }

    #[test]
    fn state_survives_saving() {
        let mut r = XoRand::new(3);
        r.next();
        let bytes = postcard::to_allocvec(&r).unwrap();
        let mut back: XoRand = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(back.next(), r.next());
    }
}
