//! Runs the machine against whatever makes runs: a cluster, a campaign's executor, or a made-up oracle in tests.
//!
//! Outcomes of the journal are taken before a run is made; each run made is in the journal before the next begins.

use super::exchange::{Ask, Ended, Outcome, Told};
use super::facts::Facts;
use super::journal::{Journal, JournalError};
use super::machine::Minimiser;
use crate::known::KnownBugs;
use warren_model::{Failure, FaultSequence, Judgement, NodeName, RunProduct, Verdict};

/// What happens around a run.
pub trait World {
    type Error: From<JournalError>;

    /// Makes a run; none = it was cut off by Ctrl-C and does not count.
    ///
    /// # Errors
    /// The run could not be made at all.
    fn run(&mut self, ask: &Ask, spent: u64) -> Result<Option<Outcome>, Self::Error>;

    /// The number of the run just made, for the journal; none where runs have none.
    fn number(&self) -> Option<u64> {
        None
    }

    /// The run just made is in the journal, if there is one.
    ///
    /// # Errors
    /// What is to follow could not be done.
    fn noted(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Something was learned or decided.
    ///
    /// # Errors
    /// It could not be written.
    fn told(&mut self, told: &Told, m: &Minimiser) -> Result<(), Self::Error>;
}

/// Until the machine is through; false = stopped before.
///
/// # Errors
/// The first of the world's or the journal's.
pub fn drive<W: World>(
    m: &mut Minimiser,
    journal: &mut Option<Journal>,
    world: &mut W,
) -> Result<bool, W::Error> {
    let mut told = Vec::new();
    loop {
        let ask = m.next(&mut told);
        say(&mut told, m, world)?;
        let Some(ask) = ask else { return Ok(true) };
        let outcome = match journal.as_mut().and_then(|j| j.take(ask.hash)) {
            Some(known) => known,
            None => {
                let Some(made) = world.run(&ask, m.spent())? else {
                    return Ok(false);
                };
                if let Some(j) = journal {
                    j.append(ask.hash, world.number(), &made)?;
                }
                world.noted()?;
                made
            }
        };
        m.outcome(outcome, &mut told);
        say(&mut told, m, world)?;
    }
}

fn say<W: World>(told: &mut Vec<Told>, m: &Minimiser, world: &mut W) -> Result<(), W::Error> {
    for t in told.drain(..) {
        world.told(&t, m)?;
    }
    Ok(())
}

/// What the machine is told of a judged run. `name` is what a failure is called, `None` where it is none of those that count: a known bug
/// may have the signature of the failure to keep.
#[must_use]
pub fn outcome(
    asked: &FaultSequence,
    product: &RunProduct,
    judgement: &Judgement,
    nodes: &[NodeName],
    cost: u64,
    name: &dyn Fn(&Failure) -> Option<String>,
) -> Outcome {
    let failed = judgement.verdict == Verdict::Fail;
    let void = judgement.void.is_some() || product.record.void.is_some();
    // As in a replay: the failure may be there, and the machine kept it from being seen.
    let by_load = judgement.open_by_load().next().is_some();
    let ended = if void || by_load && judgement.verdict == Verdict::Unknown {
        Ended::Void
    } else if failed {
        Ended::Failed
    } else if !product.complete() {
        Ended::NotInjected
    } else if judgement.verdict == Verdict::Unknown {
        Ended::Unknown
    } else {
        Ended::Passed
    };
    let mut signatures: Vec<String> = Vec::new();
    if ended == Ended::Failed {
        let first = judgement.signature();
        let mut failures: Vec<&Failure> = judgement.failures.iter().collect();
        failures.sort_by_key(|f| Some(f.signature.as_str()) != first);
        for s in failures.into_iter().filter_map(name) {
            if !signatures.contains(&s) {
                signatures.push(s);
            }
        }
    }
    Outcome {
        facts: (ended == Ended::Failed).then(|| Facts::of(asked, product, nodes)),
        by_load: by_load && ended == Ended::Failed,
        ended,
        signatures,
        cost,
    }
}

/// A failure's name by its target's list: its signature, with the number upstream of a known bug, as one that has none may have the same
/// signature.
pub fn name(known: &KnownBugs, failure: &Failure, product: &RunProduct) -> String {
    match known.of(failure, &product.logs) {
        Some(bug) => format!("{} {}", failure.signature, bug.id),
        None => failure.signature.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{NotInjected, Unknown};

    const STALL: &str = "a node does not serve after healing, but the slot stood still for 900 ms";

    /// Verdict, what is unknown, void, not injected in full -> how it ended. Where it failed, what is open by load is told beside.
    #[test]
    fn what_a_run_tells() {
        use Verdict::{Fail, Pass};
        let unknown = Verdict::Unknown;
        let table = [
            (Pass, "", false, false, Ended::Passed),
            (Fail, "", false, false, Ended::Failed),
            (Fail, "", false, true, Ended::Failed),
            // Another question was left open: what failed failed.
            (Fail, STALL, false, false, Ended::Failed),
            (Pass, "", true, false, Ended::Void),
            (Pass, "", false, true, Ended::NotInjected),
            (unknown, "timed out once", false, false, Ended::Unknown),
            (unknown, STALL, false, false, Ended::Void),
            (unknown, STALL, false, true, Ended::Void),
        ];
        for (verdict, why, void, missed, want) in table {
            let unknowns = (!why.is_empty()).then(|| Unknown {
                checker: "serve".into(),
                why: why.into(),
                by_load: why == STALL,
            });
            let judgement = Judgement {
                verdict,
                unknowns: unknowns.into_iter().collect(),
                void: void.then(|| "tmpfs full".into()),
                ..Judgement::default()
            };
            let mut product = RunProduct::default();
            product.record.not_injected = missed.then(|| NotInjected {
                index: 0,
                reason: "silence".into(),
                detail: String::new(),
                nearest: 0,
            });
            let asked = FaultSequence::empty("t");
            let got = outcome(&asked, &product, &judgement, &[], 1, &|_| None);
            assert_eq!(got.ended, want, "{verdict:?} {why} {void} {missed}");
            let by_load = why == STALL && want == Ended::Failed;
            assert_eq!(got.by_load, by_load, "{verdict:?} {why} {void} {missed}");
        }
    }
}
