//! pidfds: names of processes that are never given to another one. The three calls that `nix` has no wrapper for, and what is
//! asked by such a descriptor.
//!
//! Called by `init.rs` and `host.rs` (open), by `process.rs` (kill, wait), by `started.rs` (all three) and by `sockets.rs` (take).

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

/// A descriptor of the process as one of ours, for the same open file (Linux 5.6 or later).
pub(super) fn take(pidfd: BorrowedFd<'_>, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: a system call with integer arguments; the descriptor it returns (close-on-exec) is ours alone.
    unsafe {
        let ours = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0);
        if ours < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(ours as i32))
        }
    }
}

/// Whether the process has a handler for the signal now; false of one that has ended.
pub(super) fn catches(pidfd: BorrowedFd<'_>, signal: i32) -> bool {
    let field = |path: String, name: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    let info = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let caught = field(info, "Pid:")
        .and_then(|pid| field(format!("/proc/{pid}/status"), "SigCgt:"))
        .and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    caught.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::process::Command;

    #[test]
    fn who_catches_a_signal() {
        // A shell's trap is a handler; `sleep` has none. Not QUIT: who was started in the background ignores it, and so do its shells.
        let mut shell = Command::new("bash")
            .args(["-c", "trap : USR1; while :; do sleep 0.05; done"])
            .spawn()
            .unwrap();
        let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
        let fd = |c: &std::process::Child| open(c.id() as i32).unwrap();
        let (of_shell, of_sleep) = (fd(&shell), fd(&sleep));
        let until = Instant::now() + Duration::from_secs(60);
        while !catches(of_shell.as_fd(), libc::SIGUSR1) {
            assert!(Instant::now() < until, "no trap is seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!catches(of_sleep.as_fd(), libc::SIGUSR1));
        for child in [&mut shell, &mut sleep] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!catches(of_shell.as_fd(), libc::SIGUSR1), "it has ended");
    }
}
