//! Finds CRIU, which dumps and restores a started cluster; where there is none that works, fetches Debian's.
//!
//! Called once per start when snapshots are wanted. What is fetched lies in the cache with its own libc and is started
//! through its own ld.so, so it works on systems older than itself. It refuses to install anything, to take a CRIU older
//! than [`LEAST`], and to take packages whose signature apt cannot check. It dumps and restores nothing.
//!
//! Here it is looked for; `fetch` makes a copy from packages of Debian.

mod fetch;
mod version;

pub use version::LEAST;

use super::debian::{loader, tail, unless_ended};
use super::error::SetupError;
use super::{cache, child};
use fetch::fetch;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use version::{new_enough, numbers, parse_version};

/// A CRIU that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criu {
    /// Program and first arguments; CRIU's own arguments follow (a private copy is started through its own ld.so).
    pub argv: Vec<String>,
    /// Its version, as `criu --version` says: `4.2.1`.
    pub version: String,
    /// True if it is Warren's own copy in the cache.
    pub private: bool,
}

/// Finds CRIU: one on PATH that is new enough, else the copy in the cache, without any network. `Ok(None)` = there is none yet.
///
/// # Errors
/// [`SetupError::Ended`].
pub fn find(cache: &Path) -> Result<Option<Criu>, SetupError> {
    let installed = on_path()?.into_iter().find(|c| new_enough(&c.version));
    installed.map_or_else(|| own(cache), |criu| Ok(Some(criu)))
}

/// As [`find`]; where there is none, fetches it as Debian packages into the cache (apt-get and dpkg-deb on PATH, a mirror of
/// Debian configured). Needs no right but to write there, and some 70 MB for as long as it lasts.
///
/// # Errors
/// [`SetupError::NoCriu`]; [`SetupError::Cache`]; [`SetupError::Ended`].
pub fn find_or_fetch(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    if let Some(criu) = find(cache)? {
        return Ok(criu);
    }
    for old in on_path()? {
        let (program, version) = (old.argv.concat(), old.version);
        say(&format!("{program} is CRIU {version}, which is too old"));
    }
    own_or_fetch(cache, say)
}

/// Warren's own copy, fetched if it is not there: for where the system's is new enough and does not work.
///
/// # Errors
/// As [`find_or_fetch`].
pub fn own_or_fetch(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    let _guard = cache::lock(cache, "criu")?;
    // Another process may have done it while we waited.
    match own(cache)? {
        Some(criu) => Ok(criu),
        None => fetch(cache, say),
    }
}

/// Every CRIU on PATH that tells its version, by its full name: a slot has another working directory.
fn on_path() -> Result<Vec<Criu>, SetupError> {
    let mut all = Vec::new();
    for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        let program = std::path::absolute(folder.join("criu")).ok();
        let argv = program.filter(|p| p.is_file()).and_then(|p| text_of(&p));
        if let Some(argv) = argv
            && let Ok(criu) = ask(vec![argv], false)?
        {
            all.push(criu);
        }
    }
    Ok(all)
}

/// The newest copy in the cache that still works. One that does not is as none: it is made again.
///
/// # Errors
/// [`SetupError::Ended`].
pub fn own(cache: &Path) -> Result<Option<Criu>, SetupError> {
    let suffix = format!("-{}", env::consts::ARCH);
    let mut found: Vec<(Vec<u32>, PathBuf)> = fs::read_dir(cache.join("criu"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| {
            let name = e.file_name().into_string().ok()?;
            Some((numbers(name.strip_suffix(&suffix)?), e.path()))
        })
        .collect();
    found.sort();
    for (_, root) in found.into_iter().rev() {
        if let Some(argv) = argv_in(&root)
            && let Ok(criu) = ask(argv, true)?
            && new_enough(&criu.version)
        {
            return Ok(Some(criu));
        }
    }
    Ok(None)
}

/// Asks a CRIU for its version; `Err` inside has what it said instead.
fn ask(argv: Vec<String>, private: bool) -> Result<Result<Criu, String>, SetupError> {
    let said = match child::output(Command::new(&argv[0]).args(&argv[1..]).arg("--version")) {
        Ok(out) => match parse_version(&String::from_utf8_lossy(&out.stdout)) {
            Some(version) if out.status.success() => {
                return Ok(Ok(Criu {
                    argv,
                    version,
                    private,
                }));
            }
            _ => tail(&[out.stdout, out.stderr].concat()),
        },
        Err(e) => e.to_string(),
    };
    unless_ended(false)?;
    Ok(Err(said))
}

/// How the CRIU of an unpacked tree is started, whatever the architecture calls its folder and its ld.so.
fn argv_in(root: &Path) -> Option<Vec<String>> {
    let program = ["usr/sbin/criu", "usr/bin/criu"].map(|p| root.join(p));
    let program = program.iter().find(|p| p.is_file())?;
    let (loader, libraries) = loader(root)?;
    let option = "--library-path".to_string();
    Some(vec![
        text_of(&loader)?,
        option,
        text_of(&libraries)?,
        text_of(program)?,
    ])
}

fn text_of(path: &Path) -> Option<String> {
    path.to_str().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a program that says `text`. By a shell: a file this process has open for writing cannot be started, and another
    /// test's child may have inherited it.
    fn program(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut sh = Command::new("sh");
        sh.args([
            "-c",
            r#"printf '#!/bin/sh\necho "%s"\n' "$1" > "$0" && chmod +x "$0""#,
        ]);
        assert!(sh.arg(path).arg(text).status().unwrap().success());
    }

    #[test]
    fn the_newest_copy_that_works_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let arch = env::consts::ARCH;
        assert_eq!(own(dir.path()).unwrap(), None);
        let copy = |name: &str, loader: &str, said: &str| {
            let root = dir.path().join("criu").join(name);
            program(&root.join("usr/sbin/criu"), "not this one: its ld.so");
            let lib = root.join("usr/lib/any-linux-gnu");
            program(&lib.join(loader), said);
            fs::write(lib.join("libc.so.6"), "").unwrap();
            lib
        };
        copy(
            &format!("4.1-{arch}"),
            "ld-linux-x86-64.so.2",
            "Version: 4.1",
        );
        copy("9.0-other", "ld-linux-other.so.1", "Version: 9.0");
        assert_eq!(own(dir.path()).unwrap(), None, "too old, another machine's");
        copy(&format!("4.9-{arch}"), "ld64.so.2", "Version: 4.9");
        let lib = copy(
            &format!("4.10-{arch}"),
            "ld-linux-riscv64-lp64d.so.1",
            "Version: 4.10",
        );
        let got = own(dir.path()).unwrap().unwrap();
        assert_eq!((got.version.as_str(), got.private), ("4.10", true));
        assert_eq!(
            got.argv[1..3],
            ["--library-path".to_string(), text_of(&lib).unwrap()]
        );
        assert!(got.argv[0].ends_with("riscv64-lp64d.so.1") && got.argv[3].ends_with("/criu"));
        fs::remove_file(lib.join("libc.so.6")).unwrap();
        assert_eq!(
            own(dir.path()).unwrap().unwrap().version,
            "4.9",
            "4.10 is damaged"
        );
    }

    /// Needs a Debian-like system and a network; takes half a minute. WARREN_CACHE names the folder, else it is a temporary one.
    /// `cargo test -p warren-executor --lib criu -- --ignored --nocapture`
    #[test]
    #[ignore = "fetches 20 MB"]
    fn fetches_for_real() {
        let dir = tempfile::tempdir().unwrap();
        let named = env::var_os("WARREN_CACHE").map(PathBuf::from);
        let cache = named.clone().unwrap_or(dir.path().to_path_buf());
        let began = std::time::Instant::now();
        let got = find_or_fetch(&cache, &|line| println!("{line}"));
        let got = got.unwrap_or_else(|e| panic!("{e}"));
        println!("{got:?} after {:?}", began.elapsed());
        assert!(new_enough(&got.version));
        assert_eq!(find(&cache).unwrap().unwrap(), got);
        // In a folder that others use, there may be more.
        if got.private && named.is_none() {
            let left = fs::read_dir(cache.join("tmp")).unwrap().count();
            assert_eq!(left, 0, "left behind in tmp");
        }
    }
}
