//! Runs the programs that fetch things, so that an end that was asked for is told from an error.
//!
//! Called by `debian`, and by whoever unpacks or tries what came.

use crate::setup::child;
use crate::setup::error::{DebianError, SetupError};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// What it printed, however it ended.
pub(in crate::setup) fn run(
    tool: &'static str,
    command: &mut Command,
) -> Result<Output, SetupError> {
    let out = child::output(command).map_err(|e| {
        if child::stopped() || e.kind() == ErrorKind::Interrupted {
            return SetupError::Ended;
        }
        let why = e.to_string();
        DebianError::NotDebian { tool, why }.into()
    })?;
    // Ctrl-C reaches the tool as well, and perhaps before us.
    unless_ended(out.status.signal() == Some(libc::SIGINT))?;
    Ok(out)
}

/// [`SetupError::Ended`] if a tool was interrupted, or Warren is to end.
pub(in crate::setup) fn unless_ended(interrupted: bool) -> Result<(), SetupError> {
    if interrupted || child::stopped() {
        return Err(SetupError::Ended);
    }
    Ok(())
}

/// The last lines of what it said.
pub(in crate::setup) fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    if lines.is_empty() {
        return "(nothing)".into();
    }
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// The lines in which apt and pip call something an error, else the last ones.
pub(in crate::setup) fn reasons(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim);
    let errors: Vec<&str> = lines
        .filter(|l| l.starts_with("E: ") || l.starts_with("ERROR: "))
        .collect();
    if errors.is_empty() {
        return tail(bytes);
    }
    tail(errors.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::error::NoCriu;

    #[test]
    fn the_reasons_are_what_is_called_an_error() {
        let apt = "W: Unable to read x\nE: Failed to fetch y\n";
        assert_eq!(reasons(apt.as_bytes()), "E: Failed to fetch y");
        let pip = "WARNING: Retrying\nERROR: No matching distribution found\n";
        let want = "ERROR: No matching distribution found";
        assert_eq!(reasons(pip.as_bytes()), want);
        assert_eq!(reasons(b"Traceback\nOSError: x\n"), "Traceback\nOSError: x");
        assert_eq!(reasons(b""), "(nothing)");
    }

    #[test]
    fn every_error_tells_the_way_out() {
        let e = NoCriu::from(DebianError::NotDebian {
            tool: "apt-get",
            why: "no such file".into(),
        });
        let e = SetupError::from(e).to_string();
        for part in ["apt-get", "no such file", "CRIU 4.2", "--snapshot off"] {
            assert!(e.contains(part), "{part}: {e}");
        }
    }
}
