//! Restores one snapshot into a fresh slot: every file first, then the processes.
//!
//! Called at the start of a run. Whatever goes wrong here is a reason to start cold, never an error of the run.

use super::{OWN_FILES, Snapshot, blank, copy, sizes};
use crate::slot::{Process, Slot, SlotConfig, now_ns};

/// A slot with the snapshot's cluster going on in it. Nodes in their order, then the workload.
///
/// # Errors
/// The reason, for people.
pub(in crate::run) fn restore(
    snapshot: &Snapshot,
    mut config: SlotConfig,
) -> Result<(Slot, Vec<Process>), String> {
    let images = snapshot.folder.join("img");
    let there = sizes(&images).map_err(|e| format!("the images of the snapshot: {e}"))?;
    if let Some((name, size)) = snapshot
        .images
        .iter()
        .find(|(name, size)| there.get(*name) != Some(size))
    {
        let now = there
            .get(name)
            .map_or("is gone".into(), |n| format!("has {n}"));
        return Err(format!("image {name} of {size} bytes {now}"));
    }
    // Time stood still since the dump.
    let offset = i128::from(snapshot.dumped_ns) - i128::from(now_ns());
    config.clock_offset = Some(i64::try_from(offset).map_err(|e| e.to_string())?);
    config.images = Some(images);
    let slot = Slot::open(&config).map_err(|e| e.to_string())?;
    let files = || -> std::io::Result<()> {
        copy::tree(&snapshot.folder.join("root"), slot.root(), &OWN_FILES)?;
        copy::pages(&snapshot.folder.join("shm"), slot.shm(), blank, true)
    };
    files().map_err(|e| format!("putting back the files of a snapshot: {e}"))?;
    let processes = slot
        .restore(&snapshot.criu, snapshot.launcher, &snapshot.processes)
        .map_err(|e| e.to_string())?;
    Ok((slot, processes))
}
