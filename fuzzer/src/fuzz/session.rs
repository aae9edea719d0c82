//! What a campaign counts and tells while it goes on: figures for fuzzer_stats and plot_data, the snapshot for the screen, the
//! lines of runs.jsonl. Written by the stage and by learning; decides nothing.

use super::drive::Limits;
use super::import::Seeds;
use super::options::{EndReason, FuzzOptions};
use super::parts::{Beside, Explored, Found};
use super::{SharedSnapshot, State};
use crate::campaign::state::Store;
use crate::campaign::stats::{PLOT_HEADER, peak_rss_mib, unix_now};
use crate::campaign::{Figures, Folder, FuzzError, InjectedRates, RunLine, RunRole, folder};
use crate::fuzz::confirming::tally::Owed;
pub use crate::fuzz::figures::counts::{Clock, Counts};
use crate::fuzz::figures::cpu::CpuMeter;
use crate::fuzz::figures::snapshot::{CurrentRun, FindKind, FindLine, Snapshot};
use crate::fuzz::figures::untaught::Untaught;
use crate::fuzz::instances::sync::Instances;
use crate::fuzz::learning::learnt::Learnt;
use crate::fuzz::resume::saved::{Job, News, Redo};
use crate::search::{Queue, Swarm, Warren};
use libafl::HasMetadata;
use libafl::corpus::Corpus;
use libafl::state::{HasCorpus, HasExecutions};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use warren_feedback::{Judge, KnownSlots, KnownStates};
use warren_model::{FailureKind, Void};

/// Lines of the list of finds.
pub(super) const FINDS: usize = 50;

/// The campaign as it stands.
pub struct Session {
    pub options: FuzzOptions,
    pub folder: Folder,
    pub clock: Clock,
    /// CPU time of fuzzing.
    pub cpu: CpuMeter,
    pub seed: u64,
    pub limits: Limits,
    /// What this instance drew of its options (`--swarm`).
    pub swarm: Option<Swarm>,
    pub counts: Counts,
    pub found: Found,
    pub explored: Explored,
    /// Given by `-i`.
    pub seeds: Seeds,
    /// Most classes in memory.
    pub max_classes: usize,
    pub map_size: usize,
    pub edges_fault_free: u64,
    pub learning: Duration,
    /// Why the campaign is to end, once it is.
    pub end: Option<EndReason>,
    /// How it ended, for the last figures.
    pub ended: Option<EndReason>,
    /// The true cause behind an error LibAFL carries.
    pub error: Option<FuzzError>,
    /// This process goes on where another one ended.
    pub resumed: bool,
    pub learnt: Learnt,
    /// A sequence that is to be run again, and a failing run that is to be decided on.
    pub job: Option<Job>,
    pub owed: Option<Owed>,
    pub beside: Beside,
    /// What the next record of the journal will say (resume/saved.rs).
    pub redo: Redo,
    pub news: News,
    pub templates: usize,
    pub untaught: Untaught,
    /// Reasons for cold starts that were said.
    cold_said: BTreeSet<String>,
    /// What workloads noted, as far as it was said: a note without its particulars.
    noted: BTreeSet<String>,
    /// Runs that Ctrl-C cut off: one at most, and the replays of a confirmation.
    pub cut_off: u64,
    pub store: Option<Store>,
    /// The others of the output folder.
    pub instances: Instances,
    /// The run observer's: it goes on learning.
    judge: Arc<Mutex<Judge>>,
    started: Instant,
    start_unix: u64,
    recent: VecDeque<Instant>,
    written: Option<Instant>,
}

impl Session {
    /// A campaign that has not run anything yet.
    #[must_use]
    pub fn new(options: FuzzOptions, folder: Folder, seed: u64, judge: Arc<Mutex<Judge>>) -> Self {
        let snapshot = options.snapshot.clone();
        snapshot.with(|s| {
            s.target.clone_from(&options.target);
            s.folder = folder.root().to_owned();
            s.strategy = options.strategy.to_string();
            s.seed = seed;
            s.learning = true;
            s.started = Some(Instant::now());
        });
        let limits = Limits::from_learning(&[], &[], options.least_limits, options.run_limit);
        let max_classes = options.max_classes;
        let seeds = Seeds::new(&options.seeds);
        Session {
            options,
            folder,
            clock: Clock::default(),
            cpu: CpuMeter::start(),
            seed,
            limits,
            swarm: None,
            counts: Counts::default(),
            found: Found::default(),
            explored: Explored::default(),
            cold_said: BTreeSet::new(),
            noted: BTreeSet::new(),
            seeds,
            max_classes,
            map_size: 0,
            edges_fault_free: 0,
            learning: Duration::ZERO,
            end: None,
            ended: None,
            error: None,
            resumed: false,
            learnt: Learnt::default(),
            job: None,
            owed: None,
            beside: Beside::default(),
            redo: Redo::default(),
            news: News::default(),
            templates: 0,
            untaught: Untaught::default(),
            cut_off: 0,
            store: None,
            instances: Instances::default(),
            judge,
            started: Instant::now(),
            start_unix: unix_now(),
            recent: VecDeque::new(),
            written: None,
        }
    }

    /// The judge of the campaign. A panic elsewhere leaves it whole.
    pub fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, shared.
    #[must_use]
    pub fn judge_handle(&self) -> Arc<Mutex<Judge>> {
        self.judge.clone()
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
    pub fn list_find(&self, what: FindKind, text: String) {
        let line = FindLine {
            at_ms: self.clock.fuzz_ms(),
            what,
            text,
        };
        self.snapshot().with(|s| {
            s.finds.push(line);
            let extra = s.finds.len().saturating_sub(FINDS);
            s.finds.drain(..extra);
        });
    }

    /// The user asked to stop.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.options.stop.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Why the time of the campaign is over: -V, --cpu-seconds.
    #[must_use]
    pub fn out_of_time(&self) -> Option<EndReason> {
        let o = &self.options;
        if o.max_time.is_some_and(|t| self.clock.here() >= t) {
            Some(EndReason::TimeLimit)
        } else if o.max_cpu.is_some_and(|t| self.cpu.total() >= t) {
            Some(EndReason::CpuLimit)
        } else {
            None
        }
    }

    /// The user held the campaign up for so long: no fuzzing time.
    pub fn paused(&mut self, pause: Duration) {
        if !pause.is_zero() {
            self.clock.shift(pause);
            self.start_unix += pause.as_secs();
            // The last minute is one of fuzzing, too.
            for ended in &mut self.recent {
                *ended += pause;
            }
            let at = self.clock.started_all();
            self.snapshot().with(|s| {
                s.fuzz_started = at;
                s.current.since = Some(Instant::now());
            });
        }
    }

    /// Time spent on learning, over all processes.
    #[must_use]
    pub fn learning_so_far(&self) -> Duration {
        if self.learnt.done {
            self.learning
        } else {
            self.learning + self.started.elapsed()
        }
    }

    /// Learning is over: `-V`, run time and rates count from here.
    pub fn begin_fuzzing(&mut self) {
        self.clock.start();
        self.cpu.lap();
        self.start_unix = unix_now().saturating_sub(self.clock.fuzz_time().as_secs());
        let (learning_ms, at) = (ms(self.learning), self.clock.started_all());
        self.snapshot().with(|s| {
            s.learning = false;
            s.learning_ms = learning_ms;
            s.fuzz_started = at;
        });
    }

    /// Tells the screen what runs now, with the machine for itself.
    pub fn show_current(&self, current: CurrentRun) {
        self.show_run(0, current);
    }

    /// Tells the screen what runs in a slot now.
    pub fn show_run(&self, slot: usize, run: CurrentRun) {
        self.snapshot().with(|s| {
            if slot == 0 {
                s.nodes.clear();
            }
            if let Some(shown) = s.run_of(slot) {
                *shown = run;
            }
        });
    }

    /// Nothing goes on beside slot 0.
    pub fn show_idle(&self) {
        self.snapshot()
            .with(|s| s.beside.fill(CurrentRun::default()));
    }

    /// One run has ended: it is counted, and its line is written by the next [`Session::commit`]. Every run passes here once. One
    /// that Ctrl-C cut off has its line at once and counts nowhere: it is in no record.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn run_ended(&mut self, line: &RunLine<'_>) -> Result<(), FuzzError> {
        let now = Instant::now();
        let line = &RunLine {
            spent_ms: self.cpu.lap(),
            ..line.clone()
        };
        let cut_off = line.void == Some(&Void::CutOff);
        // As the clock: what is cut off and what is learned is no fuzzing.
        if line.role != RunRole::Learning && !cut_off {
            self.cpu.add(line.spent_ms);
        }
        if cut_off && self.stopping() {
            self.cut_off += 1;
            let file = self.folder.root().join("runs.jsonl");
            return folder::append(&file, &line.to_text());
        }
        if cut_off {
            self.counts.stopped += 1;
            self.redo.line = line.to_text();
            return Ok(());
        }
        if let Some(why) = line.cold.filter(|_| line.role != RunRole::Learning) {
            if self.options.starts.required {
                return Err(FuzzError::Cluster(format!(
                    "--snapshot require: a run could not start from its snapshot: {why}"
                )));
            }
            if self.cold_said.insert(why.to_owned()) {
                self.say(format!("runs from snapshots start cold: {why}"));
            }
        }
        if let Some(why) = line.remade {
            self.say(format!("a snapshot was made anew: {why}"));
        }
        for note in &line.notes {
            // What comes after a colon is this run's.
            let head = note.split(": ").next().unwrap_or_default();
            if self.noted.insert(head.to_owned()) {
                self.say(format!(
                    "run {}, noted for the first time: {note}",
                    line.run
                ));
            }
        }
        if let Some(why) = line.void.filter(|_| line.role != RunRole::Learning) {
            let why = why.to_string();
            let head = why.split(": ").next().unwrap_or_default();
            if self.noted.insert(format!("void: {head}")) {
                self.say(format!(
                    "run {} tells nothing (void), for this reason for the first time: {why}",
                    line.run
                ));
            }
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
        self.redo.line = line.to_text();
        Ok(())
    }

    /// Runs that ended by themselves: LibAFL counts one that Ctrl-C cut off, too.
    #[must_use]
    pub fn execs(&self, state: &State) -> u64 {
        state
            .executions()
            .saturating_sub(self.counts.stopped + self.cut_off)
    }

    /// Findings that are no hangs.
    #[must_use]
    pub fn bugs(&self) -> u64 {
        self.found.count(|kind| kind != FailureKind::Hang).0
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
            corpus_imported: c.imported,
            max_depth: c.max_depth,
            cur_item: state
                .corpus()
                .current()
                .map_or(0, |id| usize::from(id) as u64),
            pending_new: queue.map_or(0, Queue::pending_new),
            pending_total: queue.map_or(0, Queue::pending),
            stability: self.learnt.stability(),
            saved_crashes: c.saved_crashes,
            saved_hangs: c.saved_hangs,
            last_find: at(c.last_find),
            last_crash: at(c.last_crash),
            last_hang: at(c.last_hang),
            execs_since_crash: execs_done - c.execs_at_crash.min(execs_done),
            exec_timeout_ms: ms(self.limits.run),
            slowest_exec_ms: c.slowest_ms,
            peak_rss_mb: peak_rss_mib().map_or(0, |mib| mib as u64),
            edges_found: edges_found(state),
            total_edges: self.map_size as u64,
            starts: self.learnt.roots.clone(),
            target: self.options.target.clone(),
            command_line: folder::shell_line(&self.options.command_line),
            strategy: self.options.strategy.to_string(),
            faults: self.options.faults.to_string(),
            max_faults: self.options.max_faults,
            seed: self.seed,
            side_by_side: self.beside.slots,
            sequences_tested: c.sequences,
            learning_runs: c.learning_runs,
            learning_s: self.learning.as_secs(),
            cpu_s: self.cpu.total_ms() / 1000,
            ended: self.ended.map_or("no", EndReason::key).into(),
            edges_fault_free: self.edges_fault_free,
            states_found: states_found(state),
            injected: self.rates(state),
            not_injected: c.not_injected.clone().into_iter().collect(),
            with_reboot: c.with_reboot,
            with_partition: c.with_partition,
            failing_runs: c.failing,
            unknowns: c.unknowns,
            voids: c.voids,
            timeouts: c.timeouts,
            spared: c.spared,
            durable_runs: c.durable,
            seeds_given: self.seeds.given,
            seeds_kept: self.seeds.kept,
            seeds_failing: self.seeds.failing,
            seeds_unmatched: self.seeds.unmatched(),
            others: self.instances.others.len() as u64,
            others_tested: self.instances.others.values().map(|o| o.tested).sum(),
            phase_means_ms: c.phase_means(),
            findings: self.found.that_stand().cloned().collect(),
            known: self.found.known_that_stand(),
            parts: self.options.parts().to_string(),
            swarm: (self.swarm.as_ref()).map_or_else(|| "no".into(), Swarm::to_string),
            warren: state.metadata_map().get::<Warren>().cloned(),
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
        if !plot.exists() {
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
        let window = self.clock.here().as_secs_f64().min(60.0);
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

    /// Brings the figures of the snapshot up to date.
    pub(super) fn show_figures(&self, state: &State) {
        let c = &self.counts;
        let queue = state.metadata_map().get::<Queue>();
        let execs = self.execs(state);
        let learning = self.learning_so_far();
        let fill = |s: &mut Snapshot| {
            s.run_time_ms = self.clock.fuzz_ms();
            s.learning_ms = ms(learning);
            if s.learning {
                // Earlier processes learned, too.
                s.started = Instant::now().checked_sub(learning).or(s.started);
            }
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
            s.stability = self.learnt.stability();
            s.findings = self.bugs();
            s.imported = c.imported;
            s.others = self.instances.sharing.len() as u64;
            s.known.clone_from(&self.found.known);
            s.kept_findings = self.found.that_stand().cloned().collect();
            s.failing_runs = c.failing;
            s.hangs = self.found.count(|kind| kind == FailureKind::Hang).0;
            s.unknowns = c.unknowns;
            s.voids = c.voids;
            s.timeouts = c.timeouts;
            s.spared = c.spared;
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

/// Slots of the second map set by any run.
#[must_use]
pub fn states_found(state: &State) -> u64 {
    state
        .metadata_map()
        .get::<KnownStates>()
        .map_or(0, |k| k.count() as u64)
}

/// Whole milliseconds.
#[must_use]
pub fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::KeptFinding;
    use crate::search::XoRand;
    use libafl::corpus::InMemoryCorpus;
    use libafl::state::StdState;
    use warren_model::Rules;

    /// Several files of one hang are one hang, and a process that goes on learning counts from where the one before it was.
    #[test]
    fn figures_of_the_screen() {
        let options = FuzzOptions::new("sim", std::path::Path::new("out"));
        let judge = Arc::new(Mutex::new(Judge::new(Rules::default()).unwrap()));
        let folder = options.folder(1);
        let mut session = Session::new(options, folder, 1, judge);
        let corpus = InMemoryCorpus::new;
        let state: State =
            StdState::new(XoRand::new(1), corpus(), corpus(), &mut (), &mut ()).unwrap();
        session.counts.saved_hangs = 5;
        session.found.findings.push(KeptFinding {
            number: 0,
            signature: "1a2b3c4d".into(),
            checker: "hang".into(),
            kind: FailureKind::Hang,
            k: 1,
            n: 1,
            fell: false,
        });
        session.learning = Duration::from_secs(60);
        session.show_figures(&state);
        let s = session.snapshot().get();
        assert_eq!(s.hangs, 1);
        let since = s.started.map(|t| t.elapsed().as_secs());
        assert!(s.learning_ms >= 60_000 && since >= Some(60), "{since:?}");
    }
}
