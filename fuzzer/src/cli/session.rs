//! From a target's name and the set-up flags to a runner: what `fuzz`, `replay`, `seed check`, `tmin` and `bench` have in common.
//!
//! Reads the description, sets the target up, chooses the isolation level. Says on stderr what takes long. Makes no run of a sequence.
//! A wish to end (Ctrl-C, SIGTERM, SIGHUP) that comes meanwhile is exit 0: install [`super::signals`] before [`Session::open`].

use crate::cli::args::{RunArgs, SetupArgs, UseSnapshots};
use crate::cli::exit::CliError;
use crate::cli::program::OwnProgram;
use crate::search::shapes;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use warren_executor::prepare::{PrepareOptions, Prepared};
use warren_executor::run::{Runner, RunnerConfig, learn_background};
use warren_executor::setup::criu::{self, Criu};
use warren_executor::setup::{SetupError, cache, stopped};
use warren_executor::slot::{Level, best_level, detect_levels, sweep_level3, try_snapshot};
use warren_executor::target::{Target, TargetError, find_target, load_target};
use warren_executor::{RunError, RunOptions};
use warren_feedback::Judge;
use warren_model::{FaultSequence, Shape, StartState};

/// What is said when set-up was ended before the first run.
const ENDED: &str = "ended in set-up, as asked: nothing was run, nothing is kept";

/// Limit of one run where no median is known: `-t`, else a minute, or five times what the target may take to serve again: a failing run is asked
/// for that with nodes dead, healed and started again, and each time what is looked at has patience of its own. What the fixed steps may take
/// after the last fault comes on top.
fn run_limit(each: &RunArgs, target: &Target) -> Duration {
    let least = 60_000.max(5 * clock(target, "serve_ms")) + clock(target, "steps_ms");
    Duration::from_millis(each.limit_ms.unwrap_or(least))
}

/// How `replay`, `seed check` and `tmin` make each run: its seed, its limit, and patience for a fault that comes when the target has noticed a death
/// by its sessions.
#[must_use]
pub fn run_options(each: &RunArgs, target: &Target) -> RunOptions {
    let usual = RunOptions::default();
    let noticed = Duration::from_millis(clock(target, "session_ms")) + usual.idle;
    RunOptions {
        seed: each.seed,
        limit: run_limit(each, target),
        fault_wait: usual.fault_wait.max(noticed),
        ..usual
    }
}

/// A time of the target's clock in ms; 0 where it has none of that name.
#[must_use]
pub fn clock(target: &Target, name: &str) -> u64 {
    let ms = target.clock.get(name).copied().unwrap_or(0);
    u64::try_from(ms).unwrap_or(0)
}

/// A target that is set up, and where its runs will live.
pub struct Session {
    pub prepared: Prepared,
    pub level: Level,
    /// This program as it is called, for the commands that are told.
    pub exe: PathBuf,
    /// By which name processes of it are started.
    pub program: OwnProgram,
    snapshot: UseSnapshots,
    parked: bool,
}

impl Session {
    /// Fetches, compiles what [`load`] has read; sweeps what a killed Warren left on level 3.
    ///
    /// # Errors
    /// Exit 1 for set-up that failed.
    pub fn open(target: Target, args: &SetupArgs) -> Result<Self, CliError> {
        Self::open_with(target, args, false)
    }

    /// The same; with `exact`, the target's classes have line and branch probes (docs/coverage.md).
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_with(target: Target, args: &SetupArgs, exact: bool) -> Result<Self, CliError> {
        let exe = std::env::current_exe()
            .map_err(|e| CliError::setup(format!("finding Warren's own program: {e}")))?;
        for problem in sweep_level3().problems {
            eprintln!("warren: sweeping what an earlier Warren left: {problem}");
        }
        let level = level(&exe, args.level)?;
        eprintln!(
            "warren: setting up {} {} ({} nodes), isolation level {level}",
            target.name,
            target.version,
            target.nodes().len()
        );
        let options = PrepareOptions {
            jdk: args.java.clone(),
            exact,
            say: Some(|line| eprintln!("warren: {line}")),
            ..PrepareOptions::default()
        };
        // Before anything is fetched into it.
        let cache = cache::dir().map_err(CliError::setup)?;
        let elsewhere = "set WARREN_CACHE to a folder elsewhere";
        is_seen(level, "the cache", &cache, elsewhere)?;
        let prepared = Prepared::new(target, &options).map_err(|e| {
            if stopped() {
                // What the tool said when it was ended is no news.
                CliError::ended(ENDED)
            } else {
                CliError::setup(e)
            }
        })?;
        for note in prepared.notes() {
            eprintln!("warren: {note}");
        }
        let jdk = prepared.jdk().java.as_path();
        is_seen(level, "the JDK", jdk, "name another one with --java")?;
        let program = OwnProgram::new(&exe, prepared.cache());
        Ok(Session {
            prepared,
            level,
            exe,
            program,
            snapshot: args.snapshot,
            parked: !args.no_parked,
        })
    }

    /// The folder of `--dump-classes` as the processes of a slot see it.
    ///
    /// # Errors
    /// Exit 1: they do not.
    pub fn dump_folder(&self, asked: Option<&Path>) -> Result<Option<PathBuf>, CliError> {
        let Some(asked) = asked else {
            return Ok(None);
        };
        // They have working directories of their own.
        let folder = std::path::absolute(asked)
            .map_err(|e| CliError::setup(format!("finding the folder {}: {e}", asked.display())))?;
        is_seen(
            self.level,
            "--dump-classes",
            &folder,
            "name a folder elsewhere",
        )?;
        Ok(Some(folder))
    }

    /// Lets runs of this runner start from snapshots, where that is asked for and can be. What stands in the way is said; with
    /// `--snapshot require` it is an error. The first time CRIU may have to be fetched.
    ///
    /// # Errors
    /// Exit 1.
    pub fn use_snapshots(&self, runner: &mut Runner) -> Result<(), CliError> {
        let found = match (
            self.snapshot,
            self.level,
            self.prepared.jdk().not_restorable(),
        ) {
            (UseSnapshots::Off, ..) => return Ok(()),
            (_, Level::Root, Some(why)) => Err(why),
            (_, Level::Root, None) => {
                let say = |line: &str| eprintln!("warren: {line}");
                self.criu(&say).map_err(|e| e.to_string())
            }
            (_, level, _) => Err(format!(
                "snapshots need isolation level 1 (root), this is {level}"
            )),
        };
        match found {
            Ok(criu) => {
                let config = runner.config_mut();
                config.criu = Some(criu);
                config.parked = self.parked;
            }
            Err(_) if stopped() => return Err(CliError::ended(ENDED)),
            Err(why) if self.snapshot == UseSnapshots::Require => {
                return Err(CliError::setup(format!("--snapshot require: {why}")));
            }
            Err(why) => eprintln!("warren: every run starts cold: {why}"),
        }
        Ok(())
    }

    /// The system's CRIU if it works, else our own.
    fn criu(&self, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
        let cache = self.prepared.cache();
        let found = criu::find_or_fetch(cache, say)?;
        if found.private {
            return Ok(found);
        }
        match try_snapshot(
            self.program.path(),
            &found.argv,
            Some(&self.prepared.jdk().home),
        ) {
            Ok(_) => Ok(found),
            Err(why) => {
                say(&format!(
                    "{} does not work here: {why}",
                    found.argv.concat()
                ));
                criu::own_or_fetch(cache, say)
            }
        }
    }

    /// All that runs of these sequences need, whoever asks for them: a runner that knows the target's background stacks and starts
    /// from snapshots if a sequence does, and the judge. Watches an idle cluster for some seconds when the target is new.
    ///
    /// # Errors
    /// Exit 1; exit 0 when `options.stop` was set meanwhile.
    pub fn runner_for<'s>(
        &self,
        sequences: impl IntoIterator<Item = &'s FaultSequence> + Clone,
        options: &RunOptions,
    ) -> Result<(Runner, Judge), CliError> {
        let most = sequences.clone().into_iter().map(|s| s.faults.len()).max();
        let mut runner = self.runner(most.unwrap_or(0).max(1))?;
        let warm = |s: &FaultSequence| s.start != StartState::Cold;
        if sequences.into_iter().any(warm) {
            self.use_snapshots(&mut runner)?;
            runner.config_mut().only_warm = self.snapshot == UseSnapshots::Require;
        }
        let judge = Judge::new(runner.rules().clone()).map_err(CliError::usage)?;
        let background = learn_background(&runner, options).map_err(|e| {
            match options.stop.load(Ordering::Relaxed) {
                true => CliError::ended(ENDED),
                false => failed(&e),
            }
        })?;
        runner.config_mut().background = background;
        Ok((runner, judge))
    }

    /// A runner for sequences of at most so many faults.
    ///
    /// # Errors
    /// Exit 1.
    pub fn runner(&self, max_faults: usize) -> Result<Runner, CliError> {
        Runner::new(
            self.prepared.clone(),
            RunnerConfig {
                max_faults,
                ..RunnerConfig::new(self.program.path(), self.level)
            },
        )
        .map_err(CliError::setup)
    }
}

/// Refuses a path that lies below what a slot has of its own.
fn is_seen(level: Level, what: &str, path: &Path, remedy: &str) -> Result<(), CliError> {
    match level.hides(path) {
        None => Ok(()),
        Some(own) => Err(CliError::setup(format!(
            "{what} is {}, and slots of isolation level {level} have a {own} of their own, in which nothing of it is seen\n  {remedy}, or take \
             --level 3",
            path.display()
        ))),
    }
}

/// The description with what the flags change. Read once: a dictionary may be a pipe.
///
/// # Errors
/// Exit 2, with file, key and remedy.
pub fn load(name: &str, args: &SetupArgs) -> Result<Target, CliError> {
    let folder = find_target(name, args.targets.as_deref()).map_err(CliError::usage)?;
    let more: Vec<PathBuf> = args.dictionary.iter().cloned().collect();
    for file in &more {
        readable(file).map_err(|why| no_dictionary(file, &why))?;
    }
    let loaded = load_target(&folder, args.version.as_deref(), args.paper, &more);
    let mut target = loaded.map_err(|e| match e {
        TargetError::Read { file, why } if more.contains(&file) => {
            no_dictionary(&file, &format!("it cannot be read: {why}"))
        }
        e => CliError::usage(e),
    })?;
    has_shapes_of_its_own(&target.dictionary.shapes)?;
    if !args.include.is_empty() {
        target.include.clone_from(&args.include);
    }
    target.exclude.extend(args.exclude.iter().cloned());
    Ok(target)
}

/// A campaign knows shapes by their names, those that Warren ships among them.
fn has_shapes_of_its_own(dictionary: &[Shape]) -> Result<(), CliError> {
    let shipped = shapes::built_in().map_err(CliError::setup)?;
    let same = |s: &&Shape| shipped.iter().any(|b| b.name == s.name);
    match dictionary.iter().find(same) {
        None => Ok(()),
        Some(s) => Err(CliError::usage(format!(
            "shape `{}` of a dictionary: Warren ships one of that name\n  give it a name of its own",
            s.name
        ))),
    }
}

fn no_dictionary(file: &Path, why: &str) -> CliError {
    CliError::usage(format!(
        "-x {}: {why}\n  name a dictionary: a TOML file as those in dictionaries/ (docs/target-toml.md, Dictionaries), or leave -x out",
        file.display()
    ))
}

/// Only opened: a pipe can be read once.
fn readable(file: &Path) -> Result<(), String> {
    std::fs::File::open(file).map_err(|e| format!("it cannot be read: {e}"))?;
    if file.is_dir() {
        return Err("it is a folder".into());
    }
    Ok(())
}

/// A request that cannot be run is the user's to mend, everything else is set-up.
#[must_use]
pub fn failed(e: &RunError) -> CliError {
    match e {
        RunError::Illegal { .. } | RunError::WrongTarget { .. } => CliError::usage(e),
        _ => CliError::setup(e),
    }
}

/// The level asked for, if it works; else the best one that does.
fn level(exe: &Path, asked: Option<u8>) -> Result<Level, CliError> {
    let Some(level) = asked.and_then(Level::from_number) else {
        return best_level(exe).map_err(CliError::setup);
    };
    match detect_levels(exe).into_iter().find(|r| r.level == level) {
        Some(r) if r.ok => Ok(level),
        Some(r) => Err(CliError::setup(format!(
            "isolation level {level} does not work here: {}\n  leave --level out to take the best one that works, or see `warren doctor`",
            r.why
        ))),
        None => Err(CliError::setup(format!(
            "isolation level {level} is not known"
        ))),
    }
}

/// Flags that a reproduce command must repeat so that it runs the same target the same way.
#[must_use]
pub fn reproduce_flags(args: &SetupArgs) -> Vec<String> {
    let mut flags = Vec::new();
    let mut put = |flag: &str, value: Option<String>| {
        if let Some(v) = value {
            flags.push(flag.to_owned());
            flags.push(v);
        }
    };
    let path = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string());
    put("--version", args.version.clone());
    put("--java", path(&args.java));
    put("--targets", path(&args.targets));
    put("--level", args.level.map(|l| l.to_string()));
    for glob in &args.include {
        put("--include", Some(glob.clone()));
    }
    for glob in &args.exclude {
        put("--exclude", Some(glob.clone()));
    }
    put("-x", path(&args.dictionary));
    if args.paper {
        flags.push("--paper".into());
    }
    if args.snapshot == UseSnapshots::Off {
        flags.extend(["--snapshot".into(), "off".into()]);
    }
    if args.no_parked {
        flags.push("--no-parked".into());
    }
    flags
}

/// The same for a campaign that `compare` or `bench` starts: it is to fail where the user wants snapshots and there can be none.
#[must_use]
pub fn setup_flags(args: &SetupArgs) -> Vec<String> {
    let mut flags = reproduce_flags(args);
    if args.snapshot == UseSnapshots::Require {
        flags.extend(["--snapshot".into(), "require".into()]);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_a_name_of_its_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let args = SetupArgs {
            targets: Some(root.join("targets")),
            dictionary: Some(root.join("dictionaries/shapes.toml")),
            ..SetupArgs::default()
        };
        let e = load("canary", &args).map(|t| t.name).unwrap_err();
        assert_eq!(e.exit, crate::cli::exit::Exit::Usage);
        assert!(
            e.text.contains("`rolling-restart`") && e.text.contains("a name of its own"),
            "{e}"
        );
    }

    #[test]
    fn a_dictionary_that_is_none_is_named_with_its_option() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("nonexist");
        let binary = dir.path().join("bin.dat");
        std::fs::write(&binary, b"\x7fELF\xfe").unwrap();
        for (file, part) in [
            (missing.as_path(), "it cannot be read: No such file"),
            (dir.path(), "it is a folder"),
            (
                binary.as_path(),
                "it cannot be read: stream did not contain valid UTF-8",
            ),
        ] {
            let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
            let args = SetupArgs {
                targets: Some(targets),
                dictionary: Some(file.to_owned()),
                ..SetupArgs::default()
            };
            let text = load("canary", &args).map(|t| t.name).unwrap_err().text;
            let named = format!("-x {}: {part}", file.display());
            assert!(
                text.contains(&named) && text.contains("docs/target-toml.md"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_reproduce_command_repeats_what_changes_the_target() {
        assert!(reproduce_flags(&SetupArgs::default()).is_empty());
        let args = SetupArgs {
            version: Some("3.5.8".into()),
            paper: true,
            level: Some(2),
            dictionary: Some("my.dict".into()),
            exclude: vec!["a.**".into()],
            ..SetupArgs::default()
        };
        assert_eq!(
            reproduce_flags(&args).join(" "),
            "--version 3.5.8 --level 2 --exclude a.** -x my.dict --paper"
        );
    }
}
