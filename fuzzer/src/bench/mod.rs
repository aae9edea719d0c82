//! `warren bench`: what the agent, a fault test and a kill cost, and Warren's own memory.
//!
//! Pairs of fault-free runs (without and with the agent, interleaved), runs restored from a snapshot, then two short campaigns of the
//! strategy in scratch folders, cold and with snapshots, whose runs.jsonl give the fault tests. [`figures`] makes the figures; nothing is estimated.
//! What slots side by side bring is a bench of its own, [`slots`].

pub mod figures;
pub mod slots;

use crate::campaign::stats::peak_rss_mib;
use crate::campaign::{RunRole, StoredLine, WayOut};
use crate::cli::args::BenchArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::session::{Session, load};
use crate::cli::signals::Interrupt;
use crate::fuzz::{self, FuzzOptions, Starts};
use crate::fuzz_cmd::{COLD_SHARE, IN_A_ROW, SNAPSHOTS};
use figures::{FaultTest, Figures, PlainRun, RestoredRun, Samples};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use warren_executor::RunOptions;
use warren_executor::run::Runner;
use warren_model::{FaultSequence, StartState};

/// Operations of a plain run.
const PLAIN_OPS: u32 = 200;
/// Fault tests: the mean is over at least so many sequences.
const FAULT_TESTS: u64 = 30;
/// A run that went wrong is made again so often.
const TRIES: usize = 3;

/// Runs the verb.
///
/// # Errors
/// Exit 1 when a run could not be made; Ctrl-C ends with what was measured so far and says so.
pub fn run(args: &BenchArgs) -> Result<Exit, CliError> {
    if !args.slots.is_empty() {
        return slots::run(args, &args.slots);
    }
    // Before set-up: Maven, too, must be ended when the user asks.
    let interrupt = Interrupt::install()?;
    let session = Session::open(load(&args.target, &args.setup)?, &args.setup)?;
    let mut runner = session.runner(1)?;
    session.use_snapshots(&mut runner)?;
    let mut samples = Samples::default();
    for k in 1..=args.runs {
        if interrupt.asked() {
            break;
        }
        eprintln!("warren: pair {k} of {}", args.runs);
        let plain = plain_run(&runner, false, args.seed, &interrupt)?;
        let agent = plain_run(&runner, true, args.seed, &interrupt)?;
        samples.pairs.extend(plain.zip(agent));
    }
    for k in 1..=args.runs {
        if interrupt.asked() || runner.config().criu.is_none() {
            break;
        }
        eprintln!("warren: restored run {k} of {}", args.runs);
        match restored_run(&runner, args.seed, &interrupt)? {
            Ok(run) => samples.restored.push(run),
            Err(why) => {
                eprintln!("warren: not measured: {why}");
                break;
            }
        }
    }
    if !interrupt.asked() {
        samples.tests = fault_tests(&session, args, &interrupt, Starts::COLD)?;
    }
    if !interrupt.asked() && !samples.restored.is_empty() {
        let starts = Starts {
            snapshots: SNAPSHOTS,
            cold_share: COLD_SHARE,
            required: true,
            in_a_row: 1,
        };
        samples.warm_tests = fault_tests(&session, args, &interrupt, starts)?;
        if !interrupt.asked() {
            let starts = Starts {
                in_a_row: IN_A_ROW,
                ..starts
            };
            samples.prefix_tests = fault_tests(&session, args, &interrupt, starts)?;
        }
    }
    samples.rss_mib = peak_rss_mib();
    let figures = Figures::of(&samples);
    if args.json {
        let text = serde_json::to_string_pretty(&figures)
            .map_err(|e| CliError::setup(format!("writing the figures: {e}")))?;
        println!("{text}");
    } else {
        print!("{}", figures.table(&args.target));
    }
    if interrupt.asked() {
        eprintln!("warren: ended by Ctrl-C: the figures are of fewer runs than asked for");
    }
    Ok(Exit::End)
}

/// One fault-free run without sleeps: launch to ready, connect, the operations. None: an end was asked for meanwhile.
fn plain_run(
    runner: &Runner,
    agent: bool,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Option<PlainRun>, CliError> {
    let sequence = FaultSequence::empty(&runner.prepared().target().name);
    let options = RunOptions {
        seed,
        agent,
        plain_ops: Some(PLAIN_OPS),
        stop: interrupt.flag(),
        ..RunOptions::default()
    };
    let mut why = String::new();
    for _ in 0..TRIES {
        let made = runner.run(&sequence, &options);
        if interrupt.asked() {
            return Ok(None);
        }
        let product = made.map_err(CliError::setup)?;
        let r = &product.record;
        let wrong = r
            .void
            .as_ref()
            .map(ToString::to_string)
            .or_else(|| r.workload_error.clone())
            .or_else(|| r.timed_out.then(|| "it passed its limit".to_owned()));
        match wrong {
            None => return Ok(Some(PlainRun::of(r))),
            Some(w) => why = w,
        }
    }
    Err(CliError::setup(format!(
        "a plain run {} the agent went wrong {TRIES} times: {why}\n  the machine may be too busy: end other programs, and see `warren doctor`",
        if agent { "with" } else { "without" }
    )))
}

/// A fault-free run without sleeps that starts from a snapshot; else why there is none.
fn restored_run(
    runner: &Runner,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Result<RestoredRun, String>, CliError> {
    let sequence = FaultSequence {
        start: StartState::Snapshot(1),
        ..FaultSequence::empty(&runner.prepared().target().name)
    };
    let options = RunOptions {
        seed,
        plain_ops: Some(PLAIN_OPS),
        stop: interrupt.flag(),
        ..RunOptions::default()
    };
    let made = runner.run(&sequence, &options);
    if interrupt.asked() {
        return Ok(Err("ended by Ctrl-C".into()));
    }
    let product = made.map_err(CliError::setup)?;
    Ok(match (&product.fallbacks.cold, RestoredRun::of(&product)) {
        (None, Some(run)) => Ok(run),
        (Some(why), _) => Err(format!("started cold: {why}")),
        (None, None) => Err("no operation was answered".into()),
    })
}

/// A campaign of at least [`FAULT_TESTS`] sequences in a scratch folder.
fn fault_tests(
    session: &Session,
    args: &BenchArgs,
    interrupt: &Interrupt,
    starts: Starts,
) -> Result<Vec<FaultTest>, CliError> {
    let scratch = tempfile::tempdir()
        .map_err(|e| CliError::setup(format!("making a scratch folder: {e}")))?;
    let mut options = FuzzOptions::new(
        &session.prepared.target().name,
        scratch.path().join("bench"),
    );
    options.seed = Some(args.seed);
    options.starts = starts;
    options.max_sequences = Some(FAULT_TESTS);
    options.stop = interrupt.flag();
    options.command_line = std::env::args().collect();
    eprintln!(
        "warren: {FAULT_TESTS} fault tests{}, after {} learning runs",
        match (starts.snapshots, starts.in_a_row) {
            (0, _) => ", cold",
            (_, 1) => " from snapshots",
            _ => " from snapshots and prefix snapshots",
        },
        options.learning_runs
    );
    let mut runner = session.runner(options.max_faults)?;
    if starts.snapshots > 0 {
        session.use_snapshots(&mut runner)?;
    }
    let way_out = WayOut {
        place: "name another folder for such files with TMPDIR",
        content: "measure again",
    };
    let end = fuzz::run(options, runner).map_err(|e| way_out.of(e))?;
    read_tests(&end.folder.join("runs.jsonl"), interrupt.asked())
}

/// The runs of sequences the strategy picked, from a campaign's runs.jsonl; a campaign that was `ended` before its first run has none.
fn read_tests(file: &Path, ended: bool) -> Result<Vec<FaultTest>, CliError> {
    let text = match std::fs::read_to_string(file) {
        Err(e) if ended && e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|e| CliError::setup(format!("reading {}: {e}", file.display())))?,
    };
    tests_of(&text).map_err(|e| CliError::setup(format!("{}: {e}", file.display())))
}

/// One [`FaultTest`] per line of role `fuzz` that is not void. Its time is from the end of the run before it (fuzzing time), so it
/// holds picking, the slot, the run, the teardown and the verdict: never less than the record's own total.
fn tests_of(jsonl: &str) -> Result<Vec<FaultTest>, String> {
    let mut tests = Vec::new();
    let mut before = 0;
    for line in StoredLine::all(jsonl) {
        let l = line?;
        let spent = l.at_ms.saturating_sub(before).max(l.times_ms.total);
        before = l.at_ms;
        if l.role != RunRole::Fuzz || l.void.is_some() {
            continue;
        }
        let test = FaultTest::new(
            Duration::from_millis(spent),
            l.reason.is_none(),
            l.cpu_ms,
            &l.kill_signal_us,
            &l.kill_reap_us,
            l.late_events,
        );
        tests.push(FaultTest {
            from_prefix: l.from_prefix.is_some(),
            crashes_only: l.start != "cold" && !l.kinds.contains("partition"),
            ..test
        });
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ctrl-C before the first run: what was measured until then is not lost for a file that was never made.
    #[test]
    fn a_campaign_ended_before_its_first_run_has_no_tests() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runs.jsonl");
        assert!(read_tests(&file, true).is_ok_and(|tests| tests.is_empty()));
        let missing = read_tests(&file, false).map(|tests| tests.len());
        assert!(
            matches!(&missing, Err(e) if e.text.contains("runs.jsonl")),
            "{missing:?}"
        );
        std::fs::write(&file, "{}\n").unwrap();
        for ended in [false, true] {
            let damaged = read_tests(&file, ended).map(|tests| tests.len());
            assert!(
                matches!(&damaged, Err(e) if e.text.contains("line 1")),
                "ended {ended}: {damaged:?}"
            );
        }
    }

    #[test]
    fn tests_come_from_lines_of_role_fuzz() {
        let of = |start: &str, kinds: &str, role: &str, at: u64, total: u64, void: &str| {
            format!(
                "{{\"role\":\"{role}\",\"at_ms\":{at},\"kinds\":\"{kinds}\",\"start\":\"{start}\",\"reason\":null,\"void\":{void},\"times_ms\":{{\"total\":{total}}},\"cpu_ms\":1500,\
                 \"kill_signal_us\":[400],\"kill_reap_us\":[20000],\"late_events\":0,\"slots\":1,\"sequences\":1}}\n"
            )
        };
        let line = |role, at, total, void| of("snapshot-1", "crash+reboot", role, at, total, void);
        let text = [
            line("learning", 0, 4000, "null"),
            line("fuzz", 5000, 4900, "null"),
            line("confirm", 9000, 4000, "null"),
            line("fuzz", 14_000, 4800, "null"),
            line("fuzz", 15_000, 900, "\"starved\""),
            of("cold", "crash", "fuzz", 20_000, 4800, "null"),
            of(
                "snapshot-2",
                "crash+partition-start",
                "fuzz",
                25_000,
                4800,
                "null",
            ),
        ]
        .concat();
        let tests = tests_of(&text).unwrap();
        let secs: Vec<f64> = tests.iter().map(|t| t.secs).collect();
        assert_eq!(secs, [5.0; 4]);
        let crashes: Vec<bool> = tests.iter().map(|t| t.crashes_only).collect();
        assert_eq!(crashes, [true, true, false, false], "cold, and with a cut");
        assert_eq!(tests[0].cpu_s, 1.5);
        assert_eq!(tests[0].kills, [(0.4, 20.0)]);
        assert!(tests_of("{}\n").unwrap_err().contains("line 1"));
    }
}
