//! Havoc: a kept run with something about it changed. Pure; the operators are LibAFL mutators of the run's sequence.
//!
//! Faults before the change keep their exact points, the changed one gets a point of the parent's trace, and those after it become
//! patterns (their numbers counted from what came before), which the run makes exact. Every result is asked of the constraints with the
//! nodes that the parent's run had, is not the parent, and keeps its start and roles. Refuses parents without faults. The operators
//! themselves are in `operators`, what they work on in `parent` and `step`.

mod operators;
mod parent;
mod step;

pub use parent::Parent;

use super::children::Drawing;
use super::rand::below;
use crate::search::patterns;
use libafl::Error;
use libafl::mutators::{MutationResult, Mutator};
use libafl::state::HasRand;
use libafl_bolts::Named;
use libafl_bolts::rands::Rand;
use std::borrow::Cow;
use std::fmt;
use step::{Step, pin};
use warren_model::{
    At, ClusterState, Fault, FaultAt, FaultKind, FaultSequence, Member, NodeName, Phase,
    StartState, Who,
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

/// A step as the parent's run met it.
struct Met {
    /// With the nodes of that run.
    fault: Fault,
    node: Option<NodeName>,
    /// See [`Step::alone`].
    alone: Option<u32>,
    /// Whether another node may do the same.
    of_any: bool,
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
    let mut met: Vec<Met> = Vec::new();
    for (i, step) in steps.into_iter().enumerate() {
        let on = drawing.faults.has(step.fault.kind());
        let before = step.before(&state);
        let next = step.after(&state, drawing)?;
        let of_any = drawing.shape.allowed_for_any_nodes(&before, &next);
        met.push(Met {
            fault: step.fault.clone(),
            node: step.executing.clone(),
            alone: step.alone,
            of_any,
        });
        let executing = step.executing.as_ref();
        let at = if i <= from { step.exact } else { step.open };
        // Nor is a start cut or stalled, as by no search: the cluster only never comes up (docs/search.md).
        let of_tests = !matches!(step.fault.kind(), FaultKind::Crash | FaultKind::Reboot);
        let starts = at.phase() == Phase::Start;
        if !on || starts && (of_tests || sequence.start != StartState::Cold) {
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
                if matches!(who, Who::Node(n) if before.dead.first() == Some(&*n)) {
                    *who = Who::FirstDead;
                }
            }
            _ => {}
        }
        sequence.faults.push(FaultAt { at, fault });
        state = next;
    }
    // A crash whose node a later fault has by name is that node's, whoever else comes there; so is what only that node may do, as a crash
    // of the one that is cut off anyway, or a cut from one that is dead.
    for i in from..sequence.faults.len() {
        let (done, later) = sequence.faults.split_at_mut(i + 1);
        let FaultAt { at, fault } = &mut done[i];
        let crash = matches!(fault, Fault::Crash { .. });
        let named = |n: &NodeName| later.iter().any(|f| patterns::names(f, n));
        if let (At::Pattern(p), Some(node)) = (at, &met[i].node)
            && (!met[i].of_any || crash && named(node))
        {
            pin(p, node, met[i].alone);
            if matches!(fault, Fault::PartitionStart { .. }) {
                fault.clone_from(&met[i].fault);
            }
        }
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
