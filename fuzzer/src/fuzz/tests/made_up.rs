//! The simulator in the executor's place: runs side by side are made when they are started, and end when they are asked for.

use crate::fuzz::State;
use crate::fuzz::drive::{Drive, Observers};
use crate::search::sim::{MAP, Sim};
use crate::seeds::needs_kernel;
use libafl::executors::{Executor, ExitKind, HasObservers};
use libafl::state::HasExecutions;
use libafl_bolts::tuples::{RefIndexable, tuple_list};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use warren_executor::RunOptions;
use warren_feedback::{Judge, RunObserver, coverage_observer, sink};
use warren_model::{ClusterShape, FaultSequence, Rules, RunProduct, StackId};

pub(super) type Tweak =
    Box<dyn FnMut(u64, &FaultSequence, &RunOptions, &mut warren_model::RunProduct)>;

/// The simulator in the executor's place.
pub(super) struct SimExecutor {
    pub(super) sim: Sim,
    pub(super) shape: ClusterShape,
    pub(super) options: RunOptions,
    pub(super) observers: Observers,
    pub(super) tweak: Tweak,
    pub(super) runs: u64,
    /// Started, in order, and what the next `run_target` hands over.
    pub(super) started: VecDeque<(usize, RunProduct)>,
    pub(super) ended: Option<RunProduct>,
    /// Runs that would go on now.
    pub(super) going_on: usize,
    /// Most that were started at once.
    pub(super) most: Rc<Cell<usize>>,
    /// What was started, and how many went on beside it.
    pub(super) beside: Rc<RefCell<Vec<(String, usize)>>>,
    /// Whose prefixes are to serve no more.
    pub(super) distrusted: Rc<RefCell<Vec<FaultSequence>>>,
    /// Whether packets can be dropped.
    pub(super) kernel_cuts: Result<(), String>,
}

impl SimExecutor {
    fn run(&mut self, input: &FaultSequence, options: &RunOptions) -> RunProduct {
        assert!(
            self.kernel_cuts.is_ok() || !needs_kernel(input),
            "it would be refused: {input:?}"
        );
        self.runs += 1;
        let mut product = self.sim.run(input);
        (self.tweak)(self.runs, input, options, &mut product);
        product
    }
}

impl<EM, Z> Executor<EM, FaultSequence, State, Z> for SimExecutor {
    fn run_target(
        &mut self,
        _fuzzer: &mut Z,
        state: &mut State,
        _manager: &mut EM,
        input: &FaultSequence,
    ) -> Result<ExitKind, libafl::Error> {
        *state.executions_mut() += 1;
        let product = match self.ended.take() {
            Some(product) => product,
            None => {
                assert_eq!(self.going_on, 0, "others go on beside a run of its own");
                let options = self.options.clone();
                self.run(input, &options)
            }
        };
        let timed_out = product.record.timed_out;
        sink(product, &mut self.observers)?;
        Ok(if timed_out {
            ExitKind::Timeout
        } else {
            ExitKind::Ok
        })
    }
}

impl HasObservers for SimExecutor {
    type Observers = Observers;
    fn observers(&self) -> RefIndexable<&Observers, Observers> {
        RefIndexable::from(&self.observers)
    }
    fn observers_mut(&mut self) -> RefIndexable<&mut Observers, Observers> {
        RefIndexable::from(&mut self.observers)
    }
}

impl Drive for SimExecutor {
    fn options_mut(&mut self) -> &mut RunOptions {
        &mut self.options
    }
    fn shape(&self) -> &ClusterShape {
        &self.shape
    }
    fn whole_start(&self) -> bool {
        false
    }
    fn kernel_cuts(&self) -> Result<(), String> {
        self.kernel_cuts.clone()
    }
    fn map_size(&self) -> usize {
        MAP
    }
    fn distrust_prefix(&self, sequence: &FaultSequence) {
        self.distrusted.borrow_mut().push(sequence.clone());
    }
    fn room(&self) -> usize {
        usize::MAX
    }
    fn resize_map(&mut self, _size: usize) -> Result<(), libafl::Error> {
        unreachable!("the made-up cluster sets few slots")
    }
    fn learn_background(&mut self) -> Result<Vec<StackId>, libafl::Error> {
        Ok(Vec::new())
    }
    fn warm(&mut self, number: u8) -> Result<Result<(), String>, libafl::Error> {
        Ok(match number {
            0..=3 => Ok(()),
            _ => Err("the made-up cluster has three".into()),
        })
    }
    fn take_up_background(&mut self, _stacks: &[StackId]) -> Result<(), libafl::Error> {
        Ok(())
    }
    fn start(
        &mut self,
        ticket: usize,
        sequence: &FaultSequence,
        options: RunOptions,
    ) -> Result<(), libafl::Error> {
        assert!(self.started.iter().all(|(t, _)| *t != ticket), "{ticket}");
        let product = self.run(sequence, &options);
        self.started.push_back((ticket, product));
        (self.beside.borrow_mut()).push((sequence.to_text(), self.going_on));
        self.going_on += 1;
        self.most.set(self.most.get().max(self.going_on));
        Ok(())
    }
    fn next_ended(&mut self) -> Option<usize> {
        let (ticket, product) = self.started.pop_front()?;
        self.ended = Some(product);
        // It may have ended before it was asked for.
        self.going_on = self.going_on.min(self.started.len());
        Some(ticket)
    }
    fn take_ended(&mut self, ticket: usize) -> bool {
        // The first of those that go on end first.
        let ended = self.started.len() - self.going_on;
        let at = (self.started.iter().take(ended)).position(|(t, _)| *t == ticket);
        self.ended = at.and_then(|at| self.started.remove(at)).map(|(_, p)| p);
        at.is_some()
    }
    fn going_on(&self) -> usize {
        self.going_on
    }
    fn wait_for_one(&mut self) -> bool {
        let any = self.going_on > 0;
        self.going_on = self.going_on.saturating_sub(1);
        any
    }
    fn wait_for_all(&mut self) {
        self.going_on = 0;
    }
}

pub(super) fn executor(sim: Sim, tweak: Tweak) -> (SimExecutor, Arc<Mutex<Judge>>) {
    let judge = Arc::new(Mutex::new(
        Judge::new(Rules {
            // Asked only where a test says that the machine stood still.
            tick_ms: 100,
            ..Rules::default()
        })
        .unwrap(),
    ));
    let shape = sim.shape();
    (
        SimExecutor {
            sim,
            shape,
            options: RunOptions::default(),
            observers: tuple_list!(coverage_observer(MAP), RunObserver::new(judge.clone())),
            tweak,
            runs: 0,
            started: VecDeque::new(),
            ended: None,
            going_on: 0,
            most: Rc::default(),
            beside: Rc::default(),
            distrusted: Rc::default(),
            kernel_cuts: Ok(()),
        },
        judge,
    )
}
