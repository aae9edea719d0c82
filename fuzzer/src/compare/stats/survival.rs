//! Time to an event that may not come before the watching ends (censoring): Kaplan and Meier's estimate and the log-rank test of two
//! groups. Pure. Here the event is a bug's first show, the time a number of tests; a campaign that ended without it is censored at its end.

use super::two_sided;

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

/// The log-rank test of two groups: chi-squared with one degree of freedom, and p. None where no event tells them apart.
#[must_use]
pub fn log_rank(a: &[Watched], b: &[Watched]) -> Option<(f64, f64)> {
    let (mut more, mut variance) = (0.0, 0.0);
    for time in event_times(&[a, b]) {
        let ((na, da), (nb, db)) = (at(a, time), at(b, time));
        let (n, d) = ((na + nb) as f64, (da + db) as f64);
        let share = na as f64 / n;
        more += da as f64 - d * share;
        if n > 1.0 {
            variance += d * share * (1.0 - share) * (n - d) / (n - 1.0);
        }
    }
    (variance > 0.0).then(|| {
        let chi = more * more / variance;
        (chi, two_sided(chi.sqrt()))
    })
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
