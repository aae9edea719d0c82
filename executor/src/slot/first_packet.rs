//! How long after a heal the first packet got through: a pure tracker over counter rules.
//!
//! Called by `init.rs`: `change` when rules change, `counts` with the counters read at each tick. A healed direction gets
//! a counter rule where its drop rule was; TCP's retransmission timer makes the first packet come late.

use super::traffic::Counted;
use super::{Cut, Healed};

/// Reading counters every tick ends after this long: who sends nothing for so long has nothing to send.
const WATCH_NS: u64 = 30_000_000_000;

#[derive(Debug, Default)]
pub(super) struct HealWatch {
    /// Cuts in force.
    open: Vec<Cut>,
    /// Healed directions not yet seen, in the order of their counter rules.
    pending: Vec<Healed>,
    /// Seen, cut again, or given up.
    done: Vec<Healed>,
}

impl HealWatch {
    /// What the counter rules must be when `cuts` replaces the present set.
    pub fn counters(&self, cuts: &[Cut]) -> Vec<Cut> {
        let waiting = self.pending.iter().map(|h| h.cut);
        waiting
            .chain(self.open.iter().copied())
            .filter(|c| !cuts.contains(c))
            .collect()
    }

    /// The set was replaced, with the counter rules that [`HealWatch::counters`] named; their counts start at 0.
    pub fn change(&mut self, cuts: &[Cut], now_ns: u64) {
        let (again, waiting): (Vec<_>, Vec<_>) =
            self.pending.drain(..).partition(|h| cuts.contains(&h.cut));
        self.done.extend(again);
        self.pending = waiting;
        for cut in self.open.iter().filter(|c| !cuts.contains(c)) {
            self.pending.push(Healed {
                cut: *cut,
                healed_ns: now_ns,
                first_ns: None,
            });
        }
        self.open = cuts.to_vec();
    }

    /// Whether counters are worth reading now.
    pub fn waits(&self, now_ns: u64) -> bool {
        self.pending
            .iter()
            .any(|h| h.first_ns.is_none() && now_ns < h.healed_ns + WATCH_NS)
    }

    /// What the counter rules counted, in their order.
    pub fn counts(&mut self, counted: &[Counted], now_ns: u64) {
        for (healed, counted) in self.pending.iter_mut().zip(counted) {
            if counted.packets > 0 && healed.first_ns.is_none() {
                healed.first_ns = Some(now_ns);
            }
        }
    }

    /// All heals so far, oldest first.
    pub fn all(&self) -> Vec<Healed> {
        self.done.iter().chain(&self.pending).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn packets(packets: u64) -> Counted {
        Counted { packets, bytes: 0 }
    }

    fn cut(a: u8, b: u8) -> Cut {
        Cut {
            from: Some(Ipv4Addr::new(127, 0, 0, a)),
            to: Some(Ipv4Addr::new(127, 0, 0, b)),
        }
    }

    #[test]
    fn each_healed_direction_gets_its_first_packet_once() {
        let mut w = HealWatch::default();
        w.change(&[cut(1, 2), cut(2, 1)], 10);
        assert!(!w.waits(11) && w.all().is_empty());
        assert_eq!(w.counters(&[cut(2, 1)]), vec![cut(1, 2)]);
        w.change(&[cut(2, 1)], 20);
        assert!(w.waits(21));
        w.counts(&[packets(0)], 25);
        assert_eq!(w.counters(&[]), vec![cut(1, 2), cut(2, 1)]);
        w.change(&[], 30);
        w.counts(&[packets(3), packets(0)], 40);
        w.counts(&[packets(9), packets(1)], 50);
        let want = [
            Healed {
                cut: cut(1, 2),
                healed_ns: 20,
                first_ns: Some(40),
            },
            Healed {
                cut: cut(2, 1),
                healed_ns: 30,
                first_ns: Some(50),
            },
        ];
        assert_eq!(w.all(), want);
        assert!(!w.waits(60));
    }

    #[test]
    fn a_direction_cut_again_before_its_first_packet_has_none() {
        let mut w = HealWatch::default();
        w.change(&[cut(1, 2)], 0);
        w.change(&[], 10);
        assert!(w.counters(&[cut(1, 2)]).is_empty());
        w.change(&[cut(1, 2)], 20);
        w.counts(&[], 30);
        assert_eq!(
            w.all(),
            [Healed {
                cut: cut(1, 2),
                healed_ns: 10,
                first_ns: None
            }]
        );
        w.change(&[], 40);
        assert!(w.waits(41) && !w.waits(40 + WATCH_NS));
    }
}
