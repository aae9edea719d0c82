//! A finding as Markdown, fit to paste into an issue of the system that was tested: no path of this machine, no mention of users, no
//! more than an issue can hold. Pure.

use super::read::Finding;
use super::text::shortened;
use crate::campaign::folder::{DURABLE, shell_line};
use std::fmt::Write;
use std::path::Path;

/// Characters of a section; an issue on the usual hosts ends at 65,536.
const SECTION: usize = 14_000;

/// The flag of a dictionary of one's own.
const DICTIONARY: &str = "-x";

/// The report.
#[must_use]
pub fn markdown(f: &Finding) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "## {}\n", escaped(&f.title()));
    match &f.sheet {
        Some(s) => {
            let found = &s.found;
            let _ = writeln!(
                out,
                "{} under {} injected fault{}. Confirmed: {}.\n",
                escaped(&first_evidence(f)),
                s.faults.len(),
                if s.faults.len() == 1 { "" } else { "s" },
                escaped(&found.confirmed),
            );
            out.push_str("| | |\n|---|---|\n");
            let flags = |k: &&str| *k != "flags";
            for (key, value) in found.environment.rows().iter().filter(|(k, _)| flags(k)) {
                let _ = writeln!(out, "| {key} | {} |", cell(value));
            }
            let _ = writeln!(out, "| seed | {} |", found.campaign_seed);
            if let Some(known) = &found.known {
                let _ = writeln!(out, "| known as | {} |", cell(known));
            }
            if let Some(alike) = found.alike_text() {
                let _ = writeln!(out, "| fails also as | {} |", cell(&alike));
            }
            if !s.faults.is_empty() {
                out.push_str("\n### Faults, in order\n\n");
                for (i, fault) in s.faults.iter().enumerate() {
                    let _ = writeln!(out, "{}. {}", i + 1, code(fault));
                }
            }
        }
        None => {
            for key in ["confirmed", "faults"] {
                if let Some(value) = f.told(key) {
                    let _ = writeln!(out, "{key}: {}  ", escaped(value));
                }
            }
        }
    }
    fenced(&mut out, "What was observed", "text", &f.failures_text());
    fenced(
        &mut out,
        "Timeline",
        "text",
        &shortened(&f.timeline).join("\n"),
    );
    folded(&mut out, "Logs of the nodes around the faults", &f.around);
    out.push_str("\n### Reproduce\n\n");
    let (name, sequence) = &f.sequence;
    let _ = writeln!(
        out,
        "Save this as {} and run the command below it, with Warren{}:",
        code(name),
        f.sheet
            .as_ref()
            .map_or_else(String::new, |s| format!(" {}", s.found.environment.warren))
    );
    fence(&mut out, "toml", sequence);
    fence(&mut out, "sh", &command(f, name));
    if let Some(dictionary) = dictionary(f) {
        let _ = writeln!(
            out,
            "\n{} is a dictionary of one's own: attach it, the command needs it.",
            code(&dictionary)
        );
    }
    if !f.patterns.is_empty() {
        folded(
            &mut out,
            "The same as patterns, for other versions and builds",
            &f.patterns,
        );
    }
    out
}

/// The replay command without what is this machine's; a dictionary by its name alone.
fn command(f: &Finding, name: &str) -> String {
    let mut words: Vec<String> = vec!["warren".into(), "replay".into(), name.into()];
    if let Some(s) = &f.sheet {
        let mut flags = s.found.environment.flags.iter();
        while let Some(flag) = flags.next() {
            if ["--targets", "--java", "--level"].contains(&flag.as_str()) {
                flags.next();
            } else if flag == DICTIONARY {
                flags.next();
                words.push(flag.clone());
                words.extend(dictionary(f));
            } else {
                words.push(flag.clone());
            }
        }
        words.extend(f.durable.then(|| DURABLE.to_owned()));
        words.extend(["-s".into(), s.found.campaign_seed.to_string()]);
    }
    words.extend(["-n".into(), "5".into()]);
    shell_line(&words)
}

/// The file name of the dictionary that the campaign was given.
fn dictionary(f: &Finding) -> Option<String> {
    let flags = &f.sheet.as_ref()?.found.environment.flags;
    let at = flags.iter().position(|flag| flag == DICTIONARY)?;
    let name = Path::new(flags.get(at + 1)?).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

fn first_evidence(f: &Finding) -> String {
    let text = f.sheet.as_ref().and_then(|s| {
        let failures = &s.judgement.failures;
        let own = failures.iter().find(|x| x.signature == s.found.signature);
        own.or(failures.first())?.evidence.first().cloned()
    });
    let text = text.unwrap_or_else(|| "A check failed".into());
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

fn fenced(out: &mut String, title: &str, language: &str, body: &str) {
    if body.trim().is_empty() {
        return;
    }
    let _ = writeln!(out, "\n### {title}");
    fence(out, language, body);
}

fn folded(out: &mut String, title: &str, body: &str) {
    if body.trim().is_empty() {
        return;
    }
    let _ = writeln!(out, "\n<details><summary>{title}</summary>");
    fence(out, "text", body);
    out.push_str("\n</details>\n");
}

/// A block that its content cannot end, and no longer than a section.
fn fence(out: &mut String, language: &str, body: &str) {
    let clean: String = body
        .chars()
        .filter(|c| !c.is_control() || *c == '\n' || *c == '\t')
        .collect();
    let (kept, more) = match clean.char_indices().nth(SECTION) {
        None => (clean.as_str(), ""),
        // At the end of a line where there is one.
        Some((at, _)) => {
            let end = clean[..at].rfind('\n').unwrap_or(at);
            (
                &clean[..end],
                "\n... cut here; the rest is in the finding's folder",
            )
        }
    };
    let longest = kept
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let ticks = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(
        out,
        "\n{ticks}{language}\n{}{more}\n{ticks}",
        kept.trim_end()
    );
}

/// One line as code: nothing in it is markup or a mention.
fn code(text: &str) -> String {
    let plain = crate::ui::one_line(text);
    let longest = plain
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let ticks = "`".repeat(longest + 1);
    if plain.starts_with('`') || plain.ends_with('`') {
        format!("{ticks} {plain} {ticks}")
    } else {
        format!("{ticks}{plain}{ticks}")
    }
}

/// The same within a table, where a bar ends a cell even in code.
fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// Text in a line: markup, mentions and tags lose their meaning.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' => {
                out.push('\\');
                out.push(c);
            }
            // A mention would call a stranger.
            '@' => out.push_str("@\u{200b}"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::finding::{Environment, FindingText, Sheet};
    use warren_model::Judgement;

    fn finding() -> Finding {
        Finding {
            folder: "/home/someone/out/default/findings/000000".into(),
            sheet: Some(Sheet {
                version: 1,
                found: FindingText {
                    signature: "1f2e3d4c".into(),
                    confirmed: "showed again in 2 of 3 replays".into(),
                    reproduce: "/home/someone/warren replay x".into(),
                    file: "/home/someone/x".into(),
                    campaign_seed: 9,
                    environment: Environment {
                        target: "a|b".into(),
                        flags: ["--targets", "/home/someone/t", "--paper"]
                            .map(str::to_owned)
                            .to_vec(),
                        program: "/home/someone/warren".into(),
                        targets: "/home/someone/t".into(),
                        ..Environment::default()
                    },
                    ..FindingText::default()
                },
                faults: vec!["crash @executing at `x`".into()],
                asked: 1,
                not_injected: None,
                judgement: Judgement::default(),
                warnings: vec![],
                times_ms: warren_model::PhaseTimes::default(),
            }),
            evidence: "head\n\nreplicas [1f2e3d4c]\n    ```` <b> @someone\n".into(),
            timeline: vec!["1.0 | 2.0 | ** fault".into()],
            around: "x".repeat(40_000),
            sequence: ("matched.toml".into(), "version = 1\n".into()),
            patterns: "# p\n".into(),
            durable: false,
            files: vec![],
        }
    }

    /// What the failure needs to show again stands in the command, and nothing of this machine.
    #[test]
    fn the_command_has_the_restart_and_the_dictionary() {
        let mut f = finding();
        f.durable = true;
        if let Some(s) = &mut f.sheet {
            s.found.environment.flags =
                ["-x", "/home/someone/my.dict", "--java", "/home/someone/j"]
                    .map(str::to_owned)
                    .to_vec();
        }
        let text = markdown(&f);
        let command = "warren replay matched.toml -x my.dict --durable -s 9 -n 5";
        assert!(text.contains(command), "{text}");
        assert!(text.contains("`my.dict` is a dictionary"), "{text}");
        assert!(!text.contains("/home/someone"), "{text}");
    }

    #[test]
    fn fit_for_an_issue() {
        let text = markdown(&finding());
        assert!(!text.contains("/home/someone"), "{text}");
        assert!(text.len() < 60_000);
        assert!(text.contains("`````text\nreplicas"), "{text}");
        assert!(text.contains("warren replay matched.toml --paper -s 9 -n 5"));
        assert!(text.contains("| target | `a\\|b` |"), "{text}");
        assert!(text.contains("1. `` crash @executing at `x` ``"), "{text}");
        assert!(text.contains("cut here"));
    }

    #[test]
    fn nothing_is_markup_that_was_none() {
        assert_eq!(escaped("a_b <i> @x #1"), "a\\_b \\<i\\> @\u{200b}x \\#1");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("a\u{1b}\nb"), "`a  b`");
    }
}
