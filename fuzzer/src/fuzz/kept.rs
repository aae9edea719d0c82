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
pub fn parent_stacks(session: &Session, job: &Job) -> Result<BTreeSet<StackId>, FuzzError> {
    let fault_free = |seed: &u64| session.learnt.roots.iter().any(|r| r.run == *seed);
    match job.seed_run().filter(|seed| !fault_free(seed)) {
        Some(seed) if job.sequence.faults.len() > 1 => {
            let parent = StoredRun::read(&session.folder.runs(), seed)?;
            Ok(test_stacks(&parent.trace))
        }
        _ => Ok(session.explored.fault_free_stacks.clone()),
    }
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

/// Reads a parked seed run back. Its file goes when the journal holds what was in it.
pub fn unpark(session: &mut Session, state: &mut State, seed: u64) -> Result<(), FuzzError> {
    let entry = parked_file::read(&session.folder.runs(), seed)?;
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
