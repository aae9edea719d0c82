//! The start of a cluster, and why one did not come up, in words that a user can act on: who ended or does not serve, what it said,
//! what was asked of it.
//!
//! Called by the flow of a run, by what is made once and by the making of snapshots.

use crate::controller::make_plans;
use crate::link::Command;
use crate::run::asking::questions::Also;
use crate::run::drive::Drive;
use crate::run::evidence::ended;
use crate::run::evidence::last_words;
use crate::run::made_once::hot;
use crate::run::nodes::cluster::Node;
use crate::run::nodes::spawn::STDOUT;
use crate::run::options::{NodeStatus, RunError};
use crate::run::phases::flow::{ASK, Flow, Went};
use crate::target::{Probe, Target};
use std::collections::BTreeMap;
use warren_model::{FaultSequence, NodeName, Phase, StartState};

/// How a cluster's processes are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum How {
    /// One by one, as children of slot init.
    Each,
    /// As one tree, which can be dumped.
    Tree,
}

/// A start: how, and the last so many nodes of each group, never more than may be dead, that come once the others serve: so another
/// node leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Boot {
    pub how: How,
    pub late: usize,
}

impl Boot {
    /// All at once, as children of slot init.
    pub const EACH: Boot = Boot {
        how: How::Each,
        late: 0,
    };

    /// Of the cluster that is dumped as the snapshot of this number, counted from 1.
    pub fn of_snapshot(number: u8) -> Self {
        Self {
            how: How::Tree,
            late: usize::from(number.saturating_sub(1)),
        }
    }

    /// Of a run where there are no snapshots. A snapshot's sequence has its nodes started in the order in which that snapshot's were, so that
    /// the same node leads, and each client is at a server of the same role. Not where a fault is to come meanwhile: it could be for a node
    /// that is not there yet, or take the first ones their majority.
    pub fn without_snapshots(sequence: &FaultSequence) -> Self {
        match sequence.start {
            StartState::Snapshot(number) if !sequence.needs_start() => Self {
                late: Self::of_snapshot(number).late,
                ..Self::EACH
            },
            _ => Self::EACH,
        }
    }
}

/// Nodes ended by themselves before the cluster served, and so it never will: any of them where no fault was asked for, else more
/// than a group may lose.
pub(in crate::run) fn cannot_serve(d: &Drive<'_, '_>, whole: bool) -> bool {
    let ended = |status| status == NodeStatus::Exited;
    let any = || d.cluster.nodes.iter().any(|n| ended(n.status));
    d.cluster.exceeds_max_dead(ended) || (whole && any())
}

impl Flow<'_, '_, '_> {
    /// Launches everything and waits until every node serves, the cluster has started and the clients are connected.
    pub fn boot(&mut self, sequence: &FaultSequence, boot: Boot) -> Result<Went, RunError> {
        let names: Vec<NodeName> = self.names();
        let roles = self.drive.cluster.prepared.target().dictionary.role_names();
        let plans = make_plans(&sequence.faults, &names, &roles, &BTreeMap::new(), true);
        self.write_plans(&plans)?;
        self.drive.enter(Phase::Start);
        let own = self.drive.patience_ends();
        let late = self.drive.cluster.last_of_groups(boot.late);
        let first: Vec<usize> = (0..names.len()).filter(|i| !late.contains(i)).collect();
        let mut until = own.min(self.drive.deadline);
        match boot.how {
            How::Tree => {
                self.drive.cluster.launch(&first, true)?;
                // Each of the two may compile ahead for so long before its program's first line.
                let waves = 1 + u64::from(!late.is_empty());
                until = (own + waves * hot::LONGEST_NS).min(self.drive.deadline);
            }
            How::Each => {
                self.drive.cluster.spawn_nodes(&first)?;
                self.drive.cluster.spawn_workload()?;
            }
        }
        let whole = sequence.faults.is_empty();
        // It has started, or never will.
        let settled = |d: &Drive<'_, '_>| {
            d.has_started() || d.workload_gone.is_some() || cannot_serve(d, whole)
        };
        if !late.is_empty() {
            self.drive.until(until, settled)?;
            match boot.how {
                How::Tree => self.drive.cluster.launch(&late, false)?,
                How::Each => self.drive.cluster.spawn_nodes(&late)?,
            }
        }
        let ready = self.drive.until(until, settled)?;
        if let Some((node, why)) = self.drive.cluster.refusal() {
            return Err(RunError::AgentRefused { node, why });
        }
        self.product.record.times.start = self.lap();
        self.stalls();
        if self.drive.workload_gone.is_none() && cannot_serve(self.drive, whole) {
            return Ok(self.ended_at_start());
        }
        if !ready || !self.drive.has_started() {
            return Ok(self.not_ready());
        }
        let went = self.command(Command::Connect, Phase::Setup)?;
        // What comes later would ask for tables and files that are not there.
        match self.product.record.set_up_failed() {
            true => Ok(Went::Ends),
            false => Ok(went),
        }
    }

    /// Nodes that ended before the cluster ever served: nothing more will come, and their own last words say why.
    pub(in crate::run) fn ended_at_start(&mut self) -> Went {
        let said: Vec<String> = self
            .drive
            .exits
            .iter()
            .filter_map(|e| {
                let node = self.drive.cluster.nodes.iter().find(|n| n.name == e.node)?;
                let system = e.signal.and_then(ended::killed_by_the_system);
                let how = system.unwrap_or_else(|| ended::how(e.status, e.signal));
                let words = last_words::of(&node.dir.join(STDOUT), 4);
                Some(format!(
                    "{} ended by itself with {how} before it served; its last lines:\n    {}",
                    e.node,
                    words.replace('\n', "\n    ")
                ))
            })
            .collect();
        self.missed("start", &said.join("\n  "))
    }

    /// Nodes that live and do not serve in time, or a cluster of which no node says in time that it has started.
    pub(in crate::run) fn not_ready(&mut self) -> Went {
        let target = self.drive.cluster.prepared.target();
        if let Some(probe) = target.started.as_ref().filter(|_| self.drive.all_serve()) {
            let why = format!(
                "every node serves, and none says that the cluster has started\n  {}",
                asked(target, "started", probe)
            );
            return self.missed("start", &why);
        }
        let starting: Vec<&Node> = self
            .drive
            .cluster
            .nodes
            .iter()
            .filter(|n| n.status == NodeStatus::Starting)
            .collect();
        let addrs: Vec<_> = starting.iter().map(|n| n.addr).collect();
        let cluster = &*self.drive.cluster;
        // Asked once more, for what they answer: an `expect` that does not fit shows by it.
        let answers = cluster
            .questions
            .ask(cluster.slot, &addrs, Also::Nothing, ASK)
            .unwrap_or_default();
        let waiting: Vec<String> = starting
            .iter()
            .enumerate()
            .map(|(i, n)| {
                let answer = answers.get(i).map_or("nothing", |a| a.said.as_str());
                let log = last_words::of(&n.dir.join(STDOUT), 1);
                format!("{} (answers: {answer}; log: {})", n.name, log.trim())
            })
            .collect();
        let target = cluster.prepared.target();
        let ready = target.ready_of(starting.first().map_or(0, |n| n.spec.group));
        let why = format!(
            "not serving: {}\n  {}",
            waiting.join(", "),
            asked(target, "ready", ready)
        );
        self.missed("start", &why)
    }
}

/// What was asked in vain, for messages.
fn asked(target: &Target, section: &str, probe: &Probe) -> String {
    format!(
        "asked as [{section}] of {} says: port {}, send `{}`, expect `{}`, for {} ms",
        target.toml_path().display(),
        probe.port,
        probe.send,
        probe.expect,
        target.ready.timeout.as_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_run_starts_as_its_snapshot_was_started() {
        let crash = |phase: &str| {
            format!(
                "[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\nnode = \"a\"\nkind = \"write\"\nphase = \"{phase}\"\n"
            )
        };
        for (start, faults, late) in [
            ("cold", String::new(), 0),
            ("snapshot-1", String::new(), 0),
            ("snapshot-3", String::new(), 2),
            ("snapshot-3", crash("test"), 2),
            ("snapshot-3", crash("start"), 0),
        ] {
            let text = format!("version = 1\ntarget = \"t\"\nstart = \"{start}\"\n{faults}");
            let sequence = FaultSequence::from_text(&text).unwrap();
            let boot = Boot::without_snapshots(&sequence);
            assert_eq!((boot.how, boot.late), (How::Each, late), "{text}");
        }
        let third = Boot::of_snapshot(3);
        assert_eq!((third.how, third.late), (How::Tree, 2));
    }
}
