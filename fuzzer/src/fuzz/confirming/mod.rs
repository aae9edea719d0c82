//! From a failing run to a finding: replays, the rate, what is written and said, a smaller sequence.
//!
//! Called by [`super::stage`] for each run that fails, and by a process that takes up what another one had left. It refuses to judge: which
//! checks failed is feedback's word.

pub(in crate::fuzz) mod confirm;
pub(in crate::fuzz) mod minimise;
pub(in crate::fuzz) mod owed;
pub(in crate::fuzz) mod replayed_otherwise;
pub(in crate::fuzz) mod replays;
pub(in crate::fuzz) mod stand;
pub(in crate::fuzz) mod story;
pub(in crate::fuzz) mod tally;
