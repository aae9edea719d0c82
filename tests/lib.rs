//! What the end-to-end tests share. The tests themselves are in tests/tests/.

pub mod levels {
    //! Which isolation levels really ran, for the last lines of `.ci/run`: cargo hides what a passing test prints.

    use std::io::Write;
    use std::path::PathBuf;

    /// `levels-ran` in the target folder of this build, found from the running test's own path
    /// (`<target>/<profile>/deps/<test>`), unless CARGO_TARGET_DIR names the folder.
    fn file() -> Option<PathBuf> {
        if let Some(dir) = std::env::var_os("CARGO_TARGET_DIR") {
            return Some(PathBuf::from(dir).join("levels-ran"));
        }
        let exe = std::env::current_exe().ok()?;
        Some(exe.ancestors().nth(3)?.join("levels-ran"))
    }

    /// Notes that `test` ran a cluster at `level` (1, 2 or 3) and passed. Losing the note never fails a test.
    pub fn ran(level: u8, test: &str) {
        eprintln!("level {level}: {test}");
        let written = file().and_then(|f| {
            std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(f)
                .ok()
        });
        if let Some(mut f) = written {
            // One write: tests of several processes append to one file.
            let _ = f.write_all(format!("level {level}: {test}\n").as_bytes());
        }
    }
}
