//! How many slots side by side (`-j`): as asked, or with `auto` the most at which fault-free runs stay undisturbed.
//!
//! Called once between learning and fuzzing. Its runs are learning runs: they teach what is ordinary when several clusters share the
//! machine, and the limits of a run at this `-j`. It refuses to call a number good by its speed: a cluster that loses its leader
//! without a fault makes findings of the machine, not of the target.

use crate::campaign::state::hook;
use crate::campaign::{FuzzError, MAX_SLOTS, RunRole, Slots};
use crate::fuzz::drive::{Drive, Limits};
use crate::fuzz::figures::snapshot::CurrentRun;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::learning::learn::unusable;
use crate::fuzz::learning::starts::take_in;
use crate::fuzz::session::Session;
use crate::fuzz::slots::waiting;
use crate::fuzz::stage::{line, set_options};
use libafl_bolts::ToSlice;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use warren_feedback::coverage::slots_set;
use warren_model::{
    FaultSequence, HistoryEvent, Observation, Outcome, Phase, RunProduct, StartState, Trace,
    TraceEvent, Void,
};

/// Fault-free runs that must all stay undisturbed for `auto`.
const AUTO_RUNS: usize = 20;
/// An operation that comes to nothing sooner was not waited for in vain: the system answered something, or the workload calls what it saw unknown,
/// as HDFS' does where a reader is ahead of the writer. ns.
const IN_VAIN: u64 = 1_000_000_000;

/// What so many at once came to so far. Times in ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rehearsed {
    slots: usize,
    totals: Vec<u64>,
    tests: Vec<u64>,
    /// Of runs that were disturbed, why.
    disturbed: Vec<String>,
}

impl Rehearsed {
    fn runs(&self) -> usize {
        self.totals.len() + self.disturbed.len()
    }
}

/// Settles how many slots this campaign has.
///
/// # Errors
/// The cluster cannot be run; I/O.
pub fn settle<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    let asked = session.options.slots;
    if asked == Slots::Exactly(1) || session.stopping() {
        return Ok(());
    }
    let known = session.learnt.side_by_side.as_ref();
    if let Some((_, slots)) = known.filter(|(was, _)| *was == asked.to_string()) {
        let slots = match asked {
            // It may be another machine by now.
            Slots::Auto => in_room(session, handed.executor, *slots),
            Slots::Exactly(_) => *slots,
        };
        set(session, slots);
        return Ok(());
    }
    // Of an earlier process; it may have been asked for another number.
    let begun = session.learnt.rehearsed.take();
    let (slots, runs) = match asked {
        Slots::Exactly(n) => (Some(n), 2 * n),
        Slots::Auto => {
            let slots = match &begun {
                Some(begun) => Some(begun.slots),
                None => waiting::slots(session, handed)?,
            };
            let slots = slots.map(|s| in_room(session, handed.executor, s).min(MAX_SLOTS));
            (slots, AUTO_RUNS)
        }
    };
    // An end was asked for.
    let Some(mut slots) = slots else {
        return Ok(());
    };
    session.learnt.rehearsed = begun.filter(|begun| begun.slots == slots);
    while slots > 1 && !session.stopping() {
        set(session, slots);
        // Each slot has its turn, twice.
        let runs = runs.max(2 * slots);
        rehearse(session, handed, runs, asked == Slots::Auto)?;
        let r = session.learnt.rehearsed.take().unwrap_or_default();
        if session.stopping() {
            return Ok(());
        }
        let made = r.runs();
        let what = format!(
            "{slots} slots side by side: {} of {made} fault-free runs undisturbed",
            made - r.disturbed.len()
        );
        let limits = session.limits.widened(Limits::from_learning(
            &r.totals,
            &r.tests,
            session.options.least_limits,
            session.options.run_limit,
        ));
        if r.disturbed.is_empty() {
            session.say(format!(
                "{what}, median {} ms",
                crate::fuzz::median(&r.totals)
            ));
            session.limits = limits;
            break;
        }
        let reasons: BTreeSet<&String> = r.disturbed.iter().collect();
        let few: Vec<&str> = reasons.iter().take(3).map(|w| w.as_str()).collect();
        session.say(format!("{what}: {}", few.join("; ")));
        if asked != Slots::Auto {
            // The user's wish; a failure that load may explain is asked again alone.
            session.limits = limits;
            break;
        }
        slots -= 1;
    }
    if session.stopping() {
        return Ok(());
    }
    if asked == Slots::Auto && slots == 1 {
        session.say("-j auto: one slot".into());
    }
    set(session, slots);
    session.learnt.side_by_side = Some((asked.to_string(), slots));
    session.commit_whole(handed.state)
}

/// The session and the screen have so many.
fn set(session: &mut Session, slots: usize) {
    session.beside.slots = slots;
    let beside = vec![CurrentRun::default(); slots.saturating_sub(1)];
    session.snapshot().with(|s| s.beside = beside);
}

/// Fault-free runs from all starts, so many at once as the session has slots; goes on where an earlier process was cut off. What they
/// came to is in `learnt.rehearsed`. With `to_first_disturbed` none is started once one of them was disturbed: that decides it.
fn rehearse<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
    runs: usize,
    to_first_disturbed: bool,
) -> Result<(), FuzzError> {
    let began = session.learning_so_far();
    let since = Instant::now();
    let slots = session.beside.slots;
    let mut r = session.learnt.rehearsed.clone().unwrap_or_default();
    r.slots = slots;
    let mut free: Vec<usize> = (0..slots).rev().collect();
    let mut sequences: Vec<Option<FaultSequence>> = vec![None; slots];
    let (mut started, mut ended) = (r.runs(), r.runs());
    let lead = session.judge().rules().lead_role.clone();
    while ended < runs {
        let decided = to_first_disturbed && !r.disturbed.is_empty();
        if started < runs
            && !decided
            && !session.stopping()
            && let Some(slot) = free.pop()
        {
            let sequence = fault_free(session, started);
            let mut options = handed.executor.options_mut().clone();
            set_options(session, &mut options, slot, session.limits.run, false);
            session.show_run(
                slot,
                CurrentRun {
                    doing: format!("{slots} at once: {}/{runs}", started + 1),
                    kinds: sequence.kinds(),
                    since: Some(Instant::now()),
                    ..CurrentRun::default()
                },
            );
            hook::point("run");
            handed.executor.start(slot, &sequence, options)?;
            sequences[slot] = Some(sequence);
            started += 1;
            continue;
        }
        let Some(slot) = handed.executor.next_ended() else {
            break;
        };
        ended += 1;
        free.push(slot);
        let Some(sequence) = sequences[slot].take() else {
            continue;
        };
        handed.execute(&sequence)?;
        session.counts.learning_runs += 1;
        let observers = handed.executor.observers();
        let run = &observers.1.0;
        let mut written = line(session, handed.state, run, RunRole::Learning);
        written.coverage = slots_set(observers.0.to_slice());
        if session.stopping() {
            written.void = Some(&Void::CutOff);
        }
        session.run_ended(&written)?;
        if session.stopping() {
            continue;
        }
        let record = run.record();
        let why =
            disturbed(run.product(), &lead).or_else(|| unusable(run.judgement(), record.timed_out));
        match why {
            Some(why) => r.disturbed.push(why),
            None => {
                r.totals.push(record.times.total);
                r.tests.push(record.times.test);
                take_in(session, handed.executor, handed.state);
            }
        }
        session.learning = began + since.elapsed();
        session.learnt.rehearsed = Some(r.clone());
        session.commit_whole(handed.state)?;
    }
    Ok(())
}

/// At most so many, as memory has room for them.
fn in_room<E: Drive>(session: &Session, executor: &E, slots: usize) -> usize {
    let room = executor.room();
    if room < slots {
        session.say(format!("-j auto: the free memory has room for {room}"));
    }
    slots.min(room)
}

/// The starts take turns.
fn fault_free(session: &Session, n: usize) -> FaultSequence {
    let roots = &session.learnt.roots;
    let root = roots.get(n % roots.len().max(1));
    FaultSequence {
        start: root.map_or(StartState::Cold, |r| r.start),
        ..FaultSequence::empty(&session.options.target)
    }
}

/// What a fault-free run shows that only the machine's load explains: an end by itself, a lost session, an operation that was waited for in vain, a new
/// leader, whether a client or the nodes' own points of role `lead` tell it (where the target names one).
fn disturbed(product: &RunProduct, lead: &str) -> Option<String> {
    if let Some(exit) = product.record.exits.first() {
        return Some(format!("{} ended by itself", exit.node));
    }
    let lost = lost(&product.history);
    if lost.is_some() {
        return lost;
    }
    let epochs: BTreeSet<&str> = product
        .observations
        .iter()
        .filter_map(|o| match o {
            Observation::Leader { epoch, durable, .. } if !durable => Some(epoch.as_str()),
            _ => None,
        })
        .collect();
    (epochs.len() > 1 || led(&product.trace, lead).len() > 1)
        .then(|| "the leader changed".to_owned())
}

/// The first client that lost its server or its session, or waited in vain, from GO on: what came before the snapshot that the run began from is no news.
fn lost(history: &[HistoryEvent]) -> Option<String> {
    let mut phase = Phase::Setup;
    let mut tested = false;
    let mut invoked = BTreeMap::new();
    let mut opened = BTreeSet::new();
    history.iter().find_map(|e| match e {
        HistoryEvent::Phase { phase: next, .. } => {
            phase = *next;
            tested |= phase == Phase::Test;
            None
        }
        // After the test clients are cut off that still wait.
        HistoryEvent::Open { client, .. } => {
            let again = !opened.insert(client) && phase == Phase::Test;
            again.then(|| format!("{client} lost its session"))
        }
        _ if !tested => None,
        HistoryEvent::Move { client, .. } => Some(format!("{client} lost its server")),
        HistoryEvent::Close {
            client,
            outcome: Some(how),
            ..
        } if how == "expired" => Some(format!("{client} lost its session")),
        HistoryEvent::Invoke(op) => {
            invoked.insert(op.id, op.t_ns);
            None
        }
        HistoryEvent::Done(done) if done.outcome == Outcome::Unknown => {
            let waited = done.t_ns.saturating_sub(*invoked.get(&done.id)?);
            let error = done.error.as_deref().and_then(|e| e.lines().next());
            (waited >= IN_VAIN).then(|| {
                format!(
                    "an operation waited {} ms in vain ({})",
                    waited / 1_000_000,
                    error.unwrap_or("no error")
                )
            })
        }
        _ => None,
    })
}

/// Nodes that led while the test went on.
fn led(trace: &Trace, lead: &str) -> BTreeSet<u16> {
    let leads = |e: &&TraceEvent| e.phase == Phase::Test && trace.role(e) == Some(lead);
    trace.events.iter().filter(leads).map(|e| e.node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;
    use warren_model::history::{OpDone, OpInvoke};

    #[test]
    fn what_disturbs_a_fault_free_run() {
        let invoked = HistoryEvent::Invoke(OpInvoke {
            id: 1,
            client: "c1".into(),
            session: "s".into(),
            server: None,
            op: "read".into(),
            key: Some("k".into()),
            value: None,
            expect: None,
            retry_of: None,
            t_ns: 5_000_000_000,
        });
        let done = |outcome, ms: u64| {
            HistoryEvent::Done(OpDone {
                id: 1,
                t_ns: 5_000_000_000 + ms * 1_000_000,
                outcome,
                value: None,
                version: None,
                zxid: None,
                mzxid: None,
                error: Some("ConnectionLoss\n\tat a.B.c(B.java:3)".into()),
            })
        };
        let leader = |epoch: &str, durable| Observation::Leader {
            node: "n1".into(),
            epoch: epoch.into(),
            durable,
        };
        let of = |history: Vec<HistoryEvent>, observations: Vec<Observation>| {
            let go = HistoryEvent::Phase {
                phase: Phase::Test,
                t_ns: 0,
            };
            // The same before GO disturbs nobody.
            let before: Vec<HistoryEvent> = history.iter().cloned().chain([go.clone()]).collect();
            let early = RunProduct {
                history: before,
                ..RunProduct::default()
            };
            assert_eq!(disturbed(&early, "leader"), None);
            let history = [go].into_iter().chain(history).collect();
            let product = RunProduct {
                history,
                observations,
                ..RunProduct::default()
            };
            disturbed(&product, "leader")
        };
        let asked = |outcome, ms| vec![invoked.clone(), done(outcome, ms)];
        let calm = of(asked(Outcome::Ok, 4000), vec![leader("1", false)]);
        assert_eq!(calm, None);
        // The restart of all nodes for durability elects anew.
        let restarted = vec![leader("1", false), leader("2", true)];
        assert_eq!(of(asked(Outcome::Failed, 4000), restarted), None);
        let two = of(vec![], vec![leader("1", false), leader("2", false)]);
        assert_eq!(two.as_deref(), Some("the leader changed"));
        // What nobody waited for says nothing of the machine.
        assert_eq!(of(asked(Outcome::Unknown, 999), vec![]), None);
        let lost = of(asked(Outcome::Unknown, 1000), vec![]);
        let waited = "an operation waited 1000 ms in vain (ConnectionLoss)";
        assert_eq!(lost.as_deref(), Some(waited));
        // It was asked before GO.
        assert_eq!(of(vec![done(Outcome::Unknown, 1000)], vec![]), None);
        let moved = HistoryEvent::Move {
            client: "c1".into(),
            session: "s".into(),
            server: None,
            t_ns: 1,
        };
        assert!(of(vec![moved], vec![]).is_some_and(|l| l.contains("c1")));
        let open = |client: &str| HistoryEvent::Open {
            client: client.into(),
            session: "s".into(),
            server: None,
            t_ns: 1,
        };
        let closed = |how: Option<&str>| HistoryEvent::Close {
            client: "c1".into(),
            session: "s".into(),
            t_ns: 1,
            outcome: how.map(str::to_owned),
        };
        let healed = HistoryEvent::Phase {
            phase: Phase::Heal,
            t_ns: 1,
        };
        // A client of the steps or a prober comes for the first time; one that is closed on purpose lost nothing.
        assert_eq!(of(vec![open("steps"), closed(None)], vec![]), None);
        assert_eq!(of(vec![open("c"), healed, open("c")], vec![]), None);
        for lost in [vec![closed(Some("expired"))], vec![open("c1"), open("c1")]] {
            assert_eq!(of(lost, vec![]).as_deref(), Some("c1 lost its session"));
        }
    }

    #[test]
    fn who_leads_is_told_by_the_nodes_own_points_too() {
        let calm = Sim::new(3, 1).run(&FaultSequence::empty("sim"));
        assert_eq!(disturbed(&calm, "leader"), None);
        let trace = &calm.trace;
        let led = |e: &TraceEvent| trace.role(e) == Some("leader");
        let leads = trace.events.iter().find(|e| led(e)).unwrap();
        // Another one leads, before GO or after it.
        let another = |phase: Phase| {
            let mut product = calm.clone();
            let of = |e: &&mut TraceEvent| e.node != leads.node && e.phase == phase;
            let event = product.trace.events.iter_mut().find(of).unwrap();
            event.role = leads.role;
            product
        };
        assert_eq!(disturbed(&another(Phase::Start), "leader"), None);
        let two = another(Phase::Test);
        let changed = Some("the leader changed".to_owned());
        assert_eq!(disturbed(&two, "leader"), changed);
        assert_eq!(disturbed(&two, ""), None, "where nobody is said to lead");
    }
}
