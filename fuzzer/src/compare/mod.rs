//! `warren compare TARGET`: strategies, and a strategy less each of its parts, against each other: whole campaigns of one budget, repeated, only
//! the seed differing, interleaved in time (docs/compare.md).
//!
//! [`arms`] says what is compared, [`campaign`] runs one campaign as a process of its own, [`measure`] reads its files, [`table`] keeps the
//! rows; [`outcome`] makes the figures of them with the pure [`stats`] and [`bugs`], also at a [`budget`] of CPU time, [`report`] shows them. Here folders and order. Knows
//! nothing of how a strategy searches: an arm is flags of `warren fuzz`.

pub mod arms;
mod axis;
pub mod budget;
pub mod bugs;
pub mod campaign;
mod charts;
mod csv;
mod grid;
pub mod measure;
pub mod outcome;
pub mod report;
pub mod stats;
pub mod table;

use crate::campaign::folder::{shell_line, write_whole};
use crate::campaign::state::{Identity, Lock};
use crate::campaign::{Folder, FuzzError, WayOut};
use crate::cli::args::CompareArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::session::{self, setup_flags};
use crate::cli::signals::Interrupt;
use crate::fuzz::Tested;
use crate::fuzz_cmd;
use arms::Arm;
use bugs::Bugs;
use campaign::{Campaign, Ended, Program};
use measure::Which;
use report::Report;
use std::path::{Path, PathBuf};
use table::{BUILDS, Head, Table};
use warren_executor::target::{Target, find_target};

/// Of the table in a comparison's folder.
const TABLE: &str = "table.jsonl";
/// What the head of a table calls whose slots it counts; those of before 28 November 2026 do not say it, and counted what taught the search.
const COVERAGE: &str = "coverage";
/// Of its bugs, beside target.toml.
const BUGS: &str = "bugs.toml";

/// Trouble with a comparison's folder.
fn failed(e: FuzzError) -> CliError {
    let way_out = WayOut {
        place: "choose another folder with -o",
        content: "choose another folder with -o to begin anew; this one is left as it is",
    };
    way_out.of(e)
}

/// Runs the verb.
///
/// # Errors
/// Exit 2: a target, strategy, part or option that cannot be used, or a folder with another comparison. Exit 1: a campaign failed, or a
/// folder cannot be written to.
pub fn run(args: &CompareArgs) -> Result<Exit, CliError> {
    let target = session::load(&args.target, &args.setup)?;
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("out").join(format!("compare-{}", args.target)));
    let bugs = read_bugs(args, &target)?;
    let path = folder.join(TABLE);
    if args.report {
        let table = stored(&folder, &path, &target.name)?;
        return tell(args, &folder, &table, &bugs, &[]);
    }
    let arms = arms::arms(&args.strategies, &args.ablate).map_err(CliError::usage)?;
    let mut options = setup_flags(&args.setup);
    options.extend(args.options.iter().cloned());
    arms::check_options(&args.target, &arms, &options).map_err(CliError::usage)?;
    against(args, arms.iter().map(|a| a.label.as_str()))?;
    let until = match &args.until {
        Some(asked) => Some(
            bugs.called(asked)
                .map_err(|why| CliError::usage(format!("--until {why}")))?,
        ),
        None => None,
    };
    let budget = budget(args, until);
    let tested = tested(&args.target, &options)?;
    let mut identity = comparison(args, &target, &budget, &options);
    tested.put_into(&mut identity);
    if let Some(bug) = until {
        identity.put("entry of the bug", format!("{:016x}", bugs.sum(bug)));
    }
    let head = Head::new(identity);
    // Before anything is made; asked again when the folder is ours.
    match Table::read(&path).map_err(failed)? {
        Some(there) => there.fits(&path, &head).map_err(failed)?,
        None => {
            no_campaign(&folder)?;
            no_campaigns_without_table(&folder)?;
        }
    }
    let interrupt = Interrupt::install()?;
    let _lock = Lock::take(&folder).map_err(failed)?;
    let mut table = Table::open(&path, head).map_err(failed)?;
    let command = shell_line(&std::env::args().collect::<Vec<_>>());
    write_whole(&folder.join("cmdline"), format!("{command}\n").as_bytes()).map_err(failed)?;
    let program = Program::own()?;
    let missing = missing(&table, &arms, args.repeat);
    eprintln!(
        "warren: {} campaigns of {} to run, {} stand in {}",
        missing.len(),
        budget.1,
        table.rows.len(),
        path.display()
    );
    let work = Work {
        args,
        folder: &folder,
        bugs: &bugs,
        until,
        budget: &budget.0,
        options: &options,
        tested: &tested,
        program: &program,
        interrupt: &interrupt,
    };
    if args.slim {
        // Of a comparison that was killed between a campaign's line and this, and of one that went without it so far.
        for (arm, repeat) in in_turn(&arms, args.repeat).filter(|(a, r)| table.has(&a.label, *r)) {
            work.campaign(arm, repeat).slim()?;
        }
    }
    for (done, (arm, repeat)) in missing.iter().enumerate() {
        let place = format!("{} of {}", done + 1, missing.len());
        if interrupt.asked() || !work.add(&mut table, arm, *repeat, &place)? {
            break;
        }
    }
    if interrupt.asked() {
        eprintln!("warren: ended as asked; the same command goes on");
    }
    tell(args, &folder, &table, &bugs, &arms)
}

/// The table that stands in the folder, of this target.
fn stored(folder: &Path, path: &Path, target: &str) -> Result<Table, CliError> {
    let table = Table::read(path).map_err(failed)?.ok_or_else(|| {
        CliError::usage(format!(
            "{} holds no comparison: {TABLE} is not there; leave --report out to begin one, or name the right folder with -o",
            folder.display()
        ))
    })?;
    let of = table.head.comparison.get("target").unwrap_or("?");
    if of != target {
        return Err(CliError::usage(format!(
            "{} holds a comparison of {of}, asked {target}; name the right folder with -o",
            folder.display()
        )));
    }
    Ok(table)
}

/// What all campaigns of a comparison have in common.
struct Work<'a> {
    args: &'a CompareArgs,
    folder: &'a Path,
    bugs: &'a Bugs,
    /// Each campaign ends when it has shown this one.
    until: Option<&'a str>,
    budget: &'a [String],
    options: &'a [String],
    /// As it was when this process began.
    tested: &'a Tested,
    program: &'a Program,
    interrupt: &'a Interrupt,
}

impl Work<'_> {
    /// Only the seed differs between the repeats of an arm, and all arms of a repeat have the same.
    fn seed(&self, repeat: u64) -> u64 {
        self.args.seed + (repeat - 1)
    }

    fn campaign(&self, arm: &Arm, repeat: u64) -> Campaign {
        let target = &self.args.target;
        let seed = self.seed(repeat);
        Campaign::new(
            self.folder,
            target,
            arm,
            repeat,
            seed,
            self.budget,
            self.options,
        )
    }

    /// A campaign reads the target's files anew.
    fn tests_the_same(&self) -> Result<(), CliError> {
        let now = tested(&self.args.target, self.options)?;
        let differences = self.tested.differences(&now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(CliError::setup(format!(
            "what is tested was changed in the middle: campaigns would be of two targets:\n  {}\n  put it back (a JDK by JAVA_HOME) and run the same command again to go on, or choose another folder with -o",
            differences.in_lines()
        )))
    }

    /// Runs one campaign to its end and adds its row; false: it was interrupted.
    fn add(
        &self,
        table: &mut Table,
        arm: &Arm,
        repeat: u64,
        place: &str,
    ) -> Result<bool, CliError> {
        self.program.is_the_same().map_err(|e| CliError {
            text: e.text + "; run the same command again to go on with the new one",
            ..e
        })?;
        self.tests_the_same()?;
        let campaign = self.campaign(arm, repeat);
        let row = || {
            let builds = match campaign.builds() {
                none if none.is_empty() => self.program.build.clone(),
                some => some.join(BUILDS),
            };
            let which = Which {
                arm,
                repeat,
                seed: self.seed(repeat),
                build: &builds,
                starts: campaign.starts(),
            };
            measure::of_campaign(&which, &campaign.instance())
        };
        // A line that is being written is read the next time.
        let has_shown = || {
            let shows = |bug| row().is_ok_and(|row| self.bugs.first(&row, bug).is_some());
            self.until.is_some_and(shows)
        };
        if !finish(&campaign, self.program, self.interrupt, place, &has_shown)? {
            return Ok(false);
        }
        let mut row = row().map_err(CliError::setup)?;
        if !measure::is_done(&row.ended) {
            row.ended = table::FOUND.to_owned();
        }
        eprintln!("warren:   {}", told(&row, self.bugs));
        let path = self.folder.join(TABLE);
        table.add(&path, row).map_err(failed)?;
        if self.args.slim {
            campaign.slim()?;
        }
        Ok(true)
    }
}

/// Whether a folder without a comparison may get one: `warren fuzz` has no instance there, nor is it one.
fn no_campaign(folder: &Path) -> Result<(), CliError> {
    let mut all = vec![folder.to_owned()];
    // A folder that is not there holds none; one that cannot be read cannot be written either, and that is told.
    all.extend(
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path()),
    );
    // A comparison has a command line, too: the folder's own one may have lost its table, others may lie beside it.
    let of_fuzz = |f: &Path| Folder::marker(f).filter(|m| *m != "cmdline");
    match all.iter().find_map(|f| Some((f, of_fuzz(f)?))) {
        None => Ok(()),
        Some((held, marker)) => Err(CliError::usage(format!(
            "{} holds a campaign of `warren fuzz` ({marker} is there), which is left as it is; a comparison has a folder of its own: choose another one with -o",
            held.display()
        ))),
    }
}

/// Whether a folder without a table may get one: of campaigns that lie there nobody knows any more what they were to compare.
fn no_campaigns_without_table(folder: &Path) -> Result<(), CliError> {
    let campaigns = folder.join(campaign::CAMPAIGNS);
    let none = std::fs::read_dir(&campaigns).is_ok_and(|mut all| all.next().is_none());
    if none || !campaigns.exists() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{} has campaigns and no {TABLE}: what they compare is not known; put the table back, remove {}, or choose another folder with -o",
        folder.display(),
        campaigns.display()
    )))
}

/// Brings a campaign to its end, which is also where it has shown what is looked for, unless its files say that it is there already. False:
/// the user asked for an end before.
fn finish(
    campaign: &Campaign,
    program: &Program,
    interrupt: &Interrupt,
    place: &str,
    has_shown: &dyn Fn() -> bool,
) -> Result<bool, CliError> {
    let at_end = || measure::end_of(&campaign.instance()).is_some_and(|e| measure::is_done(&e));
    let done = || at_end() || has_shown();
    if done() {
        eprintln!(
            "warren: campaign {place}: {} was done already",
            campaign.name
        );
        return Ok(true);
    }
    let said = campaign.make_ready()?;
    eprintln!("warren: campaign {place}: {} {said}", campaign.name);
    campaign.begins(&program.build)?;
    let ended = campaign
        .run(&program.path, interrupt, has_shown)
        .map_err(|e| CliError {
            text: e.text
                + "\n  fix this and run the same command again: completed campaigns are kept",
            ..e
        })?;
    match (done(), ended) {
        (true, _) => Ok(true),
        (false, Ended::Asked) => Ok(false),
        (false, Ended::Well) => Err(CliError::setup(format!(
            "campaign {} ended before its budget was used up, and nobody asked for that here (fuzzer_stats: ended {}); run the same comparison again to go on with it",
            campaign.name,
            measure::end_of(&campaign.instance()).unwrap_or_else(|| "not told".into())
        ))),
    }
}

/// A line about a campaign that is done.
fn told(row: &table::Row, bugs: &Bugs) -> String {
    let names = bugs.names(std::slice::from_ref(row));
    let found: Vec<String> = names
        .iter()
        .filter_map(|n| Some(format!("{n} at {}", bugs.first(row, n)?.tests)))
        .collect();
    format!(
        "{} tests in {:.0} s, {:.0} CPU s, {} slots; {}",
        row.tests,
        row.seconds,
        row.cpu_seconds,
        row.curve.last().map_or(0, |p| p.slots),
        if found.is_empty() {
            "nothing found".to_owned()
        } else {
            found.join(", ")
        }
    )
}

/// All campaigns, repeat by repeat; each repeat begins with another arm, so that none is always the first.
fn in_turn(arms: &[Arm], repeats: u64) -> impl Iterator<Item = (&Arm, u64)> {
    (1..=repeats).flat_map(|repeat| {
        let first = (repeat - 1) as usize % arms.len().max(1);
        let order = arms[first..].iter().chain(&arms[..first]);
        order.map(move |arm| (arm, repeat))
    })
}

/// Those that are not in the table yet.
fn missing<'a>(table: &Table, arms: &'a [Arm], repeats: u64) -> Vec<(&'a Arm, u64)> {
    in_turn(arms, repeats)
        .filter(|(arm, repeat)| !table.has(&arm.label, *repeat))
        .collect()
}

/// Shows what the table comes to, and writes the files. `arms`: those that were to be run; some may have no campaign yet.
fn tell(
    args: &CompareArgs,
    folder: &Path,
    table: &Table,
    bugs: &Bugs,
    arms: &[Arm],
) -> Result<Exit, CliError> {
    let stand = table.rows.iter().map(|r| r.arm.as_str());
    let asked = arms.iter().map(|a| a.label.as_str());
    let against = if table.rows.is_empty() {
        ""
    } else {
        against(args, stand.clone().chain(asked))?
    };
    if !against.is_empty() && !stand.clone().any(|l| l == against) {
        eprintln!("warren: {against} has no campaign yet, so nothing is held against it");
    }
    let report = Report::of(table, bugs, against);
    let command = std::fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
    let dir = folder.join("report");
    std::fs::create_dir_all(&dir)
        .map_err(|e| CliError::setup(format!("making the folder {}: {e}", dir.display())))?;
    let files = report::files(&report, command.trim()).map_err(CliError::setup)?;
    for (name, text) in &files {
        write_whole(&dir.join(name), text.as_bytes()).map_err(failed)?;
    }
    // An earlier report may have told more: of more bugs, or of coverage, which none tells once a campaign has found what it looked for.
    for old in charts::all_files().chain([report::EQUAL_CPU.into()]) {
        if files.iter().all(|(name, _)| *name != old) {
            // Not there, mostly.
            let _ = std::fs::remove_file(dir.join(old));
        }
    }
    print!("{}", report::text(&report));
    println!("\ntables, CSV and curves are in {}", dir.display());
    Ok(Exit::End)
}

/// The arm that the others are held against: the one asked for, else the first.
fn against<'a>(
    args: &CompareArgs,
    mut labels: impl Iterator<Item = &'a str> + Clone,
) -> Result<&'a str, CliError> {
    let Some(asked) = &args.against else {
        return Ok(labels.next().unwrap_or_default());
    };
    let mut all: Vec<&str> = labels.clone().collect();
    all.sort_unstable();
    all.dedup();
    labels.find(|l| l == asked).ok_or_else(|| {
        CliError::usage(format!(
            "--against {asked}: there is no such arm; there are {}",
            all.join(", ")
        ))
    })
}

/// Flags of `fuzz`, and for people.
fn budget(args: &CompareArgs, until: Option<&str>) -> (Vec<String>, String) {
    let (flags, mut words) = match (args.runs, args.cpu_seconds) {
        (_, Some(s)) => (
            vec!["--cpu-seconds".into(), s.to_string()],
            format!("{s}{}", axis::CPU_SECONDS),
        ),
        (runs, None) => {
            let runs = runs.unwrap_or_default();
            (vec!["-E".into(), runs.to_string()], format!("{runs} runs"))
        }
    };
    if let Some(bug) = until {
        words.push_str(&format!(", or until {bug}"));
    }
    (flags, words)
}

/// What makes this comparison this one.
fn comparison(
    args: &CompareArgs,
    target: &Target,
    budget: &(Vec<String>, String),
    options: &[String],
) -> Identity {
    let mut identity = Identity::default();
    identity.put("target", &target.name);
    for (name, value) in fuzz_cmd::identity_of(target) {
        identity.put(&name, value);
    }
    identity.put("budget", &budget.1);
    identity.put("first seed", args.seed);
    let options = match options {
        [] => "none".to_owned(),
        some => shell_line(some),
    };
    identity.put("options of fuzz", options);
    identity.put(COVERAGE, "of all tests, failing ones too");
    identity.put("failures of liveness", "from the test that found them");
    identity
}

/// What campaigns with these options test, as their own start will find it: a dictionary or a JDK may stand behind `--`, too.
fn tested(target: &str, options: &[String]) -> Result<Tested, CliError> {
    let mut words = vec!["fuzz".to_owned(), target.to_owned()];
    words.extend(options.iter().cloned());
    let setup = campaign::parsed(&words).map_err(CliError::usage)?.setup;
    let target = session::load(target, &setup)?;
    let tested = Tested::of(&target).map_err(CliError::usage)?;
    Ok(tested.with_jdk_there(&target, setup.java.as_deref()))
}

/// The file asked for, else the target's own, else none.
fn read_bugs(args: &CompareArgs, target: &Target) -> Result<Bugs, CliError> {
    let own = find_target(&args.target, args.setup.targets.as_deref())
        .ok()
        .map(|f| f.join(BUGS))
        .filter(|f| f.is_file());
    match args.bugs.clone().or(own) {
        Some(path) => Bugs::read(&path, &target.name).map_err(CliError::usage),
        None => Ok(Bugs::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command as Verb};
    use clap::Parser;
    use table::Row;

    fn arm(label: &str) -> Arm {
        Arm {
            label: label.into(),
            strategy: label.into(),
            without: Vec::new(),
        }
    }

    #[test]
    fn repeats_are_interleaved_and_only_what_is_missing_is_run() {
        let arms = [arm("a"), arm("b"), arm("c")];
        let mut table = Table {
            head: Head::new(Identity::default()),
            rows: Vec::new(),
            whole: 0,
        };
        let order = |t: &Table, repeats| -> Vec<String> {
            missing(t, &arms, repeats)
                .iter()
                .map(|(a, r)| format!("{}{r}", a.label))
                .collect()
        };
        assert_eq!(order(&table, 2), ["a1", "b1", "c1", "b2", "c2", "a2"]);
        for (arm, repeat) in [("a", 1), ("c", 1), ("b", 2)] {
            table.rows.push(Row {
                arm: arm.into(),
                repeat,
                ..Row::default()
            });
        }
        assert_eq!(order(&table, 2), ["b1", "c2", "a2"]);
        assert_eq!(order(&table, 1), ["b1"]);
        assert!(missing(&table, &[], 3).is_empty());
    }

    /// Ended by Ctrl-C before the arm that was asked for had its first campaign.
    #[test]
    fn what_stands_is_told_before_there_is_anything_to_hold_it_against() {
        let words = "warren compare x --strategies a,b --runs 10 --against b";
        let Verb::Compare(args) = Cli::parse_from(words.split(' ')).command else {
            panic!("another verb");
        };
        let table = Table {
            head: Head::new(Identity::default()),
            rows: vec![outcome::tests::campaign("a", 1, 200, Some(2))],
            whole: 0,
        };
        let dir = tempfile::tempdir().unwrap();
        let told = |arms: &[Arm]| tell(&args, dir.path(), &table, &Bugs::default(), arms);
        let refused = told(&[arm("a")]).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert_eq!(told(&[arm("a"), arm("b")]).unwrap(), Exit::End);
        let report = std::fs::read_to_string(dir.path().join("report/report.txt")).unwrap();
        assert!(report.contains("1 of 1"), "{report}");
        assert!(!report.contains("Against b"), "{report}");
    }

    #[test]
    fn campaigns_whose_table_is_lost_are_in_no_other_table() {
        let dir = tempfile::tempdir().unwrap();
        no_campaigns_without_table(dir.path()).unwrap();
        let campaigns = dir.path().join(campaign::CAMPAIGNS);
        std::fs::create_dir(&campaigns).unwrap();
        no_campaigns_without_table(dir.path()).unwrap();
        std::fs::create_dir(campaigns.join("warren-r001")).unwrap();
        let refused = no_campaigns_without_table(dir.path()).unwrap_err();
        assert!(
            refused.text.contains("put the table back"),
            "{}",
            refused.text
        );
    }

    #[test]
    fn a_campaigns_folder_is_no_place_for_a_comparison() {
        let dir = tempfile::tempdir().unwrap();
        let instance = dir.path().join("default");
        no_campaign(&dir.path().join("new")).unwrap();
        // A comparison that was killed before it had its table.
        std::fs::create_dir(&instance).unwrap();
        std::fs::write(dir.path().join("lock"), "7\n").unwrap();
        no_campaign(dir.path()).unwrap();
        // One that has lost it, and one beside it.
        for folder in [dir.path().to_owned(), dir.path().join("other")] {
            std::fs::create_dir_all(folder.join("campaigns/fifo-r001")).unwrap();
            std::fs::write(folder.join("cmdline"), "warren compare x\n").unwrap();
        }
        no_campaign(dir.path()).unwrap();
        std::fs::write(instance.join("fuzzer_stats"), "x").unwrap();
        for folder in [dir.path(), &instance] {
            let e = no_campaign(folder).unwrap_err();
            assert_eq!(e.exit, Exit::Usage);
            for part in ["default holds a campaign", "fuzzer_stats", "-o"] {
                assert!(e.text.contains(part), "{e}");
            }
        }
    }
}
