//! Page 3: kept runs as a tree, children below the run they were made from. The tree is made here, from the names in queue/. Pure.

use super::keys::View;
use super::look::{Palette, Part, render};
use crate::campaign::EntryName;
use crate::fuzz::Snapshot;
use crate::text::{clip, clock};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use std::collections::BTreeMap;

/// One line of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Guides, such as `| '- `.
    pub guides: String,
    pub entry: EntryName,
    pub children: usize,
}

/// All entries, each below its parent, brothers by id. One whose parent is not there stands at the left.
#[must_use]
pub fn tree(entries: Vec<EntryName>) -> Vec<Row> {
    let mut by_id: BTreeMap<u64, EntryName> = BTreeMap::new();
    for e in entries {
        by_id.entry(e.id).or_insert(e);
    }
    let mut below: BTreeMap<Option<u64>, Vec<u64>> = BTreeMap::new();
    for e in by_id.values() {
        // Ids rise: a parent is older. Anything else is no parent, so there is no circle.
        // Of a run taken over it is an id of that instance.
        let here = e.src.filter(|_| e.sync.is_none());
        let parent = here.filter(|p| *p < e.id && by_id.contains_key(p));
        below.entry(parent).or_default().push(e.id);
    }
    let none = Vec::new();
    let children = |id: Option<u64>| below.get(&id).unwrap_or(&none);
    let mut rows = Vec::with_capacity(by_id.len());
    // (id, guides of its line, guides of the lines below it)
    let mut open: Vec<(u64, String, String)> = children(None)
        .iter()
        .rev()
        .map(|id| (*id, String::new(), String::new()))
        .collect();
    while let Some((id, guides, deeper)) = open.pop() {
        let kids = children(Some(id));
        for (k, kid) in kids.iter().enumerate().rev() {
            let last = k + 1 == kids.len();
            let (here, on) = if last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            open.push((*kid, format!("{deeper}{here}"), format!("{deeper}{on}")));
        }
        if let Some(entry) = by_id.get(&id) {
            rows.push(Row {
                guides,
                entry: entry.clone(),
                children: kids.len(),
            });
        }
    }
    rows
}

/// Draws the page.
pub fn draw(frame: &mut Frame<'_>, area: Rect, s: &Snapshot, view: View, rows: &[Row], p: Palette) {
    let title = format!(
        "queue: {} kept runs, {} children pending in {} classes",
        rows.len(),
        s.pending,
        s.classes
    );
    if rows.is_empty() {
        let text = vec![Line::from(
            "No run is kept yet: the fault-free run comes first.",
        )];
        render(frame, area, Part::new(title, text), p);
        return;
    }
    let height = usize::from(area.height.saturating_sub(2)).max(1);
    let width = usize::from(area.width.saturating_sub(2));
    // Without a choice the newest run is looked at, wherever in the tree it stands.
    let at = view.row.unwrap_or_else(|| newest(rows)).min(rows.len() - 1);
    // The chosen line stands in the middle where that is possible.
    let first = at
        .saturating_sub(height / 2)
        .min(rows.len().saturating_sub(height));
    let lines = rows
        .iter()
        .enumerate()
        .skip(first)
        .take(height)
        .map(|(k, row)| {
            let now = s.current.seed_run == Some(row.entry.id);
            let style = if k == at {
                p.chosen()
            } else if now {
                p.fg(Color::Green)
            } else if row.entry.new_coverage {
                p.fg(Color::Cyan)
            } else {
                Style::new()
            };
            Line::styled(clip(&text(row, now), width), style)
        })
        .collect();
    render(frame, area, Part::new(title, lines), p);
}

/// Where the newest run stands.
#[must_use]
pub fn newest(rows: &[Row]) -> usize {
    let newest = rows.iter().enumerate().max_by_key(|(_, r)| r.entry.id);
    newest.map_or(0, |(k, _)| k)
}

/// Where this run stands.
#[must_use]
pub fn row_of(rows: &[Row], id: u64) -> Option<usize> {
    rows.iter().position(|r| r.entry.id == id)
}

/// The kinds stand last: there may be many, and a narrow terminal cuts them.
fn text(row: &Row, now: bool) -> String {
    let e = &row.entry;
    let mut text = format!("{}id:{:06}", row.guides, e.id);
    if e.new_coverage {
        text.push_str(" +cov");
    }
    text.push_str(&format!(" at {}, run {}", clock(e.time_ms), e.execs));
    match row.children {
        0 => {}
        1 => text.push_str(", 1 child kept"),
        n => text.push_str(&format!(", {n} children kept")),
    }
    if now {
        text.push_str(", a child of it runs now");
    }
    let kinds = e.orig.as_ref().unwrap_or(&e.op);
    format!("{text}: {kinds}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, src: Option<u64>) -> EntryName {
        let src = src.map_or(String::new(), |s| format!(",src:{s:06}"));
        format!("id:{id:06}{src},time:1000,execs:5,op:crash")
            .parse()
            .unwrap()
    }

    fn shape(entries: &[(u64, Option<u64>)]) -> Vec<String> {
        let entries = entries.iter().map(|(id, src)| entry(*id, *src)).collect();
        tree(entries)
            .into_iter()
            .map(|r| format!("{}{}", r.guides, r.entry.id))
            .collect()
    }

    #[test]
    fn children_stand_below_their_parents() {
        type Case<'a> = (&'a [(u64, Option<u64>)], &'a [&'a str]);
        let table: [Case<'_>; 5] = [
            (&[], &[]),
            (&[(0, None)], &["0"]),
            (
                &[
                    (0, None),
                    (1, Some(0)),
                    (2, Some(0)),
                    (3, Some(1)),
                    (4, Some(3)),
                ],
                &["0", "├─ 1", "│  └─ 3", "│     └─ 4", "└─ 2"],
            ),
            // A lost parent, and names that no campaign writes: nothing is lost, nothing goes round.
            (&[(5, Some(3)), (7, Some(5))], &["5", "└─ 7"]),
            (
                &[(1, Some(2)), (2, Some(1)), (3, Some(3))],
                &["1", "└─ 2", "3"],
            ),
        ];
        for (entries, want) in table {
            assert_eq!(shape(entries), want);
        }
    }
}
