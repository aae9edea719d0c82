//! Packages of Debian without installing them: downloaded from a mirror this machine is set to use, unpacked into a tree.
//!
//! Called by `criu` and `jdk`, under a lock of the cache, with a scratch folder of their own. Needs apt-get and dpkg-deb on PATH. It
//! refuses to touch the system's own state and to take packages whose signature apt cannot check; it starts nothing of what came.
//!
//! The packages come with their own libc, which is newer than many systems': `loader` is how to start their programs with it.

mod apt;
mod sources;
mod tool;

pub(super) use apt::SUITE;
pub(super) use sources::shown;
pub(super) use tool::{reasons, run, tail, unless_ended};

use super::error::{DebianError, SetupError};
use apt::{Apt, is_unknown};
use sources::configured;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A suite whose index was read, in a scratch folder.
pub(super) struct Debian<'a> {
    apt: Apt<'a>,
    home: &'a Path,
    mirror: String,
    /// Debian's name of the architecture.
    pub arch: String,
}

impl Debian<'_> {
    /// Reads the index of [`SUITE`] from the first configured mirror that has it. `what` is fetched, with its size.
    pub fn open<'a>(
        home: &'a Path,
        what: &str,
        say: &dyn Fn(&str),
    ) -> Result<Debian<'a>, SetupError> {
        // First what costs nothing: without these there is nothing to be made.
        for tool in ["apt-get", "dpkg-deb"] {
            run(tool, Command::new(tool).arg("--version"))?;
        }
        let arch = run("dpkg", Command::new("dpkg").arg("--print-architecture"))?;
        let arch = String::from_utf8_lossy(&arch.stdout).trim().to_string();
        let mirrors = configured()?;
        let apt = Apt::prepare(home, &arch)?;
        let mirror = apt.update(&mirrors, what, say)?;
        Ok(Debian {
            apt,
            home,
            mirror,
            arch,
        })
    }

    /// The mirror in use, to be shown.
    pub fn mirror(&self) -> String {
        shown(&self.mirror)
    }

    /// A package and all it needs, with versions; none when the suite has no such package for this machine.
    pub fn closure(&self, package: &str) -> Result<Option<Vec<(String, String)>>, SetupError> {
        self.apt.closure(&self.mirror, package)
    }

    /// These packages in one tree, without what a running program never opens.
    pub fn unpacked(&self, packages: &[&str], say: &dyn Fn(&str)) -> Result<PathBuf, SetupError> {
        say(&format!("downloading {} packages", packages.len()));
        let arguments = [&["download"], packages].concat();
        self.apt
            .run("downloading", &self.mirror, &arguments)
            .map_err(|e| match e.to_string() {
                said if is_unknown(&said) => DebianError::NotInSuite {
                    mirror: self.mirror(),
                    packages: packages.join(", "),
                    arch: self.arch.clone(),
                }
                .into(),
                _ => e,
            })?;
        let root = self.home.join("root");
        unpack(&self.home.join("debs"), &root)?;
        Ok(root)
    }
}

/// Every package into one tree, without texts and the tables of character sets.
fn unpack(debs: &Path, root: &Path) -> Result<(), SetupError> {
    let files = fs::read_dir(debs).map_err(SetupError::cache("reading", debs))?;
    for file in files.flatten().map(|f| f.path()) {
        if file.extension().is_none_or(|e| e != "deb") {
            continue;
        }
        let mut dpkg = Command::new("dpkg-deb");
        let done = run("dpkg-deb", dpkg.arg("-x").arg(&file).arg(root))?;
        if !done.status.success() {
            return Err(SetupError::from(DebianError::Unpack {
                package: file.file_name().unwrap_or_default().display().to_string(),
                said: tail(&done.stderr),
            }));
        }
    }
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

/// The ld.so of an unpacked tree and the folder of its libraries, whatever the architecture calls them.
pub(super) fn loader(root: &Path) -> Option<(PathBuf, PathBuf)> {
    for lib in ["usr/lib", "lib"] {
        for folder in fs::read_dir(root.join(lib)).into_iter().flatten().flatten() {
            let folder = folder.path();
            let mut files = fs::read_dir(&folder).into_iter().flatten().flatten();
            let found = files.find(|f| is_loader(&f.file_name().to_string_lossy()));
            if let Some(found) = found
                && folder.join("libc.so.6").is_file()
            {
                return Some((found.path(), folder));
            }
        }
    }
    None
}

fn is_loader(name: &str) -> bool {
    (name.starts_with("ld-linux") || name.starts_with("ld64")) && name.contains(".so.")
}

/// Bytes of a tree.
pub(super) fn weight(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(m) if m.is_dir() => {
            let inside = fs::read_dir(path).into_iter().flatten().flatten();
            inside.map(|e| weight(&e.path())).sum()
        }
        Ok(m) => m.len(),
        Err(_) => 0,
    }
}
