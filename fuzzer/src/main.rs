//! The binary `warren`: hidden subcommands first, then the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    warren::cli::main()
}
