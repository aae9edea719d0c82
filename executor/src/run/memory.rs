//! What clusters take of the machine's memory, from their description, and what is free.
//!
//! Called by the snapshots and, through `Runner`, when the number of slots is chosen. It limits nothing itself.

use crate::target::Target;

/// What a small JVM takes beside its heap: classes, code, threads, the agent. ZooKeeper's servers have 60 to 80 MiB.
const BESIDE_HEAP: u64 = 96 << 20;
/// Heap of the workload's JVM.
pub(super) const WORKLOAD_HEAP: &str = "128m";

/// MemAvailable, bytes.
pub(super) fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// Clusters that fit into so many free bytes, at least one: half of the free memory is left to snapshots and to files in slots.
pub(super) fn clusters_in(free: u64, target: &Target) -> usize {
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
