//! `runs/<id>.run`: a kept run with its trace, from which its children are rebuilt. Written before its queue entry.
//!
//! Bytes: magic `WARNRUN` and the version digit, then zstd over postcard of [`StoredRun`]. Older versions are read as well: 4, which did not say what
//! a run had cost as a whole, 3, whose records had at most one reason why the cluster was not stable, and 2, which did not say what a run showed. A
//! reader refuses every other one.

use crate::campaign::FuzzError;
use crate::campaign::packed::{pack, unpack};
use crate::search::Bounds;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use warren_model::{FaultSequence, RunRecord, Trace};

/// Version of the layout.
pub const RUN_FILE_VERSION: u8 = 5;
const MAGIC: &[u8; 7] = b"WARNRUN";

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
    /// Not known of runs kept under version 2.
    pub shown: Option<Shown>,
    /// [`warren_model::RunProduct::whole_ms`]; of runs kept under a version before 5 what they took themselves.
    pub whole_ms: u64,
}

/// What a run showed, rising: the slots it set in the coverage map and in the second one. `warren cmin` chooses by them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    #[serde(with = "gaps")]
    pub slots: Vec<u32>,
    #[serde(with = "gaps")]
    pub states: Vec<u32>,
}

impl Shown {
    /// Of a map and a run's states.
    #[must_use]
    pub fn new(map: &[u8], states: &[u32]) -> Self {
        let set = (0u32..).zip(map).filter(|(_, b)| **b != 0);
        let mut states = states.to_vec();
        states.sort_unstable();
        states.dedup();
        Shown {
            slots: set.map(|(slot, _)| slot).collect(),
            states,
        }
    }
}

/// Rising numbers as the differences between them: mostly one byte each, and much alike in all runs.
mod gaps {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(rising: &[u32], s: S) -> Result<S::Ok, S::Error> {
        let before = [0].into_iter().chain(rising.iter().copied());
        let gaps = rising.iter().zip(before).map(|(n, b)| n.wrapping_sub(b));
        gaps.collect::<Vec<u32>>().serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u32>, D::Error> {
        let gaps = Vec::<u32>::deserialize(d)?.into_iter();
        Ok(gaps
            .scan(0u32, |at, gap| {
                *at = at.wrapping_add(gap);
                Some(*at)
            })
            .collect())
    }
}

/// As version 4 had it, and version 3, whose bytes are the same as `RunRecord` reads them.
#[derive(Deserialize)]
struct Version4 {
    id: u64,
    parent: Option<u64>,
    record: RunRecord,
    trace: Trace,
    bounds: Bounds,
    shown: Option<Shown>,
}

impl From<Version4> for StoredRun {
    fn from(run: Version4) -> Self {
        StoredRun {
            id: run.id,
            parent: run.parent,
            whole_ms: run.record.times.total,
            record: run.record,
            trace: run.trace,
            bounds: run.bounds,
            shown: run.shown,
        }
    }
}

/// As version 2 had it.
#[derive(Deserialize)]
struct Version2 {
    id: u64,
    parent: Option<u64>,
    record: RunRecord,
    trace: Trace,
    bounds: Bounds,
}

impl From<Version2> for StoredRun {
    fn from(run: Version2) -> Self {
        Version4 {
            id: run.id,
            parent: run.parent,
            record: run.record,
            trace: run.trace,
            bounds: run.bounds,
            shown: None,
        }
        .into()
    }
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
        let packed = pack(self).map_err(format)?;
        let mut bytes = MAGIC.to_vec();
        bytes.push(b'0' + RUN_FILE_VERSION);
        bytes.extend_from_slice(&packed);
        super::folder::write_synced(&path, &bytes)?;
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
        if !(2..=RUN_FILE_VERSION).contains(&version) {
            return Err(FuzzError::Version {
                found: version.into(),
                reads: format!("2 to {RUN_FILE_VERSION}"),
                path,
            });
        }
        let run = match version {
            2 => unpack::<Version2>(packed).map(StoredRun::from),
            3 | 4 => unpack::<Version4>(packed).map(StoredRun::from),
            _ => unpack(packed),
        };
        let run = run.map_err(|e| format(format!("is damaged: {e}")))?;
        // Files of earlier Warrens have no sum.
        match run.trace.is_whole() {
            true => Ok(run),
            false => Err(format("is damaged: an event of no node".into())),
        }
    }
}

/// `runs/<id>.parked`: the classes of a seed run that left memory, with which occurrences were tried. zstd over postcard.
pub mod parked {
    use super::{FuzzError, Path, PathBuf, pack, unpack};
    use crate::campaign::folder::{io, write_synced};
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
        let packed = pack(entry).map_err(format)?;
        write_synced(&path, &packed)
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
        unpack(&packed).map_err(damaged)
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
    use warren_model::Instability;

    fn samples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples")
    }

    fn unstable(mut record: RunRecord) -> RunRecord {
        record.was_not_stable("heal", Instability::Outage, "no leader");
        record.was_not_stable("durability", Instability::Outage, "two leaders");
        record
    }

    #[test]
    #[ignore = "writes tests/samples/run-v<version>"]
    fn makes_a_sample() {
        let folder = samples().join(format!("run-v{RUN_FILE_VERSION}"));
        std::fs::create_dir(&folder).unwrap();
        let product = Sim::new(3, 1).run(&FaultSequence::empty("sim"));
        let run = StoredRun {
            id: 3,
            parent: None,
            record: unstable(product.record),
            trace: product.trace,
            bounds: Bounds::CALM,
            shown: Some(Shown::new(&product.coverage, &[5, 300, 70_000])),
            whole_ms: 4711,
        };
        run.write(&folder).unwrap();
    }

    /// Runs as Warren stored them: those of version 2 lie in the sample of a campaign, and of version 3 there is one that was not stable.
    #[test]
    fn stored_runs_of_all_versions() {
        let old = StoredRun::read(&samples().join("state-v6/default/runs"), 1).unwrap();
        assert!(old.shown.is_none() && !old.trace.events.is_empty());
        let one = ["heal: no leader"].as_slice();
        let both = ["heal: no leader", "durability: two leaders"].as_slice();
        for (folder, id, not_stable) in [
            ("run-v3", 3, [].as_slice()),
            ("run-v3", 4, one),
            ("run-v4", 3, both),
            ("run-v5", 3, both),
        ] {
            let run = StoredRun::read(&samples().join(folder), id).unwrap();
            let read: Vec<_> = run.record.not_stable.iter().map(|n| &n.text).collect();
            assert_eq!(read, not_stable, "{folder} {id}");
            let took = run.record.times.total;
            let want = if folder == "run-v5" { 4711 } else { took };
            assert_eq!(run.whole_ms, want, "{folder} {id}");
            let shown = run.shown.unwrap();
            assert!(shown.slots.len() > 5 && shown.slots.is_sorted());
            assert_eq!(shown.states, [5, 300, 70_000]);
        }
    }

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
            shown: Some(Shown::new(&[0, 1, 0, 1, 1], &[900, 7, 900])),
            whole_ms: 4711,
        };
        let path = run.write(dir.path()).unwrap();
        assert_eq!(StoredRun::read(dir.path(), 12).unwrap(), run);
        let shown = run.shown.unwrap();
        assert_eq!((shown.slots, shown.states), (vec![1, 3, 4], vec![7, 900]));

        let mut bytes = std::fs::read(&path).unwrap();
        bytes[7] = b'1';
        std::fs::write(&path, &bytes).unwrap();
        let e = StoredRun::read(dir.path(), 12).unwrap_err().to_string();
        assert!(e.contains("version 1") && e.contains("reads 2 to 5"), "{e}");
        std::fs::write(&path, b"hello").unwrap();
        assert!(StoredRun::read(dir.path(), 12).is_err());
        bytes[7] = b'0' + RUN_FILE_VERSION;
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
