//! Builds the three jars with Maven, and one small library with the C compiler, and leaves them in OUT_DIR for lib.rs to embed.
//!
//! The Maven sources are copied below OUT_DIR and built there: the source tree stays clean, and the hash of the sources can be
//! written into the agent's copy of `Build.java`, so that a running agent reports the same number as `BUILD_HASH`. Refuses to go on
//! without Maven and a JDK: the text names the command and the JDK that was found. Maven is asked offline first.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODULES: [&str; 3] = ["runtime", "agent", "workload"];
/// Modules whose classes run inside a node: their sources are what AGENT_BUILD stands for.
const HASHED: [&str; 2] = ["runtime", "agent"];
/// For JVMs that are to be dumped: the one thing that Java cannot ask of a JVM.
const C_SOURCE: &str = "native/park.c";
const LIBRARY: &str = "libwarren-park.so";
const HASH_LINE: &str = "HASH = 0L;";

fn main() {
    if let Err(e) = run() {
        eprintln!("\nwarren-agent: the Java parts could not be built.\n{e}\n");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let source = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for name in ["JAVA_HOME", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let mut files = vec![PathBuf::from("pom.xml")];
    for module in MODULES {
        files.push(PathBuf::from(module).join("pom.xml"));
        collect(&source, &PathBuf::from(module).join("src/main"), &mut files)?;
        // the folder itself too: a new file changes it
        println!("cargo:rerun-if-changed={module}/src/main");
    }
    println!("cargo:rerun-if-changed={C_SOURCE}");
    files.sort();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }

    let build = out.join("maven");
    if build.exists() {
        fs::remove_dir_all(&build)?;
    }
    let mut hash = FNV_OFFSET;
    for file in &files {
        let bytes =
            fs::read(source.join(file)).map_err(|e| format!("reading {}: {e}", file.display()))?;
        if file.components().count() == 1 || HASHED.iter().any(|m| file.starts_with(m)) {
            hash = fnv1a(hash, file.to_string_lossy().as_bytes());
            hash = fnv1a(hash, &bytes);
        }
        let to = build.join(file);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&to, &bytes).map_err(|e| format!("writing {}: {e}", to.display()))?;
    }
    stamp(
        &build.join("runtime/src/main/java/warren/runtime/Build.java"),
        hash,
    )?;
    maven(&build)?;

    let mut jars = FNV_OFFSET;
    for module in MODULES {
        let name = format!("warren-{module}.jar");
        let from = build.join(module).join("target").join(&name);
        let bytes = fs::read(&from)
            .map_err(|e| format!("Maven ended well but left no {}: {e}", from.display()))?;
        jars = fnv1a(jars, &bytes);
        fs::write(out.join(&name), bytes)?;
    }
    let library = out.join(LIBRARY);
    compile(&source.join(C_SOURCE), &library)?;
    jars = fnv1a(jars, &fs::read(&library)?);
    let mut text = String::new();
    writeln!(
        text,
        "/// Hash of the sources of runtime and agent; a running agent writes it into AGENT_BUILD of its node page."
    )?;
    writeln!(text, "pub const BUILD_HASH: u64 = {hash:#018x};")?;
    writeln!(
        text,
        "/// Hash of the bytes of the jars and the library: names the folder they are written to."
    )?;
    writeln!(text, "pub const JARS_HASH: u64 = {jars:#018x};")?;
    fs::write(out.join("hashes.rs"), text)?;
    Ok(())
}

/// All files below `source/folder`, as paths relative to `source`.
fn collect(source: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    let full = source.join(folder);
    for entry in fs::read_dir(&full).map_err(|e| format!("reading {}: {e}", full.display()))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(source, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Writes the hash into the copy of Build.java.
fn stamp(file: &Path, hash: u64) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    if !text.contains(HASH_LINE) {
        return Err(format!("{} has no line `{HASH_LINE}`", file.display()).into());
    }
    fs::write(
        file,
        text.replace(HASH_LINE, &format!("HASH = {hash:#018x}L;")),
    )?;
    Ok(())
}

/// A shared library of one C source, with the headers of the JDK that runs Maven. No symbol in it is newer than glibc 2.2.5: it is
/// loaded into the JVMs of other JDKs, which may bring a C library of their own.
fn compile(source: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let include = java_home()?.join("include");
    if !include.join("jvmti.h").is_file() {
        return Err(format!(
            "{} has no jvmti.h: install a JDK (17 or later), not a runtime alone",
            include.display()
        )
        .into());
    }
    let output = Command::new("cc")
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fno-stack-protector", "-I"])
        .arg(&include)
        .arg("-I")
        .arg(include.join("linux"))
        .arg("-o")
        .arg(to)
        .arg(source)
        .output()
        .map_err(|e| format!("starting `cc`: {e}. Install a C compiler (gcc, libc6-dev), which Rust links with too"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("compiling {}:\n{said}", source.display()).into())
}

/// Of the `java` that is used, as it says itself.
fn java_home() -> Result<PathBuf, Box<dyn Error>> {
    let java = env::var_os("JAVA_HOME").map_or_else(
        || PathBuf::from("java"),
        |home| PathBuf::from(home).join("bin/java"),
    );
    let output = Command::new(&java)
        .args(["-XshowSettings:properties", "-version"])
        .output()
        .map_err(|e| {
            format!(
                "starting {}: {e}. Install a JDK (17 or later)",
                java.display()
            )
        })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let home = said
        .lines()
        .find_map(|l| l.trim().strip_prefix("java.home = "));
    home.map(PathBuf::from)
        .ok_or_else(|| format!("{} does not name its java.home: {said}", java.display()).into())
}

fn maven(build: &Path) -> Result<(), Box<dyn Error>> {
    // Offline first: a machine that built once needs no network.
    let offline = mvn(build, true)?;
    if offline.status.success() {
        return Ok(());
    }
    let online = mvn(build, false)?;
    if online.status.success() {
        return Ok(());
    }
    Err(format!(
        "command: (cd {} && mvn -q -B -Dmaven.test.skip=true package)\nJDK: {}\n{}{}",
        build.display(),
        jdk(),
        String::from_utf8_lossy(&online.stdout),
        String::from_utf8_lossy(&online.stderr),
    )
    .into())
}

fn mvn(build: &Path, offline: bool) -> Result<Output, Box<dyn Error>> {
    let mut command = Command::new("mvn");
    command
        .current_dir(build)
        .args(["-q", "-B", "-Dmaven.test.skip=true"]);
    if offline {
        command.arg("-o");
    }
    command.arg("package").output().map_err(|e| {
        format!("starting `mvn`: {e}. Install Maven (3.6 or later) and a JDK (17 or later), both on PATH. JDK: {}", jdk()).into()
    })
}

/// What `java -version` says, for the error text.
fn jdk() -> String {
    let home = env::var("JAVA_HOME").unwrap_or_else(|_| "not set".into());
    let java = Command::new("java").arg("-version").output();
    let version = java.map_or_else(
        |e| format!("`java` does not start: {e}"),
        |o| {
            String::from_utf8_lossy(&o.stderr)
                .lines()
                .next()
                .unwrap_or("no version")
                .to_owned()
        },
    );
    format!("{version}; JAVA_HOME {home}")
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
