//! The stage that runs what the scheduler picked: builds the sequence, runs it (again where it was void, over its limit, or
//! undecided by load), lets LibAFL judge and keep it, feeds the queue, and hands a failing run to confirmation.

use super::confirm;
use super::drive::{Drive, Observers};
use super::options::FuzzError;
use super::session::{STOPPED, Session, describe};
use super::snapshot::{CurrentRun, show_progress};
use super::{State, StrategyKind};
use crate::campaign::run_file::parked as parked_file;
use crate::campaign::{RunLine, RunRole, StoredRun};
use crate::search::children::serving_since;
use crate::search::queue::Kept;
use crate::search::{Drawing, NextRun, Pick, Queue, Seed, random_points};
use libafl::corpus::{Corpus, CorpusId};
use libafl::executors::{ExitKind, HasObservers};
use libafl::fuzzer::{ExecuteInputResult, ExecutesInput, ExecutionProcessor};
use libafl::stages::{Restartable, Stage};
use libafl::state::{HasCorpus, HasExecutions, HasRand};
use libafl::{Error, HasMetadata};
use libafl_bolts::ToSlice;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use warren_executor::RunOptions;
use warren_feedback::{Judge, KeptInfo, RunObserver};
use warren_model::{
    CutHow, FailureKind, FaultSequence, Judgement, Phase, RunRecord, StackId, Trace, Verdict,
    ids::fnv1a,
};

/// A void run is repeated so often.
const VOID_REPEATS: u32 = 3;
/// One of so many runs asks for durability.
const DURABLE_EVERY: u64 = 10;

/// What is run and why.
struct Job {
    sequence: FaultSequence,
    pick: Option<Pick>,
    why: String,
    durable: bool,
    /// For the screen.
    lines: Vec<String>,
}

/// How the last run of a sequence ended.
pub enum Tested {
    /// Ended by the stop flag: it tells nothing.
    Stopped,
    /// Ended by key `n`: likewise, and the next sequence's turn.
    GivenUp,
    Done(ExitKind, RunRole),
}

/// Runs one sequence per `perform`.
pub struct FuzzStage {
    pub session: Session,
    /// The run observer's: it goes on learning.
    pub judge: Arc<Mutex<Judge>>,
}

impl<S> Restartable<S> for FuzzStage {
    fn should_restart(&mut self, _state: &mut S) -> Result<bool, Error> {
        Ok(true)
    }

    fn clear_progress(&mut self, _state: &mut S) -> Result<(), Error> {
        Ok(())
    }
}

impl<E, EM, Z> Stage<E, EM, State, Z> for FuzzStage
where
    E: HasObservers<Observers = Observers> + Drive,
    Z: ExecutesInput<E, EM, FaultSequence, State>
        + ExecutionProcessor<EM, FaultSequence, Observers, State>,
{
    fn perform(
        &mut self,
        fuzzer: &mut Z,
        executor: &mut E,
        state: &mut State,
        manager: &mut EM,
    ) -> Result<(), Error> {
        let result = match std::mem::take(state.metadata_mut::<NextRun>()?) {
            NextRun::Draw => self.one(fuzzer, executor, state, manager, None),
            NextRun::Child(pick) => self.one(fuzzer, executor, state, manager, Some(pick)),
            NextRun::Unpark(seed) => unpark(&self.session, state, seed),
        };
        result.map_err(|e| self.session.fail(e))
    }
}

impl Session {
    /// Keeps the true cause, gives LibAFL something to carry.
    pub fn fail(&mut self, e: FuzzError) -> Error {
        match e {
            FuzzError::Framework(e) => e,
            other => {
                let text = other.to_string();
                self.error = Some(other);
                Error::illegal_state(text)
            }
        }
    }
}

impl FuzzStage {
    fn one<E, EM, Z>(
        &mut self,
        fuzzer: &mut Z,
        executor: &mut E,
        state: &mut State,
        manager: &mut EM,
        pick: Option<Pick>,
    ) -> Result<(), FuzzError>
    where
        E: HasObservers<Observers = Observers> + Drive,
        Z: ExecutesInput<E, EM, FaultSequence, State>
            + ExecutionProcessor<EM, FaultSequence, Observers, State>,
    {
        let Some(job) = self.job(executor, state, pick)? else {
            return Ok(());
        };
        self.session.show_current(CurrentRun {
            doing: "fuzzing".into(),
            faults: job.lines.clone(),
            kinds: job.sequence.kinds(),
            why: job.why.clone(),
            seed_run: job.pick.as_ref().map(|p| p.seed),
            since: Some(Instant::now()),
            ..CurrentRun::default()
        });
        let (kind, role) = match self.test(fuzzer, executor, state, manager, &job)? {
            Tested::Stopped => return Ok(()),
            Tested::GivenUp => return self.give_up(state, &job),
            Tested::Done(kind, role) => (kind, role),
        };
        let judged = fuzzer.evaluate_execution(
            state,
            manager,
            &job.sequence,
            &*executor.observers(),
            &kind,
            true,
        )?;
        self.settle(executor, state, &job, role, judged.1)?;
        if judged.0 == ExecuteInputResult::Solution {
            confirm::failing_run(
                &mut self.session,
                fuzzer,
                executor,
                state,
                manager,
                &job.why,
            )?;
        }
        self.session.publish(state, false)
    }

    /// The sequence behind a pick. `None`: it was tested as another seed run's child, or a constraint forbids it after all.
    fn job<E: Drive>(
        &mut self,
        executor: &E,
        state: &mut State,
        pick: Option<Pick>,
    ) -> Result<Option<Job>, FuzzError> {
        let session = &mut self.session;
        let shape = executor.shape().clone();
        let drawing = drawing(session, executor, &shape);
        let every_tenth = session.counts.sequences % DURABLE_EVERY == DURABLE_EVERY - 1;
        let Some(pick) = pick else {
            let sequence = random_points::draw(
                &session.root,
                session.root_serving_ns,
                &session.options.target,
                &drawing,
                state.rand_mut(),
            );
            if sequence.faults.is_empty() {
                return Err(FuzzError::Learning(
                    "the fault-free trace has no point where a fault may happen; check --faults, max_dead and [target] include".into(),
                ));
            }
            return Ok(Some(Job {
                lines: describe(&sequence, &session.root),
                sequence,
                pick: None,
                why: StrategyKind::RandomPoints.to_string(),
                durable: every_tenth,
            }));
        };
        let stored = StoredRun::read(&session.folder.runs(), pick.seed)?;
        let seed = seed_of(&stored.record, &stored.trace);
        let sequence = seed.as_ref().and_then(|s| {
            let event = *s
                .classes(&drawing)
                .get(&pick.key)?
                .get(pick.occurrence as usize)?;
            s.child(&drawing, event, pick.key.fault)
        });
        let queue = state.metadata_mut::<Queue>()?;
        let Some(sequence) = sequence else {
            queue.tested(&pick);
            return Ok(None);
        };
        let fresh = session.tested.insert(identity(&sequence));
        if !fresh && pick.tries == 0 {
            queue.tested(&pick);
            return Ok(None);
        }
        let due = session.durable_due.remove(&pick.seed);
        Ok(Some(Job {
            lines: describe(&sequence, &stored.trace),
            sequence,
            why: pick.reason(),
            pick: Some(pick),
            durable: due || every_tenth,
        }))
    }

    /// Runs a sequence until it tells something: void runs are repeated, a run over its limit is made once more with twice the
    /// limit, a liveness failure that load may explain is asked once more. All but the last run get their line here.
    fn test<E, EM, Z>(
        &mut self,
        fuzzer: &mut Z,
        executor: &mut E,
        state: &mut State,
        manager: &mut EM,
        job: &Job,
    ) -> Result<Tested, FuzzError>
    where
        E: HasObservers<Observers = Observers> + Drive,
        Z: ExecutesInput<E, EM, FaultSequence, State>,
    {
        let session = &mut self.session;
        let limit = session.limits.run;
        let (mut voids, mut retested, mut repeated) = (0, false, false);
        let mut role = RunRole::Fuzz;
        loop {
            let asked = if retested { limit * 2 } else { limit };
            let kind = execute(
                session,
                fuzzer,
                executor,
                state,
                manager,
                &job.sequence,
                asked,
                job.durable,
                retested,
            )?;
            let observers = executor.observers();
            let run = &observers.1.0;
            if session.stopping() {
                let mut line = line(session, state, run, role);
                line.void = Some(STOPPED);
                session.run_ended(&line)?;
                return Ok(Tested::Stopped);
            }
            if given_up(session, run) {
                let mut line = line(session, state, run, role);
                line.void = Some(STOPPED);
                session.run_ended(&line)?;
                return Ok(Tested::GivenUp);
            }
            let j = run.judgement();
            let next = if j.void.is_some() && voids < VOID_REPEATS {
                voids += 1;
                RunRole::Repeat
            } else if j.void.is_none()
                && run.record().timed_out
                && !j.failures.iter().any(|f| f.kind == FailureKind::Safety)
                && !retested
            {
                retested = true;
                RunRole::Retest
            } else if undecided_by_load(j) && !repeated && !retested {
                repeated = true;
                RunRole::Repeat
            } else {
                return Ok(Tested::Done(kind, role));
            };
            let mut line = line(session, state, run, role);
            line.why.clone_from(&job.why);
            line.seed_run = job.pick.as_ref().map(|p| p.seed);
            session.run_ended(&line)?;
            role = next;
            session.snapshot().with(|s| {
                s.current.doing = match next {
                    RunRole::Retest => "retest".into(),
                    _ => "repeat".into(),
                };
                s.current.since = Some(Instant::now());
            });
        }
    }

    /// The user gave the run up: as if its faults had not happened, its sequence has its turn again, three times in all.
    fn give_up(&mut self, state: &mut State, job: &Job) -> Result<(), FuzzError> {
        if let Some(pick) = &job.pick {
            state.metadata_mut::<Queue>()?.not_injected(pick);
        }
        let text = format!("{}: given up with key n", job.sequence.kinds());
        self.session.find("skipped", text);
        self.session.publish(state, false)
    }

    /// Counts a tested sequence, feeds the queue, writes the run's line.
    fn settle<E>(
        &mut self,
        executor: &E,
        state: &mut State,
        job: &Job,
        role: RunRole,
        kept: Option<CorpusId>,
    ) -> Result<(), FuzzError>
    where
        E: HasObservers<Observers = Observers> + Drive,
    {
        let session = &mut self.session;
        let observers = executor.observers();
        let run = &observers.1.0;
        let (record, judgement) = (run.record(), run.judgement());
        let void = judgement.void.is_some();
        if void {
            session.counts.sequences += 1;
        } else {
            let first_try = job.pick.as_ref().is_none_or(|p| p.tries == 0);
            session.counts.tested(record, judgement, first_try);
        }
        if plain(record, judgement) {
            self.judge
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .learn_single_fault(run.product());
        }
        // Before anything may be parked: the pick's seed run must still be there.
        if let Some(pick) = &job.pick {
            let queue = state.metadata_mut::<Queue>()?;
            if record.not_injected.is_none() && !void {
                queue.tested(pick);
            } else {
                queue.not_injected(pick);
            }
        }
        let mut new_slots = 0;
        if let Some(id) = kept {
            let info = state
                .corpus()
                .get(id)?
                .borrow()
                .metadata_map()
                .get::<KeptInfo>()
                .cloned()
                .unwrap_or_default();
            new_slots = info.new_slots;
            let id = usize::from(id) as u64;
            session.counts.kept += 1;
            session.counts.last_find = Some(session.clock.fuzz_ms());
            if new_slots > 0 {
                session.durable_due.insert(id);
                session.find(
                    "coverage",
                    format!("{new_slots} new slots by {}", job.sequence.kinds()),
                );
            }
            if session.options.strategy == StrategyKind::CrashFuzz {
                let parent = parent_stacks(session, job)?;
                let shape = executor.shape().clone();
                let drawing = drawing(session, executor, &shape);
                add_seed(state, id, run, &info, &drawing, &parent)?;
                park(session, state)?;
            }
        }
        if !judgement.unknowns.is_empty() && judgement.verdict == Verdict::Unknown && !void {
            let why = judgement
                .unknowns
                .iter()
                .map(|u| format!("{}: {}", u.checker, u.why))
                .collect::<Vec<_>>()
                .join("; ");
            session.find("unknown", why);
        }
        let mut line = line(session, state, run, role);
        line.coverage = warren_feedback::coverage::slots_set(observers.0.to_slice());
        line.new_coverage = new_slots > 0;
        line.kept = kept.map(|id| usize::from(id) as u64);
        line.seed_run = job.pick.as_ref().map(|p| p.seed);
        line.why.clone_from(&job.why);
        session.run_ended(&line)
    }
}

/// The last run ended because the user gave it up, not by itself just before.
pub fn given_up(session: &Session, run: &RunObserver) -> bool {
    let void = run.judgement().void.as_deref();
    session.snapshot().gave_up() && void.is_some_and(|v| v.starts_with(STOPPED))
}

/// The line of a run, as far as the run itself tells.
pub fn line<'a>(
    session: &Session,
    state: &State,
    run: &'a RunObserver,
    role: RunRole,
) -> RunLine<'a> {
    let mut line = RunLine::new(*state.executions(), role, run.record(), run.judgement());
    line.at_ms = session.clock.fuzz_ms();
    line.events = run.trace().events.len();
    line
}

/// One run through LibAFL's observers, judged by the run observer.
#[expect(
    clippy::too_many_arguments,
    reason = "LibAFL's four and the run's four"
)]
pub fn execute<E, EM, Z>(
    session: &mut Session,
    fuzzer: &mut Z,
    executor: &mut E,
    state: &mut State,
    manager: &mut EM,
    sequence: &FaultSequence,
    limit: Duration,
    durable: bool,
    retest: bool,
) -> Result<ExitKind, FuzzError>
where
    E: HasObservers<Observers = Observers> + Drive,
    Z: ExecutesInput<E, EM, FaultSequence, State>,
{
    let paused = session.snapshot().wait_while_paused(|| session.stopping());
    session.paused(paused);
    set_options(session, executor.options_mut(), limit, durable);
    executor.observers_mut().1.0.expect_retest(retest);
    Ok(fuzzer.execute_input(state, executor, manager, sequence)?)
}

pub(super) fn set_options(
    session: &Session,
    options: &mut RunOptions,
    limit: Duration,
    durable: bool,
) {
    let snapshot = session.snapshot().clone();
    options.seed = session.seed;
    options.limit = limit;
    options.fault_wait = session.limits.fault_wait;
    options.durable = durable;
    options.stop = session.options.stop.clone();
    options.give_up = session.snapshot().begin_run();
    options.progress = Some(std::sync::Arc::new(move |p| show_progress(&snapshot, &p)));
}

/// One fault, it happened, and all was well: what is logged then is ordinary life under a fault.
fn plain(record: &RunRecord, judgement: &Judgement) -> bool {
    judgement.verdict == Verdict::Pass
        && judgement.void.is_none()
        && record.not_injected.is_none()
        && record.injected.len() == 1
        && record
            .sequence
            .as_ref()
            .is_some_and(|s| s.faults.len() == 1)
}

/// A liveness question failed while the machine stalled: feedback says unknown, the run is asked once more.
fn undecided_by_load(judgement: &Judgement) -> bool {
    judgement.verdict == Verdict::Unknown
        && judgement
            .unknowns
            .iter()
            .any(|u| u.why.contains("stood still"))
}

/// What may be drawn in this campaign.
pub fn drawing<'a, E: Drive>(
    session: &Session,
    executor: &E,
    shape: &'a warren_model::ClusterShape,
) -> Drawing<'a> {
    Drawing {
        shape,
        faults: session.options.faults,
        how: if executor.kernel_cuts().is_ok() {
            CutHow::Drop
        } else {
            CutHow::Throw
        },
        salt: session.seed,
    }
}

/// A run as children see it; `None` without matched faults.
#[must_use]
pub fn seed_of<'a>(record: &'a RunRecord, trace: &'a Trace) -> Option<Seed<'a>> {
    Some(Seed {
        trace,
        matched: record.matched.as_ref()?,
        exits: &record.exits,
        serving_ns: serving_since(record),
    })
}

/// Stacks of the points of phases start and test: what healing did at the end of a parent's run is no part of its test.
#[must_use]
pub fn test_stacks(trace: &Trace) -> BTreeSet<StackId> {
    trace
        .events
        .iter()
        .filter(|e| matches!(e.phase, Phase::Start | Phase::Test))
        .map(|e| e.stack)
        .collect()
}

/// The stacks that are no recovery for a child of this job's seed run: those of its seed run; of the fault-free run: of all
/// learning runs.
fn parent_stacks(session: &Session, job: &Job) -> Result<BTreeSet<StackId>, FuzzError> {
    match &job.pick {
        Some(p) if job.sequence.faults.len() > 1 => {
            let parent = StoredRun::read(&session.folder.runs(), p.seed)?;
            Ok(test_stacks(&parent.trace))
        }
        _ => Ok(session.fault_free_stacks.clone()),
    }
}

/// Keeps memory bounded: seed runs of lowest score leave it, with which occurrences were tried.
fn park(session: &Session, state: &mut State) -> Result<(), FuzzError> {
    let queue = state.metadata_mut::<Queue>()?;
    while let Some((seed, entry)) = queue.park(session.max_classes) {
        parked_file::write(&session.folder.runs(), seed, &entry)?;
    }
    Ok(())
}

/// Reads a parked seed run back.
fn unpark(session: &Session, state: &mut State, seed: u64) -> Result<(), FuzzError> {
    let entry = parked_file::take(&session.folder.runs(), seed)?;
    state.metadata_mut::<Queue>()?.unpark(entry);
    Ok(())
}

/// A kept run's classes join the queue.
pub fn add_seed(
    state: &mut State,
    id: u64,
    run: &RunObserver,
    info: &KeptInfo,
    drawing: &Drawing<'_>,
    parent: &BTreeSet<StackId>,
) -> Result<(), FuzzError> {
    let Some(seed) = seed_of(run.record(), run.trace()) else {
        return Ok(());
    };
    let classes = seed.classes(drawing);
    let kept = Kept {
        seed: id,
        faults: seed.matched.faults.len(),
        time_ms: info.total_ms,
        coverage: info.slots as u64,
    };
    state
        .metadata_mut::<Queue>()?
        .add(kept, &classes, |stack| !parent.contains(&stack));
    Ok(())
}

/// What makes two sequences the same test: start and faults, not the roles of uninvolved nodes.
#[must_use]
pub fn identity(sequence: &FaultSequence) -> u64 {
    let mut bare = sequence.clone();
    bare.roles.clear();
    fnv1a(bare.to_text().as_bytes())
}
