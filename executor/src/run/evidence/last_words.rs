//! What a process said last, for messages about why a cluster does not start or a node ended.
//!
//! Called wherever such a message is made. It looks for no meaning in the lines: telling known bugs by a log is `feedback`'s.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Of a file's end that is looked at, bytes: a node in a loop of exceptions may have written a gigabyte.
const LOOK_AT: u64 = 1 << 20;

/// The last lines of a file that say something: of a stack trace its exceptions and causes, which would else be pushed out by the frames
/// below them.
pub(in crate::run) fn of(path: &Path, lines: usize) -> String {
    let (text, _) = end_of(path, LOOK_AT).unwrap_or_default();
    in_text(&String::from_utf8_lossy(&text), lines)
}

/// At most so many of a file's last bytes, and how many come before them. No more is held in memory.
///
/// # Errors
/// Opening or reading the file.
pub(in crate::run) fn end_of(path: &Path, max: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut file = File::open(path)?;
    let before = file.metadata()?.len().saturating_sub(max);
    file.seek(SeekFrom::Start(before))?;
    let mut bytes = Vec::new();
    // What is appended meanwhile is left out.
    file.take(max).read_to_end(&mut bytes)?;
    Ok((bytes, before))
}

fn in_text(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let telling: Vec<&str> = all.iter().copied().filter(|l| !is_frame(l)).collect();
    let chosen = if telling.is_empty() { all } else { telling };
    chosen[chosen.len().saturating_sub(lines)..].join("\n")
}

/// "at org.example.Main.main(Main.java:3)" or "... 5 more", behind a tab, as a JVM prints them.
fn is_frame(line: &str) -> bool {
    let said = line.trim_start();
    if said.len() == line.len() {
        return false;
    }
    let frame = said.strip_prefix("at ").is_some_and(|f| f.contains('('));
    // The second is logback's.
    let more = said.strip_prefix("... ").and_then(|m| {
        m.strip_suffix(" more")
            .or_else(|| m.strip_suffix(" common frames omitted"))
    });
    frame || more.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{end_of, in_text};

    #[test]
    fn of_a_long_file_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(end_of(&path, 4).unwrap(), (b"6789".to_vec(), 6));
        assert_eq!(end_of(&path, 10).unwrap(), (b"0123456789".to_vec(), 0));
        assert_eq!(end_of(&path, 99).unwrap(), (b"0123456789".to_vec(), 0));
        assert!(end_of(&dir.path().join("none"), 4).is_err());
    }

    #[test]
    fn what_is_told_of_a_log_are_its_last_lines_without_the_frames_of_stack_traces() {
        let trace = "starting\nERROR no master\njava.lang.RuntimeException: cannot make it\n\tat a.B.c(B.java:3)\nCaused by: \
                     java.lang.NoSuchMethodError: d\n\tat java.base/e.F.g(F.java:1)\n\t... 5 more\n";
        for (text, lines, told) in [
            (
                trace,
                2,
                "java.lang.RuntimeException: cannot make it\nCaused by: java.lang.NoSuchMethodError: d",
            ),
            (trace, 1, "Caused by: java.lang.NoSuchMethodError: d"),
            (
                "Caused by: x\n\t... 5 common frames omitted\n",
                1,
                "Caused by: x",
            ),
            ("one\n\ntwo\n  three\n", 2, "two\n  three"),
            // Words of a sentence, not a frame.
            (
                "\tat last it serves\n\t... a few more\n",
                2,
                "\tat last it serves\n\t... a few more",
            ),
            ("at a.B.c(B.java:3)\n", 1, "at a.B.c(B.java:3)"),
            // Nothing but frames is better than nothing.
            ("\tat a.B.c(B.java:3)\n", 3, "\tat a.B.c(B.java:3)"),
            ("", 3, ""),
        ] {
            assert_eq!(in_text(text, lines), told, "{text:?}, {lines}");
        }
    }
}
