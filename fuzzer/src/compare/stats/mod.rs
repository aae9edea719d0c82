//! The statistics of a comparison, as pure functions over plain numbers: [`rank`] (how often is one sample larger), [`survival`] (time to
//! an event that may not come), [`curve`] (growth over tests or time). Called by [`super::outcome`]. They know no campaign and decide
//! nothing: when a sample is too small for a test is said where its result is shown.

pub mod curve;
pub mod rank;
pub mod survival;

use crate::search::XoRand;
use crate::search::rand::below;

/// An index of `n`, each as probable as the others.
fn index(random: &mut XoRand, n: usize) -> usize {
    below(random, n as u64) as usize
}

/// P(|Z| > z) of the standard normal distribution.
#[must_use]
pub fn two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// The median; of an even number the mean of the middle two; none of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        Some(upper)
    } else {
        Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
    }
}

#[cfg(test)]
pub(super) fn close(a: f64, b: f64, within: f64) {
    assert!((a - b).abs() <= within, "{a} is not {b} (within {within})");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any table of the normal distribution: 1.959964 leaves 5 % outside, 2.575829 leaves 1 %.
    #[test]
    fn tails_of_the_normal_distribution() {
        for (z, p) in [
            (0.0, 1.0),
            (1.0, 0.317_311),
            (-1.959_964, 0.05),
            (2.575_829, 0.01),
        ] {
            close(two_sided(z), p, 1e-6);
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
