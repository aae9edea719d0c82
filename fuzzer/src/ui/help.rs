//! Page 5: the keys, and what the words on the other pages mean. Pure.

use super::keys::View;
use super::look::{Palette, border};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

const TEXT: &str = "\
1-5, Tab       pages: overview, findings, queue, logs, help (Esc = 1)
arrows         findings: choose; queue: move; logs: node, scroll
PgUp/PgDn      scroll (findings: the evidence); Home, End: first, newest
p              pause before the next run; p again goes on. A pause is no run
               time; the run that is going on is not held up
n              give up the runs that are going on, in every slot: they count
               nowhere, their sequences go back to the queue (three tries in
               all)
               While a finding is being replayed: no more replays of it
q, Ctrl-C      end: the run that is going on is cut off and does not count;
               once more ends at once (code 130). SIGTERM, SIGHUP likewise
Ctrl-L         draw the screen anew

run time       of fuzzing, without set-up, learning and pauses
last new find  a kept run with coverage or states that no run had before
imported       kept runs of other instances (-M, -S) that share the work
corpus count   kept runs: these, and those that end with a crash or a cut
saved crashes  findings, each signature once; hangs: over the limit twice
now processing the kept run whose child is being tried
map density    share of the map set by fault-free runs / by any run
total crashes  runs that failed a check; tmouts: runs over their limit
unknown, void  runs that could not be judged; that went wrong themselves
one, longer    sequences injected in full at their first try
drift, late    a smaller n was taken; the thread was held over 500 ms
given up       sequences never injected in three tries
prefix         tests that began where another run had been dumped after their
               first faults, and the time these had taken (docs/snapshots.md)
levels         faults in the longest sequence that happened
pending        children not yet tried, in classes of alike ones
stability      share of the map equal in all fault-free runs of a start
nodes          the role of one that lives; held = a thread waits at the point;
               cut = on the smaller side of a partition; dead = killed by
               Warren; exited = ended by itself
sequence       the faults in order; the one awaited now in brackets
why            why the strategy picked this child (docs/search.md)
shown k of n   how often a finding showed again when it was replayed
";

/// Lines of the help.
#[must_use]
pub fn lines() -> usize {
    TEXT.lines().count()
}

/// Draws the page.
pub fn draw(frame: &mut Frame<'_>, area: Rect, view: View, p: Palette) {
    let inner = border(frame, area, "help", p);
    let most = lines().saturating_sub(usize::from(inner.height));
    let scroll = u16::try_from(view.help.min(most)).unwrap_or(0);
    let text: Vec<Line<'_>> = TEXT.lines().map(Line::from).collect();
    frame.render_widget(Paragraph::new(text).scroll((scroll, 0)), inner);
}
