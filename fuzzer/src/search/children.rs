//! Which sequences follow from a kept run: one more fault at each later point of what it REALLY did (CrashFuzz Algorithm 1,
//! with partitions), grouped into classes and never materialised.
//!
//! Called when a run is kept (classes, by `fuzz/kept.rs`) and when one child is taken (by `fuzz/job.rs`); strategies that draw
//! take its points and faults too. Asks every constraint through `ClusterShape::apply`. Refuses points before the last fault
//! done, points passed while a thread was held, points of other phases than start and test, and points of dead nodes.

use super::favour::Favour;
use super::peers;
use super::rand::{XoRand, below};
use super::standing::Standing;
use super::strata::{Bounds, Stratum};
use super::symmetry;
use super::warren::Parts;
use crate::search::FaultSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use warren_model::sequence::fault_id;
use warren_model::{
    At, ClusterShape, CrashStyle, CutHow, CutWay, CutWho, EventFlags, Exit, Fault, FaultId,
    FaultKind, FaultSequence, Incarnation, Injected, Kind, Member, NodeName, Pattern, Phase, Place,
    StackId, Trace, TraceEvent, Who,
};

/// Who is cut from whom, relative to a message point: s executes it, d is its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CutForm {
    /// s alone against all other servers.
    Isolate,
    /// s and d, both ways.
    Both,
    /// What s sends to d.
    To,
    /// What d sends to s.
    From,
    /// s and drawn others against the rest.
    Split,
    /// As a split, with one drawn node that sees both sides.
    Bridge,
}

impl CutForm {
    /// Every form, in a fixed order.
    pub const ALL: [CutForm; 6] = [
        CutForm::Isolate,
        CutForm::Both,
        CutForm::To,
        CutForm::From,
        CutForm::Split,
        CutForm::Bridge,
    ];
}

/// A fault with its target, as a class knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChildFault {
    /// Of the node that executes the point.
    Crash,
    /// Of this dead node (index into the trace's nodes).
    Reboot(u16),
    Start(CutForm),
    Stop,
    /// Of the thread that executes the point, for [`STALL_MS`].
    Stall,
}

/// How long the stalls hold that a strategy draws, ms: many times what the clusters here answer in, and no more than their sessions (1 to 8 s).
pub const STALL_MS: u32 = 1000;

/// A stall as strategies draw it.
pub const STALL: Fault = Fault::Stall {
    ms: STALL_MS,
    until_next: false,
};

impl ChildFault {
    /// The kind that fault ids speak of.
    #[must_use]
    pub fn kind(self) -> FaultKind {
        match self {
            ChildFault::Crash => FaultKind::Crash,
            ChildFault::Reboot(_) => FaultKind::Reboot,
            ChildFault::Start(_) => FaultKind::PartitionStart,
            ChildFault::Stop => FaultKind::PartitionStop,
            ChildFault::Stall => FaultKind::Stall,
        }
    }
}

/// What the children of a class have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassKey {
    pub stack: StackId,
    pub kind: Kind,
    pub place: Place,
    /// 1-based index into the trace's roles; 0 = none known.
    pub role: u8,
    pub fault: ChildFault,
    /// How far the system had come: in its start, or after the seed run's last fault.
    pub stratum: Stratum,
}

impl ClassKey {
    /// The novelty key of a last fault of this class.
    #[must_use]
    pub fn fault_id(&self) -> FaultId {
        fault_id(self.stack, self.fault.kind(), self.place)
    }
}

/// The classes of a seed run: per class the events (indices into the trace) where a child's fault can be.
pub type SeedClasses = BTreeMap<ClassKey, Vec<u32>>;

/// A kept run, as far as children depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a> {
    pub trace: &'a Trace,
    /// The faults as they really matched, nodes resolved.
    pub matched: &'a FaultSequence,
    /// When those faults came.
    pub injected: &'a [Injected],
    /// Processes that ended by themselves: dead from then on, until a fault reboots their node.
    pub exits: &'a [Exit],
    /// Its processes: when each first served bounds the points of its start, see [`Points`].
    pub incarnations: &'a [Incarnation],
    pub bounds: Bounds,
}

/// Which events of a trace faults may be placed at: of phases start (until its node serves, or all of it where the target says itself when that is over)
/// and test, not passed while a thread was held.
///
/// The start is over once every node serves: so not before a node has passed what comes before it serves. What it does later in that phase was
/// met by luck, as it may be over by then. That a node serves is known by a probe, some 20 to 250 ms late: what it does last is met by luck, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points {
    /// When each node of the trace first served, ns, in their order there; empty where the start goes on after that.
    served_ns: Vec<Option<u64>>,
}

impl Points {
    /// Of a run with these processes. `whole_start` as in [`Drawing`].
    #[must_use]
    pub fn of(trace: &Trace, incarnations: &[Incarnation], whole_start: bool) -> Self {
        if whole_start {
            return Points {
                served_ns: Vec::new(),
            };
        }
        let first = |node: &NodeName| {
            let own = incarnations.iter().filter(|i| i.node == *node);
            own.filter_map(|i| i.ready_ns).min()
        };
        Points {
            served_ns: trace.nodes.iter().map(first).collect(),
        }
    }

    /// Whether this event of the trace is one of them.
    #[must_use]
    pub fn has(&self, event: &TraceEvent) -> bool {
        let served = self.served_ns.get(usize::from(event.node)).copied();
        let phase = match event.phase {
            Phase::Start => served.flatten().is_none_or(|t| t > event.t_ns),
            Phase::Test => true,
            _ => false,
        };
        phase && !event.flags.has(EventFlags::DURING)
    }
}

/// What may be drawn, the same for a whole campaign.
#[derive(Clone, Debug)]
pub struct Drawing<'a> {
    pub shape: &'a ClusterShape,
    pub faults: FaultSet,
    /// `drop`, or `throw` where the slot has no kernel rules.
    pub how: CutHow,
    /// Of the crashes that children are: `process`, unless a swarm drew `machine`.
    pub style: CrashStyle,
    /// The campaign's seed: decides drawn splits and bridges.
    pub salt: u64,
    /// Of `warren`; all off for other strategies.
    pub parts: Parts,
    /// The target says itself when its start is over (`[started]`).
    pub whole_start: bool,
    /// Which points are drawn more often.
    pub favour: Favour,
}

impl Drawing<'_> {
    /// The cut of a form at a message point of `s` with `d` at the other end; `None` where it means nothing here. `draw`
    /// decides splits and bridges.
    #[must_use]
    pub fn cut(
        &self,
        form: CutForm,
        nodes: &[NodeName],
        s: usize,
        d: Option<usize>,
        draw: &mut XoRand,
    ) -> Option<CutWho> {
        let one = |i: usize| vec![Member::Node(nodes[i].clone())];
        let pair = |way| {
            d.filter(|d| *d != s).map(|d| CutWho {
                cut: one(s),
                from: one(d),
                bridge: None,
                way,
            })
        };
        match form {
            CutForm::Isolate => Some(CutWho {
                cut: one(s),
                from: Vec::new(),
                bridge: None,
                way: CutWay::Both,
            }),
            CutForm::Both => pair(CutWay::Both),
            CutForm::To => pair(CutWay::To),
            CutForm::From => pair(CutWay::From),
            CutForm::Split | CutForm::Bridge => {
                // With fewer nodes a split is an isolation and a bridge is a pair.
                let bridge = form == CutForm::Bridge;
                if nodes.len() < 4 + usize::from(bridge) {
                    return None;
                }
                let mut others: Vec<usize> = (0..nodes.len()).filter(|i| *i != s).collect();
                for i in (1..others.len()).rev() {
                    others.swap(i, below(draw, i as u64 + 1) as usize);
                }
                let middle = bridge.then(|| others.pop()).flatten();
                // s's side has 2 up to half of the nodes.
                let half = others.len().div_ceil(2);
                let with_s = 1 + below(draw, half.saturating_sub(1) as u64) as usize;
                let rest = others.split_off(with_s);
                let members = |side: &[usize]| -> Vec<Member> {
                    let mut side = side.to_vec();
                    side.sort_unstable();
                    side.iter()
                        .map(|i| Member::Node(nodes[*i].clone()))
                        .collect()
                };
                others.push(s);
                Some(CutWho {
                    cut: members(&others),
                    from: members(&rest),
                    bridge: middle.map(|m| Member::Node(nodes[m].clone())),
                    way: CutWay::Both,
                })
            }
        }
    }
}

impl<'a> Seed<'a> {
    /// The cluster behind the run's faults; `None` when they break a rule or a name is open.
    pub(super) fn behind(&self, drawing: &Drawing<'_>) -> Option<Standing<'a>> {
        Standing::behind(drawing.shape, self.matched, self.injected, self.exits)
    }

    /// Events where children's faults may be: after the last fault done, phases start and test, not passed while a thread was
    /// held; with their index.
    pub fn later_points(&self, whole_start: bool) -> impl Iterator<Item = (u32, &TraceEvent)> {
        let done = self.matched.faults.len();
        let points = Points::of(self.trace, self.incarnations, whole_start);
        (0u32..)
            .zip(&self.trace.events)
            .filter(move |(_, e)| points.has(e) && e.interval.faults_done() == done)
    }

    /// All classes with their events, in a fixed order. Empty when the run's own faults leave no room for one more.
    #[must_use]
    pub fn classes(&self, drawing: &Drawing<'_>) -> SeedClasses {
        let mut classes = SeedClasses::new();
        let Some(base) = self.behind(drawing) else {
            return classes;
        };
        let mut legal = Legal::new(self, drawing, base.clone());
        let mut stopped: BTreeSet<(StackId, u8, Stratum)> = BTreeSet::new();
        let mut twins = Twins::new(self, drawing);
        let reboots: BTreeSet<u16> = base
            .ever_dead()
            .filter_map(|d| self.trace.nodes.iter().position(|n| n == d))
            .filter_map(|i| u16::try_from(i).ok())
            .collect();
        for (index, event) in self.later_points(drawing.whole_start) {
            legal.advance(event.t_ns);
            let stratum = match event.phase {
                _ if !drawing.parts.strata => Stratum::All,
                Phase::Start => Stratum::Starting,
                _ => self.bounds.stratum(event.t_ns),
            };
            let mut offer = |fault: ChildFault| {
                if legal.allows(index, event, fault) {
                    let key = ClassKey {
                        stack: event.stack,
                        kind: event.kind,
                        place: event.place,
                        role: event.role,
                        fault,
                        stratum,
                    };
                    if twins.has_one(event, key) {
                        return false;
                    }
                    classes.entry(key).or_default().push(index);
                    return true;
                }
                false
            };
            if drawing.faults.crash {
                offer(ChildFault::Crash);
            }
            if drawing.faults.reboot {
                for dead in &reboots {
                    offer(ChildFault::Reboot(*dead));
                }
            }
            if drawing.faults.stall && event.phase == Phase::Test {
                offer(ChildFault::Stall);
            }
            // A cut before GO only keeps the cluster from ever starting: nothing is tested then (docs/search.md).
            if drawing.faults.partition && event.phase == Phase::Test {
                if event.kind.is_message() {
                    for form in CutForm::ALL {
                        offer(ChildFault::Start(form));
                    }
                }
                let place = (event.stack, event.role, stratum);
                if base.state.cut.is_some() && !stopped.contains(&place) && offer(ChildFault::Stop)
                {
                    stopped.insert(place);
                }
            }
        }
        classes
    }

    /// The child with this fault at this event; `None` when a constraint forbids it.
    #[must_use]
    pub fn child(
        &self,
        drawing: &Drawing<'_>,
        event: u32,
        fault: ChildFault,
    ) -> Option<FaultSequence> {
        let e = self.trace.events.get(event as usize)?;
        let mut at = self.behind(drawing)?;
        at.advance(e.t_ns);
        let made = self.fault(drawing, event, e, fault)?;
        let executing = &self.trace.nodes[usize::from(e.node)];
        drawing
            .shape
            .apply(&at.state, Some(executing), &made)
            .ok()?;
        Some(self.matched.with(At::Exact(self.trace.point(e)), made))
    }

    /// The fault itself, nodes resolved.
    pub(super) fn fault(
        &self,
        drawing: &Drawing<'_>,
        index: u32,
        event: &TraceEvent,
        fault: ChildFault,
    ) -> Option<Fault> {
        let nodes = &self.trace.nodes;
        let s = usize::from(event.node);
        Some(match fault {
            ChildFault::Crash => Fault::Crash {
                who: Who::Node(nodes.get(s)?.clone()),
                style: drawing.style,
            },
            ChildFault::Reboot(dead) => Fault::Reboot {
                who: Who::Node(nodes.get(usize::from(dead))?.clone()),
            },
            ChildFault::Start(form) => {
                let d = self
                    .trace
                    .text(event.peer)
                    .and_then(|p| peers::node_of(p, nodes));
                let mut draw = XoRand::new(drawing.salt ^ event.stack.0 ^ (u64::from(index) << 40));
                Fault::PartitionStart {
                    how: drawing.how,
                    who: drawing.cut(form, nodes, s, d, &mut draw)?,
                }
            }
            ChildFault::Stop => Fault::PartitionStop,
            ChildFault::Stall => STALL,
        })
    }
}

/// Which faults the constraints allow at a point, remembered per node, as thousands of points ask the same.
struct Legal<'a> {
    seed: &'a Seed<'a>,
    drawing: &'a Drawing<'a>,
    at: Standing<'a>,
    known: HashMap<(u16, ChildFault, Option<u32>), bool>,
}

impl<'a> Legal<'a> {
    fn new(seed: &'a Seed<'a>, drawing: &'a Drawing<'a>, at: Standing<'a>) -> Self {
        Legal {
            seed,
            drawing,
            at,
            known: HashMap::new(),
        }
    }

    /// Counts the processes that had ended by themselves at this time.
    fn advance(&mut self, t_ns: u64) {
        if self.at.advance(t_ns) {
            self.known.clear();
        }
    }

    fn allows(&mut self, index: u32, event: &TraceEvent, fault: ChildFault) -> bool {
        let ask = || {
            let Some(made) = self.seed.fault(self.drawing, index, event, fault) else {
                return false;
            };
            let executing = self.seed.trace.nodes.get(usize::from(event.node));
            self.drawing
                .shape
                .apply(&self.at.state, executing, &made)
                .is_ok()
        };
        match fault {
            // Drawn anew at each point.
            ChildFault::Start(CutForm::Split | CutForm::Bridge) => ask(),
            _ => {
                let key = (event.node, fault, event.peer);
                if let Some(known) = self.known.get(&key) {
                    return *known;
                }
                let answer = ask();
                self.known.insert(key, answer);
                answer
            }
        }
    }
}

/// The child once more, after it did not happen: its last fault, if it is one of the start, comes at whichever node reaches that point first. Which node leads and which is
/// given what is chance in a first start, so the one that came to it in the seed run need not come to it again.
#[must_use]
pub fn whoever_comes(mut child: FaultSequence) -> FaultSequence {
    let Some(last) = child.faults.last_mut() else {
        return child;
    };
    let At::Exact(point) = &last.at else {
        return child;
    };
    if point.phase != Phase::Start {
        return child;
    }
    if let Fault::Crash { who, .. } = &mut last.fault
        && *who == Who::Node(point.node.clone())
    {
        *who = Who::Executing;
    }
    last.at = At::Pattern(Pattern {
        node: None,
        except: None,
        role: None,
        frames: Vec::new(),
        stack: Some(point.stack),
        kind: Some(point.kind),
        place: Some(point.place),
        n: point.n,
        phase: Phase::Start,
    });
    child
}

/// The points offered so far, with nodes that nothing tells apart under one number: the same point of such a node, with the same fault,
/// is the same child (`symmetry`). Splits and bridges are drawn for each point, start points have no roles: they have no twin.
struct Twins<'a> {
    seed: &'a Seed<'a>,
    alike: Vec<usize>,
    seen: HashSet<(ClassKey, u32, [Option<usize>; 2])>,
}

impl<'a> Twins<'a> {
    fn new(seed: &'a Seed<'a>, drawing: &Drawing<'_>) -> Self {
        let alike = if drawing.parts.symmetry {
            let ended = seed.exits.iter().map(|x| &x.node);
            symmetry::alike(seed.matched, ended, &seed.trace.nodes, drawing.shape)
        } else {
            Vec::new()
        };
        Twins {
            seed,
            alike,
            seen: HashSet::new(),
        }
    }

    /// Answers whether a point like this one was offered before; if not, it is now.
    fn has_one(&mut self, event: &TraceEvent, key: ClassKey) -> bool {
        let fault = key.fault;
        let drawn = matches!(
            fault,
            ChildFault::Start(CutForm::Split | CutForm::Bridge) | ChildFault::Stop
        );
        let Some(own) = self.alike.get(usize::from(event.node)) else {
            return false;
        };
        if drawn || event.phase == Phase::Start {
            return false;
        }
        // Between two alike it matters whether they are one node or two, which a cut of a pair never is.
        let peer = match fault {
            ChildFault::Start(CutForm::Both | CutForm::To | CutForm::From) => {
                let text = self.seed.trace.text(event.peer);
                let d = text.and_then(|p| peers::node_of(p, &self.seed.trace.nodes));
                d.and_then(|d| self.alike.get(d)).copied()
            }
            _ => None,
        };
        let nodes = [Some(*own), peer];
        !self.seen.insert((key, event.n, nodes))
    }
}
