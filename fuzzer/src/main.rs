//! The binary `warren`: hidden subcommands first, then the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: slot init must be single-threaded when it leaves its namespaces.
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(warren_executor::slot::SLOT_INIT) {
        let rest: Vec<String> = args.collect();
        return ExitCode::from(warren_executor::slot::slot_init_main(&rest) as u8);
    }
    warren::cli::main()
}
