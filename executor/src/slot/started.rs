//! The started init process as Warren holds it: start, set-up, the reader thread, end.
//!
//! Called by `host.rs`. [`Shared`] is what the reader thread and the callers of a slot have in common; dropping [`Init`]
//! ends the slot.

use crossbeam::channel::Sender;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::wire::{self, FromInit, Reply, Setup};
use super::{Exit, SLOT_INIT, SlotConfig, SlotError};
use super::{pidfd, spawner};

/// How long an answer of init may take before the slot counts as stuck, beyond the request's own time.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How long the processes of a slot may take to die.
const DYING: Duration = Duration::from_secs(20);

/// Host pid of init, outcome of the trial of cuts, notes.
pub(super) type Made = (i32, Result<(), String>, Vec<String>);
pub(super) type Answer = (Result<Reply, String>, Option<OwnedFd>);

/// The started init process, ended and reaped on Drop.
#[derive(Debug)]
pub(super) struct Init {
    pub child: Child,
    pub socket: Arc<OwnedFd>,
    /// pid 1 of the slot (levels 1, 2), by which all of it is killed.
    pub pidfd: Option<OwnedFd>,
    reader: Option<JoinHandle<()>>,
    ended: bool,
}

/// What the reader thread and the callers share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub next_id: u64,
    pub waiting: HashMap<u64, Sender<Answer>>,
    /// Exits not yet drained.
    pub exits: VecDeque<Exit>,
    /// Every exit by pid, for `wait_exit`.
    pub known: HashMap<i32, Exit>,
    /// Marks of our own kills by pid.
    pub kills: HashMap<i32, Arc<AtomicBool>>,
    /// Init is gone; its last words.
    pub lost: Option<String>,
}

impl State {
    /// The number of a process that has ended comes again. What was known of the old one.
    pub(super) fn forget(&mut self, pid: i32) -> (Option<Exit>, Option<Arc<AtomicBool>>) {
        let mark = self.kills.insert(pid, Arc::default());
        (self.known.remove(&pid), mark)
    }

    /// It did not come again.
    pub(super) fn recall(&mut self, pid: i32, old: (Option<Exit>, Option<Arc<AtomicBool>>)) {
        self.known.extend(old.0.map(|exit| (pid, exit)));
        self.kills.extend(old.1.map(|mark| (pid, mark)));
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock holds a map that is whole between any two statements: go on.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn last_words(&self) -> String {
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(2), |s| s.lost.is_none())
            .unwrap_or_else(|e| e.into_inner());
        state.lost.clone().unwrap_or_default()
    }

    fn take(&self, message: FromInit, fd: Option<OwnedFd>) {
        let mut state = self.lock();
        match message {
            FromInit::Reply { id, result } => {
                if let Ok(Reply::Spawned { pid, .. }) = &result {
                    state.forget(*pid);
                }
                if let Some(waiting) = state.waiting.remove(&id) {
                    let _ = waiting.send((result, fd)); // a caller that gave up is no error
                }
            }
            FromInit::Exit(mut exit) => {
                // A process that had ended by itself when we shot at it was not killed by us.
                let marked = state
                    .kills
                    .get(&exit.pid)
                    .is_some_and(|mark| mark.load(Ordering::SeqCst));
                exit.by_us = marked && exit.signal == Some(libc::SIGKILL);
                state.known.insert(exit.pid, exit.clone());
                state.exits.push_back(exit);
                self.changed.notify_all();
            }
            FromInit::Ready { .. } | FromInit::Failed { .. } => {} // only before the reader starts
        }
    }
}

impl Init {
    /// Starts the process; its stderr is an anonymous file that is read when it fails.
    pub(super) fn start(config: &SlotConfig) -> Result<(Init, File), SlotError> {
        let start = |source| SlotError::Start {
            exe: config.exe.clone(),
            source,
        };
        let (ours, theirs) = wire::pair().map_err(start)?;
        let stderr = memory_file().map_err(start)?;
        let mut command = Command::new(&config.exe);
        command
            .arg(SLOT_INIT)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null());
        command.stderr(Stdio::from(stderr.try_clone().map_err(start)?));
        let child = spawner::spawn(command).map_err(start)?;
        let init = Init {
            child,
            socket: Arc::new(ours),
            pidfd: None,
            reader: None,
            ended: false,
        };
        Ok((init, stderr))
    }

    /// Hands over the set-up and waits for READY.
    pub(super) fn make(
        &mut self,
        setup: &Setup,
        images: Option<BorrowedFd<'_>>,
        stderr: &File,
    ) -> Result<Made, SlotError> {
        let lost = || SlotError::Lost {
            doing: format!("making a level {} slot", setup.level),
            said: words(stderr),
        };
        wire::send(self.socket.as_fd(), setup, images).map_err(|_| lost())?;
        if !pidfd::readable_within(self.socket.as_fd(), PATIENCE) {
            return Err(SlotError::Silent {
                doing: format!("making a level {} slot", setup.level),
                seconds: PATIENCE.as_secs(),
            });
        }
        match wire::receive(self.socket.as_fd()) {
            Ok(Some((
                FromInit::Ready {
                    host_pid,
                    cuts,
                    notes,
                },
                _,
            ))) => Ok((host_pid, cuts, notes)),
            Ok(Some((FromInit::Failed { step, why, remedy }, _))) => Err(SlotError::Make {
                level: setup.level,
                step,
                why,
                remedy,
            }),
            Ok(Some(_)) => Err(unexpected("making a slot".into())),
            Ok(None) | Err(_) => Err(lost()),
        }
    }

    pub(super) fn read_on(&mut self, shared: Arc<Shared>, stderr: File) -> Result<(), SlotError> {
        let socket = Arc::clone(&self.socket);
        let thread = std::thread::Builder::new()
            .name("slot-reader".into())
            .spawn(move || {
                while let Ok(Some((message, fd))) = wire::receive(socket.as_fd()) {
                    shared.take(message, fd);
                }
                let mut state = shared.lock();
                state.lost = Some(words(&stderr));
                state.waiting.clear(); // wakes the callers
                shared.changed.notify_all();
            });
        let source = |source| SlotError::File {
            doing: "starting the reader thread of",
            path: "a slot".into(),
            source,
        };
        self.reader = Some(thread.map_err(source)?);
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), SlotError> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        // End of file asks init to end (level 3 kills and reaps its children first); the signal does not ask.
        let _ =
            nix::sys::socket::shutdown(self.socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd::kill(pidfd.as_fd());
        }
        let gone = self.reap(DYING);
        if !gone {
            let _ = self.child.kill();
            if !self.reap(Duration::from_secs(1)) {
                let pid = self.child.id() as i32;
                return Err(SlotError::NotGone {
                    pid,
                    seconds: DYING.as_secs(),
                });
            }
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        Ok(())
    }

    /// Waits for the outer process, which ends after pid 1, which ends after everything else.
    fn reap(&mut self, limit: Duration) -> bool {
        let pidfd = pidfd::open(self.child.id() as i32);
        let until = Instant::now() + limit;
        loop {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            match &pidfd {
                Ok(fd) => {
                    pidfd::readable_within(fd.as_fd(), left);
                }
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(5))),
            }
        }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

pub(super) fn unexpected(doing: String) -> SlotError {
    SlotError::Refused {
        doing,
        why: "slot init answered something else; binary and library differ, rebuild both".into(),
    }
}

/// The last words in init's stderr file as `: ...`.
fn words(file: &File) -> String {
    let mut text = String::new();
    let mut file = file;
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.take(1 << 16).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), "") | (Err(_), _) => String::new(),
        (Ok(_), text) => format!(" ({text})"),
    }
}

fn memory_file() -> io::Result<File> {
    let file = memfd_create(c"slot-init-stderr", MFdFlags::MFD_CLOEXEC)?;
    Ok(File::from(file))
}
