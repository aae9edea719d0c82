//! Page 2: the findings that stand, and of the chosen one headline, k of n, evidence, folder and the two commands. Pure.

use super::files::Story;
use super::keys::View;
use super::look::{Palette, Part, render};
use crate::campaign::KeptFinding;
use crate::fuzz::Snapshot;
use crate::text::{clip, fold};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use warren_model::FailureKind;

/// Draws the page.
pub fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    s: &Snapshot,
    view: View,
    story: Option<&Story>,
    p: Palette,
) {
    let all = &s.kept_findings;
    let title = format!("findings ({})", all.len());
    if all.is_empty() {
        let text = vec![
            Line::from("No finding stands yet."),
            Line::default(),
            Line::from(format!(
                "{} runs failed, {} could not be judged, {} passed their limit.",
                s.failing_runs, s.unknowns, s.timeouts
            )),
            Line::from(
                "A safety failure stands at once; a liveness failure must show again in 2 of 3 replays.",
            ),
        ];
        render(frame, area, Part::new(title, text), p);
        return;
    }
    let chosen = view.finding.min(all.len() - 1);
    let list = list(area, all.len());
    let rows = usize::from(list.height - 2);
    let first = (chosen + 1).saturating_sub(rows);
    let width = usize::from(area.width.saturating_sub(2));
    let lines = all
        .iter()
        .enumerate()
        .skip(first)
        .take(rows)
        .map(|(k, f)| row(f, k == chosen, width, p))
        .collect();
    render(frame, list, Part::new(title, lines), p);
    // It shares a border line with the list.
    let y = list.bottom() - 1;
    let below = Rect::new(area.x, y, area.width, area.bottom() - y);
    let told = told(s, view, story, width, p);
    let rows = usize::from(below.height.saturating_sub(2));
    let from = view.text.min(told.len().saturating_sub(rows));
    let mut title = format!("finding {:06}", all[chosen].number);
    if told.len() > rows {
        let (to, all) = (from + rows, told.len());
        title.push_str(&format!(", lines {}-{to} of {all} (PgUp, PgDn)", from + 1));
    }
    let shown = told.into_iter().skip(from).take(rows).collect();
    render(frame, below, Part::new(title, shown), p);
}

/// A third of the page for the list, at least three lines, the rest for the chosen one.
fn list(page: Rect, findings: usize) -> Rect {
    let rows = findings.clamp(1, usize::from(page.height / 3).max(3));
    let height = u16::try_from(rows).unwrap_or(3) + 2;
    Rect { height, ..page }
}

/// Lines that what is told of the chosen finding can be scrolled down.
#[must_use]
pub fn scrolled_most(page: Rect, s: &Snapshot, view: View, story: Option<&Story>) -> usize {
    let width = usize::from(page.width.saturating_sub(2));
    let told = told(s, view, story, width, Palette { coloured: false });
    // Of the list, the box below it and the border line they share.
    let borders = list(page, s.kept_findings.len()).height + 1;
    told.len()
        .saturating_sub(usize::from(page.height.saturating_sub(borders)))
}

fn row(f: &KeptFinding, chosen: bool, width: usize, p: Palette) -> Line<'static> {
    let mark = if chosen { ">" } else { " " };
    let text = format!(
        "{mark} {:06}  {:<8}  {:<14}  {}  [{}]",
        f.number,
        f.kind,
        rate(f),
        f.checker,
        f.signature
    );
    let style = if chosen {
        p.chosen()
    } else {
        p.fg(ratatui::style::Color::Red)
    };
    Line::styled(clip(&text, width), style)
}

/// `shown 2 of 3`; a safety failure stands before it is replayed, another one where its replays were cut short. A hang has no replays, whatever its
/// `k` and `n` are.
fn rate(f: &KeptFinding) -> String {
    if f.kind == FailureKind::Hang {
        "hung twice".to_owned()
    } else if f.n == 0 {
        "not replayed".to_owned()
    } else {
        format!("shown {} of {}", f.k, f.n)
    }
}

/// What failed and what it showed comes first, as little of it fits a small terminal; how to get there again comes last.
fn told(
    s: &Snapshot,
    view: View,
    story: Option<&Story>,
    width: usize,
    p: Palette,
) -> Vec<Line<'static>> {
    let Some(last) = s.kept_findings.len().checked_sub(1) else {
        return Vec::new();
    };
    let f = &s.kept_findings[view.finding.min(last)];
    let story = story.filter(|t| t.number == f.number);
    let field = |label: &str, value: &str, style: Style| {
        let label = Span::styled(format!("{label:>9} : "), p.label());
        folded(label, value, style, width)
    };
    let (plain, bold) = (Style::new(), Style::new().add_modifier(Modifier::BOLD));
    let headline = story.and_then(|t| t.headline.clone());
    // The list has neither stage nor node.
    let headline =
        headline.unwrap_or_else(|| format!("{} ({}) [{}]", f.checker, f.kind, f.signature));
    let mut lines = field("headline", &headline, bold);
    if let Some(known) = s.known.get(&f.number) {
        lines.extend(field("known as", known, bold));
    }
    lines.extend(field("k of n", &k_of_n(s, f), plain));
    let Some(t) = story else {
        lines.extend(field("evidence", "being read", plain));
        return lines;
    };
    let about = t.about.iter();
    for line in t.evidence.iter().chain([&String::new()]).chain(about) {
        let text = line.trim_start();
        let indent = Span::raw(" ".repeat(line.len() - text.len()));
        lines.extend(folded(indent, text, plain, width));
    }
    let folder = s.folder.join("findings").join(format!("{:06}", f.number));
    lines.push(Line::default());
    lines.extend(field("folder", &folder.display().to_string(), plain));
    for (label, command) in [("reproduce", &t.reproduce), ("minimise", &t.minimise)] {
        lines.extend(command.iter().flat_map(|c| field(label, c, bold)));
    }
    lines
}

fn k_of_n(s: &Snapshot, f: &KeptFinding) -> String {
    if f.kind == FailureKind::Hang {
        "not replayed: over its limit twice".to_owned()
    } else if f.n == 0 && s.known.contains_key(&f.number) {
        "not replayed: a known bug".to_owned()
    } else if f.n == 0 && f.kind == FailureKind::Safety {
        "not replayed: stands by its evidence".to_owned()
    } else if f.n == 0 {
        "not confirmed: its replays were cut short".to_owned()
    } else {
        format!("showed again in {} of {} replays", f.k, f.n)
    }
}

/// A line that goes on below itself where it is too long.
fn folded(before: Span<'static>, text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    let indent = before.width();
    let pieces = fold(text, width.saturating_sub(indent));
    let line = |(k, piece): (usize, String)| {
        let before = match k {
            0 => before.clone(),
            _ => Span::raw(" ".repeat(indent)),
        };
        Line::from(vec![before, Span::styled(piece, style)])
    };
    pieces.into_iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::samples::busy;
    use std::time::Instant;

    #[test]
    fn each_kind_is_told_by_what_was_made_of_it() {
        let mut s = busy(Instant::now());
        s.known.insert(1, "X-1".into());
        // Number, kind, k, n, in the list, below it.
        let table = [
            (
                0,
                FailureKind::Safety,
                2,
                3,
                "shown 2 of 3",
                "showed again in 2 of 3 replays",
            ),
            (
                0,
                FailureKind::Safety,
                0,
                0,
                "not replayed",
                "not replayed: stands by its evidence",
            ),
            (
                0,
                FailureKind::Liveness,
                0,
                0,
                "not replayed",
                "not confirmed: its replays were cut short",
            ),
            (
                1,
                FailureKind::Liveness,
                0,
                0,
                "not replayed",
                "not replayed: a known bug",
            ),
            (
                0,
                FailureKind::Hang,
                1,
                1,
                "hung twice",
                "not replayed: over its limit twice",
            ),
            (
                1,
                FailureKind::Hang,
                1,
                1,
                "hung twice",
                "not replayed: over its limit twice",
            ),
        ];
        for (number, kind, k, n, listed, below) in table {
            let f = KeptFinding {
                number,
                kind,
                k,
                n,
                ..s.kept_findings[0].clone()
            };
            assert_eq!(rate(&f), listed, "{f:?}");
            assert_eq!(k_of_n(&s, &f), below, "{f:?}");
        }
    }
}
