//! The loop that watches a run and carries out what the controller says: claims, deaths, probes in; kills, spawns, cuts out.
//!
//! One thread, 1 ms a turn while a fault may be claimed. Everything that takes longer (questions to nodes) is the prober's.

use super::options::{NodeProgress, NodeStatus, RunError, RunProgress};
use super::watcher::Watcher;
use crate::controller::{Action, Controller, Release, Seen, SeenPoint, Watch};
use crate::link::{Claim, Command, ReleaseAction};
use crate::run::asking::prober::Prober;
use crate::run::asking::questions::Also;
use crate::run::evidence::ended;
use crate::run::evidence::threads::ThreadsAsked;
use crate::run::machine::space;
use crate::run::machine::urgent::{Urgent, urgent};
use crate::run::nodes::cluster::Cluster;
use crate::run::nodes::cuts::CutNow;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use warren_model::{At, Exit, FaultKind, NodeName, Observation, Phase, Void};

/// How often HELD is looked at.
const TURN: Duration = Duration::from_millis(1);
/// The same when nobody can claim anything.
const SLOW_TURN: Duration = Duration::from_millis(2);
/// How often the slower things are looked at.
const TICK_NS: u64 = 5_000_000;
const PROGRESS_NS: u64 = 100_000_000;
/// How often the room on the nodes' disk is looked at: what fills it may be gone at the end.
const ROOM_NS: u64 = 100_000_000;
/// How long the winner of a claim may take to say where it is; on a machine with many runnable threads that is some 10 ms.
const CLAIM_NS: u64 = 200_000_000;
/// How often it is asked.
const CLAIM_TURN: Duration = Duration::from_micros(20);

/// A kill of ours that belongs to a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct KillMade {
    pub node: usize,
    pub incarnation: u8,
    pub sent: u64,
    pub reaped: Option<u64>,
}

/// What has happened so far, as the loop knows it. A run that goes on where another one was dumped has that one's.
#[derive(Clone, Debug, Default)]
pub(super) struct SoFar {
    /// Claims up to this fault have been handled.
    pub handled: usize,
    /// By fault.
    pub kills: BTreeMap<usize, KillMade>,
    pub epochs: Vec<Observation>,
    /// Sizes of all log files at each phase and fault, by node.
    pub log_sizes: Vec<(warren_model::LogMoment, u64, Vec<Vec<u64>>)>,
    /// Nodes that were asked what their threads do, in the order of time.
    pub threads_asked: Vec<ThreadsAsked>,
}

/// The run as it goes on.
pub(super) struct Drive<'r, 'a> {
    pub cluster: &'r mut Cluster<'a>,
    pub controller: Controller,
    pub phase: Phase,
    pub prober: &'r Prober,
    pub exits: Vec<Exit>,
    pub so_far: SoFar,
    /// What went wrong in the run itself.
    pub void: Option<Void>,
    /// A node has said so, as the target's `[started]` asks.
    pub said_started: bool,
    /// The workload process has ended: its status, for people.
    pub workload_gone: Option<String>,
    /// End of the run, ns.
    pub deadline: u64,
    /// Since when its limit runs, ns.
    pub limited_since: u64,
    pub began: Instant,
    pub asked: usize,
    /// Set once tearing down: an exit now is never a finding.
    pub ending: bool,
    /// Once so many faults are done everything is stopped: the run is to be dumped there.
    pub stop_after: Option<usize>,
    /// It is: nothing is looked at any more, and what was to be done next is kept.
    pub stopped: bool,
    pub held_back: Vec<Action>,
    /// The loop sleeps between its looks; what works without a pause must not have it.
    pub urgent: Option<Urgent>,
    watcher: Watcher,
    pub queue: VecDeque<Seen>,
    last_tick: u64,
    last_progress: u64,
    last_room: u64,
    /// Some node is being asked whether it serves.
    pub(super) asking: bool,
    shown: Option<RunProgress>,
}

impl<'r, 'a> Drive<'r, 'a> {
    pub fn new(
        cluster: &'r mut Cluster<'a>,
        controller: Controller,
        prober: &'r Prober,
        began: Instant,
        asked: usize,
    ) -> Self {
        // A stall is time that was asked for.
        let limit = cluster.options.limit + controller.stalls();
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let now = cluster.slot.now_ns();
        Drive {
            cluster,
            controller,
            phase: Phase::Start,
            prober,
            exits: Vec::new(),
            so_far: SoFar::default(),
            void: None,
            said_started: false,
            workload_gone: None,
            deadline: now.saturating_add(limit),
            limited_since: now,
            began,
            asked,
            ending: false,
            stop_after: None,
            stopped: false,
            held_back: Vec::new(),
            urgent: Some(urgent()),
            watcher: Watcher::default(),
            queue: VecDeque::new(),
            last_tick: 0,
            last_progress: 0,
            last_room: 0,
            asking: false,
            shown: None,
        }
    }

    /// Enters a phase.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.cluster
            .run_page
            .set_state(phase, self.controller.current());
        self.mark_logs(warren_model::LogMoment::Phase(phase));
        self.show(true);
    }

    /// The slot's clock, ns: what the agents, the workload and slot init read too.
    pub fn now(&self) -> u64 {
        self.cluster.slot.now_ns()
    }

    /// When a node that is started now has had its time to serve, ns: its target's own patience.
    pub fn patience_ends(&self) -> u64 {
        let patience = self.cluster.prepared.target().ready.timeout;
        self.now()
            .saturating_add(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Past the run's limit.
    pub fn over(&self) -> bool {
        self.now() > self.deadline
    }

    fn stopping(&self) -> bool {
        self.cluster.options.to_end()
    }

    /// Every node that is not dead serves. Of a start there may be more to wait for: [`Drive::has_started`].
    pub fn all_serve(&self) -> bool {
        self.cluster
            .nodes
            .iter()
            .all(|n| !n.alive() || matches!(n.status, NodeStatus::Serving | NodeStatus::Held))
    }

    /// The workload has completed this command, or is gone.
    pub fn is_over(&self, command: Command) -> bool {
        self.cluster.workload_page.done(command) || self.workload_gone.is_some()
    }

    /// Turns until the condition holds (true), or until `deadline` or the stop flag (false).
    pub fn until(
        &mut self,
        deadline: u64,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> Result<bool, RunError> {
        loop {
            self.turn()?;
            if holds(self) {
                return Ok(true);
            }
            if self.now() > deadline || self.stopping() {
                return Ok(false);
            }
            std::thread::sleep(self.pace());
        }
    }

    /// Fast while a thread may be held, slow while only deaths and answers can come.
    fn pace(&self) -> Duration {
        let claimable = self
            .controller
            .awaited()
            .is_some_and(|f| self.phase == f.at.phase() || self.phase == Phase::Test);
        if claimable { TURN } else { SLOW_TURN }
    }

    /// Something has been seen.
    pub fn see(&mut self, seen: Seen) -> Result<(), RunError> {
        self.queue.push_back(seen);
        self.work()
    }

    /// One look at everything.
    pub fn turn(&mut self) -> Result<(), RunError> {
        if self.stopped {
            return Ok(());
        }
        let now = self.now();
        self.look_for_claims()?;
        self.look_for_exits();
        self.work()?;
        if !self.stopped && now.saturating_sub(self.last_tick) >= TICK_NS {
            self.last_tick = now;
            self.tick(now)?;
        }
        Ok(())
    }

    /// What is looked at less often than for claims and exits.
    fn tick(&mut self, now: u64) -> Result<(), RunError> {
        // Its processes died unseen with it: nothing that could still be waited for will come.
        if let Some(said) = self.cluster.slot.lost() {
            return Err(RunError::Slot(format!("slot init has ended{said}")));
        }
        if now.saturating_sub(self.last_room) >= ROOM_NS {
            self.last_room = now;
            self.look_for_room();
        }
        self.look_for_answers();
        for (i, role) in self.cluster.changed_roles() {
            let name = self.cluster.nodes[i].name.clone();
            self.controller.set_role(&name, role.as_deref());
        }
        if !self.controller.finished() {
            let watch = self.watch(now);
            self.queue.push_back(Seen::Tick(watch));
            self.work()?;
        }
        self.show(false);
        Ok(())
    }

    /// What the controller is told at each tick.
    fn watch(&mut self, now: u64) -> Watch {
        let awaited = self.controller.awaited().map(|f| f.at.clone());
        self.watcher.look(
            self.cluster,
            self.controller.current(),
            awaited.as_ref(),
            now,
        );
        let told = || {
            self.workload_gone.is_some()
                || self.cluster.workload_page.done(crate::link::Command::Go)
        };
        Watch {
            entries: self.watcher.entries.clone(),
            last_event: self.watcher.last_event,
            workload_over: self.phase > Phase::Test || (self.phase == Phase::Test && told()),
            limit: now > self.deadline,
            stopped: self.stopping(),
        }
    }

    fn work(&mut self) -> Result<(), RunError> {
        while !self.stopped
            && let Some(seen) = self.queue.pop_front()
        {
            for action in self.controller.on(seen, self.now()) {
                match self.stopped {
                    true => self.held_back.push(action),
                    false => self.carry_out(action)?,
                }
            }
        }
        Ok(())
    }

    fn look_for_claims(&mut self) -> Result<(), RunError> {
        let Claim::Node { node, fault } = self.cluster.run_page.claim() else {
            return Ok(());
        };
        if fault < self.so_far.handled || node >= self.cluster.nodes.len() {
            return Ok(());
        }
        self.so_far.handled = fault + 1;
        let began = self.now();
        let held = loop {
            if let Some(h) = self.cluster.nodes[node].page.held_by(fault) {
                break Some(h);
            }
            if self.now().saturating_sub(began) > CLAIM_NS {
                break None;
            }
            // This thread goes before all others: to yield would keep the winner, if it was on this core, from ever saying it.
            std::thread::sleep(CLAIM_TURN);
        };
        let n = &self.cluster.nodes[node];
        let at = held.and_then(|h| {
            let index = h.event?;
            let e = n.page.event(index)?;
            // Nothing that the fault does not ask for comes between its point and the signal. The peer is interned before the event is
            // committed.
            let peer = e.peer.filter(|_| self.controller.wants_peer());
            let peer = peer.and_then(|offset| {
                let text = n.page.text_at(offset)?;
                Some(self.cluster.node_of_peer(&text)?.name.clone())
            });
            Some(SeenPoint {
                point: warren_model::IoPoint {
                    node: n.name.clone(),
                    stack: e.stack,
                    kind: e.kind,
                    place: e.place,
                    n: e.n,
                    phase: e.phase.of_point(),
                },
                peer,
                event: Some(index),
                arrival: h.n,
            })
        });
        let name = n.name.clone();
        let t_reached = held.map_or(began, |h| h.t_ns);
        if self.cluster.nodes[node].status == NodeStatus::Serving {
            self.cluster.nodes[node].status = NodeStatus::Held;
            // What follows at once ends the hold again, and nobody would ever see it. But nothing comes between a crash's point and its
            // signal, and to tell the screen waits for the screen.
            let crash = self
                .controller
                .awaited()
                .is_some_and(|f| f.fault.kind() == FaultKind::Crash);
            if !crash {
                self.show(true);
            }
        }
        self.see(Seen::Claimed {
            fault,
            node: name,
            t_reached,
            at,
        })
    }

    /// A disk that is full, now or at any time before, makes the run void.
    pub fn look_for_room(&mut self) {
        if self.void.is_none() {
            self.void = space::full(self.cluster.slot.root()).map(Void::WentWrong);
        }
    }

    fn look_for_exits(&mut self) {
        for e in self.cluster.exits() {
            let gone = self
                .cluster
                .workload
                .as_ref()
                .is_some_and(|p| p.pid_inside == e.pid);
            if gone {
                self.workload_gone = Some(ended::how(e.status, e.signal));
                let void = ended::voids("the workload", &e, self.ending);
                self.void = void.or(self.void.take());
                continue;
            }
            let found = self.cluster.nodes.iter().position(|n| {
                n.process
                    .as_ref()
                    .is_some_and(|p| p.pid_inside == e.pid && p.name == e.name)
            });
            let Some(i) = found else { continue };
            let node = &mut self.cluster.nodes[i];
            let number = node.incarnation();
            if let Some(last) = node.incarnations.last_mut() {
                last.ended_ns = Some(e.t_ns);
            }
            for k in self.so_far.kills.values_mut() {
                if k.node == i && k.incarnation == number && k.reaped.is_none() {
                    k.reaped = Some(e.t_ns);
                }
            }
            if !e.by_us && !self.ending {
                node.status = NodeStatus::Exited;
                self.exits.push(Exit {
                    node: node.name.clone(),
                    incarnation: number,
                    phase: self.phase,
                    t_ns: e.t_ns,
                    status: e.status,
                    signal: e.signal,
                    role: node.role.clone(),
                });
                let void = ended::voids(node.name.as_str(), &e, self.ending);
                self.void = void.or(self.void.take());
                self.cluster.workload_page.set_node(i, number, false);
            }
            let node = &mut self.cluster.nodes[i];
            node.role = None;
            let name = node.name.clone();
            self.queue.push_back(Seen::Dead {
                node: name,
                by_us: e.by_us,
            });
        }
    }

    /// Does what the controller asks.
    ///
    /// # Errors
    /// What was asked may have happened in part, or happen later: no record could say truly what this run was, so it ends.
    pub fn carry_out(&mut self, action: Action) -> Result<(), RunError> {
        match action {
            Action::Kill { fault, node } => {
                let Some(i) = self.cluster.index(&node) else {
                    return Ok(());
                };
                let sent = self.cluster.kill_node(i);
                self.so_far.kills.insert(
                    fault,
                    KillMade {
                        node: i,
                        incarnation: self.cluster.nodes[i].incarnation(),
                        sent,
                        reaped: None,
                    },
                );
            }
            Action::CutMachine { node } => {
                if let Some(i) = self.cluster.index(&node) {
                    self.cluster.machine_cut(i, true)?;
                }
            }
            Action::UncutMachine { node } => {
                if let Some(i) = self.cluster.index(&node) {
                    self.cluster.machine_cut(i, false)?;
                }
            }
            Action::Spawn { node } => {
                let Some(i) = self.cluster.index(&node) else {
                    return Ok(());
                };
                self.mark_logs(warren_model::LogMoment::Starts);
                self.cluster.spawn_node(i)?;
                self.queue.push_back(Seen::Spawned { node });
            }
            Action::Cut { how, way, cut } => {
                self.cluster.start_cut(how, way, cut)?;
                self.queue.push_back(Seen::CutInForce);
            }
            Action::Uncut => {
                self.cluster.end_cut()?;
                self.queue.push_back(Seen::CutGone);
            }
            Action::AcceptEarlier { fault, node } => {
                if let Some(i) = self.cluster.index(&node) {
                    self.cluster.nodes[i].page.accept_earlier(fault);
                }
            }
            Action::SetCurrent { done } => {
                self.cluster.workload_page.set_faults(done);
                if self.stop_after == Some(done) {
                    // Nobody is asked anything while it stands still, and it does before anybody can learn that the next fault is
                    // awaited: its point is still to come for all.
                    self.prober.want(Vec::new(), Also::Nothing);
                    self.cluster.all_stop();
                    self.stopped = true;
                }
                self.cluster.run_page.set_state(self.phase, done);
                for n in &mut self.cluster.nodes {
                    if n.status == NodeStatus::Held {
                        n.status = NodeStatus::Serving;
                    }
                }
                self.sample_epochs();
                self.mark_logs(warren_model::LogMoment::Fault(done.saturating_sub(1)));
                self.show(true);
            }
            Action::Release { fault, action } => {
                let action = match action {
                    Release::GoOn => ReleaseAction::GoOn,
                    Release::Throw => ReleaseAction::Throw,
                    Release::Lose => ReleaseAction::Lose,
                };
                self.cluster.run_page.release(fault, action);
                // Refused or too late: no fault comes of this claim, so nothing from now on happens during it.
                if self.controller.finished() && fault >= self.controller.current() {
                    self.cluster.run_page.withdraw(fault);
                }
            }
            Action::Cancel { fault } => {
                // If a thread was first, its claim is seen at the next turn.
                if self.cluster.run_page.cancel(fault).is_ok() {
                    self.queue.push_back(Seen::Cancelled { fault });
                }
            }
            Action::Void { why } => {
                self.void.get_or_insert(Void::WentWrong(why));
            }
            Action::Finished => {
                if self.phase >= Phase::Test {
                    self.cluster.workload_page.set_faults_done(self.now());
                }
                self.show(true);
            }
        }
        Ok(())
    }

    /// Tells the screen, at most every 0.1 s unless something important happened.
    pub fn show(&mut self, now: bool) {
        let Some(tell) = self.cluster.options.progress.clone() else {
            return;
        };
        let t = self.now();
        if !now && t.saturating_sub(self.last_progress) < PROGRESS_NS {
            return;
        }
        self.last_progress = t;
        let logs = &self.cluster.prepared.target().logs;
        let progress = RunProgress {
            phase: self.phase,
            elapsed: self.began.elapsed(),
            nodes: self
                .cluster
                .nodes
                .iter()
                .map(|n| NodeProgress {
                    name: n.name.clone(),
                    role: n.role.clone(),
                    status: n.status,
                    incarnation: n.incarnation(),
                    logs: logs.iter().map(|l| n.dir.join(l)).collect(),
                })
                .collect(),
            awaited: self
                .controller
                .awaited()
                .map(|f| format!("{} at {}", f.fault.kind(), shown(&f.at))),
            injected: self.controller.current(),
            asked: self.asked,
            cut: self.cluster.cuts.open.as_ref().map_or(Vec::new(), cut_off),
        };
        let same = self.shown.as_ref().is_some_and(|s| {
            s.phase == progress.phase
                && s.nodes == progress.nodes
                && s.awaited == progress.awaited
                && s.cut == progress.cut
        });
        if !same || !now {
            tell(progress.clone());
            self.shown = Some(progress);
        }
    }
}

/// The nodes a cut takes something from: its smaller side; both when neither is smaller.
fn cut_off(now: &CutNow) -> Vec<NodeName> {
    let (side, other) = (&now.cut.side, &now.cut.other);
    let smaller = |a: usize, b: usize| a <= b;
    let mut nodes: Vec<NodeName> = Vec::new();
    if smaller(side.len(), other.len()) {
        nodes.extend(side.iter().cloned());
    }
    if smaller(other.len(), side.len()) {
        nodes.extend(other.iter().cloned());
    }
    nodes
}

/// A place as one short text.
pub(super) fn shown(at: &At) -> String {
    match at {
        At::Exact(p) => format!("{} {} {} {} n={}", p.node, p.kind, p.place, p.stack, p.n),
        At::Pattern(p) => {
            let mut parts: Vec<String> = Vec::new();
            parts.extend(p.node.as_ref().map(ToString::to_string));
            parts.extend(p.except.as_ref().map(|n| format!("not {n}")));
            parts.extend(p.role.as_ref().map(|r| format!("@{r}")));
            parts.extend(p.kind.map(|k| k.to_string()));
            parts.extend(p.frames.iter().cloned());
            format!("{} n={}", parts.join(" "), p.n)
        }
        At::AtOnce => "once".into(),
        At::Joined(n) => format!("{n} joined"),
        At::After(ms) => format!("{ms} ms later"),
    }
}
