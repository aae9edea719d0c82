//! What is asked of liveness, and how each answer is judged.

use super::*;
use crate::check::testing::{Build, count, exit};

fn rules() -> Rules {
    Rules {
        tick_ms: 500,
        ..Rules::default()
    }
}

fn serve(phase: Phase, node: &str, ok: bool) -> Observation {
    Observation::Serve {
        phase,
        node: node.into(),
        ok,
        ms: 900,
        error: (!ok).then(|| "ConnectionLoss".into()),
    }
}

fn asked(seen: &[Observation]) -> RunProduct {
    let mut b = Build::new();
    b.product.record.degraded_asked = true;
    seen.iter().cloned().fold(b, Build::obs).product
}

fn long(mut p: RunProduct) -> RunProduct {
    p.record.times.total = 40_000;
    p
}

fn stall(mut p: RunProduct, phase: Phase, ms: u64) -> RunProduct {
    p.record.stalls_ms.insert(phase, ms);
    p
}

#[test]
fn service() {
    let (deg, heal) = (Phase::Degraded, Phase::Heal);
    let no = |phase| asked(&[serve(phase, "n1", false)]);
    let exited = |phase, at| {
        let mut p = asked(&[serve(phase, "n1", false)]);
        let mut e = exit("n1", Some(1), None);
        e.phase = at;
        p.record.exits.push(e);
        p
    };
    let not_asked = {
        let mut p = no(deg);
        p.record.degraded_asked = false;
        p
    };
    let rebooted = {
        let mut b = Build::new().restarted("n1", 9).obs(serve(deg, "n1", false));
        b.product.record.degraded_asked = true;
        b.product.record.exits.push(exit("n1", Some(1), None));
        b.product
    };
    let table: Vec<(&str, RunProduct, (usize, usize))> = vec![
        (
            "all serve",
            asked(&[serve(deg, "n1", true), serve(heal, "n2", true)]),
            (0, 0),
        ),
        ("nobody asked for it", not_asked, (0, 0)),
        (
            "it ended by itself: the exits judge",
            exited(deg, Phase::Test),
            (0, 0),
        ),
        (
            "a passed answer stays passed under a stall",
            stall(asked(&[serve(deg, "n1", true)]), deg, 9000),
            (0, 0),
        ),
        ("a stall explains it", stall(no(deg), deg, 251), (0, 1)),
        (
            "a stall of the other healing word explains it",
            stall(no(heal), Phase::Final, 300),
            (0, 1),
        ),
        (
            "half a tick explains nothing",
            stall(no(deg), deg, 250),
            (1, 0),
        ),
        (
            "a stall in another phase explains nothing",
            stall(no(deg), Phase::Test, 900),
            (1, 0),
        ),
        ("degraded", no(deg), (1, 0)),
        ("healed", no(heal), (1, 0)),
        (
            "an exit does not excuse the healed",
            exited(heal, Phase::Test),
            (1, 0),
        ),
        ("an old exit does not excuse the rebooted", rebooted, (1, 0)),
        (
            "both stages are two stories",
            asked(&[serve(deg, "n1", false), serve(heal, "n1", false)]),
            (2, 0),
        ),
    ];
    for (name, p, expect) in table {
        let r = check_serve(&p, &rules());
        assert_eq!(count(&r), expect, "{name}: {r:?}");
    }
}

#[test]
fn a_question_nobody_asked_is_open() {
    let ran = |seen: &[Observation]| {
        let mut p = asked(seen);
        p.history = Build::new().session("s", "n1", 1).product.history;
        p
    };
    let (deg, heal) = (Phase::Degraded, Phase::Heal);
    let mut over = ran(&[]);
    over.record.timed_out = true;
    let incomplete = Observation::Incomplete {
        what: "serve".into(),
        why: "a thread did not come back".into(),
    };
    let table = vec![
        (
            ran(&[serve(deg, "n1", true), serve(heal, "n1", true)]),
            (0, 0),
        ),
        (over, (0, 0)),
        (ran(&[incomplete]), (0, 0)),
        (ran(&[serve(heal, "n1", true)]), (0, 1)),
        (ran(&[]), (0, 2)),
        (ran(&[serve(deg, "n1", false)]), (1, 1)),
    ];
    for (p, expect) in table {
        let r = check_serve(&p, &rules());
        assert_eq!(count(&r), expect, "{:?}", p.observations);
    }
}

fn progress(client: &str, ok: bool) -> Observation {
    Observation::Progress {
        phase: Phase::Heal,
        client: client.into(),
        ok,
        ms: 5000,
        error: None,
    }
}

#[test]
fn what_a_client_was_told_is_told_without_its_stacks() {
    let told = "write: Timeout: Failed after attempts=7, exceptions:\nT1, Caller{}, NotServing: hbase:meta is not online\n\tat a.B.c(B.java:1)\n\n";
    let want = "write: Timeout: Failed after attempts=7, exceptions: / T1, Caller{}, NotServing: hbase:meta is not online";
    assert_eq!(brief(told), want);
    let again = format!("{told}T2, Caller{{}}, NotServing\n");
    assert_eq!(brief(&again), format!("{want} …"));
    assert_eq!(brief("no answer"), "no answer");
    assert_eq!(brief(&"é".repeat(900)).chars().count(), LONGEST);
}

#[test]
fn clients_make_progress_again() {
    let table = vec![
        (asked(&[]), (0, 0)),
        (asked(&[progress("c1", true), progress("c2", true)]), (0, 0)),
        (
            stall(asked(&[progress("c1", true)]), Phase::Heal, 900),
            (0, 0),
        ),
        (
            stall(asked(&[progress("c1", false)]), Phase::Heal, 900),
            (0, 1),
        ),
        (asked(&[progress("c1", false)]), (1, 0)),
        (
            asked(&[progress("c1", true), progress("c2", false)]),
            (1, 0),
        ),
        (
            asked(&[progress("c1", false), progress("c2", false)]),
            (1, 0),
        ),
    ];
    for (p, expect) in table {
        let r = check_progress(&p, &rules());
        assert_eq!(count(&r), expect, "{:?}", p.observations);
    }
}

#[test]
fn the_run_as_a_whole() {
    let with = |not_stable: Option<&str>, workload: Option<&str>, over: bool| {
        let mut p = RunProduct::default();
        p.record.not_stable = not_stable.map(NotStable::from).into_iter().collect();
        p.record.workload_error = workload.map(str::to_owned);
        p.record.timed_out = over;
        p
    };
    let run = |p: &RunProduct, retest| {
        let mut r = check_stable(p, &rules());
        r.take(check_workload(p, &rules()));
        r.take(check_hang(p, &rules(), retest));
        count(&r)
    };
    let table = vec![
        (with(None, None, false), false, (0, 0)),
        (with(None, None, false), true, (0, 0)),
        (with(None, Some("exit 1"), false), false, (0, 1)),
        (with(None, None, true), false, (0, 1)),
        (
            stall(with(Some("no leader"), None, false), Phase::Heal, 400),
            false,
            (0, 1),
        ),
        (
            stall(with(None, None, true), Phase::Test, 400),
            true,
            (0, 1),
        ),
        // Stalls elsewhere excuse a hang when they are a good part of its time.
        (
            stall(long(with(None, None, true)), Phase::Final, 5_000),
            true,
            (0, 1),
        ),
        (
            stall(long(with(None, None, true)), Phase::Final, 3_000),
            true,
            (1, 0),
        ),
        (with(Some("no leader"), None, false), false, (1, 0)),
        (with(None, None, true), true, (1, 0)),
        (with(Some("no leader"), None, true), false, (0, 1)),
        (with(Some("no leader"), Some("exit 1"), true), true, (1, 1)),
    ];
    for (i, (p, retest, expect)) in table.into_iter().enumerate() {
        assert_eq!(run(&p, retest), expect, "case {i}");
    }
}

/// Why it is not stable -> the stage it is told of; each is a story of its own.
#[test]
fn start_healing_and_restart_are_three_stories() {
    let table = [
        ("start: none says so", Stage::Test),
        ("heal: no leader", Stage::Healed),
        ("no leader", Stage::Healed),
        ("durability: no leader", Stage::Durable),
    ];
    let mut signatures = std::collections::BTreeMap::new();
    for (why, stage) in table {
        let mut p = RunProduct::default();
        p.record.not_stable = vec![why.into()];
        let failed = check_stable(&p, &rules()).failures.remove(0);
        assert_eq!(failed.stage, stage, "{why}");
        signatures.insert(failed.signature, stage);
        let load = usize::from(stage != Stage::Test);
        let stalled = check_stable(&stall(p, Phase::Final, 400), &rules());
        assert_eq!(count(&stalled), (1 - load, load), "{why}");
    }
    // Known bugs and stories of earlier versions have the first two.
    let stories = [
        ("da16de95", Stage::Test),
        ("1b5d6da3", Stage::Healed),
        ("c9ad4a0a", Stage::Durable),
    ];
    let want = stories.map(|(signature, stage)| (signature.to_owned(), stage));
    assert_eq!(signatures, want.into());
}

/// By the executor's word for it, whatever it says to people.
#[test]
fn which_story_it_is_is_told_by_its_kind() {
    use Instability::{Outage, SeveralLead};
    let words = ["2 nodes say they are leader", "zk3 does not serve", ""];
    // Known bugs and stories of earlier versions have these.
    for (what, kind, want) in [
        ("start", Outage, (Stage::Test, "da16de95")),
        ("start", SeveralLead, (Stage::Test, "da16de95")),
        ("heal", Outage, (Stage::Healed, "1b5d6da3")),
        ("heal", SeveralLead, (Stage::Healed, "800d457c")),
        ("durability", Outage, (Stage::Durable, "c9ad4a0a")),
        ("durability", SeveralLead, (Stage::Durable, "e4c7b669")),
    ] {
        for why in words {
            let mut p = RunProduct::default();
            p.record.was_not_stable(what, kind, why);
            let [f] = &check_stable(&p, &rules()).failures[..] else {
                panic!("{what} {kind:?}");
            };
            assert_eq!((f.stage, &*f.signature), want, "{what} {kind:?} {why}");
        }
    }
}

/// Records that have only words: whoever leads too many, and how many do, is one story; that nobody leads is that of an outage.
#[test]
fn more_than_one_leader_is_no_outage() {
    let of = |why: &str| {
        let mut p = RunProduct::default();
        p.record.not_stable = vec![why.into()];
        let failed = check_stable(&p, &rules()).failures.remove(0);
        (failed.stage, failed.signature)
    };
    let (outage, leaders) = (
        of("heal: zk3 does not serve"),
        of("heal: 2 nodes say they are leader"),
    );
    assert_eq!(outage.1, "1b5d6da3");
    assert_eq!((outage.0, leaders.0), (Stage::Healed, Stage::Healed));
    let (dark, torn) = (
        of("durability: zk3 does not serve (down)"),
        of("durability: 2 nodes say they are leader"),
    );
    let different = [&outage, &leaders, &dark, &torn].map(|s| s.1.clone());
    let different = std::collections::BTreeSet::from(different);
    assert_eq!((different.len(), torn.0), (4, Stage::Durable));
    for (why, like) in [
        ("heal: 3 nodes say they are active", &leaders),
        ("3 nodes say they are active", &leaders),
        ("heal: 0 nodes say they are leader", &outage),
        ("heal: `epoch` differs: 1, 2", &outage),
        ("durability: 12 nodes say they are leader", &torn),
        ("durability: 0 nodes say they are leader", &dark),
    ] {
        assert_eq!(of(why), *like, "{why}");
    }
}

/// The run goes on after it did not heal, and the restart is a question of its own.
#[test]
fn what_did_not_heal_is_told_beside_what_does_not_come_up_again() {
    let mut p = RunProduct::default();
    for what in ["heal", "durability"] {
        let dark = Instability::Outage;
        p.record.was_not_stable(what, dark, "no leader");
    }
    let result = check_stable(&p, &rules());
    let stages: Vec<Stage> = result.failures.iter().map(|f| f.stage).collect();
    assert_eq!(stages, [Stage::Healed, Stage::Durable]);
    let why = result.failures.iter().filter_map(|f| f.evidence.last());
    let told = p.record.not_stable.iter().map(|n| &n.text);
    assert!(why.eq(told), "{:?}", result.failures);
    // One machine made both answers.
    let stalled = stall(p.clone(), Phase::Heal, 400);
    assert_eq!(count(&check_stable(&stalled, &rules())), (0, 2));
    p.record.timed_out = true;
    assert_eq!(count(&check_stable(&p, &rules())), (0, 0));
}

#[test]
fn a_request_that_is_not_done_is_a_failure_of_the_stage_it_was_made_in() {
    for (durable, stage) in [(false, Stage::Healed), (true, Stage::Durable)] {
        let refused = Observation::Refused {
            node: "n1".into(),
            what: "a failover".into(),
            why: "no answer".into(),
            durable,
        };
        let mut product = asked(&[refused]);
        let result = check_refused(&product, &rules());
        let [f] = &result.failures[..] else {
            panic!("{:?}", result.failures);
        };
        assert_eq!((f.kind, f.stage), (FailureKind::Liveness, stage));
        // The machine may be to blame.
        product.record.stalls_ms.insert(Phase::Final, 300);
        assert_eq!(count(&check_refused(&product, &rules())), (0, 1));
    }
}
