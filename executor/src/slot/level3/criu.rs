//! What CRIU leaves in the machine's /tmp when it is killed, with the Warren that ran it or because it took too long: the folder in which it tries
//! whether mounts can be moved. It removes that itself a moment later, and has no other place for it.
//!
//! Called by the sweep at the start of a Warren. Whose CRIU made one cannot be told, so only what is empty, our user's and older than any
//! CRIU of ours lives is removed; what cannot be stays, and no run is the worse for it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::unistd::geteuid;

/// How their names begin; six letters by chance follow.
const NAME: &str = ".criu.move_mount_set_group.";
/// Longer than a CRIU of ours may take.
const OLD: Duration = Duration::from_secs(60);

/// Removes them from this folder.
pub(super) fn sweep(tmp: &Path) {
    let Ok(entries) = fs::read_dir(tmp) else {
        return;
    };
    let named = |e: &fs::DirEntry| e.file_name().to_str().is_some_and(|n| n.starts_with(NAME));
    for entry in entries.flatten().filter(named) {
        // Of the entry itself: what a link leads to is nobody's business here.
        let Ok(meta) = entry.metadata() else { continue };
        let age = meta.modified().ok().and_then(|t| t.elapsed().ok());
        if meta.uid() == geteuid().as_raw() && age.is_some_and(|a| a > OLD) {
            // An empty folder, or nothing at all.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::SystemTime;

    #[test]
    fn only_empty_folders_of_ours_that_are_old_are_removed() {
        let tmp = tempfile::tempdir().unwrap();
        let named = |end: &str| tmp.path().join(format!("{NAME}{end}"));
        let theirs = named("theirs");
        // What there is, whether something is in it, its age in seconds: gone.
        for (path, full, age, gone) in [
            (named("dmq4iS"), false, 90, true),
            (named("young1"), false, 10, false),
            (named("full01"), true, 90, false),
            (tmp.path().join(".criu.other.dmq4iS"), false, 90, false),
            (tmp.path().join("move_mount"), false, 90, false),
            (theirs.clone(), false, 90, false),
        ] {
            fs::create_dir(&path).unwrap();
            if full {
                fs::write(path.join("file"), "").unwrap();
            }
            if path == theirs {
                // Only root may give one away; else the row says nothing.
                let uid = Some(nix::unistd::Uid::from_raw(65_534));
                if nix::unistd::chown(&path, uid, None).is_err() {
                    continue;
                }
            }
            let then = SystemTime::now() - Duration::from_secs(age);
            File::open(&path).unwrap().set_modified(then).unwrap();
            sweep(tmp.path());
            assert_eq!(!path.exists(), gone, "{}", path.display());
        }
        sweep(&tmp.path().join("no such folder"));
    }

    #[test]
    fn files_and_links_of_such_names_stay() {
        let tmp = tempfile::tempdir().unwrap();
        let (file, folder) = (
            tmp.path().join(format!("{NAME}file00")),
            tmp.path().join("f"),
        );
        let link = tmp.path().join(format!("{NAME}link00"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let then = SystemTime::now() - Duration::from_secs(90);
        for old in [&file, &folder] {
            File::open(old).unwrap().set_modified(then).unwrap();
        }
        sweep(tmp.path());
        assert!(file.exists() && folder.is_dir() && link.is_symlink());
    }
}
