//! Prefix snapshots: a run is dumped just after faults that many sequences have in common, and each of these goes on from there.
//!
//! Asked at the start of a run that may (`RunOptions::prefix`). A prefix serves a bounded number of runs, so that one lucky schedule does
//! not stand for all, and is as old as a snapshot may be. Whatever goes wrong here is a reason to begin as other runs do, never an
//! error; which runs may begin from one is the caller's to say (a confirmation never does).

use super::super::midway::{Midway, may_be_awaited, up_to};
use super::super::options::{PrefixUse, RunError, RunOptions};
use super::super::{Runner, Start};
use super::{MAX_FAILURES, PAUSE, Snapshot, Then, make, restore};
use crate::link::NodePage;
use crate::run::phases::flow::Flow;
use crate::slot::{CutRules, Owed, Process, Slot};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};
use warren_model::{Fault, FaultAt, FaultSequence, IoPoint, NodeName, RunProduct};

/// So many runs begin from one; then it is made anew.
const MAX_SERVED: u32 = 32;
/// Most prefixes held: some hundred MB of memory each.
const MAX_HELD: usize = 8;
/// How often a run looks whether another one has made its prefix.
const WAIT_TURN: Duration = Duration::from_millis(20);

/// A dumped run.
#[derive(Debug)]
pub(in crate::run) struct Prefix {
    key: Key,
    snapshot: Snapshot,
    pub midway: Midway,
    served: AtomicU32,
}

/// What sequences must have in common.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    number: u8,
    faults: Vec<FaultAt>,
    roles: BTreeMap<NodeName, String>,
}

impl Key {
    /// Of the faults to share; none where there are none.
    fn of(number: u8, sequence: &FaultSequence) -> Option<Key> {
        let shared = &sequence.faults[..shared(sequence)];
        (!shared.is_empty()).then(|| Key {
            number,
            faults: shared.to_vec(),
            roles: sequence.roles.clone(),
        })
    }
}

/// How many faults of a sequence happen once for all that have them in common: those before the first reboot, and never the last. A JVM
/// that starts in a tree which is to be dumped goes on from no parked one, so all runs from there would go on interpreting and compiling
/// what it has not: dearer than a reboot in each of them. What comes after them waits for a point: else it is due as they are done.
fn shared(sequence: &FaultSequence) -> usize {
    let next_waits = |n: &usize| may_be_awaited(&sequence.faults[*n].at);
    (1..=before_reboot(sequence))
        .rev()
        .find(next_waits)
        .unwrap_or(0)
}

/// All faults but the last, as far as none is a reboot.
fn before_reboot(sequence: &FaultSequence) -> usize {
    let reboot = |f: &FaultAt| matches!(f.fault, Fault::Reboot { .. });
    let all_but_last = sequence.faults.len().saturating_sub(1);
    let faults = sequence.faults.iter().take(all_but_last);
    faults.take_while(|f| !reboot(f)).count()
}

/// What became of a key.
#[derive(Debug)]
enum State {
    /// A run makes it just now.
    Making,
    /// It has failed so often since a run from one last ended well.
    There(Arc<Prefix>, u32),
    /// So often in a row, the last time then.
    Failed(u32, Instant),
}

/// What a run learns of a key.
enum Answer {
    There(Arc<Prefix>),
    /// Another run makes it.
    Making,
    /// There is none; it may be made.
    None,
}

/// Whose turn it is to make a prefix that is not there.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// The caller's, who must say what became of it. It failed so often in a row.
    Ours(u32),
    /// Another run makes it, or has made it by now.
    Another,
    /// It has failed too often in a row to be tried now.
    Nobody,
}

/// The prefixes of one runner, the one used last at the end.
#[derive(Debug, Default)]
pub(in crate::run) struct Prefixes(Vec<(Key, State)>);

impl Prefixes {
    /// The prefix of a key, if there is one that may serve one run more: the one that asks. It gives back what it does not take.
    fn get(&mut self, key: &Key) -> Answer {
        let Some(at) = self.0.iter().position(|(k, _)| k == key) else {
            return Answer::None;
        };
        match &self.0[at].1 {
            State::There(p, _) if p.may_serve() => {
                let prefix = Arc::clone(p);
                // Here, under the lock of all: those that ask while this one is restored count it.
                prefix.served.fetch_add(1, Ordering::Relaxed);
                let entry = self.0.remove(at);
                self.0.push(entry);
                Answer::There(prefix)
            }
            State::Making => Answer::Making,
            State::There(..) | State::Failed(..) => Answer::None,
        }
    }

    /// The caller is to make it now, if nobody does and it may be tried.
    fn begin_to_make(&mut self, key: &Key) -> Turn {
        let failures = match self.0.iter().find(|(k, _)| k == key) {
            None => 0,
            Some((_, State::Making)) => return Turn::Another,
            Some((_, State::There(p, _))) if p.may_serve() => return Turn::Another,
            Some((_, State::Failed(n, last))) if *n >= MAX_FAILURES && last.elapsed() < PAUSE => {
                return Turn::Nobody;
            }
            Some((_, State::There(_, n) | State::Failed(n, _))) => *n,
        };
        self.set(key, State::Making);
        Turn::Ours(failures)
    }

    fn made(&mut self, key: &Key, prefix: Prefix, failures: u32) -> Arc<Prefix> {
        let prefix = Arc::new(prefix);
        self.set(key, State::There(Arc::clone(&prefix), failures));
        let there = |(_, s): &(Key, State)| matches!(s, State::There(..));
        while self.0.iter().filter(|e| there(e)).count() > MAX_HELD {
            if let Some(oldest) = self.0.iter().position(there) {
                self.0.remove(oldest);
            }
        }
        prefix
    }

    /// Whether a run from this one ended well: it could be restored, did not hang, and its cluster became stable. A run that did not may have hung by
    /// its own last fault; but where it is the schedule that was dumped, all that follow would hang too, each for its whole limit. Another run may
    /// have made a new one by now.
    fn ended(&mut self, prefix: &Arc<Prefix>, well: bool) {
        let entry = self.0.iter_mut().find(|(k, _)| *k == prefix.key);
        if let Some((_, state)) = entry
            && let State::There(held, failures) = state
            && Arc::ptr_eq(held, prefix)
        {
            match well {
                true => *failures = 0,
                false => *state = State::Failed(*failures + 1, Instant::now()),
            }
        }
    }

    fn set(&mut self, key: &Key, state: State) {
        self.0.retain(|(k, _)| k != key);
        self.0.push((key.clone(), state));
    }

    /// No other run begins from the one of this key; the next makes it anew.
    fn distrust(&mut self, key: &Key) {
        self.0
            .retain(|(k, s)| k != key || !matches!(s, State::There(..)));
    }

    /// What is of no more use goes: worn-out prefixes, whose files go when their last run has ended, and failures of long ago.
    pub fn tidy(&mut self) {
        self.0.retain(|(_, state)| match state {
            State::There(p, _) => p.may_serve(),
            State::Failed(_, last) => last.elapsed() < PAUSE,
            State::Making => true,
        });
    }

    /// All that hold memory go.
    pub fn clear(&mut self) {
        self.0.retain(|(_, s)| !matches!(s, State::There(..)));
    }
}

/// A key that this run makes: whatever happens, somebody may make it again.
struct Making<'a> {
    runner: &'a Runner,
    key: &'a Key,
    failures: u32,
    done: bool,
}

impl Making<'_> {
    fn made(mut self, prefix: Prefix) -> Arc<Prefix> {
        self.done = true;
        let mut all = self.runner.snapshots();
        all.prefixes.made(self.key, prefix, self.failures)
    }

    /// It was not made, and counts as having failed so often.
    fn not_made(mut self, failures: u32) {
        self.done = true;
        self.set_failed(failures);
    }

    fn set_failed(&self, failures: u32) {
        let state = State::Failed(failures, Instant::now());
        self.runner.snapshots().prefixes.set(self.key, state);
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.set_failed(self.failures + 1);
        }
    }
}

impl Prefix {
    fn may_serve(&self) -> bool {
        self.snapshot.is_fresh(Instant::now(), SystemTime::now())
            && self.served.load(Ordering::Relaxed) < MAX_SERVED
    }

    /// Who was counted began no run from it.
    fn give_back(&self) {
        self.served.fetch_sub(1, Ordering::Relaxed);
    }

    /// How often a point, in the names of this run, has come since the last fault.
    fn seen(&self, shm: &Path, point: &IoPoint) -> u32 {
        let page = NodePage::read(&shm.join(format!("node-{}.page", point.node)));
        // A page that cannot be read has, for all we know, seen it.
        let Ok(page) = page else { return u32::MAX };
        match page.occurrence(point.stack, point.kind, point.place) {
            Some((interval, n, _)) if interval == self.midway.interval().0 => n,
            _ => 0,
        }
    }

    /// The next fault of the sequence can be awaited from here.
    fn serves(&self, sequence: &FaultSequence) -> bool {
        let shm = self.snapshot.folder.join("shm");
        let next = sequence.faults.get(self.midway.faults);
        next.and_then(|next| self.midway.named(next))
            .is_some_and(|next| !self.midway.passed(&next, |p| self.seen(&shm, p)))
    }
}

/// A slot with a cluster that was restored just after the first faults of its sequence.
pub(in crate::run) struct BegunMidway {
    pub prefix: Arc<Prefix>,
    pub slot: Slot,
    pub processes: Vec<Process>,
    /// When the slot was asked for: what making the prefix took is nobody's run.
    pub began: Instant,
}

/// Begins such a run; `None` when that is not wanted or there is nothing to share, `Some(Err)` with the reason why all its faults are to
/// happen in it.
pub(in crate::run) fn begin(
    runner: &Runner,
    number: u8,
    sequence: &FaultSequence,
    options: &RunOptions,
) -> Option<Result<BegunMidway, String>> {
    if options.prefix == PrefixUse::Never {
        return None;
    }
    let Some(key) = Key::of(number, sequence) else {
        let due = "what comes after the faults it could share is due as they are done";
        return (before_reboot(sequence) > 0).then(|| Err(due.into()));
    };
    let prefix = match there_or_made(runner, &key, sequence, options)? {
        Ok(prefix) => prefix,
        Err(why) => return Some(Err(why)),
    };
    if !prefix.serves(sequence) {
        prefix.give_back();
        return Some(Err("its next point has passed there".into()));
    }
    let began = Instant::now();
    let rules = &prefix.midway.rules;
    let restored = restore(&prefix.snapshot, rules, runner.slot_config(), Then::Run);
    if restored.is_err() {
        prefix.give_back();
        ended(runner, &prefix, false);
    }
    Some(restored.map(|(slot, processes)| BegunMidway {
        prefix,
        slot,
        processes,
        began,
    }))
}

/// A run that began so has ended: well, or it hung, or its cluster never became stable.
pub(in crate::run) fn ended(runner: &Runner, prefix: &Arc<Prefix>, well: bool) {
    runner.snapshots().prefixes.ended(prefix, well);
}

/// A run that shares this sequence's prefix has failed its checks: what was dumped may be why, and then all that follow fail of one event, as if
/// it had come to each of them.
pub(in crate::run) fn distrust(runner: &Runner, number: u8, sequence: &FaultSequence) {
    if let Some(key) = Key::of(number, sequence) {
        runner.snapshots().prefixes.distrust(&key);
    }
}

/// The prefix of a key, made now if it is to be, or waited for if another run makes it: two of them would cost more than the wait.
/// `None` when it is not for this run to make it.
fn there_or_made(
    runner: &Runner,
    key: &Key,
    sequence: &FaultSequence,
    options: &RunOptions,
) -> Option<Result<Arc<Prefix>, String>> {
    let until = Instant::now() + options.limit;
    loop {
        let answer = runner.snapshots().prefixes.get(key);
        match answer {
            Answer::There(prefix) => return Some(Ok(prefix)),
            Answer::Making if Instant::now() < until && !options.to_end() => {
                std::thread::sleep(WAIT_TURN);
            }
            Answer::Making => return Some(Err("another run makes it still".into())),
            Answer::None if options.prefix == PrefixUse::IfThere => return None,
            Answer::None => match make_for(runner, key, sequence, options) {
                Made::There(prefix) => return Some(Ok(prefix)),
                Made::Not(why) => return Some(Err(why)),
                Made::Nothing => return None,
                Made::ByAnother => {}
            },
        }
    }
}

/// What became of a prefix that was to be made.
enum Made {
    /// It is there, and the run that made it is counted among those it serves.
    There(Arc<Prefix>),
    Not(String),
    /// What it is to be made from does not work.
    Nothing,
    /// Another run had begun to make it by then, or has made it.
    ByAnother,
}

/// Made without the lock of all snapshots: other runs begin meanwhile.
fn make_for(runner: &Runner, key: &Key, sequence: &FaultSequence, options: &RunOptions) -> Made {
    let mut all = runner.snapshots();
    // A snapshot that does not work is the next step's to say.
    let Ok(Ok(from)) = all.get(runner, key.number, options) else {
        return Made::Nothing;
    };
    if let Some(why) = super::too_little(super::free_memory()) {
        return Made::Not(why);
    }
    let failures = match all.prefixes.begin_to_make(key) {
        Turn::Ours(failures) => failures,
        Turn::Another => return Made::ByAnother,
        Turn::Nobody => {
            return Made::Not("left alone for a while, since it or runs from it failed".into());
        }
    };
    let folder = all.new_folder(runner, &format!("{}-prefix", key.number));
    drop(all);
    let making = Making {
        runner,
        key,
        failures,
        done: false,
    };
    let made = folder.and_then(|folder| {
        let made = make_prefix(runner, key, &from, &folder, sequence, options);
        if made.is_err() {
            // What cannot be removed is gone with the keeper.
            let _ = std::fs::remove_dir_all(&folder);
        }
        made
    });
    match made {
        Ok(prefix) => Made::There(making.made(prefix)),
        Err(e) => {
            if options.to_end() {
                // Given up by the user, it says nothing against it.
                making.not_made(failures);
            } else if matches!(e, RunError::NoPrefix(_)) {
                // What made it impossible will be so again.
                making.not_made(MAX_FAILURES);
            }
            Made::Not(e.to_string())
        }
    }
}

fn make_prefix(
    runner: &Runner,
    key: &Key,
    from: &Snapshot,
    folder: &Path,
    sequence: &FaultSequence,
    options: &RunOptions,
) -> Result<Prefix, RunError> {
    let began = Instant::now();
    let why = |why: String| RunError::io("making a prefix snapshot", why);
    let count = shared(sequence);
    let sequence = up_to(sequence, count);
    let (slot, processes) =
        restore(from, &CutRules::default(), runner.slot_config(), Then::Dump).map_err(why)?;
    let start = Start::Restored {
        snapshot: from,
        processes,
        launcher: Some(from.launcher),
    };
    let mut product = RunProduct::default();
    let (snapshot, mut midway) =
        runner.with_drive(&slot, &sequence, options, start, began, |drive| {
            let went = Flow::new(drive, &mut product).up_to(&sequence, count)?;
            let midway = went.map_err(why)?;
            // Dead machines say nothing before their cut ends, and by then they have nothing to say in a whole run either.
            drive.cluster.forget_machines()?;
            let owed = slot.owed(from.launcher);
            lost(&owed.map_err(|e| RunError::Slot(e.to_string()))?)?;
            let mut snapshot = make::dump(&slot, drive.cluster, &from.criu, folder, Vec::new())?;
            // The wall clock jumped when it went on from there, and will once more: both together by no more than one may.
            (snapshot.made, snapshot.made_wall) = (from.made, from.made_wall);
            Ok((snapshot, midway))
        })?;
    make::keep(&slot, folder, make::Events::Kept)?;
    slot.close().map_err(|e| RunError::Slot(e.to_string()))?;
    midway.met = met(&folder.join("shm"), runner, &midway);
    Ok(Prefix {
        key: key.clone(),
        snapshot,
        midway,
        // The run that makes it.
        served: AtomicU32::new(1),
    })
}

/// What only the kernel still has to say is in no dump: in runs from there nobody would ever be told what a whole run tells him. What nobody has
/// any more is said in vain as long as there is a cut, so in another run too; whether a process was told of an error yet is chance.
fn lost(owed: &Owed) -> Result<(), RunError> {
    let (all, always) = match owed.by_nobody.is_empty() {
        true => (&owed.failed, false),
        false => (&owed.by_nobody, true),
    };
    let Some(first) = all.first() else {
        return Ok(());
    };
    let more = match all.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = format!("a dump would lose what connections have still to say: {first}{more}");
    Err(match always {
        true => RunError::NoPrefix(why),
        false => RunError::io("making a prefix snapshot", why),
    })
}

/// A point has come since the last fault, on any node. A page that cannot be read has, for all we know, met one.
fn met(shm: &Path, runner: &Runner, midway: &Midway) -> bool {
    runner.shape.nodes().any(|node| {
        let page = NodePage::read(&shm.join(format!("node-{node}.page")));
        page.map_or(true, |page| {
            let events = page.read_all().events;
            events.iter().any(|e| e.interval == midway.interval())
        })
    })
}

#[cfg(test)]
mod tests;
