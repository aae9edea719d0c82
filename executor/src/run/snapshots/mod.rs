//! Snapshots: live clusters, dumped once and restored for every run that starts from one (decision 0005).
//!
//! Held by a `Runner`; asked for by number at the start of a run. Images and files lie in the memory of a slot of their own,
//! the keeper, so that they are gone when Warren is, however it ends. Making and restoring have a file each; nothing here
//! decides which run starts from which snapshot.

mod copy;
mod make;
mod restore;

pub(super) use restore::restore;

use super::options::{RunError, RunOptions};
use super::{Runner, RunnerConfig};
use crate::setup::criu::Criu;
use crate::slot::{Level, Slot, SlotConfig};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use warren_model::StackId;

/// A snapshot older than this is made anew: what it restores finds the wall clock ahead by its age.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Making one fails so often in a row before snapshots are given up.
const MAX_FAILURES: u32 = 2;
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
    /// Nodes in their order, then the workload: (pid inside, name, when it was spawned).
    processes: Vec<(i32, String, u64)>,
    /// Of each node.
    pub nodes: Vec<NodeAt>,
    /// The slot's clock at the dump.
    dumped_ns: u64,
    made: Instant,
    /// Of the workload that is in it.
    pub seed: u64,
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

/// The snapshots of one runner.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    held: BTreeMap<u8, Arc<Snapshot>>,
    made_with: Option<MadeWith>,
    failures: u32,
    /// Why there are none any more.
    off: Option<String>,
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
        if let Some(why) = &self.off {
            return Ok(Err(why.clone()));
        }
        let with = (
            runner.config.map_size,
            runner.config.background.clone(),
            options.plain_ops,
        );
        if self.made_with.as_ref() != Some(&with) {
            self.forget_all();
            self.made_with = Some(with);
        }
        if let Some(snapshot) = self.held.get(&number) {
            if snapshot.made.elapsed() < MAX_AGE {
                return Ok(Ok(Arc::clone(snapshot)));
            }
            self.forget(number);
        }
        loop {
            match self.make(runner, criu, number, options) {
                Ok(snapshot) => {
                    self.failures = 0;
                    let snapshot = Arc::new(snapshot);
                    self.held.insert(number, Arc::clone(&snapshot));
                    return Ok(Ok(snapshot));
                }
                Err(e @ (RunError::AgentRefused { .. } | RunError::Template { .. })) => {
                    return Err(e);
                }
                // The run, which starts cold now, ends at once, as runs do then.
                Err(e) if options.to_end() => return Ok(Err(e.to_string())),
                Err(e) => self.failed(&e.to_string()),
            }
            if let Some(why) = &self.off {
                return Ok(Err(why.clone()));
            }
        }
    }

    fn make(
        &mut self,
        runner: &Runner,
        criu: &Criu,
        number: u8,
        options: &RunOptions,
    ) -> Result<Snapshot, RunError> {
        if let Some(free) = free_memory()
            && free < LEAST_FREE
        {
            return Err(RunError::io(
                "a snapshot",
                format!(
                    "{} MiB of memory are free, {} are wanted",
                    free >> 20,
                    LEAST_FREE >> 20
                ),
            ));
        }
        let keeper = match &mut self.keeper {
            Some(keeper) if keeper.lost().is_none() => keeper,
            none => none.insert(open_keeper(&runner.config)?),
        };
        self.folders += 1;
        let folder = keeper.root().join(format!("{number}-{}", self.folders));
        let made = make::make(runner, criu, &folder, number, options);
        if made.is_err() {
            // Half a snapshot is none; what cannot be removed is gone with the keeper.
            let _ = std::fs::remove_dir_all(&folder);
        }
        made
    }

    /// A restore did not work: the snapshot is of no use, and neither are others if that goes on.
    pub fn failed_restore(&mut self, number: u8, why: &str) {
        self.forget(number);
        self.failed(why);
    }

    /// A run went on from a restored cluster.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    fn failed(&mut self, why: &str) {
        self.failures += 1;
        if self.failures >= MAX_FAILURES {
            self.off = Some(format!("snapshots do not work here: {why}"));
            self.forget_all();
            self.keeper = None;
        }
    }

    fn forget(&mut self, number: u8) {
        if let Some(old) = self.held.remove(&number) {
            let _ = std::fs::remove_dir_all(&old.folder);
        }
    }

    fn forget_all(&mut self) {
        for number in self.held.keys().copied().collect::<Vec<_>>() {
            self.forget(number);
        }
    }
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

/// Bytes of the pages that are not kept: a restored run has a trace and coverage of its own.
fn blank(page: &str) -> Option<Range<u64>> {
    match page {
        "cov.map" | "state.map" => Some(0..u64::MAX),
        name if name.starts_with("node-") => Some(crate::link::EVENTS_REGION),
        _ => None,
    }
}

/// MemAvailable, bytes.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_given_up_after_failures_in_a_row() {
        let mut s = Snapshots::default();
        s.failed("a");
        s.worked();
        s.failed_restore(1, "b");
        assert_eq!(s.off, None);
        s.failed("c");
        assert_eq!(s.off.as_deref(), Some("snapshots do not work here: c"));
    }

    #[test]
    fn a_restored_run_has_its_own_trace_and_coverage() {
        assert_eq!(blank("run.page"), None);
        assert_eq!(blank("cov.map"), Some(0..u64::MAX));
        let events = blank("node-zk1.page").unwrap();
        assert_eq!((events.start, events.end), (1 << 20, (1 << 20) + (4 << 20)));
        assert!(free_memory().unwrap() > 0);
    }
}
