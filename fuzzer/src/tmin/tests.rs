//! The machine against made-up oracles: which faults are needed is known, so what must come out is known too.

mod blocked;
mod killed;
mod on_sim;

use super::candidate::Best;
use super::candidate::Candidate;
use super::drive::outcome;
use super::exchange::{Ask, Ended, Outcome, Settings, Told, Verdict};
use super::facts::Facts;
use super::machine::Minimiser;
use crate::search::sim::Sim;
use proptest::prelude::*;
use std::collections::BTreeSet;
use warren_feedback::Judge;
use warren_model::{
    At, ClusterShape, CrashStyle, CutHow, CutWay, CutWho, Fault, FaultSequence, GroupShape,
    IoPoint, Kind, Member, NodeName, Phase, Place, Rules, StackId, StartState, Who,
};

const SIG: &str = "1a2b3c4d";

fn shape(nodes: usize, max_dead: usize) -> ClusterShape {
    ClusterShape {
        groups: vec![GroupShape {
            name: "g".into(),
            nodes: (1..=nodes).map(|i| NodeName(format!("n{i}"))).collect(),
            max_dead,
        }],
        max_faults: 20,
    }
}

fn node(i: usize) -> Who {
    Who::Node(NodeName(format!("n{i}")))
}

fn crash(i: usize) -> Fault {
    Fault::Crash {
        who: node(i),
        style: CrashStyle::Process,
    }
}

fn reboot(i: usize) -> Fault {
    Fault::Reboot { who: node(i) }
}

fn cut(i: usize) -> Fault {
    Fault::PartitionStart {
        how: CutHow::Throw,
        who: CutWho {
            cut: vec![Member::Node(NodeName(format!("n{i}")))],
            from: vec![],
            bridge: None,
            way: CutWay::Both,
        },
    }
}

/// What is left of [`cut`]: one direction is enough for these oracles.
fn one_way(i: usize) -> Fault {
    let Fault::PartitionStart { how, mut who } = cut(i) else {
        unreachable!("a cut is a cut")
    };
    who.way = CutWay::To;
    Fault::PartitionStart { how, who }
}

/// Each fault at a point of its own on a node that lives.
fn sequence(faults: &[Fault]) -> FaultSequence {
    let mut s = FaultSequence::empty("t");
    for (i, f) in faults.iter().enumerate() {
        s = s.with(
            At::Exact(IoPoint {
                node: "n9".into(),
                stack: StackId(i as u64 + 1),
                kind: Kind::Force,
                place: Place::Before,
                n: 1,
                phase: Phase::Test,
            }),
            f.clone(),
        );
    }
    s
}

/// n9 executes all points and is never harmed.
fn wide() -> ClusterShape {
    shape(9, 4)
}

fn contains(s: &FaultSequence, wanted: &[Fault]) -> bool {
    let mut have = s.faults.iter();
    wanted.iter().all(|w| have.any(|f| f.fault == *w))
}

fn fails(signature: &str) -> Outcome {
    Outcome {
        ended: Ended::Failed,
        signatures: vec![signature.into()],
        facts: None,
        by_load: false,
        cost: 1,
    }
}

fn passes() -> Outcome {
    Outcome {
        ended: Ended::Passed,
        signatures: vec![],
        facts: None,
        by_load: false,
        cost: 1,
    }
}

fn settings(runs: u64) -> Settings {
    Settings {
        runs,
        ..Settings::default()
    }
}

/// Runs the machine to its end, or until `stop` runs were made.
fn play(m: &mut Minimiser, stop: usize, oracle: &mut dyn FnMut(&Ask) -> Outcome) -> Vec<Told> {
    let mut told = Vec::new();
    for _ in 0..stop {
        let Some(ask) = m.next(&mut told) else { break };
        let o = oracle(&ask);
        m.outcome(o, &mut told);
    }
    told
}

#[test]
fn down_to_the_needed_faults() {
    // Given, needed, what must be left.
    type Case = (Vec<Fault>, Vec<Fault>, Vec<Fault>);
    let table: Vec<Case> = vec![
        (
            vec![crash(1), crash(2), reboot(1), reboot(2), crash(3)],
            vec![crash(2), reboot(2)],
            vec![crash(2), reboot(2)],
        ),
        // A crash can go only with its reboot, a start only with its stop.
        (
            vec![crash(1), reboot(1), cut(2), Fault::PartitionStop, crash(3)],
            vec![crash(3)],
            vec![crash(3)],
        ),
        // The stop is needed: so is its start, by the constraints, but one direction is enough.
        (
            vec![crash(1), reboot(1), cut(2), Fault::PartitionStop, crash(3)],
            vec![Fault::PartitionStop],
            vec![one_way(2), Fault::PartitionStop],
        ),
        // A reboot can go alone.
        (vec![crash(1), reboot(1)], vec![crash(1)], vec![crash(1)]),
        // All are needed.
        (
            vec![crash(1), reboot(1), crash(1)],
            vec![crash(1), reboot(1), crash(1)],
            vec![crash(1), reboot(1), crash(1)],
        ),
        // It fails without any fault.
        (vec![crash(1), reboot(1)], vec![], vec![]),
    ];
    for (given, needed, want) in table {
        let mut m = Minimiser::new(sequence(&given), wide(), settings(500));
        play(&mut m, 1000, &mut |ask| {
            if contains(&ask.sequence, &needed) {
                fails(SIG)
            } else {
                passes()
            }
        });
        assert!(m.is_over());
        let left: Vec<Fault> = m
            .best()
            .candidate
            .sequence
            .faults
            .iter()
            .map(|f| f.fault.clone())
            .collect();
        assert_eq!(left, want, "given {given:?}, needed {needed:?}");
        assert_eq!(m.signature(), Some(SIG));
        assert!(m.result().0 > 0);
        if !want.is_empty() {
            let (n, changes, text) = m.neighbour().expect("something passed");
            assert!(!contains(&n.sequence, &needed));
            assert!(changes >= 1 && text.contains("without"), "{text}");
        }
    }
}

/// Every candidate keeps the rules, and the crashes become ordinary ones as soon as max dead (4 here) bears them.
#[test]
fn an_outage_stays_one_where_its_crashes_are_beyond_max_dead() {
    for (needed, left) in [(5, CrashStyle::Outage), (3, CrashStyle::Process)] {
        let faults: Vec<Fault> = (1..=6)
            .map(|i| Fault::Crash {
                who: node(i),
                style: CrashStyle::Outage,
            })
            .collect();
        let mut m = Minimiser::new(sequence(&faults), wide(), settings(500));
        play(&mut m, 500, &mut |ask| {
            assert!(is_legal(&ask.sequence), "{}", ask.sequence.to_text());
            if ask.sequence.faults.len() >= needed {
                fails(SIG)
            } else {
                passes()
            }
        });
        let faults = &m.best().candidate.sequence.faults;
        assert_eq!(faults.len(), needed);
        let kept = |f: &&warren_model::FaultAt| matches!(&f.fault, Fault::Crash { style, .. } if *style == left);
        assert_eq!(faults.iter().filter(kept).count(), needed, "{left:?}");
    }
}

#[test]
fn another_failure_is_never_followed() {
    let given = [crash(1), reboot(1), crash(2), reboot(2)];
    let mut m = Minimiser::new(sequence(&given), wide(), settings(300));
    // Fewer than three faults fail, but otherwise.
    let told = play(&mut m, 1000, &mut |ask| {
        if contains(&ask.sequence, &[crash(1), crash(2)]) && ask.sequence.faults.len() >= 3 {
            fails(SIG)
        } else {
            fails("ffffffff")
        }
    });
    assert_eq!(m.best().candidate.sequence.faults.len(), 3);
    assert_eq!(m.signature(), Some(SIG));
    assert!(
        m.neighbour().is_none(),
        "a candidate that fails otherwise does not pass"
    );
    assert!(
        told.iter()
            .any(|t| matches!(t, Told::Step(s) if s.others.contains("ffffffff")))
    );
}

#[test]
fn what_does_not_fail_is_said() {
    let mut m = Minimiser::new(sequence(&[crash(1)]), wide(), settings(200));
    play(&mut m, 1000, &mut |_| passes());
    let never = m.never_failed().unwrap();
    assert_eq!((never.runs, never.others.len()), (10, 0));
    let s = Settings {
        tries: Some(3),
        signature: Some("00000000".into()),
        ..settings(200)
    };
    let mut m = Minimiser::new(sequence(&[crash(1)]), wide(), s);
    play(&mut m, 1000, &mut |_| fails(SIG));
    let never = m.never_failed().unwrap();
    assert_eq!((never.runs, never.others[SIG]), (3, 3));
    let text = super::report::never_failed("f", never, Some("00000000"));
    assert!(
        text.contains("but with 1a2b3c4d (3 of 3)") && text.contains("--signature"),
        "{text}"
    );
}

#[test]
fn the_bound_holds_and_the_result_is_replayed_within_it() {
    for bound in [1, 2, 3, 8, 9, 12, 20, 40] {
        let given = [crash(1), reboot(1), crash(2), reboot(2), crash(3)];
        let mut m = Minimiser::new(sequence(&given), wide(), settings(bound));
        play(&mut m, 1000, &mut |ask| {
            if contains(&ask.sequence, &[crash(2)]) {
                fails(SIG)
            } else {
                passes()
            }
        });
        assert!(
            m.is_over() && m.spent() <= bound,
            "{} of {bound}",
            m.spent()
        );
        assert!(contains(&m.best().candidate.sequence, &[crash(2)]));
    }
}

#[test]
fn void_runs_tell_nothing_and_end() {
    let mut m = Minimiser::new(sequence(&[crash(1), reboot(1)]), wide(), settings(60));
    let mut i = 0;
    play(&mut m, 1000, &mut |ask| {
        i += 1;
        if i % 2 == 0 {
            Outcome {
                ended: Ended::Void,
                ..passes()
            }
        } else if contains(&ask.sequence, &[crash(1)]) {
            fails(SIG)
        } else {
            passes()
        }
    });
    assert_eq!(m.best().candidate.sequence.faults.len(), 1);
    assert_eq!(m.given(), (3, 3));
    let mut m = Minimiser::new(sequence(&[crash(1)]), wide(), settings(60));
    play(&mut m, 1000, &mut |_| Outcome {
        ended: Ended::Void,
        ..passes()
    });
    assert!(m.never_failed().is_some());
}

/// Every other run fails otherwise while the machine keeps the failure to keep from being seen: it is made again, and says nothing against it.
#[test]
fn what_load_kept_from_being_seen_is_made_again() {
    let keep = Settings {
        signature: Some(SIG.into()),
        ..settings(60)
    };
    let other = |by_load| Outcome {
        by_load,
        ..fails("other")
    };
    for (by_load, given) in [(true, (3, 3)), (false, (3, 5))] {
        let mut m = Minimiser::new(sequence(&[crash(1), reboot(1)]), wide(), keep.clone());
        let mut i = 0;
        play(&mut m, 1000, &mut |ask| {
            i += 1;
            if i % 2 == 0 {
                other(by_load)
            } else if contains(&ask.sequence, &[crash(1)]) {
                fails(SIG)
            } else {
                passes()
            }
        });
        assert_eq!(m.given(), given, "{by_load}");
    }
    // Where each run is so, there is an end; and what shows beside it shows.
    let mut m = Minimiser::new(sequence(&[crash(1)]), wide(), keep.clone());
    play(&mut m, 1000, &mut |_| other(true));
    assert!(m.never_failed().is_some());
    let mut m = Minimiser::new(sequence(&[crash(1)]), wide(), keep.clone());
    play(&mut m, 1000, &mut |_| Outcome {
        by_load: true,
        ..fails(SIG)
    });
    assert_eq!(m.given(), (3, 3));
}

#[test]
fn a_cold_start_is_tried_once_and_last() {
    // Whether it shows from a cold start too, and what it starts with in the end.
    for (anywhere, start) in [(true, StartState::Cold), (false, StartState::Snapshot(2))] {
        let mut given = sequence(&[crash(1), crash(2)]);
        given.start = StartState::Snapshot(2);
        let mut m = Minimiser::new(given, wide(), settings(100));
        let mut colds = 0;
        let told = play(&mut m, 1000, &mut |ask| {
            let cold = ask.sequence.start == StartState::Cold;
            colds += u32::from(cold && ask.what != "the result");
            if contains(&ask.sequence, &[crash(2)]) && (anywhere || !cold) {
                fails(SIG)
            } else {
                passes()
            }
        });
        assert!(m.is_over());
        let best = &m.best().candidate.sequence;
        assert_eq!((best.start, best.faults.len()), (start, 1));
        assert!((1..=4).contains(&colds), "{colds}");
        let last = told.iter().rev().find_map(|t| match t {
            Told::Step(s) => Some(s),
            Told::Learned { .. } => None,
        });
        let last = last.unwrap();
        assert_eq!(last.what, "a cold start instead of snapshot-2");
        assert_eq!(last.verdict == Verdict::Kept, anywhere);
    }
}

#[test]
fn a_result_that_does_not_show_again_is_taken_back() {
    let given = [crash(1), reboot(1)];
    let mut m = Minimiser::new(sequence(&given), wide(), settings(100));
    play(&mut m, 1000, &mut |ask| {
        let lone = ask.sequence.faults.len() == 1;
        // Without the reboot it shows while it is tried, and never when it is replayed.
        if contains(&ask.sequence, &[crash(1)]) && !(lone && ask.what == "the result") {
            fails(SIG)
        } else {
            passes()
        }
    });
    assert_eq!(m.best().candidate.sequence.faults.len(), 2);
    assert_eq!(m.result(), (3, 3));
}

/// Also where a replay of the result takes the runs of two and the bound comes before all of them are made.
#[test]
fn what_never_shows_is_taken_back_at_the_bound_too() {
    let given = [crash(1), reboot(1)];
    let mut back = 0;
    for bound in 4..30 {
        let mut m = Minimiser::new(sequence(&given), wide(), settings(bound));
        play(&mut m, 1000, &mut |ask| match ask.what.as_str() {
            "the result" => Outcome {
                cost: 2,
                ..passes()
            },
            _ if contains(&ask.sequence, &[crash(1)]) => fails(SIG),
            _ => passes(),
        });
        let (k, n) = m.result();
        assert!(k > 0 || n == 0, "{k} of {n} with {bound} runs");
        back += usize::from(m.best().candidate.sequence.faults.len() == 2);
    }
    assert!(back > 10, "{back}");
}

/// The failure needs n2's crash at its first point, or at its fourth behind n1's crash. When the point has moved, n1's is not needed.
#[test]
fn what_another_point_makes_needless_goes() {
    let at = |s: &FaultSequence, i: usize| match s.faults.get(i).map(|f| (&f.at, &f.fault)) {
        Some((At::Exact(p), f)) if *f == crash(2) => p.n,
        Some((At::Pattern(p), f)) if *f == crash(2) => p.n,
        _ => 0,
    };
    let mut given = sequence(&[crash(1), crash(2)]);
    if let At::Exact(p) = &mut given.faults[1].at {
        p.n = 4;
    }
    let mut m = Minimiser::new(given, wide(), settings(200));
    play(&mut m, 1000, &mut |ask| {
        let alone = at(&ask.sequence, 0) == 1;
        let behind = contains(&ask.sequence, &[crash(1), crash(2)]);
        if alone || behind && [1, 4].contains(&at(&ask.sequence, 1)) {
            fails(SIG)
        } else {
            passes()
        }
    });
    let best = &m.best().candidate.sequence;
    let faults: Vec<&Fault> = best.faults.iter().map(|f| &f.fault).collect();
    assert_eq!(faults, [&crash(2)], "{best:?}");
    assert!(m.is_over());
}

/// Of one run in ten: five replays of a result would take most true steps back.
#[test]
fn the_result_of_a_rare_failure_has_as_many_replays_as_its_candidates_have_tries() {
    let mut kept = 0;
    for phase in 0..8 {
        let mut runs = phase;
        let mut m = Minimiser::new(sequence(&[crash(1), crash(2)]), wide(), settings(300));
        play(&mut m, 1000, &mut |ask| {
            let needed = contains(&ask.sequence, &[crash(2)]);
            runs += u64::from(needed);
            match needed && runs % 8 == 0 {
                true => fails(SIG),
                false => passes(),
            }
        });
        let faults = m.best().candidate.sequence.faults.len();
        kept += usize::from(m.never_failed().is_none() && faults == 1);
        assert!(m.result().0 > 0, "{phase}");
    }
    assert_eq!(kept, 8);
}

/// A legal sequence: crashes and reboots of n1..n8, cuts of n8.
fn legal() -> impl Strategy<Value = Vec<Fault>> {
    proptest::collection::vec((0..4u8, 1..8usize), 1..9).prop_map(|draws| {
        let shape = wide();
        let mut state = warren_model::ClusterState::default();
        let mut out = Vec::new();
        for (kind, i) in draws {
            let f = match kind {
                0 => crash(i),
                1 => reboot(i),
                2 => cut(8),
                _ => Fault::PartitionStop,
            };
            if let Ok(next) = shape.apply(&state, None, &f) {
                state = next;
                out.push(f);
            }
        }
        out
    })
}

fn is_legal(s: &FaultSequence) -> bool {
    let mut state = warren_model::ClusterState::default();
    s.faults.iter().all(|f| {
        wide()
            .apply(&state, Some(&"n9".into()), &f.fault)
            .is_ok_and(|next| {
                state = next;
                true
            })
    })
}

/// The needed faults are those with these points.
fn has(s: &FaultSequence, needed: &BTreeSet<u64>) -> bool {
    let have: BTreeSet<u64> = s
        .faults
        .iter()
        .filter_map(|f| match &f.at {
            At::Exact(p) => Some(p.stack.0),
            _ => None,
        })
        .collect();
    needed.is_subset(&have)
}

proptest! {
    /// Only legal candidates are asked for; at the end no fault can go alone (with what must go with it) and the needed are there.
    #[test]
    fn one_minimal_and_legal(given in legal(), mask in any::<u16>()) {
        let given = sequence(&given);
        let needed: BTreeSet<u64> = (0..given.faults.len())
            .filter(|i| mask >> i & 1 == 1)
            .map(|i| i as u64 + 1)
            .collect();
        let mut m = Minimiser::new(given.clone(), wide(), settings(2000));
        play(&mut m, 3000, &mut |ask| {
            assert!(is_legal(&ask.sequence), "{:?}", ask.sequence);
            if has(&ask.sequence, &needed) { fails(SIG) } else { passes() }
        });
        prop_assert!(m.is_over());
        let best = m.best();
        prop_assert!(has(&best.candidate.sequence, &needed));
        let all = best.candidate.sequence.faults.len();
        for i in 0..all {
            let keep: Vec<usize> = (0..all).filter(|k| *k != i).collect();
            let c = best.only(&best.legal(&keep, &wide()), true);
            prop_assert!(!has(&c.sequence, &needed), "fault {i} of {:?} can go", best.candidate);
        }
    }

    /// A failure that shows with probability p: the needed faults are never lost, the bound holds.
    #[test]
    fn a_rare_failure_keeps_what_it_needs(seed in any::<u64>(), percent in 25..100u64) {
        let given = [crash(1), reboot(1), crash(2), reboot(2), crash(3)];
        let needed = [crash(2), reboot(2)];
        let mut x = seed | 1;
        let mut m = Minimiser::new(sequence(&given), wide(), settings(200));
        let told = play(&mut m, 3000, &mut |ask| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if contains(&ask.sequence, &needed) && x % 100 < percent { fails(SIG) } else { passes() }
        });
        prop_assert!(m.spent() <= 200);
        prop_assert!(m.never_failed().is_some() || contains(&m.best().candidate.sequence, &needed));
        for t in told {
            if let Told::Step(s) = t {
                prop_assert!(s.verdict != Verdict::Kept || s.k > 0);
            }
        }
    }

    /// Whenever it is cut off: with the outcomes of the journal a new machine stands where the old one stood.
    #[test]
    fn outcomes_bring_it_back(given in legal(), mask in any::<u16>(), stop in 0..60usize) {
        let given = sequence(&given);
        let needed: BTreeSet<u64> = (0..given.faults.len())
            .filter(|i| mask >> i & 1 == 1)
            .map(|i| i as u64 + 1)
            .collect();
        let mut kept: Vec<(u64, Outcome)> = Vec::new();
        let mut a = Minimiser::new(given.clone(), wide(), settings(300));
        play(&mut a, stop, &mut |ask| {
            let o = if has(&ask.sequence, &needed) { fails(SIG) } else { passes() };
            kept.push((ask.hash, o.clone()));
            o
        });
        let mut b = Minimiser::new(given, wide(), settings(300));
        let mut told = Vec::new();
        for (hash, o) in kept {
            let ask = b.next(&mut told).unwrap();
            prop_assert_eq!(ask.hash, hash);
            b.outcome(o, &mut told);
        }
        prop_assert_eq!(a.next(&mut told), b.next(&mut told));
        prop_assert_eq!(&a.best().candidate, &b.best().candidate);
    }
}
