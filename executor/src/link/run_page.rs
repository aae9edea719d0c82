//! run.page: phase, awaited fault, claims and releases (docs/formats.md section 3).

use super::{LAYOUT, LinkError, page::SharedPage};
use std::path::Path;
use std::sync::atomic::Ordering;
use warren_model::Phase;

const MAGIC: u64 = 0x3147_5052_4e52_4157;
const STATE: usize = 2 * 8;
const HELD: usize = 3 * 8;
const RELEASE: usize = 4 * 8;
const MAP_SIZE: usize = 5 * 8;
const CANCELLED: u64 = 0xffff_ffff;

/// What HELD says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody has claimed anything yet.
    None,
    /// A thread of this node holds for this fault.
    Node { node: usize, fault: usize },
    /// We took the fault's claim away before a thread won it.
    Cancelled { fault: usize },
}

/// What a released thread does (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    GoOn,
    Throw,
    Lose,
}

/// The run page, owned by the executor.
#[derive(Debug)]
pub struct RunPage(SharedPage);

impl RunPage {
    /// Creates it in phase `start`, awaiting fault 0.
    ///
    /// # Errors
    /// [`LinkError::Create`].
    pub fn create(path: &Path, map_size: usize) -> Result<Self, LinkError> {
        let page = SharedPage::create(path, 4096)?;
        page.set(MAP_SIZE, map_size as u64);
        page.set(8, LAYOUT);
        page.set(0, MAGIC);
        Ok(RunPage(page))
    }

    /// The page of a restored cluster.
    ///
    /// # Errors
    /// [`LinkError::Open`].
    pub fn open(path: &Path) -> Result<Self, LinkError> {
        SharedPage::open(path).map(RunPage)
    }

    /// Phase and awaited fault, together.
    pub fn set_state(&self, phase: Phase, current: usize) {
        let word = u64::from(phase.to_wire()) << 32 | (current as u64 & 0xffff_ffff);
        self.0.set(STATE, word);
    }

    /// The last claim.
    #[must_use]
    pub fn claim(&self) -> Claim {
        Self::decode(self.0.get(HELD))
    }

    fn decode(word: u64) -> Claim {
        let (who, index) = (word >> 32, (word & 0xffff_ffff) as usize);
        match (who, index.checked_sub(1)) {
            (_, None) => Claim::None,
            (CANCELLED, Some(fault)) => Claim::Cancelled { fault },
            (who, Some(fault)) => Claim::Node {
                node: (who as usize).saturating_sub(1),
                fault,
            },
        }
    }

    /// Takes the claim of a fault away from all threads; `Err` with the claim if a thread was first. Claims only rise.
    ///
    /// # Errors
    /// The claim that stands.
    pub fn cancel(&self, fault: usize) -> Result<(), Claim> {
        let mine = CANCELLED << 32 | (fault as u64 + 1);
        loop {
            let seen = self.0.get(HELD);
            if seen & 0xffff_ffff > fault as u64 {
                return if seen == mine {
                    Ok(())
                } else {
                    Err(Self::decode(seen))
                };
            }
            if self
                .0
                .word(HELD)
                .compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                return Ok(());
            }
        }
    }

    /// Marks a claim that a thread won, and that no fault came of, as cancelled: later events of the interval are then not taken as
    /// passed while a thread was held. Does nothing to any other claim; release the thread first.
    pub fn withdraw(&self, fault: usize) {
        let index = fault as u64 + 1;
        let seen = self.0.get(HELD);
        if seen & 0xffff_ffff == index {
            // If it was changed meanwhile, it is another fault's claim.
            let _ = self.0.word(HELD).compare_exchange(
                seen,
                CANCELLED << 32 | index,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// Lets threads held for faults up to `fault` go; the action is for this one.
    pub fn release(&self, fault: usize, action: ReleaseAction) {
        let code = match action {
            ReleaseAction::GoOn => 0u64,
            ReleaseAction::Throw => 1,
            ReleaseAction::Lose => 2,
        };
        self.0.set(RELEASE, code << 32 | (fault as u64 + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> (tempfile::TempDir, RunPage) {
        let dir = tempfile::tempdir().unwrap();
        let p = RunPage::create(&dir.path().join("run.page"), 65536).unwrap();
        (dir, p)
    }

    #[test]
    fn layout() {
        let (dir, p) = page();
        p.set_state(Phase::Test, 3);
        p.release(2, ReleaseAction::Lose);
        let b = std::fs::read(dir.path().join("run.page")).unwrap();
        assert_eq!(&b[0..8], b"WARNRPG1".map(|c| c).as_slice(), "magic");
        assert_eq!(u64::from(b[8]), LAYOUT);
        assert_eq!((b[16], b[20]), (3, 2));
        assert_eq!((b[32], b[36]), (3, 2));
        assert_eq!(&b[40..48], &65536u64.to_le_bytes());
    }

    #[test]
    fn claims_only_rise() {
        let (_d, p) = page();
        assert_eq!(p.claim(), Claim::None);
        p.0.set(HELD, 2 << 32 | 1);
        assert_eq!(p.claim(), Claim::Node { node: 1, fault: 0 });
        assert_eq!(p.cancel(0), Err(Claim::Node { node: 1, fault: 0 }));
        assert_eq!(p.cancel(1), Ok(()));
        assert_eq!(p.claim(), Claim::Cancelled { fault: 1 });
        assert_eq!(p.cancel(1), Ok(()), "twice is once");
    }

    #[test]
    fn only_the_claim_meant_is_withdrawn() {
        for (held, fault, want) in [
            (2 << 32 | 1, 0, Claim::Cancelled { fault: 0 }),
            (2 << 32 | 2, 0, Claim::Node { node: 1, fault: 1 }),
            (0, 0, Claim::None),
            (CANCELLED << 32 | 1, 0, Claim::Cancelled { fault: 0 }),
        ] {
            let (_d, p) = page();
            p.0.set(HELD, held);
            p.withdraw(fault);
            assert_eq!(p.claim(), want, "{held:#x}");
        }
    }
}
