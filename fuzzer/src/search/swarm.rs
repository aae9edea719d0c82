//! Options that an instance of `warren` draws from its seed (`--swarm`): many instances that each leave something out may reach what
//! many that all may do everything do not. Drawn once, kept with the campaign's state, shown at its start. Pure; the engine asks for it.

use super::rand::{XoRand, below};
use super::warren::Shares;
use crate::search::FaultSet;
use serde::{Deserialize, Serialize};
use std::fmt;
use warren_model::{CrashStyle, CutHow};

/// What was drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swarm {
    /// Kinds of faults that are on.
    pub faults: FaultSet,
    /// Of the crashes that children of the queue are.
    pub style: CrashStyle,
    /// Of the cuts that are made.
    pub how: CutHow,
    /// Most faults in a sequence.
    pub max_faults: usize,
    /// Shares in percent: of the turns, and of the picks that start cold.
    pub shapes: u8,
    pub havoc: u8,
    pub cold: u8,
}

/// What shares are drawn from, in percent; what they are without a draw is among them.
const SHAPES: [u8; 4] = [10, 20, 30, 40];
const HAVOC: [u8; 4] = [5, 20, 35, 50];
const COLD: [u8; 4] = [5, 15, 30, 50];
/// Lengths, up to the most asked for, which is one of them too.
const FAULTS: [usize; 4] = [2, 3, 4, 6];
/// Its own random numbers: those of the search begin as they do without it.
const SALT: u64 = 0x5eed_0f5a_11b0_4e55;

/// The sets of kinds with which a sequence can begin and in which each kind can happen: nothing is rebooted that was not crashed.
/// Stalls are on where they were asked for.
fn sets(asked: FaultSet) -> Vec<FaultSet> {
    let both = [true, false];
    let all = both.into_iter().flat_map(|crash| {
        both.into_iter().flat_map(move |reboot| {
            both.map(move |partition| FaultSet {
                crash,
                reboot,
                partition,
                stall: asked.stall,
            })
        })
    });
    let within = |s: &FaultSet| {
        (asked.crash || !s.crash)
            && (asked.reboot || !s.reboot)
            && (asked.partition || !s.partition)
    };
    let begins = |s: &FaultSet| s.crash || s.partition;
    let all_happen = |s: &FaultSet| s.crash || !s.reboot;
    all.filter(begins)
        .filter(all_happen)
        .filter(within)
        .collect()
}

impl Swarm {
    /// Draws from an instance's seed, within what was asked for.
    #[must_use]
    pub fn draw(seed: u64, asked: FaultSet, max_faults: usize) -> Self {
        let mut rand = XoRand::new(seed ^ SALT);
        fn one<T: Copy>(of: &[T], rand: &mut XoRand) -> Option<T> {
            of.get(below(rand, of.len() as u64) as usize).copied()
        }
        let mut lengths: Vec<usize> = FAULTS.into_iter().filter(|n| *n < max_faults).collect();
        lengths.push(max_faults);
        Swarm {
            faults: one(&sets(asked), &mut rand).unwrap_or(asked),
            style: one(&[CrashStyle::Process, CrashStyle::Machine], &mut rand).unwrap_or_default(),
            how: one(&[CutHow::Drop, CutHow::Throw], &mut rand).unwrap_or_default(),
            max_faults: one(&lengths, &mut rand).unwrap_or(max_faults),
            shapes: one(&SHAPES, &mut rand).unwrap_or(20),
            havoc: one(&HAVOC, &mut rand).unwrap_or(20),
            cold: one(&COLD, &mut rand).unwrap_or(15),
        }
    }

    /// Of the turns.
    #[must_use]
    pub fn shares(&self) -> Shares {
        Shares {
            shapes: f64::from(self.shapes) / 100.0,
            havoc: f64::from(self.havoc) / 100.0,
        }
    }

    /// Of the picks, where both lineages have children.
    #[must_use]
    pub fn cold_share(&self) -> f64 {
        f64::from(self.cold) / 100.0
    }
}

/// For people and fuzzer_stats.
impl fmt::Display for Swarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "faults {}, crashes by {}, cuts by {}, at most {} faults, shapes {} %, havoc {} %, cold {} %",
            self.faults, self.style, self.how, self.max_faults, self.shapes, self.havoc, self.cold
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn draws_stay_within_what_was_asked() {
        for (asked, kinds) in [
            ("crash,reboot,partition", 5),
            ("crash,reboot", 2),
            ("crash", 1),
            ("partition", 1),
            ("crash,partition", 3),
        ] {
            let set: FaultSet = asked.parse().unwrap();
            for most in [1, 2, 5, 10] {
                let drawn: Vec<Swarm> = (0..200).map(|s| Swarm::draw(s, set, most)).collect();
                let seen = |of: fn(&Swarm) -> String| -> BTreeSet<String> {
                    drawn.iter().map(of).collect()
                };
                assert_eq!(seen(|s| s.faults.to_string()).len(), kinds, "{asked}");
                for s in &drawn {
                    let text = s.faults.to_string();
                    assert!(text.parse::<FaultSet>().is_ok(), "{text}");
                    assert!(text.split(',').all(|k| asked.contains(k)), "{text}");
                    assert!((1..=most).contains(&s.max_faults));
                }
                assert_eq!(seen(|s| format!("{:?}", s.style)).len(), 2);
                assert_eq!(seen(|s| format!("{:?}", s.how)).len(), 2);
                let lengths = FAULTS.iter().filter(|n| **n < most).count() + 1;
                assert_eq!(seen(|s| s.max_faults.to_string()).len(), lengths);
                for of in [
                    (|s| s.shapes.to_string()) as fn(&Swarm) -> String,
                    |s| s.havoc.to_string(),
                    |s| s.cold.to_string(),
                ] {
                    assert_eq!(seen(of).len(), 4);
                }
            }
        }
    }

    /// A seed always draws the same: a campaign can be made again.
    #[test]
    fn the_seed_decides() {
        let asked = FaultSet::default();
        let draw = |seed| Swarm::draw(seed, asked, 10);
        assert_eq!(draw(7), draw(7));
        assert!((0..20).any(|s| draw(s) != draw(7)));
        let text = draw(7).to_string();
        assert!(
            text.starts_with("faults ") && text.contains(" cold "),
            "{text}"
        );
        // Short enough for the shares that are left to the queue.
        for seed in 0..300 {
            let s = draw(seed).shares();
            assert!(s.shapes + s.havoc < 1.0);
        }
    }
}
