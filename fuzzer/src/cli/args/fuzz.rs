//! The options of `warren fuzz`, by far the most of any verb, and how their values are read.

use super::SetupArgs;
use super::number::at_least;
use crate::campaign::Slots;
use crate::search::{FaultSet, StrategyKind, Without};
use clap::Args;
use std::path::PathBuf;

/// `warren fuzz`.
#[derive(Clone, Debug, Args)]
pub struct FuzzArgs {
    /// Name of the target (see `warren targets`)
    pub target: String,
    /// Campaign folder (default: out/TARGET)
    #[arg(short = 'o', value_name = "OUT")]
    pub out: Option<PathBuf>,
    /// Main instance of OUT under this name (1 to 32 letters, digits, `_` or `-`): shares its work with the other instances there (-S), on this or other machines
    #[arg(short = 'M', value_name = "NAME", value_parser = instance_name, conflicts_with = "secondary")]
    pub main: Option<String>,
    /// Secondary instance of OUT under this name; any number of them, each with its own name
    #[arg(short = 'S', value_name = "NAME", value_parser = instance_name)]
    pub secondary: Option<String>,
    /// Begin with the fault sequences of this file or folder (seeds); `-`: go on with the campaign in OUT, as it was when it
    /// ended or was killed
    #[arg(short = 'i', value_name = "IN")]
    pub input: Option<PathBuf>,
    /// Stop after SECONDS of fuzzing, counted from this start's first fuzzed run
    #[arg(short = 'V', value_name = "SECONDS", value_parser = at_least(1))]
    pub seconds: Option<u64>,
    /// Stop when this many sequences have been tested, over all starts
    #[arg(short = 'E', value_name = "SEQUENCES", value_parser = at_least(1))]
    pub runs: Option<u64>,
    /// Stop after this much CPU time of fuzzing, Warren's own and that of everything it starts, over all starts
    #[arg(long, value_name = "SECONDS", value_parser = at_least(1))]
    pub cpu_seconds: Option<u64>,
    /// Seed of all random choices (default: from the clock; a campaign that goes on keeps its own)
    #[arg(short = 's', value_name = "SEED")]
    pub seed: Option<u64>,
    /// Limit of one run, 1000 or more (default: five median fault-free runs; at least 20 s, and what the target's clocks need: docs/target-toml.md)
    #[arg(short = 't', value_name = "MS", value_parser = at_least(1000))]
    pub limit_ms: Option<u64>,
    /// Search strategy: warren (crashfuzz's queue with shapes, havoc, tails, strata, state novelty and energy), crashfuzz, or a baseline: fifo, brute-force, random, random-points
    #[arg(long, value_name = "NAME", default_value = "warren")]
    pub strategy: StrategyKind,
    /// Parts of `warren` to leave out: any of shapes, havoc, tails, strata, symmetry, state, energy, swarm
    #[arg(long, value_name = "PART[,PART...]")]
    pub without: Option<Without>,
    /// With `warren`: this instance draws kinds of faults, crash style, cuts, most faults and shares from its seed, within what is asked for
    #[arg(long)]
    pub swarm: bool,
    /// With `warren`: sequences that differ by the names of interchangeable nodes are one. For small spaces that are to be exhausted
    #[arg(long)]
    pub symmetry: bool,
    /// Faults to draw: any of crash, reboot, partition, stall (a thread that comes to a point holds there for a second)
    #[arg(long, value_name = "LIST", default_value = "crash,reboot,partition")]
    pub faults: FaultSet,
    /// Most faults in a sequence, 1 to 60
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub max_faults: u64,
    /// Share of the picks that start cold although snapshots work, 0 to 1, as start-up and first elections have bugs too [default: 0.15]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub cold_share: Option<f64>,
    /// Children of one kept run picked in a row: they share a snapshot taken just after its faults; 1 (none do) to 32 [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub in_a_row: Option<u32>,
    /// Clusters side by side: 1 to 64, or auto. With auto Warren takes the largest number, at most three for each core and 64, at which 20 fault-free runs
    /// stay undisturbed (two for each cluster where that is more). A number above 1 adds 2N fault-free runs, which widen the limits of a run
    #[arg(short = 'j', value_name = "N", default_value = "1")]
    pub slots: Slots,
    /// Run an LLMP broker here, which brokers of other machines join: their instances and those of OUT hear each other (with -M or -S)
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub broker_port: Option<u16>,
    /// Where it listens. LLMP knows no passwords: any other address than loopback's is for networks in which everyone is trusted
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        requires = "broker_port"
    )]
    pub broker_bind: std::net::IpAddr,
    /// Join the LLMP broker of another machine (with -M or -S); without --broker-port the one here listens on a free port of loopback
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub remote_broker: Option<String>,
    /// No screen: a status line a second
    #[arg(long)]
    pub no_ui: bool,
    /// End at the first finding (exit 77) or hang (exit 70)
    #[arg(long)]
    pub exit_on_bug: bool,
    /// Make each finding smaller as soon as it stands (at most 60 runs each)
    #[arg(long)]
    pub minimize: bool,
    /// Count lines and branches as JaCoCo does, for `warren coverage OUT`
    #[arg(long, conflicts_with = "dump_classes")]
    pub coverage_report: bool,
    /// Write the instrumented classes here
    #[arg(long, value_name = "DIR")]
    pub dump_classes: Option<PathBuf>,
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// Where a broker is.
fn host_port(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.map(|(_, port)| port.parse::<u16>()) {
        Some(Ok(1..)) => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is no HOST:PORT, such as 127.0.0.1:1337")),
    }
}

/// A name of an instance.
fn instance_name(text: &str) -> Result<String, String> {
    if crate::campaign::is_instance_name(text) {
        Ok(text.to_owned())
    } else {
        Err("write 1 to 32 letters, digits, `_` or `-`".into())
    }
}

/// A share is from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a number from 0 to 1".into()),
    }
}
