//! agent.conf: what the executor tells the agent once, as text lines (docs/formats.md section 5).

use super::LinkError;
use crate::target::Target;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use warren_model::{NodeName, StackId};

/// Everything that goes into agent.conf.
#[derive(Clone, Debug, Default)]
pub struct AgentConf {
    /// In the order of target.toml.
    pub nodes: Vec<(NodeName, Ipv4Addr)>,
    pub background: Vec<StackId>,
    /// Globs of the nodes' own log files.
    pub logs: Vec<String>,
    pub dump: Option<PathBuf>,
    /// Jars whose classes were instrumented before.
    pub instrumented: Vec<PathBuf>,
}

impl AgentConf {
    /// The text of the file.
    #[must_use]
    pub fn text(&self, target: &Target) -> String {
        let mut t = String::from("version 1\n");
        for (name, addr) in &self.nodes {
            let _ = writeln!(t, "node {name} {addr}");
        }
        for g in &target.include {
            let _ = writeln!(t, "include {g}");
        }
        for g in &target.exclude {
            let _ = writeln!(t, "exclude {g}");
        }
        t.push_str(&target.dictionary.conf_lines());
        for s in &self.background {
            let _ = writeln!(t, "background {s}");
        }
        for l in &self.logs {
            let _ = writeln!(t, "log {l}");
        }
        if let Some(d) = &self.dump {
            let _ = writeln!(t, "dump {}", d.display());
        }
        for j in &self.instrumented {
            let _ = writeln!(t, "instrumented {}", j.display());
        }
        t
    }
}

/// Writes agent.conf.
///
/// # Errors
/// [`LinkError::Write`].
pub fn write_agent_conf(path: &Path, conf: &AgentConf, target: &Target) -> Result<(), LinkError> {
    std::fs::write(path, conf.text(target)).map_err(|source| LinkError::Write {
        path: path.to_owned(),
        source,
    })
}
