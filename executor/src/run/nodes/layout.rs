//! What lies in a slot before any process of it: pages, and of each node its folder, configuration files and command line. Of a restored cluster
//! all that is there, and is opened.
//!
//! Called by `Cluster::new`. Starts nothing.

use super::cluster::Node;
use super::commands::{add_archive_flag, node_argv, node_jars, write_files};
use crate::link::{LinkError, NodePage, RunPage, SharedPage, WorkloadPage};
use crate::prepare::Prepared;
use crate::run::made_once::archives::Archives;
use crate::run::made_once::image;
use crate::run::options::{NodeStatus, RunOptions};
use crate::run::{RunError, Start};
use crate::slot::Slot;
use std::error::Error as _;
use std::net::Ipv4Addr;
use std::path::Path;

/// What the run shares with its processes, beside the nodes' own pages.
pub(super) struct Pages {
    pub run: RunPage,
    pub workload: WorkloadPage,
    pub coverage: SharedPage,
    /// Of targets prepared with exact probes: the agent counts them where this file is.
    pub probes: Option<SharedPage>,
}

impl Pages {
    /// Made, or of a restored cluster opened.
    pub fn new(
        prepared: &Prepared,
        options: &RunOptions,
        slot: &Slot,
        map_size: usize,
        start: &Start<'_>,
    ) -> Result<Self, RunError> {
        let shm = slot.shm();
        let (run, workload) = (shm.join("run.page"), shm.join("workload.page"));
        let map = |name: &str, size: usize| match start.is_restored() {
            true => SharedPage::open(&shm.join(name)),
            false => SharedPage::create(&shm.join(name), size),
        };
        let (run, workload) = match start.is_restored() {
            true => (RunPage::open(&run), WorkloadPage::open(&workload)),
            false => (
                RunPage::create(&run, map_size),
                WorkloadPage::create(&workload, options.seed),
            ),
        };
        let probes = prepared.probes().map(|p| map("probes.map", p.map_size()));
        Ok(Pages {
            run: run.map_err(link)?,
            workload: workload.map_err(link)?,
            coverage: map("cov.map", map_size).map_err(link)?,
            probes: probes.transpose().map_err(link)?,
        })
    }
}

/// All nodes in the target's order, each with its page, its folder with configuration files and data, and its command line.
pub(super) fn nodes(
    prepared: &Prepared,
    options: &RunOptions,
    slot: &Slot,
    archives: &Archives,
    start: &Start<'_>,
) -> Result<Vec<Node>, RunError> {
    let target = prepared.target();
    let specs = target.nodes();
    let addrs: Vec<Ipv4Addr> = (0..specs.len()).map(|i| slot.node_addr(i)).collect();
    let archive = if node_jars(prepared, options).1.is_empty() {
        archives.plain.as_ref().filter(|_| !options.agent)
    } else {
        archives.nodes.as_ref()
    };
    let list_classes = matches!(start, Start::ListClasses);
    let mut nodes = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let name = spec.name.clone();
        let page = slot.shm().join(format!("node-{name}.page"));
        let page = match start.is_restored() {
            true => NodePage::open(&page),
            false => NodePage::create(&page, i),
        };
        let page = page.map_err(link)?;
        let below = Path::new("nodes").join(name.as_str());
        let dir = slot.root().join(&below);
        let inside_dir = slot.inside_root().join(&below);
        if matches!(start, Start::Boot | Start::ListClasses) {
            image::fill(prepared, &name, &dir)?;
        }
        if !start.is_restored() {
            write_files(target, i, &specs, &addrs, &dir, &inside_dir)?;
        }
        let mut argv = node_argv(prepared, options, slot, spec, addrs[i], &inside_dir, None)?;
        add_archive_flag(&mut argv, prepared, archive, &inside_dir, list_classes);
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
    Ok(nodes)
}

/// Too few open files or too little memory just now is a slot that failed, which makes the run void and ends no campaign. Whatever else is
/// wrong stays so.
pub(super) fn link(e: LinkError) -> RunError {
    const WHAT: &str = "shared memory of the run";
    let said = e.source().and_then(|s| s.downcast_ref::<std::io::Error>());
    match said.and_then(std::io::Error::raw_os_error) {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => RunError::Slot(format!("{WHAT}: {e}")),
        _ => RunError::io(WHAT, e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn a_machine_short_of_files_or_memory_costs_a_run_and_no_more() {
        for (number, short) in [
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::ENOMEM, true),
            (libc::ENOSPC, false),
            (libc::ENOENT, false),
        ] {
            let (path, source) = ("p".into(), Error::from_raw_os_error(number));
            let e = link(LinkError::Open { path, source });
            assert_eq!(matches!(e, RunError::Slot(_)), short, "{e}");
            assert!(e.to_string().contains("shared memory of the run"), "{e}");
        }
        let (what, value, max) = ("nodes", 99, 64);
        let e = link(LinkError::TooMany { what, value, max });
        assert!(matches!(e, RunError::Io { .. }), "{e}");
    }
}
