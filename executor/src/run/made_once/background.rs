//! Background stacks: those whose count grows while the ready cluster is idle. Once a target.

use crate::link::{NodeReading, occ_key};
use crate::run::drive::Drive;
use crate::run::made_once::archives::{Archives, Listed};
use crate::run::made_once::hot::COMPILED_LOG;
use crate::run::nodes::commands::CLASS_LIST;
use crate::run::options::{NodeStatus, RunError, RunOptions};
use crate::run::phases::boot::Boot;
use crate::run::phases::flow::{Flow, Went};
use crate::run::{Runner, Start};
use crate::setup::cache;
use crate::slot::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_model::{FaultSequence, RunProduct, RunRecord, StackId};

/// How long the idle cluster is watched.
const IDLE: Duration = Duration::from_secs(5);
/// What the start leaves behind settles first.
const SETTLE: Duration = Duration::from_millis(500);
/// How long the others are without a node that was killed: an election and some service.
const AWAY: Duration = Duration::from_secs(2);

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
        && let Ok(text) = std::fs::read_to_string(&file)
    {
        let known: Result<Vec<StackId>, String> = text.lines().map(str::parse).collect();
        if let Ok(stacks) = known {
            return Ok(stacks);
        }
    }
    let stacks = watch(runner, options)?;
    let text: String = stacks.iter().map(|s| format!("{s}\n")).collect();
    let write = || -> std::io::Result<()> {
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let part = file.with_extension(format!("part{}", std::process::id()));
        std::fs::write(&part, text)?;
        std::fs::rename(&part, &file)
    };
    write().map_err(|e| RunError::io(format!("writing {}", file.display()), e))?;
    Ok(stacks)
}

/// A cold, fault-free cluster that serves, with its clients connected, for as long as `work` takes.
fn booted<T>(
    runner: &Runner,
    asked: &RunOptions,
    start: Start<'_>,
    work: impl FnOnce(&Slot, &mut Drive<'_, '_>, &RunOptions) -> Result<T, RunError>,
) -> Result<T, RunError> {
    let began = Instant::now();
    let sequence = FaultSequence::empty(&runner.prepared().target().name);
    // The nodes' own patience to come up, as much again for the clients to connect, the idle time, and nodes that are started again: a
    // workload that hangs is told by then.
    let patience = runner.prepared().target().ready.timeout;
    let rehearsal = match start {
        Start::ListClasses => 2 * patience,
        _ => Duration::ZERO,
    };
    let options = RunOptions {
        limit: 2 * patience + 2 * IDLE + Duration::from_secs(5) + rehearsal,
        // What traffic loads and compiles belongs into the lists. Who watches for idle stacks wants none before.
        for_snapshot: matches!(start, Start::ListClasses),
        stop: asked.stop.clone(),
        progress: asked.progress.clone(),
        ..RunOptions::default()
    };
    let slot = runner.open_slot()?;
    let mut product = RunProduct::default();
    let done = runner.with_drive(&slot, &sequence, &options, start, began, |drive| {
        let went = Flow::new(drive, &mut product).boot(&sequence, Boot::EACH)?;
        if let Some(why) = why_not(went, &mut product.record) {
            let what = "learning background stacks".to_owned();
            let lives = drive.exits.is_empty() && drive.workload_gone.is_none();
            return Err(match lives {
                true => RunError::Late { what, why },
                false => RunError::Io { what, why },
            });
        }
        work(&slot, drive, &options)
    });
    slot.close().map_err(|e| RunError::Slot(e.to_string()))?;
    done
}

/// Makes the class archives, once for all Warrens of this machine: replacing one would take it from under the snapshots that map it.
fn make_archives(runner: &Runner, asked: &RunOptions) -> Result<(), RunError> {
    let prepared = runner.prepared();
    if Archives::settled(prepared) {
        return Ok(());
    }
    let wrong = |e| RunError::io("waiting for another Warren that makes class archives", e);
    let lock = format!("archives-{}", prepared.target().name);
    let stop = || asked.to_end();
    let _guard = cache::lock_unless(prepared.cache(), &lock, &stop).map_err(wrong)?;
    // Another Warren, or another run of this one, may have made them while we waited.
    if Archives::settled(prepared) {
        return Ok(());
    }
    list(runner, asked)
}

/// What a boot, some traffic and a few faults load and compile, as archives and as the list for parked JVMs.
fn list(runner: &Runner, asked: &RunOptions) -> Result<(), RunError> {
    booted(runner, asked, Start::ListClasses, |slot, drive, options| {
        let ended = rehearse(drive)?;
        // A system that the rehearsal has broken has loaded and compiled enough.
        if drive.all_serve() {
            drive.deadline = drive.deadline.min(drive.patience_ends());
            Flow::new(drive, &mut RunProduct::default())
                .test_and_check(&FaultSequence::empty(""))?;
        }
        if options.to_end() {
            return Err(RunError::io("listing classes", "stopped"));
        }
        let of_nodes = |file: &str| -> Vec<PathBuf> {
            let living = drive.cluster.nodes.iter().map(|n| n.dir.join(file));
            let ended = ended.iter().map(|i| &drive.cluster.nodes[*i].dir);
            living.chain(ended.map(|d| kept(d, file))).collect()
        };
        let of_workload = |file: &str| slot.root().join("workload").join(file);
        Archives::make(
            runner.prepared(),
            &Listed {
                nodes: of_nodes(CLASS_LIST),
                nodes_compiled: of_nodes(COMPILED_LOG),
                workload: of_workload(CLASS_LIST),
                workload_compiled: of_workload(COMPILED_LOG),
            },
        )
        .map_err(|e| RunError::io("keeping class archives in the cache", e))
    })
}

/// Where the list of a JVM that was killed in a rehearsal is kept: the next one in its folder writes its own.
fn kept(dir: &Path, file: &str) -> PathBuf {
    dir.join(file).with_extension("1")
}

/// What runs do most: of each group that may lose a node, the one that leads is killed and started again, then another one. The nodes
/// that were, as far as the cluster came back in time; what its JVMs loaded and compiled until then is as good.
fn rehearse(drive: &mut Drive<'_, '_>) -> Result<Vec<usize>, RunError> {
    let mut ended = Vec::new();
    for (g, group) in drive.cluster.prepared.target().groups.iter().enumerate() {
        if group.max_dead == 0 {
            continue;
        }
        for turn in 0..2 {
            Flow::new(drive, &mut RunProduct::default()).ask_roles()?;
            let lead = drive.cluster.questions.lead.as_str();
            let leads = |i: &usize| drive.cluster.nodes[*i].role.as_deref() == Some(lead);
            let members: Vec<usize> = (0..drive.cluster.nodes.len())
                .filter(|i| drive.cluster.nodes[*i].spec.group == g && !ended.contains(i))
                .collect();
            let leader = members.iter().copied().find(leads).filter(|_| turn == 0);
            let Some(i) = leader.or(members.first().copied()) else {
                break;
            };
            if drive.over() || drive.cluster.options.to_end() {
                return Ok(ended);
            }
            drive.cluster.kill_node(i);
            if let Some(process) = &drive.cluster.nodes[i].process
                && !matches!(
                    drive.cluster.slot.wait_exit(process, Instant::now() + IDLE),
                    Ok(Some(_))
                )
            {
                return Ok(ended);
            }
            for file in [CLASS_LIST, COMPILED_LOG] {
                let dir = &drive.cluster.nodes[i].dir;
                let _ = std::fs::rename(dir.join(file), kept(dir, file));
            }
            ended.push(i);
            let settled = drive.now() + u64::try_from(AWAY.as_nanos()).unwrap_or(0);
            drive.until(settled, |_| false)?;
            drive.cluster.spawn_nodes(&[i])?;
            let until = drive.patience_ends().min(drive.deadline);
            let serves = |d: &Drive<'_, '_>| d.cluster.nodes[i].status == NodeStatus::Serving;
            // One that ended again will not, and the group can lose no other.
            if !drive.until(until, |d| serves(d) || !d.cluster.nodes[i].alive())? || !serves(drive)
            {
                return Ok(ended);
            }
        }
    }
    Ok(ended)
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

/// Why a booted cluster is no use, the cause before what followed from it. None = it is.
pub(in crate::run) fn why_not(went: Went, record: &mut RunRecord) -> Option<String> {
    let said = record
        .workload_error
        .take()
        .or_else(|| record.not_stable.pop());
    said.or_else(|| {
        (went == Went::Ends).then(|| {
            record
                .warnings
                .pop()
                .unwrap_or_else(|| "the cluster did not start".into())
        })
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
    fn the_cause_is_shown_before_what_followed() {
        type Case<'a> = (
            Went,
            Option<&'a str>,
            Option<&'a str>,
            &'a [&'a str],
            Option<&'a str>,
        );
        let table: [Case<'_>; 5] = [
            (Went::On, None, None, &["slow"], None),
            (
                Went::Ends,
                Some("no main"),
                Some("no node"),
                &[],
                Some("no main"),
            ),
            (Went::On, None, Some("no node"), &[], Some("no node")),
            (
                Went::Ends,
                None,
                None,
                &["over the limit"],
                Some("over the limit"),
            ),
            (
                Went::Ends,
                None,
                None,
                &[],
                Some("the cluster did not start"),
            ),
        ];
        for (went, workload, unstable, warnings, want) in table {
            let mut record = RunRecord {
                workload_error: workload.map(str::to_owned),
                not_stable: unstable.map(str::to_owned).into_iter().collect(),
                warnings: warnings.iter().map(|w| (*w).to_owned()).collect(),
                ..RunRecord::default()
            };
            assert_eq!(why_not(went, &mut record).as_deref(), want);
        }
    }
}
