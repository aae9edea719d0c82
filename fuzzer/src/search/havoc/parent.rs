//! A kept run as havoc's operators see it: its faults as steps, who served as what when they came, and where a step's point is found once what
//! comes before it has changed. Pure; made for each turn.

use super::super::children::{Drawing, Points, Seed};
use super::super::peers;
use super::one_of;
use super::step::{Step, behind};
use crate::search::patterns::{self, generalise};
use libafl_bolts::rands::Rand;
use warren_model::{
    At, ClusterState, Exit, Fault, Member, NodeName, Pattern, Phase, StartState, TraceEvent,
};

/// A kept run with faults.
pub struct Parent<'a> {
    pub(super) seed: Seed<'a>,
    pub(super) steps: Vec<Step>,
    /// Who ended by itself behind the last fault, in order.
    pub(super) ended: Vec<&'a Exit>,
}

/// Where a step's arrivals are counted in the run: from behind the fault that is to come before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// From when the run waited for this fault.
    pub first: usize,
    /// Until it waited for this one.
    pub last: usize,
    /// Only behind this event (its index).
    pub behind: Option<usize>,
}

impl<'a> Parent<'a> {
    /// None of a run without faults, or with ones that break the rules.
    #[must_use]
    pub fn new(seed: Seed<'a>, drawing: &Drawing<'_>) -> Option<Self> {
        let standing = seed.behind(drawing)?;
        let open = generalise(seed.matched, seed.injected, seed.exits, seed.trace).sequence;
        let all = seed.matched.faults.iter().zip(open.faults);
        let all = all.zip(&standing.ended).enumerate();
        let steps = all.map(|(i, ((exact, open), ended))| {
            let event = seed.injected.get(i).and_then(|x| x.event);
            Step {
                exact: exact.at.clone(),
                open: open.at,
                fault: exact.fault.clone(),
                executing: match &exact.at {
                    At::Exact(p) => Some(p.node.clone()),
                    _ => None,
                },
                peer: event.and_then(|e| peer(&seed, seed.trace.events.get(e)?)),
                alone: None,
                event,
                ended: ended.iter().map(|x| (x.t_ns, x.node.clone())).collect(),
                was: i,
            }
        });
        let mut parent = Parent {
            steps: steps.collect(),
            ended: standing.later().collect(),
            seed,
        };
        for i in 0..parent.steps.len() {
            let mut step = parent.steps[i].clone();
            step.alone = parent.alone(&step, Span::of(i));
            if cuts_pair_by_name(&step) {
                step.pin();
            }
            parent.steps[i] = step;
        }
        (!parent.steps.is_empty()).then_some(parent)
    }

    /// How the run began.
    #[must_use]
    pub fn start(&self) -> StartState {
        self.seed.matched.start
    }

    /// What a node served as at a time, by the last point that its process had passed until then; before its first one as at GO.
    fn role(&self, node: &NodeName, t_ns: u64) -> Option<&str> {
        let trace = self.seed.trace;
        let n = trace.nodes.iter().position(|x| x == node)?;
        let until = trace.events.partition_point(|e| e.t_ns <= t_ns);
        let own = trace.events[..until].iter().rev();
        let mut process = None;
        for e in own.filter(|e| usize::from(e.node) == n && e.phase <= Phase::Test) {
            if *process.get_or_insert(e.incarnation) != e.incarnation {
                return None;
            }
            if let Some(role) = trace.role(e) {
                return Some(role);
            }
        }
        self.seed.matched.roles.get(node).map(String::as_str)
    }

    /// When a fault of the run came, ns; behind the last one the end of time.
    fn reached(&self, fault: usize) -> u64 {
        let injected = self.seed.injected.get(fault);
        injected.map_or(u64::MAX, |i| i.t_reached)
    }

    /// The cluster as the run had it when this fault came; behind the last one when its test ended.
    pub(super) fn state(&self, fault: usize, d: &Drawing<'_>) -> Option<ClusterState> {
        let state = behind(self.steps.get(..fault)?, d)?;
        Some(match self.steps.get(fault) {
            Some(step) => step.before(&state),
            None => super::super::standing::with(&state, self.ended.iter().map(|x| &x.node)),
        })
    }

    /// Another node of the same group that served, when fault `now` came, as what this one did when fault `then` came, and that was dead only
    /// if this one is, too; drawn.
    pub(in crate::search) fn other(
        &self,
        than: &NodeName,
        then: usize,
        now: usize,
        d: &Drawing<'_>,
        rand: &mut impl Rand,
    ) -> Option<NodeName> {
        let role = self.role(than, self.reached(then))?;
        let group = d.shape.groups.iter().find(|g| g.nodes.contains(than))?;
        let dead = self.state(now, d)?.dead;
        let may_be_dead = then == now && dead.contains(than);
        let reached = self.reached(now);
        let others = group.nodes.iter().filter(|n| {
            *n != than && dead.contains(n) == may_be_dead && self.role(n, reached) == Some(role)
        });
        one_of(&others.cloned().collect::<Vec<_>>(), rand)
    }

    /// The points of the run while it waited for this fault.
    pub(super) fn points(
        &self,
        before: usize,
        d: &Drawing<'_>,
    ) -> impl Iterator<Item = (u32, &TraceEvent)> + use<'_, 'a> {
        let points = Points::of(self.seed.trace, self.seed.incarnations, d.whole_start);
        (0u32..)
            .zip(&self.seed.trace.events)
            .filter(move |(_, e)| points.has(e) && e.interval.faults_done() == before)
    }

    /// A fault that the run did not have, at one of its points (the event's index), while it waited for fault `was`.
    pub(super) fn step(&self, event: usize, fault: Fault, was: usize) -> Option<Step> {
        let trace = self.seed.trace;
        let e = trace.events.get(event)?;
        let point = trace.point(e);
        let pattern = patterns::pattern(&point, event, false, trace);
        let exact = At::Exact(point);
        let mut step = Step {
            open: pattern.map_or_else(|| exact.clone(), At::Pattern),
            exact,
            fault,
            executing: trace.nodes.get(usize::from(e.node)).cloned(),
            peer: peer(&self.seed, e),
            alone: None,
            event: Some(event),
            ended: Vec::new(),
            was,
        };
        step.alone = self.alone(&step, Span::of(was));
        Some(step)
    }

    /// The pattern of a step of this run finds its event in this span: by its number, and where another node would meet it before, by its node, too.
    /// As it is where it has no event there.
    pub(super) fn recount(&self, step: &mut Step, span: Span) {
        let Some(p) = pattern_of(&step.open) else {
            return;
        };
        let found = self.arrival(&p, step, span);
        step.alone = self.alone(step, span).or(step.alone);
        match found {
            Some((n, true)) => set_n(&mut step.open, n),
            Some((_, false)) => step.pin(),
            None => {}
        }
    }

    /// Which arrival the event of a step is on its node, whatever that serves as.
    fn alone(&self, step: &Step, span: Span) -> Option<u32> {
        let p = Pattern {
            node: step.executing.clone(),
            role: None,
            ..pattern_of(&step.open)?
        };
        Some(self.arrival(&p, step, span)?.0)
    }

    /// Which arrival of the pattern on its node the step's event is in the span, and whether it would be the first that is the so-manieth on
    /// any node.
    fn arrival(&self, p: &Pattern, step: &Step, span: Span) -> Option<(u32, bool)> {
        let own = step.event?;
        let mut n = None;
        self.arrivals(p, span, |event, count| {
            n = n.or((event == own).then_some(count));
            n.is_none()
        });
        let n = n?;
        let mut first = None;
        self.arrivals(p, span, |event, count| {
            first = first.or((count == n).then_some(event));
            first.is_none()
        });
        Some((n, first == Some(own)))
    }

    /// Tells of each arrival of a pattern in a span which one it is on its node, until that wants no more.
    fn arrivals(&self, p: &Pattern, span: Span, mut go_on: impl FnMut(usize, u32) -> bool) {
        #[derive(Clone, Copy, Default)]
        struct Count {
            interval: usize,
            /// In the intervals before, and in this one.
            before: u32,
            here: u32,
            /// Of these, those that come too early.
            early: u32,
        }
        let trace = self.seed.trace;
        let mut counts = vec![Count::default(); trace.nodes.len()];
        for (i, e) in trace.events.iter().enumerate() {
            let waiting = e.interval.faults_done();
            let in_span = (span.first..=span.last).contains(&waiting);
            if in_span
                && patterns::fits(p, e, trace)
                && let Some(c) = counts.get_mut(usize::from(e.node))
            {
                if waiting != c.interval {
                    (c.interval, c.before, c.here) = (waiting, c.before + c.here, 0);
                }
                c.here = patterns::with_one_more(c.here, e);
                let all = c.before + c.here - c.early;
                if span.behind.is_none_or(|b| i > b) && !go_on(i, all) {
                    return;
                }
            }
            if span.behind == Some(i) {
                for c in &mut counts {
                    c.early = c.before + c.here;
                }
            }
        }
    }
}

impl Span {
    /// While the run waited for this fault.
    pub fn of(fault: usize) -> Span {
        Span {
            first: fault,
            last: fault,
            behind: None,
        }
    }
}

/// The other end of a message point, if that is a node, as it is wherever the same call is made: the pattern of the point does not look at it.
fn peer(seed: &Seed<'_>, event: &TraceEvent) -> Option<NodeName> {
    let nodes = &seed.trace.nodes;
    let of = |e: &TraceEvent| peers::node_of(seed.trace.text(e.peer)?, nodes);
    let same =
        |e: &&TraceEvent| (e.stack, e.kind, e.place) == (event.stack, event.kind, event.place);
    let all = || {
        seed.trace
            .events
            .iter()
            .filter(same)
            .all(|e| of(e).is_some())
    };
    let one = of(event).filter(|_| event.kind.is_message() && all())?;
    nodes.get(one).cloned()
}

/// A cut between two nodes of which the one is not known as the peer: it keeps both names.
fn cuts_pair_by_name(step: &Step) -> bool {
    matches!(&step.fault, Fault::PartitionStart { who, .. }
        if matches!(who.from.as_slice(), [Member::Node(n)] if Some(n) != step.peer.as_ref()))
}

/// What finds the point, with the number aside.
fn pattern_of(at: &At) -> Option<Pattern> {
    match at {
        At::Pattern(p) => Some(p.clone()),
        At::Exact(p) => Some(Pattern {
            node: Some(p.node.clone()),
            except: None,
            role: None,
            frames: Vec::new(),
            stack: Some(p.stack),
            kind: Some(p.kind),
            place: Some(p.place),
            n: p.n,
            phase: p.phase,
        }),
        At::AtOnce | At::Joined(_) | At::After(_) => None,
    }
}

fn set_n(at: &mut At, n: u32) {
    match at {
        At::Pattern(p) => p.n = n,
        At::Exact(p) => p.n = n,
        At::AtOnce | At::Joined(_) | At::After(_) => {}
    }
}
