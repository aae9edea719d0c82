//! An instance that has tested all it had: what was put off for others, then kept runs of others. Called by the loop before it would
//! end as exhausted. Runs nothing, and changes nothing of another instance.

use crate::campaign::sync_file::KeptThere;
use crate::campaign::{EntryName, FuzzError, StoredRun, names};
use crate::fuzz::State;
use crate::fuzz::drive::Drive;
use crate::fuzz::instances::sync::Taken;
use crate::fuzz::kept::{add_seed, drawing, park, shape, test_stacks};
use crate::fuzz::session::Session;
use crate::search::Queue;
use crate::seeds::needs_kernel;
use libafl::HasMetadata;
use libafl::corpus::{Corpus, Testcase};
use libafl::state::{HasCorpus, HasExecutions};
use warren_feedback::KeptInfo;
use warren_model::FaultSequence;

impl Session {
    /// Nothing of its own is left: what was put off for others comes first, then a kept run of another instance, the newest,
    /// whose children the other has tried least. Answers whether there is something to do again.
    ///
    /// # Errors
    /// I/O in our own folder.
    pub fn take_over<E: Drive>(
        &mut self,
        executor: &E,
        state: &mut State,
    ) -> Result<bool, FuzzError> {
        if !self.shares_work() || !self.options.strategy.has_queue() {
            return Ok(false);
        }
        self.listen(state, true)?;
        let queue = state.metadata_mut::<Queue>()?;
        if queue.pending() > 0 {
            return Ok(true);
        }
        let back = queue.bring_back(true);
        if back > 0 {
            self.say(format!(
                "nothing else is left: {back} children that other instances were to test are looked at"
            ));
            self.commit(state)?;
            return Ok(true);
        }
        let offered: Vec<(String, KeptThere)> = self
            .instances
            .ours()
            .flat_map(|(name, o)| o.kept.iter().rev().map(|k| (name.clone(), *k)))
            .collect();
        for (name, kept) in offered {
            let runs = self.options.out.join(&name).join("runs");
            match StoredRun::read(&runs, kept.id) {
                Ok(stored)
                    if stored.matched().is_some_and(needs_kernel)
                        && executor.kernel_cuts().is_err() =>
                {
                    self.say_once(format!(
                        "instance {name}: packets are dropped in runs of it, which does not work here: such runs are not taken over"
                    ));
                }
                Ok(stored) => {
                    self.join(executor, state, &name, kept, stored)?;
                    return Ok(true);
                }
                Err(e) => self.say_once(format!(
                    "instance {name}: {e}: its run is not taken over now"
                )),
            }
        }
        Ok(false)
    }

    /// A kept run of another instance becomes one of ours, with its children.
    fn join<E: Drive>(
        &mut self,
        executor: &E,
        state: &mut State,
        name: &str,
        kept: KeptThere,
        stored: StoredRun,
    ) -> Result<(), FuzzError> {
        let runs = self.options.out.join(name).join("runs");
        // Recovery is what the run's own parent did not show; that of a parent that is not there, what no fault-free run did.
        let parent = stored.parent.and_then(|id| StoredRun::read(&runs, id).ok());
        let stacks = parent.map_or_else(
            || self.explored.fault_free_stacks.clone(),
            |p| test_stacks(&p.trace),
        );
        let sequence = stored.matched().cloned();
        let sequence = sequence.unwrap_or_else(|| FaultSequence::empty(&self.options.target));
        let id = state.corpus_mut().add(Testcase::new(sequence.clone()))?;
        *state.corpus().get(id)?.borrow_mut().input_mut() = None;
        let id = usize::from(id) as u64;
        let run = StoredRun {
            id,
            parent: None,
            ..stored
        };
        run.write(&self.folder.runs())?;
        let entry = EntryName {
            id,
            sync: Some(name.to_owned()),
            src: Some(kept.id),
            orig: None,
            time_ms: self.clock.fuzz_ms(),
            execs: *state.executions(),
            op: names::op(&sequence),
            new_coverage: false,
            bug: None,
        };
        self.redo.queue = Some((entry.to_string(), sequence.to_text()));
        let info = KeptInfo {
            slots: usize::try_from(kept.slots).unwrap_or(0),
            total_ms: run.whole_ms,
            ..KeptInfo::default()
        };
        let shape = shape(self, executor);
        let drawing = drawing(self, executor, &shape);
        add_seed(
            state,
            id,
            &run.record,
            &run.trace,
            run.bounds,
            &info,
            None,
            &drawing,
            &stacks,
        )?;
        park(self, state)?;
        self.counts.imported += 1;
        self.say(format!(
            "nothing else is left: run {:06} of instance {name} is taken over",
            kept.id
        ));
        let other = self.instances.others.entry(name.to_owned()).or_default();
        let taken = Taken {
            name: name.to_owned(),
            place: other.place,
            ended: other.ended,
            heard_ms: other.heard_ms,
            over: Some(kept),
            ..Taken::default()
        };
        other.take(&taken);
        self.news.taken.push(taken);
        self.commit(state)
    }
}
