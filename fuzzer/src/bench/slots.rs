//! `warren bench TARGET --slots`: how many sequences an hour a campaign tests with so many slots side by side. Called by [`super::run`].
//!
//! One campaign each, a process of its own, one after the other from an empty folder, as a user starts them; their runs.jsonl and fuzzer_stats
//! give the rows, nothing is estimated. Confirmations of findings are in the time.

use crate::campaign::RunRole;
use crate::campaign::folder::write_whole;
use crate::cli::args::BenchArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::session::{load, setup_flags};
use crate::cli::signals::Interrupt;
use crate::compare::campaign::{Campaign, Ended, Program, owned, parsed};
use crate::fuzz::Slots;
use crate::fuzz_cmd::may_start_so;
use crate::plot::chart::{Across, Chart, Line, svg};
use crate::whatsup::instance::Stats;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The table's file, and its plot's.
const TABLE: &str = "slots.md";
const PLOT: &str = "slots.svg";

/// How many slots one row has, and how its runs start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    slots: Slots,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Usual,
    /// No snapshots.
    Cold,
    /// No prefix snapshots.
    Whole,
}

impl FromStr for Arm {
    type Err = String;

    /// # Errors
    /// What it should be.
    fn from_str(text: &str) -> Result<Self, String> {
        let (slots, how) = match text.split_once('/') {
            None => (text, How::Usual),
            Some((slots, "cold")) => (slots, How::Cold),
            Some((slots, "whole")) => (slots, How::Whole),
            Some((_, how)) => {
                return Err(format!(
                    "`/{how}`: write /cold (no snapshots), /whole (no prefix snapshots), or neither"
                ));
            }
        };
        Ok(Arm {
            slots: slots.parse()?,
            how,
        })
    }
}

impl Arm {
    /// As the user writes it.
    fn name(&self) -> String {
        let how = match self.how {
            How::Usual => "",
            How::Cold => "/cold",
            How::Whole => "/whole",
        };
        format!("{}{how}", self.slots)
    }

    fn campaign(&self, folder: &Path, args: &BenchArgs) -> Campaign {
        let name = format!("j-{}", self.name().replace('/', "-"));
        let folder = folder.join(&name);
        let mut words: Vec<String> = ["fuzz", &args.target, "-o"].map(str::to_owned).to_vec();
        words.push(folder.display().to_string());
        words.extend(["-s".into(), args.seed.to_string()]);
        words.extend(["-V".into(), args.seconds.to_string()]);
        words.extend(["-j".into(), self.slots.to_string(), "--no-ui".into()]);
        words.extend(setup_flags(&args.setup));
        words.extend(args.options.iter().cloned());
        match self.how {
            How::Usual => {}
            How::Cold => words.extend(["--snapshot".into(), "off".into()]),
            How::Whole => words.extend(["--in-a-row".into(), "1".into()]),
        }
        Campaign {
            name,
            folder,
            words,
        }
    }
}

/// What one campaign came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlotsRow {
    /// As asked for, `auto`, `2/cold`.
    pub slots: String,
    /// How many there were.
    pub took: u64,
    /// Tested by the strategy, as the campaign counts them.
    pub sequences: u64,
    /// Of fuzzing, to the end of the last run.
    pub seconds: f64,
    pub per_hour: f64,
    /// Mean of a sequence's run.
    pub wall_s: f64,
    /// All that was spent, of prefixes and confirmations, too, on each sequence.
    pub cpu_s: f64,
    /// Of all cores.
    pub cpu_share: f64,
    pub from_prefix: f64,
    pub injected_in_full: f64,
    /// Runs that confirmed findings, which have the machine for themselves where a failure is one of liveness.
    pub replays: u64,
}

/// The part of a line of runs.jsonl that counts here.
#[derive(Deserialize)]
struct RunLine {
    role: RunRole,
    at_ms: u64,
    reason: Option<String>,
    #[serde(default)]
    from_prefix: Option<usize>,
    void: Option<String>,
    times_ms: Total,
    spent_ms: u64,
}

#[derive(Deserialize)]
struct Total {
    total: u64,
}

#[allow(clippy::cast_precision_loss)] // times and numbers of runs are far below 2^52
impl SlotsRow {
    /// Of a campaign's two files on a machine of so many cores.
    ///
    /// # Errors
    /// A line that is none, or a campaign without one tested sequence.
    fn of(arm: &Arm, jsonl: &str, stats: &Stats, cores: usize) -> Result<Self, String> {
        let mut fuzzing = Vec::new();
        for (i, text) in jsonl.lines().enumerate() {
            let line: RunLine =
                serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1))?;
            if line.role != RunRole::Learning {
                fuzzing.push(line);
            }
        }
        let tested: Vec<&RunLine> = fuzzing
            .iter()
            .filter(|l| matches!(l.role, RunRole::Fuzz | RunRole::Repeat) && l.void.is_none())
            .collect();
        let sequences = stats.number("sequences_tested");
        let (n, runs, ms) = (sequences as f64, tested.len() as f64, 1000.0);
        let seconds = fuzzing.iter().map(|l| l.at_ms).max().unwrap_or(0) as f64 / ms;
        if sequences == 0 || tested.is_empty() || seconds <= 0.0 {
            return Err("no sequence was tested".into());
        }
        let spent = fuzzing.iter().map(|l| l.spent_ms).sum::<u64>() as f64 / ms;
        let share =
            |of: &dyn Fn(&RunLine) -> bool| tested.iter().filter(|l| of(l)).count() as f64 / runs;
        Ok(SlotsRow {
            slots: arm.name(),
            took: stats.number("side_by_side"),
            sequences,
            seconds,
            per_hour: 3600.0 * n / seconds,
            wall_s: tested.iter().map(|l| l.times_ms.total).sum::<u64>() as f64 / ms / runs,
            cpu_s: spent / n,
            cpu_share: spent / seconds / cores as f64,
            from_prefix: share(&|l| l.from_prefix.is_some()),
            injected_in_full: share(&|l| l.reason.is_none()),
            replays: fuzzing
                .iter()
                .filter(|l| l.role == RunRole::Confirm)
                .count() as u64,
        })
    }

    fn is_usual(&self) -> bool {
        !self.slots.contains('/')
    }
}

/// Runs the campaigns and shows the table.
///
/// # Errors
/// Exit 2: rows or options that cannot be, or a folder that is used; nothing was run. Exit 1: a campaign that fails or tested nothing; the rows before
/// it are shown. Ctrl-C ends with the rows there are, and says so.
pub fn run(args: &BenchArgs, arms: &[Arm]) -> Result<Exit, CliError> {
    // A target that there is not is told before anything is made.
    load(&args.target, &args.setup)?;
    let interrupt = Interrupt::install()?;
    let scratch;
    let folder = if let Some(folder) = &args.out {
        std::path::absolute(folder)
            .map_err(|e| CliError::setup(format!("the folder {}: {e}", folder.display())))?
    } else {
        scratch = tempfile::tempdir()
            .map_err(|e| CliError::setup(format!("making a scratch folder: {e}")))?;
        scratch.path().to_owned()
    };
    let campaigns: Vec<Campaign> = arms.iter().map(|a| a.campaign(&folder, args)).collect();
    may_run(args, arms, &campaigns).map_err(CliError::usage)?;
    is_unused(&folder, &campaigns)?;
    let program = Program::own()?;
    let mut rows = Vec::new();
    let mut failed = None;
    for (k, (arm, campaign)) in arms.iter().zip(&campaigns).enumerate() {
        if interrupt.asked() {
            break;
        }
        eprintln!(
            "warren: campaign {} of {}, {} s with -j {}",
            k + 1,
            arms.len(),
            args.seconds,
            arm.name()
        );
        match measured(args, arm, campaign, &program, &interrupt) {
            Ok(Some(row)) => {
                eprintln!(
                    "warren:   {} sequences in {:.0} s",
                    row.sequences, row.seconds
                );
                rows.push(row);
            }
            Ok(None) => break,
            Err(e) => {
                failed = Some(e);
                break;
            }
        }
    }
    // What went wrong first is told, not what it led to.
    let shown = show(args, &folder, &rows);
    if let Some(e) = failed {
        return Err(e);
    }
    shown?;
    if rows.len() < arms.len() {
        eprintln!("warren: ended by Ctrl-C: the rows are fewer than asked for");
    }
    Ok(Exit::End)
}

/// Asks, before the first campaign, what `fuzz` would say of each.
fn may_run(args: &BenchArgs, arms: &[Arm], campaigns: &[Campaign]) -> Result<(), String> {
    let alone = [
        vec!["fuzz".into(), args.target.clone()],
        args.options.clone(),
    ]
    .concat();
    let alone = parsed(&alone).map_err(|e| format!("options of fuzz: {e}"))?;
    if let Some((flag, _)) = owned(&alone).into_iter().find(|(_, given)| *given) {
        return Err(format!(
            "{flag} is set by the bench itself and cannot stand among the options of fuzz"
        ));
    }
    for (k, (arm, campaign)) in arms.iter().zip(campaigns).enumerate() {
        let name = arm.name();
        if arms[..k].contains(arm) {
            return Err(format!("--slots: `{name}` is asked for twice"));
        }
        parsed(&campaign.words)
            .and_then(|f| may_start_so(&f))
            .map_err(|e| format!("--slots {name}, with the options of fuzz: {e}"))?;
    }
    Ok(())
}

/// Nothing that an earlier bench measured is written over.
fn is_unused(folder: &Path, campaigns: &[Campaign]) -> Result<(), CliError> {
    let mut ours = campaigns
        .iter()
        .map(Campaign::instance)
        .chain([folder.join(TABLE)]);
    match ours.find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(CliError::usage(format!(
            "{} is there already, and is left as it is: name another folder with -o",
            path.display()
        ))),
    }
}

/// Runs one campaign. None: the user asked for an end before its time was over; after that it only works off what it owes.
fn measured(
    args: &BenchArgs,
    arm: &Arm,
    campaign: &Campaign,
    program: &Program,
    interrupt: &Interrupt,
) -> Result<Option<SlotsRow>, CliError> {
    program.is_the_same()?;
    campaign.make_ready()?;
    let ended = campaign.run(&program.path, interrupt, &|| false)?;
    let row = row_of(arm, &campaign.instance());
    #[allow(clippy::cast_precision_loss)] // seconds of a campaign
    let whole = |r: &SlotsRow| r.seconds >= args.seconds as f64;
    match ended {
        Ended::Well => row.map(Some),
        Ended::Asked => Ok(row.ok().filter(whole)),
    }
}

fn row_of(arm: &Arm, instance: &Path) -> Result<SlotsRow, CliError> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let read = |path: PathBuf| match std::fs::read_to_string(&path) {
        Ok(text) => Ok((path, text)),
        Err(e) => Err(CliError::setup(format!("reading {}: {e}", path.display()))),
    };
    let in_file = |path: &Path, e: String| {
        CliError::setup(format!(
            "the campaign with -j {}: {}: {e}",
            arm.name(),
            path.display()
        ))
    };
    let (path, stats) = read(instance.join("fuzzer_stats"))?;
    let stats = Stats::parse(&stats).map_err(|e| in_file(&path, e))?;
    let (path, lines) = read(instance.join("runs.jsonl"))?;
    SlotsRow::of(arm, &lines, &stats, cores).map_err(|e| in_file(&path, e))
}

/// Prints the rows, and keeps them where the user wants them kept; no rows leave no files.
fn show(args: &BenchArgs, folder: &Path, rows: &[SlotsRow]) -> Result<(), CliError> {
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
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    fn args(words: &str) -> BenchArgs {
        match Cli::try_parse_from(words.split(' ')).unwrap().command {
            Command::Bench(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_is_a_campaign_as_a_user_starts_it() {
        let args = args(
            "warren bench zookeeper --slots 3,auto/whole,2/cold --seconds 60 --version 3.9.4 -- --strategy crashfuzz",
        );
        let words: Vec<String> = args
            .slots
            .iter()
            .map(|a| a.campaign(Path::new("f"), &args).words.join(" "))
            .collect();
        let with = |folder: &str, j: &str, how: &str| {
            format!(
                "fuzz zookeeper -o f/{folder} -s 1 -V 60 -j {j} --no-ui --version 3.9.4 --strategy crashfuzz{how}"
            )
        };
        let want = [
            with("j-3", "3", ""),
            with("j-auto-whole", "auto", " --in-a-row 1"),
            with("j-2-cold", "2", " --snapshot off"),
        ];
        assert_eq!(words, want);
        for w in &words {
            let parsed = Cli::try_parse_from(std::iter::once("warren").chain(w.split(' ')));
            assert!(parsed.is_ok(), "{w}");
        }
    }

    #[test]
    fn what_no_campaign_could_start_with_is_refused_before_the_first_one() {
        for (words, refused) in [
            ("--slots 1,2/cold -- --strategy crashfuzz -E 4", None),
            ("--slots 2,1,2", Some("`2` is asked for twice")),
            ("--slots 1 -- -j 3", Some("-j")),
            ("--slots 1 -- -V 9", Some("-V")),
            ("--slots 1 -- -o x", Some("-o is set by the bench")),
            ("--slots 1 -- -M m", Some("-M is set by the bench")),
            ("--slots 1 -- -i -", Some("-i - is set by the bench")),
            (
                "--slots 1,2/cold --snapshot off",
                Some("--slots 2/cold, with"),
            ),
            (
                "--slots 1,2/whole -- --in-a-row 2",
                Some("--slots 2/whole, with"),
            ),
            ("--slots 1 -- --nosuch", Some("--nosuch")),
        ] {
            let args = args(&format!("warren bench canary {words}"));
            let folder = Path::new("f");
            let campaigns: Vec<Campaign> = args
                .slots
                .iter()
                .map(|a| a.campaign(folder, &args))
                .collect();
            match (may_run(&args, &args.slots, &campaigns), refused) {
                (Ok(()), None) => {}
                (Err(e), Some(part)) => assert!(e.contains(part), "{words}: {e}"),
                (got, want) => panic!("{words}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn what_an_earlier_bench_measured_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let args = args("warren bench canary --slots 1,4");
        let campaigns: Vec<Campaign> = args
            .slots
            .iter()
            .map(|a| a.campaign(dir.path(), &args))
            .collect();
        is_unused(dir.path(), &campaigns).unwrap();
        for path in ["j-4/default", TABLE] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            let e = is_unused(dir.path(), &campaigns).unwrap_err();
            assert_eq!(e.exit, Exit::Usage);
            assert!(e.text.contains("is there already"), "{}", e.text);
            std::fs::remove_dir(&path).unwrap();
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for (slots, part) in [
            ("0", "`0` is neither a number"),
            ("65", "`65` is neither a number from 1 to 64"),
            ("many", "`many` is neither"),
            ("2/hot", "`/hot`: write /cold"),
            ("/cold", "`` is neither"),
        ] {
            let e = slots.parse::<Arm>().unwrap_err();
            assert!(e.contains(part), "{e}");
        }
        // Each of the two ways of measuring has its own options.
        for words in [
            "warren bench canary --seconds 60",
            "warren bench canary -o f",
            "warren bench canary --slots 1 --runs 3",
            "warren bench canary -- -E 3",
        ] {
            assert!(Cli::try_parse_from(words.split(' ')).is_err(), "{words}");
        }
    }

    fn line(role: &str, at: u64, total: u64, spent: u64, rest: &str) -> String {
        format!(
            "{{\"role\":\"{role}\",\"at_ms\":{at},\"times_ms\":{{\"total\":{total}}},\"spent_ms\":{spent},{rest}}}\n"
        )
    }

    fn stats(took: u64, tested: u64) -> Stats {
        Stats::parse(&format!(
            "start_time : 1\nlast_update : 2\nfuzzer_pid : 3\nexecs_done : 4\nside_by_side : {took}\nsequences_tested : {tested}\n"
        ))
        .unwrap()
    }

    const GOOD: &str = "\"reason\":null,\"void\":null";

    #[test]
    fn a_row_counts_what_the_strategy_tested() {
        let text = [
            line("learning", 0, 9000, 90_000, GOOD),
            line("fuzz", 5000, 4000, 3000, GOOD),
            line(
                "fuzz",
                6000,
                2000,
                2000,
                "\"reason\":\"it was not reached\",\"void\":null,\"from_prefix\":2",
            ),
            line(
                "fuzz",
                7000,
                9000,
                500,
                "\"reason\":null,\"void\":\"starved\"",
            ),
            line("repeat", 8000, 6000, 500, GOOD),
            line("confirm", 10_000, 3000, 2500, GOOD),
        ]
        .concat();
        let arm: Arm = "auto".parse().unwrap();
        let row = SlotsRow::of(&arm, &text, &stats(2, 3), 2).unwrap();
        let want = SlotsRow {
            slots: "auto".into(),
            took: 2,
            sequences: 3,
            seconds: 10.0,
            per_hour: 1080.0,
            wall_s: 4.0,
            cpu_s: 8.5 / 3.0,
            cpu_share: 0.425,
            from_prefix: 1.0 / 3.0,
            injected_in_full: 2.0 / 3.0,
            replays: 1,
        };
        assert_eq!(row, want);
        let e = SlotsRow::of(&arm, &line("learning", 0, 1, 1, GOOD), &stats(1, 0), 2).unwrap_err();
        assert!(e.contains("no sequence"), "{e}");
        let e = SlotsRow::of(&arm, "{}\n", &stats(1, 0), 2).unwrap_err();
        assert!(e.contains("line 1"), "{e}");
    }

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
