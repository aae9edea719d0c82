//! Whether CRIU works here, found by trying: a process is dumped in one slot and restored in another. Where there is a JDK it is a JVM that listens,
//! and it must answer afterwards.
//!
//! Called by `doctor`, and by a start that would take a CRIU of the system. It refuses to prove a whole cluster (connections, many JVMs at once): the
//! first snapshot of a target does, which falls back to cold starts by itself.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{AtDump, Level, Process, Slot, SlotConfig, SpawnSpec, TextProbe};

/// What was dumped, and how long its restore took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    pub a_jvm: bool,
    pub restore: Duration,
}

/// The registry of RMI is the one server that every JDK brings as a program; this is its port.
const PORT: u16 = 1099;
/// A JVM starts in a tenth of a second, on a busy machine in some.
const PATIENCE: Duration = Duration::from_secs(20);

/// Dumps and restores a JVM of the JDK in `java_home`, or `sleep` where there is none.
///
/// # Errors
/// The reason, for people.
pub fn try_snapshot(
    exe: &Path,
    criu: &[String],
    java_home: Option<&Path>,
) -> Result<Tried, String> {
    let mut config = SlotConfig::new(exe, Level::Root);
    config.try_cuts = false;
    config.clock_offset = Some(0);
    // The images lie in the memory of a slot, as those of a campaign do: gone with us, and no folder of the machine is needed.
    let keeper = Slot::open(&config).map_err(|e| e.to_string())?;
    let images = keeper.root().join("img");
    fs::create_dir(&images).map_err(|e| format!("making a folder for images: {e}"))?;
    config.images = Some(images);
    let slot = Slot::open(&config).map_err(|e| e.to_string())?;
    let server = java_home.and_then(registry);
    let a_jvm = server.is_some();
    let spec = SpawnSpec {
        name: "trial".into(),
        argv: server.unwrap_or_else(|| vec!["/bin/sleep".into(), "600".into()]),
        env: Vec::new(),
        cwd: slot.inside_root(),
        // Not kept: what is open must be there at the restore.
        stdout: "/dev/null".into(),
    };
    let launched = slot.launch(&[spec]).map_err(|e| e.to_string())?;
    if a_jvm {
        answers(&slot, &launched.processes, "the JVM to be dumped")?;
    }
    slot.dump(criu, launched.launcher, "")
        .map_err(|e| e.to_string())?;
    slot.close().map_err(|e| e.to_string())?;
    let processes: Vec<AtDump> = launched.processes.iter().map(AtDump::from).collect();
    let began = Instant::now();
    let slot = Slot::open(&config).map_err(|e| e.to_string())?;
    let restored = slot
        .restore(criu, launched.launcher, "", &processes)
        .map_err(|e| e.to_string())?;
    let restore = began.elapsed();
    if restored.iter().any(Process::is_dead) {
        return Err("the restored process is dead".into());
    }
    if a_jvm {
        answers(&slot, &restored, "the restored JVM")?;
    }
    slot.close().map_err(|e| e.to_string())?;
    Ok(Tried { a_jvm, restore })
}

/// A small server of that JDK, where it has the program.
fn registry(java_home: &Path) -> Option<Vec<String>> {
    let program = java_home.join("bin/rmiregistry");
    let program = program.is_file().then_some(program)?;
    // Without the file of performance data in /tmp, which another JVM that starts meanwhile would take away as a dead one's.
    let flags = ["-J-XX:+UseSerialGC", "-J-Xmx16m", "-J-XX:-UsePerfData"];
    let argv = [program.to_str()?].into_iter().chain(flags);
    Some(argv.map(String::from).chain([PORT.to_string()]).collect())
}

/// Waits until its port is open.
fn answers(slot: &Slot, processes: &[Process], who: &str) -> Result<(), String> {
    let probe = TextProbe {
        addr: slot.node_addr(0),
        port: PORT,
        send: String::new(),
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let answers = slot.probe(vec![probe.clone()], Duration::from_secs(1));
        let answers = answers.map_err(|e| e.to_string())?;
        if answers.iter().any(|a| a.connected) {
            return Ok(());
        }
        if processes.iter().any(Process::is_dead) {
            return Err(format!("{who} has ended"));
        }
        if Instant::now() > until {
            return Err(format!("{who} does not answer on port {PORT}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
