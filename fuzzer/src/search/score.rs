//! The priority score of a child (CrashFuzz Table I; values of its artifact, which are AFL's tables). docs/search.md shows
//! the same numbers; `tests::table_of_the_docs` reads them from there.

/// What the score depends on. Time and coverage are the seed run's, waiting and faults the child's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreInput {
    /// The seed run's wall time, ms.
    pub time_ms: u64,
    /// Slots the seed run set.
    pub coverage: u64,
    /// Picks since the seed run was kept.
    pub waiting: u64,
    /// Faults of the child.
    pub faults: usize,
}

/// Means over all kept runs; 0 = none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Averages {
    pub time_ms: u64,
    pub coverage: u64,
}

/// Picks after which no more of them count.
pub const LONGEST_WAIT: u64 = 4;

/// No score is above this (AFL: HAVOC_MAX_MULT 16 times 100).
pub const CAP: u64 = 1600;

/// 100 x time x coverage x waiting x faults, at most [`CAP`], at least 1.
#[must_use]
pub fn score(input: ScoreInput, averages: Averages) -> u64 {
    let percent = 100.0
        * time_factor(input.time_ms, averages.time_ms)
        * coverage_factor(input.coverage, averages.coverage)
        * waiting_factor(input.waiting)
        * faults_factor(input.faults);
    (percent as u64).clamp(1, CAP)
}

/// 0.1 for a seed run ten times slower than the mean, up to 3 for one four times faster.
#[must_use]
pub fn time_factor(time: u64, mean: u64) -> f64 {
    let (t, m) = (time as f64, mean as f64);
    if t * 0.1 > m {
        0.1
    } else if t * 0.25 > m {
        0.25
    } else if t * 0.5 > m {
        0.5
    } else if t * 0.75 > m {
        0.75
    } else if t * 4.0 < m {
        3.0
    } else if t * 3.0 < m {
        2.0
    } else if t * 2.0 < m {
        1.5
    } else {
        1.0
    }
}

/// 3 for a seed run that covers more than three times the mean, down to 0.25.
#[must_use]
pub fn coverage_factor(slots: u64, mean: u64) -> f64 {
    let (s, m) = (slots as f64, mean as f64);
    if s * 0.3 > m {
        3.0
    } else if s * 0.5 > m {
        2.0
    } else if s * 0.75 > m {
        1.5
    } else if s * 3.0 < m {
        0.25
    } else if s * 2.0 < m {
        0.5
    } else if s * 1.5 < m {
        0.75
    } else {
        1.0
    }
}

/// x4 from four rounds on, x2 below, x1 for a child of the run kept just now.
#[must_use]
pub fn waiting_factor(rounds: u64) -> f64 {
    match rounds {
        0 => 1.0,
        1..=3 => 2.0,
        _ => 4.0,
    }
}

/// Rises to 6 (the paper; its artifact stops at 5), then falls.
#[must_use]
pub fn faults_factor(faults: usize) -> f64 {
    match faults {
        0 => 1.0,
        1..=6 => faults as f64,
        7..=8 => 3.0,
        9..=11 => 2.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::docs_table;
    use super::*;

    /// Rows `| time | mean time | slots | mean slots | rounds | faults | score |` of docs/search.md.
    #[test]
    fn table_of_the_docs() {
        let rows = docs_table::rows("score");
        assert!(rows.len() >= 20, "the docs have {} rows", rows.len());
        for r in rows {
            assert_eq!(r.len(), 7, "{r:?}");
            let input = ScoreInput {
                time_ms: r[0],
                coverage: r[2],
                waiting: r[4],
                faults: usize::try_from(r[5]).unwrap(),
            };
            let means = Averages {
                time_ms: r[1],
                coverage: r[3],
            };
            assert_eq!(score(input, means), r[6], "{r:?}");
        }
    }

    #[test]
    fn faults_rise_to_six_then_fall() {
        let f: Vec<f64> = (1..=12).map(faults_factor).collect();
        assert!(f[..6].windows(2).all(|w| w[0] < w[1]));
        assert!(f[5..].windows(2).all(|w| w[0] >= w[1]));
    }

    #[test]
    fn never_zero_never_above_the_cap() {
        for time_ms in [0, 1, 100, 1_000_000] {
            for coverage in [0, 1, 1000, 65536] {
                for waiting in [0, 5] {
                    for faults in [0, 1, 6, 30] {
                        let s = score(
                            ScoreInput {
                                time_ms,
                                coverage,
                                waiting,
                                faults,
                            },
                            Averages {
                                time_ms: 100,
                                coverage: 1000,
                            },
                        );
                        assert!((1..=CAP).contains(&s));
                    }
                }
            }
        }
    }
}
