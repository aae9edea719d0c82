//! What a campaign needs to go on after any end, SIGKILL included: `state/checkpoint` (the whole state, now and then), and
//! `state/journal` (one record for every run that ended since). Used by `fuzz/resume/saved.rs`, which knows what the state is; here it
//! is only kept. Refuses to guess: a damaged file is an error with its place, never half a state.
//!
//! # The order of writes
//!
//! The journal is the truth; all other files follow from it. For every run that ended:
//!
//! 1. `runs/<id>.run` if it is kept; `state/owed` if it fails and must be decided on; `runs/<id>.parked` of what leaves memory.
//!    Nobody reads these before the record says so.
//! 2. ONE record is appended to the journal: it holds what changed, the line of runs.jsonl and the queue entry.
//! 3. The line, then `queue/<name>`, then what other instances are told (sync.jsonl). 4. Files that became useless are removed (a parked file that was read back, `state/owed`).
//!
//! A finding: record with "owed" -> `crashes/<name>` and `findings/<n>/` -> record "it stands" -> one record per replay -> the rate
//! is written -> record "nothing owed" -> `state/owed` is removed. Where a run has several, each has its record "it stands".
//! What only a replay shows: `state/owed-replay` -> the replay's record, which says so -> its files -> record "kept" -> it is removed.
//! Names and numbers follow from the state, so doing a step twice writes the same files again.
//!
//! Killed before 2, the run in progress is lost and its files of step 1 are removed (`tidy`). Killed after 2, the step that was
//! cut off is made again. What can be seen in queue/, crashes/ and hangs/ was therefore always in the journal before: it is
//! never taken back, and no id is given twice. A torn record is the run in progress.
//!
//! A checkpoint is written beside the old one, synced and renamed; then the journal starts anew. Killed between the two, the
//! records that the checkpoint already holds are passed over by their number. SIGKILL needs no sync; against a power cut the
//! journal is synced once a second, and the files that it counts on (runs, parked entries, `state/owed`) before they have their names.

pub mod hook;
mod identity;
mod journal;
mod lock;
pub mod tidy;

pub use identity::{Difference, Differences, Identity};
pub use lock::{LOCK, Lock};

use super::folder::io;
use super::packed::{pack, unpack};
use crate::campaign::FuzzError;
use journal::Journal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use warren_model::ids::fnv1a;

/// Version of checkpoint and journal.
pub const STATE_VERSION: u8 = 14;
const MAGIC: &[u8; 7] = b"WARNCKP";

/// The two files of one campaign, open for writing.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    identity: Identity,
    journal: Journal,
}

/// What was read back.
#[derive(Debug)]
pub struct Opened<C, R> {
    pub store: Store,
    pub checkpoint: C,
    /// Since the checkpoint, in order.
    pub records: Vec<R>,
}

/// `state/` of an instance's folder.
#[must_use]
pub fn folder(root: &Path) -> PathBuf {
    root.join("state")
}

/// Whether the instance's folder holds a campaign that can be resumed.
#[must_use]
pub fn exists(root: &Path) -> bool {
    folder(root).join("checkpoint").is_file()
}

impl Store {
    /// The state of a campaign that begins.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn create<C: Serialize>(
        root: &Path,
        identity: Identity,
        checkpoint: &C,
    ) -> Result<Self, FuzzError> {
        let folder = folder(root);
        fs::create_dir_all(&folder).map_err(io("making the folder", &folder))?;
        write_checkpoint(&folder, &identity, 0, checkpoint)?;
        Ok(Store {
            journal: Journal::create(&folder.join("journal"), 0)?,
            folder,
            identity,
        })
    }

    /// Reads what an earlier process left. A torn last record is cut off.
    ///
    /// # Errors
    /// I/O; another version; damage, with the place.
    pub fn open<C: DeserializeOwned, R: DeserializeOwned>(
        root: &Path,
    ) -> Result<Opened<C, R>, FuzzError> {
        let folder = folder(root);
        let (identity, seq, checkpoint) = read_checkpoint(&folder)?;
        let (journal, records) = Journal::open(&folder.join("journal"), seq)?;
        Ok(Opened {
            store: Store {
                folder,
                identity,
                journal,
            },
            checkpoint,
            records,
        })
    }

    /// One more record.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn append<R: Serialize>(&mut self, record: &R) -> Result<(), FuzzError> {
        self.journal.append(record)
    }

    /// Records since the last checkpoint, and their bytes.
    #[must_use]
    pub fn since_checkpoint(&self) -> (u64, u64) {
        self.journal.size()
    }

    /// The whole state; the journal starts anew.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn checkpoint<C: Serialize>(&mut self, checkpoint: &C) -> Result<(), FuzzError> {
        let seq = self.journal.seq();
        write_checkpoint(&self.folder, &self.identity, seq, checkpoint)?;
        hook::point("checkpoint");
        self.journal = Journal::create(&self.folder.join("journal"), seq)?;
        Ok(())
    }
}

/// The identity of the campaign in a folder, without its state. Every version writes it in the same way; whether it is as it was
/// written, only this one's is asked.
///
/// # Errors
/// I/O; no checkpoint; damage, with the place.
pub fn identity(root: &Path) -> Result<Identity, FuzzError> {
    let path = folder(root).join("checkpoint");
    let bytes = fs::read(&path).map_err(io("reading the state of the campaign", &path))?;
    let head = head(&bytes).map_err(format(&path))?;
    if head.version == STATE_VERSION {
        head.body().map_err(format(&path))?;
    }
    Ok(head.identity)
}

fn format(path: &Path) -> impl Fn(String) -> FuzzError {
    let path = path.to_owned();
    move |why| FuzzError::Format {
        path: path.clone(),
        why,
    }
}

/// What a checkpoint of any version begins with.
struct Head<'a> {
    identity: Identity,
    json: &'a [u8],
    version: u8,
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    /// Number of the last record in it, and the packed state; of this version only.
    fn body(&self) -> Result<(u64, &'a [u8]), String> {
        let short = || "is damaged: it ends too early".to_owned();
        let (seq, rest) = self.rest.split_first_chunk::<8>().ok_or_else(short)?;
        let (sum, packed) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let sum = u64::from_le_bytes(*sum);
        if sum != sum_of(self.json, packed) {
            return Err("is damaged: its checksum is wrong".into());
        }
        Ok((u64::from_le_bytes(*seq), packed))
    }
}

/// Of the identity and the packed state.
fn sum_of(json: &[u8], packed: &[u8]) -> u64 {
    fnv1a(json) ^ fnv1a(packed)
}

fn head(bytes: &[u8]) -> Result<Head<'_>, String> {
    let damaged = || "is damaged: it ends in the middle of its head".to_owned();
    let rest = bytes
        .strip_prefix(MAGIC)
        .ok_or("is no checkpoint (its first bytes are not WARNCKP)")?;
    let (version, rest) = rest.split_first().ok_or_else(damaged)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (json, rest) = rest
        .split_at_checked(u32::from_le_bytes(*length) as usize)
        .ok_or_else(damaged)?;
    Ok(Head {
        identity: serde_json::from_slice(json).map_err(|e| format!("is damaged: {e}"))?,
        json,
        version: version.wrapping_sub(b'0'),
        rest,
    })
}

fn read_checkpoint<C: DeserializeOwned>(folder: &Path) -> Result<(Identity, u64, C), FuzzError> {
    let path = folder.join("checkpoint");
    let bytes = fs::read(&path).map_err(io("reading the state of the campaign", &path))?;
    let format = format(&path);
    let head = head(&bytes).map_err(&format)?;
    if head.version != STATE_VERSION {
        return Err(format(format!(
            "has version {}, this program reads {STATE_VERSION}",
            head.version
        )));
    }
    let damaged = |why: String| format(format!("is damaged: {why}"));
    let (seq, packed) = head.body().map_err(&format)?;
    let body = unpack(packed).map_err(damaged)?;
    Ok((head.identity, seq, body))
}

fn write_checkpoint<C: Serialize>(
    folder: &Path,
    identity: &Identity,
    seq: u64,
    body: &C,
) -> Result<(), FuzzError> {
    let path = folder.join("checkpoint");
    let format = |why: String| FuzzError::Format {
        path: path.clone(),
        why,
    };
    let json = serde_json::to_vec(identity).map_err(|e| format(e.to_string()))?;
    let length = u32::try_from(json.len()).map_err(|e| format(e.to_string()))?;
    let packed = pack(body).map_err(format)?;
    let mut bytes = MAGIC.to_vec();
    bytes.push(b'0' + STATE_VERSION);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(&seq.to_le_bytes());
    bytes.extend_from_slice(&sum_of(&json, &packed).to_le_bytes());
    bytes.extend_from_slice(&packed);
    let temporary = folder.join(format!(".checkpoint.{}", std::process::id()));
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()
    };
    write().map_err(|e| {
        // A half of it would take the room that a full disk lacks.
        let _ = fs::remove_file(&temporary);
        io("writing", &temporary)(e)
    })?;
    hook::point("checkpoint-written");
    fs::rename(&temporary, &path).map_err(io("renaming into place", &path))?;
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(io("syncing", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(target: &str) -> Identity {
        Identity::new([("target", target.to_owned())])
    }

    #[test]
    fn records_since_the_checkpoint_come_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!exists(dir.path()));
        let mut store = Store::create(dir.path(), id("canary"), &7u32).unwrap();
        assert!(exists(dir.path()));
        for r in ["a", "b"] {
            store.append(&r).unwrap();
        }
        let mut o = Store::open::<u32, String>(dir.path()).unwrap();
        assert_eq!((o.checkpoint, o.records.join("")), (7, "ab".into()));
        o.store.checkpoint(&8u32).unwrap();
        o.store.append(&"c").unwrap();
        let o = Store::open::<u32, String>(dir.path()).unwrap();
        assert_eq!((o.checkpoint, o.records.join("")), (8, "c".into()));
        assert_eq!(identity(dir.path()).unwrap(), id("canary"));
    }

    #[test]
    fn killed_between_checkpoint_and_journal_no_record_counts_twice() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path(), id("canary"), &7u32).unwrap();
        store.append(&"a").unwrap();
        let journal = folder(dir.path()).join("journal");
        let old = fs::read(&journal).unwrap();
        store.checkpoint(&8u32).unwrap();
        fs::write(&journal, old).unwrap();
        let mut o = Store::open::<u32, String>(dir.path()).unwrap();
        assert_eq!((o.checkpoint, o.records.len()), (8, 0));
        o.store.append(&"b").unwrap();
        let o = Store::open::<u32, String>(dir.path()).unwrap();
        assert_eq!(o.records, ["b"]);
        // A power cut may keep its name alone.
        fs::write(&journal, "").unwrap();
        let mut o = Store::open::<u32, String>(dir.path()).unwrap();
        assert_eq!((o.checkpoint, o.records.len()), (8, 0));
        o.store.append(&"c").unwrap();
        let o = Store::open::<u32, String>(dir.path()).unwrap();
        assert_eq!(o.records, ["c"]);
    }

    #[test]
    fn damage_and_other_versions_are_named() {
        let dir = tempfile::tempdir().unwrap();
        Store::create(dir.path(), id("canary"), &"state".repeat(50)).unwrap();
        let path = folder(dir.path()).join("checkpoint");
        let whole = fs::read(&path).unwrap();
        let open = || {
            Store::open::<String, String>(dir.path())
                .unwrap_err()
                .to_string()
        };
        let other = format!("version 1, this program reads {STATE_VERSION}");
        for (at, byte, part) in [
            (0, b'x', "WARNCKP"),
            (7, b'1', other.as_str()),
            (whole.len() - 1, 0x55, "checksum"),
        ] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            fs::write(&path, &bytes).unwrap();
            let text = open();
            assert!(
                text.contains(part) && text.contains("state/checkpoint"),
                "{text}"
            );
        }
        for cut in [3, 9, 20, whole.len() - 3] {
            fs::write(&path, &whole[..cut]).unwrap();
            open();
        }
        // A byte of the identity: it makes no other campaign of this one.
        let json = whole.windows(6).position(|w| w == b"canary").unwrap();
        for at in json - 12..json + 6 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let text = identity(dir.path()).unwrap_err().to_string();
            assert!(
                text.contains("state/checkpoint: is damaged"),
                "byte {at}: {text}"
            );
            assert_eq!(open(), text);
        }
    }
}
