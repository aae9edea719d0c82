//! What `--strategy warren` adds to the queue: its parts, each a switch, and the turns they take. Plain values, kept whole in every
//! record of a campaign. docs/search.md has the formulas; shapes, havoc, strata, symmetry, energy and swarm have a file each, tails are `random_points::tail`, state novelty is feedback's (`states`).

use super::rand::chance;
use libafl_bolts::rands::Rand;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The parts that are on (`--without` switches some off).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub shapes: bool,
    pub havoc: bool,
    pub tails: bool,
    pub strata: bool,
    pub symmetry: bool,
    pub state: bool,
    pub energy: bool,
    /// Where it is asked for (`--swarm`).
    pub swarm: bool,
}

impl Parts {
    /// Every part there is.
    pub const ALL: Parts = Parts {
        shapes: true,
        havoc: true,
        tails: true,
        strata: true,
        symmetry: true,
        state: true,
        energy: true,
        swarm: true,
    };
    /// What every other strategy has.
    pub const NONE: Parts = Parts {
        shapes: false,
        havoc: false,
        tails: false,
        strata: false,
        symmetry: false,
        state: false,
        energy: false,
        swarm: false,
    };

    /// Name and switch of each.
    fn each(&mut self) -> [(&'static str, &mut bool); 8] {
        [
            ("shapes", &mut self.shapes),
            ("havoc", &mut self.havoc),
            ("tails", &mut self.tails),
            ("strata", &mut self.strata),
            ("symmetry", &mut self.symmetry),
            ("state", &mut self.state),
            ("energy", &mut self.energy),
            ("swarm", &mut self.swarm),
        ]
    }

    fn names() -> String {
        Parts::ALL.to_string().replace(',', ", ")
    }
}

/// Those that are on.
impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = *self;
        let on = parts.each().into_iter().filter(|(_, on)| **on);
        let on: Vec<&str> = on.map(|(name, _)| name).collect();
        f.write_str(if on.is_empty() { "none" } else { "" })?;
        f.write_str(&on.join(","))
    }
}

/// `--without PART[,PART...]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Without(pub Parts);

impl FromStr for Without {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Parts::ALL;
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match parts.each().into_iter().find(|(name, _)| *name == word) {
                Some((_, on)) => *on = false,
                None => return Err(format!("`{word}` is none of {}", Parts::names())),
            }
        }
        if parts == Parts::ALL {
            return Err(format!("name at least one of {}", Parts::names()));
        }
        Ok(Without(parts))
    }
}

/// Where a sequence came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A child of the queue, a seed, a drawn baseline.
    #[default]
    Ordinary,
    /// The shape of this name.
    Shape(String),
    /// This operator on the kept run of this id; a tail is `tail` on a kept or fault-free run.
    Havoc { op: String, seed: u64 },
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Child,
    Shape,
    Havoc,
    Tail,
}

/// What came of sequences of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub tried: u64,
    /// All faults happened.
    pub full: u64,
    /// New coverage, or a failure that is not well known.
    pub found: u64,
}

impl Tally {
    fn count(&mut self, full: bool, found: bool) {
        self.tried += 1;
        self.full += u64::from(full);
        self.found += u64::from(found);
    }
}

/// Tries and finds of late: halved at [`WINDOW`] tries, so that an old harvest is forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Recent {
    tried: u64,
    found: u64,
}

/// Tries after which both numbers are halved.
const WINDOW: u64 = 200;
/// The share of shapes at the start, and its bounds.
pub const SHAPES: f64 = 0.2;
const LEAST: f64 = 0.05;
const MOST: f64 = 0.4;
/// The share of havoc.
pub const HAVOC: f64 = 0.2;
/// Of the turns that shapes and havoc leave, those that are tails: at the start 0.3 of all.
pub const TAILS: f64 = 0.5;
/// Of the tails, those that follow a fault-free run: whole sequences.
pub const WHOLE: f64 = 0.5;

/// What shapes and havoc have of the turns: shapes at the start, havoc always.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    pub shapes: f64,
    pub havoc: f64,
}

impl Default for Shares {
    fn default() -> Self {
        Shares {
            shapes: SHAPES,
            havoc: HAVOC,
        }
    }
}

impl Recent {
    fn count(&mut self, found: bool) {
        self.tried += 1;
        self.found += u64::from(found);
        if self.tried >= WINDOW {
            self.tried /= 2;
            self.found /= 2;
        }
    }

    /// Finds per try, as if two of ten tries had found something before the first.
    fn rate(&self) -> f64 {
        (self.found as f64 + 2.0) / (self.tried as f64 + 10.0)
    }
}

/// What the parts have come to. Changed when a sequence was tested, and nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warren {
    recent_children: Recent,
    recent_shapes: Recent,
    pub children: Tally,
    pub shapes: BTreeMap<String, Tally>,
    pub havoc: BTreeMap<String, Tally>,
}

libafl_bolts::impl_serdeany!(Warren);

impl Warren {
    /// Of the picks, those that are shapes: their share at the start x their rate of finds / that of the queue's children, from 0.05
    /// to 0.4.
    #[must_use]
    pub fn share_of_shapes(&self, at_start: f64) -> f64 {
        let ratio = self.recent_shapes.rate() / self.recent_children.rate();
        (at_start * ratio).clamp(LEAST, MOST)
    }

    /// Whose turn it is. Draws nothing where the parts leave no choice: other strategies' random numbers stay as they were.
    pub fn turn(&self, parts: Parts, shares: Shares, rand: &mut impl Rand) -> Turn {
        let of_shapes = self.share_of_shapes(shares.shapes);
        if parts.shapes && chance(rand, of_shapes) {
            return Turn::Shape;
        }
        let taken = if parts.shapes { of_shapes } else { 0.0 };
        if parts.havoc && chance(rand, shares.havoc / (1.0 - taken)) {
            return Turn::Havoc;
        }
        if parts.tails && chance(rand, TAILS) {
            return Turn::Tail;
        }
        Turn::Child
    }

    /// A sequence was tested.
    pub fn tested(&mut self, origin: &Origin, full: bool, found: bool) {
        match origin {
            Origin::Ordinary => {
                self.recent_children.count(found);
                self.children.count(full, found);
            }
            Origin::Shape(name) => {
                self.recent_shapes.count(found);
                self.shapes
                    .entry(name.clone())
                    .or_default()
                    .count(full, found);
            }
            Origin::Havoc { op, .. } => {
                self.havoc.entry(op.clone()).or_default().count(full, found);
            }
        }
    }

    /// How a shape weighs among the others: one that is hardly ever injected in full sinks.
    #[must_use]
    pub fn weight(&self, shape: &str) -> f64 {
        let t = self.shapes.get(shape).copied().unwrap_or_default();
        (t.full as f64 + 2.0) / (t.tried as f64 + 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::XoRand;

    #[test]
    fn switches() {
        for (text, want) in [
            (
                "shapes",
                Ok("havoc,tails,strata,symmetry,state,energy,swarm"),
            ),
            (
                "shapes, havoc",
                Ok("tails,strata,symmetry,state,energy,swarm"),
            ),
            (
                "state",
                Ok("shapes,havoc,tails,strata,symmetry,energy,swarm"),
            ),
            (
                "shapes,havoc,tails,strata,symmetry,state,energy,swarm",
                Ok("none"),
            ),
            ("", Err("at least one")),
            ("best", Err("`best` is none of shapes, havoc,")),
            ("havoc,best", Err("`best`")),
        ] {
            match (text.parse::<Without>(), want) {
                (Ok(w), Ok(on)) => assert_eq!(w.0.to_string(), on, "{text}"),
                (Err(e), Err(part)) => assert!(e.contains(part), "{text}: {e}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
        assert_eq!(
            Parts::ALL.to_string(),
            "shapes,havoc,tails,strata,symmetry,state,energy,swarm"
        );
    }

    #[test]
    fn the_share_follows_what_is_found() {
        let mut w = Warren::default();
        assert!((w.share_of_shapes(SHAPES) - SHAPES).abs() < 1e-9);
        let shape = Origin::Shape("x".into());
        for _ in 0..300 {
            w.tested(&shape, true, false);
            w.tested(&Origin::Ordinary, true, true);
        }
        assert!((w.share_of_shapes(SHAPES) - LEAST).abs() < 1e-9);
        // Within a few hundred tries the tide may turn.
        for _ in 0..600 {
            w.tested(&shape, true, true);
            w.tested(&Origin::Ordinary, true, false);
        }
        assert!((w.share_of_shapes(SHAPES) - MOST).abs() < 1e-9);
        assert_eq!((w.shapes["x"].tried, w.shapes["x"].found), (900, 600));
    }

    #[test]
    fn turns_keep_their_shares() {
        let w = Warren::default();
        let of = |parts: Parts| {
            let mut rand = XoRand::new(4);
            let mut n = [0; 4];
            for _ in 0..10_000 {
                n[w.turn(parts, Shares::default(), &mut rand) as usize] += 1;
            }
            n
        };
        let near = |n: i32, share: f64| (f64::from(n) / 10_000.0 - share).abs() < 0.02;
        let [child, shape, havoc, tail] = of(Parts::ALL);
        assert!(near(child, 0.3) && near(shape, 0.2) && near(havoc, 0.2) && near(tail, 0.3));
        let [_, shape, havoc, _] = of(Parts {
            shapes: false,
            ..Parts::ALL
        });
        assert!(shape == 0 && near(havoc, 0.2));
        let [child, _, _, tail] = of(Parts {
            tails: false,
            ..Parts::ALL
        });
        assert!(tail == 0 && near(child, 0.6));
        assert_eq!(of(Parts::NONE), [10_000, 0, 0, 0]);
        let mut rand = XoRand::new(4);
        w.turn(Parts::NONE, Shares::default(), &mut rand);
        assert_eq!(rand.next(), XoRand::new(4).next(), "nothing was drawn");
    }

    #[test]
    fn a_shape_that_never_comes_sinks() {
        let mut w = Warren::default();
        assert_eq!(w.weight("x"), 1.0);
        for _ in 0..18 {
            w.tested(&Origin::Shape("x".into()), false, false);
        }
        assert_eq!(w.weight("x"), 0.1);
    }
}
