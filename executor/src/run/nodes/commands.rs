//! Command lines, environments and configuration files of the JVMs of a run.
//!
//! Called when a cluster is made (`layout.rs`) and each time a process of it is started (`spawn.rs`). Starts nothing.

use crate::prepare::Prepared;
use crate::run::nodes::templates::render;
use crate::run::options::{RunError, RunOptions};
use crate::slot::Slot;
use crate::target::{NodeSpec, expand};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The folder and configuration files of node `i`.
pub(in crate::run) fn write_files(
    target: &crate::target::Target,
    i: usize,
    specs: &[NodeSpec],
    addrs: &[Ipv4Addr],
    dir: &Path,
    inside_dir: &Path,
) -> Result<(), RunError> {
    make_dir(&dir.join("tmp"))?;
    for file in &target.groups[specs[i].group].files {
        let text = render(target, file, i, specs, addrs, inside_dir)?;
        let place = dir.join(&file.path);
        if let Some(parent) = place.parent() {
            make_dir(parent)?;
        }
        std::fs::write(&place, text)
            .map_err(|e| RunError::io(format!("writing {}", place.display()), e))?;
    }
    Ok(())
}

pub(in crate::run) fn make_dir(path: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(path).map_err(|e| RunError::io(format!("making {}", path.display()), e))
}

pub(in crate::run) fn class_path(jars: &[PathBuf]) -> String {
    jars.iter()
        .map(|j| j.display().to_string())
        .collect::<Vec<_>>()
        .join(":")
}

pub(in crate::run) fn environment(prepared: &Prepared) -> Vec<(String, String)> {
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
pub(in crate::run) fn jvm_flags(heap: &str, dir: &Path) -> Vec<String> {
    let mut flags: Vec<String> = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        METASPACE,
        "-Djava.net.preferIPv4Stack=true",
    ]
    .map(str::to_owned)
    .to_vec();
    flags.push(format!("-Xmx{heap}"));
    flags.push(format!("-Xmn{}k", young_k(heap)));
    flags.push(format!("-Djava.io.tmpdir={}", dir.join("tmp").display()));
    flags.push(format!(
        "-XX:ErrorFile={}",
        dir.join("hs_err_%p.log").display()
    ));
    flags
}

/// Below it no JVM collects all its garbage only because it has loaded many classes: each one did while its program started.
const METASPACE: &str = "-XX:MetaspaceSize=96m";

/// Size of the young generation in KiB, of a heap such as `128m`: small, because garbage that was not collected yet is in each dump, and
/// each run reads it back. Objects that do not fit into it go to the old one at once.
fn young_k(heap: &str) -> u64 {
    let unit = match heap.as_bytes().last() {
        Some(b'g') => 1 << 20,
        Some(b'm') => 1 << 10,
        _ => 1,
    };
    let digits = heap.trim_end_matches(|c: char| !c.is_ascii_digit());
    let all = digits.parse::<u64>().unwrap_or(0).saturating_mul(unit);
    (all / 16).max(LEAST_YOUNG_K.min(all / 2))
}

/// Of the young generation, KiB.
const LEAST_YOUNG_K: u64 = 8 << 10;

/// First version that may map an archive elsewhere on purpose (to be harder to attack).
const RELOCATES: u32 = 17;
/// It does not.
const IN_PLACE: [&str; 2] = [
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
];

/// Name of the file that a JVM lists its classes in.
pub(in crate::run) const CLASS_LIST: &str = "classes.lst";

/// Maps the archive, or lists classes for one, and what is compiled. Goes right after the program's name.
pub(in crate::run) fn add_archive_flag(
    argv: &mut Vec<String>,
    prepared: &Prepared,
    archive: Option<&PathBuf>,
    dir: &Path,
    list: bool,
) {
    if list {
        let file = dir.join(CLASS_LIST);
        argv.splice(1..1, crate::run::made_once::hot::log_flags(prepared, dir));
        argv.insert(1, format!("-XX:DumpLoadedClassList={}", file.display()));
    } else if let Some(a) = archive {
        argv.insert(1, format!("-XX:SharedArchiveFile={}", a.display()));
        // Mapped where it was made for, its pages stay the file's: each JVM would write to all of them, and each dump hold them, else.
        if (RELOCATES..).contains(&prepared.jdk().feature_version) {
            argv.splice(1..1, IN_PLACE.map(str::to_owned));
        }
    }
}

/// (class path of the nodes, jars that were instrumented before).
pub(in crate::run) fn node_jars(
    prepared: &Prepared,
    options: &RunOptions,
) -> (Vec<PathBuf>, Vec<PathBuf>) {
    // Dumping classes shows what is transformed at load time, so it needs the jars as they came.
    match prepared.instrumented() {
        Some(jars) if options.agent && options.dump_classes.is_none() => {
            (jars.to_vec(), jars.to_vec())
        }
        _ => (prepared.jars().to_vec(), Vec::new()),
    }
}

/// What runs in a node's place.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Program<'a> {
    /// The node's own main class when absent.
    pub main: Option<&'a str>,
    pub args: &'a [String],
}

pub(in crate::run) fn node_argv(
    prepared: &Prepared,
    options: &RunOptions,
    slot: &Slot,
    spec: &NodeSpec,
    addr: Ipv4Addr,
    dir: &Path,
    instead: Option<Program<'_>>,
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
    // Folders come last: a class archive holds for a class path that begins with its jars.
    let mut path = node_jars(prepared, options).0;
    let folders = expanded(&group.class_path, "class_path")?;
    path.extend(folders.into_iter().map(PathBuf::from));
    argv.push(class_path(&path));
    let own = group.main.as_ref().unwrap_or(&target.main);
    let (main, args) = match instead {
        Some(p) => (p.main.unwrap_or(own), p.args),
        None => (own.as_str(), group.args.as_slice()),
    };
    argv.push(main.to_owned());
    argv.extend(expanded(args, "args")?);
    Ok(argv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_young_generation_is_small_and_never_all() {
        let table = [
            ("128m", 8 << 10),
            ("1g", 64 << 10),
            ("8m", 4 << 10),
            ("512k", 256),
        ];
        for (heap, want) in table {
            assert_eq!(young_k(heap), want, "{heap}");
        }
    }
}
