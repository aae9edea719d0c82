//! Page 2: the findings that stand, and of the chosen one headline, k of n, folder, the two commands and evidence. Pure.

use super::files::Story;
use super::format::clip;
use super::keys::View;
use super::look::{Palette, Part, border, render};
use crate::campaign::KeptFinding;
use crate::fuzz::Snapshot;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

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
    // A third of the page for the list, at least three lines, the rest for the chosen one.
    let rows = all.len().clamp(1, usize::from(area.height / 3).max(3));
    let list_h = u16::try_from(rows).unwrap_or(3) + 2;
    let chosen = view.finding.min(all.len() - 1);
    let first = (chosen + 1).saturating_sub(rows);
    let width = usize::from(area.width.saturating_sub(2));
    let lines = all
        .iter()
        .enumerate()
        .skip(first)
        .take(rows)
        .map(|(k, f)| row(f, k == chosen, width, p))
        .collect();
    render(
        frame,
        Rect::new(area.x, area.y, area.width, list_h),
        Part::new(title, lines),
        p,
    );
    let below = Rect::new(
        area.x,
        area.y + list_h - 1,
        area.width,
        area.height - list_h + 1,
    );
    let f = &all[chosen];
    let inner = border(frame, below, &format!("finding {:06}", f.number), p);
    let text = told(s, f, story.filter(|t| t.number == f.number), p);
    let scroll = u16::try_from(view.text).unwrap_or(u16::MAX);
    frame.render_widget(
        Paragraph::new(text)
            .wrap(Wrap { trim: false })
            .scroll((scroll, 0)),
        inner,
    );
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

/// `shown 2 of 3`; a safety failure stands before it is replayed, another one where its replays were cut short.
fn rate(f: &KeptFinding) -> String {
    if f.n == 0 {
        "not replayed".to_owned()
    } else {
        format!("shown {} of {}", f.k, f.n)
    }
}

fn told(s: &Snapshot, f: &KeptFinding, story: Option<&Story>, p: Palette) -> Vec<Line<'static>> {
    let line = |label: &str, value: String, style: Style| {
        Line::from(vec![
            Span::styled(format!("{label:>9} : "), p.label()),
            Span::styled(value, style),
        ])
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let k_of_n = if f.n == 0 && s.known.contains_key(&f.number) {
        "not replayed: a known bug".to_owned()
    } else if f.n == 0 && f.kind == "safety" {
        "not replayed yet: stands by its evidence".to_owned()
    } else if f.n == 0 {
        "not confirmed: its replays were cut short".to_owned()
    } else {
        format!("showed again in {} of {} replays", f.k, f.n)
    };
    let folder = s.folder.join("findings").join(format!("{:06}", f.number));
    let headline = format!("{} ({}) [{}]", f.checker, f.kind, f.signature);
    let mut lines = vec![
        line("headline", headline, bold),
        line("k of n", k_of_n, Style::new()),
        line("folder", folder.display().to_string(), Style::new()),
    ];
    if let Some(known) = s.known.get(&f.number) {
        lines.insert(1, line("known as", known.clone(), bold));
    }
    match story {
        None => lines.push(line("evidence", "being read".into(), Style::new())),
        Some(t) => {
            if let Some(r) = &t.reproduce {
                lines.push(line("reproduce", r.clone(), bold));
            }
            if let Some(m) = &t.minimise {
                lines.push(line("minimise", m.clone(), Style::new()));
            }
            lines.push(Line::default());
            lines.extend(t.lines.iter().map(|l| Line::from(l.clone())));
        }
    }
    lines
}
