//! Background stacks: those whose count grows while the ready cluster is idle. Learnt once a target, kept in the cache.
//!
//! Called before the first run. It has the class archives made first, so that they are settled when the cluster that it watches
//! starts.

use crate::link::{NodeReading, occ_key};
use crate::run::drive::Drive;
use crate::run::made_once::archives::{Archives, make_archives};
use crate::run::made_once::rehearsal::booted;
use crate::run::options::{RunError, RunOptions};
use crate::run::{Runner, Start};
use crate::setup::cache;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use warren_model::StackId;

/// How long the idle cluster is watched.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// What the start leaves behind settles first.
const SETTLE: Duration = Duration::from_millis(500);

/// Stacks whose count grows while the ready cluster, with its clients connected, is idle for 5 s. Kept in the cache by the
/// content of the target, so later starts learn nothing anew. Of the options `stop` and `progress` count.
///
/// # Errors
/// As [`Runner::run`]; a cluster that does not become ready; the stop flag.
pub fn learn_background(runner: &Runner, options: &RunOptions) -> Result<Vec<StackId>, RunError> {
    crate::run::made_once::prune::archives(&runner.prepared().cache().join("archives"));
    let file = runner
        .prepared()
        .cache()
        .join("background")
        .join(format!("{}.txt", runner.prepared().key()));
    if Archives::settled(runner.prepared())
        && let Some(stacks) = known(&file)
    {
        return Ok(stacks);
    }
    let stacks = watch(runner, options)?;
    let text: String = stacks.iter().map(|s| format!("{s}\n")).collect();
    cache::write_sealed(runner.prepared().cache(), &file, &text)
        .map_err(|e| RunError::io("keeping background stacks in the cache", e))?;
    Ok(stacks)
}

/// What was learnt before. Only with its seal, without which it is learnt again: an empty file, as a power cut leaves it, would say of a
/// busy target that nothing of it is background.
fn known(file: &Path) -> Option<Vec<StackId>> {
    if !cache::intact(file) {
        return None;
    }
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().map(|line| line.parse().ok()).collect()
}

fn watch(runner: &Runner, asked: &RunOptions) -> Result<Vec<StackId>, RunError> {
    make_archives(runner, asked)?;
    booted(runner, asked, Start::Boot, |_, drive, options| {
        let wait = |drive: &mut Drive<'_, '_>, d: Duration| {
            let until = drive.now() + u64::try_from(d.as_nanos()).unwrap_or(0);
            drive.until(until, |_| false)
        };
        wait(drive, SETTLE)?;
        let before: Vec<BTreeMap<u64, u64>> = totals(drive.cluster);
        wait(drive, IDLE)?;
        if options.to_end() {
            // Too short a look would call busy stacks quiet, and the cache would keep it.
            return Err(RunError::io("learning background stacks", "stopped"));
        }
        let after = totals(drive.cluster);
        let mut grown: BTreeSet<u64> = BTreeSet::new();
        for (b, a) in before.iter().zip(&after) {
            for (key, count) in a {
                if b.get(key).is_none_or(|old| count > old) {
                    grown.insert(*key);
                }
            }
        }
        let mut stacks = BTreeSet::new();
        for node in &drive.cluster.nodes {
            let reading: NodeReading = node.page.read_all();
            for e in &reading.events {
                if grown.contains(&occ_key(e.stack, e.kind, e.place)) {
                    stacks.insert(e.stack);
                }
            }
        }
        Ok(stacks.into_iter().collect::<Vec<_>>())
    })
}

fn totals(cluster: &crate::run::nodes::cluster::Cluster<'_>) -> Vec<BTreeMap<u64, u64>> {
    cluster
        .nodes
        .iter()
        .map(|n| n.page.totals().into_iter().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_no_target_without_background() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("background/k.txt");
        std::fs::create_dir_all(dir.path().join("background")).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(known(&file), None, "a power cut, or an earlier Warren");
        let stacks = [StackId(7), StackId(u64::MAX)];
        for stacks in [&stacks[..], &[]] {
            let text: String = stacks.iter().map(|s| format!("{s}\n")).collect();
            cache::write_sealed(dir.path(), &file, &text).unwrap();
            assert_eq!(known(&file).as_deref(), Some(stacks));
        }
        cache::write_sealed(dir.path(), &file, "no stack\n").unwrap();
        assert_eq!(known(&file), None);
    }
}
