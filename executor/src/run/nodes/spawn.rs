//! How the processes of a run are started: nodes one by one, several at once or below a launcher, from nothing or from parked JVMs; the
//! workload; and the command line of each.
//!
//! Called by the boot, by the healing and by the faults of a run. When a node is started others decide; here is only how.

use crate::run::RunError;
use crate::run::machine::memory::WORKLOAD_HEAP;
use crate::run::made_once::hot;
use crate::run::made_once::image::PROGRAM_OUT;
use crate::run::nodes::cluster::{Cluster, Node};
use crate::run::nodes::commands::{
    Program, add_archive_flag, class_path, environment, jvm_flags, node_argv, node_jars,
};
use crate::run::options::{NodeStatus, RunOptions};
use crate::slot::{Process, SpawnSpec};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_model::Incarnation;

/// What the agent is told in a JVM that has no points: do what is asked ahead of time, and nothing after it.
const ONLY_AHEAD: &str = "ahead";
/// A node's standard output, in its folder.
pub(in crate::run) const STDOUT: &str = "stdout";
/// How long a killed JVM may take to be reaped before the next one of its node is started another way.
const GONE: Duration = Duration::from_millis(200);

/// What is done with a gate, for errors.
const KEEPING_BACK: &str = "keeping parked JVMs back";

/// How long a serve check asks where the target does not say it. One that fails must end well before the run's limit, else a liveness
/// failure would look like a hang; a target whose own timeouts are longer says so: `serve_ms` in [clock]. Of the usual limit: a run that is
/// made again with twice that is to be asked the same question, or whoever was too slow the first time would be in time then.
fn serve_ms(options: &RunOptions) -> u64 {
    let limit = options.usual_limit.unwrap_or(options.limit);
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    (limit_ms / 3).clamp(5_000, 20_000)
}

/// Lets the JVM behind a gate go on, if there is one.
fn open(gate: &Path) -> Result<(), RunError> {
    match std::fs::remove_file(gate) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(RunError::io(KEEPING_BACK, e)),
        _ => Ok(()),
    }
}

impl Cluster<'_> {
    /// Starts nodes, and perhaps the workload, below a launcher, so that they can be dumped.
    pub fn launch(&mut self, nodes: &[usize], workload: bool) -> Result<(), RunError> {
        let mut specs: Vec<SpawnSpec> = Vec::new();
        for i in nodes {
            let node = &self.nodes[*i];
            let mut spec = self.node_spec(node);
            // What a tree's first JVMs have compiled no run from it needs to. A reboot in a tree is one run's own.
            let ready = !node_jars(self.prepared, self.options).1.is_empty();
            let list = hot::find(self.prepared, hot::Of::Nodes);
            if node.incarnation() == 0 && ready && list.is_some() {
                hot::ask(
                    self.prepared,
                    hot::Of::Nodes,
                    &node.dir,
                    hot::GOING_ON,
                    &mut spec,
                )?;
            }
            specs.push(spec);
        }
        if workload {
            let mut spec = self.workload_spec();
            if hot::find(self.prepared, hot::Of::Workload).is_some() {
                self.ask_workload(&mut spec)?;
            }
            specs.push(spec);
        }
        for i in nodes {
            let number = self.nodes[*i].incarnation() + 1;
            self.workload_page.set_node(*i, number, true);
            self.nodes[*i].page.set_incarnations(number - 1);
        }
        let launched = self
            .slot
            .launch(&specs)
            .map_err(|e| RunError::Slot(e.to_string()))?;
        self.launcher = Some(launched.launcher);
        let mut processes = launched.processes.into_iter();
        for (i, process) in nodes.iter().zip(&mut processes) {
            self.started(*i, process);
        }
        if workload {
            self.workload = processes.next();
        }
        Ok(())
    }

    /// Has the workload's JVM compile ahead what runs need. The agent in it does nothing else.
    fn ask_workload(&self, spec: &mut SpawnSpec) -> Result<(), RunError> {
        let dir = self.slot.root().join("workload");
        hot::ask(self.prepared, hot::Of::Workload, &dir, hot::GOING_ON, spec)?;
        let agent = self.prepared.agent().agent.display();
        spec.argv
            .insert(1, format!("-javaagent:{agent}={ONLY_AHEAD}"));
        Ok(())
    }

    /// Starts the node's next JVM.
    pub fn spawn_node(&mut self, i: usize) -> Result<(), RunError> {
        if self.launcher.is_some() {
            return self.launch(&[i], false);
        }
        let number = self.nodes[i].incarnation().saturating_add(1);
        self.workload_page.set_node(i, number, true);
        // One that was killed before its agent had begun counted nothing.
        self.nodes[i].page.set_incarnations(number - 1);
        let process = match self.unpark(i)? {
            Some(process) => process,
            None => {
                // It keeps parked JVMs back; one that starts as usual must not take it for its own.
                open(&self.nodes[i].dir.join(hot::WAITING))?;
                self.slot
                    .spawn(&self.node_spec(&self.nodes[i]))
                    .map_err(|e| RunError::Slot(e.to_string()))?
            }
        };
        self.started(i, process);
        Ok(())
    }

    /// Starts several nodes at once: where they go on from parked JVMs all of these are there before the first one goes on.
    pub fn spawn_nodes(&mut self, nodes: &[usize]) -> Result<(), RunError> {
        let go_on = self.parked.as_ref().is_some_and(|p| p.works());
        let together = nodes.len() > 1 && go_on && self.launcher.is_none();
        let gate = |i: &usize| self.nodes[*i].dir.join(hot::WAITING);
        let gates: Vec<PathBuf> = nodes.iter().filter(|_| together).map(gate).collect();
        for gate in &gates {
            std::fs::write(gate, "").map_err(|e| RunError::io(KEEPING_BACK, e))?;
        }
        for i in nodes {
            self.spawn_node(*i)?;
        }
        gates.iter().try_for_each(|gate| open(gate))
    }

    /// The node's parked JVM, going on. None where there is none or it cannot: that is said once, and costs nothing but time.
    fn unpark(&mut self, i: usize) -> Result<Option<Process>, RunError> {
        let Some(parked) = self.parked.as_ref().filter(|p| p.works()) else {
            return Ok(None);
        };
        let node = &self.nodes[i];
        // The one before may have been parked too: its number must be free, and so it must have been reaped.
        if let Some(before) = &node.process {
            let until = Instant::now() + GONE;
            if !matches!(self.slot.wait_exit(before, until), Ok(Some(_))) {
                return Ok(None);
            }
        }
        match parked.go_on(self.slot, i, &node.inside_dir.join(STDOUT))? {
            Ok(process) => {
                self.unparked += 1;
                Ok(Some(process))
            }
            Err(why) => {
                let why = format!("that of {} did not go on: {why}", node.name);
                self.unpark_failed.get_or_insert(why);
                Ok(None)
            }
        }
    }

    fn started(&mut self, i: usize, process: Process) {
        let node = &mut self.nodes[i];
        let number = node.incarnation().saturating_add(1);
        node.role_word = node.page.role();
        node.role = None;
        node.status = NodeStatus::Starting;
        node.incarnations.push(Incarnation {
            node: node.name.clone(),
            number,
            spawned_ns: process.spawned_ns,
            ready_ns: None,
            ended_ns: None,
            role: None,
        });
        node.process = Some(process);
    }

    /// Starts the workload's JVM; it waits for commands.
    pub fn spawn_workload(&mut self) -> Result<(), RunError> {
        let process = self
            .slot
            .spawn(&self.workload_spec())
            .map_err(|e| RunError::Slot(e.to_string()))?;
        self.workload = Some(process);
        Ok(())
    }

    /// The node's command as it is always started.
    pub fn node_spec(&self, node: &Node) -> SpawnSpec {
        SpawnSpec {
            name: node.name.to_string(),
            argv: node.argv.clone(),
            env: environment(self.prepared),
            cwd: node.inside_dir.clone(),
            stdout: node.inside_dir.join(STDOUT),
        }
    }

    /// Another program in the place of a node: its folder, class path and flags.
    pub fn program_spec(
        &self,
        i: usize,
        main: Option<&str>,
        args: &[String],
    ) -> Result<SpawnSpec, RunError> {
        let node = &self.nodes[i];
        let program = Program { main, args };
        Ok(SpawnSpec {
            name: format!("{}'s image", node.name),
            argv: node_argv(
                self.prepared,
                self.options,
                self.slot,
                &node.spec,
                node.addr,
                &node.inside_dir,
                Some(program),
            )?,
            stdout: node.inside_dir.join(PROGRAM_OUT),
            ..self.node_spec(node)
        })
    }

    fn workload_spec(&self) -> SpawnSpec {
        let target = self.prepared.target();
        let jdk = self.prepared.jdk();
        let inside = self.slot.inside_root();
        // The class archive was made with it, and holds for no other boot class path.
        let runtime = self.prepared.agent().runtime.display();
        let mut argv = vec![
            jdk.java.display().to_string(),
            format!("-Xbootclasspath/a:{runtime}"),
        ];
        argv.extend(jvm_flags(WORKLOAD_HEAP, &inside.join("workload")));
        add_archive_flag(
            &mut argv,
            self.prepared,
            self.archives.workload.as_ref(),
            &inside.join("workload"),
            self.list_classes,
        );
        argv.push("-cp".into());
        argv.push(class_path(self.prepared.workload_path()));
        let mut properties: BTreeMap<String, String> = target.workload.options.clone();
        properties
            .entry("serve_ms".into())
            .or_insert_with(|| serve_ms(self.options).to_string());
        for (key, value) in &target.clock {
            properties.insert(key.clone(), value.to_string());
        }
        if let Some(ops) = self.options.plain_ops {
            properties.insert("plain_ops".into(), ops.to_string());
        }
        if self.options.for_snapshot {
            properties.insert("for_snapshot".into(), "1".into());
        }
        for (key, value) in properties {
            argv.push(format!("-Dwarren.{key}={value}"));
        }
        argv.push(target.workload.main.clone());
        argv.push(
            self.slot
                .inside_shm()
                .join("workload.page")
                .display()
                .to_string(),
        );
        argv.push(inside.display().to_string());
        argv.push(target.workload.clients.to_string());
        for n in &self.nodes {
            argv.push(format!("{}={}", n.name, n.addr));
        }
        SpawnSpec {
            name: "workload".into(),
            argv,
            env: environment(self.prepared),
            cwd: inside.join("workload"),
            stdout: inside.join("workload/stdout"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_twice_the_limit_is_asked_the_same_question() {
        // The run's limit and the usual one, s; how long a serve check asks, ms.
        for (limit, usual, want) in [
            (20, None, 6_666),
            (20, Some(20), 6_666),
            (40, Some(20), 6_666),
            (40, None, 13_333),
            (9, None, 5_000),
            (18, Some(9), 5_000),
            (200, Some(100), 20_000),
        ] {
            let options = RunOptions {
                limit: Duration::from_secs(limit),
                usual_limit: usual.map(Duration::from_secs),
                ..RunOptions::default()
            };
            assert_eq!(serve_ms(&options), want, "{limit} {usual:?}");
        }
    }
}
