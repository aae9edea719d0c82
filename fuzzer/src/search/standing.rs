//! Who is dead and what is cut at a moment of a run that happened: its faults, and the processes that ended by themselves, in the order of time.
//!
//! Asked by children, tails and strata. A process that ended before a fault was dead when that fault came, so that a reboot of its node
//! is possible and ends that; one that ended later is dead from then on. What ended after the test (`Exit::phase`) is no part of it.

use std::collections::BTreeSet;
use warren_model::{
    At, ClusterShape, ClusterState, Exit, Fault, FaultSequence, Injected, NodeName, Phase,
    RunRecord, Who,
};

/// Of a run with so many faults: those that ended by themselves before each, and behind the last, in order. Without times of faults (a made-up
/// run) nothing ended before one.
#[must_use]
pub fn ended<'a>(faults: usize, injected: &[Injected], exits: &'a [Exit]) -> Vec<Vec<&'a Exit>> {
    let mut own: Vec<&Exit> = exits.iter().filter(|x| x.phase <= Phase::Test).collect();
    own.sort_by_key(|x| std::cmp::Reverse(x.t_ns));
    let mut all = Vec::new();
    for fault in 0..faults {
        let reached = injected.get(fault).map_or(0, |i| i.t_reached.min(i.t_done));
        let mut before = Vec::new();
        while let Some(exit) = own.pop_if(|x| x.t_ns < reached) {
            before.push(exit);
        }
        all.push(before);
    }
    own.reverse();
    all.push(own);
    all
}

/// The cluster behind the last fault of a run, and what ends by itself after that.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    pub state: ClusterState,
    /// Those that ended by themselves before each fault.
    pub ended: Vec<Vec<&'a Exit>>,
    /// Behind the last one; latest first.
    later: Vec<&'a Exit>,
}

impl<'a> Standing<'a> {
    /// Behind all faults of a sequence with resolved nodes, which happened so; none when a rule is broken or a name is open.
    ///
    /// A fault is decided a moment before who ended just then is looked for: what it could not have been decided with came after it.
    #[must_use]
    pub fn behind(
        shape: &ClusterShape,
        matched: &FaultSequence,
        injected: &[Injected],
        exits: &'a [Exit],
    ) -> Option<Self> {
        let mut ended = ended(matched.faults.len(), injected, exits);
        let mut state = ClusterState::default();
        for (i, f) in matched.faults.iter().enumerate() {
            let executing = match &f.at {
                At::Exact(p) => Some(&p.node),
                At::Pattern(_) | At::AtOnce | At::Joined(_) | At::After(_) => None,
            };
            let known = with(&state, ended[i].iter().map(|x| &x.node));
            state = match shape.apply(&known, executing, &f.fault) {
                Ok(next) => next,
                Err(_) => {
                    let next = shape.apply(&state, executing, &f.fault).ok()?;
                    let unknown = std::mem::take(&mut ended[i]);
                    ended[i + 1].splice(0..0, unknown);
                    next
                }
            };
        }
        let mut later = ended.pop().unwrap_or_default();
        later.reverse();
        Some(Standing {
            state,
            ended,
            later,
        })
    }

    /// Counts those that had ended by themselves at this time; answers whether any had. Times only go on.
    pub fn advance(&mut self, t_ns: u64) -> bool {
        let before = self.state.dead.len();
        while let Some(exit) = self.later.pop_if(|x| x.t_ns <= t_ns) {
            self.state = with(&self.state, [&exit.node]);
        }
        self.state.dead.len() != before
    }

    /// What ends by itself from here on, in order.
    pub fn later(&self) -> impl Iterator<Item = &'a Exit> {
        self.later.iter().rev().copied()
    }

    /// All that are dead at some time behind the last fault, in the order of their ends.
    pub fn ever_dead(&self) -> impl Iterator<Item = &NodeName> {
        self.state.dead.iter().chain(self.later().map(|x| &x.node))
    }
}

/// A state with these dead, too.
#[must_use]
pub fn with<'a>(
    state: &ClusterState,
    ended: impl IntoIterator<Item = &'a NodeName>,
) -> ClusterState {
    let mut state = state.clone();
    for node in ended {
        if !state.dead.contains(node) {
            state.dead.push(node.clone());
        }
    }
    state
}

/// Who was dead when the test of a run ended.
#[must_use]
pub fn dead_in_the_end(record: &RunRecord) -> BTreeSet<NodeName> {
    let mut dead = BTreeSet::new();
    let faults = record.injected.iter().map(|i| Some(&i.matched.fault));
    let ended = ended(record.injected.len(), &record.injected, &record.exits);
    for (before, fault) in ended.into_iter().zip(faults.chain([None])) {
        dead.extend(before.into_iter().map(|x| x.node.clone()));
        match fault {
            Some(Fault::Crash {
                who: Who::Node(n), ..
            }) => {
                dead.insert(n.clone());
            }
            Some(Fault::Reboot { who: Who::Node(n) }) => {
                dead.remove(n);
            }
            _ => {}
        }
    }
    dead
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{CrashStyle, FaultAt, GroupShape};

    fn exit(node: &str, t_ns: u64, phase: Phase) -> Exit {
        Exit {
            node: node.into(),
            incarnation: 1,
            phase,
            t_ns,
            status: Some(1),
            signal: None,
            role: None,
        }
    }

    fn fault(fault: Fault, t_ns: u64) -> Injected {
        Injected {
            index: 0,
            matched: FaultAt {
                at: At::AtOnce,
                fault,
            },
            event: None,
            t_reached: t_ns,
            t_done: t_ns + 5,
            late: false,
            drift: None,
            kill: None,
        }
    }

    fn crash(node: &str, t_ns: u64) -> Injected {
        let who = Who::Node(node.into());
        let style = CrashStyle::Process;
        fault(Fault::Crash { who, style }, t_ns)
    }

    fn reboot(node: &str, t_ns: u64) -> Injected {
        let who = Who::Node(node.into());
        fault(Fault::Reboot { who }, t_ns)
    }

    /// Faults and exits; who is dead behind the last fault, at 1000, and in the end of the test.
    #[test]
    fn who_is_dead_when() {
        type Row = (Vec<Injected>, Vec<Exit>, &'static str, &'static str);
        let test = Phase::Test;
        let table: Vec<Row> = vec![
            (vec![], vec![], "", ""),
            (vec![], vec![exit("a", 50, test)], "", "a"),
            (
                vec![crash("a", 100)],
                vec![exit("b", 50, test)],
                "b a",
                "b a",
            ),
            (
                vec![crash("a", 100)],
                vec![exit("b", 200, test)],
                "a",
                "a b",
            ),
            // It ended by itself, the run brought it back.
            (vec![reboot("a", 100)], vec![exit("a", 50, test)], "", ""),
            // And it ended once more; while it was brought back, or later.
            (
                vec![reboot("a", 100)],
                vec![exit("a", 50, test), exit("a", 102, test)],
                "",
                "a",
            ),
            (
                vec![reboot("a", 100), crash("b", 300)],
                vec![exit("a", 200, test), exit("a", 50, test)],
                "a b",
                "a b",
            ),
            // The crash was decided before it was known: two dead are one too many (see the shape).
            (
                vec![crash("a", 100), crash("c", 300)],
                vec![exit("b", 299, test)],
                "a c",
                "a c b",
            ),
            // What healing meets is no part of the test.
            (
                vec![crash("a", 100)],
                vec![exit("b", 200, Phase::Degraded)],
                "a",
                "a",
            ),
        ];
        let shape = ClusterShape {
            groups: vec![GroupShape {
                name: "server".into(),
                nodes: vec!["a".into(), "b".into(), "c".into()],
                max_dead: 2,
            }],
            max_faults: 9,
        };
        let text = |dead: &[NodeName]| {
            let names: Vec<&str> = dead.iter().map(NodeName::as_str).collect();
            names.join(" ")
        };
        for (injected, exits, behind, end) in table {
            let mut matched = FaultSequence::empty("t");
            matched.faults = injected.iter().map(|i| i.matched.clone()).collect();
            let mut at = Standing::behind(&shape, &matched, &injected, &exits).unwrap();
            assert_eq!(text(&at.state.dead), behind, "{injected:?} {exits:?}");
            let ever: BTreeSet<NodeName> = at.ever_dead().cloned().collect();
            at.advance(1000);
            assert_eq!(text(&at.state.dead), end, "{injected:?} {exits:?}");
            let now: BTreeSet<NodeName> = at.state.dead.into_iter().collect();
            assert_eq!(ever, now);
            let record = RunRecord {
                injected,
                exits,
                ..RunRecord::default()
            };
            assert_eq!(dead_in_the_end(&record), now);
        }
    }

    #[test]
    fn a_reboot_of_a_node_that_lives_is_no_run_that_happened() {
        let shape = ClusterShape {
            groups: vec![GroupShape {
                name: "server".into(),
                nodes: vec!["a".into(), "b".into()],
                max_dead: 1,
            }],
            max_faults: 9,
        };
        let injected = [reboot("a", 100)];
        let mut matched = FaultSequence::empty("t");
        matched.faults = vec![injected[0].matched.clone()];
        let exits = [exit("a", 200, Phase::Test)];
        assert!(Standing::behind(&shape, &matched, &injected, &exits).is_none());
    }
}
