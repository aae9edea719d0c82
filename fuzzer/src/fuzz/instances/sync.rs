//! Instances of one output folder (`-M`, `-S`): what this one tells the others, what it takes in from them, and which children are
//! whose. Called by the loop between sequences, by `commit` for the telling, by the stage when a child is taken. Runs nothing:
//! what another instance saw is believed, because the same target, version and agent saw it. docs/decisions/0007-instances.md
//! has the reasons; `campaign/sync_file` has the format, `take_over` what happens when nothing is left.

use crate::campaign::state::Identity;
use crate::campaign::sync_file::{self, Begin, KeptThere, Line, Place, Told};
use crate::campaign::{FuzzError, InstanceKind};
use crate::fuzz::confirming::stand::is_open;
use crate::fuzz::instances::beside::siblings;
use crate::fuzz::options::{COUNTED, FuzzOptions};
use crate::fuzz::resume::saved::{Job, News, learn_slots, told_identity};
use crate::fuzz::session::Session;
use crate::fuzz::{State, differences_told};
use crate::search::queue::Change;
use crate::search::{Queue, XoRand};
use libafl::HasMetadata;
use libafl_bolts::rands::Rand;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use warren_feedback::libafl_module::matched_id;
use warren_feedback::{KnownSlots, KnownStates, MatchedSequences};
use warren_model::{FaultId, FaultSequence, RunRecord, StartState, ids::fnv1a};

/// An instance that told nothing for so long (ms of our fuzzing) has no share of the common children any more. Longer than any
/// sensible pause between two rsyncs; nothing is lost by waiting, its share is only tested later.
const SILENT_MS: u64 = 60 * 60 * 1000;

/// Another instance, as far as it was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    pub place: Place,
    /// Identities of its fault-free runs.
    pub roots: BTreeSet<u64>,
    pub same_map: bool,
    pub ended: bool,
    /// Our fuzzing time when it said something last.
    pub heard_ms: u64,
    /// Its kept runs that were not taken over.
    pub kept: BTreeSet<KeptThere>,
    /// Signatures of its findings.
    pub findings: BTreeSet<String>,
    /// Sequences it said it tested.
    pub tested: u64,
}

/// What one look took in: for the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    pub name: String,
    pub anew: bool,
    pub place: Place,
    pub ended: bool,
    pub heard_ms: u64,
    /// Its roots, and whether its map has our size: when it began.
    pub began: Option<(Vec<u64>, bool)>,
    pub tested: Vec<u64>,
    pub matched: Vec<u64>,
    pub slots: Vec<u32>,
    pub states: Vec<u32>,
    pub kept: Vec<KeptThere>,
    pub findings: Vec<String>,
    /// This kept run of its was taken over.
    pub over: Option<KeptThere>,
}

impl Other {
    /// Takes note of what was heard.
    pub fn take(&mut self, taken: &Taken) {
        if taken.anew {
            *self = Other::default();
        }
        self.place = taken.place;
        self.ended = taken.ended;
        self.heard_ms = taken.heard_ms;
        if let Some((roots, same_map)) = &taken.began {
            self.roots = roots.iter().copied().collect();
            self.same_map = *same_map;
        }
        self.tested += taken.tested.len() as u64;
        self.kept.extend(&taken.kept);
        self.findings.extend(taken.findings.iter().cloned());
        if let Some(over) = &taken.over {
            self.kept.remove(over);
        }
    }

    /// Whether it has a share of the common children now.
    fn shares(&self, now_ms: u64) -> bool {
        !self.ended && !self.roots.is_empty() && now_ms.saturating_sub(self.heard_ms) < SILENT_MS
    }
}

/// The other instances, and what is to be told to them.
#[derive(Debug, Default)]
pub struct Instances {
    pub others: BTreeMap<String, Other>,
    /// Those that have a share of the common children.
    pub sharing: BTreeSet<String>,
    /// For the next line, beside what the journal's record says.
    pub told: Told,
    /// Sequences that were begun here, and are not told yet.
    held: BTreeSet<u64>,
    begin: Option<Begin>,
    looked: Option<Instant>,
    /// Length and time of files that were read to their end.
    read: BTreeMap<String, (u64, Option<SystemTime>)>,
    /// Folders that are left alone, as other campaigns lie there, and up to where they were read: one that is begun anew is looked at again.
    strangers: BTreeMap<String, Place>,
    /// Complaints: each is said once.
    said: BTreeSet<String>,
}

impl Instances {
    /// Those whose folders hold the same campaign now.
    pub fn ours(&self) -> impl Iterator<Item = (&String, &Other)> {
        let strange = |name: &str| self.strangers.contains_key(name);
        self.others.iter().filter(move |(name, _)| !strange(name))
    }
}

/// Which instance a common child belongs to: the one of the highest weight. When one comes or goes, only its own children
/// change hands.
pub(in crate::fuzz) fn weight(instance: &str, child: u64) -> u64 {
    // Names differ in a letter, and children's hashes must not lean to one of them.
    XoRand::new(fnv1a(instance.as_bytes()) ^ child).next()
}

/// Identity of the fault-free run of a start.
fn root_id(start: StartState) -> u64 {
    let matched = FaultSequence {
        start,
        ..FaultSequence::empty("")
    };
    matched_id(&RunRecord {
        matched: Some(matched),
        ..RunRecord::default()
    })
}

/// What must be the same for two instances to believe each other; each may have its own strategy.
fn common(identity: &Identity) -> Identity {
    // Line and branch probes change no slot of the map.
    let own = ["state format", "strategy", "parts", "shapes", COUNTED];
    identity.without(&own)
}

/// The same of what is asked for.
#[must_use]
pub fn common_identity(options: &FuzzOptions) -> Identity {
    common(&told_identity(options))
}

impl Session {
    pub(in crate::fuzz) fn shares_work(&self) -> bool {
        self.options.kind != InstanceKind::Alone
    }

    /// A process begins to fuzz: it says who it is; where the file begins, all that is known too. Of runs kept before the file
    /// began the others hear only that they were kept, not that they could be taken over.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn begin_telling(&mut self, state: &mut State) -> Result<(), FuzzError> {
        if !self.shares_work() {
            return Ok(());
        }
        let metadata = state.metadata_map();
        let open = self.open_identities();
        self.instances.held.extend(&open);
        if self.redo.told_at == 0 {
            let known = metadata.get::<KnownSlots>();
            let size = u32::try_from(self.map_size).unwrap_or(u32::MAX);
            self.instances.told = Told {
                tested: self.explored.tested.difference(&open).copied().collect(),
                fault_ids: metadata
                    .get::<Queue>()
                    .map(Queue::tested_ids)
                    .unwrap_or_default(),
                slots: (0..size)
                    .filter(|s| known.is_some_and(|k| k.contains(*s as usize)))
                    .collect(),
                states: metadata
                    .get::<KnownStates>()
                    .map(|k| k.all().collect())
                    .unwrap_or_default(),
                matched: metadata
                    .get::<MatchedSequences>()
                    .map(|m| m.ids.iter().copied().collect())
                    .unwrap_or_default(),
                kept: Vec::new(),
                // Of a known bug each instance keeps one for itself (`stand`).
                findings: (self.found.findings.iter())
                    .filter(|f| !self.found.known.contains_key(&f.number) && !f.fell && !is_open(f))
                    .map(|f| f.signature.clone())
                    .collect(),
            };
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.instances.begin = Some(Begin {
            version: sync_file::SYNC_VERSION,
            identity: told_identity(&self.options),
            at: now.map_or(0, crate::fuzz::session::ms),
            map_size: self.map_size as u64,
            roots: self.roots(),
        });
        self.commit(state)
    }

    /// Whose children it enumerates: a strategy that draws without a queue tests none of them, and with options drawn by itself not all.
    fn roots(&self) -> Vec<u64> {
        if !self.options.strategy.has_queue() || self.swarm.is_some() {
            return Vec::new();
        }
        let starts = self.learnt.roots.iter().map(|r| r.start);
        starts.map(root_id).collect()
    }

    /// Sequences that were begun and have no result yet.
    fn open_identities(&self) -> BTreeSet<u64> {
        let mut open: BTreeSet<u64> = self.unfinished().iter().flat_map(Job::identities).collect();
        open.extend(self.job.iter().flat_map(Job::identities));
        open
    }

    /// The lines that go with a record of the journal.
    pub(in crate::fuzz) fn take_telling(&mut self, news: &News) -> String {
        let begin = self.instances.begin.take();
        let mut told = std::mem::take(&mut self.instances.told);
        // In learning nothing is told yet: the first line says it all.
        if !self.shares_work() || (begin.is_none() && self.redo.told_at == 0) {
            return String::new();
        }
        // What is under way may never be tested here: it is told when it was.
        let open = self.open_identities();
        let mut known = std::mem::take(&mut self.instances.held);
        known.extend(&news.tested);
        for identity in known {
            if open.contains(&identity) {
                self.instances.held.insert(identity);
            } else if !self.explored.tried.contains(&identity) {
                told.tested.push(identity);
            }
        }
        told.slots.extend(&news.slots);
        told.states.extend(&news.states);
        told.matched.extend(&news.matched);
        told.fault_ids
            .extend(news.queue.iter().filter_map(|c| match c {
                Change::Tested(pick) => Some(pick.key.fault_id()),
                _ => None,
            }));
        let mut text = begin.map_or_else(String::new, |b| Line::Begin(b).to_text());
        text.push_str(&told.to_text());
        text
    }

    /// The campaign ends: the others need not wait for this instance's share.
    ///
    /// # Errors
    /// I/O, with the path.
    pub fn end_telling(&self) -> Result<(), FuzzError> {
        // Where something could not be written, a full disk for one, it comes there first: the next process writes it.
        if self.shares_work() && self.redo.told_at > 0 && self.redo.told.is_empty() {
            sync_file::end(self.folder.root())?;
        }
        Ok(())
    }

    /// Between two sequences: takes in what the other instances told since the last look. `at_once`: although it is not due.
    ///
    /// # Errors
    /// I/O in our own folder; never because of another one's.
    pub fn listen(&mut self, state: &mut State, at_once: bool) -> Result<(), FuzzError> {
        let waits = |t: &Instant| t.elapsed() < self.options.look_every;
        if !self.shares_work() || (!at_once && self.instances.looked.as_ref().is_some_and(waits)) {
            return Ok(());
        }
        self.instances.looked = Some(Instant::now());
        for (name, root) in siblings(&self.options.out, &self.options.instance) {
            while let Some((taken, fault_ids, more)) = self.look(&name, &root) {
                self.take_in(state, taken, fault_ids)?;
                if !more || self.stopping() {
                    break;
                }
            }
        }
        let now = self.clock.fuzz_ms();
        let sharing: BTreeSet<String> = self
            .instances
            .ours()
            .filter(|(_, o)| o.shares(now))
            .map(|(name, _)| name.clone())
            .collect();
        if sharing != self.instances.sharing {
            let before = std::mem::replace(&mut self.instances.sharing, sharing);
            let gone: Vec<&str> = before
                .difference(&self.instances.sharing)
                .map(String::as_str)
                .collect();
            if !gone.is_empty() {
                // Whose they are now is asked again.
                let back = state.metadata_mut::<Queue>()?.bring_back(false);
                self.say(format!(
                    "instance {} ended or has been silent for an hour: {back} children left to other instances are shared out again",
                    gone.join(", ")
                ));
            }
            self.commit(state)?;
        }
        Ok(())
    }

    /// What a sibling's file has for us: the journal's part, its fault ids, and whether there is more at once.
    fn look(&mut self, name: &str, root: &Path) -> Option<(Taken, Vec<FaultId>, bool)> {
        let path = sync_file::path(root);
        let now = std::fs::metadata(&path).map(|m| (m.len(), m.modified().ok()));
        let Ok(now) = now else {
            if root.join("fuzzer_stats").exists() {
                self.say_once(format!(
                    "{} tells nothing (no sync.jsonl: it runs without -M or -S, or is not copied whole): left alone",
                    root.display()
                ));
            }
            return None;
        };
        if self.instances.read.get(name) == Some(&now) {
            return None;
        }
        let known = self.instances.others.get(name);
        let (place, ended, mut same_map) =
            known.map_or_else(Default::default, |o| (o.place, o.ended, o.same_map));
        let stranger = self.instances.strangers.get(name).copied();
        let heard = match sync_file::read(root, stranger.unwrap_or(place)) {
            Ok(heard) => heard?,
            Err(e) => {
                self.say_once(format!("instance {name}: {e}: tried again later"));
                return None;
            }
        };
        if heard.to.at == now.0 || heard.ended {
            self.instances.read.insert(name.to_owned(), now);
        }
        if stranger.is_some() {
            if !heard.anew {
                self.instances.strangers.insert(name.to_owned(), heard.to);
                return None;
            }
            self.instances.strangers.remove(name);
        }
        if heard.lines.is_empty() && heard.ended == ended {
            return None;
        }
        let mut taken = Taken {
            name: name.to_owned(),
            anew: heard.anew,
            place: heard.to,
            ended: heard.ended,
            heard_ms: self.clock.fuzz_ms(),
            ..Taken::default()
        };
        let mut fault_ids = Vec::new();
        for line in heard.lines {
            match line {
                Line::Begin(begin) => {
                    if !self.is_ours(root, &begin) {
                        self.instances.strangers.insert(name.to_owned(), heard.to);
                        return None;
                    }
                    same_map = self.has_our_map(name, &begin);
                    taken.began = Some((begin.roots, same_map));
                }
                Line::Told(told) => {
                    taken.tested.extend(told.tested);
                    taken.matched.extend(told.matched);
                    taken.kept.extend(told.kept);
                    taken.findings.extend(told.findings);
                    taken.states.extend(told.states);
                    fault_ids.extend(told.fault_ids);
                    let fits = |s: &u32| same_map && (*s as usize) < self.map_size;
                    taken.slots.extend(told.slots.into_iter().filter(fits));
                }
                // The reader never gives it.
                Line::End => {}
            }
        }
        // Fault-free runs are everybody's own.
        let roots: BTreeSet<u64> = (0..=u8::MAX)
            .map(|k| match k {
                0 => root_id(StartState::Cold),
                k => root_id(StartState::Snapshot(k)),
            })
            .collect();
        taken.matched.retain(|m| !roots.contains(m));
        Some((taken, fault_ids, heard.more))
    }

    /// Whether what begins there is an instance of this campaign.
    fn is_ours(&mut self, root: &Path, begin: &Begin) -> bool {
        let ours = common_identity(&self.options);
        let differences = differences_told(&common(&begin.identity), &ours);
        if !differences.is_empty() {
            self.say_once(format!(
                "{} is another campaign, it is left alone: {}",
                root.display(),
                differences.in_a_line()
            ));
        }
        differences.is_empty()
    }

    fn has_our_map(&mut self, name: &str, begin: &Begin) -> bool {
        let same = begin.map_size == self.map_size as u64;
        if !same {
            self.say_once(format!(
                "instance {name}: its coverage map has {} slots, ours {}: its coverage is not taken in",
                begin.map_size, self.map_size
            ));
        }
        same
    }

    fn take_in(
        &mut self,
        state: &mut State,
        taken: Taken,
        fault_ids: Vec<FaultId>,
    ) -> Result<(), FuzzError> {
        let known = self.instances.others.contains_key(&taken.name);
        if !known || taken.anew {
            self.say(format!(
                "instance {}: {} sequences tested there, {} runs kept, {} findings: taken in",
                taken.name,
                taken.tested.len(),
                taken.matched.len(),
                taken.findings.len()
            ));
        }
        for signature in &taken.findings {
            if !self.found.stands(signature) {
                self.say(format!(
                    "instance {} has a finding of signature {signature}: it is not confirmed again here",
                    taken.name
                ));
            }
        }
        let other = self.instances.others.entry(taken.name.clone()).or_default();
        other.take(&taken);
        self.explored.tested.extend(&taken.tested);
        self.found.elsewhere.extend(taken.findings.iter().cloned());
        let matched = state.metadata_or_insert_with(MatchedSequences::default);
        matched.ids.extend(&taken.matched);
        let slots = state.metadata_or_insert_with(KnownSlots::new);
        // Those that do not fit were left out.
        let _ = learn_slots(slots, self.map_size, &taken.slots);
        state
            .metadata_or_insert_with(KnownStates::default)
            .learn(&taken.states);
        if !fault_ids.is_empty() {
            state.metadata_mut::<Queue>()?.know(fault_ids);
        }
        self.news.taken.push(taken);
        self.commit(state)
    }

    /// A child of a fault-free run is common to all instances: whether another one is to test it.
    #[must_use]
    pub fn belongs_to_another(&self, seed: &RunRecord, child: u64) -> bool {
        let fault_free = seed.matched.as_ref().is_some_and(|m| m.faults.is_empty());
        if self.instances.sharing.is_empty() || !fault_free {
            return false;
        }
        let root = matched_id(seed);
        let mine = weight(&self.options.instance, child);
        self.instances.sharing.iter().any(|name| {
            let other = self.instances.others.get(name);
            other.is_some_and(|o| o.roots.contains(&root)) && weight(name, child) > mine
        })
    }

    /// A complaint that would come at every look.
    pub(in crate::fuzz) fn say_once(&mut self, line: String) {
        if self.instances.said.insert(line.clone()) {
            self.say(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_change_hands_only_with_their_owner() {
        let owner = |names: &[&'static str], child: u64| {
            *names.iter().max_by_key(|n| weight(n, child)).unwrap()
        };
        // Hashes as they come: neighbours, too.
        let children: Vec<u64> = (0..3000u64)
            .map(|i| {
                if i % 2 == 0 {
                    i
                } else {
                    fnv1a(&i.to_le_bytes())
                }
            })
            .collect();
        let three = ["a", "b", "main"];
        for name in three {
            let share = children.iter().filter(|c| owner(&three, **c) == name);
            let share = share.count();
            assert!((850..1150).contains(&share), "{name}: {share} of 3000");
        }
        for child in children {
            let (with, without) = (owner(&three, child), owner(&["a", "b"], child));
            assert!(with == without || with == "main");
        }
    }

    #[test]
    fn who_shares() {
        let other = |roots: &[u64], ended, heard_ms| Other {
            roots: roots.iter().copied().collect(),
            ended,
            heard_ms,
            ..Other::default()
        };
        for (o, now, want) in [
            (other(&[1], false, 5), 6, true),
            (other(&[1], true, 5), 6, false),
            (other(&[], false, 5), 6, false),
            (other(&[1], false, 5), 5 + SILENT_MS - 1, true),
            (other(&[1], false, 5), 5 + SILENT_MS, false),
            // Of a resumed campaign, whose time is that of its last record.
            (other(&[1], false, 9), 5, true),
        ] {
            assert_eq!(o.shares(now), want, "{o:?} at {now}");
        }
    }

    #[test]
    fn roots_are_those_of_real_fault_free_runs() {
        assert_eq!(root_id(StartState::Cold), matched_id(&RunRecord::default()));
        assert_ne!(
            root_id(StartState::Snapshot(1)),
            root_id(StartState::Snapshot(2))
        );
    }
}
