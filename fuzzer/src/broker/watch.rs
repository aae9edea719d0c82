//! The broker's process, from the campaign's side: started, kept alive, and ended with the campaign. Called by `warren fuzz`.
//!
//! LLMP reads shared memory that others write, panics on what it does not understand and waits without limits. In a process of its own none of
//! that reaches a campaign: one that ends or hangs is replaced, with a line.

use super::carrier::{AWAY, Config, JOINED, LISTENS};
use super::{ANEW, BROKER, PULSE};
use crossbeam::channel::{Receiver, RecvTimeoutError, unbounded};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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
/// Name of the file in the output folder that has the last words of each process.
const LOG: &str = ".broker.log";
/// What it was before it was begun anew, which it is where it has more bytes than this.
const LOG_BEFORE: &str = ".broker.log.1";
const LOG_MAX: u64 = 1 << 20;
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
    let started = Command::new(program)
        .arg(BROKER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What LLMP's threads panic with.
        .stderr(log(&config.out).map_or_else(|_| Stdio::null(), Stdio::from))
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
            config.out.join(LOG).display()
        )),
        Err(e) => Some(format!("waiting for its process: {e}")),
    }
}

/// The file for the last words of one more process.
fn log(out: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(out)?;
    let path = out.join(LOG);
    if std::fs::metadata(&path).is_ok_and(|m| m.len() > LOG_MAX) {
        // Another broker that writes to it goes on in the file it has.
        let _ = std::fs::rename(&path, out.join(LOG_BEFORE));
    }
    // One that finds another broker here must not take away that one's last words.
    File::options().append(true).create(true).open(path)
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

    /// A broker that is replaced again and again for weeks leaves two files of a bounded size, and the last words in the newer one.
    #[test]
    fn the_log_is_begun_anew_when_it_is_large() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let size = |name: &str| std::fs::metadata(out.join(name)).map_or(0, |m| m.len());
        log(&out).unwrap().write_all(b"first").unwrap();
        log(&out).unwrap().write_all(b"second").unwrap();
        assert_eq!((size(LOG), size(LOG_BEFORE)), (11, 0));
        for words in [1, 2] {
            log(&out).unwrap().set_len(LOG_MAX + words).unwrap();
            let mut next = log(&out).unwrap();
            next.write_all(b"last").unwrap();
            assert_eq!((size(LOG), size(LOG_BEFORE)), (4, LOG_MAX + words));
        }
    }
}
