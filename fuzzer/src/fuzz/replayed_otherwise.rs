//! A replay that fails in another way than the run it repeats: what it shows may never show again, so it is kept with its logs when it is
//! seen. Called by `replays` for each replay that told something.
//!
//! A safety failure stands by its evidence, as in a test, and what else failed is kept as unconfirmed. It makes no replays: those would
//! be replays of a replay, and its sequence in crashes/ can be replayed by hand.

use super::State;
use super::options::FuzzError;
use super::owed::Seen;
use super::session::Session;
use super::stand::stand;
use super::story::write_unconfirmed;
use libafl::state::HasExecutions;
use warren_feedback::RunObserver;
use warren_model::{Failure, FailureKind};

/// Keeps the run in the observer, a replay of `of`, where it shows what has no story yet.
///
/// # Errors
/// I/O, with the path.
pub(super) fn keep(
    session: &mut Session,
    state: &mut State,
    run: &RunObserver,
    of: &Seen,
) -> Result<(), FuzzError> {
    let (product, judgement) = (run.product(), run.judgement());
    if judgement.void.is_some() {
        return Ok(());
    }
    // The run has its story, with all that it showed.
    let repeated = |s: &str| of.judgement.failures.iter().any(|f| f.signature == s);
    let news = |f: &&Failure| !repeated(&f.signature) && session.is_news(f, product);
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
    let rate = format!(
        "seen in a replay of {}, not replayed itself",
        of.failure.signature
    );
    if safety(&failure) {
        let rate = format!("{rate}; stands by its evidence");
        return stand(session, state, &seen, 0, 0, Some(&rate)).map(drop);
    }
    let folder = write_unconfirmed(session, &seen, (0, 0), &format!("{rate}: no finding"))?;
    session.say(format!(
        "{}: {rate}: no finding",
        crate::campaign::finding::headline(&seen.failure)
    ));
    session.say(format!("  story:     {}", folder.display()));
    Ok(())
}
