//! A run between two faults: everything the executor knows of it, as a value that outlives its slot, and how a run gets there and goes
//! on from there.
//!
//! Made and used for prefix snapshots (`snapshots::prefix`): the first faults of many sequences are the same, so they happen once. What the
//! processes know is in their images, what the pages know in their files; here is the rest. It decides nothing about which run may use it.

use super::drive::{Drive, SoFar};
use super::options::{NodeStatus, RunError};
use crate::controller::{Action, Controller, Seen, make_plans, rename};
use crate::run::evidence::ended;
use crate::run::nodes::cuts::Cuts;
use crate::run::phases::flow::{Flow, stood_still};
use crate::slot::CutRules;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use warren_model::{
    At, CrashStyle, Fault, FaultAt, FaultSequence, FromPrefix, Incarnation, Interval, IoPoint,
    NodeName, Pattern, Phase, RunRecord, Who,
};

/// A run just after one of its faults, with all its processes stopped.
#[derive(Clone, Debug)]
pub(in crate::run) struct Midway {
    /// So many faults are done.
    pub faults: usize,
    /// Wall time from GO to here, ms: what each run that begins here is spared. It has a slot and a restore of its own.
    pub took_ms: u64,
    /// Kernel rules in force: to be there before the first process goes on.
    pub rules: CutRules,
    /// A point was met since the last fault was done: patterns that count from there would miss it. Known once all stand still.
    pub met: bool,
    controller: Controller,
    /// What was to follow the last fault done, and what was seen and not yet told to the controller.
    held_back: Vec<Action>,
    unseen: VecDeque<Seen>,
    so_far: SoFar,
    /// Of the time within its limit, ns.
    used_ns: u64,
    /// The longest stall of its test, ms: what the machine did there is the target's fault in no run from here either.
    stall_ms: u64,
    nodes: Vec<NodeMidway>,
    cuts: Cuts,
    renamed: BTreeMap<NodeName, NodeName>,
    roles: BTreeMap<NodeName, String>,
}

/// A node of it.
#[derive(Clone, Debug)]
struct NodeMidway {
    status: NodeStatus,
    role: Option<String>,
    role_word: u8,
    incarnations: Vec<Incarnation>,
}

impl Midway {
    /// By place: it has a process.
    pub fn living(&self) -> impl Iterator<Item = usize> {
        let alive = |n: &NodeMidway| crate::run::nodes::cluster::lives(n.status);
        (0..self.nodes.len()).filter(move |i| alive(&self.nodes[*i]))
    }

    /// The next fault, in the names of this run, cannot be awaited from here. `seen`: how often its exact point has come since the last
    /// fault, on its node.
    pub fn passed(&self, next: &FaultAt, seen: impl Fn(&IoPoint) -> u32) -> bool {
        match &next.at {
            At::Exact(p) => seen(p) >= p.n,
            At::Pattern(_) => self.met,
            other => !may_be_awaited(other),
        }
    }

    /// A fault in the names of this run.
    pub fn named(&self, fault: &FaultAt) -> Option<FaultAt> {
        rename(std::slice::from_ref(fault), &self.renamed).pop()
    }

    /// The interval that begins here.
    pub fn interval(&self) -> Interval {
        Interval::new(Phase::Test, u16::try_from(self.faults).unwrap_or(u16::MAX))
    }

    /// What the record of a run that goes on from here has of this one, beside what is read at its end.
    fn goes_into(&self, record: &mut RunRecord, sequence: &FaultSequence) {
        record.renamed.clone_from(&self.renamed);
        record.matched = Some(FaultSequence {
            roles: self.roles.clone(),
            faults: Vec::new(),
            ..sequence.clone()
        });
        stood_still(record, Phase::Test, self.stall_ms);
    }
}

/// Whether a fault at this moment may still be awaited once those before it are done: others are due then, or count from then.
pub(in crate::run) fn may_be_awaited(at: &At) -> bool {
    match at {
        At::Exact(_) | At::Pattern(_) => true,
        At::AtOnce | At::Joined(_) | At::After(_) => false,
    }
}

/// A sequence whose first faults are these, and whose next one never comes.
pub(in crate::run) fn up_to(sequence: &FaultSequence, count: usize) -> FaultSequence {
    let mut faults = sequence.faults[..count].to_vec();
    faults.push(FaultAt {
        at: At::Pattern(Pattern {
            node: None,
            except: None,
            role: None,
            frames: vec!["no such class".into()],
            stack: None,
            kind: None,
            place: None,
            n: 1,
            phase: Phase::Test,
        }),
        fault: Fault::Crash {
            who: Who::Executing,
            style: CrashStyle::Process,
        },
    });
    FaultSequence {
        faults,
        ..sequence.clone()
    }
}

impl Flow<'_, '_, '_> {
    /// From a restored cluster to just after so many faults, where everything stands still; else why the run did not get there as it
    /// should.
    pub fn up_to(
        &mut self,
        sequence: &FaultSequence,
        count: usize,
    ) -> Result<Result<Midway, String>, RunError> {
        let began = Instant::now();
        self.go_on()?;
        self.drive.stop_after = Some(count);
        self.begin_test(sequence)?;
        let deadline = self.drive.deadline;
        self.drive.until(deadline, |d| {
            d.stopped || d.controller.finished() || d.workload_gone.is_some() || !d.exits.is_empty()
        })?;
        self.drive.look_for_room();
        // While all stand still: the dump is no part of the test. Where nobody can tell, the run is void, and no other goes on from it.
        self.stalls();
        let d = &*self.drive;
        if let Some(exit) = d.exits.first() {
            let how = ended::how(exit.status, exit.signal);
            return Ok(Err(format!("{} ended by itself with {how}", exit.node)));
        }
        if let Some(why) = &d.void {
            return Ok(Err(why.to_string()));
        }
        if let Some(how) = &d.workload_gone {
            return Ok(Err(format!("the workload ended by itself with {how}")));
        }
        if !d.cluster.all_live() {
            return Ok(Err("a process ended just before the dump".into()));
        }
        if !d.stopped {
            let why = d.controller.not_injected().map(|n| &n.detail);
            let why = why.map_or("the time is up", String::as_str);
            return Ok(Err(format!("its faults did not all happen: {why}")));
        }
        let odd = |f: &crate::controller::Done| f.late || f.drift.is_some();
        if d.controller.done().iter().any(odd) {
            return Ok(Err("a fault came at another moment than asked".into()));
        }
        let Some(stall_ms) = self.product.record.stalls_ms.get(&Phase::Test) else {
            return Ok(Err("its slot is lost".into()));
        };
        Ok(Ok(self.midway(count, began, *stall_ms)))
    }

    fn midway(&self, faults: usize, began: Instant, stall_ms: u64) -> Midway {
        let (d, record) = (&*self.drive, &self.product.record);
        let c = &*d.cluster;
        Midway {
            faults,
            took_ms: super::ms(began),
            rules: c.kernel_rules(),
            met: true,
            controller: d.controller.clone(),
            held_back: d.held_back.clone(),
            unseen: d.queue.clone(),
            so_far: d.so_far.clone(),
            used_ns: d.now().saturating_sub(d.limited_since),
            stall_ms,
            nodes: c
                .nodes
                .iter()
                .map(|n| NodeMidway {
                    status: n.status,
                    role: n.role.clone(),
                    role_word: n.role_word,
                    incarnations: n.incarnations.clone(),
                })
                .collect(),
            cuts: c.cuts.clone(),
            renamed: record.renamed.clone(),
            roles: record
                .matched
                .as_ref()
                .map(|m| m.roles.clone())
                .unwrap_or_default(),
        }
    }

    /// Everything stands still just after the first faults; from here on the run is this sequence's own.
    pub fn go_on_midway(
        &mut self,
        midway: &Midway,
        sequence: &FaultSequence,
    ) -> Result<(), RunError> {
        let faults = rename(&sequence.faults, &midway.renamed);
        let names = self.names();
        let numbers = self.drive.cluster.prepared.target().dictionary.role_names();
        let plans = make_plans(&faults, &names, &numbers, &midway.roles, false);
        self.write_plans(&plans)?;
        self.product.from_prefix = Some(FromPrefix {
            faults: midway.faults,
            spared_ms: midway.took_ms,
        });
        midway.goes_into(&mut self.product.record, sequence);
        // What copying and restoring took is no stall of the test.
        self.stalls();
        self.drive.take_up(midway, faults)
    }
}

impl Drive<'_, '_> {
    /// The state of the run as it was, with other faults to come; then everything goes on.
    fn take_up(&mut self, midway: &Midway, faults: Vec<FaultAt>) -> Result<(), RunError> {
        let c = &mut *self.cluster;
        for (node, at) in c.nodes.iter_mut().zip(&midway.nodes) {
            node.status = at.status;
            node.role.clone_from(&at.role);
            node.role_word = at.role_word;
            node.incarnations.clone_from(&at.incarnations);
        }
        c.cuts.clone_from(&midway.cuts);
        let own = std::mem::replace(&mut self.controller, midway.controller.clone());
        self.controller.bounded_as(&own);
        self.so_far.clone_from(&midway.so_far);
        // Its own limit, with the stalls that it asks for itself, less what the run that it goes on from had used of its own.
        self.limited_since = self.limited_since.saturating_sub(midway.used_ns);
        self.deadline = self.deadline.saturating_sub(midway.used_ns);
        self.cluster.workload_page.set_deadline(self.deadline);
        self.phase = Phase::Test;
        let now = self.now();
        let next = self.controller.go_with_others(faults, now);
        for action in midway.held_back.iter().cloned().chain(next) {
            self.carry_out(action)?;
        }
        self.cluster.all_go_on();
        for seen in midway.unseen.clone() {
            self.see(seen)?;
        }
        self.show(true);
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Duration;

    /// A run after its first fault that has no nodes; `met`: a point has come since.
    pub(in crate::run) fn example(met: bool) -> Midway {
        let shape = warren_model::ClusterShape {
            groups: vec![],
            max_faults: 3,
        };
        let limits = crate::controller::Limits {
            fault_wait: Duration::from_secs(5),
            idle: Duration::from_secs(2),
            notice: Duration::from_secs(2),
            max_hold: Duration::from_secs(1),
        };
        Midway {
            faults: 1,
            took_ms: 900,
            rules: CutRules::default(),
            met,
            controller: Controller::new(Vec::new(), shape, limits, 0),
            held_back: Vec::new(),
            unseen: VecDeque::new(),
            so_far: SoFar::default(),
            used_ns: 800_000_000,
            stall_ms: 0,
            nodes: Vec::new(),
            cuts: Cuts::default(),
            renamed: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }

    #[test]
    fn a_shared_prefix_waits_for_a_fault_that_never_comes() {
        let text = "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\nwhen = \"at-once\"\n[[fault]]\nkind = \"reboot\"\nnode = \"a\"\n[fault.at]\nwhen = \"at-once\"\n";
        let sequence = FaultSequence::from_text(text).unwrap();
        let prefix = up_to(&sequence, 1);
        assert_eq!(prefix.faults.len(), 2);
        assert_eq!(prefix.faults[0], sequence.faults[0]);
        assert_eq!(prefix.faults[1].at.phase(), Phase::Test);
    }

    /// A test that was dumped has two parts, each in a slot of its own: what either was hurt by is told of the whole.
    #[test]
    fn a_stall_before_the_dump_is_one_of_each_test_from_there() {
        // (longest stall before the dump, after it, of the test; ms)
        for (before, after, want) in [(0, 0, 0), (700, 20, 700), (20, 700, 700), (700, 0, 700)] {
            let midway = Midway {
                stall_ms: before,
                ..example(false)
            };
            let mut record = RunRecord::default();
            midway.goes_into(&mut record, &FaultSequence::empty("t"));
            // What restoring took is filed before the test is taken up.
            stood_still(&mut record, Phase::Start, 300);
            stood_still(&mut record, Phase::Test, after);
            let told = BTreeMap::from([(Phase::Start, 300), (Phase::Test, want)]);
            assert_eq!(record.stalls_ms, told, "{before} {after}");
        }
    }

    #[test]
    fn a_fault_is_awaited_from_there_only_if_its_point_is_still_to_come() {
        let at = |at: &str| {
            let text = format!(
                "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\n{at}\n"
            );
            FaultSequence::from_text(&text).unwrap().faults.remove(0)
        };
        let exact = "node = \"a\"\nstack = \"0000000000000009\"\nkind = \"send\"\nplace = \"before\"\nn = 2";
        // (where, met a point since, arrivals of its own point, passed)
        for (text, met, seen, want) in [
            (exact, false, 0, false),
            (exact, true, 1, false),
            (exact, true, 2, true),
            (exact, true, 3, true),
            ("kind = \"send\"", false, 0, false),
            ("kind = \"send\"", true, 0, true),
            ("when = \"at-once\"", false, 0, true),
            ("when = \"joined\"\nnode = \"a\"", false, 0, true),
        ] {
            let passed = example(met).passed(&at(text), |_| seen);
            assert_eq!(passed, want, "{text}, {met}, {seen}");
        }
        assert!(example(false).interval().after_go());
        assert_eq!(example(false).interval().faults_done(), 1);
    }
}
