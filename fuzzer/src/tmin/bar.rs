//! How many runs a candidate gets, and in how many it must show: from how often the failure showed in the beginning. Pure.

/// A candidate that is as good as the given sequence passes with at least this probability.
const SURE: f64 = 0.95;
/// Most tries of one candidate without -n: a failure that shows more rarely may lose a step, and the result says so by its k of n.
const MOST: u32 = 12;
/// Two of so many at most; a rarer failure needs to show once.
const MOST_FOR_TWO: u32 = 6;

/// `needed` of `tries`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    pub tries: u32,
    pub needed: u32,
}

impl Bar {
    /// Whether more runs can still change the answer; the answer so far.
    #[must_use]
    pub fn decided(self, hits: u32, runs: u32) -> Option<bool> {
        if hits >= self.needed {
            Some(true)
        } else if hits + self.tries.saturating_sub(runs) < self.needed {
            Some(false)
        } else {
            None
        }
    }

    /// After `hits` of `runs`; `tries` and `needed` are -n and -k.
    #[must_use]
    pub fn learn(hits: u32, runs: u32, tries: Option<u32>, needed: Option<u32>) -> Self {
        // One run more of each kind than seen: three of three is no promise of ever.
        let rate = f64::from(hits + 1) / f64::from(runs + 2);
        let enough = |n: u32, k: u32| at_least(k, n, rate) >= SURE;
        let smallest = |k: u32, most: u32| (k..=most).find(|n| enough(*n, k));
        match (tries, needed) {
            (Some(n), Some(k)) => Bar {
                tries: n.max(k),
                needed: k,
            },
            (Some(n), None) => Bar {
                tries: n,
                needed: if n >= 2 && enough(n, 2) { 2 } else { 1 },
            },
            (None, Some(k)) => Bar {
                tries: smallest(k, MOST.max(k)).unwrap_or(MOST.max(k)),
                needed: k,
            },
            (None, None) => smallest(2, MOST_FOR_TWO).map_or_else(
                || Bar {
                    tries: smallest(1, MOST).unwrap_or(MOST),
                    needed: 1,
                },
                |n| Bar {
                    tries: n,
                    needed: 2,
                },
            ),
        }
    }
}

/// Tries in a row that do not come to all faults after which a candidate is given up: one whose points come as often as those of the given
/// sequence, which missed them in `missed` of `runs`, is not given up so with probability 0.95.
#[must_use]
pub fn misses(missed: u32, runs: u32) -> u32 {
    let rate = f64::from(missed + 1) / f64::from(runs + 2);
    let enough = |n: &u32| at_least(*n, *n, rate) <= 1.0 - SURE;
    (1..MOST).find(enough).unwrap_or(MOST)
}

/// Probability of at least k hits in n runs at this rate.
fn at_least(k: u32, n: u32, rate: f64) -> f64 {
    let mut below = 0.0;
    let mut choose = 1.0;
    for i in 0..k.min(n + 1) {
        below += choose
            * rate.powi(i32::try_from(i).unwrap_or(i32::MAX))
            * (1.0 - rate).powi(i32::try_from(n - i).unwrap_or(i32::MAX));
        choose = choose * f64::from(n - i) / f64::from(i + 1);
    }
    1.0 - below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarer_the_more_tries() {
        let bar = |h, n| {
            let b = Bar::learn(h, n, None, None);
            (b.needed, b.tries)
        };
        let table = [
            ((3, 3), (2, 4)),
            ((10, 10), (2, 3)),
            ((3, 4), (2, 5)),
            ((3, 6), (1, 5)),
            ((3, 10), (1, 8)),
            ((2, 8), (1, 9)),
            ((1, 10), (1, 12)),
            ((1, 40), (1, 12)),
        ];
        for ((h, n), want) in table {
            assert_eq!(bar(h, n), want, "{h} of {n}");
        }
    }

    #[test]
    fn what_was_asked_for_is_taken() {
        let table = [
            (Some(5), Some(3), (3, 5)),
            (Some(2), None, (1, 2)),
            (Some(5), None, (2, 5)),
            (Some(1), None, (1, 1)),
            (None, Some(1), (1, 2)),
            (None, Some(3), (3, 6)),
        ];
        for (n, k, want) in table {
            let b = Bar::learn(3, 3, n, k);
            assert_eq!((b.needed, b.tries), want, "-n {n:?} -k {k:?}");
        }
    }

    #[test]
    fn no_run_more_than_needed() {
        let bar = Bar {
            tries: 4,
            needed: 2,
        };
        let table = [
            (0, 0, None),
            (1, 1, None),
            (2, 2, Some(true)),
            (0, 2, None),
            (0, 3, Some(false)),
            (1, 3, None),
            (1, 4, Some(false)),
        ];
        for (hits, runs, want) in table {
            assert_eq!(bar.decided(hits, runs), want, "{hits} of {runs}");
        }
    }

    #[test]
    fn the_surer_the_points_the_sooner_a_candidate_is_given_up() {
        let table = [
            ((0, 3), 2),
            ((0, 1), 3),
            ((0, 30), 1),
            ((1, 4), 3),
            ((5, 10), 5),
            ((9, 10), 12),
        ];
        for ((missed, runs), want) in table {
            assert_eq!(misses(missed, runs), want, "{missed} of {runs}");
        }
    }

    #[test]
    fn probabilities() {
        assert!((at_least(1, 1, 0.5) - 0.5).abs() < 1e-9);
        assert!((at_least(2, 3, 0.5) - 0.5).abs() < 1e-9);
        assert!((at_least(1, 11, 0.25) - (1.0 - 0.75f64.powi(11))).abs() < 1e-9);
    }
}
