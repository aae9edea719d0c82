//! Whether a campaign may begin in an instance's folder, and giving the folder back after a campaign that tested nothing. The two keep to
//! one list of names: what would be taken away is nowhere when a campaign begins, so that nobody's results ever go with it.

use super::folder::{Folder, io, is_temporary};
use super::state::{self, LOCK, Lock};
use crate::campaign::FuzzError;
use std::fs;
use std::path::Path;

/// Marks a folder as a mirror of another machine's instance, which a broker makes.
pub const MIRROR: &str = "mirror";
/// What a campaign writes into its instance's folder, those that tell most first; beside [`LOCK`], which tells nothing when nobody holds it.
const WRITTEN: [&str; 14] = [
    "state",
    "fuzzer_stats",
    "plot_data",
    "runs.jsonl",
    "queue",
    "crashes",
    "findings",
    "hangs",
    "runs",
    "unconfirmed",
    "coverage",
    "sync.jsonl",
    "is_main_node",
    "cmdline",
];

/// In crashes/ from the beginning.
const README: &str = "README.txt";

impl Folder {
    /// What shows that an instance's folder holds a campaign, or some of one.
    #[must_use]
    pub fn marker(root: &Path) -> Option<&'static str> {
        if state::exists(root) {
            return Some("state/checkpoint");
        }
        [MIRROR]
            .into_iter()
            .chain(WRITTEN)
            .find(|m| holds(&root.join(m)))
    }

    /// Whether a new campaign may and can be written there; for a check before a long set-up. Leaves nothing behind.
    ///
    /// # Errors
    /// As [`Lock::free`] and [`Folder::taken`]; I/O with the path when the folder cannot be made or written to.
    pub fn check(out: &Path, instance: &str) -> Result<(), FuzzError> {
        let root = out.join(instance);
        Lock::free(&root)?;
        Self::taken(&root).map_or_else(|| writable(&root), Err)
    }

    /// Why no campaign may begin in an instance's folder that no process works in: it holds one, or what is left of one that cannot be
    /// gone on with.
    #[must_use]
    pub fn taken(root: &Path) -> Option<FuzzError> {
        let found = Self::marker(root)?;
        let folder = root.to_owned();
        // A mirror has another owner, not a lost state: its mark says so, whatever else is there.
        let mirror = root.join(MIRROR).exists();
        let marker = if mirror { MIRROR } else { found }.to_owned();
        if mirror || state::exists(root) {
            return Some(FuzzError::HoldsCampaign { folder, marker });
        }
        let seeds = ["queue", "crashes"].map(|f| root.join(f));
        let seeds = seeds
            .iter()
            .find(|f| holds(f))
            .map_or_else(String::new, |f| {
                format!(" (with -i {} its sequences are seeds there)", f.display())
            });
        Some(FuzzError::Usage(format!(
            "{} holds what is left of a campaign ({marker} is there), but not its state (state/checkpoint): it can be neither resumed nor restarted there\n  \
             choose another folder with -o{seeds}, or remove it",
            folder.display(),
        )))
    }

    /// Whether a campaign has stories of failures or sequences that fail there: it is not given back, however little it tested.
    #[must_use]
    pub fn tells_failures(root: &Path) -> bool {
        let told = ["crashes", "hangs", "findings", "unconfirmed"];
        let entries = told.iter().filter_map(|f| fs::read_dir(root.join(f)).ok());
        entries.flatten().flatten().any(|e| {
            let name = e.file_name();
            name != README && !is_temporary(&name.to_string_lossy())
        })
    }

    /// Takes away what a campaign that tested nothing has made, so that its folder can be used again. Files of others stay.
    pub fn give_back(root: &Path) {
        // Another Warren that had waited for it may have it now.
        let Ok(_lock) = Lock::take(root) else {
            return;
        };
        for name in WRITTEN {
            let path = root.join(name);
            // What cannot be removed is told as what is left, when a campaign is to begin there.
            let _ = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
        }
        let _ = fs::remove_file(root.join(LOCK));
        // Only when they are empty now.
        let _ = fs::remove_dir(root);
        if let Some(out) = root.parent() {
            let _ = fs::remove_dir(out);
        }
    }
}

/// A file with something in it, or a folder with a file that is whole: a campaign killed while it wrote its first checkpoint has left nothing.
fn holds(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    if !metadata.is_dir() {
        return metadata.len() > 0;
    }
    match fs::read_dir(path) {
        Ok(mut entries) => {
            entries.any(|e| e.map_or(true, |e| !is_temporary(&e.file_name().to_string_lossy())))
        }
        // Not to be seen is not empty.
        Err(_) => true,
    }
}

/// Makes the folder, writes one block into it, and takes away what was made.
fn writable(root: &Path) -> Result<(), FuzzError> {
    // Deepest first.
    let made: Vec<&Path> = root
        .ancestors()
        .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
        .collect();
    let probe = root.join(format!(".probe.{}", std::process::id()));
    let result = fs::create_dir_all(root)
        .map_err(io("making the campaign folder", root))
        .and_then(|()| {
            fs::write(&probe, [0; 4096]).map_err(io("writing into the campaign folder", root))
        });
    let _ = fs::remove_file(&probe);
    for folder in made {
        let _ = fs::remove_dir(folder);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_given_back_is_a_campaigns_and_none_begins_over_it() {
        for name in WRITTEN {
            for file in [false, true] {
                let dir = tempfile::tempdir().unwrap();
                let root = dir.path().join("out/default");
                fs::create_dir_all(&root).unwrap();
                let path = root.join(name);
                if file {
                    fs::write(&path, "").unwrap();
                } else {
                    fs::create_dir(&path).unwrap();
                    fs::write(path.join(".checkpoint.123"), "half").unwrap();
                }
                // Nothing of anybody.
                Folder::check(&dir.path().join("out"), "default").unwrap();
                fs::write(if file { path } else { path.join("x") }, "mine").unwrap();
                let text =
                    Folder::check(&dir.path().join("out"), "default").map_err(|e| e.to_string());
                assert!(
                    text.as_ref()
                        .is_err_and(|t| t.contains(&format!("({name} is there)"))),
                    "{name}: {text:?}"
                );
            }
        }
    }

    #[test]
    fn a_folder_that_is_worked_in_is_told_with_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("default");
        let lock = Lock::take(&root).unwrap();
        // Whatever it has written already.
        for saved in [false, true] {
            if saved {
                fs::create_dir(root.join("state")).unwrap();
                fs::write(root.join("state/checkpoint"), "x").unwrap();
            }
            let text = Folder::check(dir.path(), "default")
                .unwrap_err()
                .to_string();
            assert!(
                text.contains(&format!("process {}", std::process::id())),
                "{text}"
            );
            assert!(!text.contains("remove"), "{text}");
        }
        drop(lock);
        let text = Folder::check(dir.path(), "default")
            .unwrap_err()
            .to_string();
        assert!(text.contains("already holds a campaign"), "{text}");
    }

    /// The advice for one's own campaign would be wrong: what is removed there comes again.
    #[test]
    fn a_mirror_is_told_as_another_machines() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("second");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("sync.jsonl"), "told\n").unwrap();
        fs::write(root.join(MIRROR), "of a broker\n").unwrap();
        let e = Folder::check(dir.path(), "second").unwrap_err();
        let text = e.to_string();
        let said = "second is the mirror of an instance on another machine: choose another name (-M, -S), or remove it if that instance is gone for good";
        assert!(text.ends_with(said), "{text}");
        assert!(
            !text.contains("-i -") && !text.contains("WARREN_AUTORESUME"),
            "{text}"
        );
        let way_out = crate::campaign::WayOut {
            place: "",
            content: "",
        };
        assert_eq!(way_out.of(e).exit, crate::cli::exit::Exit::Usage);
    }

    #[test]
    fn what_failed_is_a_reason_to_keep_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("default");
        assert!(!Folder::tells_failures(&root));
        fs::create_dir(&root).unwrap();
        Folder::new(root.clone(), &[], &[], 9).create().unwrap();
        assert!(root.join("crashes").join(README).exists());
        let story = root.join("unconfirmed/000000-1a2b3c4d");
        fs::create_dir_all(story.parent().unwrap()).unwrap();
        assert!(!Folder::tells_failures(&root));
        fs::create_dir(story).unwrap();
        assert!(Folder::tells_failures(&root));
    }

    #[test]
    fn a_folder_given_back_has_only_what_was_there_before() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let root = out.join("default");
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("notes.txt"), "mine").unwrap();
        let begin = || {
            drop(Lock::take(&root).unwrap());
            Folder::new(root.clone(), &[], &[], 9).create().unwrap();
        };
        begin();
        let other = Lock::take(&root).unwrap();
        Folder::give_back(&root);
        assert!(root.join("cmdline").exists());
        drop(other);
        Folder::give_back(&root);
        let left: Vec<_> = fs::read_dir(&root).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        fs::remove_file(root.join("notes.txt")).unwrap();
        begin();
        Folder::give_back(&root);
        assert!(!out.exists());
    }

    #[test]
    fn a_folder_is_tried_before_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        Folder::check(&dir.path().join("a/b"), "default").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        for out in [file.clone(), file.join("below")] {
            let text = Folder::check(&out, "default").unwrap_err().to_string();
            assert!(text.contains("making the campaign folder"), "{text}");
        }
    }
}
