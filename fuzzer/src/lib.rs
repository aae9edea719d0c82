//! Warren, the fuzzer: search strategies, campaign folder, the LibAFL fuzzer put together, and what users meet.
//!
//! The only crate where executor and feedback meet. `search` is pure; `campaign` writes files; `fuzz` runs the loop.

// First: its macros hold for every module after it.
#[macro_use]
pub mod say;

pub mod bench;
pub mod broker;
pub mod campaign;
pub mod cli;
pub mod cmin;
pub mod compare;
pub mod coverage;
pub mod doctor;
pub mod fuzz;
pub mod fuzz_cmd;
pub mod jdk_cmd;
pub mod known;
pub mod plot;
pub mod replay;
pub mod report;
pub mod search;
pub mod seeds;
pub mod targets_cmd;
mod terminal;
pub mod text;
pub mod tmin;
pub mod ui;
pub mod verbs;
pub mod whatsup;
