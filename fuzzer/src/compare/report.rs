//! A comparison's result for people and for other tools: text, Markdown for docs/evaluation.md, [`super::csv`] and the curves of
//! [`super::charts`]. Pure: [`files`] makes every file's name and content, [`super`] writes them.

use super::COVERAGE;
use super::budget::at_equal_cpu;
use super::bugs::Bugs;
use super::charts::charts;
use super::csv::{bugs_found, campaigns, curves, pairs_csv, standing, survival};
use super::grid::Grid;
use super::outcome::{Axis, BugArm, ENOUGH, MEASURES, Measure, Outcome, Pair, Spread};
use super::stats::rank::LEAST;
use super::table::{BUILDS, FOUND, Row, Table};
use crate::plot::chart::svg;
use std::collections::BTreeSet;

/// The campaigns at equal CPU time; not in every report.
pub(super) const EQUAL_CPU: &str = "equal-cpu.csv";

/// A part of the text: what it shows, the table, and what to know for reading it.
struct Section {
    title: String,
    grid: Grid,
    note: String,
}

/// What is told.
pub struct Report<'a> {
    pub table: &'a Table,
    pub bugs: &'a Bugs,
    pub outcome: Outcome,
    /// Its campaigns where each had used the same CPU time.
    pub equal_cpu: Option<(Vec<Row>, Outcome)>,
}

impl<'a> Report<'a> {
    /// Of a table; `against`: as [`Outcome::of`].
    #[must_use]
    pub fn of(table: &'a Table, bugs: &'a Bugs, against: &str) -> Self {
        let equal = |rows: Vec<Row>| {
            let outcome = Outcome::of(&rows, bugs, against, Axis::CpuSeconds);
            (rows, outcome)
        };
        Report {
            table,
            bugs,
            outcome: Outcome::of(&table.rows, bugs, against, Axis::of_budget(&table.head)),
            equal_cpu: at_equal_cpu(&table.rows).map(equal),
        }
    }
}

/// The report as text; without campaigns it says so.
#[must_use]
pub fn text(report: &Report<'_>) -> String {
    let mut out = heading(report.table, &report.outcome);
    for s in sections(report) {
        out.push_str(&format!("\n{}\n{}", s.title, s.grid.text()));
        if !s.note.is_empty() {
            out.push_str(&format!("  {}\n", s.note));
        }
    }
    out
}

/// The same for docs/evaluation.md.
#[must_use]
pub fn markdown(report: &Report<'_>, command: &str) -> String {
    let mut out = format!("`{command}`:\n\n{}", heading(report.table, &report.outcome));
    for s in sections(report) {
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
pub fn files(report: &Report<'_>, command: &str) -> Result<Vec<(String, String)>, String> {
    let Report {
        table,
        bugs,
        outcome,
        equal_cpu,
    } = report;
    let mut files = vec![
        ("report.txt".to_owned(), text(report)),
        ("report.md".into(), markdown(report, command)),
        ("campaigns.csv".into(), campaigns(&table.rows).csv()),
        ("curves.csv".into(), curves(&table.rows).csv()),
        (
            "bugs.csv".into(),
            bugs_found(&table.rows, bugs, outcome).csv(),
        ),
        ("survival.csv".into(), survival(outcome).csv()),
        ("pairs.csv".into(), pairs_csv(&outcome.pairs).csv()),
    ];
    if let Some((rows, _)) = equal_cpu {
        files.push((EQUAL_CPU.into(), standing(rows).csv()));
    }
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
    let builds: BTreeSet<&str> = (table.rows.iter())
        .flat_map(|r| r.build.split(BUILDS))
        .collect();
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
    if !table.rows.is_empty() && table.head.comparison.get(COVERAGE).is_none() {
        out.push_str(
            "slots and states are those of runs that taught the search, without tests that failed freshly: the table is of before 28 November 2026\n",
        );
    }
    if builds.len() > 1 {
        out.push_str(&format!(
            "campaigns of {} different builds of Warren are in it: {}\n",
            builds.len(),
            builds.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    let cut_off = table.rows.iter().filter(|r| r.starts > 1).count();
    match cut_off {
        0 => {}
        1 => out.push_str(
            "1 campaign was cut off and went on: making its snapshots again is in its time and CPU time\n",
        ),
        n => out.push_str(&format!(
            "{n} campaigns were cut off and went on: making their snapshots again is in their time and CPU time\n"
        )),
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

fn sections(report: &Report<'_>) -> Vec<Section> {
    let o = &report.outcome;
    let mut all = vec![arms(o, |_| true), pairs(o, |_| true), bugs(o)];
    if let Some((_, equal)) = &report.equal_cpu {
        // Means over CPU time are above: they are taken up to there already.
        let own = [arms(equal, at_end), pairs(equal, at_end), bugs(equal)];
        all.extend(own.map(|s| Section {
            title: format!(
                "At {:.0} CPU s, which each campaign used, or ended before with nothing left to try. {}",
                equal.ends.cpu_seconds, s.title
            ),
            ..s
        }));
    }
    all.into_iter().filter(|s| !s.grid.is_empty()).collect()
}

fn at_end(measure: &Measure) -> bool {
    measure.at_end
}

/// Median, and what lies around it where there is more than one value.
fn spread(s: Option<Spread>, digits: usize) -> String {
    match s {
        None => "-".into(),
        Some((low, mid, high)) if low == high => format!("{mid:.digits$}"),
        Some((low, mid, high)) => format!("{mid:.digits$} ({low:.digits$}..{high:.digits$})"),
    }
}

/// Which measures, of those asked for, some arm tells.
fn told(o: &Outcome, asked: fn(&Measure) -> bool) -> Vec<usize> {
    (0..MEASURES.len())
        .filter(|m| asked(&MEASURES[*m]))
        .filter(|m| o.arms.iter().any(|a| a.measures[*m].is_some()))
        .collect()
}

fn arms(o: &Outcome, asked: fn(&Measure) -> bool) -> Section {
    let told = told(o, asked);
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
    let means = told.iter().any(|m| !MEASURES[*m].at_end);
    Section {
        title: "Arms: median (smallest..largest) of a campaign".into(),
        grid,
        note: match means {
            true => format!(
                "Means are areas under the curve over its length: {:.0} tests, {:.0} s, {:.0} CPU s, as far as every campaign reached.",
                o.ends.tests, o.ends.seconds, o.ends.cpu_seconds
            ),
            false => String::new(),
        },
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

fn pairs(o: &Outcome, asked: fn(&Measure) -> bool) -> Section {
    let mut grid = Grid::new(&[
        "arm",
        "by",
        "A12",
        "95 % interval",
        "Mann-Whitney p",
        "after Holm",
    ]);
    let asked = |pair: &&Pair| (MEASURES.iter()).any(|m| m.name == pair.measure && asked(m));
    for pair in o.pairs.iter().filter(asked) {
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
            "A12: how probably a campaign of the arm has the larger value (0.5: no difference). An interval is told from {LEAST} campaigns of each arm, Mann-Whitney is asked from {ENOUGH}."
        ),
    }
}

fn bugs(o: &Outcome) -> Section {
    let counted = o.over.name();
    type Median = fn(&BugArm) -> Option<f64>;
    let medians: [(&str, Median); 3] = [
        ("tests", |a| a.median_tests),
        ("seconds", |a| a.median_seconds),
        ("CPU s", |a| a.median_cpu_seconds),
    ];
    // Where campaigns ended at equal CPU time, how many tests they were watched for is no accident.
    let medians: Vec<_> = (medians.into_iter())
        .filter(|(name, _)| o.over == Axis::Tests || *name == counted)
        .collect();
    let names: Vec<String> = medians.iter().map(|(n, _)| format!("median {n}")).collect();
    let mut head = vec!["bug", "arm", "found"];
    head.extend(names.iter().map(String::as_str));
    head.extend(["log-rank p", "after Holm"]);
    let mut grid = Grid::new(&head);
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
            let mut row = vec![
                name,
                arm.label.clone(),
                format!("{} of {}", arm.found, arm.campaigns),
            ];
            row.extend(medians.iter().map(|(_, of)| number(of(arm))));
            row.extend([p, holm]);
            grid.row(row);
        }
    }
    Section {
        title: format!("Bugs: {counted} to the first show"),
        grid,
        note: format!(
            "Medians by Kaplan and Meier (-: more than half of the campaigns ended without it); log-rank of {counted} against {}.",
            o.against
        ),
    }
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
                (COVERAGE, "of all tests".to_owned()),
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
        rows[3].build = format!("{}+2", rows[2].build);
        rows[3].starts = 2;
        let table = table(rows);
        let bugs = Bugs::default();
        let report = Report::of(&table, &bugs, "a");
        let text = text(&report);
        for part in [
            "canary 1: 4 campaigns of 10 runs each (a 2, b 2); options of fuzz: none",
            "2 different builds",
            "\n1 campaign was cut off and went on: making its snapshots again",
            "slots at the end",
            "210 (200..220)",
            "n too small",
            "replicas healed aaaaaaaa  a    2 of 2  3",
            "1 of 2",
            "log-rank of tests against a.",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
        assert!(!text.contains("states"), "{text}");
        let files = files(&report, "warren compare canary").unwrap();
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
        let bugs = Bugs::default();
        let report = Report::of(&table, &bugs, "a");
        assert!(text(&report).contains("states at the end"));
        let files = files(&report, "").unwrap();
        assert!(files.iter().any(|f| f.0 == "states-tests.svg"));
    }

    #[test]
    fn an_old_table_says_what_its_coverage_is() {
        let mut old = table(vec![campaign("a", 1, 200, None)]);
        let bugs = Bugs::default();
        let told = |table: &Table| text(&Report::of(table, &bugs, "a")).contains("failed freshly");
        assert!(!told(&old));
        old.head = Head::new(Identity::new([("target", "canary".to_owned())]));
        assert!(told(&old));
    }

    #[test]
    fn a_table_without_campaigns_is_no_error() {
        let table = table(Vec::new());
        let bugs = Bugs::default();
        let report = Report::of(&table, &bugs, "a");
        assert!(text(&report).contains("0 campaigns of 10 runs each (none yet)"));
        assert!(files(&report, "").is_ok());
    }

    /// By tests b finds as early as a; by CPU time it has had no chance yet.
    #[test]
    fn a_budget_of_tests_is_told_at_equal_cpu_time_too() {
        let cheap = |repeat| {
            let mut row = campaign("a", repeat, 200, Some(6));
            row.curve.iter_mut().for_each(|p| p.cpu_seconds /= 3.0);
            row.failing[0].cpu_seconds /= 3.0;
            row.cpu_seconds /= 3.0;
            row
        };
        let rows = vec![
            cheap(1),
            cheap(2),
            campaign("b", 1, 200, Some(6)),
            campaign("b", 2, 200, Some(6)),
        ];
        let table = table(rows);
        let bugs = Bugs::default();
        let report = Report::of(&table, &bugs, "b");
        let text = text(&report);
        let (all, equal) = text
            .split_once("At 10 CPU s, which each campaign used, or ended before with nothing left to try. Arms")
            .unwrap_or_else(|| panic!("not told:\n{text}"));
        assert_eq!(all.matches("2 of 2").count(), 2, "{all}");
        assert!(equal.contains("Bugs: CPU s to the first show"), "{equal}");
        assert!(
            equal.contains("2 of 2") && equal.contains("0 of 2"),
            "{equal}"
        );
        for other in ["mean slots", "median tests", "median seconds"] {
            assert!(!equal.contains(other), "{equal}");
        }
        let files = files(&report, "").unwrap();
        let (_, csv) = files.iter().find(|f| f.0 == "equal-cpu.csv").unwrap();
        assert!(csv.contains("b,1,1,cpu,3,6.667,10.000,100,,0\n"), "{csv}");
    }

    #[test]
    fn small_p_values_are_not_nothing() {
        assert_eq!(p_text(0.04321), "0.043");
        assert_eq!(p_text(0.000_012), "1.2e-5");
    }
}
