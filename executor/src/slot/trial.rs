//! Whether CRIU works here, found by trying: a process is dumped in one slot and restored in another.
//!
//! Called by `doctor`. What a JVM adds (its maps, its sockets) is proven by the first snapshot of a target, which falls back to
//! cold starts by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{AtDump, Level, Slot, SlotConfig, SpawnSpec};

/// How long a restore took; else why there is none.
///
/// # Errors
/// The reason, for people.
pub fn try_snapshot(exe: &Path, criu: &[String]) -> Result<Duration, String> {
    let mut config = SlotConfig::new(exe, Level::Root);
    config.try_cuts = false;
    config.clock_offset = Some(0);
    // The images lie in the memory of a slot, as those of a campaign do: gone with us, and no folder of the machine is needed.
    let keeper = Slot::open(&config).map_err(|e| e.to_string())?;
    let images = keeper.root().join("img");
    std::fs::create_dir(&images).map_err(|e| format!("making a folder for images: {e}"))?;
    config.images = Some(images);
    let slot = Slot::open(&config).map_err(|e| e.to_string())?;
    let spec = SpawnSpec {
        name: "trial".into(),
        argv: vec!["/bin/sleep".into(), "600".into()],
        env: Vec::new(),
        cwd: slot.inside_root(),
        // Not kept: what is open must be there at the restore.
        stdout: "/dev/null".into(),
    };
    let launched = slot.launch(&[spec]).map_err(|e| e.to_string())?;
    slot.dump(criu, launched.launcher, "")
        .map_err(|e| e.to_string())?;
    slot.close().map_err(|e| e.to_string())?;
    let processes: Vec<AtDump> = launched.processes.iter().map(AtDump::from).collect();
    let began = Instant::now();
    let slot = Slot::open(&config).map_err(|e| e.to_string())?;
    let restored = slot
        .restore(criu, launched.launcher, "", &processes)
        .map_err(|e| e.to_string())?;
    let took = began.elapsed();
    if restored.iter().any(super::Process::is_dead) {
        return Err("the restored process is dead".into());
    }
    slot.close().map_err(|e| e.to_string())?;
    Ok(took)
}
