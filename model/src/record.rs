//! The product of a run: what was asked, what really happened, and everything the checkers need.
//!
//! Made by the executor at the end of a run and handed to the sink. Times are CLOCK_MONOTONIC ns unless the name says ms or us.

use crate::history::{HistoryEvent, Observation};
use crate::ids::NodeName;
use crate::not_stable::{Instability, NotStable};
use crate::point::Phase;
use crate::sequence::{FaultAt, FaultSequence};
use crate::trace::Trace;
use crate::verdict::Stage;
use crate::void::Void;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Version of stored run records. Records of version 1, which are read too, have at most one reason in `not_stable`, and it is no list.
pub const RECORD_VERSION: u32 = 2;

/// Wall time of each phase and of the edges, ms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTimes {
    pub slot: u64,
    pub start: u64,
    pub setup: u64,
    pub test: u64,
    pub degraded: u64,
    pub heal: u64,
    pub finale: u64,
    pub collect: u64,
    /// From taking the slot to the record.
    pub total: u64,
}

/// From "point reached" to the signal, and to the process gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillLatency {
    pub signal_us: u64,
    pub reap_us: u64,
    /// Events of that node more than 2 ms after the signal (must be 0).
    pub late_events: u32,
}

/// One fault as it really happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injected {
    /// Index in the sequence as asked.
    pub index: usize,
    /// Exact point and resolved nodes.
    pub matched: FaultAt,
    /// Index into `Trace::events` of the matching event; none for "at once" and "joined".
    pub event: Option<usize>,
    pub t_reached: u64,
    pub t_done: u64,
    /// The thread that met the point was held for longer than `max_hold`: it was released before the fault was done, where that could be, or
    /// after it.
    pub late: bool,
    /// A smaller n was accepted after silence: (asked, accepted).
    pub drift: Option<(u32, u32)>,
    pub kill: Option<KillLatency>,
}

/// Why the rest of a sequence did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotInjected {
    /// Index of the first fault that did not happen.
    pub index: usize,
    /// One of `bound`, `silence`, `node-dead`, `constraint`, `self-exit`, `limit`, `stopped`, `ended` (the run was over before).
    pub reason: String,
    pub detail: String,
    /// Nearest arrivals: occurrences seen of the awaited stack.
    pub nearest: u32,
}

/// One JVM of a node, from its launch to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incarnation {
    pub node: NodeName,
    /// 1-based.
    pub number: u8,
    pub spawned_ns: u64,
    /// First time its ready probe passed.
    pub ready_ns: Option<u64>,
    pub ended_ns: Option<u64>,
    /// Last role known.
    pub role: Option<String>,
}

/// A process that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub node: NodeName,
    pub incarnation: u8,
    pub phase: Phase,
    pub t_ns: u64,
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub role: Option<String>,
}

/// What is kept of every run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub version: u32,
    /// Seed of the workload's choices.
    pub seed: u64,
    /// As asked.
    pub sequence: Option<FaultSequence>,
    /// Exact points and resolved nodes, in the names of this run: a prefix of what was asked.
    pub matched: Option<FaultSequence>,
    pub injected: Vec<Injected>,
    pub not_injected: Option<NotInjected>,
    /// Recorded name -> name in this run, where they differ.
    pub renamed: BTreeMap<NodeName, NodeName>,
    pub times: PhaseTimes,
    /// CPU seconds of all processes of the slot, in ms.
    pub cpu_ms: u64,
    pub incarnations: Vec<Incarnation>,
    pub exits: Vec<Exit>,
    /// Longest stall of the slot per phase, ms (10 ms ticker).
    pub stalls_ms: BTreeMap<Phase, u64>,
    /// Degraded service was asked for, and no more nodes were gone until the answer than the target promises to bear.
    pub degraded_asked: bool,
    /// Each time that the cluster was not stable when it should have been.
    #[serde(deserialize_with = "reasons")]
    pub not_stable: Vec<NotStable>,
    /// The workload failed or did not end.
    pub workload_error: Option<String>,
    /// The run passed its limit.
    pub timed_out: bool,
    /// Why the run is no test.
    pub void: Option<Void>,
    /// The durability restart was made.
    pub durable_asked: bool,
    /// From the end of each cut to the first packet through, ms.
    pub cut_heal_ms: Vec<u64>,
    /// Unbound connections, dropped events, classes that could not be transformed, hook errors.
    pub warnings: Vec<String>,
    pub classes: u64,
    pub unbound: u64,
}

/// A list, or as version 1 wrote it: nothing or one. In postcard, where nothing tells a form from another, both are the same bytes.
fn reasons<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<NotStable>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        All(Vec<NotStable>),
        Version1(Option<NotStable>),
    }
    if !d.is_human_readable() {
        return Vec::deserialize(d);
    }
    Ok(match Stored::deserialize(d)? {
        Stored::All(all) => all,
        Stored::Version1(one) => one.into_iter().collect(),
    })
}

impl RunRecord {
    /// `what` did not make the cluster stable. A reason beside earlier ones: that it did not heal and that it does not come up again are two
    /// stories, and neither is to be lost by the other.
    pub fn was_not_stable(&mut self, what: &str, kind: Instability, why: &str) {
        let text = format!("{what}: {why}");
        self.not_stable.push(NotStable { kind, text });
    }

    /// The sequence with the faults that happened, when one did.
    #[must_use]
    pub fn happened(&self) -> Option<&FaultSequence> {
        self.matched.as_ref().filter(|m| !m.faults.is_empty())
    }

    /// The workload could not be set up, after a fault in the start or by chance: the run ended before GO, and what it does not show as a failure it
    /// tells nothing of.
    #[must_use]
    pub fn set_up_failed(&self) -> bool {
        let setup = format!("{}:", Phase::Setup);
        self.workload_error
            .as_ref()
            .is_some_and(|e| e.starts_with(&setup))
    }

    /// Whether a failure of this stage may need the durability restart to show again: the run made one, and what is looked at after healing is looked at
    /// once more after that. A node that ends by itself and what a cluster says of itself do not tell which of the two it was.
    #[must_use]
    pub fn restart_for(&self, stage: Stage) -> bool {
        stage == Stage::Durable || self.durable_asked && stage == Stage::Healed
    }
}

/// A moment that is marked in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogMoment {
    /// A phase began.
    Phase(Phase),
    /// This fault was done (index in the sequence).
    Fault(usize),
    /// All nodes have been killed, and are started once more to be asked again.
    Durability,
    /// Nodes are about to be started again, by a fault or by healing.
    Starts,
}

/// How far each node's logs had got at a moment: places what a log without times says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMark {
    pub at: LogMoment,
    pub t_ns: u64,
    /// Byte offsets into [`RunProduct::logs`], one for each file of `[log]`.
    pub offsets: BTreeMap<NodeName, Vec<usize>>,
}

/// A run that went on from where another one had come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromPrefix {
    /// Its first so many faults had happened there.
    pub faults: usize,
    /// Wall time that was spared by it, ms.
    pub spared_ms: u64,
}

/// Everything one run gives to the sink. The only large thing here; never stored whole.
#[derive(Clone, Debug, Default)]
pub struct RunProduct {
    pub record: RunRecord,
    pub trace: Trace,
    /// Coverage map of all nodes, 0 or 1 per slot.
    pub coverage: Vec<u8>,
    /// Exact probes of all nodes, 0 or 1 each; empty unless the target was prepared with them.
    pub probes: Vec<u8>,
    pub history: Vec<HistoryEvent>,
    pub observations: Vec<Observation>,
    /// Log text per node, all incarnations.
    pub logs: BTreeMap<NodeName, String>,
    /// In time order.
    pub log_marks: Vec<LogMark>,
    /// A torn or unreadable last line of a file, by name.
    pub broken_lines: Vec<String>,
    /// Files of `[collect]`: (path below `nodes/`, content); and where the system did not serve, what the threads of living nodes did then
    /// (`threads/PHASE-NODE.txt`).
    pub collected: Vec<(String, Vec<u8>)>,
    /// It began from a prefix snapshot.
    pub from_prefix: Option<FromPrefix>,
    /// So many starts of nodes went on from parked JVMs.
    pub unparked: u32,
    /// Of its time, what the durability restart and its questions took, ms.
    pub durable_ms: u64,
    /// Where it had to make do with less than it was to begin from. Add to it by [`RunProduct::fell_back`], which warns too.
    pub fallbacks: Fallbacks,
    /// Of its test, where that was asked for.
    pub traffic: Vec<NodeTraffic>,
}

/// Where a run was dearer than it was asked to be, and why: the first reason each. Nothing here says that its verdict is worth less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallbacks {
    /// Why it began cold although it was to begin from a snapshot.
    pub cold: Option<String>,
    /// Why the snapshot that it began from had to be made anew.
    pub remade: Option<String>,
    /// Why all its faults had to happen in it although it was to begin from a prefix snapshot.
    pub no_prefix: Option<String>,
    /// Why a node that was to go on from a parked JVM did not.
    pub no_parked: Option<String>,
}

impl Fallbacks {
    /// What is told of each in a record's warnings, in this order.
    const WORDS: [&str; 4] = [
        "started cold",
        "its snapshot was made anew",
        "no prefix snapshot",
        "no parked JVM",
    ];

    fn each(&mut self) -> [&mut Option<String>; 4] {
        [
            &mut self.cold,
            &mut self.remade,
            &mut self.no_prefix,
            &mut self.no_parked,
        ]
    }
}

/// What a node said and heard over the network, from GO to the end of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTraffic {
    pub node: NodeName,
    pub sent: Carried,
    pub received: Carried,
}

/// Bytes of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// By the agent's hooks. What is sent is seen before it is written: the rest of a partial write is counted again.
    pub seen: u64,
    /// By the kernel.
    pub carried: u64,
}

impl RunProduct {
    /// All faults asked for were injected.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.record.not_injected.is_none()
    }

    /// How long the run took, ms, as if all of it had happened in it and nothing else: runs are compared without what was spared for speed, and
    /// without the durability restart, which some have and others not.
    #[must_use]
    pub fn whole_ms(&self) -> u64 {
        let spared = self.from_prefix.map_or(0, |p| p.spared_ms);
        (self.record.times.total + spared).saturating_sub(self.durable_ms)
    }

    /// What the workload noted for a reader of the run, which is no failure.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.observations.iter().filter_map(|o| match o {
            Observation::Note { text } => Some(text.as_str()),
            _ => None,
        })
    }

    /// What of it did not happen in this run itself but in one that was dumped, a line each; for people.
    #[must_use]
    pub fn spared(&self) -> Vec<String> {
        let prefix = self.from_prefix.map(|p| {
            format!(
                "begun where another run was dumped after fault {}: {} ms spared",
                p.faults, p.spared_ms
            )
        });
        let parked = (self.unparked > 0)
            .then(|| format!("{} starts of nodes went on from parked JVMs", self.unparked));
        prefix.into_iter().chain(parked).collect()
    }

    /// Adds to [`RunProduct::fallbacks`], of which the first reason of each kind stays, and warns of every one in the record, which is
    /// for people only.
    pub fn fell_back(&mut self, mut why: Fallbacks) {
        let kinds = self.fallbacks.each().into_iter().zip(why.each());
        for ((first, why), words) in kinds.zip(Fallbacks::WORDS) {
            let Some(why) = why.take() else { continue };
            self.record.warnings.push(format!("{words}: {why}"));
            first.get_or_insert(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fallback_is_warned_of_and_the_first_reason_of_a_kind_stays() {
        let why = |text: &str| Some(text.to_owned());
        let mut product = RunProduct::default();
        product.fell_back(Fallbacks::default());
        product.fell_back(Fallbacks {
            no_parked: why("first"),
            cold: why("no memory"),
            ..Fallbacks::default()
        });
        product.fell_back(Fallbacks {
            no_parked: why("second"),
            ..Fallbacks::default()
        });
        let said = [
            "started cold: no memory",
            "no parked JVM: first",
            "no parked JVM: second",
        ];
        assert_eq!(product.record.warnings, said);
        let stays = Fallbacks {
            cold: why("no memory"),
            no_parked: why("first"),
            ..Fallbacks::default()
        };
        assert_eq!(product.fallbacks, stays);
    }

    #[test]
    fn each_reason_why_it_was_not_stable_stays() {
        let mut record = RunRecord::default();
        let (torn, dark) = (Instability::SeveralLead, Instability::Outage);
        record.was_not_stable("heal", torn, "2 nodes say they are leader");
        record.was_not_stable("durability", dark, "no leader");
        let kinds: Vec<_> = record.not_stable.iter().map(|n| n.kind).collect();
        assert_eq!(kinds, [torn, dark]);
        let both = ["heal: 2 nodes say they are leader", "durability: no leader"];
        assert_eq!(record.not_stable, both.map(NotStable::from));
        let bytes = postcard::to_allocvec(&record).unwrap();
        assert_eq!(postcard::from_bytes::<RunRecord>(&bytes).unwrap(), record);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<RunRecord>(&text).unwrap(), record);
    }

    /// What version 1 had there.
    #[test]
    fn reasons_of_version_1_are_read() {
        for one in [None, Some("heal: no leader")] {
            let want: Vec<NotStable> = one.map(NotStable::from).into_iter().collect();
            let mut value = serde_json::to_value(RunRecord::default()).unwrap();
            value["not_stable"] = one.into();
            let text = value.to_string();
            let read: RunRecord = serde_json::from_str(&text).unwrap();
            assert_eq!(read.not_stable, want, "{text}");
            let was = postcard::to_allocvec(&one).unwrap();
            assert_eq!(was, postcard::to_allocvec(&want).unwrap());
        }
    }

    #[test]
    fn what_is_asked_after_healing_is_asked_with_the_restart_that_was_made() {
        let table = [
            (false, Stage::Healed, false),
            (true, Stage::Healed, true),
            (true, Stage::Degraded, false),
            (true, Stage::Test, false),
            // A judgement of old, whose record says nothing.
            (false, Stage::Durable, true),
        ];
        for (durable_asked, stage, want) in table {
            let record = RunRecord {
                durable_asked,
                ..RunRecord::default()
            };
            assert_eq!(record.restart_for(stage), want, "{durable_asked} {stage:?}");
        }
    }
}
