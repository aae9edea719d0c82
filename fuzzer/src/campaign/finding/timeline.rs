//! `timeline.txt`: what happened, in order: phases, processes, faults with the points around them, the operations that matter, and
//! the failed checks. Pure: a run's product in, text out. [`rows_of`] reads it back for `warren report`.

use super::ops;
use std::fmt::Write;
use warren_model::{
    At, EventFlags, Fault, HistoryEvent, Injected, Judgement, LogMoment, Member, NodeName,
    RunProduct, Trace, TraceEvent, Who,
};

/// Points shown before and after each fault.
const AROUND: usize = 12;
/// Frames shown of a point's stack; of the point of a fault, so many more.
const FRAMES: usize = 2;
const FRAMES_OF_FAULT: usize = 6;

/// A row: time, rank among rows of one time, text with its mark.
type Row = (u64, u8, String);

/// The text. Times are ms since the first launch; the second column counts as evidence.txt does, from the history's first line.
#[must_use]
pub fn timeline(product: &RunProduct, judgement: &Judgement) -> String {
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
    let history_zero = product.history.first().map(ops::time);
    let mut rows = faults(product);
    rows.extend(processes(product));
    rows.extend(phases(product));
    rows.extend(points(product));
    rows.sort_by_key(|(t, rank, _)| (*t, *rank));
    let breaks: Vec<u64> = rows
        .iter()
        .filter(|(_, _, text)| !is_point(text))
        .map(|(t, _, _)| *t)
        .collect();
    rows.extend(ops::rows(product, judgement, &breaks));
    rows.sort_by_key(|(t, rank, _)| (*t, *rank));

    let mut out = String::from(
        "ms since the first launch | ms as in evidence.txt (since the history began) | what\n\
         == phase   ** fault   >> its point   -- process   op operation of a client   !! failed check\n\
         other lines are I/O points around the faults: node role kind place stack n=occurrence, peer or file ( ~ while a thread was held)\n",
    );
    for (t, _, text) in rows {
        let _ = writeln!(
            out,
            "{} | {} | {text}",
            ms(t, zero),
            history_zero.map_or_else(String::new, |h| ms(t, h)).trim()
        );
    }
    if let Some(n) = &record.not_injected {
        let _ = writeln!(
            out,
            "**  fault {} did not happen: {}: {} ({} arrivals of its stack)",
            n.index + 1,
            n.reason,
            n.detail,
            n.nearest
        );
    }
    for f in &judgement.failures {
        let _ = writeln!(out, "!!  FAILED: {}", super::headline(f));
        for line in f.evidence.iter().take(3) {
            let _ = writeln!(out, "!!      {line}");
        }
    }
    out
}

/// ms with three digits; before zero: with a minus.
fn ms(t: u64, zero: u64) -> String {
    let us = t.abs_diff(zero) / 1000;
    let sign = if t < zero && us > 0 { "-" } else { "" };
    format!("{:>12}", format!("{sign}{}.{:03}", us / 1000, us % 1000))
}

/// The rows that tell the story, without the points around the faults; of a timeline written by any version.
#[must_use]
pub fn rows_of(text: &str) -> Vec<&str> {
    const MARKS: [&str; 6] = ["** ", "-- ", ">> ", "==  ", "op ", "!! "];
    let marked = |what: &str| MARKS.iter().any(|m| what.starts_with(m));
    text.lines()
        .filter(|l| marked(l) || l.starts_with("fault ") || marked(without_times(l)))
        .collect()
}

/// What stands after the times: two columns parted by bars, or one number in timelines of Warren 0.1.0's first form.
fn without_times(line: &str) -> &str {
    let mut bars = line.splitn(3, "| ");
    if let (Some(_), Some(_), Some(what)) = (bars.next(), bars.next(), bars.next()) {
        return what;
    }
    line.trim_start()
        .split_once(' ')
        .map_or("", |(_, what)| what.trim_start())
}

fn is_point(row: &str) -> bool {
    row.starts_with("    ") || row.starts_with(" ~")
}

fn faults(product: &RunProduct) -> Vec<Row> {
    let mut rows = Vec::new();
    for i in &product.record.injected {
        let (n, what) = (i.index + 1, &i.matched.fault);
        rows.push((
            i.t_reached,
            1,
            format!(
                "**  fault {n}: {what}: its moment is reached{}{}",
                drift(i),
                struck(i, &product.trace)
            ),
        ));
        let mut text = format!("**  fault {n}: {what}: done");
        if let Some(k) = &i.kill {
            #[allow(clippy::cast_precision_loss)] // microseconds of one kill
            let (signal, gone) = (k.signal_us as f64 / 1000.0, k.reap_us as f64 / 1000.0);
            let _ = write!(
                text,
                " (SIGKILL {signal:.2} ms after the point, gone {gone:.1} ms later)"
            );
        }
        if i.late {
            text.push_str(" (late: its thread was held for too long)");
        }
        // After the process's own row of the same moment.
        rows.push((i.t_done, 4, text));
    }
    rows
}

/// Of a fault at a time: what its nodes had passed last.
fn struck(i: &Injected, trace: &Trace) -> String {
    let At::After(ms) = i.matched.at else {
        return String::new();
    };
    let nodes: Vec<&NodeName> = match &i.matched.fault {
        Fault::Crash {
            who: Who::Node(n), ..
        } => vec![n],
        Fault::PartitionStart { who, .. } => {
            let all = who.cut.iter();
            all.filter_map(|m| match m {
                Member::Node(n) => Some(n),
                Member::Executing | Member::Peer | Member::Role(_) => None,
            })
            .collect()
        }
        _ => Vec::new(),
    };
    let before = trace.events.partition_point(|e| e.t_ns < i.t_reached);
    let passed = trace.events.get(..before).unwrap_or_default();
    let mut text = format!(" ({ms} ms after GO or the fault before");
    for node in nodes {
        let of = |e: &&TraceEvent| trace.nodes.get(usize::from(e.node)) == Some(node);
        if let Some(e) = passed.iter().rev().find(of) {
            let stack = stack_text(trace, e.stack, FRAMES);
            let _ = write!(
                text,
                "; {node} had passed {} {} {stack} n={} last",
                e.kind, e.place, e.n
            );
        }
    }
    text.push(')');
    text
}

fn drift(i: &Injected) -> String {
    i.drift.map_or_else(String::new, |(asked, accepted)| {
        format!(" (drift: occurrence {accepted} taken for {asked})")
    })
}

fn processes(product: &RunProduct) -> Vec<Row> {
    let record = &product.record;
    let mut rows = Vec::new();
    for i in &record.incarnations {
        let who = format!("{} (process {})", i.node, i.number);
        rows.push((i.spawned_ns, 3, format!("--  {who} launched")));
        // The role is the last one of its life, so it stands where that ends.
        let role = i.role.as_ref();
        if let Some(t) = i.ready_ns {
            let lives = role.filter(|_| i.ended_ns.is_none());
            let role = lives.map_or_else(String::new, |r| format!(" ({r} at the end of the run)"));
            rows.push((t, 3, format!("--  {who} serves{role}")));
        }
        if let Some(t) = i.ended_ns {
            let role = role.map_or_else(String::new, |r| format!(", last known as {r}"));
            rows.push((t, 3, format!("--  {who} ended{role}")));
        }
    }
    for x in &record.exits {
        let how = match (x.status, x.signal) {
            (Some(s), _) => format!("with status {s}"),
            (None, Some(s)) => format!("by signal {s}"),
            (None, None) => "in an unknown way".to_owned(),
        };
        rows.push((
            x.t_ns,
            3,
            format!(
                "--  {} (process {}) ended BY ITSELF {how}, phase {}",
                x.node, x.incarnation, x.phase
            ),
        ));
    }
    rows
}

/// From the executor's marks; a run without them has those of the workload.
fn phases(product: &RunProduct) -> Vec<Row> {
    let marked: Vec<Row> = product
        .log_marks
        .iter()
        .filter_map(|m| match m.at {
            LogMoment::Phase(p) => Some((m.t_ns, 0, format!("==  phase {p}{}", meaning(p)))),
            LogMoment::Durability => Some((
                m.t_ns,
                0,
                "==  all nodes have been killed, and are started once more: is everything still there?".into(),
            )),
            LogMoment::Fault(_) | LogMoment::Starts => None,
        })
        .collect();
    if !marked.is_empty() {
        return marked;
    }
    product
        .history
        .iter()
        .filter_map(|h| match h {
            HistoryEvent::Phase { phase, t_ns } => {
                Some((*t_ns, 0, format!("==  phase {phase}{}", meaning(*phase))))
            }
            _ => None,
        })
        .collect()
}

fn meaning(phase: warren_model::Phase) -> &'static str {
    use warren_model::Phase as P;
    match phase {
        P::Start => ": nodes are launched",
        P::Setup => ": all serve; the clients connect",
        P::Test => ": GO, clients write and read, faults are injected",
        P::Degraded => ": cuts healed, the dead left dead: does it serve?",
        P::Heal => ": the dead are started, the cluster becomes stable",
        P::Final => ": clients end, what each node holds is read",
    }
}

fn points(product: &RunProduct) -> Vec<Row> {
    let trace = &product.trace;
    let mut shown = vec![false; trace.events.len()];
    for i in &product.record.injected {
        let at = i
            .event
            .unwrap_or_else(|| trace.events.partition_point(|e| e.t_ns < i.t_reached));
        let from = at.saturating_sub(AROUND);
        let to = (at + AROUND + 1).min(shown.len());
        shown.get_mut(from..to).unwrap_or_default().fill(true);
    }
    trace
        .events
        .iter()
        .zip(&shown)
        .filter(|(_, s)| **s)
        .map(|(e, _)| (e.t_ns, 2, point_line(trace, e)))
        .collect()
}

fn point_line(trace: &Trace, e: &TraceEvent) -> String {
    let node = trace
        .nodes
        .get(usize::from(e.node))
        .map_or_else(|| "?".to_owned(), ToString::to_string);
    let (mark, depth) = if e.flags.has(EventFlags::MATCHED) {
        (">>", FRAMES_OF_FAULT)
    } else if e.flags.has(EventFlags::DURING) {
        (" ~", FRAMES)
    } else {
        ("  ", FRAMES)
    };
    let mut text = format!(
        "{mark}  {node} {} {} {} {} n={}",
        trace.role(e).unwrap_or("-"),
        e.kind,
        e.place,
        stack_text(trace, e.stack, depth),
        e.n
    );
    for part in [trace.text(e.peer), trace.text(e.detail)]
        .into_iter()
        .flatten()
    {
        text.push(' ');
        text.push_str(part);
    }
    text
}

/// The innermost frames, `callee < caller`; a line that is not known is left out.
#[must_use]
pub fn stack_text(trace: &Trace, stack: warren_model::StackId, depth: usize) -> String {
    let Some(frames) = trace.stacks.get(&stack) else {
        return stack.to_string();
    };
    frames
        .iter()
        .take(depth)
        .map(|f| f.strip_suffix(":-1").unwrap_or(f))
        .collect::<Vec<_>>()
        .join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_on_both_sides_of_zero() {
        assert_eq!(ms(5_432_100, 0).trim(), "5.432");
        assert_eq!(ms(0, 2_000_000).trim(), "-2.000");
        assert_eq!(ms(7, 7).trim(), "0.000");
    }

    #[test]
    fn a_fault_at_a_time_says_where_it_struck() {
        use crate::search::sim::Sim;
        use warren_model::{CrashStyle, FaultSequence};
        let crash = Fault::Crash {
            who: Who::Node("n2".into()),
            style: CrashStyle::Process,
        };
        let sequence = FaultSequence::empty("sim").with(At::After(300), crash);
        let product = Sim::new(3, 1).run(&sequence);
        let i = &product.record.injected[0];
        let text = struck(i, &product.trace);
        assert!(
            text.starts_with(" (300 ms after GO or the fault before; n2 had passed ")
                && text.ends_with("last)"),
            "{text}"
        );
        let all = timeline(&product, &Judgement::default());
        assert!(
            all.contains(&format!("its moment is reached{text}")),
            "{all}"
        );
        let mut exact = i.clone();
        exact.matched.at = At::AtOnce;
        assert_eq!(struck(&exact, &product.trace), "");
    }

    #[test]
    fn the_story_of_old_and_new_timelines() {
        let old = "ms since the beginning; points: node role kind place stack n\n\
                   \x20       0.000  --  c1 #1 launched\n\
                   \x20     767.560      c3 follower msg-receive after 8c99407d121e118a canary.Link.receive:51 n=8\n\
                   \x20     792.990  **  fault 1: crash reached\n\
                   \x20     792.990  >>  c1 leader msg-send before 89c195d44eaaf3e4 canary.Link.send:-1 n=1\n\
                   \x20    1352.937   ~  c1 - receive after 15d69f309e27cc13 canary.ClientPort.serve:55 n=21\n\
                   fault 2 did not happen: bound: x (0 arrivals of its stack)\n";
        assert_eq!(rows_of(old).len(), 4);
        let new = "ms since the first launch | ms as in evidence.txt (since the history began) | what\n\
                   == phase   ** fault   >> its point   -- process   op operation of a client   !! failed check\n\
                   other lines are I/O points around the faults\n\
                   \x20      0.000 | -10.000 | --  c1 (process 1) launched\n\
                   \x20      2.000 |  | ==  phase test\n\
                   \x20      3.000 | 1.000 |     c3 follower force before A.b n=1\n\
                   \x20      3.100 | 1.100 | op  #5 client-1#2 at c1: write x=1: ok\n\
                   \x20      3.200 | 1.200 |  ~  c3 follower force after A.b n=1\n\
                   !!  FAILED: replicas\n";
        let rows = rows_of(new);
        assert_eq!(rows.len(), 4, "{rows:#?}");
    }
}
