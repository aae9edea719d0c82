//! `runs/<id>.run`: a kept run with its trace, from which its children are rebuilt. Written before its queue entry.
//!
//! Bytes: magic `WARNRUN` and the version digit, then zstd over postcard of [`StoredRun`]. A reader refuses another version.

use crate::fuzz::FuzzError;
use crate::search::Bounds;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use warren_model::{FaultSequence, RunRecord, Trace};

/// Version of the layout.
pub const RUN_FILE_VERSION: u8 = 2;
const MAGIC: &[u8; 7] = b"WARNRUN";
/// Traces compress ten times and more even at the fastest level.
const LEVEL: i32 = 3;

/// A kept run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRun {
    /// Its corpus id.
    pub id: u64,
    /// Corpus id of the seed run it is a child of.
    pub parent: Option<u64>,
    pub record: RunRecord,
    pub trace: Trace,
    /// Made from the run's history, which is not kept.
    pub bounds: Bounds,
}

impl StoredRun {
    /// The faults as they really matched.
    #[must_use]
    pub fn matched(&self) -> Option<&FaultSequence> {
        self.record.matched.as_ref()
    }

    /// Where the run of an id lies.
    #[must_use]
    pub fn path(runs: &Path, id: u64) -> PathBuf {
        runs.join(format!("{id:06}.run"))
    }

    /// Writes it whole or not at all (a temporary file, renamed).
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn write(&self, runs: &Path) -> Result<PathBuf, FuzzError> {
        let path = Self::path(runs, self.id);
        let format = |why: String| FuzzError::Format {
            path: path.clone(),
            why,
        };
        let plain = postcard::to_allocvec(self).map_err(|e| format(e.to_string()))?;
        let packed = zstd::encode_all(&plain[..], LEVEL).map_err(|e| format(e.to_string()))?;
        let mut bytes = MAGIC.to_vec();
        bytes.push(b'0' + RUN_FILE_VERSION);
        bytes.extend_from_slice(&packed);
        super::folder::write_whole(&path, &bytes)?;
        Ok(path)
    }

    /// Reads the run of an id.
    ///
    /// # Errors
    /// I/O, another version (both numbers in the text), damage.
    pub fn read(runs: &Path, id: u64) -> Result<Self, FuzzError> {
        let path = Self::path(runs, id);
        let bytes = std::fs::read(&path).map_err(|source| FuzzError::Io {
            doing: "reading the kept run",
            path: path.clone(),
            source,
        })?;
        let format = |why: String| FuzzError::Format {
            path: path.clone(),
            why,
        };
        let (head, packed) = bytes
            .split_at_checked(MAGIC.len() + 1)
            .filter(|(head, _)| head.starts_with(MAGIC))
            .ok_or_else(|| format("is no kept run (its first bytes are not WARNRUN)".into()))?;
        let version = head[MAGIC.len()].wrapping_sub(b'0');
        if version != RUN_FILE_VERSION {
            return Err(format(format!(
                "has version {version}, this program reads {RUN_FILE_VERSION}"
            )));
        }
        let plain = zstd::decode_all(packed).map_err(|e| format(format!("is damaged: {e}")))?;
        postcard::from_bytes(&plain).map_err(|e| format(format!("is damaged: {e}")))
    }
}

/// `runs/<id>.parked`: the classes of a seed run that left memory, with which occurrences were tried. zstd over postcard.
pub mod parked {
    use super::{FuzzError, LEVEL, Path, PathBuf};
    use crate::campaign::folder::{io, write_whole};
    use crate::search::queue::Entry;

    fn path(runs: &Path, id: u64) -> PathBuf {
        runs.join(format!("{id:06}.parked"))
    }

    /// Writes it whole.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn write(runs: &Path, id: u64, entry: &Entry) -> Result<(), FuzzError> {
        let path = path(runs, id);
        let format = |why: String| FuzzError::Format {
            path: path.clone(),
            why,
        };
        let plain = postcard::to_allocvec(entry).map_err(|e| format(e.to_string()))?;
        let packed = zstd::encode_all(&plain[..], LEVEL).map_err(|e| format(e.to_string()))?;
        write_whole(&path, &packed)
    }

    /// Reads it. The file stays until the journal says that it was read.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn read(runs: &Path, id: u64) -> Result<Entry, FuzzError> {
        let path = path(runs, id);
        let packed = std::fs::read(&path).map_err(io("reading", &path))?;
        let damaged = |why: String| FuzzError::Format {
            path: path.clone(),
            why: format!("is damaged: {why}"),
        };
        let plain = zstd::decode_all(&packed[..]).map_err(|e| damaged(e.to_string()))?;
        postcard::from_bytes(&plain).map_err(|e| damaged(e.to_string()))
    }

    /// Removes it: memory and journal know better from now on.
    ///
    /// # Errors
    /// I/O.
    pub fn remove(runs: &Path, id: u64) -> Result<(), FuzzError> {
        let path = path(runs, id);
        std::fs::remove_file(&path).map_err(io("removing", &path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;

    #[test]
    fn round_trip_and_refusals() {
        let dir = tempfile::tempdir().unwrap();
        let product = Sim::new(5, 2).run(&FaultSequence::empty("sim"));
        let run = StoredRun {
            id: 12,
            parent: Some(3),
            record: product.record,
            trace: product.trace,
            bounds: Bounds::CALM,
        };
        let path = run.write(dir.path()).unwrap();
        assert_eq!(StoredRun::read(dir.path(), 12).unwrap(), run);

        let mut bytes = std::fs::read(&path).unwrap();
        bytes[7] = b'1';
        std::fs::write(&path, &bytes).unwrap();
        let e = StoredRun::read(dir.path(), 12).unwrap_err().to_string();
        assert!(e.contains("version 1") && e.contains("reads 2"), "{e}");
        std::fs::write(&path, b"hello").unwrap();
        assert!(StoredRun::read(dir.path(), 12).is_err());
        bytes[7] = b'2';
        bytes.truncate(60);
        std::fs::write(&path, &bytes).unwrap();
        let e = StoredRun::read(dir.path(), 12).unwrap_err().to_string();
        assert!(e.contains("damaged"), "{e}");
        assert!(
            StoredRun::read(dir.path(), 99)
                .unwrap_err()
                .to_string()
                .contains("000099.run")
        );
    }
}
