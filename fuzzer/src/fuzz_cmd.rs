//! `warren fuzz`: set-up, screen, campaign, and the last words. The campaign itself is [`crate::fuzz`].

use crate::broker::{self, Broker};
use crate::campaign::{Folder, FuzzError, InstanceKind, WayOut, state};
use crate::cli::args::{FuzzArgs, UseSnapshots};
use crate::cli::exit::{CliError, Exit};
use crate::cli::parent::dies_with_parent;
use crate::cli::session::{self, Session, reproduce_flags};
use crate::cli::signals::Interrupt;
use crate::fuzz::{self, EndReason, FuzzEnd, FuzzOptions, Limits, Starts, Tested, is_of_tested};
use crate::known::KnownBugs;
use crate::search::{Favour, Parts, StrategyKind, shapes};
use crate::seeds::{check_seeds, read_seeds};
use crate::ui::Ui;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_executor::RunOptions;
use warren_executor::target::Target;

/// Start states of a campaign beside the cold one: other leaders, other random generators.
pub const SNAPSHOTS: u8 = 3;
/// Of the picks, those that start cold where snapshots work.
pub const COLD_SHARE: f64 = 0.15;
/// Children of one kept run that are picked in a row, unless `--in-a-row` says otherwise.
pub const IN_A_ROW: u32 = 4;

/// Of trouble with the campaign's folder.
const WAY_OUT: WayOut<'static> = WayOut {
    place: "choose another folder with -o",
    content: "begin anew with another -o; what was found stays readable, and -i takes its queue/ and crashes/ as seeds",
};

/// Runs the verb.
///
/// # Errors
/// Exit 2 for a folder that holds a campaign and for a target that cannot be used; exit 1 when the folder cannot be written to,
/// set-up or the cluster fails.
pub fn run(args: &FuzzArgs) -> Result<Exit, CliError> {
    dies_with_parent()?;
    // Before a set-up that may take a minute.
    let (mut options, target) = asked(args)?;
    let root = options.out.join(&options.instance);
    options.resume = resumes(args.input.as_deref(), autoresume(), state::exists(&root));
    if options.resume {
        on_jdk_there(&mut options, &target, args);
    }
    let begins = fuzz::check_main(&options).and_then(|()| match options.resume {
        true => fuzz::check_resume(&options),
        false => Folder::check(&options.out, &options.instance),
    });
    begins.map_err(|e| WAY_OUT.of(e))?;
    if !options.resume
        && let Some(path) = &args.input
    {
        options.seeds = read_seeds(path)?;
        check_seeds(&options.seeds, &target)?;
    }
    let remote = args.remote_broker.as_deref();
    let broker = broker::asked(&options, args.broker_port, args.broker_bind, remote)?;
    let resume = options.resume;
    // Before set-up: Maven, too, must be ended when the user asks.
    let interrupt = Interrupt::install()?;
    let began = Instant::now();
    let session = Session::open_with(target, &args.setup, args.coverage_report)?;
    options.dump_classes = session.dump_folder(options.dump_classes.as_deref())?;
    options.environment = crate::campaign::Environment::of(
        &session.prepared,
        session.level,
        &session.exe,
        &options.reproduce_flags,
    );
    options.tested.jdk = Some(session.prepared.jdk().full_version.clone());
    let mut runner = session.runner(options.max_faults)?;
    if options.starts.snapshots > 0 {
        session.use_snapshots(&mut runner)?;
    }
    if runner.config().criu.is_none() {
        options.starts = Starts::COLD;
    }
    let setup = began.elapsed();
    eprintln!("warren: set up in {:.1} s", setup.as_secs_f64());
    options.stop = interrupt.flag();
    let ui = Ui::start(options.snapshot.clone(), interrupt, args.no_ui);
    let snapshot = options.snapshot.clone();
    let broker = broker.map(|config| {
        let snapshot = snapshot.clone();
        let say = move |line| snapshot.with(|s| s.lines.push(line));
        Broker::start(session.program.path().to_owned(), config, say)
    });
    let ended = fuzz::run(options, runner);
    // The others are told that it ended before the last lines are printed.
    drop(broker);
    snapshot.with(|s| s.ended = true);
    drop(ui);
    let kept = resume || is_worth_keeping(&root, &ended);
    if !kept {
        Folder::give_back(&root);
    }
    let end = ended.map_err(|e| WAY_OUT.of(e))?;
    if kept {
        print!("{}", last_words(&end, setup));
    } else {
        println!("ended before the first sequence was tested: nothing is kept");
    }
    Ok(exit(end.reason))
}

/// Whether the folder of a campaign that was begun holds more than what the next one makes again.
fn is_worth_keeping(root: &Path, ended: &Result<FuzzEnd, FuzzError>) -> bool {
    match ended {
        _ if Folder::tells_failures(root) => true,
        Ok(end) => end.reason != EndReason::Stopped || end.sequences > 0,
        // A folder that another campaign has is not ours to clear.
        Err(FuzzError::HoldsCampaign { .. } | FuzzError::Usage(_)) => true,
        // On a disk that has room again learning goes on where it was cut off.
        Err(FuzzError::Io { .. } | FuzzError::Disk { .. }) => state::exists(root),
        Err(_) => root.join("fuzzer_stats").exists(),
    }
}

/// Why the campaign in the folder of this command line is not the one that it asks for: what differs, or that its state is damaged. None: it
/// is, and can be gone on with.
///
/// # Errors
/// Another content of the target or another JDK, which may be put back: no work is taken away for it. Whatever else keeps it from beginning: options, the target and its files, the disk. It says nothing of what was saved.
pub fn differs_from_folder(args: &FuzzArgs) -> Result<Option<String>, CliError> {
    let (mut options, target) = asked(args)?;
    on_jdk_there(&mut options, &target, args);
    match fuzz::differences(&options) {
        Ok(differences) if !differences.is_empty() && differences.0.iter().all(is_of_tested) => {
            Err(CliError::setup(format!(
                "what the campaign in {} tests was changed since it was cut off:\n  {}\n  put it back (a JDK by JAVA_HOME) and run the same command again, or remove that folder to begin it anew",
                options.out.display(),
                differences.in_lines()
            )))
        }
        Ok(differences) => Ok((!differences.is_empty()).then(|| differences.in_a_line())),
        Err(e @ FuzzError::Format { .. }) => Ok(Some(e.to_string())),
        Err(e) => Err(WAY_OUT.of(e)),
    }
}

/// Notes the JDK before set-up, which may take a minute, so that a campaign of another one is refused at once.
fn on_jdk_there(options: &mut FuzzOptions, target: &Target, args: &FuzzArgs) {
    let tested = std::mem::take(&mut options.tested);
    options.tested = tested.with_jdk_there(target, args.setup.java.as_deref());
}

/// What a command line asks for, with all that makes a campaign this one but its JDK: known before set-up, and enough to say whether one may be resumed.
fn asked(args: &FuzzArgs) -> Result<(FuzzOptions, Target), CliError> {
    let mut options = options(args);
    check_flags(args).map_err(CliError::usage)?;
    let target = session::load(&args.target, &args.setup)?;
    identify(&mut options, &target);
    options.tested = Tested::of(&target).map_err(CliError::usage)?;
    let counted = if args.coverage_report { "yes" } else { "no" };
    options
        .identity
        .push((fuzz::COUNTED.into(), counted.into()));
    options.known = KnownBugs::of_target(&target).map_err(CliError::usage)?;
    options.shapes = shapes::built_in().map_err(CliError::setup)?;
    options.shapes.extend_from_slice(&target.dictionary.shapes);
    options.favour = Favour::new(&target.dictionary.favour);
    Ok((options, target))
}

/// The campaign's options from the command line.
fn options(args: &FuzzArgs) -> FuzzOptions {
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("out").join(&args.target));
    let mut o = FuzzOptions::new(&args.target, out);
    let named = [
        (&args.main, InstanceKind::Main),
        (&args.secondary, InstanceKind::Secondary),
    ];
    for (name, kind) in named {
        if let Some(name) = name {
            o.instance.clone_from(name);
            o.kind = kind;
        }
    }
    o.strategy = args.strategy;
    o.without = args.without;
    (o.swarm, o.symmetry) = (args.swarm, args.symmetry);
    o.faults = args.faults;
    if args.setup.snapshot != UseSnapshots::Off && all_cold(args).is_none() {
        o.starts = Starts {
            snapshots: SNAPSHOTS,
            cold_share: args.cold_share.unwrap_or(COLD_SHARE),
            in_a_row: args.in_a_row.unwrap_or(IN_A_ROW),
            required: args.setup.snapshot == UseSnapshots::Require,
        };
    }
    o.slots = args.slots;
    o.max_faults = usize::try_from(args.max_faults).unwrap_or(usize::MAX);
    o.seed = args.seed;
    o.run_limit = args.limit_ms.map(Duration::from_millis);
    o.max_time = args.seconds.map(Duration::from_secs);
    o.max_sequences = args.runs;
    o.max_cpu = args.cpu_seconds.map(Duration::from_secs);
    o.exit_on_bug = args.exit_on_bug;
    o.minimize = args.minimize;
    o.command_line = std::env::args().collect();
    o.reproduce_flags = reproduce_flags(&args.setup);
    o.dump_classes.clone_from(&args.dump_classes);
    o
}

/// The flag by which every run of a campaign starts cold, if one is given.
fn all_cold(args: &FuzzArgs) -> Option<&'static str> {
    [
        // The paper starts every cluster anew.
        ("--paper", args.setup.paper),
        // The classes of a start are seen at a start.
        ("--dump-classes", args.dump_classes.is_some()),
        ("--cold-share 1", args.cold_share.is_some_and(|s| s >= 1.0)),
    ]
    .into_iter()
    .find_map(|(flag, given)| given.then_some(flag))
}

/// Whether its flags agree: on whose options they are, and on where runs start.
///
/// # Errors
/// For people.
pub fn check_flags(args: &FuzzArgs) -> Result<(), String> {
    for (flag, given, does) in [
        ("--without", args.without.is_some(), "leaves out parts of"),
        ("--swarm", args.swarm, "draws options of"),
        ("--symmetry", args.symmetry, "is a part of"),
    ] {
        if given && args.strategy != StrategyKind::Warren {
            return Err(format!(
                "{flag} {does} --strategy warren, and the strategy is {}: ask for warren, or leave {flag} out",
                args.strategy
            ));
        }
    }
    let off = (args.setup.snapshot == UseSnapshots::Off).then_some("--snapshot off");
    if let Some(cold) = off.or(all_cold(args)) {
        for (flag, given) in [
            ("--cold-share", args.cold_share.is_some_and(|s| s < 1.0)),
            ("--in-a-row", args.in_a_row.is_some()),
        ] {
            if given {
                return Err(format!(
                    "{flag} is of campaigns with runs from snapshots, and with {cold} every run starts cold: leave one of them out"
                ));
            }
        }
    }
    if args.swarm && args.cold_share.is_some_and(|s| s < 1.0) {
        return Err(
            "--swarm draws how many runs start cold: leave --cold-share or --swarm out".into(),
        );
    }
    match all_cold(args) {
        Some(flag) if args.setup.snapshot == UseSnapshots::Require => Err(format!(
            "--snapshot require wants runs from snapshots, and with {flag} every run starts cold: leave one of them out"
        )),
        _ => Ok(()),
    }
}

/// The parts of the strategy that this command line switches on.
#[must_use]
pub fn parts_of(args: &FuzzArgs) -> Parts {
    options(args).parts()
}

/// Whether a campaign is to be resumed: `-i -` wants it, AFL_AUTORESUME's cousin takes what is there (and then needs no seeds).
fn resumes(input: Option<&Path>, auto: bool, there: bool) -> bool {
    input == Some(Path::new("-")) || (auto && there)
}

/// WARREN_AUTORESUME is set, to something else than 0.
fn autoresume() -> bool {
    std::env::var_os("WARREN_AUTORESUME").is_some_and(|v| !v.is_empty() && v != "0")
}

/// What makes this campaign this one, as far as it is known before set-up.
fn identify(options: &mut FuzzOptions, target: &Target) {
    // A base may give the name: files and records carry the one the description says.
    options.target.clone_from(&target.name);
    options.least_limits = least_limits(target);
    options.identity = identity_of(target);
}

/// What of a target makes a campaign this one, beside its name.
#[must_use]
pub fn identity_of(target: &Target) -> Vec<(String, String)> {
    let globs = |globs: &[String]| match globs {
        [] => "none".to_owned(),
        some => some.join(" "),
    };
    [
        ("target version", target.version.clone()),
        ("agent", warren_executor::agent_hash()),
        ("--paper", if target.paper { "yes" } else { "no" }.into()),
        ("classes included", globs(&target.include)),
        ("classes excluded", globs(&target.exclude)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// AFL's habit: an end is an end, also with findings; `--exit-on-bug` tells them by the code.
fn exit(reason: EndReason) -> Exit {
    match reason {
        EndReason::Bug => Exit::Bug,
        EndReason::Hang => Exit::Hang,
        EndReason::Stopped
        | EndReason::TimeLimit
        | EndReason::SequenceLimit
        | EndReason::CpuLimit
        | EndReason::Exhausted => Exit::End,
    }
}

/// What is printed when all is over, with set-up and learning apart from fuzzing.
fn last_words(end: &FuzzEnd, setup: Duration) -> String {
    let why = match end.reason {
        EndReason::Stopped => "ended by the user",
        EndReason::TimeLimit => "ended at -V",
        EndReason::SequenceLimit => "ended at -E",
        EndReason::CpuLimit => "ended at --cpu-seconds",
        EndReason::Exhausted => "ended: every child was tried",
        EndReason::Bug => "ended at a finding (--exit-on-bug)",
        EndReason::Hang => "ended at a hang (--exit-on-bug)",
    };
    format!(
        "{why}: {} sequences tested, {} runs, {:.1} s fuzzing after {:.1} s set-up and {:.1} s learning\n\
         findings {}, hangs {}; everything is in {}\n",
        end.sequences,
        end.execs,
        end.fuzz_time.as_secs_f64(),
        setup.as_secs_f64(),
        end.learning_time.as_secs_f64(),
        counted(end.findings, end.known),
        counted(end.hangs, end.known_hangs),
        end.folder.display()
    )
}

/// How many, and how many of them are known bugs.
fn counted(all: u64, known: u64) -> String {
    match known {
        0 => all.to_string(),
        n => format!("{all} ({n} known)"),
    }
}

/// What a run has left when a start was waited for in vain.
const AFTER_START: Duration = Duration::from_secs(30);

/// What a campaign's limits must be at least. A session as short as the usual wait for a fault needs no more patience: what ends it is seen by then.
fn least_limits(target: &Target) -> Limits {
    let usual = RunOptions::default();
    let session = Duration::from_millis(session::clock(target, "session_ms"));
    // A start that never ends is seen as such only if the run has time left by then.
    let started = target.started.as_ref();
    let start = started.map_or(Duration::ZERO, |_| target.ready.timeout + AFTER_START);
    Limits {
        run: start.max(Duration::from_millis(
            2 * session::clock(target, "serve_ms"),
        )) + Duration::from_millis(session::clock(target, "steps_ms")),
        fault_wait: match session > usual.fault_wait {
            true => session + usual.idle,
            false => Duration::ZERO,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn options_follow_the_command_line() {
        let parse = |args: &[&str]| {
            let Command::Fuzz(f) = Cli::try_parse_from(args).unwrap().command else {
                panic!("not fuzz")
            };
            options(&f)
        };
        let o = parse(&["warren", "fuzz", "t"]);
        assert_eq!(o.out, PathBuf::from("out/t"));
        assert_eq!((o.max_faults, o.seed, o.max_time), (10, None, None));
        let o = parse(&[
            "warren",
            "fuzz",
            "t",
            "-V",
            "9",
            "-t",
            "30000",
            "--paper",
            "--exit-on-bug",
        ]);
        assert_eq!(o.max_time, Some(Duration::from_secs(9)));
        assert_eq!(o.run_limit, Some(Duration::from_secs(30)));
        assert_eq!(o.reproduce_flags, ["--paper"]);
        assert!(o.exit_on_bug);
        assert_eq!(
            (o.instance.as_str(), o.kind),
            ("default", InstanceKind::Alone)
        );
        let o = parse(&["warren", "fuzz", "t", "-S", "b2"]);
        assert_eq!(
            (o.instance.as_str(), o.kind),
            ("b2", InstanceKind::Secondary)
        );
        let o = parse(&["warren", "fuzz", "t", "-M", "a"]);
        assert_eq!((o.instance.as_str(), o.kind), ("a", InstanceKind::Main));
    }

    #[test]
    fn when_a_campaign_is_resumed() {
        let (dash, dir) = (Some(Path::new("-")), Some(Path::new("seeds")));
        for (input, auto, there, want) in [
            (None, false, true, false),
            (None, true, false, false),
            (None, true, true, true),
            (dash, false, false, true),
            (dir, true, true, true),
            (dir, true, false, false),
            (dir, false, true, false),
        ] {
            assert_eq!(
                resumes(input, auto, there),
                want,
                "{input:?} {auto} {there}"
            );
        }
    }

    /// How it ended -> whether its folder stays: empty, with a state, with figures beside it.
    #[test]
    fn what_was_learned_outlives_a_full_disk() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let end = |reason, sequences| {
            Ok(FuzzEnd {
                reason,
                sequences,
                execs: 3,
                findings: 0,
                known: 0,
                hangs: 0,
                known_hangs: 0,
                folder: PathBuf::new(),
                fuzz_time: Duration::ZERO,
                learning_time: Duration::ZERO,
            })
        };
        let io = FuzzError::Io {
            doing: "writing",
            path: "x".into(),
            source: full(),
        };
        let disk = FuzzError::Disk {
            doing: "writing runs/000001.run".into(),
            source: full(),
        };
        let table = [
            (Err(io), [false, true, true]),
            (Err(disk), [false, true, true]),
            (Err(FuzzError::Usage(String::new())), [true, true, true]),
            (
                Err(FuzzError::Learning(String::new())),
                [false, false, true],
            ),
            (Err(FuzzError::Cluster(String::new())), [false, false, true]),
            (end(EndReason::Stopped, 0), [false, false, false]),
            (end(EndReason::Stopped, 1), [true, true, true]),
            (end(EndReason::TimeLimit, 0), [true, true, true]),
        ];
        for (ended, want) in table {
            let dir = tempfile::tempdir().unwrap();
            let keeps = || is_worth_keeping(dir.path(), &ended);
            let empty = keeps();
            std::fs::create_dir(dir.path().join("state")).unwrap();
            std::fs::write(dir.path().join("state/checkpoint"), "x").unwrap();
            let with_state = keeps();
            std::fs::write(dir.path().join("fuzzer_stats"), "x").unwrap();
            assert_eq!([empty, with_state, keeps()], want, "{ended:?}");
        }
    }

    #[test]
    fn the_last_words_tell_set_up_learning_and_fuzzing_apart() {
        let end = FuzzEnd {
            reason: EndReason::SequenceLimit,
            sequences: 5,
            execs: 11,
            findings: 1,
            known: 0,
            hangs: 2,
            known_hangs: 1,
            folder: "out/t/default".into(),
            fuzz_time: Duration::from_secs(20),
            learning_time: Duration::from_secs(9),
        };
        let text = last_words(&end, Duration::from_millis(1500));
        assert!(
            text.contains("20.0 s fuzzing after 1.5 s set-up and 9.0 s learning"),
            "{text}"
        );
        assert!(text.contains("findings 1, hangs 2 (1 known);"), "{text}");
    }

    #[test]
    fn only_exit_on_bug_changes_the_code() {
        let table = [
            (EndReason::Stopped, Exit::End),
            (EndReason::TimeLimit, Exit::End),
            (EndReason::SequenceLimit, Exit::End),
            (EndReason::CpuLimit, Exit::End),
            (EndReason::Exhausted, Exit::End),
            (EndReason::Bug, Exit::Bug),
            (EndReason::Hang, Exit::Hang),
        ];
        for (reason, want) in table {
            assert_eq!(exit(reason), want);
        }
    }
}
