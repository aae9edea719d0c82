//! `findings/<nnnnnn>/`: what one needs to understand and repeat a failing run. Called by the loop when a finding stands.
//!
//! Files: sequence.toml (as asked), matched.toml (as it happened), timeline.txt, evidence.txt, history.jsonl,
//! observations.jsonl, record.json, logs/<node>.log, collected/<files of [collect]>.

use super::folder::{io, write_whole};
use crate::fuzz::FuzzError;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Component, Path};
use warren_model::{EventFlags, Failure, FaultSequence, Judgement, RunProduct, Trace, TraceEvent};

/// Points shown before and after each fault.
const AROUND: usize = 15;

/// What is told beside the run itself.
#[derive(Clone, Debug)]
pub struct FindingText {
    pub number: u64,
    pub signature: String,
    /// `2 of 3`, or why it was not replayed.
    pub confirmed: String,
    pub reproduce: String,
    /// The sequence's file in crashes/ or hangs/.
    pub file: String,
    pub strategy: String,
    /// Why the strategy took the sequence.
    pub why: String,
    pub campaign_seed: u64,
    /// Runs made before this one, and ms of fuzzing time.
    pub execs: u64,
    pub at_ms: u64,
}

/// Writes the folder; files of an earlier call are replaced.
///
/// # Errors
/// I/O, with the path.
pub fn write_finding(
    folder: &Path,
    text: &FindingText,
    product: &RunProduct,
    judgement: &Judgement,
) -> Result<(), FuzzError> {
    std::fs::create_dir_all(folder).map_err(io("making the folder", folder))?;
    let put = |name: &str, content: &str| write_whole(&folder.join(name), content.as_bytes());
    let record = &product.record;
    let toml = |s: &Option<FaultSequence>| s.as_ref().map(FaultSequence::to_text);
    put("sequence.toml", &toml(&record.sequence).unwrap_or_default())?;
    put("matched.toml", &toml(&record.matched).unwrap_or_default())?;
    put("timeline.txt", &timeline(product))?;
    put("evidence.txt", &evidence(text, product, judgement))?;
    put("history.jsonl", &lines(&product.history))?;
    put("observations.jsonl", &lines(&product.observations))?;
    let json = serde_json::to_string_pretty(record).map_err(|e| FuzzError::Format {
        path: folder.join("record.json"),
        why: e.to_string(),
    })?;
    put("record.json", &(json + "\n"))?;
    let below = |sub: &str, name: &str, content: &[u8]| {
        let path = folder.join(sub).join(safe(name));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io("making the folder", parent))?;
        }
        write_whole(&path, content)
    };
    for (node, log) in &product.logs {
        below("logs", &format!("{node}.log"), log.as_bytes())?;
    }
    for (name, content) in &product.collected {
        below("collected", name, content)?;
    }
    Ok(())
}

/// A relative path that stays below the folder it is joined to.
fn safe(name: &str) -> std::path::PathBuf {
    Path::new(name)
        .components()
        .filter(|c| matches!(c, Component::Normal(_)))
        .collect()
}

fn lines<T: Serialize>(items: &[T]) -> String {
    items
        .iter()
        .filter_map(|i| serde_json::to_string(i).ok())
        .map(|l| l + "\n")
        .collect()
}

fn evidence(text: &FindingText, product: &RunProduct, judgement: &Judgement) -> String {
    let mut out = String::new();
    let record = &product.record;
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "finding {:06}, signature {}\nconfirmed: {}\nreproduce: {}\nfile: {}\nfound by {} (seed {}), run {}, after {} s of fuzzing\nwhy this sequence: {}\n\
         faults: {} asked, {} injected\n",
        text.number,
        text.signature,
        text.confirmed,
        text.reproduce,
        text.file,
        text.strategy,
        text.campaign_seed,
        text.execs,
        text.at_ms / 1000,
        text.why,
        record.sequence.as_ref().map_or(0, |s| s.faults.len()),
        record.injected.len(),
    );
    for f in &judgement.failures {
        let _ = writeln!(out, "\n{}", headline(f));
        for line in &f.evidence {
            let _ = writeln!(out, "    {line}");
        }
    }
    if !judgement.unknowns.is_empty() {
        let _ = writeln!(out, "\ncould not tell:");
        for u in &judgement.unknowns {
            let _ = writeln!(out, "    {}: {}", u.checker, u.why);
        }
    }
    if !judgement.novelties.is_empty() {
        let _ = writeln!(out, "\nlog lines no fault-free run has:");
        for n in &judgement.novelties {
            let _ = writeln!(out, "    {n}");
        }
    }
    if !record.warnings.is_empty() {
        let _ = writeln!(out, "\nwarnings of the run:");
        for w in &record.warnings {
            let _ = writeln!(out, "    {w}");
        }
    }
    out
}

/// One line about a failed check.
#[must_use]
pub fn headline(f: &Failure) -> String {
    let mut text = format!("{} ({:?}, {:?})", f.checker, f.kind, f.stage).to_lowercase();
    if let Some(node) = &f.node {
        let _ = write!(text, " at {node}");
    }
    if let Some(role) = &f.role {
        let _ = write!(text, ", {role}");
    }
    let _ = write!(text, " [{}]", f.signature);
    text
}

/// What happened, in order, ms since the first event: each fault with the points around it, and all beginnings and ends of
/// processes.
#[must_use]
pub fn timeline(product: &RunProduct) -> String {
    let trace = &product.trace;
    let record = &product.record;
    let zero = trace
        .events
        .first()
        .map(|e| e.t_ns)
        .into_iter()
        .chain(record.incarnations.iter().map(|i| i.spawned_ns))
        .min()
        .unwrap_or(0);
    let mut rows: Vec<(u64, String)> = Vec::new();
    let mut shown = vec![false; trace.events.len()];
    for injected in &record.injected {
        let at = injected.event.unwrap_or_else(|| {
            trace
                .events
                .partition_point(|e| e.t_ns < injected.t_reached)
        });
        let from = at.saturating_sub(AROUND);
        let to = (at + AROUND + 1).min(shown.len());
        shown.get_mut(from..to).unwrap_or_default().fill(true);
        let fault = &injected.matched.fault;
        let mut text = format!("**  fault {}: {} reached", injected.index + 1, fault.kind());
        if let Some((asked, accepted)) = injected.drift {
            let _ = write!(text, " (drift: n {accepted} for {asked})");
        }
        rows.push((injected.t_reached, text));
        let mut text = format!("**  fault {}: {} done", injected.index + 1, describe(fault));
        if injected.late {
            text.push_str(" (late: its thread was released before)");
        }
        rows.push((injected.t_done, text));
    }
    for (e, _) in trace.events.iter().zip(&shown).filter(|(_, s)| **s) {
        rows.push((e.t_ns, point_line(trace, e)));
    }
    for i in &record.incarnations {
        rows.push((
            i.spawned_ns,
            format!("--  {} #{} launched", i.node, i.number),
        ));
        if let Some(t) = i.ready_ns {
            rows.push((t, format!("--  {} #{} ready", i.node, i.number)));
        }
        if let Some(t) = i.ended_ns {
            rows.push((t, format!("--  {} #{} ended", i.node, i.number)));
        }
    }
    for x in &record.exits {
        rows.push((
            x.t_ns,
            format!(
                "--  {} #{} ended BY ITSELF (status {:?}, signal {:?}, phase {})",
                x.node, x.incarnation, x.status, x.signal, x.phase
            ),
        ));
    }
    rows.sort_by_key(|(t, _)| *t);
    let mut out = String::from("ms since the beginning; points: node role kind place stack n\n");
    for (t, text) in rows {
        let us = t.saturating_sub(zero) / 1000;
        let _ = writeln!(out, "{:>9}.{:03}  {text}", us / 1000, us % 1000);
    }
    if let Some(n) = &record.not_injected {
        let _ = writeln!(
            out,
            "fault {} did not happen: {}: {} ({} arrivals of its stack)",
            n.index + 1,
            n.reason,
            n.detail,
            n.nearest
        );
    }
    out
}

fn describe(fault: &warren_model::Fault) -> String {
    use warren_model::{Fault, Who};
    let name = |w: &Who| match w {
        Who::Node(n) => n.to_string(),
        other => format!("{other:?}"),
    };
    match fault {
        Fault::Crash { who, .. } => format!("crash {}", name(who)),
        Fault::Reboot { who } => format!("reboot {}", name(who)),
        Fault::PartitionStart { who, .. } => {
            let names = |m: &[warren_model::Member]| {
                m.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            };
            let from = if who.from.is_empty() {
                "all others".to_owned()
            } else {
                names(&who.from)
            };
            let bridge = who
                .bridge
                .as_ref()
                .map_or_else(String::new, |b| format!(", bridge {b}"));
            format!(
                "cut {} from {from} ({:?}{bridge})",
                names(&who.cut),
                who.way
            )
            .to_lowercase()
        }
        Fault::PartitionStop => "the cut ends".into(),
    }
}

fn point_line(trace: &Trace, e: &TraceEvent) -> String {
    let node = trace
        .nodes
        .get(usize::from(e.node))
        .map_or_else(|| "?".to_owned(), ToString::to_string);
    let mark = if e.flags.has(EventFlags::MATCHED) {
        ">>"
    } else if e.flags.has(EventFlags::DURING) {
        " ~"
    } else {
        "  "
    };
    let mut text = format!(
        "{mark}  {node} {} {} {} {} {} n={}",
        trace.role(e).unwrap_or("-"),
        e.kind,
        e.place,
        e.stack,
        trace.label(e.stack),
        e.n
    );
    for part in [trace.text(e.peer), trace.text(e.detail)]
        .into_iter()
        .flatten()
    {
        let _ = write!(text, " {part}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;
    use crate::search::{ChildFault, Drawing, Seed};

    #[test]
    fn a_folder_tells_the_story() {
        let sim = Sim::new(3, 1);
        let shape = sim.shape();
        let d = Drawing {
            shape: &shape,
            faults: crate::fuzz::FaultSet::default(),
            how: warren_model::CutHow::Drop,
            salt: 1,
        };
        let root = sim.run(&FaultSequence::empty("sim"));
        let s = Seed {
            trace: &root.trace,
            matched: root.record.matched.as_ref().unwrap(),
            exits: &[],
            serving_ns: None,
        };
        let child = s.child(&d, 40, ChildFault::Crash).unwrap();
        let mut product = sim.run(&child);
        product.logs.insert("n1".into(), "a log line\n".into());
        product
            .collected
            .push(("../../n1/data/epoch".into(), b"7".to_vec()));
        let judgement = Judgement {
            failures: vec![Failure {
                checker: "replicas".into(),
                kind: warren_model::FailureKind::Safety,
                stage: warren_model::Stage::Healed,
                role: Some("leader".into()),
                node: Some("n1".into()),
                evidence: vec!["x=1 on n1, x=2 on n2".into()],
                normalised: "x".into(),
                signature: "1f2e3d4c".into(),
            }],
            ..Judgement::default()
        };
        let text = FindingText {
            number: 0,
            signature: "1f2e3d4c".into(),
            confirmed: "2 of 3".into(),
            reproduce: "warren replay f -n 5".into(),
            file: "f".into(),
            strategy: "crashfuzz".into(),
            why: "new fault id".into(),
            campaign_seed: 1,
            execs: 7,
            at_ms: 61_000,
        };
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("000000");
        write_finding(&folder, &text, &product, &judgement).unwrap();
        write_finding(&folder, &text, &product, &judgement).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(
            FaultSequence::from_text(&read("sequence.toml")).unwrap(),
            child
        );
        assert_eq!(
            Some(FaultSequence::from_text(&read("matched.toml")).unwrap()),
            product.record.matched
        );
        let t = read("timeline.txt");
        assert!(t.contains("fault 1: crash") && t.contains(">>"), "{t}");
        let e = read("evidence.txt");
        for part in [
            "2 of 3",
            "warren replay f -n 5",
            "x=1 on n1",
            "after 61 s",
            "replicas (safety, healed) at n1, leader",
        ] {
            assert!(e.contains(part), "{part} not in {e}");
        }
        assert_eq!(read("logs/n1.log"), "a log line\n");
        assert_eq!(read("collected/n1/data/epoch"), "7");
        let record: warren_model::RunRecord = serde_json::from_str(&read("record.json")).unwrap();
        assert_eq!(record, product.record);
    }
}
