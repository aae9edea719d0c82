//! What all runs of one runner share: made by whoever makes a [`super::Runner`], and read by every run of it.

use crate::setup::criu::Criu;
use crate::slot::Level;
use std::path::PathBuf;
use warren_model::StackId;

/// Bytes of a coverage map unless a target needs more.
pub const MAP_SIZE: usize = 65536;

/// What all runs of one runner share.
#[derive(Clone, Debug)]
pub struct RunnerConfig {
    /// The program that answers to `__slot-init`.
    pub exe: PathBuf,
    pub level: Level,
    /// Bytes of the coverage map: a power of two.
    pub map_size: usize,
    /// Most faults in a sequence.
    pub max_faults: usize,
    /// Stacks known as background ([`super::learn_background`]).
    pub background: Vec<StackId>,
    /// With it runs may start from a snapshot (level 1); without, all start cold.
    pub criu: Option<Criu>,
    /// A run that is to begin from a snapshot fails where it cannot, in place of a cold start.
    pub only_warm: bool,
    /// Nodes that start again in a run from a snapshot go on from parked JVMs (decision 0011).
    pub parked: bool,
}

impl RunnerConfig {
    /// The usual settings.
    #[must_use]
    pub fn new(exe: impl Into<PathBuf>, level: Level) -> Self {
        RunnerConfig {
            exe: exe.into(),
            level,
            map_size: MAP_SIZE,
            max_faults: 10,
            background: Vec::new(),
            criu: None,
            only_warm: false,
            parked: true,
        }
    }
}
