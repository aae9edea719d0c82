//! A matched sequence with its exact points as patterns (role, frames, n), read off the run's own trace. Pure.
//!
//! Exact points name a stack by its hash, which a rebuilt or another version of the target need not have; a pattern names frames.
//! Each pattern is tried on the trace as the agents would match it: one that would have held another thread is made narrower, and
//! in the end the exact point stays, with a note.

use super::standing;
use std::collections::BTreeSet;
use warren_model::{
    At, EventFlags, Exit, Fault, FaultAt, FaultSequence, Injected, IoPoint, NodeName, Pattern,
    Phase, StackId, Trace, TraceEvent, Who, frame_name, frames_match,
};

/// The generalised sequence, and what could not be generalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generalised {
    pub sequence: FaultSequence,
    /// One line per fault that kept its exact point.
    pub notes: Vec<String>,
}

/// Points become patterns, named nodes become `@executing` and `@first-dead` where they were that. `exits`: who ended by itself was dead, too.
#[must_use]
pub fn generalise(
    matched: &FaultSequence,
    injected: &[Injected],
    exits: &[Exit],
    trace: &Trace,
) -> Generalised {
    let mut sequence = matched.clone();
    let ended = standing::ended(matched.faults.len(), injected, exits);
    let mut dead: Vec<&NodeName> = Vec::new();
    for ((f, was), ended) in sequence.faults.iter_mut().zip(&matched.faults).zip(ended) {
        for exit in ended {
            if !dead.contains(&&exit.node) {
                dead.push(&exit.node);
            }
        }
        match (&mut f.fault, &was.fault) {
            (
                Fault::Crash { who, .. },
                Fault::Crash {
                    who: Who::Node(n), ..
                },
            ) => {
                dead.push(n);
                if matches!(&was.at, At::Exact(p) if p.node == *n) {
                    *who = Who::Executing;
                }
            }
            (Fault::Reboot { who }, Fault::Reboot { who: Who::Node(n) }) => {
                let first = dead.first() == Some(&n);
                dead.retain(|d| *d != n);
                if first {
                    *who = Who::FirstDead;
                }
            }
            // A cut names its nodes: `[roles]` lets them fall on the right ones.
            _ => {}
        }
    }
    let mut notes = Vec::new();
    for i in 0..sequence.faults.len() {
        let At::Exact(point) = &matched.faults[i].at else {
            continue;
        };
        // Where another node met the pattern of a crash, a later fault that still has this one's name would be in vain.
        let crash = matches!(
            sequence.faults[i].fault,
            Fault::Crash {
                who: Who::Executing,
                ..
            }
        );
        let (done, later) = sequence.faults.split_at_mut(i + 1);
        let named = crash && later.iter().any(|f| names(f, &point.node));
        let event = injected.get(i).and_then(|x| x.event);
        match event.and_then(|e| pattern(point, e, named, trace)) {
            Some(p) => done[i].at = At::Pattern(p),
            None => notes.push(format!(
                "fault {} keeps its exact point: no pattern of the trace stands for it alone",
                i + 1
            )),
        }
    }
    Generalised { sequence, notes }
}

/// Whether a fault is about the node that died, by its name.
#[must_use]
pub fn names(f: &FaultAt, node: &NodeName) -> bool {
    f.at == At::Joined(node.clone())
        || f.fault
            == Fault::Reboot {
                who: Who::Node(node.clone()),
            }
}

/// The widest pattern that finds exactly this event, of its very node if asked for; none when there is none.
#[must_use]
pub fn pattern(point: &IoPoint, event: usize, of_node: bool, trace: &Trace) -> Option<Pattern> {
    let e = trace.events.get(event)?;
    let frames: Vec<String> = trace
        .stacks
        .get(&e.stack)?
        .iter()
        .map(|f| frame_name(f).to_owned())
        .collect();
    let role = trace.role(e).map(str::to_owned);
    let base = |frames: Vec<String>, stack: Option<StackId>| Pattern {
        node: None,
        except: None,
        role: None,
        frames,
        stack,
        kind: Some(e.kind),
        place: Some(e.place),
        n: 1,
        phase: point.phase,
    };
    let told_apart = shortest(&frames, e, trace).map_or_else(
        || base(frames.clone(), Some(e.stack)),
        |short| base(short, None),
    );
    // A node of that role if the role alone finds it; else that very node.
    let mut tries = Vec::new();
    if role.is_some() && point.phase == Phase::Test && !of_node {
        tries.push(Pattern {
            role: role.clone(),
            ..told_apart.clone()
        });
    }
    tries.push(Pattern {
        node: Some(point.node.clone()),
        ..told_apart
    });
    tries.into_iter().find_map(|mut p| {
        p.n = counted(&p, event, trace)?;
        (resolve(&p, e.interval.0, trace) == Some(event)).then_some(p)
    })
}

/// The innermost frame and as few others as tell the stack apart from all of the trace with the same kind and place.
fn shortest(frames: &[String], e: &TraceEvent, trace: &Trace) -> Option<Vec<String>> {
    let rivals: BTreeSet<StackId> = trace
        .events
        .iter()
        .filter(|o| o.kind == e.kind && o.place == e.place && o.stack != e.stack)
        .map(|o| o.stack)
        .collect();
    let rivals: Vec<&Vec<String>> = rivals.iter().filter_map(|s| trace.stacks.get(s)).collect();
    let alone = |some: &[String]| !rivals.iter().any(|r| frames_match(some, r));
    let first = frames.first()?.clone();
    let one = std::iter::once(vec![first.clone()]);
    let two = frames[1..].iter().map(|f| vec![first.clone(), f.clone()]);
    let more = (3..=frames.len()).map(|k| frames[..k].to_vec());
    one.chain(two).chain(more).find(|some| alone(some))
}

/// Whether an event is an arrival of the pattern.
#[must_use]
pub fn fits(p: &Pattern, e: &TraceEvent, trace: &Trace) -> bool {
    p.node
        .as_ref()
        .is_none_or(|n| trace.nodes.get(usize::from(e.node)) == Some(n))
        && (p.except.is_none() || p.except.as_ref() != trace.nodes.get(usize::from(e.node)))
        && match p.phase {
            Phase::Start => e.phase == Phase::Start,
            _ => e.phase == Phase::Test,
        }
        && trace.fits(p, e)
}

/// Which arrival of the pattern the event is on its node, in its interval. None when the trace cannot tell.
fn counted(p: &Pattern, event: usize, trace: &Trace) -> Option<u32> {
    let e = trace.events.get(event)?;
    let same = |o: &&TraceEvent| o.node == e.node && o.interval == e.interval;
    let before: Vec<&TraceEvent> = trace.events[..=event].iter().filter(same).collect();
    let of_pattern = before.iter().filter(|o| fits(p, o, trace)).count();
    let of_point = before
        .iter()
        .filter(|o| (o.stack, o.kind, o.place) == (e.stack, e.kind, e.place));
    // Each arrival is recorded but those of background stacks, of which the trace has the 1st, 2nd, 4th, 8th...: their own n tells.
    if of_point.count() == e.n as usize {
        return u32::try_from(of_pattern).ok();
    }
    let roles = before
        .iter()
        .filter(|o| o.stack == e.stack)
        .all(|o| o.role == e.role);
    (roles && e.flags.has(EventFlags::BACKGROUND)).then_some(e.n)
}

/// The event that the agents would hold for this pattern while `interval` lasts: the first that is the n-th on its node.
#[must_use]
pub fn resolve(p: &Pattern, interval: u32, trace: &Trace) -> Option<usize> {
    let mut arrivals = vec![0u32; trace.nodes.len()];
    for (i, e) in trace.events.iter().enumerate() {
        if e.interval.0 != interval || !fits(p, e, trace) {
            continue;
        }
        let count = arrivals.get_mut(usize::from(e.node))?;
        *count = with_one_more(*count, e);
        if *count == p.n {
            return Some(i);
        }
    }
    None
}

/// An arrival more in an interval. Of background stacks the trace has only some, with the agent's own number.
#[must_use]
pub fn with_one_more(count: u32, e: &TraceEvent) -> u32 {
    if e.flags.has(EventFlags::BACKGROUND) {
        (count + 1).max(e.n)
    } else {
        count + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{Interval, Kind, Place};

    /// (node, stack, role, interval, n) of force-before events in time order, over a trace of two followers and a leader.
    fn trace(events: &[(u16, u64, u8, u32, u32)]) -> Trace {
        let stacks = [
            (1, vec!["Log.append:10", "Follower.run:5"]),
            (2, vec!["Log.append:10", "Leader.run:5"]),
            (3, vec!["Log.append:10", "Leader.run:5", "Main.main:1"]),
        ];
        Trace {
            version: 1,
            nodes: vec!["n1".into(), "n2".into(), "n3".into()],
            roles: vec!["leader".into(), "follower".into()],
            stacks: stacks
                .into_iter()
                .map(|(id, f)| (StackId(id), f.into_iter().map(str::to_owned).collect()))
                .collect(),
            texts: Vec::new(),
            events: events
                .iter()
                .enumerate()
                .map(|(i, (node, stack, role, interval, n))| TraceEvent {
                    node: *node,
                    stack: StackId(*stack),
                    kind: Kind::Force,
                    place: Place::Before,
                    phase: Phase::Test,
                    interval: Interval(1 << 16 | interval),
                    n: *n,
                    t_ns: i as u64,
                    role: *role,
                    flags: EventFlags(0),
                    incarnation: 1,
                    thread: 1,
                    peer: None,
                    detail: None,
                    bytes: 0,
                })
                .collect(),
            dropped: 0,
        }
    }

    fn of(t: &Trace, event: usize) -> Option<Pattern> {
        pattern(&t.point(&t.events[event]), event, false, t)
    }

    #[test]
    fn as_wide_as_the_trace_allows() {
        let s = |v: &[&str]| v.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        // The leader's own stack: role, two frames.
        let t = trace(&[(0, 2, 1, 0, 1), (1, 1, 2, 0, 1), (0, 2, 1, 0, 2)]);
        let p = of(&t, 2).unwrap();
        assert_eq!(
            (p.role.as_deref(), p.node.as_ref(), p.n),
            (Some("leader"), None, 2)
        );
        assert_eq!(p.frames, s(&["Log.append", "Leader.run"]));
        // A single stack: one frame is enough.
        let t = trace(&[(0, 2, 1, 0, 1)]);
        assert_eq!(of(&t, 0).unwrap().frames, s(&["Log.append"]));
        // Another follower came first: the node is named.
        let t = trace(&[(1, 1, 2, 0, 1), (2, 1, 2, 0, 1)]);
        let p = of(&t, 1).unwrap();
        assert_eq!((p.role, p.node.unwrap().as_str(), p.n), (None, "n3", 1));
        // A deeper stack holds all its frames: the id joins them.
        let t = trace(&[(0, 3, 1, 0, 1), (0, 2, 1, 0, 1)]);
        let p = of(&t, 1).unwrap();
        assert_eq!((p.stack, p.n), (Some(StackId(2)), 1));
        // Arrivals of an earlier interval do not count; those in another role do not either.
        let t = trace(&[(0, 2, 1, 0, 1), (0, 2, 2, 1, 1), (0, 2, 1, 1, 2)]);
        let p = of(&t, 2).unwrap();
        assert_eq!((p.role.as_deref(), p.n), (Some("leader"), 1));
        // No role known: the node.
        let t = trace(&[(0, 2, 0, 0, 1)]);
        assert_eq!(of(&t, 0).unwrap().node.unwrap().as_str(), "n1");
        // The trace lacks arrivals: nothing is claimed.
        let t = trace(&[(0, 2, 1, 0, 7)]);
        assert_eq!(of(&t, 0), None);
    }

    /// Crash n1 (leads), a later fault: who is told by what, and where n2 ended by itself before all.
    #[test]
    fn who_is_named_later_keeps_its_name() {
        let t = trace(&[(0, 2, 1, 0, 1), (1, 1, 2, 1, 1)]);
        let exact = |event: usize| At::Exact(t.point(&t.events[event]));
        let reboot = |n: &str| Fault::Reboot {
            who: Who::Node(n.into()),
        };
        let crash = |n: &str| Fault::Crash {
            who: Who::Node(n.into()),
            style: warren_model::CrashStyle::Process,
        };
        let first = Fault::Reboot {
            who: Who::FirstDead,
        };
        let ended = Exit {
            node: "n2".into(),
            incarnation: 1,
            phase: Phase::Test,
            t_ns: 1,
            status: Some(1),
            signal: None,
            role: None,
        };
        type Row<'a> = (At, Fault, &'a [Exit], Fault, bool);
        let exits = [ended];
        let table: [Row<'_>; 5] = [
            (exact(1), reboot("n1"), &[], first.clone(), false),
            (exact(1), reboot("n1"), &exits, reboot("n1"), true),
            (exact(1), reboot("n2"), &exits, first, false),
            (At::Joined("n1".into()), crash("n3"), &[], crash("n3"), true),
            (
                At::Joined("n3".into()),
                crash("n3"),
                &[],
                crash("n3"),
                false,
            ),
        ];
        for (at, fault, exits, becomes, named) in table {
            let matched = FaultSequence::empty("t")
                .with(exact(0), crash("n1"))
                .with(at, fault);
            let injected: Vec<Injected> = (0..2)
                .map(|index| Injected {
                    index,
                    matched: matched.faults[index].clone(),
                    event: Some(index),
                    t_reached: 10,
                    t_done: 10,
                    late: false,
                    drift: None,
                    kill: None,
                })
                .collect();
            let g = generalise(&matched, &injected, exits, &t).sequence;
            assert_eq!(g.faults[1].fault, becomes, "{}", matched.to_text());
            let At::Pattern(p) = &g.faults[0].at else {
                panic!("no pattern")
            };
            let n1 = Some(NodeName::from("n1"));
            assert_eq!(
                p.node,
                if named { n1 } else { None },
                "{}",
                matched.to_text()
            );
            assert_eq!(p.role.is_some(), !named);
        }
    }

    #[test]
    fn a_background_stack_is_counted_by_its_own_n() {
        let mut t = trace(&[(0, 2, 1, 0, 1), (0, 2, 1, 0, 2), (0, 2, 1, 0, 4)]);
        for e in &mut t.events {
            e.flags = EventFlags(EventFlags::BACKGROUND);
        }
        assert_eq!(of(&t, 2).unwrap().n, 4);
    }

    #[test]
    fn a_sequence_is_generalised_and_reads_back() {
        let t = trace(&[(0, 2, 1, 0, 1), (1, 1, 2, 1, 1), (2, 1, 2, 1, 1)]);
        let exact = |i: usize| At::Exact(t.point(&t.events[i]));
        let node = |n: &str| Who::Node(n.into());
        let crash = Fault::Crash {
            who: node("n1"),
            style: warren_model::CrashStyle::Process,
        };
        let mut matched = FaultSequence::empty("t")
            .with(exact(0), crash)
            .with(exact(1), Fault::Reboot { who: node("n1") })
            .with(At::AtOnce, Fault::PartitionStop);
        matched.roles.insert("n1".into(), "leader".into());
        let injected: Vec<Injected> = [Some(0), Some(1), None]
            .into_iter()
            .enumerate()
            .map(|(index, event)| Injected {
                index,
                matched: matched.faults[index].clone(),
                event,
                t_reached: 0,
                t_done: 0,
                late: false,
                drift: None,
                kill: None,
            })
            .collect();
        let g = generalise(&matched, &injected, &[], &t);
        assert!(g.notes.is_empty(), "{:?}", g.notes);
        assert!(matches!(
            g.sequence.faults[0].fault,
            Fault::Crash {
                who: Who::Executing,
                ..
            }
        ));
        assert_eq!(
            g.sequence.faults[1].fault,
            Fault::Reboot {
                who: Who::FirstDead
            }
        );
        assert_eq!(g.sequence.faults[2], matched.faults[2]);
        for (i, f) in g.sequence.faults.iter().enumerate().take(2) {
            let At::Pattern(p) = &f.at else {
                panic!("fault {i} is no pattern")
            };
            assert_eq!(resolve(p, t.events[i].interval.0, &t), Some(i));
        }
        let text = g.sequence.to_text();
        assert_eq!(FaultSequence::from_text(&text).unwrap(), g.sequence);
        // Without events nothing is guessed.
        let g = generalise(&matched, &[], &[], &t);
        assert_eq!(g.notes.len(), 2);
        assert_eq!(g.sequence.faults[0].at, matched.faults[0].at);
    }
}
