//! The campaign on real clusters: the executor's LibAFL executor with feedback's observers and sink.

use super::drive::{Drive, Observers};
use super::engine::campaign;
use super::options::{FuzzEnd, FuzzOptions};
use super::session::ms;
use crate::campaign::FuzzError;
use crate::coverage::Recording;
use crate::fuzz::Snapshot;
use libafl::Error;
use libafl::executors::HasObservers;
use libafl_bolts::tuples::tuple_list;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use warren_executor::RunOptions;
use warren_executor::libafl_executor::ClusterExecutor;
use warren_executor::run::{RunError, Runner, learn_background};
use warren_feedback::{Judge, RunObserver, coverage_observer, sink};
use warren_model::{ClusterShape, FaultSequence, RunProduct, StackId};

type Sink = Box<dyn FnMut(RunProduct, &mut Observers)>;

/// Fuzzes a target that is set up. Learns first; ends at a limit, at the stop flag, at exhaustion, or at a finding with
/// `exit_on_bug`.
///
/// # Errors
/// [`FuzzError::HoldsCampaign`] before anything is run; a cluster that cannot be run or fails without faults; I/O.
pub fn run(options: FuzzOptions, runner: Runner) -> Result<FuzzEnd, FuzzError> {
    let judge = Judge::new(runner.rules().clone())
        .map(|j| Arc::new(Mutex::new(j)))
        .map_err(|e| FuzzError::Usage(e.to_string()))?;
    let observers = tuple_list!(
        coverage_observer(runner.config().map_size),
        RunObserver::new(judge.clone())
    );
    let base = RunOptions {
        dump_classes: options.dump_classes.clone(),
        ..RunOptions::default()
    };
    let table = runner.prepared().probes().map(|p| p.table().to_owned());
    let mut recording =
        table.map(|table| Recording::new(options.out.join(&options.instance), table));
    let snapshot = options.snapshot.clone();
    let give: Sink = Box::new(move |product, observers: &mut Observers| {
        if let Some(recording) = &mut recording {
            let faults = product
                .record
                .sequence
                .as_ref()
                .map_or(0, |s| s.faults.len());
            let at_ms = snapshot.with(|s| campaign_ms(s, Instant::now()));
            if let Some(why) = recording.take(&product.probes, faults, at_ms) {
                snapshot.with(|s| s.lines.push(why));
            }
        }
        if let Err(e) = sink(product, observers) {
            // Maps and observers are resized together, and both observers are there: this is a mistake of ours, and the run
            // then shows as one without coverage and without a judgement.
            eprintln!("warren: a run's product was lost: {e}");
        }
    });
    let executor = ClusterExecutor::new(runner, base, observers, give);
    campaign(options, executor, &judge)
}

/// Time of the campaign, ms: of learning and of fuzzing, over all processes.
fn campaign_ms(s: &Snapshot, now: Instant) -> u64 {
    let since = |t: Instant| ms(now.saturating_duration_since(t));
    let learning = match s.started {
        Some(t) if s.learning => since(t),
        _ => s.learning_ms,
    };
    // An earlier process fuzzed, and this one has not begun to.
    learning + s.fuzz_started.map_or(s.run_time_ms, since)
}

impl Drive for ClusterExecutor<Observers, Sink> {
    fn room(&self) -> usize {
        self.runner().room()
    }

    fn distrust_prefix(&self, sequence: &FaultSequence) {
        self.runner().distrust_prefix(sequence);
    }

    fn options_mut(&mut self) -> &mut RunOptions {
        ClusterExecutor::options_mut(self)
    }

    fn shape(&self) -> &ClusterShape {
        self.runner().shape()
    }

    fn whole_start(&self) -> bool {
        self.runner().prepared().target().started.is_some()
    }

    fn kernel_cuts(&self) -> Result<(), String> {
        self.runner().kernel_cuts()
    }

    fn map_size(&self) -> usize {
        self.runner().config().map_size
    }

    fn resize_map(&mut self, size: usize) -> Result<(), Error> {
        self.runner_mut()?.config_mut().map_size = size;
        self.observers_mut().0 = coverage_observer(size);
        Ok(())
    }

    fn learn_background(&mut self) -> Result<Vec<StackId>, Error> {
        let options = ClusterExecutor::options_mut(self).clone();
        let stacks = learn_background(self.runner(), &options).map_err(|e| match &e {
            RunError::Late { .. } => Error::runtime(e.to_string()),
            _ if e.is_lasting() => Error::illegal_argument(e.to_string()),
            _ => Error::illegal_state(e.to_string()),
        })?;
        self.runner_mut()?
            .config_mut()
            .background
            .clone_from(&stacks);
        Ok(stacks)
    }

    fn warm(&mut self, number: u8) -> Result<Result<(), String>, Error> {
        let options = ClusterExecutor::options_mut(self).clone();
        self.runner()
            .warm(number, &options)
            .map_err(|e| Error::runtime(e.to_string()))
    }

    fn take_up_background(&mut self, stacks: &[StackId]) -> Result<(), Error> {
        self.runner_mut()?.config_mut().background = stacks.to_vec();
        Ok(())
    }

    fn start(
        &mut self,
        ticket: usize,
        sequence: &FaultSequence,
        options: RunOptions,
    ) -> Result<(), Error> {
        ClusterExecutor::start(self, ticket, sequence, options)
    }

    fn next_ended(&mut self) -> Option<usize> {
        ClusterExecutor::next_ended(self)
    }

    fn take_ended(&mut self, ticket: usize) -> bool {
        ClusterExecutor::take_ended(self, ticket)
    }

    fn going_on(&self) -> usize {
        ClusterExecutor::going_on(self)
    }

    fn wait_for_one(&mut self) -> bool {
        ClusterExecutor::wait_for_one(self)
    }

    fn wait_for_all(&mut self) {
        ClusterExecutor::wait_for_all(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_of_the_campaign_is_learning_and_fuzzing_of_all_processes() {
        let t = Instant::now();
        let now = t + Duration::from_secs(100);
        let of = |learning, learning_ms, fuzz_started, run_time_ms| Snapshot {
            started: Some(t),
            learning,
            learning_ms,
            fuzz_started,
            run_time_ms,
            ..Snapshot::default()
        };
        let begun = Some(t + Duration::from_secs(70));
        let table = [
            ("learning", of(true, 0, None, 0), 100_000),
            ("fuzzing", of(false, 60_000, begun, 0), 90_000),
            (
                "learning after fuzzing",
                of(true, 60_000, None, 5_000),
                105_000,
            ),
            ("before all", Snapshot::default(), 0),
        ];
        for (what, s, want) in table {
            assert_eq!(campaign_ms(&s, now), want, "{what}");
        }
    }
}
