//! The plain data of a slot: what callers hand in and get back, and what travels over the socket to slot init.
//!
//! Used by both sides of the socket. It holds no handles and does no I/O.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How a slot is isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// Level 1: all namespaces, made by root.
    Root,
    /// Level 2: all namespaces below a user namespace; no privilege needed.
    User,
    /// Level 3: plain processes on 127.S.0.x; no kernel cuts, no crash style `machine`.
    Plain,
}

impl Level {
    /// All levels, best first.
    pub const ALL: [Level; 3] = [Level::Root, Level::User, Level::Plain];

    /// 1, 2 or 3.
    pub fn number(self) -> u8 {
        match self {
            Level::Root => 1,
            Level::User => 2,
            Level::Plain => 3,
        }
    }

    /// The level of that number, if there is one.
    pub fn from_number(n: u8) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.number() == n)
    }

    /// The folder of the machine that covers `path` in slots of this level, which have one of their own there: nothing below it is seen by the
    /// processes of a slot.
    pub fn hides(self, path: &Path) -> Option<&'static str> {
        let own = [super::namespaces::ROOT, super::namespaces::SHM];
        let hides = |own: &&str| self != Level::Plain && path.starts_with(own);
        own.into_iter().find(hides)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Level::Root => "root: namespaces",
            Level::User => "user namespaces",
            Level::Plain => "plain processes",
        };
        write!(f, "{} ({what})", self.number())
    }
}

/// What [`super::Slot::open`] needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotConfig {
    /// The binary that answers to `__slot-init`: Warren's own; tests name the built `warren`.
    /// `/proc/self/exe` stands for the running binary, also when its file was replaced meanwhile.
    pub exe: PathBuf,
    /// The isolation wanted; a level the machine refuses is an error, never a silent change.
    pub level: Level,
    /// Host names of the nodes, in order: the slot's /etc/hosts gives name i the address `node_addr(i)` (levels 1, 2).
    pub names: Vec<String>,
    /// Size of the tmpfs that holds data and logs, in bytes (levels 1, 2).
    pub root_bytes: u64,
    /// Size of the tmpfs at /dev/shm, in bytes; apart from the data, so that a full disk never hits a page (levels 1, 2).
    pub shm_bytes: u64,
    /// Try kernel cuts at open (levels 1, 2). `doctor`'s trials and runs without partitions may leave it out.
    pub try_cuts: bool,
    /// Level 1: a CLOCK_MONOTONIC of its own, so many ns ahead of the machine's (a restored cluster must not see the time that
    /// passed since its dump). `None`: the machine's.
    pub clock_offset: Option<i64>,
    /// Level 1: folder of this machine that CRIU, inside the slot, writes its images to or reads them from.
    pub images: Option<PathBuf>,
}

impl SlotConfig {
    /// The usual sizes: 2 GiB of data and 1 GiB of shared memory (tmpfs takes memory only for what is written).
    pub fn new(exe: impl Into<PathBuf>, level: Level) -> Self {
        SlotConfig {
            exe: exe.into(),
            level,
            names: Vec::new(),
            root_bytes: 2 << 30,
            shm_bytes: 1 << 30,
            try_cuts: true,
            clock_offset: None,
            images: None,
        }
    }

    /// Sets the nodes' host names, in node order.
    pub fn names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self
    }
}

/// One process to start in a slot. All paths are as seen inside ([`super::Slot::inside_root`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnSpec {
    /// Name in exits and logs: the node's name, or `workload`.
    pub name: String,
    /// Program (absolute) and arguments.
    pub argv: Vec<String>,
    /// The whole environment: nothing is inherited from Warren's own.
    pub env: Vec<(String, String)>,
    /// Working directory; must exist.
    pub cwd: PathBuf,
    /// File that gets stdout and stderr, appended and created if absent; its folder must exist. stdin is /dev/null.
    pub stdout: PathBuf,
}

/// A process of the slot that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// `SpawnSpec::name`.
    pub name: String,
    /// The pid inside the slot: names may repeat over incarnations, this tells them apart.
    pub pid: i32,
    /// Exit status, if it ended by itself.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When its parent, slot init or a launcher, reaped it, CLOCK_MONOTONIC ns; when it was first seen dead where a launcher did not say.
    pub t_ns: u64,
    /// Whether our SIGKILL ended it: never a self-exit, never a finding.
    pub by_us: bool,
}

impl Exit {
    /// Whether our SIGKILL ended a process: `marked` if we shot at it. One that had ended by itself just before was not
    /// killed by us.
    pub(super) fn is_by_us(marked: bool, signal: Option<i32>) -> bool {
        marked && signal == Some(libc::SIGKILL)
    }
}

/// What of a tree's connections no dump has, for people: each names one. Nothing where nothing would be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// No process has it any more, and the kernel has not said all yet.
    pub by_nobody: Vec<String>,
    /// It failed, and its process was not told yet, or has not read all.
    pub failed: Vec<String>,
}

/// A text probe: connect, send, read to end of file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextProbe {
    /// Where to connect.
    pub addr: Ipv4Addr,
    /// TCP port.
    pub port: u16,
    /// What to send; empty: to be connected is the answer, nothing is read.
    pub send: String,
}

/// [`ProbeAnswer::error`] of a probe whose time was over.
pub(super) const TIMEOUT: &str = "timeout";

/// The answer of one [`TextProbe`], in the order of the probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// The TCP connection was made.
    pub connected: bool,
    /// What was read (at most 1 MiB, bad UTF-8 replaced), also when the reading ended in an error.
    pub text: String,
    /// Why it is not complete: `connection refused`, [`ProbeAnswer::timed_out`], ...; `None` if it is.
    pub error: Option<String>,
    /// When the probe ended, CLOCK_MONOTONIC ns.
    pub t_ns: u64,
}

impl ProbeAnswer {
    /// Connected, and read to the end.
    pub fn ok(&self) -> bool {
        self.connected && self.error.is_none()
    }

    /// Its time was over before it was complete.
    pub fn timed_out(&self) -> bool {
        self.error.as_deref() == Some(TIMEOUT)
    }
}

/// Packets of one direction that are dropped; `None` stands for any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Source address of the packets.
    pub from: Option<Ipv4Addr>,
    /// Destination address of the packets.
    pub to: Option<Ipv4Addr>,
}

/// All packets dropped in a slot. A new set replaces the old one in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutRules {
    /// One entry per direction.
    pub cuts: Vec<Cut>,
}

impl CutRules {
    /// Every packet from an address of `from` to one of `to`; the other direction stays open (a half-open link: its
    /// ACKs are lost too).
    pub fn one_way(from: &[Ipv4Addr], to: &[Ipv4Addr]) -> Self {
        let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b)));
        let cuts = pairs
            .filter(|(a, b)| a != b)
            .map(|(a, b)| Cut {
                from: Some(a),
                to: Some(b),
            })
            .collect();
        CutRules { cuts }
    }

    /// Both directions between two sides.
    pub fn both(a: &[Ipv4Addr], b: &[Ipv4Addr]) -> Self {
        Self::one_way(a, b).and(Self::one_way(b, a))
    }

    /// Everything from and to one address, whoever the peer is (crash style `machine`).
    pub fn machine(addr: Ipv4Addr) -> Self {
        CutRules {
            cuts: vec![
                Cut {
                    from: Some(addr),
                    to: None,
                },
                Cut {
                    from: None,
                    to: Some(addr),
                },
            ],
        }
    }

    /// This set and another one, each direction once.
    pub fn and(mut self, other: CutRules) -> Self {
        for cut in other.cuts {
            if !self.cuts.contains(&cut) {
                self.cuts.push(cut);
            }
        }
        self
    }
}

/// One direction that was healed, and when a packet first got through again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Healed {
    /// The direction that had been cut.
    pub cut: Cut,
    /// When the rule was gone, CLOCK_MONOTONIC ns.
    pub healed_ns: u64,
    /// When a packet was first seen after that (within 10 ms); `None`: not yet, or cut again before.
    pub first_ns: Option<u64>,
}

/// The longest stalls the 10 ms ticker of a slot saw: how much later than due slot init ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Longest stall since the last time it was asked for, ns.
    pub longest_ns: u64,
    /// Longest stall since the slot was opened, ns.
    pub total_longest_ns: u64,
    /// Ticks seen since the last time it was asked for.
    pub ticks: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, n)
    }

    #[test]
    fn what_a_slot_has_of_its_own_hides_the_machines() {
        let table = [
            (Level::Root, "/mnt/cache", Some("/mnt")),
            (Level::User, "/dev/shm/cache", Some("/dev/shm")),
            (Level::Plain, "/mnt/cache", None),
            (Level::Root, "/mnt2/cache", None),
            (Level::Root, "/root/.cache/warren", None),
        ];
        for (level, path, want) in table {
            assert_eq!(level.hides(Path::new(path)), want, "{level} {path}");
        }
    }

    #[test]
    fn cut_sets_are_directed_and_never_cut_a_node_from_itself() {
        let one = CutRules::one_way(&[a(11)], &[a(11), a(12)]);
        assert_eq!(
            one.cuts,
            vec![Cut {
                from: Some(a(11)),
                to: Some(a(12))
            }]
        );
        let both = CutRules::both(&[a(11)], &[a(12), a(13)]);
        assert_eq!(both.cuts.len(), 4);
        assert!(both.cuts.contains(&Cut {
            from: Some(a(13)),
            to: Some(a(11))
        }));
        assert_eq!(
            both.clone().and(one).cuts.len(),
            4,
            "a direction stands once"
        );
    }

    #[test]
    fn levels_have_their_numbers() {
        for level in Level::ALL {
            assert_eq!(Level::from_number(level.number()), Some(level));
        }
        assert_eq!(Level::from_number(0), None);
    }
}
