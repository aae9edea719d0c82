//! Parked JVMs: of each node one that was dumped before its program's first line, with its classes loaded and its hot methods compiled
//! (decision 0011). A node that is started in a run, again or with a cold cluster, goes on from there instead of from nothing.
//!
//! Made once a runner, after its first snapshot; lies in the keeper. A JVM that cannot be restored so is started as usual by the
//! caller. It decides nothing about when a node starts, and runs nothing of the target: where a JVM would not wait, none is parked.

use super::super::made_once::hot;
use super::super::options::{RunError, RunOptions};
use super::super::{Runner, Start, lock};
use super::{PAUSE, place_of, sizes};
use crate::link::Word;
use crate::run::evidence::last_words;
use crate::run::nodes::cluster::Cluster;
use crate::run::nodes::commands::node_jars;
use crate::setup::criu::Criu;
use crate::slot::{AtDump, CLOCK_IMAGE, Launched, Process, Slot, SlotError, now_ns};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The agent's word that it waits.
const WAITS: &str = ".parked";
/// Pids of parked JVMs are far above those of any run, so many apart for their threads.
const FIRST_PID: u32 = 20_000;
const PIDS_EACH: u32 = 100;
/// The slot's clock when they are made: before that of any run that one may go on in, whose clock is the machine's or a little behind.
const CLOCK: Duration = Duration::from_secs(10);
/// How long a JVM may take until it waits, beside the target's own patience.
const PATIENCE: Duration = Duration::from_secs(30);
const TURN: Duration = Duration::from_millis(5);
/// Why a JVM runs its program instead of waiting (`warren.agent.Premain`).
const NOT_AHEAD: &str = "it does not wait: not all classes were instrumented ahead of time";
/// Restores that fail until none is tried any more.
const MAX_FAILURES: u32 = 3;

/// The parked JVMs of a target's nodes.
#[derive(Debug)]
pub(in crate::run) struct Parked {
    criu: Vec<String>,
    /// In the keeper; gone with it at the latest.
    folder: PathBuf,
    nodes: Vec<One>,
    failures: AtomicU32,
    /// The last of them.
    failed: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct One {
    folder: PathBuf,
    images: BTreeMap<String, u64>,
    launcher: i32,
    process: AtDump,
}

/// Why there are none.
#[derive(Debug)]
pub(in crate::run) struct Refused {
    why: String,
    at: Instant,
    /// Another try comes to the same.
    lasting: bool,
    told: bool,
}

impl Refused {
    fn new(why: impl Into<String>, lasting: bool) -> Self {
        Refused {
            why: why.into(),
            at: Instant::now(),
            lasting,
            told: false,
        }
    }

    pub fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// No other try is made now. One takes the lock of all snapshots for as long as it lasts.
    pub fn stands(&self, now: Instant) -> bool {
        self.lasting || now.saturating_duration_since(self.at) < PAUSE
    }

    /// For a run that does without. What lasts is no news after the first one.
    pub fn tell(&mut self) -> Option<String> {
        let again = std::mem::replace(&mut self.told, true);
        (!self.lasting || !again).then(|| self.why.clone())
    }
}

impl From<RunError> for Refused {
    fn from(e: RunError) -> Self {
        Refused::new(e.to_string(), e.is_lasting())
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Parked {
    /// Parks one JVM for each node, below this folder of the keeper.
    ///
    /// # Errors
    /// With the node and what it said; nobody needs parked JVMs, so this ends nothing.
    pub(super) fn make(
        runner: &Runner,
        criu: &Criu,
        folder: &Path,
        asked: &RunOptions,
    ) -> Result<Self, Refused> {
        let mut parked = Parked {
            criu: criu.argv.clone(),
            folder: folder.to_owned(),
            nodes: Vec::new(),
            failures: AtomicU32::new(0),
            failed: Mutex::default(),
        };
        let mut config = runner.slot_config();
        config.try_cuts = false;
        config.clock_offset = Some(clock_offset(now_ns()));
        config.images = Some(place_of(folder).0);
        let options = RunOptions {
            stop: asked.stop.clone(),
            give_up: asked.give_up.clone(),
            ..RunOptions::default()
        };
        // The same as where a tree is launched: with classes still to be changed an agent waits for nothing.
        if node_jars(&runner.prepared, &options).1.is_empty() {
            return Err(Refused::new(NOT_AHEAD, true));
        }
        let slot = Slot::open(&config).map_err(|e| RunError::Slot(e.to_string()))?;
        let cluster = Cluster::new(
            &runner.prepared,
            &options,
            &slot,
            runner.config.map_size,
            &runner.config.background,
            Start::Boot,
        )?;
        let launched = launch(&slot, &cluster)?;
        let until = Instant::now() + runner.prepared.target().ready.timeout + PATIENCE;
        for i in 0..launched.len() {
            wait(&cluster, i, &launched, until)?;
        }
        for (i, one) in launched.iter().enumerate() {
            let folder = folder.join(cluster.nodes[i].name.as_str());
            parked.nodes.push(dump(&slot, &parked, one, &folder)?);
        }
        slot.close().map_err(|e| RunError::Slot(e.to_string()))?;
        Ok(parked)
    }

    /// The JVM of node `i` goes on in a slot whose folder of images is the keeper's, and writes to `stdout`, as seen inside.
    ///
    /// # Errors
    /// The inner one: the reason, for people; nothing of the JVM is there then. [`RunError::Slot`]: it may be there, so no other may be started.
    pub fn go_on(
        &self,
        slot: &Slot,
        i: usize,
        stdout: &Path,
    ) -> Result<Result<Process, String>, RunError> {
        let one = &self.nodes[i];
        let process = AtDump {
            spawned_ns: slot.now_ns(),
            ..one.process.clone()
        };
        let restored = match super::whole(&one.folder.join("img"), &one.images) {
            Err(why) => Err(why),
            Ok(()) => {
                let (_, images) = inside(&one.folder);
                match slot.restore_apart(&self.criu, one.launcher, &images, &process, stdout) {
                    Ok(process) => Ok(process),
                    Err(e) if nothing_is_there(&e) => Err(e.to_string()),
                    Err(e) => {
                        self.did_not_go_on();
                        return Err(RunError::Slot(e.to_string()));
                    }
                }
            }
        };
        match &restored {
            Ok(_) => self.failures.store(0, Ordering::Relaxed),
            Err(_) => self.did_not_go_on(),
        }
        Ok(restored)
    }

    fn did_not_go_on(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *lock(&self.failed) = Some(Instant::now());
    }

    /// The folder that a slot must be opened with for them to go on there.
    pub fn images(&self) -> PathBuf {
        place_of(&self.folder).0
    }

    /// Whether it is worth trying.
    pub fn works(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < MAX_FAILURES
    }

    /// It failed just now: a machine that was busy may not be later.
    pub fn left_alone(&self, now: Instant) -> bool {
        let failed = *lock(&self.failed);
        failed.is_some_and(|at| now.saturating_duration_since(at) < PAUSE)
    }
}

/// So that the slot's clock says [`CLOCK`] when the machine's says `now` ns.
fn clock_offset(now: u64) -> i64 {
    let then = i64::try_from(CLOCK.as_nanos()).unwrap_or(i64::MAX);
    (then - i64::try_from(now).unwrap_or(i64::MAX)).min(0)
}

/// (The keeper's root, where below it the images are) of the folder of one node, which is two below the root.
fn inside(folder: &Path) -> (PathBuf, String) {
    let all = folder.parent().unwrap_or(folder);
    let (root, _) = place_of(all);
    let name = |p: &Path| {
        p.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    (root, format!("{}/{}/img", name(all), name(folder)))
}

/// Starts them all, each told to wait.
fn launch(slot: &Slot, cluster: &Cluster<'_>) -> Result<Vec<Launched>, RunError> {
    let mut all = Vec::new();
    for (i, node) in cluster.nodes.iter().enumerate() {
        let mut spec = cluster.node_spec(node);
        hot::ask(
            cluster.prepared,
            hot::Of::Nodes,
            &node.dir,
            hot::WAITING,
            &mut spec,
        )?;
        let first = FIRST_PID + PIDS_EACH * u32::try_from(i).unwrap_or(0);
        let one = slot
            .launch_apart(&spec, first)
            .map_err(|e| RunError::Slot(e.to_string()))?;
        all.push(one);
    }
    Ok(all)
}

/// What is to be seen of a JVM that does not wait.
#[derive(Clone, Copy, Debug)]
struct NotWaiting {
    /// Its agent is beyond the place where it waits: the program runs.
    passed: bool,
    ended: bool,
    late: bool,
    /// All live, and none waits.
    none_waits: bool,
    to_end: bool,
}

impl NotWaiting {
    /// Why it will not, and whether no other would either; None as long as it still may.
    fn in_vain(self) -> Option<(&'static str, bool)> {
        // One that runs its program may end any time, and would run it again.
        if self.passed {
            Some((NOT_AHEAD, true))
        } else if self.ended {
            Some(("it ended", false))
        } else if self.late {
            Some(("it does not wait in time", self.none_waits))
        } else {
            self.to_end.then_some(("stopped", false))
        }
    }
}

/// Until the JVM of node `i` waits.
fn wait(cluster: &Cluster<'_>, i: usize, all: &[Launched], until: Instant) -> Result<(), Refused> {
    let node = &cluster.nodes[i];
    let ended = |one: &Launched| one.processes.iter().any(Process::is_dead);
    loop {
        // Looked at before its word: what waits by then has not passed.
        let passed = node.page.word(Word::AgentState) != 0;
        if node.dir.join(WAITS).exists() {
            return Ok(());
        }
        let late = Instant::now() > until;
        let seen = NotWaiting {
            passed,
            ended: ended(&all[i]),
            late,
            none_waits: late
                && !all.iter().any(ended)
                && !cluster.nodes.iter().any(|n| n.dir.join(WAITS).exists()),
            to_end: cluster.options.to_end(),
        };
        let Some((why, lasting)) = seen.in_vain() else {
            std::thread::sleep(TURN);
            continue;
        };
        let said = last_words::of(&node.dir.join("stdout"), 3);
        let why = format!(
            "parking the JVM of {}: {why}; its last lines: {said}",
            node.name
        );
        return Err(Refused::new(why, lasting));
    }
}

fn dump(slot: &Slot, all: &Parked, one: &Launched, folder: &Path) -> Result<One, RunError> {
    let doing = |e: std::io::Error| RunError::io("keeping a parked JVM", e);
    let images = folder.join("img");
    std::fs::create_dir_all(&images).map_err(doing)?;
    let process = one
        .processes
        .first()
        .map(AtDump::from)
        .ok_or_else(|| RunError::io("keeping a parked JVM", "the launcher started none"))?;
    slot.dump(&all.criu, one.launcher, &inside(folder).1)
        .map_err(|e| RunError::Slot(e.to_string()))?;
    // It joins a run, on that run's clock.
    std::fs::remove_file(images.join(CLOCK_IMAGE)).map_err(doing)?;
    Ok(One {
        images: sizes(&images).map_err(doing)?,
        folder: folder.to_owned(),
        launcher: one.launcher,
        process,
    })
}

/// After this error of a restore the JVM is surely not there, and another one may be started in its place.
fn nothing_is_there(e: &SlotError) -> bool {
    matches!(e, SlotError::Refused { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two JVMs of one node would look like a bug of the target's.
    #[test]
    fn only_a_refused_restore_leaves_room_for_another_jvm() {
        let doing = || "restoring n1".to_owned();
        let why = || "no such process".to_owned();
        let table = [
            (
                SlotError::Refused {
                    doing: doing(),
                    why: why(),
                },
                true,
            ),
            (
                SlotError::Stray {
                    doing: doing(),
                    why: why(),
                },
                false,
            ),
            (
                SlotError::Silent {
                    doing: doing(),
                    seconds: 60,
                },
                false,
            ),
            (
                SlotError::Lost {
                    doing: doing(),
                    said: String::new(),
                },
                false,
            ),
        ];
        for (e, expect) in table {
            assert_eq!(nothing_is_there(&e), expect, "{e}");
        }
    }

    #[test]
    fn what_never_waits_is_not_waited_for_again() {
        let in_time = "it does not wait in time";
        let (y, n) = (true, false);
        for ([passed, ended, late, none_waits, to_end], want) in [
            ([n, n, n, n, n], None),
            ([n, y, y, n, n], Some(("it ended", false))),
            ([y, n, n, n, n], Some((NOT_AHEAD, true))),
            ([y, y, n, n, n], Some((NOT_AHEAD, true))),
            ([n, n, y, n, n], Some((in_time, false))),
            ([n, n, y, y, n], Some((in_time, true))),
            ([n, n, n, n, y], Some(("stopped", false))),
        ] {
            let seen = NotWaiting {
                passed,
                ended,
                late,
                none_waits,
                to_end,
            };
            assert_eq!(seen.in_vain(), want, "{seen:?}");
        }
    }

    #[test]
    fn a_refusal_that_lasts_is_told_once_and_stands() {
        let template = RunError::Template {
            file: "a".into(),
            why: "b".into(),
        };
        // Told twice; whether it stands after the pause.
        for (mut refused, told, stands) in [
            (Refused::new("why", true), [true, false], true),
            (Refused::new("why", false), [true, true], false),
            (RunError::Slot("why".into()).into(), [true, true], false),
            (template.into(), [true, false], true),
        ] {
            let said = [(); 2].map(|()| refused.tell().is_some());
            assert_eq!(said, told, "{refused:?}");
            assert!(refused.stands(refused.at));
            assert_eq!(refused.stands(refused.at + PAUSE), stands, "{refused:?}");
            assert_eq!(refused.is_lasting(), stands);
        }
    }

    #[test]
    fn the_clock_they_are_made_on_is_before_any_runs() {
        let s = 1_000_000_000;
        assert_eq!(clock_offset(100 * s), -90_000_000_000);
        assert_eq!(clock_offset(10 * s), 0);
        assert_eq!(clock_offset(s), 0, "never ahead of the machine's");
    }

    #[test]
    fn images_lie_two_below_the_keepers_root() {
        assert_eq!(
            inside(Path::new("/k/root/parked-3/zk1")),
            (PathBuf::from("/k/root"), "parked-3/zk1/img".into())
        );
    }
}
