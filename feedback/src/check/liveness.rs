//! Liveness, asked twice: degraded (cuts healed, the dead left dead, never more than max dead) and healed (the dead rebooted).
//!
//! Rules:
//! - `serve`: at each node that was asked, a new session completed a write and a read; degraded only when the question was asked;
//! - `progress`: each client that lived through the faults made progress again after healing;
//! - `stable`: the healed cluster reached the stable state within its limit; not asked of a run that its own limit ended;
//! - `refused`: what an administrator may ask of the healed cluster was done;
//! - a workload that failed or did not end leaves questions open: unknown, because it is our program;
//! - a run over its limit is unknown the first time and a hang when it is over twice the limit alone, the second time.
//!
//! Stalls: when the slot stood still for more than half of the target's tick in the phase of the question, a FAILED answer is
//! unknown (the machine may be to blame) and a passed one stays passed.
//!
//! A node that ended by itself is not asked for degraded service: whether it was right to go is the exits' question. In the healed question it
//! is started again, once, and asked again from then; one that ends a second time is not. Why asked in
//! this order: rebooting the dead first would hide every failed failover. CrashFuzz section V-A (cluster out of service, hang).

use super::{CheckResult, Found};
use warren_model::{FailureKind, NodeName, Observation, Phase, Rules, RunProduct, Stage};

/// Most characters of a line of evidence that is somebody else's text.
const LONGEST: usize = 400;

/// Why a failed answer of a phase cannot be held against the target; `None` = it can.
#[must_use]
pub fn stalled(product: &RunProduct, rules: &Rules, phase: Phase) -> Option<String> {
    let longest = product.record.stalls_ms.get(&phase).copied().unwrap_or(0);
    (rules.tick_ms > 0 && longest * 2 > rules.tick_ms).then(|| {
        format!(
            "the slot stood still for {longest} ms in phase {phase}, more than half a tick of {} ms",
            rules.tick_ms
        )
    })
}

/// The stage that a phase belongs to.
pub(super) fn stage(phase: Phase) -> Stage {
    match phase {
        Phase::Degraded => Stage::Degraded,
        Phase::Heal | Phase::Final => Stage::Healed,
        Phase::Start | Phase::Setup | Phase::Test => Stage::Test,
    }
}

/// A failed answer: a failure, or an unknown when a stall explains it.
fn failed(
    result: &mut CheckResult,
    product: &RunProduct,
    rules: &Rules,
    phase: Phase,
    f: Found<'_>,
) {
    // Phases of one question: healing is one time, whichever word the observation has for it.
    let phases: &[Phase] = match phase {
        Phase::Heal | Phase::Final => &[Phase::Heal, Phase::Final],
        _ => &[phase],
    };
    match phases.iter().find_map(|p| stalled(product, rules, *p)) {
        Some(why) => result.unknown(f.checker, format!("{}, but {why}", f.what)),
        None => result.fail(product, f),
    }
}

/// Whether the node's last process ended by itself before or in this phase.
fn gone_by_itself(product: &RunProduct, node: &NodeName, phase: Phase) -> bool {
    let last = product
        .record
        .incarnations
        .iter()
        .filter(|i| i.node == *node)
        .map(|i| i.number)
        .max()
        .unwrap_or(0);
    product
        .record
        .exits
        .iter()
        .any(|e| e.node == *node && (e.incarnation >= last || e.phase == phase) && e.phase <= phase)
}

/// Service at each node.
#[must_use]
pub fn check_serve(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    unasked(product, &mut result);
    for o in &product.observations {
        let Observation::Serve {
            phase,
            node,
            ok: false,
            ms,
            error,
        } = o
        else {
            continue;
        };
        let degraded = *phase == Phase::Degraded;
        if degraded && (!product.record.degraded_asked || gone_by_itself(product, node, *phase)) {
            continue;
        }
        let error = error.as_deref().unwrap_or("no answer");
        let what = if degraded {
            "a living node does not serve while no more than max dead are dead"
        } else {
            "a node does not serve after healing"
        };
        failed(
            &mut result,
            product,
            rules,
            *phase,
            Found {
                checker: "serve",
                kind: FailureKind::Liveness,
                stage: stage(*phase),
                // Roles are known as of the end of the run: who leads after healing says nothing of who did not serve before it.
                role: None,
                node: Some(node.clone()),
                what: what.into(),
                evidence: vec![format!("{node} after {ms} ms: {}", brief(error))],
            },
        );
    }
    result.whatever_the_names()
}

/// What a client was told, for the evidence: a client that tries again may tell of each try with its stack. The first two lines that are none
/// say it; the whole is in observations.jsonl.
fn brief(error: &str) -> String {
    let lines = error.lines().map(str::trim);
    let mut lines = lines.filter(|l| !l.is_empty() && !l.starts_with("at "));
    let first: Vec<String> = (lines.by_ref().take(2))
        .map(|l| l.chars().take(LONGEST).collect())
        .collect();
    let more = lines.next().map_or("", |_| " …");
    format!("{}{more}", first.join(" / "))
}

/// A question of service that should have been asked and was not answered at all is open, not passed.
fn unasked(product: &RunProduct, result: &mut CheckResult) {
    let record = &product.record;
    let explained = record.timed_out
        || record.not_stable.is_some()
        || record.workload_error.is_some()
        || product
            .observations
            .iter()
            .any(|o| matches!(o, Observation::Incomplete { what, .. } if what == "serve"));
    if explained || product.history.is_empty() {
        return;
    }
    let asked = |degraded: bool| {
        product.observations.iter().any(|o| {
            matches!(o, Observation::Serve { phase, .. } if (*phase == Phase::Degraded) == degraded)
        })
    };
    if !asked(false) {
        result.unknown("serve", "nobody asked for service after healing");
    }
    if record.degraded_asked && !asked(true) {
        result.unknown("serve", "the degraded question was put to no node");
    }
}

/// Progress of old clients.
#[must_use]
pub fn check_progress(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    for o in &product.observations {
        if let Observation::Progress {
            phase,
            client,
            ok: false,
            ms,
            error,
        } = o
        {
            let error = error.as_deref().unwrap_or("no answer");
            failed(
                &mut result,
                product,
                rules,
                *phase,
                Found {
                    checker: "progress",
                    kind: FailureKind::Liveness,
                    stage: stage(*phase),
                    role: None,
                    node: None,
                    what: "a client that lived through the faults makes no progress".into(),
                    evidence: vec![format!("{client} after {ms} ms: {}", brief(error))],
                },
            );
        }
    }
    result
}

/// The stable state after healing.
#[must_use]
pub fn check_stable(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    if let Some(why) = &product.record.not_stable
        // Waiting ended because the run's time did: that is the hang's question, which has a retest.
        && !product.record.timed_out
    {
        // Before it served once, and after all of it was started anew, are other stories than that of the dead who come back.
        let (phase, stage, what) = match why.split(':').next().unwrap_or_default() {
            "start" => (
                Phase::Start,
                Stage::Test,
                "the start of the cluster does not end",
            ),
            "durability" => (
                Phase::Final,
                Stage::Durable,
                "the cluster does not become stable after all of it was started anew",
            ),
            _ => (
                Phase::Heal,
                Stage::Healed,
                "the healed cluster does not become stable",
            ),
        };
        failed(
            &mut result,
            product,
            rules,
            phase,
            Found {
                checker: "stable",
                kind: FailureKind::Liveness,
                stage,
                role: None,
                node: None,
                what: what.into(),
                evidence: vec![why.clone()],
            },
        );
    }
    result
}

/// What an administrator asked for after healing, in vain.
#[must_use]
pub fn check_refused(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    for o in &product.observations {
        if let Observation::Refused {
            node,
            what,
            why,
            durable,
        } = o
        {
            let stage = match durable {
                true => Stage::Durable,
                false => Stage::Healed,
            };
            failed(
                &mut result,
                product,
                rules,
                Phase::Final,
                Found {
                    checker: "refused",
                    kind: FailureKind::Liveness,
                    stage,
                    role: None,
                    node: Some(node.clone()),
                    what: format!("an administrator's request is not done: {what}"),
                    evidence: vec![format!("{node}: {why}")],
                },
            );
        }
    }
    result
}

/// The workload itself.
#[must_use]
pub fn check_workload(product: &RunProduct, _: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    if let Some(why) = &product.record.workload_error {
        result.unknown("workload", why.clone());
    }
    result
}

/// A run over its limit; `retest` = this run repeats one that was.
#[must_use]
pub fn check_hang(product: &RunProduct, rules: &Rules, retest: bool) -> CheckResult {
    let mut result = CheckResult::pass();
    if !product.record.timed_out {
        return result;
    }
    if !retest {
        result.unknown("hang", "timed out once");
        return result;
    }
    let asked = product.record.workload_error.clone();
    failed(
        &mut result,
        product,
        rules,
        Phase::Test,
        Found {
            checker: "hang",
            kind: FailureKind::Hang,
            stage: Stage::Test,
            role: None,
            node: None,
            what: "the run passed its limit twice, the second time alone with twice the limit"
                .into(),
            evidence: asked.into_iter().collect(),
        },
    );
    result
}

#[cfg(test)]
mod tests {
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
            p.record.not_stable = not_stable.map(str::to_owned);
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
            p.record.not_stable = Some(why.to_owned());
            let failed = check_stable(&p, &rules()).failures.remove(0);
            assert_eq!(failed.stage, stage, "{why}");
            signatures.insert(failed.signature, stage);
            let load = usize::from(stage != Stage::Test);
            let stalled = check_stable(&stall(p, Phase::Final, 400), &rules());
            assert_eq!(count(&stalled), (1 - load, load), "{why}");
        }
        // Known bugs and stories of earlier versions have these.
        let of = |stage| {
            signatures
                .iter()
                .find(|(_, s)| **s == stage)
                .map(|(k, _)| k)
        };
        println!("{:?} {:?}", of(Stage::Test), of(Stage::Healed));
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
}
