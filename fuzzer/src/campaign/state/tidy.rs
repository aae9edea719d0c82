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
    pub crashes: u64,
    pub hangs: u64,
    pub parked: BTreeSet<u64>,
    /// A finding is being decided on: its files may be there already.
    pub owed: bool,
    /// So is a replay of it that failed in another way.
    pub otherwise: bool,
    pub run_time_ms: u64,
}

/// Tidies an instance's folder; answers what a user should know.
///
/// # Errors
/// A kept run or a parked one is not there any more; I/O, with the path.
pub fn tidy(root: &Path, expected: &Expected) -> Result<Vec<String>, FuzzError> {
    let mut notes = Vec::new();
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
    runs(&root.join("runs"), expected)?;
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
        aside(root, sub, known, &mut notes)?;
    }
    plot(&root.join("plot_data"), expected.run_time_ms)?;
    Ok(notes)
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

/// Runs nobody was told of go; every other must be there.
fn runs(folder: &Path, expected: &Expected) -> Result<(), FuzzError> {
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
    let missing = |name: String| FuzzError::Format {
        path: folder.join(name),
        why: "is missing: the campaign cannot go on without it: bring it back, if it is somewhere"
            .into(),
    };
    if let Some(id) = (0..expected.kept).find(|id| !there.contains(id)) {
        let path = StoredRun::path(Path::new(""), id);
        return Err(missing(path.display().to_string()));
    }
    for id in &expected.parked {
        let name = format!("{id:06}.parked");
        if !folder.join(&name).is_file() {
            return Err(missing(name));
        }
    }
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
        let notes = tidy(root, &expected).unwrap();
        assert!(kept.iter().all(|n| root.join(n).exists()));
        assert!(gone.iter().all(|n| !root.join(n).exists()));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("put aside"), "{notes:?}");
        let plot = fs::read_to_string(root.join("plot_data")).unwrap();
        assert_eq!(plot, "# head\n3, 0\n4, 0\n");

        fs::remove_file(root.join("runs/000001.parked")).unwrap();
        let text = tidy(root, &expected).unwrap_err().to_string();
        assert!(
            text.contains("000001.parked is missing") || text.contains("is missing"),
            "{text}"
        );
        fs::remove_file(root.join("runs/000000.run")).unwrap();
        let text = tidy(root, &expected).unwrap_err().to_string();
        assert!(text.contains("000000.run"), "{text}");
    }
}
