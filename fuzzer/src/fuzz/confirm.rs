//! A failing run: is it a finding? Safety stands at once and is replayed for its rate; a liveness failure must show again in 2 of 3
//! replays; a hang was repeated by the stage already. What stands is saved: crashes/ or hangs/, findings/<nnnnnn>/. A liveness
//! failure whose replays Ctrl-C cut short is saved too, and says that it is not confirmed. A replay that fails in another way is
//! `replayed_otherwise`'s. A known bug (`known-bugs.toml`) is saved once, counted
//! and no news, and where its lines of a log tell it, not replayed; what only has the signature of one is a finding beside it.
//!
//! A failing run is first written down as owed (`owe`), then decided on step by step (`decide`), each step with its record in the
//! journal: a campaign that is resumed goes on with the step that was cut off.

use super::State;
use super::handed::{Cluster, Fuzzes, Handed};
use super::minimise::{Wanted, minimise};
use super::options::{EndReason, FuzzError};
use super::owed::{self, Seen};
use super::replays::replay;
use super::saved::Owed;
use super::session::Session;
use super::story::{keep_otherwise, write_story, write_unconfirmed};
use crate::campaign::state::hook;
use crate::campaign::{EntryName, KeptFinding, folder, names};
use crate::known::KnownBug;
use libafl::HasMetadata;
use libafl::corpus::Corpus;
use libafl::state::{HasCorpus, HasExecutions};
use std::path::PathBuf;
use warren_feedback::SavedBugs;
use warren_model::{Failure, FailureKind, FaultSequence, Judgement, RunProduct, RunRecord};

/// Replays of a finding.
pub(super) const REPLAYS: u32 = 3;
/// Replays in which a liveness failure must show again.
pub const NEEDED: u32 = 2;
/// A liveness failure whose signature fell so often already falls with the first replay that does not show it: each replay has the machine for itself.
const FELL_OFTEN: usize = 3;
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
    owed::write(session.folder.root(), &seen)?;
    hook::point("owed");
    session.owed = Some(Owed::default());
    Ok(())
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
    if session.known_as(&seen).is_some() || session.standing.contains(&seen.failure.signature) {
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
    // What has a number upstream must not hide a failure beside it that has none; nor may an outage, which may not stand, hide lost data.
    let fresh = bugs.fresh_news(judgement, known);
    let failure = match fresh {
        Some(f) if !known(f) => Some(f),
        _ => looks_known(session, product, judgement).or(fresh),
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
    let Some(owed) = session.owed.clone() else {
        return Ok(());
    };
    let seen = owed::read(session.folder.root())?;
    let known = owed.stood.as_ref().map(|s| s.0);
    let stood = session.findings.len();
    settle(session, handed, &owed, &seen)?;
    // Its replays may have brought others.
    let mut new = session.findings.iter().skip(stood);
    let number = known.or_else(|| {
        new.find(|f| f.signature == seen.failure.signature)
            .map(|f| f.number)
    });
    // Not one whose replays Ctrl-C or key `n` cut short.
    let whole = |n: &u64| {
        let hang = seen.failure.kind == FailureKind::Hang;
        session
            .findings
            .iter()
            .any(|f| f.number == *n && (f.n >= REPLAYS || hang))
    };
    let wanted = session.options.minimize && session.owed.is_none();
    let news = |n: &u64| !session.known.contains_key(n);
    let Some(number) = number.filter(|n| wanted && whole(n) && news(n)) else {
        return Ok(());
    };
    let wanted = Wanted {
        number,
        sequence: to_run_again(&seen.product.record),
        durable: seen.product.record.restart_for(seen.failure.stage),
        failure: seen.failure,
    };
    minimise(session, handed, &wanted)
}

/// Replays, and says whether it stands.
fn settle<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    owed: &Owed,
    seen: &Seen,
) -> Result<(), FuzzError> {
    let signature = seen.failure.signature.clone();
    if owed.stood.is_none() && session.standing.contains(&signature) {
        let known = session.known_as(seen);
        if session.told(&signature, known.as_deref()) {
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
    }
    let hang = seen.failure.kind == FailureKind::Hang;
    if owed.stood.is_none() && !hang && session.known_bug(seen).is_some_and(KnownBug::has_lines) {
        // Its number upstream says more than a rate would, and replays would keep the machine from looking for others.
        stand(session, handed.state, seen, 0, 0, Some(KNOWN_RATE))?;
        return settled(session, handed.state);
    }
    match seen.failure.kind {
        FailureKind::Hang => {
            let rate = rate_text(session, seen, 1, 1);
            stand(session, handed.state, seen, 1, 1, Some(&rate))?;
            settled(session, handed.state)
        }
        FailureKind::Safety => {
            if owed.stood.is_none() {
                stand_owed(session, handed.state, seen, 0, 0, None)?;
            }
            let (k, n) = replay(session, handed, seen)?;
            rate(session, seen, k, n)?;
            if n < REPLAYS && session.stopping() {
                return Ok(());
            }
            settled(session, handed.state)
        }
        FailureKind::Liveness => {
            let (k, n) = replay(session, handed, seen)?;
            if owed.stood.is_some() {
                // Ctrl-C had left it open, and it was saved: now its rate is known, whatever it is. If it fell, the next run of its kind is replayed anew.
                rate(session, seen, k, n)?;
                if outcome(k, n, false) == Replayed::Falls {
                    session.standing.remove(&signature);
                }
                return if n < REPLAYS && session.stopping() {
                    Ok(())
                } else {
                    settled(session, handed.state)
                };
            }
            match outcome(k, n, fell_often(session, seen)?) {
                Replayed::Stands => {
                    let rate = rate_text(session, seen, k, n);
                    stand(session, handed.state, seen, k, n, Some(&rate))?;
                    settled(session, handed.state)
                }
                // Only Ctrl-C leaves it open: what was seen must not be lost with the campaign.
                Replayed::Open => {
                    let rate = format!(
                        "no: replaying was cut short after {n} of {REPLAYS} replays, in {k} of which it showed again"
                    );
                    stand_owed(session, handed.state, seen, k, n, Some(&rate))?;
                    // Key `n` wants no more of it, in this process and in later ones.
                    if session.stopping() {
                        return Ok(());
                    }
                    settled(session, handed.state)
                }
                Replayed::Falls => {
                    stands_as_hang(session, handed.state, seen)?;
                    not_confirmed(session, seen, k, n)?;
                    settled(session, handed.state)
                }
            }
        }
    }
}

/// It stands, and something about it is owed still.
fn stand_owed(
    session: &mut Session,
    state: &mut State,
    seen: &Seen,
    k: u32,
    n: u32,
    rate: Option<&str>,
) -> Result<(), FuzzError> {
    let path = stand(session, state, seen, k, n, rate)?;
    let number = session.findings.last().map_or(0, |f| f.number);
    let name = path
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    if let Some(owed) = session.owed.as_mut() {
        owed.stood = Some((number, name));
    }
    session.commit(state)
}

/// Nothing is owed any more.
fn settled(session: &mut Session, state: &mut State) -> Result<(), FuzzError> {
    session.owed = None;
    hook::point("decided");
    session.commit(state)?;
    owed::remove(session.folder.root())
}

/// What its replays make of a liveness failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replayed {
    Stands,
    /// The replays not made could still decide either way.
    Open,
    Falls,
}

/// Whether the stories that are kept of the failure's signature tell that it did not show again often enough to expect no better.
pub(super) fn fell_often(session: &Session, seen: &Seen) -> Result<bool, FuzzError> {
    let liveness = seen.failure.kind == FailureKind::Liveness;
    Ok(liveness && session.folder.fell(&seen.failure.signature)? >= FELL_OFTEN)
}

/// It showed again in `k` of the `n` replays that were made.
pub(super) fn outcome(k: u32, n: u32, fell_often: bool) -> Replayed {
    if k >= NEEDED {
        Replayed::Stands
    } else if fell_often && k < n {
        Replayed::Falls
    } else if k + REPLAYS.saturating_sub(n) >= NEEDED {
        Replayed::Open
    } else {
        Replayed::Falls
    }
}

/// A liveness failure that did not show again is unknown; its run stays a failing one only for another bug that stands. Its story is kept
/// apart from findings: a race of two threads seldom shows twice, and a busy machine looks like one.
fn not_confirmed(session: &mut Session, seen: &Seen, k: u32, n: u32) -> Result<(), FuzzError> {
    let stands = |f: &Failure| session.standing.contains(&f.signature);
    if !seen.judgement.failures.iter().any(stands) {
        session.counts.failing = session.counts.failing.saturating_sub(1);
        session.counts.unknowns += 1;
    }
    let rate = format!("{}: no finding", shown_again(session, k, n));
    let headline = crate::campaign::finding::headline(&seen.failure);
    let text = format!("{headline} failed once and {rate}");
    let folder = write_unconfirmed(session, seen, (k, n), &rate)?;
    session.say(text.clone());
    session.say(format!("  story:     {}", folder.display()));
    session.find("unknown", text);
    Ok(())
}

/// A run that did not end in twice its limit is a hang, whatever became of the failure beside it that came first.
fn stands_as_hang(session: &mut Session, state: &mut State, seen: &Seen) -> Result<(), FuzzError> {
    let hang =
        |f: &&Failure| f.kind == FailureKind::Hang && !session.standing.contains(&f.signature);
    let Some(hang) = seen.judgement.failures.iter().find(hang) else {
        return Ok(());
    };
    let seen = Seen {
        failure: hang.clone(),
        ..seen.clone()
    };
    let rate = rate_text(session, &seen, 1, 1);
    stand(session, state, &seen, 1, 1, Some(&rate))?;
    Ok(())
}

/// The sequence to run again: as it happened; as asked where that is not known.
pub(super) fn to_run_again(record: &RunRecord) -> FaultSequence {
    record
        .happened()
        .or(record.sequence.as_ref())
        .cloned()
        .unwrap_or_else(|| FaultSequence::empty(""))
}

/// Writes the sequence into crashes/ or hangs/ under AFL's name.
fn save_sequence(
    session: &mut Session,
    state: &mut State,
    seen: &Seen,
) -> Result<PathBuf, FuzzError> {
    let hang = seen.failure.kind == FailureKind::Hang;
    let now = session.clock.fuzz_ms();
    let counts = &mut session.counts;
    let id = if hang {
        counts.saved_hangs += 1;
        counts.last_hang = Some(now);
        counts.saved_hangs - 1
    } else {
        counts.saved_crashes += 1;
        counts.last_crash = Some(now);
        counts.execs_at_crash = seen.execs;
        counts.saved_crashes - 1
    };
    let sequence = to_run_again(&seen.product.record);
    let name = EntryName {
        id,
        sync: None,
        src: seen.seed_run,
        orig: None,
        time_ms: seen.at_ms,
        execs: seen.execs,
        op: names::op(&sequence),
        new_coverage: false,
        bug: Some(seen.failure.signature.clone()),
    };
    let sub = if hang { "hangs" } else { "crashes" };
    let path = session.folder.root().join(sub).join(name.to_string());
    folder::write_whole(&path, sequence.to_text().as_bytes())?;
    hook::point("saved-sequence");
    saved(state, &seen.failure.signature);
    Ok(path)
}

/// Once more: well-known bugs are looked past.
fn saved(state: &mut State, signature: &str) {
    state
        .metadata_or_insert_with(SavedBugs::default)
        .save(signature);
}

/// The failure of a run that is no known bug, but so far was only seen as one: however often that was saved, this one is news.
#[must_use]
pub fn looks_known<'a>(
    session: &Session,
    product: &RunProduct,
    judgement: &'a Judgement,
) -> Option<&'a Failure> {
    if judgement.void.is_some() {
        return None;
    }
    let known = &session.options.known;
    let unlike =
        |f: &&Failure| known.of(f, &product.logs).is_none() && !session.told(&f.signature, None);
    judgement.failures.iter().find(unlike)
}

impl Session {
    /// The known bug that a failing run shows.
    fn known_bug(&self, seen: &Seen) -> Option<&KnownBug> {
        self.options.known.of(&seen.failure, &seen.product.logs)
    }

    fn known_as(&self, seen: &Seen) -> Option<String> {
        self.known_bug(seen).map(ToString::to_string)
    }

    /// A finding of this signature that is this known bug, or none as it is, stands here; or another instance has one.
    pub(super) fn told(&self, signature: &str, known: Option<&str>) -> bool {
        let mut own = (self.findings.iter())
            .filter(|f| f.signature == signature)
            .map(|f| self.known.get(&f.number).map(String::as_str))
            .peekable();
        own.peek().is_none() || own.any(|k| k == known)
    }
}

/// A finding stands: everything is written, the reproduce command is printed. `rate` = what confirmation says; none = that comes.
pub(super) fn stand(
    session: &mut Session,
    state: &mut State,
    seen: &Seen,
    k: u32,
    n: u32,
    rate: Option<&str>,
) -> Result<PathBuf, FuzzError> {
    let path = save_sequence(session, state, seen)?;
    // A campaign that was killed between that story and its decision decides anew.
    let fell = session
        .folder
        .unconfirmed(seen.execs, &seen.failure.signature);
    if fell.exists() {
        std::fs::remove_dir_all(&fell).map_err(folder::io("removing", &fell))?;
    }
    let number = session.findings.len() as u64;
    session.standing.insert(seen.failure.signature.clone());
    session.findings.push(KeptFinding {
        number,
        signature: seen.failure.signature.clone(),
        checker: seen.failure.checker.clone(),
        kind: format!("{:?}", seen.failure.kind).to_lowercase(),
        k,
        n,
    });
    let known = session.known_as(seen);
    match &known {
        Some(known) => {
            session.known.insert(number, known.clone());
        }
        // Of a known bug each instance keeps one for itself: what only has its signature must be a finding to the others too.
        None => {
            let told = &mut session.instances.told;
            told.findings.push(seen.failure.signature.clone());
        }
    }
    let story = rate.unwrap_or("stands by its evidence, not replayed yet");
    let (reproduce, minimise) = write_story(session, seen, number, &path, story)?;
    hook::point("finding");
    let headline = crate::campaign::finding::headline(&seen.failure);
    let what = match &known {
        Some(known) => format!("KNOWN {number:06}: {known}"),
        None => format!("FINDING {number:06}"),
    };
    session.say(format!(
        "{what}: {headline}: {}",
        seen.failure.evidence.first().map_or("", String::as_str)
    ));
    if let Some(rate) = rate {
        session.say(format!("  confirmed: {rate}"));
    }
    session.say(format!(
        "  story:     {}",
        session.folder.finding(number).display()
    ));
    session.say(format!("  reproduce: {reproduce}"));
    session.say(format!("  minimise:  {minimise}"));
    let what = match seen.failure.kind {
        _ if known.is_some() => "known",
        FailureKind::Hang => "hang",
        FailureKind::Safety | FailureKind::Liveness => "finding",
    };
    session.find(what, headline);
    end_if_asked(session, seen);
    Ok(path)
}

/// `--exit-on-bug`: a bug that nobody knew ends the campaign.
fn end_if_asked(session: &mut Session, seen: &Seen) {
    if session.options.exit_on_bug && session.known_bug(seen).is_none() {
        session.end = Some(if seen.failure.kind == FailureKind::Hang {
            EndReason::Hang
        } else {
            EndReason::Bug
        });
    }
}

/// The rate of a finding that stood before it was replayed.
fn rate(session: &mut Session, seen: &Seen, k: u32, n: u32) -> Result<(), FuzzError> {
    let stood = session.owed.as_ref().and_then(|o| o.stood.clone());
    let Some((number, name)) = stood else {
        return Ok(());
    };
    if let Some(finding) = session.findings.iter_mut().find(|f| f.number == number) {
        (finding.k, finding.n) = (k, n);
    }
    // The process that saw it stand may have been another one.
    if seen.failure.kind == FailureKind::Safety || outcome(k, n, false) == Replayed::Stands {
        end_if_asked(session, seen);
    }
    let text = rate_text(session, seen, k, n);
    session.say(format!("  confirmed: {text}"));
    let sub = if seen.failure.kind == FailureKind::Hang {
        "hangs"
    } else {
        "crashes"
    };
    let path = session.folder.root().join(sub).join(name);
    write_story(session, seen, number, &path, &text).map(drop)
}

fn rate_text(session: &Session, seen: &Seen, k: u32, n: u32) -> String {
    let shown = shown_again(session, k, n);
    match seen.failure.kind {
        FailureKind::Hang => {
            "over its limit twice, the second time alone with twice the limit".into()
        }
        FailureKind::Safety => format!("{shown}; stands by its evidence"),
        FailureKind::Liveness => shown,
    }
}

/// With the replays that say nothing either way: a rate of few of many is another one.
fn shown_again(session: &Session, k: u32, n: u32) -> String {
    let shown = format!("showed again in {k} of {n} replays");
    match session.owed.as_ref().map_or(0, |o| o.voids) {
        0 => shown,
        more => format!("{shown}, and {more} more told nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_three_decide() {
        use Replayed::{Falls, Open, Stands};
        let table = [
            (0, 0, Open, Open),
            (0, 1, Open, Falls),
            (1, 1, Open, Open),
            (0, 2, Falls, Falls),
            (1, 2, Open, Falls),
            (2, 2, Stands, Stands),
            (1, 3, Falls, Falls),
            (2, 3, Stands, Stands),
        ];
        for (k, n, want, if_it_fell_often) in table {
            assert_eq!(outcome(k, n, false), want, "{k} of {n}");
            assert_eq!(outcome(k, n, true), if_it_fell_often, "{k} of {n}");
        }
    }
}
