//! What the screen shows: one plain struct behind a mutex, written by the loop, cloned by the screen at its own clock.

use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A node as far as the loop knows it at the end of the last run, or live where the executor tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeState {
    pub name: String,
    pub role: String,
    /// `alive`, `dead`, `cut`, or empty when unknown.
    pub state: String,
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
    /// Why the strategy took it: `new fault id; score 240 of 3100`.
    pub why: String,
    /// Corpus id of the seed run.
    pub seed_run: Option<u64>,
    /// Since the run began; the screen counts on from here.
    #[serde(skip)]
    pub since: Option<Instant>,
}

/// How often sequences were injected in full at the first try; drift and late counted in and also apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InjectedRates {
    pub one_fault_asked: u64,
    pub one_fault_full: u64,
    pub longer_asked: u64,
    pub longer_full: u64,
    /// Runs injected in full with a smaller n accepted.
    pub drift: u64,
    /// Runs injected in full with a thread released before the fault was done.
    pub late: u64,
    /// Sequences given up after three tries.
    pub uninjectable: u64,
}

/// One line of the list of finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindLine {
    /// Fuzzing time, ms.
    pub at_ms: u64,
    /// `finding`, `hang`, `coverage`, `unknown`.
    pub what: String,
    pub text: String,
}

/// Everything a screen needs, true at the moment of writing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    pub target: String,
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
    pub cycles: u64,
    pub cycles_without_finds: u64,
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
    pub max_depth: u64,
    /// ms of fuzzing time; none = never.
    pub last_find_ms: Option<u64>,
    pub last_crash_ms: Option<u64>,
    pub last_hang_ms: Option<u64>,
    pub current: CurrentRun,
    pub nodes: Vec<NodeState>,
    pub injected: InjectedRates,
    /// Why the rest of a sequence did not happen: (reason, runs).
    pub not_injected: Vec<(String, u64)>,
    /// Mean ms of (slot, start, setup, test, degraded, heal, final, collect, total) over fuzzed runs.
    pub phase_means_ms: Vec<(String, u64)>,
    /// Newest last; at most 50.
    pub finds: Vec<FindLine>,
    /// A message to show, such as what stopping waits for.
    pub message: String,
    /// Lines to print once, in order, with `--no-ui` (findings, learning); the reader drains them.
    pub lines: Vec<String>,
    /// The campaign has ended.
    pub ended: bool,
}

/// A snapshot shared by the loop and the screen.
#[derive(Clone, Debug, Default)]
pub struct SharedSnapshot(Arc<Mutex<Snapshot>>);

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

    fn guard(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
