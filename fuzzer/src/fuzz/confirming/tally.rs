//! What replays tell of a failing run: how often each of its failures showed again, and what that makes of it. Counted by `replays`, asked
//! by `confirm`, in every record of the journal while a decision is owed. Pure: it knows no cluster and no file.
//!
//! Each failure has its own counts: a run may fail in two ways of which only one shows again, and neither falls with the other; and a replay
//! may show one while it tells nothing of the other.

use serde::{Deserialize, Serialize};

/// Replays of a finding.
pub(in crate::fuzz) const REPLAYS: u32 = 3;
/// Replays in which a liveness failure must show again.
pub const NEEDED: u32 = 2;

/// A failing run that is not decided on yet; the run itself lies in `state/owed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// The failures that replays are asked for; the run is filed under the first.
    pub asked: Vec<Asked>,
    /// The last replay showed what the run did not, and that is not kept yet.
    pub otherwise: bool,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub signature: String,
    /// It showed again in `k` of the `n` replays that told something of it; beside these those that told nothing.
    pub k: u32,
    pub n: u32,
    pub voids: u32,
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

    /// One more replay has ended, and showed those failures that `shows` says. Of one that it does not show it may have told nothing, as
    /// `tells` says: then it is not in that one's rate. Nor is one that was made for others alone.
    pub fn count(&mut self, shows: impl Fn(&str) -> bool, tells: impl Fn(&str) -> bool) {
        for asked in self.asked.iter_mut().filter(|a| !a.through()) {
            let shown = shows(&asked.signature);
            if shown || tells(&asked.signature) {
                asked.n += 1;
                asked.k += u32::from(shown);
            } else {
                asked.voids += 1;
            }
        }
    }
}

impl Asked {
    /// Replays that are left to make for it: one that told nothing is made again, three times in all.
    #[must_use]
    pub fn left(&self) -> u32 {
        REPLAYS.saturating_sub(self.n + self.voids.saturating_sub(REPLAYS))
    }

    /// None is left.
    #[must_use]
    pub fn through(&self) -> bool {
        self.left() == 0
    }

    /// What the replays so far make of it.
    pub(in crate::fuzz) fn outcome(&self, fell_often: bool) -> Replayed {
        let (k, n) = (self.k, self.n);
        if k >= NEEDED {
            Replayed::Stands
        } else if fell_often && k < n {
            Replayed::Falls
        } else if k + self.left() >= NEEDED {
            Replayed::Open
        } else {
            Replayed::Falls
        }
    }
}

/// What its replays make of a liveness failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuzz) enum Replayed {
    Stands,
    /// The replays not made could still decide either way.
    Open,
    Falls,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_three_decide() {
        use Replayed::{Falls, Open, Stands};
        let table = [
            (0, 0, 0, Open, Open),
            (0, 1, 0, Open, Falls),
            (1, 1, 0, Open, Open),
            (0, 2, 0, Falls, Falls),
            (1, 2, 0, Open, Falls),
            (2, 2, 0, Stands, Stands),
            (1, 3, 0, Falls, Falls),
            (2, 3, 0, Stands, Stands),
            // Those that told nothing were made again, three times in all.
            (1, 2, 3, Open, Falls),
            (1, 2, 4, Falls, Falls),
            (0, 0, 4, Open, Open),
            (0, 0, 5, Falls, Falls),
            (2, 2, 4, Stands, Stands),
        ];
        for (k, n, voids, want, if_it_fell_often) in table {
            let asked = Asked {
                k,
                n,
                voids,
                ..Asked::default()
            };
            assert_eq!(asked.outcome(false), want, "{asked:?}");
            assert_eq!(asked.outcome(true), if_it_fell_often, "{asked:?}");
        }
    }

    /// What each replay shows, with `-` where it tells nothing of what it does not show, `A` where only of a -> (k, n, replays that told nothing)
    /// of a and of b.
    #[test]
    fn each_failure_has_its_own_counts() {
        type Counts = (u32, u32, u32);
        type Case<'a> = (&'a [&'a str], Counts, Counts);
        let table: [Case<'_>; 11] = [
            (&[], (0, 0, 0), (0, 0, 0)),
            (&["b", "b", "b"], (0, 3, 0), (3, 3, 0)),
            (&["ab", "b", "a"], (2, 3, 0), (2, 3, 0)),
            (&["c", "ab"], (1, 2, 0), (1, 2, 0)),
            (&["-", "b"], (0, 1, 1), (1, 1, 1)),
            (&["-", "-", "-", "-", "b", "b"], (0, 2, 4), (2, 2, 4)),
            (&["-", "-", "-", "-", "-", "-"], (0, 0, 6), (0, 0, 6)),
            // What shows, shows, and says nothing against the other.
            (&["-b"], (0, 0, 1), (1, 1, 0)),
            (&["-c"], (0, 0, 1), (0, 0, 1)),
            (&["A", "Ab", "a"], (1, 1, 2), (1, 3, 0)),
            // The fourth is made for a alone.
            (&["-b", "b", "b", "ab"], (1, 3, 1), (3, 3, 0)),
        ];
        for (replays, a, b) in table {
            let mut owed = Owed::of(["a", "b"].map(String::from));
            for (made, shown) in replays.iter().enumerate() {
                let through = owed.asked.iter().all(Asked::through);
                assert!(!through, "{replays:?}: after {made}");
                let tells = |s: &str| !shown.starts_with('-') && (s != "a" || !shown.contains('A'));
                owed.count(|s| shown.contains(s), tells);
            }
            let got = owed.asked.iter().map(|a| (a.k, a.n, a.voids));
            assert_eq!(got.collect::<Vec<_>>(), [a, b], "{replays:?}");
            for asked in &owed.asked {
                let through = replays.len() == 6 || asked.n == 3;
                assert_eq!(asked.through(), through, "{replays:?}");
                let open = asked.outcome(false) == Replayed::Open;
                assert!(!through || !open, "{replays:?}");
            }
        }
    }
}
