//! How long a fault is waited for: silence, drift, bounds, and giving up. Pure.

use super::inject::WaitFor;
use super::{Action, Controller, Done, Release, Watch};
use crate::link::Arrivals;
use std::time::Duration;
use warren_model::{At, Fault, NodeName};

/// Silence of the awaited stack on a node after which that node accepts a smaller n (a drift).
const DRIFT_AFTER: u64 = 1_000_000_000;
/// Of the longest wait, what a point that has not come at all, on no node, has for itself before a smaller n will do: what leads to it
/// may just begin later (followers learn of a cut by their own clocks), and its first occurrence would be taken for the one that was asked for.
const UNSEEN_SHARE: u64 = 2;

/// Why the rest is skipped, while the claim is being taken away.
#[derive(Clone, Debug)]
pub(super) struct GivingUp {
    pub reason: &'static str,
    pub detail: String,
    pub arrivals: u32,
}

impl Controller {
    pub(super) fn tick(&mut self, w: &Watch, now: u64, out: &mut Vec<Action>) {
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
        let since = self.waits_since(now);
        let waited = now.saturating_sub(since);
        if w.workload_over {
            return self.give_up("bound", "the workload ended".into(), nearest, out);
        }
        if let Some(At::After(_)) = self.faults.get(self.current).map(|f| &f.at) {
            // A time always comes: neither silence nor a long wait says anything.
            return self.begin_unclaimed(now, out);
        }
        if waited > nanos(self.longest_wait()) {
            let detail = format!("waited {} ms", waited / 1_000_000);
            return self.give_up("bound", detail, nearest, out);
        }
        // A background stack's points are hardly ever events: whether the awaited one still comes its entries say.
        let came = w.entries.iter().map(|(_, a)| a.last).max().unwrap_or(0);
        let quiet = now.saturating_sub(w.last_event.max(came).max(since));
        if quiet > nanos(self.limits.idle) && !self.may_not_know(quiet, now) {
            let detail = format!("no event for {} ms", quiet / 1_000_000);
            return self.give_up("silence", detail, nearest, out);
        }
        let n = self
            .faults
            .get(self.current)
            .and_then(|f| f.at.occurrence());
        if n.is_some_and(|n| n > 1) {
            self.drift(&w.entries, now, out);
        }
    }

    /// Whether the silence may be the target's own patience. Of a cut it learns by its own clock only. A death closes connections, but who watches by
    /// sessions learns it when the last one is over; where the wait ends before that and [`Limits::idle`] more, it is not made longer for it.
    fn may_not_know(&self, quiet: u64, now: u64) -> bool {
        let notice = nanos(self.limits.notice);
        if self.state.cut.is_some() && quiet <= notice {
            return true;
        }
        let Some(died) = self.died else {
            return false;
        };
        let told = died
            .saturating_add(notice)
            .saturating_add(nanos(self.limits.idle));
        let ends = self
            .waits_since(now)
            .saturating_add(nanos(self.longest_wait()));
        now <= told && told <= ends
    }

    /// When the wait for the current fault began. While a stall holds its thread, that nothing comes is the stall's work.
    fn waits_since(&self, now: u64) -> u64 {
        let held_until = |d: &Done| match d.matched.fault {
            // One until the next fault is over when another one is done.
            Fault::Stall { ms, until_next } if !until_next || d.index + 1 == self.current => {
                Some(d.t_done + u64::from(ms) * 1_000_000)
            }
            _ => None,
        };
        let stalled = self.done.iter().filter_map(held_until).max();
        self.since.max(stalled.unwrap_or(0).min(now))
    }

    /// For the awaited fault.
    fn longest_wait(&self) -> Duration {
        let limit = self.limits.fault_wait;
        self.waits
            .get(self.current)
            .map_or(limit, |w| limit.min(*w))
    }

    /// Silence is each node's own: where the point came and comes no more, a smaller n is accepted, however lively the others are. A
    /// node where a pattern never came is no place of it as long as it comes elsewhere (a follower, for a pattern that means leaders).
    /// What never came anywhere may belong to a recovery that has not begun yet: [`UNSEEN_SHARE`], and its node must have started.
    fn drift(&mut self, entries: &[(NodeName, Arrivals)], now: u64, out: &mut Vec<Action>) {
        let since = self.waits_since(now);
        let silent_for = |a: &Arrivals| now.saturating_sub(a.last.max(since));
        let silent = |a: &Arrivals| silent_for(a) > DRIFT_AFTER;
        let comes = entries.iter().any(|(_, a)| a.n > 0 && !silent(a));
        let came = entries.iter().any(|(_, a)| a.n > 0);
        let unseen = DRIFT_AFTER.max(nanos(self.longest_wait()) / UNSEEN_SHARE);
        for (node, a) in entries {
            let less = match a.n {
                0 if came => silent(a) && !comes,
                0 => silent_for(a) > unseen && self.ready.contains(node),
                _ => silent(a),
            };
            if less && !self.accept_earlier.contains(node) {
                self.accept_earlier.push(node.clone());
                out.push(Action::AcceptEarlier {
                    fault: self.current,
                    node: node.clone(),
                });
            }
        }
    }

    /// Begins to give up the awaited fault and all after it.
    pub(super) fn give_up(
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

    pub(super) fn give_up_now(&mut self, out: &mut Vec<Action>) {
        if let Some(g) = self.giving_up.take() {
            self.skip_rest(g.reason, g.detail, g.arrivals, out);
        }
    }
}

pub(super) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
