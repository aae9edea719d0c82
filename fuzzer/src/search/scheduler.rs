//! LibAFL's thin view of the search: corpus = kept runs; `next` picks (seed run, class, occurrence) and leaves it in the state for
//! the stage that runs it. An exhausted queue is `Error::Empty`, which the loop turns into a normal end.

use super::queue::{Oldest, Pick, Queue};
use super::warren::{Parts, Shares, Turn, Warren};
use crate::search::StrategyKind;
use libafl::corpus::{Corpus, CorpusId};
use libafl::schedulers::Scheduler;
use libafl::state::{HasCorpus, HasRand};
use libafl::{Error, HasMetadata};
use libafl_bolts::rands::Rand;
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
    /// A run goes on with drawn faults. Last: the number of a variant is stored.
    Tail,
}

libafl_bolts::impl_serdeany!(NextRun);

/// Rows that may be begun and not at their end: the prefixes of more would not be held until their turn (`warren_executor`, 8).
const MAX_ROWS: usize = 6;

/// Picks by a strategy.
#[derive(Clone, Debug)]
pub struct SearchScheduler {
    strategy: StrategyKind,
    parts: Parts,
    shares: Shares,
    cold_share: f64,
    in_a_row: u32,
    rows: Vec<Row>,
    /// Rows that are over, and the children they took.
    over: (u32, u32),
}

/// Children of one seed run that are picked in a row, because they can share a prefix snapshot.
#[derive(Clone, Copy, Debug)]
struct Row {
    seed: u64,
    left: u32,
    taken: u32,
    /// No child of the seed run is out: that of the first has ended, and mostly made what the others share.
    open: bool,
    /// So many children of the seed run had missed when the row was begun.
    missed: u32,
}

impl SearchScheduler {
    /// A scheduler for a strategy with these parts, which have these shares of the turns; so large a share of the picks starts cold, and so
    /// many children of one seed run are picked in a row where they can share its faults. Its state is the metadata [`Queue`], [`Warren`]
    /// and [`NextRun`]; a row that a kill cuts off is not taken up again, and how long rows were is learnt anew.
    #[must_use]
    pub fn new(
        strategy: StrategyKind,
        parts: Parts,
        shares: Shares,
        cold_share: f64,
        in_a_row: u32,
    ) -> Self {
        SearchScheduler {
            strategy,
            parts,
            shares,
            cold_share,
            in_a_row,
            rows: Vec::new(),
            over: (1, in_a_row.max(1)),
        }
    }

    fn pick(&mut self, queue: &mut Queue, rand: &mut impl Rand) -> Option<Pick> {
        if let Some(pick) = self.next_in_a_row(queue, rand) {
            return Some(pick);
        }
        let begun = |seed| self.rows.iter().any(|r| r.seed == seed);
        let (pick, row) = queue.pick_rows(rand, self.cold_share, self.length(), begun)?;
        if row {
            self.rows.push(Row {
                seed: pick.seed,
                left: self.in_a_row - 1,
                open: false,
                taken: 1,
                missed: queue.missed(pick.seed),
            });
        }
        Some(pick)
    }

    /// Of the rows whose first child's run has ended, the next child of the one begun first: before, a run would only wait in its slot for
    /// what that one makes. With too many rows begun the first goes on as it is. A row is over when a child of its seed run has missed: the
    /// others would mostly miss too, one after the other, and the queue knows now to draw that seed run less.
    fn next_in_a_row(&mut self, queue: &mut Queue, rand: &mut impl Rand) -> Option<Pick> {
        for at in (0..self.rows.len()).rev() {
            if queue.missed(self.rows[at].seed) > self.rows[at].missed {
                self.end_row(at);
            }
        }
        loop {
            let ready = |r: &Row| r.open || !queue.is_out(r.seed);
            let full = self.rows.len() >= MAX_ROWS;
            let at = self.rows.iter().position(ready).or(full.then_some(0))?;
            let row = &mut self.rows[at];
            row.open = true;
            row.left -= 1;
            let pick = queue.pick_of(row.seed, rand);
            row.taken += u32::from(pick.is_some());
            if row.left == 0 || pick.is_none() {
                self.end_row(at);
            }
            if pick.is_some() {
                return pick;
            }
        }
    }

    fn end_row(&mut self, at: usize) {
        let row = self.rows.remove(at);
        self.over = (self.over.0 + 1, self.over.1 + row.taken);
    }

    /// Of a row, on average: one that may have `in_a_row` children is mostly over earlier where many miss.
    fn length(&self) -> f64 {
        match self.in_a_row {
            0 | 1 => 1.0,
            _ => f64::from(self.over.1) / f64::from(self.over.0),
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
            (_, Turn::Tail) => (NextRun::Tail, first),
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
                let pick = self.pick(&mut queue, state.rand_mut());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::XoRand;
    use crate::search::children::{ChildFault, ClassKey, SeedClasses};
    use crate::search::queue::Kept;
    use crate::search::strata::Stratum;
    use warren_model::{Kind, Place, StackId};

    /// A queue of three seed runs with `children` each: one without faults, one with two from a cold start, one with two from a snapshot.
    fn queue(children: usize) -> Queue {
        let mut queue = Queue::default();
        for (seed, faults, cold) in [(0, 0, false), (1, 2, true), (2, 2, false)] {
            let kept = Kept {
                seed,
                cold,
                faults,
                time_ms: 1000,
                coverage: 10,
                alike: None,
            };
            let classes: SeedClasses = (0..children)
                .map(|i| {
                    let key = ClassKey {
                        stack: StackId(i as u64),
                        kind: Kind::Send,
                        place: Place::Before,
                        role: 0,
                        fault: ChildFault::Crash,
                        stratum: Stratum::All,
                    };
                    (key, vec![0])
                })
                .collect();
            queue.add(kept, &classes, |_| false, |_| false);
        }
        queue
    }

    /// Of the first so many picks.
    fn seeds(children: usize, in_a_row: u32, most: usize) -> Vec<u64> {
        let mut scheduler = SearchScheduler::new(
            StrategyKind::CrashFuzz,
            Parts::NONE,
            Shares::default(),
            0.15,
            in_a_row,
        );
        let (mut queue, mut rand) = (queue(children), XoRand::new(3));
        let picks = std::iter::from_fn(|| {
            let pick = scheduler.pick(&mut queue, &mut rand)?;
            queue.tested(&pick);
            Some(pick)
        });
        picks.take(most).map(|p| p.seed).collect()
    }

    #[test]
    fn children_that_can_share_their_faults_come_in_rows() {
        let seeds = seeds(300, 4, 240);
        let rows: Vec<(u64, usize)> = seeds
            .chunk_by(|a, b| a == b)
            .map(|row| (row[0], row.len()))
            .collect();
        let (last, rows) = rows.split_last().unwrap();
        let of = |seed| rows.iter().filter(move |(s, _)| *s == seed);
        assert!(of(2).all(|(_, n)| n % 4 == 0), "{rows:?} {last:?}");
        assert!(of(1).any(|(_, n)| *n == 1), "a cold start shares nothing");
        assert!(of(0).any(|(_, n)| *n == 1), "nor do no faults");
    }

    #[test]
    fn a_row_goes_on_when_its_first_child_has_ended() {
        let kind = StrategyKind::CrashFuzz;
        let mut scheduler = SearchScheduler::new(kind, Parts::NONE, Shares::default(), 0.15, 4);
        let (mut queue, mut rand) = (queue(300), XoRand::new(5));
        let mut out = Vec::new();
        // Slots side by side: what is picked has not ended when the next one is.
        while !out.iter().any(|p: &Pick| p.seed == 2) {
            out.push(scheduler.pick(&mut queue, &mut rand).unwrap());
        }
        for _ in 0..20 {
            let other = scheduler.pick(&mut queue, &mut rand).unwrap();
            assert_ne!(other.seed, 2, "its run would wait");
        }
        queue.tested(out.last().unwrap());
        let rest: Vec<u64> = (0..3)
            .map(|_| scheduler.pick(&mut queue, &mut rand).unwrap().seed)
            .collect();
        assert_eq!(rest, [2, 2, 2]);
    }

    #[test]
    fn a_row_is_over_when_a_child_has_missed() {
        let kind = StrategyKind::CrashFuzz;
        let mut scheduler = SearchScheduler::new(kind, Parts::NONE, Shares::default(), 0.0, 4);
        let (mut queue, mut rand) = (queue(300), XoRand::new(5));
        let mut rows: Vec<usize> = Vec::new();
        let mut last = 0;
        for _ in 0..200 {
            let pick = scheduler.pick(&mut queue, &mut rand).unwrap();
            match pick.seed {
                2 if last == 2 => *rows.last_mut().unwrap() += 1,
                2 => rows.push(1),
                _ => {}
            }
            last = pick.seed;
            match pick.seed {
                // Every other one of the second half.
                2 if rows.len() > 4 && rows.len().is_multiple_of(2) => {
                    _ = queue.not_injected(&pick)
                }
                _ => queue.tested(&pick),
            }
        }
        assert!(rows[..4].iter().all(|n| n % 4 == 0), "{rows:?}");
        let short = rows[4..].iter().filter(|n| **n < 4).count();
        assert!(short > 0 && rows.len() > 8, "{rows:?}");
    }

    #[test]
    fn rows_leave_each_seed_run_and_each_lineage_its_share() {
        let shares = |in_a_row| {
            let seeds = seeds(500, in_a_row, 400);
            [0, 1, 2].map(|s| seeds.iter().filter(|t| **t == s).count())
        };
        let (single, rows) = (shares(1), shares(4));
        for (a, b) in single.iter().zip(rows) {
            // Of rows of four there are fewer, so they scatter more.
            assert!(a.abs_diff(b) < 60, "{single:?} {rows:?}");
        }
    }

    /// Of two seed runs from a snapshot half of the children of one miss: the cold one has its share all the same.
    #[test]
    fn rows_that_are_over_early_leave_the_cold_lineage_its_share() {
        let kind = StrategyKind::CrashFuzz;
        let mut scheduler = SearchScheduler::new(kind, Parts::NONE, Shares::default(), 0.15, 4);
        let (mut queue, mut rand) = (queue(500), XoRand::new(7));
        let (mut cold, mut early) = (0, 0);
        for turn in 0..600 {
            let pick = scheduler.pick(&mut queue, &mut rand).unwrap();
            cold += u32::from(pick.seed == 1);
            if pick.seed == 2 && turn % 2 == 0 {
                queue.not_injected(&pick);
                early += 1;
            } else {
                queue.tested(&pick);
            }
        }
        assert!(early > 50, "{early}");
        assert!((60..130).contains(&cold), "{cold} of 600");
    }

    #[test]
    fn every_child_is_picked_once_and_few_of_them_one_by_one() {
        for children in [5, 30] {
            let seeds = seeds(children, 4, 1000);
            assert_eq!(seeds.len(), 3 * children);
            assert!(seeds.chunk_by(|a, b| a == b).any(|r| r.len() % 4 > 0));
        }
    }
}
