//! The replays of a failing run: how often does it show again?
//!
//! Called by confirmation, which says what follows. It decides nothing; what a replay shows beside is kept (`replayed_otherwise`). Each
//! replay is in the journal when it ends, so that a campaign cut off in between makes those that are left.

use crate::campaign::{FuzzError, RunRole};
use crate::fuzz::State;
use crate::fuzz::confirming::confirm::{fell_often, to_run_again};
use crate::fuzz::confirming::owed::Seen;
use crate::fuzz::confirming::replayed_otherwise;
use crate::fuzz::confirming::tally::{Asked, REPLAYS, Replayed};
use crate::fuzz::figures::snapshot::CurrentRun;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::session::Session;
use crate::fuzz::slots::under_way::{Started, ToStart};
use crate::fuzz::stage::{given_up, line};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use warren_executor::PrefixUse;
use warren_model::{Failure, FailureKind, Void};

/// Replays what really happened, as often as is owed still; what showed again is counted in what is owed. What load may explain has
/// the machine for itself, one replay after the other; a safety failure's replays share it with what goes on, as many at once as there
/// are slots.
///
/// # Errors
/// I/O; the cluster cannot be run any more.
pub(in crate::fuzz) fn replay<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    seen: &Seen,
) -> Result<(), FuzzError> {
    let sequence = to_run_again(&seen.product.record);
    // The restart is a question more, and takes none away: where one of the failures may need it, all replays make it.
    let mut durable = false;
    let at_once = match seen.failure.kind {
        FailureKind::Safety => session.beside.slots,
        _ => {
            handed.executor.wait_for_all();
            session.show_idle();
            1
        }
    };
    let mut fell = Vec::new();
    for asked in session.owed.iter().flat_map(|o| &o.asked) {
        let failure = seen.failure_of(&asked.signature);
        durable |= failure.is_some_and(|f| seen.product.record.restart_for(f.stage));
        fell.push(failure.is_some_and(|f| fell_often(handed.state, f)));
    }
    let limit = (session.limits).again(&seen.failure, &seen.product.record, &seen.judgement);
    let twice = limit > session.limits.run;
    let mut given_up = false;
    let mut replays: Vec<Started> = Vec::new();
    loop {
        // What has ended first: it may spare the next one.
        if let Some(at) = (replays.iter()).position(|r| handed.executor.take_ended(r.slot)) {
            session.ended(replays.swap_remove(at));
            handed.executor.observers_mut().1.0.expect_retest(twice);
            handed.execute(&sequence)?;
            given_up |= replayed(session, handed.executor, handed.state, seen)?;
            for other in replays.iter().filter(|_| given_up) {
                other.give_up.store(true, Ordering::SeqCst);
            }
            session.publish(handed.state, false)?;
            continue;
        }
        let asked = session.owed.iter().flat_map(|o| &o.asked);
        // A liveness failure that cannot show often enough any more has fallen: the machine is not kept from other work for nothing.
        let open = |(asked, fell): &(&Asked, &bool)| {
            seen.failure.kind != FailureKind::Liveness
                || asked.stood.is_some()
                || asked.outcome(**fell) != Replayed::Falls
        };
        let left = asked.zip(&fell).filter(open).map(|(asked, _)| asked.left());
        let left = left.max().unwrap_or(0);
        let begun = (REPLAYS - left) as usize + replays.len();
        let more = begun < REPLAYS as usize && !session.stopping() && !given_up;
        if more && handed.executor.going_on() < at_once {
            let run = ToStart {
                sequence: &sequence,
                shown: CurrentRun {
                    doing: format!("confirming {}/{REPLAYS}", begun + 1),
                    kinds: sequence.kinds(),
                    why: format!("signature {}", seen.failure.signature),
                    ..CurrentRun::default()
                },
                limit,
                durable,
                waits: Vec::new(),
                prefix: PrefixUse::Never,
            };
            replays.push(session.start(handed.executor, run, &replays)?);
            continue;
        }
        // What else has ended is looked at when this is decided.
        if replays.is_empty() || !handed.executor.wait_for_one() {
            break;
        }
    }
    Ok(())
}

/// Books the replay in the observers; true where it was cut short and counts nowhere.
fn replayed<E: Cluster>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    seen: &Seen,
) -> Result<bool, FuzzError> {
    let observers = executor.observers();
    let run = &observers.1.0;
    let mut written = line(session, state, run, RunRole::Confirm);
    written.why = format!("confirm {}", seen.failure.signature);
    if session.stopping() || given_up(session, run) {
        written.void = Some(&Void::CutOff);
        session.run_ended(&written)?;
        // With key `n` others may be given up beside it, each with its line.
        if !session.stopping() {
            session.commit(state)?;
        }
        return Ok(true);
    }
    session.run_ended(&written)?;
    let failures = run.judgement().failures.iter();
    let again = failures.filter(|f| session.shows_again(seen, f, run.product()));
    let again: BTreeSet<&str> = again.map(|f| f.signature.as_str()).collect();
    // A replay in which less happened than in its run is none of it.
    let record = run.record();
    let less = record.not_injected.is_some() && seen.product.record.happened().is_some();
    let told_nothing = run.judgement().void.is_some() || record.set_up_failed() || less;
    // Else it tells of each failure whose question was answered.
    let by_load: BTreeSet<&str> = run.judgement().open_by_load().collect();
    let answered = |f: &Failure| !by_load.contains(f.checker.as_str());
    let tells = |s: &str| !told_nothing && seen.failure_of(s).is_none_or(answered);
    if let Some(owed) = session.owed.as_mut() {
        owed.count(|s| again.contains(s), tells);
    }
    replayed_otherwise::owe(session, state, run, seen)?;
    session.commit(state)?;
    replayed_otherwise::keep(session, state)?;
    Ok(false)
}
