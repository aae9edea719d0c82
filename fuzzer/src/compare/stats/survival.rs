//! Time to an event that may not come before the watching ends (censoring): Kaplan and Meier's estimate and the log-rank test of two
//! groups. Pure: deals are drawn from a seed of its own, so the same campaigns give the same p. Here the event is a bug's first show, the time
//! a number of tests; a campaign that ended without it is censored at its end.

use super::index;
use crate::search::XoRand;

/// Up to so many ways to deal campaigns out to two groups are all tried: ten of twenty are 184,756.
const MOST_WAYS: usize = 200_000;
/// Of more, so many are drawn,
const DEALS: u32 = 100_000;
/// from this seed.
const SEED: u64 = 1;

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

/// The first time at which at most half is without the event; none where more than half never had it. Where just half is, up to the next event,
/// the middle between the two: what the median of so many times would be.
#[must_use]
pub fn median_time(steps: &[Step]) -> Option<f64> {
    // A product of fractions may miss one half by its last bit.
    const BIT: f64 = 1e-9;
    let i = steps.iter().position(|s| s.without <= 0.5 + BIT)?;
    let here = steps[i];
    let next = steps.get(i + 1).filter(|_| here.without >= 0.5 - BIT);
    Some(next.map_or(here.time, |n| f64::midpoint(here.time, n.time)))
}

/// The log-rank test of two groups: chi-squared with one degree of freedom, and its p. None where no event tells them apart.
///
/// p is the share of the ways to deal the same campaigns out to two groups of these sizes in which the groups lie at least as far apart: of all
/// ways where they can be tried (ten a side, at most), else of many that are drawn. The distribution of chi-squared would tell too small a p of
/// few events: 0.025 where three a side lie apart as far as three can, which one deal of ten does, and 0.037 of 4 of 20 against 0 of 20 (0.106).
#[must_use]
pub fn log_rank(a: &[Watched], b: &[Watched]) -> Option<(f64, f64)> {
    let all: Vec<Watched> = a.iter().chain(b).copied().collect();
    let times = event_times(&[&all]);
    let moments: Vec<Moment> = times.iter().map(|t| Moment::of(at(&all, *t))).collect();
    let ours = times.iter().map(|t| at(a, *t));
    let counts = moments.iter().zip(ours).map(|(m, (n, d))| (*m, n, d));
    let chi = chi_squared(counts)?;
    let p = if all.len() < Set::BITS as usize && few_ways(all.len(), a.len()) {
        all_dealt(&all, a.len(), &times, &moments, chi)
    } else {
        // The smaller group: turned round, the test is the same to its last digit.
        drawn(&moments, all.len(), a.len().min(b.len()), chi)
    };
    Some((chi, p))
}

/// A time with an event, as far as it does not depend on who is in which group.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at_risk: usize,
    events: usize,
    /// Of the events, for each that is at risk.
    rate: f64,
    /// Of their variance, for each two at risk in different groups.
    spread: f64,
}

impl Moment {
    fn of((at_risk, events): (usize, usize)) -> Self {
        let (n, d) = (at_risk as f64, events as f64);
        let spread = match at_risk {
            1 => 0.0,
            _ => d * (n - d) / (n * n * (n - 1.0)),
        };
        Moment {
            at_risk,
            events,
            rate: d / n,
            spread,
        }
    }
}

/// Of each time with an event, and of how many were at risk and had the event then in one of the groups.
fn chi_squared(counts: impl Iterator<Item = (Moment, usize, usize)>) -> Option<f64> {
    let (mut more, mut variance) = (0.0, 0.0);
    for (m, at_risk, events) in counts {
        more += events as f64 - m.rate * at_risk as f64;
        variance += m.spread * (at_risk * (m.at_risk - at_risk)) as f64;
    }
    (variance > 0.0).then(|| more * more / variance)
}

/// Whether a deal lies at least as far apart as `chi`; the same figure may differ by its last bits.
fn as_far(counts: impl Iterator<Item = (Moment, usize, usize)>, chi: f64) -> bool {
    chi_squared(counts).unwrap_or(0.0) >= chi - 1e-9
}

/// Campaigns by their place among all: bit i is the i-th.
type Set = u64;

/// The share of all ways to deal the campaigns out, `first` of them to the first group, that come to `chi` or more.
fn all_dealt(all: &[Watched], first: usize, times: &[f64], moments: &[Moment], chi: f64) -> f64 {
    let set = |of: &dyn Fn(&Watched) -> bool| {
        let members = all.iter().enumerate().filter(|(_, w)| of(w));
        members.fold(0, |set: Set, (i, _)| set | 1 << i)
    };
    let of_time = |t: &f64| (set(&|w| w.time >= *t), set(&|w| w.event && w.time == *t));
    let sets: Vec<(Set, Set)> = times.iter().map(of_time).collect();
    let size = |set: Set| set.count_ones() as usize;
    let (mut far, mut dealt) = (0_u32, 0_u32);
    let mut group: Set = (1 << first) - 1;
    while group >> all.len() == 0 {
        let counts = (moments.iter().zip(&sets))
            .map(|(m, (at_risk, events))| (*m, size(at_risk & group), size(events & group)));
        dealt += 1;
        far += u32::from(as_far(counts, chi));
        group = next_of_its_size(group);
    }
    f64::from(far) / f64::from(dealt)
}

/// The same share of [`DEALS`] that are drawn, what was seen being one more: so it is never 0.
fn drawn(moments: &[Moment], all: usize, first: usize, chi: f64) -> f64 {
    let mut random = XoRand::new(SEED);
    let mut far = 1;
    for _ in 0..DEALS {
        let mut deal = Deal {
            left: all,
            ours: first,
        };
        let counts = moments.iter().map(|m| {
            deal.leave(deal.left - m.at_risk, &mut random);
            let at_risk = deal.ours;
            (*m, at_risk, deal.leave(m.events, &mut random))
        });
        far += u32::from(as_far(counts, chi));
    }
    f64::from(far) / f64::from(DEALS + 1)
}

/// Who is in which group is drawn only as campaigns leave, in the order of their times.
struct Deal {
    /// Still watched,
    left: usize,
    /// and in the first group of these.
    ours: usize,
}

impl Deal {
    /// So many leave; answers how many of them were in the first group.
    fn leave(&mut self, many: usize, random: &mut XoRand) -> usize {
        let before = self.ours;
        for _ in 0..many {
            self.ours -= usize::from(index(random, self.left) < self.ours);
            self.left -= 1;
        }
        before - self.ours
    }
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

    /// As R's `survfit` tells it, and as the mean of the middle two where nothing is censored.
    #[test]
    fn where_just_half_is_left_the_median_is_between_two_events() {
        let up_to = |n: u8| -> Vec<f64> { (1..=n).map(f64::from).collect() };
        let table: [(&[f64], Option<f64>); 6] = [
            (&[10.0, 22.0, 182.0, 394.0], Some(102.0)),
            // 2/3, then 1/3: no step stays at one half.
            (&[1.0, 2.0, 3.0], Some(2.0)),
            // One half but for its last bit, the one above it and the other below.
            (&up_to(30), Some(15.5)),
            (&up_to(34), Some(17.5)),
            // Half from 2 on, and no event follows.
            (&[1.0, 2.0, -9.0, -9.0], Some(2.0)),
            (&[1.0, -9.0, -9.0], None),
        ];
        for (times, want) in table {
            assert_eq!(
                median_time(&kaplan_meier(&watched(times))),
                want,
                "{times:?}"
            );
        }
    }

    /// R: `survdiff` of the same data gives 16.8 on one degree of freedom, p = 4e-05 (16.79 in the books).
    #[test]
    fn log_rank_of_the_textbook() {
        let (chi, p) = log_rank(&watched(&SIX_MP), &watched(&PLACEBO)).unwrap();
        close(chi, 16.79, 5e-3);
        assert!(0.0 < p && p < 2e-4, "{p}");
        let (back, same) = log_rank(&watched(&PLACEBO), &watched(&SIX_MP)).unwrap();
        close(back, chi, 1e-9);
        assert_eq!(same, p);
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

    /// k found by one side and none by the other: of the ways to place k among all of them, 2 C(n, k) of C(2n, k) have them on one side. Chi-squared
    /// would tell 0.037, 0.018, 0.009 and 0.031.
    #[test]
    fn of_more_campaigns_deals_are_drawn() {
        let table = [
            (20, 4, 0.1060),
            (20, 5, 0.0471),
            (20, 6, 0.0202),
            (11, 4, 0.0902),
        ];
        for (n, found, want) in table {
            let time = |i| match i < found {
                true => 50.0 * f64::from(i + 1),
                false => -500.0,
            };
            let a: Vec<f64> = (0..n).map(time).collect();
            let b = vec![-500.0; a.len()];
            let (_, p) = log_rank(&watched(&a), &watched(&b)).unwrap();
            close(p, want, 0.002);
            let (_, same) = log_rank(&watched(&b), &watched(&a)).unwrap();
            assert_eq!(same, p);
        }
        // Few ways, but no set holds so many campaigns.
        let (_, p) = log_rank(&watched(&[1.0]), &watched(&[-9.0; 63])).unwrap();
        close(p, 1.0 / 64.0, 0.002);
    }

    /// With equal times, and campaigns that leave between the events, drawn deals say what all of them say.
    #[test]
    fn drawn_deals_are_dealt_as_all_of_them() {
        for (a, b, want) in [
            (&SIX_MP[..8], &PLACEBO[8..15], 0.7099),
            (&SIX_MP[4..12], &PLACEBO[10..17], 0.0486),
            (&SIX_MP[6..14], &PLACEBO[13..21], 0.3546),
        ] {
            let (a, b) = (watched(a), watched(b));
            let (chi, p) = log_rank(&a, &b).unwrap();
            close(p, want, 1e-4);
            let all = [a.clone(), b.clone()].concat();
            let moments: Vec<Moment> = (event_times(&[&all]).iter())
                .map(|t| Moment::of(at(&all, *t)))
                .collect();
            let fewer = a.len().min(b.len());
            close(drawn(&moments, all.len(), fewer, chi), p, 0.003);
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
