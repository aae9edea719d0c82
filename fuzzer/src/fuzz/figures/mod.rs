//! Counts, times and words for the screen, fuzzer_stats and runs.jsonl.
//!
//! Filled by the session and the stage. Nothing here decides anything.

pub(in crate::fuzz) mod counts;
pub(in crate::fuzz) mod cpu;
pub(in crate::fuzz) mod describe;
pub(in crate::fuzz) mod snapshot;
pub(in crate::fuzz) mod untaught;
