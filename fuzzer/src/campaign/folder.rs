//! Making the campaign folder and writing whole files into it. Whether one may be made is [`super::vacant`]'s business.

use crate::campaign::FuzzError;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An instance's folder, ready to be written to.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    /// As typed.
    command: String,
    program: String,
    flags: Vec<String>,
    /// Of the workload's choices, which a replay must repeat.
    seed: u64,
}

/// The flag of `replay` and `tmin` for failures that only the restart of all nodes may show.
pub const DURABLE: &str = "--durable";

/// Stories of failures that did not show again, in an instance's folder.
pub const UNCONFIRMED: &str = "unconfirmed";
/// So many stay: each has the nodes' logs, some MB.
const MOST_UNCONFIRMED: usize = 100;
/// Stories, in a finding's folder, of runs that fail as it does and otherwise too.
pub const OTHERWISE: &str = "otherwise";

/// Flags whose value is a path.
const PATHS: [&str; 3] = ["--targets", "--java", "-x"];

impl Folder {
    /// Makes `out/<instance>/` with its folders, cmdline and crashes/README.txt. The first time only after the campaign's first
    /// checkpoint is written: a folder without one then holds nothing.
    ///
    /// # Errors
    /// I/O with the path.
    pub fn create(&self) -> Result<(), FuzzError> {
        for sub in ["queue", "crashes", "hangs", "runs", "findings"] {
            let path = self.root.join(sub);
            fs::create_dir_all(&path).map_err(io("making the folder", &path))?;
        }
        for (file, text) in [
            ("cmdline", format!("{}\n", self.command)),
            ("crashes/README.txt", self.readme()),
        ] {
            // Those of a resumed campaign tell how it began.
            let path = self.root.join(file);
            if !path.exists() {
                write_whole(&path, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// An instance's folder, the command line of its campaign as typed, and the flags that a command to reproduce a finding must repeat; nothing
    /// is made.
    #[must_use]
    pub fn new(root: PathBuf, command_line: &[String], flags: &[String], seed: u64) -> Self {
        Folder {
            root,
            command: shell_line(command_line),
            program: match command_line.first() {
                // Found by PATH.
                Some(program) if !program.contains('/') => program.clone(),
                Some(program) => absolute(Path::new(program)),
                None => "warren".into(),
            },
            flags: absolute_flags(flags),
            seed,
        }
    }

    /// The instance's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `queue/`.
    #[must_use]
    pub fn queue(&self) -> PathBuf {
        self.root.join("queue")
    }

    /// `runs/`.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// `findings/<nnnnnn>/`.
    #[must_use]
    pub fn finding(&self, number: u64) -> PathBuf {
        self.root.join("findings").join(format!("{number:06}"))
    }

    /// `findings/<nnnnnn>/otherwise/<run>/`.
    #[must_use]
    pub fn otherwise(&self, number: u64, run: u64) -> PathBuf {
        self.finding(number)
            .join(OTHERWISE)
            .join(format!("{run:06}"))
    }

    /// `unconfirmed/<run>-<signature>/`.
    #[must_use]
    pub fn unconfirmed(&self, run: u64, signature: &str) -> PathBuf {
        self.root
            .join(UNCONFIRMED)
            .join(format!("{run:06}-{signature}"))
    }

    /// Of the stories of failures that did not show again so many stay. Of the signature that has most the oldest goes first: what a busy
    /// machine makes all the time must not push out what was seen once.
    ///
    /// # Errors
    /// A folder that cannot be read or removed.
    pub fn prune_unconfirmed(&self) -> Result<(), FuzzError> {
        let root = self.root.join(UNCONFIRMED);
        let entries = fs::read_dir(&root).map_err(io("listing", &root))?;
        let named = |path: &Path| -> Option<(String, u64)> {
            let (run, signature) = path.file_name()?.to_str()?.split_once('-')?;
            Some((signature.to_owned(), run.parse().ok()?))
        };
        // What has another name is nobody's story.
        let mut stories: BTreeMap<String, BTreeMap<u64, PathBuf>> = BTreeMap::new();
        for path in entries.flatten().map(|e| e.path()) {
            if let Some((signature, run)) = named(&path) {
                stories.entry(signature).or_default().insert(run, path);
            }
        }
        let mut left: usize = stories.values().map(BTreeMap::len).sum();
        while left > MOST_UNCONFIRMED
            && let Some(most) = stories.values_mut().max_by_key(|of| of.len())
            && let Some((_, old)) = most.pop_first()
        {
            fs::remove_dir_all(&old).map_err(io("removing", &old))?;
            left -= 1;
        }
        Ok(())
    }

    /// The command that runs a sequence file again, from any folder; `durable`: with the restart that the failure may need.
    #[must_use]
    pub fn reproduce(&self, file: &Path, durable: bool) -> String {
        let mut words = vec![self.program.clone(), "replay".into(), absolute(file)];
        words.extend(self.flags.iter().cloned());
        words.extend(durable.then(|| DURABLE.to_owned()));
        words.extend(["-s".into(), self.seed.to_string(), "-n".into(), "5".into()]);
        shell_line(&words)
    }

    /// The command that makes a failing sequence smaller.
    #[must_use]
    pub fn minimise(&self, file: &Path, out: &Path, durable: bool) -> String {
        let mut words = vec![
            self.program.clone(),
            "tmin".into(),
            "-i".into(),
            absolute(file),
            "-o".into(),
            absolute(out),
        ];
        words.extend(self.flags.iter().cloned());
        words.extend(durable.then(|| DURABLE.to_owned()));
        words.extend(["-s".into(), self.seed.to_string()]);
        shell_line(&words)
    }

    fn readme(&self) -> String {
        let command = &self.command;
        format!(
            "Command line used to find these failures:\n\n{command}\n\nEach file is a fault sequence as it really happened, in text. To run one again:\n\n{}\n\n\
             The evidence of each (timeline, logs, history) is in ../findings/; evidence.txt there names the file here.\n",
            self.reproduce(&self.root.join("crashes/<file>"), false),
        )
    }
}

/// As seen from any folder.
fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.display().to_string()
}

/// Flags of the command line, those that are paths absolute.
#[must_use]
pub fn absolute_flags(flags: &[String]) -> Vec<String> {
    let before = [None].into_iter().chain(flags.iter().map(Some));
    let word = |(before, word): (Option<&String>, &String)| match before {
        Some(flag) if PATHS.contains(&flag.as_str()) => absolute(Path::new(word)),
        _ => word.clone(),
    };
    before.zip(flags).map(word).collect()
}

/// A line for a shell: words with other than harmless characters in single quotes.
#[must_use]
pub fn shell_line(words: &[String]) -> String {
    let quote = |w: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        if !w.is_empty() && w.chars().all(plain) {
            w.clone()
        } else {
            format!("'{}'", w.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Writes a file so that a reader sees the old or the new one, never a half. What is there and is no regular file (a device, a pipe,
/// a link: `/dev/null`, `/dev/stdout`) is written into and never replaced.
///
/// # Errors
/// I/O, with the path.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FuzzError> {
    written(path, bytes, false)
}

/// The same, on the disk before it has its name: what the journal counts on must not be empty after a power cut, which may keep a
/// file's name and not what was written into it.
///
/// # Errors
/// I/O, with the path.
pub fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), FuzzError> {
    written(path, bytes, true)
}

fn written(path: &Path, bytes: &[u8], synced: bool) -> Result<(), FuzzError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if fs::symlink_metadata(path).is_ok_and(|m| !m.is_file()) {
        // A link to a file gives the file's new content; the standard output may be a file that has content already.
        let content = !path.starts_with("/dev") && path.is_file();
        return fs::OpenOptions::new()
            .write(true)
            .append(!content)
            .truncate(content)
            .open(path)
            .and_then(|mut f| f.write_all(bytes))
            .map_err(io("writing", path));
    }
    let name = path.file_name().map_or_else(String::new, |n| {
        n.to_string_lossy().chars().take(40).collect()
    });
    let temporary = path.with_file_name(format!(
        ".{name}.{}.{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    let write = || {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        if synced { file.sync_data() } else { Ok(()) }
    };
    write()
        .map_err(io("writing", &temporary))
        .and_then(|()| fs::rename(&temporary, path).map_err(io("renaming into place", path)))
        .inspect_err(|_| {
            // Half a file on a full disk would take the room that the rest needs.
            let _ = fs::remove_file(&temporary);
        })
}

/// Whether a file's name is one that [`write_whole`] or the state writes under before the file is whole: `.<name>.<pid>.<n>`,
/// `.checkpoint.<pid>`.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    let number = name.rsplit('.').next().unwrap_or("");
    name.starts_with('.') && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// Appends whole lines, or none where that fails: the next one would go on with a half one, and nobody could read the file any more.
///
/// # Errors
/// I/O, with the path.
pub fn append(path: &Path, text: &str) -> Result<(), FuzzError> {
    appended(path, |file| file.write_all(text.as_bytes()))
}

fn appended(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> std::io::Result<()>,
) -> Result<(), FuzzError> {
    let appending = || io("appending to", path);
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(appending())?;
    let whole = file.metadata().map_err(appending())?.len();
    write(&mut file).map_err(|e| {
        // The error is told in any case. What is no regular file has no length to set back.
        let _ = file.set_len(whole);
        appending()(e)
    })
}

/// The error of an operation at a path.
pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> FuzzError {
    let path = path.to_owned();
    move |source| FuzzError::Io {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stories_of_what_did_not_show_again_stay() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("default"), &[], &[], 9);
        let first = 1_000_000 - MOST_UNCONFIRMED as u64;
        let last = 1_000_001;
        for run in first..=last {
            fs::create_dir_all(folder.unconfirmed(run, "aaaaaaaa")).unwrap();
        }
        folder.prune_unconfirmed().unwrap();
        let table = [
            (first, false),
            (first + 1, false),
            (first + 2, true),
            (last, true),
        ];
        for (run, stays) in table {
            assert_eq!(folder.unconfirmed(run, "aaaaaaaa").exists(), stays, "{run}");
        }
        // One of another signature, older than all.
        fs::create_dir_all(folder.unconfirmed(3, "bbbbbbbb")).unwrap();
        folder.prune_unconfirmed().unwrap();
        assert!(folder.unconfirmed(3, "bbbbbbbb").exists());
        assert!(!folder.unconfirmed(first + 2, "aaaaaaaa").exists());
        assert!(folder.unconfirmed(first + 3, "aaaaaaaa").exists());
    }

    #[test]
    fn afls_layout_once() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let mut line = ["warren", "fuzz", "canary", "-o", "a b"].map(String::from);
        let flags = ["-x", "my.dict", "--paper"].map(String::from);
        let folder = Folder::new(out.join("default"), &line, &flags, 9);
        folder.create().unwrap();
        assert!(folder.root().ends_with("out/default"));
        for sub in [
            "queue",
            "crashes",
            "hangs",
            "runs",
            "findings",
            "cmdline",
            "crashes/README.txt",
        ] {
            assert!(folder.root().join(sub).exists(), "{sub}");
        }
        let cmdline = fs::read_to_string(folder.root().join("cmdline")).unwrap();
        assert_eq!(cmdline, "warren fuzz canary -o 'a b'\n");
        // From any folder.
        let here = std::env::current_dir().unwrap();
        let here = here.display();
        let file = Path::new("x/id:000000,src:000001");
        assert_eq!(
            folder.reproduce(file, false),
            format!(
                "warren replay {here}/{} -x {here}/my.dict --paper -s 9 -n 5",
                file.display()
            )
        );
        assert_eq!(
            folder.minimise(file, Path::new("/min.toml"), true),
            format!(
                "warren tmin -i {here}/{} -o /min.toml -x {here}/my.dict --paper --durable -s 9",
                file.display()
            )
        );
        line[0] = "bin/warren".into();
        let command =
            Folder::new(out.join("default"), &line, &flags, 9).reproduce(Path::new("/f"), false);
        assert!(
            command.starts_with(&format!("{here}/bin/warren replay /f ")),
            "{command}"
        );
        // Without a state: one message, which sends nobody to `-i -`.
        let text = Folder::check(&out, "default").unwrap_err().to_string();
        for part in [
            "default holds what is left",
            "crashes is there",
            "another folder with -o",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("-i -"), "{text}");
        fs::create_dir(folder.root().join("state")).unwrap();
        fs::write(folder.root().join("state/checkpoint"), "").unwrap();
        match Folder::check(&out, "default") {
            Err(FuzzError::HoldsCampaign { folder, .. }) => assert!(folder.ends_with("default")),
            other => panic!("{other:?}"),
        }
        // Another instance beside it is no conflict.
        let second = Folder::new(out.join("second"), &line, &flags, 9);
        second.create().unwrap();
    }

    #[test]
    fn nothing_half_and_nothing_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        append(&path, "three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "twothree\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let e = write_whole(&dir.path().join("no/such"), b"")
            .unwrap_err()
            .to_string();
        assert!(e.contains("no/"), "{e}");
    }

    #[test]
    fn a_line_that_the_disk_takes_half_of_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let half = |file: &mut fs::File| -> std::io::Result<()> {
            file.write_all(b"{\"ms\":1,\"fau")?;
            Err(std::io::ErrorKind::StorageFull.into())
        };
        for before in ["", "one\n", "one\ntwo\n"] {
            fs::write(&path, before).unwrap();
            let e = appended(&path, half).unwrap_err().to_string();
            assert!(e.starts_with("appending to "), "{e}");
            assert_eq!(fs::read_to_string(&path).unwrap(), before);
            append(&path, "next\n").unwrap();
            let after = fs::read_to_string(&path).unwrap();
            assert_eq!(after, format!("{before}next\n"));
        }
        // What takes nothing at all is told as it was.
        let full = append(Path::new("/dev/full"), "x\n").unwrap_err();
        assert!(full.to_string().contains("/dev/full"), "{full}");
    }

    #[test]
    fn what_is_no_file_is_written_into_and_stays() {
        use std::os::unix::fs::FileTypeExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "long old content").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");

        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read_to_string(pipe).unwrap())
        };
        write_whole(&pipe, b"through the pipe").unwrap();
        assert_eq!(reader.join().unwrap(), "through the pipe");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
