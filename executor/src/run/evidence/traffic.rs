//! How much of the nodes' traffic their agents see: what the kernel carried between GO and the end of the test, beside what the send and receive hooks
//! counted meanwhile. Network code that is not Java's goes past the hooks, and faults cannot be placed there.
//!
//! Asked by [`Flow`] where a run's options want it (`warren doctor TARGET`), for runs without faults. It decides nothing.

use crate::link::Word;
use crate::run::options::RunError;
use crate::run::phases::flow::Flow;
use std::net::Ipv4Addr;
use warren_model::{Carried, NodeTraffic};

impl Flow<'_, '_, '_> {
    /// From now on the kernel counts, and what the agents counted so far is left out.
    pub(in crate::run) fn count_traffic(&mut self) -> Result<(), RunError> {
        if !self.drive.cluster.options.traffic {
            return Ok(());
        }
        let cluster = &self.drive.cluster;
        let addrs: Vec<Ipv4Addr> = cluster.nodes.iter().map(|n| n.addr).collect();
        let counting = cluster.slot.count_traffic(&addrs);
        counting.map_err(|e| RunError::Slot(e.to_string()))?;
        self.product.traffic = self.seen();
        Ok(())
    }

    /// What was seen and carried since [`Flow::count_traffic`].
    pub(in crate::run) fn traffic(&mut self) -> Result<(), RunError> {
        if !self.drive.cluster.options.traffic {
            return Ok(());
        }
        let counted = self.drive.cluster.slot.traffic();
        let counted = counted.map_err(|e| RunError::Slot(e.to_string()))?;
        let now = self.seen();
        let nodes = self.product.traffic.iter_mut().zip(now).zip(counted);
        for ((node, now), carried) in nodes {
            let since = |before: Carried, now: Carried, payload| Carried {
                seen: now.seen.saturating_sub(before.seen),
                carried: payload,
            };
            node.sent = since(node.sent, now.sent, carried.sent.payload());
            node.received = since(node.received, now.received, carried.received.payload());
        }
        Ok(())
    }

    /// What the agents' hooks counted since their processes began.
    fn seen(&self) -> Vec<NodeTraffic> {
        let nodes = self.drive.cluster.nodes.iter();
        let seen = |bytes| Carried {
            seen: bytes,
            carried: 0,
        };
        nodes
            .map(|n| NodeTraffic {
                node: n.name.clone(),
                sent: seen(n.page.word(Word::BytesSent)),
                received: seen(n.page.word(Word::BytesReceived)),
            })
            .collect()
    }
}
