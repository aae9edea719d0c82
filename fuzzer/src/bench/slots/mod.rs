//! `warren bench TARGET --slots`: how many sequences an hour a campaign tests with so many slots side by side. Called by [`super::run`].
//!
//! One campaign each, a process of its own, one after the other from an empty folder, as a user starts them; their runs.jsonl and fuzzer_stats
//! give the rows, nothing is estimated. Confirmations of findings are in the time.

mod row;
mod shown;

use self::row::SlotsRow;
use self::shown::{TABLE, show};
use crate::cli::args::{Arm, BenchArgs, How};
use crate::cli::exit::{CliError, Exit};
use crate::cli::session::{load, setup_flags};
use crate::cli::signals::Interrupt;
use crate::compare::campaign::{Campaign, Ended, Program, owned, parsed};
use crate::fuzz_cmd::check_flags;
use crate::whatsup::instance::Stats;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// The campaign of a row.
fn campaign(arm: &Arm, folder: &Path, args: &BenchArgs) -> Campaign {
    let name = format!("j-{}", arm.name().replace('/', "-"));
    let folder = folder.join(&name);
    let mut words: Vec<String> = ["fuzz", &args.target, "-o"].map(str::to_owned).to_vec();
    words.push(folder.display().to_string());
    words.extend(["-s".into(), args.seed.to_string()]);
    words.extend(["-V".into(), args.seconds.to_string()]);
    words.extend(["-j".into(), arm.slots.to_string(), "--no-ui".into()]);
    words.extend(setup_flags(&args.setup));
    words.extend(args.options.iter().cloned());
    match arm.how {
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
    let campaigns: Vec<Campaign> = arms.iter().map(|a| campaign(a, &folder, args)).collect();
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
            .and_then(|f| check_flags(&f))
            .map_err(|e| format!("--slots {name}, with the options of fuzz: {e}"))?;
    }
    Ok(())
}

/// The folder can be one, and nothing that an earlier bench measured is written over.
fn is_unused(folder: &Path, campaigns: &[Campaign]) -> Result<(), CliError> {
    if folder.exists() && !folder.is_dir() {
        return Err(CliError::usage(format!(
            "-o {}: it is no folder\n  name a folder with -o",
            folder.display()
        )));
    }
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
    SlotsRow::of(arm.name(), &lines, &stats, cores).map_err(|e| in_file(&path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    pub(super) fn args(words: &str) -> BenchArgs {
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
            .map(|a| campaign(a, Path::new("f"), &args).words.join(" "))
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
                .map(|a| campaign(a, folder, &args))
                .collect();
            match (may_run(&args, &args.slots, &campaigns), refused) {
                (Ok(()), None) => {}
                (Err(e), Some(part)) => assert!(e.contains(part), "{words}: {e}"),
                (got, want) => panic!("{words}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn what_an_earlier_bench_measured_and_what_is_no_folder_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let args = args("warren bench canary --slots 1,4");
        let campaigns: Vec<Campaign> = args
            .slots
            .iter()
            .map(|a| campaign(a, dir.path(), &args))
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
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let e = is_unused(&file, &campaigns).unwrap_err();
        assert_eq!(e.exit, Exit::Usage);
        assert!(e.text.contains("file: it is no folder"), "{}", e.text);
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
}
