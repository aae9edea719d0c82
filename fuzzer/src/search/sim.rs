//! A made-up cluster for tests: runs a sequence in microseconds and answers as the executor would, with a planted bug that
//! needs a crash and a reboot at certain points. A leader replicates entries to followers, which force them and answer;
//! recovery has its own stacks. Counts occurrences per node, stack, kind, place and interval, as the agent does. Its faults are in
//! `faults`.

mod faults;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use warren_model::{
    ClusterShape, ClusterState, EventFlags, FaultSequence, GroupShape, HistoryEvent, Injected,
    Interval, Kind, NodeName, NotInjected, Observation, OpDone, OpInvoke, Outcome, Phase, Place,
    RunProduct, RunRecord, StackId, StartState, Trace, TraceEvent,
};

pub const MAP: usize = 4096;

/// How large, and what goes wrong.
#[derive(Clone, Debug)]
pub struct Sim {
    pub nodes: Vec<NodeName>,
    pub max_dead: usize,
    pub max_faults: usize,
    /// Rounds of replication after GO.
    pub rounds: u32,
    /// A follower crashed at `log.force` leaves a tail to be truncated; rebooted before that is done, entries are lost.
    pub bug: bool,
    /// A follower that dies while it joins comes back with a gap; when the leader dies then, entries are lost. Needs five faults.
    pub deep: bool,
    /// Clients read, and their reads are in the history: the checkers then want answers to questions that are not asked here.
    pub clients: bool,
    /// Such stacks never come again: sequences that ask for them are not injected.
    pub vanishing: BTreeSet<StackId>,
}

impl Sim {
    pub fn new(nodes: usize, max_dead: usize) -> Self {
        Sim {
            nodes: (1..=nodes)
                .map(|i| NodeName::from(format!("n{i}").as_str()))
                .collect(),
            max_dead,
            max_faults: 10,
            rounds: 12,
            bug: true,
            deep: false,
            clients: false,
            vanishing: BTreeSet::new(),
        }
    }

    pub fn shape(&self) -> ClusterShape {
        ClusterShape {
            groups: vec![GroupShape {
                name: "server".into(),
                nodes: self.nodes.clone(),
                max_dead: self.max_dead,
            }],
            max_faults: self.max_faults,
        }
    }

    pub fn run(&self, asked: &FaultSequence) -> RunProduct {
        Run::new(self, asked).go()
    }
}

struct Run<'a> {
    sim: &'a Sim,
    asked: &'a FaultSequence,
    trace: Trace,
    phase: Phase,
    done: usize,
    t: u64,
    /// When GO was given.
    go: u64,
    counts: HashMap<(u16, StackId, Kind, Place), (Interval, u32)>,
    patterns: HashMap<(usize, u16), u32>,
    dead: BTreeSet<usize>,
    cut: Option<(BTreeSet<usize>, BTreeSet<usize>)>,
    leader: usize,
    matched: FaultSequence,
    injected: Vec<Injected>,
    /// Work that a fault leaves behind: (node, stack name, kind).
    recovery: Vec<(usize, &'static str, Kind)>,
    marks: Vec<String>,
    /// Points until the tail is truncated.
    truncating: u32,
    /// Alive, and its joining (after a reboot) is over.
    joined: BTreeSet<usize>,
    /// Died while joining; came back so, and may lead for some points to come.
    gap: Option<usize>,
    exposed: u32,
    failed: bool,
    lost: bool,
    /// One read a round at each living follower that the leader reaches.
    history: Vec<HistoryEvent>,
    /// In order of death.
    deaths: Vec<usize>,
    /// As the constraints know it; a fault that was against them ends the sequence.
    state: ClusterState,
    refused: bool,
}

impl<'a> Run<'a> {
    fn new(sim: &'a Sim, asked: &'a FaultSequence) -> Self {
        let mut matched = FaultSequence::empty(&asked.target);
        matched.start = asked.start;
        matched.roles = sim
            .nodes
            .iter()
            .enumerate()
            .map(|(i, n)| (n.clone(), if i == 0 { "leader" } else { "follower" }.into()))
            .collect();
        Run {
            sim,
            asked,
            trace: Trace {
                version: 1,
                nodes: sim.nodes.clone(),
                roles: vec!["leader".into(), "follower".into()],
                ..Trace::default()
            },
            phase: Phase::Start,
            done: 0,
            t: 1_000,
            go: 0,
            counts: HashMap::new(),
            patterns: HashMap::new(),
            dead: BTreeSet::new(),
            cut: None,
            leader: 0,
            matched,
            injected: Vec::new(),
            recovery: Vec::new(),
            marks: Vec::new(),
            truncating: 0,
            joined: (0..sim.nodes.len()).collect(),
            gap: None,
            exposed: 0,
            failed: false,
            lost: false,
            history: Vec::new(),
            deaths: Vec::new(),
            state: ClusterState::default(),
            refused: false,
        }
    }

    fn go(mut self) -> RunProduct {
        // A restored cluster has started long ago.
        let booting = match self.asked.start {
            StartState::Cold => self.sim.nodes.len(),
            StartState::Snapshot(_) => 0,
        };
        for n in 0..booting {
            self.io(n, "boot.readEpoch", Kind::Create, None);
            self.io(n, "boot.writeEpoch", Kind::Force, None);
        }
        self.phase = Phase::Test;
        self.go = self.t;
        for round in 0..self.sim.rounds {
            self.unclaimed();
            self.round(round);
            for (node, what, kind) in std::mem::take(&mut self.recovery) {
                self.io(node, what, kind, None);
            }
        }
        self.finish()
    }

    fn round(&mut self, round: u32) {
        const SENDS: [&str; 5] = [
            "lead.propose",
            "lead.batch",
            "lead.commit",
            "lead.inform",
            "lead.flush",
        ];
        const FORCES: [&str; 5] = [
            "log.append",
            "log.roll",
            "log.index",
            "log.force",
            "log.sync",
        ];
        const ACKS: [&str; 3] = ["ack.plain", "ack.batch", "ack.late"];
        if self.dead.contains(&self.leader) {
            let Some(next) = (0..self.sim.nodes.len()).find(|n| !self.dead.contains(n)) else {
                return;
            };
            self.leader = next;
            self.io(next, "elect.vote", Kind::MsgSend, None);
            self.io(next, "elect.storeEpoch", Kind::Force, None);
        }
        let pick = |names: &[&'static str], k: u32| names[k as usize % names.len()];
        if self.sim.deep {
            self.io(self.leader, "lead.append", Kind::Force, None);
            self.follow_another();
        }
        for f in 0..self.sim.nodes.len() {
            let leader = self.leader;
            if f == leader || self.dead.contains(&f) || self.dead.contains(&leader) {
                continue;
            }
            self.io(leader, pick(&SENDS, round), Kind::MsgSend, Some(f));
            if self.is_cut(leader, f) {
                self.io(f, "follow.timeout", Kind::Send, None);
                continue;
            }
            self.io(f, "follow.receive", Kind::MsgReceive, Some(leader));
            self.io(f, pick(&FORCES, round), Kind::Write, None);
            self.io(f, pick(&FORCES, round), Kind::Force, None);
            self.io(f, pick(&ACKS, round), Kind::MsgSend, Some(leader));
            self.read(f);
        }
    }

    /// A leader that reaches nobody is succeeded.
    fn follow_another(&mut self) {
        let old = self.leader;
        let living = |n: &usize| *n != old && !self.dead.contains(n);
        let mut others = (0..self.sim.nodes.len()).filter(living);
        if others.clone().any(|n| !self.is_cut(old, n)) {
            return;
        }
        if let Some(next) = others.next() {
            self.leader = next;
            self.io(next, "elect.vote", Kind::MsgSend, None);
            self.io(next, "elect.storeEpoch", Kind::Force, None);
        }
    }

    fn read(&mut self, server: usize) {
        let dead = self.dead.contains(&server) || self.dead.contains(&self.leader);
        if dead || !self.sim.clients {
            return;
        }
        let id = self.history.len() as u64 / 2 + 1;
        self.t += 10;
        self.history.push(HistoryEvent::Invoke(OpInvoke {
            id,
            client: "client".into(),
            session: "client#1".into(),
            server: Some(self.sim.nodes[server].clone()),
            op: "read".into(),
            key: None,
            value: None,
            expect: None,
            retry_of: None,
            t_ns: self.t,
        }));
        self.t += 10;
        self.history.push(HistoryEvent::Done(OpDone {
            id,
            t_ns: self.t,
            outcome: Outcome::Ok,
            value: None,
            version: None,
            zxid: None,
            mzxid: None,
            error: None,
        }));
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut.as_ref().is_some_and(|(x, y)| {
            (x.contains(&a) && y.contains(&b)) || (x.contains(&b) && y.contains(&a))
        })
    }

    fn interval(&self) -> Interval {
        Interval::new(self.phase, u16::try_from(self.done).unwrap())
    }

    fn io(&mut self, node: usize, what: &'static str, kind: Kind, peer: Option<usize>) {
        if self.dead.contains(&node) {
            return;
        }
        let stack = StackId::of_frames([what, "main.run"]);
        if self.done > 0 && self.sim.vanishing.contains(&stack) {
            return;
        }
        self.trace
            .stacks
            .entry(stack)
            .or_insert_with(|| vec![format!("{what}:1"), "main.run:1".into()]);
        let place = if matches!(kind, Kind::MsgReceive) {
            Place::After
        } else {
            Place::Before
        };
        let interval = self.interval();
        let node16 = u16::try_from(node).unwrap();
        let count = self
            .counts
            .entry((node16, stack, kind, place))
            .or_insert((interval, 0));
        if count.0 != interval {
            *count = (interval, 0);
        }
        count.1 += 1;
        let n = count.1;
        let peer = peer.map(|p| {
            let address = warren_model::address::of_node(0, p);
            self.trace.texts.push(format!("{address}:2888"));
            u32::try_from(self.trace.texts.len() - 1).unwrap()
        });
        let role = if self.phase == Phase::Start {
            0
        } else if node == self.leader {
            1
        } else {
            2
        };
        self.t += 1_000;
        let event = TraceEvent {
            node: node16,
            stack,
            kind,
            place,
            phase: self.phase,
            interval,
            n,
            t_ns: self.t,
            role,
            flags: EventFlags(0),
            incarnation: 1,
            thread: 1,
            peer,
            detail: None,
            bytes: 1,
        };
        self.trace.events.push(event);
        self.truncating = if what == "resync.truncate" {
            2
        } else {
            self.truncating.saturating_sub(1)
        };
        let index = self.trace.events.len() - 1;
        if what == "join.entries" {
            self.joined.insert(node);
            self.exposed = if self.gap == Some(node) { 40 } else { 0 };
        }
        self.exposed = self.exposed.saturating_sub(1);
        self.inject(index, node, what, peer);
        self.unclaimed();
    }

    fn finish(self) -> RunProduct {
        let mut coverage = vec![0u8; MAP];
        for e in &self.trace.events {
            coverage[(e.stack.0 as usize) % MAP] = 1;
        }
        for m in self.marks.windows(2) {
            coverage[warren_model::ids::fnv1a(m.concat().as_bytes()) as usize % MAP] = 1;
        }
        let asked = self.asked.faults.len();
        let (reason, detail) = if self.refused {
            ("constraint", "against the constraints")
        } else {
            ("bound", "never reached")
        };
        let mut record = RunRecord {
            version: 1,
            sequence: Some(self.asked.clone()),
            matched: Some(self.matched),
            injected: self.injected,
            not_injected: (self.done < asked).then(|| NotInjected {
                index: self.done,
                reason: reason.into(),
                detail: detail.into(),
                nearest: 0,
            }),
            degraded_asked: true,
            ..RunRecord::default()
        };
        record.times.test = 900;
        record.times.total = 2_000 + 300 * asked as u64;
        let mut observations = Vec::new();
        if self.failed {
            observations.push(Observation::Mismatch {
                node: self.sim.nodes[0].clone(),
                what: "digest".into(),
                detail: "planted: entry lost on resync".into(),
            });
        }
        if self.lost {
            observations.push(Observation::Mismatch {
                node: self.sim.nodes[0].clone(),
                what: "digest".into(),
                detail: "planted: entries lost on all".into(),
            });
        }
        observations.push(Observation::Round {
            name: "final".into(),
            complete: true,
            durable: false,
        });
        RunProduct {
            record,
            trace: self.trace,
            coverage,
            probes: Vec::new(),
            history: self.history,
            observations,
            logs: BTreeMap::new(),
            log_marks: Vec::new(),
            broken_lines: Vec::new(),
            collected: Vec::new(),
            ..RunProduct::default()
        }
    }
}
