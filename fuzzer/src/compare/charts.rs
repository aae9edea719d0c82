//! A comparison's curves: coverage, state novelty and bugs over tests, time and CPU time. Called by [`super::report`], which writes them beside
//! its tables. Pure; how a curve is drawn is [`crate::plot`]'s.

use super::outcome::{Axis, BugArm, Outcome, curve, slots, states};
use super::stats::curve::{Curve, median_curve};
use super::table::{EXHAUSTED, Point, Row};
use crate::plot::chart::{Across, Chart, Line};

/// Places of a median curve at most.
const PLACES: usize = 400;
/// Bugs that get a drawing of their own.
const DRAWN: usize = 20;
/// Drawings of coverage and of state novelty, without an ending, and over what they are.
const COVERAGE: [(&str, Axis); 3] = [
    ("coverage-tests", Axis::Tests),
    ("coverage-seconds", Axis::Seconds),
    ("coverage-cpu", Axis::CpuSeconds),
];
const STATES: [(&str, Axis); 2] = [
    ("states-tests", Axis::Tests),
    ("states-seconds", Axis::Seconds),
];

/// The median curve of each arm.
fn medians(rows: &[Row], o: &Outcome, axis: Axis, value: fn(&Point) -> f64) -> Vec<Line> {
    let end = o.ends.along(axis);
    let line = |label: &String| {
        let of_arm = rows.iter().filter(|r| r.arm == *label);
        let all: Vec<Curve> = of_arm.map(|r| curve(r, axis, value)).collect();
        Line {
            name: label.clone(),
            points: median_curve(&all, end, PLACES),
        }
    };
    o.arms.iter().map(|a| line(&a.label)).collect()
}

/// All of them.
pub(super) fn charts(rows: &[Row], o: &Outcome) -> Vec<Chart> {
    let coverage = |(file, axis): (&str, Axis)| Chart {
        file: file.into(),
        title: "Coverage: slots set by any test so far, median of the campaigns".into(),
        across: across(axis),
        lines: medians(rows, o, axis, slots),
        steps: false,
    };
    let novelty = |(file, axis): (&str, Axis)| Chart {
        title: "State novelty: slots set by any test so far, median of the campaigns".into(),
        lines: medians(rows, o, axis, states),
        ..coverage((file, axis))
    };
    let mut charts = Vec::new();
    if o.whole {
        charts.extend(COVERAGE.map(coverage));
        let mut points = rows.iter().flat_map(|r| &r.curve);
        if points.any(|p| p.states.is_some()) {
            charts.extend(STATES.map(novelty));
        }
    }
    let longest = rows.iter().map(|r| o.over.length(r)).fold(0.0, f64::max);
    // As long as any of its campaigns; of one that had nothing left to try more is known than it ran.
    let watched = |label: &str| {
        let of_arm = rows.iter().filter(|r| r.arm == label);
        let length = |r: &Row| match r.ended == EXHAUSTED {
            true => longest,
            false => o.over.length(r),
        };
        of_arm.map(length).fold(0.0, f64::max)
    };
    for (i, bug) in o.bugs.iter().take(DRAWN).enumerate() {
        let line = |arm: &BugArm| {
            let mut points = vec![(0.0, 0.0)];
            points.extend(arm.steps.iter().map(|s| (s.time, 1.0 - s.without)));
            let (last, share) = points.last().copied().unwrap_or_default();
            points.push((watched(&arm.label).max(last), share));
            Line {
                name: format!("{} ({} of {})", arm.label, arm.found, arm.campaigns),
                points,
            }
        };
        charts.push(Chart {
            file: bug_file(i + 1),
            title: format!("Share of campaigns that found {} (Kaplan-Meier)", bug.name),
            across: across(o.over),
            lines: bug.arms.iter().map(line).collect(),
            steps: true,
        });
    }
    charts
}

fn across(axis: Axis) -> Across {
    match axis {
        Axis::Tests => Across::Count("tests"),
        Axis::Seconds => Across::Seconds("fuzzing"),
        Axis::CpuSeconds => Across::Seconds("CPU time"),
    }
}

/// The curves of the bug of this number, counted from 1, without an ending.
fn bug_file(number: usize) -> String {
    format!("bug-{number}")
}

/// The names of all drawings that a report may have.
pub(super) fn all_files() -> impl Iterator<Item = String> {
    let curves = COVERAGE.into_iter().chain(STATES);
    let curves = curves.map(|(file, _)| file.to_owned());
    let bugs = (1..=DRAWN).map(bug_file);
    curves.chain(bugs).map(|file| file + ".svg")
}

#[cfg(test)]
mod tests {
    use super::super::bugs::Bugs;
    use super::super::outcome::tests::campaign;
    use super::super::table::FOUND;
    use super::*;

    /// Two of `a` end with the bug, at tests 3 and 5; those of `b` and `c` never show it.
    #[test]
    fn an_arm_is_drawn_for_as_long_as_its_own_campaigns_were_watched() {
        let ended = |arm: &str, repeat, tests, ended: &str| {
            let bug = (ended == FOUND).then_some(tests);
            let mut row = campaign(arm, repeat, 200, bug);
            (row.tests, row.ended) = (tests, ended.into());
            row
        };
        let rows = [
            ended("a", 1, 3, FOUND),
            ended("a", 2, 5, FOUND),
            ended("b", 1, 10, "runs"),
            ended("b", 2, 7, "runs"),
            ended("c", 1, 2, EXHAUSTED),
            ended("c", 2, 7, "runs"),
        ];
        let ends = |rows: &[Row]| -> Vec<(f64, f64)> {
            let o = Outcome::of(rows, &Bugs::default(), "a", Axis::Tests);
            let all = charts(rows, &o);
            let bug = all.iter().find(|c| c.file == "bug-1").unwrap();
            let last = |l: &Line| *l.points.last().unwrap();
            bug.lines.iter().map(last).collect()
        };
        assert_eq!(ends(&rows), [(5.0, 1.0), (10.0, 0.0), (10.0, 0.0)]);
        assert_eq!(ends(&rows[..2]), [(5.0, 1.0)]);
    }
}
