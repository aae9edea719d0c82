//! How late the 10 ms ticker of slot init was: a pure tracker, fed with clock readings by `init.rs`.

use super::Stalls;

/// The ticker's period, ns.
pub(super) const TICK_NS: u64 = 10_000_000;

/// Remembers the longest time a tick came later than it was due.
#[derive(Debug)]
pub(super) struct StallTracker {
    last_ns: u64,
    stalls: Stalls,
}

impl StallTracker {
    pub fn new(now_ns: u64) -> Self {
        StallTracker {
            last_ns: now_ns,
            stalls: Stalls::default(),
        }
    }

    /// A tick ran now.
    pub fn tick(&mut self, now_ns: u64) {
        let late = self.late(now_ns);
        self.last_ns = now_ns;
        self.stalls.ticks += 1;
        self.stalls.longest_ns = self.stalls.longest_ns.max(late);
        self.stalls.total_longest_ns = self.stalls.total_longest_ns.max(late);
    }

    /// The figures since the last take, and starts the next phase. A stall that is still going on counts to both.
    pub fn take(&mut self, now_ns: u64) -> Stalls {
        let late = self.late(now_ns);
        let mut out = self.stalls;
        out.longest_ns = out.longest_ns.max(late);
        out.total_longest_ns = out.total_longest_ns.max(late);
        self.stalls = Stalls {
            longest_ns: 0,
            total_longest_ns: out.total_longest_ns,
            ticks: 0,
        };
        out
    }

    fn late(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.last_ns).saturating_sub(TICK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stall_is_kept_per_phase_and_in_total() {
        let ms = 1_000_000;
        let mut t = StallTracker::new(0);
        t.tick(10 * ms);
        t.tick(60 * ms); // 40 ms late
        t.tick(65 * ms); // early is not late
        let one = t.take(66 * ms);
        assert_eq!(
            (one.longest_ns, one.total_longest_ns, one.ticks),
            (40 * ms, 40 * ms, 3)
        );
        t.tick(80 * ms); // 5 ms late
        let two = t.take(81 * ms);
        assert_eq!(
            (two.longest_ns, two.total_longest_ns, two.ticks),
            (5 * ms, 40 * ms, 1)
        );
        let running = t.take(190 * ms);
        assert_eq!(running.longest_ns, 100 * ms, "a stall that goes on is seen");
    }
}
