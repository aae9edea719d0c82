//! Learning: fault-free runs before the first fuzzed one. They teach the judge what is ordinary, the map's noise and size, the
//! limits of a run; one of them becomes the root of the search. Printed apart from fuzzing, counted only in execs_done.

use crate::campaign::{FuzzError, RunRole};
use crate::fuzz::State;
use crate::fuzz::confirming::owed::Seen;
use crate::fuzz::confirming::story::write_unconfirmed;
use crate::fuzz::drive::{Drive, Limits};
use crate::fuzz::figures::snapshot::CurrentRun;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::learning::learnt::Learnt;
use crate::fuzz::learning::starts::{Found, root, snapshots, take_in};
use crate::fuzz::session::Session;
use crate::fuzz::stage::{execute, line, set_options};
use libafl::HasMetadata;
use libafl::executors::ExitKind;
use libafl::state::HasExecutions;
use libafl_bolts::ToSlice;
use std::time::{Duration, Instant};
use warren_feedback::KnownSlots;
use warren_feedback::coverage::{Baseline, larger_map, slots_set};
use warren_feedback::logs::silent;
use warren_model::{FaultSequence, NodeName, PhaseTimes, RunProduct, Verdict, Void};

/// Limit of a learning run: nothing is known yet.
const FIRST_LIMIT: Duration = Duration::from_secs(120);
/// Runs that may go wrong (void, not pass) before learning gives up.
pub(in crate::fuzz) const MAY_FAIL: usize = 3;

/// Makes the learning runs and the roots of the search: one for the cold start and one for each snapshot.
///
/// # Errors
/// The cluster cannot be run; the fault-free run fails its checks again and again; the coverage map stays empty.
pub fn learn<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    if session.learnt.background.is_none() {
        background(session, handed.executor)?;
        session.commit_whole(handed.state)?;
    }
    if session.learnt.roots.is_empty() {
        cold(session, handed)?;
    }
    if !session.learnt.roots.is_empty() {
        snapshots(session, handed)?;
    }
    if !session.stopping() && !session.learnt.done {
        session.learning = session.learning_so_far();
        session.learnt.done = true;
        session.commit_whole(handed.state)?;
    }
    Ok(())
}

/// What usable learning runs showed so far.
#[derive(Default)]
struct Usable {
    /// Whole runs and their test phases, ms.
    totals: Vec<u64>,
    tests: Vec<u64>,
    maps: Vec<Vec<u8>>,
    /// How the last one ended, where it was made by this process.
    last: Option<ExitKind>,
}

impl Usable {
    /// Of an earlier process that was cut off while it learned, at most so many runs.
    fn before(learnt: &Learnt, most: usize) -> Self {
        let (mut totals, mut tests) = (learnt.totals.clone(), learnt.tests.clone());
        let mut maps = learnt.maps.clone();
        totals.truncate(most);
        tests.truncate(most);
        maps.truncate(most);
        Usable {
            totals,
            tests,
            maps,
            last: None,
        }
    }

    fn add(&mut self, times: &PhaseTimes, map: Vec<u8>, kind: ExitKind) {
        self.totals.push(times.total);
        self.tests.push(times.test);
        self.maps.push(map);
        self.last = Some(kind);
    }

    fn store(&self, learnt: &mut Learnt) {
        learnt.totals.clone_from(&self.totals);
        learnt.tests.clone_from(&self.tests);
        learnt.maps.clone_from(&self.maps);
    }
}

/// The learning runs, and the root of what starts cold.
fn cold<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    let wanted = session.options.learning_runs.max(1);
    let empty = FaultSequence::empty(&session.options.target);
    let limit = session.options.run_limit.unwrap_or(FIRST_LIMIT);
    // The last one must be made here: the root of the search is made of what it leaves in the observers.
    let mut usable = Usable::before(&session.learnt, wanted - 1);
    while usable.totals.len() < wanted {
        if session.stopping() {
            return Ok(());
        }
        session.show_current(CurrentRun {
            doing: format!("learning {}/{wanted}", usable.totals.len() + 1),
            kinds: empty.kinds(),
            since: Some(Instant::now()),
            ..CurrentRun::default()
        });
        let Some(kind) = learning_run(session, handed, &empty, limit)? else {
            return Ok(());
        };
        let observers = handed.executor.observers();
        let (map, run) = (observers.0.to_slice().to_vec(), &observers.1.0);
        let set = slots_set(&map);
        if let Some(why) = unusable(run.judgement(), run.record().timed_out) {
            spoilt(session, handed.executor, handed.state, why)?;
            continue;
        }
        if set == 0 {
            return Err(FuzzError::Learning(
                "the coverage map is still empty after a fault-free run: no class of the target was instrumented; check [target] include \
                 against the classes in the jars"
                    .into(),
            ));
        }
        if let Some(size) = larger_map(set, handed.executor.map_size()) {
            learn_anew(session, handed, set, size)?;
            usable = Usable::default();
            continue;
        }
        take_in(session, handed.executor, handed.state);
        let run = &handed.executor.observers().1.0;
        if usable.totals.is_empty() {
            warn_of_silence(session, run.product());
        }
        let times = &run.record().times;
        session.say(format!(
            "learning {}/{wanted}: {} ms, {} points, {set} slots",
            usable.totals.len() + 1,
            times.total,
            run.trace().events.len()
        ));
        usable.add(times, map, kind);
        session.publish(handed.state, false)?;
        if usable.totals.len() < wanted {
            session.map_size = handed.executor.map_size();
            usable.store(&mut session.learnt);
            session.commit_whole(handed.state)?;
        }
    }
    session.map_size = handed.executor.map_size();
    session.limits = Limits::from_learning(
        &usable.totals,
        &usable.tests,
        session.options.least_limits,
        session.options.run_limit,
    );
    // The last usable run is still in the observers unless an unusable one came after it: then the loop would have gone on.
    let Some(kind) = usable.last else {
        return Ok(());
    };
    session.learnt.maps = Vec::new();
    let found = Found {
        kind,
        baseline: Baseline::of(&usable.maps),
    };
    root(session, handed, &empty, found)
}

/// A fault-free run was not usable: said, kept for a resume, and after a few of them the end.
fn spoilt<E: Cluster>(
    session: &mut Session,
    executor: &E,
    state: &mut State,
    why: String,
) -> Result<(), FuzzError> {
    session.say(format!("learning: a fault-free run is not usable: {why}"));
    keep_story(session, executor, state)?;
    session.learnt.wrong.push(why);
    session.commit_whole(state)?;
    let wrong = &session.learnt.wrong;
    if wrong.len() > MAY_FAIL {
        return Err(FuzzError::Learning(format!(
            "{} fault-free runs were not usable, so nothing could be told from a run with faults:\n  {}\n  \
             `warren replay` with an empty sequence shows one such run",
            wrong.len(),
            wrong.join("\n  "),
        )));
    }
    Ok(())
}

/// A fault-free run that failed keeps its story: no fault is needed for what it showed, and its logs tell more than a line.
fn keep_story<E: Cluster>(session: &Session, executor: &E, state: &State) -> Result<(), FuzzError> {
    let observers = executor.observers();
    let run = &observers.1.0;
    let Some(failure) = run.judgement().failures.first() else {
        return Ok(());
    };
    let seen = Seen {
        product: run.product().clone(),
        judgement: run.judgement().clone(),
        failure: failure.clone(),
        why: "a fault-free run of learning".into(),
        execs: *state.executions(),
        at_ms: 0,
        seed_run: None,
    };
    let rate = "a run without any fault, made in learning: not replayed";
    let folder = write_unconfirmed(session, &seen, (0, 0), rate)?;
    session.say(format!("  story:     {}", folder.display()));
    Ok(())
}

/// The map is too small for what a fault-free run sets: a larger one is taken, and what was learned is of no use.
fn learn_anew<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    set: usize,
    size: usize,
) -> Result<(), FuzzError> {
    session.say(format!(
        "coverage map: {set} of {} slots set by a fault-free run (more than 12 %), taking {size}; learning starts anew",
        handed.executor.map_size()
    ));
    handed.executor.resize_map(size)?;
    handed.state.add_metadata(KnownSlots::new());
    session.edges_fault_free = 0;
    session.map_size = size;
    session.learnt = Learnt {
        background: session.learnt.background.take(),
        wrong: std::mem::take(&mut session.learnt.wrong),
        ..Learnt::default()
    };
    session.commit_whole(handed.state)
}

/// Nodes whose logs are empty: what is looked for in logs will not be seen there.
fn warn_of_silence(session: &mut Session, product: &RunProduct) {
    let silent = silent(product);
    if !silent.is_empty() {
        let nodes: Vec<&str> = silent.into_iter().map(NodeName::as_str).collect();
        session.say(format!(
            "WARNING: {} log nothing in a fault-free run: fatal_log, known-bugs.toml and new log lines see nothing of them; check the logger \
             among the target's jars (slf4j and its back end must be of one generation) and [log] files",
            nodes.join(", ")
        ));
    }
}

/// One fault-free run, left in the observers, counted and written down. None: an end was asked for meanwhile, and it tells nothing.
pub(in crate::fuzz) fn learning_run<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    sequence: &FaultSequence,
    limit: Duration,
) -> Result<Option<ExitKind>, FuzzError> {
    let kind = execute(session, handed, sequence, limit, false, false)?;
    session.counts.learning_runs += 1;
    let observers = handed.executor.observers();
    let mut written = line(session, handed.state, &observers.1.0, RunRole::Learning);
    written.coverage = slots_set(observers.0.to_slice());
    if session.stopping() {
        written.void = Some(&Void::CutOff);
    }
    session.run_ended(&written)?;
    Ok((!session.stopping()).then_some(kind))
}

/// What must be known before the first run counts: background stacks, and how links can be cut.
fn background<E: Drive>(session: &mut Session, executor: &mut E) -> Result<(), FuzzError> {
    session.show_current(CurrentRun {
        doing: "learning background stacks".into(),
        since: Some(Instant::now()),
        ..CurrentRun::default()
    });
    // The stop flag, and what the screen shows.
    set_options(session, executor.options_mut(), 0, FIRST_LIMIT, false);
    let learned = once_more(
        || executor.learn_background(),
        || session.stopping(),
        |line| session.say(line),
    );
    let Some(stacks) = learned? else {
        return Ok(());
    };
    session.say(format!("background: {} stacks", stacks.len()));
    session.learnt.background = Some(stacks);
    if session.options.faults.partition
        && let Err(why) = executor.kernel_cuts()
    {
        session.say(format!(
            "partitions are made by exceptions (throw), packets are not dropped: {why}"
        ));
    }
    Ok(())
}

/// Tries again where that can help: a cluster that starts badly once on a loaded machine is no reason to give up. What is wrong with the
/// description is wrong each time, and what goes wrong twice in the same words, but for the numbers in them, is no chance; what was only waited
/// for in vain (a runtime error) may be, in whatever words. None: an end was asked for.
fn once_more<T>(
    mut learn: impl FnMut() -> Result<T, libafl::Error>,
    stopping: impl Fn() -> bool,
    mut say: impl FnMut(String),
) -> Result<Option<T>, FuzzError> {
    let mut before = String::new();
    for tries in 1.. {
        let e = match learn() {
            Ok(learned) => return Ok(Some(learned)),
            Err(_) if stopping() => break,
            Err(e) => e,
        };
        let why = words(&e);
        let plain = why.replace(|c: char| c.is_ascii_digit(), "");
        let lasting = match e {
            libafl::Error::IllegalArgument(..) => true,
            libafl::Error::Runtime(..) => false,
            _ => plain == before,
        };
        if lasting || tries >= MAY_FAIL {
            return Err(FuzzError::Cluster(why));
        }
        say(format!("retrying: {why}"));
        before = plain;
    }
    Ok(None)
}

/// The executor's own words, without the framework's.
pub(in crate::fuzz) fn words(e: &libafl::Error) -> String {
    match e {
        libafl::Error::Runtime(text, _)
        | libafl::Error::IllegalArgument(text, _)
        | libafl::Error::IllegalState(text, _) => text.clone(),
        other => other.to_string(),
    }
}

/// Why a fault-free run teaches nothing.
pub(in crate::fuzz) fn unusable(
    judgement: &warren_model::Judgement,
    timed_out: bool,
) -> Option<String> {
    if let Some(why) = &judgement.void {
        return Some(format!("void: {why}"));
    }
    if timed_out {
        return Some("it passed its limit".into());
    }
    match judgement.verdict {
        Verdict::Pass => None,
        Verdict::Fail => Some(
            judgement
                .failures
                .iter()
                .map(|f| {
                    format!(
                        "it FAILS {}: {}",
                        crate::campaign::finding::headline(f),
                        f.evidence.first().map_or("", String::as_str)
                    )
                })
                .collect::<Vec<_>>()
                .join("; "),
        ),
        Verdict::Unknown => Some(
            judgement
                .unknowns
                .iter()
                .map(|u| format!("unknown: {}: {}", u.checker, u.why))
                .collect::<Vec<_>>()
                .join("; "),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libafl::Error;

    #[test]
    fn only_what_may_go_better_is_tried_again() {
        let slow = |n: u32| Error::runtime(format!("not serving: c{n} (log: 12:00:0{n})"));
        let ended = || Error::illegal_state("c1 ended by itself with exit status 1");
        let template = || Error::illegal_argument("configuration template zoo.cfg: no `{x}`");
        let table: Vec<(Vec<Error>, Result<usize, &str>)> = vec![
            (vec![], Ok(1)),
            (vec![slow(1)], Ok(2)),
            (vec![slow(1), ended()], Ok(3)),
            (vec![slow(1), ended(), slow(1)], Err("not serving")),
            // No description that works says this twice.
            (vec![ended(), ended()], Err("c1 ended")),
            (vec![ended(), slow(1), ended()], Err("c1 ended")),
            // On a busy machine all wait in vain in the same words, and come up the next time.
            (vec![slow(1), slow(2)], Ok(3)),
            (vec![slow(1), slow(2), slow(3)], Err("c3 (log")),
            (vec![template()], Err("configuration template")),
        ];
        for (errors, want) in table {
            let many = errors.len();
            let mut errors = errors.into_iter();
            let mut tries = 0;
            let learn = || {
                tries += 1;
                errors.next().map_or(Ok(()), Err)
            };
            let mut said = 0;
            let got = once_more(learn, || false, |_| said += 1);
            match (got, want) {
                (Ok(Some(())), Ok(n)) => assert_eq!((tries, said), (n, n - 1)),
                (Err(e), Err(part)) => {
                    assert!(e.to_string().contains(part), "{e}");
                    assert_eq!((tries, said), (many, many - 1));
                }
                (got, want) => panic!("{got:?}, wanted {want:?}"),
            }
        }
        // An end that is asked for is no failure.
        assert_eq!(
            once_more(|| Err::<(), _>(ended()), || true, |_| ()).unwrap(),
            None
        );
    }
}
