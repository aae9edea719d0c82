//! Ending with the process that started this one, where that one asks for it: a comparison's or a bench's campaigns must not outlive it. Asked for in
//! the environment by whoever starts a campaign, honoured by `warren fuzz`.

use super::exit::CliError;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

/// The environment variable: the starting process's id.
pub const DIES_WITH: &str = "WARREN_DIES_WITH";

/// Called first by `warren fuzz`: when a comparison started it, the kernel ends this process with that one.
///
/// # Errors
/// The comparison is gone already.
pub fn dies_with_parent() -> Result<(), CliError> {
    let Some(parent) = std::env::var(DIES_WITH).ok() else {
        return Ok(());
    };
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|e| CliError::setup(format!("tying this process to {DIES_WITH}={parent}: {e}")))?;
    // It may have died before that.
    if getppid().to_string() == parent {
        Ok(())
    } else {
        Err(CliError::ended(format!(
            "{DIES_WITH}={parent} is not the process that started this one: nothing was run"
        )))
    }
}
