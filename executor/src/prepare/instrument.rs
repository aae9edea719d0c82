//! The target's jars with coverage and hooks put in ahead of time, kept by content: `java -jar agent.jar instrument CONF IN OUT ...`.
//!
//! Called by `Prepared::new`; `measure` does the same with exact probes. What the instrumenter warns of is kept beside each jar, as a jar that is
//! there already is not made again. Starts no cluster.

pub(super) mod class_paths;

use super::Inner;
use crate::setup::{SetupError, cache, child};
use crate::target::Target;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Instrumented jars.
pub(super) struct Made {
    pub jars: Vec<PathBuf>,
    /// A line for each thing that is wrong with them.
    pub warnings: Vec<String>,
}

/// Why there are none.
pub(super) enum Failed {
    /// A dictionary hook cannot do what it says.
    Refused(String),
    /// They can be changed at load time still.
    Other(String),
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Failed::Other(why)
    }
}

impl From<SetupError> for Failed {
    fn from(why: SetupError) -> Self {
        Failed::Other(why.to_string())
    }
}

/// What the instrumenter ends with where a hook is refused (`Instrument.REFUSED`).
const REFUSED: i32 = 3;

/// What of the agent's configuration decides how classes are changed.
pub(super) fn conf(target: &Target) -> String {
    let mut conf = String::from("version 1\n");
    for g in &target.include {
        let _ = writeln!(conf, "include {g}");
    }
    for g in &target.exclude {
        let _ = writeln!(conf, "exclude {g}");
    }
    for line in target.dictionary.conf_lines().lines() {
        if line.starts_with("hook ") {
            let _ = writeln!(conf, "{line}");
        }
    }
    conf
}

/// The offline instrumenter of the agent.
pub(super) fn instrumenter(p: &Inner) -> Command {
    let mut command = Command::new(&p.jdk.java);
    command
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar"])
        .arg(&p.agent.agent);
    command
}

/// Runs it, told everything but the jars, over pairs of a jar and its place in this folder of the cache, and puts there what it made.
pub(super) fn fill<'j>(
    mut command: Command,
    scratch: &Path,
    folder: &Path,
    jars: impl IntoIterator<Item = (&'j PathBuf, &'j PathBuf)>,
) -> Result<(), Failed> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut made = Vec::new();
    for (i, (jar, place)) in jars.into_iter().enumerate() {
        let temporary = scratch.join(format!("{i}.jar"));
        command.arg(jar).arg(&temporary);
        made.push((temporary, place));
    }
    let warnings = finish(command)?;
    for (i, (temporary, place)) in made.into_iter().enumerate() {
        put(
            &temporary,
            place,
            warnings.get(i).map_or(&[], Vec::as_slice),
        )?;
    }
    Ok(())
}

/// Runs it to its end; what it warned of, jar by jar.
fn finish(mut command: Command) -> Result<Vec<Vec<String>>, Failed> {
    let program = command.get_program().to_owned();
    let answer = child::output(&mut command)
        .map_err(|e| format!("starting {}: {e}", program.to_string_lossy()))?;
    if answer.status.success() {
        return Ok(warnings_of(&String::from_utf8_lossy(&answer.stdout)));
    }
    let said = String::from_utf8_lossy(&answer.stderr);
    let last = said.lines().last().unwrap_or("no word").to_owned();
    if answer.status.code() == Some(REFUSED) {
        return Err(Failed::Refused(last));
    }
    let status = answer.status;
    Err(format!("the offline instrumenter ended with {status}: {last}").into())
}

/// Of each jar those before its own line, `<n> classes <out.jar>`.
fn warnings_of(said: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut of_jar = Vec::new();
    for line in said.lines() {
        match line.strip_prefix("warning: ") {
            Some(warning) => of_jar.push(warning.to_owned()),
            None => all.push(std::mem::take(&mut of_jar)),
        }
    }
    all
}

/// Where they are kept of an instrumented jar; not there where nothing is wrong with it.
fn warnings_file(jar: &Path) -> PathBuf {
    jar.with_extension("warnings")
}

/// The warnings of jars that are there already.
pub(super) fn kept_warnings(jars: &[PathBuf]) -> Result<Vec<String>, Failed> {
    let mut all = Vec::new();
    for file in jars.iter().map(|j| warnings_file(j)) {
        match std::fs::read_to_string(&file) {
            Ok(text) => all.extend(text.lines().map(str::to_owned)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {e}", file.display()).into()),
        }
    }
    Ok(all)
}

/// Moves what was made to its place in the cache, its warnings before: where the jar is, they are.
fn put(made: &Path, place: &Path, warnings: &[String]) -> Result<(), Failed> {
    if !warnings.is_empty() {
        let text = warnings.join("\n");
        let file = made.with_extension("warnings");
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        cache::put(&file, &warnings_file(place))?;
    }
    Ok(cache::put_sealed(made, place)?)
}

/// The jars of the class path, instrumented.
pub(super) fn instrument(p: &Inner) -> Result<Made, Failed> {
    let conf = conf(&p.target);
    let folder = p.cache.join("instrumented");
    let mut jars = Vec::new();
    for jar in &p.jars {
        let bytes = cache::sha256_file(jar)?;
        // v2: with its warnings beside it.
        let text = format!("v2 {bytes} {:016x} {conf}", warren_agent::BUILD_HASH);
        let name = jar
            .file_stem()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        jars.push(folder.join(format!(
            "{name}-{}.jar",
            &cache::sha256(text.as_bytes())[..16]
        )));
    }
    class_paths::claim(&p.cache, &folder, &p.target.name, &jars);
    let pairs = p.jars.iter().zip(jars.iter().cloned());
    let todo: Vec<(&PathBuf, PathBuf)> = pairs.filter(|(_, place)| !cache::intact(place)).collect();
    if !todo.is_empty() {
        make(p, &conf, todo, &folder)?;
    }
    class_paths::prune(&p.cache, &folder, &p.target.name);
    let warnings = kept_warnings(&jars)?;
    Ok(Made { jars, warnings })
}

fn make(
    p: &Inner,
    conf: &str,
    mut todo: Vec<(&PathBuf, PathBuf)>,
    folder: &Path,
) -> Result<(), Failed> {
    let _guard = cache::lock(&p.cache, "instrument")?;
    // Another Warren may have done it while we waited.
    todo.retain(|(_, place)| !cache::intact(place));
    if todo.is_empty() {
        return Ok(());
    }
    let scratch = cache::scratch(&p.cache)?;
    let conf_file = scratch.path().join("agent.conf");
    std::fs::write(&conf_file, conf).map_err(|e| format!("{}: {e}", conf_file.display()))?;
    let mut command = instrumenter(p);
    command.arg("instrument").arg(&conf_file);
    let jars = todo.iter().map(|(jar, place)| (*jar, place));
    fill(command, scratch.path(), folder, jars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_stand_before_their_jar() {
        let said = "warning: a\n12 classes /x/0.jar\n0 classes /x/1.jar\nwarning: b\nwarning: c\n3 classes /x/2.jar\n";
        let all = warnings_of(said);
        assert_eq!(all, [vec!["a"], vec![], vec!["b", "c"]]);
    }

    #[test]
    fn warnings_are_there_again_with_the_jar() {
        let dir = tempfile::tempdir().unwrap();
        let (made, place) = (dir.path().join("0.jar"), dir.path().join("x-1.2-ff.jar"));
        let other = dir.path().join("y-ff.jar");
        for (place, warnings) in [
            (&place, vec!["a b".to_owned(), "c".to_owned()]),
            (&other, vec![]),
        ] {
            std::fs::write(&made, "jar").unwrap();
            assert!(put(&made, place, &warnings).is_ok());
            assert!(cache::intact(place));
        }
        let kept = kept_warnings(&[other, place]).unwrap_or_default();
        assert_eq!(kept, ["a b", "c"]);
    }
}
