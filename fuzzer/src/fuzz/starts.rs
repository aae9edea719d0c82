//! The roots of the search: the fault-free run of the cold start, and one of each snapshot of the target. Children inherit the
//! start of their root; what is ordinary (coverage, states, stacks, log lines) is what any of them showed.
//!
//! Called by learning. It draws nothing and decides on no share: that is the scheduler's.

use super::State;
use super::drive::{Drive, Observers};
use super::learn::{MAY_FAIL, learning_run, unusable, words};
use super::options::FuzzError;
use super::session::{Root, STOPPED, Session};
use super::snapshot::CurrentRun;
use super::stage::{add_seed, drawing, info_of, set_options, shape, take_entry, test_stacks};
use crate::search::Bounds;
use libafl::HasMetadata;
use libafl::executors::{ExitKind, HasObservers};
use libafl::fuzzer::{ExecutesInput, ExecutionProcessor};
use libafl_bolts::ToSlice;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use warren_feedback::{Judge, KnownSlots, KnownStates, coverage::slots_set};
use warren_model::{FaultSequence, StartState};

/// What the fault-free run in the observers shows is ordinary from now on.
pub(super) fn take_in<E>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    judge: &Arc<Mutex<Judge>>,
) where
    E: HasObservers<Observers = Observers>,
{
    let observers = executor.observers();
    let run = &observers.1.0;
    judge
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .learn_fault_free(run.product());
    state
        .metadata_or_insert_with(KnownSlots::new)
        .learn(observers.0.to_slice());
    state
        .metadata_or_insert_with(KnownStates::default)
        .learn(run.states());
    session.fault_free_stacks.extend(test_stacks(run.trace()));
}

/// Makes the fault-free run in the observers a root of the search.
pub(super) fn root<E, EM, Z>(
    session: &mut Session,
    fuzzer: &mut Z,
    executor: &E,
    state: &mut State,
    manager: &mut EM,
    sequence: &FaultSequence,
    kind: ExitKind,
) -> Result<(), FuzzError>
where
    E: HasObservers<Observers = Observers> + Drive,
    Z: ExecutionProcessor<EM, FaultSequence, Observers, State>,
{
    let (_, id) = fuzzer.evaluate_execution(
        state,
        manager,
        sequence,
        &*executor.observers(),
        &kind,
        true,
    )?;
    let id = id.ok_or_else(|| {
        FuzzError::Learning("a fault-free run was not kept as root of the search".into())
    })?;
    let observers = executor.observers();
    let run = &observers.1.0;
    if session.options.strategy.has_queue() {
        let info = info_of(state, id)?;
        let shape = shape(session, executor);
        let drawing = drawing(session, executor, &shape);
        let stacks = session.fault_free_stacks.clone();
        let id = usize::from(id) as u64;
        add_seed(
            state,
            id,
            run.record(),
            run.trace(),
            Bounds::of(run.product()),
            &info,
            None,
            &drawing,
            &stacks,
        )?;
    } else if session.learnt.roots == 0 {
        session.root = Root {
            trace: run.trace().clone(),
            incarnations: run.record().incarnations.clone(),
            test_ms: run.record().times.test,
        };
    }
    session.learnt.roots += 1;
    session.redo.queue = Some(take_entry(state, id)?);
    session.commit_whole(state)
}

/// A fault-free run from each snapshot that is not a root yet. Where snapshots do not work, every run starts cold, and it is said.
pub(super) fn snapshots<E, EM, Z>(
    session: &mut Session,
    fuzzer: &mut Z,
    executor: &mut E,
    state: &mut State,
    manager: &mut EM,
    judge: &Arc<Mutex<Judge>>,
) -> Result<(), FuzzError>
where
    E: HasObservers<Observers = Observers> + Drive,
    Z: ExecutesInput<E, EM, FaultSequence, State>
        + ExecutionProcessor<EM, FaultSequence, Observers, State>,
{
    let wanted = session.options.starts.snapshots;
    while session.learnt.roots <= wanted {
        // The cold start is root 0.
        let number = session.learnt.roots;
        session.show_current(CurrentRun {
            doing: format!("making snapshot {number}/{wanted}"),
            since: Some(Instant::now()),
            ..CurrentRun::default()
        });
        let began = Instant::now();
        let limit = session.limits.run;
        set_options(session, executor.options_mut(), 0, limit, false);
        let warm = match executor.warm(number) {
            Ok(warm) => warm,
            Err(_) if session.stopping() => return Ok(()),
            Err(e) => return Err(FuzzError::Cluster(words(&e))),
        };
        let made = began.elapsed().as_millis();
        let usable = match warm {
            Ok(()) => from_snapshot(session, fuzzer, executor, state, manager, number)?,
            Err(why) => Err(why),
        };
        if session.stopping() {
            return Ok(());
        }
        match usable {
            Ok(kind) => {
                take_in(session, executor, state, judge);
                let observers = executor.observers();
                session.say(format!(
                    "snapshot {number}/{wanted}: made in {made} ms; a run from it takes {} ms, {} points, {} slots",
                    observers.1.0.record().times.total,
                    observers.1.0.trace().events.len(),
                    slots_set(observers.0.to_slice()),
                ));
                let sequence = fault_free(session, number);
                root(session, fuzzer, &*executor, state, manager, &sequence, kind)?;
                session.publish(state, false)?;
            }
            Err(why) if session.options.starts.required => {
                return Err(FuzzError::Cluster(format!(
                    "--snapshot require: runs cannot start from a snapshot here: {why}"
                )));
            }
            Err(why) => {
                // Each snapshot is a root of the search: they are made before it, or when it is resumed.
                session.say(match number {
                    1 => format!("every run starts cold until the campaign is resumed: {why}"),
                    n => format!(
                        "no more than {} snapshots until the campaign is resumed: {why}",
                        n - 1
                    ),
                });
                return Ok(());
            }
        }
    }
    Ok(())
}

fn fault_free(session: &Session, number: u8) -> FaultSequence {
    FaultSequence {
        start: StartState::Snapshot(number),
        ..FaultSequence::empty(&session.options.target)
    }
}

/// A usable fault-free run from a snapshot, left in the observers; else why there is none.
fn from_snapshot<E, EM, Z>(
    session: &mut Session,
    fuzzer: &mut Z,
    executor: &mut E,
    state: &mut State,
    manager: &mut EM,
    number: u8,
) -> Result<Result<ExitKind, String>, FuzzError>
where
    E: HasObservers<Observers = Observers> + Drive,
    Z: ExecutesInput<E, EM, FaultSequence, State>,
{
    let sequence = fault_free(session, number);
    let limit = session.limits.run;
    let mut why = String::new();
    for _ in 0..=MAY_FAIL {
        let made = learning_run(session, fuzzer, executor, state, manager, &sequence, limit)?;
        let Some(kind) = made else {
            return Ok(Err(STOPPED.into()));
        };
        let observers = executor.observers();
        let run = &observers.1.0;
        let record = run.record();
        if record
            .matched
            .as_ref()
            .is_some_and(|m| m.start == StartState::Cold)
        {
            return Ok(Err(run.product().cold.clone().unwrap_or_default()));
        }
        match unusable(run.judgement(), record.timed_out) {
            None => return Ok(Ok(kind)),
            Some(wrong) => {
                session.say(format!(
                    "a fault-free run from snapshot {number} is not usable: {wrong}"
                ));
                why = wrong;
                // Before the next run's line.
                session.commit_whole(state)?;
            }
        }
    }
    Ok(Err(why))
}
