//! What follows from the replays of a result: is it one? Pure; called by [`super::machine`].

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is replayed once more.
    Replay,
    /// What never showed in its own replays is no result: the step before it is, or nothing better if there is none.
    StepBack,
    Over,
}

/// After a result showed in `shown` of the `made` replays that count, of `wanted`; `spent` = no run is left.
pub(super) fn after(shown: u32, made: u32, wanted: u32, spent: bool) -> Then {
    if !spent && made < wanted {
        Then::Replay
    } else if made > 0 && shown == 0 {
        Then::StepBack
    } else {
        Then::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_to_show_in_its_own_replays() {
        let table = [
            ((0, 0, 5, false), Then::Replay),
            ((0, 4, 5, false), Then::Replay),
            ((0, 5, 5, false), Then::StepBack),
            ((1, 5, 5, false), Then::Over),
            ((0, 2, 5, true), Then::StepBack),
            ((1, 2, 5, true), Then::Over),
            // No run was left for it: it stands by its own tries.
            ((0, 0, 5, true), Then::Over),
        ];
        for ((shown, made, wanted, spent), want) in table {
            let got = after(shown, made, wanted, spent);
            assert_eq!(got, want, "{shown} of {made}, {wanted} wanted, {spent}");
        }
    }
}
