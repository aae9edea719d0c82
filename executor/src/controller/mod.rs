//! The fault controller: which action follows from what was seen. A pure state machine, driven by `run` and by tables in tests.
//!
//! It never reads a clock, a page or a process: claims, deaths, probes and counters come in as [`Seen`], what is to be done goes
//! out as [`Action`]. It asks the constraints before each injection and never injects against them.

mod names;
mod plan;
mod resolve;
#[cfg(test)]
mod tests;
mod types;

pub use names::{rename, rename_map};
pub use plan::make_plans;
pub use resolve::cuts_link;
pub use types::{Action, Done, Limits, Release, Seen, SeenPoint, Watch};

use crate::link::Arrivals;
use resolve::{Begin, aimed, released_by};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use warren_model::constraints::OpenCut;
use warren_model::{
    At, ClusterShape, ClusterState, CrashStyle, Fault, FaultAt, NodeName, NotInjected, Phase,
};

/// Silence of the awaited stack on a node after which that node accepts a smaller n (design: drift).
const DRIFT_AFTER: u64 = 1_000_000_000;

/// A fault on its way.
#[derive(Clone, Debug)]
struct Acting {
    index: usize,
    matched: FaultAt,
    executing: Option<NodeName>,
    event: Option<u64>,
    t_reached: u64,
    late: bool,
    drift: Option<(u32, u32)>,
    wait: WaitFor,
    /// What the held thread does when it is let go.
    release: Release,
    /// The state of the cluster once it is done.
    next: ClusterState,
    done: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WaitFor {
    Death(NodeName),
    Spawn(NodeName),
    Cut,
    Uncut,
}

/// Why the rest is skipped, while the claim is being taken away.
#[derive(Clone, Debug)]
struct GivingUp {
    reason: &'static str,
    detail: String,
    arrivals: u32,
}

/// The state machine of one run.
#[derive(Clone, Debug)]
pub struct Controller {
    faults: Vec<FaultAt>,
    shape: ClusterShape,
    limits: Limits,
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
    /// Nodes that accept a smaller n for the awaited fault.
    accept_less: Vec<NodeName>,
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
            state: ClusterState::default(),
            roles: BTreeMap::new(),
            current: 0,
            acting: VecDeque::new(),
            giving_up: None,
            after_go: false,
            since: now,
            accept_less: Vec::new(),
            ready: Vec::new(),
            machine_cut: Vec::new(),
            self_exits: Vec::new(),
            done: Vec::new(),
            not_injected: None,
        }
    }

    /// The sequence with the names of this run, known at GO.
    pub fn go_with(&mut self, faults: Vec<FaultAt>) {
        self.faults = faults;
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

    /// Number of faults done.
    #[must_use]
    pub fn current(&self) -> usize {
        self.current
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
            Seen::Failed { why } => self.failed(why, &mut out),
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

    fn claimed(
        &mut self,
        fault: usize,
        node: &NodeName,
        t_reached: u64,
        at: Option<SeenPoint>,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        if self.finished || fault != self.current || !self.acting.is_empty() {
            // A claim that nobody waits for any more: never leave its thread held.
            out.push(Action::Release {
                fault,
                action: Release::GoOn,
            });
            return;
        }
        self.giving_up = None;
        let asked = &self.faults[fault];
        // The event's n counts its own stack; a pattern counts its arrivals apart.
        let drift = match (asked_n(&asked.at), &at) {
            (Some(n), Some(s)) if s.arrival != n => Some((n, s.arrival)),
            _ => None,
        };
        let matched_at = match &at {
            Some(s) => At::Exact(s.point.clone()),
            None => asked.at.clone(),
        };
        let peer = at.as_ref().and_then(|s| s.peer.clone());
        let event = at.as_ref().and_then(|s| s.event);
        let kind = at.as_ref().map(|s| s.point.kind);
        self.begin(
            Begin {
                at: matched_at,
                executing: Some(node.clone()),
                peer,
                kind,
                event,
                t_reached,
                drift,
            },
            now,
            out,
        );
    }

    /// "At once" and "joined" need no point.
    fn begin_unclaimed(&mut self, now: u64, out: &mut Vec<Action>) {
        if self.finished || !self.after_go || !self.acting.is_empty() {
            return;
        }
        let Some(f) = self.faults.get(self.current) else {
            return;
        };
        let now_due = match &f.at {
            At::AtOnce => true,
            At::Joined(n) => self.ready.contains(n) && !self.state.dead.contains(n),
            At::Exact(_) | At::Pattern(_) => false,
        };
        if now_due {
            let at = f.at.clone();
            self.begin(Begin::unclaimed(at, now), now, out);
        }
    }

    /// Resolves, asks the constraints, acts.
    fn begin(&mut self, b: Begin, now: u64, out: &mut Vec<Action>) {
        let index = self.current + self.acting.len();
        let before = self
            .acting
            .back()
            .map_or_else(|| self.state.clone(), |a| a.next.clone());
        let claimed = b.executing.is_some();
        let legal = self
            .resolve(&self.faults[index].fault, &b, &before)
            .and_then(|fault| {
                let next = self.shape.apply(&before, b.executing.as_ref(), &fault)?;
                Ok((fault, next))
            });
        let (fault, next) = match legal {
            Ok(x) => x,
            Err(violation) => {
                if claimed {
                    out.push(Action::Release {
                        fault: index,
                        action: Release::GoOn,
                    });
                }
                if self.acting.is_empty() {
                    let reason = if self.self_exits.is_empty() {
                        "constraint"
                    } else {
                        "self-exit"
                    };
                    self.skip_rest(reason, violation.to_string(), 0, out);
                }
                return;
            }
        };
        let mut release = Release::GoOn;
        let wait = match &fault {
            Fault::Crash { who, style } => {
                let node = aimed(who);
                if *style == CrashStyle::Machine {
                    out.push(Action::CutMachine { node: node.clone() });
                    self.machine_cut.push(node.clone());
                }
                out.push(Action::Kill {
                    fault: index,
                    node: node.clone(),
                });
                WaitFor::Death(node)
            }
            Fault::Reboot { who } => {
                let node = aimed(who);
                if let Some(i) = self.machine_cut.iter().position(|n| *n == node) {
                    self.machine_cut.remove(i);
                    out.push(Action::UncutMachine { node: node.clone() });
                }
                out.push(Action::Spawn { node: node.clone() });
                WaitFor::Spawn(node)
            }
            Fault::PartitionStart { how, who } => {
                // `apply` has just resolved the sides, so there is a cut.
                let cut = next.cut.clone().unwrap_or(OpenCut {
                    side: Default::default(),
                    other: Default::default(),
                });
                release = released_by(*how, who.way, &cut, &b);
                out.push(Action::Cut {
                    how: *how,
                    way: who.way,
                    cut,
                });
                WaitFor::Cut
            }
            Fault::PartitionStop => {
                out.push(Action::Uncut);
                WaitFor::Uncut
            }
        };
        let crash = matches!(fault, Fault::Crash { .. });
        self.acting.push_back(Acting {
            index,
            matched: FaultAt { at: b.at, fault },
            executing: b.executing,
            event: b.event,
            t_reached: b.t_reached,
            late: false,
            drift: b.drift,
            wait,
            release,
            next,
            done: false,
        });
        // Two crashes: in the same action.
        let again = self
            .faults
            .get(index + 1)
            .is_some_and(|f| crash && f.at == At::AtOnce && matches!(f.fault, Fault::Crash { .. }));
        if again {
            self.begin(Begin::unclaimed(At::AtOnce, now), now, out);
        }
    }

    fn dead(&mut self, node: &NodeName, by_us: bool, now: u64, out: &mut Vec<Action>) {
        self.ready.retain(|n| n != node);
        self.roles.remove(node);
        let waited = self
            .acting
            .iter()
            .any(|a| a.wait == WaitFor::Death(node.clone()));
        if waited {
            self.complete(&WaitFor::Death(node.clone()), now, out);
            return;
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
        self.check_reachable(out);
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
            Some(At::AtOnce) | None => None,
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

    /// What was waited for came; faults are done in their order.
    fn complete(&mut self, what: &WaitFor, now: u64, out: &mut Vec<Action>) {
        for a in &mut self.acting {
            if a.wait == *what && !a.done {
                a.done = true;
                break;
            }
        }
        let before = self.current;
        while let Some(a) = self.acting.pop_front_if(|a| a.done) {
            self.current = a.index + 1;
            out.push(Action::SetCurrent { done: self.current });
            if a.executing.is_some() && !a.late {
                out.push(Action::Release {
                    fault: a.index,
                    action: a.release,
                });
            }
            let victim = match &a.wait {
                WaitFor::Death(n) => Some(n.clone()),
                _ => None,
            };
            self.state = a.next;
            self.done.push(Done {
                index: a.index,
                matched: a.matched,
                event: a.executing.zip(a.event),
                t_reached: a.t_reached,
                t_done: now,
                late: a.late,
                drift: a.drift,
                victim,
            });
        }
        if self.current == before {
            return;
        }
        self.since = now;
        self.accept_less.clear();
        if self.current >= self.faults.len() {
            self.finish(out);
        } else if self.acting.is_empty() {
            self.begin_unclaimed(now, out);
            self.check_reachable(out);
        }
    }

    fn failed(&mut self, why: String, out: &mut Vec<Action>) {
        let held: Vec<usize> = self
            .acting
            .drain(..)
            .filter(|a| a.executing.is_some())
            .map(|a| a.index)
            .collect();
        for fault in held {
            out.push(Action::Release {
                fault,
                action: Release::GoOn,
            });
        }
        self.skip_rest("unavailable", why, 0, out);
    }

    fn tick(&mut self, w: &Watch, now: u64, out: &mut Vec<Action>) {
        if self.finished {
            return;
        }
        if !self.acting.is_empty() {
            let max_hold = nanos(self.limits.max_hold);
            for a in &mut self.acting {
                // A crash of the executing node holds for ever: the process dies under the thread.
                let dying =
                    matches!((&a.wait, &a.executing), (WaitFor::Death(n), Some(e)) if n == e);
                if a.executing.is_some()
                    && !a.late
                    && !dying
                    && now.saturating_sub(a.t_reached) > max_hold
                {
                    a.late = true;
                    out.push(Action::Release {
                        fault: a.index,
                        action: Release::GoOn,
                    });
                }
            }
            return;
        }
        if self.giving_up.is_some() {
            return;
        }
        let nearest = w.entries.iter().map(|(_, a)| a.n).max().unwrap_or(0);
        if w.stopped {
            return self.give_up("stopped", "Warren is stopping".into(), nearest, out);
        }
        if w.limit {
            return self.give_up("limit", "the run passed its limit".into(), nearest, out);
        }
        if !self.after_go {
            return;
        }
        let waited = now.saturating_sub(self.since);
        if w.workload_over {
            return self.give_up("bound", "the workload ended".into(), nearest, out);
        }
        if waited > nanos(self.limits.fault_wait) {
            let detail = format!("waited {} ms", waited / 1_000_000);
            return self.give_up("bound", detail, nearest, out);
        }
        let quiet = now.saturating_sub(w.last_event.max(self.since));
        let idle = if self.state.cut.is_some() {
            self.limits.idle_cut
        } else {
            self.limits.idle
        };
        if quiet > nanos(idle) {
            let detail = format!("no event for {} ms", quiet / 1_000_000);
            return self.give_up("silence", detail, nearest, out);
        }
        let n = self.faults.get(self.current).and_then(|f| asked_n(&f.at));
        if n.is_some_and(|n| n > 1) {
            self.drift(&w.entries, now, out);
        }
    }

    /// Silence is each node's own: where the point came and comes no more, a smaller n is accepted, however lively the others are. A
    /// node where it never came is no place of the point as long as it comes elsewhere (a follower, for a pattern that means leaders).
    fn drift(&mut self, entries: &[(NodeName, Arrivals)], now: u64, out: &mut Vec<Action>) {
        let since = self.since;
        let silent = |a: &Arrivals| now.saturating_sub(a.last.max(since)) > DRIFT_AFTER;
        let comes = entries.iter().any(|(_, a)| a.n > 0 && !silent(a));
        for (node, a) in entries {
            if silent(a) && (a.n > 0 || !comes) && !self.accept_less.contains(node) {
                self.accept_less.push(node.clone());
                out.push(Action::AcceptLess {
                    fault: self.current,
                    node: node.clone(),
                });
            }
        }
    }

    /// Begins to give up the awaited fault and all after it.
    fn give_up(
        &mut self,
        reason: &'static str,
        detail: String,
        arrivals: u32,
        out: &mut Vec<Action>,
    ) {
        self.giving_up = Some(GivingUp {
            reason,
            detail,
            arrivals,
        });
        out.push(Action::Cancel {
            fault: self.current,
        });
    }

    fn give_up_now(&mut self, out: &mut Vec<Action>) {
        if let Some(g) = self.giving_up.take() {
            self.skip_rest(g.reason, g.detail, g.arrivals, out);
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

/// The occurrence a fault waits for; none for one that waits for no point.
fn asked_n(at: &At) -> Option<u32> {
    match at {
        At::Exact(p) => Some(p.n),
        At::Pattern(p) => Some(p.n),
        At::AtOnce | At::Joined(_) => None,
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
