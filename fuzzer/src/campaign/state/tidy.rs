//! Brings the files of a campaign in line with its state after a kill: what was written for the run in progress is removed, what
//! does not belong there is put aside. Called once, at resume. Never removes a file of queue/, crashes/, hangs/ or findings/.

use crate::campaign::folder::{OTHERWISE, UNCONFIRMED, io, is_temporary, write_whole};
use crate::campaign::{EntryName, FuzzError, StoredRun};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the state says should be there.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Kept runs: ids 0..kept.
    pub kept: u64,
    /// Those of them that the search begins from.
    pub roots: BTreeSet<u64>,
    pub crashes: u64,
    pub hangs: u64,
    pub parked: BTreeSet<u64>,
    /// A finding is being decided on: its files may be there already.
    pub owed: bool,
    /// So is a replay of it that failed in another way.
    pub otherwise: bool,
    pub run_time_ms: u64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Tidied {
    /// What a user should know.
    pub notes: Vec<String>,
    /// Kept runs that are not there any more, or whose parked children are not.
    pub lost: BTreeSet<u64>,
}

/// Tidies an instance's folder.
///
/// # Errors
/// A run that the search begins from is not there any more, or many are not; I/O, with the path.
pub fn tidy(root: &Path, expected: &Expected) -> Result<Tidied, FuzzError> {
    let mut tidied = Tidied::default();
    for sub in ["", "queue", "crashes", "hangs", "runs", "findings", "state"] {
        temporaries(&root.join(sub))?;
    }
    for stories in ["findings", UNCONFIRMED] {
        for entry in names(&root.join(stories))? {
            let story = root.join(stories).join(entry);
            temporaries(&story)?;
            for other in names(&story.join(OTHERWISE))? {
                temporaries(&story.join(OTHERWISE).join(other))?;
            }
        }
    }
    runs(&root.join("runs"), expected, &mut tidied)?;
    if !expected.owed {
        remove(&root.join("state/owed"))?;
    }
    if !expected.otherwise {
        remove(&root.join("state/owed-replay"))?;
    }
    let more = u64::from(expected.owed);
    for (sub, known) in [
        ("queue", expected.kept),
        ("crashes", expected.crashes + more),
        ("hangs", expected.hangs + more),
    ] {
        aside(root, sub, known, &mut tidied.notes)?;
    }
    plot(&root.join("plot_data"), expected.run_time_ms)?;
    Ok(tidied)
}

fn names(folder: &Path) -> Result<Vec<String>, FuzzError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned()))
                .collect()
        })
        .map_err(io("reading the folder", folder))
}

fn remove(path: &Path) -> Result<(), FuzzError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io("removing", path)(e)),
        _ => Ok(()),
    }
}

/// Files that were being written, to be renamed.
fn temporaries(folder: &Path) -> Result<(), FuzzError> {
    for name in names(folder)? {
        if is_temporary(&name) && folder.join(&name).is_file() {
            remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// So many kept runs may be missing: with more the folder is rather half a copy, and what is left out does not come back.
fn most_missing(kept: u64) -> usize {
    usize::try_from(kept / 20).unwrap_or(usize::MAX).max(3)
}

/// Runs nobody was told of go. Of the others only those that the search begins from must be there.
fn runs(folder: &Path, expected: &Expected, tidied: &mut Tidied) -> Result<(), FuzzError> {
    let mut there = BTreeSet::new();
    for name in names(folder)? {
        let id = |suffix: &str| name.strip_suffix(suffix)?.parse::<u64>().ok();
        if let Some(id) = id(".run") {
            if id >= expected.kept {
                remove(&folder.join(&name))?;
            }
            there.insert(id);
        } else if let Some(id) = id(".parked")
            && !expected.parked.contains(&id)
        {
            remove(&folder.join(&name))?;
        }
    }
    let mut missing = Vec::new();
    for id in (0..expected.kept).filter(|id| !there.contains(id)) {
        let path = StoredRun::path(folder, id);
        if expected.roots.contains(&id) {
            return Err(FuzzError::Format {
                path,
                why: "is missing: the campaign cannot go on without it: bring it back, if it is somewhere"
                    .into(),
            });
        }
        missing.push((id, path));
    }
    let parked = expected.parked.iter().filter(|id| there.contains(id));
    let parked = parked.map(|id| (*id, folder.join(format!("{id:06}.parked"))));
    missing.extend(parked.filter(|(_, path)| !path.is_file()));
    if let Some((_, first)) = missing.first() {
        let others = match missing.len() - 1 {
            0 => String::new(),
            n => format!(", and {n} more of {}", folder.display()),
        };
        if missing.len() > most_missing(expected.kept) {
            return Err(FuzzError::Format {
                path: first.clone(),
                why: format!(
                    "is missing{others}: too many to go on without them: bring them back, if they are somewhere (a copy that is not complete yet)"
                ),
            });
        }
        tidied.notes.push(format!(
            "{} is missing{others}: left out, with the children to come of each run",
            first.display()
        ));
    }
    tidied.lost.extend(missing.into_iter().map(|(id, _)| id));
    Ok(())
}

/// A file under an id that is not given yet would make two of one id: it goes to `state/aside/`, with a note.
fn aside(root: &Path, sub: &str, known: u64, notes: &mut Vec<String>) -> Result<(), FuzzError> {
    let folder = root.join(sub);
    for name in names(&folder)? {
        if name.parse::<EntryName>().is_ok_and(|n| n.id >= known) {
            let to = root.join("state/aside");
            fs::create_dir_all(&to).map_err(io("making the folder", &to))?;
            let from = folder.join(&name);
            fs::rename(&from, to.join(&name)).map_err(io("putting aside", &from))?;
            notes.push(format!(
                "{} is not of this campaign: put aside into {}",
                from.display(),
                to.display()
            ));
        }
    }
    Ok(())
}

/// Lines of the run in progress go, a torn one and what is none; time never runs back in a plot.
fn plot(path: &Path, run_time_ms: u64) -> Result<(), FuzzError> {
    if !path.is_file() {
        return Ok(());
    }
    let bytes = fs::read(path).map_err(io("reading", path))?;
    // Of what a power cut or a full disk made of it only the figures are wanted.
    let belongs = |line: &&[u8]| {
        let Ok(line) = std::str::from_utf8(line) else {
            return false;
        };
        let time = line
            .split(',')
            .next()
            .and_then(|t| t.trim().parse::<u64>().ok());
        line.ends_with('\n')
            && (line.starts_with('#') || time.is_some_and(|t| t <= run_time_ms.div_ceil(1000)))
    };
    let kept: Vec<u8> = bytes
        .split_inclusive(|b| *b == b'\n')
        .filter(belongs)
        .flatten()
        .copied()
        .collect();
    if kept == bytes {
        Ok(())
    } else {
        write_whole(path, &kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_run_in_progress_goes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for sub in [
            "queue",
            "crashes",
            "hangs",
            "runs",
            "findings/000000",
            "state",
        ] {
            fs::create_dir_all(root.join(sub)).unwrap();
        }
        let kept = [
            "runs/000000.run",
            "runs/000001.run",
            "runs/000001.parked",
            "queue/id:000001,src:000000,time:1,execs:7,op:crash",
            "crashes/README.txt",
            "notes.txt",
            ".hidden",
        ];
        let gone = [
            "runs/000002.run",
            "runs/000000.parked",
            "runs/.000002.run.123.4",
            "queue/.id:000002.123.5",
            "state/.checkpoint.123",
            "state/owed",
            "state/owed-replay",
            "findings/000000/.evidence.txt.9.9",
        ];
        let strange = "queue/id:000002,src:000000,time:1,execs:9,op:crash";
        for name in kept.iter().chain(&gone).chain([&strange]) {
            fs::write(root.join(name), "x").unwrap();
        }
        let plot = b"# head\n3, 0\n\0\0\n4, 0\n4, \xff\xfe\n9, 0\n4\xff";
        fs::write(root.join("plot_data"), plot).unwrap();
        let expected = Expected {
            kept: 2,
            parked: BTreeSet::from([1]),
            run_time_ms: 3500,
            ..Expected::default()
        };
        let Tidied { notes, lost } = tidy(root, &expected).unwrap();
        assert!(kept.iter().all(|n| root.join(n).exists()));
        assert!(gone.iter().all(|n| !root.join(n).exists()));
        assert_eq!((notes.len(), lost.len()), (1, 0));
        assert!(notes[0].contains("put aside"), "{notes:?}");
        let plot = fs::read_to_string(root.join("plot_data")).unwrap();
        assert_eq!(plot, "# head\n3, 0\n4, 0\n");
    }

    /// What is missing -> what is said of it, which runs are lost; none: refused.
    #[test]
    fn the_search_goes_on_without_any_run_but_a_root() {
        type Told<'a> = (&'a str, &'a [u64]);
        let table: [(&[&str], Option<Told<'_>>); 6] = [
            (&[], Some(("", &[]))),
            (&["2.run"], Some(("000002.run is missing: left out", &[2]))),
            (
                &["1.parked"],
                Some(("000001.parked is missing: left out", &[1])),
            ),
            (
                &["1.run", "1.parked", "2.run"],
                Some(("000001.run is missing, and 1 more of ", &[1, 2])),
            ),
            (&["0.run", "2.run"], None),
            // Only its children are lost.
            (
                &["0.parked"],
                Some(("000000.parked is missing: left out", &[0])),
            ),
        ];
        for (missing, want) in table {
            let dir = tempfile::tempdir().unwrap();
            let runs = dir.path().join("runs");
            fs::create_dir(&runs).unwrap();
            for name in ["0.run", "0.parked", "1.run", "1.parked", "2.run"] {
                if !missing.contains(&name) {
                    fs::write(runs.join(format!("00000{name}")), "x").unwrap();
                }
            }
            let expected = Expected {
                kept: 3,
                roots: BTreeSet::from([0]),
                parked: BTreeSet::from([0, 1]),
                ..Expected::default()
            };
            let Some((said, lost)) = want else {
                let text = tidy(dir.path(), &expected).unwrap_err().to_string();
                assert!(text.contains("000000.run: is missing"), "{text}");
                continue;
            };
            let tidied = tidy(dir.path(), &expected).unwrap();
            let notes = tidied.notes.join("\n");
            assert!(notes.contains(said) && tidied.notes.len() < 2, "{notes}");
            assert!(
                tidied.lost.iter().eq(lost),
                "{missing:?}: {:?}",
                tidied.lost
            );
        }
    }

    #[test]
    fn half_a_copy_is_refused() {
        for (kept, missing, refused) in [
            (10, 3, false),
            (10, 4, true),
            (200, 10, false),
            (200, 11, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let runs = dir.path().join("runs");
            fs::create_dir(&runs).unwrap();
            for id in 0..kept - missing {
                fs::write(runs.join(format!("{id:06}.run")), "x").unwrap();
            }
            let expected = Expected {
                kept,
                ..Expected::default()
            };
            match tidy(dir.path(), &expected) {
                Ok(tidied) => assert!(!refused && tidied.lost.len() as u64 == missing),
                Err(e) => assert!(refused && e.to_string().contains("bring them back"), "{e}"),
            }
        }
    }
}
