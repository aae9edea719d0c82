//! What can go wrong with a slot. Every text names what was being done, the value, the place and the way out.

use std::path::PathBuf;

use super::Level;

/// What to do where a process could not be started.
fn way_out(why: &std::io::Error) -> &'static str {
    match why.raw_os_error() {
        Some(libc::ENOENT | libc::EACCES | libc::ENOEXEC) => {
            "; check that this file is the warren binary and may be executed"
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "; the limit of open files is too low: raise it with `ulimit -n 1024`"
        }
        Some(libc::ENOMEM | libc::EAGAIN) => {
            "; the machine lacks memory or processes (`ulimit -u`): end other programs"
        }
        _ => "",
    }
}

/// Errors of slots. None of them is a finding: a run that meets one is void or stops Warren.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The init process could not be started at all.
    #[error("starting slot init with {exe} failed: {source}{}", way_out(.source))]
    Start {
        /// The configured binary.
        exe: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A step of making the slot failed.
    #[error("making a level {level} slot failed at {step}: {why}; {remedy}")]
    Make {
        /// The level asked for.
        level: Level,
        /// The step, with its value.
        step: String,
        /// What the system said.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// Slot init is gone, with everything in the slot.
    #[error("{doing}: slot init has ended{said}; the run is lost, start it again")]
    Lost {
        /// What was asked of it.
        doing: String,
        /// Its last words, `: ...`, or nothing.
        said: String,
    },
    /// Slot init answered with an error.
    #[error("{doing}: {why}")]
    Refused {
        /// What was asked of it.
        doing: String,
        /// Its answer.
        why: String,
    },
    /// What was asked for is there, and nobody can end it or hear of its end.
    #[error("{doing}: it is there, but cannot be taken hold of: {why}")]
    Stray {
        /// What was asked of slot init.
        doing: String,
        /// Why it cannot be held.
        why: String,
    },
    /// Slot init lives but does not answer.
    #[error(
        "{doing}: slot init gave no answer within {seconds} s; the machine is starved, or the slot is stuck"
    )]
    Silent {
        /// What was asked of it.
        doing: String,
        /// How long was waited.
        seconds: u64,
    },
    /// This slot cannot do it.
    #[error("{what} is not available in this slot: {why}")]
    Unavailable {
        /// The thing asked for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// Processes of a slot outlived their kill.
    #[error(
        "closing the slot: init (pid {pid}) is still there {seconds} s after SIGKILL; look at /proc/{pid}/stack"
    )]
    NotGone {
        /// Host pid.
        pid: i32,
        /// How long was waited.
        seconds: u64,
    },
    /// A file of the host side (level 3 folders, the state file) failed.
    #[error("{doing} {path}: {source}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No level works on this machine.
    #[error(
        "no isolation level works on this machine:\n  {0}\n  `warren doctor` says what is missing"
    )]
    NoLevel(String),
}
