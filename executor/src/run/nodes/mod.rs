//! What lives in the slot of a run: nodes and workload, how their processes are started, what cuts them off from each other.
//!
//! Called by the loop of a run ([`super::drive`]) and by what makes snapshots. It decides nothing: which fault comes when is the controller's.

pub(in crate::run) mod cluster;
pub(in crate::run) mod commands;
pub(in crate::run) mod cuts;
mod layout;
pub(in crate::run) mod spawn;
pub(in crate::run) mod templates;
