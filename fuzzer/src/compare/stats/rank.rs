//! Two samples without any assumption on their distributions: Vargha and Delaney's A12 (how large is the difference) with a bootstrap
//! interval, Mann and Whitney's test (can it be chance), Holm's correction (of several tests, is one chance). Pure: the bootstrap draws
//! from a seed of its own, so the same samples give the same interval.

use super::{index, median, two_sided};
use crate::search::XoRand;
use std::cmp::Ordering;

/// Resamples of the bootstrap: of 2,000, an end of the interval depends on the seed in its second digit.
const RESAMPLES: usize = 20_000;
/// Of the interval.
const CONFIDENCE: f64 = 0.95;
/// Of fewer values a side no interval is told: of three it misses A12 in a fifth to a quarter of all samples, of five in a tenth.
pub const LEAST: usize = 5;
/// Up to so many pairs the exact distribution of U is counted; beyond, and with ties, the normal approximation is good.
const EXACT_PAIRS: usize = 1600;

/// The probability that a value of `x` is larger than one of `y`, equal ones by half. None without values.
#[must_use]
pub fn a12(x: &[f64], y: &[f64]) -> Option<f64> {
    let pairs = x.len() * y.len();
    (pairs > 0).then(|| wins(x, y) / pairs as f64)
}

/// Pairs in which `x` has the larger value, equal ones by half: Mann and Whitney's U. Exact, being a sum of halves.
fn wins(x: &[f64], y: &[f64]) -> f64 {
    let of = |a: &f64| -> f64 {
        let pairs = y.iter().map(|b| match a.partial_cmp(b) {
            Some(Ordering::Greater) => 1.0,
            Some(Ordering::Equal) => 0.5,
            _ => 0.0,
        });
        pairs.sum()
    };
    x.iter().map(of).sum()
}

/// The 95 % percentile bootstrap interval of A12. None for a sample of fewer than [`LEAST`]: it would say more than they know.
#[must_use]
pub fn a12_interval(x: &[f64], y: &[f64], seed: u64) -> Option<(f64, f64)> {
    if x.len() < LEAST || y.len() < LEAST {
        return None;
    }
    let mut random = XoRand::new(seed);
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Of each value of `x`: how many of `y` are below it, and how many not above.
    let place = |a: &f64| {
        let upto = |within: fn(&f64, &f64) -> bool| sorted.partition_point(|b| within(b, a));
        (upto(f64::lt), upto(f64::le))
    };
    let places: Vec<(usize, usize)> = x.iter().map(place).collect();
    // Of a resample of `y`: how many are among its first so many values.
    let mut among = vec![0; y.len() + 1];
    let pairs = (x.len() * y.len()) as f64;
    let mut resample = || {
        among.fill(0);
        for _ in y {
            among[index(&mut random, y.len()) + 1] += 1;
        }
        for i in 1..among.len() {
            among[i] += among[i - 1];
        }
        let twice = |(lower, not_above): (usize, usize)| among[lower] + among[not_above];
        let wins: usize = (x.iter())
            .map(|_| twice(places[index(&mut random, x.len())]))
            .sum();
        wins as f64 / 2.0 / pairs
    };
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    values.sort_by(f64::total_cmp);
    let cut = ((1.0 - CONFIDENCE) / 2.0 * RESAMPLES as f64) as usize;
    Some((values[cut], values[RESAMPLES - 1 - cut]))
}

/// U of `x` and the two-sided p of Mann and Whitney's test: exact without ties, else the normal approximation with corrections for ties
/// and continuity. None without values.
#[must_use]
pub fn mann_whitney(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
    let (n, m) = (x.len(), y.len());
    if n * m == 0 {
        return None;
    }
    let u = wins(x, y);
    let mut all: Vec<f64> = x.iter().chain(y).copied().collect();
    all.sort_by(f64::total_cmp);
    // Lengths of runs of equal values.
    let ties: Vec<f64> = all
        .chunk_by(|a, b| a == b)
        .map(|run| run.len() as f64)
        .collect();
    let tied = ties.len() < all.len();
    if !tied && n * m <= EXACT_PAIRS {
        return Some((u, exact(u, n, m)));
    }
    let (nf, mf, total) = (n as f64, m as f64, all.len() as f64);
    let correction: f64 = ties.iter().map(|t| t * t * t - t).sum::<f64>() / (total * (total - 1.0));
    let variance = nf * mf / 12.0 * (total + 1.0 - correction);
    if variance <= 0.0 {
        // All values are equal.
        return Some((u, 1.0));
    }
    let off = ((u - nf * mf / 2.0).abs() - 0.5).max(0.0);
    Some((u, two_sided(off / variance.sqrt())))
}

/// Two-sided p of U by counting: of all orders of n and m values, how many are at least as far from the middle.
fn exact(u: f64, n: usize, m: usize) -> f64 {
    // counts[j][u]: orders of the values so far with j of `x` among them that have this U.
    // By the last value of an order: of `x` it beats all of `y` before it, of `y` it beats none.
    let mut counts = vec![vec![vec![0.0_f64; n * m + 1]; m + 1]; n + 1];
    for i in 0..=n {
        for j in 0..=m {
            if i == 0 || j == 0 {
                counts[i][j][0] = 1.0;
                continue;
            }
            for u in 0..=i * j {
                let with_x = if u >= j { counts[i - 1][j][u - j] } else { 0.0 };
                counts[i][j][u] = with_x + counts[i][j - 1][u];
            }
        }
    }
    let of = &counts[n][m];
    let all: f64 = of.iter().sum();
    let least = u.min((n * m) as f64 - u);
    let tail: f64 = of.iter().take(least as usize + 1).sum();
    (2.0 * tail / all).min(1.0)
}

/// Holm's correction of a family of p values, in their order.
#[must_use]
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|a, b| ps[*a].total_cmp(&ps[*b]));
    let mut out = vec![0.0; ps.len()];
    let mut least = 0.0_f64;
    for (done, i) in order.into_iter().enumerate() {
        least = least.max(((ps.len() - done) as f64 * ps[i]).min(1.0));
        out[i] = least;
    }
    out
}

/// Smallest, median, largest.
#[must_use]
pub fn spread(values: &[f64]) -> Option<(f64, f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, median(values)?, most))
}

#[cfg(test)]
mod tests {
    use super::super::close;
    use super::*;

    /// Permeability of the placenta at term and before: Hollander and Wolfe, Nonparametric Statistical Methods, 2nd ed. 1999, table 4.1;
    /// there and in R's `wilcox.test` W = 35 and one-sided p = 0.1272.
    const TERM: [f64; 10] = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    const BEFORE: [f64; 5] = [1.15, 0.88, 0.90, 0.74, 1.21];

    #[test]
    fn a12_by_hand() {
        // 3 beats 2; 2 and 3 each meet an equal: (1 + 2/2) of 9 pairs.
        let table: [(&[f64], &[f64], Option<f64>); 6] = [
            (&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0], Some(2.0 / 9.0)),
            (&[2.0, 3.0, 4.0], &[1.0, 2.0, 3.0], Some(7.0 / 9.0)),
            (&[5.0, 6.0], &[1.0, 2.0, 3.0], Some(1.0)),
            (&[1.0], &[1.0], Some(0.5)),
            (&[], &[1.0], None),
            (&TERM, &BEFORE, Some(0.7)),
        ];
        for (x, y, want) in table {
            match (a12(x, y), want) {
                (Some(got), Some(want)) => close(got, want, 1e-12),
                (got, want) => assert_eq!(got, want),
            }
        }
    }

    #[test]
    fn the_interval_holds_the_value_and_is_the_same_each_time() {
        let a = a12(&TERM, &BEFORE).unwrap();
        let (low, high) = a12_interval(&TERM, &BEFORE, 1).unwrap();
        assert!(
            0.0 <= low && low < a && a < high && high <= 1.0,
            "{low} {high}"
        );
        assert_eq!(a12_interval(&TERM, &BEFORE, 1), Some((low, high)));
        // Turned round, it is the mirror image, but for what was drawn.
        let (l, h) = a12_interval(&BEFORE, &TERM, 1).unwrap();
        close(l, 1.0 - high, 0.05);
        close(h, 1.0 - low, 0.05);
        // Apart in every pair, apart in every resample.
        let (x, y) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_eq!(a12_interval(&x, &y, 1), Some((0.0, 0.0)));
        // Equal in every pair.
        assert_eq!(a12_interval(&[7.0; 5], &[7.0; 5], 1), Some((0.5, 0.5)));
        assert_eq!(a12_interval(&x[..4], &y, 1), None);
        assert_eq!(a12_interval(&x, &y[..4], 1), None);
    }

    /// Signatures of docs/comparisons/zookeeper-tails. Counted over all 126 x 126 resamples, 2.2 to 3.4 % are at most 0.12 and 97.1 to 97.9 % at
    /// most 0.88.
    #[test]
    fn the_interval_is_that_of_all_resamples_whatever_the_seed() {
        let (x, y) = ([2.0, 8.0, 7.0, 2.0, 6.0], [5.0, 12.0, 2.0, 1.0, 12.0]);
        for seed in 1..=4 {
            assert_eq!(a12_interval(&x, &y, seed), Some((0.12, 0.88)), "{seed}");
        }
    }

    #[test]
    fn mann_whitney_exact() {
        let (u, p) = mann_whitney(&TERM, &BEFORE).unwrap();
        assert_eq!(u, 35.0);
        close(p, 2.0 * 0.1272, 1e-4);
        // By hand: of the 20 orders of three and three, two are as far apart; of the 6 of one and five, likewise 2.
        let (u, p) = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!(u, 0.0);
        close(p, 2.0 / 20.0, 1e-12);
        let (u, p) = mann_whitney(&[9.0], &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(u, 5.0);
        close(p, 2.0 / 6.0, 1e-12);
        // The middle is no evidence.
        close(
            mann_whitney(&[1.0, 4.0], &[2.0, 3.0]).unwrap().1,
            1.0,
            1e-12,
        );
        // The table of Mann and Whitney for n = m = 8: U = 13 is the last with p at most 0.05 on both sides.
        let of = |u: f64| exact(u, 8, 8);
        assert!(of(13.0) <= 0.05 && of(14.0) > 0.05);
    }

    /// U is a count: a share of the pairs, multiplied again, may come out just below it (p would then be 0.0476 and 0.0459).
    #[test]
    fn a_count_is_not_cut_off() {
        // The first `less` values of `x` are below all of `y`, the next one above just so many, the rest above all.
        let apart = |n: usize, m: usize, u: usize| {
            let y: Vec<f64> = (0..m).map(|j| j as f64).collect();
            let over = |i: usize| match i {
                i if i < u / m => m,
                i if i == u / m => u % m,
                _ => 0,
            };
            let x: Vec<f64> = (0..n)
                .map(|i| over(i) as f64 - 0.9 + i as f64 / 1000.0)
                .collect();
            (x, y)
        };
        for (n, m, u, want) in [
            (9, 15, 35, 0.0552),
            (10, 17, 46, 0.0520),
            (12, 12, 107, 0.0449),
        ] {
            let (x, y) = apart(n, m, u);
            let (got, p) = mann_whitney(&x, &y).unwrap();
            assert_eq!(got, u as f64, "{n} {m}");
            close(p, want, 5e-5);
            let (back, same) = mann_whitney(&y, &x).unwrap();
            assert_eq!(back, (n * m - u) as f64);
            close(same, p, 1e-12);
        }
    }

    #[test]
    fn mann_whitney_with_ties() {
        // By hand: ranks 1, 3, 3 and 3, 5, 6; U = 7 - 6 = 1; one run of three equals, so the variance is
        // 9/12 (7 - 24/30) = 4.65; z = (3.5 - 0.5) / 2.156386 = 1.391218; p = 0.164160.
        let (u, p) = mann_whitney(&[1.0, 2.0, 2.0], &[2.0, 3.0, 4.0]).unwrap();
        assert_eq!(u, 1.0);
        close(p, 0.164_160, 1e-5);
        assert_eq!(mann_whitney(&[7.0; 4], &[7.0; 5]), Some((10.0, 1.0)));
        assert_eq!(mann_whitney(&[], &[7.0]), None);
    }

    /// R: `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` is 0.03 0.06 0.06 0.02; by hand: 4, 3, 2, 1 times, never falling.
    #[test]
    fn holm_by_hand() {
        let got = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (a, b) in got.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            close(*a, b, 1e-12);
        }
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn spreads() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(spread(&[]), None);
    }
}
