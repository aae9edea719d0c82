//! Where fewer faults make another node the one that comes to a point: names do not hold, roles do.

use super::super::facts::FaultFacts;
use super::*;
use warren_model::FaultAt;

/// What a run of it tells: each fault at its own stack, on a node in the role of a follower.
fn facts(given: &FaultSequence, asked: &FaultSequence) -> Facts {
    let stack = |f: &FaultAt| match &f.at {
        At::Exact(p) => Some(p.stack),
        At::Pattern(p) => p.stack,
        _ => None,
    };
    let faults = asked.faults.iter().filter_map(|f| {
        let matched = given.faults.iter().find(|g| stack(g) == stack(f))?;
        Some(FaultFacts {
            matched: matched.clone(),
            role: Some("follower".into()),
            frames: Vec::new(),
            peer: None,
            before: Vec::new(),
            earlier: Vec::new(),
        })
    });
    Facts {
        roles: Default::default(),
        faults: faults.collect(),
    }
}

#[test]
fn roles_are_tried_where_names_block_and_then_fewer_faults_again() {
    let given = sequence(&[crash(1), reboot(1), crash(2), reboot(2)]);
    let mut m = Minimiser::new(given.clone(), wide(), settings(100));
    let mut asked_for_roles = 0;
    let told = play(&mut m, 1000, &mut |ask| {
        asked_for_roles += u32::from(ask.what == "roles instead of nodes");
        let exact = |f: &FaultAt| matches!(f.at, At::Exact(_));
        let s = &ask.sequence;
        if s.faults.len() < 4 && s.faults.iter().any(exact) {
            return Outcome {
                ended: Ended::NotInjected,
                ..passes()
            };
        }
        let dies = |f: &FaultAt| match &f.fault {
            Fault::Crash { who, .. } => *who == node(2),
            _ => false,
        };
        if s.faults.iter().any(dies) {
            Outcome {
                facts: Some(facts(&given, s)),
                ..fails(SIG)
            }
        } else {
            passes()
        }
    });
    let left = &m.best().candidate;
    assert_eq!(left.ids, [2], "{told:?}");
    assert!(matches!(&left.sequence.faults[0].at, At::Pattern(p) if p.role.is_some()));
    assert!((1..=4).contains(&asked_for_roles), "{asked_for_roles} runs");
    // What passed there is a neighbour; what did not come to its faults is none.
    assert!(m.neighbour().is_some());
}

#[test]
fn a_candidate_whose_point_does_not_come_costs_few_tries() {
    // It shows in one of three replays, and only with both faults: a candidate gets some eight tries.
    let given = sequence(&[crash(1), crash(2)]);
    let mut m = Minimiser::new(given.clone(), wide(), settings(200));
    let (mut runs, mut tries) = (0, std::collections::BTreeMap::new());
    let told = play(&mut m, 1000, &mut |ask| {
        runs += 1;
        if ask.sequence != given {
            *tries.entry(ask.hash).or_insert(0) += 1;
            return Outcome {
                ended: Ended::NotInjected,
                ..passes()
            };
        }
        if runs % 3 == 0 { fails(SIG) } else { passes() }
    });
    let Some(Told::Learned { bar, .. }) = told.first() else {
        panic!("{told:?}")
    };
    assert!(bar.tries > 4, "{bar:?}");
    assert!(
        !tries.is_empty() && tries.values().all(|n| *n <= 2),
        "{tries:?}"
    );
}

#[test]
fn no_fault_goes_to_and_fro() {
    let given = sequence(&[crash(1)]);
    let mut m = Minimiser::new(given.clone(), wide(), settings(100));
    let point = |stack: u64| IoPoint {
        node: "n9".into(),
        stack: StackId(stack),
        kind: Kind::Force,
        place: Place::Before,
        n: 1,
        phase: Phase::Test,
    };
    // Two threads of one node: whichever point is asked for, the other one came before it.
    play(&mut m, 1000, &mut |ask| {
        let Some(f) = ask.sequence.faults.first() else {
            return passes();
        };
        let other = match &f.at {
            At::Exact(p) if p.stack == StackId(1) => point(2),
            _ => point(1),
        };
        let mut told = facts(&given, &given);
        told.faults[0].matched = f.clone();
        told.faults[0].role = None;
        told.faults[0].earlier = vec![other];
        Outcome {
            facts: Some(told),
            ..fails(SIG)
        }
    });
    // Replays, the lone fault left out, one step to the other point and none back, the result.
    assert!(m.is_over() && m.spent() < 20, "{} runs", m.spent());
    assert_eq!(m.steps_kept(), 1);
}
