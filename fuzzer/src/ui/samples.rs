//! Snapshots for the tests of the screen.

use crate::campaign::KeptFinding;
use crate::campaign::{InjectedRates, Spared};
use crate::fuzz::{CurrentRun, FindKind, FindLine, NodeState, Snapshot};
use std::time::{Duration, Instant};

pub fn node(name: &str, role: &str, state: &str) -> NodeState {
    NodeState {
        name: name.into(),
        role: role.into(),
        state: state.into(),
        incarnation: 1,
        logs: vec![format!("/slot/{name}/stdout").into()],
    }
}

/// A campaign in full swing: two faults, the second one awaited.
pub fn busy(t: Instant) -> Snapshot {
    Snapshot {
        target: "canary".into(),
        strategy: "crashfuzz".into(),
        folder: "/out/canary/default".into(),
        seed: 7,
        started: Some(t),
        fuzz_started: Some(t),
        run_time_ms: 252_000,
        execs: 120,
        sequences: 100,
        execs_per_sec: 0.4,
        corpus: 12,
        pending: 4210,
        classes: 210,
        coverage: 3120,
        map_size: 65_536,
        coverage_fault_free: 3000,
        stability: 98.2,
        findings: 1,
        kept_findings: vec![KeptFinding {
            number: 0,
            signature: "1a2b3c4d".into(),
            checker: "replicas".into(),
            kind: warren_model::FailureKind::Safety,
            k: 2,
            n: 3,
            fell: false,
        }],
        failing_runs: 2,
        timeouts: 3,
        spared: Spared {
            from_prefix: 14,
            prefix_ms: 61_000,
            unparked: 9,
        },
        max_depth: 3,
        last_find_ms: Some(250_000),
        current: CurrentRun {
            doing: "fuzzing".into(),
            faults: vec![
                "crash n2 at canary.Log.force:12 force before n=1".into(),
                "reboot n2 at canary.Log.write:40 write before n=2".into(),
            ],
            kinds: "crash+reboot".into(),
            phase: "test".into(),
            phase_since: t.checked_sub(Duration::from_millis(1200)),
            phases_ms: vec![("slot".into(), 40), ("start".into(), 2100)],
            injected: 1,
            awaited: true,
            why: "new fault id, score 240, occurrence 1/3".into(),
            seed_run: Some(7),
            since: Some(t),
        },
        nodes: vec![
            node("n1", "leader", "alive"),
            node("n2", "follower", "dead"),
            node("n3", "follower", "cut"),
        ],
        injected: InjectedRates {
            one_fault_asked: 40,
            one_fault_full: 32,
            longer_asked: 10,
            longer_full: 7,
            drift: 2,
            late: 1,
            uninjectable: 4,
        },
        not_injected: vec![
            ("longer_ended".into(), 3),
            ("longer_bound".into(), 19),
            ("one_fault_bound".into(), 8),
        ],
        phase_means_ms: vec![("start".into(), 1900), ("test".into(), 3100)],
        finds: vec![FindLine {
            at_ms: 61_000,
            what: FindKind::Finding,
            text: "replicas differ 1a2b3c4d".into(),
        }],
        ..Snapshot::default()
    }
}

/// The same before the first fuzzed run.
pub fn learning(t: Instant) -> Snapshot {
    Snapshot {
        learning: true,
        fuzz_started: None,
        current: CurrentRun {
            doing: "learning 2/5".into(),
            phase: "start".into(),
            since: Some(t),
            ..CurrentRun::default()
        },
        finds: Vec::new(),
        kept_findings: Vec::new(),
        ..busy(t)
    }
}

/// Paused between two runs.
pub fn paused(t: Instant) -> Snapshot {
    Snapshot {
        paused_since: t.checked_sub(Duration::from_secs(9)),
        message: "paused: p goes on; the time does not count".into(),
        ..busy(t)
    }
}
