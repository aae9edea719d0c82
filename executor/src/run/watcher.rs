//! What came of the awaited point on each node, and when anything of interest came last: read from the pages while a fault is
//! awaited. Counts nothing itself: the agents do, entry by entry of their plans.

use crate::link::{Arrivals, Word};
use crate::run::nodes::cluster::Cluster;
use warren_model::{At, EventFlags, Interval, NodeName, Phase};

/// How long a record may stay half-written before it is passed over.
const HOLE_NS: u64 = 50_000_000;

/// Reading positions in the pages of all nodes.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    cursors: Vec<Cursor>,
    /// Nodes that wait for the fault last looked for, and what came there.
    pub entries: Vec<(NodeName, Arrivals)>,
    pub last_event: u64,
}

#[derive(Debug, Default)]
struct Cursor {
    events: u64,
    hole_since: u64,
    /// Points that the node had made at the last look, recorded or not.
    made: u64,
}

impl Watcher {
    /// Looks once. `fault` is the index of the awaited fault.
    pub fn look(&mut self, cluster: &Cluster<'_>, fault: usize, at: Option<&At>, now: u64) {
        self.cursors
            .resize_with(cluster.nodes.len(), Cursor::default);
        self.entries.clear();
        let interval = Interval::new(
            at.map_or(Phase::Test, At::phase),
            u16::try_from(fault).unwrap_or(u16::MAX),
        );
        for (i, node) in cluster.nodes.iter().enumerate() {
            let cursor = &mut self.cursors[i];
            let made = node.page.word(Word::EventsNext);
            // Beyond its records a node is seen to do something, and no more: whoever is still at work is not silent.
            let room = node.page.event_room();
            if made > room && made > cursor.made {
                self.last_event = self.last_event.max(now);
            }
            cursor.made = made;
            let (events, next, _) = node.page.events_since(cursor.events, true);
            let stuck = next == cursor.events && next < made.min(room) && events.is_empty();
            if stuck {
                if cursor.hole_since == 0 {
                    cursor.hole_since = now;
                } else if now.saturating_sub(cursor.hole_since) > HOLE_NS {
                    cursor.events = next + 1;
                    cursor.hole_since = 0;
                }
            } else {
                cursor.events = next;
                cursor.hole_since = 0;
            }
            for e in &events {
                if !e.flags.has(EventFlags::BACKGROUND) {
                    self.last_event = self.last_event.max(e.t_ns);
                }
            }
            if let Some(came) = node.page.arrivals(fault, interval) {
                self.entries.push((node.name.clone(), came));
            }
        }
    }
}
