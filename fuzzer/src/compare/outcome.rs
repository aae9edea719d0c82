//! What a table of campaigns comes to: each arm's figures, each arm against one of them, each bug's time to its first show. Pure; how it is
//! shown is [`super::report`]'s.

pub use super::axis::Axis;
use super::bugs::Bugs;
use super::stats::curve::{Curve, mean_height};
use super::stats::rank::{a12, a12_interval, holm, mann_whitney, spread};
use super::stats::survival::{Step, Watched, kaplan_meier, log_rank, median_time};
use super::table::{EXHAUSTED, FOUND, Point, Row};

/// Below so many campaigns of either arm Mann and Whitney's test is not asked.
pub const ENOUGH: usize = 8;
/// Of the bootstrap: the same table gives the same intervals.
const SEED: u64 = 1;

/// Smallest, median, largest.
pub type Spread = (f64, f64, f64);

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The arm that the others are held against.
    pub against: String,
    /// How long a bug was looked for is counted in these.
    pub over: Axis,
    pub ends: Ends,
    /// No campaign ended with what it looked for: where one does, how far each got says how late it was found, not what it covers, and nothing but
    /// bugs is compared.
    pub whole: bool,
    pub arms: Vec<ArmFigures>,
    pub pairs: Vec<Pair>,
    pub bugs: Vec<BugFigures>,
}

/// How far the curves of all campaigns reach: an area is taken up to there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ends {
    pub tests: f64,
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// One arm.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmFigures {
    pub label: String,
    pub campaigns: usize,
    /// Of these, those that had nothing left to try.
    pub exhausted: usize,
    pub tests: Option<Spread>,
    pub seconds: Option<Spread>,
    pub cpu_seconds: Option<Spread>,
    /// A spread for each of [`MEASURES`]; none where a campaign does not tell it.
    pub measures: Vec<Option<Spread>>,
}

/// A figure of a campaign that arms are compared by.
pub struct Measure {
    pub name: &'static str,
    /// It says how a campaign ended, and so depends on its budget.
    pub at_end: bool,
    of: fn(&Row, &Ends) -> Option<f64>,
}

/// The figures.
pub const MEASURES: [Measure; 8] = [
    Measure {
        name: "slots at the end",
        at_end: true,
        of: |r, _| Some(r.curve.last()?.slots as f64),
    },
    Measure {
        name: "mean slots over tests",
        at_end: false,
        of: |r, e| mean(r, e, Axis::Tests, slots),
    },
    Measure {
        name: "mean slots over time",
        at_end: false,
        of: |r, e| mean(r, e, Axis::Seconds, slots),
    },
    Measure {
        name: "mean slots over CPU time",
        at_end: false,
        of: |r, e| mean(r, e, Axis::CpuSeconds, slots),
    },
    Measure {
        name: "signatures",
        at_end: true,
        of: |r, _| Some(r.signatures() as f64),
    },
    Measure {
        name: "states at the end",
        at_end: true,
        of: |r, _| Some(r.curve.last()?.states? as f64),
    },
    Measure {
        name: "mean states over tests",
        at_end: false,
        of: |r, e| mean_states(r, e, Axis::Tests),
    },
    Measure {
        name: "mean states over time",
        at_end: false,
        of: |r, e| mean_states(r, e, Axis::Seconds),
    },
];

fn mean(row: &Row, ends: &Ends, axis: Axis, value: fn(&Point) -> f64) -> Option<f64> {
    Some(mean_height(&curve(row, axis, value), ends.along(axis)))
}

/// None where the campaign counted no states.
fn mean_states(row: &Row, ends: &Ends, axis: Axis) -> Option<f64> {
    row.curve.last()?.states?;
    mean(row, ends, axis, states)
}

/// An arm against the other one, by one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub arm: String,
    pub measure: &'static str,
    /// The probability that the arm's campaign has the larger value.
    pub a12: f64,
    pub interval: Option<(f64, f64)>,
    /// Of Mann and Whitney, plain and after Holm over all arms, those with too few campaigns among them; none: it has too few.
    pub p: Option<(f64, f64)>,
}

/// One bug in all arms.
#[derive(Clone, Debug, PartialEq)]
pub struct BugFigures {
    pub name: String,
    pub arms: Vec<BugArm>,
}

/// One bug in one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct BugArm {
    pub label: String,
    pub found: usize,
    pub campaigns: usize,
    /// Medians by Kaplan and Meier's estimate; none: more than half did not find it.
    pub median_tests: Option<f64>,
    pub median_seconds: Option<f64>,
    pub median_cpu_seconds: Option<f64>,
    /// Over what the outcome counts in.
    pub steps: Vec<Step>,
    /// Log-rank against the other arm: chi-squared, p, p after Holm over the arms. None where neither arm found it: that can give no p but 1, so it
    /// is in no family. None, too, where a campaign of either arm ended with another
    /// bug: what was searched well ends early, and for how long this bug was looked for is then no accident.
    pub log_rank: Option<(f64, f64, f64)>,
}

/// Coverage.
#[must_use]
pub fn slots(p: &Point) -> f64 {
    p.slots as f64
}

/// State novelty.
#[must_use]
pub fn states(p: &Point) -> f64 {
    p.states.unwrap_or(0) as f64
}

/// A campaign's curve.
#[must_use]
pub fn curve(row: &Row, axis: Axis, value: fn(&Point) -> f64) -> Curve {
    let x = |p: &Point| match axis {
        Axis::Tests => p.tests as f64,
        Axis::Seconds => p.seconds,
        Axis::CpuSeconds => p.cpu_seconds,
    };
    row.curve.iter().map(|p| (x(p), value(p))).collect()
}

impl Outcome {
    /// Of a table's rows. `against`: the label of an arm that is there; arms are told in the order in which they first stand there. `over`: what
    /// times to a bug are counted in.
    #[must_use]
    pub fn of(rows: &[Row], bugs: &Bugs, against: &str, over: Axis) -> Self {
        let mut labels: Vec<&str> = Vec::new();
        for row in rows {
            if !labels.contains(&row.arm.as_str()) {
                labels.push(&row.arm);
            }
        }
        let ends = Ends::of(rows);
        let whole = rows.iter().all(|r| r.ended != FOUND);
        let of_arm =
            |label: &str| -> Vec<&Row> { rows.iter().filter(|r| r.arm == label).collect() };
        Outcome {
            against: against.to_owned(),
            over,
            ends,
            whole,
            arms: labels
                .iter()
                .map(|l| arm_figures(l, &of_arm(l), &ends, whole))
                .collect(),
            pairs: MEASURES
                .iter()
                .filter(|_| whole)
                .flat_map(|m| pairs(m, rows, &labels, against, &ends))
                .collect(),
            bugs: bugs
                .names(rows)
                .into_iter()
                .map(|name| bug_figures(name, bugs, rows, &labels, against, over))
                .collect(),
        }
    }
}

impl Ends {
    /// Along one of them.
    #[must_use]
    pub fn along(&self, axis: Axis) -> f64 {
        match axis {
            Axis::Tests => self.tests,
            Axis::Seconds => self.seconds,
            Axis::CpuSeconds => self.cpu_seconds,
        }
    }

    /// The least that a campaign reached; one that had nothing left to try stays where it is for ever.
    pub(super) fn of(rows: &[Row]) -> Self {
        let least = |of: fn(&Row) -> f64| {
            let going_on = rows.iter().filter(|r| r.ended != EXHAUSTED).map(of);
            let all = rows.iter().map(of).max_by(f64::total_cmp);
            going_on.min_by(f64::total_cmp).or(all).unwrap_or(0.0)
        };
        Ends {
            tests: least(|r| r.tests as f64),
            seconds: least(|r| r.seconds),
            cpu_seconds: least(|r| r.cpu_seconds),
        }
    }
}

fn values(rows: &[&Row], measure: &Measure, ends: &Ends) -> Option<Vec<f64>> {
    rows.iter().map(|r| (measure.of)(r, ends)).collect()
}

fn arm_figures(label: &str, rows: &[&Row], ends: &Ends, whole: bool) -> ArmFigures {
    let of = |f: fn(&Row) -> f64| spread(&rows.iter().map(|r| f(r)).collect::<Vec<_>>());
    ArmFigures {
        label: label.to_owned(),
        campaigns: rows.len(),
        exhausted: rows.iter().filter(|r| r.ended == EXHAUSTED).count(),
        tests: of(|r| r.tests as f64),
        seconds: of(|r| r.seconds),
        cpu_seconds: of(|r| r.cpu_seconds),
        measures: MEASURES
            .iter()
            .map(|m| spread(&values(rows, m, ends).filter(|_| whole)?))
            .collect(),
    }
}

/// Each arm but one against that one, by a measure that all of them tell.
fn pairs(
    measure: &Measure,
    rows: &[Row],
    labels: &[&str],
    against: &str,
    ends: &Ends,
) -> Vec<Pair> {
    let of_arm = |label: &str| {
        let rows: Vec<&Row> = rows.iter().filter(|r| r.arm == label).collect();
        values(&rows, measure, ends)
    };
    let Some(theirs) = of_arm(against) else {
        return Vec::new();
    };
    let mut pairs = Vec::new();
    let mut tested: Vec<(usize, f64)> = Vec::new();
    let others = labels.iter().filter(|l| **l != against);
    for label in others.clone() {
        let Some((ours, a12)) = of_arm(label).and_then(|o| Some((o.clone(), a12(&o, &theirs)?)))
        else {
            continue;
        };
        if ours.len() >= ENOUGH
            && theirs.len() >= ENOUGH
            && let Some((_, p)) = mann_whitney(&ours, &theirs)
        {
            tested.push((pairs.len(), p));
        }
        pairs.push(Pair {
            arm: (*label).to_owned(),
            measure: measure.name,
            a12,
            interval: a12_interval(&ours, &theirs, SEED),
            p: None,
        });
    }
    // While a series runs, its arms get enough campaigns one after the other: the first is one of all that will be asked, not the only one.
    let mut family: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    family.resize(others.count(), 1.0);
    for ((at, p), holm) in tested.into_iter().zip(holm(&family)) {
        pairs[at].p = Some((p, holm));
    }
    pairs
}

/// How long each campaign of an arm was watched for a bug. One that had nothing left to try would never show it, however long it went on.
fn watched(rows: &[&Row], bugs: &Bugs, name: &str, over: Axis) -> Vec<Watched> {
    let of = |row: &&Row| {
        let at = bugs.first(row, name).map(|f| match over {
            Axis::Tests => f.tests,
            Axis::Seconds => f.seconds,
            Axis::CpuSeconds => f.cpu_seconds,
        });
        let end = if row.ended == EXHAUSTED {
            f64::INFINITY
        } else {
            over.length(row)
        };
        Watched {
            time: at.unwrap_or(end),
            event: at.is_some(),
        }
    };
    rows.iter().map(of).collect()
}

fn bug_figures(
    name: String,
    bugs: &Bugs,
    rows: &[Row],
    labels: &[&str],
    against: &str,
    over: Axis,
) -> BugFigures {
    let of_arm = |label: &str| -> Vec<&Row> { rows.iter().filter(|r| r.arm == label).collect() };
    let looked_on = |rows: &[&Row]| {
        let mut ended = rows.iter().filter(|r| r.ended == FOUND);
        ended.all(|r| bugs.first(r, &name).is_some())
    };
    let their_rows = of_arm(against);
    let theirs = watched(&their_rows, bugs, &name, over);
    let mut tested: Vec<(usize, f64, f64)> = Vec::new();
    let mut arms = Vec::new();
    for label in labels {
        let rows = of_arm(label);
        let median = |axis| median_time(&kaplan_meier(&watched(&rows, bugs, &name, axis)));
        let ours = watched(&rows, bugs, &name, over);
        if *label != against
            && looked_on(&rows)
            && looked_on(&their_rows)
            && let Some((chi, p)) = log_rank(&ours, &theirs)
        {
            tested.push((arms.len(), chi, p));
        }
        arms.push(BugArm {
            label: (*label).to_owned(),
            found: ours.iter().filter(|w| w.event).count(),
            campaigns: ours.len(),
            median_tests: median(Axis::Tests),
            median_seconds: median(Axis::Seconds),
            median_cpu_seconds: median(Axis::CpuSeconds),
            steps: kaplan_meier(&ours),
            log_rank: None,
        });
    }
    let corrected = holm(&tested.iter().map(|t| t.2).collect::<Vec<_>>());
    for ((at, chi, p), holm) in tested.into_iter().zip(corrected) {
        arms[at].log_rank = Some((chi, p, holm));
    }
    BugFigures { name, arms }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::stats::close;
    use super::super::table::Failing;
    use super::*;
    use crate::campaign::FailedCheck;

    /// A campaign of 10 tests, 2 s each: 100 slots, so many from test 5 on, and perhaps a bug at a test.
    pub fn campaign(arm: &str, repeat: u64, slots: u64, bug: Option<u64>) -> Row {
        let point = |tests: u64, slots: u64| Point {
            tests,
            seconds: 2.0 * tests as f64,
            cpu_seconds: 3.0 * tests as f64,
            slots,
            findings: u64::from(bug.is_some_and(|b| b <= tests)),
            states: None,
        };
        Row {
            arm: arm.into(),
            strategy: arm.into(),
            repeat,
            seed: repeat,
            ended: "runs".into(),
            tests: 10,
            runs: 15,
            seconds: 20.0,
            cpu_seconds: 30.0,
            curve: vec![point(0, 100), point(5, slots), point(10, slots)],
            failing: bug
                .map(|tests| Failing {
                    tests,
                    seconds: 2.0 * tests as f64,
                    cpu_seconds: 3.0 * tests as f64,
                    faults: "crash".into(),
                    failures: vec![FailedCheck {
                        signature: "aaaaaaaa".into(),
                        checker: "replicas".into(),
                        stage: "healed".into(),
                        kind: "safety".into(),
                    }],
                })
                .into_iter()
                .collect(),
            ..Row::default()
        }
    }

    #[test]
    fn figures_pairs_and_bugs_by_hand() {
        let rows = [
            campaign("a", 1, 200, Some(2)),
            campaign("b", 1, 150, None),
            campaign("b", 2, 170, Some(8)),
            campaign("a", 2, 220, Some(4)),
            campaign("a", 3, 160, Some(6)),
            campaign("b", 3, 130, None),
        ];
        let o = Outcome::of(&rows, &Bugs::default(), "a", Axis::Tests);
        assert_eq!(
            (o.ends.tests, o.ends.seconds, o.ends.cpu_seconds),
            (10.0, 20.0, 30.0)
        );
        let a = &o.arms[0];
        assert_eq!((a.label.as_str(), a.campaigns, a.exhausted), ("a", 3, 0));
        assert_eq!(a.measures[0], Some((160.0, 200.0, 220.0)));
        // Half of the tests at 100, half at the end's value; over time and CPU time likewise.
        for m in 1..4 {
            assert_eq!(a.measures[m], Some((130.0, 150.0, 160.0)));
        }
        assert_eq!(a.measures[5], None);
        let end = o
            .pairs
            .iter()
            .find(|p| p.measure == "slots at the end")
            .unwrap();
        // b against a: only 170 beats 160.
        close(end.a12, 1.0 / 9.0, 1e-12);
        let told = (end.interval, end.p);
        assert_eq!(told, (None, None), "three campaigns are too few");
        assert!(o.pairs.iter().all(|p| !p.measure.contains("states")));
        let bug = &o.bugs[0];
        assert_eq!(bug.name, "replicas healed aaaaaaaa");
        let (a, b) = (&bug.arms[0], &bug.arms[1]);
        assert_eq!((a.found, a.campaigns, b.found, b.campaigns), (3, 3, 1, 3));
        assert_eq!((a.median_tests, b.median_tests), (Some(4.0), None));
        assert_eq!(
            (a.median_seconds, a.median_cpu_seconds),
            (Some(8.0), Some(12.0))
        );
        assert_eq!(a.log_rank, None);
        let (chi, p, holm) = b.log_rank.unwrap();
        // Two of the twenty ways to deal six campaigns out lie as far apart.
        close(p, 0.1, 1e-12);
        assert!(chi > 3.0 && holm == p, "{chi} {p} {holm}");
    }

    #[test]
    fn with_eight_campaigns_each_the_test_is_asked() {
        let mut rows = Vec::new();
        for r in 1..=8 {
            rows.push(campaign("a", r, 200 + r, None));
            rows.push(campaign("b", r, 100 + r, None));
            rows.push(campaign("c", r, 200 + r, None));
        }
        let o = Outcome::of(&rows, &Bugs::default(), "a", Axis::Tests);
        let pair = |o: &Outcome, arm: &str| {
            let mut pairs = o.pairs.iter();
            let found = pairs.find(|p| p.arm == arm && p.measure == "slots at the end");
            found.unwrap().clone()
        };
        let b = pair(&o, "b");
        assert_eq!(b.interval, Some((0.0, 0.0)));
        // Apart in all pairs: 2 of 12870 orders; twice that after Holm over two arms.
        close(b.p.unwrap().0, 2.0 / 12_870.0, 1e-9);
        close(b.p.unwrap().1, 4.0 / 12_870.0, 1e-9);
        close(pair(&o, "c").p.unwrap().0, 1.0, 1e-9);
        assert!(o.bugs.is_empty());
        // Before the last campaign of c there is no p of it, and it is one of the two already.
        let o = Outcome::of(&rows[..23], &Bugs::default(), "a", Axis::Tests);
        assert_eq!((pair(&o, "b").p, pair(&o, "c").p), (b.p, None));
    }

    /// One ends with the bug at its third test, one is watched for all ten: the bug's times are told, and no coverage.
    #[test]
    fn where_campaigns_end_with_a_bug_only_bugs_are_compared() {
        let mut found = campaign("a", 1, 200, Some(3));
        found.ended = FOUND.into();
        (found.tests, found.seconds, found.cpu_seconds) = (3, 6.0, 9.0);
        let rows = [
            found,
            campaign("a", 2, 200, None),
            campaign("b", 1, 150, None),
        ];
        let o = Outcome::of(&rows, &Bugs::default(), "b", Axis::Tests);
        assert_eq!(o.pairs, []);
        assert!(
            o.arms
                .iter()
                .all(|a| a.measures.iter().all(Option::is_none))
        );
        assert_eq!(o.arms[0].tests, Some((3.0, 6.5, 10.0)));
        let a = &o.bugs[0].arms[0];
        assert_eq!((a.found, a.campaigns, a.median_tests), (1, 2, Some(3.0)));
        assert!(a.log_rank.is_some());
    }

    /// The first one was ended by another bug before this one could come.
    #[test]
    fn a_campaign_that_another_bug_ended_is_no_word_on_this_one() {
        let mut ended = campaign("a", 1, 200, None);
        ended.ended = FOUND.into();
        let rows = |first: Row| {
            [
                first,
                campaign("a", 2, 200, Some(3)),
                campaign("b", 1, 150, None),
            ]
        };
        for (first, told) in [(ended, false), (campaign("a", 1, 200, None), true)] {
            for against in ["a", "b"] {
                let o = Outcome::of(&rows(first.clone()), &Bugs::default(), against, Axis::Tests);
                let asked = o.bugs[0].arms.iter().find(|a| a.label != against).unwrap();
                assert_eq!(asked.log_rank.is_some(), told, "{against}");
            }
        }
    }

    /// What is found late may not count as sooner than what is never found.
    #[test]
    fn an_exhausted_campaign_would_never_show_the_bug() {
        let exhausted = |repeat| Row {
            ended: EXHAUSTED.into(),
            tests: 3,
            ..campaign("a", repeat, 200, None)
        };
        let rows = [
            exhausted(1),
            exhausted(2),
            campaign("a", 3, 200, Some(4)),
            campaign("b", 1, 150, Some(6)),
            campaign("b", 2, 150, Some(7)),
            campaign("b", 3, 150, None),
        ];
        let o = Outcome::of(&rows, &Bugs::default(), "b", Axis::Tests);
        let [a, b] = &o.bugs[0].arms[..] else {
            panic!("{:?}", o.bugs)
        };
        assert_eq!((a.found, a.median_tests), (1, None));
        assert_eq!((b.found, b.median_tests), (2, Some(7.0)));
        let (_, p, _) = a.log_rank.unwrap();
        assert!(p > 0.5, "{p}");
    }

    #[test]
    fn an_exhausted_campaign_bounds_nothing() {
        let mut short = campaign("a", 1, 200, None);
        short.ended = "exhausted".into();
        (short.tests, short.seconds) = (6, 12.0);
        let rows = [short, campaign("b", 1, 150, None)];
        let o = Outcome::of(&rows, &Bugs::default(), "b", Axis::Tests);
        assert_eq!((o.ends.tests, o.arms[0].exhausted), (10.0, 1));
        assert_eq!(Ends::of(&rows[..1]).tests, 6.0);
        assert_eq!(Ends::of(&[]).tests, 0.0);
    }
}
