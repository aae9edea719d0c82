//! A child that the queue gives out, and the pools it may come from. Plain values, saved with a campaign's state.

use super::children::ClassKey;
use super::strata::Stratum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The pool a pick came from, asked in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// No sequence with this fault id as its last fault was tested yet.
    NewFaultId,
    /// The point's stack was not in the parent's run.
    Recovery,
    /// No child of this seed run with this fault id was tested yet.
    NewAmongSiblings,
    /// None of these pools had one, or the dice passed them by.
    Any,
    /// First in, first out.
    Oldest,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::NewFaultId => "new fault id",
            Why::Recovery => "fault in recovery",
            Why::NewAmongSiblings => "new among siblings",
            Why::Any => "any",
            Why::Oldest => "first in",
        })
    }
}

/// The pools with the probability to take each when it is not empty (values of the authors' artifact).
pub const POOLS: [(Why, f64); 3] = [
    (Why::NewFaultId, 0.99),
    (Why::Recovery, 0.95),
    (Why::NewAmongSiblings, 0.90),
];

/// One child, taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pick {
    /// Corpus id of the seed run.
    pub seed: u64,
    pub key: ClassKey,
    pub recovery: bool,
    /// Its stack is one of those that a dictionary favours.
    pub favoured: bool,
    /// Index into the class's events.
    pub occurrence: u32,
    pub occurrences: u32,
    /// Tries made before this one.
    pub tries: u8,
    /// It was put off for another instance, and is now whoever's takes it.
    pub free: bool,
    pub why: Why,
    pub score: u64,
}

impl Pick {
    /// For screens and runs.jsonl.
    #[must_use]
    pub fn reason(&self) -> String {
        let score = match self.why {
            Why::Oldest => String::new(),
            _ => format!(", score {}", self.score),
        };
        let mut text = format!(
            "{}{score}, occurrence {}/{}",
            self.why,
            self.occurrence + 1,
            self.occurrences
        );
        if self.key.stratum != Stratum::All {
            text.push_str(&format!(", {}", self.key.stratum));
        }
        if self.favoured {
            text.push_str(", favoured");
        }
        if self.tries > 0 {
            text.push_str(&format!(", try {}", self.tries + 1));
        }
        text
    }
}
