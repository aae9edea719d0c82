//! Seeds: hand-written sequences (or those of another campaign) that a campaign begins with (`fuzz -i`), and the verb `seed check`.
//!
//! [`load`] reads and refuses, [`nearest`] says what came nearest to a point that never came, [`check`] is the verb. Running seeds
//! inside a campaign is `fuzz`'s.

mod check;
mod load;
mod nearest;

pub use check::run;
pub use load::{SeedError, SeedFile, check_seeds, needs_kernel, read_seeds};
pub use nearest::{Near, near_lines, nearest, stack_text};

use crate::cli::exit::CliError;

impl From<SeedError> for CliError {
    /// A seed that cannot be used is the user's to mend.
    fn from(e: SeedError) -> Self {
        CliError::usage(e)
    }
}
