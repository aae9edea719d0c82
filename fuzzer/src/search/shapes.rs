//! Shapes cast into sequences: who is `$a`, which n, how often a part is repeated. Pure.
//!
//! Called by the stage when it is a shape's turn. The run makes the sequence exact, and what it kept is an ordinary seed run. A shape
//! that cannot be meant on this cluster (no leader, a kind of fault that is not drawn, a constraint, a pattern of a kind that no node of
//! that role ever does) is not cast; what the constraints say of who leads later is an assumption here, and asked again in the run.

use super::children::Drawing;
use super::rand::{XoRand, below, weighed};
use super::warren::Warren;
use libafl_bolts::rands::Rand;
use std::collections::BTreeMap;
use std::rc::Rc;
use warren_model::sequence::Cast;
use warren_model::sequence::shape::with_role;
use warren_model::{
    At, ClusterState, CutHow, CutWho, Fault, FaultAt, FaultSequence, GroupShape, Incarnation, Kind,
    Member, NodeName, Pattern, Phase, Shape, ShapeError, ShapeFault, StartState, Trace, Violation,
    Who,
};

/// Casts tried of one shape before another one has its turn.
const CASTS: usize = 8;
/// Casts tried before a shape is said to be never cast: most have one in two, none that can be cast fewer than one in twenty.
const CASTS_TO_TELL: usize = 200;

/// The shapes that come with Warren.
///
/// # Errors
/// Never, unless the file in the source is broken; a test reads it.
pub fn built_in() -> Result<Vec<Shape>, ShapeError> {
    Shape::all_of_text(include_str!("../../../dictionaries/shapes.toml"))
}

/// What a fault-free run tells of the cluster that shapes are cast for.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    pub start: StartState,
    /// Who was what at GO.
    pub roles: BTreeMap<NodeName, String>,
    /// The leading role; none where nobody leads.
    pub lead: Option<String>,
    pub trace: Trace,
    /// Its processes: `random-points` asks when each of them served.
    pub incarnations: Vec<Incarnation>,
}

impl Ground {
    /// `lead` is what the target says; where it says nothing, the role that one node alone has.
    #[must_use]
    pub fn new(
        start: StartState,
        roles: BTreeMap<NodeName, String>,
        lead: &str,
        trace: Trace,
    ) -> Self {
        let count = |role: &str| roles.values().filter(|r| *r == role).count();
        let alone = || {
            let one = roles.values().filter(|r| count(r) == 1);
            let one: Vec<&String> = one.collect();
            match &one[..] {
                [role] if roles.len() > 1 => Some((*role).clone()),
                _ => None,
            }
        };
        let lead = if lead.is_empty() {
            alone()
        } else {
            Some(lead.to_owned()).filter(|l| count(l) > 0)
        };
        Ground {
            start,
            roles,
            lead,
            trace,
            incarnations: Vec::new(),
        }
    }

    /// Makes the pattern what can be meant here, and answers its arrivals: whose data are another system's forces and writes nothing by itself, and
    /// there what it sends stands for that (the master of an HBase, whose files lie in HDFS).
    fn meant(&self, p: &mut Pattern) -> u32 {
        let there = self.arrivals(p);
        let to_disk = matches!(p.kind, Some(Kind::Force | Kind::Write));
        if there > 0 || !to_disk || !p.frames.is_empty() {
            return there;
        }
        for kind in [Kind::Write, Kind::MsgSend, Kind::Send] {
            let kind = Some(kind);
            let there = self.arrivals(&Pattern { kind, ..p.clone() });
            if there > 0 {
                p.kind = kind;
                return there;
            }
        }
        0
    }

    /// Most arrivals of a pattern on one node of the fault-free run.
    fn arrivals(&self, p: &Pattern) -> u32 {
        let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
        for e in &self.trace.events {
            let here = |n: &NodeName| self.trace.nodes.get(usize::from(e.node)) == Some(n);
            if e.phase == Phase::Test && p.node.as_ref().is_none_or(here) && self.trace.fits(p, e) {
                *counts.entry(e.node).or_default() += 1;
            }
        }
        counts.into_values().max().unwrap_or(0)
    }
}

/// One of the shapes, cast; by weight, the first that can be. None when none can.
pub fn draw<'s>(
    shapes: impl IntoIterator<Item = &'s Shape>,
    warren: &Warren,
    ground: &Ground,
    target: &str,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<(String, FaultSequence)> {
    let mut left: Vec<&Shape> = shapes.into_iter().collect();
    while !left.is_empty() {
        // In thousandths, so that draws stay whole numbers.
        let weight = |i: usize| ((warren.weight(&left[i].name) * 1000.0) as u64).max(1);
        let i = weighed(rand, left.len(), weight)?;
        let shape = left.swap_remove(i);
        for _ in 0..CASTS {
            if let Some(sequence) = cast(shape, ground, target, drawing, rand) {
                return Some((shape.name.clone(), sequence));
            }
        }
    }
    None
}

/// The shapes of which no cast is possible here, from any of these starts; `kernel`: packets can be dropped. It draws from a generator of its own.
#[must_use]
pub fn never_cast<'s>(
    shapes: &'s [Shape],
    grounds: &[Rc<Ground>],
    target: &str,
    drawing: &Drawing<'_>,
    kernel: bool,
) -> Vec<&'s str> {
    let mut rand = XoRand::new(0);
    let mut cast_once = |shape: &Shape| {
        let all = grounds
            .iter()
            .flat_map(|g| std::iter::repeat_n(g, CASTS_TO_TELL));
        let possible = kernel || !shape.needs_machines();
        possible && { all }.any(|g| cast(shape, g, target, drawing, &mut rand).is_some())
    };
    let never = shapes.iter().filter(|s| !cast_once(s));
    never.map(|s| s.name.as_str()).collect()
}

/// A sequence of this shape; none when this cast, or any, is not possible here.
#[must_use]
pub fn cast(
    shape: &Shape,
    ground: &Ground,
    target: &str,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<FaultSequence> {
    if shape.needs_lead() && ground.lead.is_none() {
        return None;
    }
    let lead = ground.lead.clone().unwrap_or_default();
    let mut nodes = cast_nodes(shape, ground, drawing, rand)?;
    let mut sequence = FaultSequence::empty(target);
    sequence.start = ground.start;
    sequence.roles.clone_from(&ground.roles);
    for (asked, other) in order(shape, &nodes, drawing, rand)? {
        if let Some((variable, node)) = other {
            nodes.insert(variable.clone(), node);
        }
        let mut f = with_role(&asked.fault, &mut |r| {
            if r == warren_model::sequence::shape::LEAD {
                lead.clone()
            } else {
                r.to_owned()
            }
        });
        f = f.renamed(&|n: &NodeName| nodes.get(n).unwrap_or(n).clone());
        if !drawing.faults.has(f.fault.kind()) {
            return None;
        }
        if let Fault::PartitionStart { how, .. } = &mut f.fault
            && *how == CutHow::Drop
        {
            *how = drawing.how;
        }
        if let At::Pattern(p) = &mut f.at {
            let (least, mut most) = asked.n;
            // Frames of recovery are in no fault-free run; what any node does, or one of this role, must be there.
            if p.frames.is_empty() || sequence.faults.is_empty() {
                let there = ground.meant(p);
                if there < least {
                    return None;
                }
                if sequence.faults.is_empty() {
                    most = most.min(there);
                }
            }
            p.n = log_uniform(least, most.max(least), rand);
        }
        sequence.faults.push(f);
    }
    follow(&sequence, &lead, drawing).ok()?;
    Some(sequence)
}

/// A fault of a shape, and for which of the others it comes this time.
type Spelt<'s> = (&'s ShapeFault, Option<(&'s NodeName, NodeName)>);

/// Which faults of the shape come, repeats and others spelt out; as many repeats as drawn and as fit. None when even the fewest do not.
fn order<'s>(
    shape: &'s Shape,
    cast: &BTreeMap<NodeName, NodeName>,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<Vec<Spelt<'s>>> {
    let max_faults = drawing.shape.max_faults;
    let all = shape.faults.len();
    let mut order: Vec<usize> = (0..all).collect();
    if let Some(r) = shape.repeat {
        let (least, most) = r.times;
        let times = least + below(rand, u64::from(most - least) + 1) as u32;
        for _ in 1..times {
            if order.len() + all - r.from <= max_faults {
                order.extend(r.from..all);
            }
        }
    }
    let mut spelt: Vec<Spelt<'s>> = Vec::new();
    for i in order {
        let f = &shape.faults[i];
        let others = shape.nodes.iter().filter(|(_, c)| **c == Cast::Others);
        let named = f.named();
        match others.map(|(n, _)| n).find(|n| named.contains(*n)) {
            None => spelt.push((f, None)),
            Some(variable) => {
                let drawn = others_drawn(cast, shape, drawing, rand);
                let each = drawn.into_iter().map(|n| (f, Some((variable, n))));
                spelt.extend(each);
            }
        }
    }
    (spelt.len() <= max_faults).then_some(spelt)
}

/// The nodes that no variable stands for, of groups that may lose one; in a drawn order.
fn others_drawn(
    cast: &BTreeMap<NodeName, NodeName>,
    shape: &Shape,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Vec<NodeName> {
    let taken = |n: &NodeName| shape.nodes.keys().any(|v| cast.get(v) == Some(n));
    let groups = drawing.shape.groups.iter().filter(|g| g.max_dead > 0);
    let mut free: Vec<NodeName> = groups.flat_map(|g| g.nodes.clone()).collect();
    free.retain(|n| !taken(n));
    for i in (1..free.len()).rev() {
        free.swap(i, below(rand, i as u64 + 1) as usize);
    }
    free
}

/// Of which group the variables of a shape are nodes: the leader's where it says who leads or who does not, else any group that may lose
/// one and is large enough, larger ones more often.
fn group<'d>(
    shape: &Shape,
    leads: &impl Fn(&NodeName) -> bool,
    drawing: &'d Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<&'d GroupShape> {
    let groups = &drawing.shape.groups;
    let count = |f: &dyn Fn(&Cast) -> bool| shape.nodes.values().filter(|c| f(c)).count();
    let any = count(&|c| *c == Cast::Any);
    if any == 0 || count(&|c| matches!(c, Cast::Lead | Cast::Member)) > 0 {
        let of_leader = groups.iter().find(|g| g.nodes.iter().any(leads));
        return of_leader.or_else(|| groups.iter().max_by_key(|g| g.nodes.len()));
    }
    let fit = groups
        .iter()
        .filter(|g| g.max_dead > 0 && g.nodes.len() >= any);
    let by_node: Vec<&GroupShape> = fit
        .flat_map(|g| std::iter::repeat_n(g, g.nodes.len()))
        .collect();
    by_node
        .get(below(rand, by_node.len() as u64) as usize)
        .copied()
}

/// A node for each variable, no node twice.
fn cast_nodes(
    shape: &Shape,
    ground: &Ground,
    drawing: &Drawing<'_>,
    rand: &mut impl Rand,
) -> Option<BTreeMap<NodeName, NodeName>> {
    let leads = |n: &NodeName| ground.lead.is_some() && ground.roles.get(n) == ground.lead.as_ref();
    let group = group(shape, &leads, drawing, rand)?;
    let mut cast: BTreeMap<NodeName, NodeName> = BTreeMap::new();
    // The leader first: `any` must not take it away.
    let mut variables: Vec<(&NodeName, Cast)> = shape.nodes.iter().map(|(n, c)| (n, *c)).collect();
    variables.retain(|(_, c)| *c != Cast::Others);
    variables.sort_by_key(|(_, c)| *c != Cast::Lead);
    for (variable, of) in variables {
        let free: Vec<&NodeName> = group
            .nodes
            .iter()
            .filter(|n| !cast.values().any(|c| c == *n))
            .filter(|n| match of {
                Cast::Lead => leads(n),
                Cast::Member => !leads(n),
                Cast::Any | Cast::Others => true,
            })
            .collect();
        let node = free.get(below(rand, free.len() as u64) as usize)?;
        cast.insert(variable.clone(), (*node).clone());
    }
    Some(cast)
}

/// Between the two, small numbers more often: each doubling is as likely as the next.
fn log_uniform(least: u32, most: u32, rand: &mut impl Rand) -> u32 {
    let unit = (rand.next() >> 11) as f64 / (1u64 << 53) as f64;
    let (a, b) = (f64::from(least), f64::from(most) + 1.0);
    let drawn = (a.ln() + unit * (b.ln() - a.ln())).exp();
    (drawn as u32).clamp(least, most)
}

/// Asks the constraints of a sequence with open names, assuming that a leader that is gone is followed by the first node that is not.
///
/// # Errors
/// The first rule that is broken.
pub fn follow(
    sequence: &FaultSequence,
    lead: &str,
    drawing: &Drawing<'_>,
) -> Result<ClusterState, Violation> {
    let leading = sequence.roles.iter().find(|(_, r)| *r == lead);
    let mut leader: Option<NodeName> = leading.map(|(n, _)| n.clone());
    let mut state = ClusterState::default();
    for f in &sequence.faults {
        let executing = executing(f, &state, leader.as_ref(), lead, drawing);
        let resolved = resolve(f, executing.as_ref(), leader.as_ref(), &state, drawing)?;
        state = drawing.shape.apply(&state, executing.as_ref(), &resolved)?;
        let gone = |n: &NodeName| {
            let cut_off = state.cut.as_ref().is_some_and(|c| {
                // A link between two nodes leaves both with the others.
                c.side.len() + c.other.len() == drawing.shape.nodes().count()
                    && c.smaller().contains(n)
            });
            state.dead.contains(n) || cut_off
        };
        if leader.as_ref().is_some_and(gone) {
            leader = successor(leader.as_ref(), drawing, |n| !gone(n));
        }
    }
    Ok(state)
}

/// Who leads after this one: a node that fits, of its group before all others. Groups that never lead may stand first in a description.
fn successor(
    leader: Option<&NodeName>,
    drawing: &Drawing<'_>,
    fits: impl Fn(&NodeName) -> bool,
) -> Option<NodeName> {
    let own = drawing.shape.groups.iter();
    let own = own.filter(|g| leader.is_some_and(|l| g.nodes.contains(l)));
    own.flat_map(|g| &g.nodes)
        .chain(drawing.shape.nodes())
        .find(|n| fits(n))
        .cloned()
}

/// The node that will execute a fault's point, as far as can be assumed.
fn executing(
    f: &FaultAt,
    state: &ClusterState,
    leader: Option<&NodeName>,
    lead: &str,
    drawing: &Drawing<'_>,
) -> Option<NodeName> {
    match &f.at {
        At::Exact(p) => Some(p.node.clone()),
        At::AtOnce | At::Joined(_) | At::After(_) => None,
        At::Pattern(p) => {
            let fits = |n: &NodeName| !state.dead.contains(n) && p.except.as_ref() != Some(n);
            let leads = p.role.as_deref() == Some(lead);
            let by_role = leader.filter(|n| leads && fits(n));
            p.node
                .clone()
                .or_else(|| by_role.cloned())
                .or_else(|| successor(leader.filter(|_| leads), drawing, fits))
        }
    }
}

fn resolve(
    f: &FaultAt,
    executing: Option<&NodeName>,
    leader: Option<&NodeName>,
    state: &ClusterState,
    drawing: &Drawing<'_>,
) -> Result<Fault, Violation> {
    let or = |n: Option<&NodeName>, what: &str| {
        n.cloned()
            .ok_or_else(|| Violation::Unresolved(what.to_owned()))
    };
    let who = |w: &Who| -> Result<Who, Violation> {
        Ok(Who::Node(match w {
            Who::Node(n) => n.clone(),
            Who::Executing => or(executing, "@executing")?,
            Who::Role(r) => or(leader, r)?,
            Who::FirstDead => state.dead.first().cloned().ok_or(Violation::NobodyDead)?,
        }))
    };
    let member = |m: &Member| -> Result<Member, Violation> {
        Ok(Member::Node(match m {
            Member::Node(n) => n.clone(),
            Member::Executing => or(executing, "@executing")?,
            Member::Role(r) => or(leader, r)?,
            Member::Peer => {
                let other = drawing.shape.nodes().find(|n| Some(*n) != executing);
                or(other, "@peer")?
            }
        }))
    };
    Ok(match &f.fault {
        Fault::Crash { who: w, style } => Fault::Crash {
            who: who(w)?,
            style: *style,
        },
        Fault::Reboot { who: w } => Fault::Reboot { who: who(w)? },
        Fault::PartitionStart { how, who: w } => Fault::PartitionStart {
            how: *how,
            who: CutWho {
                cut: w.cut.iter().map(member).collect::<Result<_, Violation>>()?,
                from: w
                    .from
                    .iter()
                    .map(member)
                    .collect::<Result<_, Violation>>()?,
                bridge: w.bridge.as_ref().map(member).transpose()?,
                way: w.way,
            },
        },
        Fault::PartitionStop | Fault::Stall { .. } => f.fault.clone(),
    })
}
