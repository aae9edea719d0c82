//! What a campaign counts and tells while it goes on: figures for fuzzer_stats and plot_data, the snapshot for the screen, the
//! lines of runs.jsonl. Written by the stage and by learning; decides nothing.

use super::drive::Limits;
use super::options::{EndReason, FuzzError, FuzzOptions};
use super::snapshot::{CurrentRun, FindLine, InjectedRates, Snapshot};
use super::{SharedSnapshot, State};
use crate::campaign::stats::{PLOT_HEADER, peak_rss_mb};
use crate::campaign::{Figures, Folder, KeptFinding, RunLine, folder};
use crate::search::Queue;
use libafl::HasMetadata;
use libafl::corpus::Corpus;
use libafl::state::{HasCorpus, HasExecutions};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use warren_feedback::KnownSlots;
use warren_model::{Fault, FaultSequence, Judgement, PhaseTimes, RunRecord, Trace, Verdict};

/// When fuzzing began; shared by session and store.
#[derive(Clone, Debug, Default)]
pub struct Clock(Rc<Cell<Option<Instant>>>);

impl Clock {
    /// The first fuzzed run begins.
    pub fn start(&self) {
        self.0.set(Some(Instant::now()));
    }

    /// A pause of the user's is no fuzzing time.
    pub fn shift(&self, pause: Duration) {
        self.0.set(self.0.get().map(|t| t + pause));
    }

    /// Fuzzing time so far; zero in learning.
    #[must_use]
    pub fn fuzz_time(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, |t| t.elapsed())
    }

    /// The same in ms.
    #[must_use]
    pub fn fuzz_ms(&self) -> u64 {
        u64::try_from(self.fuzz_time().as_millis()).unwrap_or(u64::MAX)
    }

    /// When it began.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        self.0.get()
    }
}

/// What a run's line says in place of void when Ctrl-C cut the run off: it counts nowhere.
pub const STOPPED: &str = "stopped";

/// Plain counts.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub sequences: u64,
    pub learning_runs: u64,
    pub rates: InjectedRates,
    /// `one_fault_<reason>` and `longer_<reason>`, of first tries: together asked minus full.
    pub not_injected: BTreeMap<String, u64>,
    pub with_reboot: u64,
    pub with_partition: u64,
    pub failing: u64,
    pub unknowns: u64,
    pub voids: u64,
    /// Runs cut off by Ctrl-C.
    pub stopped: u64,
    pub timeouts: u64,
    pub durable: u64,
    pub kept: u64,
    pub max_depth: u64,
    pub slowest_ms: u64,
    pub saved_crashes: u64,
    pub saved_hangs: u64,
    pub execs_at_crash: u64,
    /// Fuzzing ms of the last of each.
    pub last_find: Option<u64>,
    pub last_crash: Option<u64>,
    pub last_hang: Option<u64>,
    /// Sums of phase times over tested sequences, and of how many: a void run has no times worth a mean.
    phase_sums: PhaseTimes,
    timed: u64,
}

impl Counts {
    /// A sequence was tested: its last run (retests replaced earlier ones).
    pub fn tested(&mut self, record: &RunRecord, judgement: &Judgement, first_try: bool) {
        self.sequences += 1;
        let asked = record.sequence.as_ref().map_or(0, |s| s.faults.len());
        let full = record.not_injected.is_none();
        if first_try {
            let length = if asked <= 1 { "one_fault" } else { "longer" };
            if let Some(n) = &record.not_injected {
                let key = format!("{length}_{}", n.reason);
                *self.not_injected.entry(key).or_default() += 1;
            }
            let (of, done) = if asked <= 1 {
                (
                    &mut self.rates.one_fault_asked,
                    &mut self.rates.one_fault_full,
                )
            } else {
                (&mut self.rates.longer_asked, &mut self.rates.longer_full)
            };
            *of += 1;
            *done += u64::from(full);
            if full {
                self.rates.drift += u64::from(record.injected.iter().any(|i| i.drift.is_some()));
                self.rates.late += u64::from(record.injected.iter().any(|i| i.late));
            }
        }
        let any = |f: fn(&Fault) -> bool| record.injected.iter().any(|i| f(&i.matched.fault));
        self.with_reboot += u64::from(any(|f| matches!(f, Fault::Reboot { .. })));
        self.with_partition += u64::from(any(|f| matches!(f, Fault::PartitionStart { .. })));
        self.failing += u64::from(judgement.verdict == Verdict::Fail);
        self.unknowns +=
            u64::from(judgement.verdict == Verdict::Unknown && judgement.void.is_none());
        self.max_depth = self.max_depth.max(record.injected.len() as u64);
        self.timed += 1;
        let (sum, t) = (&mut self.phase_sums, &record.times);
        for (s, v) in [
            (&mut sum.slot, t.slot),
            (&mut sum.start, t.start),
            (&mut sum.setup, t.setup),
            (&mut sum.test, t.test),
            (&mut sum.degraded, t.degraded),
            (&mut sum.heal, t.heal),
            (&mut sum.finale, t.finale),
            (&mut sum.collect, t.collect),
            (&mut sum.total, t.total),
        ] {
            *s += v;
        }
    }

    /// Mean ms of each phase over tested sequences that were not void.
    #[must_use]
    pub fn phase_means(&self) -> Vec<(String, u64)> {
        let s = &self.phase_sums;
        [
            ("slot", s.slot),
            ("start", s.start),
            ("setup", s.setup),
            ("test", s.test),
            ("degraded", s.degraded),
            ("heal", s.heal),
            ("final", s.finale),
            ("collect", s.collect),
            ("total", s.total),
        ]
        .map(|(name, sum)| (name.to_owned(), sum.checked_div(self.timed).unwrap_or(0)))
        .to_vec()
    }
}

/// The campaign as it stands.
pub struct Session {
    pub options: FuzzOptions,
    pub folder: Folder,
    pub clock: Clock,
    pub seed: u64,
    pub limits: Limits,
    pub counts: Counts,
    pub findings: Vec<KeptFinding>,
    /// Signatures that stand.
    pub standing: BTreeSet<String>,
    /// Seed runs that found new coverage and have not yet passed a durability check on to a child.
    pub durable_due: BTreeSet<u64>,
    /// Points of phases start and test of fault-free runs.
    pub fault_free_stacks: BTreeSet<warren_model::StackId>,
    /// The fault-free run that `random-points` draws from.
    pub root: Trace,
    /// When its first node served.
    pub root_serving_ns: Option<u64>,
    /// Hashes of the sequences tested: two seed runs may have a child in common.
    pub tested: BTreeSet<u64>,
    /// Most classes in memory.
    pub max_classes: usize,
    pub map_size: usize,
    pub stability: f64,
    pub variable_slots: u64,
    pub edges_fault_free: u64,
    pub learning: Duration,
    /// Why the campaign is to end, once it is.
    pub end: Option<EndReason>,
    /// The true cause behind an error LibAFL carries.
    pub error: Option<FuzzError>,
    started: Instant,
    start_unix: u64,
    recent: VecDeque<Instant>,
    written: Option<Instant>,
}

impl Session {
    /// A campaign that has not run anything yet.
    #[must_use]
    pub fn new(options: FuzzOptions, folder: Folder, seed: u64) -> Self {
        let snapshot = options.snapshot.clone();
        snapshot.with(|s| {
            s.target.clone_from(&options.target);
            s.folder = folder.root().to_owned();
            s.strategy = options.strategy.to_string();
            s.seed = seed;
            s.learning = true;
            s.started = Some(Instant::now());
        });
        let limits = Limits::from_learning(&[], &[], options.run_limit);
        let max_classes = options.max_classes;
        Session {
            options,
            folder,
            clock: Clock::default(),
            seed,
            limits,
            counts: Counts::default(),
            findings: Vec::new(),
            standing: BTreeSet::new(),
            durable_due: BTreeSet::new(),
            fault_free_stacks: BTreeSet::new(),
            root: Trace::default(),
            root_serving_ns: None,
            tested: BTreeSet::new(),
            max_classes,
            map_size: 0,
            stability: 100.0,
            variable_slots: 0,
            edges_fault_free: 0,
            learning: Duration::ZERO,
            end: None,
            error: None,
            started: Instant::now(),
            start_unix: unix_now(),
            recent: VecDeque::new(),
            written: None,
        }
    }

    /// The snapshot for the screen.
    #[must_use]
    pub fn snapshot(&self) -> &SharedSnapshot {
        &self.options.snapshot
    }

    /// A line for the terminal.
    pub fn say(&self, line: String) {
        self.snapshot().with(|s| s.lines.push(line));
    }

    /// A line of the list of finds.
    pub fn find(&self, what: &str, text: String) {
        let line = FindLine {
            at_ms: self.clock.fuzz_ms(),
            what: what.to_owned(),
            text,
        };
        self.snapshot().with(|s| {
            s.finds.push(line);
            let extra = s.finds.len().saturating_sub(50);
            s.finds.drain(..extra);
        });
    }

    /// The user asked to stop.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.options.stop.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The user held the campaign up for so long: no fuzzing time.
    pub fn paused(&self, pause: Duration) {
        if !pause.is_zero() {
            self.clock.shift(pause);
            let at = self.clock.started();
            self.snapshot().with(|s| {
                s.fuzz_started = at;
                s.current.since = Some(Instant::now());
            });
        }
    }

    /// Learning is over: `-V`, `-E`, run time and rates count from here.
    pub fn begin_fuzzing(&mut self) {
        self.learning = self.started.elapsed();
        self.clock.start();
        self.start_unix = unix_now();
        let (learning_ms, at) = (ms(self.learning), self.clock.started());
        self.snapshot().with(|s| {
            s.learning = false;
            s.learning_ms = learning_ms;
            s.fuzz_started = at;
        });
    }

    /// Tells the screen what runs now.
    pub fn show_current(&self, current: CurrentRun) {
        self.snapshot().with(|s| {
            s.nodes.clear();
            s.current = current;
        });
    }

    /// One run has ended: its line is written. Every run passes here once.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn run_ended(&mut self, line: &RunLine<'_>) -> Result<(), FuzzError> {
        let now = Instant::now();
        let file = self.folder.root().join("runs.jsonl");
        if line.void == Some(STOPPED) {
            self.counts.stopped += 1;
            return folder::append(&file, &line.to_text());
        }
        self.counts.slowest_ms = self.counts.slowest_ms.max(line.times_ms.total);
        self.counts.voids += u64::from(line.void.is_some());
        self.counts.timeouts += u64::from(line.timed_out);
        self.counts.durable += u64::from(line.durable);
        self.recent.push_back(now);
        while self
            .recent
            .front()
            .is_some_and(|t| now.duration_since(*t) > Duration::from_secs(60))
        {
            self.recent.pop_front();
        }
        folder::append(&file, &line.to_text())
    }

    /// Runs that ended by themselves: LibAFL counts one that Ctrl-C cut off, too.
    #[must_use]
    pub fn execs(&self, state: &State) -> u64 {
        state.executions().saturating_sub(self.counts.stopped)
    }

    /// Findings that are no hangs.
    #[must_use]
    pub fn bugs(&self) -> u64 {
        self.findings.iter().filter(|f| f.kind != "hang").count() as u64
    }

    /// Everything fuzzer_stats and plot_data tell.
    #[must_use]
    pub fn figures(&self, state: &State) -> Figures {
        let c = &self.counts;
        let queue = state.metadata_map().get::<Queue>();
        let run_time = self.clock.fuzz_time().as_secs();
        let at = |ms: Option<u64>| ms.map_or(0, |ms| self.start_unix + ms / 1000);
        let execs_done = self.execs(state);
        Figures {
            start_time: self.start_unix,
            last_update: unix_now(),
            run_time,
            pid: std::process::id(),
            time_wo_finds: run_time.saturating_sub(c.last_find.map_or(0, |ms| ms / 1000)),
            execs_done,
            execs_per_sec: self.execs_per_sec(execs_done),
            execs_last_minute: self.execs_last_minute(),
            corpus_count: state.corpus().count() as u64,
            corpus_found: c.kept,
            max_depth: c.max_depth,
            cur_item: state
                .corpus()
                .current()
                .map_or(0, |id| usize::from(id) as u64),
            pending_new: queue.map_or(0, Queue::pending_new),
            pending_total: queue.map_or(0, Queue::pending),
            stability: self.stability,
            saved_crashes: c.saved_crashes,
            saved_hangs: c.saved_hangs,
            last_find: at(c.last_find),
            last_crash: at(c.last_crash),
            last_hang: at(c.last_hang),
            execs_since_crash: execs_done - c.execs_at_crash.min(execs_done),
            exec_timeout_ms: ms(self.limits.run),
            slowest_exec_ms: c.slowest_ms,
            peak_rss_mb: peak_rss_mb(),
            edges_found: edges_found(state),
            total_edges: self.map_size as u64,
            variable_slots: self.variable_slots,
            target: self.options.target.clone(),
            command_line: folder::shell_line(&self.options.command_line),
            strategy: self.options.strategy.to_string(),
            faults: self.options.faults.to_string(),
            max_faults: self.options.max_faults,
            seed: self.seed,
            sequences_tested: c.sequences,
            learning_runs: c.learning_runs,
            learning_s: self.learning.as_secs(),
            edges_fault_free: self.edges_fault_free,
            injected: self.rates(state),
            not_injected: c.not_injected.clone().into_iter().collect(),
            with_reboot: c.with_reboot,
            with_partition: c.with_partition,
            failing_runs: c.failing,
            unknowns: c.unknowns,
            voids: c.voids,
            timeouts: c.timeouts,
            durable_runs: c.durable,
            phase_means_ms: c.phase_means(),
            findings: self.findings.clone(),
        }
    }

    /// Brings the snapshot up to date, and the two files where five seconds have passed since the last time (or `now`).
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn publish(&mut self, state: &State, now: bool) -> Result<(), FuzzError> {
        self.show_figures(state);
        let due = self
            .written
            .is_none_or(|t| t.elapsed() >= Duration::from_secs(5));
        if !(due || now) || self.clock.started().is_none() {
            return Ok(());
        }
        let figures = self.figures(state);
        folder::write_whole(
            &self.folder.root().join("fuzzer_stats"),
            figures.stats().as_bytes(),
        )?;
        let plot = self.folder.root().join("plot_data");
        if self.written.is_none() {
            folder::write_whole(&plot, PLOT_HEADER.as_bytes())?;
        }
        folder::append(&plot, &figures.plot_line())?;
        self.written = Some(Instant::now());
        Ok(())
    }

    fn rates(&self, state: &State) -> InjectedRates {
        InjectedRates {
            uninjectable: state
                .metadata_map()
                .get::<Queue>()
                .map_or(0, Queue::uninjectable),
            ..self.counts.rates
        }
    }

    /// Runs per second of fuzzing time.
    fn execs_per_sec(&self, execs: u64) -> f64 {
        let seconds = self.clock.fuzz_time().as_secs_f64();
        if seconds < 0.001 {
            0.0
        } else {
            execs.saturating_sub(self.counts.learning_runs) as f64 / seconds
        }
    }

    fn execs_last_minute(&self) -> f64 {
        let window = self.clock.fuzz_time().as_secs_f64().min(60.0);
        let recent = self
            .recent
            .iter()
            .filter(|t| self.clock.started().is_some_and(|s| **t >= s))
            .count();
        if window < 0.001 {
            0.0
        } else {
            recent as f64 / window
        }
    }

    fn show_figures(&self, state: &State) {
        let c = &self.counts;
        let queue = state.metadata_map().get::<Queue>();
        let execs = self.execs(state);
        let fill = |s: &mut Snapshot| {
            s.run_time_ms = self.clock.fuzz_ms();
            s.execs = execs;
            s.sequences = c.sequences;
            s.execs_per_sec = self.execs_per_sec(execs);
            s.execs_last_minute = self.execs_last_minute();
            s.corpus = state.corpus().count() as u64;
            s.pending = queue.map_or(0, Queue::pending);
            s.classes = queue.map_or(0, Queue::classes);
            s.coverage = edges_found(state);
            s.map_size = self.map_size as u64;
            s.coverage_fault_free = self.edges_fault_free;
            s.stability = self.stability;
            s.findings = self.bugs();
            s.kept_findings.clone_from(&self.findings);
            s.failing_runs = c.failing;
            s.hangs = c.saved_hangs;
            s.unknowns = c.unknowns;
            s.voids = c.voids;
            s.timeouts = c.timeouts;
            s.max_depth = c.max_depth;
            s.last_find_ms = c.last_find;
            s.last_crash_ms = c.last_crash;
            s.last_hang_ms = c.last_hang;
            s.injected = self.rates(state);
            s.not_injected = c.not_injected.clone().into_iter().collect();
            s.phase_means_ms = c.phase_means();
        };
        self.snapshot().with(fill);
    }
}

/// Slots set by any run.
#[must_use]
pub fn edges_found(state: &State) -> u64 {
    state
        .metadata_map()
        .get::<KnownSlots>()
        .map_or(0, |k| k.count() as u64)
}

/// One line per fault, for the screen: kind, node, innermost frame where the seed run's trace knows it.
#[must_use]
pub fn describe(sequence: &FaultSequence, trace: &Trace) -> Vec<String> {
    use warren_model::At;
    sequence
        .faults
        .iter()
        .map(|f| {
            let kind = f.fault.kind();
            match &f.at {
                At::Exact(p) => format!(
                    "{kind} {} at {} {} {} n={}",
                    p.node,
                    trace.label(p.stack),
                    p.kind,
                    p.place,
                    p.n
                ),
                At::Pattern(p) => format!(
                    "{kind} {} at {} n={}",
                    p.role.as_deref().unwrap_or("any node"),
                    p.stack
                        .map_or_else(|| p.frames.join(" < "), |s| trace.label(s)),
                    p.n
                ),
                At::AtOnce => format!("{kind} at once"),
                At::Joined(n) => format!("{kind} when {n} has joined"),
            }
        })
        .collect()
}

/// Whole milliseconds.
#[must_use]
pub fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}
