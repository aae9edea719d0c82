//! Several clusters at once (`-j`): how many, and the runs that are under way in them.
//!
//! Called by learning, which measures, and by the stage, which begins and ends runs. One search has all of them.

pub(in crate::fuzz) mod side_by_side;
pub(in crate::fuzz) mod under_way;
pub(in crate::fuzz) mod waiting;
