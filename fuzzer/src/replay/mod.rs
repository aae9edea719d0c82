//! `warren replay`: runs fault sequences again and judges each run.
//!
//! [`flow`] is the order of runs, [`report`] the text and the exit code, [`junit`] the report for CI; here the files are read and the
//! cluster is set up. Writes nothing but to the terminal and to the file of --junit.

pub mod flow;
mod junit;
pub mod report;

use crate::campaign::Environment;
use crate::cli::args::ReplayArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::sequence_file::read_sequence;
use crate::cli::session::{Session, failed, load, reproduce_flags, run_options};
use crate::cli::signals::Interrupt;
use crate::known::KnownBugs;
use flow::{Plan, replay};
use junit::Junit;
use warren_executor::run::check_request;
use warren_executor::target::Target;
use warren_executor::{PrefixUse, RunOptions};
use warren_model::{Failure, FaultSequence, Judgement, RunProduct};

/// Runs the verb.
///
/// # Errors
/// Exit 2 for files and sequences that cannot be used, exit 1 for set-up that failed and for faults this machine cannot make.
pub fn run(args: &ReplayArgs) -> Result<Exit, CliError> {
    let sequences = args
        .files
        .iter()
        .map(|f| Ok((f.display().to_string(), read_sequence(f)?)))
        .collect::<Result<Vec<_>, CliError>>()?;
    let target = one_target(&sequences)?;
    let names: Vec<&str> = sequences.iter().map(|(n, _)| n.as_str()).collect();
    let mut junit = args
        .junit
        .as_ref()
        .map(|file| Junit::begin(file, &target, &names, args.times))
        .transpose()?;
    let ended = made(args, &sequences, &target, &mut junit);
    if let (Err(e), Some(junit)) = (&ended, &mut junit) {
        junit.failed(&e.text)?;
    }
    ended
}

/// Sets the target up and makes the runs.
fn made(
    args: &ReplayArgs,
    sequences: &[(String, FaultSequence)],
    target: &str,
    junit: &mut Option<Junit>,
) -> Result<Exit, CliError> {
    let described = load(target, &args.setup)?;
    refuse(sequences, &described)?;
    let known = KnownBugs::of_target(&described).map_err(CliError::usage)?;
    // Before set-up: Maven, too, must be ended when the user asks.
    let interrupt = Interrupt::install()?;
    let each = run_options(&args.each, &described);
    let session = Session::open(described, &args.setup)?;
    if let Some(junit) = junit {
        let flags = reproduce_flags(&args.setup);
        let e = Environment::of(&session.prepared, session.level, &session.exe, &flags);
        junit.environment(&e, args.each.seed);
    }
    let base = RunOptions {
        durable: args.durable,
        dump_classes: session.dump_folder(args.dump_classes.as_deref())?,
        prefix: match args.prefix {
            true => PrefixUse::Make,
            false => PrefixUse::Never,
        },
        stop: interrupt.flag(),
        ..each
    };
    let (runner, judge) = session.runner_for(sequences.iter().map(|(_, s)| s), &base)?;
    let plan = Plan {
        sequences,
        times: args.times,
        limit: base.limit,
    };
    let tally = replay(
        &plan,
        &mut |sequence, limit, retest| {
            let mut options = RunOptions {
                limit,
                ..base.clone()
            };
            if retest {
                // It must show by itself what it shows, and is asked the same question of service.
                options.prefix = PrefixUse::Never;
                options.usual_limit = Some(base.limit);
            }
            let product = runner.run(sequence, &options).map_err(|e| failed(&e))?;
            let judgement = if retest {
                judge.judge_retest(&product)
            } else {
                judge.judge(&product)
            };
            Ok((product, judgement))
        },
        &|| interrupt.asked(),
        &mut |text| print!("{text}"),
        &mut |file, outcome, product, judgement| {
            print!("{}", known_text(&known, product, judgement));
            junit
                .as_mut()
                .map_or(Ok(()), |j| j.ran(file, outcome, product, judgement))
        },
    )?;
    print!("{}", tally.summary());
    Ok(tally.exit())
}

/// The known bugs among a run's failures: they are named, and fail as any other.
fn known_text(known: &KnownBugs, product: &RunProduct, judgement: &Judgement) -> String {
    let of = |f: &Failure| {
        let bug = known.of(f, &product.logs)?;
        Some(format!("  known: {} is {bug}\n", f.signature))
    };
    judgement.failures.iter().filter_map(of).collect()
}

/// The target all files are for.
fn one_target(sequences: &[(String, FaultSequence)]) -> Result<String, CliError> {
    let Some((first, sequence)) = sequences.first() else {
        return Err(CliError::usage("no file to replay"));
    };
    match sequences.iter().find(|(_, s)| s.target != sequence.target) {
        None => Ok(sequence.target.clone()),
        Some((other, s)) => Err(CliError::usage(format!(
            "{first} is for target `{}`, {other} for `{}`\n  replay the files of one target at a time",
            sequence.target, s.target
        ))),
    }
}

/// Refuses what can surely not be run, before a set-up that may take a minute.
///
/// # Errors
/// Exit 2 with file, fault, name and the names there are.
fn refuse(sequences: &[(String, FaultSequence)], target: &Target) -> Result<(), CliError> {
    for (file, sequence) in sequences {
        check_request(target, sequence).map_err(|e| {
            CliError::usage(format!(
                "{file}: {e}\n  mend that [[fault]] of the file; the nodes come from [group] of target.toml, the roles from its dictionary"
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_two_targets_are_refused_with_both_names() {
        let of = |f: &str, t: &str| (f.to_owned(), FaultSequence::empty(t));
        assert_eq!(
            one_target(&[of("a", "x"), of("b", "x")]),
            Ok("x".to_owned())
        );
        let e = one_target(&[of("a", "x"), of("b", "y")]).unwrap_err();
        assert_eq!(e.exit, Exit::Usage);
        assert!(e.text.contains("a is for target `x`, b for `y`"), "{e}");
    }
}
