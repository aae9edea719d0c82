//! Texts for people: what comes from a target made fit for one line, a width, a terminal; a fault told with its place. Pure.
//!
//! Called wherever something is printed or written for a reader. Knows no colours and no screen: those are `ui`'s.

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

/// At most `width` characters, the last one `~` when something was cut off.
pub fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('~');
    short
}

/// In pieces of at most `width` characters, cut at the last blank that leaves no piece shorter than half of it.
pub fn fold(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut rest: Vec<char> = text.chars().collect();
    let mut pieces = Vec::new();
    while rest.len() > width {
        let blank = rest[..=width].iter().rposition(|c| *c == ' ');
        let at = blank.filter(|at| *at > width / 2).unwrap_or(width);
        let behind = rest.split_off(at);
        pieces.push(rest.into_iter().collect());
        rest = behind.into_iter().skip_while(|c| *c == ' ').collect();
    }
    pieces.push(rest.into_iter().collect());
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

    #[test]
    fn clipping() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("abcd", 3), "ab~");
        assert_eq!(clip("äöüß", 3), "äö~");
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
    }
}
