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

/// In an image, what lies in it, a line each: by that it is known whole. No node is named so.
const SEAL: &str = ".seal";
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

/// Notes what was made.
fn seal(image: &Path) -> std::io::Result<()> {
    std::fs::write(image.join(SEAL), contents(image, Path::new(""))?)
}

/// Whether one that was sealed is there with all its bytes, as far as sizes tell: a power cut leaves empty files of what was just written.
/// One of an earlier Warren, without a seal, is made anew once.
fn is_whole(image: &Path) -> bool {
    let sealed = std::fs::read_to_string(image.join(SEAL));
    sealed.is_ok_and(|s| contents(image, Path::new("")).is_ok_and(|c| c == s))
}

/// Files with their sizes, folders and links below a folder of the image, but for its seal.
fn contents(image: &Path, below: &Path) -> std::io::Result<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(image.join(below))? {
        let entry = entry?;
        let (path, kind) = (below.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            lines.push(format!("{path:?}/\n{}", contents(image, &path)?));
        } else if kind.is_file() && path != Path::new(SEAL) {
            lines.push(format!("{path:?} {}\n", entry.metadata()?.len()));
        } else if !kind.is_file() {
            lines.push(format!("{path:?}\n"));
        }
    }
    lines.sort();
    Ok(lines.concat())
}

/// Makes the image if the target has one and the cache does not hold it.
pub(in crate::run) fn ensure(runner: &Runner, asked: &RunOptions) -> Result<(), RunError> {
    let prepared = runner.prepared();
    let Some(image) = &prepared.target().image else {
        return Ok(());
    };
    let place = place(prepared);
    if !is_whole(&place) {
        let wrong = |e: crate::setup::SetupError| RunError::io("keeping an image in the cache", e);
        let lock = format!("image-{}", prepared.target().name);
        let stop = || asked.to_end();
        let _guard = cache::lock_unless(prepared.cache(), &lock, &stop).map_err(wrong)?;
        // Another Warren, or another slot of this one, may have made it while we waited.
        if !is_whole(&place) {
            let scratch = cache::scratch(prepared.cache()).map_err(wrong)?;
            let made = scratch.path().join("image");
            make(runner, image, asked, &made)?;
            seal(&made).map_err(|e| RunError::io("sealing an image", e))?;
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
    let found = cache::with_last_use(folder);
    for name in cache::superfluous(found, target, SystemTime::now()) {
        let _ = std::fs::remove_dir_all(folder.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cold start from files that are not what they were would fail, and so would each one after it.
    #[test]
    fn an_image_that_a_power_cut_emptied_is_not_whole() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let (version, edits) = (image.join("n1/data/VERSION"), image.join("n1/data/edits"));
        std::fs::create_dir_all(image.join("n1/data/empty")).unwrap();
        std::fs::write(&version, "7").unwrap();
        std::fs::write(&edits, "").unwrap();
        std::os::unix::fs::symlink("VERSION", image.join("n1/data/link")).unwrap();
        assert!(!is_whole(&image), "no seal, as of an earlier Warren");
        seal(&image).unwrap();
        assert!(is_whole(&image));
        std::fs::write(&version, "").unwrap();
        assert!(!is_whole(&image), "an empty file");
        std::fs::write(&version, "7").unwrap();
        assert!(is_whole(&image));
        std::fs::remove_file(&edits).unwrap();
        assert!(!is_whole(&image), "a file is missing");
        std::fs::write(&edits, "").unwrap();
        std::fs::write(image.join(SEAL), "").unwrap();
        assert!(!is_whole(&image), "an empty seal");
        assert!(!is_whole(&dir.path().join("none")));
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
