//! What starting nodes answered, for the loop of a run: who serves now, and whether the cluster as a whole has started.
//!
//! Called once a tick by [`Drive::turn`]. Asks nobody itself: that is the prober's.

use crate::controller::Seen;
use crate::run::asking::prober::Wanted;
use crate::run::asking::questions::Also;
use crate::run::drive::Drive;
use crate::run::options::NodeStatus;
use warren_model::Phase;

impl Drive<'_, '_> {
    /// The start is over: every node that is not dead serves, and where the target has a `[started]`, a node has said so. Where more of a group are dead than the system
    /// promises to bear, nobody need be left who could say it, and nothing is asked of it.
    pub fn has_started(&self) -> bool {
        let dead = |status| matches!(status, NodeStatus::Dead | NodeStatus::Exited);
        let asks = self.cluster.prepared.target().started.is_some();
        self.all_serve() && (self.said_started || !asks || self.cluster.exceeds_max_dead(dead))
    }

    /// Takes the answers since the last call, and says who is to be asked until the next.
    pub(in crate::run) fn look_for_answers(&mut self) {
        let mut changed = false;
        for (w, answer) in self.prober.answers() {
            let node = &mut self.cluster.nodes[w.node];
            if !node.alive() || node.incarnation() != w.incarnation {
                continue;
            }
            if answer.started && !self.said_started {
                self.said_started = true;
                changed = true;
            }
            if !answer.ready || node.status != NodeStatus::Starting {
                continue;
            }
            changed = true;
            node.status = NodeStatus::Serving;
            if node.role.is_none() {
                node.role.clone_from(&answer.role);
            }
            if let Some(last) = node.incarnations.last_mut() {
                last.ready_ns = Some(answer.t_ns);
                last.role.clone_from(&node.role);
            }
            let (name, role) = (node.name.clone(), node.role.clone());
            self.controller.set_role(&name, role.as_deref());
            self.queue.push_back(Seen::Joined { node: name });
        }
        let asks = self.cluster.prepared.target().started.is_some();
        let also = match asks && self.phase == Phase::Start && !self.said_started {
            true => Also::Started,
            false => Also::Nothing,
        };
        let wanted: Vec<Wanted> = self
            .cluster
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, n)| {
                n.status == NodeStatus::Starting || (also == Also::Started && n.alive())
            })
            .map(|(node, n)| Wanted {
                node,
                incarnation: n.incarnation(),
                addr: n.addr,
            })
            .collect();
        // The last one it waits for may have died: then nobody is asked any more.
        if changed || !wanted.is_empty() || self.asking {
            self.asking = !wanted.is_empty();
            self.prober.want(wanted, also);
        }
    }
}
