//! What runs that teach nothing showed: those of a failure that is not saved often enough yet, and hangs. To the search it must stay new, so
//! that a run which can be kept is kept for it (`KnownSlots`, `KnownStates`); but it was covered, and where searches are compared it counts: else
//! the one that fails more would seem to cover less. Filled by the stage, asked for each line of runs.jsonl. It refuses void runs: these
//! are no tests.

use crate::fuzz::State;
use libafl::HasMetadata;
use serde::{Deserialize, Serialize};
use warren_feedback::{KnownSlots, KnownStates};

/// Slots of both maps. They may have become known since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untaught {
    slots: KnownSlots,
    states: KnownStates,
}

/// Of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    pub slots: Vec<u32>,
    pub states: Vec<u32>,
}

impl Untaught {
    /// Takes in what a run showed; answers what of it is new here.
    pub fn take(&mut self, mut shown: Shown) -> Shown {
        shown.slots.retain(|s| !self.slots.contains(*s as usize));
        shown.states.retain(|s| !self.states.contains(*s));
        self.slots
            .learn_slots(shown.slots.iter().map(|s| *s as usize));
        self.states.learn(&shown.states);
        shown
    }

    /// How many slots of the coverage map, and of the map of states, any test so far has set.
    #[must_use]
    pub fn with_known(&self, state: &State) -> (u64, u64) {
        let metadata = state.metadata_map();
        let slots = metadata
            .get::<KnownSlots>()
            .map_or_else(|| self.slots.count(), |known| known.count_with(&self.slots));
        let states = metadata.get::<KnownStates>().map_or_else(
            || self.states.count(),
            |known| known.count_with(&self.states),
        );
        (slots as u64, states as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_new_once() {
        let mut untaught = Untaught::default();
        let shown = |slots: &[u32], states: &[u32]| Shown {
            slots: slots.to_vec(),
            states: states.to_vec(),
        };
        let all = shown(&[1, 70], &[9]);
        assert_eq!(untaught.take(all.clone()), all);
        assert_eq!(untaught.take(shown(&[2, 70], &[8, 9])), shown(&[2], &[8]));
        assert_eq!(untaught.take(shown(&[], &[])), Shown::default());
        assert_eq!((untaught.slots.count(), untaught.states.count()), (3, 2));
    }
}
