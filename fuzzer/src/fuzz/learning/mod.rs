//! Before the first fuzzed run: fault-free runs of each start, and what they leave behind for the search and the judge.
//!
//! Called by [`super::engine`]; the baseline is read by everything after it. It refuses to inject a fault.

pub(in crate::fuzz) mod learn;
pub(in crate::fuzz) mod learnt;
pub(in crate::fuzz) mod starts;
pub(in crate::fuzz) mod starts_asked;
