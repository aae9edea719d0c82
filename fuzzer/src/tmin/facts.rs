//! What a failing run tells about the faults of its sequence: where each really happened, how often its point was reached before, which
//! points came earlier. Pure; made from the run's trace, stored in the journal, in the sequence's own names.
//!
//! Candidates are made from it: n is counted since the fault before was done, so taking a fault out moves the numbers after it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use warren_model::{
    At, CutWho, EventFlags, Fault, FaultAt, FaultSequence, Interval, IoPoint, Kind, Member,
    NodeName, Pattern, Phase, Place, RunProduct, StackId, Trace, TraceEvent, Who,
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
                    matched: renamed(&injected.matched, &name),
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
            let name = f.rsplit_once(':').map_or(f.as_str(), |(n, _)| n);
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
        At::Pattern(p) => {
            let mut stacks: BTreeMap<StackId, bool> = BTreeMap::new();
            for id in trace.stacks.keys() {
                let f: Vec<String> = frames(trace, *id);
                stacks.insert(*id, in_order(&p.frames, &f));
            }
            Box::new(move |e| {
                stacks.get(&e.stack).copied().unwrap_or(p.frames.is_empty())
                    && pattern_fits(p, e, trace)
            })
        }
        At::AtOnce | At::Joined(_) => return Vec::new(),
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

fn pattern_fits(p: &Pattern, e: &TraceEvent, trace: &Trace) -> bool {
    p.stack.is_none_or(|s| s == e.stack)
        && p.kind.is_none_or(|k| k == e.kind)
        && p.place.is_none_or(|k| k == e.place)
        && p.role.as_deref().is_none_or(|r| trace.role(e) == Some(r))
}

/// As the agent matches patterns: the globs occur in this order among the frames.
fn in_order(globs: &[String], frames: &[String]) -> bool {
    let mut frames = frames.iter();
    globs
        .iter()
        .all(|g| frames.any(|f| glob(g.as_bytes(), f.as_bytes())))
}

/// `*` is any run of characters.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|i| glob(rest, &text[i..])),
        Some((c, rest)) => text.first() == Some(c) && glob(rest, &text[1..]),
    }
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

/// A fault in other names.
fn renamed(f: &FaultAt, name: &impl Fn(&NodeName) -> NodeName) -> FaultAt {
    let who = |w: &Who| match w {
        Who::Node(n) => Who::Node(name(n)),
        other => other.clone(),
    };
    let member = |m: &Member| match m {
        Member::Node(n) => Member::Node(name(n)),
        other => other.clone(),
    };
    let at = match &f.at {
        At::Exact(p) => At::Exact(IoPoint {
            node: name(&p.node),
            ..p.clone()
        }),
        At::Pattern(p) => At::Pattern(Pattern {
            node: p.node.as_ref().map(name),
            ..p.clone()
        }),
        At::Joined(n) => At::Joined(name(n)),
        At::AtOnce => At::AtOnce,
    };
    // Start faults keep their names (they come before roles are known).
    if f.at.phase() == Phase::Start {
        return f.clone();
    }
    let fault = match &f.fault {
        Fault::Crash { who: w, style } => Fault::Crash {
            who: who(w),
            style: *style,
        },
        Fault::Reboot { who: w } => Fault::Reboot { who: who(w) },
        Fault::PartitionStart { how, who: w } => Fault::PartitionStart {
            how: *how,
            who: CutWho {
                cut: w.cut.iter().map(member).collect(),
                from: w.from.iter().map(member).collect(),
                bridge: w.bridge.as_ref().map(member),
                way: w.way,
            },
        },
        Fault::PartitionStop => Fault::PartitionStop,
    };
    FaultAt { at, fault }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;
    use warren_model::CrashStyle;

    #[test]
    fn globs_as_the_agent_matches_them() {
        let s = |v: &[&str]| v.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        for (globs, frames, want) in [
            (s(&[]), s(&["a.b"]), true),
            (s(&["a.b"]), s(&["x.y", "a.b"]), true),
            (s(&["*.b", "c*"]), s(&["a.b", "x", "c.d"]), true),
            (s(&["c*", "*.b"]), s(&["a.b", "x", "c.d"]), false),
            (s(&["a"]), s(&["ab"]), false),
        ] {
            assert_eq!(in_order(&globs, &frames), want, "{globs:?} {frames:?}");
        }
    }

    #[test]
    fn arrivals_before_are_counted_and_frames_read() {
        let sim = Sim::new(3, 1);
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
