//! What the controller sees, what it says, what it remembers: plain data.

use crate::link::Arrivals;
use std::time::Duration;
use warren_model::constraints::OpenCut;
use warren_model::{CutHow, CutWay, FaultAt, IoPoint, NodeName};

/// Waiting limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From GO or from the previous fault done.
    pub fault_wait: Duration,
    /// No event of a non-background stack, and none of the awaited point, for so long: what is awaited does not come.
    pub idle: Duration,
    /// So long the target may take to notice a death or a cut by its own clock: a session. Silence is no sign before that.
    pub notice: Duration,
    pub max_hold: Duration,
}

/// The point a claim was made at, as far as its event could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPoint {
    pub point: IoPoint,
    /// The node at the other end of a message, where the fault asks for it ([`super::Controller::wants_peer`]).
    pub peer: Option<NodeName>,
    /// Index of its event in the node's page.
    pub event: Option<u64>,
    /// The number by which it matched: an exact point's occurrence, a pattern's arrival on its node.
    pub arrival: u32,
}

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// GO was given: the test phase begins.
    Go,
    /// A thread of `node` holds for fault `fault`.
    Claimed {
        fault: usize,
        node: NodeName,
        t_reached: u64,
        at: Option<SeenPoint>,
    },
    /// The fault's claim was taken away from all threads.
    Cancelled { fault: usize },
    /// A node's process has been reaped; `by_us`: by our SIGKILL, and not of itself just before it.
    Dead { node: NodeName, by_us: bool },
    /// A node's new process exists.
    Spawned { node: NodeName },
    /// The ready probe of a node passed, for the first time since it was spawned.
    Joined { node: NodeName },
    /// The cut asked for is in force.
    CutInForce,
    /// No cut is in force any more.
    CutGone,
    /// Time passed.
    Tick(Watch),
}

/// What is watched while a fault is awaited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// What came of the awaited point in this interval, on each node whose agent waits for it.
    pub entries: Vec<(NodeName, Arrivals)>,
    /// When the last event of a non-background stack came, anywhere, ns; 0 = none yet. Of background ones the awaited points count, by
    /// their entries.
    pub last_event: u64,
    /// The workload has ended its traffic or is gone.
    pub workload_over: bool,
    /// The run passed its limit.
    pub limit: bool,
    /// Warren is stopping.
    pub stopped: bool,
}

/// What a released thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    GoOn,
    Throw,
    Lose,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL; answered by [`Seen::Dead`].
    Kill { fault: usize, node: NodeName },
    /// Drop every packet of this node; no answer is waited for.
    CutMachine { node: NodeName },
    /// The node's machine is back: its packets pass again.
    UncutMachine { node: NodeName },
    /// Start the node again; answered by [`Seen::Spawned`].
    Spawn { node: NodeName },
    /// Answered by [`Seen::CutInForce`].
    Cut {
        how: CutHow,
        way: CutWay,
        cut: OpenCut,
    },
    /// Answered by [`Seen::CutGone`].
    Uncut,
    /// On this node the next occurrence with any n will do.
    AcceptEarlier { fault: usize, node: NodeName },
    /// So many faults are done.
    SetCurrent { done: usize },
    /// Threads held for this fault leave.
    Release { fault: usize, action: Release },
    /// Take the claim away; answered by [`Seen::Cancelled`], or by [`Seen::Claimed`] if a thread was first.
    Cancel { fault: usize },
    /// What was done cannot be told as faults of the sequence: the run says nothing.
    Void { why: String },
    /// All faults are done or given up.
    Finished,
}

/// A fault that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub index: usize,
    pub matched: FaultAt,
    /// The node that executed the point, and its event there.
    pub event: Option<(NodeName, u64)>,
    pub t_reached: u64,
    pub t_done: u64,
    pub late: bool,
    pub drift: Option<(u32, u32)>,
    /// The node that died, for crashes.
    pub victim: Option<NodeName>,
}
