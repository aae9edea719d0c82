//! Which isolation levels this machine allows, found by trying: a slot of each level is opened, used and closed.
//!
//! Called by `doctor` and at the start of a campaign.

use std::path::Path;
use std::time::Instant;

use nix::unistd::geteuid;

use super::started::PATIENCE;
use super::{Level, Slot, SlotConfig, SlotError, SpawnSpec};

/// What the trial of one level showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelReport {
    /// The level tried.
    pub level: Level,
    /// A process ran in a slot of this level.
    pub ok: bool,
    /// Why not; for a level that works, what it lacks (cuts, kernel settings) or an empty text.
    pub why: String,
    /// Kernel cuts (`drop`, crash style `machine`) work on it.
    pub cuts: bool,
}

/// Tries every level. `exe` is the warren binary. Takes some ten milliseconds per level.
pub fn detect_levels(exe: &Path) -> Vec<LevelReport> {
    Level::ALL
        .into_iter()
        .map(|level| report(exe, level))
        .collect()
}

/// The best level that works here.
///
/// # Errors
/// [`SlotError::NoLevel`] with the reason of each level.
pub fn best_level(exe: &Path) -> Result<Level, SlotError> {
    let mut why = Vec::new();
    for level in Level::ALL {
        let report = report(exe, level);
        if report.ok {
            return Ok(level);
        }
        why.push(format!("level {}: {}", level.number(), report.why));
    }
    Err(SlotError::NoLevel(why.join("\n  ")))
}

fn report(exe: &Path, level: Level) -> LevelReport {
    let no = |why: String| LevelReport {
        level,
        ok: false,
        why,
        cuts: false,
    };
    if level == Level::Root && !geteuid().is_root() {
        return no("Warren does not run as root".into());
    }
    match trial(exe, level) {
        Ok((cuts, mut lacks)) => {
            if let Err(why) = &cuts {
                lacks.insert(0, format!("no kernel cuts: {why}"));
            }
            LevelReport {
                level,
                ok: true,
                why: lacks.join("; "),
                cuts: cuts.is_ok(),
            }
        }
        Err(e) => no(e.to_string()),
    }
}

type Trial = (Result<(), String>, Vec<String>);

fn trial(exe: &Path, level: Level) -> Result<Trial, SlotError> {
    let slot = Slot::open(&SlotConfig::new(exe, level))?;
    let spec = SpawnSpec {
        name: "trial".into(),
        argv: vec!["/bin/sh".into(), "-c".into(), "exit 7".into()],
        env: Vec::new(),
        cwd: slot.inside_root(),
        stdout: slot.inside_root().join("trial.out"),
    };
    let process = slot.spawn(&spec)?;
    let exit = slot.wait_exit(&process, Instant::now() + PATIENCE)?;
    if exit.as_ref().and_then(|e| e.status) != Some(7) {
        return Err(SlotError::Refused {
            doing: "running `exit 7` in a trial slot".into(),
            why: format!("ended with {exit:?}"),
        });
    }
    let seen = slot.root().join("trial.out").exists();
    let result = (slot.kernel_cuts(), slot.notes().to_vec());
    slot.close()?;
    if !seen {
        return Err(SlotError::Refused {
            doing: "looking at a trial slot's files from outside".into(),
            why: "they are not visible below /proc/<init>/root; take another level".into(),
        });
    }
    Ok(result)
}
