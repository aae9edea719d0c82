//! pidfds: names of processes that are never given to another one. The three calls that `nix` has no wrapper for.
//!
//! Called by `init.rs` (opens), `process.rs` and `started.rs` (kill, wait).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A pidfd of a process that is not yet reaped (Linux 5.3 or later).
pub(super) fn open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: a system call with integer arguments; the descriptor it returns (close-on-exec) is ours alone.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(fd as i32))
        }
    }
}

/// SIGKILL to exactly that process.
pub(super) fn kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    send(pidfd, libc::SIGKILL)
}

/// A signal to exactly that process.
pub(super) fn send(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a live pidfd, a signal number, no siginfo, no flags.
    let r = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            none,
            0,
        )
    };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Whether the descriptor becomes readable in time; a pidfd does when its process has ended.
pub(super) fn readable_within(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let left = until
            .saturating_duration_since(Instant::now())
            .as_millis()
            .min(60_000) as u16;
        match poll(
            &mut [PollFd::new(fd, PollFlags::POLLIN)],
            PollTimeout::from(left),
        ) {
            Ok(n) if n > 0 => return true,
            _ if Instant::now() >= until => return false,
            _ => {}
        }
    }
}
