//! `--minimize`: a finding that stands is made smaller at once, by the machine of [`crate::tmin`] on the campaign's own executor.
//!
//! Called by confirmation, when nothing about the finding is owed any more, and at the start of a campaign that is resumed, for what a
//! kill or an end of the campaign cut off or kept from beginning. Its runs count in execs only (role `minimise` in runs.jsonl), each
//! with its record in the campaign's journal. Ends at its own bound, at -V and --cpu-seconds, at key `n` and at Ctrl-C with the best so far in
//! findings/<nnnnnn>/minimised.toml. Refuses hangs.
//!
//! A try is in minimised.journal.jsonl before it is in the campaign's record, with its number; a campaign that was killed between
//! the two makes it again. So each try counts once, and at most the one going on is lost. Nothing about it is in the campaign's state: the
//! journal's last line says that there is nothing left to do.

use crate::campaign::finding::Sheet;
use crate::campaign::folder::{DURABLE, shell_line};
use crate::campaign::state::hook;
use crate::campaign::{FuzzError, KeptFinding, RunRole, folder};
use crate::fuzz::confirming::confirm::to_run_again;
use crate::fuzz::confirming::tally::REPLAYS;
use crate::fuzz::drive::Limits;
use crate::fuzz::figures::snapshot::CurrentRun;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::options::EndReason;
use crate::fuzz::session::{Session, ms};
use crate::fuzz::stage::{execute, given_up, line};
use crate::seeds::needs_kernel;
use crate::tmin::candidate::Candidate;
use crate::tmin::drive::{World, drive, outcome};
use crate::tmin::exchange::{Ask, Outcome, Settings, Told, Verdict};
use crate::tmin::journal::{Header, JOURNAL_VERSION, Journal, JournalError, is_closed};
use crate::tmin::machine::Minimiser;
use crate::tmin::{JOURNAL, PASSING, beside, report};
use libafl::state::HasExecutions;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_model::{Failure, FailureKind, FaultSequence, Judgement, NodeName, RunRecord, Void};

/// Most runs for one finding.
const RUNS: u64 = 60;
/// The result, in the finding's folder; the journal and the nearest passing neighbour are beside it.
const RESULT: &str = "minimised.toml";

/// What is to be made smaller.
pub struct Wanted {
    /// Of the finding.
    pub number: u64,
    pub sequence: FaultSequence,
    pub failure: Failure,
    /// It may need the durability restart to show.
    pub durable: bool,
    /// Of each try, as of a replay.
    pub limit: Duration,
}

impl Wanted {
    /// A failure of this run.
    #[must_use]
    pub fn of(
        number: u64,
        failure: &Failure,
        record: &RunRecord,
        judgement: &Judgement,
        limits: Limits,
    ) -> Self {
        Wanted {
            number,
            sequence: to_run_again(record),
            durable: record.restart_for(failure.stage),
            limit: limits.again(failure, record, judgement),
            failure: failure.clone(),
        }
    }

    /// From the folder of a finding that an earlier process saved; else why it cannot be.
    fn read(folder: &Path, number: u64, limits: Limits) -> Result<Self, String> {
        let sheet =
            Sheet::read(&folder.join("finding.json")).map_err(|e| format!("finding.json: {e}"))?;
        let record = std::fs::read(folder.join("record.json"))
            .map_err(|e| e.to_string())
            .and_then(|b| serde_json::from_slice::<RunRecord>(&b).map_err(|e| e.to_string()))
            .map_err(|e| format!("record.json: {e}"))?;
        let signature = &sheet.found.signature;
        let mut failures = sheet.judgement.failures.iter();
        let failure = failures
            .find(|f| f.signature == *signature)
            .ok_or_else(|| format!("finding.json tells no failure with signature {signature}"))?;
        Ok(Wanted::of(
            number,
            failure,
            &record,
            &sheet.judgement,
            limits,
        ))
    }
}

/// What an earlier process left to do: findings that stand and are not minimised to the end.
///
/// # Errors
/// I/O; the cluster cannot be run any more.
pub fn take_up<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    for finding in session.found.findings.clone() {
        let number = finding.number;
        let folder = session.folder.finding(number);
        let there = match Files::of(&folder) {
            Ok(there) => there,
            Err(why) => {
                session.say(format!("finding {number:06} cannot be minimised: {why}"));
                continue;
            }
        };
        // Nor is a known bug made smaller when it is found.
        if session.found.known.contains_key(&number) || !is_left(&finding, there) {
            continue;
        }
        if !session.options.minimize {
            if there.journal {
                session.say(format!(
                    "finding {number:06} is only partly minimised: --minimize goes on with it"
                ));
            }
            continue;
        }
        if ends(session) {
            break;
        }
        match Wanted::read(&folder, number, session.limits) {
            Ok(wanted) => {
                session.say(format!("finding {number:06} was not minimised to the end"));
                minimise(session, handed, &wanted)?;
                // As the process that saved it would have ended.
                if session.options.exit_on_bug {
                    session.end = Some(EndReason::Bug);
                }
            }
            Err(why) => session.say(format!(
                "finding {number:06} cannot be minimised: {}: {why}",
                folder.display()
            )),
        }
    }
    Ok(())
}

/// What a minimisation left in a finding's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Files {
    result: bool,
    journal: bool,
    closed: bool,
}

impl Files {
    fn of(folder: &Path) -> Result<Self, FuzzError> {
        let result = folder.join(RESULT);
        let journal = beside(&result, JOURNAL);
        Ok(Files {
            result: result.exists(),
            journal: journal.exists(),
            closed: is_closed(&journal)?,
        })
    }
}

/// Whether a finding is to be minimised still. One that fell is not, nor one whose replays were cut short by key `n`, nor one that an
/// older Warren minimised, which kept no journal.
fn is_left(finding: &KeptFinding, there: Files) -> bool {
    let wanted = finding.kind != FailureKind::Hang && finding.n >= REPLAYS && !finding.fell;
    let done = there.closed || (there.result && !there.journal);
    wanted && !done
}

/// Minimises and writes the result; says what it did. Goes on with the finding's journal, if there is one.
///
/// # Errors
/// I/O; the cluster cannot be run any more.
pub fn minimise<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    wanted: &Wanted,
) -> Result<(), FuzzError> {
    if wanted.failure.kind == FailureKind::Hang {
        session.say("  not minimised: each try of a hang takes three times the limit; the tmin command above does it".into());
        return Ok(());
    }
    if ends(session) {
        return Ok(());
    }
    // No try has a drop or a machine's crash that this one has not.
    if needs_kernel(&wanted.sequence)
        && let Err(why) = handed.executor.kernel_cuts()
    {
        session.say(format!(
            "  not minimised: it needs packets dropped, which does not work here: {why}; `-i - --minimize` does it where that works (as root)"
        ));
        return Ok(());
    }
    let settings = Settings {
        runs: RUNS,
        signature: Some(wanted.failure.signature.clone()),
        ..Settings::default()
    };
    let mut shape = handed.executor.shape().clone();
    shape.max_faults = shape.max_faults.max(wanted.sequence.faults.len());
    let mut m = Minimiser::new(wanted.sequence.clone(), shape, settings);
    let out = session.folder.finding(wanted.number).join(RESULT);
    let Some(journal) = open(session, *handed.state.executions(), wanted, &out)? else {
        return Ok(());
    };
    session.say(format!(
        "  minimising: {} faults, at most {RUNS} runs{}",
        wanted.sequence.faults.len(),
        match journal.read {
            0 => String::new(),
            n => format!(", {n} of them made before"),
        }
    ));
    let mut journal = Some(journal);
    let mut world = Campaign {
        nodes: m.nodes(),
        session: &mut *session,
        handed,
        wanted,
        out: out.clone(),
        makes_runs: false,
        given_up: false,
    };
    let through = drive(&mut m, &mut journal, &mut world)?;
    let given_up = world.given_up;
    finish(session, &m, wanted, &out, through)?;
    hook::point("minimised");
    if let Some(j) = journal.as_mut().filter(|_| through || given_up) {
        j.close(if through {
            "through"
        } else {
            "given up with key n"
        })?;
    }
    Ok(())
}

/// Writes what came out and says it.
fn finish(
    session: &Session,
    m: &Minimiser,
    wanted: &Wanted,
    out: &Path,
    through: bool,
) -> Result<(), FuzzError> {
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
    write(out, m, wanted)?;
    if let Some(text) = report::neighbour_text(m, RESULT) {
        folder::write_whole(&beside(out, PASSING), text.as_bytes())?;
    }
    let (k, n) = m.result();
    session.say(format!(
        "  minimised: faults {} -> {}, shows in {k} of {n}{}, {} runs{}: {}",
        wanted.sequence.faults.len(),
        m.best().candidate.sequence.faults.len(),
        report::since(m),
        m.spent(),
        if through { "" } else { " (cut off)" },
        out.display()
    ));
    Ok(())
}

/// The journal beside the result, without tries that are in no record of the campaign. One that does not fit (the limit of a run was
/// given anew, the list of known bugs is another one) or is damaged is begun anew. None: a `warren tmin` with this result is at work.
fn open(
    session: &Session,
    runs: u64,
    wanted: &Wanted,
    out: &Path,
) -> Result<Option<Journal>, FuzzError> {
    let path = beside(out, JOURNAL);
    let mut flags = session.options.reproduce_flags.clone();
    flags.extend(wanted.durable.then(|| DURABLE.to_owned()));
    let header = Header {
        warren_tmin: JOURNAL_VERSION,
        sequence: format!("{:016x}", Candidate::given(wanted.sequence.clone()).hash()),
        target: session.options.target.clone(),
        flags: shell_line(&flags),
        seed: session.seed,
        limit_ms: ms(wanted.limit),
        known_bugs: session.options.known.identity(),
    };
    match Journal::open_until(&path, &header, runs) {
        Err(e @ JournalError::Io { .. }) => Err(e.into()),
        Err(JournalError::Held { path }) => {
            let path = path.display();
            session.say(format!(
                "  not minimised: {path} is being written by another Warren"
            ));
            Ok(None)
        }
        Err(e) => {
            let text = e.to_string();
            let why = text.lines().next().unwrap_or_default();
            session.say(format!("  minimising begins anew: {why}"));
            std::fs::remove_file(&path).map_err(folder::io("removing", &path))?;
            Ok(Some(Journal::open_until(&path, &header, runs)?))
        }
        Ok(journal) => Ok(Some(journal)),
    }
}

fn write(out: &std::path::Path, m: &Minimiser, wanted: &Wanted) -> Result<(), FuzzError> {
    let from = format!("finding {:06}", wanted.number);
    let text = report::result_text(m, &from, wanted.sequence.faults.len());
    folder::write_whole(out, text.as_bytes())
}

impl From<JournalError> for FuzzError {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Io {
                doing,
                path,
                source,
            } => FuzzError::Io {
                doing,
                path,
                source,
            },
            e => FuzzError::Usage(e.to_string()),
        }
    }
}

struct Campaign<'a, 'h, E, EM, Z> {
    session: &'a mut Session,
    handed: &'a mut Handed<'h, E, EM, Z>,
    wanted: &'a Wanted,
    nodes: Vec<NodeName>,
    out: PathBuf,
    /// What the journal tells is over: an earlier process said it already.
    makes_runs: bool,
    /// Key `n` wants no more of it.
    given_up: bool,
}

/// Ctrl-C or a limit of time: no run is begun any more.
fn ends(session: &Session) -> bool {
    session.stopping() || session.out_of_time().is_some()
}

impl<E: Cluster, EM, Z: Fuzzes<E, EM>> World for Campaign<'_, '_, E, EM, Z> {
    type Error = FuzzError;

    fn run(&mut self, ask: &Ask, spent: u64) -> Result<Option<Outcome>, FuzzError> {
        self.makes_runs = true;
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
        let limit = self.wanted.limit;
        let twice = limit > self.session.limits.run;
        execute(
            self.session,
            self.handed,
            &ask.sequence,
            limit,
            self.wanted.durable,
            twice,
        )?;
        let observers = self.handed.executor.observers();
        let run = &observers.1.0;
        let mut written = line(self.session, self.handed.state, run, RunRole::Minimise);
        written.why = format!("minimise {}: {}", self.wanted.failure.signature, ask.what);
        if self.session.stopping() || given_up(self.session, run) {
            written.void = Some(&Void::CutOff);
            self.given_up = !self.session.stopping();
            self.session.run_ended(&written)?;
            if self.given_up {
                self.session.commit(self.handed.state)?;
            }
            return Ok(None);
        }
        self.session.run_ended(&written)?;
        // No known bug is made smaller here, and one may have the signature of what is.
        let known = &self.session.options.known;
        let news = |f: &Failure| known.of(f, &run.product().logs).is_none();
        Ok(Some(outcome(
            &ask.sequence,
            run.product(),
            run.judgement(),
            &self.nodes,
            1,
            &|f| news(f).then(|| f.signature.clone()),
        )))
    }

    fn number(&self) -> Option<u64> {
        Some(*self.handed.state.executions())
    }

    /// Only now: the record makes the run one that was made.
    fn noted(&mut self) -> Result<(), FuzzError> {
        self.session.commit(self.handed.state)?;
        self.session.publish(self.handed.state, false)
    }

    fn told(&mut self, told: &Told, m: &Minimiser) -> Result<(), FuzzError> {
        if self.makes_runs {
            self.session.say(format!("    {}", report::told(told)));
        }
        match told {
            Told::Step(s) if s.verdict == Verdict::Kept => write(&self.out, m, self.wanted),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_minimise() {
        let finding = |kind, n, fell| KeptFinding {
            number: 0,
            signature: "aa".into(),
            checker: "replicas".into(),
            kind,
            k: n,
            n,
            fell,
        };
        // (result, journal, closed)
        let table = [
            (FailureKind::Safety, 3, (false, false, false), true),
            (FailureKind::Safety, 3, (false, true, false), true),
            (FailureKind::Liveness, 3, (true, true, false), true),
            // It never showed again: there is no result.
            (FailureKind::Safety, 3, (false, true, true), false),
            (FailureKind::Safety, 3, (true, true, true), false),
            // An older Warren's.
            (FailureKind::Safety, 3, (true, false, false), false),
            // Its replays were cut short.
            (FailureKind::Liveness, 1, (false, false, false), false),
            (FailureKind::Hang, 1, (false, false, false), false),
        ];
        for (kind, n, (result, journal, closed), left) in table {
            let there = Files {
                result,
                journal,
                closed,
            };
            assert_eq!(
                is_left(&finding(kind, n, false), there),
                left,
                "{kind} {n} {there:?}"
            );
            assert!(!is_left(&finding(kind, n, true), there), "it fell");
        }
    }

    #[test]
    fn a_folder_without_its_files_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let read = Wanted::read(dir.path(), 3, Limits::default());
        let why = read.map(|w| w.number).unwrap_err();
        assert!(why.contains("finding.json"), "{why}");
    }
}
