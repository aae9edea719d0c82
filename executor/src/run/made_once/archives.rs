//! Class data archives (AppCDS): a JVM that maps its classes starts in half the CPU time. Made once a target, kept in the cache.
//!
//! Made before background stacks are learnt; every cluster that is made asks what there is. The list of classes comes from a rehearsal
//! (`rehearsal`); three archives are dumped from it: nodes with instrumented jars, nodes with plain jars (bench), workload. A JVM that
//! cannot use one silently starts without it. What a target no longer uses is taken away at set-up (`prune`).

use crate::disk;
use crate::prepare::Prepared;
use crate::run::made_once::hot::{self, COMPILED_LOG};
use crate::run::made_once::rehearsal::{booted, kept, rehearse};
use crate::run::nodes::commands::CLASS_LIST;
use crate::run::options::{RunError, RunOptions};
use crate::run::phases::flow::Flow;
use crate::run::{Runner, Start};
use crate::setup::{SetupError, cache};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use warren_model::{FaultSequence, RunProduct};

/// With less left on the cache's disk what failed may have failed of that, bytes: the three together are 30 to 60 MB.
const ROOM: u64 = 256 << 20;
/// Lowest Java version whose archives hold application classes without unlocking anything.
const LOWEST_JAVA: u32 = 11;

/// The archives there are.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Archives {
    pub nodes: Option<PathBuf>,
    pub plain: Option<PathBuf>,
    pub workload: Option<PathBuf>,
}

/// Files that the JVMs of a rehearsal left: lists of classes, and logs of what they compiled.
#[derive(Clone, Debug)]
pub(in crate::run) struct Listed {
    pub nodes: Vec<PathBuf>,
    pub nodes_compiled: Vec<PathBuf>,
    pub workload: PathBuf,
    pub workload_compiled: PathBuf,
}

pub(in crate::run) fn place(prepared: &Prepared, what: &str) -> PathBuf {
    prepared.cache().join("archives").join(format!(
        "{}-{}-{what}.jsa",
        prepared.target().name,
        prepared.key()
    ))
}

/// Says that archives were tried for this target, and what failed: they are not tried again, whether it worked or not.
fn marker(prepared: &Prepared) -> PathBuf {
    place(prepared, "tried").with_extension("txt")
}

impl Archives {
    /// What the cache holds for this target. Every run asks, and so marks them as used.
    pub fn find(prepared: &Prepared) -> Self {
        crate::run::made_once::prune::mark_used(&marker(prepared));
        let there = |what: &str| Some(place(prepared, what)).filter(|p| is_there(p));
        Archives {
            nodes: there("nodes"),
            plain: there("plain"),
            workload: there("workload"),
        }
    }

    /// Whether there is nothing left to make. A marker without its seal was left by a full disk, a power cut or an earlier Warren.
    pub fn settled(prepared: &Prepared) -> bool {
        prepared.jdk().feature_version < LOWEST_JAVA
            || cache::intact(&marker(prepared)) && hot::are_intact(prepared)
    }

    /// Dumps the archives from the class lists of nodes and workload, and keeps what JVMs that are dumped do ahead of time, from the same lists and
    /// the logs of compilations. What cannot be dumped is left out: runs are slower then, and what is to be told of it is handed back.
    pub fn make(prepared: &Prepared, listed: &Listed) -> Result<Option<String>, SetupError> {
        let folder = prepared.cache().join("archives");
        std::fs::create_dir_all(&folder).map_err(|source| SetupError::Cache {
            doing: "creating",
            path: folder.clone(),
            source,
        })?;
        let boot = prepared.agent().runtime.as_path();
        let mut said = String::new();
        let node_list = merged(&listed.nodes);
        let workload_list = merged(std::slice::from_ref(&listed.workload));
        let (of_nodes, of_workload) = (&listed.nodes_compiled, &listed.workload_compiled);
        hot::keep(prepared, hot::Of::Nodes, &node_list, of_nodes)?;
        let of_workload = std::slice::from_ref(of_workload);
        hot::keep(prepared, hot::Of::Workload, &workload_list, of_workload)?;
        let mut dump =
            |what: &str, list: &BTreeSet<String>, path: &[PathBuf], boot: Option<&Path>| {
                if let Err(why) = dump(prepared, &place(prepared, what), list, path, boot) {
                    said.push_str(&format!("{what}: {why}\n"));
                }
            };
        if let Some(jars) = prepared.instrumented() {
            dump("nodes", &node_list, jars, Some(boot));
        }
        let plain: BTreeSet<String> = node_list
            .iter()
            .filter(|l| !l.starts_with("warren/"))
            .cloned()
            .collect();
        dump("plain", &plain, prepared.jars(), None);
        dump(
            "workload",
            &workload_list,
            prepared.workload_path(),
            Some(boot),
        );
        if crate::setup::stopped() {
            return Err(SetupError::Ended);
        }
        let free = disk::room(&folder).map(|r| r.free);
        conclude(prepared.cache(), &marker(prepared), &said, free)
    }
}

/// One that is empty is none: a power cut leaves such. What else is wrong with one the JVM sees, and starts without it.
fn is_there(archive: &Path) -> bool {
    std::fs::metadata(archive).is_ok_and(|m| m.is_file() && m.len() > 0)
}

/// Notes that archives were tried and what failed, a line each; what is to be told of it. Where a full disk may be the reason nothing is
/// noted, so that they are tried again when there may be room.
fn conclude(
    cache: &Path,
    marker: &Path,
    failed: &str,
    free: Option<u64>,
) -> Result<Option<String>, SetupError> {
    let why = failed.trim_end().replace('\n', "; ");
    if let Some(free) = free.filter(|free| *free < ROOM && !failed.is_empty()) {
        return Ok(Some(format!(
            "not all class archives could be made, and JVMs start slower: the cache's disk has only {} MiB left, and the next start tries \
             again ({why})",
            free >> 20
        )));
    }
    cache::write_sealed(cache, marker, failed)?;
    Ok((!failed.is_empty()).then(|| {
        format!(
            "not all class archives could be made, and JVMs start slower: {why}; remove {} to have them tried again",
            marker.display()
        )
    }))
}

/// Makes the class archives, once for all Warrens of this machine: replacing one would take it from under the snapshots that map it.
pub(super) fn make_archives(runner: &Runner, asked: &RunOptions) -> Result<(), RunError> {
    let prepared = runner.prepared();
    if Archives::settled(prepared) {
        return Ok(());
    }
    let wrong = |e| RunError::io("waiting for another Warren that makes class archives", e);
    let lock = format!("archives-{}", prepared.target().name);
    let stop = || asked.to_end();
    let _guard = cache::lock_unless(prepared.cache(), &lock, &stop).map_err(wrong)?;
    // Another Warren, or another run of this one, may have made them while we waited.
    if Archives::settled(prepared) {
        return Ok(());
    }
    list(runner, asked)
}

/// What a boot, some traffic and a few faults load and compile, as archives and as the list for parked JVMs.
fn list(runner: &Runner, asked: &RunOptions) -> Result<(), RunError> {
    booted(runner, asked, Start::ListClasses, |slot, drive, options| {
        let ended = rehearse(drive)?;
        // A system that the rehearsal has broken has loaded and compiled enough.
        if drive.all_serve() {
            drive.deadline = drive.deadline.min(drive.patience_ends());
            Flow::new(drive, &mut RunProduct::default())
                .test_and_check(&FaultSequence::empty(""))?;
        }
        if options.to_end() {
            return Err(RunError::io("listing classes", "stopped"));
        }
        let of_nodes = |file: &str| -> Vec<PathBuf> {
            let living = drive.cluster.nodes.iter().map(|n| n.dir.join(file));
            let ended = ended.iter().map(|i| &drive.cluster.nodes[*i].dir);
            living.chain(ended.map(|d| kept(d, file))).collect()
        };
        let of_workload = |file: &str| slot.root().join("workload").join(file);
        let told = Archives::make(
            runner.prepared(),
            &Listed {
                nodes: of_nodes(CLASS_LIST),
                nodes_compiled: of_nodes(COMPILED_LOG),
                workload: of_workload(CLASS_LIST),
                workload_compiled: of_workload(COMPILED_LOG),
            },
        )
        .map_err(|e| RunError::io("keeping class archives in the cache", e))?;
        runner.tell_once(told);
        Ok(())
    })
}

/// Class names of several lists, each once. Ids are left out (they differ between JVMs), and with them classes of custom
/// loaders, which need them.
fn merged(lists: &[PathBuf]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for list in lists {
        let text = std::fs::read_to_string(list).unwrap_or_default();
        // The last line may be torn: its JVM was killed.
        let whole = text.rsplit_once('\n').map_or("", |(w, _)| w);
        for line in whole.lines() {
            if line.starts_with('#') || line.contains("source:") {
                continue;
            }
            let name = if line.starts_with('@') {
                line
            } else {
                line.split_whitespace().next().unwrap_or_default()
            };
            if !name.is_empty() {
                out.insert(name.to_owned());
            }
        }
    }
    out
}

/// One that is there already stays: a Warren whose snapshots map it may go on.
fn dump(
    prepared: &Prepared,
    place: &Path,
    list: &BTreeSet<String>,
    path: &[PathBuf],
    boot: Option<&Path>,
) -> Result<(), String> {
    if is_there(place) {
        return Ok(());
    }
    if list.is_empty() {
        return Err("no class list".into());
    }
    let list_file = place.with_extension(format!("list{}", std::process::id()));
    let part = place.with_extension(format!("part{}", std::process::id()));
    let text: String = list.iter().map(|l| format!("{l}\n")).collect();
    std::fs::write(&list_file, text).map_err(|e| {
        let _ = std::fs::remove_file(&list_file);
        e.to_string()
    })?;
    let mut command = Command::new(&prepared.jdk().java);
    command.args(["-Xshare:dump", "-XX:+UseSerialGC", "-Xlog:cds=off"]);
    command.arg(format!("-XX:SharedClassListFile={}", list_file.display()));
    command.arg(format!("-XX:SharedArchiveFile={}", part.display()));
    if let Some(b) = boot {
        command.arg(format!("-Xbootclasspath/a:{}", b.display()));
    }
    let path: Vec<String> = path.iter().map(|p| p.display().to_string()).collect();
    command.arg("-cp").arg(path.join(":"));
    let answer = crate::setup::child::output(&mut command).map_err(|e| e.to_string());
    let _ = std::fs::remove_file(&list_file);
    let answer = answer.inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })?;
    if !answer.status.success() || !part.is_file() {
        let _ = std::fs::remove_file(&part);
        let said = String::from_utf8_lossy(&answer.stderr).into_owned()
            + &String::from_utf8_lossy(&answer.stdout);
        return Err(format!(
            "{}: {}",
            answer.status,
            said.lines().last().unwrap_or("no word")
        ));
    }
    // It has no seal, as no run is to read it whole: it is on the disk before it is at its place.
    let synced = File::open(&part).and_then(|f| f.sync_all());
    synced
        .and_then(|()| std::fs::rename(&part, place))
        .map_err(|e| {
            let _ = std::fs::remove_file(&part);
            e.to_string()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_merged_without_ids_and_torn_lines() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, "# head\njava/lang/Object id: 0\nx/Y id: 7\nz/Q id: 9 super: 7 source: /j\n@lambda-proxy x/Y run\nto").unwrap();
        std::fs::write(&b, "x/Y id: 3\nx/Z id: 4\n").unwrap();
        let got: Vec<String> = merged(&[a, b, dir.path().join("none")])
            .into_iter()
            .collect();
        assert_eq!(
            got,
            ["@lambda-proxy x/Y run", "java/lang/Object", "x/Y", "x/Z"]
        );
    }

    /// What failed is told once; a full disk is no reason to go without for ever.
    #[test]
    fn archives_that_could_not_be_made_are_told_and_without_room_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join("archives/toy-tried.txt");
        let failed = "nodes: signal: 9 (SIGKILL): no word\nplain: No space left on device\n";
        let little = conclude(dir.path(), &marker, failed, Some(ROOM - 1)).unwrap();
        let little = little.unwrap();
        assert!(
            little.contains("255 MiB") && little.contains("SIGKILL"),
            "{little}"
        );
        assert!(!little.contains('\n') && !marker.exists(), "{little}");
        for free in [Some(ROOM), None] {
            let told = conclude(dir.path(), &marker, failed, free).unwrap();
            let told = told.unwrap();
            assert!(told.contains("toy-tried.txt") && told.contains("SIGKILL"));
            assert!(cache::intact(&marker));
            assert_eq!(std::fs::read_to_string(&marker).unwrap(), failed);
        }
        // All were made: nothing is to be told, and room or not, it is settled.
        for free in [Some(0), Some(ROOM), None] {
            assert_eq!(conclude(dir.path(), &marker, "", free).unwrap(), None);
            assert!(cache::intact(&marker));
        }
        // As a full disk left it: created, and never written.
        std::fs::write(&marker, "").unwrap();
        std::fs::remove_file(dir.path().join("archives/toy-tried.txt.sha256")).unwrap();
        assert!(!cache::intact(&marker));
    }

    #[test]
    fn an_empty_archive_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("a.jsa");
        assert!(!is_there(&archive) && !is_there(dir.path()));
        std::fs::write(&archive, "").unwrap();
        assert!(!is_there(&archive));
        std::fs::write(&archive, "x").unwrap();
        assert!(is_there(&archive));
    }
}
