use super::*;
use crate::run::midway::tests::example;
use crate::run::snapshots::{MAX_AGE, tests::snapshot};
use warren_model::{At, CrashStyle, Who};

fn at_a_point() -> At {
    up_to(&FaultSequence::empty("t"), 0).faults[0].at.clone()
}

fn sequence(nodes: &[&str]) -> FaultSequence {
    let crash = |node: &&str| FaultAt {
        at: at_a_point(),
        fault: Fault::Crash {
            who: Who::Node(NodeName::from(*node)),
            style: CrashStyle::Process,
        },
    };
    FaultSequence {
        faults: nodes.iter().map(crash).collect(),
        ..FaultSequence::empty("t")
    }
}

#[test]
fn sequences_share_what_they_have_in_common_but_for_the_last_fault() {
    assert_eq!(Key::of(1, &sequence(&[])), None);
    assert_eq!(Key::of(1, &sequence(&["a"])), None, "nothing to share");
    let ab = Key::of(1, &sequence(&["a", "b"]));
    assert!(ab.is_some());
    assert_eq!(ab, Key::of(1, &sequence(&["a", "c"])));
    assert_ne!(ab, Key::of(2, &sequence(&["a", "c"])), "another snapshot");
    assert_ne!(ab, Key::of(1, &sequence(&["c", "b"])));
    let mut led = sequence(&["a", "b"]);
    led.roles.insert(NodeName::from("a"), "leader".into());
    assert_ne!(ab, Key::of(1, &led), "another leader");
}

fn prefix(key: &Key, made: Instant) -> State {
    let prefix = Prefix {
        key: key.clone(),
        snapshot: snapshot(made),
        midway: example(false),
        served: AtomicU32::new(0),
    };
    State::There(Arc::new(prefix), 0)
}

/// One lucky schedule does not stand for all.
#[test]
fn a_prefix_serves_32_runs_and_is_then_made_anew() {
    let key = Key::of(1, &sequence(&["a", "b"])).unwrap();
    let mut all = Prefixes::default();
    all.set(&key, prefix(&key, Instant::now()));
    for n in 1..=32 {
        let Answer::There(served) = all.get(&key) else {
            panic!("the {n}th run has none");
        };
        // Who could not begin from it does not count.
        if n == 7 {
            served.give_back();
            assert!(matches!(all.get(&key), Answer::There(_)));
        }
        assert!(n == 32 || all.begin_to_make(&key) == Turn::Another, "{n}");
    }
    assert!(matches!(all.get(&key), Answer::None));
    assert_eq!(all.begin_to_make(&key), Turn::Ours(0));
    assert!(matches!(all.get(&key), Answer::Making));
}

#[test]
fn one_that_is_not_trusted_serves_no_more_and_may_be_made_at_once() {
    let key = Key::of(1, &sequence(&["a", "b"])).unwrap();
    let other = Key::of(2, &sequence(&["a", "b"])).unwrap();
    let mut all = Prefixes::default();
    for key in [&key, &other] {
        all.set(key, prefix(key, Instant::now()));
    }
    all.distrust(&key);
    assert!(matches!(all.get(&key), Answer::None));
    assert!(matches!(all.get(&other), Answer::There(_)));
    assert_eq!(all.begin_to_make(&key), Turn::Ours(0));
    // Who makes it anew is not disturbed by a run that began before.
    all.distrust(&key);
    assert!(matches!(all.get(&key), Answer::Making));
}

#[test]
fn a_prefix_is_as_old_as_its_snapshot() {
    let key = Key::of(1, &sequence(&["a", "b"])).unwrap();
    let mut all = Prefixes::default();
    let made = Instant::now().checked_sub(MAX_AGE).unwrap();
    all.set(&key, prefix(&key, made));
    assert!(matches!(all.get(&key), Answer::None));
    all.tidy();
    assert_eq!(all.0.len(), 0);
}

#[test]
fn a_dump_that_loses_what_the_kernel_has_to_say_is_refused() {
    let some = |n: usize| vec!["a to b (FIN_WAIT1)".to_owned(); n];
    // Of nobody's, failed, what is said last, whether it will be so again.
    for (by_nobody, failed, want, again) in [
        (1, 0, "to say: a to b (FIN_WAIT1)", true),
        (3, 0, " and 2 more", true),
        (1, 5, "to say: a to b (FIN_WAIT1)", true),
        (0, 2, " and 1 more", false),
    ] {
        let owed = Owed {
            by_nobody: some(by_nobody),
            failed: some(failed),
        };
        let why = lost(&owed).unwrap_err();
        assert!(why.to_string().ends_with(want), "{why}");
        assert_eq!(matches!(why, RunError::NoPrefix(_)), again, "{why}");
    }
    assert!(lost(&Owed::default()).is_ok());
}

#[test]
fn what_is_shared_ends_before_a_reboot() {
    let reboot = |node: &str| FaultAt {
        at: at_a_point(),
        fault: Fault::Reboot {
            who: Who::Node(node.into()),
        },
    };
    let mut s = sequence(&["a", "b", "c"]);
    for (at, want) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
        let mut with = s.clone();
        with.faults.insert(at, reboot("a"));
        assert_eq!(shared(&with), want, "a reboot at {at}");
    }
    assert_eq!(shared(&s), 2);
    s.faults.clear();
    assert_eq!(shared(&s), 0);
}

/// A prefix whose next fault is due at its very end could serve nobody.
#[test]
fn what_is_shared_ends_before_a_fault_that_waits_for_a_point() {
    let no_points = [At::AtOnce, At::Joined(NodeName::from("a")), At::After(40)];
    // Which faults wait for a point: how many are shared.
    for (points, want) in [
        ("pp", 1),
        ("pn", 0),
        ("np", 1),
        ("ppp", 2),
        ("ppn", 1),
        ("pnp", 2),
        ("pnn", 0),
        ("ppnn", 1),
        ("n", 0),
    ] {
        for at in &no_points {
            let mut s = sequence(&["a", "b", "c", "d"][..points.len()]);
            for (fault, _) in s
                .faults
                .iter_mut()
                .zip(points.chars())
                .filter(|(_, c)| *c == 'n')
            {
                fault.at = at.clone();
            }
            assert_eq!(shared(&s), want, "{points} {at:?}");
            let key = Key::of(1, &s);
            assert_eq!(key.is_some(), want > 0, "{points}");
        }
    }
}

#[test]
fn one_run_makes_it_and_two_failures_are_enough_for_a_while() {
    let mut all = Prefixes::default();
    let key = Key::of(1, &sequence(&["a", "b"])).unwrap();
    assert!(matches!(all.get(&key), Answer::None));
    assert_eq!(all.begin_to_make(&key), Turn::Ours(0));
    assert!(matches!(all.get(&key), Answer::Making));
    assert_eq!(
        all.begin_to_make(&key),
        Turn::Another,
        "another run makes it"
    );
    all.set(&key, State::Failed(1, Instant::now()));
    assert!(matches!(all.get(&key), Answer::None));
    assert_eq!(all.begin_to_make(&key), Turn::Ours(1), "once more");
    all.set(&key, State::Failed(2, Instant::now()));
    assert_eq!(all.begin_to_make(&key), Turn::Nobody, "left alone");
    let other = Key::of(2, &sequence(&["a", "b"])).unwrap();
    assert_eq!(
        all.begin_to_make(&other),
        Turn::Ours(0),
        "which is only its own"
    );
    let long_ago = Instant::now().checked_sub(PAUSE).unwrap();
    all.set(&key, State::Failed(2, long_ago));
    assert_eq!(all.begin_to_make(&key), Turn::Ours(2), "after the pause");
    all.set(&key, State::Failed(3, long_ago));
    all.tidy();
    assert_eq!(all.0.len(), 1, "and forgotten when nobody asks");
    assert!(matches!(all.0[0].1, State::Making));
}
