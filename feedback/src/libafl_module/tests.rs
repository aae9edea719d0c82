//! Runs through observers, objective and feedback as StdFuzzer drives them, without a cluster.

use super::*;
use crate::coverage::KnownSlots;
use crate::judge::Judge;
use crate::states::KnownStates;
use libafl::{
    HasMetadata,
    corpus::Testcase,
    events::NopEventManager,
    executors::ExitKind,
    feedbacks::{Feedback, StateInitializer},
    observers::ObserversTuple,
    state::NopState,
};
use libafl_bolts::tuples::{Handle, MatchNameRef, tuple_list, tuple_list_type};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use warren_model::{
    At, CrashStyle, CutHow, CutWay, CutWho, Fault, FaultAt, FaultSequence, Injected, Member,
    NotInjected, Rules, RunProduct, Verdict, Who,
};

type State = NopState<FaultSequence>;
type Observers = tuple_list_type!(CoverageObserver, RunObserver);

struct Fuzzer {
    state: State,
    manager: NopEventManager,
    observers: Observers,
    keep: KeepFeedback,
    objective: VerdictObjective,
    /// What the objective proposes is confirmed and saved, as the fuzzer does.
    confirm: bool,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Dropped,
    Kept,
    Saved,
}

impl Fuzzer {
    fn new() -> Self {
        let rules = Rules {
            fatal_log: vec!["BUG .*".into(), "OTHER".into()],
            ..Rules::default()
        };
        let judge = Arc::new(Mutex::new(Judge::new(rules).unwrap()));
        let mut f = Fuzzer {
            state: State::new(),
            manager: NopEventManager::new(),
            observers: tuple_list!(coverage_observer(64), RunObserver::new(judge)),
            keep: KeepFeedback::new(),
            objective: VerdictObjective::new(),
            confirm: true,
        };
        f.keep.init_state(&mut f.state).unwrap();
        f.objective.init_state(&mut f.state).unwrap();
        f
    }

    fn run(&mut self, product: RunProduct) -> Fate {
        let input = product
            .record
            .sequence
            .clone()
            .unwrap_or_else(|| FaultSequence::empty("toy"));
        self.observers
            .pre_exec_all(&mut self.state, &input)
            .unwrap();
        sink(product, &mut self.observers).unwrap();
        let kind = ExitKind::Ok;
        self.observers
            .post_exec_all(&mut self.state, &input, &kind)
            .unwrap();
        let (s, m, o) = (&mut self.state, &mut self.manager, &self.observers);
        if self
            .objective
            .is_interesting(s, m, &input, o, &kind)
            .unwrap()
        {
            if self.confirm {
                let run: &RunObserver = o.get(&Handle::new(Cow::Borrowed(RUN))).unwrap();
                let bugs = s.metadata_mut::<SavedBugs>().unwrap();
                let signature = bugs.fresh(run.judgement()).unwrap().signature.clone();
                bugs.save(&signature);
            }
            return Fate::Saved;
        }
        if self.keep.is_interesting(s, m, &input, o, &kind).unwrap() {
            return Fate::Kept;
        }
        Fate::Dropped
    }

    fn observer(&mut self) -> &mut RunObserver {
        self.observers
            .get_mut(&Handle::new(Cow::Borrowed(RUN)))
            .unwrap()
    }
}

fn crash(node: &str) -> FaultAt {
    FaultAt {
        at: At::AtOnce,
        fault: Fault::Crash {
            who: Who::Node(node.into()),
            style: CrashStyle::Process,
        },
    }
}

fn reboot(node: &str) -> FaultAt {
    FaultAt {
        at: At::AtOnce,
        fault: Fault::Reboot {
            who: Who::Node(node.into()),
        },
    }
}

fn cut(node: &str) -> FaultAt {
    FaultAt {
        at: At::AtOnce,
        fault: Fault::PartitionStart {
            how: CutHow::Drop,
            who: CutWho {
                cut: vec![Member::Node(node.into())],
                from: vec![],
                bridge: None,
                way: CutWay::Both,
            },
        },
    }
}

/// A run that asked for these faults, injected the first `injected`, and set these slots.
fn product(asked: &[FaultAt], injected: usize, slots: &[usize]) -> RunProduct {
    let mut p = RunProduct {
        coverage: vec![0; 64],
        ..RunProduct::default()
    };
    for s in slots {
        p.coverage[*s] = 1;
    }
    let sequence = |faults: &[FaultAt]| FaultSequence {
        faults: faults.to_vec(),
        ..FaultSequence::empty("toy")
    };
    p.record.sequence = Some(sequence(asked));
    p.record.matched = Some(sequence(&asked[..injected]));
    p.record.injected = asked[..injected]
        .iter()
        .enumerate()
        .map(|(index, f)| Injected {
            index,
            matched: f.clone(),
            event: None,
            t_reached: 0,
            t_done: 0,
            late: false,
            drift: None,
            kill: None,
        })
        .collect();
    if injected < asked.len() {
        p.record.not_injected = Some(NotInjected {
            index: injected,
            reason: "bound".into(),
            detail: String::new(),
            nearest: 0,
        });
    }
    p
}

fn logging(mut p: RunProduct, line: &str) -> RunProduct {
    p.logs.insert("n1".into(), line.into());
    p
}

#[test]
fn what_is_kept() {
    let mut f = Fuzzer::new();
    let void = |mut p: RunProduct| {
        p.record.void = Some("tmpfs full".into());
        p
    };
    let unserved = |mut p: RunProduct| {
        p.record.workload_error = Some("setup: connection refused".into());
        p
    };
    let over = |mut p: RunProduct| {
        p.record.timed_out = true;
        p
    };
    let table: Vec<(&str, RunProduct, Fate)> = vec![
        ("the fault-free run", product(&[], 0, &[1, 2]), Fate::Kept),
        (
            "the fault-free run again",
            product(&[], 0, &[1, 2, 3]),
            Fate::Dropped,
        ),
        (
            "a void run teaches nothing",
            void(product(&[crash("n1")], 1, &[9])),
            Fate::Dropped,
        ),
        (
            "a run that could not be set up is no test",
            unserved(product(&[crash("n1")], 1, &[9])),
            Fate::Dropped,
        ),
        (
            "a run over its limit waits for its retest",
            over(product(&[crash("n1")], 1, &[9])),
            Fate::Dropped,
        ),
        (
            "a crash, nothing new",
            product(&[crash("n1")], 1, &[1]),
            Fate::Kept,
        ),
        (
            "the same again",
            product(&[crash("n1")], 1, &[1]),
            Fate::Dropped,
        ),
        (
            "a partition-start, nothing new",
            product(&[cut("n1")], 1, &[1]),
            Fate::Kept,
        ),
        (
            "a reboot, nothing new (3 is known)",
            product(&[crash("n1"), reboot("n1")], 2, &[3]),
            Fate::Dropped,
        ),
        (
            "a reboot with a new slot",
            product(&[crash("n2"), reboot("n2")], 2, &[9]),
            Fate::Kept,
        ),
        (
            "the slot counts once",
            product(&[crash("n3"), reboot("n3")], 2, &[9]),
            Fate::Dropped,
        ),
        (
            "none of its faults injected",
            product(&[crash("n1"), reboot("n2")], 0, &[20]),
            Fate::Dropped,
        ),
        (
            "its slot is noise now",
            product(&[crash("n1"), reboot("n1")], 2, &[20]),
            Fate::Dropped,
        ),
        (
            "a prefix that ends in a crash",
            product(&[crash("n2"), reboot("n2")], 1, &[1]),
            Fate::Kept,
        ),
    ];
    for (name, p, expect) in table {
        assert_eq!(f.run(p), expect, "{name}");
    }
    // Slots of the void and timed-out runs became known only by the run that was kept for them.
    assert_eq!(f.state.metadata::<KnownSlots>().unwrap().count(), 5);
}

/// A reboot after a crash, at the point of this stack, with nothing new in coverage.
fn reboot_at(stack: u64, node: &str) -> RunProduct {
    let mut p = product(&[crash(node), reboot(node)], 2, &[1]);
    p.trace = crate::check::testing::trace_of(&[stack]);
    p.trace.nodes = vec![node.into()];
    p.trace.events[0].interval = warren_model::Interval::new(warren_model::Phase::Test, 2);
    p
}

#[test]
fn a_new_state_counts_like_new_coverage_where_it_is_asked() {
    for by_states in [false, true] {
        let mut f = Fuzzer::new();
        f.keep = KeepFeedback::new().by_states(by_states);
        let mut calm = product(&[], 0, &[1]);
        calm.trace = crate::check::testing::trace_of(&[7]);
        assert_eq!(f.run(calm), Fate::Kept);
        // The vectors of these faults are new once.
        f.run(reboot_at(7, "n1"));
        let known = |f: &Fuzzer| f.state.metadata::<KnownStates>().unwrap().count();
        let before = known(&f);
        assert_eq!(f.run(reboot_at(7, "n2")), Fate::Dropped, "ordinary");
        assert_eq!(known(&f), before, "the names of nodes are no news");
        let fate = f.run(reboot_at(8, "n3"));
        let want = if by_states { Fate::Kept } else { Fate::Dropped };
        assert_eq!(fate, want, "by states: {by_states}");
        assert_eq!(known(&f), before + 1, "counted either way");
        assert_eq!(f.run(reboot_at(8, "n4")), Fate::Dropped, "once");
    }
}

#[test]
fn what_a_run_was_kept_for() {
    let mut f = Fuzzer::new();
    f.keep = KeepFeedback::new().by_states(true);
    let mut info = |p: RunProduct| {
        let input = FaultSequence::empty("toy");
        assert_eq!(f.run(p), Fate::Kept);
        let mut testcase = Testcase::from(input);
        f.keep
            .append_metadata(&mut f.state, &mut f.manager, &f.observers, &mut testcase)
            .unwrap();
        let info = testcase.metadata_map().get::<KeptInfo>().unwrap().clone();
        (info.new_slots, info.new_states, info.for_its_last_fault)
    };
    let (slots, states, last) = info(product(&[], 0, &[1]));
    assert!(slots == 1 && states > 0 && !last, "the root");
    let (slots, states, last) = info(product(&[crash("n1")], 1, &[1]));
    assert!(slots == 0 && states > 0 && !last, "{states} new states");
    assert_eq!(info(product(&[crash("n2")], 1, &[1])), (0, 0, true));
    assert_eq!(info(product(&[crash("n3")], 1, &[1, 4])), (1, 0, false));
}

#[test]
fn five_of_each_bug_are_saved_then_seeds_grow() {
    let mut f = Fuzzer::new();
    f.run(product(&[], 0, &[1]));
    let bug = |i: usize| logging(product(&[crash(&format!("m{i}"))], 1, &[1, 30]), "BUG 7");
    for i in 0..5 {
        assert_eq!(f.run(bug(i)), Fate::Saved, "{i}");
    }
    assert!(
        !f.state.metadata::<KnownSlots>().unwrap().contains(30),
        "a saved run leaves its slots new"
    );
    assert_eq!(
        f.run(bug(5)),
        Fate::Kept,
        "well saved: it may have children"
    );
    assert_eq!(f.run(bug(5)), Fate::Dropped, "but not twice");
    let other = |i: usize| logging(product(&[crash(&format!("o{i}"))], 1, &[1]), "OTHER");
    assert_eq!(
        f.run(other(0)),
        Fate::Saved,
        "each signature counts for itself"
    );
    let bugs = f.state.metadata::<SavedBugs>().unwrap();
    assert_eq!(bugs.bugs.len(), 2);
    let mut seen: Vec<_> = bugs.bugs.values().map(|c| (c.seen, c.saved)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(1, 1), (7, 5)]);
}

#[test]
fn a_well_saved_bug_hides_no_other() {
    let mut f = Fuzzer::new();
    f.run(product(&[], 0, &[1]));
    let failing =
        |i: usize, lines: &str| logging(product(&[crash(&format!("m{i}"))], 1, &[1]), lines);
    for i in 0..5 {
        assert_eq!(f.run(failing(i, "BUG 7")), Fate::Saved);
    }
    for i in 5..10 {
        assert_eq!(f.run(failing(i, "BUG 7\nOTHER")), Fate::Saved, "{i}");
    }
    assert_eq!(
        f.run(failing(10, "BUG 7\nOTHER")),
        Fate::Kept,
        "both are well saved"
    );
}

#[test]
fn what_was_not_confirmed_is_not_well_saved() {
    let mut f = Fuzzer::new();
    f.run(product(&[], 0, &[1]));
    f.confirm = false;
    let bug = |i: usize| logging(product(&[crash(&format!("m{i}"))], 1, &[1]), "BUG 7");
    for i in 0..7 {
        assert_eq!(f.run(bug(i)), Fate::Saved, "{i}: proposed again");
    }
    let bugs = f.state.metadata::<SavedBugs>().unwrap();
    let c = bugs.bugs.values().next().unwrap();
    assert_eq!((c.seen, c.saved), (7, 0));
}

/// What replays never show must not cost the search each run that shows it once.
#[test]
fn a_run_of_what_fell_often_is_one_like_any_other() {
    let mut f = Fuzzer::new();
    f.run(product(&[], 0, &[1]));
    f.confirm = false;
    let failing =
        |i: usize, lines: &str| logging(product(&[crash(&format!("m{i}"))], 1, &[1]), lines);
    for i in 0..3 {
        assert_eq!(f.run(failing(i, "BUG 7")), Fate::Saved, "{i}");
        let bugs = f.state.metadata_mut::<SavedBugs>().unwrap();
        let signature = bugs.bugs.keys().next().unwrap().clone();
        bugs.fell(&signature);
    }
    assert_eq!(f.run(failing(3, "BUG 7")), Fate::Kept);
    assert_eq!(f.run(failing(4, "BUG 7\nOTHER")), Fate::Saved, "another");
    // It is looked at still.
    f.run(failing(5, "BUG 7"));
    let judgement = f.observer().judgement().clone();
    let bugs = f.state.metadata::<SavedBugs>().unwrap();
    assert!(bugs.fresh(&judgement).is_some() && !bugs.promises(&judgement));
}

#[test]
fn a_void_run_is_never_a_finding() {
    let mut f = Fuzzer::new();
    let mut p = logging(product(&[crash("n1")], 1, &[1]), "BUG 7");
    p.record.void = Some("machine starved".into());
    assert_eq!(f.run(p), Fate::Dropped);
    assert!(f.observer().judgement().void.is_some());
    assert!(f.observer().judgement().failures.is_empty());
}

#[test]
fn a_hang_needs_its_retest() {
    let mut f = Fuzzer::new();
    let over = || {
        let mut p = product(&[crash("n1")], 1, &[1]);
        p.record.timed_out = true;
        p
    };
    assert_eq!(f.run(over()), Fate::Dropped);
    assert_eq!(f.observer().judgement().verdict, Verdict::Unknown);
    f.observer().expect_retest(true);
    assert_eq!(f.run(over()), Fate::Saved);
    assert_eq!(
        f.run(over()),
        Fate::Dropped,
        "the retest is forgotten after its run"
    );
    f.observer().expect_retest(true);
    assert_eq!(
        f.run(product(&[crash("n1")], 1, &[1])),
        Fate::Kept,
        "in time after all"
    );
}

#[test]
fn a_kept_run_becomes_what_really_happened() {
    let mut f = Fuzzer::new();
    let mut p = product(&[crash("n1"), reboot("n1")], 1, &[1, 2, 3]);
    p.record.times.test = 700;
    (p.record.times.total, p.durable_ms) = (6400, 3000);
    p.from_prefix = Some(warren_model::FromPrefix {
        faults: 1,
        spared_ms: 600,
    });
    assert_eq!(f.run(p), Fate::Kept);
    let asked = FaultSequence {
        faults: vec![crash("n1"), reboot("n1")],
        ..FaultSequence::empty("toy")
    };
    let mut testcase = Testcase::from(asked);
    f.keep
        .append_metadata(&mut f.state, &mut f.manager, &f.observers, &mut testcase)
        .unwrap();
    assert_eq!(testcase.input().as_ref().unwrap().faults, [crash("n1")]);
    let info = testcase.metadata_map().get::<KeptInfo>().unwrap();
    assert_eq!((info.slots, info.new_slots, info.test_ms), (3, 3, 700));
    assert_eq!(info.total_ms, 4000, "as if it had no restart and no prefix");
    assert_eq!(info.verdict, Verdict::Pass);
}

#[test]
fn the_sink_says_what_does_not_fit() {
    let mut f = Fuzzer::new();
    let mut large = product(&[], 0, &[]);
    large.coverage = vec![0; 128];
    let text = sink(large, &mut f.observers).unwrap_err().to_string();
    assert!(text.contains("128") && text.contains("64"), "{text}");
    let mut none: tuple_list_type!(CoverageObserver) = tuple_list!(coverage_observer(64));
    let text = sink(product(&[], 0, &[]), &mut none)
        .unwrap_err()
        .to_string();
    assert!(text.contains("`run`"), "{text}");
}

#[test]
fn observers_and_state_survive_serialisation() {
    let mut f = Fuzzer::new();
    f.run(product(&[crash("n1")], 1, &[1, 5]));
    let text = serde_json::to_string(&f.observers).unwrap();
    let mut back: Observers = serde_json::from_str(&text).unwrap();
    let run = back
        .get_mut(&Handle::<RunObserver>::new(Cow::Borrowed(RUN)))
        .unwrap();
    assert_eq!(run.record(), f.observer().record());
    assert_eq!(run.judgement(), f.observer().judgement());
    let state: State = serde_json::from_str(&serde_json::to_string(&f.state).unwrap()).unwrap();
    assert_eq!(
        state.metadata::<KnownSlots>().unwrap(),
        f.state.metadata::<KnownSlots>().unwrap()
    );
    assert_eq!(
        state.metadata::<MatchedSequences>().unwrap(),
        f.state.metadata::<MatchedSequences>().unwrap()
    );
}
