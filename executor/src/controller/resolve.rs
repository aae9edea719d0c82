//! Names of a fault as nodes of this run, and what follows for the held thread. Pure.

use super::{Controller, Release};
use warren_model::constraints::OpenCut;
use warren_model::{
    At, ClusterState, CutHow, CutWay, CutWho, Fault, Kind, Member, NodeName, Violation, Who,
};

/// What is known when a fault begins.
pub(super) struct Begin {
    pub at: At,
    pub executing: Option<NodeName>,
    pub peer: Option<NodeName>,
    pub kind: Option<Kind>,
    pub event: Option<u64>,
    pub t_reached: u64,
    pub drift: Option<(u32, u32)>,
}

impl Begin {
    pub fn unclaimed(at: At, now: u64) -> Self {
        Begin {
            at,
            executing: None,
            peer: None,
            kind: None,
            event: None,
            t_reached: now,
            drift: None,
        }
    }
}

/// The node of a resolved crash or reboot.
pub(super) fn aimed(who: &Who) -> NodeName {
    match who {
        Who::Node(n) => n.clone(),
        // `resolve` leaves only nodes.
        _ => NodeName(String::new()),
    }
}

/// The held thread's own send is the first one that the cut meets.
pub(super) fn released_by(how: CutHow, way: CutWay, cut: &OpenCut, b: &Begin) -> Release {
    let (Some(from), Some(to), Some(kind)) = (&b.executing, &b.peer, b.kind) else {
        return Release::GoOn;
    };
    if !matches!(kind, Kind::Send | Kind::MsgSend) || !cuts_link(cut, way, from, to) {
        return Release::GoOn;
    }
    match how {
        CutHow::Drop => Release::GoOn,
        CutHow::Throw => Release::Throw,
        CutHow::Lose => Release::Lose,
    }
}

/// Whether what `from` sends to `to` is cut.
#[must_use]
pub fn cuts_link(cut: &OpenCut, way: CutWay, from: &NodeName, to: &NodeName) -> bool {
    let out = cut.side.contains(from) && cut.other.contains(to);
    let back = cut.other.contains(from) && cut.side.contains(to);
    match way {
        CutWay::Both => out || back,
        CutWay::To => out,
        CutWay::From => back,
    }
}

impl Controller {
    /// Every name of a fault as a node of this run.
    pub(super) fn resolve(
        &self,
        fault: &Fault,
        b: &Begin,
        state: &ClusterState,
    ) -> Result<Fault, Violation> {
        let unresolved = |what: &str| Violation::Unresolved(what.to_owned());
        let alive_with = |role: &str| -> Vec<NodeName> {
            self.shape
                .nodes()
                .filter(|n| {
                    self.roles.get(*n).is_some_and(|r| r == role) && !state.dead.contains(n)
                })
                .cloned()
                .collect()
        };
        let who = |w: &Who| -> Result<Who, Violation> {
            Ok(Who::Node(match w {
                Who::Node(n) => n.clone(),
                Who::Executing => b
                    .executing
                    .clone()
                    .ok_or_else(|| unresolved("@executing"))?,
                Who::FirstDead => state.dead.first().cloned().ok_or(Violation::NobodyDead)?,
                Who::Role(r) => alive_with(r)
                    .into_iter()
                    .next()
                    .ok_or_else(|| unresolved(&format!("@{r}")))?,
            }))
        };
        let members = |list: &[Member]| -> Result<Vec<Member>, Violation> {
            let mut out = Vec::new();
            for m in list {
                let nodes = match m {
                    Member::Node(n) => vec![n.clone()],
                    Member::Executing => {
                        vec![
                            b.executing
                                .clone()
                                .ok_or_else(|| unresolved("@executing"))?,
                        ]
                    }
                    Member::Peer => vec![b.peer.clone().ok_or_else(|| unresolved("@peer"))?],
                    Member::Role(r) => alive_with(r),
                };
                if nodes.is_empty() {
                    return Err(unresolved(&m.to_string()));
                }
                out.extend(nodes.into_iter().map(Member::Node));
            }
            Ok(out)
        };
        Ok(match fault {
            Fault::Crash { who: w, style } => Fault::Crash {
                who: who(w)?,
                style: *style,
            },
            Fault::Reboot { who: w } => Fault::Reboot { who: who(w)? },
            Fault::PartitionStart { how, who: w } => Fault::PartitionStart {
                how: *how,
                who: CutWho {
                    cut: members(&w.cut)?,
                    from: members(&w.from)?,
                    bridge: match &w.bridge {
                        None => None,
                        Some(m) => members(std::slice::from_ref(m))?.into_iter().next(),
                    },
                    way: w.way,
                },
            },
            Fault::PartitionStop | Fault::Stall { .. } => fault.clone(),
        })
    }
}
