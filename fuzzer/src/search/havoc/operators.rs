//! What havoc's operators do to the steps of a kept run. Each answers with the steps and the index of the first that is new; none where what it
//! drew means nothing here. Called by `changed`, which asks the constraints.

use super::super::children::{ChildFault, CutForm, Drawing};
use super::super::favour;
use super::super::rand::{below, weighed};
use super::super::standing;
use super::parent::Span;
use super::step::{Step, behind};
use super::{Parent, one_of};
use libafl_bolts::rands::Rand;
use std::collections::{BTreeMap, BTreeSet};
use warren_model::{
    At, CrashStyle, CutHow, CutWay, CutWho, Fault, FaultSequence, IoPoint, Member, NodeName, Phase,
    StackId, TraceEvent, Who,
};

/// What brings back what a fault took.
fn undoing(fault: &Fault) -> Option<Fault> {
    match fault {
        Fault::Crash { who, .. } => Some(Fault::Reboot { who: who.clone() }),
        Fault::PartitionStart { .. } => Some(Fault::PartitionStop),
        Fault::Reboot { .. } | Fault::PartitionStop | Fault::Stall { .. } => None,
    }
}

/// Takes a step out. Who ended by itself before it did so before the next one.
fn take(steps: &mut Vec<Step>, at: usize) -> Step {
    let mut step = steps.remove(at);
    if let Some(next) = steps.get_mut(at) {
        next.ended.splice(0..0, step.ended.drain(..));
    }
    step
}

/// With a crash goes the reboot of its node, with a cut its end. The last fault alone is not dropped: that is the run's own parent.
pub fn drop_one(p: &Parent<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, (p.steps.len() as u64).checked_sub(1)?) as usize;
    let mut steps = p.steps.clone();
    let gone = take(&mut steps, i).fault;
    if let Some(undoing) = undoing(&gone)
        && let Some(at) = steps[i..].iter().position(|s| s.fault == undoing)
    {
        take(&mut steps, i + at);
    }
    // What comes behind a step that is gone was counted from it; while the run waited for that, its node had come there, too. But where
    // that took the node itself, its next process came there, of which the count tells.
    let taken = match &gone {
        Fault::Crash {
            who: Who::Node(n), ..
        }
        | Fault::Reboot { who: Who::Node(n) } => Some(n),
        _ => None,
    };
    let mut first = 0;
    for step in &mut steps {
        let last = step.was;
        if first < last && (taken.is_none() || step.executing.as_ref() != taken) {
            let behind = None;
            p.recount(
                step,
                Span {
                    first,
                    last,
                    behind,
                },
            );
        }
        first = last + 1;
    }
    let next = steps.get_mut(i)?;
    next.exact = next.open.clone();
    Some((i, steps))
}

pub fn shift(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, p.steps.len() as u64) as usize;
    let At::Exact(point) = &p.steps[i].exact else {
        return None;
    };
    let event = p.seed.trace.events.get(p.steps[i].event?)?;
    let same =
        |e: &TraceEvent| (e.stack, e.kind, e.place) == (event.stack, event.kind, event.place);
    let mut to: Vec<IoPoint> = Vec::new();
    // The next occurrence is not in the trace: the fault came before it.
    to.push(IoPoint {
        n: point.n + 1 + below(rand, 3) as u32,
        ..point.clone()
    });
    let before: Vec<&TraceEvent> = p
        .points(i, d)
        .map(|(_, e)| e)
        .filter(|e| e.node == event.node && e.t_ns < event.t_ns)
        .collect();
    let point_of = |e: &&TraceEvent| p.seed.trace.point(e);
    to.extend(
        before
            .iter()
            .rev()
            .filter(|e| same(e))
            .take(2)
            .map(point_of),
    );
    to.extend(
        before
            .iter()
            .rev()
            .filter(|e| !same(e))
            .take(4)
            .map(point_of),
    );
    let point = one_of(&to, rand)?;
    let mut steps = p.steps.clone();
    steps[i].exact = At::Exact(point);
    Some((i, steps))
}

pub fn swap(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, p.steps.len() as u64) as usize;
    let node = match &p.steps[i].fault {
        Fault::Crash {
            who: Who::Node(n), ..
        }
        | Fault::Reboot { who: Who::Node(n) } => n.clone(),
        _ => p.steps[i].executing.clone()?,
    };
    let other = p.other(&node, i, i, d, rand)?;
    let turned = turned(&node, &other);
    let mut steps = p.steps.clone();
    for step in &mut steps[i..] {
        *step = step.renamed(&turned);
    }
    Some((i, steps))
}

/// Names with two nodes in each other's place.
fn turned(a: &NodeName, b: &NodeName) -> impl Fn(&NodeName) -> NodeName {
    move |n| {
        if n == a {
            b.clone()
        } else if n == b {
            a.clone()
        } else {
            n.clone()
        }
    }
}

pub fn change(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, p.steps.len() as u64) as usize;
    let mut steps = p.steps.clone();
    let test = steps[i].exact.phase() == Phase::Test;
    match steps[i].fault.clone() {
        Fault::Crash {
            who: Who::Node(n),
            style,
        } => {
            let machine = d.how == CutHow::Drop && below(rand, 2) == 0;
            if machine {
                let style = match style {
                    CrashStyle::Process => CrashStyle::Machine,
                    CrashStyle::Machine => CrashStyle::Process,
                    // One of many: what it would be alone, the others stay beyond max dead.
                    CrashStyle::Outage => return None,
                };
                let who = Who::Node(n);
                steps[i].fault = Fault::Crash { who, style };
            } else {
                if !test {
                    return None;
                }
                steps[i].fault = Fault::PartitionStart {
                    how: d.how,
                    who: CutWho {
                        cut: vec![Member::Node(n.clone())],
                        from: Vec::new(),
                        bridge: None,
                        way: CutWay::Both,
                    },
                };
                let back = |f: &Fault| {
                    *f == Fault::Reboot {
                        who: Who::Node(n.clone()),
                    }
                };
                if let Some(s) = steps[i + 1..].iter_mut().find(|s| back(&s.fault)) {
                    s.fault = Fault::PartitionStop;
                }
            }
        }
        Fault::PartitionStart { how, who } => {
            let crash = below(rand, 2) == 0 || who.from.is_empty();
            if crash {
                let Some(Member::Node(n)) = who.cut.first().cloned() else {
                    return None;
                };
                steps[i].fault = Fault::Crash {
                    who: Who::Node(n.clone()),
                    style: CrashStyle::Process,
                };
                let later = &mut steps[i + 1..];
                if let Some(s) = later.iter_mut().find(|s| s.fault == Fault::PartitionStop) {
                    s.fault = Fault::Reboot { who: Who::Node(n) };
                }
            } else {
                let ways = [CutWay::Both, CutWay::To, CutWay::From];
                let way = ways[below(rand, 3) as usize];
                let who = CutWho { way, ..who };
                steps[i].fault = Fault::PartitionStart { how, who };
            }
        }
        _ => return None,
    }
    Some((i, steps))
}

pub fn insert(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, p.steps.len() as u64) as usize;
    let stacks: BTreeSet<StackId> = p.points(i, d).map(|(_, e)| e.stack).collect();
    let stacks: Vec<StackId> = stacks.into_iter().collect();
    let favoured = d.favour.stacks(p.seed.trace);
    let weight = |i: usize| favour::weight(favoured.contains(&stacks[i]));
    let stack = stacks[weighed(rand, stacks.len(), weight)?];
    let at: Vec<(u32, &TraceEvent)> = p.points(i, d).filter(|(_, e)| e.stack == stack).collect();
    let (index, event) = one_of(&at, rand)?;
    let nodes = &p.seed.trace.nodes;
    let t_ns = event.t_ns;
    let mut steps = p.steps.clone();
    let (ended, later) = std::mem::take(&mut steps[i].ended)
        .into_iter()
        .partition(|(t, _)| *t <= t_ns);
    steps[i].ended = later;
    let base = standing::with(&behind(&steps[..i], d)?, names(&ended));
    let mut kinds = Vec::new();
    if d.faults.crash {
        kinds.push(ChildFault::Crash);
    }
    if d.faults.reboot {
        let dead = base.dead.iter();
        let dead = dead.filter_map(|n| nodes.iter().position(|x| x == n));
        kinds.extend(dead.filter_map(|n| u16::try_from(n).ok().map(ChildFault::Reboot)));
    }
    if d.faults.stall && event.phase == Phase::Test {
        kinds.push(ChildFault::Stall);
    }
    if d.faults.partition && base.cut.is_some() {
        kinds.push(ChildFault::Stop);
    } else if d.faults.partition && event.kind.is_message() && event.phase == Phase::Test {
        kinds.extend(one_of(&CutForm::ALL, rand).map(ChildFault::Start));
    }
    let fault = p.seed.fault(d, index, event, one_of(&kinds, rand)?)?;
    let index = index as usize;
    steps.insert(
        i,
        Step {
            ended,
            ..p.step(index, fault, i)?
        },
    );
    let behind_event = |event| Span {
        behind: Some(event),
        ..Span::of(i)
    };
    // What it took may be in the way of what follows, as where one node at most may be dead: then it is undone before that.
    let mut from = index;
    if behind(&steps, d).is_none()
        && let Some(undoing) = undoing(&steps[i].fault)
    {
        let executing = steps[i].executing.clone();
        let later: Vec<usize> = p
            .points(i, d)
            .filter(|(at, e)| {
                *at as usize > index && nodes.get(usize::from(e.node)) != executing.as_ref()
            })
            .map(|(at, _)| at as usize)
            .collect();
        let step = match one_of(&later, rand) {
            Some(at) => {
                let mut step = p.step(at, undoing, i)?;
                p.recount(&mut step, behind_event(index));
                from = at;
                step
            }
            None => Step::at_once(undoing, i),
        };
        steps.insert(i + 1, step);
    }
    // What comes next in the parent's run was counted from before all this.
    let next = steps.len() - (p.steps.len() - i);
    p.recount(&mut steps[next], behind_event(from));
    Some((i, steps))
}

fn names(ended: &[(u64, NodeName)]) -> impl Iterator<Item = &NodeName> {
    ended.iter().map(|(_, n)| n)
}

pub fn repeat(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let step = one_of(&p.steps, rand)?;
    // A point of the start does not come again.
    if step.exact.phase() == Phase::Start {
        return None;
    }
    let node = match &step.fault {
        Fault::Crash {
            who: Who::Node(n), ..
        } => n.clone(),
        Fault::PartitionStart { .. } => step.executing.clone()?,
        _ => return None,
    };
    let other = p.other(&node, step.was, p.steps.len(), d, rand)?;
    let turned = turned(&node, &other);
    let mut again = Step {
        ended: Vec::new(),
        ..step.renamed(&turned)
    };
    // Whoever else serves as that one did: it may have come back, and would often be the first again.
    if let At::Pattern(p) = &mut again.open
        && p.node.is_none()
    {
        p.except = Some(node.clone());
    }
    let mut steps = p.steps.clone();
    let from = steps.len() - 1;
    let state = p.state(steps.len(), d)?;
    let at_once = |fault| Step::at_once(fault, p.steps.len());
    // What is in its way goes first.
    if d.shape
        .apply(&state, again.executing.as_ref(), &again.fault)
        .is_err()
    {
        if state.cut.is_some() {
            steps.push(at_once(Fault::PartitionStop));
        }
        if let Some(first) = state.dead.first() {
            let who = Who::Node(first.clone());
            steps.push(at_once(Fault::Reboot { who }));
        }
    }
    steps.push(again);
    let ended = p.ended.iter().map(|x| (x.t_ns, x.node.clone()));
    steps[from + 1].ended = ended.collect();
    Some((from, steps))
}

pub fn splice(
    p: &Parent<'_>,
    other: &Parent<'_>,
    d: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<(usize, Vec<Step>)> {
    if p.start() != other.start() {
        return None;
    }
    let i = 1 + below(rand, p.steps.len() as u64) as usize;
    let j = below(rand, other.steps.len() as u64) as usize;
    // From the same place on, a run's own end only says again what it did.
    if i == j && p.seed.matched == other.seed.matched {
        return None;
    }
    let map = by_role(other.seed.matched, p.seed.matched, d);
    let new = |n: &NodeName| map.get(n).unwrap_or(n).clone();
    let mut steps = p.steps[..i].to_vec();
    let tail = other.steps[j..].iter();
    // Points of the start are over.
    let tail = tail.filter(|s| s.exact.phase() == Phase::Test);
    steps.extend(tail.map(|s| s.renamed(&new)));
    (steps.len() > i).then_some((i - 1, steps))
}

/// Names of one recording in those of another: nodes of the same group and role at GO, in order.
fn by_role(
    from: &FaultSequence,
    to: &FaultSequence,
    d: &Drawing<'_>,
) -> BTreeMap<NodeName, NodeName> {
    let mut map = BTreeMap::new();
    for group in &d.shape.groups {
        let mut free: Vec<&NodeName> = group.nodes.iter().collect();
        let mut rest = Vec::new();
        for node in &group.nodes {
            let role = from.roles.get(node);
            let twin = free
                .iter()
                .position(|n| role.is_some() && to.roles.get(*n) == role);
            match twin {
                Some(i) => {
                    map.insert(node.clone(), free.remove(i).clone());
                }
                None => rest.push(node.clone()),
            }
        }
        map.extend(rest.into_iter().zip(free.into_iter().cloned()));
    }
    map
}
