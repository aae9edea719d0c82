//! A failing run: is it a finding? Safety stands at once and is replayed for its rate; a liveness failure must show again in 2 of 3
//! replays; a hang was repeated by the stage already. What stands is saved: crashes/ or hangs/, findings/<nnnnnn>/. A liveness
//! failure whose replays Ctrl-C cut short is saved too, and says that it is not confirmed. A replay that fails in another way is
//! `replayed_otherwise`'s. A known bug (`known-bugs.toml`) is saved once, counted
//! and no news, and where its lines of a log tell it, not replayed; what only has the signature of one is a finding beside it.
//!
//! A failing run is first written down as owed (`owe`), then decided on step by step (`decide`), each step with its record in the
//! journal: a campaign that is resumed goes on with the step that was cut off.

use crate::campaign::state::hook;
use crate::campaign::{FuzzError, KeptFinding};
use crate::fuzz::State;
use crate::fuzz::confirming::minimise::{Wanted, minimise};
use crate::fuzz::confirming::owed::{self, Seen, Which};
use crate::fuzz::confirming::replayed_otherwise;
use crate::fuzz::confirming::replays::replay;
use crate::fuzz::confirming::stand::{
    HANG_RATE, counts_as_unknown, falls, rate, rate_text, save_sequence, saved, shown_again, stand,
    stand_owed,
};
use crate::fuzz::confirming::story::{keep_otherwise, write_unconfirmed};
use crate::fuzz::confirming::tally::{Asked, Owed, REPLAYS, Replayed};
use crate::fuzz::figures::snapshot::FindKind;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::session::Session;
use crate::known::KnownBug;
use libafl::HasMetadata;
use libafl::corpus::Corpus;
use libafl::state::{HasCorpus, HasExecutions};
use warren_feedback::SavedBugs;
use warren_model::{
    Failure, FailureKind, FaultSequence, Judgement, RunProduct, RunRecord, Verdict,
};

/// What the story of a known bug says in place of a rate.
const KNOWN_RATE: &str =
    "not replayed: a known bug, by its signature and its lines of a node's log";

/// The run in the observers failed and is to be saved: it is written down. The next record says so.
///
/// # Errors
/// I/O, with the path.
pub fn owe<E: Cluster>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    why: &str,
) -> Result<(), FuzzError> {
    let Some(seen) = seen(session, executor, state, why) else {
        return Ok(());
    };
    owed::write(session.folder.root(), Which::Run, &seen)?;
    hook::point("owed");
    session.owed = Some(Owed::of(asked(session, &seen)));
    Ok(())
}

/// Signatures that the run's replays are asked for. Of a run that fails liveness all that are news: what fell once may be the machine's, and
/// what shows each time beside it must not fall with it. What fails beside a safety failure is told in its story: its replays share the
/// machine with other runs, and say little of that.
fn asked(session: &Session, seen: &Seen) -> Vec<String> {
    let first = &seen.failure;
    let beside = |f: &&Failure| {
        first.kind == FailureKind::Liveness
            && f.kind == FailureKind::Liveness
            && f.signature != first.signature
            && session.is_news(f, &seen.product)
    };
    let mut asked = vec![first.signature.clone()];
    for failure in seen.judgement.failures.iter().filter(beside) {
        if !asked.contains(&failure.signature) {
            asked.push(failure.signature.clone());
        }
    }
    asked
}

/// The run in the observers ended by itself, and Warren ends before it is looked at: its sequence will be made again, but what it showed may not come
/// again. A failure in it is kept as unconfirmed, with its story.
///
/// # Errors
/// I/O, with the path.
pub fn keep_unlooked_at<E: Cluster>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    why: &str,
) -> Result<(), FuzzError> {
    let Some(seen) = seen(session, executor, state, why) else {
        return Ok(());
    };
    if !session.is_news(&seen.failure, &seen.product) {
        return Ok(());
    }
    let rate = "seen as Warren was ending, not replayed: its sequence is made again when the campaign goes on";
    let folder = write_unconfirmed(session, &seen, (0, 0), rate)?;
    let headline = crate::campaign::finding::headline(&seen.failure);
    session.say(format!("{headline}: {rate}"));
    session.say(format!("  story:     {}", folder.display()));
    Ok(())
}

/// The run in the observers with the failure that is to be decided on; none where nothing in it is news.
fn seen<E: Cluster>(session: &Session, executor: &E, state: &mut State, why: &str) -> Option<Seen> {
    let observers = executor.observers();
    let run = &observers.1.0;
    let (product, judgement) = (run.product(), run.judgement());
    let known = |f: &Failure| session.options.known.of(f, &product.logs).is_some();
    let bugs = state.metadata_or_insert_with(SavedBugs::default);
    // What has a number upstream, or stands already, must not hide a failure beside it that is news; nor may an outage, which may not stand, hide
    // lost data.
    let fresh = bugs.fresh_first(judgement, |f| (known(f), !session.is_news(f, product)));
    let failure = match fresh {
        Some(f) if session.is_news(f, product) => Some(f),
        _ => first_new_failure(session, product, judgement).or(fresh),
    }?;
    Some(Seen {
        product: product.clone(),
        judgement: judgement.clone(),
        failure: failure.clone(),
        why: why.to_owned(),
        execs: *state.executions(),
        at_ms: session.clock.fuzz_ms(),
        seed_run: state.corpus().current().map(|id| usize::from(id) as u64),
    })
}

/// Decides on the failing run that is owed a decision, if there is one. Where Ctrl-C ends it, the rest is owed still. With
/// `--minimize` a finding that stands is then made smaller; that is never owed, its folder tells what is left of it.
///
/// # Errors
/// I/O; the cluster cannot be run any more.
pub fn decide<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    if session.owed.is_none() {
        return Ok(());
    }
    // A kill or Ctrl-C came between a replay and what it showed.
    replayed_otherwise::keep(session, handed.state)?;
    let owed = session.owed.clone().unwrap_or_default();
    let seen = match owed::read(session.folder.root(), Which::Run) {
        Ok(seen) => seen,
        Err(e) if e.is_of_lost_file() => {
            session.say(format!(
                "the failing run that is to be decided on cannot be read ({e}): it is dropped; what is saved of it stays as it is"
            ));
            return settled(session, handed.state);
        }
        Err(e) => return Err(e),
    };
    let stood = owed.asked.iter().filter_map(|a| a.stood.as_ref());
    let mut numbers: Vec<u64> = stood.map(|s| s.0).collect();
    let before = session.found.findings.len();
    settle(session, handed, &owed, &seen)?;
    // Its replays may have brought others.
    let own = |f: &&KeptFinding| owed.asked.iter().any(|a| a.signature == f.signature);
    let new = session.found.findings.iter().skip(before).filter(own);
    numbers.extend(new.map(|f| f.number));
    // Not one whose replays Ctrl-C or key `n` cut short.
    let whole = |n: &u64| {
        let hang = seen.failure.kind == FailureKind::Hang;
        session
            .found
            .findings
            .iter()
            .any(|f| f.number == *n && !f.fell && (f.n >= REPLAYS || hang))
    };
    let wanted = session.options.minimize && session.owed.is_none();
    let news = |n: &u64| !session.found.known.contains_key(n);
    numbers.retain(|n| wanted && whole(n) && news(n));
    for number in numbers {
        let of = |f: &&KeptFinding| f.number == number;
        let signature = session.found.findings.iter().find(of).map(|f| &f.signature);
        let Some(failure) = signature.and_then(|s| seen.failure_of(s)) else {
            continue;
        };
        let (record, judgement) = (&seen.product.record, &seen.judgement);
        let wanted = Wanted::of(number, failure, record, judgement, session.limits);
        minimise(session, handed, &wanted)?;
    }
    Ok(())
}

/// Replays, and says whether it stands.
fn settle<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    owed: &Owed,
    seen: &Seen,
) -> Result<(), FuzzError> {
    let signature = seen.failure.signature.clone();
    let known = session.known_as(seen);
    if owed.stood().is_none() && session.found.stands_as(&signature, known.as_deref()) {
        // One more of a bug that stands: its sequence is kept, unless the bug is known, and its story is told already.
        match known {
            Some(_) => saved(handed.state, &signature),
            None => {
                let path = save_sequence(session, handed.state, seen)?;
                keep_otherwise(session, seen, &path)?;
            }
        }
        return settled(session, handed.state);
    }
    let hang = seen.failure.kind == FailureKind::Hang;
    if owed.stood().is_none() && !hang && session.known_bug(seen).is_some_and(KnownBug::has_lines) {
        // Its number upstream says more than a rate would, and replays would keep the machine from looking for others.
        stand(session, handed.state, seen, 0, 0, Some(KNOWN_RATE))?;
        return settled(session, handed.state);
    }
    match seen.failure.kind {
        FailureKind::Hang => {
            stand(session, handed.state, seen, 1, 1, Some(HANG_RATE))?;
            settled(session, handed.state)
        }
        FailureKind::Safety => {
            if owed.stood().is_none() {
                stand_owed(session, handed.state, seen, 0, 0, None)?;
            }
            replay(session, handed, seen)?;
            let owed = session.owed.clone().unwrap_or_default();
            if let Some(asked) = owed.asked.first() {
                rate(session, seen, asked)?;
                if !asked.through() && session.stopping() {
                    return Ok(());
                }
            }
            settled(session, handed.state)
        }
        FailureKind::Liveness => {
            replay(session, handed, seen)?;
            if settle_liveness(session, handed.state, seen)? {
                settled(session, handed.state)
            } else {
                Ok(())
            }
        }
    }
}

/// After the replays of a run that fails liveness: each of its failures that they were asked for stands or falls by its own count. False:
/// Ctrl-C left it open.
fn settle_liveness(
    session: &mut Session,
    state: &mut State,
    seen: &Seen,
) -> Result<bool, FuzzError> {
    let owed = session.owed.clone().unwrap_or_default();
    let mut left = false;
    let (mut fell, mut fallen) = (false, None);
    let mut judged: Vec<(&str, Replayed)> = Vec::new();
    for (at, asked) in owed.asked.iter().enumerate() {
        let Some(seen) = seen.of(&asked.signature) else {
            continue;
        };
        let (k, n) = (asked.k, asked.n);
        if asked.stood.is_some() {
            // Ctrl-C had left it open, and it was saved: now its rate is known, whatever it is.
            rate(session, &seen, asked)?;
            let outcome = asked.outcome(false);
            if outcome == Replayed::Falls {
                falls(session, asked);
                fell = true;
            }
            judged.extend((asked.n > 0).then_some((asked.signature.as_str(), outcome)));
            left |= !asked.through() && session.stopping();
            continue;
        }
        let outcome = asked.outcome(fell_often(state, &seen.failure));
        judged.extend((asked.n > 0).then_some((asked.signature.as_str(), outcome)));
        match outcome {
            Replayed::Stands => {
                let rate = rate_text(&seen, asked);
                stand_owed(session, state, &seen, k, n, Some(&rate))?;
            }
            // Only Ctrl-C leaves it open: what was seen must not be lost with the campaign.
            Replayed::Open => {
                let rate = format!(
                    "no: replaying was cut short after {n} of {REPLAYS} replays, in {k} of which it showed again"
                );
                stand_owed(session, state, &seen, k, n, Some(&rate))?;
                // Key `n` wants no more of it, in this process and in later ones.
                left |= session.stopping();
            }
            Replayed::Falls if at == 0 => fallen = Some(asked),
            Replayed::Falls => {}
        }
    }
    if left {
        return Ok(false);
    }
    // Once for a run: this is decided anew as long as anything of it is left.
    let bugs = state.metadata_or_insert_with(SavedBugs::default);
    for (signature, outcome) in judged {
        match outcome {
            Replayed::Falls => bugs.fell(signature),
            Replayed::Stands => bugs.stood(signature),
            Replayed::Open => {}
        }
    }
    // What falls beside it is told in the story of the run.
    if let Some(asked) = fallen {
        stands_as_hang(session, state, seen)?;
        not_confirmed(session, seen, asked)?;
    } else if fell {
        counts_as_unknown(session, seen);
    }
    Ok(true)
}

/// Nothing is owed any more.
fn settled(session: &mut Session, state: &mut State) -> Result<(), FuzzError> {
    session.owed = None;
    hook::point("decided");
    session.commit(state)?;
    owed::remove(session.folder.root(), Which::Run)
}

/// Whether a liveness failure fell so often that the first replay that does not show it tells enough: each has the machine for itself.
pub(in crate::fuzz) fn fell_often(state: &State, failure: &Failure) -> bool {
    let bugs = state.metadata_map().get::<SavedBugs>();
    failure.kind == FailureKind::Liveness && bugs.is_some_and(|b| b.fell_often(&failure.signature))
}

/// A liveness failure that did not show again is unknown; its run stays a failing one only for another bug that stands. Its story is kept
/// apart from findings: a race of two threads seldom shows twice, and a busy machine looks like one.
fn not_confirmed(session: &mut Session, seen: &Seen, asked: &Asked) -> Result<(), FuzzError> {
    counts_as_unknown(session, seen);
    let rate = format!("{}: no finding", shown_again(asked));
    let headline = crate::campaign::finding::headline(&seen.failure);
    let text = format!("{headline} failed once and {rate}");
    let folder = write_unconfirmed(session, seen, (asked.k, asked.n), &rate)?;
    session.say(text.clone());
    session.say(format!("  story:     {}", folder.display()));
    session.list_find(FindKind::Unknown, text);
    Ok(())
}

/// A run that did not end in twice its limit is a hang, whatever became of the failure beside it that came first.
fn stands_as_hang(session: &mut Session, state: &mut State, seen: &Seen) -> Result<(), FuzzError> {
    let hang = |f: &&Failure| f.kind == FailureKind::Hang && !session.found.stands(&f.signature);
    let Some(hang) = seen.judgement.failures.iter().find(hang) else {
        return Ok(());
    };
    let seen = Seen {
        failure: hang.clone(),
        ..seen.clone()
    };
    stand(session, state, &seen, 1, 1, Some(HANG_RATE))?;
    Ok(())
}

/// The sequence to run again: as it happened; as asked where that is not known.
pub(in crate::fuzz) fn to_run_again(record: &RunRecord) -> FaultSequence {
    record
        .happened()
        .or(record.sequence.as_ref())
        .cloned()
        .unwrap_or_else(|| FaultSequence::empty(""))
}

/// Whether a failure of the run was not saved often yet: also one that fell often has its replay, though nothing is expected of it.
#[must_use]
pub fn is_fresh(state: &State, judgement: &Judgement) -> bool {
    let bugs = state.metadata_map().get::<SavedBugs>();
    let fails = judgement.verdict == Verdict::Fail && judgement.void.is_none();
    fails && bugs.is_none_or(|b| b.fresh(judgement).is_some())
}

/// The failure of a run that is no known bug, but so far was only seen as one: however often that was saved, this one is news.
#[must_use]
pub fn first_new_failure<'a>(
    session: &Session,
    product: &RunProduct,
    judgement: &'a Judgement,
) -> Option<&'a Failure> {
    if judgement.void.is_some() {
        return None;
    }
    let only_as_known =
        |f: &&Failure| session.is_news(f, product) && session.found.stands(&f.signature);
    judgement.failures.iter().find(only_as_known)
}

impl Session {
    /// The known bug that a failing run shows.
    pub(in crate::fuzz) fn known_bug(&self, seen: &Seen) -> Option<&KnownBug> {
        self.options.known.of(&seen.failure, &seen.product.logs)
    }

    pub(in crate::fuzz) fn known_as(&self, seen: &Seen) -> Option<String> {
        self.known_bug(seen).map(ToString::to_string)
    }

    /// The number upstream of a failure of a run.
    fn upstream(&self, failure: &Failure, product: &RunProduct) -> Option<&str> {
        let known = self.options.known.of(failure, &product.logs)?;
        Some(&known.id)
    }

    /// A failure of another run is what `seen` shows with its signature: the same known bug, or none as it is. Most lost writes have one signature.
    pub(in crate::fuzz) fn shows_again(
        &self,
        seen: &Seen,
        failure: &Failure,
        product: &RunProduct,
    ) -> bool {
        let all = std::iter::once(&seen.failure).chain(&seen.judgement.failures);
        let upstream = self.upstream(failure, product);
        all.filter(|f| f.signature == failure.signature)
            .any(|f| self.upstream(f, &seen.product) == upstream)
    }

    /// A failure that nothing tells of yet: no finding that stands, as a known bug that does hides nothing that only has its signature, and no
    /// number upstream.
    pub(in crate::fuzz) fn is_news(&self, failure: &Failure, product: &RunProduct) -> bool {
        !self.found.stands_as(&failure.signature, None)
            && self.options.known.of(failure, &product.logs).is_none()
    }
}
