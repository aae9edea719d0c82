//! What a process leaves for the next one, and how that takes it up.
//!
//! Written at each step of the loop by way of campaign/state, which has the files; read once, by [`super::engine`].

mod files;
pub(in crate::fuzz) mod finds;
pub(in crate::fuzz) mod saved;
pub(in crate::fuzz) mod tested;
