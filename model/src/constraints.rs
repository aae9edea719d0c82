//! Which faults may follow which: one pure function, asked when a child is made and again before each injection.
//!
//! CrashFuzz section III-B (dead nodes, max faults, max dead per group), with partitions: one open cut, and while it is open max
//! dead counts the dead plus the smaller side. A crash of style `outage` alone may take more: the state says so
//! from then on, and who judges asks less of such a run.

use crate::ids::NodeName;
use crate::sequence::{CrashStyle, CutWho, Fault, Member, Who};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Nodes configured alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupShape {
    pub name: String,
    pub nodes: Vec<NodeName>,
    pub max_dead: usize,
}

/// What the constraints know of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterShape {
    pub groups: Vec<GroupShape>,
    pub max_faults: usize,
}

/// Who is dead, in order of death, and what is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    pub dead: Vec<NodeName>,
    pub cut: Option<OpenCut>,
    pub faults: usize,
    /// An outage took more nodes of a group than may be gone, now or before.
    pub beyond: bool,
}

/// An open cut with its members resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCut {
    pub side: BTreeSet<NodeName>,
    pub other: BTreeSet<NodeName>,
}

impl OpenCut {
    /// The side with fewer nodes; of equal ones the first named.
    #[must_use]
    pub fn smaller(&self) -> &BTreeSet<NodeName> {
        if self.other.len() < self.side.len() {
            &self.other
        } else {
            &self.side
        }
    }
}

/// Why a fault may not happen now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("the sequence already has {0} faults, the most allowed")]
    MaxFaults(usize),
    #[error("{0} executes the point but is dead")]
    ExecutorDead(NodeName),
    #[error("{0} is already dead")]
    AlreadyDead(NodeName),
    #[error("{0} is alive: only a dead node can be rebooted")]
    NotDead(NodeName),
    #[error("no node is dead: nothing to reboot")]
    NobodyDead,
    #[error("group {group} would have {would} nodes dead or cut off, at most {max} allowed")]
    MaxDead {
        group: String,
        would: usize,
        max: usize,
    },
    #[error("a cut is already open: stop it first")]
    CutOpen,
    #[error("no cut is open: nothing to stop")]
    NoCutOpen,
    #[error("`{0}` is no node of this cluster")]
    Unknown(String),
    #[error("`{name}` is no {what} of this cluster; known: {known}")]
    NoSuch {
        /// `node` or `role`.
        what: &'static str,
        name: String,
        /// All there are, for people.
        known: String,
    },
    #[error("a cut needs two sides that share no node")]
    Sides,
    #[error("`{0}` becomes a node only when the fault is injected")]
    Unresolved(String),
}

impl ClusterShape {
    /// All nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.groups.iter().flat_map(|g| &g.nodes)
    }

    fn known(&self, node: &NodeName) -> Result<(), Violation> {
        if self.nodes().any(|n| n == node) {
            Ok(())
        } else {
            Err(Violation::Unknown(node.to_string()))
        }
    }

    /// The two sides of a cut whose members are nodes. `from` empty means all others; a bridge is on neither side.
    ///
    /// # Errors
    /// Unknown or unresolved members, empty or overlapping sides.
    pub fn sides(&self, who: &CutWho) -> Result<OpenCut, Violation> {
        let names = |members: &[Member]| -> Result<BTreeSet<NodeName>, Violation> {
            members
                .iter()
                .map(|m| match m {
                    Member::Node(n) => self.known(n).map(|()| n.clone()),
                    other => Err(Violation::Unresolved(other.to_string())),
                })
                .collect()
        };
        let mut side = names(&who.cut)?;
        let bridge = names(who.bridge.as_slice())?;
        let mut other = if who.from.is_empty() {
            self.nodes()
                .filter(|n| !side.contains(*n))
                .cloned()
                .collect()
        } else {
            names(&who.from)?
        };
        if !side.is_disjoint(&other) {
            return Err(Violation::Sides);
        }
        side.retain(|n| !bridge.contains(n));
        other.retain(|n| !bridge.contains(n));
        if side.is_empty() || other.is_empty() {
            return Err(Violation::Sides);
        }
        Ok(OpenCut { side, other })
    }

    /// The state after a fault, or why it may not happen. `executing` is the node at whose point it happens, if any; the
    /// fault's targets must be resolved to nodes (`Executing` and `FirstDead` are resolved here).
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn apply(
        &self,
        state: &ClusterState,
        executing: Option<&NodeName>,
        fault: &Fault,
    ) -> Result<ClusterState, Violation> {
        if state.faults >= self.max_faults {
            return Err(Violation::MaxFaults(self.max_faults));
        }
        if let Some(e) = executing
            && state.dead.contains(e)
        {
            return Err(Violation::ExecutorDead(e.clone()));
        }
        let mut next = state.clone();
        next.faults += 1;
        match fault {
            Fault::Crash { who, .. } => {
                let node = Self::resolve(who, state, executing)?;
                self.known(&node)?;
                if state.dead.contains(&node) {
                    return Err(Violation::AlreadyDead(node));
                }
                next.dead.push(node);
            }
            Fault::Reboot { who } => {
                let node = Self::resolve(who, state, executing)?;
                self.known(&node)?;
                let at = state
                    .dead
                    .iter()
                    .position(|d| *d == node)
                    .ok_or(Violation::NotDead(node))?;
                next.dead.remove(at);
            }
            Fault::PartitionStart { who, .. } => {
                if state.cut.is_some() {
                    return Err(Violation::CutOpen);
                }
                next.cut = Some(self.sides(who)?);
            }
            // Who is dead and what is cut stays as it is: a thread that holds is a slow node, which is always legal.
            Fault::Stall { .. } => {
                executing.ok_or_else(|| Violation::Unresolved("@executing".into()))?;
            }
            Fault::PartitionStop => {
                next.cut.take().ok_or(Violation::NoCutOpen)?;
            }
        }
        if let Some((group, would)) = self.above_max_dead(state, &next) {
            let outage = CrashStyle::Outage;
            let lifted = matches!(fault, Fault::Crash { style, .. } if *style == outage);
            // Of a group that may lose nobody no outage takes a node either.
            if !lifted || group.max_dead == 0 {
                return Err(Violation::MaxDead {
                    group: group.name.clone(),
                    would,
                    max: group.max_dead,
                });
            }
            next.beyond = true;
        }
        Ok(next)
    }

    /// Whether `next` is allowed whichever nodes the faults before it met: each group bears it also where none of the dead is among those cut
    /// off. For sequences of patterns, whose nodes are known only when they come. What takes no more of a group than `state` is no offence.
    #[must_use]
    pub fn allowed_for_any_nodes(&self, state: &ClusterState, next: &ClusterState) -> bool {
        self.groups.iter().all(|g| {
            let would = apart(g, next);
            would <= g.max_dead || would <= apart(g, state)
        })
    }

    fn resolve(
        who: &Who,
        state: &ClusterState,
        executing: Option<&NodeName>,
    ) -> Result<NodeName, Violation> {
        match who {
            Who::Node(n) => Ok(n.clone()),
            Who::Executing => executing
                .cloned()
                .ok_or_else(|| Violation::Unresolved("@executing".into())),
            Who::FirstDead => state.dead.first().cloned().ok_or(Violation::NobodyDead),
            Who::Role(r) => Err(Violation::Unresolved(format!("@{r}"))),
        }
    }

    /// The first group that `next` takes (further) above max dead, and to how many. After an outage, or when nodes ended by themselves, a
    /// group may be there already: what takes no more of it, as a reboot, is no offence. One more dead always is, also of those cut off:
    /// the cut will end.
    fn above_max_dead(
        &self,
        state: &ClusterState,
        next: &ClusterState,
    ) -> Option<(&GroupShape, usize)> {
        let dead = |g: &GroupShape, s: &ClusterState| {
            let of = |n: &&NodeName| s.dead.contains(*n);
            g.nodes.iter().filter(of).count()
        };
        self.groups.iter().find_map(|g| {
            let would = gone(g, next);
            let more = would > gone(g, state) || dead(g, next) > dead(g, state);
            (would > g.max_dead && more).then_some((g, would))
        })
    }
}

/// Of a group: the dead plus the smaller side of an open cut, each node once.
fn gone(group: &GroupShape, state: &ClusterState) -> usize {
    count(group, state, |dead, cut| usize::from(dead || cut))
}

/// The same, where a node that is both counts twice: as if the cut had met another one.
fn apart(group: &GroupShape, state: &ClusterState) -> usize {
    count(group, state, |dead, cut| {
        usize::from(dead) + usize::from(cut)
    })
}

/// Sums what each node of a group counts: is it dead, is it on the smaller side of the open cut? Of sides as large as each other, the one that
/// counts less.
fn count(group: &GroupShape, state: &ClusterState, of: fn(bool, bool) -> usize) -> usize {
    let with = |cut: Option<&BTreeSet<NodeName>>| -> usize {
        let nodes = group.nodes.iter();
        nodes
            .map(|n| of(state.dead.contains(n), cut.is_some_and(|c| c.contains(n))))
            .sum()
    };
    match &state.cut {
        None => with(None),
        Some(c) if c.side.len() < c.other.len() => with(Some(&c.side)),
        Some(c) if c.side.len() > c.other.len() => with(Some(&c.other)),
        Some(c) => with(Some(&c.side)).min(with(Some(&c.other))),
    }
}
