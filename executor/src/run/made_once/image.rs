//! The data that every cold start begins with, where the target describes it (`[image]`): made once in a slot of its own, kept in the
//! cache by the content of the target, copied into the nodes' folders of each run.
//!
//! Called before a cluster is booted (`ensure`) and when its folders are made (`fill`). A restored cluster needs none of it.

use crate::prepare::Prepared;
use crate::run::drive::Drive;
use crate::run::evidence::ended;
use crate::run::evidence::last_words;
use crate::run::nodes::cluster::Cluster;
use crate::run::options::{NodeStatus, RunError, RunOptions};
use crate::run::snapshots::copy;
use crate::run::{Runner, Start};
use crate::setup::cache;
use crate::target::{Image, ImageStep, Place};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use warren_model::{FaultSequence, NodeName};

/// Images kept of each target, whatever their age.
const KEEP: usize = 3;
/// One used so recently may be in use.
const IN_USE: Duration = Duration::from_secs(2 * 3600);
/// How long killed processes may take to be gone.
const DYING: Duration = Duration::from_secs(10);
/// How often a step that runs a program looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

fn folder(prepared: &Prepared) -> PathBuf {
    prepared.cache().join("images")
}

fn place(prepared: &Prepared) -> PathBuf {
    folder(prepared).join(format!("{}-{}", prepared.target().name, prepared.key()))
}

/// Copies what the image holds of this node into its folder.
pub(in crate::run) fn fill(
    prepared: &Prepared,
    node: &NodeName,
    dir: &Path,
) -> Result<(), RunError> {
    if prepared.target().image.is_none() {
        return Ok(());
    }
    let from = place(prepared).join(node.as_str());
    if !from.is_dir() {
        return Ok(());
    }
    copy::tree(&from, dir, &[], copy::Changed::Now)
        .map_err(|e| RunError::io(format!("the image of {node}"), e))
}

/// Makes the image if the target has one and the cache does not hold it.
pub(in crate::run) fn ensure(runner: &Runner, asked: &RunOptions) -> Result<(), RunError> {
    let prepared = runner.prepared();
    let Some(image) = &prepared.target().image else {
        return Ok(());
    };
    let place = place(prepared);
    if !place.is_dir() {
        let wrong = |e: crate::setup::SetupError| RunError::io("keeping an image in the cache", e);
        let lock = format!("image-{}", prepared.target().name);
        let stop = || asked.to_end();
        let _guard = cache::lock_unless(prepared.cache(), &lock, &stop).map_err(wrong)?;
        // Another Warren, or another slot of this one, may have made it while we waited.
        if !place.is_dir() {
            let scratch = cache::scratch(prepared.cache()).map_err(wrong)?;
            let made = scratch.path().join("image");
            make(runner, image, asked, &made)?;
            cache::put(&made, &place).map_err(wrong)?;
        }
    }
    if let Ok(used) = std::fs::File::open(&place) {
        let _ = used.set_modified(SystemTime::now());
    }
    prune(&folder(prepared), &prepared.target().name);
    Ok(())
}

fn make(runner: &Runner, image: &Image, asked: &RunOptions, to: &Path) -> Result<(), RunError> {
    let options = RunOptions {
        limit: image.timeout,
        agent: false,
        stop: asked.stop.clone(),
        give_up: asked.give_up.clone(),
        ..RunOptions::default()
    };
    let sequence = FaultSequence::empty(&runner.prepared().target().name);
    let slot = runner.open_slot()?;
    runner.with_drive(
        &slot,
        &sequence,
        &options,
        Start::Image,
        Instant::now(),
        |drive| {
            for (i, step) in image.steps.iter().enumerate() {
                let what = || format!("making the image: step {} ({})", i + 1, named(step));
                carry_out(drive, step).map_err(|why| RunError::io(what(), why))?;
            }
            end(drive);
            keep(drive.cluster, &image.keep, to)
                .map_err(|e| RunError::io("making the image: keeping its files", e))
        },
    )?;
    slot.close().map_err(|e| RunError::Slot(e.to_string()))
}

/// A step in the words of target.toml.
fn named(step: &ImageStep) -> String {
    let path = |p: &Place| format!("{}/{}", p.node, p.path);
    match step {
        ImageStep::Start { group } => format!("start {group}"),
        ImageStep::Run { node, args, .. } => format!("run {node} {}", args.join(" ")),
        ImageStep::Copy { from, to } => format!("copy {} to {}", path(from), path(to)),
    }
}

fn carry_out(drive: &mut Drive<'_, '_>, step: &ImageStep) -> Result<(), String> {
    match step {
        ImageStep::Start { group } => start(drive, group),
        ImageStep::Run { node, main, args } => run(drive, node, main.as_deref(), args),
        ImageStep::Copy { from, to } => {
            let (from, to) = (at(drive.cluster, from)?, at(drive.cluster, to)?);
            copied(&from, &to).map_err(|e| e.to_string())
        }
    }
}

fn start(drive: &mut Drive<'_, '_>, group: &str) -> Result<(), String> {
    let groups = &drive.cluster.prepared.target().groups;
    let nodes: Vec<usize> = (0..drive.cluster.nodes.len())
        .filter(|i| groups[drive.cluster.nodes[*i].spec.group].name == group)
        .collect();
    for i in &nodes {
        drive.cluster.spawn_node(*i).map_err(|e| e.to_string())?;
    }
    let ended = |d: &Drive<'_, '_>| {
        let exited = |i: &&usize| d.cluster.nodes[**i].status == NodeStatus::Exited;
        nodes.iter().find(exited).copied()
    };
    drive
        .until(drive.deadline, |d| d.all_serve() || ended(d).is_some())
        .map_err(|e| e.to_string())?;
    let waiting = |i: &&usize| drive.cluster.nodes[**i].status != NodeStatus::Serving;
    match ended(drive).or_else(|| nodes.iter().find(waiting).copied()) {
        None => Ok(()),
        Some(i) => {
            let node = &drive.cluster.nodes[i];
            let words = last_words::of(&node.dir.join("stdout"), 4);
            Err(format!(
                "{} did not become ready; its last lines:\n    {}",
                node.name,
                words.replace('\n', "\n    ")
            ))
        }
    }
}

fn run(
    drive: &mut Drive<'_, '_>,
    node: &str,
    main: Option<&str>,
    args: &[String],
) -> Result<(), String> {
    let i = index(drive.cluster, node)?;
    let spec = drive
        .cluster
        .program_spec(i, main, args)
        .map_err(|e| e.to_string())?;
    let slot = drive.cluster.slot;
    let process = slot.spawn(&spec).map_err(|e| e.to_string())?;
    let exit = loop {
        let soon = Instant::now() + LOOK;
        match slot.wait_exit(&process, soon).map_err(|e| e.to_string())? {
            Some(exit) => break exit,
            None if drive.over() => return Err("it did not end in time".into()),
            None if drive.cluster.options.to_end() => return Err("stopped".into()),
            None => {}
        }
    };
    if exit.status == Some(0) {
        return Ok(());
    }
    let how = ended::how(exit.status, exit.signal);
    let words = last_words::of(&drive.cluster.nodes[i].dir.join(PROGRAM_OUT), 6);
    Err(format!(
        "it ended with {how}; its last lines:\n    {}",
        words.replace('\n', "\n    ")
    ))
}

/// Where a program of a step writes.
pub(in crate::run) const PROGRAM_OUT: &str = "image.out";

fn index(cluster: &Cluster<'_>, node: &str) -> Result<usize, String> {
    let found = cluster.index(&NodeName(node.to_owned()));
    found.ok_or_else(|| format!("`{node}` is no node"))
}

fn at(cluster: &Cluster<'_>, place: &Place) -> Result<PathBuf, String> {
    Ok(cluster.nodes[index(cluster, &place.node)?]
        .dir
        .join(&place.path))
}

/// A folder or a file with what is in it.
fn copied(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        return copy::tree(from, to, &[], copy::Changed::Now);
    }
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::copy(from, to)
        .map(drop)
        .map_err(|e| std::io::Error::new(e.kind(), format!("copying {}: {e}", from.display())))
}

/// Whatever was started is gone when this returns: files are copied at rest.
fn end(drive: &mut Drive<'_, '_>) {
    drive.ending = true;
    let deadline = Instant::now() + DYING;
    for i in 0..drive.cluster.nodes.len() {
        if drive.cluster.nodes[i].alive() {
            drive.cluster.kill_node(i);
        }
        if let Some(p) = &drive.cluster.nodes[i].process {
            // A slot that is lost has no living process either.
            let _ = drive.cluster.slot.wait_exit(p, deadline);
        }
    }
}

fn keep(cluster: &Cluster<'_>, paths: &[String], to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for node in &cluster.nodes {
        for path in paths {
            let from = node.dir.join(path);
            if from.exists() {
                copied(&from, &to.join(node.name.as_str()).join(path))?;
            }
        }
    }
    Ok(())
}

/// Takes old images of this target away; what cannot be removed stays.
fn prune(folder: &Path, target: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let found = entries
        .flatten()
        .filter_map(|e| {
            let used = e.metadata().ok()?.modified().ok()?;
            Some((e.file_name().into_string().ok()?, used))
        })
        .collect();
    for name in superfluous(found, target, SystemTime::now()) {
        let _ = std::fs::remove_dir_all(folder.join(name));
    }
}

/// Of folders with their last use: this target's that are neither among the newest nor possibly in use.
fn superfluous(mut found: Vec<(String, SystemTime)>, target: &str, now: SystemTime) -> Vec<String> {
    found.retain(|(name, _)| {
        let key = name.strip_prefix(target).and_then(|r| r.strip_prefix('-'));
        key.is_some_and(|k| k.len() == 16 && k.bytes().all(|b| b.is_ascii_hexdigit()))
    });
    found.sort_by_key(|(_, used)| std::cmp::Reverse(*used));
    let old = |used: &SystemTime| now.duration_since(*used).is_ok_and(|age| age > IN_USE);
    found
        .into_iter()
        .skip(KEEP)
        .filter(|(_, used)| old(used))
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_images_of_the_target_go_and_no_others() {
        let now = SystemTime::now();
        let hours = |h: u64| now - Duration::from_secs(h * 3600);
        let key = |n: u32| format!("{n:016x}");
        let mut found: Vec<(String, SystemTime)> = (1..=5)
            .map(|n| (format!("toy-{}", key(n)), hours(u64::from(n) + 1)))
            .collect();
        found.push((format!("toy-fixed-{}", key(6)), hours(90)));
        found.push(("toy-notes".into(), hours(90)));
        let mut gone = superfluous(found.clone(), "toy", now);
        gone.sort();
        assert_eq!(gone, [format!("toy-{}", key(4)), format!("toy-{}", key(5))]);
        let young: Vec<_> = found.into_iter().map(|(n, _)| (n, hours(1))).collect();
        assert!(superfluous(young, "toy", now).is_empty(), "in use");
    }

    #[test]
    fn a_step_copies_folders_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let p = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(p("a/data/current")).unwrap();
        std::fs::write(p("a/data/current/VERSION"), "7").unwrap();
        copied(&p("a/data"), &p("b/data")).unwrap();
        copied(&p("a/data/current/VERSION"), &p("c/deep/VERSION")).unwrap();
        for at in ["b/data/current/VERSION", "c/deep/VERSION"] {
            assert_eq!(std::fs::read_to_string(p(at)).unwrap(), "7", "{at}");
        }
        let e = copied(&p("none"), &p("d")).unwrap_err().to_string();
        assert!(e.contains("none"), "{e}");
    }
}
