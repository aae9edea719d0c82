//! Tables: what was seen, what must follow. Here is what the tables are written with.

mod inject;
mod names;
mod wait;

use super::*;
use crate::link::Arrivals;
use std::collections::BTreeMap;
use std::time::Duration;
use warren_model::{CrashStyle, Fault};
use warren_model::{CutHow, CutWay, CutWho, IoPoint, Kind, Member, Who};
use warren_model::{GroupShape, Place, StackId, StartState};

const MS: u64 = 1_000_000;

fn name(n: u8) -> NodeName {
    NodeName(format!("n{n}"))
}

fn shape(nodes: u8, max_dead: usize) -> ClusterShape {
    ClusterShape {
        groups: vec![GroupShape {
            name: "g".into(),
            nodes: (1..=nodes).map(name).collect(),
            max_dead,
        }],
        max_faults: 10,
    }
}

fn point(node: u8, n: u32) -> IoPoint {
    IoPoint {
        node: name(node),
        stack: StackId(9),
        kind: Kind::MsgSend,
        place: Place::Before,
        n,
        phase: Phase::Test,
    }
}

fn exact(node: u8, n: u32) -> At {
    At::Exact(point(node, n))
}

fn crash(who: Who) -> Fault {
    Fault::Crash {
        who,
        style: CrashStyle::Process,
    }
}

fn cut(cut: &[Member], how: CutHow, way: CutWay) -> Fault {
    Fault::PartitionStart {
        how,
        who: CutWho {
            cut: cut.to_vec(),
            from: vec![],
            bridge: None,
            way,
        },
    }
}

fn stall(ms: u32) -> Fault {
    Fault::Stall {
        ms,
        until_next: false,
    }
}

fn at(at: At, fault: Fault) -> FaultAt {
    FaultAt { at, fault }
}

fn limits() -> Limits {
    Limits {
        fault_wait: Duration::from_secs(5),
        idle: Duration::from_secs(2),
        notice: Duration::from_secs(4),
        max_hold: Duration::from_millis(500),
    }
}

fn start(faults: Vec<FaultAt>) -> Controller {
    let mut c = Controller::new(faults, shape(5, 2), limits(), 0);
    let first = c.on(Seen::Go, 0);
    assert!(
        first.is_empty() || c.finished() || !c.acting.is_empty(),
        "{first:?}"
    );
    c
}

fn claim(fault: usize, node: u8, n: u32, t: u64) -> Seen {
    Seen::Claimed {
        fault,
        node: name(node),
        t_reached: t,
        at: Some(SeenPoint {
            point: point(node, n),
            peer: Some(name(3)),
            event: Some(7),
            arrival: n,
        }),
    }
}

fn dead(node: u8, by_us: bool) -> Seen {
    Seen::Dead {
        node: name(node),
        by_us,
    }
}

fn quiet() -> Watch {
    Watch::default()
}

fn kill(fault: usize, node: u8) -> Action {
    Action::Kill {
        fault,
        node: name(node),
    }
}

fn go_on(fault: usize) -> Action {
    Action::Release {
        fault,
        action: Release::GoOn,
    }
}

fn current(done: usize) -> Action {
    Action::SetCurrent { done }
}
