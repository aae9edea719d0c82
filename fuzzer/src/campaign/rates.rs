//! Sums over a campaign's runs that its figures tell and its screen shows: how often faults came, what tests were spared, how far fault-free
//! runs agree. Plain values, counted by the engine, told by `stats` and `ui`.

use serde::{Deserialize, Serialize};

use warren_feedback::coverage::Baseline;
use warren_model::{RunProduct, StartState};

/// How often sequences were injected in full at the first try; drift and late counted in and also apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedRates {
    pub one_fault_asked: u64,
    pub one_fault_full: u64,
    pub longer_asked: u64,
    pub longer_full: u64,
    /// Runs injected in full with a smaller n accepted.
    pub drift: u64,
    /// Runs injected in full with a thread that was held for too long.
    pub late: u64,
    /// Sequences given up after three tries.
    pub uninjectable: u64,
}

/// What tested sequences did not have to do themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spared {
    /// So many began from a prefix snapshot, and the wall time of what came before it, ms. What making the prefixes took is not taken off.
    pub from_prefix: u64,
    pub prefix_ms: u64,
    /// Starts of nodes that went on from a parked JVM.
    pub unparked: u64,
}

impl Spared {
    /// A sequence was tested by this run.
    pub fn by(&mut self, product: &RunProduct) {
        if let Some(prefix) = product.from_prefix {
            self.from_prefix += 1;
            self.prefix_ms += prefix.spared_ms;
        }
        self.unparked += u64::from(product.unparked);
    }
}

/// The root of one start state: the fault-free run from it that children come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearntRoot {
    pub start: StartState,
    /// Its number among the kept runs.
    pub run: u64,
    /// What the learning runs from this start cover, and how far they agree.
    pub baseline: Baseline,
}

/// The baseline of the start state whose fault-free runs agree least.
#[must_use]
pub fn least_stable(roots: &[LearntRoot]) -> Baseline {
    let all = roots.iter().map(|r| r.baseline);
    all.min_by(|a, b| a.stability().total_cmp(&b.stability()))
        .unwrap_or_default()
}
