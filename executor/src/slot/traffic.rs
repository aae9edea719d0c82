//! How much the nodes of a slot say and hear, counted by the kernel: what `warren doctor TARGET` sets beside what the agents saw.
//!
//! Asked by the run (`run/evidence/traffic.rs`) through [`Slot`]; [`rules`] and [`of`] are what slot init does with it. Counter rules stand where drop rules would: they
//! are gone when a cut begins or ends, so this is for runs without any. It knows of no agent.

use super::host::Slot;
use super::started::PATIENCE;
use super::wire::{Reply, Request};
use super::{Cut, CutRules, SlotError};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// IPv4 and TCP headers of a segment with time stamps, which Linux puts into each but a reset.
const HEADERS: u64 = 20 + 20 + 12;

/// What a counter rule met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub packets: u64,
    /// With their IP headers.
    pub bytes: u64,
}

impl Counted {
    /// Bytes without headers. A connection's first two packets have 8 bytes of header more, a reset 12 less.
    #[must_use]
    pub fn payload(self) -> u64 {
        self.bytes.saturating_sub(self.packets * HEADERS)
    }
}

/// What left an address, and what reached it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub sent: Counted,
    pub received: Counted,
}

/// Two counter rules for each address.
pub(super) fn rules(addrs: &[Ipv4Addr]) -> Vec<Cut> {
    let both = |addr: &Ipv4Addr| CutRules::machine(*addr).cuts;
    addrs.iter().flat_map(both).collect()
}

/// What [`rules`] counted.
pub(super) fn of(counted: &[Counted]) -> Vec<Traffic> {
    let (pairs, _) = counted.as_chunks::<2>();
    let traffic = |[sent, received]: &[Counted; 2]| Traffic {
        sent: *sent,
        received: *received,
    };
    pairs.iter().map(traffic).collect()
}

impl Slot {
    /// Counts from now on what leaves and reaches each of these addresses, until something is cut or healed.
    ///
    /// # Errors
    /// Where [`Slot::kernel_cuts`] says no.
    pub fn count_traffic(&self, addrs: &[Ipv4Addr]) -> Result<(), SlotError> {
        let doing = || "counting the nodes' traffic".to_string();
        let request = Request::CountTraffic(addrs.to_vec());
        self.answer(request, &doing, PATIENCE, |reply| {
            matches!(reply, Reply::CountingTraffic).then_some(())
        })
    }

    /// What was counted since, in the order asked.
    ///
    /// # Errors
    /// As [`Slot::count_traffic`].
    pub fn traffic(&self) -> Result<Vec<Traffic>, SlotError> {
        let doing = || "asking for the nodes' traffic".to_string();
        self.answer(Request::Traffic, &doing, PATIENCE, |reply| match reply {
            Reply::Traffic(traffic) => Some(traffic),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_two_rules_and_their_counts_come_back_to_it() {
        let addrs = [Ipv4Addr::new(127, 0, 0, 11), Ipv4Addr::new(127, 0, 0, 12)];
        let rules = rules(&addrs);
        assert_eq!(rules.len(), 4);
        assert_eq!((rules[2].from, rules[2].to), (Some(addrs[1]), None));
        assert_eq!((rules[3].from, rules[3].to), (None, Some(addrs[1])));
        let counted: Vec<Counted> = (1..=4)
            .map(|packets| Counted {
                packets,
                bytes: packets * 152,
            })
            .collect();
        let traffic = of(&counted);
        assert_eq!(traffic.len(), 2);
        assert_eq!(
            (traffic[1].sent.packets, traffic[1].received.packets),
            (3, 4)
        );
        assert_eq!(traffic[1].received.payload(), 400);
    }

    #[test]
    fn packets_without_payload_are_nothing_carried() {
        let bare = Counted {
            packets: 10,
            bytes: 520,
        };
        assert_eq!(bare.payload(), 0);
        let resets = Counted {
            packets: 10,
            bytes: 400,
        };
        assert_eq!(resets.payload(), 0);
    }
}
