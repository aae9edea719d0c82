//! A fault sequence from a file that a user named: whatever lies there is refused with the file, what it is, and the way out.
//!
//! Called by the verbs that take sequence files. Reads at most [`MAX_BYTES`] so that a device without an end is no trouble either.

use crate::cli::exit::CliError;
use std::io::Read;
use std::path::Path;
use warren_model::FaultSequence;

/// Largest sequence file; one of 60 faults has some 20 KiB.
const MAX_BYTES: u64 = 1 << 20;
/// Longest refusal of the text form that is shown: it quotes the line, which may be of any length.
const MAX_SHOWN: usize = 400;
const WAY_OUT: &str = "\n  give a file of queue/, crashes/ or hangs/, or one written by hand as those in corpus/ (docs/formats.md)";

/// Reads the sequence.
///
/// # Errors
/// Exit 2 for a file that cannot be read or is no sequence.
pub fn read_sequence(file: &Path) -> Result<FaultSequence, CliError> {
    let text = read_text(file)
        .map_err(|why| CliError::usage(format!("reading {}: {why}{WAY_OUT}", file.display())))?;
    FaultSequence::from_text(&text).map_err(|e| {
        CliError::usage(format!(
            "{}: {}",
            file.display(),
            clipped(&e.to_string(), MAX_SHOWN)
        ))
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
        assert!(e.text.contains("/dev/zero: it is larger than"), "{e}");
    }
}
