//! Compiles Java sources of `targets/` (the canary, workload programs) into a jar in the cache.
//!
//! Called once per start. The jar's place is a hash of the sources, the class path, the release and the JDK, so nothing is
//! ever compiled twice or stale. A jar, not a folder of classes: class data sharing refuses folders.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::jdk::Jdk;
use super::{SetupError, cache, child};

/// Compiles `sources` (files, or folders searched for `.java`) against `classpath` and returns the jar.
///
/// `label` names the result in file names and errors, e.g. `zookeeper-workload`. `release` is javac's `--release`.
///
/// # Errors
/// [`SetupError::NoCompiler`] for a bare runtime, [`SetupError::Compile`] with javac's own words.
pub fn compile(
    jdk: &Jdk,
    label: &str,
    sources: &[PathBuf],
    classpath: &[PathBuf],
    release: u32,
    cache: &Path,
) -> Result<PathBuf, SetupError> {
    let files = java_files(sources)?;
    if files.is_empty() {
        let looked: Vec<String> = sources.iter().map(|s| s.display().to_string()).collect();
        return Err(SetupError::Compile {
            what: label.into(),
            javac: jdk.home.join("bin/javac"),
            output: format!("there is no .java file in {}", looked.join(", ")),
        });
    }
    let key = key(jdk, &files, classpath, release)?;
    let place = cache.join("classes").join(format!("{label}-{key}.jar"));
    if cache::intact(&place) {
        return Ok(place);
    }
    let no_compiler = || SetupError::NoCompiler {
        home: jdk.home.clone(),
        version: jdk.feature_version,
        doing: format!("compiling {label}"),
    };
    let javac = jdk.javac.as_ref().ok_or_else(no_compiler)?;
    let _guard = cache::lock(cache, &format!("javac-{label}-{key}"))?;
    if cache::intact(&place) {
        return Ok(place);
    }
    let scratch = cache::scratch(cache)?;
    let classes = scratch.path().join("classes");
    fs::create_dir(&classes).map_err(SetupError::file("creating", &classes))?;
    let mut command = Command::new(javac);
    if jdk.feature_version >= 9 {
        command.arg("--release").arg(release.to_string());
    } else {
        command.args([
            "-source",
            &release.to_string(),
            "-target",
            &release.to_string(),
        ]);
    }
    command
        .args([
            "-g",
            "-nowarn",
            "-Xlint:-options",
            "-proc:none",
            "-encoding",
            "UTF-8",
            "-d",
        ])
        .arg(&classes);
    command.arg("-cp").arg(join(classpath)).args(&files);
    run(command, label, javac)?;
    let jar = scratch.path().join("made.jar");
    let tool = jdk.home.join("bin/jar");
    let mut command = Command::new(&tool);
    command.arg("cf").arg(&jar).arg("-C").arg(&classes).arg(".");
    run(command, label, &tool)?;
    cache::put_sealed(&jar, &place)?;
    Ok(place)
}

fn run(mut command: Command, label: &str, tool: &Path) -> Result<(), SetupError> {
    let fail = |output: String| SetupError::Compile {
        what: label.into(),
        javac: tool.to_path_buf(),
        output,
    };
    let out =
        child::output(&mut command).map_err(|e| fail(format!("it cannot be started: {e}")))?;
    if out.status.success() {
        return Ok(());
    }
    Err(fail(
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat())
            .trim()
            .to_string(),
    ))
}

/// Every `.java` file, sorted.
fn java_files(sources: &[PathBuf]) -> Result<Vec<PathBuf>, SetupError> {
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> = sources.to_vec();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in
                fs::read_dir(&path).map_err(SetupError::file("reading the folder", &path))?
            {
                open.push(
                    entry
                        .map_err(SetupError::file("reading the folder", &path))?
                        .path(),
                );
            }
        } else if path.extension().is_some_and(|e| e == "java") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn key(
    jdk: &Jdk,
    files: &[PathBuf],
    classpath: &[PathBuf],
    release: u32,
) -> Result<String, SetupError> {
    let mut text = format!("1 {} {release}\n", jdk.full_version);
    for file in files {
        // Names as well: a moved class compiles to something else only with its package, but costs nothing to tell.
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        text.push_str(&format!("source {name} {}\n", cache::sha256_file(file)?));
    }
    for entry in classpath {
        let what = if entry.is_dir() {
            entry.display().to_string()
        } else {
            cache::sha256_file(entry)?
        };
        text.push_str(&format!("class path {what}\n"));
    }
    Ok(cache::sha256(text.as_bytes())[..16].to_string())
}

fn join(classpath: &[PathBuf]) -> OsString {
    let mut out = OsString::new();
    for (i, entry) in classpath.iter().enumerate() {
        if i > 0 {
            out.push(":");
        }
        out.push(entry);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::jdk::{self, JavaRange};

    #[test]
    fn sources_are_compiled_once_and_again_when_they_change() {
        let dir = tempfile::tempdir().unwrap();
        let found = jdk::find_or_fetch(JavaRange::from(8), None, dir.path(), &|_| {});
        let jdk = found.unwrap().compiler;
        let (src, cache) = (dir.path().join("src"), dir.path().join("cache"));
        fs::create_dir_all(src.join("p")).unwrap();
        fs::write(src.join("p/A.java"), "package p; public class A { public static void main(String[] a) { System.out.println(6 * 7); } }").unwrap();
        let go = || compile(&jdk, "t", std::slice::from_ref(&src), &[], 8, &cache);
        let jar = go().unwrap();
        let out = Command::new(&jdk.java)
            .arg("-cp")
            .arg(&jar)
            .arg("p.A")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "42");
        let made = fs::metadata(&jar).unwrap().modified().unwrap();
        assert_eq!(go().unwrap(), jar);
        assert_eq!(
            fs::metadata(&jar).unwrap().modified().unwrap(),
            made,
            "not made again"
        );
        fs::write(
            src.join("p/A.java"),
            "package p; class A { int x = \"no\"; }",
        )
        .unwrap();
        let e = go().unwrap_err().to_string();
        assert!(
            e.contains("A.java:1") && e.contains("incompatible types"),
            "{e}"
        );
    }

    #[test]
    fn no_sources_and_no_compiler_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let jdk = Jdk {
            home: "/runtime".into(),
            feature_version: 11,
            full_version: "11".into(),
            java: "/runtime/bin/java".into(),
            javac: None,
        };
        let sources = [dir.path().to_path_buf()];
        let e = compile(&jdk, "t", &sources, &[], 8, dir.path())
            .unwrap_err()
            .to_string();
        assert!(e.contains("no .java file"), "{e}");
        fs::write(dir.path().join("A.java"), "class A {}").unwrap();
        let e = compile(&jdk, "t", &sources, &[], 8, dir.path())
            .unwrap_err()
            .to_string();
        assert!(e.contains("/runtime") && e.contains("no javac"), "{e}");
    }
}
