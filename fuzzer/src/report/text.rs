//! A finding as text for a terminal. Pure.

use super::read::Finding;
use crate::text::one_line;
use std::fmt::Write;

/// Rows of the timeline shown; the middle of a longer one is left out.
const ROWS: usize = 120;
/// Longest line, in characters.
const WIDTH: usize = 220;

/// The report.
#[must_use]
pub fn text(f: &Finding) -> String {
    let mut out = format!("{}\n", one_line(&f.title()));
    let mut row = |key: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {key:<16}{}", one_line(value));
    };
    match &f.sheet {
        Some(s) => {
            let found = &s.found;
            if let Some(known) = &found.known {
                row("known", known);
            }
            if let Some(alike) = found.alike_text() {
                row("fails also as", &alike);
            }
            row("confirmed", &found.confirmed);
            row(
                "found",
                &format!(
                    "by {} (seed {}), run {}, after {} s of fuzzing",
                    found.strategy,
                    found.campaign_seed,
                    found.execs,
                    found.at_ms / 1000
                ),
            );
            row("because", &found.why);
            for (key, value) in found.environment.rows() {
                row(key, &value);
            }
            row(
                "faults",
                &format!("{} asked, {} injected", s.asked, s.faults.len()),
            );
            for (i, fault) in s.faults.iter().enumerate() {
                row("", &format!("{}  {fault}", i + 1));
            }
            if let Some(n) = &s.not_injected {
                row("", &format!("the rest did not happen: {n}"));
            }
        }
        None => {
            for (key, name) in [
                ("confirmed", "confirmed"),
                ("why this sequence", "because"),
                ("faults", "faults"),
            ] {
                if let Some(value) = f.told(key) {
                    row(name, value);
                }
            }
            row("", "(written by an earlier Warren: no finding.json)");
        }
    }
    section(&mut out, "what failed", &f.failures_text());
    section(
        &mut out,
        "timeline (all of it, with the points around the faults: timeline.txt)",
        &shortened(&f.timeline).join("\n"),
    );
    commands(&mut out, "reproduce", &reproduce(f));
    let minimise = f.sheet.iter().map(|s| s.found.minimise.clone());
    commands(&mut out, "minimise", &minimise.collect::<Vec<_>>());
    section(
        &mut out,
        &format!("files in {}", f.folder.display()),
        &f.files.join("\n"),
    );
    out
}

fn section(out: &mut String, title: &str, body: &str) {
    if body.trim().is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", one_line(title));
    for line in body.lines() {
        let line = line
            .strip_prefix("    ")
            .map_or_else(|| line.to_owned(), |l| format!("  {l}"));
        let _ = writeln!(out, "{}", format!("  {}", clip(&line)).trim_end());
    }
}

/// Commands are there to be copied: whole, however long.
fn commands(out: &mut String, title: &str, lines: &[String]) {
    let mut lines = lines.iter().filter(|l| !l.trim().is_empty()).peekable();
    if lines.peek().is_some() {
        let _ = writeln!(out, "\n{title}");
    }
    for line in lines {
        let _ = writeln!(out, "  {}", one_line(line));
    }
}

/// Nothing of a target's reaches the terminal as a control character.
fn clip(line: &str) -> String {
    crate::text::clip(&one_line(line), WIDTH)
}

/// The first and the last rows of a long timeline.
#[must_use]
pub fn shortened(rows: &[String]) -> Vec<String> {
    if rows.len() <= ROWS {
        return rows.to_vec();
    }
    let half = ROWS / 2;
    let mut out = rows[..half].to_vec();
    out.push(format!("... {} rows left out ...", rows.len() - 2 * half));
    out.extend_from_slice(&rows[rows.len() - half..]);
    out
}

fn reproduce(f: &Finding) -> Vec<String> {
    let mut out = Vec::new();
    let script = f.folder.join("reproduce.sh");
    if f.files.iter().any(|n| n == "reproduce.sh") {
        let word = script.display().to_string();
        out.push(crate::campaign::folder::shell_line(&[word]));
    }
    let command = f.sheet.as_ref().map(|s| s.found.reproduce.as_str());
    out.extend(command.or(f.told("reproduce")).map(str::to_owned));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::finding::{FindingText, Sheet};
    use warren_model::{Judgement, PhaseTimes};

    /// Half a command is another command.
    #[test]
    fn commands_are_whole_however_long() {
        let command = |verb: &str| format!("warren {verb} /{}", "x".repeat(300));
        let (replay, tmin) = (command("replay"), command("tmin"));
        let of_today = Finding {
            sheet: Some(Sheet {
                version: 1,
                found: FindingText {
                    reproduce: replay.clone(),
                    minimise: tmin.clone(),
                    ..FindingText::default()
                },
                faults: vec![],
                asked: 0,
                not_injected: None,
                judgement: Judgement::default(),
                warnings: vec![],
                times_ms: PhaseTimes::default(),
            }),
            ..Finding::default()
        };
        let of_the_first_form = Finding {
            evidence: format!("finding 000003\nreproduce: {replay}\n\nx [y]\n"),
            ..Finding::default()
        };
        for (what, f, wanted) in [
            ("today's", of_today, vec![&replay, &tmin]),
            ("the first form's", of_the_first_form, vec![&replay]),
        ] {
            let text = text(&f);
            for command in wanted {
                let line = format!("\n  {command}\n");
                assert!(text.contains(&line), "{what}: no `{command}` in\n{text}");
            }
        }
    }

    #[test]
    fn a_long_timeline_loses_its_middle() {
        let rows: Vec<String> = (0..300).map(|i| format!("row {i}")).collect();
        let short = shortened(&rows);
        assert_eq!(short.len(), ROWS + 1);
        assert_eq!(
            (short[0].as_str(), short[ROWS].as_str()),
            ("row 0", "row 299")
        );
        assert_eq!(short[60], "... 180 rows left out ...");
        assert_eq!(shortened(&rows[..3]), rows[..3]);
    }

    #[test]
    fn no_control_characters_reach_the_terminal() {
        // In a failed check, in the title, in a row.
        for evidence in [
            "finding 000003, signature x\n\nreplicas (safety) [x]\n    a\u{1b}[31mb\u{7}\n",
            "finding 000003, signature x\n\nreplicas\u{1b} (safety) [x]\n    a\n",
            "finding 000003, signature x\nfaults: \u{1b}[31m\n\nreplicas (safety) [x]\n    a\n",
        ] {
            let f = Finding {
                evidence: evidence.into(),
                ..Finding::default()
            };
            let text = text(&f);
            assert!(text.starts_with("finding 000003: replicas"), "{text}");
            assert!(text.contains("(safety) [x]\n"), "{text}");
            assert!(
                !text.chars().any(|c| c.is_control() && c != '\n'),
                "{text:?}"
            );
        }
    }
}
