//! The same number of faults, but earlier and simpler ones, then points that say less: lists of candidates, most wanted first. Pure.
//!
//! Called again whenever a candidate was kept; what was refused already the machine leaves out.

use super::candidate::{Best, Candidate};
use super::facts::FaultFacts;
use std::collections::BTreeSet;
use warren_model::{
    At, ClusterShape, ClusterState, CrashStyle, CutWay, Fault, FaultAt, IoPoint, Member, NodeName,
    Pattern, Phase, StartState, Who,
};

/// No stall is made shorter than that: what so short a one does, chance does as well.
const LEAST_STALL_MS: u32 = 25;

/// A candidate and what was changed.
pub type Proposal = (String, Candidate);

/// Simpler kinds, smaller n, earlier points; fault by fault.
#[must_use]
pub fn simpler(best: &Best, shape: &ClusterShape) -> Vec<Proposal> {
    let mut out = Vec::new();
    for (i, f) in best.candidate.sequence.faults.iter().enumerate() {
        let fact = best.fact(i);
        match &f.fault {
            Fault::Crash {
                who,
                style: CrashStyle::Machine,
            } => {
                let fault = Fault::Crash {
                    who: who.clone(),
                    style: CrashStyle::Process,
                };
                out.push(changed(best, i, f.at.clone(), fault, "style process"));
            }
            Fault::PartitionStart { .. } => out.extend(narrower(best, i, f, shape)),
            Fault::Stall { ms, until_next } if *ms >= 2 * LEAST_STALL_MS => {
                let ms = ms / 2;
                let until_next = *until_next;
                let fault = Fault::Stall { ms, until_next };
                out.push(changed(best, i, f.at.clone(), fault, &format!("{ms} ms")));
            }
            Fault::Crash { .. }
            | Fault::Reboot { .. }
            | Fault::PartitionStop
            | Fault::Stall { .. } => {}
        }
        for n in smaller(&f.at) {
            let at = with_n(&f.at, n);
            out.push(changed(best, i, at, f.fault.clone(), &format!("n = {n}")));
        }
        if let (At::Exact(p), Some(fact)) = (&f.at, fact)
            && p.phase == Phase::Test
        {
            out.extend(earlier(best, i, f, fact));
        }
    }
    out.extend(no_outage(best, shape));
    out
}

/// Every crash of an outage an ordinary one, where max dead bears them all: such a run is asked all questions.
fn no_outage(best: &Best, shape: &ClusterShape) -> Option<Proposal> {
    let mut plain = best.clone();
    let mut some = false;
    for f in &mut plain.candidate.sequence.faults {
        if let Fault::Crash { style, .. } = &mut f.fault
            && *style == CrashStyle::Outage
        {
            *style = CrashStyle::Process;
            some = true;
        }
    }
    (some && plain.is_legal(shape)).then(|| ("no outage".into(), plain.candidate.tidy()))
}

/// Points that say less: nodes by what they did, then by their role, then stacks by frames, then n = 1.
#[must_use]
pub fn wider(best: &Best, shape: &ClusterShape) -> Vec<Proposal> {
    let faults = &best.candidate.sequence.faults;
    let mut out = Vec::new();
    let mut each = |what: &str, change: &dyn Fn(usize, &FaultAt) -> Option<FaultAt>| {
        let new: Vec<Option<FaultAt>> = faults
            .iter()
            .enumerate()
            .map(|(i, f)| change(i, f))
            .collect();
        let some: Vec<usize> = (0..new.len()).filter(|i| new[*i].is_some()).collect();
        // All at once first: most often all of them hold.
        let sets = if some.len() > 1 {
            std::iter::once(some.clone())
                .chain(some.iter().map(|i| vec![*i]))
                .collect()
        } else {
            vec![some]
        };
        for set in sets.into_iter().filter(|s| !s.is_empty()) {
            let mut c = best.candidate.clone();
            for i in &set {
                if let Some(f) = &new[*i] {
                    c.sequence.faults[*i] = f.clone();
                }
            }
            let ids: Vec<String> = set.iter().map(|i| (c.ids[*i] + 1).to_string()).collect();
            out.push((format!("fault {}: {what}", ids.join(", ")), c.tidy()));
        }
    };
    let deaths = first_dead(best, shape);
    each("nodes by what they do", &|i, f| {
        let fault = by_part(f, best.fact(i), deaths.contains(&i));
        (fault != f.fault).then(|| FaultAt {
            at: f.at.clone(),
            fault,
        })
    });
    each("node -> role", &|i, f| {
        Some(FaultAt {
            at: at_role(&f.at, best.fact(i)?)?,
            fault: f.fault.clone(),
        })
    });
    for depth in [1, 2, usize::MAX] {
        let what = match depth {
            1 => "stack -> innermost frame",
            2 => "stack -> two innermost frames",
            _ => "stack -> frames",
        };
        each(what, &|i, f| {
            let At::Pattern(p) = &f.at else { return None };
            p.stack?;
            let frames = &best.fact(i)?.frames;
            (!frames.is_empty() && (depth <= 2 || frames.len() > 2)).then(|| FaultAt {
                at: At::Pattern(Pattern {
                    stack: None,
                    frames: frames.iter().take(depth).cloned().collect(),
                    ..p.clone()
                }),
                fault: f.fault.clone(),
            })
        });
    }
    each("n = 1", &|_, f| match &f.at {
        At::Pattern(p) if p.n > 1 => Some(FaultAt {
            at: with_n(&f.at, 1),
            fault: f.fault.clone(),
        }),
        _ => None,
    });
    out
}

/// No node by its name, all faults at once: with fewer faults another node may lead, and a point of the one that led never comes.
#[must_use]
pub fn by_role(best: &Best, shape: &ClusterShape) -> Proposal {
    let deaths = first_dead(best, shape);
    let mut c = best.candidate.clone();
    for (i, f) in c.sequence.faults.iter_mut().enumerate() {
        let Some(fact) = best.fact(i) else { break };
        let fault = by_part(f, Some(fact), deaths.contains(&i));
        let at = at_role(&f.at, fact).unwrap_or_else(|| f.at.clone());
        *f = FaultAt { at, fault };
    }
    ("roles instead of nodes".into(), c.tidy())
}

/// An exact point as one of its node's role.
fn at_role(at: &At, fact: &FaultFacts) -> Option<At> {
    let At::Exact(p) = at else { return None };
    let role = fact.role.clone()?;
    (p.phase == Phase::Test).then(|| {
        At::Pattern(Pattern {
            node: None,
            except: None,
            role: Some(role),
            frames: Vec::new(),
            stack: Some(p.stack),
            kind: Some(p.kind),
            place: Some(p.place),
            n: p.n,
            phase: p.phase,
        })
    })
}

fn changed(best: &Best, i: usize, at: At, fault: Fault, what: &str) -> Proposal {
    let mut c = best.candidate.clone();
    let id = c.ids[i] + 1;
    let kind = fault.kind();
    c.sequence.faults[i] = FaultAt { at, fault };
    (format!("fault {id} ({kind}): {what}"), c.tidy())
}

/// 1 and the half; the numbers between come when the half was kept.
fn smaller(at: &At) -> Vec<u32> {
    let n = match at {
        At::Exact(p) => p.n,
        At::Pattern(p) => p.n,
        At::AtOnce | At::Joined(_) | At::After(_) => 1,
    };
    let mut out = Vec::new();
    if n > 1 {
        out.push(1);
    }
    if n / 2 > 1 {
        out.push(n / 2);
    }
    out
}

fn with_n(at: &At, n: u32) -> At {
    match at {
        At::Exact(p) => At::Exact(IoPoint { n, ..p.clone() }),
        At::Pattern(p) => At::Pattern(Pattern { n, ..p.clone() }),
        other => other.clone(),
    }
}

/// The first point of its node since the fault before, then halfway to where it is now.
fn earlier(best: &Best, i: usize, f: &FaultAt, fact: &FaultFacts) -> Vec<Proposal> {
    let all = fact.earlier.len();
    let mut picks: Vec<usize> = Vec::new();
    for k in [0, all / 2, all * 3 / 4] {
        if k < all && !picks.contains(&k) {
            picks.push(k);
        }
    }
    picks
        .into_iter()
        .map(|k| {
            let p = &fact.earlier[k];
            let what = format!(
                "at an earlier point ({} {}, stack {})",
                p.kind, p.place, p.stack
            );
            changed(best, i, At::Exact(p.clone()), f.fault.clone(), &what)
        })
        .collect()
}

/// Fewer links: no bridge, one direction, one node instead of all others.
fn narrower(best: &Best, i: usize, f: &FaultAt, shape: &ClusterShape) -> Vec<Proposal> {
    let Fault::PartitionStart { how, who } = &f.fault else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let mut put = |who: warren_model::CutWho, what: String| {
        let fault = Fault::PartitionStart { how: *how, who };
        out.push(changed(best, i, f.at.clone(), fault, &what));
    };
    if who.bridge.is_some() {
        let mut w = who.clone();
        w.bridge = None;
        put(w, "no bridge".into());
    }
    let fact = best.fact(i);
    if who.from.len() != 1 && who.bridge.is_none() {
        for m in others(best, who, fact, shape) {
            let mut w = who.clone();
            w.from = vec![m.clone()];
            put(w, format!("cut from {m} alone"));
        }
    }
    if who.way == CutWay::Both {
        for (way, word) in [(CutWay::To, "to"), (CutWay::From, "from")] {
            let mut w = who.clone();
            w.way = way;
            put(w, format!("one way ({word})"));
        }
    }
    out
}

/// What one side may be cut from alone: nodes where names hold (roles are known), else the peer and roles that only others have.
fn others(
    best: &Best,
    who: &warren_model::CutWho,
    fact: Option<&FaultFacts>,
    shape: &ClusterShape,
) -> Vec<Member> {
    let named: BTreeSet<Member> = who.cut.iter().chain(&who.from).cloned().collect();
    if !best.candidate.sequence.roles.is_empty()
        && named.iter().all(|m| matches!(m, Member::Node(_)))
    {
        let from =
            |n: &NodeName| who.from.is_empty() || who.from.contains(&Member::Node(n.clone()));
        return shape
            .nodes()
            .filter(|n| from(n) && !who.cut.contains(&Member::Node((*n).clone())))
            .map(|n| Member::Node(n.clone()))
            .collect();
    }
    let mut out = Vec::new();
    let executing = fact.and_then(FaultFacts::executing);
    if who.cut == [Member::Executing] {
        if fact.is_some_and(|f| f.peer.is_some()) {
            out.push(Member::Peer);
        }
        let own = executing.and_then(|n| best.facts.roles.get(n));
        let roles: BTreeSet<&String> = best.facts.roles.values().collect();
        out.extend(
            roles
                .into_iter()
                .filter(|r| own.is_some_and(|o| o != *r))
                .map(|r| Member::Role(r.clone())),
        );
    }
    out
}

/// Reboots whose node is the one that has been dead longest.
fn first_dead(best: &Best, shape: &ClusterShape) -> BTreeSet<usize> {
    let mut state = ClusterState::default();
    let mut out = BTreeSet::new();
    for (i, f) in best.candidate.sequence.faults.iter().enumerate() {
        let Some(fact) = best.fact(i) else { break };
        if let Fault::Reboot { who: Who::Node(n) } = &fact.matched.fault
            && state.dead.first() == Some(n)
            && matches!(f.fault, Fault::Reboot { .. })
        {
            out.insert(i);
        }
        let Ok(next) = shape.apply(&state, fact.executing(), &fact.matched.fault) else {
            break;
        };
        state = next;
    }
    out
}

/// Node names as what they were at the point: the executing node, the one dead longest, the other end of the message.
fn by_part(f: &FaultAt, fact: Option<&FaultFacts>, first_dead: bool) -> Fault {
    let executing = fact.and_then(FaultFacts::executing);
    let peer = fact.and_then(|x| x.peer.as_ref());
    let member = |m: &Member| match m {
        Member::Node(n) if Some(n) == executing => Member::Executing,
        Member::Node(n) if Some(n) == peer => Member::Peer,
        other => other.clone(),
    };
    match &f.fault {
        Fault::Crash {
            who: Who::Node(n),
            style,
        } if Some(n) == executing => Fault::Crash {
            who: Who::Executing,
            style: *style,
        },
        Fault::Reboot { who: Who::Node(_) } if first_dead => Fault::Reboot {
            who: Who::FirstDead,
        },
        Fault::PartitionStart { how, who } => {
            let mut who = who.clone();
            who.cut = who.cut.iter().map(member).collect();
            who.from = who.from.iter().map(member).collect();
            who.bridge = who.bridge.as_ref().map(member);
            Fault::PartitionStart { how: *how, who }
        }
        other => other.clone(),
    }
}
/// The same from a cold start, where it begins with a snapshot.
#[must_use]
pub fn cold(best: &Best) -> Option<(String, Candidate)> {
    let start = best.candidate.sequence.start;
    let mut candidate = best.candidate.clone();
    candidate.sequence.start = StartState::Cold;
    (start != StartState::Cold).then(|| (format!("a cold start instead of {start}"), candidate))
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::*;
    use warren_model::FaultSequence;

    #[test]
    fn a_stall_is_halved_while_it_is_long() {
        let shape = ClusterShape {
            groups: Vec::new(),
            max_faults: 10,
        };
        let point = At::Pattern(Pattern {
            node: None,
            except: None,
            role: None,
            frames: vec!["*.a".into()],
            stack: None,
            kind: None,
            place: None,
            n: 1,
            phase: Phase::Test,
        });
        for (ms, want) in [
            (6_000, Some(3_000)),
            (51, Some(25)),
            (50, Some(25)),
            (49, None),
            (0, None),
        ] {
            let stall = |ms| Fault::Stall {
                ms,
                until_next: true,
            };
            let best = Best {
                candidate: Candidate::given(
                    FaultSequence::empty("t").with(point.clone(), stall(ms)),
                ),
                facts: Facts::default(),
                k: 1,
                n: 1,
            };
            let made = simpler(&best, &shape);
            let faults: Vec<&Fault> = made
                .iter()
                .map(|(_, c)| &c.sequence.faults[0].fault)
                .collect();
            let want = want.map(stall);
            assert_eq!(faults, want.iter().collect::<Vec<_>>(), "{ms}");
        }
    }
}
