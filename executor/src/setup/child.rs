//! Starts the tools of set-up (mvn, javac, jar, java) and waits for them, so that a wish to end is obeyed at once.
//!
//! Called by the other modules of set-up, by `prepare` and by the making of class archives. The wish is the process's, as a signal
//! is: the first one ends the tool that is running and refuses every later one. A tool ends with a Warren that is killed. It starts no
//! process of a target.

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// How often the wish to end is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// No tool of set-up is to go on: called by the signal handler. There is no way back.
pub fn stop() {
    STOPPED.store(true, Ordering::SeqCst);
}

/// Whether [`stop`] was called: an error of set-up is then no error, but the end that was asked for.
#[must_use]
pub fn stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// As [`Command::output`], with stdin closed; ended by [`stop`].
///
/// # Errors
/// The tool cannot be started, or an end was asked for (`Interrupted`).
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    output_unless(command, &STOPPED)
}

fn output_unless(command: &mut Command, stop: &AtomicBool) -> io::Result<Output> {
    if stop.load(Ordering::SeqCst) {
        return Err(ended());
    }
    let warren = Pid::this();
    // SAFETY: the closure makes system calls only (two, and a third that ends the child), and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            // A Warren that is killed takes its tools along: the lock goes with it, and the next one would start theirs beside them. The
            // signal comes when the thread that started the tool ends, which is the one that waits for it.
            let _ = set_pdeathsig(Signal::SIGKILL);
            if getppid() != warren {
                libc::_exit(1);
            }
            Ok(())
        });
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        // Both at once: a tool that fills one pipe must not wait for a reader of the other.
        let out = scope.spawn(move || all(out));
        let err = scope.spawn(move || all(err));
        let status = wait(&mut child, stop);
        let (stdout, stderr) = (
            out.join().unwrap_or_default(),
            err.join().unwrap_or_default(),
        );
        Ok(Output {
            status: status?,
            stdout,
            stderr,
        })
    })
}

fn wait(child: &mut Child, stop: &AtomicBool) -> io::Result<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::SeqCst) {
            let _ = child.kill();
            child.wait()?;
            return Err(ended());
        }
        std::thread::sleep(LOOK);
    }
}

fn all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut p) = pipe {
        let _ = p.read_to_end(&mut bytes);
    }
    bytes
}

pub(super) fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "ended by the user")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_tool_says_its_words_and_is_ended_when_asked() {
        let go = AtomicBool::new(false);
        let mut echo = Command::new("sh");
        echo.args(["-c", "echo out; echo err >&2; exit 3"]);
        let o = output_unless(&mut echo, &go).unwrap();
        assert_eq!(
            (o.status.code(), o.stdout.as_slice(), o.stderr.as_slice()),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );

        let began = Instant::now();
        let e = std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                go.store(true, Ordering::SeqCst);
            });
            output_unless(Command::new("sleep").arg("600"), &go).unwrap_err()
        });
        assert_eq!(e.kind(), io::ErrorKind::Interrupted);
        assert!(began.elapsed() < Duration::from_secs(300), "not waited for");
        // And none is started any more.
        assert!(output_unless(&mut Command::new("true"), &go).is_err());
    }
}
