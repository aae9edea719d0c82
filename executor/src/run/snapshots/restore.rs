//! Restores one snapshot into a fresh slot: every file first, then the processes.
//!
//! Called at the start of a run. Whatever goes wrong here is a reason to start cold, never an error of the run.

use super::{OWN_FILES, Snapshot, copy, whole};
use crate::slot::{CutRules, Process, Slot, SlotConfig, now_ns};

/// What is to become of the restored processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Then {
    /// They are a run's.
    Run,
    /// The same, and they stay one tree, which can be dumped once more.
    Dump,
}

/// A slot with the snapshot's cluster in it, under the kernel rules it was dumped with. Nodes in their order, then the workload;
/// all of them stand still, as they did at the dump.
///
/// # Errors
/// The reason, for people.
pub(in crate::run) fn restore(
    snapshot: &Snapshot,
    rules: &CutRules,
    config: SlotConfig,
    then: Then,
) -> Result<(Slot, Vec<Process>), String> {
    let nodes = config.names.len();
    let slot = refill(snapshot, config)?;
    let addrs: Vec<_> = (0..nodes).map(|i| slot.node_addr(i)).collect();
    // Until all of them are there: a packet for a socket that is not yet there ends the connection it came from.
    slot.hush(&addrs).map_err(|e| e.to_string())?;
    let (criu, launcher, of) = (&snapshot.criu, snapshot.launcher, &snapshot.processes);
    let (_, images) = snapshot.place();
    let restored = match then {
        Then::Run => slot.restore(criu, launcher, &images, of),
        Then::Dump => slot.restore_to_dump(criu, launcher, &images, of),
    };
    let processes = restored.map_err(|e| e.to_string())?;
    // After the restore, in which CRIU says to each end what the other had said.
    if !rules.cuts.is_empty() {
        slot.cut(rules).map_err(|e| e.to_string())?;
    }
    slot.unhush().map_err(|e| e.to_string())?;
    Ok((slot, processes))
}

/// A slot with the files of the snapshot.
fn refill(snapshot: &Snapshot, mut config: SlotConfig) -> Result<Slot, String> {
    whole(&snapshot.folder.join("img"), &snapshot.images)?;
    // Time stood still since the dump.
    let offset = i128::from(snapshot.dumped_ns) - i128::from(now_ns());
    config.clock_offset = Some(i64::try_from(offset).map_err(|e| e.to_string())?);
    config.images = Some(snapshot.place().0);
    let slot = Slot::open(&config).map_err(|e| e.to_string())?;
    let files = || -> std::io::Result<()> {
        copy::tree(
            &snapshot.folder.join("root"),
            slot.root(),
            &OWN_FILES,
            copy::Changed::AsTheyWere,
        )?;
        copy::pages(&snapshot.folder.join("shm"), slot.shm(), |_| None, true)
    };
    files().map_err(|e| format!("putting back the files of a snapshot: {e}"))?;
    Ok(slot)
}
