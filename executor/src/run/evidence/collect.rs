//! Everything a run leaves behind, read once all its processes are dead: pages, history, observations, logs, files.

use crate::link::{NodeReading, Word, merge_trace};
use crate::run::drive::{Drive, KillMade};
use crate::run::evidence::logs;
use crate::run::nodes::cluster::Cluster;
use crate::run::nodes::cuts::CutEnded;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warren_model::{
    Fallbacks, FaultSequence, Injected, KillLatency, NodeName, RunProduct, RunRecord, Trace,
};

/// Events of a killed node later than this after the signal are counted.
const LATE_NS: u64 = 2_000_000;
/// Most warnings of one node in a record.
const WARNINGS_MAX: usize = 20;

/// Fills the product from the slot's files and pages. Never fails: what cannot be read is said in the record.
pub(in crate::run) fn collect(drive: &mut Drive<'_, '_>, product: &mut RunProduct) {
    let cluster = &*drive.cluster;
    let target = cluster.prepared.target();
    let readings: Vec<(NodeName, NodeReading)> = cluster
        .nodes
        .iter()
        .map(|n| (n.name.clone(), n.page.read_all()))
        .collect();
    let (trace, places) = merge_trace(&readings, target.dictionary.role_names());
    warnings(cluster, &readings, product);
    product.unparked = cluster.unparked;
    product.coverage = cluster.coverage.copy(0, cluster.coverage.len());
    if let Some(probes) = &cluster.probes {
        product.probes = probes.copy(0, probes.len());
    }
    product.history = lines(
        &cluster.slot.root().join("history.jsonl"),
        "history.jsonl",
        &mut product.broken_lines,
    );
    product.observations = lines(
        &cluster.slot.root().join("observations.jsonl"),
        "observations.jsonl",
        &mut product.broken_lines,
    );
    let notes: Vec<String> = product.notes().map(str::to_owned).collect();
    product.record.warnings.extend(notes);
    product.observations.append(&mut drive.so_far.epochs);
    logs::collect(&*drive.cluster, &drive.so_far, product);
    faults(drive, &trace, &places, &mut product.record);
    let cluster = &*drive.cluster;
    let record = &mut product.record;
    record.exits.append(&mut drive.exits);
    if record.void.is_none() {
        record.void = drive.void.take();
    }
    record.incarnations = cluster
        .nodes
        .iter()
        .flat_map(|n| n.incarnations.iter().cloned())
        .collect();
    record.cut_heal_ms = cluster
        .cuts
        .ended
        .iter()
        .filter_map(|c| heal_ms(c, cluster, &trace))
        .collect();
    product.trace = trace;
}

/// What was injected, and where it stands in the trace.
fn faults(
    drive: &Drive<'_, '_>,
    trace: &Trace,
    places: &BTreeMap<(usize, u64), usize>,
    record: &mut RunRecord,
) {
    for done in drive.controller.done() {
        let event = done.event.as_ref().and_then(|(node, index)| {
            let i = drive.cluster.index(node)?;
            places.get(&(i, *index)).copied()
        });
        let kill = drive
            .so_far
            .kills
            .get(&done.index)
            .map(|k| latency(k, done.t_reached, trace));
        record.injected.push(Injected {
            index: done.index,
            matched: done.matched.clone(),
            event,
            t_reached: done.t_reached,
            t_done: done.t_done,
            late: done.late,
            drift: done.drift,
            kill,
        });
    }
    record.not_injected = drive.controller.not_injected().cloned();
    if let Some(asked) = &record.sequence {
        record.matched = Some(FaultSequence {
            faults: record.injected.iter().map(|i| i.matched.clone()).collect(),
            roles: record
                .matched
                .as_ref()
                .map(|m| m.roles.clone())
                .unwrap_or_default(),
            ..asked.clone()
        });
    }
}

fn latency(k: &KillMade, reached: u64, trace: &Trace) -> KillLatency {
    let late = trace
        .events
        .iter()
        .filter(|e| {
            usize::from(e.node) == k.node
                && e.incarnation == k.incarnation
                && e.t_ns > k.sent + LATE_NS
        })
        .count();
    KillLatency {
        signal_us: k.sent.saturating_sub(reached) / 1000,
        reap_us: k.reaped.map_or(0, |r| r.saturating_sub(k.sent) / 1000),
        late_events: u32::try_from(late).unwrap_or(u32::MAX),
    }
}

/// From the end of a cut to the first bytes that came through between its sides.
fn heal_ms(c: &CutEnded, cluster: &Cluster<'_>, trace: &Trace) -> Option<u64> {
    let side = |names: &BTreeSet<NodeName>, node: &NodeName| names.contains(node);
    trace
        .events
        .iter()
        .find(|e| {
            let receives = matches!(
                e.kind,
                warren_model::Kind::Receive | warren_model::Kind::MsgReceive
            );
            if e.t_ns < c.until || !receives {
                return false;
            }
            let me = &trace.nodes[usize::from(e.node)];
            let Some(peer) = trace.text(e.peer).and_then(|t| cluster.node_of_peer(t)) else {
                return false;
            };
            (side(&c.cut.side, me) && side(&c.cut.other, &peer.name))
                || (side(&c.cut.other, me) && side(&c.cut.side, &peer.name))
        })
        .map(|e| (e.t_ns - c.until) / 1_000_000)
}

/// Of what is wrong with the target's jars: what a user wrote first, then as much as there is room for.
fn few(all: &[String]) -> Vec<String> {
    let (hooks, classes): (Vec<&String>, Vec<_>) =
        all.iter().partition(|w| w.starts_with("dictionary hook "));
    let mut few: Vec<String> = hooks.into_iter().chain(classes).cloned().collect();
    if few.len() > WARNINGS_MAX {
        let more = few.len() - WARNINGS_MAX;
        few.truncate(WARNINGS_MAX);
        few.push(format!("and {more} more of the target's jars"));
    }
    few
}

fn warnings(cluster: &Cluster<'_>, readings: &[(NodeName, NodeReading)], p: &mut RunProduct) {
    p.record.warnings.extend(few(cluster.prepared.warnings()));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for ((name, r), n) in readings.iter().zip(&cluster.nodes) {
        let classes = n.page.word(Word::Classes);
        p.record.classes = p.record.classes.max(classes);
        let unbound = n.page.word(Word::Unbound);
        p.record.unbound += unbound;
        for (word, what) in [
            (Word::EventsDropped, "events did not fit"),
            (Word::InternDropped, "stacks or texts did not fit"),
            (
                Word::Unbound,
                "connections could not be bound to the node's address",
            ),
            (Word::ClassFailures, "classes could not be transformed"),
            (Word::Errors, "exceptions inside hooks"),
            (Word::VirtualHeld, "virtual thread was held"),
        ] {
            let count = n.page.word(word);
            if count > 0 {
                p.record.warnings.push(format!("{name}: {count} {what}"));
            }
        }
        if r.holes > 0 {
            p.record
                .warnings
                .push(format!("{name}: {} half-written events", r.holes));
        }
        for text in r.texts.values() {
            if let Some(w) = text.strip_prefix("warning: ") {
                *seen.entry(w.to_owned()).or_default() += 1;
            }
        }
    }
    if let Some(why) = &cluster.unpark_failed {
        p.fell_back(Fallbacks {
            no_parked: Some(why.clone()),
            ..Fallbacks::default()
        });
    }
    for (text, nodes) in seen.into_iter().take(WARNINGS_MAX) {
        p.record.warnings.push(format!("{text} (on {nodes} nodes)"));
    }
}

/// The lines of a file of JSON lines. Those that cannot be read are named in `broken`.
pub(in crate::run) fn lines<T: DeserializeOwned>(
    path: &Path,
    name: &str,
    broken: &mut Vec<String>,
) -> Vec<T> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| {
        // A run that ended before its workload wrote has none.
        if e.kind() != std::io::ErrorKind::NotFound {
            broken.push(format!("{name}: reading it: {e}"));
        }
        Vec::new()
    });
    let text = String::from_utf8_lossy(&bytes);
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(x) => out.push(x),
            Err(e) => broken.push(format!("{name}:{}: {e}", i + 1)),
        }
    }
    out
}

/// CPU time of slot init and everything it has reaped, ms.
pub(in crate::run) fn cpu_ms(init: i32) -> u64 {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{init}/stat")) else {
        return 0;
    };
    // Fields after the command in parentheses: utime, stime, cutime, cstime are the 12th to 15th.
    let Some((_, rest)) = text.rsplit_once(')') else {
        return 0;
    };
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|f| f.parse::<u64>().ok())
        .sum();
    // USER_HZ is 100 on every Linux that Java runs on.
    ticks * 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{HistoryEvent, Observation, Phase};

    #[test]
    fn what_a_user_wrote_is_told_before_what_there_is_no_room_for() {
        let classes = (0..30).map(|i| format!("class c{i} stays as it is"));
        let hook = "dictionary hook a.B.c matched no method of its class".to_owned();
        let all: Vec<String> = classes.chain([hook.clone()]).collect();
        let few = few(&all);
        assert_eq!(few.len(), WARNINGS_MAX + 1);
        assert_eq!(few[0], hook);
        let last = format!("and {} more of the target's jars", 31 - WARNINGS_MAX);
        assert_eq!(few[WARNINGS_MAX], last);
        assert_eq!(
            super::few(&all[29..]),
            [hook, "class c29 stays as it is".into()]
        );
        assert!(super::few(&[]).is_empty());
    }

    #[test]
    fn lines_are_read_leniently_and_broken_ones_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        std::fs::write(
            &path,
            "{\"ev\":\"phase\",\"phase\":\"healed\",\"t_ns\":5}\n{\"ev\":\"done\",\"id\":1,\"t_ns\":2,\"outcome\":\"ok\",\"extra\":1}\n{\"ev\":\"inv",
        )
        .unwrap();
        let mut broken = Vec::new();
        let got: Vec<HistoryEvent> = lines(&path, "history.jsonl", &mut broken);
        assert_eq!(
            got[0],
            HistoryEvent::Phase {
                phase: Phase::Heal,
                t_ns: 5
            }
        );
        assert!(matches!(&got[1], HistoryEvent::Done(d) if d.id == 1));
        assert_eq!((got.len(), broken.len()), (2, 1));
        assert!(broken[0].starts_with("history.jsonl:3"));
        // Of observations too it is the workload's word for phase `heal`.
        let serve = "{\"obs\":\"serve\",\"phase\":\"healed\",\"node\":\"n1\",\"ok\":true}";
        std::fs::write(&path, serve).unwrap();
        let got: Vec<Observation> = lines(&path, "observations.jsonl", &mut broken);
        assert!(matches!(
            &got[..],
            [Observation::Serve {
                phase: Phase::Heal,
                ..
            }]
        ));
    }

    #[test]
    fn notes_are_told_apart_from_what_is_judged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("observations.jsonl");
        std::fs::write(
            &path,
            "{\"obs\":\"incomplete\",\"what\":\"replicas\",\"why\":\"w\"}\n{\"obs\":\"note\",\"text\":\"refused, and done\"}\n",
        )
        .unwrap();
        let mut broken = Vec::new();
        let product = RunProduct {
            observations: lines(&path, "observations.jsonl", &mut broken),
            ..RunProduct::default()
        };
        let notes: Vec<&str> = product.notes().collect();
        assert_eq!(notes, ["refused, and done"]);
        assert!(broken.is_empty() && product.observations.len() == 2);
    }
}
