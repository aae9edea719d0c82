//! A sequence on its way down: the best so far, and what may be tried instead. Pure.
//!
//! Faults keep the number they had in the sequence that was given, so that a line always says which one is meant. Only candidates that
//! the constraints allow are made: a reboot goes with its crash, a partition-stop with its start.

use super::facts::{Facts, FaultFacts};
use crate::text::fault_text;
use std::fmt::Write;
use warren_model::ids::fnv1a;
use warren_model::{
    At, ClusterShape, ClusterState, Fault, FaultAt, FaultSequence, Member, NodeName, Trace,
    Violation, Who,
};

/// A sequence whose faults know where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub sequence: FaultSequence,
    /// For each fault, its place in the sequence that was given.
    pub ids: Vec<usize>,
}

/// The best so far, with what its last failing run told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Best {
    pub candidate: Candidate,
    pub facts: Facts,
    /// It showed in k of n runs when it was tried.
    pub k: u32,
    pub n: u32,
}

impl Candidate {
    /// The sequence as it was given.
    #[must_use]
    pub fn given(sequence: FaultSequence) -> Self {
        Candidate {
            ids: (0..sequence.faults.len()).collect(),
            sequence,
        }
    }

    /// What the journal knows it by.
    #[must_use]
    pub fn hash(&self) -> u64 {
        fnv1a(self.sequence.to_text().as_bytes())
    }

    /// Node names that nothing uses need no roles to be renamed by.
    #[must_use]
    pub fn tidy(mut self) -> Self {
        let named = |f: &FaultAt| {
            let at = match &f.at {
                At::Exact(_) | At::Joined(_) => true,
                At::Pattern(p) => p.node.is_some() || p.except.is_some(),
                At::AtOnce | At::After(_) => false,
            };
            at || match &f.fault {
                Fault::Crash { who, .. } | Fault::Reboot { who } => matches!(who, Who::Node(_)),
                Fault::PartitionStart { who, .. } => who
                    .cut
                    .iter()
                    .chain(&who.from)
                    .chain(&who.bridge)
                    .any(|m| matches!(m, Member::Node(_))),
                Fault::PartitionStop | Fault::Stall { .. } => false,
            }
        };
        if !self.sequence.faults.iter().any(named) {
            self.sequence.roles.clear();
        }
        self
    }
}

impl Best {
    /// What is known of fault `i`, if it happened.
    #[must_use]
    pub fn fact(&self, i: usize) -> Option<&FaultFacts> {
        self.facts.faults.get(i)
    }

    /// These faults of it and no others, with `n` counted anew so that each still means the same moment.
    #[must_use]
    pub fn only(&self, keep: &[usize], recount: bool) -> Candidate {
        let mut out = self.candidate.clone();
        out.ids = keep.iter().map(|i| self.candidate.ids[*i]).collect();
        let mut next = 0;
        out.sequence.faults = keep
            .iter()
            .map(|k| {
                let mut f = self.candidate.sequence.faults[*k].clone();
                if recount {
                    let arrivals: u32 = self
                        .fact(*k)
                        .and_then(|facts| facts.before.get(next..*k))
                        .map_or(0, |b| b.iter().sum());
                    match &mut f.at {
                        At::Exact(p) => p.n = p.n.saturating_add(arrivals),
                        At::Pattern(p) => p.n = p.n.saturating_add(arrivals),
                        At::After(ms) => {
                            let faults = &self.candidate.sequence.faults;
                            for gone in faults.get(next..*k).unwrap_or_default() {
                                if let At::After(waited) = gone.at {
                                    *ms = ms.saturating_add(waited);
                                }
                            }
                        }
                        At::AtOnce | At::Joined(_) => {}
                    }
                }
                next = *k + 1;
                f
            })
            .collect();
        out.tidy()
    }

    /// Of the faults to keep, those that may still happen: what the taking out of others makes impossible goes with them.
    #[must_use]
    pub fn legal(&self, keep: &[usize], shape: &ClusterShape) -> Vec<usize> {
        let mut shape = shape.clone();
        shape.max_faults = shape.max_faults.max(self.candidate.sequence.faults.len());
        // A recorded run may break a rule by itself (a node that ended by itself was rebooted): that is no reason to drop a fault.
        let all: Vec<usize> = (0..self.candidate.sequence.faults.len()).collect();
        let broken: Vec<usize> = self.walk(&all, &shape).1;
        let (kept, _) = self.walk_dropping(keep, &shape, &broken);
        kept
    }

    /// Whether all its faults may happen.
    #[must_use]
    pub fn is_legal(&self, shape: &ClusterShape) -> bool {
        let all: Vec<usize> = (0..self.candidate.sequence.faults.len()).collect();
        self.walk(&all, shape).1.is_empty()
    }

    /// All faults in order: (those that may happen, those that may not).
    fn walk(&self, all: &[usize], shape: &ClusterShape) -> (Vec<usize>, Vec<usize>) {
        self.walk_dropping(all, shape, &[])
    }

    fn walk_dropping(
        &self,
        keep: &[usize],
        shape: &ClusterShape,
        tolerated: &[usize],
    ) -> (Vec<usize>, Vec<usize>) {
        let mut state = ClusterState::default();
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for i in keep {
            let f = &self.candidate.sequence.faults[*i];
            let fault = resolved(&f.fault, self.fact(*i));
            let executing = match &f.at {
                At::Exact(p) => Some(&p.node),
                At::Pattern(_) => self.fact(*i).and_then(FaultFacts::executing),
                At::AtOnce | At::Joined(_) | At::After(_) => None,
            };
            match shape.apply(&state, executing, &fault) {
                Ok(next) => {
                    state = next;
                    kept.push(*i);
                }
                // Known only when the fault comes: the controller asks then.
                Err(Violation::Unresolved(_)) => kept.push(*i),
                Err(_) if tolerated.contains(i) => kept.push(*i),
                Err(_) => dropped.push(*i),
            }
        }
        (kept, dropped)
    }
}

/// The fault with the nodes it had in the run, where the constraints cannot tell them.
fn resolved(fault: &Fault, fact: Option<&FaultFacts>) -> Fault {
    let open = match fault {
        Fault::Crash { who, .. } | Fault::Reboot { who } => matches!(who, Who::Role(_)),
        Fault::PartitionStart { who, .. } => who
            .cut
            .iter()
            .chain(&who.from)
            .chain(&who.bridge)
            .any(|m| !matches!(m, Member::Node(_))),
        Fault::PartitionStop | Fault::Stall { .. } => false,
    };
    match fact {
        Some(facts) if open => facts.matched.fault.clone(),
        _ => fault.clone(),
    }
}

/// `1 crash, 2 reboot`: faults by the numbers they were given with.
#[must_use]
pub fn named(candidate: &Candidate, faults: &[usize]) -> String {
    faults
        .iter()
        .filter_map(|i| {
            let id = candidate.ids.get(*i)?;
            let kind = candidate.sequence.faults.get(*i)?.fault.kind();
            Some(format!("{} {kind}", id + 1))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// One line about each fault, for people.
#[must_use]
pub fn lines(candidate: &Candidate, facts: &Facts) -> Vec<String> {
    let mut trace = Trace::default();
    for f in &facts.faults {
        if let At::Exact(p) = &f.matched.at {
            trace.stacks.insert(p.stack, f.frames.clone());
        }
    }
    candidate
        .sequence
        .faults
        .iter()
        .zip(&candidate.ids)
        .map(|(f, id)| format!("{}: {}", id + 1, fault_text(f, &trace)))
        .collect()
}

/// How `other` differs from `from`: (changes, one line each).
#[must_use]
pub fn differs(from: &Candidate, other: &Candidate, facts: &Facts) -> (usize, String) {
    let (here, there) = (lines(from, facts), lines(other, facts));
    let mut changes = 0;
    let mut out = String::new();
    for (i, id) in from.ids.iter().enumerate() {
        match other.ids.iter().position(|x| x == id) {
            None => {
                changes += 1;
                let _ = writeln!(out, "without {}", here[i]);
            }
            Some(j) if other.sequence.faults[j] != from.sequence.faults[i] => {
                changes += 1;
                let _ = writeln!(out, "{}\n  instead of {}", there[j], here[i]);
            }
            Some(_) => {}
        }
    }
    for (j, id) in other.ids.iter().enumerate() {
        if !from.ids.contains(id) {
            changes += 1;
            let _ = writeln!(out, "with {}", there[j]);
        }
    }
    (changes, out)
}

/// All nodes, for those who need addresses in order.
#[must_use]
pub fn nodes(shape: &ClusterShape) -> Vec<NodeName> {
    shape.nodes().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stands_when_a_fault_before_it_goes() {
        let times = [200, 30, 5];
        let mut given = FaultSequence::empty("t");
        for ms in times {
            given = given.with(At::After(ms), Fault::PartitionStop);
        }
        let best = Best {
            candidate: Candidate::given(given),
            facts: Facts::default(),
            k: 1,
            n: 1,
        };
        for (keep, recount, want) in [
            (&[0, 1, 2][..], true, &[200, 30, 5][..]),
            (&[2], true, &[235]),
            (&[0, 2], true, &[200, 35]),
            (&[1, 2], true, &[230, 5]),
            (&[0, 1], true, &[200, 30]),
            (&[2], false, &[5]),
        ] {
            let faults = best.only(keep, recount).sequence.faults;
            let got: Vec<At> = faults.into_iter().map(|f| f.at).collect();
            let want: Vec<At> = want.iter().map(|ms| At::After(*ms)).collect();
            assert_eq!(got, want, "{keep:?} {recount}");
        }
    }
}
