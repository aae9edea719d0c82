//! Which node a message point's other end is, as the executor reads it too.

pub use warren_model::address::node_of;
