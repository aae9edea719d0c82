//! `around-faults.txt`: what each node logged just before and after each fault. Pure: logs and marks in, text out.
//!
//! The executor notes how far each log had got when a fault was done, so that logs without times are cut as well as others.

use crate::text::{clip, one_line};
use std::fmt::Write;
use warren_feedback::logs::lines;
use warren_model::{LogMark, LogMoment, NodeName, RunProduct};

/// Lines before and after each fault.
const BEFORE: usize = 8;
const AFTER: usize = 15;
/// Longest line shown, in characters.
const WIDTH: usize = 300;

/// The text; says so where the run has no marks.
#[must_use]
pub fn around(product: &RunProduct) -> String {
    let mut out = format!(
        "What the nodes logged around each fault: up to {BEFORE} lines before it was done and {AFTER} after; the whole logs are in logs/.\n\
         A line starting with >>>> is a mark, everything else after the line number is the node's own.\n"
    );
    let marks: Vec<(usize, &LogMark)> = product
        .log_marks
        .iter()
        .enumerate()
        .filter(|(_, m)| matches!(m.at, LogMoment::Fault(_)))
        .collect();
    if marks.is_empty() {
        out.push_str("\nNo fault was done, or this run has no marks.\n");
        return out;
    }
    for (at, mark) in marks {
        let _ = writeln!(out, "\n==== {} ====", name(product, mark.at));
        for (node, log) in &product.logs {
            let Some(offsets) = mark.offsets.get(node) else {
                // The workload's own log is no node's.
                continue;
            };
            for (file, offset) in offsets.iter().enumerate() {
                section(&mut out, product, node, log, file, at, *offset);
            }
        }
    }
    out
}

/// One node's lines around one mark of one of its files, with the marks that lie between them.
fn section(
    out: &mut String,
    product: &RunProduct,
    node: &NodeName,
    log: &str,
    file: usize,
    at: usize,
    offset: usize,
) {
    let lines: Vec<(usize, &str)> = lines(log).collect();
    // A line that was being written belongs before the mark.
    let split = lines.partition_point(|(start, _)| *start < offset);
    let from = split.saturating_sub(BEFORE);
    let to = (split + AFTER).min(lines.len());
    let _ = writeln!(out, "-- {node}");
    if lines.is_empty() {
        out.push_str("       (logged nothing)\n");
    }
    // Marks of the same file in order, by the line they stand before.
    let marks: Vec<(usize, usize)> = product
        .log_marks
        .iter()
        .enumerate()
        .filter_map(|(i, m)| {
            let o = *m.offsets.get(node)?.get(file)?;
            Some((lines.partition_point(|(start, _)| *start < o), i))
        })
        .collect();
    let put_marks = |out: &mut String, line: usize| {
        for (_, i) in marks.iter().filter(|(l, i)| {
            // Those at the edges belong to the lines that are not shown, but for the mark itself.
            *l == line && (*i == at || (line > from && line < to))
        }) {
            let _ = writeln!(out, ">>>>   {}", name(product, product.log_marks[*i].at));
        }
    };
    for (line, (_, text)) in lines.iter().enumerate().take(to).skip(from) {
        put_marks(out, line);
        // The file is there to be looked at on a terminal.
        let text = clip(&one_line(text), WIDTH);
        let _ = writeln!(out, "{:>6} {text}", line + 1);
    }
    put_marks(out, to);
}

fn name(product: &RunProduct, at: LogMoment) -> String {
    match at {
        LogMoment::Phase(p) => format!("phase {p}"),
        LogMoment::Durability => "restart of all nodes".into(),
        LogMoment::Starts => "nodes are started again".into(),
        LogMoment::Fault(i) => {
            let fault = product.record.injected.iter().find(|x| x.index == i);
            let what = fault.map_or_else(String::new, |x| format!(": {}", x.matched.fault));
            format!("fault {}{what}: done", i + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{Phase, RunProduct};

    fn product(log: &str, marks: &[(LogMoment, usize)]) -> RunProduct {
        let mut p = RunProduct::default();
        p.logs.insert("n1".into(), log.to_owned());
        p.logs.insert("workload".into(), "never shown\n".to_owned());
        p.log_marks = marks
            .iter()
            .map(|(at, offset)| LogMark {
                at: *at,
                t_ns: 0,
                offsets: [(NodeName::from("n1"), vec![*offset])].into(),
            })
            .collect();
        p
    }

    #[test]
    fn lines_before_and_after_with_the_marks_between() {
        let log: String = (1..=60).map(|i| format!("line {i:02}\n")).collect();
        let text = around(&product(
            &log,
            &[
                (LogMoment::Phase(Phase::Start), 0),
                (LogMoment::Fault(0), 8 * 30),
                (LogMoment::Phase(Phase::Heal), 8 * 35),
            ],
        ));
        assert!(
            text.contains("\n    30 line 30\n>>>>   fault 1: done\n    31 line 31\n"),
            "{text}"
        );
        assert!(
            text.contains("\n    35 line 35\n>>>>   phase heal\n    36 line 36\n"),
            "{text}"
        );
        assert!(text.contains("line 23\n") && !text.contains("line 22\n"));
        assert!(text.contains("line 45\n") && !text.contains("line 46\n"));
        assert!(!text.contains("never shown"));
    }

    #[test]
    fn edges() {
        // In the middle of a line; at the end; an offset past the end; an empty log; no marks.
        let cut = around(&product("one\ntwo\n", &[(LogMoment::Fault(0), 6)]));
        assert!(cut.contains("2 two\n>>>>   fault 1: done\n"), "{cut}");
        let coloured = around(&product("\u{1b}[31mone\r\n", &[(LogMoment::Fault(0), 0)]));
        assert!(coloured.contains("     1  [31mone"), "{coloured}");
        assert!(
            !coloured.contains(|c: char| c.is_control() && c != '\n'),
            "{coloured:?}"
        );
        let end = around(&product("one\n", &[(LogMoment::Fault(0), 99)]));
        assert!(end.ends_with("1 one\n>>>>   fault 1: done\n"), "{end}");
        let none = around(&product("", &[(LogMoment::Fault(1), 0)]));
        assert!(
            none.ends_with("(logged nothing)\n>>>>   fault 2: done\n"),
            "{none}"
        );
        assert!(around(&RunProduct::default()).contains("no marks"));
    }
}
