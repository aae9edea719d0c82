//! The Java parts as bytes: the agent, its runtime (boot class path), the workload library, and the C library for JVMs that are dumped, built by
//! build.rs.
//!
//! Called by executor/, which writes them beside its cache at start ([`write_jars`]). Starts nothing and knows nothing of targets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/hashes.rs"));

/// What instrumented classes call: goes on the boot class path (`-Xbootclasspath/a:`).
pub static RUNTIME_JAR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/warren-runtime.jar"));
/// `-javaagent:`, and the offline instrumenter (`java -jar warren-agent.jar instrument CONF IN OUT ...`).
pub static AGENT_JAR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/warren-agent.jar"));
/// Library of workload programs.
pub static WORKLOAD_JAR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/warren-workload.jar"));
/// Loaded into JVMs that are to be dumped (`native/park.c`).
pub static PARK_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libwarren-park.so"));

/// Where the jars lie after [`write_jars`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jars {
    pub runtime: PathBuf,
    pub agent: PathBuf,
    pub workload: PathBuf,
    /// A shared library.
    pub park: PathBuf,
}

/// Writes the jars to `dir/<hash of the jars>/` and returns their paths.
///
/// Jars that are there already with the right bytes stay untouched. Each file appears whole or not at all, so several processes may
/// call this at once on one folder.
///
/// # Errors
/// The error of the file system, with the file it happened at in its text.
pub fn write_jars(dir: &Path) -> io::Result<Jars> {
    let folder = dir.join(format!("{JARS_HASH:016x}"));
    fs::create_dir_all(&folder).map_err(|e| at(e, "making", &folder))?;
    Ok(Jars {
        runtime: write(&folder, "warren-runtime.jar", RUNTIME_JAR)?,
        agent: write(&folder, "warren-agent.jar", AGENT_JAR)?,
        workload: write(&folder, "warren-workload.jar", WORKLOAD_JAR)?,
        park: write(&folder, "libwarren-park.so", PARK_LIBRARY)?,
    })
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|present| present == bytes) {
        return Ok(path);
    }
    // The process id and the thread tell concurrent writers apart; the rename makes the file appear whole.
    let part = folder.join(format!(
        ".{name}.{}.{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    fs::write(&part, bytes)
        .map_err(|e| at(e, "writing", &part))
        .and_then(|()| fs::rename(&part, &path).map_err(|e| at(e, "putting in place", &path)))
        .inspect_err(|_| {
            // Half a jar on a full disk is of no use to anybody.
            let _ = fs::remove_file(&part);
        })?;
    Ok(path)
}

fn at(e: io::Error, doing: &str, path: &Path) -> io::Error {
    io::Error::new(e.kind(), format!("{doing} {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jars_are_zip_files_and_not_empty() {
        for jar in [RUNTIME_JAR, AGENT_JAR, WORKLOAD_JAR] {
            assert!(jar.len() > 1000 && jar.starts_with(b"PK"));
        }
    }

    #[test]
    fn writing_is_idempotent_and_mends_a_broken_jar() {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let jars = write_jars(dir.path()).expect("first write");
        let first = fs::metadata(&jars.agent)
            .and_then(|m| m.modified())
            .expect("time of the jar");
        assert_eq!(write_jars(dir.path()).expect("second write"), jars);
        assert_eq!(
            fs::metadata(&jars.agent)
                .and_then(|m| m.modified())
                .expect("time of the jar"),
            first
        );
        fs::write(&jars.runtime, b"half").expect("breaking a jar");
        write_jars(dir.path()).expect("third write");
        assert_eq!(
            fs::read(&jars.runtime).expect("the mended jar"),
            RUNTIME_JAR
        );
    }

    #[test]
    fn concurrent_writers_leave_whole_jars() {
        let dir = tempfile::tempdir().expect("a scratch folder");
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    let jars = write_jars(dir.path()).expect("a write");
                    assert_eq!(fs::read(jars.workload).expect("a jar"), WORKLOAD_JAR);
                });
            }
        });
        let left: Vec<_> = fs::read_dir(dir.path().join(format!("{JARS_HASH:016x}")))
            .expect("the folder")
            .collect();
        assert_eq!(left.len(), 4, "no partial file stays: {left:?}");
    }
}
