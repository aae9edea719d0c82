//! A comparison's result for people and for other tools: text, Markdown for docs/evaluation.md, CSV, curves. Pure: [`files`] makes every
//! file's name and content, [`super`] writes them.

use super::bugs::Bugs;
use super::grid::Grid;
use super::outcome::{Axis, ENOUGH, MEASURES, Outcome, Pair, Spread, curve, slots, states};
use super::stats::curve::{Curve, median_curve};
use super::table::{FOUND, Point, Row, Table};
use crate::plot::chart::{Across, Chart, Line, svg};

/// Places of a median curve at most.
const PLACES: usize = 400;
/// Bugs that get a drawing of their own.
pub(super) const DRAWN: usize = 20;

/// A part of the text: what it shows, the table, and what to know for reading it.
struct Section {
    title: String,
    grid: Grid,
    note: String,
}

/// The report as text; without campaigns it says so.
#[must_use]
pub fn text(table: &Table, outcome: &Outcome) -> String {
    let mut out = heading(table, outcome);
    for s in sections(outcome) {
        out.push_str(&format!("\n{}\n{}", s.title, s.grid.text()));
        if !s.note.is_empty() {
            out.push_str(&format!("  {}\n", s.note));
        }
    }
    out
}

/// The same for docs/evaluation.md.
#[must_use]
pub fn markdown(table: &Table, outcome: &Outcome, command: &str) -> String {
    let mut out = format!("`{command}`:\n\n{}", heading(table, outcome));
    for s in sections(outcome) {
        out.push_str(&format!("\n**{}**\n\n{}", s.title, s.grid.markdown()));
        if !s.note.is_empty() {
            out.push_str(&format!("\n{}\n", s.note));
        }
    }
    out
}

/// Name and content of every file.
///
/// # Errors
/// What the drawing library says.
pub fn files(
    table: &Table,
    bugs: &Bugs,
    outcome: &Outcome,
    command: &str,
) -> Result<Vec<(String, String)>, String> {
    let mut files = vec![
        ("report.txt".to_owned(), text(table, outcome)),
        ("report.md".into(), markdown(table, outcome, command)),
        ("campaigns.csv".into(), campaigns(&table.rows).csv()),
        ("curves.csv".into(), curves(&table.rows).csv()),
        (
            "bugs.csv".into(),
            bugs_found(&table.rows, bugs, outcome).csv(),
        ),
        ("survival.csv".into(), survival(outcome).csv()),
        ("pairs.csv".into(), pairs_csv(&outcome.pairs).csv()),
    ];
    for chart in charts(&table.rows, outcome) {
        files.push((format!("{}.svg", chart.file), svg(&chart)?));
    }
    Ok(files)
}

fn heading(table: &Table, outcome: &Outcome) -> String {
    let get = |name: &str| table.head.comparison.get(name).unwrap_or("?");
    let arms: Vec<String> = outcome
        .arms
        .iter()
        .map(|a| format!("{} {}", a.label, a.campaigns))
        .collect();
    let mut builds: Vec<&str> = table.rows.iter().map(|r| r.build.as_str()).collect();
    builds.sort_unstable();
    builds.dedup();
    let mut out = format!(
        "{} {}: {} campaigns of {} each ({}); options of fuzz: {}\n",
        get("target"),
        get("target version"),
        table.rows.len(),
        get("budget"),
        if arms.is_empty() {
            "none yet".to_owned()
        } else {
            arms.join(", ")
        },
        get("options of fuzz"),
    );
    if builds.len() > 1 {
        out.push_str(&format!(
            "campaigns of {} different builds of Warren are in it: {}\n",
            builds.len(),
            builds.join(", ")
        ));
    }
    let cut_off = table.rows.iter().filter(|r| r.starts > 1).count();
    if cut_off > 0 {
        out.push_str(&format!(
            "{cut_off} campaigns were cut off and went on: making their snapshots again is in their time and CPU time\n"
        ));
    }
    let found = table.rows.iter().filter(|r| r.ended == FOUND).count();
    if found > 0 {
        out.push_str(&format!(
            "{found} campaigns ended when they had shown it: no coverage is compared, and other bugs were watched for only so long\n"
        ));
    }
    let exhausted: usize = outcome.arms.iter().map(|a| a.exhausted).sum();
    if exhausted > 0 {
        out.push_str(&format!(
            "{exhausted} campaigns had nothing left to try before their budget was used up\n"
        ));
    }
    out
}

fn sections(o: &Outcome) -> Vec<Section> {
    let all = [arms(o), pairs(o), bugs(o)];
    all.into_iter().filter(|s| !s.grid.is_empty()).collect()
}

/// Median, and what lies around it where there is more than one value.
fn spread(s: Option<Spread>, digits: usize) -> String {
    match s {
        None => "-".into(),
        Some((low, mid, high)) if low == high => format!("{mid:.digits$}"),
        Some((low, mid, high)) => format!("{mid:.digits$} ({low:.digits$}..{high:.digits$})"),
    }
}

/// Which measures some arm tells.
fn told(o: &Outcome) -> Vec<usize> {
    (0..MEASURES.len())
        .filter(|m| o.arms.iter().any(|a| a.measures[*m].is_some()))
        .collect()
}

fn arms(o: &Outcome) -> Section {
    let told = told(o);
    let mut head = vec!["arm", "n", "tests", "seconds", "CPU s"];
    head.extend(told.iter().map(|m| MEASURES[*m].name));
    let mut grid = Grid::new(&head);
    for a in &o.arms {
        let mut row = vec![
            a.label.clone(),
            a.campaigns.to_string(),
            spread(a.tests, 0),
            spread(a.seconds, 0),
            spread(a.cpu_seconds, 0),
        ];
        row.extend(told.iter().map(|m| spread(a.measures[*m], 0)));
        grid.row(row);
    }
    Section {
        title: "Arms: median (smallest..largest) of a campaign".into(),
        grid,
        note: format!(
            "Means are areas under the curve over its length: {:.0} tests, {:.0} s, {:.0} CPU s, as far as every campaign reached.",
            o.ends.tests, o.ends.seconds, o.ends.cpu_seconds
        ),
    }
}

/// Small p values as powers, never 0.
fn p_text(p: f64) -> String {
    if p < 0.001 {
        format!("{p:.1e}")
    } else {
        format!("{p:.3}")
    }
}

fn interval(i: Option<(f64, f64)>) -> String {
    i.map_or_else(|| "n too small".into(), |(l, h)| format!("{l:.2}..{h:.2}"))
}

fn pairs(o: &Outcome) -> Section {
    let mut grid = Grid::new(&[
        "arm",
        "by",
        "A12",
        "95 % interval",
        "Mann-Whitney p",
        "after Holm",
    ]);
    for pair in &o.pairs {
        let (p, holm) = match pair.p {
            Some((p, holm)) => (p_text(p), p_text(holm)),
            None => ("n too small".into(), "-".into()),
        };
        grid.row(vec![
            pair.arm.clone(),
            pair.measure.into(),
            format!("{:.2}", pair.a12),
            interval(pair.interval),
            p,
            holm,
        ]);
    }
    Section {
        title: format!("Against {}", o.against),
        grid,
        note: format!(
            "A12: how probably a campaign of the arm has the larger value (0.5: no difference). Mann-Whitney is asked from {ENOUGH} campaigns of each arm."
        ),
    }
}

fn bugs(o: &Outcome) -> Section {
    let mut grid = Grid::new(&[
        "bug",
        "arm",
        "found",
        "median tests",
        "median seconds",
        "log-rank p",
        "after Holm",
    ]);
    let number = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| format!("{v:.0}"));
    for bug in &o.bugs {
        for (i, arm) in bug.arms.iter().enumerate() {
            let (p, holm) = arm
                .log_rank
                .map_or(("-".into(), "-".into()), |(_, p, h)| (p_text(p), p_text(h)));
            let name = if i == 0 {
                bug.name.clone()
            } else {
                String::new()
            };
            grid.row(vec![
                name,
                arm.label.clone(),
                format!("{} of {}", arm.found, arm.campaigns),
                number(arm.median_tests),
                number(arm.median_seconds),
                p,
                holm,
            ]);
        }
    }
    Section {
        title: "Bugs: tests to the first show".into(),
        grid,
        note: format!(
            "Medians by Kaplan and Meier (-: more than half of the campaigns ended without it); log-rank against {}.{}",
            o.against,
            if o.arms.iter().any(|a| a.campaigns < ENOUGH) {
                " With so few campaigns its p is rough."
            } else {
                ""
            }
        ),
    }
}

fn campaigns(rows: &[Row]) -> Grid {
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

fn states_text(p: &Point) -> String {
    p.states.map_or_else(String::new, |s| s.to_string())
}

fn curves(rows: &[Row]) -> Grid {
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

fn bugs_found(rows: &[Row], bugs: &Bugs, o: &Outcome) -> Grid {
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

fn survival(o: &Outcome) -> Grid {
    let mut grid = Grid::new(&["bug", "arm", "tests", "without", "at_risk", "found_now"]);
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

fn pairs_csv(pairs: &[Pair]) -> Grid {
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

fn charts(rows: &[Row], o: &Outcome) -> Vec<Chart> {
    let coverage = |file: &str, axis, across| Chart {
        file: file.into(),
        title: "Coverage: slots set by any run, median of the campaigns".into(),
        across,
        lines: medians(rows, o, axis, slots),
        steps: false,
    };
    let mut charts = Vec::new();
    if o.whole {
        charts.extend([
            coverage("coverage-tests", Axis::Tests, Across::Count("tests")),
            coverage(
                "coverage-seconds",
                Axis::Seconds,
                Across::Seconds("fuzzing"),
            ),
            coverage(
                "coverage-cpu",
                Axis::CpuSeconds,
                Across::Seconds("CPU time"),
            ),
        ]);
    }
    if o.whole
        && rows
            .iter()
            .any(|r| r.curve.iter().any(|p| p.states.is_some()))
    {
        let novelty = |file: &str, axis, across| Chart {
            title: "State novelty: slots set by any run, median of the campaigns".into(),
            lines: medians(rows, o, axis, states),
            ..coverage(file, axis, across)
        };
        charts.extend([
            novelty("states-tests", Axis::Tests, Across::Count("tests")),
            novelty("states-seconds", Axis::Seconds, Across::Seconds("fuzzing")),
        ]);
    }
    for (i, bug) in o.bugs.iter().take(DRAWN).enumerate() {
        let line = |arm: &super::outcome::BugArm| {
            let mut points = vec![(0.0, 0.0)];
            points.extend(arm.steps.iter().map(|s| (s.time, 1.0 - s.without)));
            let (last, share) = points.last().copied().unwrap_or_default();
            points.push((o.ends.tests.max(last), share));
            Line {
                name: format!("{} ({} of {})", arm.label, arm.found, arm.campaigns),
                points,
            }
        };
        charts.push(Chart {
            file: bug_file(i + 1),
            title: format!("Share of campaigns that found {} (Kaplan-Meier)", bug.name),
            across: Across::Count("tests"),
            lines: bug.arms.iter().map(line).collect(),
            steps: true,
        });
    }
    charts
}

/// The curves of the bug of this number, counted from 1, without an ending.
pub(super) fn bug_file(number: usize) -> String {
    format!("bug-{number}")
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::campaign;
    use super::super::table::Head;
    use super::*;
    use crate::campaign::state::Identity;

    fn table(rows: Vec<Row>) -> Table {
        Table {
            head: Head::new(Identity::new([
                ("target", "canary".to_owned()),
                ("target version", "1".to_owned()),
                ("budget", "10 runs".to_owned()),
                ("options of fuzz", "none".to_owned()),
            ])),
            rows,
            whole: 0,
        }
    }

    #[test]
    fn everything_is_told_in_every_form() {
        let mut rows = vec![
            campaign("a", 1, 200, Some(2)),
            campaign("b", 1, 150, None),
            campaign("a", 2, 220, Some(4)),
            campaign("b", 2, 170, Some(8)),
        ];
        rows[3].build = "2".into();
        rows[3].starts = 2;
        let table = table(rows);
        let bugs = Bugs::default();
        let o = Outcome::of(&table.rows, &bugs, "a");
        let text = text(&table, &o);
        for part in [
            "canary 1: 4 campaigns of 10 runs each (a 2, b 2); options of fuzz: none",
            "2 different builds",
            "1 campaigns were cut off and went on",
            "slots at the end",
            "210 (200..220)",
            "n too small",
            "replicas healed aaaaaaaa  a    2 of 2  2",
            "1 of 2",
            "its p is rough",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
        assert!(!text.contains("states"), "{text}");
        let files = files(&table, &bugs, &o, "warren compare canary").unwrap();
        let file = |name: &str| {
            let found = files.iter().find(|f| f.0 == name);
            &found.unwrap_or_else(|| panic!("no {name}")).1
        };
        assert!(file("report.md").starts_with("`warren compare canary`:\n"));
        assert!(file("report.md").contains("| a | 2 | 10 |"));
        assert_eq!(file("campaigns.csv").lines().count(), 5);
        assert_eq!(file("curves.csv").lines().count(), 13);
        assert!(file("bugs.csv").contains("replicas healed aaaaaaaa,b,1,0,10,20,30\n"));
        assert!(file("bugs.csv").contains("replicas healed aaaaaaaa,b,2,1,8,16,24\n"));
        assert!(file("survival.csv").contains("replicas healed aaaaaaaa,b,8,0.5000,2,1\n"));
        assert!(file("pairs.csv").contains("b,slots at the end,0,,,,\n"));
        for name in [
            "coverage-tests",
            "coverage-seconds",
            "coverage-cpu",
            "bug-1",
        ] {
            assert!(file(&format!("{name}.svg")).contains("<polyline"), "{name}");
        }
    }

    #[test]
    fn state_novelty_has_columns_only_where_it_is_told() {
        let mut rows = vec![campaign("a", 1, 200, None), campaign("b", 1, 150, None)];
        for row in &mut rows {
            row.curve.iter_mut().for_each(|p| p.states = Some(7));
        }
        let table = table(rows);
        let o = Outcome::of(&table.rows, &Bugs::default(), "a");
        assert!(text(&table, &o).contains("states at the end"));
        let files = files(&table, &Bugs::default(), &o, "").unwrap();
        assert!(files.iter().any(|f| f.0 == "states-tests.svg"));
    }

    #[test]
    fn a_table_without_campaigns_is_no_error() {
        let table = table(Vec::new());
        let o = Outcome::of(&[], &Bugs::default(), "a");
        assert!(text(&table, &o).contains("0 campaigns of 10 runs each (none yet)"));
        assert!(files(&table, &Bugs::default(), &o, "").is_ok());
    }

    #[test]
    fn small_p_values_are_not_nothing() {
        assert_eq!(p_text(0.04321), "0.043");
        assert_eq!(p_text(0.000_012), "1.2e-5");
    }
}
