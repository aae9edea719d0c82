//! The stage that runs what the scheduler picked: builds the sequence, runs it (again where it was void, over its limit, or
//! undecided by load), lets LibAFL judge and keep it, feeds the queue, and hands a failing run to confirmation.

use super::State;
use super::handed::{Cluster, Fuzzes, Handed};
use super::job::twin;
pub use super::kept::{add_seed, drawing, info_of, shape, take_entry, test_stacks};
use super::kept::{alike_of, parent_stacks, park, unknown_slots, unknown_states, unpark};
use super::session::Session;
use crate::campaign::state::hook;
use crate::campaign::sync_file::KeptThere;
use crate::campaign::{FuzzError, RunLine, RunRole};
use crate::fuzz::confirming::confirm;
use crate::fuzz::figures::snapshot::{CurrentRun, FindKind, show_progress};
use crate::fuzz::figures::untaught::Shown;
use crate::fuzz::resume::finds;
use crate::fuzz::resume::saved::Job;
use crate::search::{Bounds, NextRun, Queue, Warren};
use libafl::corpus::CorpusId;
use libafl::executors::ExitKind;
use libafl::fuzzer::ExecuteInputResult;
use libafl::stages::{Restartable, Stage};
use libafl::state::HasExecutions;
use libafl::{Error, HasMetadata};
use libafl_bolts::ToSlice;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use warren_executor::{PrefixUse, RunOptions};
use warren_feedback::{KnownSlots, KnownStates, RunObserver};
use warren_model::{FailureKind, FaultSequence, Judgement, Phase, RunRecord, Verdict, Void};

/// A void run is repeated so often.
const VOID_REPEATS: u32 = 3;
/// After so many void sequences in a row, each in all its runs, the campaign ends.
const MOST_VOID: u32 = 50;
/// One of so many runs asks for durability.
pub const DURABLE_EVERY: u64 = 10;

/// How the last run of a sequence ended.
pub enum Tested {
    /// Ended by the stop flag: it tells nothing.
    Stopped,
    /// Ended by key `n`: likewise, and the next sequence's turn.
    GivenUp,
    Done(ExitKind),
}

/// Runs one sequence per `perform`.
pub struct FuzzStage {
    pub session: Session,
    /// First tries of this process since the last sequence that told something.
    pub void_in_a_row: u32,
}

impl<S> Restartable<S> for FuzzStage {
    fn should_restart(&mut self, _state: &mut S) -> Result<bool, Error> {
        Ok(true)
    }

    fn clear_progress(&mut self, _state: &mut S) -> Result<(), Error> {
        Ok(())
    }
}

impl<E: Cluster, EM, Z: Fuzzes<E, EM>> Stage<E, EM, State, Z> for FuzzStage {
    fn perform(
        &mut self,
        fuzzer: &mut Z,
        executor: &mut E,
        state: &mut State,
        manager: &mut EM,
    ) -> Result<(), Error> {
        let mut handed = Handed {
            fuzzer,
            executor,
            state,
            manager,
        };
        let result = match std::mem::take(handed.state.metadata_mut::<NextRun>()?) {
            NextRun::Unpark(seed) => unpark(&mut self.session, handed.state, seed),
            next => self.one(&mut handed, next),
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
    fn one<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
        next: NextRun,
    ) -> Result<(), FuzzError> {
        let Some(job) = self.session.make_job(handed.executor, handed.state, next)? else {
            return Ok(());
        };
        self.begin(handed, job)
    }

    /// Runs the sequence again whose last run told nothing before a kill or Ctrl-C ended its next one.
    ///
    /// # Errors
    /// As the stage itself.
    pub fn again<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
    ) -> Result<(), Error> {
        let Some(job) = self.session.job.take() else {
            return Ok(());
        };
        self.begin(handed, job)
            .and_then(|()| self.look_at_all(handed))
            .map_err(|e| self.session.fail(e))
    }

    /// Decides on the failing run that is owed a decision, if there is one.
    ///
    /// # Errors
    /// I/O; the cluster cannot be run any more.
    pub fn decide<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
    ) -> Result<(), FuzzError> {
        confirm::decide(&mut self.session, handed)
    }

    /// The first run of a sequence has ended and is what the executor hands over next.
    ///
    /// # Errors
    /// I/O; the cluster cannot be run any more.
    pub(super) fn look_at<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
        mut job: Job,
    ) -> Result<(), FuzzError> {
        let kind = match self.test(handed, &mut job)? {
            Tested::Stopped => return Ok(()),
            Tested::GivenUp => return self.give_up(handed.state, &job),
            Tested::Done(kind) => kind,
        };
        // Known slots change inside LibAFL's evaluation; the journal wants to know which.
        let unknown = Shown {
            slots: unknown_slots(handed.state, handed.executor.observers().0.to_slice()),
            states: unknown_states(handed.state, handed.executor.observers().1.0.states()),
        };
        let judged = handed.evaluate(&job.sequence, &kind)?;
        self.session.learned(handed.state, handed.executor, unknown);
        let run = &handed.executor.observers().1.0;
        let (product, judgement) = (run.product(), run.judgement());
        let is_find = judged.0 == ExecuteInputResult::Solution
            || confirm::first_new_failure(&self.session, product, judgement).is_some();
        let looked_at = is_find || confirm::is_fresh(handed.state, judgement);
        if product.from_prefix.is_some() && !judgement.failures.is_empty() {
            handed.executor.distrust_prefix(&job.sequence);
        }
        let told = !is_void(run);
        let why = match &judgement.void {
            Some(void) => Some(void.to_string()),
            // A fault of the start may be what kept the cluster from coming up.
            None if !told && !begins_in_start(&job.sequence) => {
                Some("the cluster and its workload did not come up".to_owned())
            }
            None => None,
        };
        let seeds = &self.session.seeds;
        // What told nothing before may be void by itself.
        let first = seeds
            .first_try()
            .unwrap_or(job.pick.as_ref().is_none_or(|p| p.tries == 0));
        self.settle(handed.executor, handed.state, &job, judged.1, is_find)?;
        if looked_at {
            confirm::owe(&mut self.session, handed.executor, handed.state, &job.why)?;
        }
        self.session.commit(handed.state)?;
        self.decide(handed)?;
        self.session.publish(handed.state, false)?;
        self.count_void(told, why.filter(|_| first))
    }

    /// On a machine that stays short every run is void: each sequence would lose its tries to that, until nothing were left to test. A campaign
    /// that ends here goes on with what is left, and with what has tries left. That a void run costs no try is no way: what is void by itself
    /// would come again for ever.
    fn count_void(&mut self, told: bool, why: Option<String>) -> Result<(), FuzzError> {
        if told {
            self.void_in_a_row = 0;
        }
        let Some(why) = why else {
            return Ok(());
        };
        self.void_in_a_row += 1;
        if self.void_in_a_row < MOST_VOID {
            return Ok(());
        }
        Err(FuzzError::Cluster(format!(
            "{MOST_VOID} sequences in a row told nothing, each in up to {} runs, the last because: {why}\n  mend what keeps the machine from making runs, and go on with `-i -`: the campaign is kept as it is",
            VOID_REPEATS + 1
        )))
    }

    /// Takes the run that has ended, and runs its sequence until it tells something: void runs are repeated, a run over its limit is made once more with twice the
    /// limit, a liveness failure that load may explain is asked once more. All but the last run get their line and their record
    /// here, which says what is to be run next.
    fn test<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
        job: &mut Job,
    ) -> Result<Tested, FuzzError> {
        let session = &mut self.session;
        let limit = session.limits.run;
        let mut observers = handed.executor.observers_mut();
        observers.1.0.expect_retest(job.retested);
        let mut kind = handed.execute(&job.sequence)?;
        loop {
            if session.stopping() {
                pass_over(session, handed.executor, handed.state, job)?;
                return Ok(Tested::Stopped);
            }
            let observers = handed.executor.observers();
            let run = &observers.1.0;
            if given_up(session, run) {
                let mut line = line(session, handed.state, run, job.role);
                line.void = Some(&Void::CutOff);
                session.run_ended(&line)?;
                return Ok(Tested::GivenUp);
            }
            let j = run.judgement();
            let next = if j.void.is_some() && job.voids < VOID_REPEATS {
                job.voids += 1;
                RunRole::Repeat
            } else if j.void.is_none()
                && run.record().timed_out
                && !j.failures.iter().any(|f| f.kind == FailureKind::Safety)
                && !job.retested
            {
                job.retested = true;
                RunRole::Retest
            } else if undecided_by_load(j) && !job.repeated && !job.retested {
                job.repeated = true;
                RunRole::Repeat
            } else {
                return Ok(Tested::Done(kind));
            };
            let line_seed = job.seed_run();
            let mut line = line(session, handed.state, run, job.role);
            line.why.clone_from(&job.why);
            line.seed_run = line_seed;
            session.run_ended(&line)?;
            job.role = next;
            session.job = Some(job.clone());
            session.commit(handed.state)?;
            session.job = None;
            session.show_current(CurrentRun {
                doing: doing(next).into(),
                faults: job.lines.clone(),
                kinds: job.sequence.kinds(),
                why: job.why.clone(),
                seed_run: line_seed,
                since: Some(Instant::now()),
                ..CurrentRun::default()
            });
            let asked = if job.retested { limit * 2 } else { limit };
            kind = execute(
                session,
                handed,
                &job.sequence,
                asked,
                job.durable,
                job.retested,
            )?;
        }
    }

    /// The user gave the run up: its sequence has its turn again, three times in all, with no word against its seed run.
    fn give_up(&mut self, state: &mut State, job: &Job) -> Result<(), FuzzError> {
        if let Some(pick) = &job.pick {
            state.metadata_mut::<Queue>()?.told_nothing(pick);
        } else if self.session.seeds.first_try().is_none() {
            self.session.note_tried(job);
        }
        self.session.seed_skipped();
        let text = format!("{}: given up with key n", job.sequence.kinds());
        self.session.list_find(FindKind::Skipped, text);
        self.session.commit(state)?;
        self.session.publish(state, false)
    }

    /// Counts a tested sequence, feeds the queue, makes the run's line and queue entry ready for the record.
    fn settle<E: Cluster>(
        &mut self,
        executor: &E,
        state: &mut State,
        job: &Job,
        kept: Option<CorpusId>,
        is_find: bool,
    ) -> Result<(), FuzzError> {
        let session = &mut self.session;
        let observers = executor.observers();
        let run = &observers.1.0;
        let (record, judgement) = (run.record(), run.judgement());
        let void = is_void(run);
        count(session, job, run, void);
        // Before anything may be parked: the pick's seed run must still be there.
        if let Some(pick) = &job.pick {
            let queue = state.metadata_mut::<Queue>()?;
            if void {
                queue.told_nothing(pick);
            } else if record.not_injected.is_some() {
                queue.not_injected(pick);
            } else {
                queue.tested(pick);
            }
        }
        let (new_slots, new_states) = match kept {
            Some(id) => keep(session, executor, state, job, id)?,
            None => (0, 0),
        };
        // What its patterns met is tested, too: as an exact sequence it may be the child of a kept run.
        if let Some(matched) = &record.matched
            && !void
            && record.not_injected.is_none()
        {
            let twin = twin(matched, session.options.parts(), executor.shape());
            for identity in [matched.identity()].into_iter().chain(twin) {
                session.note_tested(identity);
            }
        }
        let drawn = job.pick.is_none() && session.seeds.first_try().is_none();
        if drawn && (void || record.not_injected.is_some()) {
            session.note_tried(job);
        }
        // A seed that was given is nobody's try.
        if !void && session.seeds.first_try().is_none() {
            let (full, found) = (record.not_injected.is_none(), is_find || new_slots > 0);
            state
                .metadata_mut::<Warren>()?
                .tested(&job.origin, full, found);
        }
        if !judgement.unknowns.is_empty() && judgement.verdict == Verdict::Unknown && !void {
            let whys = judgement.unknowns.iter();
            let whys: Vec<String> = whys.map(|u| format!("{}: {}", u.checker, u.why)).collect();
            session.list_find(FindKind::Unknown, whys.join("; "));
        }
        let mut line = line(session, state, run, job.role);
        line.coverage = warren_feedback::coverage::slots_set(observers.0.to_slice());
        line.new_coverage = new_slots > 0;
        line.new_states = new_states;
        line.kept = kept.map(|id| usize::from(id) as u64);
        // A run kept for its last fault alone, or because the search keeps all, showed nothing new.
        if new_slots > 0 || new_states > 0 {
            session.counts.last_find = Some(line.at_ms);
        }
        line.seed_run = job.seed_run();
        line.why.clone_from(&job.why);
        session.run_ended(&line)?;
        session.seed_settled(run, kept.is_some());
        Ok(())
    }
}

/// The run in the observers has ended, and Warren ends before it is looked at: it counts nowhere, and its sequence is made again. What it showed may
/// not come again.
pub(super) fn pass_over<E: Cluster>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    job: &Job,
) -> Result<(), FuzzError> {
    let observers = executor.observers();
    let run = &observers.1.0;
    let by_itself = run.judgement().void.is_none();
    let mut line = line(session, state, run, job.role);
    line.void = Some(&Void::CutOff);
    session.run_ended(&line)?;
    if by_itself {
        confirm::keep_unlooked_at(session, executor, state, &job.why)?;
    }
    Ok(())
}

/// Counts the sequence that was tested, and lets the judge learn from a plain run.
fn count(session: &mut Session, job: &Job, run: &RunObserver, void: bool) {
    let (record, judgement) = (run.record(), run.judgement());
    if void {
        session.counts.sequences += 1;
    } else {
        let first_try = session
            .seeds
            .first_try()
            .unwrap_or_else(|| job.pick.as_ref().is_none_or(|p| p.tries == 0));
        session.counts.tested(record, judgement, first_try);
        session.counts.spared.by(run.product());
    }
    if plain(record, judgement) {
        session.judge().learn_single_fault(run.product());
    }
}

/// The run was kept: what it showed is told, and its queue entry is made ready for the record. Gives its new slots and states.
fn keep<E: Cluster>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    job: &Job,
    id: CorpusId,
) -> Result<(usize, usize), FuzzError> {
    let run = &executor.observers().1.0;
    let info = info_of(state, id)?;
    session.redo.queue = Some(take_entry(state, id)?);
    session.news.matched.push(info.matched);
    let number = usize::from(id) as u64;
    session.instances.told.kept.push(KeptThere {
        id: number,
        slots: info.slots as u64,
    });
    session.counts.kept += 1;
    if info.new_slots > 0 {
        session.explored.durable_due.insert(number);
        session.news.durable_in.push(number);
    }
    let kinds = job.sequence.kinds();
    match (info.new_slots, info.new_states) {
        (0, 0) => {}
        (0, n) => session.list_find(FindKind::State, finds::new_states(n, &kinds)),
        (n, _) => session.list_find(FindKind::Coverage, format!("{n} new slots by {kinds}")),
    }
    if session.options.strategy.has_queue() {
        let parent = parent_stacks(session, job)?;
        let shape = shape(session, executor);
        let drawing = drawing(session, executor, &shape);
        let bounds = Bounds::of(run.product());
        let alike = alike_of(run.product(), &info, &drawing);
        add_seed(
            state,
            number,
            run.record(),
            run.trace(),
            bounds,
            &info,
            alike,
            &drawing,
            &parent,
        )?;
        park(session, state)?;
    }
    Ok((info.new_slots, info.new_states))
}

fn begins_in_start(sequence: &FaultSequence) -> bool {
    let mut faults = sequence.faults.iter();
    faults.any(|f| f.at.phase() == Phase::Start)
}

/// It is no test: void, or over before GO without a failure.
fn is_void(run: &RunObserver) -> bool {
    let judgement = run.judgement();
    let fails = judgement.verdict == Verdict::Fail;
    judgement.void.is_some() || run.record().set_up_failed() && !fails
}

impl Session {
    /// The run in the observers was evaluated: of what nobody knew before, the journal gets what was learned, and what it showed apart from that.
    fn learned<E: Cluster>(&mut self, state: &State, executor: &E, unknown: Shown) {
        let metadata = state.metadata_map();
        let (slots, states) = (metadata.get::<KnownSlots>(), metadata.get::<KnownStates>());
        let (learned, others) = (unknown.slots.into_iter())
            .partition(|s| slots.is_some_and(|k| k.contains(*s as usize)));
        let (learned_states, other_states) =
            (unknown.states.into_iter()).partition(|s| states.is_some_and(|k| k.contains(*s)));
        self.news.slots.extend::<Vec<u32>>(learned);
        self.news.states.extend::<Vec<u32>>(learned_states);
        if !is_void(&executor.observers().1.0) {
            self.news.untaught = self.untaught.take(Shown {
                slots: others,
                states: other_states,
            });
        }
    }
}

/// The last run ended because the user gave it up, not by itself just before.
pub fn given_up(session: &Session, run: &RunObserver) -> bool {
    let void = run.judgement().void.as_ref();
    session.beside.giving_up.load(Ordering::SeqCst) && void.is_some_and(Void::is_ended_early)
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
    let product = run.product();
    line.cold = product.fallbacks.cold.as_deref();
    line.remade = product.fallbacks.remade.as_deref();
    line.from_prefix = product.from_prefix.map(|p| p.faults);
    line.no_prefix = product.fallbacks.no_prefix.as_deref();
    line.unparked = product.unparked;
    line.no_parked = product.fallbacks.no_parked.as_deref();
    line.notes = product.notes().collect();
    (line.slots, line.states) = session.untaught.with_known(state);
    line.sequences = session.counts.sequences;
    line
}

/// One run through LibAFL's observers, judged by the run observer. It has the machine for itself.
pub fn execute<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    sequence: &FaultSequence,
    limit: Duration,
    durable: bool,
    retest: bool,
) -> Result<ExitKind, FuzzError> {
    let paused = session.snapshot().wait_while_paused(|| session.stopping());
    session.paused(paused);
    handed.executor.wait_for_all();
    session.show_idle();
    set_options(session, handed.executor.options_mut(), 0, limit, durable);
    session.beside.giving_up = handed.executor.options_mut().give_up.clone();
    hook::point("run");
    handed.executor.observers_mut().1.0.expect_retest(retest);
    Ok(handed.execute(sequence)?)
}

pub(super) fn set_options(
    session: &Session,
    options: &mut RunOptions,
    slot: usize,
    limit: Duration,
    durable: bool,
) {
    let snapshot = session.snapshot().clone();
    options.seed = session.seed;
    options.limit = limit;
    options.usual_limit = Some(session.limits.run);
    options.fault_wait = session.limits.fault_wait;
    options.waits = Vec::new();
    options.durable = durable;
    options.prefix = PrefixUse::Never;
    options.stop = session.options.stop.clone();
    options.give_up = session.snapshot().begin_run();
    options.progress = Some(std::sync::Arc::new(move |p| {
        let doing =
            || snapshot.with(|s| s.run_of(slot).map(|r| r.doing.clone()).unwrap_or_default());
        hook::phase(doing, &p);
        show_progress(&snapshot, slot, &p);
    }));
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
pub(super) fn undecided_by_load(judgement: &Judgement) -> bool {
    judgement.verdict == Verdict::Unknown && judgement.open_by_load().next().is_some()
}

/// For the screen.
pub(super) fn doing(role: RunRole) -> &'static str {
    match role {
        RunRole::Retest => "retest",
        RunRole::Repeat => "repeat",
        _ => "fuzzing",
    }
}
