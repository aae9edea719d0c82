//! The binary `warren`: hidden subcommands first, then the command line.

use std::process::ExitCode;
use warren_executor::slot::{SLOT_INIT, SLOT_LAUNCHER, slot_init_main, slot_launcher_main};

fn main() -> ExitCode {
    // Before anything else: a process with threads can enter no user namespace.
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    if first.as_ref().is_some_and(|a| a == SLOT_LAUNCHER) {
        return ExitCode::from(u8::try_from(slot_launcher_main()).unwrap_or(1));
    }
    if first.as_ref().is_some_and(|a| a == warren::broker::BROKER) {
        return ExitCode::from(u8::try_from(warren::broker::main()).unwrap_or(1));
    }
    if first.is_some_and(|a| a == SLOT_INIT) {
        let rest: Vec<String> = args.map(|a| a.to_string_lossy().into_owned()).collect();
        return ExitCode::from(u8::try_from(slot_init_main(&rest)).unwrap_or(1));
    }
    warren::verbs::main()
}
