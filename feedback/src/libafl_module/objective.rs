//! Which runs are saved as findings. AFL saves unique crashes; here the first five of each signature are saved, because a bug of a
//! distributed system is better understood, and better minimised, from several of its ways.

use super::observer::{RUN, RunObserver, missing};
use libafl::{
    Error, HasMetadata,
    executors::ExitKind,
    feedbacks::{Feedback, StateInitializer},
};
use libafl_bolts::{
    Named, impl_serdeany,
    tuples::{Handle, MatchName, MatchNameRef},
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use warren_model::{FaultSequence, Verdict};

/// So many runs of each signature are saved; from then on its runs may become seeds (design, section 7).
pub const SAVED_EACH: u32 = 5;

/// How often each signature was met and saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBugs {
    pub bugs: BTreeMap<String, BugCount>,
}
impl_serdeany!(SavedBugs);

/// Counts of one signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BugCount {
    /// Runs that showed it.
    pub seen: u32,
    /// Runs that were saved for it.
    pub saved: u32,
}

impl SavedBugs {
    /// Whether a signature was saved as often as we save one.
    #[must_use]
    pub fn well_saved(&self, signature: &str) -> bool {
        self.bugs
            .get(signature)
            .is_some_and(|c| c.saved >= SAVED_EACH)
    }

    /// Counts a failing run; true when it is to be saved.
    pub fn count(&mut self, signature: &str) -> bool {
        let c = self.bugs.entry(signature.to_owned()).or_default();
        c.seen = c.seen.saturating_add(1);
        let save = c.saved < SAVED_EACH;
        c.saved += u32::from(save);
        save
    }

    /// Distinct signatures: AFL's `saved_crashes` counts these runs' files, this counts bugs.
    #[must_use]
    pub fn unique(&self) -> usize {
        self.bugs.len()
    }
}

/// Interesting = the run fails and its signature (that of its first failure, safety before liveness) was saved fewer than five
/// times. Void runs never fail.
#[derive(Clone, Debug)]
pub struct VerdictObjective {
    run: Handle<RunObserver>,
}

impl VerdictObjective {
    /// Over the observer named `run`.
    #[must_use]
    pub fn new() -> Self {
        VerdictObjective {
            run: Handle::new(Cow::Borrowed(RUN)),
        }
    }
}

impl Default for VerdictObjective {
    fn default() -> Self {
        Self::new()
    }
}

impl Named for VerdictObjective {
    fn name(&self) -> &Cow<'static, str> {
        static NAME: Cow<'static, str> = Cow::Borrowed("verdict");
        &NAME
    }
}

impl<S: HasMetadata> StateInitializer<S> for VerdictObjective {
    fn init_state(&mut self, state: &mut S) -> Result<(), Error> {
        state.metadata_or_insert_with(SavedBugs::default);
        Ok(())
    }
}

impl<EM, OT, S> Feedback<EM, FaultSequence, OT, S> for VerdictObjective
where
    OT: MatchName,
    S: HasMetadata,
{
    fn is_interesting(
        &mut self,
        state: &mut S,
        _manager: &mut EM,
        _input: &FaultSequence,
        observers: &OT,
        _kind: &ExitKind,
    ) -> Result<bool, Error> {
        let judgement = observers
            .get(&self.run)
            .ok_or_else(|| missing(RUN))?
            .judgement();
        if judgement.verdict != Verdict::Fail || judgement.void.is_some() {
            return Ok(false);
        }
        let Some(signature) = judgement.signature() else {
            return Ok(false);
        };
        Ok(state
            .metadata_or_insert_with(SavedBugs::default)
            .count(signature))
    }
}
