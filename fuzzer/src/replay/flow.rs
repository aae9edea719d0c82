//! The order of a replay: every file so many times, a run over its limit once more with twice the limit, a void run again.
//!
//! Generic over the one function that makes and judges a run, so that it is tested without a cluster. Prints through `say`.

use super::report::{Outcome, Tally, run_text};
use crate::cli::exit::CliError;
use std::time::Duration;
use warren_model::{FailureKind, FaultSequence, Judgement, RunProduct};

/// A void run is repeated so often before it counts as void.
const VOID_TRIES: usize = 3;

/// What a replay is asked.
pub struct Plan<'a> {
    /// (name shown, sequence).
    pub sequences: &'a [(String, FaultSequence)],
    pub times: u64,
    /// Limit of one run.
    pub limit: Duration,
}

/// Makes one run with a limit and judges it; `true` = the repetition of a run that passed its limit.
pub type RunFn<'a> =
    dyn FnMut(&FaultSequence, Duration, bool) -> Result<(RunProduct, Judgement), CliError> + 'a;

/// Told of each run that counts: which sequence, how it counts, the run.
pub type CountedFn<'a> =
    dyn FnMut(usize, Outcome, &RunProduct, &Judgement) -> Result<(), CliError> + 'a;

/// Runs the plan until it is done or `stopped` says so; a run that was stopped in the middle does not count.
///
/// # Errors
/// The first run that could not be made at all.
pub fn replay(
    plan: &Plan<'_>,
    run: &mut RunFn<'_>,
    stopped: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
    counted: &mut CountedFn<'_>,
) -> Result<Tally, CliError> {
    let mut tally = Tally::default();
    for (file, (name, sequence)) in plan.sequences.iter().enumerate() {
        say(&format!("{name}: {}\n", sequence.kinds()));
        for k in 1..=plan.times {
            let head = format!("run {k} of {}", plan.times);
            let mut voids = 0;
            let (outcome, product, judgement) = loop {
                let Some((outcome, product, judgement)) =
                    one(sequence, plan.limit, run, stopped, say)?
                else {
                    say("ended by Ctrl-C; the run that was going on does not count\n");
                    return Ok(tally);
                };
                say(&run_text(&head, outcome, &product, &judgement));
                voids += 1;
                if outcome != Outcome::Void || voids == VOID_TRIES {
                    break (outcome, product, judgement);
                }
                say("  the run itself went wrong: repeating it\n");
            };
            tally.add(outcome, &judgement);
            counted(file, outcome, &product, &judgement)?;
        }
    }
    Ok(tally)
}

/// One run, and the second with twice the limit if it passed the first. None = stopped.
///
/// # Errors
/// The run could not be made at all.
pub fn one(
    sequence: &FaultSequence,
    limit: Duration,
    run: &mut RunFn<'_>,
    stopped: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
) -> Result<Option<(Outcome, RunProduct, Judgement)>, CliError> {
    let (first, judged) = run(sequence, limit, false)?;
    if stopped() {
        return Ok(None);
    }
    let outcome = Outcome::of(&first, &judged);
    // As in a campaign: only a safety failure stands whatever the limit did.
    let safety = judged
        .failures
        .iter()
        .any(|f| f.kind == FailureKind::Safety);
    if !first.record.timed_out || outcome == Outcome::Void || safety {
        return Ok(Some((outcome, first, judged)));
    }
    say(&format!(
        "  over its limit of {} ms: once more with twice the limit\n",
        limit.as_millis()
    ));
    let (second, judged) = run(sequence, limit * 2, true)?;
    if stopped() {
        return Ok(None);
    }
    Ok(Some((Outcome::of(&second, &judged), second, judged)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;
    use std::cell::RefCell;
    use warren_model::{Failure, RunRecord, Stage, Verdict};

    #[derive(Clone, Copy)]
    enum R {
        Pass,
        Fail,
        Timeout,
        TimeoutAndSafety,
        TimeoutAndLiveness,
        Void,
    }

    /// As the judge does: over the limit is unknown at first, a hang in the repetition.
    fn made(r: R, retest: bool) -> (RunProduct, Judgement) {
        let failure = |kind| Failure {
            checker: "c".into(),
            kind,
            stage: Stage::Test,
            role: None,
            node: None,
            evidence: vec![],
            normalised: String::new(),
            signature: "00000001".into(),
        };
        let (timed_out, void, failures) = match r {
            R::Pass => (false, None, vec![]),
            R::Fail => (false, None, vec![failure(FailureKind::Safety)]),
            R::Timeout if retest => (true, None, vec![failure(FailureKind::Hang)]),
            R::Timeout => (true, None, vec![]),
            R::TimeoutAndSafety => (true, None, vec![failure(FailureKind::Safety)]),
            R::TimeoutAndLiveness => (true, None, vec![failure(FailureKind::Liveness)]),
            R::Void => (false, Some("starved".into()), vec![]),
        };
        let record = RunRecord {
            timed_out,
            void,
            ..RunRecord::default()
        };
        let verdict = match (failures.is_empty(), timed_out) {
            (false, _) => Verdict::Fail,
            (true, true) => Verdict::Unknown,
            (true, false) => Verdict::Pass,
        };
        (
            RunProduct {
                record,
                ..RunProduct::default()
            },
            Judgement {
                verdict,
                failures,
                ..Judgement::default()
            },
        )
    }

    /// Runs a script; gives the tally and the limits asked for, in seconds.
    fn play(times: u64, script: &[R], stop_after: usize) -> (Tally, Vec<u64>) {
        let asked = RefCell::new(Vec::new());
        let mut counted = Vec::new();
        let sequences = [("f".to_owned(), FaultSequence::empty("t"))];
        let plan = Plan {
            sequences: &sequences,
            times,
            limit: Duration::from_secs(10),
        };
        let tally = replay(
            &plan,
            &mut |_, limit, retest| {
                let mut a = asked.borrow_mut();
                let r = script[a.len()];
                a.push(limit.as_secs());
                Ok(made(r, retest))
            },
            &|| asked.borrow().len() > stop_after,
            &mut |_| {},
            &mut |file, outcome, _, _| {
                counted.push((file, outcome));
                Ok(())
            },
        )
        .unwrap();
        let outcomes: Vec<(usize, Outcome)> = tally.outcomes.iter().map(|o| (0, *o)).collect();
        assert_eq!(counted, outcomes, "what counts is told, and nothing else");
        (tally, asked.into_inner())
    }

    /// Times, what the runs do, stop after so many, limits asked for, outcomes, exit.
    type Case<'a> = (u64, &'a [R], usize, &'a [u64], Vec<Outcome>, Exit);

    #[test]
    fn table() {
        let never = usize::MAX;
        let cases: [Case<'_>; 8] = [
            (
                2,
                &[R::Pass, R::Fail],
                never,
                &[10, 10],
                vec![Outcome::Pass, Outcome::Fail],
                Exit::Bug,
            ),
            (
                1,
                &[R::Timeout, R::Timeout],
                never,
                &[10, 20],
                vec![Outcome::Hang],
                Exit::Hang,
            ),
            (
                1,
                &[R::Timeout, R::Pass],
                never,
                &[10, 20],
                vec![Outcome::Pass],
                Exit::End,
            ),
            (
                1,
                &[R::TimeoutAndSafety],
                never,
                &[10],
                vec![Outcome::Fail],
                Exit::Bug,
            ),
            (
                1,
                &[R::TimeoutAndLiveness, R::Pass],
                never,
                &[10, 20],
                vec![Outcome::Pass],
                Exit::End,
            ),
            (
                1,
                &[R::Void, R::Pass],
                never,
                &[10, 10],
                vec![Outcome::Pass],
                Exit::End,
            ),
            (
                1,
                &[R::Void, R::Void, R::Void],
                never,
                &[10, 10, 10],
                vec![Outcome::Void],
                Exit::End,
            ),
            (
                3,
                &[R::Fail, R::Pass],
                1,
                &[10, 10],
                vec![Outcome::Fail],
                Exit::Bug,
            ),
        ];
        for (times, script, stop, limits, outcomes, exit) in cases {
            let (tally, asked) = play(times, script, stop);
            assert_eq!(tally.outcomes, outcomes);
            assert_eq!(asked, limits);
            assert_eq!(tally.exit(), exit);
        }
    }
}
