//! workload.page: commands to the workload and what it has done (docs/formats.md section 8).

use super::{LAYOUT, LinkError, page::SharedPage};
use std::path::Path;

const MAGIC: u64 = 0x3147_4b57_4e52_4157;
/// First word of the nodes' states; the page holds 4096 bytes.
const NODES: usize = 16;
const MAX_NODES: usize = 4096 / 8 - NODES;

/// Commands in the order they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    Connect = 1,
    Go = 2,
    Stop = 3,
    Degraded = 4,
    Healed = 5,
    Check = 6,
    CheckDurable = 7,
    Exit = 8,
}

/// What of a run's faults may still come when GO is given: the workload bounds its steps and its tail by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToCome {
    /// Some are awaited.
    Awaited = 0,
    /// All of them are done or given up.
    Over = 1,
    /// None were asked for.
    NoneAsked = 2,
}

/// The workload page, owned by the executor.
#[derive(Debug)]
pub struct WorkloadPage(SharedPage);

impl WorkloadPage {
    /// Creates it with the seed of the workload's choices.
    ///
    /// # Errors
    /// [`LinkError::Create`].
    pub fn create(path: &Path, seed: u64) -> Result<Self, LinkError> {
        let page = SharedPage::create(path, 4096)?;
        page.set(8 * 8, seed);
        page.set(8, LAYOUT);
        page.set(0, MAGIC);
        Ok(WorkloadPage(page))
    }

    /// The page of a restored cluster.
    ///
    /// # Errors
    /// [`LinkError::Open`].
    pub fn open(path: &Path) -> Result<Self, LinkError> {
        SharedPage::open(path).map(WorkloadPage)
    }

    pub fn command(&self, c: Command) {
        self.0.set(2 * 8, c as u64);
    }

    /// Whether this command is completed.
    #[must_use]
    pub fn done(&self, c: Command) -> bool {
        self.0.get(3 * 8) >= c as u64
    }

    /// When the last fault of the run was done or given up, ns.
    pub fn set_faults_done(&self, t_ns: u64) {
        self.0.set(4 * 8, t_ns);
    }

    /// So many faults are done.
    pub fn set_faults(&self, done: usize) {
        self.0.set(11 * 8, done as u64);
    }

    /// Before GO.
    pub fn set_to_come(&self, what: ToCome) {
        self.0.set(12 * 8, what as u64);
    }

    pub fn set_deadline(&self, t_ns: u64) {
        self.0.set(9 * 8, t_ns);
    }

    /// A command failed; the reason is the last line of its stdout.
    #[must_use]
    pub fn error(&self) -> bool {
        self.0.get(10 * 8) != 0
    }

    /// Says whether node `i` lives, and which incarnation.
    pub fn set_node(&self, i: usize, incarnation: u8, alive: bool) {
        if i < MAX_NODES {
            self.0.set(
                (NODES + i) * 8,
                u64::from(incarnation) << 8 | u64::from(alive),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("workload.page");
        let p = WorkloadPage::create(&path, 7).unwrap();
        p.command(Command::Go);
        p.set_node(2, 3, true);
        p.set_faults_done(99);
        p.set_faults(3);
        p.set_to_come(ToCome::NoneAsked);
        p.set_node(100_000, 1, true);
        let b = std::fs::read(&path).unwrap();
        assert_eq!(&b[0..8], b"WARNWKG1");
        assert_eq!((b[16], b[64], b[32], b[88], b[96]), (2, 7, 99, 3, 2));
        assert_eq!(&b[18 * 8..18 * 8 + 2], &[1, 3]);
        assert!(!p.done(Command::Connect));
        p.0.set(24, 2);
        assert!(p.done(Command::Connect) && p.done(Command::Go) && !p.done(Command::Stop));
    }
}
