//! How many slots the machine may have work for (`-j auto` begins there): from what runs with plain faults leave idle, alone on the machine.
//!
//! Called by `side_by_side` once in a campaign. Its runs are learning runs that teach nothing ordinary: their faults are no part of a fault-free
//! life. It refuses to settle anything: whether clusters bear each other is asked there.

use crate::campaign::{FuzzError, StoredRun};
use crate::fuzz::drive::Drive;
use crate::fuzz::figures::snapshot::CurrentRun;
use crate::fuzz::handed::{Cluster, Fuzzes, Handed};
use crate::fuzz::kept::{drawing, shape};
use crate::fuzz::learning::learn::{learning_run, unusable};
use crate::fuzz::session::Session;
use crate::search::children::CutForm;
use crate::search::{Drawing, XoRand};
use std::time::Instant;
use warren_model::{
    At, ClusterState, CrashStyle, Fault, FaultAt, FaultSequence, NodeName, RunRecord, StartState,
    Who,
};

/// Runs that are measured.
const RUNS: usize = 4;
/// Most slots for each core.
const EACH_CORE: usize = 3;

/// What runs came to, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Busy {
    cpu: u64,
    wall: u64,
}

impl Busy {
    fn add(&mut self, record: &RunRecord) {
        self.cpu += record.cpu_ms;
        self.wall += record.times.total;
    }
}

/// Slots by the share of waiting. None: an end was asked for.
///
/// # Errors
/// The cluster cannot be run; I/O.
pub(in crate::fuzz) fn slots<E: Cluster, EM, Z: Fuzzes<E, EM>>(
    session: &mut Session,
    handed: &mut Handed<'_, E, EM, Z>,
) -> Result<Option<usize>, FuzzError> {
    let began = session.learning_so_far();
    let since = Instant::now();
    let (mut busy, mut measured) = (Busy::default(), 0);
    let sequences = sequences(session, handed.executor)?;
    let all = sequences.len();
    for (n, sequence) in sequences.iter().enumerate() {
        if session.stopping() {
            return Ok(None);
        }
        session.show_current(CurrentRun {
            doing: format!("-j auto: what faults leave idle {}/{all}", n + 1),
            kinds: sequence.kinds(),
            since: Some(Instant::now()),
            ..CurrentRun::default()
        });
        let limit = session.limits.run;
        let made = learning_run(session, handed, sequence, limit)?;
        if made.is_none() {
            return Ok(None);
        }
        let run = &handed.executor.observers().1.0;
        let record = run.record();
        match unusable(run.judgement(), record.timed_out) {
            // The search tests the like of it, and tells it.
            Some(why) => session.say(format!("-j auto: {}: {why}", sequence.kinds())),
            None if record.not_injected.is_some() => {}
            None => {
                busy.add(record);
                measured += 1;
            }
        }
        session.learning = began + since.elapsed();
        session.commit_whole(handed.state)?;
    }
    let mut what = format!("{measured} runs with plain faults take");
    if measured == 0 {
        // The root of the cold start: it keeps more cores busy than a run with faults, so this is on the safe side.
        let record = StoredRun::read(&session.folder.runs(), 0)?.record;
        busy.add(&record);
        what = "a fault-free run takes".into();
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let slots = most(cores, busy);
    let seconds = |ms: u64| ms as f64 / 1000.0;
    session.say(format!(
        "-j auto: {what} {:.1} CPU s in {:.1} s: {slots} slots keep {cores} cores busy",
        seconds(busy.cpu),
        seconds(busy.wall),
    ));
    Ok(Some(slots))
}

/// From the snapshots in turn, cold where there is none: with a crash and a reboot, and each second one with a cut as well, where these may be
/// drawn. A crash keeps the survivors busy, a cut that stays open lets a run wait for what its clients cannot have; a campaign has both.
fn sequences<E: Drive>(session: &Session, executor: &E) -> Result<Vec<FaultSequence>, FuzzError> {
    let shape = shape(session, executor);
    let drawing = drawing(session, executor, &shape);
    let root = StoredRun::read(&session.folder.runs(), 0)?;
    let wait = u32::try_from(root.record.times.test / 4).unwrap_or(u32::MAX);
    let snapshots = usize::from(session.learnt.snapshots());
    let sequences = (0..RUNS).filter_map(|n| {
        let start = match snapshots {
            0 => StartState::Cold,
            _ => StartState::Snapshot(u8::try_from(n % snapshots + 1).ok()?),
        };
        plain_faults(&drawing, &session.options.target, start, n, wait)
    });
    Ok(sequences.collect())
}

/// A crash of the `n`-th of the nodes that may crash, in turn, and its reboot; with `n` odd an isolation of the next of them, to the end.
/// Each so long after GO or the fault before it, ms. None when nothing of it may be drawn.
fn plain_faults(
    drawing: &Drawing<'_>,
    target: &str,
    start: StartState,
    n: usize,
    wait: u32,
) -> Option<FaultSequence> {
    let shape = drawing.shape;
    let nodes: Vec<NodeName> = shape.nodes().cloned().collect();
    let alive = ClusterState::default();
    let crash = |i: usize| Fault::Crash {
        who: Who::Node(nodes[i].clone()),
        style: CrashStyle::Process,
    };
    let may: Vec<usize> = (0..nodes.len())
        .filter(|i| shape.apply(&alive, None, &crash(*i)).is_ok())
        .collect();
    let turn = |n: usize| may.get(n % may.len().max(1)).copied();
    let first = turn(n)?;
    let mut faults = Vec::new();
    if drawing.faults.crash {
        faults.push(crash(first));
        if drawing.faults.reboot {
            let who = Who::Node(nodes[first].clone());
            faults.push(Fault::Reboot { who });
        }
    }
    if drawing.faults.partition && n % 2 == 1 {
        let mut draw = XoRand::new(0);
        let who = drawing.cut(CutForm::Isolate, &nodes, turn(n + 1)?, None, &mut draw)?;
        let how = drawing.how;
        faults.push(Fault::PartitionStart { how, who });
    }
    let mut sequence = FaultSequence::empty(target);
    sequence.start = start;
    let mut state = alive;
    for fault in faults {
        if let Ok(after) = shape.apply(&state, None, &fault) {
            let at = At::After(wait);
            sequence.faults.push(FaultAt { at, fault });
            state = after;
        }
    }
    (!sequence.faults.is_empty()).then_some(sequence)
}

/// As many as fill the cores when each is busy that share of its time, and a quarter more, as they do not wait in turn.
fn most(cores: usize, busy: Busy) -> usize {
    let (cpu, wall) = (busy.cpu.max(1), busy.wall.max(1));
    let filled = (5 * cores as u64 * wall).div_ceil(4 * cpu);
    // A third of a core a cluster is the least worth asking for.
    usize::try_from(filled)
        .unwrap_or(usize::MAX)
        .clamp(1, EACH_CORE * cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Parts;
    use warren_model::{ClusterShape, CutHow, GroupShape};

    #[test]
    fn plain_faults_take_the_nodes_that_may_crash_in_turn() {
        let group = |name: &str, nodes: &[&str], max_dead| GroupShape {
            name: name.into(),
            nodes: nodes.iter().map(|n| (*n).into()).collect(),
            max_dead,
        };
        let of = |n, faults: &str, max_faults| {
            let shape = ClusterShape {
                groups: vec![group("store", &["s1"], 0), group("web", &["w1", "w2"], 1)],
                max_faults,
            };
            let drawing = Drawing {
                shape: &shape,
                faults: faults.parse().unwrap(),
                how: CutHow::Drop,
                style: CrashStyle::Process,
                salt: 5,
                parts: Parts::NONE,
                whole_start: false,
                favour: crate::search::Favour::default(),
            };
            let start = StartState::Snapshot(2);
            let made = plain_faults(&drawing, "shop", start, n, 300)?;
            assert_eq!(made.start, start);
            assert!(made.faults.iter().all(|f| f.at == At::After(300)));
            let named = made.faults.iter().filter_map(|f| match &f.fault {
                Fault::Crash { who, .. } | Fault::Reboot { who } => Some(format!("{who:?}")),
                Fault::PartitionStart { who, .. } => Some(format!("{:?}", who.cut)),
                Fault::PartitionStop | Fault::Stall { .. } => None,
            });
            let named = named.collect::<Vec<_>>().join(" ");
            let nodes = ["s1", "w1", "w2"].map(|n| named.matches(n).count());
            Some((made.kinds(), nodes))
        };
        let all = "crash,reboot,partition";
        let pair = "crash+reboot";
        let both = "crash+reboot+partition-start";
        // (n, faults that may be drawn, most faults, kinds, how often s1, w1 and w2 are named); s1 may not crash: it is nobody's turn.
        type Row = (
            usize,
            &'static str,
            usize,
            Option<(&'static str, [usize; 3])>,
        );
        let table: [Row; 8] = [
            (0, all, 9, Some((pair, [0, 2, 0]))),
            (1, all, 9, Some((both, [0, 1, 2]))),
            (2, all, 9, Some((pair, [0, 2, 0]))),
            (1, all, 1, Some(("crash", [0, 0, 1]))),
            (1, "crash,reboot", 9, Some((pair, [0, 0, 2]))),
            (0, "crash", 9, Some(("crash", [0, 1, 0]))),
            (1, "partition", 9, Some(("partition-start", [0, 1, 0]))),
            (0, "partition", 9, None),
        ];
        for (n, faults, max_faults, want) in table {
            let got = of(n, faults, max_faults);
            let got = got.as_ref().map(|(kinds, nodes)| (kinds.as_str(), *nodes));
            assert_eq!(got, want, "{n} {faults} {max_faults}");
        }
    }

    #[test]
    fn most_follows_from_the_share_of_waiting() {
        // (cores, CPU ms, wall ms, slots)
        for (cores, cpu, wall, want) in [
            (2, 1500, 2100, 4),
            (2, 1500, 1800, 3),
            (2, 3000, 1500, 2),
            (2, 100, 2000, 6),
            (8, 3000, 1500, 5),
            (1, 0, 0, 2),
        ] {
            let busy = Busy { cpu, wall };
            assert_eq!(most(cores, busy), want, "{cores} {busy:?}");
        }
    }
}
