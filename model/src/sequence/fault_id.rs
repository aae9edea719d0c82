//! What makes a fault a new one: its call stack, kind and place. Pure; asked by the score of the search and by its sets of what was tried.

use super::FaultKind;
use crate::ids::{FaultId, StackId, fnv1a_of, hex_digits};
use crate::point::Place;

/// The identity of a fault for novelty: call stack, fault kind and place; no style, how, who or target.
#[must_use]
pub fn fault_id(stack: StackId, kind: FaultKind, place: Place) -> FaultId {
    // Of `{stack} {kind} {place}`. Asked for each class of a queue at each pick, so without making the text.
    let words = [kind.as_str(), place.as_str()];
    let rest = words
        .into_iter()
        .flat_map(|w| std::iter::once(b' ').chain(w.bytes()));
    FaultId(fnv1a_of(hex_digits(stack.0).chain(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_id_is_of_the_text() {
        for stack in [0, 1, 0xfedc_ba98_7654_3210, u64::MAX] {
            for kind in [FaultKind::Crash, FaultKind::PartitionStart] {
                let text = format!("{} {kind} {}", StackId(stack), Place::Before);
                let want = FaultId(crate::ids::fnv1a(text.as_bytes()));
                assert_eq!(fault_id(StackId(stack), kind, Place::Before), want);
            }
        }
    }

    #[test]
    fn fault_id_depends_on_each_part() {
        let a = fault_id(StackId(1), FaultKind::Crash, Place::Before);
        assert_ne!(a, fault_id(StackId(2), FaultKind::Crash, Place::Before));
        assert_ne!(a, fault_id(StackId(1), FaultKind::Reboot, Place::Before));
        assert_ne!(a, fault_id(StackId(1), FaultKind::Crash, Place::After));
    }
}
