//! After the test: cuts end and it is asked whether what is left serves; then the dead are started, and the whole is asked.
//!
//! Called by the order of a run (`flow`). What is asked is the workload's business, and what the answers mean is feedback's.

use crate::link::Command;
use crate::run::asking::questions::Also;
use crate::run::drive::Drive;
use crate::run::nodes::cluster::lives;
use crate::run::options::{NodeStatus, RunError};
use crate::run::phases::flow::{Flow, MS, Went};
use std::collections::BTreeSet;
use warren_model::{Instability, LogMoment, Phase};

impl Flow<'_, '_, '_> {
    fn dead(&self) -> Vec<usize> {
        (0..self.drive.cluster.nodes.len())
            .filter(|i| !self.drive.cluster.nodes[*i].alive())
            .collect()
    }

    /// Cuts healed, nobody held, the dead left dead: it must serve, unless more are dead than the target promises to bear, or were in an
    /// outage.
    pub(in crate::run) fn degraded(&mut self) -> Result<Went, RunError> {
        self.drive.enter(Phase::Degraded);
        self.drive.cluster.end_cut()?;
        // With nobody dead the healed question is the same one.
        if self.dead().is_empty() || self.beyond() {
            return Ok(Went::On);
        }
        let went = self.command(Command::Degraded, Phase::Degraded)?;
        // A node that ended itself meanwhile is missing too: its exit is judged for itself, and the others owe no service any more.
        self.product.record.degraded_asked = !self.beyond();
        Ok(went)
    }

    /// More nodes are gone, or were in an outage, than the target promises to bear.
    fn beyond(&self) -> bool {
        self.drive.controller.state().beyond
            || self.drive.cluster.exceeds_max_dead(|status| !lives(status))
    }

    /// The dead are rebooted and the cluster becomes stable; every session that can is served.
    pub(in crate::run) fn heal(&mut self) -> Result<Went, RunError> {
        self.drive.enter(Phase::Heal);
        self.drive.cluster.end_machine_cuts()?;
        let dead = self.dead();
        self.start(&dead)?;
        let anew = self.drive.controller.state().beyond;
        if self.stable("heal", anew)? == Went::Ends {
            return Ok(Went::Ends);
        }
        let mut again = BTreeSet::new();
        let fallen = fallen(self.drive, &again);
        if !fallen.is_empty() {
            again.extend(&fallen);
            self.start(&fallen)?;
            // It was asked without them.
            self.product.record.not_stable.clear();
            if self.stable("heal", anew)? == Went::Ends {
                return Ok(Went::Ends);
            }
        }
        self.healed(again)
    }

    /// The healed question. Meanwhile nodes are supervised, as they would be in production: one that ends itself, as some may when they learn
    /// that their session is over, is started again, once. Its end is judged for itself.
    fn healed(&mut self, mut again: BTreeSet<usize>) -> Result<Went, RunError> {
        self.give(Command::Healed, Phase::Heal);
        let deadline = self.drive.deadline;
        loop {
            let came = self.drive.until(deadline, |d| {
                d.is_over(Command::Healed) || !fallen(d, &again).is_empty()
            })?;
            let over = !came || self.drive.is_over(Command::Healed);
            let fallen = fallen(self.drive, &again);
            if over || fallen.is_empty() {
                self.wait_for_started(&again)?;
                return self.given(Command::Healed, Phase::Heal, came);
            }
            again.extend(&fallen);
            self.start(&fallen)?;
        }
    }

    /// What follows looks at each node that lives: one that was started again late is waited for. That it does not come is the next question's to
    /// tell.
    fn wait_for_started(&mut self, again: &BTreeSet<usize>) -> Result<(), RunError> {
        if again.is_empty() {
            return Ok(());
        }
        let patience = self.drive.cluster.prepared.target().ready.timeout;
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let until = self.drive.now().saturating_add(patience);
        self.drive.until(until.min(self.drive.deadline), |d| {
            d.all_serve() || d.workload_gone.is_some()
        })?;
        Ok(())
    }

    /// Of the dead.
    fn start(&mut self, nodes: &[usize]) -> Result<(), RunError> {
        self.drive.mark_logs(LogMoment::Starts);
        self.drive.cluster.spawn_nodes(nodes)?;
        for i in nodes {
            let name = self.drive.cluster.nodes[*i].name.clone();
            self.drive.controller.healed(&name);
        }
        Ok(())
    }

    /// Waits until the cluster is stable; `again`: all of it, or more than it can bear, was started anew. That it does not become so in time is recorded, and the questions are still asked.
    pub(in crate::run) fn stable(&mut self, what: &str, again: bool) -> Result<Went, RunError> {
        let longest = self.drive.cluster.cuts.longest();
        let target = self.drive.cluster.prepared.target();
        // A system that may be away for longer by its own timeouts is not late before, and one that was killed as a whole starts from
        // cold.
        let own = match again {
            true => u64::try_from(target.ready.timeout.as_nanos()).unwrap_or(0),
            false => target
                .clock
                .get("serve_ms")
                .map_or(0, |ms| u64::try_from(*ms).unwrap_or(0) * MS),
        };
        let patience = (2 * longest + 5_000 * MS).max(10_000 * MS).max(own);
        let until = (self.drive.now() + patience).min(self.drive.deadline);
        let names: Vec<String> = self.names().iter().map(ToString::to_string).collect();
        let mut unstable = (Instability::Outage, "the nodes do not serve".to_owned());
        loop {
            let serving = self
                .drive
                .until(until, |d| d.all_serve() || d.workload_gone.is_some())?;
            if self.drive.workload_gone.is_some() {
                return Ok(self.ends(what));
            }
            if serving {
                let (alive, answers) = self.ask_living(Also::Stable)?;
                let alive_names: Vec<String> = alive.iter().map(|i| names[*i].clone()).collect();
                match self
                    .drive
                    .cluster
                    .questions
                    .unstable(&alive_names, &answers)
                {
                    None => return Ok(Went::On),
                    Some(u) => unstable = u,
                }
            } else {
                let waiting: Vec<&str> = self
                    .drive
                    .cluster
                    .nodes
                    .iter()
                    .filter(|n| n.status == NodeStatus::Starting)
                    .map(|n| n.name.as_str())
                    .collect();
                if !waiting.is_empty() {
                    let why = format!("{} does not serve", waiting.join(", "));
                    unstable = (Instability::Outage, why);
                }
            }
            if self.drive.now() > until {
                let (kind, why) = unstable;
                if self.drive.over() {
                    return Ok(self.missed(what, &why));
                }
                self.ask_threads();
                self.product.record.was_not_stable(what, kind, &why);
                return Ok(Went::On);
            }
            if self.drive.cluster.options.to_end() {
                return Ok(Went::Ends);
            }
            let pause = self.drive.now() + 15 * MS;
            self.drive.until(pause, |_| false)?;
        }
    }
}

/// Those that ended themselves, but those that were started again for it.
fn fallen(drive: &Drive<'_, '_>, again: &BTreeSet<usize>) -> Vec<usize> {
    let nodes = drive.cluster.nodes.iter().enumerate();
    nodes
        .filter(|(i, n)| n.status == NodeStatus::Exited && !again.contains(i))
        .map(|(i, _)| i)
        .collect()
}
