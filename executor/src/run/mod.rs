//! One run from left to right: slot, cluster, workload, faults, checks, collection (docs/ARCHITECTURE.md, "One run").
//!
//! Called by LibAFL's executor in a campaign, and by `replay`, `seed check`, `tmin`, `doctor` and `bench`. What the cluster does is in the record; only what is wrong with us or
//! with the request is an error.

mod asking;
mod begin;
mod config;
mod drive;
mod evidence;
mod machine;
mod made_once;
mod midway;
mod nodes;
mod options;
mod phases;
mod request;
mod snapshots;
mod watcher;

pub use config::{MAP_SIZE, RunnerConfig};
pub use machine::memory::Memory;
pub use made_once::background::learn_background;
pub use options::{
    NodeProgress, NodeStatus, PrefixUse, ProgressFn, RunError, RunOptions, RunProgress,
};

use crate::controller::{Controller, Limits};
use crate::prepare::Prepared;
use crate::slot::{Process, Slot, SlotConfig};
use crate::target::Target;
use asking::prober::{Prober, StopOnDrop};
use begin::{Begun, Restored};
use drive::Drive;
use midway::Midway;
use nodes::cluster::Cluster;
use phases::boot::Boot;
use phases::flow::{BeginsAt, Flow};
use snapshots::{Parked, Refused, Snapshot, Snapshots};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};
use warren_model::record::RECORD_VERSION;
use warren_model::{
    ClusterShape, CrashStyle, CutHow, Fallbacks, Fault, FaultSequence, Observation, Rules,
    RunProduct, RunRecord, StartState, Void,
};

/// How the cluster of a run comes to be.
enum Start<'a> {
    /// From empty data.
    Boot,
    /// The same, listing classes for an archive.
    ListClasses,
    /// From empty folders, to make the data that all other cold starts begin with.
    Image,
    /// It goes on from a snapshot.
    Restored {
        snapshot: &'a Snapshot,
        processes: Vec<Process>,
        /// Their parent, where the tree is to be dumped once more.
        launcher: Option<i32>,
    },
    /// It goes on between two faults; all its processes are stopped.
    Midway {
        midway: &'a Midway,
        processes: Vec<Process>,
    },
}

impl Start<'_> {
    /// Its pages, folders and processes are there already.
    fn is_restored(&self) -> bool {
        matches!(self, Start::Restored { .. } | Start::Midway { .. })
    }
}

/// Makes runs of one prepared target. Cheap to make; two runners may work side by side.
pub struct Runner {
    prepared: Prepared,
    config: RunnerConfig,
    shape: ClusterShape,
    rules: Rules,
    /// The coverage map was seen to fill: no need to look again.
    map_fills: AtomicBool,
    cuts: OnceLock<Result<(), String>>,
    /// Beside the lock of all snapshots: a run never waits for what another one makes. Dropped before their keeper.
    parked: Mutex<HaveParked>,
    snapshots: Mutex<Snapshots>,
    /// Of what is made once: the next run has it among its notes.
    to_tell: Mutex<Option<String>>,
}

/// The parked JVMs, or why there are none; nothing before they were asked for.
type HaveParked = Option<Result<Arc<Parked>, Refused>>;

impl Runner {
    /// A runner of a prepared target.
    ///
    /// # Errors
    /// A map size that is no power of two.
    pub fn new(prepared: Prepared, config: RunnerConfig) -> Result<Self, RunError> {
        if !config.map_size.is_power_of_two() || config.map_size < 4096 {
            return Err(RunError::io(
                "the coverage map",
                format!("{} bytes is no power of two from 4096 on", config.map_size),
            ));
        }
        let shape = prepared.target().shape(config.max_faults);
        let rules = prepared.target().rules();
        Ok(Runner {
            prepared,
            config,
            shape,
            rules,
            map_fills: AtomicBool::new(false),
            cuts: OnceLock::new(),
            snapshots: Mutex::default(),
            parked: Mutex::default(),
            to_tell: Mutex::default(),
        })
    }

    /// What the constraints need to know of the cluster.
    #[must_use]
    pub fn shape(&self) -> &ClusterShape {
        &self.shape
    }

    /// Clusters of this target that the machine's memory has room for now.
    #[must_use]
    pub fn room(&self) -> usize {
        machine::memory::free_memory().map_or(usize::MAX, |free| {
            machine::memory::clusters_in(free, self.prepared.target())
        })
    }

    /// What the checkers need to know of the target.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The target, ready to run.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// The settings shared by all runs.
    #[must_use]
    pub fn config(&self) -> &RunnerConfig {
        &self.config
    }

    /// Changes them between runs (map size, background).
    pub fn config_mut(&mut self) -> &mut RunnerConfig {
        &mut self.config
    }

    /// Whether kernel cuts (`drop`, style `machine`) work here, else why not: strategies may draw them or not. The first call
    /// opens a slot.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn kernel_cuts(&self) -> Result<(), String> {
        self.cuts
            .get_or_init(|| {
                let config = SlotConfig::new(&self.config.exe, self.config.level);
                match Slot::open(&config) {
                    Ok(slot) => slot.kernel_cuts(),
                    Err(e) => Err(e.to_string()),
                }
            })
            .clone()
    }

    /// One run on a fresh cluster.
    ///
    /// # Errors
    /// [`RunError`] only for what is wrong with us or the request; whatever the cluster does is in the record.
    pub fn run(
        &self,
        sequence: &FaultSequence,
        options: &RunOptions,
    ) -> Result<RunProduct, RunError> {
        check(self.prepared.target(), &self.shape, sequence)?;
        let Begun {
            slot,
            restored,
            parked,
            fallbacks,
            began,
        } = self.begin(sequence, options)?;
        // Only where no run starts from a snapshot: what is recorded as cold beside others from snapshots has started as all cold ones do.
        let boot = match self.config.criu {
            None => Boot::without_snapshots(sequence),
            Some(_) => Boot::EACH,
        };
        let mut sequence = sequence.clone();
        if restored.is_none() {
            sequence.start = StartState::Cold;
        }
        let sequence = &sequence;
        let missing = match slot.kernel_cuts() {
            Ok(()) => None,
            Err(why) => missing_kernel_cuts(sequence, &why, self.cuts.get())?,
        };
        let _ = self.cuts.set(slot.kernel_cuts());
        let mut product = RunProduct {
            record: RunRecord {
                version: RECORD_VERSION,
                seed: options.seed,
                sequence: Some(sequence.clone()),
                ..RunRecord::default()
            },
            // Of this size also when the slot is lost before anything was collected.
            coverage: vec![0; self.config.map_size],
            ..RunProduct::default()
        };
        product.fell_back(fallbacks);
        if missing.is_some() {
            product.record.void = missing.map(Void::WentWrong);
            product.record.times.total = ms(began);
            return Ok(product);
        }
        if restored.is_some() {
            product.fell_back(Fallbacks {
                no_parked: self.not_parked(),
                ..Fallbacks::default()
            });
        }
        let (start, begins_at) = match &restored {
            Some(Restored::Snapshot(snapshot, processes)) => (
                Start::Restored {
                    snapshot,
                    processes: processes.clone(),
                    launcher: None,
                },
                BeginsAt::Go,
            ),
            Some(Restored::Prefix(prefix, processes)) => (
                Start::Midway {
                    midway: &prefix.midway,
                    processes: processes.clone(),
                },
                BeginsAt::Midway(&prefix.midway),
            ),
            None => {
                let check_map = options.agent && !self.map_fills.load(Ordering::Relaxed);
                (Start::Boot, BeginsAt::Boot { check_map, boot })
            }
        };
        let made = self.with_drive(&slot, sequence, options, start, began, |drive| {
            product.record.times.slot = ms(began);
            drive.cluster.parked = parked;
            Flow::new(drive, &mut product).run(sequence, begins_at)
        });
        void_if_lost(made, slot.lost(), &mut product.record)?;
        // Before anything that may wait for another run: its time and its memory are its own.
        // What is complete is judged: dropping the slot ends the rest, or the kernel does when it can.
        if let Err(e) = slot.close() {
            product.record.warnings.push(format!("the slot: {e}"));
        }
        product.record.times.total = ms(began);
        if let Some(Restored::Prefix(prefix, _)) = &restored {
            let record = &product.record;
            let well = !record.timed_out && record.not_stable.is_empty() && record.void.is_none();
            // A run that was cut off says nothing of what it began from.
            if !options.to_end() {
                snapshots::prefix::ended(self, prefix, well);
            }
        }
        if product.coverage.iter().any(|b| *b != 0) {
            self.map_fills.store(true, Ordering::Relaxed);
        }
        tell(&self.to_tell, &mut product);
        Ok(product)
    }

    fn tell_once(&self, said: Option<String>) {
        if said.is_some() {
            *lock(&self.to_tell) = said;
        }
    }

    fn slot_config(&self) -> SlotConfig {
        let names = self.shape.nodes().map(ToString::to_string);
        SlotConfig::new(&self.config.exe, self.config.level).names(names)
    }

    fn open_slot(&self) -> Result<Slot, RunError> {
        Slot::open(&self.slot_config()).map_err(|e| RunError::Slot(e.to_string()))
    }

    /// Makes this snapshot if it is not there, so that the first run from it does not wait; why runs cannot start from it.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn warm(&self, number: u8, options: &RunOptions) -> Result<Result<(), String>, RunError> {
        Ok(self.snapshots().get(self, number, options)?.map(drop))
    }

    /// A run of this sequence that began from a prefix snapshot has failed: none begins from that one any more.
    pub fn distrust_prefix(&self, sequence: &FaultSequence) {
        if let StartState::Snapshot(number) = sequence.start {
            snapshots::prefix::distrust(self, number, sequence);
        }
    }

    /// Why nodes that start again in runs from snapshots do not go on from parked JVMs, where that was tried.
    fn not_parked(&self) -> Option<String> {
        match &mut *lock(&self.parked) {
            Some(Err(refused)) => refused.tell(),
            Some(Ok(parked)) if !parked.works() => Some("too many did not go on in a row".into()),
            _ => None,
        }
    }

    fn parked_jvms(&self) -> Option<Arc<Parked>> {
        let have = lock(&self.parked);
        let parked = have.as_ref()?.as_ref().ok()?;
        parked.works().then(|| Arc::clone(parked))
    }

    /// They are there, there was trouble with them a moment ago, or there never will be any.
    fn tried_to_park(&self) -> bool {
        let now = Instant::now();
        match &*lock(&self.parked) {
            None => false,
            Some(Ok(parked)) => parked.works() || parked.left_alone(now),
            Some(Err(refused)) => refused.stands(now),
        }
    }

    /// They went with their keeper: they may be made again, unless that never works.
    fn lost_parked(&self) {
        let mut have = lock(&self.parked);
        if !matches!(&*have, Some(Err(refused)) if refused.is_lasting()) {
            *have = None;
        }
    }

    fn have_parked(&self, made: Result<Parked, Refused>) {
        *lock(&self.parked) = Some(made.map(Arc::new));
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        lock(&self.snapshots)
    }

    /// A cluster in the slot with its loop and its prober thread, for as long as `work` takes.
    fn with_drive<T>(
        &self,
        slot: &Slot,
        sequence: &FaultSequence,
        options: &RunOptions,
        start: Start<'_>,
        began: Instant,
        work: impl FnOnce(&mut Drive<'_, '_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        if matches!(start, Start::Boot | Start::ListClasses) {
            made_once::image::ensure(self, options)?;
        }
        let mut cluster = Cluster::new(
            &self.prepared,
            options,
            slot,
            self.config.map_size,
            &self.config.background,
            start,
        )?;
        let questions = cluster.questions.clone();
        let prober = Arc::new(Prober::default());
        let limits = Limits {
            fault_wait: options.fault_wait,
            idle: options.idle,
            notice: Duration::from_millis(self.prepared.target().rules().session_ms),
            max_hold: options.max_hold,
        };
        let mut shape = self.shape.clone();
        shape.max_faults = shape.max_faults.max(sequence.faults.len());
        let mut controller = Controller::new(sequence.faults.clone(), shape, limits, slot.now_ns());
        controller.wait_at_most(&options.waits);
        std::thread::scope(|scope| {
            // Ends the asking thread also when `work` panics: the scope waits for it.
            let _stop = StopOnDrop(&prober);
            asking(Builder::new(), scope, || prober.work(slot, &questions))?;
            let mut drive = Drive::new(
                &mut cluster,
                controller,
                &prober,
                began,
                sequence.faults.len(),
            );
            work(&mut drive)
        })
    }
}

/// What can be refused of a sequence before its target is set up: another target, names that are not there, faults that can never
/// happen.
///
/// # Errors
/// [`RunError::WrongTarget`], [`RunError::Illegal`].
pub fn check_request(target: &Target, sequence: &FaultSequence) -> Result<(), RunError> {
    // A sequence by hand may be as long as it likes: `request::check` raises the bound.
    check(target, &target.shape(1), sequence)
}

fn check(t: &Target, shape: &ClusterShape, sequence: &FaultSequence) -> Result<(), RunError> {
    if sequence.target != t.name {
        return Err(RunError::WrongTarget {
            found: sequence.target.clone(),
            target: t.name.clone(),
        });
    }
    request::check(sequence, shape, t.known_roles().as_deref())
}

/// A slot that failed under a run says nothing about the target: the run is void and is made again. Any other error stays one.
fn void_if_lost(
    made: Result<(), RunError>,
    lost: Option<String>,
    record: &mut RunRecord,
) -> Result<(), RunError> {
    let why = match (made, lost) {
        (_, Some(said)) => format!("slot lost: slot init has ended{said}"),
        (Err(RunError::Slot(why)), None) => format!("slot failed: {why}"),
        (made, None) => return made,
    };
    record.void.get_or_insert(Void::WentWrong(why));
    Ok(())
}

/// A slot in which kernel rules do not work: what that makes of a run there. Where they worked before, the machine is to blame (no memory
/// for the trial's rule): the run is void, and made again.
fn missing_kernel_cuts(
    sequence: &FaultSequence,
    why: &str,
    before: Option<&Result<(), String>>,
) -> Result<Option<String>, RunError> {
    match (refuse_kernel_faults(sequence, why), before) {
        (Ok(()), _) => Ok(None),
        (Err(_), Some(Ok(()))) => Ok(Some(format!(
            "kernel rules, which worked before, do not in this slot: {why}"
        ))),
        (Err(needed), _) => Err(needed),
    }
}

/// A sequence that needs kernel rules where there are none is refused, never changed silently.
fn refuse_kernel_faults(sequence: &FaultSequence, why: &str) -> Result<(), RunError> {
    for (i, f) in sequence.faults.iter().enumerate() {
        let needs = match &f.fault {
            Fault::PartitionStart {
                how: CutHow::Drop, ..
            } => "a cut by how = \"drop\"",
            Fault::Crash {
                style: CrashStyle::Machine,
                ..
            } => "crash style \"machine\"",
            _ => continue,
        };
        return Err(RunError::Unavailable {
            index: i + 1,
            needs,
            why: why.to_owned(),
        });
    }
    Ok(())
}

/// A note of the run that comes to it first.
fn tell(to_tell: &Mutex<Option<String>>, product: &mut RunProduct) {
    if let Some(text) = lock(to_tell).take() {
        product.record.warnings.push(text.clone());
        product.observations.push(Observation::Note { text });
    }
}

/// The thread that asks the nodes. The machine has none just now where it cannot be had: that ends no campaign, as a slot that fails does not.
fn asking<'s>(
    builder: Builder,
    scope: &'s Scope<'s, '_>,
    work: impl FnOnce() + Send + 's,
) -> Result<(), RunError> {
    let started = builder.spawn_scoped(scope, work);
    started
        .map(drop)
        .map_err(|e| RunError::Slot(format!("starting the thread that asks its nodes: {e}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernel rules that worked a moment ago and do not in this slot are the machine's trouble; where they never did, asking for them is.
    #[test]
    fn a_slot_without_the_cuts_of_the_others_is_void() {
        use warren_model::{At, FaultAt, Who};
        let mut machine = FaultSequence::empty("canary");
        machine.faults.push(FaultAt {
            at: At::AtOnce,
            fault: Fault::Crash {
                who: Who::FirstDead,
                style: CrashStyle::Machine,
            },
        });
        let plain = FaultSequence::empty("canary");
        let (works, never) = (Ok(()), Err("no nf_tables".to_owned()));
        let made = |s, before| missing_kernel_cuts(s, "no memory", before);
        for before in [None, Some(&works), Some(&never)] {
            assert_eq!(made(&plain, before).unwrap(), None);
        }
        let void = made(&machine, Some(&works)).unwrap().unwrap();
        assert!(void.contains("no memory"), "{void}");
        for before in [None, Some(&never)] {
            assert!(matches!(
                made(&machine, before),
                Err(RunError::Unavailable { index: 1, .. })
            ));
        }
    }

    #[test]
    fn what_is_to_be_told_is_a_note_of_one_run() {
        let to_tell = Mutex::new(Some("no archives".to_owned()));
        let [mut first, mut second] = [(); 2].map(|()| RunProduct::default());
        tell(&to_tell, &mut first);
        tell(&to_tell, &mut second);
        assert_eq!(first.notes().collect::<Vec<_>>(), ["no archives"]);
        assert_eq!(first.record.warnings, ["no archives"]);
        assert_eq!(second.notes().count() + second.record.warnings.len(), 0);
    }

    /// Its failure is the slot's, which makes the run void; a panic would end who has the run made on its own thread.
    #[test]
    fn a_thread_that_cannot_be_had_is_a_slot_that_failed() {
        std::thread::scope(|scope| {
            // No address space holds such a stack.
            let none = Builder::new().stack_size(1 << 50);
            let made = asking(none, scope, || {});
            assert!(matches!(made, Err(RunError::Slot(_))), "{made:?}");
            assert!(asking(Builder::new(), scope, || {}).is_ok());
        });
    }

    #[test]
    fn a_slot_that_failed_makes_the_run_void_and_nothing_else_does() {
        let slot = || Err(RunError::Slot("asking: no answer".into()));
        let io = || Err(RunError::io("writing", "no such file"));
        type Case = (
            Result<(), RunError>,
            Option<&'static str>,
            Option<&'static str>,
        );
        let table: Vec<Case> = vec![
            (Ok(()), None, Some("")),
            (
                Ok(()),
                Some(" (killed)"),
                Some("slot init has ended (killed)"),
            ),
            (slot(), None, Some("asking: no answer")),
            (slot(), Some(""), Some("slot init has ended")),
            // Files of a lost slot are gone with it.
            (io(), Some(""), Some("slot init has ended")),
            (io(), None, None),
        ];
        for (i, (made, lost, want)) in table.into_iter().enumerate() {
            let mut record = RunRecord::default();
            let answer = void_if_lost(made, lost.map(str::to_owned), &mut record);
            assert_eq!(answer.is_ok(), want.is_some(), "case {i}");
            let void = record.void.map(|v| v.to_string()).unwrap_or_default();
            assert_eq!(void.is_empty(), want.is_none_or(str::is_empty), "case {i}");
            assert!(void.contains(want.unwrap_or_default()), "case {i}: {void}");
        }
        let mut stopped = RunRecord {
            void: Some(Void::Stopping),
            ..RunRecord::default()
        };
        assert!(void_if_lost(Ok(()), Some(String::new()), &mut stopped).is_ok());
        assert_eq!(stopped.void, Some(Void::Stopping));
    }
}
