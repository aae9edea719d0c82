//! Orders in a trace: which message followed which on one thread, and which points a role met only after the last fault. Called by
//! [`super::states`]; reads the trace alone.

use std::collections::{BTreeSet, HashMap, HashSet};
use warren_model::ids::fnv1a;
use warren_model::{EventFlags, Kind, Phase, Place, RunProduct, StackId, Trace, TraceEvent};

/// A message as others know it: by its name where a dictionary tells one, else by where it was met.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Message {
    kind: Kind,
    name: Result<u32, StackId>,
}

/// Points of the part of a run that faults may come in.
fn in_test(e: &TraceEvent) -> bool {
    matches!(e.phase, Phase::Start | Phase::Test)
}

/// Each pair of messages that followed each other on one thread of a process, with the role the node had at the second. Background
/// messages are left out: only some of them are recorded, so what stands between two others is chance.
pub(super) fn pairs(trace: &Trace) -> Vec<u64> {
    let mut last: HashMap<(u16, u8, u16), Message> = HashMap::new();
    let mut seen: HashSet<(u8, Message, Message)> = HashSet::new();
    let messages = trace
        .events
        .iter()
        .filter(|e| e.kind.is_message() && in_test(e) && !e.flags.has(EventFlags::BACKGROUND));
    for e in messages {
        let message = Message {
            kind: e.kind,
            name: e.detail.ok_or(e.stack),
        };
        let thread = (e.node, e.incarnation, e.thread);
        if let Some(before) = last.insert(thread, message) {
            seen.insert((e.role, before, message));
        }
    }
    let text = |m: &Message| match m.name {
        Ok(detail) => format!("{} {}", m.kind, trace.text(Some(detail)).unwrap_or("")),
        Err(stack) => format!("{} {stack}", m.kind),
    };
    let ids = seen.iter().map(|(role, a, b)| {
        let role = role_text(trace, *role);
        fnv1a(format!("{role}: {} then {}", text(a), text(b)).as_bytes())
    });
    ids.collect()
}

/// Points that a role met after the last fault and not before; of a run without faults all of them, so that learning makes
/// ordinary life known.
pub(super) fn afterwards(product: &RunProduct) -> Vec<u64> {
    let trace = &product.trace;
    let done = product.record.injected.len();
    let mut before: HashSet<(u8, StackId, Kind, Place)> = HashSet::new();
    let mut after: BTreeSet<(u8, StackId, Kind, Place)> = BTreeSet::new();
    for e in trace.events.iter().filter(|e| in_test(e)) {
        let point = (e.role, e.stack, e.kind, e.place);
        if e.interval.faults_done() < done {
            before.insert(point);
        } else if !before.contains(&point) {
            after.insert(point);
        }
    }
    let ids = after.iter().map(|(role, stack, kind, place)| {
        let role = role_text(trace, *role);
        fnv1a(format!("{role}: afterwards {stack} {kind} {place}").as_bytes())
    });
    ids.collect()
}

fn role_text(trace: &Trace, role: u8) -> &str {
    let known = usize::from(role).checked_sub(1);
    known
        .and_then(|i| trace.roles.get(i))
        .map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::trace_of;
    use warren_model::{At, Fault, FaultAt, Injected, Interval};

    /// (node, thread, role, kind, detail index, stack) in time order.
    type Row = (u16, u16, u8, Kind, Option<u32>, u64);

    fn trace(rows: &[Row]) -> Trace {
        let mut t = trace_of(&rows.iter().map(|r| r.5).collect::<Vec<_>>());
        t.nodes = vec!["n1".into(), "n2".into()];
        t.roles = vec!["leader".into(), "follower".into()];
        t.texts = vec!["1".into(), "2".into(), "1".into()];
        for (e, (node, thread, role, kind, detail, _)) in t.events.iter_mut().zip(rows) {
            (e.node, e.thread, e.role) = (*node, *thread, *role);
            (e.kind, e.detail) = (*kind, *detail);
        }
        t
    }

    fn set(ids: Vec<u64>) -> BTreeSet<u64> {
        ids.into_iter().collect()
    }

    #[test]
    fn pairs_are_of_one_thread_and_role() {
        use Kind::{MsgReceive, MsgSend, Write};
        let base: &[Row] = &[
            (0, 1, 1, MsgSend, Some(0), 7),
            (0, 1, 1, MsgReceive, Some(1), 8),
        ];
        let one = set(pairs(&trace(base)));
        assert_eq!(one.len(), 1);
        // (what is the same, rows)
        let same: &[(&str, &[Row])] = &[
            (
                "on another node and thread, by an equal text, at another stack",
                &[
                    (1, 9, 1, MsgSend, Some(2), 70),
                    (1, 9, 1, MsgReceive, Some(1), 80),
                ],
            ),
            (
                "with what is no message between",
                &[
                    (0, 1, 1, MsgSend, Some(0), 7),
                    (0, 1, 1, Write, None, 9),
                    (0, 1, 1, MsgReceive, Some(1), 8),
                ],
            ),
            (
                "with a message of another thread between",
                &[
                    (0, 1, 1, MsgSend, Some(0), 7),
                    (0, 2, 1, MsgSend, Some(1), 9),
                    (0, 1, 1, MsgReceive, Some(1), 8),
                ],
            ),
        ];
        for (name, rows) in same {
            assert_eq!(set(pairs(&trace(rows))), one, "{name}");
        }
        let other: &[(&str, &[Row])] = &[
            (
                "another role",
                &[
                    (0, 1, 1, MsgSend, Some(0), 7),
                    (0, 1, 2, MsgReceive, Some(1), 8),
                ],
            ),
            (
                "the other order",
                &[
                    (0, 1, 1, MsgReceive, Some(1), 8),
                    (0, 1, 1, MsgSend, Some(0), 7),
                ],
            ),
            (
                "without names, by stack",
                &[(0, 1, 1, MsgSend, None, 7), (0, 1, 1, MsgReceive, None, 8)],
            ),
        ];
        for (name, rows) in other {
            let got = set(pairs(&trace(rows)));
            assert!(got.len() == 1 && got != one, "{name}");
        }
    }

    #[test]
    fn a_new_process_and_background_make_no_pair() {
        let rows: &[Row] = &[
            (0, 1, 1, Kind::MsgSend, Some(0), 7),
            (0, 1, 1, Kind::MsgSend, Some(1), 8),
        ];
        let mut t = trace(rows);
        t.events[1].incarnation = 2;
        assert!(pairs(&t).is_empty());
        let mut t = trace(rows);
        t.events[0].flags.0 |= EventFlags::BACKGROUND;
        assert!(pairs(&t).is_empty());
        let mut t = trace(rows);
        t.events[1].phase = Phase::Heal;
        assert!(pairs(&t).is_empty());
    }

    #[test]
    fn afterwards_is_what_the_role_had_not_met() {
        let row = |role, stack| -> Row { (0, 1, role, Kind::Write, None, stack) };
        let mut p = RunProduct {
            trace: trace(&[row(1, 5), row(1, 6), row(1, 5), row(2, 5), row(1, 7)]),
            ..RunProduct::default()
        };
        // A run without faults: everything.
        let calm = set(afterwards(&p));
        assert_eq!(calm.len(), 4);
        p.record.injected = vec![Injected {
            index: 0,
            matched: FaultAt {
                at: At::AtOnce,
                fault: Fault::PartitionStop,
            },
            event: None,
            t_reached: 1,
            t_done: 1,
            late: false,
            drift: None,
            kill: None,
        }];
        for e in &mut p.trace.events[2..] {
            e.interval = Interval::new(Phase::Test, 1);
        }
        let after = set(afterwards(&p));
        // The leader's 5 was met before; the follower's was not, nor was 7.
        assert_eq!(after.len(), 2);
        assert!(after.is_subset(&calm), "ordinary where learning has them");
        p.trace.events[4].phase = Phase::Heal;
        assert_eq!(afterwards(&p).len(), 1);
    }
}
