//! The faults of the made-up cluster: which point is the awaited one, what a fault does, and what is left to recover from it.
//!
//! Called by the run after each of its points.

use super::{Run, Sim};
use std::collections::BTreeSet;
use warren_model::{
    At, CutWho, EventFlags, Fault, FaultAt, Injected, Kind, Member, NodeName, Phase, Who,
};

/// What a point takes by the clock that faults at a time go by: a fault-free run of three nodes has some 120 of them in its 900 ms.
const MS_A_POINT: u64 = 7;

impl Run<'_> {
    /// Faults that wait for no point.
    pub(super) fn unclaimed(&mut self) {
        while let Some(awaited) = self.asked.faults.get(self.done).filter(|_| !self.refused) {
            let due = match &awaited.at {
                At::AtOnce => self.phase == Phase::Test,
                At::Joined(n) => self.joined.iter().any(|i| self.sim.nodes[*i] == *n),
                At::After(ms) => {
                    let since = self.injected.last().map_or(self.go, |i| i.t_done);
                    let points = self.t.saturating_sub(since) / 1_000;
                    self.phase == Phase::Test && points * MS_A_POINT >= u64::from(*ms)
                }
                At::Exact(_) | At::Pattern(_) => false,
            };
            if !due {
                return;
            }
            let at = awaited.at.clone();
            self.fault(None, at);
        }
    }

    pub(super) fn inject(&mut self, index: usize, node: usize, what: &str, peer: Option<u32>) {
        let Some(awaited) = self.asked.faults.get(self.done) else {
            return;
        };
        let event = self.trace.events[index].clone();
        let point = self.trace.point(&event);
        let hit = match &awaited.at {
            At::Exact(p) => *p == point,
            At::Pattern(p) => {
                let alike = self.trace.fits(p, &event)
                    && p.phase == point.phase
                    && p.node.as_ref().is_none_or(|n| *n == point.node)
                    && p.except.as_ref() != Some(&point.node);
                alike && {
                    let n = self.patterns.entry((self.done, event.node)).or_default();
                    *n += 1;
                    *n == p.n
                }
            }
            At::AtOnce | At::Joined(_) | At::After(_) => false,
        };
        if hit {
            self.fault(Some((index, node, what, peer)), At::Exact(point));
        }
    }

    /// The executor asks the constraints again: what they forbid ends the sequence.
    fn fault(&mut self, met: Option<(usize, usize, &str, Option<u32>)>, place: At) {
        if self.refused {
            return;
        }
        let awaited = self.asked.faults[self.done].clone();
        let (index, node, peer) = (met.map(|m| m.0), met.map(|m| m.1), met.and_then(|m| m.3));
        let what = met.map_or("at once", |m| m.2);
        let at = |sim: &Sim, n: &NodeName| sim.nodes.iter().position(|x| x == n).unwrap();
        let resolve = |run: &Self, who: &Who| match who {
            Who::Executing => node.unwrap(),
            Who::Node(n) => at(run.sim, n),
            Who::FirstDead => run.first_dead(),
            Who::Role(r) => {
                assert_eq!(r, "leader");
                run.leader
            }
        };
        let name = |run: &Self, i: usize| Who::Node(run.sim.nodes[i].clone());
        let asked = match awaited.fault.clone() {
            Fault::Crash { who, style } => Fault::Crash {
                who: name(self, resolve(self, &who)),
                style,
            },
            Fault::Reboot { who } => Fault::Reboot {
                who: name(self, resolve(self, &who)),
            },
            Fault::PartitionStart { how, who } => Fault::PartitionStart {
                how,
                who: self.resolve_cut(&who, node.unwrap_or_default(), peer),
            },
            other => other,
        };
        let executing = node.map(|n| self.sim.nodes[n].clone());
        let shape = self.sim.shape();
        match shape.apply(&self.state, executing.as_ref(), &asked) {
            Ok(next) => self.state = next,
            Err(_) => {
                self.refused = true;
                return;
            }
        }
        let fault = match &awaited.fault {
            Fault::Crash { who, style } => {
                let n = resolve(self, who);
                self.dead.insert(n);
                self.deaths.push(n);
                if !self.joined.remove(&n) {
                    self.gap = Some(n);
                }
                if self.sim.deep && n == self.leader && self.exposed > 0 {
                    self.lost = true;
                }
                self.recovery.retain(|(node, ..)| *node != n);
                self.marks.push(format!("crash {what}"));
                if n == self.leader {
                    for f in 0..self.sim.nodes.len() {
                        self.recovery.push((f, "follow.lost", Kind::Send));
                    }
                } else {
                    self.recovery
                        .push((self.leader, "lead.dropPeer", Kind::Delete));
                    self.recovery
                        .push((self.leader, "resync.apply", Kind::Write));
                    if what == "log.force" {
                        self.recovery
                            .push((self.leader, "resync.truncate", Kind::Truncate));
                    }
                }
                Fault::Crash {
                    who: name(self, n),
                    style: *style,
                }
            }
            Fault::Reboot { who } => {
                let n = resolve(self, who);
                self.dead.remove(&n);
                self.deaths.retain(|d| *d != n);
                if self.sim.bug && self.truncating > 0 {
                    self.failed = true;
                }
                self.marks.push(format!("reboot {what}"));
                self.recovery.push((n, "boot.readEpoch", Kind::Create));
                let stores = if self.sim.deep {
                    Kind::Write
                } else {
                    Kind::Force
                };
                self.recovery.push((n, "join.storeEpoch", stores));
                self.recovery.push((n, "join.entries", Kind::Force));
                Fault::Reboot { who: name(self, n) }
            }
            Fault::PartitionStart { how, who } => {
                let who = self.resolve_cut(who, node.unwrap_or_default(), peer);
                let open = self.sim.shape().sides(&who).unwrap();
                let set = |s: &BTreeSet<NodeName>| s.iter().map(|n| at(self.sim, n)).collect();
                self.cut = Some((set(&open.side), set(&open.other)));
                self.marks.push(format!("cut {what}"));
                Fault::PartitionStart { how: *how, who }
            }
            Fault::PartitionStop => {
                self.cut = None;
                for f in 0..self.sim.nodes.len() {
                    self.recovery.push((f, "follow.reconnect", Kind::Send));
                }
                Fault::PartitionStop
            }
            Fault::Stall { .. } => {
                self.marks.push(format!("stall {what}"));
                awaited.fault.clone()
            }
        };
        if let Some(index) = index {
            self.trace.events[index].flags.0 |= EventFlags::MATCHED;
        }
        let fault = FaultAt { at: place, fault };
        self.matched.faults.push(fault.clone());
        self.t += 1_000;
        self.injected.push(Injected {
            index: self.done,
            matched: fault,
            event: index,
            t_reached: self.t - 1_000,
            t_done: self.t,
            late: false,
            drift: None,
            kill: None,
        });
        self.done += 1;
    }

    fn first_dead(&self) -> usize {
        self.deaths.first().copied().unwrap_or_default()
    }

    fn resolve_cut(&self, who: &CutWho, node: usize, peer: Option<u32>) -> CutWho {
        let one = |m: &Member| match m {
            Member::Executing => Member::Node(self.sim.nodes[node].clone()),
            Member::Peer => {
                let text = self.trace.text(peer).unwrap();
                let i = crate::search::peers::node_of(text, &self.sim.nodes).unwrap();
                Member::Node(self.sim.nodes[i].clone())
            }
            other => other.clone(),
        };
        CutWho {
            cut: who.cut.iter().map(one).collect(),
            from: who.from.iter().map(one).collect(),
            bridge: who.bridge.as_ref().map(one),
            way: who.way,
        }
    }
}
