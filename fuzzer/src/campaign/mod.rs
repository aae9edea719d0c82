//! The campaign folder, in AFL's layout and with AFL's names and keys (docs/campaign.md): queue/, crashes/, hangs/, runs/,
//! findings/, fuzzer_stats, plot_data, cmdline, runs.jsonl, sync.jsonl.
//!
//! Written by the loop in `fuzz`; read by people, afl-plot, afl-whatsup and later tools. Refuses to write into a folder that
//! already holds a campaign, and writes no figure it does not know.

mod failure_line;
pub mod finding;
pub mod folder;
pub mod names;
pub mod run_file;
pub mod run_line;
pub mod state;
pub mod stats;
mod stored_line;
pub mod sync_file;
mod vacant;

pub use failure_line::{FailedCheck, FindingLine};
pub use finding::{Environment, FindingText, write_finding};
pub use folder::Folder;
pub use names::EntryName;
pub use run_file::StoredRun;
pub use run_line::{RunLine, RunRole};
pub use stats::{Figures, KeptFinding};
pub use stored_line::StoredLine;
