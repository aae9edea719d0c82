//! What came nearest to a point that was awaited in vain: the points of the run that agree with it in most of what was asked.
//!
//! Called by `warren seed check` and after the import of seeds. Pure. It ranks what the trace has and never guesses what a person
//! meant. Background stacks are recorded at occurrences 1, 2, 4, 8, ... only, so their counts may be too low.

use std::collections::BTreeMap;
use warren_model::{
    At, EventFlags, IoPoint, Kind, NodeName, Pattern, Phase, Place, StackId, Trace, TraceEvent,
    frames_match,
};

/// So many candidates are told.
pub const TOLD: usize = 3;
/// So many frames of a stack are told.
const FRAMES: usize = 6;

/// One candidate: points of one stack, kind, place and role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    pub stack: StackId,
    pub kind: Kind,
    pub place: Place,
    pub role: Option<String>,
    /// How often on which node, from when the fault was awaited to the end of its phase.
    pub nodes: Vec<(NodeName, u32)>,
    /// What differs from what was asked, such as `kind (asked force, is write)`.
    pub differs: Vec<String>,
    score: u32,
}

/// What was asked, whatever its form.
struct Asked<'a> {
    node: Option<&'a NodeName>,
    role: Option<&'a str>,
    frames: &'a [String],
    stack: Option<StackId>,
    kind: Option<Kind>,
    place: Option<Place>,
    n: u32,
    phase: Phase,
}

impl<'a> Asked<'a> {
    fn new(at: &'a At) -> Option<Self> {
        match at {
            At::Exact(IoPoint {
                node,
                stack,
                kind,
                place,
                n,
                phase,
            }) => Some(Asked {
                node: Some(node),
                role: None,
                frames: &[],
                stack: Some(*stack),
                kind: Some(*kind),
                place: Some(*place),
                n: *n,
                phase: *phase,
            }),
            At::Pattern(Pattern {
                node,
                except: _,
                role,
                frames,
                stack,
                kind,
                place,
                n,
                phase,
            }) => Some(Asked {
                node: node.as_ref(),
                role: role.as_deref(),
                frames,
                stack: *stack,
                kind: *kind,
                place: *place,
                n: *n,
                phase: *phase,
            }),
            At::AtOnce | At::Joined(_) | At::After(_) => None,
        }
    }
}

/// The candidates, best first, for a fault that was awaited after `done` faults. Of what no point executes ("at once", "joined")
/// there is none.
#[must_use]
pub fn nearest(at: &At, done: usize, trace: &Trace) -> Vec<Near> {
    let Some(asked) = Asked::new(at) else {
        return Vec::new();
    };
    let awaited = |e: &&TraceEvent| {
        let phase = if asked.phase == Phase::Start {
            e.phase == Phase::Start
        } else {
            e.phase == Phase::Test
        };
        phase && e.interval.faults_done() == done
    };
    type Key = (StackId, Kind, Place, u8);
    let mut groups: BTreeMap<Key, BTreeMap<u16, u32>> = BTreeMap::new();
    for e in trace.events.iter().filter(awaited) {
        let seen = groups
            .entry((e.stack, e.kind, e.place, e.role))
            .or_default()
            .entry(e.node)
            .or_default();
        // Of a background stack only some occurrences were recorded; of others every one.
        *seen = if e.flags.has(EventFlags::BACKGROUND) {
            e.n.max(*seen)
        } else {
            *seen + 1
        };
    }
    let mut found: Vec<Near> = groups
        .into_iter()
        .map(|((stack, kind, place, role), nodes)| {
            let role = usize::from(role)
                .checked_sub(1)
                .and_then(|i| trace.roles.get(i));
            let mut nodes: Vec<(NodeName, u32)> = nodes
                .into_iter()
                .map(|(i, n)| (trace.nodes[usize::from(i)].clone(), n))
                .collect();
            nodes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            let mut near = Near {
                stack,
                kind,
                place,
                role: role.cloned(),
                nodes,
                differs: Vec::new(),
                score: 0,
            };
            weigh(&asked, &mut near, trace);
            near
        })
        .filter(|near| near.score > 0)
        .collect();
    let most = |near: &Near| near.nodes.first().map_or(0, |n| n.1);
    found.sort_by(|a, b| {
        b.score
            .cmp(&a.score)
            .then_with(|| most(b).cmp(&most(a)))
            .then_with(|| a.stack.cmp(&b.stack))
    });
    found.truncate(TOLD);
    found
}

/// Frames weigh most: they are what a person means by a place. Then kind, role and node, place last.
fn weigh(asked: &Asked<'_>, near: &mut Near, trace: &Trace) {
    let frames = trace.stacks.get(&near.stack).map_or(&[][..], |f| f);
    if let Some(stack) = asked.stack {
        if stack == near.stack {
            near.score += 16;
        } else {
            near.differs
                .push(format!("stack (asked {stack}, is {})", near.stack));
        }
    }
    if !asked.frames.is_empty() {
        if frames_match(asked.frames, frames) {
            near.score += 16;
        } else {
            let (there, missing): (Vec<&String>, Vec<&String>) = asked
                .frames
                .iter()
                .partition(|g| frames_match(std::slice::from_ref(*g), frames));
            let share = 12 * there.len() / asked.frames.len();
            near.score += u32::try_from(share).unwrap_or(0);
            near.differs.push(match missing.first() {
                Some(first) => format!("frames (no `{first}` in its stack)"),
                None => "frames (all there, in another order)".into(),
            });
        }
    }
    if let Some(kind) = asked.kind {
        if kind == near.kind {
            near.score += 4;
        } else {
            near.differs
                .push(format!("kind (asked {kind}, is {})", near.kind));
        }
    }
    if let Some(role) = asked.role {
        if near.role.as_deref() == Some(role) {
            near.score += 3;
        } else {
            let is = near.role.as_deref().unwrap_or("not known");
            near.differs.push(format!("role (asked {role}, is {is})"));
        }
    }
    if let Some(node) = asked.node {
        if near.nodes.iter().any(|n| n.0 == *node) {
            near.score += 2;
        } else {
            near.differs
                .push(format!("node (asked {node}, never there)"));
        }
    }
    if let Some(place) = asked.place {
        if place == near.place {
            near.score += 1;
        } else {
            near.differs
                .push(format!("place (asked {place}, is {})", near.place));
        }
    }
    let most = near
        .nodes
        .iter()
        .filter(|n| asked.node.is_none_or(|a| *a == n.0))
        .map(|n| n.1)
        .max()
        .unwrap_or(0);
    if most < asked.n {
        near.differs
            .push(format!("n (asked {}, came {most})", asked.n));
    }
}

/// Frames of a stack for people, innermost first: `A.a:1 < B.b:2 < ...`.
#[must_use]
pub fn stack_text(stack: StackId, trace: &Trace) -> String {
    let Some(frames) = trace.stacks.get(&stack) else {
        return format!("stack {stack}, whose frames this run does not know");
    };
    let mut text = frames
        .iter()
        .take(FRAMES)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" < ");
    if frames.len() > FRAMES {
        text.push_str(" < ...");
    }
    text
}

/// Lines for people: which point, how often, what differs.
#[must_use]
pub fn near_lines(near: &[Near], trace: &Trace) -> Vec<String> {
    let mut lines = Vec::new();
    for (i, n) in near.iter().enumerate() {
        let nodes: Vec<String> = n
            .nodes
            .iter()
            .map(|(node, times)| format!("{node} {times}x"))
            .collect();
        let role = n.role.as_deref().unwrap_or("role not known");
        lines.push(format!(
            "{}. {role}, {} {}: {}",
            i + 1,
            n.kind,
            n.place,
            nodes.join(", ")
        ));
        lines.push(format!("   {}", stack_text(n.stack, trace)));
        lines.push(if n.differs.is_empty() {
            "   agrees in all that was asked: it came too late".into()
        } else {
            format!("   differs in {}", n.differs.join(", "))
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::Interval;

    /// Stack number, node, role, kind, how often, faults done.
    type Row = (u64, u16, u8, Kind, u32, u16);

    fn trace(rows: &[Row]) -> Trace {
        let mut trace = Trace {
            nodes: ["n1", "n2"].map(NodeName::from).to_vec(),
            roles: vec!["leader".into(), "follower".into()],
            ..Trace::default()
        };
        for (stack, frames) in [
            (1, ["a.Log.force:7", "a.Log.commit:9", "a.Main.run:1"]),
            (2, ["a.Log.force:7", "a.Log.roll:30", "a.Main.run:1"]),
            (3, ["a.Net.send:2", "a.Leader.propose:5", "a.Main.run:1"]),
        ] {
            let frames = frames.map(str::to_owned).to_vec();
            trace.stacks.insert(StackId(stack), frames);
        }
        for (stack, node, role, kind, times, done) in rows {
            for n in 1..=*times {
                trace.events.push(TraceEvent {
                    node: *node,
                    stack: StackId(*stack),
                    kind: *kind,
                    place: Place::Before,
                    phase: Phase::Test,
                    interval: Interval::new(Phase::Test, *done),
                    n,
                    t_ns: 1,
                    role: *role,
                    flags: EventFlags(0),
                    incarnation: 1,
                    thread: 1,
                    peer: None,
                    detail: None,
                    bytes: 0,
                });
            }
        }
        trace
    }

    fn pattern(role: &str, frames: &[&str], kind: Option<Kind>, n: u32) -> At {
        At::Pattern(Pattern {
            node: None,
            except: None,
            role: (!role.is_empty()).then(|| role.to_owned()),
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            stack: None,
            kind,
            place: None,
            n,
            phase: Phase::Test,
        })
    }

    #[test]
    fn what_agrees_most_comes_first() {
        use Kind::{Force, MsgSend, Write};
        let rows: &[Row] = &[
            (1, 0, 1, Force, 4, 0),
            (1, 1, 2, Force, 9, 0),
            (2, 0, 1, Force, 2, 0),
            (2, 0, 1, Write, 5, 0),
            (3, 0, 1, MsgSend, 30, 0),
            (1, 1, 2, Force, 50, 1),
        ];
        let trace = trace(rows);
        let exact = |node: &str, stack: u64, n: u32| {
            At::Exact(IoPoint {
                node: node.into(),
                stack: StackId(stack),
                kind: Force,
                place: Place::Before,
                n,
                phase: Phase::Test,
            })
        };
        // What was asked; stack and role of the first; what it differs in; how many are told.
        type Case<'a> = (At, usize, u64, &'a str, &'a str, usize);
        let table: Vec<Case<'_>> = vec![
            // Same frame, other n.
            (
                pattern("leader", &["*.Log.commit"], Some(Force), 20),
                0,
                1,
                "leader",
                "n (asked 20, came 4)",
                3,
            ),
            // Other role: the place counts more than the role.
            (
                pattern("looking", &["*.Log.commit"], Some(Force), 1),
                0,
                1,
                "follower",
                "role (asked looking, is follower)",
                3,
            ),
            // No such frame: what has the others of the asked frames.
            (
                pattern("leader", &["*.Log.force", "*.Log.close"], Some(Force), 1),
                0,
                1,
                "leader",
                "frames (no `*.Log.close` in its stack)",
                3,
            ),
            (
                pattern("leader", &["*.Log.commit", "*.Log.force"], Some(Force), 1),
                0,
                1,
                "leader",
                "frames (all there, in another order)",
                3,
            ),
            // Nothing of it: the same kind.
            (
                pattern("", &["*.Nowhere"], Some(MsgSend), 1),
                0,
                3,
                "leader",
                "frames (no `*.Nowhere` in its stack)",
                1,
            ),
            // Of the interval in which it was awaited only.
            (
                pattern("follower", &["*.Log.commit"], Some(Force), 60),
                1,
                1,
                "follower",
                "n (asked 60, came 50)",
                1,
            ),
            (
                exact("n2", 1, 12),
                0,
                1,
                "follower",
                "n (asked 12, came 9)",
                3,
            ),
            (
                exact("n2", 2, 1),
                0,
                2,
                "leader",
                "node (asked n2, never there), n (asked 1, came 0)",
                3,
            ),
        ];
        for (at, done, stack, role, differs, told) in table {
            let near = nearest(&at, done, &trace);
            assert_eq!(near.len(), told, "{at:?}\n{near:?}");
            assert_eq!(near[0].stack, StackId(stack), "{at:?}\n{near:?}");
            assert_eq!(near[0].role.as_deref(), Some(role), "{at:?}");
            assert_eq!(near[0].differs.join(", "), differs, "{at:?}");
        }
    }

    #[test]
    fn there_may_be_nothing_to_tell() {
        let trace = trace(&[(1, 0, 1, Kind::Force, 4, 0)]);
        assert_eq!(nearest(&At::AtOnce, 0, &trace), []);
        assert_eq!(nearest(&At::Joined("n1".into()), 0, &trace), []);
        // Nothing happened after the first fault.
        let at = pattern("leader", &["*.Log.commit"], None, 1);
        assert_eq!(nearest(&at, 1, &trace), []);
        // Nothing agrees in anything.
        let at = pattern("follower", &["*.Nowhere"], Some(Kind::Delete), 1);
        assert_eq!(nearest(&at, 0, &trace), []);
    }

    #[test]
    fn lines_name_place_count_and_difference() {
        let trace = trace(&[(1, 0, 1, Kind::Force, 4, 0), (1, 1, 1, Kind::Force, 6, 0)]);
        let at = pattern("leader", &["*.Log.commit"], Some(Kind::Force), 20);
        let lines = near_lines(&nearest(&at, 0, &trace), &trace);
        assert_eq!(
            lines,
            [
                "1. leader, force before: n2 6x, n1 4x",
                "   a.Log.force:7 < a.Log.commit:9 < a.Main.run:1",
                "   differs in n (asked 20, came 6)",
            ]
        );
    }
}
