//! The broker's process, from the campaign's side: started, kept alive, and ended with the campaign. Called by `warren fuzz`.
//!
//! LLMP reads shared memory that others write, panics on what it does not understand and waits without limits. In a process of its own none of
//! that reaches a campaign: one that ends or hangs is replaced, with a line.

use super::carrier::{AWAY, Config, JOINED, LISTENS};
use super::{ANEW, BROKER, PULSE};
use crossbeam::channel::{Receiver, RecvTimeoutError, unbounded};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// A process without a sign of life for so long is replaced.
const DEAF: Duration = Duration::from_secs(40);
/// Before the next one.
const PAUSE: Duration = Duration::from_secs(3);
/// Lines that were said; beyond, nothing more is said.
const SAID: usize = 500;

/// A broker that lives as long as this.
#[derive(Debug)]
pub struct Broker {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    /// Starts it. `program` is this binary; `say` gets lines for the user, not one over and over.
    pub fn start(
        program: PathBuf,
        config: Config,
        mut say: impl FnMut(String) + Send + 'static,
    ) -> Self {
        let ending = Arc::new(AtomicBool::new(false));
        let flag = ending.clone();
        let thread = std::thread::spawn(move || {
            let mut said = Said::default();
            let mut once = |line: String| {
                if said.is_new(&line) {
                    say(format!("broker: {line}"));
                }
            };
            while !flag.load(Ordering::SeqCst) {
                if let Some(why) = one(&program, &config, &flag, &mut once) {
                    once(why);
                }
                let until = Instant::now() + PAUSE;
                while Instant::now() < until && !flag.load(Ordering::SeqCst) {
                    std::thread::sleep(LOOK);
                }
            }
        });
        Broker {
            ending,
            thread: Some(thread),
        }
    }
}

/// What was said: a line comes once, but for whether the remote broker is there, which comes whenever it is another than before.
#[derive(Debug, Default)]
struct Said {
    lines: BTreeSet<String>,
    count: usize,
}

impl Said {
    fn is_new(&mut self, line: &str) -> bool {
        for (now, before) in [(JOINED, AWAY), (AWAY, JOINED)] {
            if line.starts_with(now) {
                self.lines.retain(|l| !l.starts_with(before));
            }
        }
        // Each process listens on a port of its own where none was asked for.
        let line = if line.starts_with(LISTENS) {
            LISTENS
        } else {
            line
        };
        let new = self.count < SAID && self.lines.insert(line.to_owned());
        self.count += usize::from(new);
        new
    }
}

impl Drop for Broker {
    /// Waits until the others were told how the campaign ended: some seconds at most.
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // It panics nowhere, and there is nothing to be done if it did.
            let _ = thread.join();
        }
    }
}

/// One process, from its start to its end; why it ended, unless that is as it should be.
fn one(
    program: &PathBuf,
    config: &Config,
    ending: &AtomicBool,
    say: &mut impl FnMut(String),
) -> Option<String> {
    let log = std::fs::create_dir_all(&config.out)
        // One that finds another broker here must not take away that one's last words.
        .and_then(|()| {
            let mut file = std::fs::File::options();
            file.append(true).create(true);
            file.open(config.out.join(".broker.log"))
        });
    let started = Command::new(program)
        .arg(BROKER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What LLMP's threads panic with.
        .stderr(log.map_or_else(|_| Stdio::null(), Stdio::from))
        // A Ctrl-C is the campaign's.
        .process_group(0)
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(e) => return Some(format!("starting {}: {e}", program.display())),
    };
    let mut stdin = child.stdin.take();
    let asked = serde_json::to_string(config).map_err(std::io::Error::other);
    let told = asked.and_then(|text| match &mut stdin {
        Some(pipe) => writeln!(pipe, "{text}"),
        None => Ok(()),
    });
    let lines = read(&mut child);
    let mut heard = Instant::now();
    let mut deaf = told.is_err();
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                heard = Instant::now();
                if line != PULSE {
                    say(line);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if ending.load(Ordering::SeqCst) {
            // It sees the end of the pipe, and has its own limit.
            stdin = None;
        }
        if deaf || heard.elapsed() > DEAF {
            deaf = true;
            let _ = child.kill();
            break;
        }
    }
    drop(stdin);
    let status = child.wait();
    match status {
        _ if deaf => Some("its process gave no sign of life: a new one is started".into()),
        Ok(status) if status.success() || status.code() == Some(ANEW) => None,
        Ok(status) => Some(format!(
            "its process ended ({status}; {} has its last words): a new one is started",
            config.out.join(".broker.log").display()
        )),
        Err(e) => Some(format!("waiting for its process: {e}")),
    }
}

/// What it says, line by line.
fn read(child: &mut Child) -> Receiver<String> {
    let (to, from) = unbounded();
    if let Some(out) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_once_and_whether_the_remote_is_there_when_it_changes() {
        let mut said = Said::default();
        for (line, want) in [
            ("listens on 127.0.0.1:40001", true),
            ("the broker at h:1 cannot be joined: refused", true),
            ("listens on 127.0.0.1:40002", false),
            ("the broker at h:1 cannot be joined: refused", false),
            ("joined the broker at h:1", true),
            ("hears another broker; its instances: a", true),
            ("the broker at h:1 has said nothing for 20 s", true),
            ("the broker at h:1 has said nothing for 20 s", false),
            ("listens on 127.0.0.1:40003", false),
            ("joined the broker at h:1", true),
            ("joined the broker at h:1", false),
            ("hears another broker; its instances: a", false),
        ] {
            assert_eq!(said.is_new(line), want, "{line}");
        }
        for n in 0..SAID {
            said.is_new(&format!("another {n}"));
        }
        assert!(!said.is_new("one more"));
    }
}
