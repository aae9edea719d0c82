//! `state/journal`: records appended one by one. Head `WARNJRN` and the version digit, then per record: length (u32), number (u64),
//! FNV-1a of number and bytes (u64), all little endian, then zstd over postcard. One write each.
//!
//! A record that is cut off at the end of the file is the one that was being written: it is dropped and cut away. Anything else
//! that is wrong is an error with its place: so is a length that leads past the end, where a whole record of a later number follows.

use super::{STATE_VERSION, hook};
use crate::campaign::FuzzError;
use crate::campaign::folder::{io, write_synced};
use crate::campaign::packed::{pack, unpack};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_model::ids::fnv1a;

const MAGIC: &[u8; 7] = b"WARNJRN";
/// Bytes of the file's head and of a record's.
const FILE_HEAD: usize = MAGIC.len() + 1;
const RECORD_HEAD: usize = 4 + 8 + 8;
/// Against a power cut only.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Number of the last record.
    seq: u64,
    records: u64,
    bytes: u64,
    synced: Instant,
}

impl Journal {
    /// An empty one whose first record will be `seq` + 1; replaces one that is there.
    pub fn create(path: &Path, seq: u64) -> Result<Self, FuzzError> {
        let mut head = MAGIC.to_vec();
        head.push(b'0' + STATE_VERSION);
        write_synced(path, &head)?;
        Self::at(path, seq, 0, 0)
    }

    /// Reads the records after number `seq`.
    pub fn open<R: DeserializeOwned>(path: &Path, seq: u64) -> Result<(Self, Vec<R>), FuzzError> {
        if !path.exists() {
            // Killed while the very first one was to be made.
            return Ok((Self::create(path, seq)?, Vec::new()));
        }
        let bytes = fs::read(path).map_err(io("reading the journal", path))?;
        if bytes.is_empty() {
            // A power cut left its name and nothing in it: an older Warren did not wait for the disk.
            return Ok((Self::create(path, seq)?, Vec::new()));
        }
        let format = |why: String| FuzzError::Format {
            path: path.to_owned(),
            why,
        };
        let (head, _) = bytes
            .split_at_checked(FILE_HEAD)
            .filter(|(h, _)| h.starts_with(MAGIC))
            .ok_or_else(|| format("is no journal (its first bytes are not WARNJRN)".into()))?;
        let version = head[MAGIC.len()].wrapping_sub(b'0');
        if version != STATE_VERSION {
            return Err(format(format!(
                "has version {version}, this program reads {STATE_VERSION}"
            )));
        }
        let mut records = Vec::new();
        let (mut at, mut last) = (FILE_HEAD, None::<u64>);
        // Numbers that a later record may have: of a torn one what was packed seldom looks like such a number.
        let later = |last: Option<u64>| {
            let most = last.unwrap_or(seq).saturating_add(bytes.len() as u64);
            last.unwrap_or(0) + 1..=most
        };
        while let Some((number, packed)) = record(&bytes, at, &later(last))
            .map_err(|why| format(format!("is damaged at byte {at}: {why}")))?
        {
            let damaged = |why: String| format(format!("is damaged at byte {at}: {why}"));
            if last.is_some_and(|l| number != l + 1) || (last.is_none() && number > seq + 1) {
                return Err(damaged(format!(
                    "record {number} does not follow the one before"
                )));
            }
            last = Some(number);
            if number > seq {
                records.push(unpack(packed).map_err(damaged)?);
            }
            at += RECORD_HEAD + packed.len();
        }
        let last = last.unwrap_or(seq);
        if last < seq {
            // Of before the checkpoint, and not up to it, as a power cut leaves it: what comes next would not follow it.
            return Ok((Self::create(path, seq)?, Vec::new()));
        }
        let count = records.len() as u64;
        let journal = Self::at(path, last, count, at as u64)?;
        if at < bytes.len() {
            journal
                .file
                .set_len(at as u64)
                .map_err(io("cutting a torn record off", path))?;
        }
        Ok((journal, records))
    }

    fn at(path: &Path, seq: u64, records: u64, bytes: u64) -> Result<Self, FuzzError> {
        Ok(Journal {
            file: File::options()
                .append(true)
                .open(path)
                .map_err(io("opening", path))?,
            path: path.to_owned(),
            seq,
            records,
            bytes,
            synced: Instant::now(),
        })
    }

    /// One more.
    pub fn append<R: Serialize>(&mut self, record: &R) -> Result<(), FuzzError> {
        let packed = pack(record).map_err(|why| FuzzError::Format {
            path: self.path.clone(),
            why,
        })?;
        let number = self.seq + 1;
        let length = u32::try_from(packed.len()).map_err(|e| FuzzError::Format {
            path: self.path.clone(),
            why: format!("a record of {} bytes: {e}", packed.len()),
        })?;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&checksum(number, &packed).to_le_bytes());
        bytes.extend_from_slice(&packed);
        if hook::arrives("torn") {
            // A half record, as a kill in the middle of the write would leave it.
            let _ = self.file.write_all(&bytes[..bytes.len() / 2]);
            hook::kill_now();
        }
        self.file
            .write_all(&bytes)
            .map_err(io("appending to", &self.path))?;
        self.seq = number;
        self.records += 1;
        self.bytes += bytes.len() as u64;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.file.sync_data().map_err(io("syncing", &self.path))?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// Number of the last record.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Records since the checkpoint, and bytes.
    pub fn size(&self) -> (u64, u64) {
        (self.records, self.bytes)
    }
}

fn checksum(number: u64, packed: &[u8]) -> u64 {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend_from_slice(packed);
    fnv1a(&bytes)
}

/// The record at a place: its number and its packed bytes; `None` at the end and for a torn last one, which no whole one of a `later`
/// number follows.
fn record<'a>(
    bytes: &'a [u8],
    at: usize,
    later: &RangeInclusive<u64>,
) -> Result<Option<(u64, &'a [u8])>, String> {
    let rest = &bytes[at..];
    // After a power cut a file may end in zeros that were never written.
    if rest.iter().all(|b| *b == 0) {
        return Ok(None);
    }
    match head(rest) {
        Some(head) if head.is_whole() => return Ok(Some((head.number, head.packed))),
        Some(head) if !head.after.is_empty() => {
            return Err("the checksum of a record is wrong".into());
        }
        _ => {}
    }
    let whole = |at| head(&rest[at..]).is_some_and(|h| later.contains(&h.number) && h.is_whole());
    match (1..rest.len()).any(whole) {
        true => Err("the length of a record is wrong".into()),
        false => Ok(None),
    }
}

/// What a record's head says, and what follows it.
struct Head<'a> {
    number: u64,
    sum: u64,
    packed: &'a [u8],
    after: &'a [u8],
}

impl Head<'_> {
    fn is_whole(&self) -> bool {
        checksum(self.number, self.packed) == self.sum
    }
}

/// None: the bytes end before the record does.
fn head(bytes: &[u8]) -> Option<Head<'_>> {
    let (head, rest) = bytes.split_first_chunk::<RECORD_HEAD>()?;
    let word = |from: usize| {
        let mut w = [0; 8];
        w.copy_from_slice(&head[from..from + 8]);
        u64::from_le_bytes(w)
    };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let (packed, after) = rest.split_at_checked(length)?;
    Some(Head {
        number: word(4),
        sum: word(12),
        packed,
        after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_anywhere_only_the_last_record_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut ends = vec![FILE_HEAD];
        let mut j = Journal::create(&path, 4).unwrap();
        for text in ["one", "two", "three"] {
            j.append(&text).unwrap();
            ends.push(fs::metadata(&path).unwrap().len() as usize);
        }
        let whole = fs::read(&path).unwrap();
        for cut in FILE_HEAD..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut j, records) = Journal::open::<String>(&path, 4).unwrap();
            let want = ends.iter().filter(|e| **e <= cut).count() - 1;
            assert_eq!(records.len(), want, "cut at {cut}");
            // Going on after it gives a whole journal again.
            j.append(&"more").unwrap();
            let (_, records) = Journal::open::<String>(&path, 4).unwrap();
            assert_eq!(records.len(), want + 1, "cut at {cut}");
            assert_eq!(records[want], "more");
        }
    }

    /// A power cut may leave the journal of before a checkpoint, and not all of it.
    #[test]
    fn records_that_do_not_lead_up_to_the_checkpoint_are_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for there in 0..4 {
            let mut j = Journal::create(&path, 0).unwrap();
            for n in 0..there {
                j.append(&n).unwrap();
            }
            drop(j);
            let (mut j, records) = Journal::open::<u64>(&path, 3).unwrap();
            assert!(records.is_empty());
            j.append(&7_u64).unwrap();
            drop(j);
            let (_, records) = Journal::open::<u64>(&path, 3).unwrap();
            assert_eq!(records, [7], "{there}");
        }
    }

    #[test]
    fn damage_before_the_end_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut j = Journal::create(&path, 0).unwrap();
        j.append(&"one").unwrap();
        let second = fs::metadata(&path).unwrap().len() as usize;
        j.append(&"two").unwrap();
        let whole = fs::read(&path).unwrap();
        // A length that leads past the end, to the end, and to somewhere else: the whole record behind it shows that it is no torn one.
        let to_the_end = (whole.len() - FILE_HEAD - RECORD_HEAD) as u32;
        for length in [u32::MAX, 1 << 20, to_the_end, 1] {
            let mut bytes = whole.clone();
            bytes[FILE_HEAD..FILE_HEAD + 4].copy_from_slice(&length.to_le_bytes());
            fs::write(&path, &bytes).unwrap();
            for seq in [0, 1, 2] {
                let opened = Journal::open::<String>(&path, seq);
                let text = opened.unwrap_err().to_string();
                assert!(text.contains("damaged at byte 8"), "{length} {seq}: {text}");
            }
            assert_eq!(fs::read(&path).unwrap(), bytes, "nothing is cut off");
            // Of the last one nothing follows.
            let mut bytes = whole.clone();
            bytes[second + 3] = 0x55;
            fs::write(&path, &bytes).unwrap();
            let (_, records) = Journal::open::<String>(&path, 0).unwrap();
            assert_eq!(records, ["one"]);
        }
        let mut bytes = whole;
        bytes[FILE_HEAD + RECORD_HEAD + 2] ^= 0xff;
        fs::write(&path, &bytes).unwrap();
        let text = Journal::open::<String>(&path, 0).unwrap_err().to_string();
        assert!(text.contains("damaged at byte 8"), "{text}");
        bytes[7] = b'1';
        fs::write(&path, &bytes).unwrap();
        let text = Journal::open::<String>(&path, 0).unwrap_err().to_string();
        let other = format!("version 1, this program reads {STATE_VERSION}");
        assert!(text.contains(&other), "{text}");
    }
}
