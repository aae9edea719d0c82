//! Whether the disk that the nodes of a run write to has filled up: what they did then says nothing about them.
//!
//! Asked ten times a second while a run lasts (a node that starts again may empty what filled it) and once at its end. Looks only; a target that needs more room is the user's to make smaller.

use nix::sys::statvfs::statvfs;
use std::path::Path;

/// Less than this is full: the last write that fitted left a rest.
const REST: u64 = 1 << 20;

/// Why a run on this disk is void; none while there is room.
pub(in crate::run) fn full(root: &Path) -> Option<String> {
    let s = statvfs(root).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(s.fragment_size());
    why(bytes(s.blocks()), bytes(s.blocks_available()))
}

fn why(size: u64, free: u64) -> Option<String> {
    // A file system without a size (overlay of something remote) tells nothing.
    (size > 0 && free < REST).then(|| {
        format!(
            "the disk of the nodes' data is full ({} MiB): have the target write less (shorter runs, smaller logs and segments in its \
             configuration)",
            size >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_by_what_is_free() {
        for (size, free, want) in [
            (2 << 30, 0, true),
            (2 << 30, 4096, true),
            (2 << 30, 2 << 20, false),
            (0, 0, false),
        ] {
            assert_eq!(why(size, free).is_some(), want, "{size} {free}");
        }
        assert!(why(2 << 30, 0).unwrap().contains("2048 MiB"));
        assert_eq!(full(Path::new("/nowhere/at/all")), None);
    }
}
