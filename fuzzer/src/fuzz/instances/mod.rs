//! Several Warrens at work on one campaign (`-M`, `-S`): what they tell each other, and what one does that has nothing left.
//!
//! Called by the loop between two runs. Files and network are campaign's and broker's.

pub(in crate::fuzz) mod beside;
pub(in crate::fuzz) mod sync;
pub(in crate::fuzz) mod take_over;
