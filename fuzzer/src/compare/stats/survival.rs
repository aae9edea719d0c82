//! Time to an event that may not come before the watching ends (censoring): Kaplan and Meier's estimate and the log-rank test of two
//! groups. Pure. Here the event is a bug's first show, the time a number of tests; a campaign that ended without it is censored at its end.

use super::two_sided;

/// Up to so many ways to deal campaigns out to two groups are all tried: ten of twenty are 184,756.
const MOST_WAYS: usize = 200_000;

/// One campaign: how long it was watched, and whether the event came at the end of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    pub time: f64,
    pub event: bool,
}

/// A step of the estimate: from `time` on, the share that is still without the event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub time: f64,
    pub without: f64,
    /// Watched until now, and with the event now.
    pub at_risk: usize,
    pub events: usize,
}

/// Kaplan and Meier's estimate: a step for each time with an event. Who is censored at that time was still at risk.
#[must_use]
pub fn kaplan_meier(watched: &[Watched]) -> Vec<Step> {
    let mut without = 1.0;
    event_times(&[watched])
        .into_iter()
        .map(|time| {
            let (at_risk, events) = at(watched, time);
            without *= 1.0 - events as f64 / at_risk as f64;
            Step {
                time,
                without,
                at_risk,
                events,
            }
        })
        .collect()
}

/// The first time at which at most half is without the event; none where more than half never had it.
#[must_use]
pub fn median_time(steps: &[Step]) -> Option<f64> {
    // A product of fractions may miss one half by its last bit.
    steps
        .iter()
        .find(|s| s.without <= 0.5 + 1e-9)
        .map(|s| s.time)
}

/// The log-rank test of two groups: chi-squared with one degree of freedom, and its p. None where no event tells them apart.
///
/// Where all ways to deal the same campaigns out to two groups of these sizes can be tried (ten a side, at most), p is the share of them in
/// which the groups lie at least as far apart. Only beyond it is taken from the distribution of chi-squared, which tells too small a p of few
/// campaigns: 0.025 where three a side lie apart as far as three can, which one deal of ten does.
#[must_use]
pub fn log_rank(a: &[Watched], b: &[Watched]) -> Option<(f64, f64)> {
    let times = event_times(&[a, b]);
    let chi = chi_squared(times.iter().map(|t| (at(a, *t), at(b, *t))))?;
    let p = dealt_anew(&times, a, b, chi).unwrap_or_else(|| two_sided(chi.sqrt()));
    Some((chi, p))
}

/// Of the counts (at risk, with the event) of both groups at each time with an event.
fn chi_squared(counts: impl Iterator<Item = ((usize, usize), (usize, usize))>) -> Option<f64> {
    let (mut more, mut variance) = (0.0, 0.0);
    for ((na, da), (nb, db)) in counts {
        let (n, d) = ((na + nb) as f64, (da + db) as f64);
        let share = na as f64 / n;
        more += da as f64 - d * share;
        if n > 1.0 {
            variance += d * share * (1.0 - share) * (n - d) / (n - 1.0);
        }
    }
    (variance > 0.0).then(|| more * more / variance)
}

/// Campaigns by their place among all: bit i is the i-th.
type Set = u64;

/// The share of all ways to deal the campaigns out that come to `chi` or more. None where these are too many to try.
fn dealt_anew(times: &[f64], a: &[Watched], b: &[Watched], chi: f64) -> Option<f64> {
    let all: Vec<Watched> = a.iter().chain(b).copied().collect();
    if all.len() >= Set::BITS as usize || !few_ways(all.len(), a.len()) {
        return None;
    }
    let set = |of: &dyn Fn(&Watched) -> bool| {
        let members = all.iter().enumerate().filter(|(_, w)| of(w));
        members.fold(0, |set: Set, (i, _)| set | 1 << i)
    };
    let of_time = |t: &f64| (set(&|w| w.time >= *t), set(&|w| w.event && w.time == *t));
    let sets: Vec<(Set, Set)> = times.iter().map(of_time).collect();
    let size = |set: Set| set.count_ones() as usize;
    let (mut as_far, mut dealt) = (0_u32, 0_u32);
    let mut group: Set = (1 << a.len()) - 1;
    while group >> all.len() == 0 {
        let counts = sets.iter().map(|(at_risk, events)| {
            let part = |of: Set| (size(at_risk & of), size(events & of));
            (part(group), part(!group))
        });
        dealt += 1;
        // The same figure may differ by its last bits.
        as_far += u32::from(chi_squared(counts).unwrap_or(0.0) >= chi - 1e-9);
        group = next_of_its_size(group);
    }
    Some(f64::from(as_far) / f64::from(dealt))
}

/// Whether there are at most [`MOST_WAYS`] to take `k` of `n`.
fn few_ways(n: usize, k: usize) -> bool {
    let mut ways = 1;
    // Each is a whole number, and they rise up to the middle.
    (0..k.min(n - k)).all(|i| {
        ways = ways * (n - i) / (i + 1);
        ways <= MOST_WAYS
    })
}

/// The next larger number with as many bits set (Gosper's hack). Of a set that is not empty.
fn next_of_its_size(set: Set) -> Set {
    let lowest = set & set.wrapping_neg();
    let carried = set + lowest;
    carried | (((set ^ carried) >> 2) / lowest)
}

/// Times with an event in any group, each once, rising.
fn event_times(groups: &[&[Watched]]) -> Vec<f64> {
    let events = groups.iter().flat_map(|g| g.iter()).filter(|w| w.event);
    let mut times: Vec<f64> = events.map(|w| w.time).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    times
}

/// At a time: watched until then or longer, and with the event just then.
fn at(watched: &[Watched], time: f64) -> (usize, usize) {
    let at_risk = watched.iter().filter(|w| w.time >= time).count();
    let events = watched.iter().filter(|w| w.event && w.time == time);
    (at_risk, events.count())
}

#[cfg(test)]
mod tests {
    use super::super::close;
    use super::*;

    /// Weeks of remission, negative = censored. Freireich and others 1963, as in Kalbfleisch and Prentice, The Statistical Analysis of
    /// Failure Time Data, table 1.1 of the first edition; a textbook example ever since (also R's MASS::gehan).
    const SIX_MP: [f64; 21] = [
        6.0, 6.0, 6.0, -6.0, 7.0, -9.0, 10.0, -10.0, -11.0, 13.0, 16.0, -17.0, -19.0, -20.0, 22.0,
        23.0, -25.0, -32.0, -32.0, -34.0, -35.0,
    ];
    const PLACEBO: [f64; 21] = [
        1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 5.0, 8.0, 8.0, 8.0, 8.0, 11.0, 11.0, 12.0, 12.0,
        15.0, 17.0, 22.0, 23.0,
    ];

    fn watched(weeks: &[f64]) -> Vec<Watched> {
        let of = |w: &f64| Watched {
            time: w.abs(),
            event: *w > 0.0,
        };
        weeks.iter().map(of).collect()
    }

    #[test]
    fn kaplan_meier_of_the_textbook() {
        let steps = kaplan_meier(&watched(&SIX_MP));
        let want = [
            (6.0, 0.857, 21, 3),
            (7.0, 0.807, 17, 1),
            (10.0, 0.753, 15, 1),
            (13.0, 0.690, 12, 1),
            (16.0, 0.627, 11, 1),
            (22.0, 0.538, 7, 1),
            (23.0, 0.448, 6, 1),
        ];
        assert_eq!(steps.len(), want.len());
        for (s, (time, without, at_risk, events)) in steps.iter().zip(want) {
            assert_eq!((s.time, s.at_risk, s.events), (time, at_risk, events));
            close(s.without, without, 5e-4);
        }
        assert_eq!(median_time(&steps), Some(23.0));
        assert_eq!(median_time(&kaplan_meier(&watched(&PLACEBO))), Some(8.0));
    }

    /// R: `survdiff` of the same data gives 16.8 on one degree of freedom, p = 4e-05 (16.79 in the books).
    #[test]
    fn log_rank_of_the_textbook() {
        let (chi, p) = log_rank(&watched(&SIX_MP), &watched(&PLACEBO)).unwrap();
        close(chi, 16.79, 5e-3);
        close(p, 4.17e-5, 1e-6);
        let (back, _) = log_rank(&watched(&PLACEBO), &watched(&SIX_MP)).unwrap();
        close(back, chi, 1e-9);
    }

    #[test]
    fn log_rank_by_hand() {
        // Events at 1 (a), 2 (b); at 1 two and two are at risk: 1 - 1/2, variance 1/4. At 2 one of a (censored at 3) and two of b:
        // 0 - 1/3, variance 1/3 * 2/3. Chi-squared (1/6)^2 / (1/4 + 2/9) = 1/17.
        let (chi, _) = log_rank(&watched(&[1.0, -3.0]), &watched(&[2.0, -3.0])).unwrap();
        close(chi, 1.0 / 17.0, 1e-12);
    }

    /// p of few campaigns by counting the deals: found by all of one side and by none of the other is one deal of C(n+m, n), or two where the
    /// sides are alike. The second has the times of docs/comparisons/canary-shapes, and its p is by a program written for that alone.
    #[test]
    fn of_few_campaigns_all_deals_are_tried() {
        type Case<'a> = (&'a [f64], &'a [f64], f64);
        let table: [Case<'_>; 7] = [
            (&[32.0, 222.0, 26.0], &[-500.0; 3], 2.0 / 20.0),
            (
                &[112.0, 303.0, 62.0, 80.0, -500.0],
                &[-500.0; 5],
                12.0 / 252.0,
            ),
            (&[1.0, 2.0, 3.0, 4.0, 5.0], &[-9.0; 5], 2.0 / 252.0),
            // The least p that two against three can have: one deal of ten, as no other one is its mirror.
            (&[1.0, 2.0], &[-9.0; 3], 1.0 / 10.0),
            (&[5.0], &[-9.0], 1.0),
            // Equal times: no deal differs from the other.
            (&[5.0, 5.0], &[5.0, -9.0], 1.0),
            (&[1.0, -9.0, -9.0], &[-9.0; 60], 3.0 / 63.0),
        ];
        for (a, b, want) in table {
            let (chi, p) = log_rank(&watched(a), &watched(b)).unwrap();
            close(p, want, 1e-12);
            let (back, same) = log_rank(&watched(b), &watched(a)).unwrap();
            close(back, chi, 1e-9);
            close(same, p, 1e-12);
        }
    }

    #[test]
    fn few_ways_are_those_that_can_be_tried() {
        let table = [
            (20, 10, true),
            (21, 10, false),
            (40, 20, false),
            (40, 37, true),
            (63, 1, true),
            (5, 0, true),
            (5, 5, true),
        ];
        for (n, k, want) in table {
            assert_eq!(few_ways(n, k), want, "{k} of {n}");
        }
        assert_eq!(next_of_its_size(0b0_0111), 0b0_1011);
        assert_eq!(next_of_its_size(0b1_1100), 0b10_0011);
    }

    #[test]
    fn what_cannot_be_told() {
        assert!(kaplan_meier(&watched(&[-5.0, -5.0])).is_empty());
        assert_eq!(median_time(&[]), None);
        assert_eq!(log_rank(&watched(&[-5.0]), &watched(&[-5.0])), None);
        assert_eq!(log_rank(&[], &watched(&[1.0])), None);
        // Two of four: at half.
        let steps = kaplan_meier(&watched(&[1.0, 2.0, -9.0, -9.0]));
        assert_eq!(median_time(&steps), Some(2.0));
        assert_eq!(
            median_time(&kaplan_meier(&watched(&[1.0, -9.0, -9.0]))),
            None
        );
    }
}
