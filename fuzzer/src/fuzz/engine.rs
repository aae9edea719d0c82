//! A campaign from the first learning run to the end: LibAFL's state, fuzzer, event manager and stage put together around an
//! executor, and the loop with its limits.

use super::drive::{Drive, Observers};
use super::handed::{Cluster, Fuzzes, Handed};
use super::options::{EndReason, FuzzEnd, FuzzOptions};
use super::session::Session;
use super::stage::FuzzStage;
use super::store::StoreFeedback;
use super::{SharedSnapshot, State};
use crate::campaign::state::{Lock, Store};
use crate::campaign::{Folder, FuzzError, InstanceKind, StoredRun, sync_file};
use crate::fuzz::confirming::minimise::take_up;
use crate::fuzz::figures::cpu::spent_before;
use crate::fuzz::instances::beside::{check_main, mark_main};
use crate::fuzz::learning::learn::learn;
use crate::fuzz::resume::saved::{Whole, check_resume, kept_identity, read_back};
use crate::fuzz::slots::side_by_side;
use crate::search::{NextRun, Queue, SearchScheduler, Shares, Swarm, Warren, XoRand};
use libafl::corpus::{Corpus, InMemoryCorpus};
use libafl::events::SimpleEventManager;
use libafl::executors::{Executor, HasObservers};
use libafl::feedbacks::EagerOrFeedback;
use libafl::fuzzer::NopInputFilter;
use libafl::inputs::BytesInputConverter;
use libafl::monitors::{Monitor, stats::ClientStatsManager};
use libafl::state::{HasCorpus, StdState};
use libafl::{Error, Fuzzer, HasMetadata, StdFuzzer};
use libafl_bolts::ClientId;
use libafl_bolts::tuples::tuple_list;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use warren_feedback::{Judge, KeepFeedback, VerdictObjective};
use warren_model::{FailureKind, FaultSequence};

/// The event manager of a single process, with our monitor.
pub type Manager = SimpleEventManager<FaultSequence, ToSnapshot, State>;

/// Keeps a run: feedback's rule, then the store.
pub type Kept = EagerOrFeedback<KeepFeedback, StoreFeedback>;

/// The fuzzer.
pub type Std =
    StdFuzzer<SearchScheduler, Kept, BytesInputConverter, NopInputFilter, VerdictObjective>;

/// LibAFL's events, as far as the screen has no better source.
#[derive(Clone, Debug)]
pub struct ToSnapshot(SharedSnapshot);

impl Monitor for ToSnapshot {
    fn display(
        &mut self,
        stats: &mut ClientStatsManager,
        _event: &str,
        _sender: ClientId,
    ) -> Result<(), Error> {
        let corpus = stats.global_stats().corpus_size;
        self.0.with(|s| s.corpus = s.corpus.max(corpus));
        Ok(())
    }
}

/// Runs a campaign on an executor whose run observer judges by `judge`: a new one, or with `options.resume` the one that is in the
/// folder.
///
/// # Errors
/// [`FuzzError`]: the folder holds a campaign that is not to be resumed, or none that can be; another process writes it; the
/// cluster cannot be run, learning fails, I/O.
pub fn campaign<E>(
    options: FuzzOptions,
    mut executor: E,
    judge: &Arc<Mutex<Judge>>,
) -> Result<FuzzEnd, FuzzError>
where
    E: HasObservers<Observers = Observers> + Drive + Executor<Manager, FaultSequence, State, Std>,
{
    let root = options.out.join(&options.instance);
    check_main(&options)?;
    if options.resume {
        check_resume(&options)?;
    } else {
        Folder::check(&options.out, &options.instance)?;
    }
    // Held until this function ends; then asked again, for a campaign that began in between.
    let _lock = Lock::take(&root)?;
    let snapshot = options.snapshot.clone();
    let saved = saved(&options, &root)?;
    let seed = match &saved {
        Some((_, whole)) => whole.seed,
        None => options.seed.unwrap_or_else(clock_seed),
    };
    let folder = options.folder(seed);
    let mut session = Session::new(options, folder.clone(), seed, judge.clone());
    let by_states = session.options.parts().state;
    let all = session.options.strategy.keeps_all();
    let mut feedback = Kept::new(
        KeepFeedback::new().by_states(by_states).all(all),
        StoreFeedback::new(folder.clone(), session.clock.clone()),
    );
    let mut objective = VerdictObjective::new();
    let mut state: State = StdState::new(
        XoRand::new(seed),
        InMemoryCorpus::new(),
        InMemoryCorpus::new(),
        &mut feedback,
        &mut objective,
    )?;
    state.add_metadata(Queue::default());
    state.add_metadata(Warren::default());
    state.add_metadata(NextRun::default());
    match saved {
        Some((store, whole)) => resume(&mut session, &mut state, &mut executor, store, whole)?,
        None => {
            let o = &session.options;
            session.swarm = (o.parts().swarm).then(|| Swarm::draw(seed, o.faults, o.max_faults));
            let whole = session.whole(&state)?;
            let identity = kept_identity(&session.options);
            session.store = Some(Store::create(&root, identity, &whole)?);
        }
    }
    if let Some(swarm) = &session.swarm {
        session.say(format!("swarm, drawn from seed {seed}: {swarm}"));
    }
    folder.create()?;
    mark_main(&session.options, &session.folder)?;
    let o = &session.options;
    let shares = session
        .swarm
        .as_ref()
        .map_or_else(Shares::default, Swarm::shares);
    let scheduler = SearchScheduler::new(
        o.strategy,
        o.parts(),
        shares,
        session.cold_share(),
        o.starts.in_a_row,
    );
    let mut fuzzer = StdFuzzer::new(scheduler, feedback, objective);
    let mut manager = SimpleEventManager::new(ToSnapshot(snapshot.clone()));
    let mut handed = Handed {
        fuzzer: &mut fuzzer,
        executor: &mut executor,
        state: &mut state,
        manager: &mut manager,
    };

    let prepared = prepare(&mut session, &mut handed);
    let mut stages = tuple_list!(FuzzStage {
        session,
        void_in_a_row: 0
    });
    let result = prepared
        .and_then(|()| begin(&mut stages.0, &mut handed))
        .and_then(|()| run_loop(&mut stages, &mut handed));
    let session = &mut stages.0.session;
    session.ended = result.as_ref().ok().copied();
    let published = session
        .publish(&state, true)
        .and_then(|()| session.end_telling());
    snapshot.with(|s| s.ended = true);
    let reason = result?;
    published?;
    let (findings, known) = session.found.count(|kind| kind != FailureKind::Hang);
    let (hangs, known_hangs) = session.found.count(|kind| kind == FailureKind::Hang);
    Ok(FuzzEnd {
        reason,
        sequences: session.counts.sequences,
        execs: session.execs(&state),
        findings,
        known,
        hangs,
        known_hangs,
        folder: session.folder.root().to_owned(),
        fuzz_time: session.clock.fuzz_time(),
        learning_time: session.learning,
    })
}

/// What an earlier process left in this folder, where it is to be gone on with.
fn saved(options: &FuzzOptions, root: &Path) -> Result<Option<(Store, Whole)>, FuzzError> {
    if options.resume {
        let snapshot = options.snapshot.clone();
        let say = |line| snapshot.with(|s| s.lines.push(line));
        return read_back(&options.folder(0), say).map(Some);
    }
    match Folder::taken(root) {
        Some(why) => Err(why),
        None => Ok(None),
    }
}

/// What must be known before the first fault: the fault-free runs, and how many runs go side by side.
fn prepare<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    // Roots of snapshots may be missing: they did not work, or were not wanted, before.
    let whole = session.learnt.snapshots() >= session.options.starts.snapshots;
    if !session.learnt.done || !whole {
        learn(session, handed)?;
    }
    side_by_side::settle(session, handed)
}

/// Begins fuzzing with what a kill or Ctrl-C cut off: a failing run to decide on, findings to minimise.
fn begin<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    stage: &mut FuzzStage,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<(), FuzzError> {
    stage.session.begin_fuzzing();
    stage.session.begin_telling(handed.state)?;
    stage.decide(handed)?;
    if stage.session.resumed {
        take_up(&mut stage.session, handed)?;
    }
    Ok(())
}

/// Takes up the state of an earlier process.
fn resume<E: Drive>(
    session: &mut Session,
    state: &mut State,
    executor: &mut E,
    store: Store,
    whole: Whole,
) -> Result<(), FuzzError> {
    if let Some(asked) = session.options.seed.filter(|s| *s != whole.seed) {
        session.say(format!(
            "-s {asked} is ignored: a resumed campaign keeps its own random state (seed {})",
            whole.seed
        ));
    }
    if whole.map_size > 0 && whole.map_size as usize != executor.map_size() {
        executor.resize_map(whole.map_size as usize)?;
    }
    if let Some(said) = session.options.starts.unlike(&whole.now.starts) {
        session.say(said);
    }
    let judge = session.judge_handle();
    session.take_up(state, whole, &judge)?;
    session.store = Some(store);
    session.cpu.resume_at(spent_before(session.folder.root())?);
    if let Some(stacks) = &session.learnt.background {
        executor.take_up_background(stacks)?;
    }
    if !session.learnt.roots.is_empty() && !session.options.strategy.has_queue() {
        let root = StoredRun::read(&session.folder.runs(), 0)?;
        session.explored.root_test_ms = root.record.times.test;
    }
    if session.options.kind == InstanceKind::Alone && session.redo.told_at > 0 {
        // It would not say what happens from now on. With -M or -S it is begun anew.
        sync_file::remove(session.folder.root())?;
        session.redo.told_at = 0;
    }
    session.known_again();
    session.finds_again();
    // The figures too: nothing that was known is shown as none until the first run ends.
    session.show_figures(state);
    session.say(format!(
        "resuming: {} runs, {} sequences tested, {} kept, {} findings, {} s of fuzzing",
        session.execs(state),
        session.counts.sequences,
        state.corpus().count(),
        session.found.findings.len(),
        session.clock.fuzz_time().as_secs()
    ));
    Ok(())
}

/// Until a limit, the stop flag, a finding with `--exit-on-bug`, or exhaustion.
fn run_loop<E>(
    stages: &mut (FuzzStage, ()),
    handed: &mut Handed<'_, E, Manager, Std>,
) -> Result<EndReason, FuzzError>
where
    E: Cluster + Executor<Manager, FaultSequence, State, Std>,
{
    loop {
        let stage = &mut stages.0;
        if let Some(reason) = due(&stage.session) {
            // A finding among what is under way may end the campaign in another way.
            while !stage.session.beside.under_way.is_empty() && stage.session.end.is_none() {
                stage.look_at_one(handed)?;
            }
            // What is under way is begun again when the campaign goes on; what has ended may not show again what it showed.
            stage.pass_over_ended(handed)?;
            return Ok(stage.session.end.unwrap_or(reason));
        }
        let session = &mut stage.session;
        session.listen(handed.state, false)?;
        let alone = session.job.is_some() || session.seed_is_due(handed.state);
        let under_way = !session.beside.under_way.is_empty();
        let went = if under_way && (alone || session.enough_begun()) {
            stage.look_at_one(handed).map_err(|e| stage.session.fail(e))
        } else {
            // A sequence whose last run told nothing is run again, and a seed that is due is run, before anything new is picked; then what
            // an earlier process had begun.
            session.import(&*handed.executor, handed.state);
            if session.job.is_some() {
                stage.again(handed)
            } else if !session.beside.waiting.is_empty() {
                let job = session.beside.waiting.remove(0);
                stage.begin(handed, job).map_err(|e| stage.session.fail(e))
            } else {
                handed
                    .fuzzer
                    .fuzz_one(stages, handed.executor, handed.state, handed.manager)
                    .map(drop)
            }
        };
        let stage = &mut stages.0;
        match went {
            Ok(()) => {}
            // What is under way may have children.
            Err(Error::Empty(..)) if !stage.session.beside.under_way.is_empty() => {
                stage.look_at_one(handed)?;
            }
            Err(Error::Empty(..))
                if stage.session.take_over(&*handed.executor, handed.state)? => {}
            Err(Error::Empty(..)) => {
                stage.session.say(
                    "exhausted: every child of every kept run was tried (or has too many faults)"
                        .into(),
                );
                return Ok(EndReason::Exhausted);
            }
            Err(Error::ShuttingDown) => return Ok(EndReason::Stopped),
            Err(e) => return Err(stage.session.error.take().unwrap_or(e.into())),
        }
    }
}

/// Why the campaign ends now.
fn due(session: &Session) -> Option<EndReason> {
    let o = &session.options;
    if session.stopping() {
        Some(EndReason::Stopped)
    } else if let Some(end) = session.end {
        Some(end)
    } else if o
        .max_sequences
        .is_some_and(|n| session.counts.sequences >= n)
    {
        Some(EndReason::SequenceLimit)
    } else {
        session.out_of_time()
    }
}

/// A seed nobody asked for: written to fuzzer_stats, so that the campaign can be made again.
fn clock_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |d| d.as_secs() ^ (u64::from(d.subsec_nanos()) << 20))
        & 0xffff_ffff
}
