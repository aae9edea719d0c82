//! What the agents recorded, read out of the node pages and merged into one trace.
//!
//! Called when the nodes are dead (collection) and, in pieces, while a fault is awaited. Tolerates half-written records: the
//! writer may have been killed at any instruction.

use super::node_page::{EVENT_BYTES, EVENTS, NodePage, Word};
use std::collections::BTreeMap;
use warren_model::trace::TRACE_VERSION;
use warren_model::{
    EventFlags, Interval, Kind, NodeName, Phase, Place, StackId, Trace, TraceEvent,
};

/// Types of an interned record.
const STACK: u64 = 1;
const TEXT: u64 = 2;
/// Before its text: kind and length, then its id.
const RECORD_HEAD: usize = 16;

/// The head of an interned record.
struct Record {
    kind: u64,
    id: u64,
    /// Where its text begins, in the page.
    text_at: usize,
    /// Bytes of its text.
    len: usize,
    /// Where the next record begins, in INTERN.
    next: usize,
}

/// One event as it lies in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventReading {
    /// Its index in EVENTS.
    pub index: u64,
    pub t_ns: u64,
    pub stack: StackId,
    pub interval: Interval,
    pub n: u32,
    pub kind: Kind,
    pub place: Place,
    pub phase: Phase,
    pub role: u8,
    pub flags: EventFlags,
    pub incarnation: u8,
    pub thread: u16,
    /// Offset into INTERN.
    pub peer: Option<u32>,
    /// Offset into INTERN.
    pub detail: Option<u32>,
    pub bytes: u64,
}

/// Everything one node recorded.
#[derive(Clone, Debug, Default)]
pub struct NodeReading {
    pub events: Vec<EventReading>,
    /// Records whose writer died before the commit word.
    pub holes: u64,
    pub dropped: u64,
    pub stacks: BTreeMap<StackId, Vec<String>>,
    /// By offset in INTERN.
    pub texts: BTreeMap<u32, String>,
}

impl NodePage {
    /// Events from index `from` on that are committed; the next index to ask for. With `wait_for_holes` it stops at the first
    /// record that is not committed yet.
    #[must_use]
    pub fn events_since(&self, from: u64, wait_for_holes: bool) -> (Vec<EventReading>, u64, u64) {
        let end = self.word(Word::EventsNext).min(self.cap as u64);
        let (mut events, mut holes, mut at) = (Vec::new(), 0, from);
        while at < end {
            match self.event(at) {
                Some(e) => events.push(e),
                None if wait_for_holes => break,
                None => holes += 1,
            }
            at += 1;
        }
        (events, at, holes)
    }

    /// So many events have room: what a node does beyond them is counted and not recorded.
    #[must_use]
    pub fn event_room(&self) -> u64 {
        self.cap as u64
    }

    /// The event at an index, if its commit word is there and every byte of it is known.
    #[must_use]
    pub fn event(&self, index: u64) -> Option<EventReading> {
        if index >= self.cap as u64 {
            return None;
        }
        let base = EVENTS + usize::try_from(index).ok()? * EVENT_BYTES;
        let word = |i: usize| self.page.get(base + i * 8);
        if word(0) != index + 1 {
            return None;
        }
        let bytes = word(4).to_le_bytes();
        let text = |offset: u64| u32::try_from(offset).ok()?.checked_sub(1);
        Some(EventReading {
            index,
            t_ns: word(1),
            stack: StackId(word(2)),
            interval: Interval((word(3) >> 32) as u32),
            n: (word(3) & 0xffff_ffff) as u32,
            kind: Kind::from_wire(bytes[0])?,
            place: Place::from_wire(bytes[1])?,
            phase: Phase::from_wire(bytes[2])?,
            role: bytes[3],
            flags: EventFlags(bytes[4]),
            incarnation: bytes[5],
            thread: u16::from_le_bytes([bytes[6], bytes[7]]),
            peer: text(word(5) & 0xffff_ffff),
            detail: text(word(5) >> 32),
            bytes: word(6),
        })
    }

    /// All interned records, added to `into`.
    fn interned(&self, into: &mut NodeReading) {
        let mut at = 0;
        while let Some(record) = self.record_at(at) {
            let text = self.text_of(&record);
            match record.kind {
                STACK => {
                    into.stacks
                        .entry(StackId(record.id))
                        .or_insert_with(|| text.lines().map(str::to_owned).collect());
                }
                TEXT => {
                    into.texts.insert(at as u32, text);
                }
                _ => {}
            }
            at = record.next;
        }
    }

    /// The text interned at an offset, such as an event's peer: that record alone, as a thread may be held meanwhile. None for what is no whole
    /// record of a text.
    #[must_use]
    pub fn text_at(&self, offset: u32) -> Option<String> {
        let at = offset as usize;
        // Records begin at words; anywhere else not even their heads can be read.
        if !at.is_multiple_of(8) {
            return None;
        }
        let record = self.record_at(at).filter(|r| r.kind == TEXT)?;
        Some(self.text_of(&record))
    }

    /// The record at a multiple of 8 in INTERN, if all of it is there. That one begins there is for the caller to know.
    fn record_at(&self, at: usize) -> Option<Record> {
        let end = usize::try_from(self.word(Word::InternNext))
            .unwrap_or(0)
            .min(self.intern_bytes);
        if at + RECORD_HEAD > end {
            return None;
        }
        let start = EVENTS + self.cap * EVENT_BYTES + at;
        let head = self.page.get(start);
        let len = (head & 0xffff_ffff) as usize;
        let next = at + RECORD_HEAD + len.div_ceil(8) * 8;
        (next <= end).then(|| Record {
            kind: head >> 32,
            id: self.page.get(start + 8),
            text_at: start + RECORD_HEAD,
            len,
            next,
        })
    }

    fn text_of(&self, record: &Record) -> String {
        let text = self.page.copy(record.text_at, record.len);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Everything; the node must be dead, else the last records may be missing.
    #[must_use]
    pub fn read_all(&self) -> NodeReading {
        let mut r = NodeReading::default();
        let (events, _, holes) = self.events_since(0, false);
        self.interned(&mut r);
        r.events = events;
        r.holes = holes;
        r.dropped = self.word(Word::EventsDropped) + self.word(Word::InternDropped);
        r
    }
}

/// One trace in time order from what each node recorded, and where each node's event went: `(node, index) -> trace index`.
#[must_use]
pub fn merge_trace(
    nodes: &[(NodeName, NodeReading)],
    roles: Vec<String>,
) -> (Trace, BTreeMap<(usize, u64), usize>) {
    let mut trace = Trace {
        version: TRACE_VERSION,
        nodes: nodes.iter().map(|(n, _)| n.clone()).collect(),
        roles,
        ..Trace::default()
    };
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    let mut order: Vec<(usize, &EventReading)> = Vec::new();
    for (i, (_, r)) in nodes.iter().enumerate() {
        trace.dropped += r.dropped;
        for (id, frames) in &r.stacks {
            trace.stacks.entry(*id).or_insert_with(|| frames.clone());
        }
        order.extend(r.events.iter().map(|e| (i, e)));
    }
    order.sort_by_key(|(node, e)| (e.t_ns, *node, e.index));
    let mut places = BTreeMap::new();
    for (at, (node, e)) in order.iter().enumerate() {
        let mut text = |offset: Option<u32>| -> Option<u32> {
            let t = nodes[*node].1.texts.get(&offset?)?;
            let next = ids.len() as u32;
            Some(*ids.entry(t.as_str()).or_insert(next))
        };
        let (peer, detail) = (text(e.peer), text(e.detail));
        places.insert((*node, e.index), at);
        trace.events.push(TraceEvent {
            node: *node as u16,
            stack: e.stack,
            kind: e.kind,
            place: e.place,
            phase: e.phase,
            interval: e.interval,
            n: e.n,
            t_ns: e.t_ns,
            role: if usize::from(e.role) <= trace.roles.len() {
                e.role
            } else {
                0
            },
            flags: e.flags,
            incarnation: e.incarnation,
            thread: e.thread,
            peer,
            detail,
            bytes: e.bytes,
        });
    }
    let mut texts = vec![String::new(); ids.len()];
    for (text, id) in ids {
        texts[id as usize] = text.to_owned();
    }
    trace.texts = texts;
    (trace, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Writes as the agent does.
    struct Agent(NodePage);

    impl Agent {
        fn new(path: &Path, index: usize, cap: usize) -> Self {
            Agent(NodePage::create_sized(path, index, cap, 4096).unwrap())
        }

        fn intern(&self, kind: u64, id: u64, text: &str) -> u64 {
            let start = EVENTS + self.0.cap * EVENT_BYTES;
            let at = self.0.word(Word::InternNext) as usize;
            let p = &self.0.page;
            p.set(start + at, kind << 32 | text.len() as u64);
            p.set(start + at + 8, id);
            p.write(start + at + 16, text.as_bytes());
            p.set(14 * 8, (at + 16 + text.len().div_ceil(8) * 8) as u64);
            at as u64 + 1
        }

        fn event(&self, t: u64, stack: u64, peer: u64, commit: bool) {
            let p = &self.0.page;
            let i = self.0.word(Word::EventsNext);
            p.set(12 * 8, i + 1);
            if i >= self.0.cap as u64 {
                p.set(13 * 8, self.0.word(Word::EventsDropped) + 1);
                return;
            }
            let at = EVENTS + i as usize * 64;
            p.set(at + 8, t);
            p.set(at + 16, stack);
            p.set(at + 24, 0x1_0000 << 32 | 2);
            p.set(at + 32, u64::from_le_bytes([7, 1, 2, 1, 2, 1, 9, 1]));
            p.set(at + 40, peer);
            p.set(at + 48, 100);
            if commit {
                p.set(at, i + 1);
            }
        }
    }

    #[test]
    fn two_nodes_merge_by_time_with_one_set_of_texts() {
        let dir = tempfile::tempdir().unwrap();
        let a = Agent::new(&dir.path().join("a"), 0, 8);
        let b = Agent::new(&dir.path().join("b"), 1, 8);
        a.intern(1, 77, "x.Y.z:3\nx.Y.w:9");
        let pa = a.intern(2, 1, "127.0.0.12:2888");
        b.intern(2, 5, "padding");
        let pb = b.intern(2, 1, "127.0.0.12:2888");
        a.event(30, 77, pa, true);
        b.event(10, 77, pb, true);
        b.event(20, 77, 0, false);
        b.event(40, 77, 0, true);
        let readings = [
            (NodeName::from("a"), a.0.read_all()),
            (NodeName::from("b"), b.0.read_all()),
        ];
        assert_eq!(readings[1].1.holes, 1);
        let (t, places) = merge_trace(&readings, vec!["leader".into()]);
        let times: Vec<u64> = t.events.iter().map(|e| e.t_ns).collect();
        assert_eq!(times, [10, 30, 40]);
        assert_eq!(t.texts, ["127.0.0.12:2888"]);
        let e = &t.events[1];
        assert_eq!(
            (e.node, e.n, e.interval.after_go(), e.bytes),
            (0, 2, true, 100)
        );
        assert_eq!(t.text(e.peer), Some("127.0.0.12:2888"));
        assert_eq!(t.role(e), Some("leader"));
        assert_eq!((e.thread, e.flags.has(EventFlags::MATCHED)), (265, true));
        assert_eq!(t.label(StackId(77)), "x.Y.z:3");
        assert_eq!(places[&(1, 2)], 2);
        // Asked while the writer lives, the hole stops the reader.
        let (events, next, _) = b.0.events_since(0, true);
        assert_eq!((events.len(), next), (1, 1));
    }

    #[test]
    fn overflow_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let a = Agent::new(&dir.path().join("a"), 0, 2);
        for i in 0..5 {
            a.event(i, 1, 0, true);
        }
        let r = a.0.read_all();
        assert_eq!((r.events.len(), r.dropped), (2, 3));
    }

    #[test]
    fn a_torn_intern_record_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let a = Agent::new(&dir.path().join("a"), 0, 2);
        a.intern(2, 1, "whole");
        let start = EVENTS + 2 * 64;
        a.0.page.set(start + 24, 2 << 32 | 4000);
        a.0.page.set(14 * 8, 24 + 16);
        let r = a.0.read_all();
        assert_eq!(r.texts.len(), 1);
        assert_eq!(a.0.text_at(24), None);
    }

    #[test]
    fn one_text_is_read_without_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let a = Agent::new(&dir.path().join("a"), 0, 2);
        a.intern(1, 77, "x.Y.z:3");
        let peer = a.intern(2, 1, "127.0.0.12:2888");
        a.intern(2, 5, "");
        let end = a.0.word(Word::InternNext) as u32;
        a.event(10, 77, peer, true);
        let event = a.0.event(0).and_then(|e| e.peer);
        assert_eq!(event, Some(24));
        // A stack, the middle of a record, what is not there yet, and what never can be.
        for (offset, want) in [
            (24, Some("127.0.0.12:2888")),
            (56, Some("")),
            (0, None),
            (28, None),
            (40, None),
            (end, None),
            (u32::MAX - 7, None),
        ] {
            assert_eq!(a.0.text_at(offset).as_deref(), want, "{offset}");
        }
    }
}
