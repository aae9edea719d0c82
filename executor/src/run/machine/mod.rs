//! What runs take of the machine: memory and its limits, room on the disk, the processor at once.
//!
//! Called by the runner and the loop of a run. It refuses to change the machine: it only looks, or asks for its own thread.

pub(in crate::run) mod cgroup;
pub(in crate::run) mod memory;
pub(in crate::run) mod space;
pub(in crate::run) mod urgent;
