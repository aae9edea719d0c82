//! The rows as a table and a plot, printed and kept. Called by [`super::run`]; runs nothing.

use super::row::SlotsRow;
use crate::campaign::folder::write_whole;
use crate::cli::args::BenchArgs;
use crate::cli::exit::CliError;
use crate::plot::chart::{Across, Chart, Line, svg};
use std::fmt::Write;
use std::path::Path;

/// The table's file, and its plot's.
pub(super) const TABLE: &str = "slots.md";
const PLOT: &str = "slots.svg";

/// Prints the rows, and keeps them where the user wants them kept; no rows leave no files.
pub(super) fn show(args: &BenchArgs, folder: &Path, rows: &[SlotsRow]) -> Result<(), CliError> {
    if args.json {
        let text = serde_json::to_string_pretty(rows)
            .map_err(|e| CliError::setup(format!("writing the figures: {e}")))?;
        println!("{text}");
    } else {
        print!("{}", table(rows));
    }
    if args.out.is_none() || rows.is_empty() {
        return Ok(());
    }
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        write_whole(&path, text.as_bytes()).map_err(|e| CliError::setup(e.to_string()))
    };
    put(TABLE, &table(rows))?;
    if let Some(chart) = chart(rows) {
        put(PLOT, &svg(&chart).map_err(CliError::setup)?)?;
    }
    eprintln!(
        "warren: {TABLE} and the campaigns are in {}",
        folder.display()
    );
    Ok(())
}

/// As Markdown, and how `auto` stands to the best.
fn table(rows: &[SlotsRow]) -> String {
    let mut text = String::from(
        "| -j | sequences | seconds | an hour | mean wall of one, s | CPU s of one | share of CPU | from a prefix | injected in full | replays |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for r in rows {
        let took = match r.slots.strip_prefix("auto") {
            Some(_) => format!(" ({})", r.took),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "| `{}`{took} | {} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} % | {:.0} % | {:.0} % | {} |",
            r.slots,
            r.sequences,
            r.seconds,
            r.per_hour,
            r.wall_s,
            r.cpu_s,
            100.0 * r.cpu_share,
            100.0 * r.from_prefix,
            100.0 * r.injected_in_full,
            r.replays
        );
    }
    let best = rows.iter().max_by(|a, b| a.per_hour.total_cmp(&b.per_hour));
    if let (Some(best), Some(auto)) = (best, rows.iter().find(|r| r.slots == "auto")) {
        let _ = writeln!(
            text,
            "\n`auto` took {}: {:.0} % of the best, `{}`",
            auto.took,
            100.0 * auto.per_hour / best.per_hour,
            best.slots
        );
    }
    text
}

/// Sequences an hour and the share of CPU over the number of slots, both in percent; rows that start otherwise have no place in it. None: there
/// are no others.
#[allow(clippy::cast_precision_loss)] // a number of slots
fn chart(rows: &[SlotsRow]) -> Option<Chart> {
    let mut usual: Vec<&SlotsRow> = rows.iter().filter(|r| r.is_usual()).collect();
    // Of two rows of so many slots, as `auto` may be one, the higher.
    usual.sort_by(|a, b| a.took.cmp(&b.took).then(b.per_hour.total_cmp(&a.per_hour)));
    usual.dedup_by_key(|r| r.took);
    let best = usual.iter().map(|r| r.per_hour).max_by(f64::total_cmp)?;
    let line = |name: String, of: &dyn Fn(&SlotsRow) -> f64| Line {
        name,
        points: std::iter::once((0.0, 0.0))
            .chain(usual.iter().map(|r| (r.took as f64, 100.0 * of(r))))
            .collect(),
    };
    Some(Chart {
        file: "slots".into(),
        title: "Slots side by side".into(),
        across: Across::Count("slots"),
        lines: vec![
            line(
                format!("sequences an hour, % of the best ({best:.0})"),
                &|r| r.per_hour / best,
            ),
            line("share of the CPU, %".into(), &|r| r.cpu_share),
        ],
        steps: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::args;
    use super::*;

    fn row(slots: &str, took: u64, per_hour: f64) -> SlotsRow {
        SlotsRow {
            slots: slots.into(),
            took,
            sequences: 10,
            seconds: 60.0,
            per_hour,
            wall_s: 1.0,
            cpu_s: 1.0,
            cpu_share: 0.5,
            from_prefix: 0.25,
            injected_in_full: 1.0,
            replays: 0,
        }
    }

    #[test]
    fn files_are_of_rows_and_a_plot_of_rows_with_snapshots() {
        let dir = tempfile::tempdir().unwrap();
        let there = || [TABLE, PLOT].map(|name| dir.path().join(name).exists());
        let args = args(&format!(
            "warren bench canary --slots 1 -o {}",
            dir.path().display()
        ));
        show(&args, dir.path(), &[]).unwrap();
        assert_eq!(there(), [false, false]);
        show(&args, dir.path(), &[row("2/cold", 2, 300.0)]).unwrap();
        assert_eq!(there(), [true, false]);
        show(&args, dir.path(), &[row("2", 2, 900.0)]).unwrap();
        assert_eq!(there(), [true, true]);
        let plot = std::fs::read_to_string(dir.path().join(PLOT)).unwrap();
        assert!(plot.contains("sequences an hour"), "{plot}");
    }

    #[test]
    fn the_table_says_how_auto_stands_and_the_plot_leaves_cold_out() {
        let rows = [
            row("auto", 4, 1900.0),
            row("1", 1, 500.0),
            row("4", 4, 2000.0),
            row("2/cold", 2, 300.0),
        ];
        let text = table(&rows);
        assert!(text.contains("| `auto` (4) | 10 |"), "{text}");
        assert!(
            text.contains("`auto` took 4: 95 % of the best, `4`"),
            "{text}"
        );
        assert!(!table(&rows[1..]).contains("of the best"));
        assert!(chart(&rows[3..]).is_none() && chart(&[]).is_none());
        let chart = chart(&rows).unwrap();
        assert_eq!(
            chart.lines[0].points,
            [(0.0, 0.0), (1.0, 25.0), (4.0, 100.0)]
        );
        assert_eq!(
            chart.lines[1].points,
            [(0.0, 0.0), (1.0, 50.0), (4.0, 50.0)]
        );
    }
}
