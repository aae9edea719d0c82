//! `warren replay`: runs fault sequences again and judges each run.

mod flow;
pub mod report;
