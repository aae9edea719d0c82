//! Page 1: AFL's boxes with AFL's words, and below them the cluster and the run that is going on. Pure.
//!
//! Made for 80 x 24; what is higher or wider shows more of the cluster, the faults and the finds.

use super::cluster;
use super::format::{ago, days, over_fault_free, percent, run_time_ms, share, speed};
use super::look::{Palette, Part, field, render, styled};
use crate::fuzz::Snapshot;
use crate::text::clip;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;
use warren_model::FailureKind;

/// Draws the page into `area` (from the line below the banner on).
pub fn draw(frame: &mut Frame<'_>, area: Rect, s: &Snapshot, now: Instant, p: Palette) {
    let w = area.width;
    let run_ms = run_time_ms(s, now);
    let mut y = area.y;
    // Neighbours share a border line, so each box begins on the last line of the one before.
    let mut row = |split: u16, left: Part, right: Part| {
        let lines = left.lines.len().max(right.lines.len());
        let height = u16::try_from(lines).unwrap_or(1) + 2;
        // Wider terminals keep the proportion of AFL's 80 columns.
        let split = u16::try_from(u32::from(split) * u32::from(w) / 80).unwrap_or(split);
        render(frame, Rect::new(area.x, y, split + 1, height), left, p);
        render(
            frame,
            Rect::new(area.x + split, y, w - split, height),
            right,
            p,
        );
        y += height - 1;
        split
    };
    row(50, process_timing(s, run_ms, p), overall_results(s, p));
    row(34, cycle_progress(s, p), map_coverage(s, p));
    let split = row(40, stage_progress(s, now, p), findings_in_depth(s, p));
    let value = usize::from(split).saturating_sub(16);
    // Reasons need lines that 24 rows do not have.
    let reasons = if area.height >= 32 { 3 } else { 0 };
    row(
        40,
        fault_injection(s, reasons, value, p),
        item_geometry(s, reasons, p),
    );
    let rest = Rect::new(area.x, y, w, (area.y + area.height).saturating_sub(y));
    cluster::draw(frame, rest, s, now, p);
}

fn process_timing(s: &Snapshot, run_ms: u64, p: Palette) -> Part {
    let run = if s.learning || s.fuzz_started.is_none() {
        "not yet: learning".to_owned()
    } else {
        days(run_ms)
    };
    Part::new(
        "process timing",
        vec![
            field(p, 16, "run time", run),
            field(p, 16, "last new find", ago(run_ms, s.last_find_ms)),
            field(p, 16, "last saved crash", ago(run_ms, s.last_crash_ms)),
            field(p, 16, "last saved hang", ago(run_ms, s.last_hang_ms)),
        ],
    )
}

fn overall_results(s: &Snapshot, p: Palette) -> Part {
    Part::new(
        "overall results",
        vec![
            field(p, 14, "imported", imported(s)),
            field(p, 14, "corpus count", s.corpus.to_string()),
            saved(
                "saved crashes",
                s.findings,
                s.known_of(|kind| kind != FailureKind::Hang),
                p,
            ),
            saved(
                "saved hangs",
                s.hangs,
                s.known_of(|kind| kind == FailureKind::Hang),
                p,
            ),
        ],
    )
}

/// `12 from 3`: kept runs that came from other instances, and how many of these share the work now.
fn imported(s: &Snapshot) -> String {
    match (s.imported, s.others) {
        (0, 0) => "-".to_owned(),
        (n, 0) => n.to_string(),
        (n, others) => format!("{n} from {others}"),
    }
}

/// `2 (1 known)`; red as soon as one is new.
fn saved(label: &str, all: u64, known: u64, p: Palette) -> Line<'static> {
    let text = match known {
        0 => all.to_string(),
        known => format!("{all} ({known} known)"),
    };
    styled(p, 14, label, text, p.alarm(all.saturating_sub(known)))
}

fn cycle_progress(s: &Snapshot, p: Palette) -> Part {
    let seed_run = s
        .current
        .seed_run
        .map_or_else(|| "fault-free".to_owned(), |id| format!("id:{id:06}"));
    Part::new(
        "cycle progress",
        vec![
            field(p, 15, "now processing", seed_run),
            field(
                p,
                15,
                "runs timed out",
                format!("{} ({})", s.timeouts, percent(s.timeouts, s.execs)),
            ),
        ],
    )
}

fn map_coverage(s: &Snapshot, p: Palette) -> Part {
    let density = format!(
        "{} / {}",
        percent(s.coverage_fault_free, s.map_size),
        percent(s.coverage, s.map_size)
    );
    let over = format!("{} of {} slots", over_fault_free(s), s.coverage);
    Part::new(
        "map coverage",
        vec![
            field(p, 17, "map density", density),
            field(p, 17, "over fault-free", over),
        ],
    )
}

fn stage_progress(s: &Snapshot, now: Instant, p: Palette) -> Part {
    let told = s.foremost();
    let stage = match (s.paused_since, told.since) {
        (Some(t), _) => format!(
            "paused for {:.0} s",
            now.saturating_duration_since(t).as_secs_f32()
        ),
        (None, Some(t)) => format!(
            "{}, {:.1} s",
            told.doing,
            now.saturating_duration_since(t).as_secs_f32()
        ),
        (None, None) => told.doing.clone(),
    };
    Part::new(
        "stage progress",
        vec![
            field(p, 12, "now trying", clip(&told.kinds, 24)),
            field(p, 12, "stage", clip(&stage, 24)),
            field(
                p,
                12,
                "total execs",
                format!("{} ({} tested)", s.execs, s.sequences),
            ),
            field(p, 12, "exec speed", exec_speed(s)),
        ],
    )
}

/// `38.1/min`, with slots side by side `71.0/min, 3 slots`.
fn exec_speed(s: &Snapshot) -> String {
    let speed = speed(s.execs_per_sec);
    match s.beside.len() {
        0 => speed,
        beside => format!("{speed}, {} slots", beside + 1),
    }
}

fn findings_in_depth(s: &Snapshot, p: Palette) -> Part {
    Part::new(
        "findings in depth",
        vec![
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
    )
}

/// Where there is room, what prefix snapshots spared, and why faults did not happen, most frequent first.
fn fault_injection(s: &Snapshot, reasons: usize, room: usize, p: Palette) -> Part {
    let i = &s.injected;
    let full = |part, whole| format!("{} ({part}/{whole})", share(part, whole));
    let mut lines = vec![
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
    ];
    if reasons > 0 {
        lines.push(field(p, 12, "prefix", clip(&prefix(s), room)));
    }
    let why = why_not(s);
    for k in 0..reasons.saturating_sub(1) {
        let label = if k == 0 { "not injected" } else { "" };
        lines.push(match why.get(k) {
            Some(text) => field(p, 12, label, clip(text, room)),
            None if k == 0 => field(p, 12, label, "none"),
            None => Line::default(),
        });
    }
    Part::new("fault injection", lines)
}

/// `27, point never came`, the most frequent first. How many of them asked for one fault and how many for more the shares above say.
fn why_not(s: &Snapshot) -> Vec<String> {
    let mut why: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, n) in &s.not_injected {
        let lengths = ["one_fault_", "longer_"];
        let reason = lengths.iter().find_map(|l| key.strip_prefix(l));
        *why.entry(reason.unwrap_or(key)).or_default() += n;
    }
    let mut why: Vec<_> = why.into_iter().collect();
    why.sort_by_key(|(_, n)| Reverse(*n));
    let text = |(reason, n)| format!("{n}, {}", in_words(reason));
    why.into_iter().map(text).collect()
}

/// A reason of `NotInjected` in words, short enough for a number of four digits before it in a window of 80 columns (docs/campaign.md,
/// `not_injected_...`, has them all).
fn in_words(reason: &str) -> &str {
    match reason {
        "bound" => "point never came",
        "silence" => "cluster went quiet",
        "node-dead" => "its node was dead",
        "self-exit" => "its node exited",
        "constraint" => "no longer allowed",
        "limit" => "run over its limit",
        "stopped" => "run was given up",
        "ended" => "run had ended",
        other => other,
    }
}

/// `14.20 % of tests, 612 s spared`.
fn prefix(s: &Snapshot) -> String {
    match s.spared.from_prefix {
        0 => "none".to_owned(),
        from => format!(
            "{} of tests, {} s spared",
            percent(from, s.sequences),
            s.spared.prefix_ms / 1000
        ),
    }
}

fn item_geometry(s: &Snapshot, more: usize, p: Palette) -> Part {
    let (stability, style) = if s.learning {
        ("not yet: learning".to_owned(), Style::new())
    } else {
        (format!("{:.2} %", s.stability), p.stability(s.stability))
    };
    let mut lines = vec![
        field(p, 14, "levels", s.max_depth.to_string()),
        field(
            p,
            14,
            "pending",
            format!("{} in {} classes", s.pending, s.classes),
        ),
        styled(p, 14, "stability", stability, style),
    ];
    if more > 0 {
        lines.push(field(p, 14, "last minute", speed(s.execs_last_minute)));
        lines.push(field(p, 14, "learning", days(s.learning_ms)));
        lines.push(field(p, 14, "seed", s.seed.to_string()));
    }
    Part::new("item geometry", lines)
}
