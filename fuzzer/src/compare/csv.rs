//! A comparison's tables for other tools, one value a cell. Called by [`super::report`]. Pure.

use super::bugs::Bugs;
use super::grid::Grid;
use super::outcome::{Axis, Outcome, Pair};
use super::table::{Point, Row};

pub(super) fn campaigns(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(&[
        "arm",
        "strategy",
        "without",
        "repeat",
        "seed",
        "ended",
        "starts",
        "tests",
        "runs",
        "seconds",
        "cpu_seconds",
        "learning_runs",
        "learning_seconds",
        "learning_cpu_seconds",
        "slots",
        "states",
        "signatures",
        "void_runs",
        "unknown_runs",
        "build",
        "finished",
    ]);
    for r in rows {
        let last = r.curve.last().copied().unwrap_or_default();
        grid.row(vec![
            r.arm.clone(),
            r.strategy.clone(),
            r.without.join("+"),
            r.repeat.to_string(),
            r.seed.to_string(),
            r.ended.clone(),
            r.starts.to_string(),
            r.tests.to_string(),
            r.runs.to_string(),
            r.seconds.to_string(),
            r.cpu_seconds.to_string(),
            r.learning_runs.to_string(),
            r.learning_seconds.to_string(),
            r.learning_cpu_seconds.to_string(),
            last.slots.to_string(),
            states_text(&last),
            r.signatures().to_string(),
            r.void_runs.to_string(),
            r.unknown_runs.to_string(),
            r.build.clone(),
            r.finished.to_string(),
        ]);
    }
    grid
}

/// Where campaigns stood at a budget that is not their own: what is counted over a whole campaign is left out.
pub(super) fn standing(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(&[
        "arm",
        "repeat",
        "seed",
        "ended",
        "tests",
        "seconds",
        "cpu_seconds",
        "slots",
        "states",
        "signatures",
    ]);
    for r in rows {
        let last = r.curve.last().copied().unwrap_or_default();
        grid.row(vec![
            r.arm.clone(),
            r.repeat.to_string(),
            r.seed.to_string(),
            r.ended.clone(),
            r.tests.to_string(),
            format!("{:.3}", r.seconds),
            format!("{:.3}", r.cpu_seconds),
            last.slots.to_string(),
            states_text(&last),
            r.signatures().to_string(),
        ]);
    }
    grid
}

fn states_text(p: &Point) -> String {
    p.states.map_or_else(String::new, |s| s.to_string())
}

pub(super) fn curves(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(&[
        "arm",
        "repeat",
        "tests",
        "seconds",
        "cpu_seconds",
        "slots",
        "signatures",
        "states",
    ]);
    for r in rows {
        for p in &r.curve {
            grid.row(vec![
                r.arm.clone(),
                r.repeat.to_string(),
                p.tests.to_string(),
                p.seconds.to_string(),
                p.cpu_seconds.to_string(),
                p.slots.to_string(),
                p.findings.to_string(),
                states_text(p),
            ]);
        }
    }
    grid
}

pub(super) fn bugs_found(rows: &[Row], bugs: &Bugs, o: &Outcome) -> Grid {
    let mut grid = Grid::new(&[
        "bug",
        "arm",
        "repeat",
        "found",
        "tests",
        "seconds",
        "cpu_seconds",
    ]);
    for bug in &o.bugs {
        for r in rows {
            let first = bugs.first(r, &bug.name);
            let (tests, seconds, cpu) = first
                .map_or((r.tests as f64, r.seconds, r.cpu_seconds), |f| {
                    (f.tests, f.seconds, f.cpu_seconds)
                });
            grid.row(vec![
                bug.name.clone(),
                r.arm.clone(),
                r.repeat.to_string(),
                u8::from(first.is_some()).to_string(),
                tests.to_string(),
                seconds.to_string(),
                cpu.to_string(),
            ]);
        }
    }
    grid
}

pub(super) fn survival(o: &Outcome) -> Grid {
    let over = match o.over {
        Axis::Tests => "tests",
        Axis::Seconds => "seconds",
        Axis::CpuSeconds => "cpu_seconds",
    };
    let mut grid = Grid::new(&["bug", "arm", over, "without", "at_risk", "found_now"]);
    for bug in &o.bugs {
        for arm in &bug.arms {
            for s in &arm.steps {
                grid.row(vec![
                    bug.name.clone(),
                    arm.label.clone(),
                    s.time.to_string(),
                    format!("{:.4}", s.without),
                    s.at_risk.to_string(),
                    s.events.to_string(),
                ]);
            }
        }
    }
    grid
}

pub(super) fn pairs_csv(pairs: &[Pair]) -> Grid {
    let mut grid = Grid::new(&["arm", "by", "a12", "low", "high", "p", "p_holm"]);
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    for p in pairs {
        grid.row(vec![
            p.arm.clone(),
            p.measure.into(),
            p.a12.to_string(),
            number(p.interval.map(|i| i.0)),
            number(p.interval.map(|i| i.1)),
            number(p.p.map(|p| p.0)),
            number(p.p.map(|p| p.1)),
        ]);
    }
    grid
}
