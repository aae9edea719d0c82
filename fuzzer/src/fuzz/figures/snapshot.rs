//! What the screen shows: one plain struct behind a mutex, written by the loop, cloned by the screen at its own clock. Beside it the
//! two wishes that go the other way: pause, and give up the run that is going on.

use crate::campaign::KeptFinding;
use crate::campaign::{InjectedRates, Spared};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use warren_executor::{NodeStatus, RunProgress};
use warren_model::FailureKind;

/// A node as far as the loop knows it at the end of the last run, or live where the executor tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeState {
    pub name: String,
    pub role: String,
    /// `absent`, `starting`, `alive`, `held`, `cut`, `dead` (killed by us), `exited` (by itself), or empty when unknown.
    pub state: String,
    /// Number of its JVM in this run, 0 before the first.
    pub incarnation: u8,
    /// Its logs while the run goes on.
    #[serde(skip)]
    pub logs: Vec<PathBuf>,
}

/// The run that is going on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CurrentRun {
    /// `learning 2/5`, `fuzzing`, `retest`, `confirming 1/3`.
    pub doing: String,
    /// One line per fault: kind, node, point's label.
    pub faults: Vec<String>,
    /// Kinds in order: `crash+reboot`.
    pub kinds: String,
    /// Phase of the run, where the executor tells (`start`, `test`, ...).
    pub phase: String,
    /// When this phase began.
    #[serde(skip)]
    pub phase_since: Option<Instant>,
    /// Phases that are over, and their ms.
    pub phases_ms: Vec<(String, u64)>,
    /// Faults done; the next one is awaited when `awaited` says so.
    pub injected: usize,
    pub awaited: bool,
    /// Why the strategy took it: `new fault id; score 240 of 3100`.
    pub why: String,
    /// Corpus id of the seed run.
    pub seed_run: Option<u64>,
    /// Since the run began; the screen counts on from here.
    #[serde(skip)]
    pub since: Option<Instant>,
}

/// What a line of the list of finds tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindKind {
    Finding,
    Known,
    Hang,
    Coverage,
    State,
    Unknown,
    Skipped,
}

impl FindKind {
    /// That of a failure that stands; `known`: by a known bug.
    #[must_use]
    pub fn of_failure(kind: FailureKind, known: bool) -> Self {
        match kind {
            _ if known => FindKind::Known,
            FailureKind::Hang => FindKind::Hang,
            FailureKind::Safety | FailureKind::Liveness => FindKind::Finding,
        }
    }

    /// As on the screen and in every file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FindKind::Finding => "finding",
            FindKind::Known => "known",
            FindKind::Hang => "hang",
            FindKind::Coverage => "coverage",
            FindKind::State => "state",
            FindKind::Unknown => "unknown",
            FindKind::Skipped => "skipped",
        }
    }
}

/// One line of the list of finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindLine {
    /// Fuzzing time, ms.
    pub at_ms: u64,
    pub what: FindKind,
    pub text: String,
}

/// Everything a screen needs, true at the moment of writing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    pub target: String,
    /// The instance folder: the screen reads lists that grow for weeks (queue/, findings/) from there.
    pub folder: PathBuf,
    /// The loop waits for key `p`; run time stands still.
    #[serde(skip)]
    pub paused_since: Option<Instant>,
    /// Findings that stand, with k of n.
    #[serde(skip)]
    pub kept_findings: Vec<KeptFinding>,
    /// Of these, the known bugs: their numbers, and what they are.
    #[serde(skip)]
    pub known: BTreeMap<u64, String>,
    pub strategy: String,
    pub seed: u64,
    /// Before the first fuzzed run.
    pub learning: bool,
    #[serde(skip)]
    pub started: Option<Instant>,
    /// The first fuzzed run began; run time counts from here.
    #[serde(skip)]
    pub fuzz_started: Option<Instant>,
    /// ms of fuzzing so far; the screen may prefer `fuzz_started`.
    pub run_time_ms: u64,
    pub learning_ms: u64,
    /// All runs.
    pub execs: u64,
    /// Sequences tested, each try once.
    pub sequences: u64,
    /// Runs per second of fuzzing time, over all and over the last minute.
    pub execs_per_sec: f64,
    pub execs_last_minute: f64,
    pub corpus: u64,
    /// Untried occurrences over all classes.
    pub pending: u64,
    /// Classes not yet exhausted.
    pub classes: u64,
    /// Kept runs of other instances taken in, and the instances that share the work now (`-M`, `-S`).
    pub imported: u64,
    pub others: u64,
    /// Slots set by any run / map size / slots of the fault-free runs.
    pub coverage: u64,
    pub map_size: u64,
    pub coverage_fault_free: u64,
    /// Share of slots equal in all learning runs, 0..=100.
    pub stability: f64,
    /// Findings that stand (hangs apart), runs that failed in all.
    pub findings: u64,
    pub failing_runs: u64,
    pub hangs: u64,
    pub unknowns: u64,
    pub voids: u64,
    pub timeouts: u64,
    pub spared: Spared,
    pub max_depth: u64,
    /// ms of fuzzing time; none = never.
    pub last_find_ms: Option<u64>,
    pub last_crash_ms: Option<u64>,
    pub last_hang_ms: Option<u64>,
    /// The run of slot 0, whose nodes are shown.
    pub current: CurrentRun,
    pub nodes: Vec<NodeState>,
    /// The runs of the slots beside it, empty ones where none goes on; none at `-j 1`.
    pub beside: Vec<CurrentRun>,
    pub injected: InjectedRates,
    /// Why the rest of a sequence did not happen: (reason, runs).
    pub not_injected: Vec<(String, u64)>,
    /// Mean ms of (slot, start, setup, test, degraded, heal, final, collect, total) over fuzzed runs.
    pub phase_means_ms: Vec<(String, u64)>,
    /// Newest last; at most 50.
    pub finds: Vec<FindLine>,
    /// A message to show, such as what stopping waits for.
    pub message: String,
    /// The newest line that the campaign said, for a while. The screen fills it in.
    pub news: String,
    /// Lines to print once, in order, with `--no-ui` (findings, learning); the reader drains them.
    pub lines: Vec<String>,
    /// The campaign has ended.
    pub ended: bool,
}

/// What the executor tells while the run of a slot goes on.
pub fn show_progress(snapshot: &SharedSnapshot, slot: usize, progress: &RunProgress) {
    let state = |n: &warren_executor::NodeProgress| match n.status {
        NodeStatus::Absent => "absent",
        NodeStatus::Starting => "starting",
        NodeStatus::Held => "held",
        NodeStatus::Dead => "dead",
        NodeStatus::Exited => "exited",
        NodeStatus::Serving if progress.cut.contains(&n.name) => "cut",
        NodeStatus::Serving => "alive",
    };
    let nodes = progress
        .nodes
        .iter()
        .map(|n| NodeState {
            name: n.name.to_string(),
            role: n.role.clone().unwrap_or_default(),
            state: state(n).into(),
            incarnation: n.incarnation,
            logs: n.logs.clone(),
        })
        .collect();
    let phase = progress.phase.to_string();
    let now = Instant::now();
    snapshot.with(|s| {
        let Some(c) = s.run_of(slot) else {
            return;
        };
        if c.phase != phase {
            let began = c.phase_since.or(c.since).unwrap_or(now);
            let name = std::mem::replace(&mut c.phase, phase);
            // What comes before the first phase: the slot is made.
            let name = if name.is_empty() { "slot".into() } else { name };
            let ms = now.saturating_duration_since(began).as_millis();
            c.phases_ms
                .push((name, u64::try_from(ms).unwrap_or(u64::MAX)));
            c.phase_since = Some(now);
        }
        c.injected = progress.injected;
        c.awaited = progress.awaited.is_some();
        if slot == 0 {
            s.nodes = nodes;
        }
    });
}

impl CurrentRun {
    /// A failure is asked for again.
    fn is_replay(&self) -> bool {
        self.doing.starts_with("confirming")
    }
}

impl Snapshot {
    /// The run to tell of where there is room for one: a replay, which all else may wait for while what ended before it still stands in its
    /// slot; else what slot 0 does.
    #[must_use]
    pub fn foremost(&self) -> &CurrentRun {
        let mut all = std::iter::once(&self.current).chain(&self.beside);
        all.find(|c| c.is_replay()).unwrap_or(&self.current)
    }

    /// How many of the known bugs are of such a kind.
    #[must_use]
    pub fn known_of(&self, kind: fn(FailureKind) -> bool) -> u64 {
        let of = |f: &&KeptFinding| self.known.contains_key(&f.number) && kind(f.kind);
        self.kept_findings.iter().filter(of).count() as u64
    }

    /// What is shown of the run of a slot.
    pub fn run_of(&mut self, slot: usize) -> Option<&mut CurrentRun> {
        match slot.checked_sub(1) {
            None => Some(&mut self.current),
            Some(beside) => self.beside.get_mut(beside),
        }
    }
}

/// What the keys ask of the loop.
#[derive(Debug, Default)]
struct Wishes {
    pause: AtomicBool,
    /// One of each run that goes on.
    give_up: Mutex<Vec<Weak<AtomicBool>>>,
}

/// A snapshot shared by the loop and the screen, and the screen's wishes.
#[derive(Clone, Debug, Default)]
pub struct SharedSnapshot {
    shown: Arc<Mutex<Snapshot>>,
    wishes: Arc<Wishes>,
}

impl SharedSnapshot {
    /// Change it. Held for microseconds; a panic elsewhere does not lose it.
    pub fn with<R>(&self, f: impl FnOnce(&mut Snapshot) -> R) -> R {
        f(&mut self.guard())
    }

    /// A copy for the screen.
    #[must_use]
    pub fn get(&self) -> Snapshot {
        self.guard().clone()
    }

    /// Takes the lines to print.
    #[must_use]
    pub fn drain_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.guard().lines)
    }

    /// Key `p`: pause before the next run, or go on. Answers whether a pause is wished now.
    pub fn toggle_pause(&self) -> bool {
        !self.wishes.pause.fetch_xor(true, Ordering::SeqCst)
    }

    /// Whether a pause is wished.
    #[must_use]
    pub fn pause_wished(&self) -> bool {
        self.wishes.pause.load(Ordering::SeqCst)
    }

    /// Key `n`: what is going on is to end, in every slot. Without a run it is a wish of nothing.
    pub fn give_up_run(&self) {
        for flag in self.going_on().iter().filter_map(Weak::upgrade) {
            flag.store(true, Ordering::SeqCst);
        }
    }

    /// A run is about to start: its own flag, which an older wish does not reach.
    #[must_use]
    pub fn begin_run(&self) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut going_on = self.going_on();
        going_on.retain(|f| f.strong_count() > 0);
        going_on.push(Arc::downgrade(&flag));
        flag
    }

    fn going_on(&self) -> MutexGuard<'_, Vec<Weak<AtomicBool>>> {
        self.wishes
            .give_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Before each run: returns at once, or when a wished pause is over or `stopping` holds. Answers how long it was.
    pub fn wait_while_paused(&self, stopping: impl Fn() -> bool) -> Duration {
        if !self.pause_wished() {
            return Duration::ZERO;
        }
        let began = Instant::now();
        self.with(|s| s.paused_since = Some(began));
        while self.pause_wished() && !stopping() {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.with(|s| s.paused_since = None);
        began.elapsed()
    }

    fn guard(&self) -> MutexGuard<'_, Snapshot> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_executor::NodeProgress;
    use warren_model::{NodeName, Phase};

    #[test]
    fn progress_is_shown_with_cut_nodes_and_the_time_of_each_phase() {
        let shared = SharedSnapshot::default();
        let node = |name: &str, status| NodeProgress {
            name: NodeName::from(name),
            role: Some("follower".into()),
            status,
            incarnation: 1,
            logs: vec!["/x/stdout".into()],
        };
        let mut p = RunProgress {
            phase: Phase::Start,
            elapsed: Duration::ZERO,
            nodes: vec![
                node("a", NodeStatus::Serving),
                node("b", NodeStatus::Serving),
                node("c", NodeStatus::Dead),
            ],
            awaited: Some("crash".into()),
            injected: 0,
            asked: 2,
            cut: vec![NodeName::from("b"), NodeName::from("c")],
        };
        show_progress(&shared, 0, &p);
        show_progress(&shared, 0, &p);
        p.phase = Phase::Test;
        p.injected = 1;
        show_progress(&shared, 0, &p);
        let s = shared.get();
        let states: Vec<&str> = s.nodes.iter().map(|n| n.state.as_str()).collect();
        assert_eq!(states, ["alive", "cut", "dead"]);
        let phases: Vec<&str> = s
            .current
            .phases_ms
            .iter()
            .map(|(n, _)| n.as_str())
            .collect();
        assert_eq!(phases, ["slot", "start"]);
        assert_eq!((s.current.phase.as_str(), s.current.injected), ("test", 1));
        assert!(s.current.awaited && s.current.phase_since.is_some());
    }

    #[test]
    fn a_pause_lasts_until_it_is_taken_back_or_the_campaign_ends() {
        let s = SharedSnapshot::default();
        assert_eq!(s.wait_while_paused(|| false), Duration::ZERO);
        assert!(s.toggle_pause() && s.pause_wished());
        let other = s.clone();
        let helper = std::thread::spawn(move || {
            while other.get().paused_since.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(30));
            other.toggle_pause()
        });
        let waited = s.wait_while_paused(|| false);
        assert!(waited >= Duration::from_millis(30), "{waited:?}");
        assert!(!helper.join().unwrap());
        assert!(s.get().paused_since.is_none());
        s.toggle_pause();
        s.wait_while_paused(|| true);
        assert!(s.pause_wished(), "stopping does not take the wish back");
    }

    #[test]
    fn a_wish_to_give_up_is_for_the_runs_that_go_on_only() {
        let s = SharedSnapshot::default();
        s.give_up_run();
        let (one, other) = (s.begin_run(), s.begin_run());
        assert!(!one.load(Ordering::SeqCst) && !other.load(Ordering::SeqCst));
        drop(other);
        s.give_up_run();
        assert!(one.load(Ordering::SeqCst));
        assert!(!s.begin_run().load(Ordering::SeqCst));
    }

    #[test]
    fn a_run_beside_the_first_has_its_own_line_and_leaves_the_nodes_alone() {
        let shared = SharedSnapshot::default();
        shared.with(|s| s.beside = vec![CurrentRun::default(); 2]);
        let p = RunProgress {
            phase: Phase::Test,
            elapsed: Duration::ZERO,
            nodes: vec![],
            awaited: None,
            injected: 3,
            asked: 3,
            cut: vec![],
        };
        shared.with(|s| s.nodes = vec![NodeState::default()]);
        show_progress(&shared, 2, &p);
        // No such slot: it is passed over.
        show_progress(&shared, 3, &p);
        let s = shared.get();
        assert_eq!((s.beside[1].injected, s.beside[0].injected), (3, 0));
        assert_eq!((s.current.injected, s.nodes.len()), (0, 1));
    }
}
