//! A finding as Markdown, fit to paste into an issue of the system that was tested: no path of this machine, no mention of users, no
//! more than an issue can hold. Pure.

use super::read::Finding;
use super::text::shortened;
use crate::campaign::folder::{DURABLE, shell_line};
use crate::text::cut;
use std::fmt::Write;
use std::path::Path;
use warren_model::FaultSequence;

/// Characters of an issue on the usual hosts.
const ISSUE: usize = 65_536;
/// Characters of a section whose end may be missing.
const SECTION: usize = 14_000;
/// Characters of a value in the head.
const LINE: usize = 400;
/// Characters of a fault where all of them are too long.
const FAULT: usize = 300;
/// The end of a section that is not whole.
const CUT: &str = "\n... cut here; the rest is in the finding's folder";

/// The flag of a dictionary of one's own.
const DICTIONARY: &str = "-x";

/// The report.
#[must_use]
pub fn markdown(f: &Finding) -> String {
    let head = head(f);
    // First of all what runs it again: a part of that is of no use.
    let again = reproduce(f, ISSUE.saturating_sub(length(&head)));
    let left = ISSUE.saturating_sub(length(&head) + length(&again));
    // The stacks of the faults stand nowhere else.
    let faults = faults(f, left / 2);
    let mut room = Room {
        left: left.saturating_sub(length(&faults)),
        sections: 4,
    };
    let observed = |block: &str| format!("\n### What was observed\n{block}");
    let observed = room.take(|most| section(observed, &f.failures_text(), most));
    let timeline = |block: &str| format!("\n### Timeline\n{block}");
    let rows = shortened(&f.timeline).join("\n");
    let timeline = room.take(|most| section(timeline, &rows, most));
    let around = |block: &str| folded("Logs of the nodes around the faults", block);
    let around = room.take(|most| section(around, &f.around, most));
    let patterns = room.take(|most| patterns(f, most));
    [head, faults, observed, timeline, around, again, patterns].concat()
}

/// What is left for the sections, which share it: what one does not need is the next ones'.
struct Room {
    left: usize,
    sections: usize,
}

impl Room {
    fn take(&mut self, section: impl FnOnce(usize) -> String) -> String {
        let text = section(self.left / self.sections.max(1));
        self.sections = self.sections.saturating_sub(1);
        self.left = self.left.saturating_sub(length(&text));
        text
    }
}

/// Characters, as issues are measured.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Title, what failed, and with what it was found. Each value is cut, so that there is room for the rest.
fn head(f: &Finding) -> String {
    let plain = |text: &str| escaped(&cut(text, LINE));
    let cell = |text: &str| cell(&cut(text, LINE));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "## {}\n", plain(&f.title()));
    match &f.sheet {
        Some(s) => {
            let found = &s.found;
            let _ = writeln!(
                out,
                "{} under {} injected fault{}. Confirmed: {}.\n",
                plain(&first_evidence(f)),
                s.faults.len(),
                if s.faults.len() == 1 { "" } else { "s" },
                plain(&found.confirmed),
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
        }
        None => {
            for key in ["confirmed", "faults"] {
                if let Some(value) = f.told(key) {
                    let _ = writeln!(out, "{key}: {}  ", plain(value));
                }
            }
        }
    }
    out
}

/// The faults as a list; where they are too long, as much of the front of each as there is room for, and then the first ones.
fn faults(f: &Finding, most: usize) -> String {
    const TITLE: &str = "\n### Faults, in order\n\n";
    let all = f.sheet.as_ref().map_or(&[][..], |s| &s.faults[..]);
    const SHORT: &str =
        "The call stacks are cut; they are whole in `matched.toml` of the finding's folder.\n\n";
    let mut room = most.saturating_sub(length(TITLE));
    let items = |width: usize| -> Vec<String> {
        let numbered = all.iter().enumerate();
        numbered
            .map(|(i, fault)| format!("{}. {}\n", i + 1, code(&cut(fault, width))))
            .collect()
    };
    let too_long =
        |text: &[String], room: usize| text.iter().map(|t| length(t)).sum::<usize>() > room;
    let mut title = TITLE.to_owned();
    let mut list = items(usize::MAX);
    if too_long(&list, room) {
        // The number, the ticks and the end of its line stand beside it.
        let beside = 16;
        room = room.saturating_sub(length(SHORT));
        let each = (room / all.len().max(1)).saturating_sub(beside);
        list = items(each.max(FAULT));
        title.push_str(SHORT);
    }
    if too_long(&list, room) {
        let rest = |listed: usize| format!("\n... and {} more\n", all.len() - listed);
        let mut used = length(&rest(0));
        let mut fits = |item: &&String| {
            used += length(item);
            used <= room
        };
        let listed = list.iter().take_while(&mut fits).count();
        list.truncate(listed);
        if listed > 0 {
            list.push(rest(listed));
        }
    }
    if list.is_empty() {
        return String::new();
    }
    title + &list.concat()
}

/// The sequence and the command, both whole.
fn reproduce(f: &Finding, room: usize) -> String {
    let (name, sequence) = &f.sequence;
    let warren = f.sheet.as_ref().map_or_else(String::new, |s| {
        format!(" {}", cut(&s.found.environment.warren, LINE))
    });
    let saved = format!(
        "\n### Reproduce\n\nSave this as {} and run the command below it, with Warren{warren}:\n",
        code(name)
    );
    let own = dictionary(f).map_or_else(String::new, |dictionary| {
        format!(
            "\n{} is a dictionary of one's own: attach it, the command needs it.\n",
            code(&dictionary)
        )
    });
    let left = room.saturating_sub(length(&saved) + length(&own));
    let command = whole(
        str::to_owned,
        "sh",
        &command(f, name),
        left / 2,
        "reproduce.sh",
    );
    let left = left.saturating_sub(length(&command));
    let sequence = whole(str::to_owned, "toml", &bare(sequence), left, name);
    saved + &sequence + &command + &own
}

fn patterns(f: &Finding, most: usize) -> String {
    if f.patterns.trim().is_empty() {
        return String::new();
    }
    let wrap = |block: &str| folded("The same as patterns, for other versions and builds", block);
    // The stacks stand in the list of faults; what else is said there holds for patterns alone.
    let kept: Vec<&str> = f.patterns.lines().filter(|l| !is_stack(l)).collect();
    whole(wrap, "text", &kept.join("\n"), most, "patterns.toml")
}

/// The comment with a fault's call stack: `# fault 1: ...`; `# fault 1 keeps ...` is a note.
fn is_stack(line: &str) -> bool {
    let number = line
        .strip_prefix("# fault ")
        .and_then(|rest| rest.split_once(": "));
    number.is_some_and(|(n, _)| n.bytes().all(|b| b.is_ascii_digit()))
}

/// A sequence without comments: those are the faults' call stacks, which stand in the list of them. What is none stays as it is.
fn bare(text: &str) -> String {
    FaultSequence::from_text(text).map_or_else(|_| text.to_owned(), |s| s.to_text())
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

/// A block that a click opens.
fn folded(title: &str, block: &str) -> String {
    format!("\n<details><summary>{title}</summary>\n{block}\n</details>\n")
}

/// A section whose end may be missing.
fn section(wrap: impl Fn(&str) -> String, body: &str, most: usize) -> String {
    if body.trim().is_empty() {
        return String::new();
    }
    let room = most.min(SECTION).saturating_sub(length(&wrap("")));
    let block = fence("text", body, room);
    if block.is_empty() {
        return block;
    }
    wrap(&block)
}

/// A block that is of no use without its end: where it is too long, a line says from which file it can be had.
fn whole(
    wrap: impl Fn(&str) -> String,
    language: &str,
    body: &str,
    most: usize,
    file: &str,
) -> String {
    let block = wrap(&fence(language, body, usize::MAX));
    let instead = format!(
        "\n{} of the finding's folder is too long to stand here: attach it.\n",
        code(file)
    );
    let fits = |text: &String| length(text) <= most;
    [block, instead].into_iter().find(fits).unwrap_or_default()
}

/// A block that its content cannot end, of so many characters at most; nothing where no line of it has room.
fn fence(language: &str, body: &str, most: usize) -> String {
    let clean: String = body
        .chars()
        .filter(|c| !c.is_control() || *c == '\n' || *c == '\t')
        .collect();
    let clean = clean.trim_end();
    let longest = clean
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let ticks = "`".repeat(longest.max(2) + 1);
    let block = |kept: &str| format!("\n{ticks}{language}\n{kept}\n{ticks}\n");
    let all = block(clean);
    if length(&all) <= most {
        return all;
    }
    let room = most.saturating_sub(length(&block(CUT)));
    let cut = clean.char_indices().nth(room);
    let at = cut.map_or(clean.len(), |(at, _)| at);
    if at == 0 {
        return String::new();
    }
    // At the end of a line where there is one.
    let end = clean[..at].rfind('\n').unwrap_or(at);
    block(&format!("{}{CUT}", clean[..end].trim_end()))
}

/// One line as code: nothing in it is markup or a mention.
fn code(text: &str) -> String {
    let plain = crate::text::one_line(text);
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

/// The same within a table, where a bar ends a cell even in code. A backslash before one would take away the bar's own, and in code nothing
/// helps against that: such a value is text.
fn cell(text: &str) -> String {
    if text.contains("\\|") {
        return escaped(text);
    }
    code(text).replace('|', "\\|")
}

/// Text in a line: markup, mentions and tags lose their meaning.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' => {
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
    use crate::campaign::finding::patterns::commented;
    use crate::campaign::finding::{Environment, FindingText, Sheet};
    use warren_model::{At, Fault, Judgement, Who};

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
    fn only_stacks_are_left_out_of_patterns() {
        for (line, stack) in [
            ("# fault 1: crash c1 at c1 rename after a.B.c:81", true),
            (
                "# fault 12 keeps its exact point: no pattern of the trace stands for it alone",
                false,
            ),
            (
                "# matched.toml with its points as patterns: role or node",
                false,
            ),
            ("kind = \"crash\"", false),
        ] {
            assert_eq!(is_stack(line), stack, "{line}");
        }
    }

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

    /// A finding with so many faults, each told with a stack of that many characters.
    fn long(faults: usize, stack: usize) -> (Finding, FaultSequence) {
        let reboot = || Fault::Reboot {
            who: Who::Node("c1".into()),
        };
        let sequence = (0..faults).fold(FaultSequence::empty("canary"), |s, _| {
            s.with(At::Joined("c1".into()), reboot())
        });
        let about: Vec<String> = (0..faults)
            .map(|i| format!("reboot c1: told {i}: {}", "s".repeat(stack)))
            .collect();
        let mut f = finding();
        f.sequence.1 = commented(&sequence, &about);
        f.patterns = f.sequence.1.clone();
        f.evidence = format!("head\n\n{}", "what was seen\n".repeat(9_000));
        f.timeline = vec!["1.0 | 2.0 | ** fault".repeat(100); 500];
        if let Some(s) = &mut f.sheet {
            s.faults = about;
            s.found.confirmed = "c".repeat(70_000);
            s.found.alike = vec!["`".repeat(70_000)];
        }
        (f, sequence)
    }

    /// The content of the block of TOML, none where there is no such block.
    fn saved(text: &str) -> Option<&str> {
        let block = text.split_once("\n```toml\n")?.1;
        Some(block.split_once("\n```\n")?.0)
    }

    #[test]
    fn the_sequence_is_whole_and_bare_however_long() {
        for (faults, stack) in [(1, 20_000), (60, 2_000), (400, 100)] {
            let (f, sequence) = long(faults, stack);
            let text = markdown(&f);
            let block = saved(&text).unwrap_or_else(|| panic!("{faults}: no sequence in\n{text}"));
            assert!(!block.contains('#'), "{faults}: comments in\n{block}");
            match FaultSequence::from_text(block) {
                Ok(read) => assert_eq!(read, sequence, "{faults} faults"),
                Err(e) => panic!("{faults} faults: {e}"),
            }
            for part in ["### What was observed", "### Timeline", "warren replay "] {
                assert!(text.contains(part), "{faults} faults: no `{part}`");
            }
        }
    }

    #[test]
    fn an_issue_holds_it_whatever_is_in_it() {
        // Faults, characters of each one's stack; whether all are listed, whether the sequence is there.
        let table = [
            (1, 20_000, true, true),
            (30, 2_000, true, true),
            (300, 300, false, true),
            (1_000, 10, false, false),
        ];
        for (faults, stack, listed, there) in table {
            let (f, _) = long(faults, stack);
            let text = markdown(&f);
            assert!(length(&text) <= ISSUE, "{faults}: {}", length(&text));
            assert!(text.contains("\n1. `reboot c1: told 0: s"), "{faults}");
            let last = format!("\n{faults}. `reboot c1: told {}: s", faults - 1);
            assert_eq!(text.contains(&last), listed, "{faults}: the last fault");
            assert_eq!(text.contains(" more\n"), !listed, "{faults}: the rest");
            assert_eq!(saved(&text).is_some(), there, "{faults}: the sequence");
            let attached = "`matched.toml` of the finding's folder is too long";
            assert_eq!(text.contains(attached), !there, "{faults}");
        }
    }

    #[test]
    fn nothing_is_markup_that_was_none() {
        assert_eq!(escaped("a_b <i> @x #1"), "a\\_b \\<i\\> @\u{200b}x \\#1");
        assert_eq!(
            escaped("&lt;i> &amp; &#64;x"),
            "\\&lt;i\\> \\&amp; \\&\\#64;x"
        );
        assert_eq!(code("a`b"), "``a`b``");
        for (value, want) in [
            ("a|b", "`a\\|b`"),
            ("a\\b", "`a\\b`"),
            ("a\\|b", "a\\\\\\|b"),
        ] {
            assert_eq!(cell(value), want, "{value}");
        }
        assert_eq!(code("a\u{1b}\nb"), "`a  b`");
    }
}
