//! What `warren tmin` prints and writes: a line per candidate, the table at the end, the heads of the files. Pure: values in, text out.

use super::candidate::{Candidate, lines};
use super::exchange::{NeverFailed, Told, Verdict};
use super::facts::Facts;
use super::machine::Minimiser;
use std::fmt::Write;

/// A line for the terminal.
#[must_use]
pub fn told(t: &Told) -> String {
    match t {
        Told::Learned {
            signature,
            k,
            n,
            bar,
        } => format!(
            "fails with signature {signature} in {k} of {n} replays; a candidate must show it in {} of {} tries",
            bar.needed, bar.tries
        ),
        Told::Step(s) => {
            let verdict = match s.verdict {
                Verdict::Kept => "kept",
                Verdict::NotKept => "not kept",
                Verdict::Undecided => "undecided (the bound was reached)",
            };
            let mut out = format!(
                "step {:>3}: {}: {} of {}: {verdict}",
                s.number, s.what, s.k, s.n
            );
            if s.unclear > 0 {
                let _ = write!(
                    out,
                    "; {} could not tell or did not come to all faults",
                    s.unclear
                );
            }
            if !s.others.is_empty() {
                let others: Vec<&str> = s.others.iter().map(String::as_str).collect();
                let _ = write!(out, "; another failure: {}", others.join(", "));
            }
            out
        }
    }
}

/// Why there is nothing to minimise, with the way out.
#[must_use]
pub fn never_failed(name: &str, never: &NeverFailed, signature: Option<&str>) -> String {
    let runs = never.runs;
    if never.others.is_empty() {
        return format!(
            "{name} did not fail in {runs} replays: there is nothing to minimise\n  \
             give more replays with -n, the seed of the campaign with -s, and the flags the campaign had; try `warren replay` first"
        );
    }
    let others: Vec<String> = never
        .others
        .iter()
        .map(|(s, n)| format!("{s} ({n} of {runs})"))
        .collect();
    format!(
        "{name} did not fail with signature {} in {runs} replays, but with {}\n  \
         name the one to keep with --signature, or give more replays with -n",
        signature.unwrap_or("?"),
        others.join(", ")
    )
}

/// The end: before and after, the result, its nearest passing neighbour, how to run it.
#[must_use]
pub fn table(
    m: &Minimiser,
    given: &Candidate,
    given_facts: &Facts,
    commands: &[(&str, String)],
) -> String {
    let best = m.best();
    let (gk, gn) = m.given();
    let (k, n) = m.result();
    let mut out = String::new();
    let width = given.sequence.kinds().len().max(22) + 2;
    let _ = writeln!(out, "\n{:<12}{:<width$}after", "", "before");
    let row = |out: &mut String, what: &str, a: String, b: String| {
        let _ = writeln!(out, "{what:<12}{a:<width$}{b}");
    };
    row(
        &mut out,
        "faults",
        given.sequence.faults.len().to_string(),
        best.candidate.sequence.faults.len().to_string(),
    );
    row(
        &mut out,
        "kinds",
        given.sequence.kinds(),
        best.candidate.sequence.kinds(),
    );
    row(
        &mut out,
        "shows in",
        format!("{gk} of {gn}"),
        format!("{k} of {n}{}", since(m)),
    );
    row(
        &mut out,
        "signature",
        m.signature().unwrap_or("?").to_owned(),
        m.signature().unwrap_or("?").to_owned(),
    );
    let _ = writeln!(
        out,
        "runs        {} of {}{}",
        m.spent(),
        m.bound(),
        if m.is_over() { "" } else { " (not finished)" }
    );
    let _ = writeln!(
        out,
        "\nfaults {} -> {}, shows in {k} of {n} (numbered as in the given sequence)",
        given.sequence.faults.len(),
        best.candidate.sequence.faults.len()
    );
    let facts = if best.facts.faults.is_empty() {
        given_facts
    } else {
        &best.facts
    };
    for line in lines(&best.candidate, facts) {
        let _ = writeln!(out, "  {line}");
    }
    match m.neighbour() {
        Some((_, changes, text)) => {
            let _ = writeln!(
                out,
                "nearest passing neighbour ({changes} change{}):",
                if changes == 1 { "" } else { "s" }
            );
            for line in text.lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
        None => out.push_str("no candidate passed every time: there is no passing neighbour\n"),
    }
    for (what, command) in commands {
        let _ = writeln!(out, "{what:<11}{command}");
    }
    out
}

/// What its k of n is worth: tries of a candidate end at the first that fails, so until it is replayed the rate says too much.
#[must_use]
pub fn since(m: &Minimiser) -> &'static str {
    if m.replayed() {
        ""
    } else {
        " (when it was kept; not replayed since)"
    }
}

/// The result as a file: what it is in comments, then the sequence.
#[must_use]
pub fn result_text(m: &Minimiser, from: &str, faults: usize) -> String {
    let best = m.best();
    let (k, n) = m.result();
    let mut head = format!(
        "# Minimised by `warren tmin` from {}\n# faults {faults} -> {}, signature {}, shows in {k} of {n}{}, {} runs{}\n",
        crate::text::one_line(from),
        best.candidate.sequence.faults.len(),
        m.signature().unwrap_or("?"),
        since(m),
        m.spent(),
        if m.is_over() { "" } else { ", not finished" }
    );
    for line in lines(&best.candidate, &best.facts) {
        let _ = writeln!(head, "# fault {}", crate::text::one_line(&line));
    }
    head + &best.candidate.sequence.to_text()
}

/// The nearest passing neighbour as a file, if there is one.
#[must_use]
pub fn neighbour_text(m: &Minimiser, result: &str) -> Option<String> {
    let (c, changes, text) = m.neighbour()?;
    let mut head = format!(
        "# Passes where {} fails with {}: {changes} change{}\n",
        crate::text::one_line(result),
        m.signature().unwrap_or("?"),
        if changes == 1 { "" } else { "s" }
    );
    for line in text.lines() {
        let _ = writeln!(head, "# {}", crate::text::one_line(line));
    }
    Some(head + &c.sequence.to_text())
}
