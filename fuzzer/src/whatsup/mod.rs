//! `warren whatsup OUT`: what the instances of a campaign do, as afl-whatsup tells it. Reads folders and /proc; writes nothing.
//!
//! Exit 0 whenever it could be told, also when all are dead; 2 when the folder holds no instance that can be read.

pub mod instance;
mod text;

use crate::campaign::stats::unix_now;
use crate::cli::args::WhatsupArgs;
use crate::cli::exit::{CliError, Exit};
use instance::{Instance, instances};
use std::path::Path;

/// Runs the verb.
///
/// # Errors
/// Exit 2: see above.
pub fn run(args: &WhatsupArgs) -> Result<Exit, CliError> {
    let now = unix_now();
    let all = found(&args.out, now)?;
    let broken: Vec<&str> = all
        .iter()
        .filter_map(|i| i.stats.as_ref()?.as_ref().err().map(String::as_str))
        .collect();
    if broken.len() == all.len() {
        return Err(CliError::usage(broken.join("\n")));
    }
    print!("{}", text::text(&all, args.summary, now));
    Ok(Exit::End)
}

/// The instances of a folder; that there are none is the user's to mend.
///
/// # Errors
/// Exit 2, with the folder.
pub fn found(out: &Path, now: u64) -> Result<Vec<Instance>, CliError> {
    let all = instances(out, now).map_err(|e| {
        CliError::usage(format!(
            "reading {}: {e}\n  name the folder given to `fuzz -o` (default: out/TARGET)",
            out.display()
        ))
    })?;
    if all.is_empty() {
        return Err(CliError::usage(format!(
            "{} holds no campaign: no folder in it has a fuzzer_stats or a queue/\n  name the folder given to `fuzz -o` (default: out/TARGET)",
            out.display()
        )));
    }
    Ok(all)
}
