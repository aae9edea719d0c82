//! What came of the awaited point, and when anything of interest came last: read from the pages while a fault is awaited.

use super::cluster::Cluster;
use crate::link::{EventReading, NodeReading, Word};
use std::collections::BTreeSet;
use warren_model::{At, EventFlags, Interval, Pattern, Phase, StackId};

/// How long a record may stay half-written before it is passed over.
const HOLE_NS: u64 = 50_000_000;

/// Reading positions in the pages of all nodes.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    cursors: Vec<Cursor>,
    /// Index of the awaited fault the counters below are for.
    fault: Option<usize>,
    pub arrivals: u32,
    pub last_arrival: u64,
    pub last_event: u64,
    matching: BTreeSet<StackId>,
}

#[derive(Debug, Default)]
struct Cursor {
    events: u64,
    interned: u32,
    hole_since: u64,
    reading: NodeReading,
}

impl Watcher {
    /// Looks once. `fault` is the index of the awaited fault.
    pub fn look(&mut self, cluster: &Cluster<'_>, fault: usize, at: Option<&At>, now: u64) {
        self.cursors
            .resize_with(cluster.nodes.len(), Cursor::default);
        if self.fault != Some(fault) {
            self.fault = Some(fault);
            self.arrivals = 0;
            self.last_arrival = 0;
            self.matching.clear();
        }
        let interval = Interval::new(
            at.map_or(Phase::Test, At::phase),
            u16::try_from(fault).unwrap_or(u16::MAX),
        );
        for (i, node) in cluster.nodes.iter().enumerate() {
            let cursor = &mut self.cursors[i];
            cursor.interned = node
                .page
                .interned_since(cursor.interned, &mut cursor.reading);
            let (events, next, _) = node.page.events_since(cursor.events, true);
            let stuck = next == cursor.events
                && next < node.page.word(Word::EventsNext)
                && events.is_empty();
            if stuck {
                if cursor.hole_since == 0 {
                    cursor.hole_since = now;
                } else if now.saturating_sub(cursor.hole_since) > HOLE_NS {
                    cursor.events = next + 1;
                    cursor.hole_since = 0;
                }
            } else {
                cursor.events = next;
                cursor.hole_since = 0;
            }
            for e in &events {
                if !e.flags.has(EventFlags::BACKGROUND) {
                    self.last_event = self.last_event.max(e.t_ns);
                }
                if let Some(At::Pattern(p)) = at
                    && e.interval == interval
                    && p.node.as_ref().is_none_or(|n| *n == node.name)
                    && matches(p, e, &self.cursors[i].reading)
                {
                    self.arrivals += 1;
                    self.last_arrival = self.last_arrival.max(e.t_ns);
                }
            }
            if let Some(At::Exact(p)) = at
                && p.node == node.name
                && let Some((word, n, _)) = node.page.occurrence(p.stack, p.kind, p.place)
                && Interval(word) == interval
                && n > self.arrivals
            {
                self.arrivals = n;
                self.last_arrival = now;
            }
        }
    }
}

/// Whether an event is an arrival of a pattern (its role apart: the agent asks that).
fn matches(p: &Pattern, e: &EventReading, reading: &NodeReading) -> bool {
    p.kind.is_none_or(|k| k == e.kind)
        && p.place.is_none_or(|k| k == e.place)
        && p.stack.is_none_or(|s| s == e.stack)
        && reading
            .stacks
            .get(&e.stack)
            .is_some_and(|frames| in_order(&p.frames, frames))
}

/// Frame globs that occur in this order, innermost first; a frame's line number is not part of it.
fn in_order(globs: &[String], frames: &[String]) -> bool {
    let mut frames = frames
        .iter()
        .map(|f| f.rsplit_once(':').map_or(f.as_str(), |(name, _)| name));
    globs.iter().all(|g| frames.any(|f| glob(g, f)))
}

/// `*` = any run of characters.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("a.B.c", "a.B.c", true),
            ("a.B.c", "a.B.cd", false),
            ("*.c", "a.B.c", true),
            ("a.*", "a.B.c", true),
            ("*B*", "a.B.c", true),
            ("a*B*c", "a.B.c", true),
            ("a*x*c", "a.B.c", false),
            ("*", "", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn frames_in_order() {
        let frames = ["x.A.a:1", "x.B.b:22", "x.C.c:3"].map(str::to_owned);
        for (globs, want) in [
            (vec!["*.a", "*.c"], true),
            (vec!["*.c", "*.a"], false),
            (vec!["*.b", "*.b"], false),
            (vec![], true),
        ] {
            let globs: Vec<String> = globs.into_iter().map(str::to_owned).collect();
            assert_eq!(in_order(&globs, &frames), want, "{globs:?}");
        }
    }
}
