//! [`Process`]: one process of a slot, killed and watched by pidfd, past slot init.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::pidfd;

/// A process of a slot. Clones stand for the same process; dropping it kills nothing.
#[derive(Clone, Debug)]
pub struct Process {
    /// `SpawnSpec::name`.
    pub name: String,
    /// Its pid as seen in the slot (at level 3 the host's).
    pub pid_inside: i32,
    /// When it was spawned, CLOCK_MONOTONIC ns.
    pub spawned_ns: u64,
    pub(super) pidfd: Arc<OwnedFd>,
    pub(super) by_us: Arc<AtomicBool>,
    /// When [`super::Slot::launched_exit`] first saw it dead, ns.
    pub(super) seen_dead_ns: Arc<OnceLock<u64>>,
}

/// A process at the moment of a dump: by this it is known again after a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtDump {
    pub pid_inside: i32,
    pub name: String,
    /// When it was spawned, on the clock that goes on with it.
    pub spawned_ns: u64,
}

impl From<&Process> for AtDump {
    fn from(p: &Process) -> Self {
        AtDump {
            pid_inside: p.pid_inside,
            name: p.name.clone(),
            spawned_ns: p.spawned_ns,
        }
    }
}

impl Process {
    /// SIGKILL, straight from the calling thread (a few microseconds), marked as ours before it is sent. Returns whether
    /// there was a process left to kill.
    pub fn kill(&self) -> bool {
        self.by_us.store(true, Ordering::SeqCst);
        pidfd::kill(self.pidfd.as_fd()).is_ok()
    }

    /// Stops all its threads until [`Process::go_on`]. Returns whether there was a process to stop.
    pub fn stop(&self) -> bool {
        pidfd::send(self.pidfd.as_fd(), libc::SIGSTOP).is_ok()
    }

    /// Lets a stopped process go on.
    pub fn go_on(&self) -> bool {
        pidfd::send(self.pidfd.as_fd(), libc::SIGCONT).is_ok()
    }

    /// SIGQUIT, to a process that catches it: a JVM writes what all its threads do to its standard output, and goes on. One that has just been
    /// started, or runs with `-Xrs`, would end. Returns whether it was asked.
    pub fn ask_threads(&self) -> bool {
        pidfd::catches(self.pidfd.as_fd(), libc::SIGQUIT)
            && pidfd::send(self.pidfd.as_fd(), libc::SIGQUIT).is_ok()
    }

    /// Whether it has ended (all its threads), without blocking. Its [`Exit`] follows a little later.
    pub fn is_dead(&self) -> bool {
        self.wait_dead(Duration::ZERO)
    }

    /// Waits until it has ended; false if it still lives after `limit`.
    pub fn wait_dead(&self, limit: Duration) -> bool {
        pidfd::readable_within(self.pidfd.as_fd(), limit)
    }

    /// Whether [`Process::kill`] was ever called.
    pub fn killed_by_us(&self) -> bool {
        self.by_us.load(Ordering::SeqCst)
    }
}
