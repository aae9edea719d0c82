//! What is kept of a run for checkers and readers: pages, history, observations, logs, files, thread dumps, last words.
//!
//! Called while the run goes on for what would be gone later, and once when all its processes are dead. It judges nothing.

pub(in crate::run) mod collect;
pub(in crate::run) mod collected;
pub(in crate::run) mod ended;
pub(in crate::run) mod last_words;
mod logs;
pub(in crate::run) mod marks;
pub(in crate::run) mod threads;
pub(in crate::run) mod traffic;
