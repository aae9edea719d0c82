//! What replays tell of a failing run: how often each of its failures showed again, and what that makes of it. Counted by `replays`, asked
//! by `confirm`, in every record of the journal while a decision is owed. Pure: it knows no cluster and no file.
//!
//! Each failure has its own count: a run may fail in two ways of which only one shows again, and neither falls with the other.

use serde::{Deserialize, Serialize};

/// Replays of a finding.
pub(super) const REPLAYS: u32 = 3;
/// Replays in which a liveness failure must show again.
pub const NEEDED: u32 = 2;

/// A failing run that is not decided on yet; the run itself lies in `state/owed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// Replays that told something, and beside these those that told nothing.
    pub n: u32,
    pub voids: u32,
    /// The failures that replays are asked for; the run is filed under the first.
    pub asked: Vec<Asked>,
    /// The last replay showed what the run did not, and that is not kept yet.
    pub otherwise: bool,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub signature: String,
    /// Replays in which it showed again.
    pub k: u32,
    /// It stands already: its number, and the name of its file.
    pub stood: Option<(u64, String)>,
}

impl Owed {
    /// No replay was made yet.
    #[must_use]
    pub fn of(signatures: impl IntoIterator<Item = String>) -> Self {
        let asked = |signature| Asked {
            signature,
            ..Asked::default()
        };
        Owed {
            asked: signatures.into_iter().map(asked).collect(),
            ..Owed::default()
        }
    }

    /// The failure of this signature, where replays are asked for it.
    pub fn asked_mut(&mut self, signature: &str) -> Option<&mut Asked> {
        self.asked.iter_mut().find(|a| a.signature == signature)
    }

    /// The failure that the run is filed under stands already.
    #[must_use]
    pub fn stood(&self) -> Option<&(u64, String)> {
        self.asked.first().and_then(|a| a.stood.as_ref())
    }

    /// Replays that are spent: one that told nothing is made again, three times in all.
    #[must_use]
    pub fn spent(&self) -> u32 {
        self.n + self.voids.saturating_sub(REPLAYS)
    }

    /// No replay is left to make.
    #[must_use]
    pub fn through(&self) -> bool {
        self.spent() >= REPLAYS
    }

    /// What the replays so far make of one of the failures.
    pub(super) fn outcome(&self, asked: &Asked, fell_often: bool) -> Replayed {
        let left = REPLAYS.saturating_sub(self.spent());
        outcome_of(asked.k, self.n, left, fell_often)
    }

    /// One more replay has ended, and showed those failures that `shows` says. One that told nothing is in no rate.
    pub fn count(&mut self, shows: impl Fn(&str) -> bool, told_nothing: bool) {
        let any = self.asked.iter().any(|a| shows(&a.signature));
        if told_nothing && !any {
            self.voids += 1;
            return;
        }
        self.n += 1;
        for asked in &mut self.asked {
            asked.k += u32::from(shows(&asked.signature));
        }
    }
}

/// What its replays make of a liveness failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replayed {
    Stands,
    /// The replays not made could still decide either way.
    Open,
    Falls,
}

/// It showed again in `k` of the `n` replays that were made.
pub(super) fn outcome(k: u32, n: u32, fell_often: bool) -> Replayed {
    outcome_of(k, n, REPLAYS.saturating_sub(n), fell_often)
}

/// With so many replays `left`: fewer where others told nothing.
fn outcome_of(k: u32, n: u32, left: u32, fell_often: bool) -> Replayed {
    if k >= NEEDED {
        Replayed::Stands
    } else if fell_often && k < n {
        Replayed::Falls
    } else if k + left >= NEEDED {
        Replayed::Open
    } else {
        Replayed::Falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_three_decide() {
        use Replayed::{Falls, Open, Stands};
        let table = [
            (0, 0, Open, Open),
            (0, 1, Open, Falls),
            (1, 1, Open, Open),
            (0, 2, Falls, Falls),
            (1, 2, Open, Falls),
            (2, 2, Stands, Stands),
            (1, 3, Falls, Falls),
            (2, 3, Stands, Stands),
        ];
        for (k, n, want, if_it_fell_often) in table {
            assert_eq!(outcome(k, n, false), want, "{k} of {n}");
            assert_eq!(outcome(k, n, true), if_it_fell_often, "{k} of {n}");
        }
    }

    /// What each replay shows, `-` where it tells nothing -> (n, replays that told nothing, k of a, k of b).
    #[test]
    fn each_failure_has_its_own_count() {
        type Case<'a> = (&'a [&'a str], (u32, u32, u32, u32));
        let table: [Case<'_>; 8] = [
            (&[], (0, 0, 0, 0)),
            (&["b", "b", "b"], (3, 0, 0, 3)),
            (&["ab", "b", "a"], (3, 0, 2, 2)),
            (&["c", "ab"], (2, 0, 1, 1)),
            (&["-", "b"], (1, 1, 0, 1)),
            (&["-", "-", "-", "-", "b", "b"], (2, 4, 0, 2)),
            (&["-", "-", "-", "-", "-", "-"], (0, 6, 0, 0)),
            // It told something, whatever else it was.
            (&["-b"], (1, 0, 0, 1)),
        ];
        for (replays, want) in table {
            let mut owed = Owed::of(["a", "b"].map(String::from));
            for (made, shown) in replays.iter().enumerate() {
                assert!(!owed.through(), "{replays:?}: after {made}");
                owed.count(|s| shown.contains(s), shown.starts_with('-'));
            }
            let k = |at: usize| owed.asked[at].k;
            let got = (owed.n, owed.voids, k(0), k(1));
            assert_eq!(got, want, "{replays:?}");
            let through = replays.len() == 6 || owed.n == 3;
            assert_eq!(owed.through(), through, "{replays:?}");
            let open = |at: usize| owed.outcome(&owed.asked[at], false) == Replayed::Open;
            assert!(!through || !open(0) && !open(1), "{replays:?}");
        }
    }
}
