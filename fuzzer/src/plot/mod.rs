//! `warren plot OUT`: a campaign's curves as SVG files and one HTML page that holds them all. Works while the campaign runs.
//!
//! [`data`] reads plot_data, [`chart`] draws, [`page`] is the HTML; here folders are read and files written.

pub(crate) mod chart;
mod data;
mod page;

use crate::campaign::WayOut;
use crate::campaign::folder::write_whole;
use crate::campaign::stats::unix_now;
use crate::cli::args::PlotArgs;
use crate::cli::exit::{CliError, Exit};
use crate::whatsup::instance::{Instance, Stats};
use chart::{Across, Chart, Line};
use data::Series;
use page::Row;
use std::path::Path;

/// Points of a line at most: more than the drawing has pixels.
const POINTS: usize = 2000;

/// Of trouble with what is drawn.
const WAY_OUT: WayOut<'static> = WayOut {
    place: "name another folder with -o",
    content: "name another campaign",
};

/// Runs the verb.
///
/// # Errors
/// Exit 2: no campaign, or a plot_data that is none. Exit 1: the folder for the result cannot be written to.
pub fn run(args: &PlotArgs) -> Result<Exit, CliError> {
    let now = unix_now();
    let found = crate::whatsup::found(&args.out, now)?;
    let mut all = Vec::new();
    for instance in found {
        let series = read(&instance.folder)?;
        all.push((instance, series));
    }
    let dir = args.dir.clone().unwrap_or_else(|| args.out.join("plot"));
    std::fs::create_dir_all(&dir).map_err(|e| {
        CliError::setup(format!(
            "making the folder {}: {e}\n  name another one with -o",
            dir.display()
        ))
    })?;
    let put = |name: &str, text: &str| {
        write_whole(&dir.join(name), text.as_bytes()).map_err(|e| WAY_OUT.of(e))
    };
    let mut svgs = Vec::new();
    for chart in charts(&all) {
        let svg = chart::svg(&chart).map_err(CliError::setup)?;
        put(&format!("{}.svg", chart.file), &svg)?;
        svgs.push(svg);
    }
    let rows: Vec<Row> = all.iter().map(|(i, s)| row(i, s)).collect();
    let title = std::path::absolute(&args.out)
        .ok()
        .and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()))
        .unwrap_or_else(|| args.out.display().to_string());
    let points: usize = all.iter().map(|(_, s)| s.time.len()).sum();
    let written = written(points, all.len());
    put("index.html", &page::page(&title, &written, &rows, &svgs))?;
    println!("{written}: {}", dir.join("index.html").display());
    if points == 0 {
        println!("no figures yet: the campaign has not fuzzed; run this again later");
    }
    Ok(Exit::End)
}

/// What was drawn.
fn written(rows: usize, instances: usize) -> String {
    let s = |n: usize| if n == 1 { "" } else { "s" };
    format!(
        "{rows} row{} of plot_data from {instances} instance{}",
        s(rows),
        s(instances)
    )
}

/// An instance without plot_data is learning still.
fn read(folder: &Path) -> Result<Series, CliError> {
    let file = folder.join("plot_data");
    if !file.exists() {
        return Ok(Series::default());
    }
    let bytes = std::fs::read(&file)
        .map_err(|e| CliError::usage(format!("reading {}: {e}", file.display())))?;
    Series::parse(&String::from_utf8_lossy(&bytes)).map_err(|why| {
        CliError::usage(format!(
            "{}: {why}\n  this is no plot_data of Warren or of AFL++",
            file.display()
        ))
    })
}

fn charts(all: &[(Instance, Series)]) -> [Chart; 4] {
    let lines = |columns: &[(&str, &str)]| -> Vec<Line> {
        let mut out = Vec::new();
        for (instance, series) in all {
            for (column, name) in columns {
                let name = match (all.len(), columns.len()) {
                    (1, _) => (*name).to_owned(),
                    (_, 1) => instance.name.clone(),
                    _ => format!("{}: {name}", instance.name),
                };
                out.push(Line {
                    name,
                    points: series.points(column, POINTS),
                });
            }
        }
        out
    };
    [
        Chart {
            file: "coverage".into(),
            title: "Coverage: slots set by any run".into(),
            across: Across::Seconds("fuzzing"),
            lines: lines(&[("edges_found", "slots")]),
            steps: false,
        },
        Chart {
            file: "queue".into(),
            title: "Queue: kept runs, and children not yet tried".into(),
            across: Across::Seconds("fuzzing"),
            lines: lines(&[
                ("corpus_count", "kept runs"),
                ("pending_total", "pending"),
                ("pending_favs", "pending, new fault id"),
            ]),
            steps: true,
        },
        Chart {
            file: "findings".into(),
            title: "Saved failing runs".into(),
            across: Across::Seconds("fuzzing"),
            lines: lines(&[("saved_crashes", "crashes"), ("saved_hangs", "hangs")]),
            steps: true,
        },
        Chart {
            file: "execs".into(),
            title: "Runs per second, over all of the campaign".into(),
            across: Across::Seconds("fuzzing"),
            lines: lines(&[("execs_per_sec", "runs per second")]),
            steps: true,
        },
    ]
}

fn row(instance: &Instance, series: &Series) -> Row {
    let stats = instance.stats.as_ref().and_then(|s| s.as_ref().ok());
    let text = |key: &str| stats.map_or_else(String::new, |s| s.text(key).to_owned());
    let last = |column: &str| {
        series
            .last(column)
            .map_or_else(String::new, |v| v.to_string())
    };
    Row {
        name: instance.name.clone(),
        figures: vec![
            ("target", text("afl_banner")),
            ("strategy", text("strategy")),
            ("seed", text("seed")),
            ("seconds of fuzzing", text("run_time")),
            ("runs", text("execs_done")),
            ("sequences tested", text("sequences_tested")),
            ("kept runs", last("corpus_count")),
            ("slots", last("edges_found")),
            ("stability", text("stability")),
        ],
        findings: stats.map_or_else(Vec::new, findings),
    }
}

/// The findings as the page tells them: (number, what).
fn findings(stats: &Stats) -> Vec<(String, String)> {
    let told = |(number, what): (&str, &str)| (number.to_owned(), stats.told(number, what));
    stats.findings().into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one() {
        for (rows, instances, want) in [
            (0, 1, "0 rows of plot_data from 1 instance"),
            (1, 1, "1 row of plot_data from 1 instance"),
            (109, 2, "109 rows of plot_data from 2 instances"),
        ] {
            assert_eq!(written(rows, instances), want);
        }
    }

    #[test]
    fn a_known_bug_and_a_hang_are_told_as_what_they_are() {
        let text = "start_time : 1\nlast_update : 1\nfuzzer_pid : 7\nexecs_done : 1\n\
                    finding_000000 : aa safety replicas 2/3\n\
                    finding_000001 : bb liveness serve 0/0\nknown_000001 : SIM-1 (a title)\n\
                    finding_000002 : cc hang hang 1/1\n\
                    finding_000003 : dd hang hang 1/1\nknown_000003 : SIM-2\n";
        let found = findings(&Stats::parse(text).unwrap());
        let told: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(
            told,
            [
                "aa safety replicas 2/3",
                "bb liveness serve 0/0, known: SIM-1 (a title)",
                "cc hang hang, over its limit twice",
                "dd hang hang, over its limit twice, known: SIM-2",
            ]
        );
        assert_eq!(found[3].0, "000003");
    }
}
