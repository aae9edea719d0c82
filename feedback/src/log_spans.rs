//! Spans of a log: from a line that begins one to a line that ends it. What a target says of its logs may hold in them only.
//!
//! Called by the checkers of fatal lines and of self-exits, which look at what stands within. Pure: a log and a rule in, parts of the log out.
//! It refuses to guess whether groups of a rule mean anything: `[exit] legal` ties a span's end to its begin by them, in `[log] legal` they are
//! there for their alternatives.

use crate::logs::lines;
use regex::Regex;
use std::collections::BTreeMap;
use warren_model::LogSpan;

/// A [`LogSpan`], ready to read.
pub struct Span {
    after: Regex,
    until: Regex,
    tied: bool,
}

impl Span {
    /// Any line that may end a span ends all.
    ///
    /// # Errors
    /// The first of its patterns that is no regular expression.
    pub fn plain(span: &LogSpan) -> Result<Self, regex::Error> {
        Ok(Span {
            after: Regex::new(&span.after)?,
            until: Regex::new(&span.until)?,
            tied: false,
        })
    }

    /// A line ends only what began with the same text in its group.
    ///
    /// # Errors
    /// As [`Span::plain`].
    pub fn tied(span: &LogSpan) -> Result<Self, regex::Error> {
        let plain = Self::plain(span)?;
        Ok(Span {
            tied: true,
            ..plain
        })
    }

    /// (byte offset, text) of each span, as they end: with the line that begins it, without the one that ends it. One that is begun again goes on;
    /// none goes beyond its file, of which `begins` has where each begins.
    #[must_use]
    pub fn all_in<'a>(&self, log: &'a str, begins: &[usize]) -> Vec<(usize, &'a str)> {
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        let mut spans = Vec::new();
        for (at, line) in lines(log) {
            let to_here = |from: usize| (from, &log[from..at]);
            if begins.contains(&at) {
                spans.extend(std::mem::take(&mut open).into_values().map(to_here));
            }
            if let Some(ended) = self.name(&self.until, line) {
                spans.extend(open.remove(ended).map(to_here));
            } else if let Some(begun) = self.name(&self.after, line) {
                open.entry(begun).or_insert(at);
            }
        }
        spans.extend(open.into_values().map(|from| (from, &log[from..])));
        spans
    }

    /// Whether a line begins a span, or would if none were open.
    #[must_use]
    pub fn begins_with(&self, line: &str) -> bool {
        self.after.is_match(line)
    }

    /// By what a span is told apart from others that are open beside it, where the line matches.
    fn name<'a>(&self, regex: &Regex, line: &'a str) -> Option<&'a str> {
        if !self.tied {
            return regex.is_match(line).then_some("");
        }
        let found = regex.captures(line)?;
        Some(found.get(1).map_or("", |g| g.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(after: &str, until: &str) -> LogSpan {
        LogSpan {
            after: after.into(),
            until: until.into(),
        }
    }

    fn texts<'a>(span: &Span, log: &'a str, begins: &[usize]) -> Vec<&'a str> {
        let all = span.all_in(log, begins);
        for (from, text) in &all {
            assert!(log[*from..].starts_with(text), "{log:?} from {from}");
        }
        all.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_span_goes_from_its_line_to_the_next_that_ends_it() {
        let grouped = span(r"^cut (\d)", r"^back (\d)|^(?:boot)");
        let (tied, plain) = (
            Span::tied(&grouped).unwrap(),
            Span::plain(&grouped).unwrap(),
        );
        let ungrouped = Span::tied(&span(r"^cut \d", r"^back \d|^boot")).unwrap();
        // What there is where groups mean nothing, and, if it is something else, where they tie.
        type Case = (
            &'static str,
            &'static [&'static str],
            Option<&'static [&'static str]>,
        );
        let table: &[Case] = &[
            ("", &[], None),
            ("a\nback 7\nb\n", &[], None),
            ("a\ncut 7\nb\n", &["cut 7\nb\n"], None),
            ("cut 7\nb", &["cut 7\nb"], None),
            ("cut 7\nb\nback 7\nc\n", &["cut 7\nb\n"], None),
            ("cut 7\r\nb\r\nback 7\r\nc\r\n", &["cut 7\r\nb\r\n"], None),
            ("cut 7\nback 7\nb\ncut 7\n", &["cut 7\n", "cut 7\n"], None),
            ("cut 7\nback 7\nback 7\nb\n", &["cut 7\n"], None),
            (
                "cut 7\na\ncut 7\nb\nback 7\nc\n",
                &["cut 7\na\ncut 7\nb\n"],
                None,
            ),
            (
                "cut 7\na\nback 8\nb\n",
                &["cut 7\na\n"],
                Some(&["cut 7\na\nback 8\nb\n"]),
            ),
            (
                "cut 7\ncut 8\nback 8\na\nback 7\n",
                &["cut 7\ncut 8\n"],
                Some(&["cut 8\n", "cut 7\ncut 8\nback 8\na\n"]),
            ),
            // Its group has no text, so it ends none that has one.
            (
                "cut 7\na\nboot\nb\n",
                &["cut 7\na\n"],
                Some(&["cut 7\na\nboot\nb\n"]),
            ),
        ];
        for (log, want, want_tied) in table {
            assert_eq!(texts(&plain, log, &[]), *want, "{log:?}");
            assert_eq!(texts(&ungrouped, log, &[]), *want, "{log:?}, no groups");
            let want = want_tied.unwrap_or(*want);
            assert_eq!(texts(&tied, log, &[]), want, "{log:?}, tied");
        }
    }

    #[test]
    fn a_line_that_begins_and_ends_only_ends() {
        let span = Span::plain(&span("^cut", "^cut 8")).unwrap();
        let log = "cut 8\na\ncut 7\nb\ncut 8\nc\n";
        assert_eq!(texts(&span, log, &[]), ["cut 7\nb\n"]);
        assert!(span.begins_with("cut 8") && !span.begins_with("b"));
    }

    /// As a new process finds it: nothing that was begun in the file before is its own.
    #[test]
    fn a_span_ends_with_its_file() {
        let tied = Span::tied(&span(r"^cut (\d)", r"^back (\d)")).unwrap();
        let log = "cut 7\na\ncut 8\nb\nback 7\n";
        for (begins, want) in [
            (&[][..], &["cut 7\na\ncut 8\nb\n", "cut 8\nb\nback 7\n"][..]),
            (&[0], &["cut 7\na\ncut 8\nb\n", "cut 8\nb\nback 7\n"]),
            (&[0, 6], &["cut 7\n", "cut 8\nb\nback 7\n"]),
            (&[0, 8], &["cut 7\na\n", "cut 8\nb\nback 7\n"]),
            // Of two that are open each ends there.
            (&[0, 14], &["cut 7\na\ncut 8\n", "cut 8\n"]),
            (&[0, 16], &["cut 7\na\ncut 8\nb\n", "cut 8\nb\n"]),
            // Where no line begins none ends, nor does one beyond the log.
            (&[0, 7, 99], &["cut 7\na\ncut 8\nb\n", "cut 8\nb\nback 7\n"]),
        ] {
            assert_eq!(texts(&tied, log, begins), want, "{begins:?}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        for (after, until) in [("(", "x"), ("x", "(")] {
            let span = span(after, until);
            assert!(Span::plain(&span).is_err() && Span::tied(&span).is_err());
        }
    }
}
