//! What a run left: the coverage observer, which owns its map, and the run observer, which holds the product and judges it.

use crate::judge::Judge;
use crate::states::states;
use libafl::{Error, executors::ExitKind, observers::Observer, observers::StdMapObserver};
use libafl_bolts::{
    Named, ToSliceMut,
    tuples::{Handle, MatchName, MatchNameRef},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use warren_model::{
    Judgement, RunProduct, RunRecord, StartState, Trace, Unknown, Verdict, ids::fnv1a,
};

/// Name of the coverage observer.
pub const COVERAGE: &str = "coverage";
/// Name of the run observer.
pub const RUN: &str = "run";

/// AFL's map, in memory of its own: no node can write to it late.
pub type CoverageObserver = StdMapObserver<'static, u8, false>;

/// A coverage observer for maps of `size` bytes.
#[must_use]
pub fn coverage_observer(size: usize) -> CoverageObserver {
    StdMapObserver::owned(COVERAGE, vec![0; size])
}

/// Everything known of the last run, and its judgement. Serialised: record, trace and judgement; the rest stays in this process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunObserver {
    #[serde(serialize_with = "store", deserialize_with = "load")]
    product: RunProduct,
    judgement: Judgement,
    /// Slots of the second map.
    states: Vec<u32>,
    /// The next run repeats one that passed its limit.
    retest: bool,
    #[serde(skip)]
    judge: Option<Arc<Mutex<Judge>>>,
}

impl RunObserver {
    /// An observer that judges by this judge; the fuzzer keeps the other end to let it learn.
    #[must_use]
    pub fn new(judge: Arc<Mutex<Judge>>) -> Self {
        RunObserver {
            judge: Some(judge),
            ..Self::default()
        }
    }

    /// Takes a run's product in. Its coverage belongs to the coverage observer; here it is dropped.
    pub fn receive(&mut self, mut product: RunProduct) {
        product.coverage = Vec::new();
        self.product = product;
    }

    /// Says whether the next run repeats one that passed its limit: over it again, it is a hang. Forgotten after that run.
    pub fn expect_retest(&mut self, retest: bool) {
        self.retest = retest;
    }

    /// Everything of the last run but its coverage.
    #[must_use]
    pub fn product(&self) -> &RunProduct {
        &self.product
    }

    /// What was asked and what happened in the last run.
    #[must_use]
    pub fn record(&self) -> &RunRecord {
        &self.product.record
    }

    /// The I/O points of the last run.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.product.trace
    }

    /// The slots of the second map that the last run set.
    #[must_use]
    pub fn states(&self) -> &[u32] {
        &self.states
    }

    /// What the judge said of the last run.
    #[must_use]
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }
}

impl Named for RunObserver {
    fn name(&self) -> &Cow<'static, str> {
        static NAME: Cow<'static, str> = Cow::Borrowed(RUN);
        &NAME
    }
}

impl<I, S> Observer<I, S> for RunObserver {
    fn pre_exec(&mut self, _state: &mut S, _input: &I) -> Result<(), Error> {
        self.product = RunProduct::default();
        self.judgement = Judgement::default();
        self.states = Vec::new();
        Ok(())
    }

    fn post_exec(&mut self, _state: &mut S, _input: &I, _kind: &ExitKind) -> Result<(), Error> {
        let retest = std::mem::take(&mut self.retest);
        self.states = states(&self.product);
        self.judgement = match &self.judge {
            Some(judge) => {
                // A panic elsewhere while the lock was held leaves a whole judge behind: learning replaces no half values.
                let judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
                if retest {
                    judge.judge_retest(&self.product)
                } else {
                    judge.judge(&self.product)
                }
            }
            None => Judgement {
                verdict: Verdict::Unknown,
                unknowns: vec![Unknown {
                    checker: "judge".into(),
                    why: "this observer came from elsewhere and has no judge".into(),
                    by_load: false,
                }],
                ..Judgement::default()
            },
        };
        Ok(())
    }
}

/// Gives a run's product to the observers `coverage` and `run`. To be called from the executor's `run_target`, after
/// `pre_exec` zeroed the map.
///
/// # Errors
/// An observer is missing, or the map is larger than the observer's (a smaller one is an empty run: it leaves zeroes).
pub fn sink<OT: MatchName>(mut product: RunProduct, observers: &mut OT) -> Result<(), Error> {
    let map = std::mem::take(&mut product.coverage);
    let coverage = observers
        .get_mut(&Handle::<CoverageObserver>::new(Cow::Borrowed(COVERAGE)))
        .ok_or_else(|| missing(COVERAGE))?;
    let own = &mut *coverage.to_slice_mut();
    if map.len() > own.len() {
        return Err(Error::illegal_argument(format!(
            "the run's coverage map has {} bytes, the observer {}: build it with the run's map size",
            map.len(),
            own.len()
        )));
    }
    own[..map.len()].copy_from_slice(&map);
    observers
        .get_mut(&Handle::<RunObserver>::new(Cow::Borrowed(RUN)))
        .ok_or_else(|| missing(RUN))?
        .receive(product);
    Ok(())
}

pub(super) fn missing(name: &str) -> Error {
    Error::key_not_found(format!(
        "no observer `{name}` among the executor's observers: add it where the fuzzer is put together"
    ))
}

/// Identity of the sequence that really happened; all fault-free runs of one start are one.
#[must_use]
pub fn matched_id(record: &RunRecord) -> u64 {
    let Some(matched) = &record.matched else {
        return fnv1a(b"");
    };
    if matched.faults.is_empty() {
        return match matched.start {
            StartState::Cold => fnv1a(b""),
            start => fnv1a(start.to_string().as_bytes()),
        };
    }
    matched.identity()
}

fn store<S: Serializer>(product: &RunProduct, s: S) -> Result<S::Ok, S::Error> {
    (&product.record, &product.trace).serialize(s)
}

fn load<'de, D: Deserializer<'de>>(d: D) -> Result<RunProduct, D::Error> {
    let (record, trace) = <(RunRecord, Trace)>::deserialize(d)?;
    Ok(RunProduct {
        record,
        trace,
        ..RunProduct::default()
    })
}
