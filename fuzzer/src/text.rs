//! Texts for people: what comes from a target made fit for one line, a width, a terminal; a fault told with its place. Pure.
//!
//! Called wherever something is printed or written for a reader. Knows no colours and no screen: those are `ui`'s.

use unicode_width::UnicodeWidthChar;
use warren_model::{At, FaultAt, Trace};

/// Each control character a space: nothing of a target's may end a line or a comment, or reach a terminal as a command.
pub fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The same for text of several lines, which stay.
pub fn printable(text: &str) -> String {
    text.split('\n')
        .map(one_line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The columns of a terminal that a text takes there, at most: two of a wide character, none of a mark on the one before it.
pub fn columns(text: &str) -> usize {
    text.chars().map(column).sum()
}

/// Characters that a terminal may draw as one (a family of emoji) count each for itself, as not every terminal does that.
fn column(c: char) -> usize {
    match c {
        // Asks for the wide form of a narrow character before it.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(1),
    }
}

/// Where, in bytes, what fits into so many columns ends.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    let beyond = text.char_indices().find(|(_, c)| {
        used += column(*c);
        used > width
    });
    beyond.map_or(text.len(), |(at, _)| at)
}

/// At most `width` columns, the last one `~` when something was cut off.
pub fn clip(text: &str, width: usize) -> String {
    if fitting(text, width) == text.len() {
        return text.to_owned();
    }
    let kept = fitting(text, width.saturating_sub(1));
    format!("{}~", &text[..kept])
}

/// At most so many characters, whatever columns they take; as [`clip`], for what is measured so.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('~');
    short
}

/// In pieces of at most `width` columns, cut at the last blank that leaves no piece shorter than half of it.
pub fn fold(text: &str, width: usize) -> Vec<String> {
    let mut rest = text;
    let mut pieces = Vec::new();
    loop {
        // What is wider alone is a piece all the same.
        let first = rest.chars().next().map_or(0, column);
        let end = fitting(rest, width.max(first).max(1));
        if end == rest.len() {
            break;
        }
        // The blank behind a piece needs no room.
        let reach = end + usize::from(rest[end..].starts_with(' '));
        let blank = rest[..reach].rfind(' ');
        let at = blank.filter(|at| columns(&rest[..*at]) > width / 2);
        let (piece, behind) = rest.split_at(at.unwrap_or(end));
        pieces.push(piece.to_owned());
        rest = behind.trim_start_matches(' ');
    }
    pieces.push(rest.to_owned());
    pieces
}

/// `0h04m12s`.
pub fn clock(ms: u64) -> String {
    let s = ms / 1000;
    format!("{}h{:02}m{:02}s", s / 3600, s / 60 % 60, s % 60)
}

/// A fault and its place, for people: `crash zk1 at zk1 force before FileTxnLog.commit:120 (3rd occurrence)`.
#[must_use]
pub fn fault_text(f: &FaultAt, trace: &Trace) -> String {
    format!("{} {}", f.fault, at_text(&f.at, trace))
}

fn at_text(at: &At, trace: &Trace) -> String {
    match at {
        At::AtOnce => "at once".to_owned(),
        At::Joined(n) => format!("when {n} has joined"),
        At::After(ms) => format!("{ms} ms after GO or the fault before"),
        At::Exact(p) => format!(
            "at {} {} {} {} (occurrence {}, phase {})",
            p.node,
            p.kind,
            p.place,
            trace.label(p.stack),
            p.n,
            p.phase
        ),
        At::Pattern(p) => {
            let mut parts = Vec::new();
            if let Some(n) = &p.node {
                parts.push(n.to_string());
            }
            if let Some(n) = &p.except {
                parts.push(format!("not {n}"));
            }
            if let Some(r) = &p.role {
                parts.push(format!("@{r}"));
            }
            if let Some(k) = p.kind {
                parts.push(k.to_string());
            }
            if let Some(k) = p.place {
                parts.push(k.to_string());
            }
            if let Some(s) = p.stack {
                parts.push(trace.label(s));
            }
            parts.extend(p.frames.iter().cloned());
            format!("at {} (occurrence {})", parts.join(" "), p.n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        assert_eq!(clock(252_000), "0h04m12s");
    }

    /// On one line, and on several.
    #[test]
    fn control_characters() {
        let table = [
            ("", "", ""),
            ("a\u{1b}[2Jb", "a [2Jb", "a [2Jb"),
            ("a\nb\n", "a b ", "a\nb\n"),
            ("a\r\n\tb\u{7f}", "a   b ", "a \n b "),
            // CSI as one character.
            ("\u{9b}2Jäö日", " 2Jäö日", " 2Jäö日"),
        ];
        for (text, one, several) in table {
            assert_eq!(one_line(text), one, "{text:?}");
            assert_eq!(printable(text), several, "{text:?}");
        }
    }

    /// Of a text that is cut off, in columns and in characters.
    #[test]
    fn clipping() {
        let table = [
            ("abc", 3, "abc", "abc"),
            ("abcd", 3, "ab~", "ab~"),
            ("äöüß", 3, "äö~", "äö~"),
            ("ab", 0, "~", "~"),
            ("", 0, "", ""),
            // Two columns each: half of one is none.
            ("日本", 4, "日本", "日本"),
            ("日本語", 5, "日本~", "日本語"),
            ("日本語", 4, "日~", "日本語"),
            ("日本語", 2, "~", "日~"),
            ("🐇🐇", 3, "🐇~", "🐇🐇"),
            // Marks stay with the letter that they are on.
            ("a\u{301}b\u{301}", 2, "a\u{301}b\u{301}", "a~"),
            ("a\u{301}b\u{301}c", 2, "a\u{301}~", "a~"),
            // A narrow sign that is asked to be wide.
            (
                "\u{2764}\u{fe0f}x",
                3,
                "\u{2764}\u{fe0f}x",
                "\u{2764}\u{fe0f}x",
            ),
            (
                "\u{2764}\u{fe0f}xy",
                3,
                "\u{2764}\u{fe0f}~",
                "\u{2764}\u{fe0f}~",
            ),
            // A control character that nobody took out.
            ("a\tbc", 3, "a\t~", "a\t~"),
        ];
        for (text, width, by_columns, by_characters) in table {
            assert_eq!(clip(text, width), by_columns, "{text:?} {width}");
            assert_eq!(cut(text, width), by_characters, "{text:?} {width}");
            assert!(columns(&clip(text, width)) <= width.max(1), "{text:?}");
        }
    }

    /// What draws the screen finds no more columns than are counted here.
    #[test]
    fn no_columns_are_forgotten() {
        for text in [
            "abc",
            "日本語",
            "🐇",
            "👩\u{200d}👧",
            "\u{2764}\u{fe0f}",
            "1\u{fe0f}\u{20e3}",
            "e\u{301}",
        ] {
            let drawn = ratatui::text::Span::raw(text).width();
            assert!(columns(text) >= drawn, "{text:?}");
        }
    }

    #[test]
    fn folding() {
        let table: [(&str, &[&str]); 6] = [
            ("", &[""]),
            ("abcdef", &["abcdef"]),
            ("abcdefg", &["abcdef", "g"]),
            ("abcdef ghij", &["abcdef", "ghij"]),
            ("äöü  ßx yz", &["äöü ", "ßx yz"]),
            ("a bcdefgh", &["a bcde", "fgh"]),
        ];
        for (text, want) in table {
            assert_eq!(fold(text, 6), want, "{text:?}");
        }
        assert_eq!(fold("ab", 0), ["a", "b"]);
        let table: [(&str, usize, &[&str]); 6] = [
            ("日本語", 4, &["日本", "語"]),
            ("日本語", 3, &["日", "本", "語"]),
            ("日本 語x", 5, &["日本", "語x"]),
            // One that is wider than a piece is a piece of its own.
            ("日本", 1, &["日", "本"]),
            (
                "a\u{301}b\u{301}c\u{301}",
                2,
                &["a\u{301}b\u{301}", "c\u{301}"],
            ),
            ("abcdef ", 6, &["abcdef", ""]),
        ];
        for (text, width, want) in table {
            assert_eq!(fold(text, width), want, "{text:?} {width}");
        }
    }
}
