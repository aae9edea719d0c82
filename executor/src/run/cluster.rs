//! The processes of one run: nodes and workload in a slot, their pages, folders and command lines.
//!
//! Made by `Runner::run`; spawns, kills and cuts on demand. Decides nothing about faults or phases.

use super::RunError;
use super::archives::Archives;
use super::options::{NodeStatus, RunOptions};
use super::questions::Questions;
use super::templates::render;
use crate::link::{
    AgentConf, CutMode, NodePage, RunPage, SharedPage, Word, WorkloadPage, write_agent_conf,
};
use crate::prepare::Prepared;
use crate::slot::{CutRules, Process, Slot, SpawnSpec, now_ns};
use crate::target::{NodeSpec, expand};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use warren_model::constraints::OpenCut;
use warren_model::{CutHow, CutWay, Incarnation, NodeName, StackId};

/// One node of the run.
pub(super) struct Node {
    pub spec: NodeSpec,
    pub name: NodeName,
    pub addr: Ipv4Addr,
    pub page: NodePage,
    /// Its folder as we see it.
    pub dir: PathBuf,
    argv: Vec<String>,
    inside_dir: PathBuf,
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
        !matches!(
            self.status,
            NodeStatus::Absent | NodeStatus::Dead | NodeStatus::Exited
        )
    }
}

/// A cut in force.
#[derive(Clone, Debug)]
pub(super) struct CutNow {
    pub how: CutHow,
    pub way: CutWay,
    pub cut: OpenCut,
    pub since: u64,
}

/// A cut that has ended.
#[derive(Clone, Debug)]
pub(super) struct CutEnded {
    pub cut: OpenCut,
    pub since: u64,
    pub until: u64,
}

/// Everything that lives in the slot.
pub(super) struct Cluster<'a> {
    pub prepared: &'a Prepared,
    pub options: &'a RunOptions,
    pub slot: &'a Slot,
    pub questions: Questions,
    pub run_page: RunPage,
    pub workload_page: WorkloadPage,
    pub coverage: SharedPage,
    pub nodes: Vec<Node>,
    pub workload: Option<Process>,
    pub cut: Option<CutNow>,
    pub cuts_ended: Vec<CutEnded>,
    machine_cuts: BTreeSet<usize>,
    archives: Archives,
    list_classes: bool,
    /// The state map is the agent's; held so that its file keeps its blocks.
    _state_map: SharedPage,
}

impl<'a> Cluster<'a> {
    /// Pages, folders and configuration files; no process yet.
    pub fn new(
        prepared: &'a Prepared,
        options: &'a RunOptions,
        slot: &'a Slot,
        map_size: usize,
        background: &[StackId],
        list_classes: bool,
    ) -> Result<Self, RunError> {
        let target = prepared.target();
        let archives = Archives::find(prepared);
        let shm = slot.shm();
        let link = |e: crate::link::LinkError| RunError::io("shared memory of the run", e);
        let run_page = RunPage::create(&shm.join("run.page"), map_size).map_err(link)?;
        let workload_page =
            WorkloadPage::create(&shm.join("workload.page"), options.seed).map_err(link)?;
        let coverage = SharedPage::create(&shm.join("cov.map"), map_size).map_err(link)?;
        let state_map = SharedPage::create(&shm.join("state.map"), map_size).map_err(link)?;
        let specs = target.nodes();
        let addrs: Vec<Ipv4Addr> = (0..specs.len()).map(|i| slot.node_addr(i)).collect();
        let mut nodes = Vec::new();
        for (i, spec) in specs.iter().enumerate() {
            let name = spec.name.clone();
            let page = NodePage::create(&shm.join(format!("node-{name}.page")), i).map_err(link)?;
            let below = Path::new("nodes").join(name.as_str());
            let dir = slot.root().join(&below);
            let inside_dir = slot.inside_root().join(&below);
            make_dir(&dir.join("tmp"))?;
            for (path, template) in &target.groups[spec.group].files {
                let text = render(target, template, i, &specs, &addrs, &inside_dir)?;
                let place = dir.join(path);
                if let Some(parent) = place.parent() {
                    make_dir(parent)?;
                }
                std::fs::write(&place, text)
                    .map_err(|e| RunError::io(format!("writing {}", place.display()), e))?;
            }
            let mut argv = node_argv(prepared, options, slot, spec, addrs[i], &inside_dir)?;
            let archive = if node_jars(prepared, options).1.is_empty() {
                archives.plain.as_ref().filter(|_| !options.agent)
            } else {
                archives.nodes.as_ref()
            };
            add_archive_flag(&mut argv, archive, &inside_dir, list_classes);
            nodes.push(Node {
                spec: spec.clone(),
                name,
                addr: addrs[i],
                page,
                dir,
                argv,
                inside_dir,
                process: None,
                status: NodeStatus::Absent,
                role: None,
                role_word: 0,
                incarnations: Vec::new(),
            });
        }
        make_dir(&slot.root().join("workload"))?;
        let dump = match &options.dump_classes {
            Some(dir) => {
                make_dir(dir)?;
                Some(dir.clone())
            }
            None => None,
        };
        let conf = AgentConf {
            nodes: nodes.iter().map(|n| (n.name.clone(), n.addr)).collect(),
            background: background.to_vec(),
            logs: nodes
                .iter()
                .flat_map(|n| target.logs.iter().map(|l| n.inside_dir.join(l)))
                .map(|p| p.display().to_string())
                .collect(),
            dump,
            instrumented: node_jars(prepared, options).1,
        };
        write_agent_conf(&shm.join("agent.conf"), &conf, target).map_err(link)?;
        Ok(Cluster {
            prepared,
            options,
            slot,
            questions: Questions::new(target)?,
            run_page,
            workload_page,
            coverage,
            nodes,
            workload: None,
            cut: None,
            cuts_ended: Vec::new(),
            machine_cuts: BTreeSet::new(),
            archives,
            list_classes,
            _state_map: state_map,
        })
    }

    /// Index of a node by its name.
    pub fn index(&self, name: &NodeName) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == *name)
    }

    /// The node with this address in a peer text such as `127.0.0.12:2888`.
    pub fn node_of_peer(&self, text: &str) -> Option<&Node> {
        let host = text.split(':').next()?;
        self.nodes
            .iter()
            .find(|n| n.addr.to_string() == host || n.name.as_str() == host)
    }

    /// Starts the node's next JVM.
    pub fn spawn_node(&mut self, i: usize) -> Result<(), RunError> {
        let node = &mut self.nodes[i];
        let number = node.incarnation().saturating_add(1);
        self.workload_page.set_node(i, number, true);
        let spec = SpawnSpec {
            name: node.name.to_string(),
            argv: node.argv.clone(),
            env: environment(self.prepared),
            cwd: node.inside_dir.clone(),
            stdout: node.inside_dir.join("stdout"),
        };
        let process = self
            .slot
            .spawn(&spec)
            .map_err(|e| RunError::Slot(e.to_string()))?;
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
        Ok(())
    }

    /// SIGKILL; the time just before it was sent.
    pub fn kill_node(&mut self, i: usize) -> u64 {
        let node = &mut self.nodes[i];
        let t = now_ns();
        if let Some(p) = &node.process {
            p.kill();
        }
        node.status = NodeStatus::Dead;
        self.workload_page.set_node(i, node.incarnation(), false);
        t
    }

    /// Starts the workload's JVM; it waits for commands.
    pub fn spawn_workload(&mut self) -> Result<(), RunError> {
        let target = self.prepared.target();
        let jdk = self.prepared.jdk();
        let inside = self.slot.inside_root();
        let mut argv = vec![jdk.java.display().to_string()];
        argv.extend(jvm_flags("128m", &inside.join("workload")));
        add_archive_flag(
            &mut argv,
            self.archives.workload.as_ref(),
            &inside.join("workload"),
            self.list_classes,
        );
        argv.push("-cp".into());
        argv.push(class_path(self.prepared.workload_path()));
        let limit_ms = u64::try_from(self.options.limit.as_millis()).unwrap_or(u64::MAX);
        // A serve check that fails must end well before the run's limit, else a liveness failure would look like a hang. A target
        // whose own timeouts are longer says so: `serve_ms` in [clock].
        let serve_ms = (limit_ms / 3).clamp(5_000, 20_000);
        let mut properties: BTreeMap<String, String> = target.workload.options.clone();
        properties
            .entry("serve_ms".into())
            .or_insert_with(|| serve_ms.to_string());
        for (key, value) in &target.clock {
            properties.insert(key.clone(), value.to_string());
        }
        if let Some(ops) = self.options.plain_ops {
            properties.insert("plain_ops".into(), ops.to_string());
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
        let spec = SpawnSpec {
            name: "workload".into(),
            argv,
            env: environment(self.prepared),
            cwd: inside.join("workload"),
            stdout: inside.join("workload/stdout"),
        };
        let process = self
            .slot
            .spawn(&spec)
            .map_err(|e| RunError::Slot(e.to_string()))?;
        self.workload = Some(process);
        Ok(())
    }

    /// Puts a cut in force; the time since when it is.
    pub fn start_cut(&mut self, how: CutHow, way: CutWay, cut: OpenCut) -> Result<u64, RunError> {
        self.cut = Some(CutNow {
            how,
            way,
            cut,
            since: now_ns(),
        });
        let t = match how {
            CutHow::Drop => self.apply_kernel_rules()?,
            CutHow::Throw | CutHow::Lose => self.write_agent_cuts()?,
        };
        if let Some(c) = &mut self.cut {
            c.since = t;
        }
        Ok(t)
    }

    /// Ends the cut, if one is open; machine cuts stay.
    pub fn end_cut(&mut self) -> Result<(), RunError> {
        let Some(c) = self.cut.take() else {
            return Ok(());
        };
        let until = match c.how {
            CutHow::Drop => self.apply_kernel_rules()?,
            CutHow::Throw | CutHow::Lose => self.write_agent_cuts()?,
        };
        self.cuts_ended.push(CutEnded {
            cut: c.cut,
            since: c.since,
            until,
        });
        Ok(())
    }

    /// Drops (or no longer drops) every packet of a node.
    pub fn machine_cut(&mut self, i: usize, on: bool) -> Result<(), RunError> {
        let changed = if on {
            self.machine_cuts.insert(i)
        } else {
            self.machine_cuts.remove(&i)
        };
        if changed {
            self.apply_kernel_rules()?;
        }
        Ok(())
    }

    /// Ends all machine cuts.
    pub fn end_machine_cuts(&mut self) -> Result<(), RunError> {
        if !self.machine_cuts.is_empty() {
            self.machine_cuts.clear();
            self.apply_kernel_rules()?;
        }
        Ok(())
    }

    fn apply_kernel_rules(&self) -> Result<u64, RunError> {
        let mut rules = CutRules::default();
        if let Some(c) = self.cut.as_ref().filter(|c| c.how == CutHow::Drop) {
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
        for i in &self.machine_cuts {
            rules = rules.and(CutRules::machine(self.nodes[*i].addr));
        }
        self.slot
            .cut(&rules)
            .map_err(|e| RunError::Slot(e.to_string()))
    }

    /// The agents' tables of cuts from the cut in force.
    fn write_agent_cuts(&self) -> Result<u64, RunError> {
        let mode = self.cut.as_ref().and_then(|c| match c.how {
            CutHow::Drop => None,
            CutHow::Throw => Some(CutMode::Throw),
            CutHow::Lose => Some(CutMode::Lose),
        });
        for from in &self.nodes {
            let mut table = Vec::new();
            if let (Some(c), Some(mode)) = (&self.cut, mode) {
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
        Ok(now_ns())
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

    /// Last lines of a file of the slot, for messages.
    pub fn tail(path: &Path, lines: usize) -> String {
        let text = std::fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

fn make_dir(path: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(path).map_err(|e| RunError::io(format!("making {}", path.display()), e))
}

fn class_path(jars: &[PathBuf]) -> String {
    jars.iter()
        .map(|j| j.display().to_string())
        .collect::<Vec<_>>()
        .join(":")
}

fn environment(prepared: &Prepared) -> Vec<(String, String)> {
    vec![
        ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
        ("LANG".into(), "C.UTF-8".into()),
        (
            "JAVA_HOME".into(),
            prepared.jdk().home.display().to_string(),
        ),
    ]
}

/// Flags that every JVM of a run has: small, quick to start, nothing written outside its folder.
fn jvm_flags(heap: &str, dir: &Path) -> Vec<String> {
    let mut flags: Vec<String> = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        "-Djava.net.preferIPv4Stack=true",
    ]
    .map(str::to_owned)
    .to_vec();
    flags.push(format!("-Xmx{heap}"));
    flags.push(format!("-Djava.io.tmpdir={}", dir.join("tmp").display()));
    flags.push(format!(
        "-XX:ErrorFile={}",
        dir.join("hs_err_%p.log").display()
    ));
    flags
}

/// Name of the file that a JVM lists its classes in.
pub(super) const CLASS_LIST: &str = "classes.lst";

/// Maps the archive, or lists classes for one. Goes right after the program's name.
fn add_archive_flag(argv: &mut Vec<String>, archive: Option<&PathBuf>, dir: &Path, list: bool) {
    if list {
        let file = dir.join(CLASS_LIST);
        argv.insert(1, format!("-XX:DumpLoadedClassList={}", file.display()));
    } else if let Some(a) = archive {
        argv.insert(1, format!("-XX:SharedArchiveFile={}", a.display()));
    }
}

/// (class path of the nodes, jars that were instrumented before).
fn node_jars(prepared: &Prepared, options: &RunOptions) -> (Vec<PathBuf>, Vec<PathBuf>) {
    // Dumping classes shows what is transformed at load time, so it needs the jars as they came.
    match prepared.instrumented() {
        Some(jars) if options.agent && options.dump_classes.is_none() => {
            (jars.to_vec(), jars.to_vec())
        }
        _ => (prepared.jars().to_vec(), Vec::new()),
    }
}

fn node_argv(
    prepared: &Prepared,
    options: &RunOptions,
    slot: &Slot,
    spec: &NodeSpec,
    addr: Ipv4Addr,
    dir: &Path,
) -> Result<Vec<String>, RunError> {
    let target = prepared.target();
    let group = &target.groups[spec.group];
    let lookup = |key: &str| -> Option<String> {
        match key {
            "node.name" => Some(spec.name.to_string()),
            "node.index" => Some(spec.number.to_string()),
            "node.addr" => Some(addr.to_string()),
            "node.dir" => Some(dir.display().to_string()),
            _ => key
                .strip_prefix("clock.")
                .and_then(|k| target.clock.get(k))
                .map(ToString::to_string),
        }
    };
    let expanded = |list: &[String], key: &str| -> Result<Vec<String>, RunError> {
        list.iter()
            .map(|t| {
                expand(t, &lookup).map_err(|why| RunError::Template {
                    file: format!(
                        "{}: [group.{}] {key}",
                        target.toml_path().display(),
                        group.name
                    ),
                    why,
                })
            })
            .collect()
    };
    let mut argv = vec![prepared.jdk().java.display().to_string()];
    if options.agent {
        let agent = prepared.agent();
        argv.push(format!("-Xbootclasspath/a:{}", agent.runtime.display()));
        argv.push(format!(
            "-javaagent:{}={},{}",
            agent.agent.display(),
            slot.inside_shm().join("agent.conf").display(),
            spec.name
        ));
    }
    argv.extend(jvm_flags(&group.heap, dir));
    argv.extend(expanded(&group.jvm, "jvm")?);
    argv.push("-cp".into());
    argv.push(class_path(&node_jars(prepared, options).0));
    argv.push(group.main.clone().unwrap_or_else(|| target.main.clone()));
    argv.extend(expanded(&group.args, "args")?);
    Ok(argv)
}
