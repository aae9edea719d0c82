//! The lower part of page 1: nodes with role and state, the sequence with the fault awaited, the time of each phase, why the child was
//! picked, the last finds. One box at 80 x 24; three where there is room. Pure.

use super::format::short;
use super::look::{Palette, Part, field, render, styled};
use crate::fuzz::{CurrentRun, FindKind, FindLine, NodeState, Snapshot};
use crate::text::{clip, clock, columns};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Instant;

/// From here on the boxes stand side by side.
const WIDE: u16 = 110;
/// Inner lines from which on there is a box for the nodes and one for the run.
const HIGH: u16 = 12;
/// Label column.
const LABEL: usize = 9;

/// Draws into what page 1 has left.
pub fn draw(frame: &mut Frame<'_>, area: Rect, s: &Snapshot, now: Instant, p: Palette) {
    let rows = usize::from(area.height.saturating_sub(2));
    let width = usize::from(area.width.saturating_sub(2));
    if area.width < WIDE || area.height < HIGH + 2 {
        render(
            frame,
            area,
            Part::new("cluster", one_box(s, now, width, rows, p)),
            p,
        );
        return;
    }
    let left_w = area.width * 2 / 5;
    let phases = phase_table(s, now, p);
    let nodes = node_table(&s.nodes, usize::from(left_w) - 1, p);
    let faults = s.current.faults.len().max(1);
    // Nodes and phases on the left, faults on the right, both as high as the higher; the finds get the rest.
    let wanted = (nodes.len() + 1 + phases.len()).max(faults + 4);
    let upper = wanted.min(rows.saturating_sub(3).max(4));
    let upper_h = u16::try_from(upper).unwrap_or(area.height) + 2;
    let mut left = nodes;
    // The last phases take longest: an empty line is not worth one of them.
    if left.len() + phases.len() < upper {
        left.push(Line::default());
    }
    left.extend(phases);
    left.truncate(upper);
    render(
        frame,
        Rect::new(area.x, area.y, left_w + 1, upper_h),
        Part::new("cluster", left),
        p,
    );
    let right_w = area.width - left_w;
    let mut right = sequence_table(s, usize::from(right_w) - 2, p);
    right.truncate(upper);
    render(
        frame,
        Rect::new(area.x + left_w, area.y, right_w, upper_h),
        Part::new("this run", right),
        p,
    );
    let y = area.y + upper_h - 1;
    let lower = Rect::new(
        area.x,
        y,
        area.width,
        (area.y + area.height).saturating_sub(y),
    );
    let rows = usize::from(lower.height.saturating_sub(2));
    let room = width.saturating_sub(LABEL + 3);
    let lines = finds(s, rows, room, true, p);
    render(frame, lower, Part::new("last finds", lines), p);
}

/// Four lines at 24 rows: nodes, sequence, phase, why; the message takes the place of why. More rows: each fault its own line, finds.
fn one_box(
    s: &Snapshot,
    now: Instant,
    width: usize,
    rows: usize,
    p: Palette,
) -> Vec<Line<'static>> {
    let room = width.saturating_sub(LABEL + 3);
    let mut lines = vec![node_line(&s.nodes, room, p)];
    let faults = &s.current.faults;
    if faults.len() > 1 && rows >= faults.len() + 4 {
        lines.extend(fault_lines(s, room, p));
    } else {
        lines.push(sequence_line(s, room, p));
    }
    lines.push(field(p, LABEL, "phase", clip(&phase_text(s, now), room)));
    let left = rows.saturating_sub(lines.len());
    let message = message(s).map(|m| note(&m, room, p));
    if left > 1 || message.is_none() {
        lines.push(field(p, LABEL, "why", clip(&s.current.why, room)));
    }
    let left = rows.saturating_sub(lines.len() + usize::from(message.is_some()));
    lines.extend(finds(s, left, room, false, p));
    lines.extend(message);
    lines
}

/// What the user should know now.
fn message(s: &Snapshot) -> Option<String> {
    [&s.message, &s.news]
        .into_iter()
        .find(|t| !t.is_empty())
        .cloned()
}

fn note(text: &str, room: usize, p: Palette) -> Line<'static> {
    styled(p, LABEL, "note", clip(text, room), p.note())
}

/// Role of a node that lives, state of one that does not; both where they matter.
fn node_word(n: &NodeState) -> String {
    match (n.state.as_str(), n.role.as_str()) {
        ("alive" | "", role) => role.to_owned(),
        ("held" | "cut", role) if !role.is_empty() => format!("{role}({})", n.state),
        (state, _) => state.to_owned(),
    }
}

/// The same in fewer letters.
fn short_word(n: &NodeState) -> String {
    let word = node_word(n);
    word.replace("follower", "foll")
        .replace("starting", "start")
}

/// Of a node that lives as usual nothing.
fn word_of_trouble(n: &NodeState) -> String {
    match n.state.as_str() {
        "alive" => String::new(),
        _ => short_word(n),
    }
}

fn node_line(nodes: &[NodeState], room: usize, p: Palette) -> Line<'static> {
    let mut spans = vec![Span::styled(format!("{:>LABEL$} : ", "nodes"), p.label())];
    // Eleven nodes do not fit 66 columns: fewer letters, and at last those that live by their names alone, behind the others.
    let mut nodes: Vec<&NodeState> = nodes.iter().collect();
    let texts = |nodes: &[&NodeState], word: fn(&NodeState) -> String| -> Vec<String> {
        let text = |n: &&NodeState| match word(n) {
            word if word.is_empty() => n.name.clone(),
            word => format!("{}:{word}", n.name),
        };
        nodes.iter().map(text).collect()
    };
    let fits = |w: &[String]| w.iter().map(|t| columns(t) + 1).sum::<usize>() <= room + 1;
    let mut shown = texts(&nodes, node_word);
    if !fits(&shown) {
        shown = texts(&nodes, short_word);
    }
    if !fits(&shown) {
        nodes.sort_by_key(|n| n.state == "alive");
        shown = texts(&nodes, word_of_trouble);
    }
    let mut used = 0;
    for (n, text) in nodes.into_iter().zip(shown) {
        used += columns(&text) + 1;
        if used > room + 1 {
            spans.push(Span::raw("~"));
            break;
        }
        spans.push(Span::styled(text, p.state(&n.state)));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

fn node_table(nodes: &[NodeState], width: usize, p: Palette) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(
        format!("{:>9}   {:<12} {:<9} {}", "node", "role", "state", "JVM"),
        p.label(),
    )];
    for n in nodes {
        let jvm = if n.incarnation == 0 {
            String::new()
        } else {
            format!("#{}", n.incarnation)
        };
        let text = format!(
            "{:>9}   {:<12} {:<9} {jvm}",
            n.name,
            clip(&n.role, 12),
            n.state
        );
        lines.push(Line::styled(clip(&text, width), p.state(&n.state)));
    }
    lines
}

/// Kinds in order, done ones plain, the one awaited in brackets and highlighted, then where it is awaited.
fn sequence_line(s: &Snapshot, room: usize, p: Palette) -> Line<'static> {
    let c = &s.current;
    let mut spans = vec![Span::styled(
        format!("{:>LABEL$} : ", "sequence"),
        p.label(),
    )];
    if c.faults.is_empty() {
        let text = if c.kinds.is_empty() {
            "no faults"
        } else {
            &c.kinds
        };
        spans.push(Span::raw(clip(text, room)));
        return Line::from(spans);
    }
    let at = c.injected.min(c.faults.len() - 1);
    let mut used = 0;
    let mut put = |text: String, style: Style| {
        let text = clip(&text, room.saturating_sub(used));
        used += columns(&text);
        spans.push(Span::styled(text, style));
    };
    if c.faults.len() > 1 {
        put(format!("{}/{} ", c.injected, c.faults.len()), Style::new());
    }
    if at > 0 {
        let done: Vec<&str> = c.faults[..at].iter().map(|f| kind(f)).collect();
        // Of a long past only the number counts.
        let text = if at > 2 {
            format!("{at} done > ")
        } else {
            format!("{} > ", done.join(" > "))
        };
        put(text, p.label());
    }
    if c.awaited {
        put(format!("[{}]", short(&c.faults[at])), p.chosen());
    } else {
        put(short(&c.faults[at]), Style::new());
    }
    for f in &c.faults[at + 1..] {
        put(format!(" > {}", kind(f)), p.label());
    }
    Line::from(spans)
}

fn kind(fault: &str) -> &str {
    fault.split(' ').next().unwrap_or(fault)
}

/// One line per fault: done, awaited (highlighted), or still to come.
fn fault_lines(s: &Snapshot, room: usize, p: Palette) -> Vec<Line<'static>> {
    let c = &s.current;
    let mark = |k: usize| match k {
        k if k < c.injected => ("done   ", Style::new()),
        k if k == c.injected && c.awaited => ("awaited", p.chosen()),
        k if k == c.injected && !c.phase.is_empty() && c.phase != "start" && c.phase != "setup" => {
            ("not    ", Style::new())
        }
        _ => ("-      ", p.label()),
    };
    c.faults
        .iter()
        .enumerate()
        .map(|(k, f)| {
            let (word, style) = mark(k);
            let text = format!("{word} {}", short(f));
            styled(
                p,
                LABEL,
                &format!("fault {}", k + 1),
                clip(&text, room),
                style,
            )
        })
        .collect()
}

fn sequence_table(s: &Snapshot, width: usize, p: Palette) -> Vec<Line<'static>> {
    let room = width.saturating_sub(LABEL + 3);
    // First: what has no room is cut off at the end.
    let mut lines: Vec<_> = message(s).map(|m| note(&m, room, p)).into_iter().collect();
    lines.extend(if s.current.faults.is_empty() {
        // Learning has none; of a replay only the kinds are told.
        let kinds = match s.current.kinds.as_str() {
            "" => "no faults",
            kinds => kinds,
        };
        vec![field(p, LABEL, "sequence", clip(kinds, room))]
    } else {
        fault_lines(s, room, p)
    });
    let parent = s.current.seed_run.map_or_else(
        || "none".to_owned(),
        |id| format!("id:{id:06} (page 3 shows the tree)"),
    );
    lines.push(field(p, LABEL, "parent", clip(&parent, room)));
    // The reason may need more than one line.
    let mut why: Vec<String> = Vec::new();
    for word in s.current.why.split(' ') {
        match why.last_mut() {
            Some(l) if columns(l) + 1 + columns(word) <= room => {
                l.push(' ');
                l.push_str(word);
            }
            _ => why.push(word.to_owned()),
        }
    }
    for (k, text) in why.into_iter().enumerate() {
        lines.push(field(
            p,
            LABEL,
            if k == 0 { "why" } else { "" },
            clip(&text, room),
        ));
    }
    lines.extend(beside_lines(s, room, p));
    lines
}

/// One line for each slot beside the one whose nodes are shown: `test, 1/2 crash+reboot`.
fn beside_lines(s: &Snapshot, room: usize, p: Palette) -> Vec<Line<'static>> {
    let text = |c: &CurrentRun| match (c.phase.as_str(), c.doing.as_str()) {
        (_, "") => "waits".to_owned(),
        ("", _) => format!("slot, {}", c.kinds),
        (phase, _) if c.faults.is_empty() => format!("{phase}, {}", c.kinds),
        (phase, _) => format!("{phase}, {}/{} {}", c.injected, c.faults.len(), c.kinds),
    };
    let line = |(k, c): (usize, &CurrentRun)| {
        field(p, LABEL, &format!("slot {}", k + 2), clip(&text(c), room))
    };
    s.beside.iter().enumerate().map(line).collect()
}

/// `test 1.2 s | start 2.0, setup 0.4`.
fn phase_text(s: &Snapshot, now: Instant) -> String {
    let c = &s.current;
    if s.paused_since.is_some() {
        return "not begun: paused".to_owned();
    }
    if c.phase.is_empty() {
        let text = if c.doing.is_empty() { "" } else { "slot" };
        return text.to_owned();
    }
    let here = c
        .phase_since
        .map_or(0.0, |t| now.saturating_duration_since(t).as_secs_f32());
    let mut text = format!("{} {here:.1} s", c.phase);
    let over: Vec<String> = c
        .phases_ms
        .iter()
        // 66 columns hold all but this one, which is short.
        .filter(|(name, _)| name != "slot")
        .map(|(name, ms)| format!("{name} {}", seconds(*ms)))
        .collect();
    if !over.is_empty() {
        text.push_str(&format!(" | {}", over.join(", ")));
    }
    text
}

/// Each phase with its time in this run and its mean over tested sequences.
fn phase_table(s: &Snapshot, now: Instant, p: Palette) -> Vec<Line<'static>> {
    const PHASES: [&str; 7] = [
        "slot", "start", "setup", "test", "degraded", "heal", "final",
    ];
    let c = &s.current;
    let mut lines = vec![Line::styled(
        format!("{:>9}   {:>8} {:>8}", "phase", "now", "mean"),
        p.label(),
    )];
    for name in PHASES {
        let over = c
            .phases_ms
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, ms)| *ms);
        let over = over.reduce(|a, b| a + b);
        let here = (c.phase == name)
            .then_some(c.phase_since)
            .flatten()
            .map(|t| u64::try_from(now.saturating_duration_since(t).as_millis()).unwrap_or(0));
        let this = match (over, here) {
            (None, None) => "-".to_owned(),
            (a, b) => format!("{} s", seconds(a.unwrap_or(0) + b.unwrap_or(0))),
        };
        let mean = s.phase_means_ms.iter().find(|(n, _)| n == name);
        let mean = mean.map_or_else(|| "-".to_owned(), |(_, ms)| format!("{} s", seconds(*ms)));
        let text = format!("{name:>9} : {this:>8} {mean:>8}");
        let style = if here.is_some() {
            p.chosen()
        } else {
            Style::new()
        };
        lines.push(Line::styled(text, style));
    }
    lines
}

fn seconds(ms: u64) -> String {
    format!("{}.{}", ms / 1000, ms % 1000 / 100)
}

/// The newest finds, the newest last; with `times`, when each came.
fn finds(s: &Snapshot, rows: usize, room: usize, times: bool, p: Palette) -> Vec<Line<'static>> {
    let line = |f: &FindLine| {
        let style = match f.what {
            FindKind::Finding | FindKind::Hang => p.fg(ratatui::style::Color::Red),
            _ => Style::new(),
        };
        let text = if times {
            format!("{}  {}", clock(f.at_ms), short(&f.text))
        } else {
            short(&f.text)
        };
        styled(
            p,
            LABEL,
            &clip(f.what.word(), LABEL),
            clip(&text, room),
            style,
        )
    };
    let skip = s.finds.len().saturating_sub(rows);
    s.finds.iter().skip(skip).map(line).collect()
}
