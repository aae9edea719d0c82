//! What `warren fuzz` asks for, how a campaign ends, and what can go wrong. Plain values; filled by the CLI.

use crate::broker::MARK;
use crate::campaign::Environment;
use crate::fuzz::{Limits, SharedSnapshot, Starts};
use crate::known::KnownBugs;
use crate::search::{Favour, Parts, Without};
use crate::seeds::SeedFile;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use warren_model::{Shape, ids::fnv1a};

/// A search strategy (docs/search.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StrategyKind {
    /// The paper's, with partitions and with reach (docs/search.md). What `warren bench` measures, to stand beside the paper; `warren fuzz`
    /// has `warren` where no other is asked for (decision 0012).
    #[default]
    CrashFuzz,
    /// The same queue with parts that reach deeper (docs/search.md).
    Warren,
    /// Baseline: number, kinds and points drawn; no corpus, no feedback.
    RandomPoints,
    /// Baseline of the paper (its CrashFuzz-minus): as `crashfuzz`, but first in, first out.
    Fifo,
    /// Baseline of the paper: all sequences of one fault, then all of two, and so on; coverage is not asked.
    BruteForce,
    /// Baseline of the paper: number, kinds, nodes and times drawn.
    Random,
}

impl StrategyKind {
    /// It picks children of kept runs; else it draws each sequence anew.
    #[must_use]
    pub fn has_queue(self) -> bool {
        match self {
            StrategyKind::CrashFuzz
            | StrategyKind::Warren
            | StrategyKind::Fifo
            | StrategyKind::BruteForce => true,
            StrategyKind::RandomPoints | StrategyKind::Random => false,
        }
    }

    /// Children are asked first in, first out.
    #[must_use]
    pub fn in_order(self) -> bool {
        matches!(self, StrategyKind::Fifo | StrategyKind::BruteForce)
    }

    /// What it draws is drawn by a weight, so that what a dictionary favours comes more often.
    #[must_use]
    pub fn weighs(self) -> bool {
        matches!(self, StrategyKind::CrashFuzz | StrategyKind::Warren)
    }

    /// A run of all its faults is kept whatever it shows.
    #[must_use]
    pub fn keeps_all(self) -> bool {
        self == StrategyKind::BruteForce
    }

    const NAMES: [(&'static str, StrategyKind); 6] = [
        ("crashfuzz", StrategyKind::CrashFuzz),
        ("warren", StrategyKind::Warren),
        ("fifo", StrategyKind::Fifo),
        ("brute-force", StrategyKind::BruteForce),
        ("random", StrategyKind::Random),
        ("random-points", StrategyKind::RandomPoints),
    ];
}

/// Which kinds of faults may be drawn (`--faults crash,reboot,partition`; stalls only where asked for).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSet {
    pub crash: bool,
    pub reboot: bool,
    /// Both partition-start and partition-stop.
    pub partition: bool,
    /// Off unless asked for: each point has one more child, and a test takes as much longer. Not stored with what a swarm drew: it is as the campaign
    /// was asked for.
    #[serde(skip)]
    pub stall: bool,
}

/// Slots side by side (`-j`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    Exactly(usize),
    /// As many as fault-free runs stand.
    Auto,
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slots::Exactly(n) => write!(f, "{n}"),
            Slots::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Slots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Slots::Auto),
            n => match n.parse() {
                Ok(n @ 1..=MAX_SLOTS) => Ok(Slots::Exactly(n)),
                _ => Err(format!(
                    "`{n}` is neither a number from 1 to {MAX_SLOTS} nor auto"
                )),
            },
        }
    }
}

/// Most slots side by side.
pub(super) const MAX_SLOTS: usize = 64;
/// What an instance is to the others of its output folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstanceKind {
    /// Neither -M nor -S: it tells nothing and hears nothing.
    #[default]
    Alone,
    /// `-M`: one of an output folder; it is marked, and does the same as the others.
    Main,
    /// `-S`.
    Secondary,
}

/// Name, in a campaign's identity, of that lines and branches are counted.
pub const COUNTED: &str = "--coverage-report";

/// So long after a look at the other instances the next one is due, between two sequences. A look costs a folder's listing and the
/// state of a file for each of them, a run takes a second or more; and the shorter, the fewer sequences two instances test both.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Everything a campaign needs to know. The target is already set up: `fuzz::run` takes it ready to run.
#[derive(Clone, Debug)]
pub struct FuzzOptions {
    /// Name of the target, as in `targets/<name>/`.
    pub target: String,
    /// `-o`; the instance folder is made inside it.
    pub out: PathBuf,
    /// AFL's instance name: `default` unless asked otherwise.
    pub instance: String,
    pub kind: InstanceKind,
    /// Not a flag: tests lower it.
    pub look_every: Duration,
    /// `-i`: sequences to begin with, checked against the target already.
    pub seeds: Vec<SeedFile>,
    pub strategy: StrategyKind,
    /// `--without`: only for `warren`.
    pub without: Option<Without>,
    /// `--swarm`: only for `warren`.
    pub swarm: bool,
    /// `--symmetry`: only for `warren`.
    pub symmetry: bool,
    /// For `warren`: those that ship, and those of the target's dictionaries.
    pub shapes: Vec<Shape>,
    /// Stacks at which faults come more often, of the target's dictionaries.
    pub favour: Favour,
    pub starts: Starts,
    pub slots: Slots,
    pub faults: FaultSet,
    /// Most faults in a sequence.
    pub max_faults: usize,
    /// `-s`; none = drawn from the clock and written to fuzzer_stats.
    pub seed: Option<u64>,
    /// `-t`: limit of one run; none = five times the median fault-free run, at least 20 s and `least_limits`.
    pub run_limit: Option<Duration>,
    /// What that limit must be at least, unless `-t` says otherwise: twice what the target may take to serve again. And the wait for one fault: where sessions
    /// last longer than it would be, until one that a death has ended is over.
    pub least_limits: Limits,
    /// `-V`: seconds of fuzzing, from the first fuzzed run of this process.
    pub max_time: Option<Duration>,
    /// `--cpu-seconds`: CPU time of fuzzing, Warren's own and that of all it starts, over the whole campaign.
    pub max_cpu: Option<Duration>,
    /// `-E`: sequences tested, every try once, over the whole campaign.
    pub max_sequences: Option<u64>,
    pub exit_on_bug: bool,
    /// `--minimize`: make a finding smaller as soon as it stands.
    pub minimize: bool,
    /// Most classes of untested children in memory; the rest lies in runs/. Not a flag: tests lower it.
    pub max_classes: usize,
    /// Fault-free runs before the first fuzzed one (5).
    pub learning_runs: usize,
    /// Write the instrumented classes here.
    pub dump_classes: Option<PathBuf>,
    /// The command line as typed: file `cmdline`, stats and reproduce commands.
    pub command_line: Vec<String>,
    /// Flags that a reproduce command must repeat, such as `--paper` or `--version 3.4.14`.
    pub reproduce_flags: Vec<String>,
    /// Versions and machine, for the findings' folders.
    pub environment: Environment,
    /// `-i -`: go on with the campaign that is in the folder.
    pub resume: bool,
    /// What else makes a campaign this one and not another: name and value (target version, agent, ...).
    pub identity: Vec<(String, String)>,
    /// First Ctrl-C sets it; honoured within a second.
    pub stop: Arc<AtomicBool>,
    /// Bugs that have a number upstream: counted, not reported as new.
    pub known: KnownBugs,
    /// Written here for the screen.
    pub snapshot: SharedSnapshot,
}

/// Why a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The stop flag was set.
    Stopped,
    /// `-V` reached.
    TimeLimit,
    /// `-E` reached.
    SequenceLimit,
    /// `--cpu-seconds` reached.
    CpuLimit,
    /// No class has an untried occurrence left.
    Exhausted,
    /// `--exit-on-bug` and a finding stands.
    Bug,
    /// `--exit-on-bug` and a hang stands.
    Hang,
}

impl EndReason {
    /// The word of fuzzer_stats' `ended`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            EndReason::Stopped => "stopped",
            EndReason::TimeLimit => "time",
            EndReason::SequenceLimit => "runs",
            EndReason::CpuLimit => "cpu",
            EndReason::Exhausted => "exhausted",
            EndReason::Bug => "bug",
            EndReason::Hang => "hang",
        }
    }
}

/// How a campaign ended.
#[derive(Clone, Debug)]
pub struct FuzzEnd {
    pub reason: EndReason,
    /// Sequences tested (what `-E` counts).
    pub sequences: u64,
    /// All runs, learning, retests and confirmations included.
    pub execs: u64,
    /// Findings that are no hangs.
    pub findings: u64,
    /// How many of these are known bugs.
    pub known: u64,
    pub hangs: u64,
    pub known_hangs: u64,
    /// The instance folder.
    pub folder: PathBuf,
    /// Fuzzing time, without set-up and learning.
    pub fuzz_time: Duration,
    pub learning_time: Duration,
}

/// What can go wrong with a campaign.
#[derive(Debug, thiserror::Error)]
pub enum FuzzError {
    /// The CLI exits 2.
    #[error("{}", held(.folder, .marker))]
    HoldsCampaign { folder: PathBuf, marker: String },
    /// The CLI exits 2.
    #[error("{0}")]
    Usage(String),
    #[error("{doing} {path}: {source}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {why}")]
    Format { path: PathBuf, why: String },
    /// The cluster could not be run at all, or never gave a usable fault-free run.
    #[error("{0}")]
    Cluster(String),
    #[error("learning: {0}")]
    Learning(String),
    /// Writing into the campaign folder from inside the framework.
    #[error("{doing}: {source}")]
    Disk {
        doing: String,
        source: std::io::Error,
    },
    #[error("the fuzzing framework refused: {0}")]
    Framework(#[source] libafl::Error),
}

/// Whose the campaign of a folder is, and the way out. A mirror cannot be resumed, and as long as its instance lives a broker makes it again.
fn held(folder: &Path, marker: &str) -> String {
    let folder = folder.display();
    match marker {
        MARK => format!(
            "{folder} is the mirror of an instance on another machine: choose another name (-M, -S), or remove it if that instance is gone for good"
        ),
        _ => format!(
            "{folder} already holds a campaign ({marker} is there)\n  resume it with `-i -` or WARREN_AUTORESUME=1, choose another folder with -o, or remove it"
        ),
    }
}

impl From<libafl::Error> for FuzzError {
    fn from(e: libafl::Error) -> Self {
        match e {
            // The store names the file; LibAFL's own queue entries carry no name.
            libafl::Error::OsError(source, doing, _) if doing.starts_with("writing ") => {
                FuzzError::Disk { doing, source }
            }
            libafl::Error::OsError(source, ..) => FuzzError::Disk {
                doing: "writing into the campaign folder".into(),
                source,
            },
            e => FuzzError::Framework(e),
        }
    }
}

/// How the user of a verb gets out of trouble with files: only the verb knows its flags.
#[derive(Clone, Copy, Debug)]
pub struct WayOut<'a> {
    /// Where a file or folder cannot be made, read or written: another place.
    pub place: &'a str,
    /// Where a file does not hold what it should.
    pub content: &'a str,
}

impl FuzzError {
    /// The text, with the way out where there is one.
    #[must_use]
    pub fn told(&self, way_out: WayOut<'_>) -> String {
        use std::io::ErrorKind as K;
        let WayOut { place, content } = way_out;
        match self {
            FuzzError::Format { .. } => format!("{self}\n  {content}"),
            FuzzError::Io { source, .. } | FuzzError::Disk { source, .. } => match source.kind() {
                K::StorageFull | K::QuotaExceeded => format!("{self}\n  free space or {place}"),
                K::PermissionDenied
                | K::ReadOnlyFilesystem
                | K::NotADirectory
                | K::NotFound
                | K::AlreadyExists => format!("{self}\n  {place}"),
                _ => self.to_string(),
            },
            _ => self.to_string(),
        }
    }
}

impl Default for FaultSet {
    fn default() -> Self {
        FaultSet {
            crash: true,
            reboot: true,
            partition: true,
            stall: false,
        }
    }
}

impl FromStr for FaultSet {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let mut set = FaultSet {
            crash: false,
            reboot: false,
            partition: false,
            stall: false,
        };
        for word in s.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word {
                "crash" => set.crash = true,
                "reboot" => set.reboot = true,
                "partition" => set.partition = true,
                "stall" => set.stall = true,
                other => {
                    return Err(format!(
                        "`{other}` is none of crash, reboot, partition, stall"
                    ));
                }
            }
        }
        if set.crash || set.partition || set.stall {
            Ok(set)
        } else {
            Err(
                "no sequence could begin: name crash, partition or stall (a reboot needs a crash)"
                    .into(),
            )
        }
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = [
            (self.crash, "crash"),
            (self.reboot, "reboot"),
            (self.partition, "partition"),
            (self.stall, "stall"),
        ]
        .iter()
        .filter_map(|(on, w)| on.then_some(*w))
        .collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for StrategyKind {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let named = StrategyKind::NAMES.iter().find(|(name, _)| *name == s);
        named.map(|(_, kind)| *kind).ok_or_else(|| {
            let names = StrategyKind::NAMES.map(|(name, _)| name).join(", ");
            format!("`{s}` is none of {names}")
        })
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = StrategyKind::NAMES.iter().find(|(_, kind)| kind == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FuzzOptions {
    /// The parts of `warren` that are on; none for other strategies.
    #[must_use]
    pub fn parts(&self) -> Parts {
        match self.strategy {
            StrategyKind::Warren => {
                let parts = self.without.map_or(Parts::ALL, |w| w.0);
                Parts {
                    swarm: parts.swarm && self.swarm,
                    symmetry: parts.symmetry && self.symmetry,
                    ..parts
                }
            }
            _ => Parts::NONE,
        }
    }

    /// Which shapes are drawn: how many, and a hash of what they say.
    #[must_use]
    pub fn shapes_identity(&self) -> String {
        if !self.parts().shapes {
            return "none".into();
        }
        let said = fnv1a(format!("{:?}", self.shapes).as_bytes());
        format!("{} ({:08x})", self.shapes.len(), said as u32)
    }

    /// Options with every default, for a target and an output folder.
    #[must_use]
    pub fn new(target: &str, out: impl Into<PathBuf>) -> Self {
        FuzzOptions {
            target: target.to_owned(),
            out: out.into(),
            instance: "default".into(),
            kind: InstanceKind::default(),
            look_every: LOOK_EVERY,
            seeds: Vec::new(),
            strategy: StrategyKind::default(),
            without: None,
            swarm: false,
            symmetry: false,
            shapes: Vec::new(),
            favour: Favour::default(),
            starts: Starts::COLD,
            slots: Slots::Exactly(1),
            faults: FaultSet::default(),
            max_faults: 10,
            seed: None,
            run_limit: None,
            least_limits: Limits::default(),
            max_time: None,
            max_cpu: None,
            max_sequences: None,
            exit_on_bug: false,
            minimize: false,
            max_classes: crate::search::queue::MAX_CLASSES,
            learning_runs: 5,
            dump_classes: None,
            command_line: Vec::new(),
            reproduce_flags: Vec::new(),
            environment: Environment::default(),
            resume: false,
            identity: Vec::new(),
            stop: Arc::default(),
            known: KnownBugs::default(),
            snapshot: SharedSnapshot::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_the_way_out_whoever_met_it() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let table = [
            (
                libafl::Error::os_error(full(), "writing out/runs/000001.run"),
                "writing out/runs/000001.run: ",
                "free space or elsewhere",
            ),
            (
                libafl::Error::from(full()),
                "writing into the campaign folder: ",
                "free space or elsewhere",
            ),
            (
                libafl::Error::illegal_state("else"),
                "the fuzzing framework refused: ",
                "else",
            ),
        ];
        let way_out = WayOut {
            place: "elsewhere",
            content: "",
        };
        for (e, start, part) in table {
            let text = FuzzError::from(e).told(way_out);
            assert!(text.starts_with(start) && text.contains(part), "{text}");
        }
    }

    #[test]
    fn fault_sets() {
        let table = [
            ("crash,reboot,partition", Ok("crash,reboot,partition")),
            ("crash", Ok("crash")),
            ("partition , crash", Ok("crash,partition")),
            ("reboot", Err("reboot needs")),
            ("", Err("no sequence")),
            ("stall, crash", Ok("crash,stall")),
            ("stall", Ok("stall")),
            ("crash,delay", Err("`delay`")),
        ];
        for (text, want) in table {
            match (text.parse::<FaultSet>(), want) {
                (Ok(set), Ok(w)) => assert_eq!(set.to_string(), w),
                (Err(e), Err(w)) => assert!(e.contains(w), "{text}: {e}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
