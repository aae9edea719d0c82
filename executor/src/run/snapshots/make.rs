//! Makes one snapshot: a cluster started as one tree, ready and with its clients connected, is dumped and its files are kept.
//!
//! Called by `Snapshots::get`. Numbers differ in their workload's seed, in which nodes came late and so in who leads, and in what the
//! processes drew for themselves.

use super::super::made_once::{hot, rehearsal};
use super::super::options::{RunError, RunOptions};
use super::super::{Runner, Start};
use super::{NodeAt, OWN_FILES, Snapshot, blank, copy, place_of, sizes};
use crate::link::NodePage;
use crate::run::nodes::cluster::Cluster;
use crate::run::phases::boot::Boot;
use crate::run::phases::flow::Flow;
use crate::setup::criu::Criu;
use crate::slot::{Slot, SlotConfig};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use warren_model::{FaultSequence, RunProduct};

/// Connections of the readiness probes close, and what the start left behind settles.
const SETTLE: Duration = Duration::from_millis(300);

pub(super) fn make(
    runner: &Runner,
    criu: &Criu,
    folder: &Path,
    number: u8,
    asked: &RunOptions,
) -> Result<Snapshot, RunError> {
    let began = Instant::now();
    let sequence = FaultSequence::empty(&runner.prepared.target().name);
    let patience = runner.prepared.target().ready.timeout;
    let options = RunOptions {
        // Told apart from each other, and the same again when the campaign's seed is.
        seed: asked.seed ^ u64::from(number) << 56,
        // Of the runs to come: the workload has its own limits from it, and one that is made again with twice that must not decide.
        limit: asked.usual_limit.unwrap_or(asked.limit),
        plain_ops: asked.plain_ops,
        for_snapshot: true,
        stop: asked.stop.clone(),
        give_up: asked.give_up.clone(),
        progress: asked.progress.clone(),
        ..RunOptions::default()
    };
    let names = runner.shape.nodes().map(ToString::to_string);
    let mut config = SlotConfig::new(&runner.config.exe, runner.config.level).names(names);
    config.clock_offset = Some(0);
    config.images = Some(place_of(folder).0);
    let slot = Slot::open(&config).map_err(|e| RunError::Slot(e.to_string()))?;
    let mut product = RunProduct::default();
    let snapshot = runner.with_drive(&slot, &sequence, &options, Start::Boot, began, |drive| {
        let own = 2 * patience + 2 * Duration::from_nanos(hot::LONGEST_NS) + Duration::from_secs(5);
        drive.deadline = drive.now() + u64::try_from(own.as_nanos()).unwrap_or(u64::MAX);
        let went = {
            // Each number has another leader, where there are as many nodes to come late.
            Flow::new(drive, &mut product).boot(&sequence, Boot::of_snapshot(number))?
        };
        if let Some(why) = rehearsal::why_not(went, &mut product.record) {
            return Err(RunError::io("starting the cluster of a snapshot", why));
        }
        let settled = drive.now() + u64::try_from(SETTLE.as_nanos()).unwrap_or(0);
        drive.until(settled, |_| false)?;
        if options.to_end() {
            return Err(RunError::io("making a snapshot", "stopped"));
        }
        Flow::new(drive, &mut product).ask_roles()?;
        let cluster = &*drive.cluster;
        // The end of a node is told a moment later, and a zombie would be restored as one.
        if cluster.launched_died() {
            return Err(RunError::io(
                "making a snapshot",
                "a process of the cluster ended by itself",
            ));
        }
        let nodes = cluster.nodes.iter().map(|n| NodeAt {
            ready_ns: n.incarnations.last().and_then(|i| i.ready_ns),
            role: n.role.clone(),
        });
        dump(&slot, cluster, &criu.argv, folder, nodes.collect())
    })?;
    keep(&slot, folder, Events::Forgotten)?;
    slot.close().map_err(|e| RunError::Slot(e.to_string()))?;
    Ok(snapshot)
}

/// Dumps the tree with its images below this folder; its files are still to be kept.
pub(super) fn dump(
    slot: &Slot,
    cluster: &Cluster<'_>,
    criu: &[String],
    folder: &Path,
    nodes: Vec<NodeAt>,
) -> Result<Snapshot, RunError> {
    let launcher = cluster
        .launcher
        .ok_or_else(|| RunError::io("making a snapshot", "the cluster has no launcher"))?;
    let images = folder.join("img");
    std::fs::create_dir_all(&images)
        .map_err(|e| RunError::io(format!("making {}", images.display()), e))?;
    // Before the dump, which ends them.
    let processes = cluster.at_dump();
    // All at the same moment, and before CRIU, which takes seconds: nobody is to miss them afterwards.
    cluster.all_stop();
    let addrs: Vec<_> = cluster.nodes.iter().map(|n| n.addr).collect();
    // A packet that came between the dumps of its two ends would be acknowledged and in neither.
    slot.hush(&addrs)
        .map_err(|e| RunError::Slot(e.to_string()))?;
    let dumped_ns = slot
        .dump_stopped(criu, launcher, &place_of(folder).1)
        .map_err(|e| {
            // They end with the slot, and what an end that is not heard leaves behind keeps its network for half a minute.
            let _ = slot.unhush();
            RunError::Slot(e.to_string())
        })?;
    Ok(Snapshot {
        images: sizes(&images)
            .map_err(|e| RunError::io("looking at the images of a snapshot", e))?,
        criu: criu.to_vec(),
        folder: folder.to_owned(),
        launcher,
        processes,
        nodes,
        dumped_ns,
        made: Instant::now(),
        made_wall: SystemTime::now(),
        worked: std::sync::atomic::AtomicBool::new(false),
    })
}

/// What becomes of the events that the agents recorded before a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Events {
    /// A run from it has a trace of its own.
    Forgotten,
    /// They are the first part of its trace.
    Kept,
}

/// The slot's files, as they were when the tree was frozen.
pub(super) fn keep(slot: &Slot, folder: &Path, events: Events) -> Result<(), RunError> {
    let doing = |e| RunError::io("keeping the files of a snapshot", e);
    let shm = folder.join("shm");
    copy::tree(
        slot.root(),
        &folder.join("root"),
        &OWN_FILES,
        copy::Changed::AsTheyWere,
    )
    .map_err(doing)?;
    let blank = match events {
        Events::Forgotten => blank,
        Events::Kept => |_: &str| None,
    };
    if events == Events::Forgotten {
        // Before they are copied: the copies have holes, and must not be mapped.
        forget_events(slot.shm()).map_err(doing)?;
    }
    copy::pages(slot.shm(), &shm, blank, false).map_err(doing)?;
    Ok(())
}

fn forget_events(shm: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(shm)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("node-") {
            NodePage::open(&path)
                .map_err(std::io::Error::other)?
                .forget_events();
        }
    }
    Ok(())
}
