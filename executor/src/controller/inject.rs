//! A fault from its claim to its end: resolved, asked of the constraints, carried out, done in order. Pure.

use super::resolve::{Begin, aimed, released_by};
use super::wait::nanos;
use super::{Action, Controller, Done, Release, SeenPoint};
use warren_model::constraints::OpenCut;
use warren_model::{At, ClusterState, CrashStyle, Fault, FaultAt, NodeName, Violation};

/// A fault on its way.
#[derive(Clone, Debug)]
pub(super) struct Acting {
    pub index: usize,
    pub matched: FaultAt,
    pub executing: Option<NodeName>,
    pub event: Option<u64>,
    pub t_reached: u64,
    pub late: bool,
    pub drift: Option<(u32, u32)>,
    pub wait: WaitFor,
    /// What the held thread does when it is let go.
    pub release: Release,
    /// The state of the cluster once it is done.
    pub next: ClusterState,
    pub done: bool,
    /// The node that was to be killed ended by itself first.
    pub by_itself: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    Death(NodeName),
    Spawn(NodeName),
    Cut,
    Uncut,
    /// Done as soon as its thread holds.
    Nothing,
}

impl Controller {
    pub(super) fn claimed(
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
        let drift = match (asked.at.occurrence(), &at) {
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

    /// "At once", "joined" and "after so many ms" need no point.
    pub(super) fn begin_unclaimed(&mut self, now: u64, out: &mut Vec<Action>) {
        if self.finished || !self.after_go || !self.acting.is_empty() {
            return;
        }
        let Some(f) = self.faults.get(self.current) else {
            return;
        };
        let now_due = match &f.at {
            At::AtOnce => true,
            At::Joined(n) => self.ready.contains(n) && !self.state.dead.contains(n),
            At::After(ms) => now.saturating_sub(self.since) >= u64::from(*ms) * 1_000_000,
            At::Exact(_) | At::Pattern(_) => false,
        };
        if now_due {
            let at = f.at.clone();
            self.begin(Begin::unclaimed(at, now), now, out);
        }
    }

    /// Resolves, asks the constraints, acts.
    pub(super) fn begin(&mut self, b: Begin, now: u64, out: &mut Vec<Action>) {
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
            Err(violation) => return self.forbidden(index, claimed, &violation, out),
        };
        let (wait, release) = self.act(index, &fault, &next, &b, out);
        let at_once = wait == WaitFor::Nothing;
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
            by_itself: false,
        });
        if at_once {
            self.complete(&WaitFor::Nothing, now, out);
            return;
        }
        // Two crashes: in the same action.
        let again = self
            .faults
            .get(index + 1)
            .is_some_and(|f| crash && f.at == At::AtOnce && matches!(f.fault, Fault::Crash { .. }));
        if again {
            self.begin(Begin::unclaimed(At::AtOnce, now), now, out);
        }
    }

    /// The constraints forbid fault `index`: whoever claimed it goes on, and no other fault comes.
    fn forbidden(
        &mut self,
        index: usize,
        claimed: bool,
        violation: &Violation,
        out: &mut Vec<Action>,
    ) {
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
    }

    /// The actions that make a resolved fault happen, what is to be waited for then, and how its thread is released.
    fn act(
        &mut self,
        index: usize,
        fault: &Fault,
        next: &ClusterState,
        b: &Begin,
        out: &mut Vec<Action>,
    ) -> (WaitFor, Release) {
        let mut release = Release::GoOn;
        let wait = match fault {
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
                self.uncut_machine(&node, out);
                out.push(Action::Spawn { node: node.clone() });
                WaitFor::Spawn(node)
            }
            Fault::PartitionStart { how, who } => {
                // `apply` has just resolved the sides, so there is a cut.
                let cut = next.cut.clone().unwrap_or(OpenCut {
                    side: Default::default(),
                    other: Default::default(),
                });
                release = released_by(*how, who.way, &cut, b);
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
            Fault::Stall { .. } => WaitFor::Nothing,
        };
        (wait, release)
    }

    fn uncut_machine(&mut self, node: &NodeName, out: &mut Vec<Action>) {
        if let Some(i) = self.machine_cut.iter().position(|n| n == node) {
            self.machine_cut.remove(i);
            out.push(Action::UncutMachine { node: node.clone() });
        }
    }

    /// What was waited for came.
    pub(super) fn complete(&mut self, what: &WaitFor, now: u64, out: &mut Vec<Action>) {
        let mut waiting = self.acting.iter_mut();
        if let Some(a) = waiting.find(|a| a.wait == *what && !a.done) {
            a.done = true;
        }
        self.settle(now, out);
    }

    /// Faults are done in their order; one that came to nothing ends it.
    pub(super) fn settle(&mut self, now: u64, out: &mut Vec<Action>) {
        let before = self.current;
        let max_hold = nanos(self.limits.max_hold);
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
            // The start of a node or a cut is done in one go, in which nobody looks at the clock.
            let dying = victim.is_some() && victim == a.executing;
            let long = a.executing.is_some() && now.saturating_sub(a.t_reached) > max_hold;
            self.state = a.next;
            self.done.push(Done {
                index: a.index,
                matched: a.matched,
                event: a.executing.zip(a.event),
                t_reached: a.t_reached,
                t_done: now,
                late: a.late || long && !dying,
                drift: a.drift,
                victim,
            });
        }
        if let Some(a) = self.acting.pop_front_if(|a| a.by_itself) {
            return self.came_to_nothing(a, out);
        }
        if self.current == before {
            return;
        }
        self.since = now;
        self.accept_earlier.clear();
        if self.current >= self.faults.len() {
            self.finish(out);
        } else if self.acting.is_empty() {
            self.begin_unclaimed(now, out);
            self.check_reachable(out);
        }
    }

    /// There was nobody left to kill: the end is the node's own, and no fault of ours. As with any node that a fault names and that ended by
    /// itself before, no other fault comes.
    fn came_to_nothing(&mut self, crash: Acting, out: &mut Vec<Action>) {
        let WaitFor::Death(node) = crash.wait else {
            return;
        };
        let detail = format!("{node} ended by itself just before it was to be killed");
        self.uncut_machine(&node, out);
        // Also if it was late and has been released: by this its claim is known as one that no fault came of.
        if crash.executing.is_some() {
            out.push(Action::Release {
                fault: crash.index,
                action: Release::GoOn,
            });
        }
        // Crashes at once with this one: their signals are sent, and the sequence has no place for one of them without it.
        if let Some(last) = self.acting.pop_back() {
            self.state = last.next;
            self.acting.clear();
            out.push(Action::Void {
                why: format!("{detail}, and others were killed with it"),
            });
        }
        if !self.finished {
            self.skip_rest("self-exit", detail, 0, out);
        }
    }
}
