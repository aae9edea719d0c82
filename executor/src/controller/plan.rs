//! Which node's agent waits for which fault: the sequence as plan entries per node. Pure.

use crate::link::{PlanEntry, PlanStall, PlanWhere};
use std::collections::BTreeMap;
use warren_model::{At, Fault, FaultAt, NodeName, Phase};

/// Plan entries for each node, by its place in `nodes`. `role_names` are the agent's roles in order of their numbers; a role the
/// agent does not know is looked up in `roles`, who serves as what at GO. Test faults are left out with `start_only`.
#[must_use]
pub fn make_plans(
    faults: &[FaultAt],
    nodes: &[NodeName],
    role_names: &[String],
    roles: &BTreeMap<NodeName, String>,
    start_only: bool,
) -> Vec<Vec<PlanEntry>> {
    let mut plans = vec![Vec::new(); nodes.len()];
    for (index, f) in faults.iter().enumerate() {
        if start_only && f.at.phase() != Phase::Start {
            continue;
        }
        let stall = match f.fault {
            Fault::Stall { ms, until_next } => Some(PlanStall { ms, until_next }),
            _ => None,
        };
        match &f.at {
            At::AtOnce | At::Joined(_) | At::After(_) => {}
            At::Exact(p) => {
                if let Some(i) = nodes.iter().position(|n| *n == p.node) {
                    plans[i].push(PlanEntry {
                        index,
                        phase: p.phase,
                        n: p.n,
                        stall,
                        at: PlanWhere::Exact {
                            stack: p.stack,
                            kind: p.kind,
                            place: p.place,
                        },
                    });
                }
            }
            At::Pattern(p) => {
                let number = p.role.as_ref().and_then(|r| {
                    let at = role_names.iter().position(|n| n == r)?;
                    u8::try_from(at + 1).ok()
                });
                for (i, node) in nodes.iter().enumerate() {
                    let here = p.node.as_ref().is_none_or(|n| n == node)
                        && p.except.as_ref() != Some(node);
                    let by_probe = match (&p.role, number) {
                        (Some(r), None) => roles.get(node) == Some(r),
                        _ => true,
                    };
                    if here && by_probe {
                        plans[i].push(PlanEntry {
                            index,
                            phase: p.phase,
                            n: p.n,
                            stall,
                            at: PlanWhere::Pattern {
                                frames: p.frames.clone(),
                                stack: p.stack,
                                kind: p.kind,
                                place: p.place,
                                role: number.unwrap_or(0),
                            },
                        });
                    }
                }
            }
        }
    }
    plans
}
