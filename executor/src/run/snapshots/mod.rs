//! Snapshots: live clusters, dumped once and restored for every run that starts from one (decision 0005).
//!
//! Held by a `Runner`; asked for by number at the start of a run. Images and files lie in the memory of a slot of their own,
//! the keeper, so that they are gone when Warren is, however it ends. Making and restoring have a file each; nothing here
//! decides which run starts from which snapshot.

pub(super) mod copy;
mod make;
pub(super) mod parked;
pub(super) mod prefix;
mod restore;

pub(super) use parked::{Parked, Refused};
pub(super) use prefix::Prefix;
pub(super) use restore::{Then, restore};

use super::machine::memory::free_memory;
use super::options::{RunError, RunOptions};
use super::{Runner, RunnerConfig};
use crate::setup::criu::Criu;
use crate::slot::{AtDump, Level, Slot, SlotConfig};
use prefix::Prefixes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use warren_model::StackId;

/// A snapshot older than this is made anew: what it restores finds the wall clock ahead by its age. That clock may have jumped itself meanwhile (the
/// machine slept, or its time was set), so both clocks are asked.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Making or restoring one fails so often in a row before it is left alone for a while.
const MAX_FAILURES: u32 = 2;
/// So long: a machine that was busy may not be later, and each try takes seconds.
const PAUSE: Duration = Duration::from_secs(300);
/// Memory that must be free before one is made, bytes.
const LEAST_FREE: u64 = 2 << 30;
/// Of the memory that is free, what all snapshots together may take.
const KEEPER_SHARE: u64 = 2;
/// Of a slot's root: what every slot makes for itself.
const OWN_FILES: [&str; 2] = [".slot", ".criu"];

/// A dumped cluster.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The CRIU that made it.
    criu: Vec<String>,
    /// In the keeper, as we see it: `img`, `root`, `shm`.
    folder: PathBuf,
    /// CRIU's images: what is not whole may make it wait for ever.
    images: BTreeMap<String, u64>,
    launcher: i32,
    /// Nodes in their order, then the workload.
    processes: Vec<AtDump>,
    /// Of each node; none of a prefix, which knows more of them (`Midway`).
    pub nodes: Vec<NodeAt>,
    /// The slot's clock when everything stood still: it goes on from there.
    dumped_ns: u64,
    made: Instant,
    made_wall: SystemTime,
    /// A run went on from it. That it could be made is no proof. Said without the lock of all snapshots: the restored cluster lives
    /// already and must not wait until another snapshot has been made.
    worked: AtomicBool,
}

impl Snapshot {
    /// Its images, below the folder that all snapshots lie in: (that folder, path in it).
    fn place(&self) -> (PathBuf, String) {
        place_of(&self.folder)
    }

    /// Young enough for the clocks of what it restores.
    fn is_fresh(&self, now: Instant, wall: SystemTime) -> bool {
        let old = now.saturating_duration_since(self.made) >= MAX_AGE;
        let jumps = wall.duration_since(self.made_wall);
        !old && jumps.is_ok_and(|by| by < MAX_AGE)
    }

    pub fn has_worked(&self) {
        self.worked.store(true, Ordering::Relaxed);
    }
}

impl Drop for Snapshot {
    /// Its files go when the last run that began from it has ended. What cannot be removed is gone with the keeper.
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A node at the moment of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeAt {
    pub ready_ns: Option<u64>,
    pub role: Option<String>,
}

/// What all snapshots of a runner were made with: another map, other background stacks or another workload (bench) make all of them
/// stale.
type MadeWith = (usize, Vec<StackId>, Option<u32>);

/// What went wrong with one number, in a row.
#[derive(Clone, Debug)]
struct Trouble {
    failures: u32,
    last: Instant,
    why: String,
}

impl Trouble {
    /// Why it is left alone now.
    fn pause(&self, now: Instant) -> Option<String> {
        let since = now.saturating_duration_since(self.last);
        let left_alone = self.failures >= MAX_FAILURES && since < PAUSE;
        left_alone.then(|| self.why.clone())
    }
}

/// The snapshots of one runner.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    held: BTreeMap<u8, Arc<Snapshot>>,
    prefixes: Prefixes,
    made_with: Option<MadeWith>,
    troubles: BTreeMap<u8, Trouble>,
    /// Of those that were made at the second try, why the first one failed; until a run tells it.
    remade: BTreeMap<u8, String>,
    folders: u64,
    /// Last in drop order: nobody uses its files then.
    keeper: Option<Slot>,
}

impl Snapshots {
    /// The snapshot of this number, made now if there is none that is fresh. `Err` with the reason why the run starts cold.
    ///
    /// # Errors
    /// The outer one only for what ends a run that starts cold too: an agent that refuses, a template that is wrong.
    pub fn get(
        &mut self,
        runner: &Runner,
        number: u8,
        options: &RunOptions,
    ) -> Result<Result<Arc<Snapshot>, String>, RunError> {
        let Some(criu) = &runner.config.criu else {
            return Ok(Err("snapshots are off".into()));
        };
        let with = (
            runner.config.map_size,
            runner.config.background.clone(),
            options.plain_ops,
        );
        if self.made_with.as_ref() != Some(&with) {
            self.held.clear();
            self.prefixes.clear();
            self.made_with = Some(with);
        }
        self.prefixes.tidy();
        if let Some(snapshot) = self.held.get(&number).cloned() {
            self.take_in(number, &snapshot);
            if snapshot.is_fresh(Instant::now(), SystemTime::now()) {
                return Ok(Ok(snapshot));
            }
            self.held.remove(&number);
        }
        let mut failed = None;
        loop {
            let trouble = self.troubles.get(&number);
            if let Some(why) = trouble.and_then(|t| t.pause(Instant::now())) {
                return Ok(Err(why));
            }
            if too_little(free_memory()).is_some() {
                // They are for speed; a snapshot is for every run.
                self.prefixes.clear();
                if let Some(why) = too_little(free_memory()) {
                    return Ok(Err(why));
                }
            }
            match self.make(runner, criu, number, options) {
                Ok(snapshot) => {
                    let snapshot = Arc::new(snapshot);
                    self.held.insert(number, Arc::clone(&snapshot));
                    self.remade.extend(failed.map(|why| (number, why)));
                    self.park(runner, criu, options);
                    return Ok(Ok(snapshot));
                }
                Err(e @ (RunError::AgentRefused { .. } | RunError::Template { .. })) => {
                    return Err(e);
                }
                // The run, which starts cold now, ends at once, as runs do then.
                Err(e) if options.to_end() => return Ok(Err(e.to_string())),
                Err(e) => {
                    // Perhaps for want of room.
                    self.prefixes.clear();
                    let why = e.to_string();
                    self.failed(number, &why);
                    failed.get_or_insert(why);
                }
            }
        }
    }

    /// Why the first try to make this one failed, where the second did not; told once.
    pub fn take_remade(&mut self, number: u8) -> Option<String> {
        self.remade.remove(&number)
    }

    fn make(
        &mut self,
        runner: &Runner,
        criu: &Criu,
        number: u8,
        options: &RunOptions,
    ) -> Result<Snapshot, RunError> {
        let folder = self.new_folder(runner, &number.to_string())?;
        let made = make::make(runner, criu, &folder, number, options);
        if made.is_err() {
            // Half a snapshot is none; what cannot be removed is gone with the keeper.
            let _ = std::fs::remove_dir_all(&folder);
        }
        made
    }

    /// Parks the nodes' JVMs, unless they are there, are left alone for a while, or are known never to wait.
    fn park(&mut self, runner: &Runner, criu: &Criu, options: &RunOptions) {
        if runner.tried_to_park() || !runner.config.parked || too_little(free_memory()).is_some() {
            return;
        }
        let folder = self.new_folder(runner, "parked").map_err(Refused::from);
        let made = folder.and_then(|folder| {
            let made = Parked::make(runner, criu, &folder, options);
            if made.is_err() {
                let _ = std::fs::remove_dir_all(&folder);
            }
            made
        });
        // One that was given up is tried again, by whoever is the next.
        if made.is_ok() || !options.to_end() {
            runner.have_parked(made);
        }
    }

    /// A folder in the keeper that nothing else has; not made yet.
    fn new_folder(&mut self, runner: &Runner, name: &str) -> Result<PathBuf, RunError> {
        let keeper = match &mut self.keeper {
            Some(keeper) if keeper.lost().is_none() => keeper,
            none => {
                runner.lost_parked();
                none.insert(open_keeper(&runner.config)?)
            }
        };
        self.folders += 1;
        Ok(keeper.root().join(format!("{name}-{}", self.folders)))
    }

    /// A restore did not work: the snapshot is of no use. Another run may have made a new one by now. Answers whether this one is the first to say so.
    pub fn failed_restore(&mut self, number: u8, snapshot: &Arc<Snapshot>, why: &str) -> bool {
        let held = self.held.get(&number);
        let first = held.is_some_and(|held| Arc::ptr_eq(held, snapshot));
        if first {
            self.held.remove(&number);
            self.take_in(number, snapshot);
            // Once, however many runs tried it at the same time.
            self.failed(number, why);
        }
        first
    }

    /// What went wrong before a run went on from this one is over.
    fn take_in(&mut self, number: u8, snapshot: &Snapshot) {
        if snapshot.worked.swap(false, Ordering::Relaxed) {
            self.troubles.remove(&number);
        }
    }

    fn failed(&mut self, number: u8, why: &str) {
        let failures = self.troubles.get(&number).map_or(0, |t| t.failures);
        let trouble = Trouble {
            failures: failures + 1,
            last: Instant::now(),
            why: why.to_owned(),
        };
        self.troubles.insert(number, trouble);
    }
}

/// The folder that all snapshots lie in, and where below it the images of the one in `folder` are.
fn place_of(folder: &Path) -> (PathBuf, String) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let above = folder.parent().unwrap_or(folder).to_owned();
    (above, format!("{name}/img"))
}

fn open_keeper(config: &RunnerConfig) -> Result<Slot, RunError> {
    let mut keeper = SlotConfig::new(&config.exe, Level::Root);
    keeper.root_bytes = free_memory().unwrap_or(2 * LEAST_FREE) / KEEPER_SHARE;
    keeper.try_cuts = false;
    Slot::open(&keeper).map_err(|e| RunError::Slot(e.to_string()))
}

/// Names and sizes of the files in a folder.
fn sizes(folder: &Path) -> std::io::Result<BTreeMap<String, u64>> {
    std::fs::read_dir(folder)?
        .map(|entry| {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok((name, entry.metadata()?.len()))
        })
        .collect()
}

/// These images are there, with all their bytes.
///
/// # Errors
/// The first that is not, for people.
fn whole(folder: &Path, images: &BTreeMap<String, u64>) -> Result<(), String> {
    let there = sizes(folder).map_err(|e| format!("the images of the snapshot: {e}"))?;
    match images
        .iter()
        .find(|(name, size)| there.get(*name) != Some(size))
    {
        None => Ok(()),
        Some((name, size)) => {
            let now = there
                .get(name)
                .map_or("is gone".into(), |n| format!("has {n}"));
            Err(format!("image {name} of {size} bytes {now}"))
        }
    }
}

/// Too little memory for one more. This says nothing against the next time.
fn too_little(free: Option<u64>) -> Option<String> {
    let free = free.filter(|free| *free < LEAST_FREE)?;
    Some(format!(
        "{} MiB of memory are free, a snapshot wants {}",
        free >> 20,
        LEAST_FREE >> 20
    ))
}

/// Bytes of the pages that are not kept: a restored run has a trace of its own. Its coverage goes on, as each JVM's own memory of what
/// it has marked does.
fn blank(page: &str) -> Option<Range<u64>> {
    match page {
        name if name.starts_with("node-") => Some(crate::link::EVENTS_REGION),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One without files.
    pub(in crate::run) fn snapshot(made: Instant) -> Snapshot {
        Snapshot {
            criu: Vec::new(),
            folder: PathBuf::new(),
            images: BTreeMap::new(),
            launcher: 0,
            processes: Vec::new(),
            nodes: Vec::new(),
            dumped_ns: 0,
            made,
            made_wall: SystemTime::now(),
            worked: AtomicBool::new(false),
        }
    }

    #[test]
    fn a_snapshot_is_made_anew_after_ten_minutes() {
        let made = Instant::now();
        let snapshot = snapshot(made);
        let wall = snapshot.made_wall;
        let seconds = Duration::from_secs;
        let table = [
            (made + seconds(599), wall + seconds(599), true),
            (made + seconds(600), wall + seconds(599), false),
            // The machine slept.
            (made + seconds(1), wall + seconds(600), false),
            // Its time was set back.
            (made + seconds(1), wall - seconds(1), false),
        ];
        for (now, wall, fresh) in table {
            assert_eq!(snapshot.is_fresh(now, wall), fresh, "{now:?} {wall:?}");
        }
    }

    #[test]
    fn images_are_whole_with_all_their_bytes_only() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("pages-1.img");
        std::fs::write(&image, b"0123456789").unwrap();
        std::fs::write(dir.path().join("core-1.img"), b"").unwrap();
        let images = sizes(dir.path()).unwrap();
        assert_eq!(whole(dir.path(), &images), Ok(()));
        // What was not there at the dump: CRIU reads only what the dump names.
        std::fs::write(dir.path().join("stats-restore"), b"1").unwrap();
        assert_eq!(whole(dir.path(), &images), Ok(()));
        std::fs::write(&image, b"01234").unwrap();
        let why = "image pages-1.img of 10 bytes has 5";
        assert_eq!(whole(dir.path(), &images), Err(why.into()));
        std::fs::remove_file(&image).unwrap();
        let why = "image pages-1.img of 10 bytes is gone";
        assert_eq!(whole(dir.path(), &images), Err(why.into()));
    }

    #[test]
    fn a_number_that_fails_again_and_again_is_left_alone_and_no_other() {
        let mut s = Snapshots::default();
        // No later than what follows, however long that takes.
        let now = Instant::now();
        let paused = |s: &Snapshots, k| s.troubles.get(&k).and_then(|t| t.pause(now));
        s.failed(1, "a");
        assert_eq!(paused(&s, 1), None, "once more at once");
        // A make that works between two restores that do not is no success.
        s.failed(1, "b");
        assert_eq!(paused(&s, 1).as_deref(), Some("b"));
        assert_eq!(paused(&s, 2), None);
        let trouble = &s.troubles[&1];
        let later = trouble.pause(trouble.last + PAUSE);
        assert_eq!(later, None, "after the pause it is tried again");
        s.failed(1, "c");
        assert_eq!(paused(&s, 1).as_deref(), Some("c"), "and left alone again");
        let of_1 = snapshot(Instant::now());
        s.take_in(1, &of_1);
        assert_eq!(paused(&s, 1).as_deref(), Some("c"), "made is not restored");
        of_1.has_worked();
        s.take_in(1, &of_1);
        assert_eq!(paused(&s, 1), None);
        assert!(too_little(Some(1 << 30)).is_some_and(|why| why.contains("1024 MiB")));
        assert_eq!(too_little(Some(3 << 30)), None);
        assert_eq!(too_little(None), None);
    }

    #[test]
    fn a_restored_run_has_its_own_trace() {
        assert_eq!(blank("run.page"), None);
        assert_eq!(blank("cov.map"), None);
        let events = blank("node-zk1.page").unwrap();
        assert_eq!((events.start, events.end), (1 << 20, (1 << 20) + (4 << 20)));
    }
}
