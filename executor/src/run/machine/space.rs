//! Whether the disk that the nodes of a run write to has filled up: what they did then says nothing about them.
//!
//! Asked ten times a second while a run lasts (a node that starts again may empty what filled it) and once at its end. Looks only; a target that needs more room is the user's to make smaller.

use crate::disk::{self, Room};
use std::path::Path;

/// Less than this is full: the last write that fitted left a rest.
const REST: u64 = 1 << 20;

/// Why a run on this disk is void; none while there is room.
pub(in crate::run) fn full(root: &Path) -> Option<String> {
    why(disk::room(root)?)
}

fn why(room: Room) -> Option<String> {
    (room.free < REST).then(|| {
        format!(
            "the disk of the nodes' data is full ({} MiB): have the target write less (shorter runs, smaller logs and segments in its \
             configuration)",
            room.size >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_by_what_is_free() {
        let of = |free| Room {
            size: 2 << 30,
            free,
        };
        for (free, want) in [(0, true), (4096, true), (2 << 20, false)] {
            assert_eq!(why(of(free)).is_some(), want, "{free}");
        }
        assert!(why(of(0)).unwrap().contains("2048 MiB"));
        assert_eq!(full(Path::new("/nowhere/at/all")), None);
    }
}
