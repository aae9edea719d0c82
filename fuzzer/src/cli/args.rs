//! The command line as clap definitions: verbs, flags, help texts. Parsed once in [`crate::verbs::main`].
//!
//! AFL's letters where AFL has one (-o -V -E -s -t -x -M -S). Refuses to know defaults that need a target or a clock: those are set
//! where they are used. Verbs that are not there yet stand nowhere here.

mod arm;
mod fuzz;
mod number;

pub use arm::{Arm, How};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use fuzz::FuzzArgs;
use number::at_least;
use std::path::PathBuf;

/// `warren`.
#[derive(Debug, Parser)]
#[command(
    name = "warren",
    version,
    about = "A coverage-guided fuzzer whose inputs are faults: crashes, reboots and partitions of a real cluster",
    after_help = "Exit codes: 0 end, 1 set-up, stored or output files, or the verb's own no (seed check, tmin, doctor), 2 usage,\n\
                  70 hang, 77 bug, 101 a panic, 130 second Ctrl-C.\n\
                  Ctrl-C once ends gracefully, twice at once. NO_COLOR takes the colours away."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set a target up, then search for faults that break it until Ctrl-C, a limit or exhaustion
    Fuzz(FuzzArgs),
    /// Run fault sequences again and judge each run (an empty sequence is the fault-free run)
    Replay(ReplayArgs),
    /// Work on hand-written fault sequences
    Seed(SeedArgs),
    /// Make a failing sequence smaller without losing its failure: fewer faults, then earlier and simpler ones
    Tmin(TminArgs),
    /// Keep of a campaign's queue a small set of sequences with all its coverage
    Cmin(CminArgs),
    /// Say what this machine can do, what is missing, and what follows from that
    Doctor(DoctorArgs),
    /// List the targets
    Targets(TargetsArgs),
    /// Show the JDKs there are, or fetch one into Warren's cache
    Jdk(JdkArgs),
    /// Print a finding, or all findings of a campaign, as text or Markdown
    Report(ReportArgs),
    /// Sum up the instances of a campaign: alive or dead, runs, coverage, findings
    Whatsup(WhatsupArgs),
    /// Draw a campaign's curves: SVG files and one HTML page
    Plot(PlotArgs),
    /// Measure what Warren costs on a target: agent, fault tests (of strategy crashfuzz), kill latency, memory
    Bench(BenchArgs),
    /// Compare strategies on a target by repeated campaigns of one budget: coverage, bugs found, tests to each
    Compare(CompareArgs),
    /// Print the lines and branches that a campaign with --coverage-report executed, as JaCoCo counts them
    Coverage(CoverageArgs),
}

/// What the verbs that run a target ask of it and of its slot: `fuzz`, `replay`, `seed check`, `tmin`, `doctor`, `bench`, `compare`.
#[derive(Clone, Debug, Default, Args)]
pub struct SetupArgs {
    /// Version of the target (default: the one in its target.toml)
    #[arg(long = "version", value_name = "V")]
    pub version: Option<String>,
    /// Use the paper's clocks ([paper] in target.toml) instead of the short ones
    #[arg(long)]
    pub paper: bool,
    /// JDK to run the target with (default: JAVA_HOME, java on PATH or an installed one, whichever first fits; else one is fetched)
    #[arg(long, value_name = "HOME")]
    pub java: Option<PathBuf>,
    /// Folder of the targets (default: ./targets, else the source folder known at build)
    #[arg(long, value_name = "DIR")]
    pub targets: Option<PathBuf>,
    /// Isolation: 1 root namespaces, 2 user namespaces, 3 plain processes (default: the best that works)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub level: Option<u8>,
    /// Start runs from snapshots of the live cluster (CRIU; level 1): auto where that works, off, or require
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub snapshot: UseSnapshots,
    /// Start nodes from nothing, never from JVMs that were dumped before their first line
    #[arg(long)]
    pub no_parked: bool,
    /// Instrument classes that match, instead of target.toml's `include` (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Do not instrument classes that match, beside target.toml's `exclude` (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// One more dictionary
    #[arg(short = 'x', value_name = "FILE")]
    pub dictionary: Option<PathBuf>,
}

/// `--snapshot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UseSnapshots {
    /// Where it works; else every run starts cold, and that is said.
    #[default]
    Auto,
    /// Every run starts cold.
    Off,
    /// An error where it does not work.
    Require,
}

/// What `replay`, `seed check` and `tmin` ask of each run.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Seed of the workload's choices
    #[arg(short = 's', value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Limit of one run (default: 60000 or five times `serve_ms` of the target, and its `steps_ms` on top: docs/target-toml.md)
    #[arg(short = 't', value_name = "MS", value_parser = at_least(1000))]
    pub limit_ms: Option<u64>,
}

/// `warren replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// Fault sequences: files of queue/, crashes/, hangs/, or written by hand
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Run each file TIMES times
    #[arg(short = 'n', value_name = "TIMES", default_value_t = 1, value_parser = at_least(1))]
    pub times: u64,
    #[command(flatten)]
    pub each: RunArgs,
    /// Kill and start all nodes once more at the end of each run, and ask again: for failures that only that shows
    #[arg(long)]
    pub durable: bool,
    /// Let the faults before the first reboot, at most all but the last, happen once, and begin each run where that one was dumped (needs a sequence from a snapshot)
    #[arg(long)]
    pub prefix: bool,
    /// Write a JUnit report: one test case a file, brought up to date after each run
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the instrumented classes here
    #[arg(long, value_name = "DIR")]
    pub dump_classes: Option<PathBuf>,
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// `warren report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// A finding's folder, an instance's, or a campaign's (-o of fuzz)
    pub dir: PathBuf,
    /// As Markdown, to paste into an issue
    #[arg(long)]
    pub markdown: bool,
}

/// `warren whatsup`.
#[derive(Clone, Debug, Args)]
pub struct WhatsupArgs {
    /// Campaign folder (-o of fuzz), or one instance's
    pub out: PathBuf,
    /// The sums only
    #[arg(short = 's')]
    pub summary: bool,
}

/// `warren coverage`.
#[derive(Clone, Debug, Args)]
pub struct CoverageArgs {
    /// Campaign folder (-o of fuzz), or one instance's; of several, a line each and no files
    #[arg(required = true)]
    pub out: Vec<PathBuf>,
    /// Write a line for each class, in the columns of JaCoCo's CSV report
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a JaCoCo execution data file, for reports by JaCoCo's own tools
    #[arg(long, value_name = "FILE")]
    pub exec: Option<PathBuf>,
    /// Write lines and branches over the campaign's time, as CSV
    #[arg(long, value_name = "FILE")]
    pub over_time: Option<PathBuf>,
}

/// `warren plot`.
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// Campaign folder (-o of fuzz), or one instance's
    pub out: PathBuf,
    /// Where to write (default: plot/ in the campaign folder)
    #[arg(short = 'o', value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `warren seed`.
#[derive(Clone, Debug, Args)]
pub struct SeedArgs {
    #[command(subcommand)]
    pub command: SeedCommand,
}

/// The verbs of `warren seed`.
#[derive(Clone, Debug, Subcommand)]
pub enum SeedCommand {
    /// Run each sequence and say which point each fault matched, or what came nearest (exit 1 when one did not match)
    Check(SeedCheckArgs),
}

/// `warren seed check`.
#[derive(Clone, Debug, Args)]
pub struct SeedCheckArgs {
    /// Fault sequences, or folders of them, of one target
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Run each file TIMES times: every run must match
    #[arg(short = 'n', value_name = "TIMES", default_value_t = 1, value_parser = at_least(1))]
    pub times: u64,
    #[command(flatten)]
    pub each: RunArgs,
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// `warren tmin`.
#[derive(Clone, Debug, Args)]
pub struct TminArgs {
    /// The failing sequence, or a folder of findings/
    #[arg(value_name = "FILE", required_unless_present = "input")]
    pub file: Option<PathBuf>,
    /// The same with AFL's letter
    #[arg(short = 'i', value_name = "FILE", conflicts_with = "file")]
    pub input: Option<PathBuf>,
    /// The result; beside it OUTFILE's .passing.toml (nearest passing neighbour) and .journal.jsonl (to go on after an end)
    #[arg(short = 'o', value_name = "OUTFILE")]
    pub out: PathBuf,
    /// Most runs in all
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = at_least(1))]
    pub runs: u64,
    /// Tries of each candidate, replays at the beginning and at the end (default: from how often it fails)
    #[arg(short = 'n', value_name = "TRIES", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tries: Option<u32>,
    /// Tries in which a candidate must show the failure (default: from how often it fails)
    #[arg(short = 'k', value_name = "NEEDED", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub needed: Option<u32>,
    /// The failure to keep (default: the one FILE's name tells, else the one seen most often)
    #[arg(long, value_name = "S", value_parser = signature)]
    pub signature: Option<String>,
    #[command(flatten)]
    pub each: RunArgs,
    /// Kill and start all nodes once more at the end of each run, and ask again: for failures that only that shows
    #[arg(long)]
    pub durable: bool,
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// The value of `--signature`.
fn signature(text: &str) -> Result<String, String> {
    crate::known::is_signature(text)
        .map(|()| text.to_owned())
        .map_err(|why| format!("{why}, as in bug:1a2b3c4d of a file's name in crashes/"))
}

/// `warren cmin`.
#[derive(Clone, Debug, Args)]
pub struct CminArgs {
    /// A campaign's output folder, or one instance of it
    #[arg(value_name = "OUT", required_unless_present = "input")]
    pub campaign: Option<PathBuf>,
    /// The same with AFL's letter
    #[arg(short = 'i', value_name = "OUT", conflicts_with = "campaign")]
    pub input: Option<PathBuf>,
    /// Folder for the sequences kept: it is made, or must be empty
    #[arg(short = 'o', value_name = "DIR")]
    pub out: PathBuf,
}

/// `warren doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Look at this target, too: run it once without faults, from a cold start, and say how much of its traffic the agent sees (under 90 % of a node's bytes is marked, under 4 KiB is not judged; exit 1 where the kernel cannot count them). The flags that are about a target's runs count for it
    pub target: Option<String>,
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// `warren targets`.
#[derive(Clone, Debug, Args)]
pub struct TargetsArgs {
    /// Folder of the targets (default: ./targets, else the source folder known at build)
    #[arg(long, value_name = "DIR")]
    pub targets: Option<PathBuf>,
}

/// `warren jdk`.
#[derive(Clone, Debug, Args)]
pub struct JdkArgs {
    #[command(subcommand)]
    pub command: JdkCommand,
}

/// The verbs of `warren jdk`.
#[derive(Clone, Debug, Subcommand)]
pub enum JdkCommand {
    /// List the JDKs that were found, and the versions that can be fetched
    List,
    /// Fetch these versions where the cache does not have them, and print their folders
    Get {
        /// 8, 11, 17, 21 or 25
        #[arg(required = true, value_name = "VERSION")]
        versions: Vec<u32>,
    },
}

/// `warren bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Name of the target
    pub target: String,
    /// Pairs of runs with and without the agent
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub runs: u64,
    /// Measure instead how many sequences an hour a campaign tests with so many slots (-j of fuzz), a campaign of fuzz's default strategy each: numbers
    /// or auto; 2/cold has no snapshots, 2/whole no prefix snapshots
    #[arg(
        long,
        value_name = "A,B,...",
        value_delimiter = ',',
        conflicts_with = "runs"
    )]
    pub slots: Vec<Arm>,
    /// Of each such campaign: seconds of fuzzing
    #[arg(long, value_name = "S", default_value_t = 150, requires = "slots", value_parser = at_least(1))]
    pub seconds: u64,
    /// Keep these campaigns here, with table and plot (default: a scratch folder)
    #[arg(short = 'o', value_name = "DIR", requires = "slots")]
    pub out: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Seed of the strategy and the workload
    #[arg(short = 's', value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub setup: SetupArgs,
    /// More options for `warren fuzz` of these campaigns; not -o, -M, -S, -s, -i -, -V, -j, --no-ui, --exit-on-bug, --dump-classes
    #[arg(last = true, value_name = "FUZZ OPTIONS", requires = "slots")]
    pub options: Vec<String>,
}

/// `warren compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Name of the target
    pub target: String,
    /// Strategies to compare, as fuzz names them
    #[arg(
        long,
        value_name = "A,B,...",
        value_delimiter = ',',
        required_unless_present = "report"
    )]
    pub strategies: Vec<String>,
    /// Parts of strategy warren: it is compared once less each of them (warren-PART)
    #[arg(long, value_name = "X,Y,...", value_delimiter = ',')]
    pub ablate: Vec<String>,
    /// Budget of a campaign: sequences tested (`-E` of fuzz)
    #[arg(
        long,
        value_name = "N",
        required_unless_present_any = ["cpu_seconds", "report"],
        value_parser = at_least(1)
    )]
    pub runs: Option<u64>,
    /// Budget of a campaign: CPU seconds of fuzzing, Warren's own and those of all it starts
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with = "runs",
        value_parser = at_least(1)
    )]
    pub cpu_seconds: Option<u64>,
    /// End a campaign as soon as it has shown this bug of bugs.toml (its name or the beginning of it): tests to a bug, for less than whole budgets
    #[arg(long, value_name = "BUG", conflicts_with = "report")]
    pub until: Option<String>,
    /// Campaigns of each strategy; a larger number adds to those that stand
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=999))]
    pub repeat: u64,
    /// Seed of the first repeat; each further one has the next
    #[arg(short = 's', value_name = "SEED", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    pub seed: u64,
    /// Folder of the comparison (default: out/compare-TARGET); with the same command it goes on
    #[arg(short = 'o', value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Which failures are which bug (default: bugs.toml beside target.toml, else each signature is one)
    #[arg(long, value_name = "FILE")]
    pub bugs: Option<PathBuf>,
    /// The strategy that the others are held against (default: the first)
    #[arg(long, value_name = "LABEL")]
    pub against: Option<String>,
    /// Run nothing: make the report again of what stands
    #[arg(long)]
    pub report: bool,
    /// Of each campaign that is done keep only what is read: no state/, runs/, queue/, unconfirmed/
    #[arg(long)]
    pub slim: bool,
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Options of fuzz for every campaign; not -o, -M, -S, -s, -i -, -V, -E, --cpu-seconds, --strategy, --without, --no-ui, --exit-on-bug, --dump-classes
    #[arg(last = true, value_name = "FUZZ OPTIONS")]
    pub options: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::StrategyKind;
    use clap::CommandFactory;

    #[test]
    fn definitions_are_sound() {
        Cli::command().debug_assert();
    }

    /// What later work brings must not be promised now.
    #[test]
    fn help_names_only_what_is_there() {
        let mut top = Cli::command();
        let mut all = top.render_long_help().to_string();
        for sub in top.get_subcommands_mut() {
            all.push_str(&sub.render_long_help().to_string());
        }
        assert!(!all.contains("__slot"), "help speaks of `__slot`");
        for there in [
            "fuzz", "replay", "tmin", "cmin", "doctor", "targets", "bench", "report", "whatsup",
            "plot", "compare", "jdk", "coverage",
        ] {
            assert!(all.contains(there), "help does not speak of `{there}`");
        }
    }

    #[test]
    fn fuzz_takes_afls_letters() {
        let cli = Cli::try_parse_from([
            "warren",
            "fuzz",
            "zookeeper",
            "-o",
            "o",
            "-V",
            "300",
            "-E",
            "9",
            "-s",
            "7",
            "-t",
            "20000",
            "--faults",
            "crash,reboot",
            "--version",
            "3.5.8",
            "--strategy",
            "random-points",
            "--level",
            "2",
            "-i",
            "-",
        ])
        .unwrap();
        let Command::Fuzz(f) = cli.command else {
            panic!("not fuzz")
        };
        assert_eq!((f.seconds, f.runs, f.seed), (Some(300), Some(9), Some(7)));
        assert_eq!(f.setup.version.as_deref(), Some("3.5.8"));
        assert_eq!(f.strategy, StrategyKind::RandomPoints);
        assert!(!f.faults.partition);
        assert_eq!(f.setup.level, Some(2));
        assert_eq!(f.input.as_deref(), Some(std::path::Path::new("-")));
    }

    #[test]
    fn compare_takes_strategies_a_budget_and_options_of_fuzz() {
        let cli = Cli::try_parse_from([
            "warren",
            "compare",
            "canary",
            "--strategies",
            "crashfuzz,random-points",
            "--runs",
            "20",
            "--repeat",
            "3",
            "--version",
            "1",
            "--",
            "-j",
            "2",
        ])
        .unwrap();
        let Command::Compare(c) = cli.command else {
            panic!("not compare")
        };
        assert_eq!(c.strategies, ["crashfuzz", "random-points"]);
        assert_eq!((c.runs, c.repeat, c.seed), (Some(20), 3, 1));
        assert_eq!(c.options, ["-j", "2"]);
        assert_eq!(c.setup.version.as_deref(), Some("1"));
        let report = Cli::try_parse_from(["warren", "compare", "canary", "--report"]);
        assert!(report.is_ok());
    }

    #[test]
    fn refusals() {
        for bad in [
            &["warren"][..],
            &["warren", "fuzz"],
            &["warren", "fuzz", "x", "-V", "0"],
            &["warren", "fuzz", "x", "-t", "5"],
            &["warren", "fuzz", "x", "--faults", "delay"],
            &["warren", "fuzz", "x", "--strategy", "best"],
            &[
                "warren",
                "fuzz",
                "x",
                "--strategy",
                "warren",
                "--without",
                "best",
            ],
            &[
                "warren",
                "fuzz",
                "x",
                "--strategy",
                "warren",
                "--without",
                "",
            ],
            &["warren", "fuzz", "x", "--level", "4"],
            &["warren", "fuzz", "x", "-M", "a", "-S", "b"],
            &["warren", "fuzz", "x", "-S", "a/b"],
            &["warren", "fuzz", "x", "-S", ".."],
            &["warren", "fuzz", "x", "-M", ""],
            &["warren", "fuzz", "x", "-M", "a", "--broker-port", "0"],
            &["warren", "fuzz", "x", "-M", "a", "--broker-bind", "here"],
            &["warren", "fuzz", "x", "-M", "a", "--remote-broker", "1337"],
            &["warren", "fuzz", "x", "-M", "a", "--remote-broker", ":1337"],
            &["warren", "fuzz", "x", "-M", "a", "--remote-broker", "h:0"],
            &["warren", "compare", "x", "--runs", "5"],
            &["warren", "compare", "x", "--strategies", "crashfuzz"],
            &[
                "warren",
                "compare",
                "x",
                "--strategies",
                "crashfuzz",
                "--runs",
                "5",
                "--cpu-seconds",
                "5",
            ],
            &["warren", "replay"],
            &["warren", "replay", "f", "-n", "0"],
            &["warren", "tmin", "f"],
            &["warren", "tmin", "-o", "o"],
            &["warren", "tmin", "f", "-i", "f", "-o", "o"],
            &["warren", "tmin", "f", "-o", "o", "--runs", "0"],
            &["warren", "cmin", "f"],
            &["warren", "cmin", "-o", "o"],
            &["warren", "cmin", "f", "-i", "f", "-o", "o"],
            &["warren", "tmin", "f", "-o", "o", "--signature", "zzz"],
            &["warren", "tmin", "f", "-o", "o", "--signature", "1A2B3C4D"],
        ] {
            assert!(Cli::try_parse_from(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
