//! Page 4: the end of one node's own logs, of the run that goes on or of the last one. Pure.

use super::files::Log;
use super::keys::View;
use super::look::{Palette, border};
use crate::fuzz::Snapshot;
use crate::text::clip;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use std::collections::BTreeMap;

/// Draws the page.
pub fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    s: &Snapshot,
    view: View,
    logs: &BTreeMap<String, Log>,
    p: Palette,
) {
    let at = view.node.min(s.nodes.len().saturating_sub(1));
    let Some(node) = s.nodes.get(at) else {
        let inner = border(frame, area, "node logs", p);
        frame.render_widget(Paragraph::new("No node runs yet."), inner);
        return;
    };
    let log = logs.get(&node.name);
    let lines: &[String] = log.map_or(&[], |l| &l.lines);
    let file = node
        .logs
        .first()
        .and_then(|l| l.file_name())
        .map_or_else(String::new, |f| format!(" {}", f.to_string_lossy()));
    let title = format!(
        "node logs: {}{file}{}",
        node.name,
        if log.is_some_and(|l| l.past) {
            " (of the last run)"
        } else {
            ""
        }
    );
    let inner = border(frame, area, &title, p);
    let width = usize::from(inner.width);
    let mut shown = vec![tabs(s, at, p)];
    let room = usize::from(inner.height).saturating_sub(1);
    // Scrolled back as far as there is anything.
    let end = lines.len() - view.back.min(lines.len().saturating_sub(room.max(1)));
    let first = end.saturating_sub(room);
    if lines.is_empty() {
        shown.push(Line::from("nothing written yet"));
    }
    shown.extend(lines[first..end].iter().map(|l| Line::from(clip(l, width))));
    frame.render_widget(Paragraph::new(shown), inner);
}

fn tabs(s: &Snapshot, at: usize, p: Palette) -> Line<'static> {
    let mut spans = Vec::new();
    for (k, n) in s.nodes.iter().enumerate() {
        let text = format!(" {} {} ", n.name, n.state);
        let style = if k == at {
            p.chosen()
        } else {
            p.state(&n.state)
        };
        // Without colour the chosen one is in brackets, too.
        let text = if k == at {
            format!("[{}]", text.trim())
        } else {
            text
        };
        spans.push(Span::styled(text, style));
        spans.push(Span::styled(" ", Style::new()));
    }
    Line::from(spans)
}
