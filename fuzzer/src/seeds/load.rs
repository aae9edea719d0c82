//! Seed files: read from a file or a folder, and asked before anything is set up whether the target could run them at all.
//!
//! Called by `fuzz -i` and `seed check`. One bad seed refuses all of them: a seed that is silently left out is a seed nobody misses.

use crate::cli::sequence_file::{SequenceFileError, read_sequence};
use std::path::{Path, PathBuf};
use warren_executor::RunError;
use warren_executor::run::check_request;
use warren_executor::target::Target;
use warren_model::{CrashStyle, CutHow, Fault, FaultSequence};

/// A sequence and the file it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedFile {
    /// The file's own name, as `orig:` shows it.
    pub name: String,
    pub path: PathBuf,
    pub sequence: FaultSequence,
}

/// Why seeds cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    #[error("reading seed {}: {source}\n  give a file or a folder of fault sequences (docs/formats.md, section 9)", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("seed: {0}\n  or leave it out: one bad seed refuses all")]
    File(#[from] SequenceFileError),
    #[error("seed {}: {why}{}", path.display(), remedy(.why))]
    Refused { path: PathBuf, why: RunError },
    #[error("no usable seed in {}: {why}\n  give a file or a folder with at least one sequence that has a fault", path.display())]
    None { path: PathBuf, why: String },
}

fn remedy(why: &RunError) -> &'static str {
    match why {
        RunError::WrongTarget { .. } => {
            "\n  give seeds of this target (key `target` of the file), or name the other target"
        }
        _ => {
            "\n  mend that [[fault]] of the file; target.toml has the nodes, its dictionary the roles"
        }
    }
}

/// The seeds of a file or a folder, in order of their names. Hidden files and README files are no seeds; a sequence without faults
/// (the root of another campaign's queue/) is left out, as learning makes that run anyway.
///
/// # Errors
/// The first file that is no sequence; nothing usable at all.
pub fn read_seeds(path: &Path) -> Result<Vec<SeedFile>, SeedError> {
    let files = files_of(path)?;
    let looked = files.len();
    let mut seeds = Vec::new();
    for file in files {
        let sequence = read_sequence(&file)?;
        if !sequence.faults.is_empty() {
            seeds.push(SeedFile {
                name: name_of(&file),
                path: file,
                sequence,
            });
        }
    }
    if seeds.is_empty() {
        let why = if looked == 0 {
            "it has no files".to_owned()
        } else {
            format!("{looked} read, none has a fault")
        };
        return Err(SeedError::None {
            path: path.to_owned(),
            why,
        });
    }
    Ok(seeds)
}

/// Refuses seeds that this target can surely not run: another target's, names it does not have, faults that can never happen.
///
/// # Errors
/// The first one, with its file and its fault.
pub fn check_seeds(seeds: &[SeedFile], target: &Target) -> Result<(), SeedError> {
    for seed in seeds {
        check_request(target, &seed.sequence).map_err(|why| SeedError::Refused {
            path: seed.path.clone(),
            why,
        })?;
    }
    Ok(())
}

/// What of a sequence needs kernel rules in the slot: such a fault cannot be made without them.
#[must_use]
pub fn needs_kernel(sequence: &FaultSequence) -> bool {
    sequence.faults.iter().any(|f| {
        matches!(
            f.fault,
            Fault::PartitionStart {
                how: CutHow::Drop,
                ..
            } | Fault::Crash {
                style: CrashStyle::Machine,
                ..
            }
        )
    })
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, SeedError> {
    let failed = |source| SeedError::Read {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = name_of(&file);
        if file.is_file() && !name.starts_with('.') && !name.starts_with("README") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn name_of(file: &Path) -> String {
    file.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"crash\"\n[fault.at]\nkind = \"force\"\nrole = \"leader\"\n";
    const EMPTY: &str = "version = 1\ntarget = \"t\"\n";

    #[test]
    fn folders_and_what_is_refused() {
        let big = " ".repeat(usize::try_from(crate::cli::sequence_file::MAX_BYTES).unwrap() + 1);
        // Files of the folder; names of the seeds, or part of the refusal.
        type Case<'a> = (Vec<(&'a str, &'a [u8])>, Result<&'a [&'a str], &'a str>);
        let good = GOOD.as_bytes();
        let table: Vec<Case<'_>> = vec![
            // By name, whatever the order on disk; hidden files, README files and folders are none.
            (
                vec![
                    ("b.toml", good),
                    ("a.toml", good),
                    (".a.swp", b"\xff"),
                    ("README.txt", b"text"),
                ],
                Ok(&["a.toml", "b.toml"]),
            ),
            // Another campaign's queue: its root has no faults.
            (
                vec![
                    ("id:000000,orig:fault-free", EMPTY.as_bytes()),
                    ("id:000001,src:000000", good),
                ],
                Ok(&["id:000001,src:000000"]),
            ),
            (vec![], Err("it has no files")),
            (
                vec![("a.toml", EMPTY.as_bytes())],
                Err("1 read, none has a fault"),
            ),
            // One bad seed refuses all.
            (
                vec![("a.toml", good), ("b.toml", b"\x7fELF\xff\xfe")],
                Err("b.toml: it is not text: byte 4"),
            ),
            (
                vec![("a.toml", b"nonsense")],
                Err("a.toml: not a fault sequence"),
            ),
            (
                vec![("a.toml", big.as_bytes())],
                Err("a.toml: it is larger than 1048576 bytes"),
            ),
        ];
        for (files, want) in table {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("folder")).unwrap();
            for (name, text) in files {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            match (read_seeds(dir.path()), want) {
                (Ok(seeds), Ok(names)) => {
                    let got: Vec<&str> = seeds.iter().map(|s| s.name.as_str()).collect();
                    assert_eq!(got, names);
                }
                (Err(e), Err(part)) => {
                    let e = e.to_string();
                    assert!(e.contains(part), "lacks `{part}`: {e}");
                }
                (got, want) => panic!("{got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn one_file_and_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.toml");
        let e = read_seeds(&file).unwrap_err().to_string();
        assert!(e.contains("x.toml") && e.contains("give a file"), "{e}");
        std::fs::write(&file, GOOD).unwrap();
        assert_eq!(read_seeds(&file).unwrap()[0].name, "x.toml");
        let e = read_seeds(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(e.contains("/dev/zero: it is larger than"), "{e}");
    }

    #[test]
    fn every_file_of_the_corpus_is_accepted() {
        use warren_executor::target::{find_target, load_target};
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut all = 0;
        for folder in std::fs::read_dir(root.join("corpus")).unwrap() {
            let folder = folder.unwrap().path();
            let target = find_target(&name_of(&folder), Some(&root.join("targets"))).unwrap();
            let target = load_target(&target, None, false, &[]).unwrap();
            let seeds = read_seeds(&folder).unwrap_or_else(|e| panic!("{e}"));
            check_seeds(&seeds, &target).unwrap_or_else(|e| panic!("{e}"));
            // None is passed over as one without faults.
            assert_eq!(seeds.len(), files_of(&folder).unwrap().len(), "{folder:?}");
            all += seeds.len();
        }
        assert!(all >= 19, "{all}");
    }

    #[test]
    fn what_needs_kernel_rules() {
        let table = [
            ("kind = \"crash\"\nnode = \"a\"", false),
            ("kind = \"crash\"\nnode = \"a\"\nstyle = \"machine\"", true),
            ("kind = \"partition-start\"\nwho = { cut = [\"a\"] }", true),
            (
                "kind = \"partition-start\"\nhow = \"throw\"\nwho = { cut = [\"a\"] }",
                false,
            ),
        ];
        for (fault, want) in table {
            let text = format!("{EMPTY}[[fault]]\n{fault}\n[fault.at]\nwhen = \"at-once\"\n");
            let sequence = FaultSequence::from_text(&text).unwrap();
            assert_eq!(needs_kernel(&sequence), want, "{fault}");
        }
    }
}
