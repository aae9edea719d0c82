//! What a failing run tells about the faults of its sequence: where each really happened, how often its point was reached before, which
//! points came earlier. Pure; made from the run's trace, stored in the journal, in the sequence's own names.
//!
//! Candidates are made from it: n is counted since the fault before was done, so taking a fault out moves the numbers after it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use warren_model::{
    At, EventFlags, Fault, FaultAt, FaultSequence, Interval, IoPoint, Kind, NodeName, Place,
    RunProduct, StackId, Trace, TraceEvent, frame_name,
};

/// Earlier points kept of each fault: enough to halve towards the first.
const EARLIER: usize = 9;

/// Of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Who was what at GO.
    pub roles: BTreeMap<NodeName, String>,
    /// Those that happened: a prefix of the sequence.
    pub faults: Vec<FaultFacts>,
}

/// Of one fault that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultFacts {
    /// Exact point and resolved nodes.
    pub matched: FaultAt,
    /// Role of the node at the point.
    pub role: Option<String>,
    /// `class.method`, innermost first.
    pub frames: Vec<String>,
    /// The other end of the message at the point.
    pub peer: Option<NodeName>,
    /// Arrivals of what this fault asks for, on the node where it came, while each earlier fault was awaited.
    pub before: Vec<u32>,
    /// Other points of the node since the fault before, in time order.
    pub earlier: Vec<IoPoint>,
}

impl FaultFacts {
    /// The node at whose point it happened.
    #[must_use]
    pub fn executing(&self) -> Option<&NodeName> {
        match &self.matched.at {
            At::Exact(p) => Some(&p.node),
            _ => None,
        }
    }
}

impl Facts {
    /// Of a run of `asked`.
    #[must_use]
    pub fn of(asked: &FaultSequence, product: &RunProduct, addresses: &[NodeName]) -> Self {
        let record = &product.record;
        let own: BTreeMap<&NodeName, &NodeName> =
            record.renamed.iter().map(|(old, new)| (new, old)).collect();
        let name = |n: &NodeName| own.get(n).map_or_else(|| n.clone(), |old| (*old).clone());
        let roles = record.matched.as_ref().map_or_else(BTreeMap::new, |m| {
            m.roles.iter().map(|(n, r)| (name(n), r.clone())).collect()
        });
        let trace = &product.trace;
        let faults = record
            .injected
            .iter()
            .enumerate()
            .map(|(k, injected)| {
                let event = injected.event.and_then(|i| trace.events.get(i));
                let peer = event
                    .and_then(|e| trace.text(e.peer))
                    .and_then(|t| crate::search::peers::node_of(t, addresses))
                    .and_then(|i| addresses.get(i));
                FaultFacts {
                    matched: injected.matched.renamed(&name),
                    role: event.and_then(|e| trace.role(e)).map(str::to_owned),
                    frames: event.map_or_else(Vec::new, |e| frames(trace, e.stack)),
                    peer: peer.map(name),
                    before: asked
                        .faults
                        .get(k)
                        .zip(event)
                        .map_or_else(Vec::new, |(f, e)| before(&f.at, e, k, trace)),
                    earlier: injected
                        .event
                        .map_or_else(Vec::new, |i| earlier(i, &injected.matched.fault, trace))
                        .into_iter()
                        .map(|mut p| {
                            p.node = name(&p.node);
                            p
                        })
                        .collect(),
                }
            })
            .collect();
        Facts { roles, faults }
    }
}

/// Frames without line numbers; the number of a lambda differs from build to build.
fn frames(trace: &Trace, stack: StackId) -> Vec<String> {
    trace
        .stacks
        .get(&stack)
        .into_iter()
        .flatten()
        .map(|f| {
            let name = frame_name(f);
            match name
                .split_once("lambda$")
                .and_then(|_| name.rsplit_once('$'))
            {
                Some((head, number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
                    format!("{head}*")
                }
                _ => name.to_owned(),
            }
        })
        .collect()
}

/// How often what `at` asks for came on the event's node while faults 0..k were awaited.
fn before(at: &At, event: &TraceEvent, k: usize, trace: &Trace) -> Vec<u32> {
    let fits: Box<dyn Fn(&TraceEvent) -> bool> = match at {
        At::Exact(_) => {
            Box::new(|e| (e.stack, e.kind, e.place) == (event.stack, event.kind, event.place))
        }
        At::Pattern(p) => Box::new(|e| trace.fits(p, e)),
        At::AtOnce | At::Joined(_) | At::After(_) => return Vec::new(),
    };
    (0..k)
        .map(|j| {
            let interval = Interval::new(event.phase, u16::try_from(j).unwrap_or(u16::MAX));
            // The trace holds only some arrivals of background stacks: the last n of each stack says how many there were.
            let mut last: BTreeMap<(StackId, Kind, Place), u32> = BTreeMap::new();
            for e in trace
                .events
                .iter()
                .filter(|e| e.node == event.node && e.interval == interval && fits(e))
            {
                let n = last.entry((e.stack, e.kind, e.place)).or_default();
                *n = (*n).max(e.n);
            }
            last.values().sum()
        })
        .collect()
}

/// First arrivals of other points on the event's node since the fault before; of a cut only messages, where cuts begin.
fn earlier(index: usize, fault: &Fault, trace: &Trace) -> Vec<IoPoint> {
    let event = &trace.events[index];
    let mut seen: Vec<(StackId, Kind, Place)> = vec![(event.stack, event.kind, event.place)];
    let mut points = Vec::new();
    for e in &trace.events[..index] {
        let key = (e.stack, e.kind, e.place);
        if e.node != event.node
            || e.interval != event.interval
            || e.flags.has(EventFlags::DURING)
            || e.flags.has(EventFlags::BACKGROUND)
            || (matches!(fault, Fault::PartitionStart { .. }) && !e.kind.is_message())
            || seen.contains(&key)
        {
            continue;
        }
        seen.push(key);
        points.push(trace.point(e));
    }
    let all = points.len();
    if all > EARLIER {
        points = (0..EARLIER)
            .map(|i| points[i * all / EARLIER].clone())
            .collect();
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;
    use warren_model::{CrashStyle, Who};

    #[test]
    fn arrivals_before_are_counted_and_frames_read() {
        let sim = Sim::new(3, 2);
        let root = sim.run(&FaultSequence::empty("sim"));
        // The third time that n2 forces its log at this stack, and a harmless crash and reboot of n3 before.
        let stack = StackId::of_frames(["log.append", "main.run"]);
        let third = root
            .trace
            .events
            .iter()
            .find(|e| e.node == 1 && e.stack == stack && e.kind == Kind::Force && e.n == 3)
            .unwrap();
        let other = StackId::of_frames(["log.roll", "main.run"]);
        let second = root
            .trace
            .events
            .iter()
            .find(|e| e.node == 2 && e.stack == other && e.kind == Kind::Force && e.n == 1)
            .unwrap();
        let crash = |e: &TraceEvent, n: u32| FaultAt {
            at: At::Exact(IoPoint {
                n,
                ..root.trace.point(e)
            }),
            fault: Fault::Crash {
                who: Who::Executing,
                style: CrashStyle::Process,
            },
        };
        let mut asked = FaultSequence::empty("sim");
        asked.faults.push(crash(second, 1));
        asked.faults.push(crash(third, 2));
        let product = sim.run(&asked);
        assert_eq!(product.record.injected.len(), 2);
        let facts = Facts::of(&asked, &product, &sim.nodes);
        assert_eq!(facts.roles.len(), 3);
        let f = &facts.faults[1];
        assert_eq!(f.before, [1], "once before the first fault");
        assert_eq!(f.frames, ["log.append", "main.run"]);
        assert_eq!(f.role.as_deref(), Some("follower"));
        assert_eq!(f.executing().unwrap().as_str(), "n2");
        assert!(f.earlier.iter().all(|p| p.node.as_str() == "n2"));
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
    }
}
