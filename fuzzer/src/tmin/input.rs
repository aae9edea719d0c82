//! What is to be minimised: a sequence file or a finding's folder, and the signature that its name or folder tells.

use crate::cli::exit::CliError;
use crate::cli::sequence_file::read_sequence;
use std::path::{Path, PathBuf};
use warren_model::FaultSequence;

/// The sequence, where it was read, and the signature it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub file: PathBuf,
    pub sequence: FaultSequence,
    pub signature: Option<String>,
}

/// Reads a file, or the sequence of a finding's folder: as it happened, or as it was asked where nothing of it did.
///
/// # Errors
/// Exit 2 with the file.
pub fn read(given: &Path) -> Result<Input, CliError> {
    let folder = given.is_dir();
    let mut files = match folder {
        false => vec![given.to_owned()],
        true => {
            let mut files = ["matched.toml", "sequence.toml"]
                .map(|n| given.join(n))
                .to_vec();
            files.retain(|p| p.is_file());
            files
        }
    };
    if files.is_empty() {
        return Err(CliError::usage(format!(
            "{}: no finding's folder: neither matched.toml nor sequence.toml is there\n  \
             give a sequence file, or a folder of findings/",
            given.display()
        )));
    }
    let mut file = files.remove(0);
    let mut sequence = read_sequence(&file)?;
    if let Some(asked) = files.pop().filter(|_| sequence.faults.is_empty()) {
        sequence = read_sequence(&asked)?;
        file = asked;
    }
    let signature = if folder {
        of_folder(given)
    } else {
        given
            .file_name()
            .and_then(|n| of_name(&n.to_string_lossy()))
    };
    Ok(Input {
        file,
        sequence,
        signature,
    })
}

/// `bug:<signature>` of an AFL name.
fn of_name(name: &str) -> Option<String> {
    let rest = name.split(',').find_map(|p| p.strip_prefix("bug:"))?;
    let hex: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    (!hex.is_empty()).then_some(hex)
}

/// finding.json's signature; of an older folder the one in the first line of evidence.txt.
fn of_folder(folder: &Path) -> Option<String> {
    let sheet = std::fs::read_to_string(folder.join("finding.json"))
        .ok()
        .and_then(|t| serde_json::from_str::<serde_json::Value>(&t).ok())
        .and_then(|v| Some(v.get("found")?.get("signature")?.as_str()?.to_owned()));
    sheet.or_else(|| {
        let text = std::fs::read_to_string(folder.join("evidence.txt")).ok()?;
        let line = text.lines().next()?;
        let rest = line.split_once("signature ")?.1;
        Some(rest.chars().take_while(char::is_ascii_hexdigit).collect())
    })
}

/// A file beside the result: `min.toml` -> `min.passing.toml`.
#[must_use]
pub fn beside(out: &Path, with: &str) -> PathBuf {
    let name = out
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let stem = name.strip_suffix(".toml").unwrap_or(&name);
    out.with_file_name(format!("{stem}.{with}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_signature() {
        for (name, want) in [
            (
                "id:000000,src:000002,time:51,execs:3,op:crash,bug:1a2b3c4d",
                Some("1a2b3c4d"),
            ),
            ("bug:1a2b3c4d.toml", Some("1a2b3c4d")),
            ("id:000000,op:crash", None),
            ("bug:", None),
        ] {
            assert_eq!(of_name(name).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn files_and_folders() {
        let dir = tempfile::tempdir().unwrap();
        let e = read(dir.path()).unwrap_err();
        assert!(e.text.contains("no finding's folder"), "{e}");
        let text = FaultSequence::empty("canary").to_text();
        std::fs::write(dir.path().join("sequence.toml"), &text).unwrap();
        std::fs::write(
            dir.path().join("evidence.txt"),
            "finding 000000, signature 1f2e3d4c\n",
        )
        .unwrap();
        let input = read(dir.path()).unwrap();
        assert_eq!(input.signature.as_deref(), Some("1f2e3d4c"));
        std::fs::write(
            dir.path().join("finding.json"),
            r#"{"version":1,"found":{"signature":"00000001"}}"#,
        )
        .unwrap();
        assert_eq!(
            read(dir.path()).unwrap().signature.as_deref(),
            Some("00000001")
        );
        // Nothing happened in its run, or something did.
        let two = warren_model::FaultSequence::empty("canary")
            .with(warren_model::At::AtOnce, warren_model::Fault::PartitionStop);
        let write = |name: &str, s: &FaultSequence| {
            std::fs::write(dir.path().join(name), s.to_text()).unwrap();
        };
        write("sequence.toml", &two);
        write("matched.toml", &FaultSequence::empty("canary"));
        let input = read(dir.path()).unwrap();
        assert_eq!(input.sequence, two);
        assert!(input.file.ends_with("sequence.toml"), "{input:?}");
        write("matched.toml", &two);
        assert!(read(dir.path()).unwrap().file.ends_with("matched.toml"));
        let e = read(&dir.path().join("none")).unwrap_err();
        assert!(e.text.contains("none"), "{e}");
    }

    #[test]
    fn names_beside_the_result() {
        let b = |p: &str, w: &str| beside(Path::new(p), w).display().to_string();
        assert_eq!(b("a/min.toml", "passing.toml"), "a/min.passing.toml");
        assert_eq!(b("a/id:0,x", "journal.jsonl"), "a/id:0,x.journal.jsonl");
    }
}
