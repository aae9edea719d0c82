//! What a state file of a level 3 slot says, and which of the processes it names live. Read by the sweep and when a slot is closed; kills nothing.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long killed processes may take to die.
const DYING: Duration = Duration::from_secs(2);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub owner: Option<(i32, u64)>,
    /// Of the owner; none in files of before it was written.
    pub pid_namespace: Option<u64>,
    pub folders: Vec<PathBuf>,
    pub pids: HashMap<i32, u64>,
}

impl State {
    /// Lines that make no sense are skipped: a killed writer may leave half a line.
    pub fn parse(text: &str) -> State {
        let mut state = State::default();
        for line in text.split_inclusive('\n') {
            let Some(line) = line.strip_suffix('\n') else {
                continue;
            };
            let Some((word, rest)) = line.split_once(' ') else {
                continue;
            };
            let pair = || -> Option<(i32, u64)> {
                rest.split_once(' ')
                    .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
            };
            match word {
                "owner" => {
                    let mut words = rest.split(' ');
                    let mut word = || words.next().and_then(|w| w.parse().ok());
                    let pid = word().and_then(|pid| i32::try_from(pid).ok());
                    state.owner = pid.zip(word());
                    state.pid_namespace = word();
                }
                "folder" => state.folders.push(PathBuf::from(rest)),
                "pid" => state.pids.extend(pair()),
                _ => {}
            }
        }
        state
    }

    /// Its owner is no more, as far as the file tells whose lock nobody holds. One without its owner line may be being written this moment; an owner
    /// of before there were locks is looked for.
    pub fn is_left_behind(&self) -> bool {
        let dead = |(pid, start)| !self.is_of_here() || start_time(pid) != Some(start);
        self.owner.is_some_and(dead)
    }

    /// The pids of another namespace are nobody's here: its processes ended with it.
    fn is_of_here(&self) -> bool {
        self.pid_namespace.is_none_or(|ns| ns == pid_namespace())
    }

    /// Waits a little for those that were killed: what dies writes no more. False: some live on.
    pub fn die(&self) -> bool {
        let until = Instant::now() + DYING;
        while !self.alive().is_empty() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Processes that are still the ones named, and members of sessions they led.
    pub fn alive(&self) -> Vec<i32> {
        let mut out = Vec::new();
        if !self.is_of_here() {
            return out;
        }
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
pub(super) fn start_time(pid: i32) -> Option<u64> {
    read_stat(pid).map(|s| s.start)
}

/// The inode of this process's pid namespace; 0 where /proc does not tell.
pub(super) fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((state.owner, state.pid_namespace), (Some((7, 100)), None));
        let now = State::parse("owner 7 100 4026531836\n");
        assert_eq!(
            (now.owner, now.pid_namespace),
            (Some((7, 100)), Some(4_026_531_836))
        );
        assert_eq!(state.folders, vec![PathBuf::from("/a b")]);
        assert_eq!(state.pids, HashMap::from([(8, 200)]));
    }
}
