//! The baseline `random-points`: number uniform in 1..=max faults; each fault a kind uniform among those allowed, at a point
//! uniform among the events after the previous fault of a fault-free trace, as a pattern (stack, kind, place, role, n). No
//! corpus, no feedback; the same constraints as `crashfuzz`.
//!
//! `warren`'s part `tails` draws in the same way after the last fault of a fault-free or kept run, from what that run did then, but in a [manner](Manner) of its own.
//!
//! `n` follows the agent's counting of patterns: arrivals that match on one node since the previous fault was done.

use super::children::{CutForm, Drawing, Points, STALL, Seed};
use super::favour;
use super::peers;
use super::rand::{XoRand, below, chance, weighed};
use super::shapes::Ground;
use libafl_bolts::rands::Rand;
use std::collections::{BTreeMap, BTreeSet};
use warren_model::{
    At, ClusterState, CutWay, CutWho, EventFlags, Fault, FaultAt, FaultKind, FaultSequence, Member,
    NodeName, Pattern, Phase, StartState, Trace, TraceEvent, Who,
};

/// Where a sequence begins: cold with this probability, else from one of so many snapshots.
pub fn start(snapshots: u8, cold_share: f64, rand: &mut impl Rand) -> StartState {
    if snapshots == 0 || chance(rand, cold_share) {
        return StartState::Cold;
    }
    let drawn = below(rand, u64::from(snapshots));
    StartState::Snapshot(1 + u8::try_from(drawn).unwrap_or(0))
}

/// Draws one sequence that begins as the fault-free run does whose points it is drawn from. Shorter than drawn when no later event allows any kind; empty only when the trace has no point.
#[must_use]
pub fn draw(
    ground: &Ground,
    target: &str,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> FaultSequence {
    let (trace, start) = (&ground.trace, ground.start);
    let among = Points::of(trace, &ground.incarnations, drawing.whole_start);
    let points: Vec<&TraceEvent> = trace
        .events
        .iter()
        .filter(|e| among.has(e))
        .filter(|e| start == StartState::Cold || e.phase == Phase::Test)
        .collect();
    let mut sequence = FaultSequence::empty(target);
    sequence.start = start;
    let state = ClusterState::default();
    let course = Course {
        trace,
        points,
        ends: BTreeMap::new(),
    };
    go_on(
        &mut sequence,
        &course,
        state,
        Manner::Baseline,
        drawing,
        rand,
    );
    sequence
}

/// The faults of a kept run, and after them as many as there is room for at most, drawn among the points it passed after its last one; of a
/// fault-free run a whole sequence. None where there is no room for one more.
#[must_use]
pub fn tail(seed: &Seed<'_>, drawing: &Drawing<'_>, rand: &mut impl Rand) -> Option<FaultSequence> {
    let mut at = seed.behind(drawing)?;
    // Those that end by themselves later count as dead from the first point on: what is drawn may come after their end. Only then are they
    // there to be rebooted.
    let ends = at.later().map(|x| (x.node.clone(), x.t_ns)).collect();
    at.advance(u64::MAX);
    let cold = seed.matched.start == StartState::Cold;
    let points: Vec<&TraceEvent> = seed
        .later_points(drawing.whole_start)
        .map(|(_, e)| e)
        .filter(|e| cold || e.phase == Phase::Test)
        .collect();
    let mut sequence = seed.matched.clone();
    let manner = if chance(rand, SURE) {
        Manner::Sure
    } else {
        Manner::Named
    };
    let course = Course {
        trace: seed.trace,
        points,
        ends,
    };
    go_on(&mut sequence, &course, at.state, manner, drawing, rand);
    (sequence.faults.len() > seed.matched.faults.len()).then_some(sequence)
}

/// Where a fault comes among the points that are left, and which ones are asked of the constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Uniform: each halves what is left on average, and the later ones crowd at the end, where many no longer come. Allowed is what whoever
    /// comes to the point may do, for the node of the trace may not be the one: on the canary the rest, a cut between two nodes of which one
    /// was dead in the trace, most of all, ended 59 of 100 sequences by the constraints.
    Baseline,
    /// As if all that are to come were drawn at once and put in order. Allowed is the same.
    Sure,
    /// Spread like that, and allowed is what the node in the trace may do; where no other may, that node is named, and so are those of the faults
    /// drawn before, and whom they cut off. Named nodes come less often: what they serve as may have changed by then.
    Named,
}

/// The share of tails that are [`Manner::Sure`].
const SURE: f64 = 0.75;

/// A run that faults are drawn from.
struct Course<'a> {
    trace: &'a Trace,
    /// Where they can be.
    points: Vec<&'a TraceEvent>,
    /// Who ends by itself there, and when, ns.
    ends: BTreeMap<NodeName, u64>,
}

/// Adds 1..=(max faults - those there are) faults, each after the one before it; fewer where no later point allows any kind. `state` is the
/// cluster's after the faults that are there.
fn go_on(
    sequence: &mut FaultSequence,
    course: &Course<'_>,
    mut state: ClusterState,
    manner: Manner,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) {
    let room = (drawing.shape.max_faults).saturating_sub(sequence.faults.len());
    if room == 0 {
        return;
    }
    let wanted = 1 + below(rand, room as u64);
    let mut next = 0;
    let mut drawn: Vec<(&TraceEvent, Drawn)> = Vec::new();
    // So many of those drawn are to meet the nodes of the trace.
    let mut named = 0;
    for left in (1..=wanted).rev() {
        let Some((at, one)) = one(course, next, left, manner, &state, drawing, rand) else {
            break;
        };
        let of_any = drawing.shape.allowed_for_any_nodes(&state, &one.after);
        state = one.after.clone();
        next = at + 1;
        drawn.push((course.points[at], one));
        if manner == Manner::Named && !of_any {
            named = drawn.len();
        }
    }
    let trace = course.trace;
    for (i, (event, one)) in drawn.into_iter().enumerate() {
        // Without a role a pattern may be met by a node of another group, which bears something else.
        let of_any_group = trace.role(event).is_none() && drawing.shape.groups.len() > 1;
        let node = trace.nodes.get(usize::from(event.node));
        let (mut pattern, mut fault) = (one.pattern, one.open);
        if i < named || of_any_group {
            // What it serves as by then is the run's to say.
            (pattern.node, pattern.role) = (node.cloned(), None);
            pattern.n = one.n_of_node;
        }
        if i < named && fault.kind() == FaultKind::PartitionStart {
            // The peer of the point may be another one by then: of a cut beside a dead node, one that lives.
            fault = one.resolved;
        }
        let at = At::Pattern(pattern);
        sequence.faults.push(FaultAt { at, fault });
    }
}

/// A fault that was drawn.
struct Drawn {
    /// Of whoever serves so.
    pattern: Pattern,
    /// Its n where the pattern says the node, whatever that serves as.
    n_of_node: u32,
    /// Its members open until the pattern matches, and as the trace's nodes.
    open: Fault,
    resolved: Fault,
    /// The cluster's state after it, with the trace's node.
    after: ClusterState,
}

/// A kind that is allowed somewhere after `from`, then one of the events that allow it. `left`: the faults that are still to come, with this one.
fn one(
    course: &Course<'_>,
    from: usize,
    left: u64,
    manner: Manner,
    state: &ClusterState,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<(usize, Drawn)> {
    let Course { trace, points, .. } = course;
    let favoured = match manner {
        Manner::Baseline => BTreeSet::new(),
        Manner::Sure | Manner::Named => drawing.favour.stacks(trace),
    };
    let mut kinds: Vec<FaultKind> = Vec::new();
    let set = drawing.faults;
    if set.crash {
        kinds.push(FaultKind::Crash);
    }
    if set.reboot && !state.dead.is_empty() {
        kinds.push(FaultKind::Reboot);
    }
    if set.partition {
        kinds.push(if state.cut.is_some() {
            FaultKind::PartitionStop
        } else {
            FaultKind::PartitionStart
        });
    }
    if set.stall {
        kinds.push(FaultKind::Stall);
    }
    while !kinds.is_empty() {
        let i = below(rand, kinds.len() as u64) as usize;
        let kind = kinds.swap_remove(i);
        // A form that this cluster never allows (a split of three nodes) must not cost the kind its turn.
        let mut forms = match kind {
            FaultKind::PartitionStart => CutForm::ALL.to_vec(),
            _ => vec![CutForm::Isolate],
        };
        let mut allowed = Vec::new();
        while allowed.is_empty() && !forms.is_empty() {
            let i = below(rand, forms.len() as u64) as usize;
            let form = forms.swap_remove(i);
            let mut draw = XoRand::new(rand.next());
            for (at, e) in points.iter().enumerate().skip(from) {
                if let Some(fault) = fault(course, e, kind, form, state, drawing, &mut draw)
                    && (manner == Manner::Named
                        || drawing.shape.allowed_for_any_nodes(state, &fault.2))
                {
                    allowed.push((at, fault));
                }
            }
        }
        if allowed.is_empty() {
            continue;
        }
        let all = allowed.len();
        let draws = match manner {
            Manner::Baseline => 1,
            Manner::Sure | Manner::Named => left.max(1),
        };
        let weight = |i: usize| favour::weight(favoured.contains(&points[allowed[i].0].stack));
        let pick = (0..draws).filter_map(|_| weighed(rand, all, weight)).min();
        let pick = pick.unwrap_or(0);
        let (at, (open, resolved, after)) = allowed.swap_remove(pick);
        let one = Drawn {
            pattern: pattern(trace, points, from, at),
            n_of_node: arrivals(points, from, at, |_| true),
            open,
            resolved,
            after,
        };
        return Some((at, one));
    }
    None
}

/// The fault of a kind at an event, its members open and as the trace's nodes, and the state after it.
fn fault(
    course: &Course<'_>,
    event: &TraceEvent,
    kind: FaultKind,
    form: CutForm,
    state: &ClusterState,
    drawing: &Drawing<'_>,
    draw: &mut XoRand,
) -> Option<(Fault, Fault, ClusterState)> {
    let trace = course.trace;
    let s = usize::from(event.node);
    let executing = trace.nodes.get(s)?;
    let (open, resolved) = match kind {
        FaultKind::Crash => {
            let crash = |who| Fault::Crash {
                who,
                style: drawing.style,
            };
            (crash(Who::Executing), crash(Who::Node(executing.clone())))
        }
        FaultKind::Reboot => {
            let there = |d: &NodeName| course.ends.get(d).is_none_or(|t| *t <= event.t_ns);
            if !state.dead.first().is_some_and(there) {
                return None;
            }
            let reboot = Fault::Reboot {
                who: Who::FirstDead,
            };
            (reboot.clone(), reboot)
        }
        FaultKind::PartitionStop => (Fault::PartitionStop, Fault::PartitionStop),
        FaultKind::Stall if event.phase != Phase::Test => return None,
        FaultKind::Stall => (STALL, STALL),
        FaultKind::PartitionStart => {
            if !event.kind.is_message() || event.phase != Phase::Test {
                return None;
            }
            let d = trace
                .text(event.peer)
                .and_then(|p| peers::node_of(p, &trace.nodes));
            let resolved = drawing.cut(form, &trace.nodes, s, d, draw)?;
            let start = |who| Fault::PartitionStart {
                how: drawing.how,
                who,
            };
            (start(relative(form, &resolved)), start(resolved))
        }
    };
    let after = drawing
        .shape
        .apply(state, Some(executing), &resolved)
        .ok()?;
    Some((open, resolved, after))
}

/// Isolations and pairs follow the node that meets the point; splits and bridges keep their names.
fn relative(form: CutForm, resolved: &CutWho) -> CutWho {
    let (from, way) = match form {
        CutForm::Isolate => (Vec::new(), CutWay::Both),
        CutForm::Both => (vec![Member::Peer], CutWay::Both),
        CutForm::To => (vec![Member::Peer], CutWay::To),
        CutForm::From => (vec![Member::Peer], CutWay::From),
        CutForm::Split | CutForm::Bridge => return resolved.clone(),
    };
    CutWho {
        cut: vec![Member::Executing],
        from,
        bridge: None,
        way,
    }
}

/// Which arrival of its stack `points[at]` is, counted from `points[from]` (the first event after the previous fault) on the same node and
/// in the same span (before GO, after GO), among those that `counts`. Background stacks record only some arrivals: there it is a difference of
/// the agent's own numbers.
fn arrivals(
    points: &[&TraceEvent],
    from: usize,
    at: usize,
    counts: impl Fn(&TraceEvent) -> bool,
) -> u32 {
    let e = points[at];
    let alike = |o: &TraceEvent| {
        o.node == e.node
            && o.stack == e.stack
            && o.kind == e.kind
            && o.place == e.place
            && o.interval == e.interval
    };
    if e.flags.has(EventFlags::BACKGROUND) {
        let before = points[..from]
            .iter()
            .rev()
            .find(|o| alike(o))
            .map_or(0, |o| o.n);
        e.n.saturating_sub(before).max(1)
    } else {
        let all = points[from..=at].iter();
        let arrivals = all.filter(|o| alike(o) && counts(o)).count();
        u32::try_from(arrivals).unwrap_or(u32::MAX)
    }
}

/// The pattern of `points[at]`: whoever serves as its node does, n counted after `points[from]`.
fn pattern(trace: &Trace, points: &[&TraceEvent], from: usize, at: usize) -> Pattern {
    let e = points[at];
    Pattern {
        node: None,
        except: None,
        role: trace.role(e).map(str::to_owned),
        frames: Vec::new(),
        stack: Some(e.stack),
        kind: Some(e.kind),
        place: Some(e.place),
        n: arrivals(points, from, at, |o| o.role == e.role),
        phase: e.phase.of_point(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;

    /// A node that sent six times as one role and once as another, after the fault before: as whoever serves so it is the first, as the node
    /// the seventh.
    #[test]
    fn what_names_the_node_counts_whatever_it_serves_as() {
        let run = Sim::new(3, 1).run(&FaultSequence::empty("sim"));
        let plain = |e: &&TraceEvent| !e.flags.has(EventFlags::BACKGROUND);
        let one = run.trace.events.iter().find(plain).unwrap();
        let of = |role: u8| TraceEvent {
            role,
            ..one.clone()
        };
        let events: Vec<TraceEvent> = [1, 2, 2, 2, 2, 2, 2, 1].map(of).to_vec();
        let points: Vec<&TraceEvent> = events.iter().collect();
        let n = |named: bool| arrivals(&points, 1, 7, |o| named || o.role == 1);
        assert_eq!((n(false), n(true)), (1, 7));
    }
}
