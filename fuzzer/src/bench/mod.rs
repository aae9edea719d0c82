//! `warren bench`: what the agent, a fault test and a kill cost, and Warren's own memory.

pub mod figures;
