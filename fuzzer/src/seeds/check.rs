//! `warren seed check`: runs each seed on the real target and says for each fault which point it matched, or what came nearest.
//!
//! Judges matching, not the target: a run that fails its checks has matched all the same and is shown with its verdict. Writes nothing but
//! to the terminal.

use super::{SeedFile, check_seeds, near_lines, nearest, read_seeds, stack_text};
use crate::cli::args::SeedCheckArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::session::{Session, failed, load, run_options};
use crate::cli::signals::Interrupt;
use crate::replay::report::Outcome;
use crate::text::fault_text;
use std::fmt::Write as _;
use std::time::Duration;
use warren_executor::RunOptions;
use warren_executor::run::Runner;
use warren_feedback::Judge;
use warren_model::{At, Judgement, RunProduct, Trace};

/// Longest wait for one fault, at least: more than twice that of most replays.
const FAULT_WAIT: Duration = Duration::from_secs(15);
/// A void run is repeated so often before it counts as not matched.
const VOID_TRIES: u32 = 3;

/// Runs the verb.
///
/// # Errors
/// Exit 2 for seeds that cannot be used, exit 1 for set-up that failed and for faults this machine cannot make.
pub fn run(args: &SeedCheckArgs) -> Result<Exit, CliError> {
    let mut seeds = Vec::new();
    for path in &args.files {
        seeds.extend(read_seeds(path)?);
    }
    let name = one_target(&seeds)?;
    let target = load(&name, &args.setup)?;
    check_seeds(&seeds, &target)?;
    // Before set-up: Maven, too, must be ended when the user asks.
    let interrupt = Interrupt::install()?;
    let session = Session::open(target, &args.setup)?;
    let usual = run_options(&args.each, session.prepared.target());
    let options = RunOptions {
        // Where a seed matches is asked, not how soon: a slow machine is no reason to doubt the seed.
        fault_wait: FAULT_WAIT.max(usual.fault_wait),
        stop: interrupt.flag(),
        ..usual
    };
    let (runner, judge) = session.runner_for(seeds.iter().map(|s| &s.sequence), &options)?;
    let (mut runs, mut matched) = (0, 0);
    for seed in &seeds {
        println!("{}: {}", seed.path.display(), seed.sequence.kinds());
        for k in 1..=args.times {
            let (product, judgement) = one(&runner, &judge, seed, &options)?;
            if interrupt.asked() {
                println!("ended by Ctrl-C; the run that was going on does not count");
                return Ok(exit(runs, matched));
            }
            runs += 1;
            matched += u64::from(all_matched(&product));
            let outcome = Outcome::of(&product, &judgement);
            print!("{}", run_text(k, args.times, outcome, &product));
        }
    }
    println!("{}", summary(runs, matched));
    Ok(exit(runs, matched))
}

/// A run that says something: a void one is made again.
fn one(
    runner: &Runner,
    judge: &Judge,
    seed: &SeedFile,
    options: &RunOptions,
) -> Result<(RunProduct, Judgement), CliError> {
    let mut tries = 0;
    loop {
        let product = runner
            .run(&seed.sequence, options)
            .map_err(|e| failed(&e))?;
        let judgement = judge.judge(&product);
        tries += 1;
        let void = judgement.void.is_some() || product.record.void.is_some();
        let stopped = options.stop.load(std::sync::atomic::Ordering::Relaxed);
        if !void || stopped || tries == VOID_TRIES {
            return Ok((product, judgement));
        }
        println!("  the run itself went wrong: repeating it");
    }
}

/// The target all seeds are for.
fn one_target(seeds: &[SeedFile]) -> Result<String, CliError> {
    let Some(first) = seeds.first() else {
        return Err(CliError::usage("no seed to check"));
    };
    match seeds
        .iter()
        .find(|s| s.sequence.target != first.sequence.target)
    {
        None => Ok(first.sequence.target.clone()),
        Some(other) => Err(CliError::usage(format!(
            "{} is for target `{}`, {} for `{}`\n  check the seeds of one target at a time",
            first.path.display(),
            first.sequence.target,
            other.path.display(),
            other.sequence.target
        ))),
    }
}

/// Every fault happened, in a run that counts.
fn all_matched(p: &RunProduct) -> bool {
    p.complete() && p.record.void.is_none()
}

/// 0 when every fault of every run matched, else 1: the seeds are not fit for this target as it is set up here.
fn exit(runs: u64, matched: u64) -> Exit {
    if matched == runs {
        Exit::End
    } else {
        Exit::SetupFailed
    }
}

fn summary(runs: u64, matched: u64) -> String {
    let mut text = format!(
        "{runs} run{}: {matched} matched in full",
        if runs == 1 { "" } else { "s" }
    );
    if matched < runs {
        let _ = write!(text, ", {} did not: exit 1", runs - matched);
    }
    text
}

/// One run as text.
fn run_text(k: u64, times: u64, outcome: Outcome, p: &RunProduct) -> String {
    let r = &p.record;
    let asked = r.sequence.as_ref().map_or(0, |s| s.faults.len());
    #[allow(clippy::cast_precision_loss)] // ms of one run
    let secs = r.times.total as f64 / 1000.0;
    let mut out = format!(
        "  run {k} of {times}: matched {} of {asked}, {secs:.1} s, checks: {}\n",
        r.injected.len(),
        outcome.word()
    );
    for i in &r.injected {
        let role = i
            .event
            .and_then(|e| p.trace.events.get(e))
            .and_then(|e| p.trace.role(e));
        for line in matched_lines(i.index, &i.matched, role, &p.trace) {
            let _ = writeln!(out, "    {line}");
        }
        if let Some((asked, got)) = i.drift {
            let _ = writeln!(
                out,
                "      drift: occurrence {got} was taken, {asked} was asked"
            );
        }
    }
    if let Some(n) = &r.not_injected {
        let _ = writeln!(
            out,
            "    fault {} did not match: {}: {}",
            n.index + 1,
            n.reason,
            n.detail
        );
        let fault = r.sequence.as_ref().and_then(|s| s.faults.get(n.index));
        if let Some(fault) = fault {
            let _ = writeln!(out, "      asked: {}", fault_text(fault, &p.trace));
            let near = near_lines(&nearest(&fault.at, n.index, &p.trace), &p.trace);
            if near.is_empty() {
                let _ = writeln!(out, "      nothing near it came from then on");
            } else {
                let _ = writeln!(out, "      nearest, with how often it came from then on:");
            }
            for line in near {
                let _ = writeln!(out, "        {line}");
            }
        }
        let left = asked.saturating_sub(n.index + 1);
        if left > 0 {
            let _ = writeln!(out, "    {left} after it never came to be awaited");
        }
    }
    if let Some(v) = &r.void {
        let _ = writeln!(out, "    void: {v}");
    }
    out
}

/// The exact point of a fault that happened.
fn matched_lines(
    index: usize,
    matched: &warren_model::FaultAt,
    role: Option<&str>,
    trace: &Trace,
) -> Vec<String> {
    let kind = matched.fault.kind();
    match &matched.at {
        At::Exact(p) => vec![
            format!(
                "fault {}: {kind} at {} ({}), {} {}, n = {}, phase {}, stack {}",
                index + 1,
                p.node,
                role.unwrap_or("role not known"),
                p.kind,
                p.place,
                p.n,
                p.phase,
                p.stack
            ),
            format!("  {}", stack_text(p.stack, trace)),
        ],
        _ => vec![format!(
            "fault {}: {}",
            index + 1,
            fault_text(matched, trace)
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{
        CrashStyle, Fault, FaultAt, FaultSequence, Injected, IoPoint, Kind, NotInjected, Pattern,
        Phase, Place, RunRecord, StackId, Who,
    };

    #[test]
    fn exit_codes() {
        for (runs, matched, want, text) in [
            (0, 0, Exit::End, "0 runs: 0 matched in full"),
            (1, 1, Exit::End, "1 run: 1 matched in full"),
            (
                3,
                1,
                Exit::SetupFailed,
                "3 runs: 1 matched in full, 2 did not: exit 1",
            ),
        ] {
            assert_eq!(exit(runs, matched), want);
            assert_eq!(summary(runs, matched), text);
        }
    }

    #[test]
    fn a_run_tells_what_matched_and_what_came_nearest() {
        let crash = Fault::Crash {
            who: Who::Executing,
            style: CrashStyle::Process,
        };
        let pattern = At::Pattern(Pattern {
            node: None,
            except: None,
            role: Some("leader".into()),
            frames: vec!["*.commit".into()],
            stack: None,
            kind: Some(Kind::Force),
            place: None,
            n: 9,
            phase: Phase::Test,
        });
        let asked = FaultSequence::empty("t")
            .with(pattern.clone(), crash.clone())
            .with(pattern, crash.clone())
            .with(At::AtOnce, Fault::PartitionStop);
        let mut trace = Trace::default();
        trace.stacks.insert(
            StackId(7),
            vec!["a.Log.commit:3".into(), "a.Main.run:1".into()],
        );
        let matched = FaultAt {
            at: At::Exact(IoPoint {
                node: "n2".into(),
                stack: StackId(7),
                kind: Kind::Force,
                place: Place::Before,
                n: 9,
                phase: Phase::Test,
            }),
            fault: crash,
        };
        let product = RunProduct {
            record: RunRecord {
                sequence: Some(asked),
                injected: vec![Injected {
                    index: 0,
                    matched,
                    event: None,
                    t_reached: 0,
                    t_done: 1,
                    late: false,
                    drift: Some((9, 8)),
                    kill: None,
                }],
                not_injected: Some(NotInjected {
                    index: 1,
                    reason: "silence".into(),
                    detail: "no event for 2 s".into(),
                    nearest: 0,
                }),
                ..RunRecord::default()
            },
            trace,
            ..RunProduct::default()
        };
        assert!(!all_matched(&product));
        let text = run_text(1, 2, Outcome::NotInjected, &product);
        for want in [
            "run 1 of 2: matched 1 of 3",
            "fault 1: crash at n2 (role not known), force before, n = 9, phase test, stack 0000000000000007\n      a.Log.commit:3 < a.Main.run:1",
            "drift: occurrence 8 was taken, 9 was asked",
            "fault 2 did not match: silence: no event for 2 s",
            "nothing near it came from then on",
            "1 after it never came to be awaited",
        ] {
            assert!(text.contains(want), "lacks `{want}`:\n{text}");
        }
    }
}
