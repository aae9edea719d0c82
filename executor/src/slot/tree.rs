//! Process trees that CRIU can dump: started below a launcher, dumped, restored.
//!
//! Called by slot init only. Everything runs inside the slot, so no namespace is part of a dump (decision 0005). It knows
//! neither what the processes are nor what their files hold: files are put back before a restore by the caller.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sched::setns;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::launcher::awaited_signals;
use super::namespaces::{NEW_TIME, ROOT};
use super::wire::Reply;
use super::{Owed, SpawnSpec};
use super::{now_ns, orphans, sockets, still};

/// Pids of a tree begin above this: a restore takes the same ones again, and slot init's own helpers must not have them.
const FIRST_PID: u32 = 1000;
/// How long CRIU may take: ten JVMs on a busy machine take more than 5 s. On an image that is not whole it may wait for ever.
const LIMIT: Duration = Duration::from_secs(30);
/// Below ROOT: CRIU's logs, the launcher's orders. Not part of a snapshot.
const WORK: &str = ".criu";
/// How long the launcher may take to start what it was told to.
const LAUNCH_LIMIT: Duration = Duration::from_secs(10);
/// How often its answer is looked for.
const LAUNCH_TURN: Duration = Duration::from_micros(200);
/// By this signal the launcher learns that orders have come.
pub(super) const ORDERS_CAME: Signal = Signal::SIGUSR1;

/// What the launcher is told and what it answers, as JSON in a file each.
pub(super) type Orders = Vec<SpawnSpec>;
pub(super) type Answer = Result<Vec<(i32, u64)>, String>;

pub(super) fn orders_file() -> PathBuf {
    Path::new(ROOT).join(WORK).join("orders")
}

pub(super) fn answer_file() -> PathBuf {
    Path::new(ROOT).join(WORK).join("answer")
}

/// Where the launcher says what it has reaped; also for who sees ROOT elsewhere.
pub(super) fn reaped_file(root: &Path) -> PathBuf {
    root.join(WORK).join("reaped")
}

/// What slot init waits for before it answers.
enum Wait {
    /// CRIU, which dumps into this folder; since when the tree stands still, if it was stopped before.
    Dump {
        images: PathBuf,
        still_ns: Option<u64>,
    },
    /// CRIU, which restores; then the launcher's end, unless it is kept.
    Restore {
        launcher: i32,
        keep: bool,
        /// On the clock that there is.
        joins: bool,
    },
    LauncherGone {
        clock_offset: i64,
    },
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Exit(i32),
    Signal(i32),
}

impl Ended {
    /// The next child of this process that has ended, reaped; none when all live or there are none.
    pub(super) fn next() -> Option<(Pid, Ended)> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, status)) => return Some((pid, Ended::Exit(status))),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    return Some((pid, Ended::Signal(signal as i32)));
                }
                Ok(WaitStatus::StillAlive) => return None,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return None, // no children
            }
        }
    }

    /// Its status, or the signal that ended it.
    pub(super) fn told(self) -> (Option<i32>, Option<i32>) {
        match self {
            Ended::Exit(status) => (Some(status), None),
            Ended::Signal(signal) => (None, Some(signal)),
        }
    }
}

/// CRIU's runs, and the folder of its images.
pub(super) struct Trees {
    /// Shared with each CRIU that is being started: it keeps the descriptor open across exec.
    images: Option<Arc<OwnedFd>>,
    /// The launcher that takes orders.
    launcher: Option<i32>,
    /// By pid: (number of the request, what is waited for).
    waits: HashMap<i32, (u64, Wait)>,
    /// When the CRIU that runs now began.
    began: Option<Instant>,
    /// It was ended by us since, for it took too long.
    overdue: bool,
}

impl Trees {
    pub fn new(images: Option<OwnedFd>) -> Self {
        Trees {
            images: images.map(Arc::new),
            launcher: None,
            waits: HashMap::new(),
            began: None,
            overdue: false,
        }
    }

    /// Starts processes below the launcher, and it first if it is not there; with `first_pid` below a launcher of their own.
    pub fn launch(&mut self, specs: &[SpawnSpec], first_pid: Option<u32>) -> Result<Reply, String> {
        make_work()?;
        let launcher = match (first_pid, self.launcher) {
            (Some(first), _) => start_launcher(first)?,
            (None, Some(launcher)) => launcher,
            (None, None) => *self.launcher.insert(start_launcher(FIRST_PID)?),
        };
        let io = |e: std::io::Error| format!("telling the launcher: {e}");
        let answer = answer_file();
        match fs::remove_file(&answer) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(e)),
            _ => {}
        }
        let orders = serde_json::to_vec(specs).map_err(|e| e.to_string())?;
        fs::write(orders_file(), orders).map_err(io)?;
        kill(Pid::from_raw(launcher), ORDERS_CAME)
            .map_err(|e| format!("the launcher is gone: {e}"))?;
        let processes = answer_of_launcher(&answer)??;
        Ok(Reply::Launched {
            launcher,
            processes,
        })
    }

    /// Begins a dump into this folder below the images'; [`Trees::reaped`] gives the answer. Of a stopped tree the clock stops with it.
    pub fn dump(
        &mut self,
        criu: &[String],
        launcher: i32,
        images: &str,
        stopped: bool,
        id: u64,
    ) -> Result<(), String> {
        self.launcher = self.launcher.filter(|of| *of != launcher);
        let still_ns = stopped.then(|| still::still_since(launcher)).transpose()?;
        let tree = launcher.to_string();
        let what = ["dump", "-t", &tree, "-o", "dump.log"];
        let pid = self.start(criu, images, &what, None)?;
        let images = self.place_of(images)?;
        self.wait(pid, id, Wait::Dump { images, still_ns });
        Ok(())
    }

    /// A folder below that of the images, by the descriptor that came with the set-up.
    fn place_of(&self, below: &str) -> Result<PathBuf, String> {
        let images = self.images.as_ref();
        let fd = images
            .ok_or("this slot was opened without a folder for images")?
            .as_raw_fd();
        Ok(Path::new("/proc/self/fd").join(fd.to_string()).join(below))
    }

    /// Begins a restore; [`Trees::reaped`] gives the answer, after the launcher has ended if it is not to be kept.
    pub fn restore(
        &mut self,
        criu: &[String],
        launcher: i32,
        images: &str,
        keep: bool,
        joins: Option<&Path>,
        id: u64,
    ) -> Result<(), String> {
        let what = ["restore", "-d", "-o", "restore.log"];
        let pid = self.start(criu, images, &what, joins)?;
        let joins = joins.is_some();
        let wait = Wait::Restore {
            launcher,
            keep,
            joins,
        };
        self.wait(pid, id, wait);
        Ok(())
    }

    fn wait(&mut self, pid: i32, id: u64, wait: Wait) {
        self.waits.insert(pid, (id, wait));
        self.began = Some(Instant::now());
        self.overdue = false;
    }

    /// Ends a CRIU that does not end by itself.
    pub fn tick(&mut self) {
        if self.began.is_some_and(|t| t.elapsed() > LIMIT) {
            self.began = None;
            self.overdue = true;
            for pid in self.waits.keys() {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
        }
    }

    /// `in_place`: this file, opened anew, takes the place of the one of this name in the images, whatever its size was.
    fn start(
        &self,
        criu: &[String],
        below: &str,
        what: &[&str],
        in_place: Option<&Path>,
    ) -> Result<i32, String> {
        let images = self
            .images
            .clone()
            .ok_or("this slot was opened without a folder for images")?;
        let (program, first) = criu.split_first().ok_or("no CRIU named")?;
        let work = make_work()?;
        let mut command = Command::new(program);
        command
            .args(first)
            .args(what)
            .arg("-D")
            .arg(self.place_of(below)?)
            .arg("-W")
            .arg(&work)
            .args(["--tcp-established", "--network-lock", "skip"])
            .args(["--file-locks", "--link-remap", "--ghost-limit", "64M"])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let file = in_place.map(|path| {
            let mut open = fs::OpenOptions::new();
            let file = open.append(true).create(true).open(path);
            file.map_err(|e| format!("opening {}: {e}", path.display()))
        });
        let file = file.transpose()?;
        if let (Some(path), Some(file)) = (in_place, &file) {
            let fd = file.as_raw_fd();
            // CRIU names files from the root on, without its slash.
            let name = path.strip_prefix("/").unwrap_or(path).display();
            command.arg("--inherit-fd").arg(format!("fd[{fd}]:{name}"));
        }
        // SAFETY: the closure makes two system calls and allocates nothing; what it owns is dropped with `command`, not in the child.
        unsafe {
            command.pre_exec(move || {
                if let Some(file) = &file {
                    keep_open(file)?;
                }
                keep_open(&images)
            });
        }
        let child = command
            .spawn()
            .map_err(|e| format!("starting {program}: {e}"))?;
        Ok(child.id() as i32)
    }

    /// A child was reaped: the answer of the request that waited for it, if that is complete now.
    pub fn reaped(&mut self, pid: i32, ended: Ended) -> Option<(u64, Result<Reply, String>)> {
        let (id, wait) = self.waits.remove(&pid)?;
        self.began = None;
        let ok = ended == Ended::Exit(0);
        let ended = match ended {
            Ended::Signal(_) if self.overdue => format!("ended by us after {} s", LIMIT.as_secs()),
            Ended::Signal(signal) => format!("ended by signal {signal}"),
            Ended::Exit(status) => format!("exit status {status}"),
        };
        match wait {
            Wait::Dump { images, still_ns } if ok => Some((id, dumped(&images, still_ns))),
            Wait::Dump { .. } => Some((id, Err(last_words("dump", &ended)))),
            Wait::Restore {
                launcher,
                keep,
                joins,
            } if ok => {
                let clock = match joins {
                    true => same_clock(launcher),
                    false => join_clock(launcher),
                };
                let clock_offset = match clock {
                    Ok(offset) => offset,
                    Err(why) => return Some((id, Err(why))),
                };
                // A process that joins others was dumped before it had a connection.
                if !joins && let Err(why) = open_windows(launcher) {
                    return Some((id, Err(why)));
                }
                if keep {
                    self.launcher = Some(launcher);
                    return Some((id, Ok(Reply::Restored { clock_offset })));
                }
                // With it gone its children are ours: we reap them, and tell how they ended.
                let _ = kill(Pid::from_raw(launcher), Signal::SIGKILL);
                self.wait(launcher, id, Wait::LauncherGone { clock_offset });
                None
            }
            Wait::Restore {
                launcher, joins, ..
            } => {
                if joins {
                    end_tree(launcher); // the slot goes on, so nothing of it may
                }
                Some((id, Err(last_words("restore", &ended))))
            }
            Wait::LauncherGone { clock_offset } => Some((id, Ok(Reply::Restored { clock_offset }))),
        }
    }
}

/// What the launcher writes to this file, awaited. It blocks slot init, which probes and reaps nobody until then: only snapshots are made so.
fn answer_of_launcher(file: &Path) -> Result<Answer, String> {
    let until = Instant::now() + LAUNCH_LIMIT;
    let said = loop {
        match fs::read(file) {
            Ok(said) => break said,
            Err(_) if Instant::now() < until => std::thread::sleep(LAUNCH_TURN),
            Err(e) => {
                let limit = LAUNCH_LIMIT.as_secs();
                return Err(format!("no answer of the launcher within {limit} s: {e}"));
            }
        }
    };
    serde_json::from_slice(&said).map_err(|e| format!("the launcher's answer cannot be read: {e}"))
}

/// What no dump of the tree has.
pub(super) fn owed(launcher: i32) -> Result<Owed, String> {
    let by_nobody = orphans::owed().map_err(|e| format!("sock_diag: {e}"))?;
    let failed = sockets::failed(&children_of(Pid::from_raw(launcher)), |_| true)
        .map_err(|e| format!("looking at the sockets of the tree: {e}"))?;
    Ok(Owed { by_nobody, failed })
}

/// Of sockets that CRIU told that their other ends had closed.
fn open_windows(launcher: i32) -> Result<(), String> {
    let told = orphans::told_the_end().map_err(|e| format!("sock_diag: {e}"))?;
    if told.is_empty() {
        return Ok(());
    }
    sockets::open_windows(&children_of(Pid::from_raw(launcher)), &told)
        .map_err(|e| format!("letting sockets send whose other ends have closed: {e}"))
}

/// The tree goes on from when it stood still, else from the dump's end.
fn dumped(images: &Path, still_ns: Option<u64>) -> Result<Reply, String> {
    let clock_ns = match still_ns {
        Some(ns) => {
            still::set_clock(images, ns)?;
            ns
        }
        None => now_ns(),
    };
    Ok(Reply::Dumped { clock_ns })
}

fn make_work() -> Result<PathBuf, String> {
    let work = Path::new(ROOT).join(WORK);
    fs::create_dir_all(&work).map_err(|e| format!("making {}: {e}", work.display()))?;
    Ok(work)
}

/// Its pid; it is reaped with everything else.
fn start_launcher(first_pid: u32) -> Result<i32, String> {
    let last = "/proc/sys/kernel/ns_last_pid";
    fs::write(last, first_pid.to_string())
        .map_err(|e| format!("writing {first_pid} to {last}: {e}"))?;
    // By its name: through the link the program would be one of the machine's mounts, which no dump can name.
    let exe = fs::read_link("/proc/self/exe")
        .map_err(|e| format!("finding Warren's own program: {e}"))?;
    let mut command = Command::new(&exe);
    command
        .arg(super::SLOT_LAUNCHER)
        .env_clear()
        .current_dir(ROOT)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let awaited = awaited_signals();
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(move || awaited.thread_block().map_err(Into::into));
    }
    let child = command
        .spawn()
        .map_err(|e| format!("starting the launcher as {}: {e}", exe.display()))?;
    Ok(child.id() as i32)
}

/// It stays open across exec.
fn keep_open(fd: &impl AsFd) -> std::io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// CRIU gives a tree a time namespace of its own, in which CLOCK_MONOTONIC goes on from the dump to the nanosecond. We join it, and
/// with us all that we start: one clock for the whole slot. Returns how far it is ahead of the machine's, ns.
fn join_clock(launcher: i32) -> Result<i64, String> {
    let place = format!("/proc/{launcher}/ns/time");
    let file = fs::File::open(&place).map_err(|e| format!("opening {place}: {e}"))?;
    // A process with more threads than one may not.
    setns(&file, NEW_TIME).map_err(|e| {
        let e = std::io::Error::from(e);
        format!("joining the clock of the restored tree: {e}")
    })?;
    let place = format!("/proc/{launcher}/timens_offsets");
    let text = fs::read_to_string(&place).map_err(|e| format!("reading {place}: {e}"))?;
    offset_of(&text).ok_or_else(|| format!("{place}: no offset in `{}`", text.trim()))
}

/// A tree that joins must be on the clock that there is. One that is not is ended: its times would mean nothing. Nothing moves, so how
/// far the clock is ahead is not asked.
fn same_clock(launcher: i32) -> Result<i64, String> {
    let of = |pid: &str| {
        let place = format!("/proc/{pid}/ns/time");
        fs::read_link(&place).map_err(|e| format!("reading {place}: {e}"))
    };
    let clocks = of(&launcher.to_string()).and_then(|theirs| Ok((theirs, of("self")?)));
    let why = match clocks {
        Ok((theirs, ours)) if theirs == ours => return Ok(0),
        Ok((theirs, ours)) => format!(
            "CRIU gave what it restored a clock of its own ({} beside {})",
            theirs.display(),
            ours.display()
        ),
        Err(why) => why,
    };
    end_tree(launcher);
    Err(why)
}

fn end_tree(launcher: i32) {
    let launcher = Pid::from_raw(launcher);
    for pid in children_of(launcher).into_iter().chain([launcher]) {
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// What the process's main thread has started and what has come to it; nothing when it is gone.
pub(super) fn children_of(pid: Pid) -> Vec<Pid> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|p| p.parse().ok().map(Pid::from_raw))
        .collect()
}

/// `monotonic <s> <ns>`, where ns are never negative.
fn offset_of(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|l| l.strip_prefix("monotonic"))?;
    let mut words = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (words.next()?.ok()?, words.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// What CRIU's log says of its failure.
fn last_words(what: &str, ended: &str) -> String {
    let log = Path::new(ROOT).join(WORK).join(format!("{what}.log"));
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    format!("CRIU could not {what} ({ended}): {}", errors(&text))
}

/// The lines of a CRIU log that name an error, at most the first three.
fn errors(log: &str) -> String {
    let errors: Vec<&str> = log
        .lines()
        // Of its own limits it says so where there is nothing wrong.
        .filter(|l| l.contains("Error") && !l.contains("for self"))
        .map(str::trim)
        .take(3)
        .collect();
    match errors.is_empty() {
        true => "its log names no error".into(),
        false => errors.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_cut_to_its_errors() {
        let log = "(00.1) Dumping\n(00.1) Error (criu/util.c:2): rlimit: Can't setup for self\n(00.2) Error (criu/x.c:1): no\n(00.3) x\n(00.4) Error (y): 2\n";
        assert_eq!(
            errors(log),
            "(00.2) Error (criu/x.c:1): no; (00.4) Error (y): 2"
        );
        assert_eq!(errors("fine\n"), "its log names no error");
    }

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        for (text, want) in [
            (
                "monotonic          -5 524627769\nboottime -5 1\n",
                Some(-4_475_372_231),
            ),
            ("monotonic 0 0\n", Some(0)),
            ("monotonic 2 7\n", Some(2_000_000_007)),
            ("boottime 1 1\n", None),
            ("monotonic 1\n", None),
            ("", None),
        ] {
            assert_eq!(offset_of(text), want, "{text}");
        }
    }

    #[test]
    fn requests_are_answered_when_what_they_wait_for_has_ended() {
        let mut trees = Trees::new(None);
        assert!(
            trees
                .dump(&["criu".into()], 7, "", false, 1)
                .unwrap_err()
                .contains("without a folder")
        );
        let dump = |still_ns| Wait::Dump {
            images: "/nowhere".into(),
            still_ns,
        };
        trees.waits.insert(5, (1, dump(None)));
        trees.waits.insert(6, (2, dump(None)));
        trees.waits.insert(7, (4, dump(Some(1))));
        assert!(trees.reaped(4, Ended::Exit(0)).is_none(), "somebody else");
        assert!(matches!(
            trees.reaped(5, Ended::Exit(0)),
            Some((1, Ok(Reply::Dumped { .. })))
        ));
        let failed = trees.reaped(6, Ended::Signal(11));
        assert!(matches!(failed, Some((2, Err(why))) if why.contains("dump (ended by signal 11)")));
        trees.waits.insert(8, (5, dump(None)));
        trees.overdue = true;
        let killed = trees.reaped(8, Ended::Signal(9));
        assert!(matches!(killed, Some((5, Err(why))) if why.contains("(ended by us after 30 s)")));
        let no_clock = trees.reaped(7, Ended::Exit(0));
        assert!(matches!(no_clock, Some((4, Err(why))) if why.contains("setting the clock")));
        let gone = Wait::LauncherGone { clock_offset: -3 };
        trees.waits.insert(9, (3, gone));
        assert!(matches!(
            trees.reaped(9, Ended::Signal(9)),
            Some((3, Ok(Reply::Restored { clock_offset: -3 })))
        ));
    }
}
