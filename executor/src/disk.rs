//! What room a file system has. Asked by set-up, by a run that goes on and by `doctor`: one that does not tell means the same to all of them.

use nix::sys::statvfs::statvfs;
use std::path::Path;

/// Of a file system, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub size: u64,
    /// What is left for us.
    pub free: u64,
}

impl Room {
    /// What is left, MiB.
    #[must_use]
    pub fn free_mib(&self) -> u64 {
        self.free >> 20
    }
}

/// Of the file system that this path lies on; none where it cannot be asked, or does not tell.
#[must_use]
pub fn room(path: &Path) -> Option<Room> {
    let s = statvfs(path).ok()?;
    of(s.blocks(), s.blocks_available(), s.fragment_size())
}

/// One without a size (a tmpfs without a limit, something remote) has no blocks left either, and is not full.
fn of(blocks: u64, available: u64, block_bytes: u64) -> Option<Room> {
    (blocks > 0).then(|| Room {
        size: blocks.saturating_mul(block_bytes),
        free: available.saturating_mul(block_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_size_is_not_full() {
        let table = [
            ((1024, 512, 4096), Some((4 << 20, 2 << 20))),
            ((1024, 0, 4096), Some((4 << 20, 0))),
            ((0, 0, 4096), None),
            ((0, 7, 4096), None),
            // More than there can be is no panic.
            ((u64::MAX, 1, 4096), Some((u64::MAX, 4096))),
        ];
        for ((blocks, available, bytes), want) in table {
            let got = of(blocks, available, bytes).map(|r| (r.size, r.free));
            assert_eq!(got, want, "{blocks} {available}");
        }
        assert_eq!(of(1024, 512, 4096).map(|r| r.free_mib()), Some(2));
        assert_eq!(room(Path::new("/nowhere/at/all")), None);
        assert!(room(Path::new(env!("CARGO_MANIFEST_DIR"))).is_none_or(|r| r.free <= r.size));
    }
}
