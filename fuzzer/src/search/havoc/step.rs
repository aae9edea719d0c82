//! A fault of the sequence that havoc makes, before it is decided whether it comes at an exact point or as a pattern. Called by the operators.

use warren_model::{At, Fault, FaultAt, NodeName, Phase};

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
        let node = |n: &Option<NodeName>| match self.exact.phase() {
            Phase::Start => n.clone(),
            _ => n.as_ref().map(new),
        };
        Step {
            exact: exact.at,
            open: open.at,
            fault: exact.fault,
            executing: node(&self.executing),
            peer: node(&self.peer),
            was: self.was,
        }
    }

    /// Its pattern counts from a fault before which its node came so many times more to where it is to be: one that is gone.
    pub fn counted_from_before(&mut self, more: u32) {
        if let Some(n) = occurrence(&mut self.open) {
            *n = n.saturating_add(more);
        }
    }

    /// Its pattern counts from a fault before which its node had come so many times: one that is new.
    pub fn counted_from_behind(&mut self, fewer: u32) {
        if let Some(n) = occurrence(&mut self.open) {
            *n = n.saturating_sub(fewer).max(1);
        }
    }
}

fn occurrence(at: &mut At) -> Option<&mut u32> {
    match at {
        At::Exact(p) => Some(&mut p.n),
        At::Pattern(p) => Some(&mut p.n),
        At::AtOnce | At::Joined(_) | At::After(_) => None,
    }
}
