//! Lock files: which jars a version of a target has, by sha256 (docs/target-toml.md). Pure reading and writing of text.

use std::fmt;
use std::path::Path;

use super::SetupError;

/// All jars of one version, sorted by coordinates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// One entry per jar.
    pub jars: Vec<LockedJar>,
}

/// One line of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedJar {
    /// 64 hex digits.
    pub sha256: String,
    /// `groupId:artifactId:type[:classifier]:version`.
    pub coordinates: String,
    /// Name of the jar file, without folders.
    pub file: String,
}

impl Lock {
    /// Reads the text of a lock file; `path` is for error texts only.
    ///
    /// # Errors
    /// [`SetupError::BadLock`] with line and reason.
    pub fn parse(text: &str, path: &Path) -> Result<Lock, SetupError> {
        let bad = |line: usize, why: String| SetupError::BadLock {
            path: path.to_path_buf(),
            line: line + 1,
            why,
        };
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, "version 1")) => {}
            Some((i, other)) => {
                return Err(bad(i, format!("`version 1` expected, found `{other}`")));
            }
            None => return Err(bad(0, "the file is empty".into())),
        }
        let mut jars = Vec::new();
        for (i, line) in lines {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [sha256, coordinates, file] = words[..] else {
                return Err(bad(
                    i,
                    format!(
                        "three words expected (sha256, coordinates, file), found {}",
                        words.len()
                    ),
                ));
            };
            if sha256.len() != 64
                || !sha256
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            {
                return Err(bad(
                    i,
                    format!("`{sha256}` is no sha256 of 64 lower-case hex digits"),
                ));
            }
            if !matches!(coordinates.split(':').count(), 4 | 5) {
                return Err(bad(
                    i,
                    format!("`{coordinates}` is not group:artifact:type[:classifier]:version"),
                ));
            }
            if file.contains('/') || file == ".." {
                return Err(bad(i, format!("`{file}` is not a plain file name")));
            }
            jars.push(LockedJar {
                sha256: sha256.into(),
                coordinates: coordinates.into(),
                file: file.into(),
            });
        }
        if jars.is_empty() {
            return Err(bad(0, "it names no jar".into()));
        }
        Ok(Lock { jars })
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut jars: Vec<&LockedJar> = self.jars.iter().collect();
        jars.sort_by(|a, b| a.coordinates.cmp(&b.coordinates));
        writeln!(f, "version 1")?;
        for jar in jars {
            writeln!(f, "{}  {}  {}", jar.sha256, jar.coordinates, jar.file)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Lock, String> {
        Lock::parse(text, Path::new("x.lock")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_lock_round_trips_sorted() {
        let (a, b) = ("a".repeat(64), "0".repeat(64));
        let text = format!(
            "version 1\n{a}  org.z:z:jar:1  z-1.jar\n{b}  org.a:a:jar:linux:2  a-2-linux.jar\n"
        );
        let lock = read(&text).unwrap();
        let written = lock.to_string();
        assert_eq!(
            written.lines().nth(1),
            Some(format!("{b}  org.a:a:jar:linux:2  a-2-linux.jar").as_str())
        );
        assert_eq!(read(&written).unwrap().to_string(), written);
    }

    #[test]
    fn bad_lines_are_named() {
        let sha = "a".repeat(64);
        let table = [
            (String::new(), "line 1", "empty"),
            ("version 2\n".into(), "line 1", "version 2"),
            ("version 1\n".into(), "line 1", "no jar"),
            (
                format!("version 1\n{sha}  a:b:jar:1\n"),
                "line 2",
                "three words",
            ),
            (
                "version 1\n# c\nABC  a:b:jar:1  f.jar\n".into(),
                "line 3",
                "ABC",
            ),
            (format!("version 1\n{sha}  a:b  f.jar\n"), "line 2", "a:b"),
            (
                format!("version 1\n{sha}  a:b:jar:1  ../f.jar\n"),
                "line 2",
                "../f.jar",
            ),
        ];
        for (text, place, what) in table {
            let e = read(&text).unwrap_err();
            assert!(
                e.contains(place) && e.contains(what) && e.contains("x.lock"),
                "{e}"
            );
        }
    }
}
