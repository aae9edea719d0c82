//! Bad input and bad days, as a user meets them: each row of docs/robustness.md that can be shown in seconds.
//!
//! Rows that need privileges, a full disk or minutes are in tests/bad-days.sh. What is asked of each: a text that names what was
//! being done, the value, the place and the way out; the right exit code; nothing left behind.

mod input;
mod setup;
mod start;
mod target;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use warren_tests::{Ran, root, run, warren};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs Warren and checks exit code and text; a panic is never an answer.
#[track_caller]
fn refused(command: Command, code: i32, parts: &[&str]) -> Ran {
    let ran = run(command, 3 * MINUTE).expect_code(code);
    for part in parts {
        assert!(ran.err.contains(part), "`{part}` is not in\n{}", ran.text());
    }
    assert!(!ran.err.contains("panicked"), "{}", ran.text());
    assert!(!ran.err.contains("Runtime error"), "{}", ran.text());
    ran
}

/// `warren fuzz TARGET -o DIR/out ...`; what a refused one leaves of DIR/out is asserted by [`nothing_made`].
fn fuzz(dir: &Path, target: &str, more: &[&str]) -> Command {
    let out = dir.join("out").display().to_string();
    let mut args = vec!["fuzz", target, "-o", &out, "--no-ui", "-E", "1"];
    args.extend(more);
    warren(&args)
}

#[track_caller]
fn nothing_made(dir: &Path) {
    assert!(
        !dir.join("out").exists(),
        "a refused campaign left its folder"
    );
}

fn file(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// A folder of targets with a canary of its own (same name, so that what the cache has of it counts) for a test to break.
struct Broken {
    dir: tempfile::TempDir,
}

impl Broken {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Broken { dir };
        copy(&root().join("targets/canary"), &made.folder());
        let dictionaries = made.dir.path().join("dictionaries");
        copy(&root().join("dictionaries"), &dictionaries);
        file(
            made.dir.path(),
            "empty.toml",
            "version = 1\ntarget = \"canary\"\n",
        );
        made
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("targets/canary")
    }

    fn toml(&self) -> PathBuf {
        self.folder().join("target.toml")
    }

    /// Changes one place of a file of the target.
    fn change(&self, path: &str, from: &str, to: &str) {
        let path = self.folder().join(path);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{} has no `{from}`", path.display());
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    }

    fn targets(&self) -> String {
        self.dir.path().join("targets").display().to_string()
    }

    /// `warren replay` of the fault-free sequence.
    fn replay(&self) -> Command {
        let empty = self.dir.path().join("empty.toml").display().to_string();
        warren(&[
            "replay",
            &empty,
            "--targets",
            &self.targets(),
            "-t",
            "60000",
        ])
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}
