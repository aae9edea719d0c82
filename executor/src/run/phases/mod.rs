//! The order of a run: start, test, degraded, healed, final, restart of all, end.
//!
//! Called once a run by [`super::Runner`]; what happens within a phase is the loop's ([`super::drive`]). It judges nothing.

pub(in crate::run) mod boot;
pub(in crate::run) mod flow;
pub(in crate::run) mod heal;
