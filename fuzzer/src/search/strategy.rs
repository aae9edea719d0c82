//! Which search it is and which kinds of faults it may draw: the values of `--strategy` and `--faults`. Plain values, asked by the scheduler, by
//! what draws, and by the campaign that is told of them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use warren_model::FaultKind;

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

impl FaultSet {
    /// Whether faults of this kind are drawn.
    #[must_use]
    pub fn has(self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::Crash => self.crash,
            FaultKind::Reboot => self.reboot,
            FaultKind::PartitionStart | FaultKind::PartitionStop => self.partition,
            FaultKind::Stall => self.stall,
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

#[cfg(test)]
mod tests {
    use super::*;

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
