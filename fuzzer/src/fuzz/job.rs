//! What is run next, as a sequence: a child of a kept run, a cast shape, a kept run changed or gone on with, or a drawn baseline. Called by the stage with
//! what the scheduler left; runs nothing. `None` = it was tested before, or is not possible after all: the scheduler is asked again.

use super::State;
use super::drive::Drive;
use super::kept::{drawing, left_out, seed_of, shape, stored};
use super::session::Session;
use super::stage::DURABLE_EVERY;
use crate::campaign::{FuzzError, StoredRun};
use crate::fuzz::figures::describe::describe;
use crate::fuzz::resume::saved::Job;
use crate::search::children::whoever_comes;
use crate::search::havoc::{Op, Operator, Parent};
use crate::search::rand::{below, chance};
use crate::search::shapes::Ground;
use crate::search::warren::WHOLE;
use crate::search::{
    Drawing, NextRun, Origin, Parts, Pick, Queue, StrategyKind, Warren, energy, random,
    random_points, shapes, symmetry, waits,
};
use libafl::HasMetadata;
use libafl::corpus::Corpus;
use libafl::mutators::{MutationResult, Mutator};
use libafl::state::{HasCorpus, HasRand};
use std::rc::Rc;
use warren_model::{ClusterShape, FaultSequence, StartState, Trace};

/// Kept runs that are looked at for one of a lineage that has the energy.
const KEPT_TRIES: u32 = 64;

impl Session {
    /// The sequence behind a turn.
    ///
    /// # Errors
    /// I/O; a fault-free trace in which nothing can be placed.
    pub(super) fn make_job<E: Drive>(
        &mut self,
        executor: &E,
        state: &mut State,
        next: NextRun,
    ) -> Result<Option<Job>, FuzzError> {
        let shape = shape(self, executor);
        let drawing = drawing(self, executor, &shape);
        match next {
            NextRun::Child(pick) => match stored(self, state, pick.seed)? {
                Some(stored) => self.child(state, &drawing, &stored, pick),
                None => Ok(None),
            },
            NextRun::Oldest(seed) => {
                let Some(stored) = stored(self, state, seed)? else {
                    return Ok(None);
                };
                let classes = seed_of(&stored.record, &stored.trace, stored.bounds)
                    .map(|s| s.classes(&drawing))
                    .unwrap_or_default();
                let pick = state.metadata_mut::<Queue>()?.take_oldest(seed, &classes);
                match pick {
                    Some(pick) => self.child(state, &drawing, &stored, pick),
                    None => Ok(None),
                }
            }
            NextRun::Shape => self.shape(executor, state, &drawing),
            NextRun::Havoc => self.havoc(state, &drawing),
            NextRun::Tail => self.tail(state, &drawing),
            NextRun::Draw => self.baseline(state, &drawing).map(Some),
            // It is no run.
            NextRun::Unpark(_) => Ok(None),
        }
    }

    fn every_tenth(&self) -> bool {
        self.begun() % DURABLE_EVERY == DURABLE_EVERY - 1
    }

    fn baseline(&mut self, state: &mut State, drawing: &Drawing<'_>) -> Result<Job, FuzzError> {
        let start = self.draw_start(state);
        let strategy = self.options.strategy;
        let (sequence, lines) = if strategy == StrategyKind::Random {
            let (mean, target) = (self.mean_test_ms(), &self.options.target);
            let sequence = random::draw(mean, target, start, drawing, state.rand_mut());
            let lines = describe(&sequence, &Trace::default());
            (sequence, lines)
        } else {
            let ground = self.ground(start)?;
            let target = &self.options.target;
            let sequence = random_points::draw(&ground, target, drawing, state.rand_mut());
            let lines = describe(&sequence, &ground.trace);
            (sequence, lines)
        };
        if sequence.faults.is_empty() {
            return Err(FuzzError::Learning(
                "no fault may happen anywhere in a fault-free run; check --faults, max_dead and [target] include".into(),
            ));
        }
        Ok(Job {
            lines,
            sequence,
            why: strategy.to_string(),
            durable: self.durable_owed() || self.every_tenth(),
            ..Job::default()
        })
    }

    /// How long a test phase lasts on average, over learning runs and tested sequences.
    fn mean_test_ms(&self) -> u64 {
        let (sum, runs) = self.counts.test_ms();
        let learned = self
            .learnt
            .tests
            .iter()
            .chain([&self.explored.root_test_ms]);
        let (mut sum, mut runs) = (sum, runs);
        for ms in learned {
            sum += ms;
            runs += 1;
        }
        sum / runs
    }

    fn draw_start(&self, state: &mut State) -> StartState {
        random_points::start(self.learnt.snapshots(), self.cold_share(), state.rand_mut())
    }

    fn child(
        &mut self,
        state: &mut State,
        drawing: &Drawing<'_>,
        stored: &StoredRun,
        pick: Pick,
    ) -> Result<Option<Job>, FuzzError> {
        let seed = seed_of(&stored.record, &stored.trace, stored.bounds);
        let made = seed.as_ref().and_then(|s| {
            let event = *s
                .classes(drawing)
                .get(&pick.key)?
                .get(pick.occurrence as usize)?;
            let t_ns = s.trace.events.get(event as usize)?.t_ns;
            Some((s.child(drawing, event, pick.key.fault)?, t_ns))
        });
        let queue = state.metadata_mut::<Queue>()?;
        let Some((sequence, t_ns)) = made else {
            queue.needs_no_run(&pick);
            return Ok(None);
        };
        let plain = sequence.identity();
        if pick.tries == 0
            && !pick.free
            && !self.explored.tested.contains(&plain)
            && self.belongs_to_another(&stored.record, plain)
        {
            queue.put_off(&pick);
            return Ok(None);
        }
        let lines = describe(&sequence, &stored.trace);
        let sequence = match pick.tries {
            0 => sequence,
            _ => whoever_comes(sequence),
        };
        // Siblings at different nodes may be one sequence once whoever comes first is taken: asked when this form is new, as from then on it is its own.
        let relaxed = pick.tries == 1 && sequence.identity() != plain;
        let job = Job {
            lines,
            why: reason(&pick, &sequence),
            twin: twin(&sequence, drawing.parts, drawing.shape),
            sequence,
            waits: match pick.tries {
                0 => waits::of_child(&stored.record.injected, t_ns, self.limits.fault_wait),
                _ => Vec::new(),
            },
            ..Job::default()
        };
        if !self.take_note(&job) && (pick.tries == 0 || relaxed) {
            state.metadata_mut::<Queue>()?.needs_no_run(&pick);
            return Ok(None);
        }
        let due = self.explored.durable_due.remove(&pick.seed);
        if due {
            self.news.durable_out.push(pick.seed);
        }
        Ok(Some(Job {
            pick: Some(pick),
            durable: due || self.every_tenth(),
            ..job
        }))
    }

    fn shape<E: Drive>(
        &mut self,
        executor: &E,
        state: &mut State,
        drawing: &Drawing<'_>,
    ) -> Result<Option<Job>, FuzzError> {
        self.find_shapes_never_cast(executor, drawing)?;
        let start = self.draw_start(state);
        let ground = self.ground(start)?;
        let warren = state.metadata_mut::<Warren>()?.clone();
        let (all, target) = (&self.options.shapes, &self.options.target);
        let never = &self.explored.never_cast;
        let all = all.iter().filter(|s| !never.contains(&s.name));
        let Some((name, sequence)) =
            shapes::draw(all, &warren, &ground, target, drawing, state.rand_mut())
        else {
            self.say_once(
                "no shape can be cast on this cluster: their turns go to the others".into(),
            );
            return Ok(None);
        };
        let why = format!("shape {name}{}", from(&sequence));
        let origin = Origin::Shape(name);
        Ok(self.drawn(sequence, origin, why, &ground.trace, drawing))
    }

    /// Before the first shape is cast: a user would wait in vain for these, and as none of them is ever tested, their weight would stay the highest.
    fn find_shapes_never_cast<E: Drive>(
        &mut self,
        executor: &E,
        drawing: &Drawing<'_>,
    ) -> Result<(), FuzzError> {
        if !self.explored.grounds.is_empty() {
            return Ok(());
        }
        let starts: Vec<StartState> = self.learnt.roots.iter().map(|r| r.start).collect();
        let grounds: Vec<Rc<Ground>> = starts
            .into_iter()
            .map(|s| self.ground(s))
            .collect::<Result<_, FuzzError>>()?;
        let (all, target) = (&self.options.shapes, &self.options.target);
        let kernel = executor.kernel_cuts().is_ok();
        let never = shapes::never_cast(all, &grounds, target, drawing, kernel);
        if !never.is_empty() && never.len() < all.len() {
            self.say(format!(
                "shapes that cannot be cast on this cluster: {} (docs/search.md, Shapes, says why)",
                never.join(", ")
            ));
        }
        self.explored.never_cast = never.into_iter().map(str::to_owned).collect();
        Ok(())
    }

    /// What a fault-free run from this start tells; read once.
    fn ground(&mut self, start: StartState) -> Result<Rc<Ground>, FuzzError> {
        let root = self.learnt.root_of(start);
        if let Some(ground) = self.explored.grounds.get(&root) {
            return Ok(ground.clone());
        }
        let stored = StoredRun::read(&self.folder.runs(), root)?;
        let matched = stored
            .record
            .matched
            .unwrap_or_else(|| FaultSequence::empty(""));
        let lead = self.judge().rules().lead_role.clone();
        let ground = Rc::new(Ground {
            incarnations: stored.record.incarnations,
            ..Ground::new(matched.start, matched.roles, &lead, stored.trace)
        });
        self.explored.grounds.insert(root, ground.clone());
        Ok(ground)
    }

    fn havoc(
        &mut self,
        state: &mut State,
        drawing: &Drawing<'_>,
    ) -> Result<Option<Job>, FuzzError> {
        let lineage = self.draw_lineage(state);
        let Some(stored) = self.draw_kept(state, lineage)? else {
            return Ok(None);
        };
        let id = stored.id;
        let Some(parent) = parent_of(&stored, drawing) else {
            return Ok(None);
        };
        let mut ops = Op::ALL.to_vec();
        while !ops.is_empty() {
            let i = below(state.rand_mut(), ops.len() as u64) as usize;
            let op = ops.swap_remove(i);
            // What a splice goes on with began as its own beginning did.
            let start = parent.start();
            let other = match op {
                Op::Splice => self.draw_kept(state, |s| s == start)?,
                _ => None,
            };
            let other = other.as_ref().and_then(|o| parent_of(o, drawing));
            let mut sequence = FaultSequence::empty(&self.options.target);
            let mut operator = Operator {
                op,
                parent: &parent,
                other: other.as_ref(),
                drawing,
            };
            if operator.mutate(state, &mut sequence)? == MutationResult::Skipped {
                continue;
            }
            let why = format!("havoc {op} of {id:06}{}", from(&sequence));
            let origin = Origin::Havoc {
                op: op.to_string(),
                seed: id,
            };
            let job = self.drawn(sequence, origin, why, &stored.trace, drawing);
            if job.is_some() {
                return Ok(job);
            }
        }
        Ok(None)
    }

    /// A run that goes on with drawn faults: a fault-free one, or one that was kept.
    fn tail(&mut self, state: &mut State, drawing: &Drawing<'_>) -> Result<Option<Job>, FuzzError> {
        let kept = match chance(state.rand_mut(), WHOLE) {
            true => None,
            false => {
                let lineage = self.draw_lineage(state);
                self.draw_kept(state, lineage)?
            }
        };
        let stored = match kept {
            Some(stored) => stored,
            None => {
                let start = self.draw_start(state);
                StoredRun::read(&self.folder.runs(), self.learnt.root_of(start))?
            }
        };
        let id = stored.id;
        let seed = seed_of(&stored.record, &stored.trace, stored.bounds);
        let rand = state.rand_mut();
        let Some(sequence) = seed.and_then(|s| random_points::tail(&s, drawing, rand)) else {
            return Ok(None);
        };
        let why = format!("havoc tail of {id:06}{}", from(&sequence));
        let origin = Origin::Havoc {
            op: "tail".into(),
            seed: id,
        };
        Ok(self.drawn(sequence, origin, why, &stored.trace, drawing))
    }

    /// From which starts the parent of a turn may be: cold ones or the others, as the share of cold starts has it.
    fn draw_lineage(&self, state: &mut State) -> impl Fn(StartState) -> bool + use<> {
        // Without snapshots there is one lineage.
        let snapshots = self.learnt.snapshots() > 0;
        let cold = snapshots.then(|| chance(state.rand_mut(), self.cold_share()));
        move |start| cold.is_none_or(|cold| cold == (start == StartState::Cold))
    }

    /// A kept run whose start fits, as far as one is met soon, and that has the energy, as far as one such is; none when only the roots are
    /// there, or no file of another one that was met can be read.
    fn draw_kept(
        &mut self,
        state: &mut State,
        fits: impl Fn(StartState) -> bool,
    ) -> Result<Option<StoredRun>, FuzzError> {
        let roots = self.learnt.roots.len() as u64;
        let kept = (state.corpus().count() as u64).saturating_sub(roots);
        if kept == 0 {
            return Ok(None);
        }
        for _ in 0..KEPT_TRIES {
            let at = energy::draw_parent(state, kept, KEPT_TRIES, |state, at| {
                let id = self.learnt.nth_kept(at);
                let queue = state.metadata::<Queue>()?;
                // Without snapshots all started alike: no file is read.
                match roots == 1 || !queue.is_lost(id) && self.start_of(id)?.is_some_and(&fits) {
                    false => Ok::<_, FuzzError>(None),
                    true => Ok(Some(queue.sharing(id))),
                }
            })?;
            let id = self.learnt.nth_kept(at);
            let stored = stored(self, state, id)?;
            if stored.is_some() {
                return Ok(stored);
            }
        }
        Ok(None)
    }

    /// How a kept run started, none where its file is damaged or gone; it is read once.
    fn start_of(&mut self, id: u64) -> Result<Option<StartState>, FuzzError> {
        if let Some(start) = self.explored.starts.get(&id) {
            return Ok(*start);
        }
        let start = match StoredRun::read(&self.folder.runs(), id) {
            Ok(stored) => {
                let matched = stored.record.matched.as_ref();
                Some(matched.map_or(StartState::Cold, |m| m.start))
            }
            Err(e) if e.is_of_lost_file() => {
                self.say_once(left_out(id, &e));
                None
            }
            Err(e) => return Err(e),
        };
        self.explored.starts.insert(id, start);
        Ok(start)
    }

    /// The job of a sequence that no class stands for; none when it was tested.
    fn drawn(
        &mut self,
        sequence: FaultSequence,
        origin: Origin,
        why: String,
        trace: &Trace,
        drawing: &Drawing<'_>,
    ) -> Option<Job> {
        let job = Job {
            lines: describe(&sequence, trace),
            twin: twin(&sequence, drawing.parts, drawing.shape),
            sequence,
            origin,
            why,
            durable: self.every_tenth(),
            ..Job::default()
        };
        let tried = |i| self.explored.tried.contains(&i);
        (!job.identities().any(tried) && self.take_note(&job)).then_some(job)
    }

    /// Answers whether neither the sequence nor one that is the same by symmetry was tested; if so, it counts as tested from now on.
    fn take_note(&mut self, job: &Job) -> bool {
        let fresh = job.identities().all(|i| !self.explored.tested.contains(&i));
        if fresh {
            job.identities().for_each(|i| self.note_tested(i));
        }
        fresh
    }

    /// Counts a sequence as tested from now on.
    pub(super) fn note_tested(&mut self, identity: u64) {
        if self.explored.tested.insert(identity) {
            self.news.tested.push(identity);
        }
        if self.explored.tried.remove(&identity) {
            self.news.tried.retain(|i| *i != identity);
        }
    }

    /// A drawn sequence had its one try, and that does not count: it told nothing, or not all of it happened.
    pub(super) fn note_tried(&mut self, job: &Job) {
        for identity in job.identities() {
            if self.explored.tested.remove(&identity) {
                self.explored.tried.insert(identity);
                self.news.tried.push(identity);
            }
        }
    }

    /// A run whose new coverage owes a durability check: the check is paid by the run to come. Queues pay with a child of the run itself.
    fn durable_owed(&mut self) -> bool {
        let due = self.explored.durable_due.pop_first();
        self.news.durable_out.extend(due);
        due.is_some()
    }
}

/// What it shares with the sequences that are the same by symmetry; none where nobody asked for that.
pub(super) fn twin(sequence: &FaultSequence, parts: Parts, shape: &ClusterShape) -> Option<u64> {
    match parts.symmetry {
        true => symmetry::identity(sequence, shape),
        false => None,
    }
}

fn parent_of<'a>(stored: &'a StoredRun, drawing: &Drawing<'_>) -> Option<Parent<'a>> {
    Parent::new(
        seed_of(&stored.record, &stored.trace, stored.bounds)?,
        drawing,
    )
}

/// Why this child, and where its run begins.
fn reason(pick: &Pick, sequence: &FaultSequence) -> String {
    format!("{}{}", pick.reason(), from(sequence))
}

fn from(sequence: &FaultSequence) -> String {
    match sequence.start {
        StartState::Cold => String::new(),
        start => format!(", from {start}"),
    }
}
