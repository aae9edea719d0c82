//! What `warren fuzz` asks for, and how a campaign ends. Plain values; filled by the CLI. What can go wrong is in `campaign/error.rs`.

use crate::campaign::{ALONE, Environment, Folder, InstanceKind, Slots};
use crate::fuzz::{Limits, SharedSnapshot, Starts, Tested};
use crate::known::KnownBugs;
use crate::search::{FaultSet, Favour, Parts, StrategyKind, Without};
use crate::seeds::SeedFile;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use warren_model::{Shape, ids::fnv1a};

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
    /// What it tests, as far as that is known: noted in its state, and no word for the other instances.
    pub tested: Tested,
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

    /// This instance's folder, with the campaign's seed; nothing is made.
    #[must_use]
    pub fn folder(&self, seed: u64) -> Folder {
        let root = self.out.join(&self.instance);
        Folder::new(root, &self.command_line, &self.reproduce_flags, seed)
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
            instance: ALONE.into(),
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
            tested: Tested::default(),
            stop: Arc::default(),
            known: KnownBugs::default(),
            snapshot: SharedSnapshot::default(),
        }
    }
}
