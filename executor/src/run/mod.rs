//! One run from left to right: slot, cluster, workload, faults, checks, collection (docs/ARCHITECTURE.md, "One run").

mod options;

pub use options::{NodeProgress, NodeStatus, ProgressFn, RunError, RunOptions, RunProgress};

use crate::prepare::Prepared;
use std::path::PathBuf;
use warren_model::{ClusterShape, FaultSequence, Rules, RunProduct, StackId};

/// What all runs of one runner share.
#[derive(Clone, Debug)]
pub struct RunnerConfig {
    /// The program that answers to `__slot-init` and `__slot-launcher`.
    pub exe: PathBuf,
    /// Bytes of the coverage map: a power of two.
    pub map_size: usize,
    /// Most faults in a sequence.
    pub max_faults: usize,
    /// Stacks known as background ([`learn_background`]).
    pub background: Vec<StackId>,
}

/// Makes runs of one prepared target, one at a time. Cheap to make; two runners may work side by side.
pub struct Runner {
    prepared: Prepared,
    config: RunnerConfig,
    shape: ClusterShape,
    rules: Rules,
}

impl Runner {
    /// A runner of a prepared target.
    ///
    /// # Errors
    /// A map size that is no power of two.
    pub fn new(prepared: Prepared, config: RunnerConfig) -> Result<Self, RunError> {
        if !config.map_size.is_power_of_two() {
            return Err(RunError::io(
                "the coverage map",
                format!("{} bytes is no power of two", config.map_size),
            ));
        }
        let shape = prepared.target().shape(config.max_faults);
        let rules = prepared.target().rules();
        Ok(Runner {
            prepared,
            config,
            shape,
            rules,
        })
    }

    /// What the constraints need to know of the cluster.
    #[must_use]
    pub fn shape(&self) -> &ClusterShape {
        &self.shape
    }

    /// What the checkers need to know of the target.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The target, ready to run.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// The settings shared by all runs.
    #[must_use]
    pub fn config_mut(&mut self) -> &mut RunnerConfig {
        &mut self.config
    }

    /// Kernel cuts (`drop`, style `machine`) work here: strategies may draw them.
    #[must_use]
    pub fn kernel_cuts(&self) -> bool {
        false
    }

    /// One run on a fresh cluster.
    ///
    /// # Errors
    /// [`RunError`] only for what is wrong with us or the request; whatever the cluster does is in the record.
    pub fn run(
        &self,
        _sequence: &FaultSequence,
        _options: &RunOptions,
    ) -> Result<RunProduct, RunError> {
        Err(RunError::Slot("not wired yet".into()))
    }
}

/// Stacks whose count grows while the ready cluster is idle; kept in the cache by the content of the target.
///
/// # Errors
/// As [`Runner::run`].
pub fn learn_background(_runner: &Runner) -> Result<Vec<StackId>, RunError> {
    Err(RunError::Slot("not wired yet".into()))
}
