//! What nodes are asked while a run goes on, and what their answers mean: ready, started, role, stable.
//!
//! Called by the loop of a run and its phases. Sockets are slot init's; what an answer is worth to a checker is feedback's.

pub(in crate::run) mod answers;
pub(in crate::run) mod prober;
pub(in crate::run) mod questions;
