//! The command line: parses, dispatches to the verbs, turns errors into one text and an exit code.
//!
//! Called by `main` after the hidden subcommands. Knows no target and no campaign itself.

use crate::cli::args::{Cli, Command, SeedCommand};
use crate::cli::exit::{CliError, Exit};
use crate::text::printable;
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
            eprintln!("{}", told(&e));
            e.exit.into()
        }
    }
}

/// What is printed of an error. It may quote a file that anyone wrote, or its name: to a terminal neither may be a command.
fn told(e: &CliError) -> String {
    printable(&format!("warren: {e}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::SetupArgs;
    use crate::cli::session::load;

    /// The TOML reader quotes the line.
    #[test]
    fn an_error_that_quotes_a_file_reaches_no_terminal_as_a_command() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("odd");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("target.toml"), "[target]\nname = \u{1b}[2J\n").unwrap();
        let args = SetupArgs {
            targets: Some(dir.path().to_owned()),
            ..SetupArgs::default()
        };
        let e = load("odd", &args).map(|t| t.name).unwrap_err();
        assert!(e.text.contains('\u{1b}'), "{:?}", e.text);
        let told = told(&e);
        assert!(
            !told.contains(|c: char| c.is_control() && c != '\n'),
            "{told:?}"
        );
        assert!(told.ends_with("\n  mend that line (docs/target-toml.md)"));
        assert!(
            told.contains("name =  [2J") && told.lines().count() == e.text.lines().count(),
            "{told:?}"
        );
    }
}
