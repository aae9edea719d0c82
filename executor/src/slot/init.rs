//! Slot init: `warren __slot-init`, the process that owns a slot from the inside.
//!
//! Called by `main` of the binary before any thread exists. It makes the namespaces, becomes pid 1 (levels 1 and 2),
//! then serves its one socket (fd 0) on a single-threaded runtime: starts and reaps processes, asks text probes, drops
//! packets, counts stalls. End of file on the socket ends it, and with it everything in the slot. It takes no
//! decision of its own; of the files outside the slot it writes the level 3 state file and CRIU's images only.
//!
//! What is waited for with a sleep blocks all of it, so that nobody is probed or reaped until then: the launcher's answer (`tree.rs`),
//! a stopped tree that is to stand still (`still.rs`) and what its connections have on their way (`orphans.rs`). Only snapshots are made so.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stdin, dup2_stdout, fork, setsid};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::first_packet::HealWatch;
use super::namespaces::{self, StepError};
use super::nftables::KernelCuts;
use super::stall::{StallTracker, TICK_NS};
use super::tree::{self, Ended, Trees, children_of};
use super::wire::{self, Frames, FromInit, Numbered, Reply, Request, Setup};
use super::{Cut, Exit, Level, SpawnSpec, die_with, now_ns, orphans, pidfd, probe, still, traffic};

/// Exit codes of init, seen only in error texts.
const OK: i32 = 0;
const BAD_CALL: i32 = 2;
const NOT_MADE: i32 = 3;

/// The whole life of slot init. `args` are the arguments after `__slot-init` (none are used today).
///
/// Must be the first thing `main` does: a process with threads can enter no user namespace. Returns the exit code.
pub fn slot_init_main(_args: &[String]) -> i32 {
    close_inherited();
    let Some(socket) = take_socket() else {
        eprintln!("__slot-init is started by warren itself, with a socket as its stdin");
        return BAD_CALL;
    };
    die_with_parent();
    let _ = setsid();
    let (setup, images): (Setup, Option<OwnedFd>) = match wire::receive(socket.as_fd()) {
        Ok(Some(message)) => message,
        Ok(None) => return OK,
        Err(e) => {
            eprintln!("slot init: no set-up message: {e}");
            return BAD_CALL;
        }
    };
    if setup.level == Level::Plain {
        return serve(socket, setup, None, std::process::id() as i32, Vec::new());
    }
    if let Err(e) = namespaces::enter(setup.level, setup.clock_offset) {
        return refuse(&socket, e);
    }
    // SAFETY: the process has one thread, so the child may use everything.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => {
            drop(socket);
            wait_for(child)
        }
        Ok(ForkResult::Child) => pid_one(socket, setup, images),
        Err(e) => refuse(
            &socket,
            StepError {
                step: "forking pid 1".into(),
                why: e.to_string(),
                remedy: "check limits on processes and memory".into(),
            },
        ),
    }
}

/// Closes what Warren's caller left open: no process of a slot may hold a descriptor from outside. For the beginning of a process of
/// ours: it takes away whatever was opened above the standard ones.
pub(super) fn close_inherited() {
    // SAFETY: called before anything of this process has opened a descriptor above the standard ones.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

/// Takes fd 0 as the socket and puts /dev/null in its place. `None` if it is not a socket.
fn take_socket() -> Option<OwnedFd> {
    let stdin = io::stdin();
    nix::sys::socket::getsockname::<nix::sys::socket::UnixAddr>(stdin.as_raw_fd()).ok()?;
    let socket = stdin.as_fd().try_clone_to_owned().ok()?; // close-on-exec
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .ok()?;
    let _ = dup2_stdin(&null);
    let _ = dup2_stdout(&null);
    Some(socket)
}

fn die_with_parent() {
    let _ = set_pdeathsig(Signal::SIGKILL);
}

fn refuse(socket: &OwnedFd, e: StepError) -> i32 {
    let _ = wire::send(
        socket.as_fd(),
        &FromInit::Failed {
            step: e.step,
            why: e.why,
            remedy: e.remedy,
        },
        None,
    );
    NOT_MADE
}

/// The outer process: it stays only to be pid 1's parent (whose death pid 1 does not survive) and to be waited for.
fn wait_for(child: Pid) -> i32 {
    loop {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, code)) => return code,
            Ok(WaitStatus::Signaled(_, signal, _)) => return 128 + signal as i32,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return NOT_MADE,
        }
    }
}

fn pid_one(socket: OwnedFd, setup: Setup, images: Option<OwnedFd>) -> i32 {
    die_with_parent();
    // /proc is still the host's, so it tells our pid as Warren sees it.
    let host_pid = std::fs::read_link("/proc/self")
        .ok()
        .and_then(|p| p.to_str()?.parse().ok())
        .unwrap_or(0);
    let hosts: Vec<(String, Ipv4Addr)> = setup
        .names
        .iter()
        .enumerate()
        .map(|(i, n)| (n.clone(), warren_model::address::of_node(setup.second, i)))
        .collect();
    match namespaces::furnish(setup.root_bytes, setup.shm_bytes, &hosts) {
        Ok(notes) => serve(socket, setup, images, host_pid, notes),
        Err(e) => refuse(&socket, e),
    }
}

fn serve(
    socket: OwnedFd,
    setup: Setup,
    images: Option<OwnedFd>,
    host_pid: i32,
    notes: Vec<String>,
) -> i32 {
    // At level 3 orphans of the nodes come to us, so that we can kill them.
    let _ = set_child_subreaper(true);
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => {
            let e = StepError {
                step: "starting init's runtime".into(),
                why: e.to_string(),
                remedy: "check limits on open files".into(),
            };
            return refuse(&socket, e);
        }
    };
    let level = setup.level;
    let code = match runtime.block_on(Init::run(socket, setup, images, host_pid, notes)) {
        Ok(()) => OK,
        Err(e) => {
            eprintln!("slot init: {e}");
            NOT_MADE
        }
    };
    if level == Level::Plain {
        kill_everything_plain();
    }
    // At levels 1 and 2 the end of pid 1 kills every process of the namespace.
    code
}

/// Level 3: kills all children, again and again until none is left (orphans come to us as subreaper).
fn kill_everything_plain() {
    loop {
        for pid in children_of(Pid::this()) {
            let _ = killpg(pid, Signal::SIGKILL);
            let _ = kill(pid, Signal::SIGKILL);
        }
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

struct Init {
    stream: UnixStream,
    /// The same socket for sending, also from probe tasks.
    out: Arc<OwnedFd>,
    cuts: Result<KernelCuts, String>,
    /// The kernel ends connections that no process has.
    aborts: bool,
    /// Processes started here and not yet reaped.
    names: HashMap<i32, String>,
    trees: Trees,
    stalls: StallTracker,
    heals: HealWatch,
    state_file: Option<File>,
}

impl Init {
    async fn run(
        socket: OwnedFd,
        setup: Setup,
        images: Option<OwnedFd>,
        host_pid: i32,
        mut notes: Vec<String>,
    ) -> io::Result<()> {
        let cuts = trial(&setup);
        // Of use to who may be cut off only.
        let aborts = cuts.is_ok() && aborts(&mut notes);
        let out = Arc::new(socket.try_clone()?);
        let stream = StdUnixStream::from(socket);
        stream.set_nonblocking(true)?;
        let mut init = Init {
            stream: UnixStream::from_std(stream)?,
            out,
            cuts,
            aborts,
            names: HashMap::new(),
            trees: Trees::new(images),
            stalls: StallTracker::new(now_ns()),
            heals: HealWatch::default(),
            state_file: match &setup.state_file {
                Some(path) => Some(OpenOptions::new().append(true).open(path)?),
                None => None,
            },
        };
        // Before READY, so that no death is missed.
        let mut children = signal(SignalKind::child())?;
        let cuts = init.cuts.as_ref().map(|_| ()).map_err(String::clone);
        init.send(
            &FromInit::Ready {
                host_pid,
                cuts,
                notes,
            },
            None,
        )?;
        let mut ticker = tokio::time::interval(Duration::from_nanos(TICK_NS));
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut frames = Frames::default();
        loop {
            tokio::select! {
                biased;
                _ = children.recv() => init.reap()?,
                more = fill(&init.stream, &mut frames) => {
                    if !more? {
                        return Ok(());
                    }
                    let mut requests = VecDeque::new();
                    while let Some(request) = frames.next::<Numbered>()? {
                        requests.push_back(request);
                    }
                    for Numbered { id, request } in requests {
                        if matches!(request, Request::Close) {
                            return init.reply(id, Ok(Reply::Closing));
                        }
                        init.handle(id, request)?;
                    }
                }
                _ = ticker.tick() => init.tick(),
            }
        }
    }

    fn handle(&mut self, id: u64, request: Request) -> io::Result<()> {
        match request {
            Request::Spawn(spec) => match self.spawn(&spec) {
                Ok((pid, spawned_ns, pidfd)) => {
                    let reply = FromInit::Reply {
                        id,
                        result: Ok(Reply::Spawned { pid, spawned_ns }),
                    };
                    self.send(&reply, Some(pidfd.as_fd()))
                }
                Err(why) => self.reply(id, Err(why)),
            },
            Request::Probe { probes, timeout_ms } => {
                let out = Arc::clone(&self.out);
                tokio::spawn(async move {
                    let answers = probe::run_all(probes, Duration::from_millis(timeout_ms)).await;
                    let reply = FromInit::Reply {
                        id,
                        result: Ok(Reply::Probed(answers)),
                    };
                    if let Err(e) = wire::send(out.as_fd(), &reply, None) {
                        // All answers in one frame may be too long. A parent that is gone is noticed by the reading side.
                        let result = Err(e.to_string());
                        let _ = wire::send(out.as_fd(), &FromInit::Reply { id, result }, None);
                    }
                });
                Ok(())
            }
            Request::Cut(cuts) => {
                let result = self.cut(&cuts);
                self.reply(id, result)
            }
            Request::Hush(drops) => {
                let result = self.kernel(|kernel| kernel.hush(&drops));
                self.reply(id, result.map(|()| Reply::Hushed))
            }
            Request::Heals => {
                self.count();
                self.reply(id, Ok(Reply::Heals(self.heals.all())))
            }
            Request::Abort(addrs) => {
                let result = match self.aborts {
                    true => orphans::abort(&addrs).map_err(|e| format!("sock_diag: {e}")),
                    false => Ok(()),
                };
                self.reply(id, result.map(|()| Reply::Aborted))
            }
            Request::Owed { launcher } => {
                let owed = still::still_since(launcher).and_then(|_| tree::owed(launcher));
                self.reply(id, owed.map(Reply::Owed))
            }
            Request::CountTraffic(addrs) => {
                let result = self.kernel(|kernel| kernel.replace(&[], &traffic::rules(&addrs)));
                self.reply(id, result.map(|()| Reply::CountingTraffic))
            }
            Request::Traffic => {
                let counted = self.kernel(KernelCuts::counts);
                self.reply(id, counted.map(|c| Reply::Traffic(traffic::of(&c))))
            }
            Request::Stalls => {
                let stalls = self.stalls.take(now_ns());
                self.reply(id, Ok(Reply::Stalls(stalls)))
            }
            Request::Launch { specs, first_pid } => {
                let launched = self.trees.launch(&specs, first_pid);
                self.reply(id, launched)
            }
            Request::Dump {
                criu,
                launcher,
                images,
                stopped,
            } => match self.trees.dump(&criu, launcher, &images, stopped, id) {
                Ok(()) => Ok(()), // answered when CRIU has ended
                Err(why) => self.reply(id, Err(why)),
            },
            Request::Restore {
                criu,
                launcher,
                images,
                keep,
                processes,
                joins,
            } => match self
                .trees
                .restore(&criu, launcher, &images, keep, joins.as_deref(), id)
            {
                Ok(()) => {
                    // Before they exist: an end that comes early must find its name. A launcher that is kept reaps them itself.
                    if !keep {
                        self.names.extend(processes);
                    }
                    Ok(())
                }
                Err(why) => self.reply(id, Err(why)),
            },
            Request::Pidfd(pid) => match pidfd::open(pid) {
                Ok(fd) => {
                    let result = Ok(Reply::Pidfd);
                    self.send(&FromInit::Reply { id, result }, Some(fd.as_fd()))
                }
                Err(e) => self.reply(id, Err(format!("pidfd_open({pid}): {e}"))),
            },
            Request::Close => Ok(()), // handled by the loop
        }
    }

    fn cut(&mut self, cuts: &[Cut]) -> Result<Reply, String> {
        self.count(); // what a new set of rules would forget
        let counters = self.heals.counters(cuts);
        self.kernel(|kernel| kernel.replace(cuts, &counters))?;
        let t_ns = now_ns();
        self.heals.change(cuts, t_ns);
        Ok(Reply::Cut { t_ns })
    }

    /// Does something with the kernel's rules, where there are any.
    fn kernel<T>(
        &mut self,
        act: impl FnOnce(&mut KernelCuts) -> io::Result<T>,
    ) -> Result<T, String> {
        let kernel = self.cuts.as_mut().map_err(|why| why.clone())?;
        act(kernel).map_err(|e| format!("nf_tables: {e}"))
    }

    /// Every 10 ms: how late it is, and what the counters of healed links say.
    fn tick(&mut self) {
        self.stalls.tick(now_ns());
        self.trees.tick();
        self.count();
    }

    /// Reads the counters of healed links, while a first packet is awaited.
    fn count(&mut self) {
        if let Ok(kernel) = &mut self.cuts
            && self.heals.waits(now_ns())
            && let Ok(counts) = kernel.counts()
        {
            self.heals.counts(&counts, now_ns());
        }
    }

    fn spawn(&mut self, spec: &SpawnSpec) -> Result<(i32, u64, OwnedFd), String> {
        let mut command = command_of(spec)?;
        let init = Pid::this();
        // SAFETY: the closure makes system calls only, and allocates nothing.
        unsafe {
            command.pre_exec(move || {
                let _ = setsid();
                die_with(init);
                Ok(())
            });
        }
        let child = command.spawn().map_err(|e| not_started(spec, &e))?;
        let spawned_ns = now_ns();
        let pid = child.id() as i32; // reaped by `reap`, never through the handle
        let pidfd = pidfd::open(pid).map_err(|e| {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            format!("pidfd_open({pid}): {e}; Warren needs Linux 5.3 or later")
        })?;
        self.names.insert(pid, spec.name.clone());
        self.note_pid(pid);
        Ok((pid, spawned_ns, pidfd))
    }

    /// Level 3: one more line for the sweep of a later start.
    fn note_pid(&mut self, pid: i32) {
        if let Some(file) = &mut self.state_file {
            let line = super::level3::pid_line(pid);
            let _ = file.write_all(line.as_bytes());
        }
    }

    /// Reaps all that ended; strangers (orphans of the nodes) silently.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, ended)) = Ended::next() {
            if let Some((id, result)) = self.trees.reaped(pid.as_raw(), ended) {
                self.reply(id, result)?;
            }
            if let Some(name) = self.names.remove(&pid.as_raw()) {
                let (status, signal) = ended.told();
                let exit = Exit {
                    name,
                    pid: pid.as_raw(),
                    status,
                    signal,
                    t_ns: now_ns(),
                    by_us: false,
                };
                self.send(&FromInit::Exit(exit), None)?;
            }
        }
        Ok(())
    }

    fn reply(&self, id: u64, result: Result<Reply, String>) -> io::Result<()> {
        self.send(&FromInit::Reply { id, result }, None)
    }

    fn send(&self, message: &FromInit, pass: Option<BorrowedFd<'_>>) -> io::Result<()> {
        wire::send(self.out.as_fd(), message, pass)
    }
}

/// The command of a process, with its files opened and nothing inherited.
pub(super) fn command_of(spec: &SpawnSpec) -> Result<Command, String> {
    let (program, args) = spec
        .argv
        .split_first()
        .ok_or("argv is empty: name at least the program")?;
    let mut open = OpenOptions::new();
    let out = open.append(true).create(true).open(&spec.stdout);
    let out = out.map_err(|e| {
        format!(
            "opening stdout {}: {e}; create its folder first",
            spec.stdout.display()
        )
    })?;
    let err = out
        .try_clone()
        .map_err(|e| format!("opening stderr: {e}"))?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(spec.env.iter().map(|(k, v)| (k, v)))
        .current_dir(&spec.cwd);
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    Ok(command)
}

/// Why a command did not start, in words that name what must be there.
pub(super) fn not_started(spec: &SpawnSpec, e: &io::Error) -> String {
    format!(
        "starting {} in {} failed: {e}; both must exist inside the slot, where the host's /mnt and /dev/shm are hidden",
        spec.argv.first().map_or("", String::as_str),
        spec.cwd.display()
    )
}

/// Opens nf_tables and puts in, then takes out, one rule: the trial that tells whether cuts work here.
fn trial(setup: &Setup) -> Result<KernelCuts, String> {
    if setup.level == Level::Plain {
        return Err("level 3 has no network of its own".into());
    }
    if !setup.try_cuts {
        return Err("not asked for when the slot was opened".into());
    }
    KernelCuts::open().map_err(|e| format!("nf_tables: {e}"))
}

/// Tries whether the kernel ends connections that no process has. Where it does not, runs go on without that.
fn aborts(notes: &mut Vec<String>) -> bool {
    let Err(e) = orphans::trial() else {
        return true;
    };
    let without = "a machine that crashed closes its own in order when its cut ends";
    notes.push(format!(
        "ending connections that no process has (CONFIG_INET_DIAG_DESTROY): {e}, {without}"
    ));
    false
}

/// Reads what is there into `frames`; false at end of file. Safe to cancel.
async fn fill(stream: &UnixStream, frames: &mut Frames) -> io::Result<bool> {
    loop {
        stream.readable().await?;
        let mut piece = [0u8; 16384];
        match stream.try_read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(n) => {
                frames.push(&piece[..n]);
                return Ok(true);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}
