//! The command line: parses, dispatches to the verbs, turns errors into one text and an exit code.
//!
//! Called by `main` after the hidden subcommands. Knows no target and no campaign itself.

use crate::cli::args::{Cli, Command, SeedCommand};
use crate::cli::exit::{CliError, Exit};
use crate::{
    bench, cmin, compare, coverage, doctor, fuzz_cmd, jdk_cmd, plot, replay, report, seeds,
    targets_cmd, tmin, whatsup,
};
use clap::Parser;
use std::process::ExitCode;

/// Parses the process's arguments and does what they ask.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // --help and --version come this way too, and are no error.
            let exit = if e.use_stderr() {
                Exit::Usage
            } else {
                Exit::End
            };
            let _ = e.print();
            return exit.into();
        }
    };
    match dispatch(&cli.command) {
        // What a script reads from a full disk is not what the verb had to say.
        Ok(Exit::End) if crate::say::lost() => Exit::SetupFailed.into(),
        Ok(exit) => exit.into(),
        Err(e) => {
            eprintln!("warren: {e}");
            e.exit.into()
        }
    }
}

fn dispatch(command: &Command) -> Result<Exit, CliError> {
    match command {
        Command::Fuzz(args) => fuzz_cmd::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Seed(args) => match &args.command {
            SeedCommand::Check(args) => seeds::run(args),
        },
        Command::Tmin(args) => tmin::run(args),
        Command::Cmin(args) => cmin::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Targets(args) => targets_cmd::run(args),
        Command::Jdk(args) => jdk_cmd::run(args),
        Command::Report(args) => report::run(args),
        Command::Whatsup(args) => whatsup::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Coverage(args) => coverage::run(args),
    }
}
