//! A replay that fails in another way than the run it repeats: what it shows may never show again, so it is kept with its logs when it is
//! seen. Called by `replays` for each replay, and by `confirm` for one that a kill cut off. The journal says that it is owed before
//! anything of it is in findings/ or crashes/: a replay that is made again need not show it, and its number would be another's.
//!
//! A safety failure stands by its evidence, as in a test, and what else failed is kept as unconfirmed. It makes no replays: those would
//! be replays of a replay, and its sequence in crashes/ can be replayed by hand.

use crate::campaign::FuzzError;
use crate::fuzz::State;
use crate::fuzz::confirming::owed::{self, Seen, Which};
use crate::fuzz::confirming::stand::stand;
use crate::fuzz::confirming::story::write_unconfirmed;
use crate::fuzz::session::Session;
use libafl::state::HasExecutions;
use warren_feedback::RunObserver;
use warren_model::{Failure, FailureKind};

/// The run in the observer is a replay of `of`: where it shows what has no story yet, that is written down. The next record says so.
///
/// # Errors
/// I/O, with the path.
pub(in crate::fuzz) fn owe(
    session: &mut Session,
    state: &State,
    run: &RunObserver,
    of: &Seen,
) -> Result<(), FuzzError> {
    let (product, judgement) = (run.product(), run.judgement());
    if judgement.void.is_some() {
        return Ok(());
    }
    // The run has its story, with all that it showed.
    let news = |f: &&Failure| !session.shows_again(of, f, product) && session.is_news(f, product);
    let safety = |f: &&Failure| f.kind == FailureKind::Safety;
    let mut failures = judgement.failures.iter().filter(news);
    let Some(failure) = (failures.clone().find(safety)).or_else(|| failures.next()) else {
        return Ok(());
    };
    let seen = Seen {
        product: product.clone(),
        judgement: judgement.clone(),
        failure: failure.clone(),
        why: format!("a replay of {}", of.failure.signature),
        execs: *state.executions(),
        at_ms: session.clock.fuzz_ms(),
        seed_run: of.seed_run,
    };
    owed::write(session.folder.root(), Which::Replay, &seen)?;
    if let Some(owed) = session.owed.as_mut() {
        owed.otherwise = true;
    }
    Ok(())
}

/// Keeps what a replay showed, where that is owed.
///
/// # Errors
/// I/O, with the path.
pub(in crate::fuzz) fn keep(session: &mut Session, state: &mut State) -> Result<(), FuzzError> {
    if !session.owed.as_ref().is_some_and(|o| o.otherwise) {
        return Ok(());
    }
    match owed::read(session.folder.root(), Which::Replay) {
        Ok(seen) => keep_seen(session, state, &seen)?,
        Err(e) if e.is_of_lost_file() => session.say(format!(
            "a replay that failed in another way cannot be read ({e}): it is dropped"
        )),
        Err(e) => return Err(e),
    }
    if let Some(owed) = session.owed.as_mut() {
        owed.otherwise = false;
    }
    session.commit(state)?;
    owed::remove(session.folder.root(), Which::Replay)
}

fn keep_seen(session: &mut Session, state: &mut State, seen: &Seen) -> Result<(), FuzzError> {
    let rate = format!("seen in {}, not replayed itself", seen.why);
    if seen.failure.kind == FailureKind::Safety {
        let rate = format!("{rate}; stands by its evidence");
        stand(session, state, seen, 0, 0, Some(&rate))?;
    } else {
        let folder = write_unconfirmed(session, seen, (0, 0), &format!("{rate}: no finding"))?;
        session.say(format!(
            "{}: {rate}: no finding",
            crate::campaign::finding::headline(&seen.failure)
        ));
        session.say(format!("  story:     {}", folder.display()));
    }
    Ok(())
}
