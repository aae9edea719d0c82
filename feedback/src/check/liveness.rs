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
use warren_model::{
    FailureKind, Instability, NodeName, NotStable, Observation, Phase, Rules, RunProduct, Stage,
};

/// A run that stood still for more than its time divided by this has passed its limit by the machine's fault.
const STILL_SHARE: u64 = 10;

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
pub(super) fn failed(
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
        Some(why) => result.unknown_by_load(f.checker, format!("{}, but {why}", f.what)),
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
    result.sorted_without_names()
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
        || !record.not_stable.is_empty()
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

/// The stable state after the start, after healing and after the restart of all: each is asked for itself.
#[must_use]
pub fn check_stable(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    // Waiting ended because the run's time did: that is the hang's question, which has a retest.
    if product.record.timed_out {
        return result;
    }
    for NotStable { kind, text: why } in &product.record.not_stable {
        // Before it served once, and after all of it was started anew, are other stories than that of the dead who come back.
        let asked = why.split(':').next().unwrap_or_default();
        let (phase, stage, what) = match (asked, kind) {
            ("start", _) => (
                Phase::Start,
                Stage::Test,
                "the start of the cluster does not end",
            ),
            ("durability", Instability::Outage) => (
                Phase::Final,
                Stage::Durable,
                "the cluster does not become stable after all of it was started anew",
            ),
            ("durability", Instability::SeveralLead) => (
                Phase::Final,
                Stage::Durable,
                "more than one node says it leads after all of the cluster was started anew",
            ),
            (_, Instability::Outage) => (
                Phase::Heal,
                Stage::Healed,
                "the healed cluster does not become stable",
            ),
            (_, Instability::SeveralLead) => (
                Phase::Heal,
                Stage::Healed,
                "more than one node of the healed cluster says it leads",
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
    // Of a run that long, half a tick is nothing; where much of it was lost, the limit was passed by the machine's fault.
    let still: u64 = product.record.stalls_ms.values().sum();
    if still.saturating_mul(STILL_SHARE) > product.record.times.total {
        let why = format!("passed its limit twice, but the slot stood still for {still} ms of it");
        result.unknown_by_load("hang", why);
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
mod tests;
