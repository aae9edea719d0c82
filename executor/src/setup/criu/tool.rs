//! Runs apt's and dpkg's programs for `fetch`, so that an end that was asked for is told from an error.

use crate::setup::child;
use crate::setup::error::{NoCriu, SetupError};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// What it printed, however it ended.
pub(super) fn run(tool: &'static str, command: &mut Command) -> Result<Output, SetupError> {
    let out = child::output(command).map_err(|e| {
        if child::stopped() || e.kind() == ErrorKind::Interrupted {
            return SetupError::Ended;
        }
        let why = e.to_string();
        NoCriu::NotDebian { tool, why }.into()
    })?;
    // Ctrl-C reaches the tool as well, and perhaps before us.
    unless_ended(out.status.signal() == Some(libc::SIGINT))?;
    Ok(out)
}

/// [`SetupError::Ended`] if a tool was interrupted, or Warren is to end.
pub(super) fn unless_ended(interrupted: bool) -> Result<(), SetupError> {
    if interrupted || child::stopped() {
        return Err(SetupError::Ended);
    }
    Ok(())
}

/// The last lines of what it said.
pub(super) fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    if lines.is_empty() {
        return "(nothing)".into();
    }
    lines[lines.len().saturating_sub(8)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_tells_the_way_out() {
        let e = SetupError::from(NoCriu::NotDebian {
            tool: "apt-get",
            why: "no such file".into(),
        });
        let e = e.to_string();
        for part in ["apt-get", "no such file", "CRIU 4.2", "--snapshot off"] {
            assert!(e.contains(part), "{part}: {e}");
        }
    }
}
