//! The started init process as Warren holds it: start, set-up, the reader thread, end.
//!
//! Called by `host.rs`; `levels.rs` and what asks through it (`hush.rs`, `orphans.rs`, `traffic.rs`) are as patient. [`Shared`] is what the reader thread and the callers of a slot have in common; dropping [`Init`]
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
                // A dead process's number may come again: the exit of the old one must not answer for the new one, nor its mark.
                // If init tells the end of the old one, it did so before this; and until this is passed on nobody can mark the new one.
                match &result {
                    Ok(Reply::Spawned { pid, .. }) => {
                        state.forget(*pid);
                    }
                    Ok(Reply::Launched { processes, .. }) => {
                        for (pid, _) in processes {
                            state.forget(*pid);
                        }
                    }
                    _ => {}
                }
                if let Some(waiting) = state.waiting.remove(&id) {
                    let _ = waiting.send((result, fd)); // a caller that gave up is no error
                }
            }
            FromInit::Exit(mut exit) => {
                let marked = state
                    .kills
                    .get(&exit.pid)
                    .is_some_and(|mark| mark.load(Ordering::SeqCst));
                exit.by_us = Exit::is_by_us(marked, exit.signal);
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

/// What init answered is no reply to what it was asked.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_comes_again_inherits_nothing() {
        let spawned = Reply::Spawned {
            pid: 1001,
            spawned_ns: 20,
        };
        let launched = Reply::Launched {
            launcher: 1000,
            processes: vec![(1001, 20), (1002, 20)],
        };
        for (reply, again) in [(spawned, 1001..=1001), (launched, 1001..=1002)] {
            let shared = Shared::default();
            for pid in 1001..=1003 {
                shared.lock().kills.entry(pid).or_default();
            }
            let old = shared.lock().kills.clone();
            for (pid, mark) in &old {
                mark.store(true, Ordering::SeqCst);
                let exit = Exit {
                    name: "old".into(),
                    pid: *pid,
                    status: None,
                    signal: Some(libc::SIGKILL),
                    t_ns: 10,
                    by_us: false,
                };
                shared.take(FromInit::Exit(exit), None);
            }
            let result = Ok(reply);
            shared.take(FromInit::Reply { id: 1, result }, None);
            let state = shared.lock();
            for pid in 1001..=1003 {
                let stays = !again.contains(&pid);
                let marked = state.kills[&pid].load(Ordering::SeqCst);
                let known = state.known.contains_key(&pid);
                assert_eq!((marked, known), (stays, stays), "{pid}");
                let of_old = old[&pid].load(Ordering::SeqCst);
                assert!(of_old, "its handle keeps its own mark: {pid}");
            }
            // All three were ours, and are told as such.
            assert!(state.exits.len() == 3 && state.exits.iter().all(|e| e.by_us));
        }
    }
}
