//! The roots of the search: a fault-free run of the cold start, and one of each snapshot of the target (its second: two show what varies). Children inherit the
//! start of their root; what is ordinary (coverage, states, stacks, log lines) is what any of them showed.
//!
//! Called by learning. It draws nothing and decides on no share: that is the scheduler's.

use crate::campaign::FuzzError;
use crate::campaign::LearntRoot;
use crate::fuzz::State;
use crate::fuzz::figures::snapshot::CurrentRun;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::learning::learn::{MAY_FAIL, learning_run, unusable, words};
use crate::fuzz::session::Session;
use crate::fuzz::stage::{add_seed, drawing, info_of, set_options, shape, take_entry, test_stacks};
use crate::search::Bounds;
use libafl::HasMetadata;
use libafl::executors::ExitKind;
use libafl_bolts::ToSlice;
use std::time::Instant;
use warren_feedback::{KnownSlots, KnownStates, coverage::Baseline};
use warren_model::{FaultSequence, StartState, Trace};

/// Fault-free runs from a snapshot: two show what varies. The cold start has all `learning_runs`, which also set the limits.
const RUNS: usize = 2;

/// What the fault-free run in the observers shows is ordinary from now on.
pub(in crate::fuzz) fn take_in<E: Cluster>(session: &mut Session, executor: &E, state: &mut State) {
    let observers = executor.observers();
    let run = &observers.1.0;
    session.judge().learn_fault_free(run.product());
    let new = state
        .metadata_or_insert_with(KnownSlots::new)
        .learn(observers.0.to_slice());
    session.edges_fault_free += new as u64;
    state
        .metadata_or_insert_with(KnownStates::default)
        .learn(run.states());
    session
        .explored
        .fault_free_stacks
        .extend(test_stacks(run.trace()));
}

/// The fault-free run in the observers that is to be a root, and what those from its start have in common.
pub(in crate::fuzz) struct Found {
    pub kind: ExitKind,
    pub baseline: Baseline,
}

/// Makes the fault-free run in the observers a root of the search.
pub(in crate::fuzz) fn root<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    sequence: &FaultSequence,
    found: Found,
) -> Result<(), FuzzError> {
    let (_, id) = handed.evaluate(sequence, &found.kind)?;
    let id = id.ok_or_else(|| {
        FuzzError::Learning("a fault-free run was not kept as root of the search".into())
    })?;
    let observers = handed.executor.observers();
    let run = &observers.1.0;
    if session.learnt.roots.is_empty() {
        tell_favoured(session, run.trace());
        for warning in &run.record().warnings {
            session.say_once(format!("warning: {warning}"));
        }
    }
    if session.options.strategy.has_queue() {
        let info = info_of(handed.state, id)?;
        let shape = shape(session, handed.executor);
        let drawing = drawing(session, handed.executor, &shape);
        let stacks = session.explored.fault_free_stacks.clone();
        let id = usize::from(id) as u64;
        add_seed(
            handed.state,
            id,
            run.record(),
            run.trace(),
            Bounds::of(run.product()),
            &info,
            None,
            &drawing,
            &stacks,
        )?;
    } else if session.learnt.roots.is_empty() {
        session.explored.root_test_ms = run.record().times.test;
    }
    session.learnt.roots.push(LearntRoot {
        start: sequence.start,
        run: usize::from(id) as u64,
        baseline: found.baseline,
    });
    session.redo.queue = Some(take_entry(handed.state, id)?);
    session.commit_whole(handed.state)
}

/// How many stacks are favoured: a glob that matches none is misspelt, or asks for what only a fault brings.
fn tell_favoured(session: &mut Session, trace: &Trace) {
    let favour = session.options.favour.clone();
    let all = trace.stacks.len();
    for (glob, stacks) in favour.matched(trace) {
        session.say(match stacks {
            _ if !session.options.strategy.weighs() => format!(
                "favour {glob}: ignored, as strategy {} does not weight points",
                session.options.strategy
            ),
            0 => format!(
                "favour {glob}: no stack of the fault-free run has it; misspelt, unless only faults bring it"
            ),
            n => format!("favour {glob}: {n} of {all} stacks of the fault-free run"),
        });
    }
}

/// Fault-free runs from each snapshot that has no root yet. Where snapshots do not work, every run starts cold, and it is said.
pub(in crate::fuzz) fn snapshots<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    let wanted = session.options.starts.snapshots;
    while session.learnt.snapshots() < wanted {
        let number = session.learnt.snapshots() + 1;
        session.show_current(CurrentRun {
            doing: format!("making snapshot {number}/{wanted}"),
            since: Some(Instant::now()),
            ..CurrentRun::default()
        });
        let began = Instant::now();
        let limit = session.limits.run;
        set_options(session, handed.executor.options_mut(), 0, limit, false);
        let warm = match handed.executor.warm(number) {
            Ok(warm) => warm,
            Err(_) if session.stopping() => return Ok(()),
            Err(e) => return Err(FuzzError::Cluster(words(&e))),
        };
        let made = began.elapsed().as_millis();
        let usable = match warm {
            Ok(()) => from_snapshot(session, handed, number)?,
            Err(why) => Err(why),
        };
        if session.stopping() {
            return Ok(());
        }
        match usable {
            Ok(found) => {
                let observers = handed.executor.observers();
                session.say(format!(
                    "snapshot {number}/{wanted}: made in {made} ms; a run from it takes {} ms, {} points, {} slots, of which {} vary",
                    observers.1.0.record().times.total,
                    observers.1.0.trace().events.len(),
                    found.baseline.slots,
                    found.baseline.variable,
                ));
                let sequence = fault_free(session, number);
                root(session, handed, &sequence, found)?;
                session.publish(handed.state, false)?;
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

/// As many usable fault-free runs from a snapshot as show its noise, the last one left in the observers; else why there are not.
fn from_snapshot<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    number: u8,
) -> Result<Result<Found, String>, FuzzError> {
    let sequence = fault_free(session, number);
    let limit = session.limits.run;
    let wanted = RUNS.min(session.options.learning_runs.max(1));
    // Of an earlier process, when that was cut off here. The last run must be made now: the root is what it leaves in the observers.
    let mut maps = session.learnt.maps.clone();
    maps.truncate(wanted - 1);
    let mut failed = 0;
    loop {
        let made = learning_run(session, handed, &sequence, limit)?;
        let Some(kind) = made else {
            return Ok(Err("stopped".into()));
        };
        let observers = handed.executor.observers();
        let run = &observers.1.0;
        let record = run.record();
        if record
            .matched
            .as_ref()
            .is_some_and(|m| m.start == StartState::Cold)
        {
            let why = run.product().fallbacks.cold.clone().unwrap_or_default();
            session.learnt.maps = Vec::new();
            session.commit_whole(handed.state)?;
            return Ok(Err(why));
        }
        match unusable(run.judgement(), record.timed_out) {
            None => {
                maps.push(observers.0.to_slice().to_vec());
                take_in(session, handed.executor, handed.state);
                if maps.len() == wanted {
                    session.learnt.maps = Vec::new();
                    let baseline = Baseline::of(&maps);
                    return Ok(Ok(Found { kind, baseline }));
                }
            }
            Some(wrong) => {
                session.say(format!(
                    "a fault-free run from snapshot {number} is not usable: {wrong}"
                ));
                failed += 1;
                if failed > MAY_FAIL {
                    session.learnt.maps = Vec::new();
                    session.commit_whole(handed.state)?;
                    return Ok(Err(wrong));
                }
            }
        }
        // Before the next run's line.
        session.learnt.maps.clone_from(&maps);
        session.commit_whole(handed.state)?;
    }
}
