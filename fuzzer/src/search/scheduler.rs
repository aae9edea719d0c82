//! LibAFL's thin view of the search: corpus = kept runs; `next` picks (seed run, class, occurrence) and leaves it in the state for
//! the stage that runs it. An exhausted queue is `Error::Empty`, which the loop turns into a normal end.

use super::queue::{Pick, Queue};
use crate::fuzz::StrategyKind;
use libafl::corpus::{Corpus, CorpusId};
use libafl::schedulers::Scheduler;
use libafl::state::{HasCorpus, HasRand};
use libafl::{Error, HasMetadata};
use serde::{Deserialize, Serialize};
use warren_model::FaultSequence;

/// What the stage is to do next.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum NextRun {
    /// The strategy draws a sequence without a seed run.
    #[default]
    Draw,
    Child(Pick),
    /// Nothing in memory is left: read this parked seed run back.
    Unpark(u64),
}

libafl_bolts::impl_serdeany!(NextRun);

/// Picks by a strategy.
#[derive(Clone, Copy, Debug)]
pub struct SearchScheduler {
    strategy: StrategyKind,
    cold_share: f64,
}

impl SearchScheduler {
    /// A scheduler for a strategy; so large a share of the picks starts cold. Its state is the metadata [`Queue`] and
    /// [`NextRun`].
    #[must_use]
    pub fn new(strategy: StrategyKind, cold_share: f64) -> Self {
        SearchScheduler {
            strategy,
            cold_share,
        }
    }
}

impl<S> Scheduler<FaultSequence, S> for SearchScheduler
where
    S: HasCorpus<FaultSequence> + HasMetadata + HasRand,
{
    /// Classes need the run's trace, which the stage has at hand: it feeds the queue.
    fn on_add(&mut self, _state: &mut S, _id: CorpusId) -> Result<(), Error> {
        Ok(())
    }

    fn next(&mut self, state: &mut S) -> Result<CorpusId, Error> {
        let first = state
            .corpus()
            .first()
            .ok_or_else(|| Error::empty("no kept run: learning comes first"))?;
        let (next, id) = match self.strategy {
            StrategyKind::RandomPoints => (NextRun::Draw, first),
            StrategyKind::CrashFuzz => {
                // Out of the state for a moment: the draw needs the state's random numbers.
                let mut queue = state
                    .metadata_map_mut()
                    .remove::<Queue>()
                    .map_or_else(Queue::default, |q| *q);
                let pick = queue.pick(state.rand_mut(), self.cold_share);
                let wanted = queue.wanted();
                state.add_metadata(queue);
                match (pick, wanted) {
                    (Some(pick), _) => {
                        let id = CorpusId::from(pick.seed);
                        (NextRun::Child(pick), id)
                    }
                    (None, Some(seed)) => (NextRun::Unpark(seed), CorpusId::from(seed)),
                    (None, None) => return Err(Error::empty("every class is exhausted")),
                }
            }
        };
        state.add_metadata(next);
        <Self as Scheduler<FaultSequence, S>>::set_current_scheduled(self, state, Some(id))?;
        Ok(id)
    }

    fn set_current_scheduled(&mut self, state: &mut S, id: Option<CorpusId>) -> Result<(), Error> {
        *state.corpus_mut().current_mut() = id;
        Ok(())
    }
}
