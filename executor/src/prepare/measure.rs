//! The target's jars with exact probes, one for each way that JaCoCo counts (docs/coverage.md), and the table of what each stands for.
//!
//! Called by set-up for `--coverage-report`. Probes are numbered over all jars of the class path, so these are made, and kept in the
//! cache, together. Knows nothing of what is counted: it reads the table's first line.

use super::Inner;
use super::instrument::{Failed, Made, class_paths, conf, fill, instrumenter, kept_warnings};
use crate::setup::cache;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// A map is no smaller: a page.
const LEAST: usize = 4096;
/// First words of a table of the version that is read here.
const HEAD: &str = "warren-probes 1 ";

/// The exact probes of a prepared target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    table: PathBuf,
    count: usize,
}

impl Probes {
    /// What each probe stands for (docs/formats.md).
    #[must_use]
    pub fn table(&self) -> &Path {
        &self.table
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of `probes.map`: a power of two, so that no number of a probe lies outside.
    #[must_use]
    pub fn map_size(&self) -> usize {
        self.count.next_power_of_two().max(LEAST)
    }
}

/// The class path with exact probes in it.
pub(super) fn measure(p: &Inner) -> Result<(Made, Probes), Failed> {
    let conf = conf(&p.target);
    let mut key = format!("measure v2 {:016x} {conf}", warren_agent::BUILD_HASH);
    for jar in &p.jars {
        key.push_str(&cache::sha256_file(jar)?);
    }
    let key = cache::sha256(key.as_bytes());
    let folder = p.cache.join("instrumented");
    let place = |i: usize, jar: &Path| {
        let name = jar.file_stem().unwrap_or_default().to_string_lossy();
        folder.join(format!("{name}-{}-{i}.jar", &key[..16]))
    };
    let jars: Vec<PathBuf> = p
        .jars
        .iter()
        .enumerate()
        .map(|(i, j)| place(i, j))
        .collect();
    let table = folder.join(format!("{}-{}.probes", p.target.name, &key[..16]));
    let files = jars.iter().chain([&table]);
    class_paths::claim(&p.cache, &folder, &p.target.name, files);
    let there = || cache::intact(&table) && jars.iter().all(|j| cache::intact(j));
    if !there() {
        let _guard = cache::lock(&p.cache, "instrument")?;
        // Another Warren may have done it while we waited.
        if !there() {
            make(p, &conf, &folder, &jars, &table)?;
        }
    }
    class_paths::prune(&p.cache, &folder, &p.target.name);
    let count = count(&table)?;
    let warnings = kept_warnings(&jars)?;
    Ok((Made { jars, warnings }, Probes { table, count }))
}

/// Makes the jars and the table, whose places all lie in `folder`.
fn make(
    p: &Inner,
    conf: &str,
    folder: &Path,
    places: &[PathBuf],
    table: &Path,
) -> Result<(), Failed> {
    let scratch = cache::scratch(&p.cache)?;
    let conf_file = scratch.path().join("agent.conf");
    std::fs::write(&conf_file, conf).map_err(|e| format!("{}: {e}", conf_file.display()))?;
    let made = scratch.path().join("table");
    let mut command = instrumenter(p);
    command.arg("measure").arg(&conf_file).arg(&made);
    fill(command, scratch.path(), folder, p.jars.iter().zip(places))?;
    // Last: with the table all of it is there.
    Ok(cache::put_sealed(&made, table)?)
}

/// From the first line.
fn count(table: &Path) -> Result<usize, String> {
    let file = std::fs::File::open(table).map_err(|e| format!("{}: {e}", table.display()))?;
    let mut line = String::new();
    BufReader::new(file)
        .read_line(&mut line)
        .map_err(|e| format!("{}: {e}", table.display()))?;
    let count = line
        .strip_prefix(HEAD)
        .and_then(|n| n.trim_end().parse().ok());
    match count {
        Some(0) => Err(format!(
            "no class of the target has any: check [target] include (found: {})",
            table.display()
        )),
        Some(n) => Ok(n),
        None => Err(format!(
            "{}: expected `{HEAD}<probes>` first, found `{}`",
            table.display(),
            line.trim_end()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_how_many() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t");
        for (text, want) in [
            ("warren-probes 1 7\nclass ...\n", Ok(7)),
            ("warren-probes 1 0\n", Err("no class of the target")),
            ("warren-probes 2 7\n", Err("expected `warren-probes 1 ")),
            ("", Err("expected")),
        ] {
            std::fs::write(&file, text).unwrap();
            match (count(&file), want) {
                (Ok(have), Ok(want)) => assert_eq!(have, want),
                (Err(have), Err(want)) => assert!(have.contains(want), "{have}"),
                (have, want) => panic!("{have:?}, {want:?}"),
            }
        }
    }

    #[test]
    fn a_map_has_room_for_each_probe() {
        for (count, size) in [(1, 4096), (4096, 4096), (4097, 8192), (70_000, 131_072)] {
            let probes = Probes {
                table: PathBuf::new(),
                count,
            };
            assert_eq!((probes.map_size(), probes.count()), (size, count));
        }
    }
}
