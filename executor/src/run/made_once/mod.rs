//! What is made once a target and kept in the cache, so that each start costs less: class archives, warm-up lists, data images,
//! background stacks.
//!
//! Called before the first run and where something is missing. A run works without any of it.

pub(in crate::run) mod archives;
pub(in crate::run) mod background;
pub(in crate::run) mod hot;
pub(in crate::run) mod image;
pub(in crate::run) mod prune;
pub(in crate::run) mod rehearsal;
