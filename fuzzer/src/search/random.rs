//! The baseline `random` (CrashFuzz, section V-C): so many faults, uniform in 1..=max faults, each at a random time after the one before
//! (the first: after GO), of a random kind, for a random node. No I/O point, no corpus, no feedback; the same constraints as `crashfuzz`.

use super::children::{CutForm, Drawing};
use super::rand::{XoRand, below};
use libafl_bolts::rands::Rand;
use warren_model::{
    At, ClusterState, CrashStyle, Fault, FaultAt, FaultKind, FaultSequence, NodeName, StartState,
    Who,
};

/// Draws one sequence that begins so. `mean_ms` is how long a test lasts on average: the times of all faults together stay below it. Shorter
/// than drawn when no kind of fault is allowed any more; empty only when none ever is.
#[must_use]
pub fn draw(
    mean_ms: u64,
    target: &str,
    start: StartState,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> FaultSequence {
    let wanted = 1 + below(rand, drawing.shape.max_faults as u64);
    let mut sequence = FaultSequence::empty(target);
    sequence.start = start;
    let mut state = ClusterState::default();
    let mut left = mean_ms;
    for _ in 0..wanted {
        let Some((fault, after)) = one(&state, drawing, rand) else {
            break;
        };
        let wait = below(rand, left);
        left -= wait;
        let at = At::After(u32::try_from(wait).unwrap_or(u32::MAX));
        sequence.faults.push(FaultAt { at, fault });
        state = after;
    }
    sequence
}

/// A kind that is allowed for some node, then one of the nodes that it is allowed for.
fn one(
    state: &ClusterState,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<(Fault, ClusterState)> {
    let mut kinds: Vec<FaultKind> = Vec::new();
    let set = drawing.faults;
    if set.crash {
        kinds.push(FaultKind::Crash);
    }
    if set.reboot {
        kinds.push(FaultKind::Reboot);
    }
    if set.partition {
        kinds.extend([FaultKind::PartitionStart, FaultKind::PartitionStop]);
    }
    while !kinds.is_empty() {
        let kind = kinds.swap_remove(below(rand, kinds.len() as u64) as usize);
        // A form that this cluster never allows (a split of three nodes) must not cost the kind its turn.
        let mut forms = match kind {
            FaultKind::PartitionStart => CutForm::ALL.to_vec(),
            _ => vec![CutForm::Isolate],
        };
        while !forms.is_empty() {
            let form = forms.swap_remove(below(rand, forms.len() as u64) as usize);
            let mut allowed = allowed(kind, form, state, drawing, rand);
            if !allowed.is_empty() {
                let pick = below(rand, allowed.len() as u64) as usize;
                return Some(allowed.swap_remove(pick));
            }
        }
    }
    None
}

/// The fault for each node that it may be for, with the state after it.
fn allowed(
    kind: FaultKind,
    form: CutForm,
    state: &ClusterState,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Vec<(Fault, ClusterState)> {
    let nodes: Vec<NodeName> = drawing.shape.nodes().cloned().collect();
    let mut faults: Vec<Fault> = Vec::new();
    for (s, node) in nodes.iter().enumerate() {
        let who = Who::Node(node.clone());
        match kind {
            FaultKind::Crash => faults.push(Fault::Crash {
                who,
                style: CrashStyle::Process,
            }),
            FaultKind::Reboot => faults.push(Fault::Reboot { who }),
            FaultKind::PartitionStop if s == 0 => faults.push(Fault::PartitionStop),
            FaultKind::PartitionStop => {}
            // It needs a point, and this strategy has times.
            FaultKind::Stall => {}
            FaultKind::PartitionStart => {
                let mut others: Vec<usize> = (0..nodes.len()).filter(|d| *d != s).collect();
                let d = match others.len() {
                    0 => None,
                    n => Some(others.swap_remove(below(rand, n as u64) as usize)),
                };
                let mut draw = XoRand::new(rand.next());
                if let Some(who) = drawing.cut(form, &nodes, s, d, &mut draw) {
                    let how = drawing.how;
                    faults.push(Fault::PartitionStart { how, who });
                }
            }
        }
    }
    faults
        .into_iter()
        .filter_map(|f| {
            let after = drawing.shape.apply(state, None, &f).ok()?;
            Some((f, after))
        })
        .collect()
}
