//! Warren's end of a slot: [`Slot`] and [`Process`].
//!
//! Called by deploy, run and teardown, from any thread. One reader thread per slot sorts what init says into replies and
//! exits. Kills and liveness go past init, by pidfd, because they must take microseconds.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::level3::{self, PlainSlot};
use super::wire::{self, FromInit, Numbered, Reply, Request, Setup};
use super::{
    CutRules, Exit, Healed, Level, ProbeAnswer, SLOT_INIT, SlotConfig, SlotError, SpawnSpec,
    Stalls, TextProbe,
};
use super::{namespaces, spawner};

/// How long an answer of init may take before the slot counts as stuck, beyond the request's own time.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the processes of a slot may take to die.
const DYING: Duration = Duration::from_secs(20);

/// Host pid of init, outcome of the trial of cuts, notes.
type Made = (i32, Result<(), String>, Vec<String>);
type Answer = (Result<Reply, String>, Option<OwnedFd>);

/// A live slot. Dropping it kills everything in it and waits until it is gone.
#[derive(Debug)]
pub struct Slot {
    level: Level,
    init: Init,
    host_pid: i32,
    root: PathBuf,
    shm: PathBuf,
    inside_root: PathBuf,
    inside_shm: PathBuf,
    second: u8,
    cuts: Result<(), String>,
    notes: Vec<String>,
    shared: Arc<Shared>,
    /// Level 3's number and folders; after `init` in drop order, so that processes go first.
    #[allow(dead_code, reason = "held for its Drop")]
    plain: Option<PlainSlot>,
}

/// The started init process, ended and reaped on Drop.
#[derive(Debug)]
struct Init {
    child: Child,
    socket: Arc<OwnedFd>,
    /// pid 1 of the slot (levels 1, 2), by which all of it is killed.
    pidfd: Option<OwnedFd>,
    reader: Option<JoinHandle<()>>,
    ended: bool,
}

/// What the reader thread and the callers share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    waiting: HashMap<u64, Sender<Answer>>,
    /// Exits not yet drained.
    exits: VecDeque<Exit>,
    /// Every exit by pid, for `wait_exit`.
    known: HashMap<i32, Exit>,
    /// Marks of our own kills by pid.
    kills: HashMap<i32, Arc<AtomicBool>>,
    /// Init is gone; its last words.
    lost: Option<String>,
}

/// A process of a slot. Clones stand for the same process; dropping it kills nothing.
#[derive(Clone, Debug)]
pub struct Process {
    /// `SpawnSpec::name`.
    pub name: String,
    /// Its pid as seen in the slot (at level 3 the host's).
    pub pid_inside: i32,
    /// When it was spawned, CLOCK_MONOTONIC ns.
    pub spawned_ns: u64,
    pidfd: Arc<OwnedFd>,
    by_us: Arc<AtomicBool>,
}

impl Process {
    /// SIGKILL, straight from the calling thread (a few microseconds), marked as ours before it is sent. Returns whether
    /// there was a process left to kill.
    pub fn kill(&self) -> bool {
        self.by_us.store(true, Ordering::SeqCst);
        pidfd_kill(self.pidfd.as_fd()).is_ok()
    }

    /// Whether it has ended (all its threads), without blocking. Its [`Exit`] follows a little later.
    pub fn is_dead(&self) -> bool {
        self.wait_dead(Duration::ZERO)
    }

    /// Waits until it has ended; false if it still lives after `limit`.
    pub fn wait_dead(&self, limit: Duration) -> bool {
        readable_within(self.pidfd.as_fd(), limit)
    }

    /// Whether [`Process::kill`] was ever called.
    pub fn killed_by_us(&self) -> bool {
        self.by_us.load(Ordering::SeqCst)
    }

    /// The pidfd, for callers that wait for several things at once.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Slot {
    /// Opens a fresh slot; a few milliseconds at levels 1 and 2.
    ///
    /// # Errors
    /// [`SlotError::Make`] names the step this machine refuses and the way out; the level is never changed silently.
    pub fn open(config: &SlotConfig) -> Result<Slot, SlotError> {
        let plain = match config.level {
            Level::Plain => Some(PlainSlot::claim()?),
            _ => None,
        };
        let second = plain.as_ref().map_or(0, |p| p.number);
        let setup = Setup {
            level: config.level,
            names: config.names.clone(),
            second,
            root_bytes: config.root_bytes,
            shm_bytes: config.shm_bytes,
            try_cuts: config.try_cuts,
            state_file: plain.as_ref().map(|p| p.state_file.clone()),
        };
        let (mut init, stderr) = Init::start(config)?;
        if let Some(plain) = &plain {
            level3::note(&plain.state_file, init.child.id() as i32)?;
        }
        let (host_pid, cuts, notes) = init.make(&setup, &stderr)?;
        let (root, shm, inside_root, inside_shm) = match &plain {
            Some(p) => (p.root.clone(), p.shm.clone(), p.root.clone(), p.shm.clone()),
            None => {
                init.pidfd = Some(pidfd_open(host_pid).map_err(|source| SlotError::File {
                    doing: "opening a pidfd (Linux 5.3 or later) of slot init",
                    path: format!("/proc/{host_pid}").into(),
                    source,
                })?);
                let below = |inside: &str| PathBuf::from(format!("/proc/{host_pid}/root{inside}"));
                (
                    below(namespaces::ROOT),
                    below(namespaces::SHM),
                    namespaces::ROOT.into(),
                    namespaces::SHM.into(),
                )
            }
        };
        let shared = Arc::new(Shared::default());
        init.read_on(Arc::clone(&shared), stderr)?;
        Ok(Slot {
            level: config.level,
            init,
            host_pid,
            root,
            shm,
            inside_root,
            inside_shm,
            second,
            cuts,
            notes,
            shared,
            plain,
        })
    }

    /// The isolation this slot has.
    pub fn level(&self) -> Level {
        self.level
    }

    /// ROOT as Warren sees it (docs/formats.md section 1). Paths below it are valid while the slot is open.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// SHM as Warren sees it.
    pub fn shm(&self) -> &Path {
        &self.shm
    }

    /// ROOT as processes in the slot see it.
    pub fn inside_root(&self) -> PathBuf {
        self.inside_root.clone()
    }

    /// SHM as processes in the slot see it.
    pub fn inside_shm(&self) -> PathBuf {
        self.inside_shm.clone()
    }

    /// Address of node `i` (0-based over all groups): 127.0.0.11 + i, at level 3 127.S.0.11 + i. At most 240 nodes.
    pub fn node_addr(&self, i: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, 0, 11u8.saturating_add(i.min(240) as u8))
    }

    /// Whether [`Slot::cut`] works here, by the trial made at open; else why not.
    pub fn kernel_cuts(&self) -> Result<(), String> {
        self.cuts.clone()
    }

    /// What the machine lacks without stopping the slot (no tcp_rto_max_ms, ...), for `doctor` and the run record.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The pid of slot init as Warren sees it (/proc/<pid>/net/dev and the like).
    pub fn init_pid(&self) -> i32 {
        self.host_pid
    }

    /// Starts a process. It has been exec'ed when this returns.
    ///
    /// # Errors
    /// [`SlotError::Refused`] when program, folder or stdout cannot be used; nothing runs then.
    pub fn spawn(&self, spec: &SpawnSpec) -> Result<Process, SlotError> {
        let doing = || format!("starting {}", spec.name);
        let (reply, pidfd) = self.ask(Request::Spawn(spec.clone()), &doing, PATIENCE)?;
        let (Reply::Spawned { pid, spawned_ns }, Some(pidfd)) = (reply, pidfd) else {
            return Err(odd(doing()));
        };
        // A dead process's number may come again: the exit of the old one must not answer for the new one.
        let by_us = {
            let mut state = self.shared.lock();
            Arc::clone(state.kills.entry(pid).or_default())
        };
        Ok(Process {
            name: spec.name.clone(),
            pid_inside: pid,
            spawned_ns,
            pidfd: Arc::new(pidfd),
            by_us,
        })
    }

    /// All exits since the last call, in the order init reaped them. Never blocks.
    pub fn exits(&self) -> Vec<Exit> {
        self.shared.lock().exits.drain(..).collect()
    }

    /// Waits until this process is reaped. `None` at the deadline. The exit stays in [`Slot::exits`].
    ///
    /// # Errors
    /// [`SlotError::Lost`] when slot init ended meanwhile.
    pub fn wait_exit(
        &self,
        process: &Process,
        deadline: Instant,
    ) -> Result<Option<Exit>, SlotError> {
        let mut state = self.shared.lock();
        loop {
            if let Some(exit) = state.known.get(&process.pid_inside) {
                return Ok(Some(exit.clone()));
            }
            if let Some(said) = &state.lost {
                return Err(SlotError::Lost {
                    doing: format!("waiting for the end of {}", process.name),
                    said: said.clone(),
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(|e| e.into_inner())
                .0;
        }
    }

    /// Asks all probes at once, from inside the slot; answers in their order. A probe that fails is an answer, not an error.
    pub fn probe(
        &self,
        probes: Vec<TextProbe>,
        timeout: Duration,
    ) -> Result<Vec<ProbeAnswer>, SlotError> {
        let doing = || "asking text probes".to_string();
        let timeout_ms = timeout.as_millis() as u64;
        match self
            .ask(
                Request::Probe { probes, timeout_ms },
                &doing,
                timeout + PATIENCE,
            )?
            .0
        {
            Reply::Probed(answers) => Ok(answers),
            _ => Err(odd(doing())),
        }
    }

    /// Drops exactly these packets from now on, replacing all cuts before, in one transaction. Returns the time from
    /// which the rules are in force, CLOCK_MONOTONIC ns.
    ///
    /// # Errors
    /// [`SlotError::Unavailable`] where [`Slot::kernel_cuts`] says no.
    pub fn cut(&self, rules: &CutRules) -> Result<u64, SlotError> {
        if let Err(why) = &self.cuts {
            return Err(SlotError::Unavailable {
                what: "a kernel cut",
                why: why.clone(),
            });
        }
        let doing = || format!("setting {} drop rules", rules.cuts.len());
        match self
            .ask(Request::Cut(rules.cuts.clone()), &doing, PATIENCE)?
            .0
        {
            Reply::Cut { t_ns } => Ok(t_ns),
            _ => Err(odd(doing())),
        }
    }

    /// Heals all cuts. Returns the time from which packets pass.
    pub fn uncut(&self) -> Result<u64, SlotError> {
        self.cut(&CutRules::default())
    }

    /// Every direction healed so far in this slot, oldest first, with the time of the first packet after it: what the
    /// run records as the time from stop to the first packet through. A heal counts from when its drop rule went.
    pub fn heals(&self) -> Result<Vec<Healed>, SlotError> {
        let doing = || "asking for heals".to_string();
        match self.ask(Request::Heals, &doing, PATIENCE)?.0 {
            Reply::Heals(heals) => Ok(heals),
            _ => Err(odd(doing())),
        }
    }

    /// The longest stalls of slot init's ticker; starts the next phase's count.
    pub fn stalls(&self) -> Result<Stalls, SlotError> {
        let doing = || "asking for stalls".to_string();
        match self.ask(Request::Stalls, &doing, PATIENCE)?.0 {
            Reply::Stalls(stalls) => Ok(stalls),
            _ => Err(odd(doing())),
        }
    }

    /// Kills everything in the slot and waits until it is gone.
    ///
    /// # Errors
    /// [`SlotError::NotGone`] if a process survives its SIGKILL (stuck in the kernel).
    pub fn close(mut self) -> Result<(), SlotError> {
        self.init.end()
    }

    fn ask(
        &self,
        request: Request,
        doing: &dyn Fn() -> String,
        limit: Duration,
    ) -> Result<(Reply, Option<OwnedFd>), SlotError> {
        let (sender, receiver): (Sender<Answer>, Receiver<Answer>) = channel();
        let id = {
            let mut state = self.shared.lock();
            if let Some(said) = &state.lost {
                return Err(SlotError::Lost {
                    doing: doing(),
                    said: said.clone(),
                });
            }
            state.next_id += 1;
            let id = state.next_id;
            state.waiting.insert(id, sender);
            // Sent under the lock: two threads' frames must not mix.
            if wire::send(self.init.socket.as_fd(), &Numbered { id, request }, None).is_err() {
                state.waiting.remove(&id); // the reader will say what happened
                drop(state);
                return Err(SlotError::Lost {
                    doing: doing(),
                    said: self.shared.last_words(),
                });
            }
            id
        };
        match receiver.recv_timeout(limit) {
            Ok((Ok(reply), fd)) => Ok((reply, fd)),
            Ok((Err(why), _)) => Err(SlotError::Refused {
                doing: doing(),
                why,
            }),
            Err(RecvTimeoutError::Disconnected) => Err(SlotError::Lost {
                doing: doing(),
                said: self.shared.last_words(),
            }),
            Err(RecvTimeoutError::Timeout) => {
                self.shared.lock().waiting.remove(&id);
                Err(SlotError::Silent {
                    doing: doing(),
                    seconds: limit.as_secs(),
                })
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock holds a map that is whole between any two statements: go on.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn last_words(&self) -> String {
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
                    state.known.remove(pid); // the number of an older, reaped process
                    state.kills.insert(*pid, Arc::default());
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
    fn start(config: &SlotConfig) -> Result<(Init, File), SlotError> {
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
    fn make(&mut self, setup: &Setup, stderr: &File) -> Result<Made, SlotError> {
        let lost = || SlotError::Lost {
            doing: format!("making a level {} slot", setup.level),
            said: words(stderr),
        };
        wire::send(self.socket.as_fd(), setup, None).map_err(|_| lost())?;
        if !readable_within(self.socket.as_fd(), PATIENCE) {
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
            Ok(Some(_)) => Err(odd("making a slot".into())),
            Ok(None) | Err(_) => Err(lost()),
        }
    }

    fn read_on(&mut self, shared: Arc<Shared>, stderr: File) -> Result<(), SlotError> {
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

    fn end(&mut self) -> Result<(), SlotError> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        // End of file asks init to end (level 3 kills and reaps its children first); the signal does not ask.
        let _ =
            nix::sys::socket::shutdown(self.socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd_kill(pidfd.as_fd());
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
        let pidfd = pidfd_open(self.child.id() as i32);
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
                    readable_within(fd.as_fd(), left);
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

fn odd(doing: String) -> SlotError {
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
    // SAFETY: a system call with a terminated name; the descriptor it returns is ours alone.
    unsafe {
        let fd = libc::memfd_create(c"slot-init-stderr".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(File::from_raw_fd(fd))
        }
    }
}

fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
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

fn pidfd_kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a live pidfd, a signal number, no siginfo, no flags.
    let r = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            libc::SIGKILL,
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

fn readable_within(fd: BorrowedFd<'_>, limit: Duration) -> bool {
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
