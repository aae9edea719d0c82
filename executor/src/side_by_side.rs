//! Runs of one runner that go on at the same time, each on a thread and in a slot of its own.
//!
//! Called by the LibAFL executor in `libafl_executor.rs`. It chooses no sequence and judges nothing: it starts what it is given
//! and hands the products back in the order in which the runs ended. A thread that dies, or cannot be had, costs its run alone.

use crate::run::{RunError, RunOptions, Runner};
use crossbeam::channel::{Receiver, Sender, unbounded};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use warren_model::record::RECORD_VERSION;
use warren_model::{FaultSequence, RunProduct, RunRecord, Void};

/// What a run came to.
pub type Ended = Result<RunProduct, RunError>;

/// A run that goes on.
struct Run {
    ticket: usize,
    thread: JoinHandle<()>,
    give_up: Arc<AtomicBool>,
}

/// The runs that go on, and those that ended and were not asked for yet.
pub struct SideBySide {
    going_on: Vec<Run>,
    ended: VecDeque<(usize, Ended)>,
    tell: Sender<(usize, Ended)>,
    told: Receiver<(usize, Ended)>,
}

impl Default for SideBySide {
    fn default() -> Self {
        let (tell, told) = unbounded();
        SideBySide {
            going_on: Vec::new(),
            ended: VecDeque::new(),
            tell,
            told,
        }
    }
}

impl SideBySide {
    /// Starts a run under a number that no other one has now. Where a run has worked before, one for which the system has no thread within a
    /// minute is void.
    ///
    /// # Errors
    /// The system gives no thread, and no run has worked yet.
    pub fn start(
        &mut self,
        ticket: usize,
        runner: Arc<Runner>,
        sequence: FaultSequence,
        options: RunOptions,
    ) -> Result<(), RunError> {
        let map_size = runner.config().map_size;
        let started = runner.in_time(&options, || {
            let (sequence, options) = (sequence.clone(), options.clone());
            let (asked, seed) = (sequence.clone(), options.seed);
            let (runner, give_up) = (Arc::clone(&runner), Arc::clone(&options.give_up));
            // The runner goes with the work, before the result is told: who has it may change the runner's settings.
            let work = move || runner.run(&sequence, &options);
            let died = move |said: &(dyn Any + Send)| {
                let why = format!("the thread of this run died: {}", words(said));
                void(asked, seed, map_size, why)
            };
            self.spawn(ticket, give_up, work, died)
        });
        let nothing = |why| void(sequence, options.seed, map_size, why);
        self.begun(ticket, started, runner.has_worked(), nothing)
    }

    /// What comes of a run whose thread cannot be had: with no word of one that worked, what was asked for may be too much.
    fn begun(
        &mut self,
        ticket: usize,
        started: std::io::Result<()>,
        worked: bool,
        void: impl FnOnce(String) -> RunProduct,
    ) -> Result<(), RunError> {
        const WHAT: &str = "starting a thread for a run";
        match started {
            Err(e) if worked => self
                .ended
                .push_back((ticket, Ok(void(format!("{WHAT}: {e}"))))),
            other => other.map_err(|e| RunError::io(WHAT, e))?,
        }
        Ok(())
    }

    /// Work on a thread of its own, and what it came to if the thread dies of it.
    fn spawn(
        &mut self,
        ticket: usize,
        give_up: Arc<AtomicBool>,
        work: impl FnOnce() -> Ended + Send + 'static,
        died: impl FnOnce(&(dyn Any + Send)) -> RunProduct + Send + 'static,
    ) -> std::io::Result<()> {
        let tell = self.tell.clone();
        let thread = Builder::new()
            .name(format!("slot-{ticket}"))
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(work))
                    .unwrap_or_else(|panic| Ok(died(panic.as_ref())));
                // Nobody asks any more when the campaign is over.
                let _ = tell.send((ticket, ended));
            })?;
        self.going_on.push(Run {
            ticket,
            thread,
            give_up,
        });
        Ok(())
    }

    /// The next run that ends, with its number; `None` when none goes on. Waits.
    pub fn next(&mut self) -> Option<(usize, Ended)> {
        if self.ended.is_empty() {
            self.wait_for_one();
        }
        self.ended.pop_front()
    }

    /// What the run of this number came to, if it has ended.
    pub fn take(&mut self, ticket: usize) -> Option<Ended> {
        let at = self.ended.iter().position(|(t, _)| *t == ticket)?;
        self.ended.remove(at).map(|(_, ended)| ended)
    }

    /// Runs that go on.
    pub fn going_on(&self) -> usize {
        self.going_on.len()
    }

    /// Waits until no run goes on. What they came to is still to be asked for.
    pub fn wait_for_all(&mut self) {
        while self.wait_for_one() {}
    }

    /// Waits for a run to end, which is still to be asked for; false when none goes on.
    pub fn wait_for_one(&mut self) -> bool {
        if self.going_on.is_empty() {
            return false;
        }
        let Ok((ticket, ended)) = self.told.recv() else {
            return false;
        };
        if let Some(at) = self.going_on.iter().position(|r| r.ticket == ticket) {
            // It has told its result; its panic, if there was one, is in there.
            let _ = self.going_on.swap_remove(at).thread.join();
        }
        self.ended.push_back((ticket, ended));
        true
    }
}

impl Drop for SideBySide {
    /// What goes on is given up, and has ended when this returns: no slot outlives its campaign.
    fn drop(&mut self) {
        for run in &self.going_on {
            run.give_up.store(true, Ordering::Relaxed);
        }
        self.wait_for_all();
    }
}

/// What a thread died of.
fn words(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

/// A run whose thread died, or could not be had, tells nothing, and is made again.
fn void(sequence: FaultSequence, seed: u64, map_size: usize, why: String) -> RunProduct {
    RunProduct {
        record: RunRecord {
            version: RECORD_VERSION,
            seed,
            sequence: Some(sequence),
            void: Some(Void::WentWrong(why)),
            ..RunRecord::default()
        },
        coverage: vec![0; map_size],
        ..RunProduct::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_died_makes_its_run_void_and_says_why() {
        let product = void(FaultSequence::empty("t"), 7, 4096, "no such page".into());
        assert_eq!(product.record.void, Some("no such page".into()));
        assert_eq!((product.coverage.len(), product.record.seed), (4096, 7));
        let said: [Box<dyn Any + Send>; 3] = [
            Box::new("no page"),
            Box::new(format!("node {}", 3)),
            Box::new(3),
        ];
        let said = said.map(|s| words(s.as_ref()));
        assert_eq!(said, ["no page", "node 3", ""]);
    }

    /// A campaign of days does not end because the machine is short of threads for a minute.
    #[test]
    fn a_thread_that_cannot_be_had_makes_its_run_void_where_a_run_has_worked() {
        let mut s = SideBySide::default();
        let mut begun = |ticket, worked| {
            let none = std::io::Error::from(std::io::ErrorKind::WouldBlock);
            let nothing = |why| void(FaultSequence::empty("t"), 7, 4096, why);
            s.begun(ticket, Err(none), worked, nothing)
        };
        assert!(begun(1, false).is_err(), "nothing has worked yet");
        begun(2, true).unwrap();
        begun(3, true).unwrap();
        let void = s.take(3).unwrap().unwrap().record.void;
        assert!(void.is_some_and(|v| v.to_string().contains("starting a thread")));
        let (ticket, ended) = s.next().unwrap();
        assert!(ticket == 2 && ended.unwrap().record.void.is_some());
        assert!(s.next().is_none() && s.going_on() == 0);
    }

    /// It costs its run alone: the others end as they would, and so does the campaign's wait.
    #[test]
    fn a_thread_that_dies_hands_over_a_void_run() {
        let mut s = SideBySide::default();
        let mut spawn = |ticket, work: fn() -> Ended| {
            let died =
                |said: &(dyn Any + Send)| void(FaultSequence::empty("t"), 7, 4096, words(said));
            s.spawn(ticket, Arc::default(), work, died).unwrap();
        };
        spawn(0, || panic!("no such page"));
        spawn(1, || Ok(RunProduct::default()));
        s.wait_for_all();
        let died = s.take(0).unwrap().unwrap().record.void;
        assert!(died.is_some_and(|v| v.to_string().contains("no such page")));
        assert_eq!(s.take(1).unwrap().unwrap().record.void, None);
        assert_eq!(s.going_on(), 0);
    }

    #[test]
    fn nothing_goes_on_at_first() {
        let mut s = SideBySide::default();
        assert!(s.next().is_none());
        s.wait_for_all();
    }
}
