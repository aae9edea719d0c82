//! Fetches Debian's CRIU: packages from a mirror, unpacked into one tree in the cache.
//!
//! Called under the cache's lock when there is no CRIU that works. Needs apt-get and dpkg-deb on PATH.

use super::apt::Apt;
use super::sources::{configured, shown};
use super::tool::{run, tail};
use super::version::new_enough;
use super::{Criu, argv_in, ask};
use crate::setup::cache;
use crate::setup::error::{NoCriu, SetupError};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) fn fetch(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    // First what costs nothing: without these there is nothing to be made.
    for tool in ["apt-get", "dpkg-deb"] {
        run(tool, Command::new(tool).arg("--version"))?;
    }
    let arch = run("dpkg", Command::new("dpkg").arg("--print-architecture"))?;
    let arch = String::from_utf8_lossy(&arch.stdout).trim().to_string();
    let mirrors = configured()?;
    let scratch = cache::scratch(cache)?;
    let apt = Apt::prepare(scratch.path(), &arch)?;

    let mirror = apt.update(&mirrors, say)?;
    let packages = apt.closure(&mirror, &arch)?;
    say(&format!("downloading {} packages", packages.len()));
    let mut download = vec!["download"];
    download.extend(packages.iter().map(|(name, _)| name.as_str()));
    apt.run("downloading", &mirror, &download)?;

    let root = scratch.path().join("root");
    unpack(&scratch.path().join("debs"), &root)?;
    let bad = |said: String| {
        let mirror = shown(&mirror);
        SetupError::from(NoCriu::BadCopy { mirror, said })
    };
    let strange = || bad("the packages have no criu or no ld.so where they were looked for".into());
    let made = ask(argv_in(&root).ok_or_else(strange)?, true)?.map_err(bad)?;
    if !new_enough(&made.version) {
        return Err(bad(format!("it is {}", made.version)));
    }
    let name = format!("{}-{}", made.version, env::consts::ARCH);
    let place = cache.join("criu").join(name);
    let megabytes = weight(&root).div_ceil(1_000_000);
    cache::put(&root, &place)?;
    say(&format!(
        "CRIU {} is in {} ({megabytes} MB)",
        made.version,
        place.display()
    ));
    Ok(Criu {
        argv: argv_in(&place).ok_or_else(strange)?,
        ..made
    })
}

/// Every package into one tree, without what a running CRIU never opens.
fn unpack(debs: &Path, root: &Path) -> Result<(), SetupError> {
    let files = fs::read_dir(debs).map_err(SetupError::cache("reading", debs))?;
    for file in files.flatten().map(|f| f.path()) {
        if file.extension().is_none_or(|e| e != "deb") {
            continue;
        }
        let mut dpkg = Command::new("dpkg-deb");
        let done = run("dpkg-deb", dpkg.arg("-x").arg(&file).arg(root))?;
        if !done.status.success() {
            return Err(SetupError::from(NoCriu::Unpack {
                package: file.file_name().unwrap_or_default().display().to_string(),
                said: tail(&done.stderr),
            }));
        }
    }
    // Texts, and the tables of character sets.
    let mut idle = vec![root.join("usr/share")];
    for lib in ["usr/lib", "lib"] {
        let folders = fs::read_dir(root.join(lib)).into_iter().flatten().flatten();
        idle.extend(folders.map(|f| f.path().join("gconv")));
    }
    for folder in idle.iter().filter(|f| f.is_dir()) {
        fs::remove_dir_all(folder).map_err(SetupError::cache("removing", folder))?;
    }
    Ok(())
}

fn weight(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(m) if m.is_dir() => {
            let inside = fs::read_dir(path).into_iter().flatten().flatten();
            inside.map(|e| weight(&e.path())).sum()
        }
        Ok(m) => m.len(),
        Err(_) => 0,
    }
}
