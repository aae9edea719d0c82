//! An output folder as brokers see it: what the others lack of the instances that live here, and the folders in which their instances are
//! mirrored, for [`crate::fuzz`] to hear like any other instance's. Called by the carrier; knows nothing of LLMP.
//!
//! A mirror holds sync.jsonl, runs/, crashes/ and hangs/ of one instance of another machine, and a file that marks it, from the first moment
//! on. It refuses to touch a folder without that mark, unless it is empty, and every name that is not what an instance would give.

use super::wire::{Body, File, Have, Lines, Pile, Sub};
use crate::campaign::folder::write_whole;
use crate::campaign::sync_file;
use crate::campaign::{EntryName, MIRROR, is_instance_name};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use warren_model::ids::fnv1a;

/// A mirror that is being made, in the output folder; no instance has such a name.
const NEW: &str = ".broker.new";
/// Bytes of sync.jsonl in a letter.
const PIECE: usize = 64 << 10;
/// Bytes that one hello is answered with, a little more or less.
const ANSWER: usize = 256 << 10;
/// A file that is larger, or cannot be read, goes as an empty one: its run is not taken over, those after it are.
const FILE_MAX: u64 = 8 << 20;
/// Bytes that tell one file from another that began alike.
const TAIL: u64 = 256;

/// Why a letter was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(
        "instance {0} is here and on another machine: give each its own name (-M, -S); neither hears the other"
    )]
    TwoOfAName(String),
    #[error("a message names {0:?}, which is not a name of an instance")]
    Name(String),
    #[error("mirroring instance {name} in {path}: {source}")]
    Io {
        name: String,
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The output folder.
#[derive(Clone, Debug)]
pub struct Shelf {
    out: PathBuf,
}

impl Shelf {
    /// Of this folder; nothing is made.
    #[must_use]
    pub fn new(out: &Path) -> Self {
        Shelf {
            out: out.to_owned(),
        }
    }

    /// Instances with something to tell, by name: those that live here, and mirrors.
    fn named(&self, mirrors: bool) -> Vec<String> {
        let entries = fs::read_dir(&self.out).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|e| sync_file::path(&e.path()).exists())
            .filter(|e| e.path().join(MIRROR).exists() == mirrors)
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|name| is_instance_name(name))
            .collect();
        names.sort();
        names
    }

    /// Instances that live here.
    #[must_use]
    pub fn own(&self) -> Vec<String> {
        self.named(false)
    }

    /// What is here of the instances of others.
    #[must_use]
    pub fn have(&self) -> BTreeMap<String, Have> {
        self.named(true)
            .into_iter()
            .map(|name| {
                let have = have(&self.out.join(&name)).unwrap_or_default();
                (name, have)
            })
            .collect()
    }

    /// What a broker that has so much of an instance of ours lacks, from the front, no more than it can take in at once.
    ///
    /// # Errors
    /// I/O: the next hello asks again.
    pub fn lacks(&self, name: &str, theirs: Have) -> std::io::Result<Vec<Body>> {
        let root = self.out.join(name);
        let Some(first) = first(&root)? else {
            return Ok(Vec::new());
        };
        let mut file = fs::File::open(sync_file::path(&root))?;
        let length = file.metadata()?.len();
        let same = theirs.first == first
            && theirs.bytes <= length
            && tail(&mut file, theirs.bytes)? == theirs.tail;
        // An instance that goes on after its end, or after a kill, has taken back its last lines. Where the two part earlier, each hello goes back
        // a piece.
        let mut at = match theirs.bytes.min(length) {
            _ if theirs.first != first => 0,
            _ if same => theirs.bytes,
            // Until it tells more there is nothing that would cut the mirror: little, as every hello is answered so.
            both if both < theirs.bytes => both.saturating_sub(4 * TAIL),
            // Into the middle of a piece: none begins where the mirror ends, and could be put behind what was not compared.
            both => both.saturating_sub(PIECE as u64 / 2),
        };
        let mut bodies = Vec::new();
        let mut room = ANSWER;
        file.seek(SeekFrom::Start(at))?;
        while at < length && room > 0 {
            let mut bytes = Vec::new();
            let piece = PIECE.min(room) as u64;
            (&mut file)
                .take(piece.min(length - at))
                .read_to_end(&mut bytes)?;
            if bytes.is_empty() {
                break;
            }
            room -= bytes.len();
            let next = at + bytes.len() as u64;
            bodies.push(Body::Lines(Lines {
                name: name.to_owned(),
                first,
                at,
                bytes,
            }));
            at = next;
        }
        if theirs.first != first {
            // Its files are another campaign's.
            return Ok(bodies);
        }
        for (sub, there) in Sub::ALL.into_iter().zip(theirs.files) {
            let folder = root.join(sub.folder());
            let names = files(&folder, sub);
            let of = names.len() as u64;
            let from = match there.count {
                0 => 0,
                n if n <= of => match last(&folder, &names[..n as usize]) {
                    // What cannot be read now is no reason to take the one there for another.
                    Ok(here) if here != there.last => n - 1,
                    _ => n,
                },
                // There are more of them than here.
                _ => of.saturating_sub(1),
            };
            for (index, file) in (0u64..).zip(names).skip(from as usize) {
                if room == 0 {
                    return Ok(bodies);
                }
                // One that cannot be read now may be, the next time; what comes after it has its place behind it.
                let Ok(bytes) = sent(&folder.join(&file)) else {
                    break;
                };
                room = room.saturating_sub(bytes.len());
                bodies.push(Body::File(File {
                    name: name.to_owned(),
                    first,
                    sub,
                    index,
                    of,
                    file,
                    bytes,
                }));
            }
        }
        Ok(bodies)
    }

    /// Takes in what another broker sent of one of its instances. What is here already, or does not follow on what is here, changes nothing.
    ///
    /// # Errors
    /// An instance of that name lives here; a name that is none; I/O.
    pub fn take(&self, body: &Body) -> Result<(), MirrorError> {
        let (name, done) = match body {
            Body::Hello(_) => return Ok(()),
            Body::Lines(l) => (
                &l.name,
                self.root(&l.name).map(|root| take_lines(&root, l))?,
            ),
            Body::File(f) => {
                if !is_file_name(f.sub, &f.file) {
                    return Err(MirrorError::Name(f.file.clone()));
                }
                (&f.name, self.root(&f.name).map(|root| take_file(&root, f))?)
            }
        };
        done.map_err(|source| MirrorError::Io {
            name: name.clone(),
            path: self.out.join(name),
            source,
        })
    }

    /// The folder of a mirror, or where one may be made: a killed broker or campaign may have left an empty folder there.
    fn root(&self, name: &str) -> Result<PathBuf, MirrorError> {
        if !is_instance_name(name) {
            return Err(MirrorError::Name(name.to_owned()));
        }
        let root = self.out.join(name);
        let empty = || fs::read_dir(&root).is_ok_and(|mut entries| entries.next().is_none());
        if root.exists() && !root.join(MIRROR).exists() && !empty() {
            return Err(MirrorError::TwoOfAName(name.to_owned()));
        }
        Ok(root)
    }
}

/// Whether a file of a folder is one of those that are passed on.
fn is_file_name(sub: Sub, name: &str) -> bool {
    let plain = name.len() <= 255 && !name.contains('/') && !name.starts_with('.');
    plain
        && match sub {
            Sub::Runs => name
                .strip_suffix(".run")
                .is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())),
            Sub::Crashes | Sub::Hangs => name.parse::<EntryName>().is_ok(),
        }
}

/// Those of a folder that are passed on, in the order in which they came.
fn files(folder: &Path, sub: Sub) -> Vec<String> {
    let id = |name: &str| -> u64 {
        let digits: String = name
            .trim_start_matches("id:")
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().unwrap_or(u64::MAX)
    };
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| is_file_name(sub, name))
        .collect();
    names.sort_by_key(|name| (id(name), name.clone()));
    names
}

/// The content of a file as it is passed on. One that can never be read (a link to nothing, no right to it, no file) is as empty as one that is too
/// large: all that comes after it would wait for it for ever.
///
/// # Errors
/// What may be over in a moment.
fn sent(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::ErrorKind::{IsADirectory, NotFound, PermissionDenied};
    let read = || match fs::metadata(path)?.len() {
        0..=FILE_MAX => fs::read(path),
        _ => Ok(Vec::new()),
    };
    match read() {
        Err(e) if matches!(e.kind(), IsADirectory | NotFound | PermissionDenied) => Ok(Vec::new()),
        other => other,
    }
}

/// Hash of the last one's name and content; of none, 0.
///
/// # Errors
/// As [`sent`].
fn last(folder: &Path, names: &[String]) -> std::io::Result<u64> {
    let Some(name) = names.last() else {
        return Ok(0);
    };
    let mut bytes = name.clone().into_bytes();
    bytes.push(b'\n');
    bytes.extend(sent(&folder.join(name))?);
    Ok(fnv1a(&bytes))
}

fn pile(folder: &Path, sub: Sub) -> Pile {
    let names = files(folder, sub);
    Pile {
        count: names.len() as u64,
        // One that cannot be read now is asked for again.
        last: last(folder, &names).unwrap_or(0),
    }
}

/// Hash of the first line of an instance's sync.jsonl; none while that is not whole.
fn first(root: &Path) -> std::io::Result<Option<u64>> {
    let mut line = Vec::new();
    BufReader::new(fs::File::open(sync_file::path(root))?)
        .take(PIECE as u64)
        .read_until(b'\n', &mut line)?;
    Ok(line.ends_with(b"\n").then(|| fnv1a(&line)))
}

/// Hash of the bytes before a place of a file.
fn tail(file: &mut fs::File, at: u64) -> std::io::Result<u64> {
    let from = at.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(at - from).read_to_end(&mut bytes)?;
    Ok(fnv1a(&bytes))
}

fn have(root: &Path) -> std::io::Result<Have> {
    let mut file = fs::File::open(sync_file::path(root))?;
    let bytes = file.metadata()?.len();
    let mut files = [Pile::default(); 3];
    for (pile_of, sub) in files.iter_mut().zip(Sub::ALL) {
        *pile_of = pile(&root.join(sub.folder()), sub);
    }
    Ok(Have {
        first: first(root)?.unwrap_or_default(),
        bytes,
        tail: tail(&mut file, bytes)?,
        files,
    })
}

/// Makes a mirror with its mark and first lines. The rename puts it in its place whole, and fails where there is anything but an empty folder,
/// even if that came a moment ago.
fn make(root: &Path, lines: &[u8]) -> std::io::Result<()> {
    let new = root.with_file_name(NEW);
    if new.exists() {
        // Of a broker that was killed: only one at a time has the output folder.
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(&new)?;
    fs::write(
        new.join(MIRROR),
        "written by `warren fuzz` with a broker: an instance of another machine\n",
    )?;
    fs::write(sync_file::path(&new), lines)?;
    fs::rename(&new, root)
}

fn take_lines(root: &Path, l: &Lines) -> std::io::Result<()> {
    let path = sync_file::path(root);
    let known = if path.exists() { first(root)? } else { None };
    if known != Some(l.first) {
        let line = l.bytes.split_inclusive(|b| *b == b'\n').next();
        let begins = l.at == 0 && line.is_some_and(|b| b.ends_with(b"\n") && fnv1a(b) == l.first);
        if !begins {
            return Ok(());
        }
        if !root.join(MIRROR).exists() {
            return make(root, &l.bytes);
        }
        for sub in Sub::ALL {
            let folder = root.join(sub.folder());
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
        }
        return write_whole(&path, &l.bytes).map_err(std::io::Error::other);
    }
    let mut file = fs::File::options().read(true).write(true).open(&path)?;
    let length = file.metadata()?.len();
    if l.at > length {
        // Something before it was lost: the next hello asks for it.
        return Ok(());
    }
    file.seek(SeekFrom::Start(l.at))?;
    let mut here = Vec::new();
    (&mut file)
        .take(l.bytes.len() as u64)
        .read_to_end(&mut here)?;
    let same = here
        .iter()
        .zip(&l.bytes)
        .take_while(|(a, b)| a == b)
        .count();
    if same == l.bytes.len() {
        return Ok(());
    }
    if l.at > 0 && same < here.len().min(TAIL as usize) {
        // They part before this piece, or hardly agree: what is here from there on goes, and the next hello tells whether the rest is theirs. A byte
        // more, or the same letter, which comes twice at times, would be put behind the rest.
        return file.set_len(l.at - 1);
    }
    // Where they part, the instance went on after it had ended, or after a kill: what is here was taken back.
    file.set_len(l.at + same as u64)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(&l.bytes[same..])
}

fn take_file(root: &Path, f: &File) -> std::io::Result<()> {
    if !sync_file::path(root).exists() || first(root)? != Some(f.first) {
        return Ok(());
    }
    let folder = root.join(f.sub.folder());
    let mut here = files(&folder, f.sub);
    let index = usize::try_from(f.index).unwrap_or(usize::MAX);
    if index > here.len() {
        // One before it was lost.
        return Ok(());
    }
    let known = here.get(index).filter(|name| **name == f.file);
    let read = known.map(|name| fs::read(folder.join(name)));
    if let Some(Err(_)) = read {
        // What cannot be read here is made anew, and no word on what comes after it.
        let path = folder.join(&f.file);
        fs::remove_file(&path)?;
        return write_whole(&path, &f.bytes).map_err(std::io::Error::other);
    }
    let same = read.is_some_and(|here| here.is_ok_and(|b| b == f.bytes));
    // After a kill the instance made another one of what is here, or has fewer.
    let kept = if same { index + 1 } else { index };
    if !same || f.index + 1 == f.of {
        for name in here.drain(kept..) {
            fs::remove_file(folder.join(name))?;
        }
    }
    if same {
        return Ok(());
    }
    fs::create_dir_all(&folder)?;
    write_whole(&folder.join(&f.file), &f.bytes).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests;
