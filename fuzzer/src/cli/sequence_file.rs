//! A fault sequence from a file that a user named: whatever lies there is refused with the file, what it is, and the way out.
//!
//! Called by the verbs that take sequence files, and for each file of a folder of seeds. Reads at most [`MAX_BYTES`] so that a device
//! without an end is no trouble either.

use crate::cli::exit::CliError;
use std::io::Read;
use std::path::{Path, PathBuf};
use warren_model::FaultSequence;

/// Largest sequence file; one of 60 faults has some 20 KiB.
pub const MAX_BYTES: u64 = 1 << 20;
/// Longest refusal of the text form that is shown: it quotes the line, which may be of any length.
const MAX_SHOWN: usize = 400;

/// Why a file gives no sequence.
#[derive(Debug, thiserror::Error)]
pub enum SequenceFileError {
    #[error(
        "reading {}: {why}\n  give a file of queue/, crashes/ or hangs/, or one written by hand as those in corpus/ (docs/formats.md)",
        path.display()
    )]
    Unreadable { path: PathBuf, why: String },
    /// In the words of the text form, cut to what a terminal can show.
    #[error("{}: {why}", path.display())]
    NoSequence { path: PathBuf, why: String },
}

impl From<SequenceFileError> for CliError {
    fn from(e: SequenceFileError) -> Self {
        CliError::usage(e)
    }
}

/// Reads the sequence.
///
/// # Errors
/// A file that cannot be read or is no sequence.
pub fn read_sequence(file: &Path) -> Result<FaultSequence, SequenceFileError> {
    let text = read_text(file).map_err(|why| SequenceFileError::Unreadable {
        path: file.to_owned(),
        why,
    })?;
    FaultSequence::from_text(&text).map_err(|e| SequenceFileError::NoSequence {
        path: file.to_owned(),
        why: clipped(&e.to_string(), MAX_SHOWN),
    })
}

fn read_text(file: &Path) -> Result<String, String> {
    if file.is_dir() {
        return Err("it is a folder; name the files in it".into());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "it is larger than {MAX_BYTES} bytes, the most a fault sequence may have"
        ));
    }
    if bytes.is_empty() {
        return Err("it is empty".into());
    }
    String::from_utf8(bytes).map_err(|e| {
        format!(
            "it is not text: byte {} is no UTF-8",
            e.utf8_error().valid_up_to()
        )
    })
}

/// The text with each of its lines cut to so many characters: the last one has the remedy.
fn clipped(text: &str, most: usize) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|l| {
            // Control characters of a binary file must not reach the terminal.
            let clean: String = l.chars().filter(|c| !c.is_control()).collect();
            match clean.char_indices().nth(most) {
                Some((at, _)) => format!("{}…", &clean[..at]),
                None => clean,
            }
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_and_control_characters_are_cut() {
        let text = format!("a\u{1b}[2Jb\n{}\n  the remedy", "x".repeat(500));
        let shown = clipped(&text, 100);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!((lines[0], lines[2]), ("a[2Jb", "  the remedy"));
        assert_eq!(lines[1].chars().count(), 101);
    }

    #[test]
    fn a_device_without_an_end_is_left_alone() {
        let e = read_sequence(Path::new("/dev/zero")).unwrap_err();
        let e = e.to_string();
        assert!(e.contains("/dev/zero: it is larger than"), "{e}");
    }
}
