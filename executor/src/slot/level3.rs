//! Level 3: slots without namespaces. Their numbers, folders and state files, and the sweep of what a killed Warren left.
//!
//! Called by `host.rs` (claim and release), `init.rs` (a line per pid), and once at the start of Warren
//! ([`sweep_level3`]). The sweep kills only processes that a state file of a dead Warren names by pid AND start time (a
//! pid alone may have been given to somebody else), and their sessions. One sweep at a time, by a lock on that folder: else
//! one might remove what a new Warren has made under a number that another sweep had just freed.
//!
//! State file `slot-<S>.state`, UTF-8 lines: `owner <pid> <start time>` (the Warren that claimed the slot), `folder
//! <path>` for each folder to remove, `pid <pid> <start time>` per process. Start times are field 22 of /proc/<pid>/stat.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::SlotError;
use crate::Locked;

/// A claimed slot number with its folders; all of it goes away on Drop.
#[derive(Debug)]
pub(super) struct PlainSlot {
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
        create_dir(home)?;
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
            let root = home.join(format!("slot-{number}"));
            let owner = std::process::id() as i32;
            // With the owner: who sweeps another TMPDIR knows nothing of this one's.
            let shm = shm_home(home).join(format!("warren-{}-slot-{number}-{owner}", geteuid()));
            let text = format!(
                "owner {owner} {}\nfolder {}\nfolder {}\n",
                start_time(owner).unwrap_or(0),
                root.display(),
                shm.display()
            );
            if let Err(e) = file.write_all(text.as_bytes()) {
                // One that tells no owner would be passed over by every sweep, and its number be taken for ever.
                let _ = fs::remove_file(&state_file);
                return Err(file_error("writing", &state_file, e));
            }
            let slot = PlainSlot {
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
        let _ = fs::remove_dir_all(&self.root);
        let _ = fs::remove_dir_all(&self.shm);
        let _ = fs::remove_file(&self.state_file); // last: while it exists the number is taken
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

/// Removes what level 3 slots of Warrens that are no more left behind: processes, folders, state files. Cheap when
/// there is nothing; called at every start, on every level.
pub fn sweep_level3() -> SweepReport {
    sweep(&home())
}

fn sweep(home: &Path) -> SweepReport {
    let mut report = SweepReport::default();
    let (Ok(entries), Ok(folder)) = (fs::read_dir(home), File::open(home)) else {
        return report;
    };
    if let Err(e) = folder.lock() {
        let problem = format!("locking {}: {e}", home.display());
        report.problems.push(problem);
        return report;
    }
    // The only sweep of the folder while it lives.
    let lock = Locked::new(folder);
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "state") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let state = State::parse(&text);
        // A file without its owner line is being written this moment.
        let Some((owner, owner_start)) = state.owner else {
            continue;
        };
        if start_time(owner) == Some(owner_start) {
            continue;
        }
        report.slots += 1;
        for pid in state.alive() {
            match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                Ok(()) => report.killed.push(pid),
                Err(nix::errno::Errno::ESRCH) => {}
                Err(e) => report.problems.push(format!(
                    "killing process {pid} named in {}: {e}",
                    path.display()
                )),
            }
        }
        for folder in &state.folders {
            if let Err(e) = fs::remove_dir_all(folder)
                && e.kind() != io::ErrorKind::NotFound
            {
                report
                    .problems
                    .push(format!("removing {}: {e}", folder.display()));
            }
        }
        if let Err(e) = fs::remove_file(&path) {
            report
                .problems
                .push(format!("removing {}: {e}", path.display()));
        }
    }
    drop(lock);
    report
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

#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    owner: Option<(i32, u64)>,
    folders: Vec<PathBuf>,
    pids: HashMap<i32, u64>,
}

impl State {
    /// Lines that make no sense are skipped: a killed writer may leave half a line.
    fn parse(text: &str) -> State {
        let mut state = State::default();
        for line in text.split_inclusive('\n') {
            let Some(line) = line.strip_suffix('\n') else {
                continue;
            };
            let Some((word, rest)) = line.split_once(' ') else {
                continue;
            };
            let pair = || {
                rest.split_once(' ')
                    .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
            };
            match word {
                "owner" => state.owner = pair(),
                "folder" => state.folders.push(PathBuf::from(rest)),
                "pid" => state.pids.extend(pair()),
                _ => {}
            }
        }
        state
    }

    /// Processes that are still the ones named, and members of sessions they led.
    fn alive(&self) -> Vec<i32> {
        let mut out = Vec::new();
        let Ok(entries) = fs::read_dir("/proc") else {
            return out;
        };
        for entry in entries.flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|n| n.parse::<i32>().ok())
            else {
                continue;
            };
            let Some(stat) = read_stat(pid) else { continue };
            let named = self.pids.get(&pid) == Some(&stat.start);
            // A session keeps its number from being reused; if the leader lives it must be the one named.
            let led = self.pids.get(&stat.session).is_some_and(|start| {
                stat.start >= *start && start_time(stat.session).is_none_or(|s| s == *start)
            });
            if named || led {
                out.push(pid);
            }
        }
        out
    }
}

struct Stat {
    session: i32,
    start: u64,
}

fn read_stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text)
}

/// Fields after the command name, which may itself hold blanks and parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let rest = text.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    let session = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat { session, start })
}

/// Start time of a living process; `None` if there is none with that pid (a zombie is none).
fn start_time(pid: i32) -> Option<u64> {
    read_stat(pid).map(|s| s.start)
}

fn home() -> PathBuf {
    std::env::temp_dir().join(format!("warren-slots-{}", geteuid()))
}

/// Shared memory lies on a tmpfs where there is one.
fn shm_home(home: &Path) -> PathBuf {
    let shm = Path::new("/dev/shm");
    let usable = nix::unistd::access(shm, nix::unistd::AccessFlags::W_OK).is_ok();
    if usable {
        shm.to_path_buf()
    } else {
        home.to_path_buf()
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
    fn stat_lines_with_odd_names_are_read_and_zombies_are_dead() {
        let line = "42 (a) b (c) S 1 42 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 1000 1";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.session, stat.start), (41, 9876));
        assert!(parse_stat(&line.replace(" S 1", " Z 1")).is_none());
        assert!(parse_stat("nonsense").is_none());
    }

    #[test]
    fn a_state_file_is_read_up_to_its_last_whole_line() {
        let state = State::parse("owner 7 100\nfolder /a b\npid 8 200\nwhat is this\npid 9 3");
        assert_eq!(state.owner, Some((7, 100)));
        assert_eq!(state.folders, vec![PathBuf::from("/a b")]);
        assert_eq!(state.pids, HashMap::from([(8, 200)]));
    }

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
