//! What is written of a failing run beside its sequence: a finding's folder, the same of a failure that did not show again, and of a run
//! that fails as a finding does and otherwise too. Called by `confirm`, which decides what stands; decides nothing of that itself.

use crate::campaign::finding::{FINDING_JSON, Sheet, replayed};
use crate::campaign::folder::OTHERWISE;
use crate::campaign::{FindingText, FuzzError, KeptFinding, write_finding};
use crate::fuzz::confirming::owed::Seen;
use crate::fuzz::session::Session;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use warren_model::Judgement;

/// The commands that show a finding again and that make it smaller.
fn commands(session: &Session, seen: &Seen, folder: &Path, path: &Path) -> (String, String) {
    let durable = seen.product.record.restart_for(seen.failure.stage);
    let small = folder.join("min.toml");
    (
        session.folder.reproduce(path, durable),
        session.folder.minimise(path, &small, durable),
    )
}

/// Findings whose signature this run shows, too, of those with such numbers.
fn alike(session: &Session, seen: &Seen, numbers: impl Fn(u64) -> bool) -> Vec<String> {
    let shows = |signature: &String| {
        let mut failures = seen.judgement.failures.iter();
        failures.any(|f| f.signature == *signature)
    };
    (session.found.that_stand())
        .filter(|f| numbers(f.number) && shows(&f.signature))
        .map(|f| format!("{:06} [{}]", f.number, f.signature))
        .collect()
}

/// Writes the finding's folder; answers the commands that show it again and that make it smaller.
pub(in crate::fuzz) fn write_story(
    session: &Session,
    seen: &Seen,
    number: u64,
    path: &Path,
    rate: &str,
) -> Result<(String, String), FuzzError> {
    let kept = session.found.findings.iter().find(|f| f.number == number);
    let (k, n) = kept.map_or((0, 0), |f| (f.k, f.n));
    let folder = session.folder.finding(number);
    let text = FindingText {
        known: session.found.known.get(&number).cloned(),
        alike: alike(session, seen, |earlier| earlier < number),
        ..story(session, seen, (number, k, n), &folder, path, rate)
    };
    write_finding(&folder, &text, &seen.product, &seen.judgement)?;
    Ok((text.reproduce, text.minimise))
}

/// Writes the story of a failure that is no finding, as `rate` says after `k` of `n` replays; answers where.
pub(in crate::fuzz) fn write_unconfirmed(
    session: &Session,
    seen: &Seen,
    (k, n): (u32, u32),
    rate: &str,
) -> Result<PathBuf, FuzzError> {
    let folder = session
        .folder
        .unconfirmed(seen.execs, &seen.failure.signature);
    let path = folder.join(replayed(&seen.product.record));
    let text = FindingText {
        unconfirmed: true,
        ..story(session, seen, (seen.execs, k, n), &folder, &path, rate)
    };
    write_finding(&folder, &text, &seen.product, &seen.judgement)?;
    session.folder.prune_unconfirmed()?;
    Ok(folder)
}

/// One more run of a finding that stands. Its story is kept where no story of that finding has just these failures: the one that stands
/// may be the lesser of two, and without the nodes' logs nobody could tell. As many as a signature's sequences are saved, at most.
pub(in crate::fuzz) fn keep_otherwise(
    session: &Session,
    seen: &Seen,
    path: &Path,
) -> Result<(), FuzzError> {
    let signature = &seen.failure.signature;
    let own = |f: &&KeptFinding| {
        f.signature == *signature && !session.found.known.contains_key(&f.number)
    };
    // Another instance's finding has its stories there.
    let Some(finding) = session.found.that_stand().find(own) else {
        return Ok(());
    };
    let told = ways_told(&session.folder.finding(finding.number));
    if told.contains(&way(&seen.judgement)) {
        return Ok(());
    }
    let folder = session.folder.otherwise(finding.number, seen.execs);
    let rate = format!(
        "one more run of finding {:06}, not replayed",
        finding.number
    );
    let text = FindingText {
        alike: alike(session, seen, |other| other != finding.number),
        ..story(session, seen, (finding.number, 0, 0), &folder, path, &rate)
    };
    write_finding(&folder, &text, &seen.product, &seen.judgement)
}

/// In which way a run failed: the signatures of all its failures.
fn way(judgement: &Judgement) -> BTreeSet<String> {
    let failures = judgement.failures.iter();
    failures.map(|f| f.signature.clone()).collect()
}

/// The ways that the stories of a finding have, its own first. One that was cut off before its sheet was written is none.
fn ways_told(finding: &Path) -> Vec<BTreeSet<String>> {
    let others = std::fs::read_dir(finding.join(OTHERWISE));
    let others = others.into_iter().flatten().flatten().map(|e| e.path());
    std::iter::once(finding.to_owned())
        .chain(others)
        .filter_map(|folder| Sheet::read(&folder.join(FINDING_JSON)).ok())
        .map(|sheet| way(&sheet.judgement))
        .collect()
}

/// What is told of a failure beside its run: `(number, k, n)`, the folder it is told in, the sequence's file, and what replays made of it.
fn story(
    session: &Session,
    seen: &Seen,
    (number, k, n): (u64, u32, u32),
    folder: &Path,
    path: &Path,
    rate: &str,
) -> FindingText {
    let (reproduce, minimise) = commands(session, seen, folder, path);
    FindingText {
        number,
        unconfirmed: false,
        signature: seen.failure.signature.clone(),
        known: None,
        alike: Vec::new(),
        confirmed: rate.to_owned(),
        k,
        n,
        reproduce,
        minimise,
        file: path.display().to_string(),
        strategy: session.options.strategy.to_string(),
        why: seen.why.clone(),
        campaign_seed: session.seed,
        execs: seen.execs,
        at_ms: seen.at_ms,
        environment: session.options.environment.clone(),
    }
}
