//! Recovery points: what a cluster does only because of a fault. Called by strategies (suspicious first) and by reports; refuses to
//! rank anything.
//!
//! CrashFuzz section III-C: an I/O point whose call stack the parent's run does not have is a recovery point. Ours: a
//! stack no fault-free run has; it is a *new* one if its parent's run did not have it either.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use warren_model::{StackId, Trace};

/// Every stack that executed an I/O point in a run, in any phase.
#[must_use]
pub fn stacks(trace: &Trace) -> BTreeSet<StackId> {
    trace.events.iter().map(|e| e.stack).collect()
}

/// The paper's rule: stacks of this run that its parent's run did not have.
#[must_use]
pub fn against_parent(run: &Trace, parent: &BTreeSet<StackId>) -> BTreeSet<StackId> {
    stacks(run).difference(parent).copied().collect()
}

/// Stacks of all fault-free runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultFreeStacks(BTreeSet<StackId>);

impl FaultFreeStacks {
    /// Takes in a fault-free run.
    pub fn learn(&mut self, trace: &Trace) {
        self.0.extend(trace.events.iter().map(|e| e.stack));
    }

    /// Whether a stack shows recovery: no fault-free run has it.
    #[must_use]
    pub fn is_recovery(&self, stack: StackId) -> bool {
        !self.0.contains(&stack)
    }

    /// The recovery stacks of a run.
    #[must_use]
    pub fn recovery_of(&self, trace: &Trace) -> BTreeSet<StackId> {
        against_parent(trace, &self.0)
    }

    /// The recovery stacks of a run that its parent's run did not have either.
    #[must_use]
    pub fn new_recovery_of(&self, trace: &Trace, parent: &BTreeSet<StackId>) -> BTreeSet<StackId> {
        self.recovery_of(trace)
            .difference(parent)
            .copied()
            .collect()
    }

    /// How many distinct stacks fault-free runs have.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was learned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::trace_of;

    #[test]
    fn recovery_is_what_no_fault_free_run_did() {
        let mut free = FaultFreeStacks::default();
        free.learn(&trace_of(&[1, 2]));
        free.learn(&trace_of(&[2, 3]));
        assert_eq!(free.len(), 3);
        let parent = trace_of(&[1, 4]);
        let run = trace_of(&[1, 3, 4, 5]);
        assert_eq!(free.recovery_of(&run), [StackId(4), StackId(5)].into());
        assert_eq!(
            free.new_recovery_of(&run, &stacks(&parent)),
            [StackId(5)].into()
        );
        // The paper's rule knows only the parent: stack 3 is recovery for it though fault-free runs have it.
        assert_eq!(
            against_parent(&run, &stacks(&parent)),
            [StackId(3), StackId(5)].into()
        );
        assert!(free.is_recovery(StackId(9)) && !free.is_recovery(StackId(2)));
    }
}
