//! The replays of a failing run: how often does it show again?
//!
//! Called by confirmation, which says what follows. It decides nothing; what a replay shows beside is kept (`replayed_otherwise`). Each
//! replay is in the journal when it ends, so that a campaign cut off in between makes those that are left.

use super::State;
use super::confirm::{REPLAYS, Replayed, fell_often, outcome, to_run_again};
use super::handed::{Cluster, Fuzzes, Handed};
use super::options::FuzzError;
use super::owed::Seen;
use super::replayed_otherwise;
use super::saved::Owed;
use super::session::{STOPPED, Session};
use super::snapshot::CurrentRun;
use super::stage::{given_up, line, undecided_by_load};
use super::under_way::{Started, ToStart};
use crate::campaign::RunRole;
use std::sync::atomic::Ordering;
use warren_executor::PrefixUse;
use warren_model::{Failure, FailureKind};

/// Replays what really happened, as often as is owed still; answers (showed again, replays made) over all. What load may explain has
/// the machine for itself, one replay after the other; a safety failure's replays share it with what goes on, as many at once as there
/// are slots.
///
/// # Errors
/// I/O; the cluster cannot be run any more.
pub(super) fn replay<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    seen: &Seen,
) -> Result<(u32, u32), FuzzError> {
    let sequence = to_run_again(&seen.product.record);
    let durable = seen.product.record.restart_for(seen.failure.stage);
    let at_once = match seen.failure.kind {
        FailureKind::Safety => session.slots,
        _ => {
            handed.executor.wait_for_all();
            session.show_idle();
            1
        }
    };
    let fell_often = fell_often(session, seen)?;
    let limit = session.limits.again(&seen.failure);
    let twice = limit > session.limits.run;
    let mut owed = session.owed.clone().unwrap_or_default();
    let mut given_up = false;
    let mut replays: Vec<Started> = Vec::new();
    loop {
        // What has ended first: it may spare the next one.
        if let Some(at) = (replays.iter()).position(|r| handed.executor.take_ended(r.slot)) {
            session.ended(replays.swap_remove(at));
            handed.executor.observers_mut().1.0.expect_retest(twice);
            handed.execute(&sequence)?;
            given_up |= replayed(session, handed.executor, handed.state, seen, &mut owed)?;
            for other in replays.iter().filter(|_| given_up) {
                other.give_up.store(true, Ordering::SeqCst);
            }
            session.publish(handed.state, false)?;
            continue;
        }
        let begun = owed.n as usize + replays.len();
        // A liveness failure that cannot show often enough any more falls: the machine is not kept from other work for nothing.
        let falls = seen.failure.kind == FailureKind::Liveness
            && owed.stood.is_none()
            && outcome(owed.k, owed.n, fell_often) == Replayed::Falls;
        let more = begun < REPLAYS as usize && !session.stopping() && !given_up && !falls;
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
    Ok((owed.k, owed.n))
}

/// Books the replay in the observers; true where it was cut short and counts nowhere.
fn replayed<E: Cluster>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    seen: &Seen,
    owed: &mut Owed,
) -> Result<bool, FuzzError> {
    let observers = executor.observers();
    let run = &observers.1.0;
    let mut written = line(session, state, run, RunRole::Confirm);
    written.why = format!("confirm {}", seen.failure.signature);
    if session.stopping() || given_up(session, run) {
        written.void = Some(STOPPED);
        session.run_ended(&written)?;
        // With key `n` others may be given up beside it, each with its line.
        if !session.stopping() {
            session.commit(state)?;
        }
        return Ok(true);
    }
    session.run_ended(&written)?;
    let again = |f: &Failure| f.signature == seen.failure.signature;
    let shown = run.judgement().failures.iter().any(again);
    // A replay in which less happened than in its run is none of it.
    let record = run.record();
    let less = record.not_injected.is_some() && seen.product.record.happened().is_some();
    let told_nothing = run.judgement().void.is_some()
        || undecided_by_load(run.judgement())
        || record.set_up_failed()
        || less;
    if told_nothing && !shown && owed.voids < REPLAYS {
        owed.voids += 1;
    } else {
        owed.n += 1;
        owed.k += u32::from(shown);
    }
    replayed_otherwise::keep(session, state, run, seen)?;
    if let Some(kept) = session.owed.as_mut() {
        (kept.k, kept.n, kept.voids) = (owed.k, owed.n, owed.voids);
    }
    session.commit(state)?;
    Ok(false)
}
