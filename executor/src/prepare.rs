//! Everything a run needs, made ready once: jars, JDK, compiled workload, agent jars.
//!
//! Called once by the command line before the first run; the result is shared by all runners.

use crate::target::Target;
use std::path::PathBuf;
use std::sync::Arc;

/// A target ready to run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prepared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    target: Target,
    cache: PathBuf,
}

impl Prepared {
    /// The target's description.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// The cache folder in use.
    #[must_use]
    pub fn cache(&self) -> &PathBuf {
        &self.0.cache
    }
}
