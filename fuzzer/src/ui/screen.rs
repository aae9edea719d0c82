//! One frame: banner, the page in view, the line of keys. A pure function from a snapshot, a view and what was read from files.

use super::files::Files;
use super::keys::{Page, View};
use super::look::Palette;
use super::{findings, help, logs, overview, queue};
use crate::fuzz::Snapshot;
use crate::text::clip;
use ratatui::Frame;
use ratatui::layout::{Rect, Size};
use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use std::time::Instant;

/// The smallest terminal all of it fits.
const WIDTH: u16 = 80;
const HEIGHT: u16 = 24;

/// Characters of a name in the banner: two of them leave room for the word PAUSED.
const NAME: usize = 18;

/// Draws one frame.
pub fn draw(
    frame: &mut Frame<'_>,
    s: &Snapshot,
    view: View,
    files: &Files,
    now: Instant,
    coloured: bool,
) {
    let area = frame.area();
    let p = Palette { coloured };
    if area.width < WIDTH || area.height < HEIGHT {
        let text = Paragraph::new(too_small(s, area)).wrap(Wrap { trim: true });
        frame.render_widget(text, area);
        return;
    }
    frame.render_widget(banner(s, p), Rect::new(0, 0, area.width, 1));
    let page = page(area.as_size());
    match view.page {
        Page::Overview => overview::draw(frame, page, s, now, p),
        Page::Findings => findings::draw(frame, page, s, view, files.story.as_ref(), p),
        Page::Queue => queue::draw(frame, page, s, view, &files.rows, p),
        Page::Logs => logs::draw(frame, page, s, view, &files.logs, p),
        Page::Help => help::draw(frame, page, view, p),
    }
    // On the last border line, so that it costs none. Page 1 has a line for messages; on the others one takes the place of the keys.
    let room = usize::from(area.width).saturating_sub(6);
    let keys = match s.message.as_str() {
        message if message.is_empty() || view.page == Page::Overview => keys(s, view.page, p),
        // The banner says it, for as long as it lasts.
        _ if s.paused_since.is_some() => keys(s, view.page, p),
        message => Line::styled(format!(" {} ", clip(message, room)), p.note()),
    };
    let width = u16::try_from(keys.width()).unwrap_or(u16::MAX);
    let width = width.min(area.width - 4);
    frame.render_widget(keys, Rect::new(2, area.height - 1, width, 1));
}

/// Where a page is drawn: below the banner.
pub fn page(screen: Size) -> Rect {
    Rect::new(0, 1, screen.width, screen.height.saturating_sub(1))
}

/// The least that helps, what matters most first: how to end it, what goes on, why there is no screen.
fn too_small(s: &Snapshot, area: Rect) -> String {
    let first = match s.message.as_str() {
        "" => "q ends the campaign",
        message => message,
    };
    format!(
        "{first}\n{} runs, {} findings, {} hangs\n\
         Your terminal is too small for the screen: {} x {}, it needs {WIDTH} x {HEIGHT}.",
        s.execs, s.findings, s.hangs, area.width, area.height
    )
}

fn banner(s: &Snapshot, p: Palette) -> Line<'static> {
    let name = s.folder.file_name().map_or_else(
        || "default".to_owned(),
        |n| n.to_string_lossy().into_owned(),
    );
    let text = format!(
        "warren {} {{{}}} ({}) [{}]",
        env!("CARGO_PKG_VERSION"),
        clip(&name, NAME),
        clip(&s.target, NAME),
        s.strategy
    );
    let mut spans = vec![Span::styled(
        text,
        p.fg(Color::Yellow).add_modifier(Modifier::BOLD),
    )];
    if s.paused_since.is_some() {
        spans.push(Span::styled("  PAUSED ", p.chosen()));
    }
    Line::from(spans).centered()
}

/// ` 1 overview 2 findings ...   p pause  n next  q quit `, the page in view marked.
fn keys(s: &Snapshot, page: Page, p: Palette) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    for (k, other) in Page::ALL.into_iter().enumerate() {
        let count = match other {
            Page::Findings if !s.kept_findings.is_empty() => {
                format!("({})", s.kept_findings.len())
            }
            _ => String::new(),
        };
        let text = format!("{} {}{count}", k + 1, other.name());
        if other == page {
            spans.push(Span::styled(
                format!("[{text}]"),
                p.title().add_modifier(Modifier::BOLD),
            ));
            spans.push(Span::raw(" "));
        } else {
            spans.push(Span::styled(format!("{text} "), p.label()));
        }
    }
    let pause = if s.paused_since.is_some() {
        "p go on"
    } else {
        "p pause"
    };
    spans.push(Span::raw(format!("  {pause}  n next  q quit ")));
    Line::from(spans)
}
