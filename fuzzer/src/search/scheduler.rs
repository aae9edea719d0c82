//! LibAFL's thin view of the search: corpus = kept runs; `next` picks (seed run, class, occurrence) and leaves it in the state for
//! the stage that runs it. An exhausted queue is `Error::Empty`, which the loop turns into a normal end.

use super::queue::{Oldest, Pick, Queue};
use super::warren::{Parts, Shares, Turn, Warren};
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
    /// The child of this seed run that was made first.
    Oldest(u64),
    /// A shape is drawn.
    Shape,
    /// A kept run is changed.
    Havoc,
    /// Nothing in memory is left: read this parked seed run back.
    Unpark(u64),
}

libafl_bolts::impl_serdeany!(NextRun);

/// Picks by a strategy.
#[derive(Clone, Copy, Debug)]
pub struct SearchScheduler {
    strategy: StrategyKind,
    parts: Parts,
    shares: Shares,
    cold_share: f64,
}

impl SearchScheduler {
    /// A scheduler for a strategy with these parts, which have these shares of the turns; so large a share of the picks starts cold. Its state is the metadata [`Queue`],
    /// [`Warren`] and [`NextRun`].
    #[must_use]
    pub fn new(strategy: StrategyKind, parts: Parts, shares: Shares, cold_share: f64) -> Self {
        SearchScheduler {
            strategy,
            parts,
            shares,
            cold_share,
        }
    }

    fn turn<S: HasMetadata + HasRand>(&self, state: &mut S) -> Turn {
        if self.parts == Parts::NONE {
            return Turn::Child;
        }
        let warren = state.metadata_map().get::<Warren>().cloned();
        warren
            .unwrap_or_default()
            .turn(self.parts, self.shares, state.rand_mut())
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
        let (next, id) = match (self.strategy, self.turn(state)) {
            (StrategyKind::RandomPoints | StrategyKind::Random, _) => (NextRun::Draw, first),
            (_, Turn::Shape) => (NextRun::Shape, first),
            (_, Turn::Havoc) => (NextRun::Havoc, first),
            (StrategyKind::Fifo | StrategyKind::BruteForce, Turn::Child) => {
                let queue = state
                    .metadata_map_mut()
                    .remove::<Queue>()
                    .map_or_else(Queue::default, |q| *q);
                let oldest = queue.oldest(state.rand_mut(), self.cold_share);
                state.add_metadata(queue);
                match oldest {
                    Oldest::In(seed) => (NextRun::Oldest(seed), CorpusId::from(seed)),
                    Oldest::Parked(seed) => (NextRun::Unpark(seed), CorpusId::from(seed)),
                    Oldest::None => return Err(Error::empty("every class is exhausted")),
                }
            }
            (StrategyKind::CrashFuzz | StrategyKind::Warren, Turn::Child) => {
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
