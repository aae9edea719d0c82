//! How Warren ends: exit codes and the one-line error. Used by every verb.

use crate::campaign::{FuzzError, WayOut};
use std::fmt;
use std::process::ExitCode;

/// The exit codes users and CI rely on (README, "Exit codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    End = 0,
    SetupFailed = 1,
    Usage = 2,
    Hang = 70,
    Bug = 77,
    SecondInterrupt = 130,
}

impl From<Exit> for ExitCode {
    fn from(e: Exit) -> Self {
        ExitCode::from(e as u8)
    }
}

/// Why a verb could not do its work: exit code and text. The text says what was being done, with which value, where, and the
/// way out; lines after the first are indented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliError {
    pub exit: Exit,
    pub text: String,
}

impl CliError {
    /// The user asked for something that is not there or not allowed: exit 2.
    pub fn usage(text: impl fmt::Display) -> Self {
        CliError {
            exit: Exit::Usage,
            text: text.to_string(),
        }
    }

    /// The user asked for an end: exit 0.
    pub fn ended(text: impl fmt::Display) -> Self {
        CliError {
            exit: Exit::End,
            text: text.to_string(),
        }
    }

    /// Set-up or the machine failed: exit 1.
    pub fn setup(text: impl fmt::Display) -> Self {
        CliError {
            exit: Exit::SetupFailed,
            text: text.to_string(),
        }
    }
}

impl WayOut<'_> {
    /// The error as a verb with this way out ends by it.
    #[must_use]
    pub fn of(self, e: FuzzError) -> CliError {
        match e {
            FuzzError::HoldsCampaign { .. } | FuzzError::Usage(_) => CliError::usage(e),
            // The executor's own words, carried through the framework.
            FuzzError::Framework(
                libafl::Error::Runtime(text, _) | libafl::Error::IllegalArgument(text, _),
            ) => CliError::setup(text),
            e => CliError::setup(e.told(self)),
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CliError {}
