//! What clusters take of the machine's memory, from their description, and what is free.
//!
//! Called by the snapshots, by `doctor` and, through `Runner`, when the number of slots is chosen. It limits nothing itself.

use crate::run::machine::cgroup::{self, Limit};
use crate::target::Target;
use std::path::Path;

/// What a small JVM takes beside its heap: classes, code, threads, the agent. ZooKeeper's servers have 60 to 80 MiB.
const BESIDE_HEAP: u64 = 96 << 20;
/// Heap of the workload's JVM.
pub(in crate::run) const WORKLOAD_HEAP: &str = "128m";

/// The memory that Warren and its clusters may take. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Of the machine, or of the control group's limit where that is less.
    pub total: u64,
    pub free: u64,
    /// A control group's limit leaves less than the machine has.
    pub limited: bool,
}

impl Memory {
    /// As it is now; none where /proc/meminfo does not tell.
    #[must_use]
    pub fn now() -> Option<Self> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let limit = cgroup::limit(&read("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
        Self::of(&read("/proc/meminfo"), limit)
    }

    fn of(meminfo: &str, limit: Option<Limit>) -> Option<Self> {
        let field = |key: &str| -> Option<u64> {
            let line = meminfo.lines().find_map(|l| l.strip_prefix(key))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kib << 10)
        };
        let (total, free) = (field("MemTotal:")?, field("MemAvailable:")?);
        let limit = limit.filter(|l| l.left < free);
        Some(Memory {
            total: limit.map_or(total, |l| total.min(l.most)),
            free: limit.map_or(free, |l| l.left),
            limited: limit.is_some(),
        })
    }
}

/// Free bytes, if the machine tells.
pub(in crate::run) fn free_memory() -> Option<u64> {
    Memory::now().map(|m| m.free)
}

/// Clusters that fit into so many free bytes, at least one: half of the free memory is left to snapshots and to files in slots.
pub(in crate::run) fn clusters_in(free: u64, target: &Target) -> usize {
    let nodes: u64 = target
        .groups
        .iter()
        .map(|g| g.count as u64 * (bytes(&g.heap) + BESIDE_HEAP))
        .sum();
    let cluster = nodes + bytes(WORKLOAD_HEAP) + BESIDE_HEAP;
    usize::try_from(free / 2 / cluster)
        .unwrap_or(usize::MAX)
        .max(1)
}

/// A size as `heap` has it: digits and k, m or g. The loader refuses all else.
fn bytes(heap: &str) -> u64 {
    let (digits, unit) = heap.split_at(heap.len().saturating_sub(1));
    let shift = match unit {
        "g" => 30,
        "m" => 20,
        _ => 10,
    };
    digits
        .parse::<u64>()
        .unwrap_or(0)
        .saturating_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, want) in [("64k", 64 << 10), ("48m", 48 << 20), ("2g", 2 << 30)] {
            assert_eq!(bytes(text), want, "{text}");
        }
        assert!(free_memory().unwrap() > 0);
    }

    #[test]
    fn a_limit_counts_where_it_leaves_less_than_the_machine() {
        let info = "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n";
        let gib = |n: u64| n << 30;
        let limit = |most, left| Some(Limit { most, left });
        for (limit, total, free, limited) in [
            (None, 8, 4, false),
            (limit(gib(6), gib(5)), 8, 4, false),
            (limit(gib(6), gib(3)), 6, 3, true),
            (limit(gib(64), gib(2)), 8, 2, true),
        ] {
            let (total, free) = (gib(total), gib(free));
            let want = Memory {
                total,
                free,
                limited,
            };
            assert_eq!(Memory::of(info, limit), Some(want));
        }
        assert_eq!(Memory::of("", None), None);
    }

    #[test]
    fn so_many_clusters_fit() {
        let targets = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
        let target = crate::target::load_target(&targets.join("canary"), None, false, &[]).unwrap();
        // Three nodes of 48 + 96 MiB, the workload of 128 + 96: 656 MiB, in half of what is free.
        for (free_mib, want) in [
            (0, 1),
            (1300, 1),
            (2 * 656, 1),
            (4 * 656, 2),
            (20 << 10, 15),
        ] {
            assert_eq!(clusters_in(free_mib << 20, &target), want, "{free_mib} MiB");
        }
    }
}
