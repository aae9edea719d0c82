//! The first screen: AFL's boxes and words, and a box for the cluster. One pure function from a snapshot to a frame.
//!
//! Made for 80 x 24; a larger terminal shows more faults and finds, a smaller one is told so. Colours carry AFL's meaning.

use super::format::{ago, clip, days, over_fault_free, percent, run_time_ms, share, short, speed};
use crate::fuzz::{NodeState, Snapshot};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::merge::MergeStrategy;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use std::time::Instant;

const WIDTH: u16 = 80;
const HEIGHT: u16 = 24;

/// Draws one frame.
pub fn draw(frame: &mut Frame, s: &Snapshot, now: Instant, coloured: bool) {
    let area = frame.area();
    if area.width < WIDTH || area.height < HEIGHT {
        let text = format!(
            "Your terminal is too small for the screen: {} x {}, it needs {WIDTH} x {HEIGHT}.\nThe campaign goes on. q ends it.",
            area.width, area.height
        );
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let p = Palette { coloured };
    let (w, h) = (area.width, area.height);
    let run_ms = run_time_ms(s, now);
    frame.render_widget(banner(s, p), Rect::new(0, 0, w, 1));

    // (title, column split, rows): neighbours share a border line, so each box begins on the last line of the one before.
    let mut y = 1;
    let mut row = |frame: &mut Frame, split: u16, lines: u16, left: Part, right: Option<Part>| {
        let height = lines + 2;
        let left_w = if right.is_some() { split + 1 } else { w };
        render(frame, Rect::new(0, y, left_w, height), left, p);
        if let Some(part) = right {
            render(frame, Rect::new(split, y, w - split, height), part, p);
        }
        y += height - 1;
    };
    row(
        frame,
        50,
        4,
        process_timing(s, run_ms, p),
        Some(overall_results(s, p)),
    );
    row(frame, 34, 2, cycle_progress(s, p), Some(map_coverage(s, p)));
    row(
        frame,
        40,
        4,
        stage_progress(s, now, p),
        Some(findings_in_depth(s, p)),
    );
    row(
        frame,
        40,
        3,
        fault_injection(s, p),
        Some(item_geometry(s, p)),
    );
    // What is left below: 4 lines at 24 rows.
    let left = h - 1 - 18 - 1;
    row(frame, 0, left, cluster(s, w, left, p), None);
}

/// A box: its title and its lines.
struct Part {
    title: &'static str,
    lines: Vec<Line<'static>>,
}

#[derive(Clone, Copy)]
struct Palette {
    coloured: bool,
}

impl Palette {
    fn fg(self, c: Color) -> Style {
        if self.coloured {
            Style::new().fg(c)
        } else {
            Style::new()
        }
    }

    fn label(self) -> Style {
        self.fg(Color::DarkGray)
    }

    fn title(self) -> Style {
        self.fg(Color::Cyan)
    }

    /// Red as soon as there is one.
    fn alarm(self, n: u64) -> Style {
        if n > 0 {
            self.fg(Color::Red).add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        }
    }

    /// AFL's cycle counter: magenta while young, then yellow, blue, and green = may stop.
    fn cycles(self, s: &Snapshot) -> Style {
        let colour = match (s.cycles, s.cycles_without_finds) {
            (0, _) => Color::Magenta,
            (_, 0) => Color::Yellow,
            (_, 1..=2) => Color::Blue,
            _ => Color::Green,
        };
        self.fg(colour)
    }
}

fn render(frame: &mut Frame, area: Rect, part: Part, p: Palette) {
    let block = Block::bordered()
        .merge_borders(MergeStrategy::Exact)
        .border_style(p.label())
        .title(Span::styled(format!(" {} ", part.title), p.title()));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(part.lines), inner);
}

/// `label : value`, the label set to the right in `width` characters.
fn field(p: Palette, width: usize, label: &str, value: impl Into<String>) -> Line<'static> {
    styled(p, width, label, value, Style::new())
}

fn styled(
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

fn banner(s: &Snapshot, p: Palette) -> Line<'static> {
    let text = format!(
        "warren {} {{default}} ({}) [{}]",
        env!("CARGO_PKG_VERSION"),
        s.target,
        s.strategy
    );
    Line::from(vec![
        Span::styled(text, p.fg(Color::Yellow).add_modifier(Modifier::BOLD)),
        Span::styled("   q ends", p.label()),
    ])
    .centered()
}

fn process_timing(s: &Snapshot, run_ms: u64, p: Palette) -> Part {
    let run = if s.learning || s.fuzz_started.is_none() {
        "not yet: learning".to_owned()
    } else {
        days(run_ms)
    };
    Part {
        title: "process timing",
        lines: vec![
            field(p, 17, "run time", run),
            field(p, 17, "last new find", ago(run_ms, s.last_find_ms)),
            field(p, 17, "last saved crash", ago(run_ms, s.last_crash_ms)),
            field(p, 17, "last saved hang", ago(run_ms, s.last_hang_ms)),
        ],
    }
}

fn overall_results(s: &Snapshot, p: Palette) -> Part {
    Part {
        title: "overall results",
        lines: vec![
            styled(p, 14, "cycles done", s.cycles.to_string(), p.cycles(s)),
            field(p, 14, "corpus count", s.corpus.to_string()),
            styled(
                p,
                14,
                "saved crashes",
                s.findings.to_string(),
                p.alarm(s.findings),
            ),
            styled(p, 14, "saved hangs", s.hangs.to_string(), p.alarm(s.hangs)),
        ],
    }
}

fn cycle_progress(s: &Snapshot, p: Palette) -> Part {
    let seed_run = s
        .current
        .seed_run
        .map_or_else(|| "fault-free".to_owned(), |id| format!("id:{id:06}"));
    Part {
        title: "cycle progress",
        lines: vec![
            field(p, 15, "now processing", seed_run),
            field(
                p,
                15,
                "runs timed out",
                format!("{} ({})", s.timeouts, percent(s.timeouts, s.execs)),
            ),
        ],
    }
}

fn map_coverage(s: &Snapshot, p: Palette) -> Part {
    Part {
        title: "map coverage",
        lines: vec![
            field(
                p,
                17,
                "map density",
                format!(
                    "{} / {}",
                    percent(s.coverage_fault_free, s.map_size),
                    percent(s.coverage, s.map_size)
                ),
            ),
            field(
                p,
                17,
                "over fault-free",
                format!("{} of {} slots", over_fault_free(s), s.coverage),
            ),
        ],
    }
}

fn stage_progress(s: &Snapshot, now: Instant, p: Palette) -> Part {
    let secs = s.current.since.map_or_else(String::new, |t| {
        format!(", {:.1} s", now.saturating_duration_since(t).as_secs_f32())
    });
    Part {
        title: "stage progress",
        lines: vec![
            field(p, 12, "now trying", clip(&s.current.kinds, 24)),
            field(
                p,
                12,
                "stage",
                clip(&format!("{}{secs}", s.current.doing), 24),
            ),
            field(
                p,
                12,
                "total execs",
                format!("{} ({} tested)", s.execs, s.sequences),
            ),
            field(p, 12, "exec speed", speed(s.execs_per_sec)),
        ],
    }
}

fn findings_in_depth(s: &Snapshot, p: Palette) -> Part {
    Part {
        title: "findings in depth",
        lines: vec![
            styled(
                p,
                14,
                "total crashes",
                format!("{} ({} saved)", s.failing_runs, s.findings),
                p.alarm(s.failing_runs),
            ),
            field(
                p,
                14,
                "total tmouts",
                format!("{} ({} saved)", s.timeouts, s.hangs),
            ),
            field(p, 14, "unknown", s.unknowns.to_string()),
            field(p, 14, "void", s.voids.to_string()),
        ],
    }
}

fn fault_injection(s: &Snapshot, p: Palette) -> Part {
    let i = &s.injected;
    let full = |part, whole| format!("{} ({part}/{whole})", share(part, whole));
    Part {
        title: "fault injection",
        lines: vec![
            field(
                p,
                12,
                "one fault",
                full(i.one_fault_full, i.one_fault_asked),
            ),
            field(p, 12, "longer", full(i.longer_full, i.longer_asked)),
            field(
                p,
                12,
                "drift/late",
                format!("{}/{}, given up {}", i.drift, i.late, i.uninjectable),
            ),
        ],
    }
}

fn item_geometry(s: &Snapshot, p: Palette) -> Part {
    Part {
        title: "item geometry",
        lines: vec![
            field(p, 14, "levels", s.max_depth.to_string()),
            field(
                p,
                14,
                "pending",
                format!("{} in {} classes", s.pending, s.classes),
            ),
            field(p, 14, "stability", format!("{:.2} %", s.stability)),
        ],
    }
}

/// Nodes, phase and sequence; then the newest finds while there is room; the last line is the message when there is one.
fn cluster(s: &Snapshot, width: u16, rows: u16, p: Palette) -> Part {
    let (width, rows) = (usize::from(width).saturating_sub(2), usize::from(rows));
    let room = width.saturating_sub(12);
    let mut lines = vec![nodes(&s.nodes, room, p)];
    let faults = &s.current.faults;
    // At 24 rows the faults share one line; with more room each has its own.
    if faults.len() > 1 && rows >= faults.len() + 4 {
        for (k, f) in faults.iter().enumerate() {
            lines.push(field(
                p,
                9,
                &format!("fault {}", k + 1),
                clip(&short(f), room),
            ));
        }
    } else {
        let all = if faults.is_empty() {
            "no faults".to_owned()
        } else {
            faults.join("; ")
        };
        lines.push(field(p, 9, "sequence", clip(&short(&all), room)));
    }
    let phase = match (s.current.phase.as_str(), s.current.why.as_str()) {
        ("", "") => String::new(),
        (phase, "") => phase.to_owned(),
        (phase, why) => format!("{phase}, taken for {why}"),
    };
    lines.push(field(p, 9, "phase", clip(&phase, room)));
    let mut last: Vec<Line<'static>> = Vec::new();
    let room_below = rows.saturating_sub(lines.len());
    if !s.message.is_empty() && room_below > 0 {
        last.push(styled(
            p,
            9,
            "note",
            clip(&s.message, room),
            p.fg(Color::Yellow),
        ));
    }
    for f in s
        .finds
        .iter()
        .rev()
        .take(room_below - last.len().min(room_below))
    {
        let style = match f.what.as_str() {
            "finding" | "hang" => p.fg(Color::Red),
            _ => Style::new(),
        };
        last.push(styled(
            p,
            9,
            &clip(&f.what, 8),
            clip(&short(&f.text), room),
            style,
        ));
    }
    lines.extend(last.into_iter().rev());
    Part {
        title: "cluster",
        lines,
    }
}

fn nodes(nodes: &[NodeState], room: usize, p: Palette) -> Line<'static> {
    let mut spans = vec![Span::styled(format!("{:>9} : ", "nodes"), p.label())];
    let mut used = 0;
    for n in nodes {
        let what = if n.state.is_empty() || n.state == "alive" {
            n.role.clone()
        } else {
            n.state.clone()
        };
        let text = format!("{}:{what}", n.name);
        used += text.chars().count() + 1;
        if used > room + 1 {
            spans.push(Span::raw("~"));
            break;
        }
        let style = match n.state.as_str() {
            "dead" | "exited" => p.fg(Color::Red),
            "cut" | "held" => p.fg(Color::Yellow),
            "alive" => p.fg(Color::Green),
            _ => Style::new(),
        };
        spans.push(Span::styled(text, style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::{CurrentRun, FindLine, InjectedRates};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn example(t: Instant) -> Snapshot {
        let node = |name: &str, role: &str, state: &str| NodeState {
            name: name.into(),
            role: role.into(),
            state: state.into(),
        };
        Snapshot {
            target: "canary".into(),
            strategy: "crashfuzz".into(),
            started: Some(t),
            fuzz_started: Some(t),
            run_time_ms: 252_000,
            execs: 120,
            sequences: 100,
            execs_per_sec: 0.4,
            corpus: 12,
            pending: 4210,
            classes: 210,
            coverage: 3120,
            map_size: 65_536,
            coverage_fault_free: 3000,
            stability: 98.2,
            findings: 1,
            failing_runs: 2,
            timeouts: 3,
            max_depth: 3,
            last_find_ms: Some(250_000),
            current: CurrentRun {
                doing: "fuzzing".into(),
                faults: vec![
                    "crash n2 at Log.force".into(),
                    "reboot n2 at Log.write".into(),
                ],
                kinds: "crash+reboot".into(),
                phase: "test".into(),
                why: "new fault id".into(),
                seed_run: Some(7),
                since: Some(t),
            },
            nodes: vec![
                node("n1", "leader", "alive"),
                node("n2", "follower", "dead"),
                node("n3", "follower", "cut"),
            ],
            injected: InjectedRates {
                one_fault_asked: 40,
                one_fault_full: 32,
                longer_asked: 10,
                longer_full: 7,
                drift: 2,
                late: 1,
                uninjectable: 4,
            },
            finds: vec![FindLine {
                at_ms: 1,
                what: "finding".into(),
                text: "replicas differ 1a2b3c4d".into(),
            }],
            ..Snapshot::default()
        }
    }

    fn rendered(width: u16, height: u16, s: &Snapshot, t: Instant) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|f| draw(f, s, t, false)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        (0..height)
            .map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect())
            .collect()
    }

    #[test]
    fn all_of_it_fits_80_by_24() {
        let t = Instant::now();
        let lines = rendered(80, 24, &example(t), t);
        let want = [
            (0, "warren 0.1.0 {default} (canary) [crashfuzz]"),
            (1, " process timing "),
            (1, " overall results "),
            (2, "run time : 0 days, 0 hrs, 4 min, 12 sec"),
            (3, "last new find : 0 days, 0 hrs, 0 min, 2 sec"),
            (3, "corpus count : 12"),
            (4, "last saved crash : none seen yet"),
            (4, "saved crashes : 1"),
            (6, " cycle progress "),
            (6, " map coverage "),
            (7, "now processing : id:000007"),
            (7, "map density : 4.58 % / 4.76 %"),
            (8, "runs timed out : 3 (2.50 %)"),
            (8, "over fault-free : 120 of 3120 slots"),
            (10, "now trying : crash+reboot"),
            (10, "total crashes : 2 (1 saved)"),
            (12, "total execs : 120 (100 tested)"),
            (13, "exec speed : 24.0/min"),
            (15, "one fault : 80 % (32/40)"),
            (16, "pending : 4210 in 210 classes"),
            (17, "drift/late : 2/1, given up 4"),
            (17, "stability : 98.20 %"),
            (18, " cluster "),
            (19, "nodes : n1:leader n2:dead n3:cut"),
            (
                20,
                "sequence : crash n2 at Log.force; reboot n2 at Log.write",
            ),
            (21, "phase : test, taken for new fault id"),
            (22, "finding : replicas differ 1a2b3c4d"),
        ];
        for (y, text) in want {
            assert!(
                lines[y].contains(text),
                "line {y} lacks `{text}`:\n{}",
                lines.join("\n")
            );
        }
        // Boxes are closed: every line below the banner ends in a border, and the frame has its four corners.
        for (y, line) in lines.iter().enumerate().skip(1) {
            let last = line.chars().last().unwrap();
            assert!("│┐┤┘".contains(last), "line {y} ends in `{last}`");
        }
        assert!(lines[23].starts_with('└') && lines[23].ends_with('┘'));
    }

    #[test]
    fn five_nodes_fit() {
        let t = Instant::now();
        let mut s = example(t);
        s.nodes = (1..=5)
            .map(|i| NodeState {
                name: format!("zk{i}"),
                role: "follower".into(),
                state: "alive".into(),
            })
            .collect();
        let lines = rendered(80, 24, &s, t);
        assert!(lines[19].contains("zk5:follower"), "{}", lines[19]);
    }

    #[test]
    fn a_message_is_shown_even_when_there_is_little_room() {
        let t = Instant::now();
        let mut s = example(t);
        s.message = "ending after this run".into();
        let lines = rendered(80, 24, &s, t);
        assert!(lines[22].contains("note : ending after this run"));
    }

    #[test]
    fn empty_huge_and_tiny_do_not_panic() {
        let t = Instant::now();
        let mut s = example(t);
        s.nodes = (0..60)
            .map(|i| NodeState {
                name: format!("node{i}"),
                role: "follower".into(),
                state: "alive".into(),
            })
            .collect();
        s.current.faults = (0..10)
            .map(|i| format!("crash {i} {}", "x".repeat(300)))
            .collect();
        for (w, h) in [(80, 24), (200, 60), (81, 25), (40, 10), (1, 1)] {
            rendered(w, h, &s, t);
            rendered(w, h, &Snapshot::default(), t);
        }
        assert!(rendered(60, 20, &s, t)[0].contains("too small"));
        let large = rendered(120, 40, &s, t).join("\n");
        assert!(large.contains("fault 10 : crash 9"), "{large}");
    }
}
