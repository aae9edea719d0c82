//! Cuts of one run: put in force, ended, counted up as kernel rules and as tables of the agents.
//!
//! Asked by the loop when the controller says so, by the phases that heal, and by a prefix snapshot, whose rules are in force before anything
//! goes on. It decides neither what is cut nor when.

use crate::link::CutMode;
use crate::run::RunError;
use crate::run::nodes::cluster::Cluster;
use crate::slot::CutRules;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use warren_model::constraints::OpenCut;
use warren_model::{CutHow, CutWay, NodeName};

/// A cut in force.
#[derive(Clone, Debug)]
pub(in crate::run) struct CutNow {
    pub how: CutHow,
    pub way: CutWay,
    pub cut: OpenCut,
    pub since: u64,
}

/// A cut that has ended.
#[derive(Clone, Debug)]
pub(in crate::run) struct CutEnded {
    pub cut: OpenCut,
    pub since: u64,
    pub until: u64,
}

/// All cuts of a run.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Cuts {
    /// That of a partition: there is one at a time.
    pub open: Option<CutNow>,
    /// Those of partitions that are over.
    pub ended: Vec<CutEnded>,
    /// Nodes, by place, that crashed as machines do, and since when, ns: no packet comes or goes.
    pub machine: BTreeMap<usize, u64>,
    /// The longest of those that are over, ns.
    machine_longest: u64,
}

impl Cuts {
    /// The longest that is over, of either kind, ns.
    #[must_use]
    pub fn longest(&self) -> u64 {
        let ended = self.ended.iter().map(|c| c.until.saturating_sub(c.since));
        ended.max().unwrap_or(0).max(self.machine_longest)
    }

    /// The machine cut since then ends now.
    fn machine_over(&mut self, since: u64, now: u64) {
        self.machine_longest = self.machine_longest.max(now.saturating_sub(since));
    }
}

impl Cluster<'_> {
    /// Puts a cut in force; the time since when it is.
    pub fn start_cut(&mut self, how: CutHow, way: CutWay, cut: OpenCut) -> Result<u64, RunError> {
        self.cuts.open = Some(CutNow {
            how,
            way,
            cut,
            since: self.slot.now_ns(),
        });
        let t = match how {
            CutHow::Drop => self.apply_kernel_rules()?,
            CutHow::Throw | CutHow::Lose => self.write_agent_cuts()?,
        };
        if let Some(c) = &mut self.cuts.open {
            c.since = t;
        }
        Ok(t)
    }

    /// Ends the cut, if one is open; machine cuts stay.
    pub fn end_cut(&mut self) -> Result<(), RunError> {
        let Some(c) = self.cuts.open.take() else {
            return Ok(());
        };
        let until = match c.how {
            CutHow::Drop => self.apply_kernel_rules()?,
            CutHow::Throw | CutHow::Lose => self.write_agent_cuts()?,
        };
        self.cuts.ended.push(CutEnded {
            cut: c.cut,
            since: c.since,
            until,
        });
        Ok(())
    }

    /// What the kernel still has to say for nodes that crashed as machines is lost with them: else it would come, and their connections be
    /// closed in order, as soon as they are cut off no more. All of them are dead, and nobody hears of it while they are cut off.
    pub fn forget_machines(&self) -> Result<(), RunError> {
        let dead = self.cuts.machine.keys().map(|i| self.nodes[*i].addr);
        let dead: Vec<Ipv4Addr> = dead.collect();
        if dead.is_empty() {
            return Ok(());
        }
        self.slot
            .abort_orphans(&dead)
            .map_err(|e| RunError::Slot(e.to_string()))
    }

    /// Drops (or no longer drops) every packet of a node.
    pub fn machine_cut(&mut self, i: usize, on: bool) -> Result<(), RunError> {
        let now = self.slot.now_ns();
        if on {
            if self.cuts.machine.contains_key(&i) {
                return Ok(());
            }
            self.cuts.machine.insert(i, now);
        } else {
            let Some(since) = self.cuts.machine.get(&i).copied() else {
                return Ok(());
            };
            self.forget_machines()?;
            self.cuts.machine.remove(&i);
            self.cuts.machine_over(since, now);
        }
        self.apply_kernel_rules().map(drop)
    }

    /// Ends all machine cuts.
    pub fn end_machine_cuts(&mut self) -> Result<(), RunError> {
        if self.cuts.machine.is_empty() {
            return Ok(());
        }
        self.forget_machines()?;
        let now = self.slot.now_ns();
        for since in std::mem::take(&mut self.cuts.machine).into_values() {
            self.cuts.machine_over(since, now);
        }
        self.apply_kernel_rules().map(drop)
    }

    fn apply_kernel_rules(&self) -> Result<u64, RunError> {
        self.slot
            .cut(&self.kernel_rules())
            .map_err(|e| RunError::Slot(e.to_string()))
    }

    /// The kernel rules of the cuts in force.
    pub fn kernel_rules(&self) -> CutRules {
        let mut rules = CutRules::default();
        if let Some(c) = self.cuts.open.as_ref().filter(|c| c.how == CutHow::Drop) {
            let addrs = |side: &BTreeSet<NodeName>| -> Vec<Ipv4Addr> {
                self.nodes
                    .iter()
                    .filter(|n| side.contains(&n.name))
                    .map(|n| n.addr)
                    .collect()
            };
            let (side, other) = (addrs(&c.cut.side), addrs(&c.cut.other));
            if c.way != CutWay::From {
                rules = rules.and(CutRules::one_way(&side, &other));
            }
            if c.way != CutWay::To {
                rules = rules.and(CutRules::one_way(&other, &side));
            }
        }
        for i in self.cuts.machine.keys() {
            rules = rules.and(CutRules::machine(self.nodes[*i].addr));
        }
        rules
    }

    /// The agents' tables of cuts from the cut in force.
    fn write_agent_cuts(&self) -> Result<u64, RunError> {
        let mode = self.cuts.open.as_ref().and_then(|c| match c.how {
            CutHow::Drop => None,
            CutHow::Throw => Some(CutMode::Throw),
            CutHow::Lose => Some(CutMode::Lose),
        });
        for from in &self.nodes {
            let mut table = Vec::new();
            if let (Some(c), Some(mode)) = (&self.cuts.open, mode) {
                for to in &self.nodes {
                    if crate::controller::cuts_link(&c.cut, c.way, &from.name, &to.name) {
                        table.push((to.addr, mode));
                    }
                }
            }
            from.page
                .write_cuts(&table)
                .map_err(|e| RunError::io(format!("cuts of {}", from.name), e))?;
        }
        Ok(self.slot.now_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_cut_is_of_either_kind() {
        let mut cuts = Cuts::default();
        assert_eq!(cuts.longest(), 0);
        cuts.ended.push(CutEnded {
            cut: OpenCut {
                side: BTreeSet::new(),
                other: BTreeSet::new(),
            },
            since: 5,
            until: 12,
        });
        assert_eq!(cuts.longest(), 7);
        cuts.machine_over(10, 30);
        cuts.machine_over(10, 11);
        assert_eq!(cuts.longest(), 20);
    }
}
