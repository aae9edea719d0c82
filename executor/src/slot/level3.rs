//! Level 3: slots without namespaces. Their numbers, folders and state files, and the sweep of what a killed Warren left.
//!
//! Called by `host.rs` (claim and release), `init.rs` (a line per pid), and once at the start of Warren
//! ([`sweep_level3`]). The sweep kills only processes that a state file of a dead Warren names by pid AND start time (a
//! pid alone may have been given to somebody else), and their sessions, and removes only folders that are a slot's by their
//! names. It trusts no folder that others may write to, and ends no process by the word of another pid namespace. A Warren holds a
//! lock on the state files of its slots as long as it lives. One sweep at a time, by a lock on that folder: else one might remove what
//! a new Warren has made under a number that another sweep had just freed.
//!
//! State file `slot-<S>.state`, UTF-8 lines: `owner <pid> <start time> <pid namespace>` (the Warren that claimed the slot; the
//! inode of /proc/self/ns/pid), `folder <path>` for each folder to remove, `pid <pid> <start time>` per process. Start times are
//! field 22 of /proc/<pid>/stat. A slot of which something could not be removed keeps its file, for the next sweep.

mod criu;
mod state;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::SlotError;
use crate::Locked;
use state::{State, pid_namespace, start_time};

/// Where shared memory lies, if it may be written to.
const SHM: &str = "/dev/shm";
/// Where CRIU makes folders of its own, whatever TMPDIR says.
const CRIU_TMP: &str = "/tmp";
/// A claim takes no longer from making its state file to the line that names its owner.
const CLAIMING: Duration = Duration::from_secs(60);
/// How long another sweep may take.
const OTHER_SWEEP: Duration = Duration::from_secs(5);

/// A claimed slot number with its folders; all of it goes away on Drop.
#[derive(Debug)]
pub(super) struct PlainSlot {
    /// Of the state file, as long as its owner lives.
    #[expect(dead_code, reason = "held while the slot lives")]
    lock: Locked,
    /// 1..=250: second byte of the addresses.
    pub number: u8,
    pub root: PathBuf,
    pub shm: PathBuf,
    pub state_file: PathBuf,
    /// The claim on the addresses, which are the machine's: folders are each user's, and each TMPDIR's.
    #[expect(dead_code, reason = "held while the slot lives")]
    name: UnixDatagram,
}

/// A name in the kernel that one process has at a time, until it ends in whatever way.
fn name(number: u8) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!(
        "warren-slot-{number}"
    ))?)
}

impl PlainSlot {
    /// Claims the lowest free number for this process.
    pub fn claim() -> Result<Self, SlotError> {
        Self::claim_in(&home())
    }

    fn claim_in(home: &Path) -> Result<Self, SlotError> {
        make_own(home)?;
        for number in 1..=250u8 {
            let name = match name(number) {
                Ok(name) => name,
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => continue,
                Err(e) => return Err(file_error("claiming a slot's number for", home, e)),
            };
            let state_file = home.join(format!("slot-{number}.state"));
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&state_file);
            let mut file = match file {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(file_error("creating", &state_file, e)),
            };
            let taken = file.try_clone().and_then(|f| lock(f, OTHER_SWEEP));
            let lock = taken.map_err(|e| file_error("locking", &state_file, e))?;
            let root = home.join(format!("slot-{number}"));
            let owner = std::process::id() as i32;
            // With the owner: who sweeps another TMPDIR knows nothing of this one's.
            let shm = shm_home(home).join(format!("warren-{}-slot-{number}-{owner}", geteuid()));
            let text = format!(
                "owner {owner} {} {}\nfolder {}\nfolder {}\n",
                start_time(owner).unwrap_or(0),
                pid_namespace(),
                root.display(),
                shm.display()
            );
            if let Err(e) = file.write_all(text.as_bytes()) {
                // One that tells no owner would be passed over by every sweep, and its number be taken for ever.
                let _ = fs::remove_file(&state_file);
                return Err(file_error("writing", &state_file, e));
            }
            let slot = PlainSlot {
                lock,
                number,
                root,
                shm,
                state_file,
                name,
            };
            for folder in [&slot.root, &slot.shm] {
                let _ = fs::remove_dir_all(folder); // left by a crash between two lines of an older claim
                create_dir(folder)?;
            }
            return Ok(slot);
        }
        Err(SlotError::Unavailable {
            what: "one more slot",
            why: format!(
                "all 250 numbers are taken in {}; remove state files of dead runs",
                home.display()
            ),
        })
    }
}

impl Drop for PlainSlot {
    fn drop(&mut self) {
        let text = fs::read_to_string(&self.state_file).unwrap_or_default();
        let dead = State::parse(&text).die();
        let gone = [&self.root, &self.shm].map(|folder| remove(folder).is_ok());
        // Last: while it exists the number is taken, and the next sweep knows what is left.
        if dead && gone == [true, true] {
            let _ = fs::remove_file(&self.state_file);
        }
    }
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Slots of dead Warrens that were swept.
    pub slots: usize,
    /// Processes that were still alive and were killed.
    pub killed: Vec<i32>,
    /// What could not be done, in words.
    pub problems: Vec<String>,
}

/// Removes what level 3 slots of Warrens that are no more left behind: processes, folders, state files; and the folders of a CRIU that was
/// killed, at whatever level. Cheap when there is nothing; called at every start, on every level.
pub fn sweep_level3() -> SweepReport {
    criu::sweep(Path::new(CRIU_TMP));
    sweep(&home())
}

fn sweep(home: &Path) -> SweepReport {
    let mut report = SweepReport::default();
    let (Ok(entries), Ok(folder)) = (fs::read_dir(home), File::open(home)) else {
        return report;
    };
    if let Err(why) = is_own(home)
        && fs::remove_dir(home).is_err()
    {
        report.problems.push(format!(
            "{} {why}, so nothing in it is believed: remove it, or set TMPDIR to a folder of your own",
            home.display()
        ));
        return report;
    }
    // The only sweep of the folder while it lives.
    let only = match lock(folder, OTHER_SWEEP) {
        Ok(lock) => lock,
        Err(why) => {
            let problem = format!("locking {}: {why}", home.display());
            report.problems.push(problem);
            return report;
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "state") {
            continue;
        }
        // Whoever owns one holds its lock, in whatever pid namespace it lives.
        let Ok(Ok(_dead)) = File::open(&path).map(|file| lock(file, Duration::ZERO)) else {
            continue;
        };
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let state = State::parse(&text);
        if state.is_left_behind() {
            report.slots += 1;
            sweep_slot(home, &path, &state, &mut report);
        } else if state.owner.is_none() && was_given_up(&path) {
            // It started no process yet.
            let folders = vec![path.with_extension("")];
            let nothing_else = State {
                folders,
                ..State::default()
            };
            report.slots += 1;
            sweep_slot(home, &path, &nothing_else, &mut report);
        }
    }
    drop(only);
    report
}

/// Whether a state file that names no owner, and that nobody has locked, is one of a Warren that was killed while it claimed the slot: it is
/// old, and nobody has the slot's name, which a claim takes first.
fn was_given_up(state_file: &Path) -> bool {
    let changed = fs::metadata(state_file).and_then(|m| m.modified());
    let age = changed.ok().and_then(|t| t.elapsed().ok());
    let stem = state_file.file_stem().and_then(|s| s.to_str());
    let number = stem.and_then(|s| s.strip_prefix("slot-")?.parse().ok());
    age.is_some_and(|a| a > CLAIMING) && number.is_some_and(|n| name(n).is_ok())
}

/// Waits a little for another Warren, but not for one that was stopped.
fn lock(file: File, patience: Duration) -> io::Result<Locked> {
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Locked::new(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                let why = "another Warren has it; look for one that is stopped";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
}

/// Ends what one state file names, and removes it when nothing is left.
fn sweep_slot(home: &Path, file: &Path, state: &State, report: &mut SweepReport) {
    let mut left = false;
    for pid in state.alive() {
        match kill(Pid::from_raw(pid), Signal::SIGKILL) {
            Ok(()) => report.killed.push(pid),
            Err(nix::errno::Errno::ESRCH) => {}
            Err(e) => {
                left = true;
                report.problems.push(format!(
                    "killing process {pid} named in {}: {e}",
                    file.display()
                ));
            }
        }
    }
    left |= !state.die();
    for folder in &state.folders {
        if !is_of_a_slot(home, folder) {
            report.problems.push(format!(
                "{} names {}, which is no slot's folder: it is left alone",
                file.display(),
                folder.display()
            ));
        } else if let Err(e) = remove(folder) {
            left = true;
            report
                .problems
                .push(format!("removing {}: {e}", folder.display()));
        }
    }
    if left {
        return;
    }
    if let Err(e) = fs::remove_file(file) {
        report
            .problems
            .push(format!("removing {}: {e}", file.display()));
    }
}

/// As [`fs::remove_dir_all`]; nothing to remove is fine.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// By its place and its name it is one that [`PlainSlot::claim`] makes.
fn is_of_a_slot(home: &Path, folder: &Path) -> bool {
    let name = folder.file_name().and_then(|n| n.to_str());
    let (Some(parent), Some(name)) = (folder.parent(), name) else {
        return false;
    };
    let own = format!("warren-{}-slot-", geteuid());
    parent == home && (name.starts_with("slot-") || name.starts_with(&own))
        || parent == Path::new(SHM) && name.starts_with(&own)
}

/// The line init appends for a process it spawned.
pub(super) fn pid_line(pid: i32) -> String {
    format!("pid {pid} {}\n", start_time(pid).unwrap_or(0))
}

/// Appends a process to a state file (the host notes init itself).
pub(super) fn note(state_file: &Path, pid: i32) -> Result<(), SlotError> {
    let file = OpenOptions::new().append(true).open(state_file);
    file.and_then(|mut f: File| f.write_all(pid_line(pid).as_bytes()))
        .map_err(|e| file_error("appending to", state_file, e))
}

fn home() -> PathBuf {
    std::env::temp_dir().join(format!("warren-slots-{}", geteuid()))
}

/// Shared memory lies on a tmpfs where there is one.
fn shm_home(home: &Path) -> PathBuf {
    let shm = Path::new(SHM);
    let usable = nix::unistd::access(shm, nix::unistd::AccessFlags::W_OK).is_ok();
    if usable {
        shm.to_path_buf()
    } else {
        home.to_path_buf()
    }
}

/// A folder that nobody else may write to: its name can be foreseen, and what lies in it is believed.
fn make_own(path: &Path) -> Result<(), SlotError> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|e| file_error("creating the folder", path, e))?;
    // An empty one of before it was asked for is made anew.
    if is_own(path).is_err() && fs::remove_dir(path).is_ok() {
        return make_own(path);
    }
    is_own(path).map_err(|why| {
        let why = format!("it {why}; remove it, or set TMPDIR to a folder of your own");
        file_error("using the folder", path, io::Error::other(why))
    })
}

fn is_own(path: &Path) -> Result<(), &'static str> {
    match fs::symlink_metadata(path) {
        Ok(m) if !m.is_dir() => Err("is no folder"),
        Ok(m) if m.uid() != geteuid().as_raw() => Err("is another user's"),
        Ok(m) if m.mode() & 0o022 != 0 => Err("may be written by others"),
        Ok(_) => Ok(()),
        Err(_) => Err("cannot be looked at"),
    }
}

fn create_dir(path: &Path) -> Result<(), SlotError> {
    fs::create_dir_all(path).map_err(|e| file_error("creating the folder", path, e))
}

fn file_error(doing: &'static str, path: &Path, source: io::Error) -> SlotError {
    SlotError::File {
        doing,
        path: path.to_path_buf(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn folders_of_their_own_do_not_give_two_slots_the_same_addresses() {
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, two] = [0, 1].map(|i| PlainSlot::claim_in(homes[i].path()).unwrap());
        assert_ne!(one.number, two.number);
        assert_ne!(one.shm, two.shm);
        let shm = one.shm.clone();
        assert!(shm.is_dir());
        drop(one);
        assert!(!shm.exists() && two.shm.is_dir());
    }

    #[test]
    fn sweeps_at_once_are_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("slot-1.state");
        let dead_owner = format!("owner {} 1\n", std::process::id());
        for _ in 0..200 {
            fs::write(&state, &dead_owner).unwrap();
            let both = std::thread::scope(|s| {
                let other = s.spawn(|| sweep(dir.path()));
                [sweep(dir.path()), other.join().unwrap()]
            });
            assert_eq!(both[0].slots + both[1].slots, 1);
            assert!(both.iter().all(|r| r.problems.is_empty()), "{both:?}");
        }
    }

    /// The folder's name can be foreseen, and lies where anybody may make one.
    #[test]
    fn what_others_may_have_written_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (home, theirs) = (dir.path().join("home"), dir.path().join("theirs"));
        let dead = format!("owner {} 1", std::process::id());
        let state = home.join("slot-1.state");
        let cases = [
            // Mode of the folder, folder named, pid namespace -> what is named is removed, and so is the file.
            (0o700, home.join("slot-1"), String::new(), (true, true)),
            (0o755, home.join("slot-1"), String::new(), (true, true)),
            (0o777, home.join("slot-1"), String::new(), (false, false)),
            (0o700, theirs.clone(), String::new(), (false, true)),
            (
                0o700,
                home.join("slot-1/../../theirs"),
                String::new(),
                (false, true),
            ),
            (0o700, home.join("slot-1"), " 1".into(), (true, true)),
            (
                0o700,
                home.join("slot-1"),
                format!(" {}", pid_namespace()),
                (true, true),
            ),
        ];
        for (mode, folder, namespace, want) in cases {
            for made in [&home, &theirs, &home.join("slot-1")] {
                fs::create_dir_all(made).unwrap();
            }
            let text = format!("{dead}{namespace}\nfolder {}\n", folder.display());
            fs::write(&state, text).unwrap();
            fs::set_permissions(&home, fs::Permissions::from_mode(mode)).unwrap();
            let report = sweep(&home);
            let gone = (!folder.exists(), !state.exists());
            assert_eq!(
                gone,
                want,
                "{mode:o} {} `{namespace}`: {report:?}",
                folder.display()
            );
            let own = make_own(&home);
            assert_eq!(own.is_ok(), mode & 0o022 == 0, "{mode:o}: {own:?}");
        }
    }

    /// Whoever holds it may live in another pid namespace, where its number says nothing here.
    #[test]
    fn a_slot_whose_file_is_locked_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let slot = PlainSlot::claim_in(dir.path()).unwrap();
        let elsewhere = format!("owner 1 1 1\nfolder {}\n", slot.root.display());
        fs::write(&slot.state_file, elsewhere).unwrap();
        assert_eq!(sweep(dir.path()), SweepReport::default());
        assert!(slot.root.is_dir());
        let file = slot.state_file.clone();
        drop(slot);
        assert!(!file.exists());
    }

    /// Killed between making its file and the line that names it, a Warren would keep the number for ever.
    #[test]
    fn a_claim_that_was_killed_halfway_is_swept_when_it_is_old() {
        let dir = tempfile::tempdir().unwrap();
        let at = |n: u8| dir.path().join(format!("slot-{n}.state"));
        // Names are the machine's: other tests, and another checkout, may have some.
        let free: Vec<u8> = (1..=249)
            .rev()
            .filter(|n| name(*n).is_ok())
            .take(4)
            .collect();
        let [old, not_ours, young, held] = free[..] else {
            panic!("{free:?}");
        };
        let taken = name(held).unwrap();
        // The text, and the age in seconds: what is gone of file and folder.
        for (number, text, age, gone) in [
            (old, "", 90, true),
            (not_ours, "owner 1", 90, true),
            (young, "", 10, false),
            (held, "", 90, false),
        ] {
            let folder = dir.path().join(format!("slot-{number}"));
            fs::create_dir(&folder).unwrap();
            fs::write(at(number), text).unwrap();
            let file = OpenOptions::new().write(true).open(at(number)).unwrap();
            let then = std::time::SystemTime::now() - Duration::from_secs(age);
            file.set_modified(then).unwrap();
            drop(file);
            let report = sweep(dir.path());
            assert_eq!(report.slots, usize::from(gone), "{number}: {report:?}");
            assert_eq!(report.problems, Vec::<String>::new());
            let there = [at(number).exists(), folder.exists()];
            assert_eq!(there, [!gone; 2], "{number}");
        }
        drop(taken);
        // A child that another test is starting may have it for a moment.
        while name(held).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let locked = File::open(at(held)).unwrap();
        locked.try_lock().unwrap();
        assert_eq!(sweep(dir.path()).slots, 0, "whoever holds it lives");
        locked.unlock().unwrap();
        assert_eq!(sweep(dir.path()).slots, 1);
    }

    /// A slot of which something is left is known to the next sweep.
    #[test]
    fn what_cannot_be_removed_keeps_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("slot-1");
        // A file where a folder should be.
        fs::write(&folder, "").unwrap();
        let state = dir.path().join("slot-1.state");
        let dead = format!("owner {} 1\n", std::process::id());
        fs::write(&state, format!("{dead}folder {}\n", folder.display())).unwrap();
        assert_eq!(sweep(dir.path()).problems.len(), 1);
        assert!(state.exists());
        fs::remove_file(&folder).unwrap();
        assert_eq!(sweep(dir.path()).problems, Vec::<String>::new());
        assert!(!state.exists());
    }

    #[test]
    fn the_sweep_kills_only_what_is_named_by_pid_and_start_time() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("slot-1");
        fs::create_dir(&folder).unwrap();
        let mut mine = Command::new("sleep").arg("60").spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let (a, b) = (mine.id() as i32, other.id() as i32);
        let dead_owner = format!("owner {} 1\n", std::process::id());
        let text = format!(
            "{dead_owner}folder {}\npid {a} {}\npid {b} {}\n",
            folder.display(),
            start_time(a).unwrap(),
            start_time(b).unwrap() + 1
        );
        fs::write(dir.path().join("slot-1.state"), text).unwrap();
        let living = format!(
            "owner {} {}\npid {b} {}\n",
            std::process::id(),
            start_time(std::process::id() as i32).unwrap(),
            start_time(b).unwrap()
        );
        fs::write(dir.path().join("slot-2.state"), living).unwrap();

        let report = sweep(dir.path());
        assert_eq!((report.slots, report.killed), (1, vec![a]));
        assert_eq!(report.problems, Vec::<String>::new());
        assert!(!folder.exists() && !dir.path().join("slot-1.state").exists());
        assert!(dir.path().join("slot-2.state").exists(), "its owner lives");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&mine.wait().unwrap()),
            Some(9)
        );
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
