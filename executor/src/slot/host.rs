//! Warren's end of a slot: [`Slot`].
//!
//! Called by `run` and by what tries whether slots work here (`levels.rs`, `trial.rs`), from any thread. One reader thread per
//! slot sorts what init says into replies and exits. Kills and liveness go past init, by pidfd (`process.rs`): they must take
//! microseconds.

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::level3::{self, PlainSlot};
use super::started::{Answer, Init, PATIENCE, Shared, unexpected};
use super::wire::{self, Numbered, Reply, Request, Setup};
use super::{
    AtDump, CutRules, Exit, Healed, Level, ProbeAnswer, Process, SlotConfig, SlotError, SpawnSpec,
    Stalls, TextProbe,
};
use super::{namespaces, pidfd};

/// How long a dump or a restore may take; a large cluster on a slow disk needs some seconds.
const CRIU_PATIENCE: Duration = Duration::from_secs(60);

/// A tree of processes that can be dumped.
#[derive(Debug)]
pub struct Launched {
    /// Pid of its root, inside the slot.
    pub launcher: i32,
    /// In the order asked.
    pub processes: Vec<Process>,
}

/// A live slot. Dropping it kills everything in it and waits until it is gone.
#[derive(Debug)]
pub struct Slot {
    init: Init,
    host_pid: i32,
    root: PathBuf,
    shm: PathBuf,
    inside_root: PathBuf,
    inside_shm: PathBuf,
    second: u8,
    clock_offset: AtomicI64,
    cuts: Result<(), String>,
    notes: Vec<String>,
    shared: Arc<Shared>,
    /// Level 3's number and folders; after `init` in drop order, so that processes go first.
    #[allow(dead_code, reason = "held for its Drop")]
    plain: Option<PlainSlot>,
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
            clock_offset: config.clock_offset,
        };
        let images = match &config.images {
            Some(path) => Some(File::open(path).map_err(|source| SlotError::File {
                doing: "opening the folder of CRIU's images",
                path: path.clone(),
                source,
            })?),
            None => None,
        };
        let (mut init, stderr) = Init::start(config)?;
        if let Some(plain) = &plain {
            level3::note(&plain.state_file, init.child.id() as i32)?;
        }
        let (host_pid, cuts, notes) =
            init.make(&setup, images.as_ref().map(File::as_fd), &stderr)?;
        let (root, shm, inside_root, inside_shm) = match &plain {
            Some(p) => (p.root.clone(), p.shm.clone(), p.root.clone(), p.shm.clone()),
            None => {
                init.pidfd = Some(pidfd::open(host_pid).map_err(|source| SlotError::File {
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
            init,
            host_pid,
            root,
            shm,
            inside_root,
            inside_shm,
            second,
            clock_offset: AtomicI64::new(config.clock_offset.unwrap_or(0)),
            cuts,
            notes,
            shared,
            plain,
        })
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
        warren_model::address::of_node(self.second, i)
    }

    /// The slot's CLOCK_MONOTONIC, ns: the one clock of everything in it, and of whoever deals with it. A restored slot's is not
    /// the machine's.
    pub fn now_ns(&self) -> u64 {
        super::now_ns().saturating_add_signed(self.clock_offset.load(Ordering::SeqCst))
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

    /// Slot init's last words (` (...)`, or nothing) once it has ended, and everything in the slot with it. None = it lives.
    pub fn lost(&self) -> Option<String> {
        self.shared.lock().lost.clone()
    }

    /// Starts a process. It has been exec'ed when this returns.
    ///
    /// # Errors
    /// [`SlotError::Refused`] when program, folder or stdout cannot be used; nothing runs then.
    pub fn spawn(&self, spec: &SpawnSpec) -> Result<Process, SlotError> {
        let doing = || format!("starting {}", spec.name);
        let (reply, pidfd) = self.ask(Request::Spawn(spec.clone()), &doing, PATIENCE)?;
        let (Reply::Spawned { pid, spawned_ns }, Some(pidfd)) = (reply, pidfd) else {
            return Err(unexpected(doing()));
        };
        Ok(self.hold(&spec.name, pid, spawned_ns, pidfd))
    }

    /// Starts processes as one tree, which can be dumped. Their ends are not told before a restore: ask
    /// [`Slot::launched_exit`]. Level 1 only.
    ///
    /// # Errors
    /// [`SlotError::Refused`] when one of them cannot be started.
    pub fn launch(&self, specs: &[SpawnSpec]) -> Result<Launched, SlotError> {
        self.launch_tree(specs, None)
    }

    /// Starts one process as a tree apart, to be dumped and then restored into other slots beside what they hold: its pids begin at
    /// `first_pid`, which is to be far from all others there.
    ///
    /// # Errors
    /// As [`Slot::launch`].
    pub fn launch_apart(&self, spec: &SpawnSpec, first_pid: u32) -> Result<Launched, SlotError> {
        self.launch_tree(std::slice::from_ref(spec), Some(first_pid))
    }

    fn launch_tree(
        &self,
        specs: &[SpawnSpec],
        first_pid: Option<u32>,
    ) -> Result<Launched, SlotError> {
        let doing = || format!("starting {} processes below a launcher", specs.len());
        let request = Request::Launch {
            specs: specs.to_vec(),
            first_pid,
        };
        let (launcher, processes) =
            self.answer(request, &doing, PATIENCE, |reply| match reply {
                Reply::Launched {
                    launcher,
                    processes,
                } => Some((launcher, processes)),
                _ => None,
            })?;
        let named = specs.iter().zip(&processes);
        Ok(Launched {
            launcher,
            processes: named
                .map(|(spec, (pid, t))| self.adopt(&spec.name, *pid, *t))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Dumps a launched tree into the slot's folder of images, or into this folder below it. The tree is gone then, its files
    /// are as they were.
    ///
    /// # Errors
    /// [`SlotError::Refused`] with CRIU's own words.
    pub fn dump(&self, criu: &[String], launcher: i32, images: &str) -> Result<(), SlotError> {
        self.dump_tree(criu, launcher, images, false).map(drop)
    }

    /// The same of a tree whose processes were all told to stop ([`Process::stop`]). Once restored they are still stopped, and their
    /// clock goes on from the moment they stood still, however long the dump took. Returns that moment.
    ///
    /// # Errors
    /// As [`Slot::dump`], and when one of them does not stop.
    pub fn dump_stopped(
        &self,
        criu: &[String],
        launcher: i32,
        images: &str,
    ) -> Result<u64, SlotError> {
        self.dump_tree(criu, launcher, images, true)
    }

    fn dump_tree(
        &self,
        criu: &[String],
        launcher: i32,
        images: &str,
        stopped: bool,
    ) -> Result<u64, SlotError> {
        let doing = || "dumping the cluster".to_owned();
        let request = Request::Dump {
            criu: criu.to_vec(),
            launcher,
            images: images.to_owned(),
            stopped,
        };
        self.answer(request, &doing, CRIU_PATIENCE, |reply| match reply {
            Reply::Dumped { clock_ns } => Some(clock_ns),
            _ => None,
        })
    }

    /// Restores a dumped tree from the slot's folder of images, or from this folder below it: its processes go on, as children of
    /// slot init. Its files must have been put back. `processes` are those of the dump.
    ///
    /// # Errors
    /// [`SlotError::Refused`] with CRIU's own words; close the slot then, what there is of the tree is no cluster.
    pub fn restore(
        &self,
        criu: &[String],
        launcher: i32,
        images: &str,
        processes: &[AtDump],
    ) -> Result<Vec<Process>, SlotError> {
        self.restore_tree(criu, launcher, images, processes, false)
    }

    /// The same, but the launcher stays their parent: the tree can grow by [`Slot::launch`] and be dumped once more. Ends are not
    /// told: ask [`Slot::launched_exit`].
    ///
    /// # Errors
    /// As [`Slot::restore`].
    pub fn restore_to_dump(
        &self,
        criu: &[String],
        launcher: i32,
        images: &str,
        processes: &[AtDump],
    ) -> Result<Vec<Process>, SlotError> {
        self.restore_tree(criu, launcher, images, processes, true)
    }

    /// Restores a tree apart ([`Slot::launch_apart`]) beside what the slot holds: on the slot's clock (so its images are without
    /// [`super::CLOCK_IMAGE`]), and writing to `stdout`, as seen inside, instead of the file it had when it was dumped.
    ///
    /// # Errors
    /// As [`Slot::restore`]. Where slot init refused, nothing of the tree is left, and the slot is as good as before. After any other error
    /// there may be a process that nobody knows.
    pub fn restore_apart(
        &self,
        criu: &[String],
        launcher: i32,
        images: &str,
        process: &AtDump,
        stdout: &Path,
    ) -> Result<Process, SlotError> {
        let doing = || format!("restoring {}", process.name);
        let request = Request::Restore {
            criu: criu.to_vec(),
            launcher,
            images: images.to_owned(),
            keep: false,
            processes: vec![(process.pid_inside, process.name.clone())],
            joins: Some(stdout.to_owned()),
        };
        let old = self.shared.lock().forget(process.pid_inside);
        match self.ask(request, &doing, CRIU_PATIENCE) {
            Ok((Reply::Restored { .. }, _)) => self
                .adopt(&process.name, process.pid_inside, process.spawned_ns)
                .map_err(|e| SlotError::Stray {
                    doing: doing(),
                    why: e.to_string(),
                }),
            Ok(_) => Err(unexpected(doing())),
            Err(e) => {
                self.shared.lock().recall(process.pid_inside, old);
                Err(e)
            }
        }
    }

    fn restore_tree(
        &self,
        criu: &[String],
        launcher: i32,
        images: &str,
        processes: &[AtDump],
        keep: bool,
    ) -> Result<Vec<Process>, SlotError> {
        let doing = || "restoring the cluster".to_owned();
        let request = Request::Restore {
            criu: criu.to_vec(),
            launcher,
            images: images.to_owned(),
            keep,
            processes: processes
                .iter()
                .map(|p| (p.pid_inside, p.name.clone()))
                .collect(),
            joins: None,
        };
        let clock_offset = self.answer(request, &doing, CRIU_PATIENCE, |reply| match reply {
            Reply::Restored { clock_offset } => Some(clock_offset),
            _ => None,
        })?;
        self.clock_offset.store(clock_offset, Ordering::SeqCst);
        processes
            .iter()
            .map(|p| self.adopt(&p.name, p.pid_inside, p.spawned_ns))
            .collect()
    }

    /// A handle of a process that slot init did not start itself.
    fn adopt(&self, name: &str, pid: i32, spawned_ns: u64) -> Result<Process, SlotError> {
        let doing = || format!("taking hold of {name}");
        let (Reply::Pidfd, Some(pidfd)) = self.ask(Request::Pidfd(pid), &doing, PATIENCE)? else {
            return Err(unexpected(doing()));
        };
        Ok(self.hold(name, pid, spawned_ns, pidfd))
    }

    /// The handle of the process behind this pidfd. It shares the mark of our kills with whoever judges the end of that pid.
    fn hold(&self, name: &str, pid: i32, spawned_ns: u64, pidfd: OwnedFd) -> Process {
        let by_us = Arc::clone(self.shared.lock().kills.entry(pid).or_default());
        Process {
            name: name.to_owned(),
            pid_inside: pid,
            spawned_ns,
            pidfd: Arc::new(pidfd),
            by_us,
            seen_dead_ns: Arc::default(),
        }
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
        let request = Request::Probe { probes, timeout_ms };
        self.answer(request, &doing, timeout + PATIENCE, |reply| match reply {
            Reply::Probed(answers) => Some(answers),
            _ => None,
        })
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
        let request = Request::Cut(rules.cuts.clone());
        self.answer(request, &doing, PATIENCE, |reply| match reply {
            Reply::Cut { t_ns } => Some(t_ns),
            _ => None,
        })
    }

    /// Heals all cuts. Returns the time from which packets pass.
    pub fn uncut(&self) -> Result<u64, SlotError> {
        self.cut(&CutRules::default())
    }

    /// Every direction healed so far in this slot, oldest first, with the time of the first packet after it: what the
    /// run records as the time from stop to the first packet through. A heal counts from when its drop rule went.
    pub fn heals(&self) -> Result<Vec<Healed>, SlotError> {
        let doing = || "asking for heals".to_string();
        self.answer(Request::Heals, &doing, PATIENCE, |reply| match reply {
            Reply::Heals(heals) => Some(heals),
            _ => None,
        })
    }

    /// The longest stalls of slot init's ticker; starts the next phase's count.
    pub fn stalls(&self) -> Result<Stalls, SlotError> {
        let doing = || "asking for stalls".to_string();
        self.answer(Request::Stalls, &doing, PATIENCE, |reply| match reply {
            Reply::Stalls(stalls) => Some(stalls),
            _ => None,
        })
    }

    /// Kills everything in the slot and waits until it is gone.
    ///
    /// # Errors
    /// [`SlotError::NotGone`] if a process survives its SIGKILL (stuck in the kernel).
    pub fn close(mut self) -> Result<(), SlotError> {
        self.init.end()
    }

    /// What `of` takes out of the reply to this request, which comes without a descriptor.
    ///
    /// # Errors
    /// Those of [`Slot::ask`]; [`SlotError::Refused`] when `of` finds it to be another request's reply.
    pub(super) fn answer<T>(
        &self,
        request: Request,
        doing: &dyn Fn() -> String,
        limit: Duration,
        of: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<T, SlotError> {
        let (reply, _) = self.ask(request, doing, limit)?;
        of(reply).ok_or_else(|| unexpected(doing()))
    }

    /// The reply to this request, awaited for at most `limit`, with the descriptor that came along.
    ///
    /// # Errors
    /// [`SlotError::Refused`] with init's words, [`SlotError::Silent`] after the limit, [`SlotError::Lost`] when init is gone.
    fn ask(
        &self,
        request: Request,
        doing: &dyn Fn() -> String,
        limit: Duration,
    ) -> Result<(Reply, Option<OwnedFd>), SlotError> {
        let (sender, receiver): (Sender<Answer>, Receiver<Answer>) = bounded(1);
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
            let sent = wire::send(self.init.socket.as_fd(), &Numbered { id, request }, None);
            if let Err(e) = sent {
                state.waiting.remove(&id);
                drop(state);
                if e.kind() == io::ErrorKind::InvalidData {
                    // It cannot be said, and nothing of it was: init lives.
                    return Err(SlotError::Refused {
                        doing: doing(),
                        why: e.to_string(),
                    });
                }
                // The reader will say what happened.
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
