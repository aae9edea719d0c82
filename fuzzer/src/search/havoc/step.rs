//! A fault of the sequence that havoc makes, before it is decided whether it comes at an exact point or as a pattern. Called by the operators.

use super::super::children::Drawing;
use super::super::standing;
use warren_model::{At, ClusterState, Fault, FaultAt, NodeName, Pattern, Phase};

/// One fault, nodes resolved as the parent's run had them.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where, as in the parent's run.
    pub exact: At,
    /// Where, when something before it changed.
    pub open: At,
    pub fault: Fault,
    pub executing: Option<NodeName>,
    /// The other end of the message at its point.
    pub peer: Option<NodeName>,
    /// The number of `open` where its own node alone may meet it, whatever that serves as by then: that of a role counts less.
    pub alone: Option<u32>,
    /// Its point in its run's trace (the event's index).
    pub event: Option<usize>,
    /// Who ended by itself before it, and when, ns.
    pub ended: Vec<(u64, NodeName)>,
    /// Which fault of its run this was; of an added one, while which fault was waited for it comes.
    pub was: usize,
}

impl Step {
    /// One that follows the fault before it at once.
    pub fn at_once(fault: Fault, was: usize) -> Self {
        Step {
            exact: At::AtOnce,
            open: At::AtOnce,
            fault,
            executing: None,
            peer: None,
            alone: None,
            event: None,
            ended: Vec::new(),
            was,
        }
    }

    /// The same with other nodes.
    pub fn renamed(&self, new: &impl Fn(&NodeName) -> NodeName) -> Step {
        let of = |at: &At| {
            let f = FaultAt {
                at: at.clone(),
                fault: self.fault.clone(),
            };
            f.renamed(new)
        };
        let (exact, open) = (of(&self.exact), of(&self.open));
        // A start fault keeps its names.
        let node = |n: &NodeName| match self.exact.phase() {
            Phase::Start => n.clone(),
            _ => new(n),
        };
        Step {
            exact: exact.at,
            open: open.at,
            fault: exact.fault,
            executing: self.executing.as_ref().map(node),
            peer: self.peer.as_ref().map(node),
            alone: self.alone,
            event: self.event,
            ended: self.ended.iter().map(|(t, n)| (*t, node(n))).collect(),
            was: self.was,
        }
    }

    /// Its own node alone meets it.
    pub fn pin(&mut self) {
        if let (At::Pattern(p), Some(node)) = (&mut self.open, &self.executing) {
            pin(p, node, self.alone);
        }
    }

    /// The cluster when it comes, with who ended by itself before.
    pub fn before(&self, state: &ClusterState) -> ClusterState {
        standing::with(state, self.ended.iter().map(|(_, n)| n))
    }

    /// The cluster after it; none when it breaks a rule, or waits for a node that is dead.
    pub fn after(&self, state: &ClusterState, d: &Drawing<'_>) -> Option<ClusterState> {
        let before = self.before(state);
        if matches!(&self.exact, At::Joined(n) if before.dead.contains(n)) {
            return None;
        }
        let executing = self.executing.as_ref();
        d.shape.apply(&before, executing, &self.fault).ok()
    }
}

/// This node alone meets the pattern, whatever it serves as. `n` of a role counts in that role only: without it, arrivals that the node
/// had before it served so would be taken for the awaited one.
pub fn pin(pattern: &mut Pattern, node: &NodeName, alone: Option<u32>) {
    (pattern.node, pattern.role) = (Some(node.clone()), None);
    pattern.n = alone.unwrap_or(pattern.n);
}

/// The cluster behind steps with the nodes of the parent's run; none when they break a rule.
pub fn behind(steps: &[Step], d: &Drawing<'_>) -> Option<ClusterState> {
    let start = ClusterState::default();
    steps.iter().try_fold(start, |state, s| s.after(&state, d))
}
