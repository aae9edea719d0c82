//! A finding stands: its sequence goes into crashes/ or hangs/, its story into findings/<nnnnnn>/, its commands onto the screen; and the rate
//! of one that stood before it was replayed. Called by `confirm` and `replayed_otherwise`, which decide that it stands.

use crate::campaign::state::hook;
use crate::campaign::{EntryName, FuzzError, KeptFinding, folder, names};
use crate::fuzz::State;
use crate::fuzz::confirming::confirm::to_run_again;
use crate::fuzz::confirming::owed::Seen;
use crate::fuzz::confirming::story::write_story;
use crate::fuzz::confirming::tally::{Asked, NEEDED, Replayed};
use crate::fuzz::figures::snapshot::FindKind;
use crate::fuzz::options::EndReason;
use crate::fuzz::session::Session;
use libafl::HasMetadata;
use std::path::PathBuf;
use warren_feedback::SavedBugs;
use warren_model::{Failure, FailureKind};

/// What is said of a hang in place of a rate.
pub(in crate::fuzz) const HANG_RATE: &str =
    "over its limit twice, the second time alone with twice the limit";

/// It stands, and something about its run is owed still: the journal knows of it before anything else is done.
pub(in crate::fuzz) fn stand_owed(
    session: &mut Session,
    state: &mut State,
    seen: &Seen,
    k: u32,
    n: u32,
    rate: Option<&str>,
) -> Result<(), FuzzError> {
    let path = stand(session, state, seen, k, n, rate)?;
    let number = session.found.findings.last().map_or(0, |f| f.number);
    let name = path
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let owed = session.owed.as_mut();
    if let Some(asked) = owed.and_then(|o| o.asked_mut(&seen.failure.signature)) {
        asked.stood = Some((number, name));
    }
    session.commit(state)
}

/// A finding stands: everything is written, the reproduce command is printed. `rate` = what confirmation says; none = that comes.
pub(in crate::fuzz) fn stand(
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
    let number = session.found.findings.len() as u64;
    session.found.findings.push(KeptFinding {
        number,
        signature: seen.failure.signature.clone(),
        checker: seen.failure.checker.clone(),
        kind: seen.failure.kind,
        k,
        n,
        fell: false,
    });
    let known = session.known_as(seen);
    match &known {
        Some(known) => {
            session.found.known.insert(number, known.clone());
        }
        // Of a known bug each instance keeps one for itself: what only has its signature must be a finding to the others too. What is told is
        // never taken back, so not what may still fall.
        None => {
            if session.found.findings.last().is_some_and(|f| !is_open(f)) {
                tell(session, seen);
            }
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
    let what = FindKind::of_failure(seen.failure.kind, known.is_some());
    session.list_find(what, headline);
    // What is open may fall still: the process that makes the rest of its replays ends for it (`rate`).
    if session.found.findings.last().is_some_and(|f| !is_open(f)) {
        end_if_asked(session, seen);
    }
    Ok(path)
}

/// A liveness failure that Ctrl-C or key `n` left open: more replays may show that it is none.
pub(in crate::fuzz) fn is_open(finding: &KeptFinding) -> bool {
    finding.kind == FailureKind::Liveness && finding.k < NEEDED
}

/// The other instances are to hear of the finding.
fn tell(session: &mut Session, seen: &Seen) {
    let told = &mut session.instances.told;
    told.findings.push(seen.failure.signature.clone());
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
pub(in crate::fuzz) fn rate(
    session: &mut Session,
    seen: &Seen,
    asked: &Asked,
) -> Result<(), FuzzError> {
    let Some((number, name)) = asked.stood.clone() else {
        return Ok(());
    };
    let (k, n) = (asked.k, asked.n);
    let mut stands_now = false;
    if let Some(finding) = session
        .found
        .findings
        .iter_mut()
        .find(|f| f.number == number)
    {
        let was_open = is_open(finding);
        (finding.k, finding.n) = (k, n);
        stands_now = was_open && !is_open(finding);
    }
    if stands_now && !session.found.known.contains_key(&number) {
        tell(session, seen);
    }
    // The process that saw it stand may have been another one.
    if seen.failure.kind == FailureKind::Safety || asked.outcome(false) == Replayed::Stands {
        end_if_asked(session, seen);
    }
    let text = rate_text(seen, asked);
    session.say(format!("  confirmed: {text}"));
    let sub = if seen.failure.kind == FailureKind::Hang {
        "hangs"
    } else {
        "crashes"
    };
    let path = session.folder.root().join(sub).join(name);
    write_story(session, seen, number, &path, &text).map(drop)
}

/// What was saved while it was open has fallen: its story stays, and the next run of its kind is replayed anew, in this process and in later ones.
pub(in crate::fuzz) fn falls(session: &mut Session, asked: &Asked) {
    let number = asked.stood.as_ref().map(|s| s.0);
    let mut findings = session.found.findings.iter_mut();
    if let Some(finding) = findings.find(|f| Some(f.number) == number) {
        finding.fell = true;
    }
}

/// The run of a failure that did not show again is a failing one only for another bug that stands. Once for a run, whatever failed in it.
pub(in crate::fuzz) fn counts_as_unknown(session: &mut Session, seen: &Seen) {
    let stands = |f: &Failure| session.found.stands(&f.signature);
    if !seen.judgement.failures.iter().any(stands) {
        session.counts.failing = session.counts.failing.saturating_sub(1);
        session.counts.unknowns += 1;
    }
}

pub(in crate::fuzz) fn rate_text(seen: &Seen, asked: &Asked) -> String {
    let shown = shown_again(asked);
    match seen.failure.kind {
        FailureKind::Hang => HANG_RATE.into(),
        FailureKind::Safety => format!("{shown}; stands by its evidence"),
        FailureKind::Liveness => shown,
    }
}

/// With the replays that say nothing either way: a rate of few of many is another one.
pub(in crate::fuzz) fn shown_again(asked: &Asked) -> String {
    let shown = format!("showed again in {} of {} replays", asked.k, asked.n);
    match asked.voids {
        0 => shown,
        more => format!("{shown}, and {more} more were inconclusive"),
    }
}

/// Writes the sequence into crashes/ or hangs/ under AFL's name.
pub(in crate::fuzz) fn save_sequence(
    session: &mut Session,
    state: &mut State,
    seen: &Seen,
) -> Result<PathBuf, FuzzError> {
    let hang = seen.failure.kind == FailureKind::Hang;
    let now = session.clock.fuzz_ms();
    let execs = session.execs(state);
    let counts = &mut session.counts;
    let id = if hang {
        counts.saved_hangs += 1;
        counts.last_hang = Some(now);
        counts.saved_hangs - 1
    } else {
        counts.saved_crashes += 1;
        counts.last_crash = Some(now);
        counts.execs_at_crash = execs;
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
pub(in crate::fuzz) fn saved(state: &mut State, signature: &str) {
    state
        .metadata_or_insert_with(SavedBugs::default)
        .save(signature);
}
