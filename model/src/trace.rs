//! What a run's nodes did, as the agents recorded it: events in time order, stacks and texts interned once.
//!
//! Made by the executor from the node pages; read by feedback (states) and by strategies (children, recovery points).

use crate::frames::frames_match;
use crate::ids::{NodeName, StackId};
use crate::point::{IoPoint, Kind, Pattern, Phase, Place};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of stored traces.
pub const TRACE_VERSION: u32 = 1;

/// The span an occurrence number counts in: `(GO passed ? 1 : 0) << 16 | faults done` (docs/formats.md section 3).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Interval(pub u32);

impl Interval {
    /// The interval of a phase with so many faults done.
    #[must_use]
    pub fn new(phase: Phase, done: u16) -> Self {
        Interval((u32::from(phase >= Phase::Test) << 16) | u32::from(done))
    }

    /// Faults done when it began.
    #[must_use]
    pub fn faults_done(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// Whether GO had been given.
    #[must_use]
    pub fn after_go(self) -> bool {
        self.0 >> 16 == 1
    }
}

/// Marks of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EventFlags(pub u8);

impl EventFlags {
    /// Passed while a fault of this interval was held: gets no children.
    pub const DURING: u8 = 1;
    pub const MATCHED: u8 = 2;
    pub const BACKGROUND: u8 = 4;
    pub const LOST: u8 = 8;
    pub const THROWN: u8 = 16;

    /// Whether a mark is set.
    #[must_use]
    pub fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// One execution of an I/O point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// Index into [`Trace::nodes`].
    pub node: u16,
    pub stack: StackId,
    pub kind: Kind,
    pub place: Place,
    pub phase: Phase,
    pub interval: Interval,
    pub n: u32,
    /// CLOCK_MONOTONIC, ns.
    pub t_ns: u64,
    /// 1-based index into [`Trace::roles`]; 0 = none known.
    pub role: u8,
    pub flags: EventFlags,
    pub incarnation: u8,
    pub thread: u16,
    /// Index into [`Trace::texts`]: the other end, such as `127.0.0.12:2888`.
    pub peer: Option<u32>,
    /// Index into [`Trace::texts`]: a path or a message name.
    pub detail: Option<u32>,
    pub bytes: u64,
}

/// Everything the nodes recorded in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    pub version: u32,
    pub nodes: Vec<NodeName>,
    pub roles: Vec<String>,
    /// Frames `class.method:line`, innermost first.
    pub stacks: BTreeMap<StackId, Vec<String>>,
    pub texts: Vec<String>,
    /// In time order.
    pub events: Vec<TraceEvent>,
    /// Events that did not fit: more than 0 makes the trace partial.
    pub dropped: u64,
}

impl Trace {
    /// Whether each event is of a node that the trace names; of a trace that was read, before it is used.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let nodes = self.nodes.len();
        self.events.iter().all(|e| usize::from(e.node) < nodes)
    }

    /// The exact point of an event. Its node must be one of the trace's.
    #[must_use]
    pub fn point(&self, e: &TraceEvent) -> IoPoint {
        IoPoint {
            node: self.nodes[usize::from(e.node)].clone(),
            stack: e.stack,
            kind: e.kind,
            place: e.place,
            n: e.n,
            phase: e.phase.of_point(),
        }
    }

    /// The role text of an event.
    #[must_use]
    pub fn role(&self, e: &TraceEvent) -> Option<&str> {
        usize::from(e.role)
            .checked_sub(1)
            .and_then(|i| self.roles.get(i))
            .map(String::as_str)
    }

    /// The text an event's `peer` or `detail` refers to.
    #[must_use]
    pub fn text(&self, index: Option<u32>) -> Option<&str> {
        self.texts.get(index? as usize).map(String::as_str)
    }

    /// Whether an event is what a pattern asks for, as far as one event tells: stack, frames, kind, place, role. Node, phase and n are
    /// the caller's: they depend on the names of the run and on the arrivals before.
    #[must_use]
    pub fn fits(&self, p: &Pattern, e: &TraceEvent) -> bool {
        p.stack.is_none_or(|s| s == e.stack)
            && p.kind.is_none_or(|k| k == e.kind)
            && p.place.is_none_or(|k| k == e.place)
            && p.role.as_deref().is_none_or(|r| self.role(e) == Some(r))
            && self
                .stacks
                .get(&e.stack)
                .map_or(p.frames.is_empty(), |f| frames_match(&p.frames, f))
    }

    /// One line for people: innermost own frame of a stack.
    #[must_use]
    pub fn label(&self, stack: StackId) -> String {
        self.stacks
            .get(&stack)
            .and_then(|f| f.first())
            .map_or_else(|| stack.to_string(), |f| frame_text(f).to_owned())
    }
}

/// A frame `class.method:line` for people: without a line that is none. A method hooked by a dictionary stands in its own stack
/// before its first line runs, and natives have none.
#[must_use]
pub fn frame_text(frame: &str) -> &str {
    match frame.rsplit_once(':') {
        Some((name, line)) if line.parse::<i64>().is_ok_and(|n| n <= 0) => name,
        _ => frame,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_line_only_where_there_is_one() {
        let mut trace = Trace::default();
        for (i, (frame, want)) in [
            ("x.Y.z:31", "x.Y.z:31"),
            ("x.Y.z:-1", "x.Y.z"),
            ("x.Y.z:-2", "x.Y.z"),
            ("x.Y.z:0", "x.Y.z"),
            ("x.Y.z", "x.Y.z"),
            ("x.Y.z:w", "x.Y.z:w"),
        ]
        .into_iter()
        .enumerate()
        {
            let id = StackId(i as u64);
            trace
                .stacks
                .insert(id, vec![frame.into(), "x.Q.r:7".into()]);
            assert_eq!(trace.label(id), want);
        }
        assert_eq!(trace.label(StackId(99)), StackId(99).to_string());
    }
}
