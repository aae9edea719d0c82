//! Kept runs and their children between search and files: what may be drawn, a kept run as a seed, its classes in the queue, parking
//! and coming back, its queue entry. Free functions of the stage and of learning; they run nothing.

use super::State;
use super::drive::Drive;
use super::session::Session;
use crate::campaign::run_file::parked as parked_file;
use crate::campaign::state::hook;
use crate::campaign::{FuzzError, StoredRun};
use crate::fuzz::resume::saved::Job;
use crate::search::queue::Kept;
use crate::search::{Alike, Bounds, Drawing, FaultSet, Favour, Queue, Seed};
use libafl::HasMetadata;
use libafl::corpus::{Corpus, CorpusId};
use libafl::state::HasCorpus;
use std::collections::BTreeSet;
use warren_feedback::states::last_fault;
use warren_feedback::{KeptInfo, KnownSlots, KnownStates};
use warren_model::{
    ClusterShape, CrashStyle, CutHow, Phase, RunProduct, RunRecord, StackId, StartState, Trace,
};

impl Session {
    /// Kinds of faults that may be drawn.
    #[must_use]
    pub fn faults(&self) -> FaultSet {
        let swarm = self.swarm.as_ref();
        swarm.map_or(self.options.faults, |s| s.faults)
    }

    /// Of the picks, those that start cold. Where there is nothing else, all do.
    #[must_use]
    pub fn cold_share(&self) -> f64 {
        let asked = self.options.starts;
        match &self.swarm {
            Some(swarm) if asked.snapshots > 0 => swarm.cold_share(),
            _ => asked.cold_share,
        }
    }
}

/// The cluster as sequences of this campaign may treat it.
pub fn shape<E: Drive>(session: &Session, executor: &E) -> ClusterShape {
    let mut shape = executor.shape().clone();
    if let Some(swarm) = &session.swarm {
        shape.max_faults = shape.max_faults.min(swarm.max_faults);
    }
    shape
}

/// What may be drawn in this campaign.
pub fn drawing<'a, E: Drive>(
    session: &Session,
    executor: &E,
    shape: &'a ClusterShape,
) -> Drawing<'a> {
    let kernel = executor.kernel_cuts().is_ok();
    Drawing {
        shape,
        faults: session.faults(),
        how: match &session.swarm {
            _ if !kernel => CutHow::Throw,
            Some(swarm) => swarm.how,
            None => CutHow::Drop,
        },
        style: match &session.swarm {
            Some(swarm) if kernel => swarm.style,
            _ => CrashStyle::Process,
        },
        salt: session.seed,
        parts: session.options.parts(),
        whole_start: executor.whole_start(),
        favour: match session.options.strategy.weighs() {
            true => session.options.favour.clone(),
            false => Favour::default(),
        },
    }
}

/// A run as children see it; `None` without matched faults.
#[must_use]
pub fn seed_of<'a>(record: &'a RunRecord, trace: &'a Trace, bounds: Bounds) -> Option<Seed<'a>> {
    Some(Seed {
        trace,
        matched: record.matched.as_ref()?,
        injected: &record.injected,
        exits: &record.exits,
        incarnations: &record.incarnations,
        bounds,
    })
}

/// Stacks of the points of phases start and test: what healing did at the end of a parent's run is no part of its test.
#[must_use]
pub fn test_stacks(trace: &Trace) -> BTreeSet<StackId> {
    trace
        .events
        .iter()
        .filter(|e| matches!(e.phase, Phase::Start | Phase::Test))
        .map(|e| e.stack)
        .collect()
}

/// The stacks that are no recovery for what follows from this job's seed run: those of its seed run; of a fault-free run: of all
/// learning runs, as one alone does not show all that comes without faults.
///
/// # Errors
/// A file that cannot be read, and may be readable later.
pub fn parent_stacks(session: &mut Session, job: &Job) -> Result<BTreeSet<StackId>, FuzzError> {
    let seed = job.seed_run().filter(|s| !session.learnt.is_root(*s));
    if let Some(seed) = seed.filter(|_| job.sequence.faults.len() > 1) {
        match StoredRun::read(&session.folder.runs(), seed) {
            Ok(parent) => return Ok(test_stacks(&parent.trace)),
            // Its child's run is made and kept all the same; the queue loses it when it is next picked.
            Err(e) if e.is_of_lost_file() => session.say_once(left_out(seed, &e)),
            Err(e) => return Err(e),
        }
    }
    Ok(session.explored.fault_free_stacks.clone())
}

/// A kept run as it lies in its file. None where that is damaged or gone: the search goes on without the run. Without a root it cannot.
///
/// # Errors
/// A root's file that cannot be read; any that may be readable later.
pub fn stored(
    session: &mut Session,
    state: &mut State,
    id: u64,
) -> Result<Option<StoredRun>, FuzzError> {
    if state.metadata::<Queue>()?.is_lost(id) {
        return Ok(None);
    }
    match StoredRun::read(&session.folder.runs(), id) {
        Ok(stored) => Ok(Some(stored)),
        Err(e) if e.is_of_lost_file() && !session.learnt.is_root(id) => {
            lose(session, state, id, &e)?;
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// What lies on the disk of a kept run cannot be read: it is said, and its children are drawn no more, here and by later processes, which
/// would else come to the same file again and again.
fn lose(
    session: &mut Session,
    state: &mut State,
    id: u64,
    why: &FuzzError,
) -> Result<(), FuzzError> {
    session.say_once(left_out(id, why));
    match state.metadata_mut::<Queue>()?.lose(id) {
        true => session.commit(state),
        false => Ok(()),
    }
}

/// What is said of it.
pub fn left_out(id: u64, why: &FuzzError) -> String {
    format!("run {id:06} cannot be read ({why}): it is left out, with its children to come")
}

/// Keeps memory bounded: seed runs of lowest score (in order: the youngest) leave it, with which occurrences were tried.
pub fn park(session: &Session, state: &mut State) -> Result<(), FuzzError> {
    let queue = state.metadata_mut::<Queue>()?;
    let in_order = session.options.strategy.in_order();
    let mut next = || match in_order {
        true => queue.park_youngest(session.max_classes),
        false => queue.park(session.max_classes),
    };
    while let Some((seed, entry)) = next() {
        parked_file::write(&session.folder.runs(), seed, &entry)?;
        hook::point("parked");
    }
    Ok(())
}

/// Reads a parked seed run back. Its file goes when the journal holds what was in it. One that is damaged or gone leaves the queue: of a
/// root, too, as only its children are lost.
pub fn unpark(session: &mut Session, state: &mut State, seed: u64) -> Result<(), FuzzError> {
    let entry = match parked_file::read(&session.folder.runs(), seed) {
        Err(e) if e.is_of_lost_file() => return lose(session, state, seed, &e),
        entry => entry?,
    };
    state.metadata_mut::<Queue>()?.unpark(entry);
    session.commit(state)?;
    hook::point("unparked");
    parked_file::remove(&session.folder.runs(), seed)
}

/// Name and text of a kept run's queue entry, taken out of LibAFL's corpus.
pub fn take_entry(state: &State, id: CorpusId) -> Result<(String, String), FuzzError> {
    let mut testcase = state.corpus().get(id)?.borrow_mut();
    let input = testcase.input_mut().take();
    Ok((
        testcase.filename().clone().unwrap_or_default(),
        input.map_or_else(String::new, |s| s.to_text()),
    ))
}

/// What the score needs to know of a kept run.
pub fn info_of(state: &State, id: CorpusId) -> Result<KeptInfo, FuzzError> {
    let testcase = state.corpus().get(id)?.borrow();
    let info = testcase.metadata_map().get::<KeptInfo>();
    Ok(info.cloned().unwrap_or_default())
}

/// Slots of this map that nobody knows yet.
pub fn unknown_slots(state: &State, map: &[u8]) -> Vec<u32> {
    let known = state.metadata_map().get::<KnownSlots>();
    (0u32..)
        .zip(map)
        .filter(|(slot, b)| **b != 0 && known.is_none_or(|k| !k.contains(*slot as usize)))
        .map(|(slot, _)| slot)
        .collect()
}

/// What the last fault of a run that is kept met, where energy asks for it.
#[must_use]
pub fn alike_of(product: &RunProduct, info: &KeptInfo, drawing: &Drawing<'_>) -> Option<Alike> {
    let id = drawing
        .parts
        .energy
        .then(|| last_fault(product))
        .flatten()?;
    Some(Alike {
        id,
        loses: info.for_its_last_fault,
    })
}

/// States of a run that nobody knows yet.
pub fn unknown_states(state: &State, states: &[u32]) -> Vec<u32> {
    match state.metadata_map().get::<KnownStates>() {
        Some(known) => known.new_among(states).collect(),
        None => states.to_vec(),
    }
}

/// A kept run's classes join the queue.
#[expect(
    clippy::too_many_arguments,
    reason = "a kept run, and what is known around it"
)]
pub fn add_seed(
    state: &mut State,
    id: u64,
    record: &RunRecord,
    trace: &Trace,
    bounds: Bounds,
    info: &KeptInfo,
    alike: Option<Alike>,
    drawing: &Drawing<'_>,
    parent: &BTreeSet<StackId>,
) -> Result<(), FuzzError> {
    let Some(seed) = seed_of(record, trace, bounds) else {
        return Ok(());
    };
    let classes = seed.classes(drawing);
    let favoured = drawing.favour.stacks(trace);
    let kept = Kept {
        seed: id,
        cold: seed.matched.start == StartState::Cold,
        faults: seed.matched.faults.len(),
        time_ms: info.total_ms,
        coverage: info.slots as u64,
        alike,
    };
    state.metadata_mut::<Queue>()?.add(
        kept,
        &classes,
        |stack| !parent.contains(&stack),
        |stack| favoured.contains(&stack),
    );
    Ok(())
}
