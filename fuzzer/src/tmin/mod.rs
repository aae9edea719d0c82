//! `warren tmin`: makes a failing sequence smaller without losing its failure.
//!
//! [`machine`] decides (pure), [`drive`] runs it against a world, [`journal`] lets it go on after SIGKILL, [`report`] is the text; here
//! the file is read, the cluster set up, the runs made as `replay` makes them.
//! Writes the result, the nearest passing neighbour and the journal; refuses a result file that it did not write.

mod bar;
pub mod candidate;
pub mod drive;
pub mod exchange;
mod facts;
mod finals;
mod input;
pub mod journal;
pub mod machine;
pub mod report;
mod shrink;
mod simpler;
#[cfg(test)]
mod tests;
mod which;

pub use input::beside;

use crate::campaign::WayOut;
use crate::campaign::folder::{DURABLE, shell_line, write_whole};
use crate::cli::args::TminArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::session::{Session, failed, load, reproduce_flags, run_options};
use crate::cli::signals::Interrupt;
use crate::known::KnownBugs;
use crate::replay::flow::one;
use candidate::Candidate;
use drive::{World, drive};
use exchange::{Ask, Outcome, Settings, Told, Verdict};
use facts::Facts;
use input::Input;
use journal::{Header, JOURNAL_VERSION, Journal, JournalError};
use machine::Minimiser;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_executor::RunOptions;
use warren_executor::run::Runner;
use warren_feedback::Judge;
use warren_model::NodeName;

/// Ends of the files beside the result.
pub const PASSING: &str = "passing.toml";
pub const JOURNAL: &str = "journal.jsonl";

/// Of trouble with the result.
const WAY_OUT: WayOut<'static> = WayOut {
    place: "name a file in another folder with -o",
    content: "name another file with -o",
};

/// Runs the verb.
///
/// # Errors
/// Exit 2 for a file, result file or journal that cannot be used; exit 1 for set-up that failed and for a sequence that does not fail.
pub fn run(args: &TminArgs) -> Result<Exit, CliError> {
    let given = args
        .file
        .as_ref()
        .or(args.input.as_ref())
        .ok_or_else(|| CliError::usage("nothing to minimise: give a sequence file with -i"))?;
    if let (Some(n), Some(k)) = (args.tries, args.needed)
        && k > n
    {
        return Err(CliError::usage(format!(
            "-k {k} of -n {n} can never be reached: give a -k of at most {n}"
        )));
    }
    let input = input::read(given)?;
    let described = load(&input.sequence.target, &args.setup)?;
    let known = KnownBugs::of_target(&described).map_err(CliError::usage)?;
    // Before set-up: Maven, too, must be ended when the user asks.
    let interrupt = Interrupt::install()?;
    let options = RunOptions {
        durable: args.durable,
        stop: interrupt.flag(),
        ..run_options(&args.each, &described)
    };
    let mut journal = Some(open(args, &input, &known, options.limit)?);
    let made = Session::open(described, &args.setup).and_then(|session| {
        let (runner, judge) = session.runner_for([&input.sequence], &options)?;
        Ok((session, runner, judge))
    });
    // The session has what the runner's slots are started by.
    let (_session, runner, judge) = match made {
        Ok(made) => made,
        Err(e) => {
            // Nothing was run: a journal that has only its header is nothing to go on from.
            if let Some(j) = journal.filter(|j| j.read == 0) {
                j.discard();
            }
            return Err(e);
        }
    };

    let settings = Settings {
        runs: args.runs,
        tries: args.tries,
        needed: args.needed,
        signature: args.signature.clone().or_else(|| input.signature.clone()),
    };
    let mut shape = runner.shape().clone();
    shape.max_faults = shape.max_faults.max(input.sequence.faults.len());
    let mut m = Minimiser::new(input.sequence.clone(), shape, settings);
    let name = input.file.display().to_string();
    let faults = input.sequence.faults.len();
    say(&format!(
        "{name}: {} ({faults} fault{}), at most {} runs",
        input.sequence.kinds(),
        if faults == 1 { "" } else { "s" },
        args.runs
    ));
    if let Some(j) = journal.as_ref().filter(|j| j.read > 0) {
        say(&format!(
            "goes on from the journal: {} runs were made before",
            j.read
        ));
    }
    let limit = options.limit;
    let mut world = Cluster {
        runner: &runner,
        judge: &judge,
        known: &known,
        options,
        limit,
        interrupt: &interrupt,
        nodes: m.nodes(),
        out: &args.out,
        name: &name,
        faults,
        facts: Facts::default(),
    };
    let through = drive(&mut m, &mut journal, &mut world)?;
    if let Some(never) = m.never_failed() {
        let mut text = report::never_failed(&name, never, m.signature());
        if journal.as_ref().is_some_and(|j| j.read > 0) {
            text += &format!(
                "\n  runs of an earlier call were counted in: remove {} to make them again",
                beside(&args.out, JOURNAL).display()
            );
        }
        return Err(CliError::setup(text));
    }
    let facts = std::mem::take(&mut world.facts);
    last_words(
        args,
        &m,
        &Candidate::given(input.sequence),
        &facts,
        &name,
        through,
    )
}

/// Writes what there is and prints the table.
fn last_words(
    args: &TminArgs,
    m: &Minimiser,
    given: &Candidate,
    facts: &Facts,
    name: &str,
    through: bool,
) -> Result<Exit, CliError> {
    if !through {
        say(
            "ended by Ctrl-C: the run that was going on does not count; the same command goes on from here",
        );
    }
    if !m.has_learned() {
        say("the failure was not seen often enough yet: nothing is written but the journal");
        return Ok(Exit::End);
    }
    write_result(&args.out, m, name, given.sequence.faults.len())?;
    let passing = beside(&args.out, PASSING);
    if let Some(text) = report::neighbour_text(m, &args.out.display().to_string()) {
        write_whole(&passing, text.as_bytes()).map_err(|e| WAY_OUT.of(e))?;
    }
    let mut commands = vec![("result", args.out.display().to_string())];
    if m.neighbour().is_some() {
        commands.push(("neighbour", passing.display().to_string()));
    }
    commands.push(("replay", replay_command(args)));
    print!("{}", report::table(m, given, facts, &commands));
    Ok(Exit::End)
}

/// What changes the outcome of a run beside seed and limit.
fn flags(args: &TminArgs) -> Vec<String> {
    let mut flags = reproduce_flags(&args.setup);
    flags.extend(args.durable.then(|| DURABLE.to_owned()));
    flags
}

fn replay_command(args: &TminArgs) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "warren".into());
    let mut words = vec![program, "replay".into(), args.out.display().to_string()];
    words.extend(flags(args));
    words.extend(["-s".into(), args.each.seed.to_string()]);
    if let Some(ms) = args.each.limit_ms {
        words.extend(["-t".into(), ms.to_string()]);
    }
    words.extend(["-n".into(), "5".into()]);
    shell_line(&words)
}

/// The journal beside the result; a result without one is somebody else's file.
fn open(
    args: &TminArgs,
    input: &Input,
    known: &KnownBugs,
    limit: Duration,
) -> Result<Journal, CliError> {
    let path = beside(&args.out, JOURNAL);
    if let Some(folder) = args.out.parent().filter(|f| !f.as_os_str().is_empty())
        && !folder.is_dir()
    {
        return Err(CliError::usage(format!(
            "-o {}: {} is no folder that is there: the result and its journal have no place\n  make that folder, or name a file in another one with -o",
            args.out.display(),
            folder.display()
        )));
    }
    if args.out.exists() && !args.out.is_file() {
        return Err(CliError::usage(format!(
            "-o {}: a folder, device or pipe takes no result, which needs its journal beside it\n  name a file with -o, such as min.toml",
            args.out.display()
        )));
    }
    if args.out.exists() && !path.exists() {
        return Err(CliError::usage(format!(
            "{} exists and has no journal beside it ({}): it is not overwritten\n  choose another file with -o, or remove it",
            args.out.display(),
            path.display()
        )));
    }
    let header = Header {
        warren_tmin: JOURNAL_VERSION,
        sequence: format!("{:016x}", Candidate::given(input.sequence.clone()).hash()),
        target: input.sequence.target.clone(),
        flags: shell_line(&flags(args)),
        seed: args.each.seed,
        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        known_bugs: known.identity(),
    };
    Journal::open(&path, &header).map_err(CliError::from)
}

impl From<JournalError> for CliError {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Io { .. } => {
                CliError::setup(format!("{e}\n  choose another folder with -o"))
            }
            _ => CliError::usage(e),
        }
    }
}

fn write_result(out: &Path, m: &Minimiser, name: &str, faults: usize) -> Result<(), CliError> {
    let text = report::result_text(m, name, faults);
    write_whole(out, text.as_bytes()).map_err(|e| WAY_OUT.of(e))
}

fn say(line: &str) {
    println!("{line}");
}

/// Runs on a real cluster, made and judged as `replay` does.
struct Cluster<'a> {
    runner: &'a Runner,
    judge: &'a Judge,
    known: &'a KnownBugs,
    options: RunOptions,
    limit: Duration,
    interrupt: &'a Interrupt,
    nodes: Vec<NodeName>,
    out: &'a PathBuf,
    name: &'a str,
    faults: usize,
    /// Of the given sequence, for the table.
    facts: Facts,
}

impl World for Cluster<'_> {
    type Error = CliError;

    fn run(&mut self, ask: &Ask, spent: u64) -> Result<Option<Outcome>, CliError> {
        let began = Instant::now();
        let mut cost = 0;
        let mut make = |sequence: &_, limit, retest: bool| {
            cost += 1;
            let options = RunOptions {
                limit,
                // With twice the limit it is asked the same question of service.
                usual_limit: retest.then_some(self.limit),
                ..self.options.clone()
            };
            let product = self
                .runner
                .run(sequence, &options)
                .map_err(|e| failed(&e))?;
            let judgement = if retest {
                self.judge.judge_retest(&product)
            } else {
                self.judge.judge(&product)
            };
            Ok((product, judgement))
        };
        let made = one(
            &ask.sequence,
            self.limit,
            &mut make,
            &|| self.interrupt.asked(),
            &mut |text| print!("{text}"),
        )?;
        let Some((outcome, product, judgement)) = made else {
            return Ok(None);
        };
        say(&format!(
            "  run {:>3} ({:.1} s): {}: {}{}",
            spent + cost,
            began.elapsed().as_secs_f64(),
            ask.what,
            outcome.word(),
            judgement
                .signature()
                .map_or_else(String::new, |s| format!(" [{s}]")),
        ));
        Ok(Some(drive::outcome(
            &ask.sequence,
            &product,
            &judgement,
            &self.nodes,
            cost,
            &|f| Some(drive::name(self.known, f, &product)),
        )))
    }

    fn told(&mut self, told: &Told, m: &Minimiser) -> Result<(), CliError> {
        say(&report::told(told));
        match told {
            Told::Learned { .. } => self.facts = m.best().facts.clone(),
            // What is found already must survive a SIGKILL without the journal being played again.
            Told::Step(s) if s.verdict == Verdict::Kept => {
                write_result(self.out, m, self.name, self.faults)?;
            }
            Told::Step(_) => {}
        }
        Ok(())
    }
}
