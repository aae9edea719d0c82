//! The campaign's state as it is saved and taken up again: what a record of the journal and a checkpoint hold, and the two
//! directions between them and the living campaign. Called by the engine at the start, by stage, learning and confirmation at each
//! run's end. How it lies on disk, and in which order, is `campaign/state`'s business.

pub use super::files::read_back;
use super::files::redo;
use crate::campaign::state::{Differences, Identity, Lock, STATE_VERSION, hook};
use crate::campaign::{Folder, FuzzError, KeptFinding, RunRole, state};
use crate::fuzz::State;
use crate::fuzz::confirming::tally::Owed;
use crate::fuzz::figures::untaught::{Shown, Untaught};
use crate::fuzz::import::Seeds;
use crate::fuzz::instances::sync::{Other, Taken};
use crate::fuzz::learning::learnt::Learnt;
use crate::fuzz::learning::starts_asked::Starts;
use crate::fuzz::options::FuzzOptions;
use crate::fuzz::resume::tested::differences_told;
use crate::fuzz::session::{Counts, Session};
use crate::search::queue::Change;
use crate::search::{Origin, Pick, Queue, Swarm, Warren, XoRand};
use libafl::HasMetadata;
use libafl::corpus::{Corpus, CorpusId, Testcase};
use libafl::state::{HasCorpus, HasExecutions, HasRand};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use warren_feedback::{Judge, KnownSlots, KnownStates, Learned, MatchedSequences, SavedBugs};
use warren_model::{FaultSequence, StackId};

/// A checkpoint is made after so many records, or so many bytes of them.
const RECORDS: u64 = 100;
const BYTES: u64 = 16 << 20;

/// A sequence whose runs so far did not tell anything: to be run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub sequence: FaultSequence,
    pub pick: Option<Pick>,
    pub origin: Origin,
    /// Its identity by symmetry, where that is asked.
    pub twin: Option<u64>,
    pub why: String,
    pub durable: bool,
    /// How long each fault is waited for, by index; empty: as the limits say.
    pub waits: Vec<Duration>,
    /// What the next run of it is.
    pub role: RunRole,
    /// How often it was void, whether it was retested, whether it was asked again because of load.
    pub voids: u32,
    pub retested: bool,
    pub repeated: bool,
    /// For the screen.
    pub lines: Vec<String>,
}

impl Job {
    /// The kept run that it was made from.
    #[must_use]
    pub fn seed_run(&self) -> Option<u64> {
        match &self.origin {
            Origin::Havoc { seed, .. } => Some(*seed),
            Origin::Ordinary | Origin::Shape(_) => self.pick.as_ref().map(|p| p.seed),
        }
    }

    /// What it is looked up by among the sequences tested.
    pub fn identities(&self) -> impl Iterator<Item = u64> {
        [self.sequence.identity()].into_iter().chain(self.twin)
    }
}

impl Default for Job {
    /// A first run of nothing.
    fn default() -> Self {
        Job {
            sequence: FaultSequence::empty(""),
            pick: None,
            origin: Origin::Ordinary,
            twin: None,
            why: String::new(),
            durable: false,
            waits: Vec::new(),
            role: RunRole::Fuzz,
            voids: 0,
            retested: false,
            repeated: false,
            lines: Vec::new(),
        }
    }
}

/// What is to be done after a record is in the journal, and again when that was cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redo {
    /// Bytes of runs.jsonl before the line.
    pub at: u64,
    pub line: String,
    /// Name and text of a queue entry.
    pub queue: Option<(String, String)>,
    /// Bytes of sync.jsonl before what is told.
    pub told_at: u64,
    pub told: String,
}

impl Redo {
    /// After all of it was done.
    fn done(&self) -> Self {
        Redo {
            at: self.at + self.line.len() as u64,
            told_at: self.told_at + self.told.len() as u64,
            ..Redo::default()
        }
    }
}

/// What is small: kept whole in every record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Now {
    pub counts: Counts,
    pub findings: Vec<KeptFinding>,
    pub bugs: SavedBugs,
    pub rand: XoRand,
    pub executions: u64,
    /// Kept runs, the root included.
    pub kept: u64,
    pub current: Option<u64>,
    pub fuzz_ms: u64,
    pub learning_ms: u64,
    pub single_fault_runs: u32,
    pub job: Option<Job>,
    /// Begun, and without a result: they are begun again.
    pub under_way: Vec<Job>,
    pub owed: Option<Owed>,
    pub seeds: Seeds,
    pub warren: Warren,
    /// The other instances that have a share of the common children.
    pub sharing: BTreeSet<String>,
    /// As this process was asked.
    pub starts: Starts,
    pub redo: Redo,
}

/// What grows: a record holds what is new.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct News {
    pub queue: Vec<Change>,
    pub tested: Vec<u64>,
    /// No longer tested, and not drawn again.
    pub tried: Vec<u64>,
    pub matched: Vec<u64>,
    /// Coverage slots and states that became known.
    pub slots: Vec<u32>,
    pub states: Vec<u32>,
    /// Those that a test showed without teaching them.
    pub untaught: Shown,
    pub durable_in: Vec<u64>,
    pub durable_out: Vec<u64>,
    /// From other instances.
    pub taken: Vec<Taken>,
    /// Only when a template was new.
    pub learned: Option<Learned>,
}

/// One record of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub now: Now,
    pub news: News,
}

/// The whole state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Whole {
    pub seed: u64,
    pub now: Now,
    pub queue: Queue,
    pub tested: BTreeSet<u64>,
    pub tried: BTreeSet<u64>,
    pub matched: MatchedSequences,
    pub slots: KnownSlots,
    pub states: KnownStates,
    pub untaught: Untaught,
    pub durable_due: BTreeSet<u64>,
    pub others: BTreeMap<String, Other>,
    pub learned: Learned,
    pub learnt: Learnt,
    pub fault_free_stacks: BTreeSet<StackId>,
    pub run_limit_ms: u64,
    pub fault_wait_ms: u64,
    pub map_size: u64,
    pub edges_fault_free: u64,
    /// Drawn once.
    pub swarm: Option<Swarm>,
}

impl Whole {
    /// Takes one record in.
    pub(super) fn apply(&mut self, record: Record) -> Result<(), String> {
        let Record { now, news } = record;
        for change in news.queue {
            self.queue.apply(change)?;
        }
        for identity in news.tested {
            self.tried.remove(&identity);
            self.tested.insert(identity);
        }
        for identity in news.tried {
            self.tested.remove(&identity);
            self.tried.insert(identity);
        }
        self.matched.ids.extend(news.matched);
        let size = self.map_size as usize;
        learn_slots(&mut self.slots, size, &news.slots)?;
        self.states.learn(&news.states);
        self.untaught.take(news.untaught);
        for taken in news.taken {
            self.tested.extend(&taken.tested);
            self.matched.ids.extend(&taken.matched);
            learn_slots(&mut self.slots, size, &taken.slots)?;
            self.states.learn(&taken.states);
            let other = self.others.entry(taken.name.clone()).or_default();
            other.take(&taken);
        }
        for id in news.durable_out {
            self.durable_due.remove(&id);
        }
        self.durable_due.extend(news.durable_in);
        if let Some(learned) = news.learned {
            self.learned = learned;
        }
        self.learned.single_fault_runs = now.single_fault_runs;
        self.now = now;
        Ok(())
    }
}

/// Takes slots of a map of this size in.
pub(in crate::fuzz) fn learn_slots(
    known: &mut KnownSlots,
    size: usize,
    slots: &[u32],
) -> Result<(), String> {
    if slots.is_empty() {
        return Ok(());
    }
    let mut map = vec![0u8; size];
    for slot in slots {
        *map.get_mut(*slot as usize)
            .ok_or_else(|| format!("slot {slot} is not in the map"))? = 1;
    }
    known.learn(&map);
    Ok(())
}

/// The identity of the campaign that these options ask for.
fn identity(options: &FuzzOptions) -> Identity {
    let mut identity = Identity::default();
    identity.put("state format", STATE_VERSION);
    identity.put("target", &options.target);
    for (name, value) in &options.identity {
        identity.put(name, value);
    }
    identity.put("strategy", options.strategy);
    identity.put("parts", options.parts());
    identity.put("shapes", options.shapes_identity());
    identity.put("--faults", options.faults);
    identity.put("--max-faults", options.max_faults);
    identity
}

/// The same as other instances are told it: with the target's content.
#[must_use]
pub fn told_identity(options: &FuzzOptions) -> Identity {
    let mut identity = identity(options);
    options.tested.everywhere().put_into(&mut identity);
    identity
}

/// The same as the state keeps it: with all of what is tested.
#[must_use]
pub fn kept_identity(options: &FuzzOptions) -> Identity {
    let mut identity = identity(options);
    options.tested.without_rules().put_into(&mut identity);
    identity
}

/// Whether the campaign of an instance's folder may go on with these options; before anything is set up.
///
/// # Errors
/// [`FuzzError::Usage`]: a process works on it, there is none, or it is another one, with each difference.
pub fn check_resume(options: &FuzzOptions) -> Result<(), FuzzError> {
    let root = options.out.join(&options.instance);
    Lock::free(&root)?;
    if !state::exists(&root) {
        return Err(Folder::taken(&root).unwrap_or_else(|| {
            FuzzError::Usage(format!(
                "-i - resumes a campaign, and {} holds none; leave -i - out to begin one there, or name the right folder with -o",
                root.display()
            ))
        }));
    }
    let differences = differences(options)?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(FuzzError::Usage(format!(
        "{} holds another campaign, which is left as it is:\n  {}\n  ask for the same to resume it, or choose another folder with -o",
        root.display(),
        differences.in_lines()
    )))
}

/// What the campaign in the folder was begun with and is not asked for; none: it is the same.
///
/// # Errors
/// I/O; no state; damage, with the place.
pub fn differences(options: &FuzzOptions) -> Result<Differences, FuzzError> {
    let was = state::identity(&options.out.join(&options.instance))?;
    Ok(differences_told(&was, &kept_identity(options)))
}

impl Session {
    /// A session that goes on where another process ended, and LibAFL's state with it.
    ///
    /// # Errors
    /// LibAFL refuses.
    pub fn take_up(
        &mut self,
        state: &mut State,
        whole: Whole,
        judge: &Arc<Mutex<Judge>>,
    ) -> Result<(), FuzzError> {
        let now = whole.now;
        let empty = FaultSequence::empty(&self.options.target);
        for _ in 0..now.kept {
            let id = state.corpus_mut().add(Testcase::new(empty.clone()))?;
            *state.corpus().get(id)?.borrow_mut().input_mut() = None;
        }
        *state.corpus_mut().current_mut() = now.current.map(|c| CorpusId::from(c as usize));
        *state.executions_mut() = now.executions;
        *state.rand_mut() = now.rand;
        state.add_metadata(whole.queue);
        state.add_metadata(whole.matched);
        state.add_metadata(whole.slots);
        state.add_metadata(whole.states);
        state.add_metadata(now.bugs);
        state.add_metadata(now.warren);
        {
            let mut judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
            let rules = judge.rules().clone();
            *judge = Judge::with_state(rules, whole.learned)
                .map_err(|e| FuzzError::Usage(e.to_string()))?;
        }
        self.limits.run = self
            .options
            .run_limit
            .unwrap_or(Duration::from_millis(whole.run_limit_ms));
        self.limits.fault_wait = Duration::from_millis(whole.fault_wait_ms);
        self.counts = now.counts;
        let others = whole.others.values().flat_map(|o| &o.findings);
        self.found.elsewhere = others.cloned().collect();
        self.instances.others = whole.others;
        self.instances.sharing = now.sharing;
        self.found.findings = now.findings;
        self.explored.tested = whole.tested;
        self.explored.tried = whole.tried;
        self.explored.durable_due = whole.durable_due;
        self.explored.fault_free_stacks = whole.fault_free_stacks;
        self.map_size = whole.map_size as usize;
        self.edges_fault_free = whole.edges_fault_free;
        self.swarm = whole.swarm;
        if let Some(swarm) = &mut self.swarm {
            swarm.faults.stall = self.options.faults.stall;
        }
        self.learning = Duration::from_millis(now.learning_ms);
        self.learnt = whole.learnt;
        self.clock.resume_at(Duration::from_millis(now.fuzz_ms));
        self.job = now.job;
        self.beside.waiting = now.under_way;
        self.owed = now.owed;
        self.seeds = now.seeds;
        self.redo = now.redo.done();
        self.templates = self.templates();
        self.untaught = whole.untaught;
        self.resumed = true;
        Ok(())
    }

    /// Everything as it is.
    ///
    /// # Errors
    /// LibAFL's metadata is not there.
    pub fn whole(&self, state: &State) -> Result<Whole, FuzzError> {
        let metadata = state.metadata_map();
        Ok(Whole {
            seed: self.seed,
            now: self.now(state),
            queue: metadata.get::<Queue>().cloned().unwrap_or_default(),
            tested: self.explored.tested.clone(),
            tried: self.explored.tried.clone(),
            matched: metadata
                .get::<MatchedSequences>()
                .cloned()
                .unwrap_or_default(),
            slots: metadata.get::<KnownSlots>().cloned().unwrap_or_default(),
            states: metadata.get::<KnownStates>().cloned().unwrap_or_default(),
            untaught: self.untaught.clone(),
            durable_due: self.explored.durable_due.clone(),
            others: self.instances.others.clone(),
            learned: self.judge().learned().clone(),
            learnt: self.learnt.clone(),
            fault_free_stacks: self.explored.fault_free_stacks.clone(),
            run_limit_ms: crate::fuzz::session::ms(self.limits.run),
            fault_wait_ms: crate::fuzz::session::ms(self.limits.fault_wait),
            map_size: self.map_size as u64,
            edges_fault_free: self.edges_fault_free,
            swarm: self.swarm.clone(),
        })
    }

    fn now(&self, state: &State) -> Now {
        Now {
            counts: self.counts.clone(),
            findings: self.found.findings.clone(),
            bugs: state
                .metadata_map()
                .get::<SavedBugs>()
                .cloned()
                .unwrap_or_default(),
            rand: state.rand().clone(),
            // A run that Ctrl-C cut off is in no record, and its number goes to another.
            executions: state.executions().saturating_sub(self.cut_off),
            kept: state.corpus().count() as u64,
            current: state.corpus().current().map(|id| usize::from(id) as u64),
            fuzz_ms: self.clock.fuzz_ms(),
            learning_ms: crate::fuzz::session::ms(self.learning_so_far()),
            single_fault_runs: self.judge().learned().single_fault_runs,
            job: self.job.clone(),
            under_way: self.unfinished(),
            owed: self.owed.clone(),
            seeds: self.seeds.clone(),
            warren: state
                .metadata_map()
                .get::<Warren>()
                .cloned()
                .unwrap_or_default(),
            sharing: self.instances.sharing.clone(),
            starts: self.options.starts,
            redo: self.redo.clone(),
        }
    }

    /// What happened since the last record goes into the journal; then the line and the queue entry are written. Now and then a
    /// checkpoint follows.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn commit(&mut self, state: &mut State) -> Result<(), FuzzError> {
        let mut news = std::mem::take(&mut self.news);
        news.queue = state
            .metadata_mut::<Queue>()
            .map(Queue::take_changes)
            .unwrap_or_default();
        let templates = self.templates();
        if templates != self.templates {
            self.templates = templates;
            news.learned = Some(self.judge().learned().clone());
        }
        self.redo.told = self.take_telling(&news);
        let record = Record {
            now: self.now(state),
            news,
        };
        hook::point("before-record");
        let due = {
            let Some(store) = self.store.as_mut() else {
                return Ok(());
            };
            store.append(&record)?;
            let (records, bytes) = store.since_checkpoint();
            records >= RECORDS || bytes >= BYTES
        };
        hook::point("record");
        self.after()?;
        if due { self.checkpoint(state) } else { Ok(()) }
    }

    /// As [`Session::commit`], by a checkpoint: for learning, whose state is small and changes as a whole.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn commit_whole(&mut self, state: &mut State) -> Result<(), FuzzError> {
        self.news = News::default();
        if let Ok(queue) = state.metadata_mut::<Queue>() {
            queue.take_changes();
        }
        self.templates = self.templates();
        self.checkpoint(state)?;
        self.after()
    }

    fn checkpoint(&mut self, state: &State) -> Result<(), FuzzError> {
        let whole = self.whole(state)?;
        match self.store.as_mut() {
            Some(store) => store.checkpoint(&whole),
            None => Ok(()),
        }
    }

    /// The rest of a record: what is seen from outside.
    fn after(&mut self) -> Result<(), FuzzError> {
        redo(self.folder.root(), &self.redo)?;
        self.redo = self.redo.done();
        Ok(())
    }

    /// How many log templates the judge knows.
    fn templates(&self) -> usize {
        self.judge().learned().templates.len()
    }
}
