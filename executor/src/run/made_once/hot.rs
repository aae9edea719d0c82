//! What the nodes' JVMs and the workload's load and compile, a list for each: read from the logs of one rehearsal, kept in the cache, and done ahead of time in JVMs that
//! are dumped: parked ones (`snapshots/parked`) and those of a snapshot's tree (decision 0011).
//!
//! Called by the making of class archives, by the making of parked JVMs and by the launch of a tree. It looks at names only; which
//! overload was meant no log says, so all are taken.

use crate::prepare::Prepared;
use crate::run::RunError;
use crate::setup::{SetupError, cache};
use crate::slot::SpawnSpec;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Name of the file that a JVM logs its compilations in.
pub(in crate::run) const COMPILED_LOG: &str = "compiled.log";
/// The agent of a JVM does it and waits, for as long as this file is there.
pub(in crate::run) const WAITING: &str = ".park";
/// The agent of a JVM does it and goes on.
pub(in crate::run) const GOING_ON: &str = ".ahead";
/// A JVM that goes on after it does it for no longer (`warren.agent.Park`).
pub(in crate::run) const LONGEST_NS: u64 = 15_000_000_000;
/// Let the JVM run methods compiled that nobody has called (HotSpot's test interface).
const FLAGS: [&str; 2] = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+WhiteBoxAPI"];
/// From here on a JVM says on its output that the agent loads a library, unless it may.
const NATIVE_ACCESS: (u32, &str) = (24, "--enable-native-access=ALL-UNNAMED");
/// First version whose log says what is compiled.
const LOWEST_JAVA: u32 = 11;
/// A JVM of a rehearsal compiles what others would only interpret: compiled ahead it costs a run nothing.
const EARLY: &str = "-XX:CompileThresholdScaling=0.1";

/// Whose list it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Of {
    Nodes,
    Workload,
}

/// The flags by which a JVM logs them, in this folder.
pub(in crate::run) fn log_flags(prepared: &Prepared, dir: &Path) -> Vec<String> {
    if prepared.jdk().feature_version < LOWEST_JAVA {
        return Vec::new();
    }
    let log = dir.join(COMPILED_LOG);
    vec![
        EARLY.to_owned(),
        format!("-Xlog:jit+compilation=debug:file={}", log.display()),
    ]
}

fn place(prepared: &Prepared, of: Of) -> PathBuf {
    let what = match of {
        Of::Nodes => "hot",
        Of::Workload => "hotworkload",
    };
    crate::run::made_once::archives::place(prepared, what).with_extension("txt")
}

/// Both lists are there, and what they were: one that a power cut emptied would have every JVM that is dumped do nothing ahead.
pub(super) fn are_intact(prepared: &Prepared) -> bool {
    let intact = |of| cache::intact(&place(prepared, of));
    [Of::Nodes, Of::Workload].into_iter().all(intact)
}

/// The list in the cache, if there is one.
pub(in crate::run) fn find(prepared: &Prepared, of: Of) -> Option<PathBuf> {
    Some(place(prepared, of)).filter(|p| p.is_file())
}

/// Has the JVM that is to be started so, in this folder, do it before its program's first line: without a list nothing but wait.
///
/// # Errors
/// Writing the file that asks for it: says where.
pub(in crate::run) fn ask(
    prepared: &Prepared,
    of: Of,
    dir: &Path,
    file: &str,
    spec: &mut SpawnSpec,
) -> Result<(), RunError> {
    let list = find(prepared, of).unwrap_or_default();
    let library = prepared.agent().park.display();
    let file = dir.join(file);
    std::fs::write(&file, format!("{}\n{library}\n", list.display())).map_err(|e| {
        RunError::io(
            format!("asking a JVM to compile ahead, by {}", file.display()),
            e,
        )
    })?;
    let (since, may) = NATIVE_ACCESS;
    let may = (prepared.jdk().feature_version >= since).then_some(may);
    spec.argv
        .splice(1..1, FLAGS.into_iter().chain(may).map(str::to_owned));
    Ok(())
}

/// Keeps the list of these classes and of what these logs say was compiled.
///
/// # Errors
/// Writing it.
pub(in crate::run) fn keep(
    prepared: &Prepared,
    of: Of,
    classes: &BTreeSet<String>,
    logs: &[PathBuf],
) -> Result<(), SetupError> {
    let logs: Vec<String> = logs
        .iter()
        .map(|l| std::fs::read_to_string(l).unwrap_or_default())
        .collect();
    let text = list(classes, &logs);
    cache::write_sealed(prepared.cache(), &place(prepared, of), &text)
}

/// Lines `class` and `class method`, as the agent reads them. Classes come by the names of a class list, with slashes.
fn list(classes: &BTreeSet<String>, logs: &[String]) -> String {
    let plain = |c: &&String| !c.starts_with('@') && !c.contains("$$");
    let mut lines: BTreeSet<String> = classes
        .iter()
        .filter(plain)
        .map(|c| c.replace('/', "."))
        .collect();
    lines.extend(logs.iter().flat_map(|l| l.lines()).filter_map(compiled));
    lines.into_iter().map(|l| l + "\n").collect()
}

/// `class method` of a line of a JVM's log of compilations, such as
/// `[0.1s][debug][jit,compilation]  12  b  1  java.lang.String::hashCode (60 bytes)`. None for native methods, for what was made while
/// the program ran, and for lines that say something else.
fn compiled(line: &str) -> Option<String> {
    let (before, after) = line.split_once("::")?;
    let class = before.split_whitespace().next_back()?;
    let (method, rest) = after.split_once(' ')?;
    let size = rest.rsplit_once('(')?.1;
    let counted = size.strip_suffix(" bytes)")?.parse::<u32>().is_ok();
    let made_later = class.contains('/') || class.contains("$$") || class.contains("LambdaForm$");
    (counted && !made_later && !method.is_empty() && method != "<clinit>")
        .then(|| format!("{class} {method}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log_are_methods() {
        let table = [
            (
                "[0.046s][debug][jit,compilation]    1       1       java.lang.Object::<init> (1 bytes)",
                Some("java.lang.Object <init>"),
            ),
            (
                "[0.1s][debug][jit,compilation]   31   !   b  1       a.B$C::d (9 bytes)",
                Some("a.B$C d"),
            ),
            (
                "[0.1s][debug][jit,compilation]   32 %     1       a.B::loop @ 12 (99 bytes)",
                Some("a.B loop"),
            ),
            (
                "[0.1s][debug][jit,compilation]   33     n 0       java.lang.Object::hashCode (native)",
                None,
            ),
            (
                "[0.1s][debug][jit,compilation]   34       1       a.B$$Lambda$7/0x00000008000c1::run (4 bytes)",
                None,
            ),
            (
                "[0.1s][debug][jit,compilation]   35       1       java.lang.invoke.LambdaForm$MH/0x1::invoke (4 bytes)",
                None,
            ),
            (
                "[0.1s][debug][jit,compilation]   36       1       a.B::d (9 bytes)   made not entrant",
                None,
            ),
            (
                "[0.1s][debug][jit,compilation]   37       1       a.B::to",
                None,
            ),
            ("", None),
        ];
        for (line, want) in table {
            assert_eq!(compiled(line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn a_list_has_each_class_and_method_once() {
        let classes = ["a/B", "a/B$$Lambda$1", "@lambda-proxy a/B run"];
        let classes = classes.into_iter().map(str::to_owned).collect();
        let log = "[x]  1  1  a.B::c (3 bytes)\n[x]  2  1  a.B::c (7 bytes)\n".to_owned();
        assert_eq!(list(&classes, &[log.clone(), log]), "a.B\na.B c\n");
    }
}
