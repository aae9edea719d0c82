//! How each node of a run stood at a moment: its role, alive, dead or cut off, joining or serving, and how far its epochs and its data
//! were beside the others'. Read out of what a run records anyway: events, faults, incarnations, history, `[[epoch]]` samples.

use super::version::Answers;
use crate::check::leader::sampled_epochs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use warren_model::{
    ClusterShape, Fault, GroupShape, HistoryEvent, NodeName, Phase, RunProduct, StartState, Who,
};

/// How far something of a node was, beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// Nothing tells.
    Unknown,
    Behind,
    Equal,
    Ahead,
}

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    Alive,
    Dead,
    /// Alive, on the smaller side of an open cut.
    Cut,
}

/// One node at a moment, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Its name without the number: nodes of a group are called alike.
    pub kind: String,
    /// Seen last in its trace; of a dead one, when it died. Empty: none since its process began.
    pub role: String,
    pub life: Life,
    /// Its process has not passed its ready probe yet.
    pub joining: bool,
    /// One for each `[[epoch]]` of the target, in the order of their names; none where they were not sampled.
    pub epochs: Vec<Relation>,
    pub version: Relation,
}

impl NodeState {
    /// Others went on without it.
    #[must_use]
    pub fn stale(&self) -> bool {
        self.version == Relation::Behind || self.epochs.contains(&Relation::Behind)
    }
}

/// The text that ids are made of.
impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |r: &Relation| match r {
            Relation::Unknown => '?',
            Relation::Behind => '<',
            Relation::Equal => '=',
            Relation::Ahead => '>',
        };
        let role = if self.role.is_empty() {
            "-"
        } else {
            &self.role
        };
        let life = match (self.life, self.joining) {
            (Life::Dead, _) => "dead",
            (Life::Alive, false) => "serving",
            (Life::Alive, true) => "joining",
            (Life::Cut, false) => "cut serving",
            (Life::Cut, true) => "cut joining",
        };
        let epochs: String = self.epochs.iter().map(sign).collect();
        let version = sign(&self.version);
        write!(
            f,
            "{} {role} {life} epochs{epochs} version{version}",
            self.kind
        )
    }
}

/// What happened to a node, in order of time.
#[derive(Clone, Debug, Default)]
struct Past {
    /// Died or was cut off.
    gone: Vec<u64>,
    died: Option<u64>,
    /// The process that is there now was started then; none: the first one.
    back: Option<u64>,
    cut: bool,
}

impl Past {
    fn dead(&self) -> bool {
        match (self.died, self.back) {
            (Some(died), Some(back)) => back < died,
            (died, _) => died.is_some(),
        }
    }
}

/// A run, read for how its nodes stood.
#[derive(Clone, Debug)]
pub struct Standings<'a> {
    product: &'a RunProduct,
    answers: Answers<'a>,
    /// Of the faults' events and others, those of each node in order of time: (t, role).
    roles: Vec<Vec<(u64, u8)>>,
    epochs: BTreeMap<&'a str, Vec<(&'a NodeName, u64, i64)>>,
    end_ns: u64,
}

impl<'a> Standings<'a> {
    /// Reads a run.
    #[must_use]
    pub fn new(product: &'a RunProduct) -> Self {
        let trace = &product.trace;
        let mut roles = vec![Vec::new(); trace.nodes.len()];
        for e in trace.events.iter().filter(|e| e.phase <= Phase::Test) {
            if let Some(of) = roles.get_mut(usize::from(e.node))
                && of.last().is_none_or(|(_, role)| *role != e.role)
            {
                of.push((e.t_ns, e.role));
            }
        }
        let mut epochs: BTreeMap<&str, Vec<(&NodeName, u64, i64)>> = BTreeMap::new();
        for (node, name, t, value) in sampled_epochs(product) {
            epochs.entry(name).or_default().push((node, t, value));
        }
        Standings {
            product,
            answers: Answers::of(&product.history),
            roles,
            epochs,
            end_ns: end_of_test(product),
        }
    }

    /// The nodes at this fault, in the trace's order: who lives as it leaves them, all else as it finds them, for what others do while
    /// it is being done is chance. Epochs are sampled when it is done.
    #[must_use]
    pub fn after(&self, fault: usize) -> Vec<NodeState> {
        let injected = &self.product.record.injected;
        let Some(i) = injected.get(fault) else {
            return Vec::new();
        };
        let (reached, done) = (i.t_reached.min(i.t_done), i.t_done);
        let next = injected.get(fault + 1).map_or(self.end_ns, |i| i.t_done);
        let sampled = |name: &'a str| self.sampled(name, done, next.max(done));
        self.nodes(fault + 1, reached, sampled)
    }

    /// The nodes when this fault's point was reached. Epochs are those sampled last.
    #[must_use]
    pub fn before(&self, fault: usize) -> Vec<NodeState> {
        let reached = self.product.record.injected.get(fault);
        let Some(reached) = reached.map(|i| i.t_reached) else {
            return Vec::new();
        };
        self.nodes(fault, reached, |name| self.sampled(name, reached, reached))
    }

    /// The nodes when the test ended, before anything is healed. Epochs are not sampled then.
    #[must_use]
    pub fn at_the_end(&self) -> Vec<NodeState> {
        let faults = self.product.record.injected.len();
        self.nodes(faults, self.end_ns, |_| BTreeMap::new())
    }

    /// Each node's value: the first sample in `from..until`, else the last before.
    fn sampled(&self, name: &'a str, from: u64, until: u64) -> BTreeMap<&'a NodeName, i64> {
        let mut values: BTreeMap<&NodeName, (u64, i64)> = BTreeMap::new();
        for (node, t, value) in self.epochs.get(name).into_iter().flatten() {
            let known = values.get(node).map(|(t, _)| *t);
            if *t < until && known.is_none_or(|k| k < from) {
                values.insert(node, (*t, *value));
            }
        }
        values.into_iter().map(|(n, (_, v))| (n, v)).collect()
    }

    /// What had happened to each node by `t`, by so many faults and by their own ends.
    fn pasts(&self, faults: usize, t: u64) -> Vec<Past> {
        let nodes = &self.product.trace.nodes;
        let record = &self.product.record;
        let shape = ClusterShape {
            groups: vec![GroupShape {
                name: String::new(),
                nodes: nodes.clone(),
                max_dead: nodes.len(),
            }],
            max_faults: usize::MAX,
        };
        let mut pasts = vec![Past::default(); nodes.len()];
        let index = |n: &NodeName| nodes.iter().position(|x| x == n);
        let mut exits: Vec<_> = record
            .exits
            .iter()
            .filter(|x| x.phase <= Phase::Test && x.t_ns <= t)
            .collect();
        exits.sort_by_key(|x| std::cmp::Reverse(x.t_ns));
        let died = |pasts: &mut Vec<Past>, n: &NodeName, at: u64| {
            if let Some(p) = index(n).and_then(|i| pasts.get_mut(i)) {
                p.gone.push(at);
                p.died = Some(at);
            }
        };
        for injected in record.injected.iter().take(faults) {
            let at = injected.t_done;
            while let Some(x) = exits.pop_if(|x| x.t_ns <= at) {
                died(&mut pasts, &x.node, x.t_ns);
            }
            match &injected.matched.fault {
                Fault::Crash {
                    who: Who::Node(n), ..
                } => died(&mut pasts, n, at),
                Fault::Reboot { who: Who::Node(n) } => {
                    if let Some(p) = index(n).and_then(|i| pasts.get_mut(i)) {
                        p.back = Some(at);
                    }
                }
                Fault::PartitionStart { who, .. } => {
                    let Ok(open) = shape.sides(who) else { continue };
                    for i in open.smaller().iter().filter_map(index) {
                        pasts[i].cut = true;
                        pasts[i].gone.push(at);
                    }
                }
                Fault::PartitionStop => pasts.iter_mut().for_each(|p| p.cut = false),
                // A sequence that really matched has its nodes' names; a stall changes nothing that is told here.
                Fault::Crash { .. } | Fault::Reboot { .. } | Fault::Stall { .. } => {}
            }
        }
        while let Some(x) = exits.pop() {
            died(&mut pasts, &x.node, x.t_ns);
        }
        pasts
    }

    fn nodes(
        &self,
        faults: usize,
        t: u64,
        sampled: impl Fn(&'a str) -> BTreeMap<&'a NodeName, i64>,
    ) -> Vec<NodeState> {
        let nodes = &self.product.trace.nodes;
        let pasts = self.pasts(faults, t);
        let alive = nodes.iter().zip(&pasts).filter(|(_, p)| !p.dead());
        let living: BTreeSet<&NodeName> = alive.clone().map(|(n, _)| n).collect();
        let there: Vec<&NodeName> = alive.filter(|(_, p)| !p.cut).map(|(n, _)| n).collect();
        let epochs: Vec<BTreeMap<&NodeName, Relation>> = self
            .epochs
            .keys()
            .map(|name| beside(&sampled(name), &living))
            .collect();
        let version = |name: &NodeName, past: &Past| {
            let gone = &past.gone[..past.gone.partition_point(|g| *g <= t)];
            self.answers.relation(name, gone, &there, t)
        };
        let of = |(i, (name, past)): (usize, (&NodeName, &Past))| NodeState {
            kind: name
                .as_str()
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned(),
            role: self.role(i, past, t),
            life: match (past.dead(), past.cut) {
                (true, _) => Life::Dead,
                (false, true) => Life::Cut,
                (false, false) => Life::Alive,
            },
            joining: !past.dead() && (past.back > Some(t) || self.joins(name, t)),
            epochs: epochs
                .iter()
                .map(|e| e.get(name).copied().unwrap_or(Relation::Unknown))
                .collect(),
            version: version(name, past),
        };
        nodes.iter().zip(&pasts).enumerate().map(of).collect()
    }

    /// Seen last by `t` in the process that is there, or that died last; before any event of the first one, that at GO.
    fn role(&self, node: usize, past: &Past, t: u64) -> String {
        let (from, until) = match (past.died, past.back) {
            _ if past.dead() => (0, t.min(past.died.unwrap_or(t))),
            (Some(died), Some(_)) => (died, t),
            _ => (0, t),
        };
        let changes = self.roles.get(node).map_or(&[][..], Vec::as_slice);
        let last = changes[..changes.partition_point(|(at, _)| *at <= until)].last();
        let trace = &self.product.trace;
        match last.filter(|(at, _)| from == 0 || *at > from) {
            Some((_, role)) => usize::from(*role)
                .checked_sub(1)
                .and_then(|i| trace.roles.get(i).cloned())
                .unwrap_or_default(),
            None if from == 0 => {
                let roles = self.product.record.matched.as_ref().map(|m| &m.roles);
                let own = trace.nodes.get(node).and_then(|n| roles?.get(n));
                own.cloned().unwrap_or_default()
            }
            None => String::new(),
        }
    }

    /// Whether the node's process at `t` has not passed its ready probe. A restored one had before the run.
    fn joins(&self, node: &NodeName, t: u64) -> bool {
        let record = &self.product.record;
        let restored = record
            .matched
            .as_ref()
            .is_some_and(|m| m.start != StartState::Cold);
        let mut own = record.incarnations.iter().filter(|i| i.node == *node);
        match own.rfind(|i| i.spawned_ns <= t) {
            Some(i) => match i.ready_ns {
                Some(ready) => ready > t,
                None => !(restored && i.number <= 1),
            },
            None => false,
        }
    }
}

/// Each node's value beside the one that most living nodes have; of equally many, the larger one.
fn beside<'a>(
    values: &BTreeMap<&'a NodeName, i64>,
    living: &BTreeSet<&NodeName>,
) -> BTreeMap<&'a NodeName, Relation> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for (_, v) in values.iter().filter(|(n, _)| living.contains(*n)) {
        *counts.entry(*v).or_default() += 1;
    }
    // Of equal counts the last one, which is the larger value.
    let Some((most, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
        return BTreeMap::new();
    };
    let relation = |v: i64| match v.cmp(&most) {
        std::cmp::Ordering::Less => Relation::Behind,
        std::cmp::Ordering::Equal => Relation::Equal,
        std::cmp::Ordering::Greater => Relation::Ahead,
    };
    values.iter().map(|(n, v)| (*n, relation(*v))).collect()
}

/// When the workload was told that the test is over, else the last that is known of it.
fn end_of_test(product: &RunProduct) -> u64 {
    let told = product.history.iter().find_map(|e| match e {
        HistoryEvent::Phase { phase, t_ns } if *phase > Phase::Test => Some(*t_ns),
        _ => None,
    });
    let events = product.trace.events.iter();
    let last = events
        .filter(|e| e.phase <= Phase::Test)
        .map(|e| e.t_ns)
        .chain(product.record.injected.iter().map(|i| i.t_done));
    told.or_else(|| last.max()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, ms, op};
    use crate::states::testing::{crash, cut, product, reboot};
    use warren_model::{Exit, Observation};

    fn lines(nodes: &[NodeState]) -> Vec<String> {
        nodes.iter().map(ToString::to_string).collect()
    }

    const CALM: [&str; 3] = [
        "n leader serving epochs version?",
        "n follower serving epochs version?",
        "n follower serving epochs version?",
    ];

    #[test]
    fn who_lives_and_in_which_role() {
        let p = product(&[
            (10, crash("n1")),
            (20, cut("n2")),
            (30, reboot("n1")),
            (40, Fault::PartitionStop),
        ]);
        let s = Standings::new(&p);
        assert_eq!(lines(&s.before(0)), CALM);
        let table = [
            (0, ["n leader dead", CALM[1], CALM[2]]),
            (1, ["n leader dead", "n follower cut serving", CALM[2]]),
            // Of the new process no role is known yet.
            (2, ["n - joining", "n follower cut serving", CALM[2]]),
            (3, ["n - serving", CALM[1], CALM[2]]),
        ];
        for (fault, want) in table {
            let want = want.map(|w| match w.contains("epochs") {
                true => w.to_owned(),
                false => format!("{w} epochs version?"),
            });
            assert_eq!(lines(&s.after(fault)), want, "after {fault}");
        }
        assert_eq!(lines(&s.at_the_end()), lines(&s.after(3)));
        assert_eq!(lines(&s.before(1)), lines(&s.after(0)));
        assert!(s.after(9).is_empty());
    }

    #[test]
    fn a_process_joins_until_it_is_ready() {
        let mut p = product(&[(10, crash("n3")), (20, reboot("n3"))]);
        let spawned = |p: &mut RunProduct, ready: Option<u64>| {
            p.record.incarnations.truncate(3);
            let mut i = p.record.incarnations[2].clone();
            (i.number, i.spawned_ns, i.ready_ns) = (2, ms(20), ready.map(ms));
            p.record.incarnations.push(i);
        };
        for (ready, joining) in [(Some(25), true), (None, true), (Some(20), false)] {
            spawned(&mut p, ready);
            let s = Standings::new(&p);
            assert_eq!(s.at_the_end()[2].joining, joining, "{ready:?}");
            assert!(s.after(1)[2].joining, "it was only just started");
            assert!(!s.after(0)[2].joining, "a dead one does not join");
        }
        // A restored process was ready before the run and says nothing of it.
        p.record.incarnations.truncate(3);
        p.record.incarnations[0].ready_ns = None;
        assert!(Standings::new(&p).after(0)[0].joining);
        p.record.matched.as_mut().unwrap().start = StartState::Snapshot(1);
        assert!(!Standings::new(&p).after(0)[0].joining);
    }

    #[test]
    fn a_process_that_ended_by_itself_is_dead() {
        let mut p = product(&[(10, cut("n2"))]);
        p.record.exits = vec![Exit {
            t_ns: ms(5),
            ..crate::check::testing::exit("n3", Some(1), None)
        }];
        let s = Standings::new(&p);
        assert_eq!(s.before(0)[2].life, Life::Dead);
        assert_eq!(s.after(0)[1].life, Life::Cut);
    }

    #[test]
    fn epochs_beside_those_of_most() {
        let mut p = product(&[(10, crash("n1")), (20, crash("n2"))]);
        let sample = |node: &str, t: u64, value| Observation::Epoch {
            node: node.into(),
            name: "e".into(),
            value,
            t_ns: ms(t),
        };
        p.observations = vec![
            sample("n1", 0, 1),
            sample("n2", 0, 1),
            sample("n3", 0, 1),
            // Just after the first fault.
            sample("n1", 11, 3),
            sample("n2", 11, 2),
            sample("n3", 11, 2),
            // n2 could not be read after the second: what was known before.
            sample("n1", 21, 3),
            sample("n3", 21, 4),
            // The end, healed.
            sample("n2", 90, 9),
        ];
        // The end of the test.
        p.history = vec![HistoryEvent::Phase {
            phase: Phase::Degraded,
            t_ns: ms(50),
        }];
        let s = Standings::new(&p);
        let epochs = |nodes: Vec<NodeState>| -> Vec<Relation> {
            nodes.into_iter().flat_map(|n| n.epochs).collect()
        };
        use Relation::{Ahead, Behind, Equal, Unknown};
        assert_eq!(epochs(s.before(0)), [Equal, Equal, Equal]);
        assert_eq!(epochs(s.after(0)), [Ahead, Equal, Equal]);
        assert_eq!(epochs(s.before(1)), [Ahead, Equal, Equal]);
        assert_eq!(epochs(s.after(1)), [Behind, Behind, Equal]);
        assert!(s.after(1)[0].stale() && !s.after(0)[0].stale());
        assert_eq!(epochs(s.at_the_end()), [Unknown; 3]);
        // As many have the one as the other: the larger counts.
        p.record.injected.truncate(1);
        p.observations = vec![sample("n2", 11, 1), sample("n3", 11, 2)];
        assert_eq!(
            epochs(Standings::new(&p).after(0)),
            [Unknown, Behind, Equal]
        );
    }

    #[test]
    fn data_that_others_wrote_meanwhile() {
        let mut p = product(&[(10, crash("n3")), (20, reboot("n3"))]);
        let mut b = Build::new();
        b.product.history.clear();
        for (server, t, z) in [("n3", 2, 5), ("n1", 4, 5), ("n1", 15, 6)] {
            b = b.op(op("s", "write", "k", t, t + 1).put("v").z(z));
            for e in &mut b.product.history {
                if let HistoryEvent::Invoke(i) = e {
                    i.server.get_or_insert_with(|| server.into());
                }
            }
        }
        p.history = b.product.history;
        let s = Standings::new(&p);
        assert_eq!(s.after(0)[2].version, Relation::Equal);
        assert_eq!(s.after(1)[2].version, Relation::Behind);
        assert!(s.after(1)[2].stale());
        assert_eq!(s.after(1)[0].version, Relation::Equal);
        assert_eq!(s.after(1)[2].to_string(), "n - joining epochs version<");
    }
}
