//! What lives in the slot of one run: nodes and workload, their pages, folders and processes.
//!
//! Made by `Runner::with_drive`; kills on demand (processes are started in `spawn`, cuts made in `cuts`). Decides nothing about faults or
//! phases.

use crate::link::{AgentConf, NodePage, RunPage, SharedPage, Word, WorkloadPage, write_agent_conf};
use crate::prepare::Prepared;
use crate::run::asking::questions::Questions;
use crate::run::made_once::archives::Archives;
use crate::run::nodes::commands::{make_dir, node_jars};
use crate::run::nodes::cuts::Cuts;
use crate::run::nodes::layout::{Pages, link, nodes};
use crate::run::options::{NodeStatus, RunOptions};
use crate::run::snapshots::{Parked, Snapshot};
use crate::run::{RunError, Start};
use crate::slot::{AtDump, Exit, Process, Slot};
use crate::target::NodeSpec;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use warren_model::{Incarnation, NodeName, StackId, address};

/// One node of the run.
pub(in crate::run) struct Node {
    pub spec: NodeSpec,
    pub name: NodeName,
    pub addr: Ipv4Addr,
    pub page: NodePage,
    /// Its folder as we see it.
    pub dir: PathBuf,
    /// The same as its processes see it.
    pub inside_dir: PathBuf,
    pub argv: Vec<String>,
    pub process: Option<Process>,
    pub status: NodeStatus,
    pub role: Option<String>,
    /// ROLE word when it was last looked at.
    pub role_word: u8,
    pub incarnations: Vec<Incarnation>,
}

impl Node {
    /// Number of its JVM now, 0 before the first.
    pub fn incarnation(&self) -> u8 {
        self.incarnations.last().map_or(0, |i| i.number)
    }

    /// A process of it exists and was not killed.
    pub fn alive(&self) -> bool {
        lives(self.status)
    }
}

/// A process of a node in this state exists and was not killed.
pub(in crate::run) fn lives(status: NodeStatus) -> bool {
    !matches!(
        status,
        NodeStatus::Absent | NodeStatus::Dead | NodeStatus::Exited
    )
}

/// Everything that lives in the slot.
pub(in crate::run) struct Cluster<'a> {
    pub prepared: &'a Prepared,
    pub options: &'a RunOptions,
    pub slot: &'a Slot,
    pub questions: Questions,
    pub run_page: RunPage,
    pub workload_page: WorkloadPage,
    pub coverage: SharedPage,
    /// Of targets prepared with exact probes.
    pub probes: Option<SharedPage>,
    pub nodes: Vec<Node>,
    pub workload: Option<Process>,
    pub cuts: Cuts,
    /// Root of the tree, where everything was started, or restored, as one that is to be dumped.
    pub launcher: Option<i32>,
    /// What nodes that start again go on from.
    pub parked: Option<Arc<Parked>>,
    /// Nodes that did, and why the first one that was to did not.
    pub unparked: u32,
    pub unpark_failed: Option<String>,
    pub archives: Archives,
    /// The classes of a start are written out.
    pub list_classes: bool,
}

impl<'a> Cluster<'a> {
    /// Pages, folders and configuration files; no process yet. Of a restored cluster all that is there, processes too.
    pub fn new(
        prepared: &'a Prepared,
        options: &'a RunOptions,
        slot: &'a Slot,
        map_size: usize,
        background: &[StackId],
        start: Start<'_>,
    ) -> Result<Self, RunError> {
        let list_classes = matches!(start, Start::ListClasses);
        let target = prepared.target();
        let Pages {
            run: run_page,
            workload: workload_page,
            coverage,
            probes,
        } = Pages::new(prepared, options, slot, map_size, &start)?;
        let archives = Archives::find(prepared);
        let nodes = nodes(prepared, options, slot, &archives, &start)?;
        make_dir(&slot.root().join("workload"))?;
        let mut cluster = Cluster {
            prepared,
            options,
            slot,
            questions: Questions::new(target)?,
            run_page,
            workload_page,
            coverage,
            probes,
            nodes,
            workload: None,
            cuts: Cuts::default(),
            launcher: None,
            parked: None,
            unparked: 0,
            unpark_failed: None,
            archives,
            list_classes,
        };
        match start {
            Start::Restored {
                snapshot,
                processes,
                launcher,
            } => {
                cluster.take_over(snapshot, processes);
                cluster.launcher = launcher;
            }
            Start::Midway { midway, processes } => {
                let mut processes = processes.into_iter();
                for i in midway.living() {
                    cluster.nodes[i].process = processes.next();
                }
                cluster.workload = processes.next();
            }
            Start::Boot | Start::ListClasses | Start::Image => cluster.write_conf(background)?,
        }
        Ok(cluster)
    }

    /// What the agents read when their processes start.
    fn write_conf(&self, background: &[StackId]) -> Result<(), RunError> {
        let target = self.prepared.target();
        if let Some(dir) = &self.options.dump_classes {
            make_dir(dir)?;
        }
        let logs_of = |n: &Node| {
            let inside = n.inside_dir.clone();
            target.logs.iter().map(move |l| inside.join(l))
        };
        let conf = AgentConf {
            nodes: (self.nodes.iter())
                .map(|n| (n.name.clone(), n.addr))
                .collect(),
            background: background.to_vec(),
            logs: (self.nodes.iter().flat_map(logs_of))
                .map(|p| p.display().to_string())
                .collect(),
            dump: self.options.dump_classes.clone(),
            instrumented: node_jars(self.prepared, self.options).1,
        };
        write_agent_conf(&self.slot.shm().join("agent.conf"), &conf, target).map_err(link)
    }

    /// The state of the processes of a restored cluster.
    fn take_over(&mut self, snapshot: &Snapshot, processes: Vec<Process>) {
        let mut processes = processes.into_iter();
        for (node, (at, process)) in self
            .nodes
            .iter_mut()
            .zip(snapshot.nodes.iter().zip(&mut processes))
        {
            node.role_word = node.page.role();
            node.role.clone_from(&at.role);
            node.status = NodeStatus::Serving;
            node.incarnations.push(Incarnation {
                node: node.name.clone(),
                number: 1,
                spawned_ns: process.spawned_ns,
                ready_ns: at.ready_ns,
                ended_ns: None,
                role: at.role.clone(),
            });
            node.process = Some(process);
        }
        self.workload = processes.next();
    }

    /// Index of a node by its name.
    pub fn index(&self, name: &NodeName) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == *name)
    }

    /// The node that an event's peer text means, such as `127.0.0.12:2888`.
    pub fn node_of_peer(&self, text: &str) -> Option<&Node> {
        let i = address::node_of(text, self.nodes.iter().map(|n| &n.name))?;
        self.nodes.get(i)
    }

    /// The last so many nodes of each group, never more than may be dead.
    pub fn last_of_groups(&self, count: usize) -> Vec<usize> {
        let groups = &self.prepared.target().groups;
        let of = |g: usize| {
            let members = (0..self.nodes.len()).filter(move |i| self.nodes[*i].spec.group == g);
            let members: Vec<usize> = members.collect();
            let late = count.min(groups[g].max_dead).min(members.len());
            members[members.len() - late..].to_vec()
        };
        (0..groups.len()).flat_map(of).collect()
    }

    /// All processes, of nodes in their order and of the workload, that should be there now.
    fn processes(&self) -> impl Iterator<Item = &Process> {
        let nodes = self.nodes.iter().filter(|n| n.alive());
        nodes
            .filter_map(|n| n.process.as_ref())
            .chain(&self.workload)
    }

    /// Every process that should be there is.
    pub fn all_live(&self) -> bool {
        !self.processes().any(Process::is_dead)
    }

    /// Every process stands still from now on.
    pub fn all_stop(&self) {
        self.processes().for_each(|p| {
            p.stop();
        });
    }

    /// Every process goes on.
    pub fn all_go_on(&self) {
        self.processes().for_each(|p| {
            p.go_on();
        });
    }

    /// What a dump must have.
    pub fn at_dump(&self) -> Vec<AtDump> {
        self.processes().map(AtDump::from).collect()
    }

    /// Ends since the last call. Below a launcher slot init is nobody's parent and tells none: there each node whose end is still to be
    /// told is looked at, and one that the launcher has not said yet is told by a later call. That of the workload is told by each.
    pub fn exits(&self) -> Vec<Exit> {
        let mut all = self.slot.exits();
        // A parked JVM has the number of the one before it: that one's end is not its own.
        all.retain(|e| {
            let now = self.nodes.iter().filter_map(|n| n.process.as_ref());
            !now.into_iter()
                .any(|p| p.pid_inside == e.pid && e.t_ns < p.spawned_ns)
        });
        let unseen = |n: &&Node| n.incarnations.last().is_some_and(|i| i.ended_ns.is_none());
        if self.launcher.is_some() {
            let untold = self.nodes.iter().filter(unseen).flat_map(|n| &n.process);
            let untold = untold.chain(&self.workload);
            all.extend(untold.filter_map(|p| self.slot.launched_exit(p)));
        }
        all
    }

    /// Of some group more nodes are in such a state than the target promises to bear dead.
    pub fn exceeds_max_dead(&self, counts: impl Fn(NodeStatus) -> bool) -> bool {
        let mut groups = self.prepared.target().groups.iter().enumerate();
        groups.any(|(g, group)| {
            let own = self.nodes.iter().filter(|n| n.spec.group == g);
            own.filter(|n| counts(n.status)).count() > group.max_dead
        })
    }

    /// A process that was launched has ended: the cluster is not what it should be. The end is told a moment later.
    pub fn launched_died(&self) -> bool {
        let all = self.nodes.iter().filter_map(|n| n.process.as_ref());
        self.launcher.is_some() && all.chain(&self.workload).any(Process::is_dead)
    }

    /// SIGKILL; the time just before it was sent.
    pub fn kill_node(&mut self, i: usize) -> u64 {
        let node = &mut self.nodes[i];
        let t = self.slot.now_ns();
        if let Some(p) = &node.process {
            p.kill();
        }
        node.status = NodeStatus::Dead;
        self.workload_page.set_node(i, node.incarnation(), false);
        t
    }

    /// Roles as the agents saw them last, where they changed since the last look: (node, role).
    pub fn changed_roles(&mut self) -> Vec<(usize, Option<String>)> {
        let names = self.prepared.target().dictionary.role_names();
        let mut changed = Vec::new();
        for (i, n) in self.nodes.iter_mut().enumerate() {
            let word = n.page.role();
            if word != n.role_word && n.alive() {
                n.role_word = word;
                n.role = names.get(usize::from(word).wrapping_sub(1)).cloned();
                if let Some(last) = n.incarnations.last_mut() {
                    last.role.clone_from(&n.role);
                }
                changed.push((i, n.role.clone()));
            }
        }
        changed
    }

    /// Why the agent of a node refused, if it did.
    pub fn refusal(&self) -> Option<(NodeName, String)> {
        let node = self
            .nodes
            .iter()
            .find(|n| n.page.word(Word::AgentState) == 3)?;
        let reading = node.page.read_all();
        let why = reading
            .texts
            .values()
            .find_map(|t| t.strip_prefix("warning: refused: "))
            .unwrap_or("no reason given")
            .to_owned();
        Some((node.name.clone(), why))
    }
}
