//! Runs in slots side by side (`-j`): a sequence is begun in a free slot, and looked at when its run has ended. There is one search,
//! one queue and one journal, so no child is tested twice and coverage is one map whatever `-j` is (decision 0006).
//!
//! Called by the stage for each sequence and by the loop where something must have the machine for itself. It picks nothing, and
//! judges nothing. At `-j 1` each sequence is looked at before the next one is picked.

use crate::campaign::state::hook;
use crate::campaign::{FuzzError, RunRole};
use crate::fuzz::State;
use crate::fuzz::drive::Drive;
use crate::fuzz::figures::snapshot::CurrentRun;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::resume::saved::Job;
use crate::fuzz::session::Session;
use crate::fuzz::stage::{FuzzStage, pass_over, set_options};
use crate::search::{Origin, Queue};
use crate::seeds::needs_kernel;
use libafl::HasMetadata;
use libafl::corpus::{Corpus, CorpusId};
use libafl::state::HasCorpus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use warren_executor::PrefixUse;
use warren_model::FaultSequence;

/// A sequence whose run goes on, or has ended and was not looked at yet.
pub struct UnderWay {
    pub run: Started,
    pub job: Job,
}

/// A run that goes on.
pub(in crate::fuzz) struct Started {
    /// The number it was started under.
    pub slot: usize,
    /// Key `n` sets it.
    pub give_up: Arc<AtomicBool>,
}

/// A run to be started beside others.
pub(in crate::fuzz) struct ToStart<'a> {
    pub sequence: &'a FaultSequence,
    /// For the screen; since when is set when it starts.
    pub shown: CurrentRun,
    pub limit: Duration,
    pub durable: bool,
    /// How long each fault is waited for; empty: as the limits say.
    pub waits: Vec<Duration>,
    pub prefix: PrefixUse,
}

/// A sequence that needs packets dropped is run only where they can be.
fn has_rules<E: Drive>(executor: &E, sequence: &FaultSequence) -> Result<(), FuzzError> {
    if !needs_kernel(sequence) {
        return Ok(());
    }
    executor.kernel_cuts().map_err(|why| {
        FuzzError::Cluster(format!(
            "the next run needs packets dropped (how = \"drop\" or style = \"machine\"), which does not work here: {why}\n  \
             go on with `-i -` where it does (as root), or begin another campaign with -o: this one is kept as it is"
        ))
    })
}

impl Session {
    /// Starts a run in the first slot that neither one under way nor one of `others` has; not while the campaign is paused.
    ///
    /// # Errors
    /// The cluster cannot be run any more; the run needs packets dropped, and a campaign that was begun where that works is gone on with where it
    /// does not. Nothing is lost by that.
    pub(in crate::fuzz) fn start<E: Drive>(
        &mut self,
        executor: &mut E,
        run: ToStart<'_>,
        others: &[Started],
    ) -> Result<Started, FuzzError> {
        has_rules(executor, run.sequence)?;
        let paused = self.snapshot().wait_while_paused(|| self.stopping());
        self.paused(paused);
        let taken = self.beside.under_way.iter().map(|u| &u.run).chain(others);
        let slot = (0..).find(|slot| taken.clone().all(|t| t.slot != *slot));
        let slot = slot.unwrap_or_default();
        let shown = CurrentRun {
            since: Some(Instant::now()),
            ..run.shown
        };
        self.show_run(slot, shown);
        let mut options = executor.options_mut().clone();
        set_options(self, &mut options, slot, run.limit, run.durable);
        options.waits = run.waits;
        options.prefix = run.prefix;
        let give_up = options.give_up.clone();
        hook::point("run");
        executor.start(slot, run.sequence, options)?;
        Ok(Started { slot, give_up })
    }

    /// A run has ended and is looked at next.
    pub(in crate::fuzz) fn ended(&mut self, run: Started) {
        self.beside.giving_up = run.give_up;
        if run.slot > 0 {
            self.show_run(run.slot, CurrentRun::default());
        }
    }

    /// Sequences tested, and those under way.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.counts.sequences + self.beside.under_way.len() as u64
    }

    /// One more sequence would be one more than `-E`.
    #[must_use]
    pub fn enough_begun(&self) -> bool {
        self.options
            .max_sequences
            .is_some_and(|n| self.begun() >= n)
    }

    /// The sequences that a campaign which is resumed has to begin again: those under way, in the order they were begun.
    #[must_use]
    pub fn unfinished(&self) -> Vec<Job> {
        let under_way = self.beside.under_way.iter().map(|u| &u.job);
        under_way.chain(&self.beside.waiting).cloned().collect()
    }

    /// Whether the run may begin where another one with the same first faults was dumped: only the first try of a child, for a run that
    /// is made again must show by itself what it shows.
    fn prefix_use(&self, state: &State, job: &Job) -> PrefixUse {
        let pick = job.pick.as_ref().filter(|p| p.tries == 0);
        let Some(pick) = pick.filter(|_| job.role == RunRole::Fuzz) else {
            return PrefixUse::Never;
        };
        let queue = state.metadata_map().get::<Queue>();
        match queue.is_some_and(|q| q.shares_prefix(pick.seed)) {
            _ if self.options.starts.in_a_row == 1 => PrefixUse::Never,
            true => PrefixUse::Make,
            false => PrefixUse::IfThere,
        }
    }

    /// Whose seed run the store and the journal name.
    fn set_seed_run(&self, state: &mut State, job: &Job) {
        let drawn = matches!(job.origin, Origin::Shape(_)) || !self.options.strategy.has_queue();
        let current = match job.seed_run() {
            Some(seed) => Some(CorpusId::from(seed as usize)),
            // A seed that was given has none.
            None if self.seeds.first_try().is_some() => None,
            None if drawn => state.corpus().first(),
            None => None,
        };
        *state.corpus_mut().current_mut() = current;
    }
}

impl FuzzStage {
    /// Begins a sequence in a free slot. When none is free then, one that has ended is looked at.
    ///
    /// # Errors
    /// As the stage itself.
    pub fn begin<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
        job: Job,
    ) -> Result<(), FuzzError> {
        if let Err(e) = has_rules(handed.executor, &job.sequence) {
            // What ended beside it may not show again what it showed. In what is written meanwhile this one is begun.
            self.session.beside.waiting.insert(0, job);
            self.look_at_all(handed)?;
            return Err(e);
        }
        let session = &mut self.session;
        // A retest that Ctrl-C cut off keeps what it was promised.
        let limit = match job.retested {
            true => session.limits.run * 2,
            false => session.limits.run,
        };
        let run = ToStart {
            sequence: &job.sequence,
            shown: CurrentRun {
                doing: crate::fuzz::stage::doing(job.role).into(),
                faults: job.lines.clone(),
                kinds: job.sequence.kinds(),
                why: job.why.clone(),
                seed_run: job.seed_run(),
                ..CurrentRun::default()
            },
            limit,
            durable: job.durable,
            // What is run once more has the whole time.
            waits: match job.role {
                RunRole::Fuzz => job.waits.clone(),
                _ => Vec::new(),
            },
            prefix: session.prefix_use(handed.state, &job),
        };
        let run = session.start(handed.executor, run, &[])?;
        session.beside.under_way.push(UnderWay { run, job });
        if session.beside.under_way.len() < session.beside.slots {
            return Ok(());
        }
        self.look_at_one(handed)
    }

    /// Waits for the next run that ends, and looks at it: repeats it where it told nothing, evaluates, settles, decides.
    ///
    /// # Errors
    /// As the stage itself.
    pub fn look_at_one<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
    ) -> Result<(), FuzzError> {
        let Some(ended) = handed.executor.next_ended() else {
            return Ok(());
        };
        let session = &mut self.session;
        let Some(at) = (session.beside.under_way.iter()).position(|u| u.run.slot == ended) else {
            return Ok(());
        };
        let UnderWay { run, job } = session.beside.under_way.remove(at);
        session.ended(run);
        session.set_seed_run(handed.state, &job);
        self.look_at(handed, job)
    }

    /// The campaign ends: of those under way that have ended by themselves a failure is kept as unconfirmed. Waits for none; all are begun
    /// again when the campaign goes on.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn pass_over_ended<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
    ) -> Result<(), FuzzError> {
        let session = &mut self.session;
        while let Some(at) =
            (session.beside.under_way.iter()).position(|u| handed.executor.take_ended(u.run.slot))
        {
            let UnderWay { run, job } = session.beside.under_way.remove(at);
            session.ended(run);
            session.set_seed_run(handed.state, &job);
            let mut observers = handed.executor.observers_mut();
            observers.1.0.expect_retest(job.retested);
            session.beside.waiting.push(job.clone());
            // A run that was none has nothing to tell, and the campaign ends for a better reason.
            if handed.execute(&job.sequence).is_err() {
                continue;
            }
            pass_over(session, handed.executor, handed.state, &job)?;
            session.commit(handed.state)?;
        }
        Ok(())
    }

    /// Looks at all that are under way.
    ///
    /// # Errors
    /// As the stage itself.
    pub fn look_at_all<E: Cluster, EM, Z: Fuzzes<E, EM>>(
        &mut self,
        handed: &mut Handed<'_, E, EM, Z>,
    ) -> Result<(), FuzzError> {
        while !self.session.beside.under_way.is_empty() {
            self.look_at_one(handed)?;
        }
        Ok(())
    }
}
