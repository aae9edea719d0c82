//! What all pages are drawn with: colours, boxes, `label : value` lines. Pure.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::merge::MergeStrategy;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

/// A box: its title and its lines.
pub struct Part {
    pub title: String,
    pub lines: Vec<Line<'static>>,
}

impl Part {
    pub fn new(title: impl Into<String>, lines: Vec<Line<'static>>) -> Self {
        Part {
            title: title.into(),
            lines,
        }
    }
}

/// Colours carry AFL's meaning; without them what matters is bold, reversed, or said in words.
#[derive(Clone, Copy)]
pub struct Palette {
    pub coloured: bool,
}

impl Palette {
    pub fn fg(self, c: Color) -> Style {
        if self.coloured {
            Style::new().fg(c)
        } else {
            Style::new()
        }
    }

    pub fn label(self) -> Style {
        self.fg(Color::DarkGray)
    }

    pub fn title(self) -> Style {
        self.fg(Color::Cyan)
    }

    /// The fault awaited, the row chosen.
    pub fn chosen(self) -> Style {
        self.fg(Color::Yellow)
            .add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// Red as soon as there is one.
    pub fn alarm(self, n: u64) -> Style {
        if n > 0 {
            self.fg(Color::Red).add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        }
    }

    /// What the user should know now.
    pub fn note(self) -> Style {
        self.fg(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Below 90 % AFL's stability is magenta, below 80 % red.
    pub fn stability(self, percent: f64) -> Style {
        if percent < 80.0 {
            self.fg(Color::Red)
        } else if percent < 90.0 {
            self.fg(Color::Magenta)
        } else {
            Style::new()
        }
    }

    /// Of a node.
    pub fn state(self, state: &str) -> Style {
        match state {
            "dead" | "exited" => self.fg(Color::Red),
            "cut" | "held" => self.fg(Color::Yellow),
            "alive" => self.fg(Color::Green),
            _ => Style::new(),
        }
    }
}

/// Draws a box; neighbours share their border lines.
pub fn render(frame: &mut Frame<'_>, area: Rect, part: Part, p: Palette) {
    let inner = border(frame, area, &part.title, p);
    let width = usize::from(inner.width);
    let lines: Vec<_> = part.lines.into_iter().map(|l| clipped(l, width)).collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

/// A line with `~` at its end where it is longer than its box: half a number is another number. Blanks at the end are no loss.
fn clipped(mut line: Line<'static>, width: usize) -> Line<'static> {
    let text: String = line.iter().map(|s| s.content.as_ref()).collect();
    if Span::raw(text.trim_end()).width() <= width {
        return line;
    }
    let mut room = width;
    let mut kept = Vec::new();
    for span in line.spans.drain(..) {
        if span.width() < room {
            room -= span.width();
            kept.push(span);
            continue;
        }
        let mut text = String::new();
        for c in span.content.chars() {
            let wide = Span::raw(c.to_string()).width();
            if wide >= room {
                break;
            }
            room -= wide;
            text.push(c);
        }
        text.push('~');
        kept.push(Span::styled(text, span.style));
        break;
    }
    line.spans = kept;
    line
}

/// Draws a border and answers what is left inside.
pub fn border(frame: &mut Frame<'_>, area: Rect, title: &str, p: Palette) -> Rect {
    let block = Block::bordered()
        .merge_borders(MergeStrategy::Exact)
        .border_style(p.label())
        .title(Span::styled(format!(" {title} "), p.title()));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// `label : value`, the label set to the right in `width` characters.
pub fn field(p: Palette, width: usize, label: &str, value: impl Into<String>) -> Line<'static> {
    styled(p, width, label, value, Style::new())
}

/// The same, the value in a style.
pub fn styled(
    p: Palette,
    width: usize,
    label: &str,
    value: impl Into<String>,
    style: Style,
) -> Line<'static> {
    Line::from(vec![
        Span::styled(format!("{label:>width$} : "), p.label()),
        Span::styled(value.into(), style),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_ends_in_a_tilde() {
        let table: [(&[&str], &str); 7] = [
            (&["ab : ", "1234"], "ab : 1234"),
            (&["ab : ", "12345"], "ab : 123~"),
            (&["ab : ", "1234", " "], "ab : 1234 "),
            (&["ab : ", "1234", " 5"], "ab : 123~"),
            (&["ab : 12345", "67"], "ab : 123~"),
            // Two columns each.
            (&["ab : ", "\u{65e5}\u{672c}\u{8a9e}"], "ab : \u{65e5}~"),
            (&[], ""),
        ];
        for (spans, want) in table {
            let line = Line::from_iter(spans.iter().map(|s| Span::raw((*s).to_owned())));
            assert_eq!(clipped(line, 9).to_string(), want, "{spans:?}");
        }
    }
}
