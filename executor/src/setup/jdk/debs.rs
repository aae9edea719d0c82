//! A full JDK from packages of Debian, with the libc that they want beside them: the system's is often older.
//!
//! Called by `fetch`. Programs are made to start with their own ld.so and to find their own libraries by paths written into them
//! (patchelf), not by a variable: what Java starts must see the system's. The paths are absolute, so the tree is made for one place.

use crate::setup::debian::{Debian, loader, run, tail};
use crate::setup::error::{NoFetch, SetupError};
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Libraries that Java is linked to, and the program that changes where it looks for them.
const BESIDE: [&str; 5] = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g", "patchelf"];

/// The packages unpacked below `scratch`, to be put at `place`: the tree, and where in it the Java home is.
pub(super) fn unpack(
    version: u32,
    scratch: &Path,
    place: &Path,
    say: &dyn Fn(&str),
) -> Result<(PathBuf, PathBuf), SetupError> {
    let what = format!("Java {version} (some 60 to 140 MB, 200 MB unpacked)");
    let debian = Debian::open(scratch, &what, say)?;
    let java = ["jre", "jdk"].map(|part| format!("openjdk-{version}-{part}-headless"));
    let mut packages: Vec<&str> = java.iter().map(String::as_str).collect();
    packages.extend(BESIDE);
    let root = debian.unpacked(&packages, say)?;
    let strange = |lacks: &str| NoFetch::BadCopy {
        place: place.to_path_buf(),
        said: format!("the packages have no {lacks} where it was looked for"),
    };
    let wrap = |source| SetupError::NotFetched { version, source };
    let home = home_in(&root).ok_or_else(|| wrap(strange("bin/java")))?;
    let (ld, libraries) = loader(&root).ok_or_else(|| wrap(strange("ld.so")))?;
    for idle in ["docs", "man", "jre/man", "src.zip", "jmods"] {
        let idle = root.join(&home).join(idle);
        let gone = match fs::symlink_metadata(&idle) {
            Ok(m) if m.is_dir() => fs::remove_dir_all(&idle),
            Ok(_) => fs::remove_file(&idle),
            Err(_) => Ok(()),
        };
        gone.map_err(SetupError::cache("removing", &idle))?;
    }
    relink(&root, &root.join(&home))?;
    let inside = |path: &Path| path.strip_prefix(&root).map(|p| place.join(p));
    let (ld_there, libraries_there) = match (inside(&ld), inside(&libraries)) {
        (Ok(ld), Ok(libraries)) => (ld, libraries),
        _ => return Err(wrap(strange("ld.so"))),
    };
    let paths = run_path(&root.join(&home), &libraries_there);
    for program in programs(&root.join(&home))? {
        let mut patchelf = Command::new(&ld);
        patchelf.arg("--library-path").arg(&libraries);
        patchelf.arg(root.join("usr/bin/patchelf"));
        patchelf.arg("--set-interpreter").arg(&ld_there);
        patchelf.args(["--force-rpath", "--set-rpath", &paths]);
        let done = run("patchelf", patchelf.arg(&program))?;
        if !done.status.success() {
            return Err(wrap(NoFetch::BadCopy {
                place: program,
                said: format!("patchelf: {}", tail(&done.stderr)),
            }));
        }
    }
    for idle in ["usr/bin", "usr/sbin", "usr/lib/debug"].map(|p| root.join(p)) {
        if idle.is_dir() {
            fs::remove_dir_all(&idle).map_err(SetupError::cache("removing", &idle))?;
        }
    }
    Ok((root, home))
}

/// The Java home, relative to the root: the folder itself, not one of the links to it.
fn home_in(root: &Path) -> Option<PathBuf> {
    let folder = Path::new("usr/lib/jvm");
    let mut all = fs::read_dir(root.join(folder)).ok()?.flatten();
    let home = all
        .find(|e| e.file_type().is_ok_and(|t| t.is_dir()) && e.path().join("bin/java").exists())?;
    Some(folder.join(home.file_name()))
}

/// Links into the system's /etc are made links into the tree's, where that has what they name.
fn relink(root: &Path, folder: &Path) -> Result<(), SetupError> {
    let entries = fs::read_dir(folder).map_err(SetupError::cache("reading", folder))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            relink(root, &path)?;
        } else if kind.is_symlink()
            && let Ok(to) = fs::read_link(&path)
            && let Ok(inside) = to.strip_prefix("/")
            && fs::symlink_metadata(root.join(inside)).is_ok()
            && let Ok(below) = folder.strip_prefix(root)
        {
            let up: PathBuf = below.components().map(|_| "..").collect();
            fs::remove_file(&path).map_err(SetupError::cache("replacing", &path))?;
            symlink(up.join(inside), &path).map_err(SetupError::cache("linking", &path))?;
        }
    }
    Ok(())
}

/// Where the programs of a home look for libraries: the runtime's own, then the tree's. Java 8 has a folder per architecture, 11 has
/// one for the launcher's.
fn run_path(home: &Path, libraries: &Path) -> String {
    let mut paths = Vec::new();
    for lib in ["lib", "jre/lib"] {
        // Programs lie in bin and in jre/bin.
        let mut add = |below: &str| paths.push(format!("$ORIGIN/../{lib}{below}"));
        if home.join(lib).join("jli").is_dir() {
            add("/jli");
        }
        let folders = fs::read_dir(home.join(lib)).into_iter().flatten().flatten();
        for folder in folders.filter(|f| f.path().join("jli").is_dir()) {
            let name = folder.file_name().to_string_lossy().into_owned();
            add(&format!("/{name}/jli"));
            add(&format!("/{name}"));
        }
        add("");
    }
    paths.push(libraries.display().to_string());
    paths.join(":")
}

/// The programs of a home that are machine code.
fn programs(home: &Path) -> Result<Vec<PathBuf>, SetupError> {
    let mut found = Vec::new();
    for bin in ["bin", "jre/bin"].map(|b| home.join(b)) {
        for entry in fs::read_dir(&bin).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_file()) {
                let mut magic = Vec::new();
                let file = fs::File::open(&path).map_err(SetupError::cache("opening", &path))?;
                file.take(4)
                    .read_to_end(&mut magic)
                    .map_err(SetupError::cache("reading", &path))?;
                if magic == *b"\x7fELF" {
                    found.push(path);
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_as_debian_has_it_is_made_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let home = root.join("usr/lib/jvm/java-8-openjdk-amd64");
        for folder in ["bin", "jre/bin", "jre/lib/amd64/jli", "lib/amd64/jli"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::create_dir_all(root.join("etc/java-8")).unwrap();
        fs::write(root.join("etc/java-8/jvm.cfg"), "-server KNOWN").unwrap();
        fs::write(home.join("jre/bin/java"), b"\x7fELF and so on").unwrap();
        fs::write(home.join("bin/script"), "#!/bin/sh").unwrap();
        symlink("../jre/bin/java", home.join("bin/java")).unwrap();
        symlink("java-8-openjdk-amd64", root.join("usr/lib/jvm/java-1.8.0")).unwrap();
        let cfg = home.join("jre/lib/amd64/jvm.cfg");
        symlink("/etc/java-8/jvm.cfg", &cfg).unwrap();
        let certs = home.join("jre/lib/cacerts");
        symlink("/etc/ssl/not-here", &certs).unwrap();

        let found = home_in(&root).unwrap();
        assert_eq!(root.join(&found), home);
        relink(&root, &home).unwrap();
        // Also after a move.
        let moved = dir.path().join("moved");
        fs::rename(&root, &moved).unwrap();
        let home = moved.join(&found);
        let cfg = home.join("jre/lib/amd64/jvm.cfg");
        assert_eq!(fs::read_to_string(cfg).unwrap(), "-server KNOWN");
        let certs = fs::read_link(home.join("jre/lib/cacerts")).unwrap();
        assert_eq!(certs, Path::new("/etc/ssl/not-here"), "the system's");
        assert_eq!(programs(&home).unwrap(), [home.join("jre/bin/java")]);
        let paths = run_path(&home, Path::new("/its/libs"));
        let paths: Vec<&str> = paths.split(':').collect();
        assert_eq!(paths.last(), Some(&"/its/libs"));
        for want in [
            "$ORIGIN/../lib/amd64/jli",
            "$ORIGIN/../jre/lib/amd64",
            "$ORIGIN/../lib",
        ] {
            assert!(paths.contains(&want), "{want}: {paths:?}");
        }
    }
}
