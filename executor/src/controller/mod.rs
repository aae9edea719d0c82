//! The fault controller: which action follows from what was seen. A pure state machine, driven by `run` and by tables in tests.
//!
//! It never reads a clock, a page or a process: claims, deaths, probes and counters come in as [`Seen`], what is to be done goes
//! out as [`Action`]. It asks the constraints before each injection and never injects against them. Here is what it knows and what
//! each thing seen leads to; `inject` has a fault from claim to done, `wait` how long one is waited for, `resolve` whom it means.

mod inject;
mod names;
mod plan;
mod resolve;
#[cfg(test)]
mod tests;
mod types;
mod wait;

pub use names::{rename, rename_map};
pub use plan::make_plans;
pub use resolve::cuts_link;
pub use types::{Action, Done, Limits, Release, Seen, SeenPoint, Watch};

use inject::{Acting, WaitFor};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wait::GivingUp;
use warren_model::{At, ClusterShape, ClusterState, Fault, FaultAt, NodeName, NotInjected, Phase};

/// The state machine of one run.
#[derive(Clone, Debug)]
pub struct Controller {
    faults: Vec<FaultAt>,
    shape: ClusterShape,
    limits: Limits,
    /// By index, where one is waited for less long than `limits` say.
    waits: Vec<Duration>,
    state: ClusterState,
    roles: BTreeMap<NodeName, String>,
    /// Index of the awaited fault = number of faults done.
    current: usize,
    /// Faults being carried out, in order; more than one only for crashes at once.
    acting: VecDeque<Acting>,
    giving_up: Option<GivingUp>,
    finished: bool,
    after_go: bool,
    /// When the wait for the current fault began.
    since: u64,
    /// When a node died last: the others may know it by their own clocks only.
    died: Option<u64>,
    /// Nodes that accept a smaller n for the awaited fault.
    accept_earlier: Vec<NodeName>,
    /// Nodes whose ready probe passed since their spawn.
    ready: Vec<NodeName>,
    machine_cut: Vec<NodeName>,
    self_exits: Vec<NodeName>,
    done: Vec<Done>,
    not_injected: Option<NotInjected>,
}

impl Controller {
    /// For a sequence whose names are this run's (except that test faults may be renamed at GO: [`Controller::go_with`]).
    #[must_use]
    pub fn new(faults: Vec<FaultAt>, shape: ClusterShape, limits: Limits, now: u64) -> Self {
        Controller {
            finished: false,
            faults,
            shape,
            limits,
            waits: Vec::new(),
            state: ClusterState::default(),
            roles: BTreeMap::new(),
            current: 0,
            acting: VecDeque::new(),
            giving_up: None,
            after_go: false,
            since: now,
            died: None,
            accept_earlier: Vec::new(),
            ready: Vec::new(),
            machine_cut: Vec::new(),
            self_exits: Vec::new(),
            done: Vec::new(),
            not_injected: None,
        }
    }

    /// So long is each fault waited for at most, by index; never longer than the limits say.
    pub fn wait_at_most(&mut self, waits: &[Duration]) {
        self.waits = waits.to_vec();
    }

    /// Bounds are those of the run it is, and not of the run that made the prefix which it goes on from.
    pub fn bounded_as(&mut self, own: &Controller) {
        self.shape.clone_from(&own.shape);
        self.limits = own.limits;
        self.waits.clone_from(&own.waits);
    }

    /// The sequence with the names of this run, known at GO.
    pub fn go_with(&mut self, faults: Vec<FaultAt>) {
        self.faults = faults;
    }

    /// The run goes on from a snapshot with other faults after those that are done, and waits for the next one from now on.
    pub fn go_with_others(&mut self, faults: Vec<FaultAt>, now: u64) -> Vec<Action> {
        self.faults = faults;
        self.since = now;
        self.giving_up = None;
        let mut out = Vec::new();
        self.check_reachable(&mut out);
        out
    }

    /// Who serves as what just now.
    pub fn set_role(&mut self, node: &NodeName, role: Option<&str>) {
        match role {
            Some(r) => {
                self.roles.insert(node.clone(), r.to_owned());
            }
            None => {
                self.roles.remove(node);
            }
        }
    }

    /// All faults are done or given up.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// The fault that is awaited or being carried out.
    #[must_use]
    pub fn awaited(&self) -> Option<&FaultAt> {
        if self.finished {
            None
        } else {
            self.faults.get(self.current)
        }
    }

    /// The awaited fault asks for the node at the other end of its point's message: a cut may mean that one, or begin with this message. No
    /// other fault does.
    #[must_use]
    pub fn wants_peer(&self) -> bool {
        let cuts = |f: &FaultAt| matches!(f.fault, Fault::PartitionStart { .. });
        self.awaited().is_some_and(cuts)
    }

    /// Asked just before GO: some fault may still happen. What waits for a point of the start is given up with GO.
    #[must_use]
    pub fn awaits_after_go(&self) -> bool {
        let comes = |f: &FaultAt| f.at.phase() != Phase::Start || self.under_way();
        self.awaited().is_some_and(comes)
    }

    /// A fault has begun and is not done.
    #[must_use]
    pub fn under_way(&self) -> bool {
        !self.acting.is_empty()
    }

    /// Number of faults done.
    #[must_use]
    pub fn current(&self) -> usize {
        self.current
    }

    /// How long the threads of all stalls together hold at most.
    #[must_use]
    pub fn stalls(&self) -> Duration {
        let of = |f: &FaultAt| match f.fault {
            Fault::Stall { ms, .. } => Duration::from_millis(ms.into()),
            _ => Duration::ZERO,
        };
        self.faults.iter().map(of).sum()
    }

    /// What happened, in order.
    #[must_use]
    pub fn done(&self) -> &[Done] {
        &self.done
    }

    /// Why the rest did not happen.
    #[must_use]
    pub fn not_injected(&self) -> Option<&NotInjected> {
        self.not_injected.as_ref()
    }

    /// The run is over, for this reason: what was not done by now will not be.
    pub fn run_ended(&mut self, why: &str) {
        if !self.finished && self.current < self.faults.len() {
            self.skip_rest("ended", why.to_owned(), 0, &mut Vec::new());
        }
    }

    /// Who is dead and what is cut.
    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The dead are rebooted, the cuts healed: what the run does after the last fault.
    pub fn healed(&mut self, node: &NodeName) {
        self.state.dead.retain(|d| d != node);
    }

    /// The next actions.
    pub fn on(&mut self, seen: Seen, now: u64) -> Vec<Action> {
        let mut out = Vec::new();
        match seen {
            Seen::Go => self.go(now, &mut out),
            Seen::Claimed {
                fault,
                node,
                t_reached,
                at,
            } => self.claimed(fault, &node, t_reached, at, now, &mut out),
            Seen::Cancelled { fault } if fault == self.current => self.give_up_now(&mut out),
            Seen::Cancelled { .. } => {}
            Seen::Dead { node, by_us } => self.dead(&node, by_us, now, &mut out),
            Seen::Spawned { node } => {
                self.ready.retain(|n| *n != node);
                self.complete(&WaitFor::Spawn(node), now, &mut out);
            }
            Seen::Joined { node } => {
                if !self.ready.contains(&node) {
                    self.ready.push(node);
                }
                self.begin_unclaimed(now, &mut out);
            }
            Seen::CutInForce => self.complete(&WaitFor::Cut, now, &mut out),
            Seen::CutGone => self.complete(&WaitFor::Uncut, now, &mut out),
            Seen::Tick(watch) => self.tick(&watch, now, &mut out),
        }
        out
    }

    fn go(&mut self, now: u64, out: &mut Vec<Action>) {
        self.after_go = true;
        self.since = now;
        if self.finished {
            return;
        }
        if self.current >= self.faults.len() {
            self.finish(out);
        } else if self.awaited_phase() == Phase::Start && self.acting.is_empty() {
            self.give_up(
                "bound",
                "the start was over before its point came".into(),
                0,
                out,
            );
        } else {
            self.begin_unclaimed(now, out);
        }
    }

    fn awaited_phase(&self) -> Phase {
        self.faults
            .get(self.current)
            .map_or(Phase::Test, |f| f.at.phase())
    }

    fn dead(&mut self, node: &NodeName, by_us: bool, now: u64, out: &mut Vec<Action>) {
        self.died = Some(now);
        self.ready.retain(|n| n != node);
        self.roles.remove(node);
        let wait = WaitFor::Death(node.clone());
        let waited = self.acting.iter_mut().find(|a| a.wait == wait && !a.done);
        let was_waited = waited.is_some();
        match waited {
            Some(_) if by_us => return self.complete(&wait, now, out),
            Some(a) => a.by_itself = true,
            None => {}
        }
        if !by_us && !self.state.dead.contains(node) {
            self.self_exits.push(node.clone());
        }
        if !self.state.dead.contains(node) {
            self.state.dead.push(node.clone());
            for a in &mut self.acting {
                if !a.next.dead.contains(node) {
                    a.next.dead.push(node.clone());
                }
            }
        }
        match was_waited {
            true => self.settle(now, out),
            false => self.check_reachable(out),
        }
    }

    /// The point of an exact fault on a dead node never comes: faults are in order, nobody reboots it before.
    fn check_reachable(&mut self, out: &mut Vec<Action>) {
        if self.finished || !self.acting.is_empty() || self.giving_up.is_some() {
            return;
        }
        let node = match self.faults.get(self.current).map(|f| &f.at) {
            Some(At::Exact(p)) => Some(p.node.clone()),
            Some(At::Pattern(p)) => p.node.clone(),
            Some(At::Joined(n)) => Some(n.clone()),
            Some(At::AtOnce | At::After(_)) | None => None,
        };
        if let Some(n) = node.filter(|n| self.state.dead.contains(n)) {
            let reason = if self.self_exits.contains(&n) {
                "self-exit"
            } else {
                "node-dead"
            };
            self.give_up(
                reason,
                format!("{n} is dead and nothing reboots it"),
                0,
                out,
            );
        }
    }

    fn skip_rest(&mut self, reason: &str, detail: String, nearest: u32, out: &mut Vec<Action>) {
        self.not_injected = Some(NotInjected {
            index: self.current,
            reason: reason.to_owned(),
            detail,
            nearest,
        });
        self.finish(out);
    }

    fn finish(&mut self, out: &mut Vec<Action>) {
        self.finished = true;
        out.push(Action::Finished);
    }
}
