//! Starts the tools of set-up (mvn, javac, jar, java) and waits for them, so that a wish to end is obeyed at once, and for the quick ones no longer
//! than they may take.
//!
//! Called by the other modules of set-up, by `prepare` and by the making of class archives. The wish is the process's, as a signal
//! is: the first one ends the tool that is running and refuses every later one. A tool ends with a Warren that is killed. It starts no
//! process of a target.

use crate::slot::die_with;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    output_unless(command, &STOPPED, None)
}

/// As [`output`], of a tool that only answers a question: after `limit` it and what it started are killed.
///
/// # Errors
/// As of [`output`]; it took longer (`TimedOut`).
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> io::Result<Output> {
    output_unless(command, &STOPPED, Some(limit))
}

fn output_unless(
    command: &mut Command,
    stop: &AtomicBool,
    limit: Option<Duration>,
) -> io::Result<Output> {
    if stop.load(Ordering::SeqCst) {
        return Err(ended());
    }
    let warren = Pid::this();
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            // A Warren that is killed takes its tools along: the lock goes with it, and the next one would start theirs beside them. The
            // signal comes when the thread that started the tool ends, which is the one that waits for it.
            die_with(warren);
            Ok(())
        });
    }
    if limit.is_some() {
        // A launcher may be a script, and what it starts holds the pipes: all of them are ended together.
        command.process_group(0);
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
        let status = wait(&mut child, stop, limit);
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

fn wait(
    child: &mut Child,
    stop: &AtomicBool,
    limit: Option<Duration>,
) -> io::Result<std::process::ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let late = limit.filter(|limit| began.elapsed() > *limit);
        let why = match late {
            _ if stop.load(Ordering::SeqCst) => Some(ended()),
            Some(limit) => Some(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it did not end within {} s", limit.as_secs()),
            )),
            None => None,
        };
        if let Some(why) = why {
            let _ = match limit {
                Some(_) => killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)
                    .map_err(io::Error::from),
                None => child.kill(),
            };
            child.wait()?;
            return Err(why);
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

    #[test]
    fn a_tool_says_its_words_and_is_ended_when_asked() {
        let go = AtomicBool::new(false);
        let mut echo = Command::new("sh");
        echo.args(["-c", "echo out; echo err >&2; exit 3"]);
        let o = output_unless(&mut echo, &go, None).unwrap();
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
            output_unless(Command::new("sleep").arg("600"), &go, None).unwrap_err()
        });
        assert_eq!(e.kind(), io::ErrorKind::Interrupted);
        assert!(began.elapsed() < Duration::from_secs(300), "not waited for");
        // And none is started any more.
        assert!(output_unless(&mut Command::new("true"), &go, None).is_err());
    }

    #[test]
    fn a_tool_that_takes_too_long_is_ended_with_what_it_started() {
        let go = AtomicBool::new(false);
        let mut slow = Command::new("sh");
        slow.args(["-c", "sleep 600; echo never"]);
        let began = Instant::now();
        let e = output_unless(&mut slow, &go, Some(Duration::from_millis(50))).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::TimedOut);
        // The sleep held the pipes.
        assert!(began.elapsed() < Duration::from_secs(300), "not ended");
    }
}
