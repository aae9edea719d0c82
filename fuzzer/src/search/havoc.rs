//! Havoc: a kept run with something about it changed. Pure; the operators are LibAFL mutators of the run's sequence.
//!
//! Faults before the change keep their exact points, the changed one gets a point of the parent's trace, and those after it become
//! patterns (their numbers counted from what came before), which the run makes exact. Every result is asked of the constraints with the
//! nodes that the parent's run had, is not the parent, and keeps its start and roles. Refuses parents without faults.

use super::children::{ChildFault, CutForm, Drawing, Points, Seed};
use super::favour;
use super::rand::{below, weighed};
use crate::campaign::finding::patterns::generalise;
use libafl::Error;
use libafl::mutators::{MutationResult, Mutator};
use libafl::state::HasRand;
use libafl_bolts::Named;
use libafl_bolts::rands::Rand;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use warren_model::{
    At, ClusterState, CrashStyle, CutHow, CutWay, CutWho, Fault, FaultAt, FaultKind, FaultSequence,
    Injected, IoPoint, Member, NodeName, Phase, StackId, TraceEvent, Who,
};

/// What is done to a kept run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A fault is left out.
    Drop,
    /// A fault comes at a neighbouring occurrence, or at a neighbouring stack of its node.
    Shift,
    /// From a fault on, a node changes places with one of the same group and role.
    Swap,
    /// A fault is of another kind, style or form.
    Change,
    /// One more fault before one that is there.
    Insert,
    /// A fault comes once more at the end, on another node.
    Repeat,
    /// The beginning of one run, then the end of another.
    Splice,
}

impl Op {
    /// Every operator.
    pub const ALL: [Op; 7] = [
        Op::Drop,
        Op::Shift,
        Op::Swap,
        Op::Change,
        Op::Insert,
        Op::Repeat,
        Op::Splice,
    ];

    fn name(self) -> &'static str {
        match self {
            Op::Drop => "drop",
            Op::Shift => "shift",
            Op::Swap => "swap",
            Op::Change => "change",
            Op::Insert => "insert",
            Op::Repeat => "repeat",
            Op::Splice => "splice",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tries of an operator on one parent.
const TRIES: usize = 8;

/// A fault of the sequence that is being made.
#[derive(Clone, Debug)]
struct Step {
    /// Where, as in the parent's run.
    exact: At,
    /// Where, when something before it changed.
    open: At,
    /// Nodes resolved, as the parent's run had them.
    fault: Fault,
    executing: Option<NodeName>,
}

impl Step {
    fn renamed(&self, new: &impl Fn(&NodeName) -> NodeName) -> Step {
        let of = |at: &At| {
            let f = FaultAt {
                at: at.clone(),
                fault: self.fault.clone(),
            };
            f.renamed(new)
        };
        let (exact, open) = (of(&self.exact), of(&self.open));
        // A start fault keeps its names.
        let kept = self.exact.phase() == Phase::Start;
        Step {
            exact: exact.at,
            open: open.at,
            fault: exact.fault,
            executing: if kept {
                self.executing.clone()
            } else {
                self.executing.as_ref().map(new)
            },
        }
    }
}

/// A kept run as the operators see it.
pub struct Parent<'a> {
    seed: Seed<'a>,
    steps: Vec<Step>,
    /// Index into the trace's events, for each fault.
    events: Vec<Option<usize>>,
}

impl<'a> Parent<'a> {
    /// None of a run without faults.
    #[must_use]
    pub fn new(seed: Seed<'a>, injected: &[Injected]) -> Option<Self> {
        if seed.matched.faults.is_empty() {
            return None;
        }
        let open = generalise(seed.matched, injected, seed.trace).sequence;
        let steps = seed.matched.faults.iter().zip(open.faults);
        let steps = steps.map(|(exact, open)| Step {
            exact: exact.at.clone(),
            open: open.at,
            fault: exact.fault.clone(),
            executing: match &exact.at {
                At::Exact(p) => Some(p.node.clone()),
                _ => None,
            },
        });
        Some(Parent {
            steps: steps.collect(),
            events: (0..seed.matched.faults.len())
                .map(|i| injected.get(i).and_then(|x| x.event))
                .collect(),
            seed,
        })
    }

    /// A node of the same group and role at GO as this one, drawn.
    fn other(&self, than: &NodeName, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<NodeName> {
        let roles = &self.seed.matched.roles;
        let role = roles.get(than)?;
        let group = d.shape.groups.iter().find(|g| g.nodes.contains(than))?;
        let others = group.nodes.iter();
        let others = others.filter(|n| *n != than && roles.get(*n) == Some(role));
        one_of(&others.cloned().collect::<Vec<_>>(), rand)
    }

    /// The points of the run while it waited for this fault.
    fn points(
        &self,
        before: usize,
        d: &Drawing<'_>,
    ) -> impl Iterator<Item = (u32, &TraceEvent)> + use<'_, 'a> {
        let points = Points::of(self.seed.trace, self.seed.incarnations, d.whole_start);
        (0u32..)
            .zip(&self.seed.trace.events)
            .filter(move |(_, e)| points.has(e) && e.interval.faults_done() == before)
    }
}

fn one_of<T: Clone>(all: &[T], rand: &mut impl Rand) -> Option<T> {
    all.get(below(rand, all.len() as u64) as usize).cloned()
}

/// An operator on a run: LibAFL's frame around [`changed`]. The input is replaced by the result, or skipped when none was possible.
pub struct Operator<'a, 'p> {
    pub op: Op,
    pub parent: &'a Parent<'p>,
    /// For `splice`.
    pub other: Option<&'a Parent<'p>>,
    pub drawing: &'a Drawing<'a>,
}

impl Named for Operator<'_, '_> {
    fn name(&self) -> &Cow<'static, str> {
        static NAME: Cow<'static, str> = Cow::Borrowed("havoc");
        &NAME
    }
}

impl<S: HasRand> Mutator<FaultSequence, S> for Operator<'_, '_> {
    fn mutate(
        &mut self,
        state: &mut S,
        input: &mut FaultSequence,
    ) -> Result<MutationResult, Error> {
        let made = changed(
            self.op,
            self.parent,
            self.other,
            self.drawing,
            state.rand_mut(),
        );
        Ok(match made {
            Some(sequence) => {
                *input = sequence;
                MutationResult::Mutated
            }
            None => MutationResult::Skipped,
        })
    }

    fn post_exec(
        &mut self,
        _state: &mut S,
        _id: Option<libafl::corpus::CorpusId>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// The parent changed by an operator; none when what was drawn, some times over, is not possible.
#[must_use]
pub fn changed(
    op: Op,
    parent: &Parent<'_>,
    other: Option<&Parent<'_>>,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<FaultSequence> {
    (0..TRIES).find_map(|_| {
        let (from, steps) = match op {
            Op::Drop => drop_one(parent, rand),
            Op::Shift => shift(parent, drawing, rand),
            Op::Swap => swap(parent, drawing, rand),
            Op::Change => change(parent, drawing, rand),
            Op::Insert => insert(parent, drawing, rand),
            Op::Repeat => repeat(parent, drawing, rand),
            Op::Splice => splice(parent, other?, drawing, rand),
        }?;
        finish(parent, from, steps, drawing)
    })
}

/// The sequence of the steps: exact before `from` and at it, patterns after. None when it breaks a rule or is the parent.
fn finish(
    parent: &Parent<'_>,
    from: usize,
    steps: Vec<Step>,
    drawing: &Drawing<'_>,
) -> Option<FaultSequence> {
    let mut sequence = parent.seed.matched.clone();
    sequence.faults.clear();
    let mut state = ClusterState::default();
    for (i, step) in steps.into_iter().enumerate() {
        let on = match step.fault.kind() {
            FaultKind::Crash => drawing.faults.crash,
            FaultKind::Reboot => drawing.faults.reboot,
            FaultKind::PartitionStart | FaultKind::PartitionStop => drawing.faults.partition,
            FaultKind::Stall => drawing.faults.stall,
        };
        let executing = step.executing.as_ref();
        let next = drawing.shape.apply(&state, executing, &step.fault).ok()?;
        let at = if i <= from { step.exact } else { step.open };
        if !on || (at.phase() == Phase::Start && sequence.start != warren_model::StartState::Cold) {
            return None;
        }
        // Behind a pattern the node may be another one than in the parent's run.
        let open = !matches!(at, At::Exact(_));
        let mut fault = step.fault;
        match &mut fault {
            Fault::Crash { who, .. } if open && executing.is_some() => {
                if matches!(who, Who::Node(n) if Some(&*n) == executing) {
                    *who = Who::Executing;
                }
            }
            Fault::Reboot { who } if i > from => {
                if matches!(who, Who::Node(n) if state.dead.first() == Some(&*n)) {
                    *who = Who::FirstDead;
                }
            }
            _ => {}
        }
        sequence.faults.push(FaultAt { at, fault });
        state = next;
    }
    let same = sequence == *parent.seed.matched || sequence.faults.is_empty();
    (!same).then_some(sequence)
}

/// With a crash goes the reboot of its node, with a cut its end. The last fault alone is not dropped: that is the run's own parent.
fn drop_one(p: &Parent<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, (p.steps.len() as u64).checked_sub(1)?) as usize;
    let mut steps = p.steps.clone();
    let gone = steps.remove(i).fault;
    let undone = |f: &Fault| match &gone {
        Fault::Crash { who, .. } => matches!(f, Fault::Reboot { who: w } if w == who),
        Fault::PartitionStart { .. } => *f == Fault::PartitionStop,
        _ => false,
    };
    if let Some(at) = steps[i..].iter().position(|s| undone(&s.fault)) {
        steps.remove(i + at);
    }
    // The step that is now at `i` was counted from the one that is gone.
    let next = steps.get_mut(i)?;
    next.exact = next.open.clone();
    Some((i, steps))
}

fn shift(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, p.steps.len() as u64) as usize;
    let At::Exact(point) = &p.steps[i].exact else {
        return None;
    };
    let event = p.seed.trace.events.get(p.events[i]?)?;
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

fn swap(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, p.steps.len() as u64) as usize;
    let node = match &p.steps[i].fault {
        Fault::Crash {
            who: Who::Node(n), ..
        }
        | Fault::Reboot { who: Who::Node(n) } => n.clone(),
        _ => p.steps[i].executing.clone()?,
    };
    let other = p.other(&node, d, rand)?;
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

fn change(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
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

fn insert(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let i = below(rand, p.steps.len() as u64) as usize;
    let base = p.steps[..i]
        .iter()
        .try_fold(ClusterState::default(), |state, s| {
            d.shape.apply(&state, s.executing.as_ref(), &s.fault).ok()
        })?;
    let stacks: BTreeSet<StackId> = p.points(i, d).map(|(_, e)| e.stack).collect();
    let stacks: Vec<StackId> = stacks.into_iter().collect();
    let favoured = d.favour.stacks(p.seed.trace);
    let weight = |i: usize| favour::weight(favoured.contains(&stacks[i]));
    let stack = stacks[weighed(rand, stacks.len(), weight)?];
    let at: Vec<(u32, &TraceEvent)> = p.points(i, d).filter(|(_, e)| e.stack == stack).collect();
    let (index, event) = one_of(&at, rand)?;
    let nodes = &p.seed.trace.nodes;
    let mut kinds = vec![ChildFault::Crash];
    let dead = base
        .dead
        .iter()
        .filter_map(|n| nodes.iter().position(|x| x == n));
    kinds.extend(dead.filter_map(|n| u16::try_from(n).ok().map(ChildFault::Reboot)));
    if base.cut.is_some() {
        kinds.push(ChildFault::Stop);
    } else if event.kind.is_message() && event.phase == Phase::Test {
        kinds.extend(one_of(&CutForm::ALL, rand).map(ChildFault::Start));
    }
    let fault = p.seed.fault(d, index, event, one_of(&kinds, rand)?)?;
    let point = At::Exact(p.seed.trace.point(event));
    let mut steps = p.steps.clone();
    steps.insert(
        i,
        Step {
            exact: point.clone(),
            open: point,
            fault,
            executing: nodes.get(usize::from(event.node)).cloned(),
        },
    );
    Some((i, steps))
}

fn repeat(p: &Parent<'_>, d: &Drawing<'_>, rand: &mut impl Rand) -> Option<(usize, Vec<Step>)> {
    let step = one_of(&p.steps, rand)?;
    let node = match &step.fault {
        Fault::Crash {
            who: Who::Node(n), ..
        } => n.clone(),
        Fault::PartitionStart { .. } => step.executing.clone()?,
        _ => return None,
    };
    let other = p.other(&node, d, rand)?;
    let turned = turned(&node, &other);
    let again = step.renamed(&turned);
    let mut steps = p.steps.clone();
    let from = steps.len() - 1;
    let state = steps.iter().try_fold(ClusterState::default(), |state, s| {
        d.shape.apply(&state, s.executing.as_ref(), &s.fault).ok()
    })?;
    let at_once = |fault| Step {
        exact: At::AtOnce,
        open: At::AtOnce,
        fault,
        executing: None,
    };
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
    Some((from, steps))
}

fn splice(
    p: &Parent<'_>,
    other: &Parent<'_>,
    d: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<(usize, Vec<Step>)> {
    if p.seed.matched.start != other.seed.matched.start {
        return None;
    }
    let i = 1 + below(rand, p.steps.len() as u64) as usize;
    let j = below(rand, other.steps.len() as u64) as usize;
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
