//! Which runs are saved as findings. AFL saves unique crashes; here the first five of each signature are saved, because a bug of a
//! distributed system is better understood, and better minimised, from several of its ways. The objective only proposes: the
//! fuzzer confirms and counts what it really saved ([`SavedBugs::save`]).

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
use warren_model::{Failure, FaultSequence, Judgement, Verdict};

/// So many runs of each signature are saved; from then on its runs may become seeds.
pub const SAVED_EACH: u32 = 5;
/// A signature whose replays did not show it so often is one that a busy machine makes, or a race that nobody can show.
pub const FELL_OFTEN: u32 = 3;

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
    /// Runs that were saved for it, which an unconfirmed one is not.
    pub saved: u32,
    /// How often its replays did not show it often enough, since they last did.
    pub fell: u32,
}

impl SavedBugs {
    /// Whether a signature was saved as often as we save one.
    #[must_use]
    fn well_saved(&self, signature: &str) -> bool {
        self.bugs
            .get(signature)
            .is_some_and(|c| c.saved >= SAVED_EACH)
    }

    /// The failure a run is to be saved for: the first that is not well saved, safety before liveness before hang. A bug that is
    /// known well must not hide another one that fails beside it.
    #[must_use]
    pub fn fresh<'a>(&self, judgement: &'a Judgement) -> Option<&'a Failure> {
        self.fresh_first(judgement, |_| ())
    }

    /// As [`SavedBugs::fresh`]; of those equally serious the one of the least `rank` comes first.
    #[must_use]
    pub fn fresh_first<'a, R: Ord>(
        &self,
        judgement: &'a Judgement,
        rank: impl Fn(&Failure) -> R,
    ) -> Option<&'a Failure> {
        judgement
            .failures
            .iter()
            .filter(|f| !self.well_saved(&f.signature))
            .min_by_key(|f| (f.kind.rank(), rank(f)))
    }

    /// Whether a signature fell so often that nothing is expected of it any more.
    #[must_use]
    pub fn fell_often(&self, signature: &str) -> bool {
        self.bugs
            .get(signature)
            .is_some_and(|c| c.fell >= FELL_OFTEN)
    }

    /// Whether a failing run may show a bug that is not known well: its own runs are to be found in the corpus no more than other failing ones.
    /// What fell often is looked at still ([`SavedBugs::fresh`]), and its run is one like any other.
    #[must_use]
    pub fn promises(&self, judgement: &Judgement) -> bool {
        let mut all = judgement.failures.iter().map(|f| f.signature.as_str());
        all.any(|s| !self.well_saved(s) && !self.fell_often(s))
    }

    /// Counts a failing run, once for each of its signatures.
    pub fn saw(&mut self, judgement: &Judgement) {
        for s in judgement.signatures() {
            let seen = &mut self.bugs.entry(s.to_owned()).or_default().seen;
            *seen = seen.saturating_add(1);
        }
    }

    /// A run was saved for this signature.
    pub fn save(&mut self, signature: &str) {
        let saved = &mut self.bugs.entry(signature.to_owned()).or_default().saved;
        *saved = saved.saturating_add(1);
    }

    /// The replays of a run did not show this signature often enough.
    pub fn fell(&mut self, signature: &str) {
        let fell = &mut self.bugs.entry(signature.to_owned()).or_default().fell;
        *fell = fell.saturating_add(1);
    }

    /// The replays of a run showed it often enough: whatever they did before, something is expected of it.
    pub fn stood(&mut self, signature: &str) {
        self.bugs.entry(signature.to_owned()).or_default().fell = 0;
    }
}

/// Interesting = the run fails and the signature of one of its failures was saved fewer than five times, and did not fall three times. Void runs
/// never fail.
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
        let bugs = state.metadata_or_insert_with(SavedBugs::default);
        bugs.saw(judgement);
        Ok(bugs.promises(judgement))
    }
}
