//! An output folder as brokers see it: what the others lack of the instances that live here, and the folders in which their instances are
//! mirrored, for [`crate::fuzz`] to hear like any other instance's. Called by the carrier; knows nothing of LLMP.
//!
//! A mirror holds sync.jsonl, runs/, crashes/ and hangs/ of one instance of another machine, and a file that marks it. It refuses to touch
//! a folder without that mark, and every name that is not what an instance would give.

use super::wire::{Body, File, Have, Lines, Pile, Sub};
use crate::campaign::EntryName;
use crate::campaign::folder::write_whole;
use crate::campaign::sync_file;
use crate::fuzz::is_instance_name;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use warren_model::ids::fnv1a;

/// Marks a folder as a mirror of another machine's instance.
pub const MARK: &str = "mirror";
/// Bytes of sync.jsonl in a letter.
const PIECE: usize = 64 << 10;
/// Bytes that one hello is answered with, a little more or less.
const ANSWER: usize = 256 << 10;
/// A file that is larger goes as an empty one: its run is not taken over, those after it are.
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
    #[error("a letter names {0:?}, which no instance would")]
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
            .filter(|e| e.path().join(MARK).exists() == mirrors)
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
        let mut at = if same { theirs.bytes } else { 0 };
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
                n if n <= of && last(&folder, &names[..n as usize])? == there.last => n,
                // The last one there is not what it is here.
                n => n.min(of).saturating_sub(1),
            };
            for (index, file) in (0u64..).zip(names).skip(from as usize) {
                if room == 0 {
                    return Ok(bodies);
                }
                let bytes = sent(&folder.join(&file))?;
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

    /// The folder of a mirror.
    fn root(&self, name: &str) -> Result<PathBuf, MirrorError> {
        if !is_instance_name(name) {
            return Err(MirrorError::Name(name.to_owned()));
        }
        let root = self.out.join(name);
        if root.exists() && !root.join(MARK).exists() {
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

/// The content of a file as it is passed on.
fn sent(path: &Path) -> std::io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > FILE_MAX {
        return Ok(Vec::new());
    }
    fs::read(path)
}

/// Hash of the last one's name and content; of none, 0.
fn last(folder: &Path, names: &[String]) -> std::io::Result<u64> {
    let Some(name) = names.last() else {
        return Ok(0);
    };
    let mut bytes = name.clone().into_bytes();
    bytes.push(b'\n');
    bytes.extend(sent(&folder.join(name))?);
    Ok(fnv1a(&bytes))
}

fn pile(folder: &Path, sub: Sub) -> std::io::Result<Pile> {
    let names = files(folder, sub);
    Ok(Pile {
        count: names.len() as u64,
        last: last(folder, &names)?,
    })
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
        *pile_of = pile(&root.join(sub.folder()), sub)?;
    }
    Ok(Have {
        first: first(root)?.unwrap_or_default(),
        bytes,
        tail: tail(&mut file, bytes)?,
        files,
    })
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
        for sub in Sub::ALL {
            let folder = root.join(sub.folder());
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
        }
        fs::create_dir_all(root)?;
        fs::write(
            root.join(MARK),
            "written by `warren fuzz` with a broker: an instance of another machine\n",
        )?;
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
    // Where they part, the instance went on after it had ended, or after a kill: what is here was taken back.
    file.set_len(l.at + same as u64)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(&l.bytes[same..])
}

fn take_file(root: &Path, f: &File) -> std::io::Result<()> {
    if !root.exists() || first(root)? != Some(f.first) {
        return Ok(());
    }
    let folder = root.join(f.sub.folder());
    let mut here = files(&folder, f.sub);
    let index = usize::try_from(f.index).unwrap_or(usize::MAX);
    if index > here.len() {
        // One before it was lost.
        return Ok(());
    }
    let same = match here.get(index) {
        Some(name) => *name == f.file && fs::read(folder.join(name))? == f.bytes,
        None => false,
    };
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
mod tests {
    use super::*;

    fn put(out: &Path, name: &str, text: &str) {
        fs::create_dir_all(out.join(name)).unwrap();
        fs::write(out.join(name).join("sync.jsonl"), text).unwrap();
    }

    fn text(out: &Path, name: &str) -> String {
        fs::read_to_string(out.join(name).join("sync.jsonl")).unwrap()
    }

    /// Hellos and answers until nothing is lacking; answers how many letters it took.
    fn exchange(from: &Shelf, to: &Shelf) -> usize {
        let mut letters = 0;
        for _ in 0..100 {
            let have = to.have();
            let bodies: Vec<Body> = from
                .own()
                .iter()
                .flat_map(|n| {
                    from.lacks(n, have.get(n).copied().unwrap_or_default())
                        .unwrap()
                })
                .collect();
            if bodies.is_empty() {
                return letters;
            }
            letters += bodies.len();
            for body in &bodies {
                to.take(body).unwrap();
            }
        }
        panic!("it never ends");
    }

    fn two() -> (tempfile::TempDir, Shelf, Shelf) {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(&a).unwrap();
        fs::create_dir_all(&b).unwrap();
        let (a, b) = (Shelf::new(&a), Shelf::new(&b));
        (dir, a, b)
    }

    #[test]
    fn a_mirror_follows_its_instance() {
        let (_dir, a, b) = two();
        let end = "end\n";
        // Each is what the instance's file holds then: it grows, ends, goes on, is half written, begins anew.
        for now in [
            "begin 1\n".to_owned(),
            "begin 1\ntold\n".to_owned(),
            format!("begin 1\ntold\n{end}"),
            "begin 1\ntold\nbegin again and on\nto".to_owned(),
            "begin 1\ntold\nbegin again and on\ntold 2\n".to_owned(),
            format!("begin 1\n{}", "more\n".repeat(100_000)),
            "begin 2\n".to_owned(),
        ] {
            put(&a.out, "main", &now);
            exchange(&a, &b);
            assert_eq!(text(&b.out, "main"), now);
            assert_eq!(exchange(&a, &b), 0);
        }
        // A mirror is nobody's own: it is not told again.
        assert!(b.own().is_empty() && a.have().is_empty());
        assert_eq!(a.own(), ["main"]);
    }

    #[test]
    fn files_come_in_their_order_and_not_twice() {
        let (_dir, a, b) = two();
        put(&a.out, "main", "begin 1\n");
        let write = |sub: &str, name: &str, bytes: &[u8]| {
            let folder = a.out.join("main").join(sub);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), bytes).unwrap();
        };
        write("runs", "000000.run", b"root");
        write("runs", "000001.run", &vec![7; 300_000]);
        write("runs", ".000002.run.1.2", b"half");
        write("crashes", "README.txt", b"no");
        write(
            "crashes",
            "id:000000,src:000001,time:1,execs:1,op:crash,bug:aa",
            b"x",
        );
        assert_eq!(exchange(&a, &b), 4);
        write("runs", "000002.run", &vec![0; 9 << 20]);
        write("runs", "000003.run", b"after");
        write(
            "hangs",
            "id:000000,src:000001,time:1,execs:1,op:crash,bug:bb",
            b"y",
        );
        assert_eq!(exchange(&a, &b), 3);
        let there = |sub: Sub| files(&b.out.join("main").join(sub.folder()), sub);
        assert_eq!(there(Sub::Runs).len(), 4);
        assert_eq!((there(Sub::Crashes).len(), there(Sub::Hangs).len()), (1, 1));
        let read = |name: &str| fs::read(b.out.join("main/runs").join(name)).unwrap().len();
        assert_eq!((read("000001.run"), read("000002.run")), (300_000, 0));
        // A kill took the last run back, and another one has its number, or none has.
        write("runs", "000003.run", b"another");
        assert_eq!(exchange(&a, &b), 1);
        assert_eq!(read("000003.run"), 7);
        fs::remove_file(a.out.join("main/runs/000003.run")).unwrap();
        assert_eq!(exchange(&a, &b), 1);
        assert_eq!(files(&b.out.join("main/runs"), Sub::Runs).len(), 3);
        // Another campaign of the name has none of them.
        put(&a.out, "main", "begin 2\n");
        fs::remove_dir_all(a.out.join("main/runs")).unwrap();
        fs::remove_dir_all(a.out.join("main/crashes")).unwrap();
        fs::remove_dir_all(a.out.join("main/hangs")).unwrap();
        exchange(&a, &b);
        assert!(there(Sub::Runs).is_empty() && there(Sub::Crashes).is_empty());
    }

    #[test]
    fn lost_letters_are_asked_for_again_and_late_ones_do_no_harm() {
        let (_dir, a, b) = two();
        put(
            &a.out,
            "main",
            &format!("begin 1\n{}", "line\n".repeat(60_000)),
        );
        let all = a.lacks("main", Have::default()).unwrap();
        assert!(all.len() >= 4);
        // Only the last arrives; then the first; then all, backwards.
        b.take(all.last().unwrap()).unwrap();
        assert!(b.have().is_empty());
        b.take(&all[0]).unwrap();
        for body in all.iter().rev() {
            b.take(body).unwrap();
        }
        assert_eq!(text(&b.out, "main").len(), 2 * PIECE);
        exchange(&a, &b);
        for body in &all {
            b.take(body).unwrap();
        }
        assert_eq!(text(&b.out, "main"), text(&a.out, "main"));
    }

    #[test]
    fn what_lives_here_and_bad_names_are_left_alone() {
        let (dir, a, b) = two();
        put(&a.out, "main", "begin 1\n");
        put(&b.out, "main", "begin 9\n");
        let body = a.lacks("main", Have::default()).unwrap().remove(0);
        let e = b.take(&body).unwrap_err().to_string();
        assert!(e.contains("its own name"), "{e}");
        assert_eq!(text(&b.out, "main"), "begin 9\n");
        let lines = |name: &str| {
            Body::Lines(Lines {
                name: name.into(),
                first: fnv1a(b"x\n"),
                at: 0,
                bytes: b"x\n".to_vec(),
            })
        };
        for name in ["..", "", "a/b", "../c", ".hidden", "-x"] {
            assert!(
                matches!(b.take(&lines(name)), Err(MirrorError::Name(_))),
                "{name}"
            );
        }
        b.take(&lines("fine")).unwrap();
        for (sub, file) in [
            (Sub::Runs, "../../../x.run"),
            (Sub::Runs, ".run"),
            (Sub::Runs, "000001"),
            (Sub::Crashes, "id:000000,src:000001,op:../../x"),
            (Sub::Crashes, "README.txt"),
        ] {
            let body = Body::File(File {
                name: "fine".into(),
                first: fnv1a(b"x\n"),
                sub,
                index: 0,
                of: 1,
                file: file.into(),
                bytes: Vec::new(),
            });
            assert!(matches!(b.take(&body), Err(MirrorError::Name(_))), "{file}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
