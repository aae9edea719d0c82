//! Havoc: a kept run with something about it changed. Pure; the operators are LibAFL mutators of the run's sequence.
//!
//! Faults before the change keep their exact points, the changed one gets a point of the parent's trace, and those after it become
//! patterns (their numbers counted from what came before), which the run makes exact. Every result is asked of the constraints with the
//! nodes that the parent's run had, is not the parent, and keeps its start and roles. Refuses parents without faults. The operators
//! themselves are in `operators`, what they work on in `step`.

mod operators;
mod step;

use super::children::{Drawing, Points, Seed};
use super::peers;
use super::rand::below;
use crate::campaign::finding::patterns::{self, generalise};
use libafl::Error;
use libafl::mutators::{MutationResult, Mutator};
use libafl::state::HasRand;
use libafl_bolts::Named;
use libafl_bolts::rands::Rand;
use std::borrow::Cow;
use std::fmt;
use step::Step;
use warren_model::{
    At, ClusterState, Fault, FaultAt, FaultKind, FaultSequence, Member, NodeName, Phase,
    StartState, TraceEvent, Who,
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
    pub fn new(seed: Seed<'a>) -> Option<Self> {
        if seed.matched.faults.is_empty() {
            return None;
        }
        let open = generalise(seed.matched, seed.injected, seed.trace).sequence;
        let events: Vec<Option<usize>> = (0..seed.matched.faults.len())
            .map(|i| seed.injected.get(i).and_then(|x| x.event))
            .collect();
        let steps = seed.matched.faults.iter().zip(open.faults).zip(&events);
        let steps = steps.enumerate().map(|(i, ((exact, open), event))| Step {
            exact: exact.at.clone(),
            open: open.at,
            fault: exact.fault.clone(),
            executing: match &exact.at {
                At::Exact(p) => Some(p.node.clone()),
                _ => None,
            },
            peer: event.and_then(|e| peer(&seed, seed.trace.events.get(e)?)),
            was: i,
        });
        Some(Parent {
            steps: steps.collect(),
            events,
            seed,
        })
    }

    /// How the run began.
    #[must_use]
    pub fn start(&self) -> StartState {
        self.seed.matched.start
    }

    /// What a node served as at a time, by the last point it passed until then; before the first that tells, as at GO.
    fn role(&self, node: &NodeName, t_ns: u64) -> Option<&str> {
        let trace = self.seed.trace;
        let n = trace.nodes.iter().position(|x| x == node)?;
        let until = trace.events.partition_point(|e| e.t_ns <= t_ns);
        let own = trace.events[..until].iter().rev();
        own.filter(|e| usize::from(e.node) == n && e.phase <= Phase::Test)
            .find_map(|e| trace.role(e))
            .or_else(|| self.seed.matched.roles.get(node).map(String::as_str))
    }

    /// When a fault of the run came, ns; behind the last one the end of time.
    fn reached(&self, fault: usize) -> u64 {
        let injected = self.seed.injected.get(fault);
        injected.map_or(u64::MAX, |i| i.t_reached)
    }

    /// Another node of the same group that served, when fault `now` came, as what this one did when fault `then` came; drawn.
    pub(super) fn other(
        &self,
        than: &NodeName,
        then: usize,
        now: usize,
        d: &Drawing<'_>,
        rand: &mut impl Rand,
    ) -> Option<NodeName> {
        let role = self.role(than, self.reached(then))?;
        let group = d.shape.groups.iter().find(|g| g.nodes.contains(than))?;
        let now = self.reached(now);
        let others = group.nodes.iter();
        let others = others.filter(|n| *n != than && self.role(n, now) == Some(role));
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

    /// A fault that the run did not have, at one of its points (the event's index), while it waited for fault `was`.
    fn step(&self, event: usize, fault: Fault, was: usize) -> Option<Step> {
        let trace = self.seed.trace;
        let e = trace.events.get(event)?;
        let point = trace.point(e);
        let pattern = patterns::pattern(&point, event, trace);
        let exact = At::Exact(point);
        Some(Step {
            open: pattern.map_or_else(|| exact.clone(), At::Pattern),
            exact,
            fault,
            executing: trace.nodes.get(usize::from(e.node)).cloned(),
            peer: peer(&self.seed, e),
            was,
        })
    }

    /// How often the node of a step came, until this event (its index) and with it, to where the step is to be, while the run waited for this
    /// fault: what another count of the same arrivals has more or less.
    fn arrivals(&self, step: &Step, waiting: usize, until: usize) -> u32 {
        let trace = self.seed.trace;
        let node = trace
            .nodes
            .iter()
            .position(|n| Some(n) == step.executing.as_ref());
        let events = (trace.events.iter().enumerate())
            .take_while(|(i, _)| *i <= until)
            .map(|(_, e)| e)
            .filter(|e| e.interval.faults_done() == waiting && Some(usize::from(e.node)) == node);
        match &step.open {
            At::Pattern(p) => patterns::arrivals(p, events, trace),
            At::Exact(x) => events
                .filter(|e| (e.stack, e.kind, e.place) == (x.stack, x.kind, x.place))
                .map(|e| e.n)
                .max()
                .unwrap_or(0),
            At::AtOnce | At::Joined(_) | At::After(_) => 0,
        }
    }
}

/// The other end of a message point, if it is a node.
fn peer(seed: &Seed<'_>, event: &TraceEvent) -> Option<NodeName> {
    let nodes = &seed.trace.nodes;
    let text = seed
        .trace
        .text(event.peer)
        .filter(|_| event.kind.is_message())?;
    Some(nodes[peers::node_of(text, nodes)?].clone())
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
            Op::Drop => operators::drop_one(parent, rand),
            Op::Shift => operators::shift(parent, drawing, rand),
            Op::Swap => operators::swap(parent, drawing, rand),
            Op::Change => operators::change(parent, drawing, rand),
            Op::Insert => operators::insert(parent, drawing, rand),
            Op::Repeat => operators::repeat(parent, drawing, rand),
            Op::Splice => operators::splice(parent, other?, drawing, rand),
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
        if !on || (at.phase() == Phase::Start && sequence.start != StartState::Cold) {
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
            // Who is cut follows the node that meets the point; a split or a bridge keeps its names.
            Fault::PartitionStart { who, .. } if open => {
                follow(&mut who.cut, executing, Member::Executing);
                if who.cut == [Member::Executing] {
                    follow(&mut who.from, step.peer.as_ref(), Member::Peer);
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

/// One named member alone becomes what stands for it at the point.
fn follow(members: &mut Vec<Member>, node: Option<&NodeName>, stands: Member) {
    if let ([Member::Node(n)], Some(node)) = (members.as_slice(), node)
        && n == node
    {
        *members = vec![stands];
    }
}
