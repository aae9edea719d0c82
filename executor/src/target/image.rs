//! `[image]` of target.toml: how the data that every run starts with is made, once (formatted disks, an initialised store).
//!
//! Read with the target; carried out by `run::made_once::image`. Starts nothing. Steps name groups, nodes and folders of the description, and
//! every one that does not exist is refused here, not in a run.

use super::Group;
use super::section::{Section, TargetError};
use std::time::Duration;

/// How the start's data is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Paths below each node's folder that are kept; where a node has none of them, none is.
    pub keep: Vec<String>,
    /// For all steps together.
    pub timeout: Duration,
    pub steps: Vec<ImageStep>,
}

/// One step, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageStep {
    /// The nodes of this group are started, are ready when the step ends, and live until all steps are done.
    Start { group: String },
    /// A program in the place of a node (its folder, class path and flags), which must end with status 0.
    Run {
        node: String,
        /// The group's when absent.
        main: Option<String>,
        args: Vec<String>,
    },
    /// A file or folder of one node's folder is copied into another's.
    Copy { from: Place, to: Place },
}

/// A path below a node's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub node: String,
    pub path: String,
}

const ONE_KIND: &str = "write one of start = \"<group>\", run = \"<node>\", copy = \"<node>/<path>\" in each [[image.step]]";

/// Reads `[image]`.
pub(super) fn image(mut s: Section<'_>, groups: &[Group]) -> Result<Image, TargetError> {
    let keep = s.strings("keep")?;
    if keep.is_empty() {
        return Err(s.wrong(
            "keep",
            "is empty: nothing would be left of the steps",
            "write keep = [\"data\"]: paths below the nodes' folders",
        ));
    }
    if let Some(bad) = keep.iter().find(|p| leaves(p)) {
        return Err(s.wrong(
            "keep",
            format!("`{bad}` leaves the node's folder"),
            "write paths below node.dir",
        ));
    }
    let ms = s.opt_int("timeout_ms", 1, 600_000)?.unwrap_or(120_000);
    let mut steps = Vec::new();
    for step in s.tables("step")? {
        steps.push(one(step, groups)?);
    }
    s.end()?;
    Ok(Image {
        keep,
        timeout: Duration::from_millis(u64::try_from(ms).unwrap_or(120_000)),
        steps,
    })
}

fn one(mut s: Section<'_>, groups: &[Group]) -> Result<ImageStep, TargetError> {
    let (start, run, copy) = (
        s.opt_string("start")?,
        s.opt_string("run")?,
        s.opt_string("copy")?,
    );
    let step = match (start, run, copy) {
        (Some(group), None, None) => {
            if !groups.iter().any(|g| g.name == group) {
                let known: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
                return Err(s.wrong(
                    "start",
                    format!("`{group}` is no group"),
                    format!("write one of {}", known.join(", ")),
                ));
            }
            ImageStep::Start { group }
        }
        (None, Some(node), None) => {
            node_known(&s, "run", &node, groups)?;
            ImageStep::Run {
                node,
                main: s.opt_string("main")?,
                args: s.strings("args")?,
            }
        }
        (None, None, Some(from)) => {
            let to = s.string("to", "write to = \"<node>/<path>\"")?;
            ImageStep::Copy {
                from: place(&s, "copy", &from, groups)?,
                to: place(&s, "to", &to, groups)?,
            }
        }
        _ => return Err(s.wrong("start", "is not the one thing this step does", ONE_KIND)),
    };
    s.end()?;
    Ok(step)
}

fn place(s: &Section<'_>, key: &str, text: &str, groups: &[Group]) -> Result<Place, TargetError> {
    let split = text.split_once('/').filter(|(_, path)| !leaves(path));
    let Some((node, path)) = split else {
        return Err(s.wrong(
            key,
            format!("`{text}` is no path of a node"),
            "write \"<node>/<path below its folder>\"",
        ));
    };
    node_known(s, key, node, groups)?;
    Ok(Place {
        node: node.to_owned(),
        path: path.to_owned(),
    })
}

fn node_known(s: &Section<'_>, key: &str, node: &str, groups: &[Group]) -> Result<(), TargetError> {
    let names: Vec<String> = groups
        .iter()
        .flat_map(|g| (1..=g.count).map(|n| format!("{}{n}", g.prefix)))
        .collect();
    if names.iter().any(|n| n == node) {
        return Ok(());
    }
    Err(s.wrong(
        key,
        format!("`{node}` is no node"),
        format!("write one of {}", names.join(", ")),
    ))
}

/// Whether a path does not stay below the folder it is relative to.
fn leaves(path: &str) -> bool {
    path.is_empty() || path.starts_with('/') || path.split('/').any(|p| p == ".." || p.is_empty())
}
