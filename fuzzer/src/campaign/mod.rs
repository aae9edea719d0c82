//! The campaign folder, in AFL's layout and with AFL's names and keys (docs/campaign.md): queue/, crashes/, hangs/, runs/,
//! findings/, fuzzer_stats, plot_data, cmdline, runs.jsonl, sync.jsonl.
//!
//! Written by the loop in `fuzz`; read by people, afl-plot, afl-whatsup and later tools. Refuses to write into a folder that
//! already holds a campaign, and writes no figure it does not know.

mod error;
mod failure_line;
pub mod finding;
pub mod folder;
mod instance;
pub mod names;
pub mod packed;
mod rates;
pub mod run_file;
pub mod run_line;
pub mod state;
pub mod stats;
mod stored_line;
pub mod sync_file;
mod vacant;

pub use error::{FuzzError, WayOut};
pub use failure_line::{FailedCheck, FindingLine};
pub use finding::{Environment, FindingText, write_finding};
pub use folder::Folder;
pub use instance::{ALONE, InstanceKind, MAX_SLOTS, Slots, is_instance_name};
pub use names::EntryName;
pub use rates::{InjectedRates, LearntRoot, Spared, least_stable};
pub use run_file::StoredRun;
pub use run_line::{RunLine, RunRole};
pub use stats::{Figures, KeptFinding};
pub use stored_line::StoredLine;
pub use vacant::MIRROR;
