//! `--minimize`: a finding that stands is made smaller at once, by the machine of [`crate::tmin`] on the campaign's own executor.
//!
//! Called by confirmation, when nothing about the finding is owed any more. Its runs count in execs only (role `minimise` in
//! runs.jsonl), each with its record in the campaign's journal. Ends at its own bound, at -V, at key `n` and at Ctrl-C with the best so far
//! in findings/<nnnnnn>/minimised.toml. Refuses hangs, and has no journal of its own: a campaign that is resumed does not take it up
//! again (`warren tmin` does).

use super::State;
use super::drive::{Drive, Observers};
use super::options::FuzzError;
use super::session::{STOPPED, Session};
use super::snapshot::CurrentRun;
use super::stage::{execute, given_up, line};
use crate::campaign::{RunRole, folder};
use crate::tmin::drive::{World, drive, outcome};
use crate::tmin::journal::JournalError;
use crate::tmin::machine::{Ask, Minimiser, Outcome, Settings, Told, Verdict};
use crate::tmin::{PASSING, beside, report};
use libafl::executors::HasObservers;
use libafl::fuzzer::ExecutesInput;
use std::path::PathBuf;
use std::time::Instant;
use warren_model::{Failure, FailureKind, FaultSequence, NodeName, Stage};

/// Most runs for one finding.
const RUNS: u64 = 60;

/// What is to be made smaller.
pub struct Wanted {
    /// Of the finding.
    pub number: u64,
    pub sequence: FaultSequence,
    pub failure: Failure,
}

/// Minimises and writes the result; says what it did.
///
/// # Errors
/// I/O; the cluster cannot be run any more.
pub fn minimise<E, EM, Z>(
    session: &mut Session,
    fuzzer: &mut Z,
    executor: &mut E,
    state: &mut State,
    manager: &mut EM,
    wanted: &Wanted,
) -> Result<(), FuzzError>
where
    E: HasObservers<Observers = Observers> + Drive,
    Z: ExecutesInput<E, EM, FaultSequence, State>,
{
    if wanted.failure.kind == FailureKind::Hang {
        session.say("  minimised: no: each try of a hang takes three times the limit; the command above does it".into());
        return Ok(());
    }
    if ends(session) {
        return Ok(());
    }
    let settings = Settings {
        runs: RUNS,
        signature: Some(wanted.failure.signature.clone()),
        ..Settings::default()
    };
    let mut shape = executor.shape().clone();
    shape.max_faults = shape.max_faults.max(wanted.sequence.faults.len());
    let mut m = Minimiser::new(wanted.sequence.clone(), shape, settings);
    session.say(format!(
        "  minimising: {} faults, at most {RUNS} runs",
        wanted.sequence.faults.len()
    ));
    let out = session.folder.finding(wanted.number).join("minimised.toml");
    let through = {
        let mut world = Campaign {
            nodes: m.nodes(),
            session: &mut *session,
            fuzzer,
            executor,
            state,
            manager,
            wanted,
            out: out.clone(),
        };
        drive(&mut m, &mut None, &mut world)?
    };
    if let Some(never) = m.never_failed() {
        session.say(format!(
            "  minimised: no: it did not show in {} replays",
            never.runs
        ));
        return Ok(());
    }
    if !m.has_learned() {
        session.say("  minimised: no: ended before".into());
        return Ok(());
    }
    write(&out, &m, wanted)?;
    if let Some(text) = report::neighbour_text(&m, "minimised.toml") {
        folder::write_whole(&beside(&out, PASSING), text.as_bytes())?;
    }
    let (k, n) = m.result();
    session.say(format!(
        "  minimised: faults {} -> {}, shows in {k} of {n}{}, {} runs{}: {}",
        wanted.sequence.faults.len(),
        m.best().candidate.sequence.faults.len(),
        report::since(&m),
        m.spent(),
        if through { "" } else { " (cut off)" },
        out.display()
    ));
    Ok(())
}

fn write(out: &std::path::Path, m: &Minimiser, wanted: &Wanted) -> Result<(), FuzzError> {
    let from = format!("finding {:06}", wanted.number);
    let text = report::result_text(m, &from, wanted.sequence.faults.len());
    folder::write_whole(out, text.as_bytes())
}

impl From<JournalError> for FuzzError {
    fn from(e: JournalError) -> Self {
        FuzzError::Usage(e.to_string())
    }
}

struct Campaign<'a, E, EM, Z> {
    session: &'a mut Session,
    fuzzer: &'a mut Z,
    executor: &'a mut E,
    state: &'a mut State,
    manager: &'a mut EM,
    wanted: &'a Wanted,
    nodes: Vec<NodeName>,
    out: PathBuf,
}

/// Ctrl-C or -V: no run is begun any more.
fn ends(session: &Session) -> bool {
    let limit = session.options.max_time;
    session.stopping() || limit.is_some_and(|t| session.clock.here() >= t)
}

impl<E, EM, Z> World for Campaign<'_, E, EM, Z>
where
    E: HasObservers<Observers = Observers> + Drive,
    Z: ExecutesInput<E, EM, FaultSequence, State>,
{
    type Error = FuzzError;

    fn run(&mut self, ask: &Ask, spent: u64) -> Result<Option<Outcome>, FuzzError> {
        if ends(self.session) {
            return Ok(None);
        }
        self.session.show_current(CurrentRun {
            doing: format!("minimising {}/{RUNS}", spent + 1),
            kinds: ask.sequence.kinds(),
            why: ask.what.clone(),
            since: Some(Instant::now()),
            ..CurrentRun::default()
        });
        let limit = self.session.limits.run;
        execute(
            self.session,
            self.fuzzer,
            self.executor,
            self.state,
            self.manager,
            &ask.sequence,
            limit,
            self.wanted.failure.stage == Stage::Durable,
            false,
        )?;
        let observers = self.executor.observers();
        let run = &observers.1.0;
        let mut written = line(self.session, self.state, run, RunRole::Minimise);
        written.why = format!("minimise {}: {}", self.wanted.failure.signature, ask.what);
        if self.session.stopping() || given_up(self.session, run) {
            written.void = Some(STOPPED);
            let cut_off = self.session.stopping();
            self.session.run_ended(&written)?;
            if !cut_off {
                self.session.commit(self.state)?;
            }
            return Ok(None);
        }
        self.session.run_ended(&written)?;
        let told = outcome(
            &ask.sequence,
            run.product(),
            run.judgement(),
            &self.nodes,
            1,
        );
        self.session.commit(self.state)?;
        self.session.publish(self.state, false)?;
        Ok(Some(told))
    }

    fn told(&mut self, told: &Told, m: &Minimiser) -> Result<(), FuzzError> {
        self.session.say(format!("    {}", report::told(told)));
        match told {
            Told::Step(s) if s.verdict == Verdict::Kept => write(&self.out, m, self.wanted),
            _ => Ok(()),
        }
    }
}
