//! What target.toml says (docs/target-toml.md), read and checked: a system under test as plain values.
//!
//! Called by the command line and by `prepare`. Every refusal names file, key, value and remedy. Fetches nothing and starts
//! nothing; the target's name means nothing to any code.

mod chain;
mod content;
mod dict;
mod expand;
mod find;
mod groups;
mod image;
mod load;
mod names;
mod near;
mod probes;
mod promise;
mod rules;
mod section;
mod sources;
mod system;
#[cfg(test)]
mod tests;

pub use dict::{Dictionary, Hook, RoleFrame};
pub use expand::expand;
pub use find::{TargetSummary, find_target, list_targets, target_folders};
pub use image::{Image, ImageStep, Place};
pub use load::load_target;
pub use promise::Promise;
pub use section::TargetError;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use warren_model::{ClusterShape, GroupShape, NodeName, Rules};

/// Where a target's classes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JarSource {
    /// pom.xml and locks/<version>.lock.
    Maven,
    /// src/**.java, compiled here.
    Sources,
}

/// A target as described, after `base`, `--version` and `--paper`.
#[derive(Clone, Debug)]
pub struct Target {
    /// The folder of target.toml, then those of its bases: files are looked up in this order.
    pub folders: Vec<PathBuf>,
    pub name: String,
    pub version: String,
    /// The version that target.toml names.
    pub default_version: String,
    /// `--paper` took the paper's clock.
    pub paper: bool,
    /// The versions of Java it runs on; its programs are compiled for the lowest.
    pub java: crate::setup::jdk::JavaRange,
    pub main: String,
    pub jars: JarSource,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub dictionary: Dictionary,
    pub groups: Vec<Group>,
    /// Data that every run starts with, made once; none = nodes start with empty folders.
    pub image: Option<Image>,
    /// Of all groups that have no own.
    pub ready: Probe,
    /// What one living node answers once the cluster as a whole has started, where that is later than all being ready.
    pub started: Option<Probe>,
    /// How a node's role is asked for; none = the target has no roles.
    pub role: Option<Probe>,
    /// What an answer to that means, where it is not the role's name itself.
    pub role_names: BTreeMap<String, String>,
    /// The role of which there must be exactly one when stable; empty = none.
    pub lead: String,
    pub stable: Option<Stable>,
    pub workload: Workload,
    pub definite: Vec<String>,
    pub legal_exits: Vec<warren_model::ExitRule>,
    /// The line in which a process says why it ends; its first group is the reason.
    pub exit_cause: Option<String>,
    /// The node's own logs, relative to its folder; `{{ }}` allowed.
    pub logs: Vec<String>,
    pub fatal_log: Vec<String>,
    pub legal_log: Vec<warren_model::LogRule>,
    pub log_ignore: Vec<String>,
    pub epochs: Vec<EpochFile>,
    /// Files kept in a finding's folder, relative to the node's folder.
    pub collect: Vec<String>,
    /// The clock in force: tick_ms, session_ms and whatever else the templates use.
    pub clock: BTreeMap<String, i64>,
    /// `[promise]`.
    pub promise: Promise,
}

/// Nodes configured alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub prefix: String,
    pub count: usize,
    pub max_dead: usize,
    pub heap: String,
    pub jvm: Vec<String>,
    pub args: Vec<String>,
    /// Main class of this group; the target's when absent.
    pub main: Option<String>,
    /// Folders after the jars on the class path; `${…}` as in `args`.
    pub class_path: Vec<String>,
    /// When a node of this group is ready; the target's [ready] when absent.
    pub ready: Option<Probe>,
    /// Its configuration files.
    pub files: Vec<ConfigFile>,
}

/// A configuration file of each node of a group, made from a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Below the node's folder.
    pub path: String,
    /// In conf/, for messages.
    pub template: PathBuf,
    /// The template itself, read once: a campaign of days goes on with what it began with, whatever becomes of the folder.
    pub text: String,
}

/// A question asked over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub port: u16,
    /// Added to the port for each node before this one, over all groups: for systems that listen on every address.
    pub port_step: u16,
    /// Empty: a connect is enough.
    pub send: String,
    /// Regex over the whole answer; empty = any.
    pub expect: String,
    pub timeout: Duration,
}

/// When the healed cluster counts as stable, beside ready and one lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stable {
    pub port: u16,
    /// As in [`Probe`].
    pub port_step: u16,
    pub send: String,
    /// Capture 1 must be equal on all living nodes.
    pub equal: String,
    /// Compare capture 1 as a number shifted right by so many bits.
    pub equal_bits: u32,
}

/// The workload program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub main: String,
    pub clients: usize,
    pub options: BTreeMap<String, String>,
}

/// A number in a file that must never fall on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochFile {
    pub name: String,
    pub file: String,
}

/// One node as described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    pub name: NodeName,
    /// Index into [`Target::groups`].
    pub group: usize,
    /// 1-based in its group.
    pub number: usize,
}

impl Target {
    /// All nodes in the order of target.toml: addresses and node indices follow it.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeSpec> {
        self.groups
            .iter()
            .enumerate()
            .flat_map(|(group, g)| {
                (1..=g.count).map(move |number| NodeSpec {
                    name: NodeName(format!("{}{number}", g.prefix)),
                    group,
                    number,
                })
            })
            .collect()
    }

    /// What the constraints need to know.
    #[must_use]
    pub fn shape(&self, max_faults: usize) -> ClusterShape {
        let nodes = self.nodes();
        ClusterShape {
            groups: self
                .groups
                .iter()
                .enumerate()
                .map(|(i, g)| GroupShape {
                    name: g.name.clone(),
                    nodes: nodes
                        .iter()
                        .filter(|n| n.group == i)
                        .map(|n| n.name.clone())
                        .collect(),
                    max_dead: g.max_dead,
                })
                .collect(),
            max_faults,
        }
    }

    /// What the checkers need to know.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let clock = |key: &str| {
            self.clock
                .get(key)
                .map_or(0, |v| u64::try_from(*v).unwrap_or(0))
        };
        Rules {
            definite: self.definite.clone(),
            legal_exits: self.legal_exits.clone(),
            exit_cause: self.exit_cause.clone(),
            fatal_log: self.fatal_log.clone(),
            legal_log: self.legal_log.clone(),
            log_ignore: self.log_ignore.clone(),
            rejoin: self.promise.rejoin,
            may_go_back: !self.promise.monotonic,
            numbered: self.promise.numbered,
            tick_ms: clock("tick_ms"),
            session_ms: clock("session_ms"),
            lead_role: self.lead.clone(),
        }
    }

    /// What a node is asked to see whether it is ready.
    #[must_use]
    pub fn ready_of(&self, group: usize) -> &Probe {
        self.groups
            .get(group)
            .and_then(|g| g.ready.as_ref())
            .unwrap_or(&self.ready)
    }

    /// A file of the target's folder, or of its base's.
    #[must_use]
    pub fn file(&self, relative: &Path) -> Option<PathBuf> {
        self.folders
            .iter()
            .map(|f| f.join(relative))
            .find(|p| p.exists())
    }

    /// target.toml itself, for messages.
    #[must_use]
    pub fn toml_path(&self) -> PathBuf {
        self.folders
            .first()
            .map_or_else(|| PathBuf::from("target.toml"), |f| f.join("target.toml"))
    }
}
