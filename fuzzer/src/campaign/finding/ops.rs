//! The operations a timeline shows: those the evidence names, changes of the keys it names, and those a fault met half-way. Pure.

use std::collections::{BTreeMap, BTreeSet};
use warren_model::{HistoryEvent, Judgement, OpDone, OpInvoke, Outcome, RunProduct};

/// Operations shown at most, and of one key, and in flight at one fault.
const MOST: usize = 80;
const PER_KEY: usize = 10;
const IN_FLIGHT: usize = 6;
/// Longest value shown, in characters.
const VALUE: usize = 40;

/// When a line of the history was written.
#[must_use]
pub fn time(h: &HistoryEvent) -> u64 {
    match h {
        HistoryEvent::Invoke(o) => o.t_ns,
        HistoryEvent::Done(o) => o.t_ns,
        HistoryEvent::Open { t_ns, .. }
        | HistoryEvent::Move { t_ns, .. }
        | HistoryEvent::Close { t_ns, .. }
        | HistoryEvent::Phase { t_ns, .. } => *t_ns,
    }
}

/// Rows of the timeline. An operation has one row where nothing of `breaks` lies between its begin and its answer, else two.
#[must_use]
pub fn rows(product: &RunProduct, judgement: &Judgement, breaks: &[u64]) -> Vec<(u64, u8, String)> {
    let mut ops: BTreeMap<u64, (&OpInvoke, Option<&OpDone>)> = BTreeMap::new();
    for h in &product.history {
        match h {
            HistoryEvent::Invoke(o) => {
                ops.insert(o.id, (o, None));
            }
            HistoryEvent::Done(d) => {
                if let Some(op) = ops.get_mut(&d.id) {
                    op.1 = Some(d);
                }
            }
            _ => {}
        }
    }
    let chosen = choose(product, judgement, &ops);
    let mut rows = Vec::new();
    for id in chosen.into_iter().take(MOST) {
        let Some((o, done)) = ops.get(&id) else {
            continue;
        };
        let text = format!("op  {}", told(o));
        let Some(d) = done else {
            rows.push((o.t_ns, 5, format!("{text}: never answered")));
            continue;
        };
        let parted = breaks.iter().any(|t| *t > o.t_ns && *t < d.t_ns);
        if parted {
            rows.push((o.t_ns, 5, format!("{text} ...")));
            rows.push((
                d.t_ns,
                5,
                format!("op  #{} {} answered: {}", o.id, o.session, answer(o, d)),
            ));
        } else {
            rows.push((o.t_ns, 5, format!("{text}: {}", answer(o, d))));
        }
    }
    rows
}

fn choose(
    product: &RunProduct,
    judgement: &Judgement,
    ops: &BTreeMap<u64, (&OpInvoke, Option<&OpDone>)>,
) -> BTreeSet<u64> {
    let evidence: Vec<&str> = judgement
        .failures
        .iter()
        .flat_map(|f| &f.evidence)
        .flat_map(|l| l.split_whitespace())
        .collect();
    let mut chosen: BTreeSet<u64> = evidence
        .iter()
        .filter_map(|w| w.strip_prefix('#')?.parse().ok())
        .filter(|id| ops.contains_key(id))
        .collect();
    let keys: BTreeSet<&str> = ops
        .values()
        .filter_map(|(o, _)| o.key.as_deref())
        .filter(|k| evidence.contains(k))
        .collect();
    for key in keys {
        let changes = ops
            .values()
            .filter(|(o, _)| o.key.as_deref() == Some(key) && o.op != "read");
        chosen.extend(changes.take(PER_KEY).map(|(o, _)| o.id));
    }
    for i in &product.record.injected {
        let met = ops.values().filter(|(o, d)| {
            o.t_ns <= i.t_reached && d.is_none_or(|d| d.t_ns > i.t_reached)
                // An operation that never ends is told once, by the first fault it meets.
                && (d.is_some() || o.t_ns + 1_000_000_000 > i.t_reached)
        });
        chosen.extend(met.take(IN_FLIGHT).map(|(o, _)| o.id));
    }
    chosen
}

/// The request: `#25 client-3#1 at c3: write counter-2=2`.
fn told(o: &OpInvoke) -> String {
    let mut text = format!("#{} {}", o.id, o.session);
    if let Some(s) = &o.server {
        text.push_str(&format!(" at {s}"));
    }
    text.push_str(&format!(": {}", o.op));
    if let Some(k) = &o.key {
        text.push_str(&format!(" {k}"));
    }
    if let Some(v) = &o.value {
        text.push_str(&format!("={}", short(v)));
    }
    if let Some(e) = o.expect {
        text.push_str(&format!(" if version {e}"));
    }
    if let Some(first) = o.retry_of {
        text.push_str(&format!(" (again, after #{first})"));
    }
    text
}

fn answer(o: &OpInvoke, d: &OpDone) -> String {
    let mut text = match d.outcome {
        Outcome::Ok => "ok".to_owned(),
        Outcome::Failed => "failed".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
    };
    if o.op == "read" && d.outcome == Outcome::Ok {
        text.push_str(&format!(
            " -> {}",
            d.value.as_deref().map_or("(absent)".to_owned(), short)
        ));
    }
    if let Some(m) = d.mzxid.filter(|m| *m != 0) {
        text.push_str(&format!(", mzxid {m:#x}"));
    }
    if let Some(e) = &d.error {
        text.push_str(&format!(", {}", short(e)));
    }
    let us = d.t_ns.saturating_sub(o.t_ns) / 1000;
    text + &format!(" after {}.{} ms", us / 1000, us % 1000 / 100)
}

fn short(text: &str) -> String {
    crate::text::clip(&text.replace(['\n', '\r'], " "), VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{At, Failure, FailureKind, Fault, FaultAt, Injected, Stage};

    fn op(id: u64, op: &str, key: &str, from: u64, to: Option<u64>) -> Vec<HistoryEvent> {
        let mut out = vec![HistoryEvent::Invoke(OpInvoke {
            id,
            client: "c".into(),
            session: "c#18".into(),
            server: Some("n1".into()),
            op: op.into(),
            key: Some(key.into()),
            value: (op == "write").then(|| "v".into()),
            expect: None,
            retry_of: None,
            t_ns: from,
        })];
        out.extend(to.map(|t_ns| {
            HistoryEvent::Done(OpDone {
                id,
                t_ns,
                outcome: Outcome::Ok,
                value: None,
                version: None,
                zxid: None,
                mzxid: Some(0x13),
                error: None,
            })
        }));
        out
    }

    #[test]
    fn the_operations_that_matter() {
        let m = 1_000_000;
        let history = [
            op(1, "write", "named", m, Some(2 * m)),
            op(2, "read", "named", 3 * m, Some(4 * m)),
            op(18, "write", "other", 5 * m, Some(6 * m)),
            op(26, "read", "told", 7 * m, Some(8 * m)),
            op(30, "write", "met", 9 * m, Some(11 * m)),
            op(31, "write", "lost", 9 * m, None),
        ]
        .concat();
        let mut product = RunProduct {
            history,
            ..RunProduct::default()
        };
        product.record.injected = vec![Injected {
            index: 0,
            matched: FaultAt {
                at: At::AtOnce,
                fault: Fault::PartitionStop,
            },
            event: None,
            t_reached: 10 * m,
            t_done: 10 * m,
            late: false,
            drift: None,
            kill: None,
        }];
        let judgement = Judgement {
            failures: vec![Failure {
                checker: "acknowledged".into(),
                kind: FailureKind::Safety,
                stage: Stage::Healed,
                role: None,
                node: None,
                // `c#18` is a session, not operation 18.
                evidence: vec!["named on n1: #26 c#18 create x=f5 [1..2 ms] ok".into()],
                normalised: String::new(),
                signature: "00000001".into(),
            }],
            ..Judgement::default()
        };
        let rows = rows(&product, &judgement, &[10 * m]);
        let text: Vec<&str> = rows.iter().map(|(_, _, t)| t.as_str()).collect();
        assert_eq!(
            text,
            [
                "op  #1 c#18 at n1: write named=v: ok, mzxid 0x13 after 1.0 ms",
                "op  #26 c#18 at n1: read told: ok -> (absent), mzxid 0x13 after 1.0 ms",
                "op  #30 c#18 at n1: write met=v ...",
                "op  #30 c#18 answered: ok, mzxid 0x13 after 2.0 ms",
                "op  #31 c#18 at n1: write lost=v: never answered",
            ]
        );
    }
}
