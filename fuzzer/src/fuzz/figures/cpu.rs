//! CPU time of fuzzing: Warren's own and that of all it started and saw end. Asked once for every run that ended (`spent_ms` of its line in
//! runs.jsonl), which is also what an interrupted campaign takes its sum from: it is in no state of its own.
//!
//! Counts what the kernel counts for this process and its ended children (a slot's init has reaped all of its slot), so a run's time comes
//! with the line after its slot is gone. Set-up before the first learning run is not in it.

use crate::campaign::folder::io;
use crate::campaign::{FuzzError, RunRole, StoredLine};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// The sum so far, and the moment up to which it was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuMeter {
    total_ms: u64,
    mark_ms: u64,
}

impl CpuMeter {
    /// Counts from now on.
    #[must_use]
    pub fn start() -> Self {
        CpuMeter {
            total_ms: 0,
            mark_ms: used_ms(),
        }
    }

    /// CPU time since the last call, ms.
    pub fn lap(&mut self) -> u64 {
        let now = used_ms();
        let spent = now.saturating_sub(self.mark_ms);
        self.mark_ms = now;
        spent
    }

    /// So much of it was fuzzing.
    pub fn add(&mut self, ms: u64) {
        self.total_ms += ms;
    }

    /// Earlier processes of the campaign used so much.
    pub fn resume_at(&mut self, ms: u64) {
        self.total_ms = ms;
    }

    /// CPU time of fuzzing, over all processes of the campaign.
    #[must_use]
    pub fn total_ms(&self) -> u64 {
        self.total_ms
    }

    /// The same.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_millis(self.total_ms)
    }
}

/// Of this process and its ended children since they began, ms; what the kernel does not tell is 0.
fn used_ms() -> u64 {
    let ms = |t: TimeVal| u64::try_from(t.tv_sec() * 1000 + t.tv_usec() / 1000).unwrap_or(0);
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
        .into_iter()
        .filter_map(|who| getrusage(who).ok())
        .map(|u| ms(u.user_time()) + ms(u.system_time()))
        .sum()
}

/// What the fuzzed runs of an instance's runs.jsonl used, ms.
///
/// # Errors
/// I/O, with the path. A line that tells nothing of it counts 0: an older Warren wrote it.
pub fn spent_before(root: &Path) -> Result<u64, FuzzError> {
    let path = root.join("runs.jsonl");
    match File::open(&path) {
        Ok(file) => spent(BufReader::new(file)).map_err(io("reading", &path)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
        Err(e) => Err(io("reading", &path)(e)),
    }
}

/// Lines that are none count nothing.
fn spent(jsonl: impl BufRead) -> std::io::Result<u64> {
    let fuzzing = |l: &StoredLine| l.role != RunRole::Learning && !l.is_cut_off();
    StoredLine::readable(jsonl)
        .map(|line| line.map(|l| if fuzzing(&l) { l.spent_ms } else { 0 }))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fuzzing_counts() {
        let line = |role: &str, void: &str, ms: u64| {
            format!(
                "{{\"role\":\"{role}\",\"void\":{void},\"spent_ms\":{ms},\"slots\":1,\"sequences\":1}}\n"
            )
        };
        let text = [
            line("learning", "null", 4000),
            line("fuzz", "null", 100),
            line("fuzz", "\"starved\"", 20),
            line("fuzz", "\"stopped\"", 5000),
            line("confirm", "null", 3),
            "{\"role\":\"fuzz\",\"void\":null}\n".into(),
        ]
        .concat();
        assert_eq!(spent(text.as_bytes()).unwrap(), 123);
        assert_eq!(spent(&b""[..]).unwrap(), 0);
        let nowhere = tempfile::tempdir().unwrap();
        assert_eq!(spent_before(nowhere.path()).unwrap(), 0);
        // Bytes that are no text cost their own line.
        let more = line("fuzz", "null", 7);
        let bytes = [text.as_bytes(), b"\xff\xfe\n", more.as_bytes()].concat();
        std::fs::write(nowhere.path().join("runs.jsonl"), bytes).unwrap();
        assert_eq!(spent_before(nowhere.path()).unwrap(), 130);
    }

    #[test]
    fn work_and_ended_children_are_seen() {
        let mut meter = CpuMeter::start();
        let done = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
        assert!(done.success());
        let spent = meter.lap();
        assert!(spent > 0);
        meter.resume_at(1000);
        meter.add(spent);
        assert_eq!(meter.total_ms(), 1000 + spent);
    }
}
