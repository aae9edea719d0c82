//! Runs for the tests of states: three nodes, faults at given times.

use crate::check::testing::{Build, ms, trace_of};
use warren_model::{
    At, CrashStyle, CutHow, CutWay, CutWho, Fault, FaultAt, FaultSequence, Injected, Member,
    RunProduct, Who,
};

fn node(n: &str) -> Who {
    Who::Node(n.into())
}

/// SIGKILL.
pub fn crash(n: &str) -> Fault {
    Fault::Crash {
        who: node(n),
        style: CrashStyle::Process,
    }
}

/// Alone against all others.
pub fn cut(n: &str) -> Fault {
    Fault::PartitionStart {
        how: CutHow::Drop,
        who: CutWho {
            cut: vec![Member::Node(n.into())],
            from: vec![],
            bridge: None,
            way: CutWay::Both,
        },
    }
}

pub fn reboot(n: &str) -> Fault {
    Fault::Reboot { who: node(n) }
}

/// n1 leads; faults are done at these ms, reached one before. Nodes were ready at 0.
pub fn product(faults: &[(u64, Fault)]) -> RunProduct {
    let mut p = Build::new().product;
    let nodes = p.trace.nodes.clone();
    p.trace = trace_of(&[1, 2, 3]);
    p.trace.nodes = nodes;
    p.trace.roles = vec!["leader".into(), "follower".into()];
    for (i, e) in p.trace.events.iter_mut().enumerate() {
        e.node = i as u16;
        e.role = if i == 0 { 1 } else { 2 };
        e.t_ns = ms(1);
    }
    p.record.matched = Some(FaultSequence::empty("t"));
    p.record.injected = faults
        .iter()
        .enumerate()
        .map(|(index, (t, fault))| Injected {
            index,
            matched: FaultAt {
                at: At::AtOnce,
                fault: fault.clone(),
            },
            event: None,
            t_reached: ms(t - 1),
            t_done: ms(*t),
            late: false,
            drift: None,
            kill: None,
        })
        .collect();
    p
}
