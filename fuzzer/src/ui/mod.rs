//! What a user sees while a campaign runs: a screen with a terminal, a status line a second without one.
//!
//! Started by `warren fuzz`; reads the shared snapshot at its own clock on its own thread, so a slow terminal never holds up
//! a run. Asks for three things only: an end, a pause, and that the run going on is given up. The terminal is given back on every
//! way out; one that disappears ends the campaign, as with AFL.

mod cluster;
mod files;
mod findings;
mod format;
mod help;
mod keys;
mod logs;
mod look;
mod overview;
mod queue;
mod said;
#[cfg(test)]
mod samples;
mod screen;
mod status;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod ways_out;

pub use status::status_line;

use crate::cli::signals::Interrupt;
use crate::fuzz::{SharedSnapshot, Snapshot};
use crate::terminal::{self, restore_terminal};
use crate::text::one_line;
use crate::text::printable;
use files::Files;
use keys::{Act, Lengths, Page, View, press};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind};
use ratatui::layout::Size;
use said::Said;
use std::io::{self, IsTerminal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the screen is drawn.
const FRAME: Duration = Duration::from_millis(200);

/// How long a line that the campaign said is shown.
const NEWS: Duration = Duration::from_secs(20);

/// How long the end waits for the screen's thread.
const LAST_FRAME: Duration = Duration::from_secs(2);

/// Whether colours may be used (NO_COLOR, set and not empty, says no).
#[must_use]
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// The running screen or status line. Dropping it ends the thread and gives the terminal back.
pub struct Ui {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ui {
    /// Starts the screen when stdin and stdout are a terminal and `no_ui` is not set; the status line otherwise.
    #[must_use]
    pub fn start(snapshot: SharedSnapshot, interrupt: Interrupt, no_ui: bool) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&end);
        let screen = !no_ui && io::stdout().is_terminal() && io::stdin().is_terminal();
        let thread = std::thread::spawn(move || {
            if screen {
                let mut said = Said::default();
                let shown = catch_unwind(AssertUnwindSafe(|| {
                    show(&snapshot, &interrupt, &flag, &mut said)
                }));
                let again = || {
                    restore_terminal();
                    print!("{}", printable(&said.text()));
                };
                let without = |e: io::Error| {
                    eprintln!(
                        "warren: no screen on this terminal: {e}; going on with a status line"
                    );
                };
                match shown {
                    Ok(Shown::Ended) => return again(),
                    Ok(Shown::Gone) => {
                        // AFL's way: nobody looks any more, so it ends, gracefully. Only the flag: a SIGHUP may have come too.
                        interrupt.hang_up();
                        return;
                    }
                    // A panic, here or of a checker that was caught: its message is on the terminal, the campaign goes on.
                    Ok(Shown::Lost) | Err(_) => again(),
                    Ok(Shown::Broken(e)) => {
                        again();
                        without(e);
                    }
                    Ok(Shown::Never(e)) => without(e),
                }
            }
            run_status(&snapshot, &flag);
        });
        Ui {
            end,
            thread: Some(thread),
        }
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        if let Some(t) = self.thread.take() {
            // A thread that hangs on a terminal that has gone must not hold up the end.
            let until = Instant::now() + LAST_FRAME;
            while !t.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if t.is_finished() {
                let _ = t.join();
            }
        }
        restore_terminal();
    }
}

/// Why the screen is no longer there.
enum Shown {
    /// The campaign is over, or Warren is.
    Ended,
    /// The terminal has gone away.
    Gone,
    /// Drawing on or reading from a terminal that is there failed.
    Broken(io::Error),
    /// The terminal was given back under our hands.
    Lost,
    Never(io::Error),
}

fn show(
    snapshot: &SharedSnapshot,
    interrupt: &Interrupt,
    end: &AtomicBool,
    said: &mut Said,
) -> Shown {
    let mut terminal = match terminal::take() {
        Ok(t) => t,
        Err(e) => return Shown::Never(e),
    };
    let mut screen = Screen::new(colours());
    while !end.load(Ordering::SeqCst) {
        // There is room for the newest one here; all come when the terminal is given back.
        let lines = snapshot.drain_lines();
        screen.hear(&lines, Instant::now());
        said.take(lines);
        match screen.turn(&mut terminal, snapshot, interrupt) {
            Ok(true) => {}
            Ok(false) => return Shown::Lost,
            Err(e) => match after(e, || terminal::keys_within(Duration::ZERO)) {
                None => std::thread::sleep(FRAME),
                Some(why) => {
                    restore_terminal();
                    return why;
                }
            },
        }
    }
    said.take(snapshot.drain_lines());
    Shown::Ended
}

/// What becomes of the screen after an error; none: the next frame may succeed, as on a terminal that another program left so that writing does
/// not wait. The error of one that is gone may be any: `still` asks it.
fn after(e: io::Error, still: impl FnOnce() -> io::Result<bool>) -> Option<Shown> {
    if terminal::is_gone(&e) {
        return Some(Shown::Gone);
    }
    match still() {
        Err(gone) if terminal::is_gone(&gone) => Some(Shown::Gone),
        _ if e.kind() == io::ErrorKind::WouldBlock => None,
        _ => Some(Shown::Broken(e)),
    }
}

/// What the screen's thread keeps between two frames.
struct Screen {
    view: View,
    files: Files,
    /// The chosen run of the queue: its row is another one when a run is kept above it.
    chosen: Option<u64>,
    coloured: bool,
    /// An answer to a key, and the begin of the run that it is about: it is shown while this one goes on.
    note: Option<(&'static str, Option<Instant>)>,
    /// The newest line that the campaign said, and when.
    news: Option<(String, Instant)>,
}

impl Screen {
    fn new(coloured: bool) -> Self {
        Screen {
            view: View::default(),
            files: Files::default(),
            chosen: None,
            coloured,
            note: None,
            news: None,
        }
    }

    /// Of what the campaign says, the newest is shown for a while: a warning must not wait for the end. Lines that begin with a blank go with
    /// the one before them.
    fn hear(&mut self, lines: &[String], now: Instant) {
        let newest = lines.iter().rfind(|l| !l.starts_with(' ') && !l.is_empty());
        if let Some(line) = newest {
            self.news = Some((one_line(line), now));
        }
        if self
            .news
            .as_ref()
            .is_some_and(|(_, at)| now.saturating_duration_since(*at) > NEWS)
        {
            self.news = None;
        }
    }

    /// What the page in view needs of files.
    fn refresh(&mut self, s: &Snapshot, now: Instant) {
        self.files.refresh(s, self.view, now);
        let row = |id| queue::row_of(&self.files.rows, id);
        if let Some(at) = self.chosen.and_then(row) {
            self.view.row = Some(at);
        }
    }

    /// One frame, and the keys that come before the next one is due. `false`: the terminal was given back.
    fn turn(
        &mut self,
        terminal: &mut DefaultTerminal,
        snapshot: &SharedSnapshot,
        interrupt: &Interrupt,
    ) -> io::Result<bool> {
        let now = Instant::now();
        let mut s = snapshot.get();
        self.refresh(&s, now);
        if s.message.is_empty() {
            s.message = self.message(&s, snapshot, interrupt);
        }
        if let Some((news, _)) = &self.news {
            s.news.clone_from(news);
        }
        let drawn = terminal::frame(terminal, |frame| {
            screen::draw(frame, &s, self.view, &self.files, now, self.coloured);
        })?;
        if !drawn {
            return Ok(false);
        }
        if !terminal::keys_within(FRAME)? {
            return Ok(true);
        }
        // All that has come, so that a held key does not lag behind; any other event only means another frame.
        while let Some(event) = terminal::event()? {
            if let Event::Key(key) = event
                && key.kind != KeyEventKind::Release
            {
                let size = terminal.size()?;
                self.key(key, &s, size, snapshot, interrupt);
                if matches!(press(self.view, key, Lengths::default()).1, Act::Redraw) {
                    terminal.clear()?;
                }
            }
        }
        Ok(true)
    }

    fn key(
        &mut self,
        key: KeyEvent,
        s: &Snapshot,
        size: Size,
        snapshot: &SharedSnapshot,
        interrupt: &Interrupt,
    ) {
        let node = s.nodes.get(self.view.node);
        let log = node.and_then(|n| self.files.logs.get(&n.name));
        let lengths = Lengths {
            findings: s.kept_findings.len(),
            text: findings::scrolled_most(
                screen::page(size),
                s,
                self.view,
                self.files.story.as_ref(),
            ),
            rows: self.files.rows.len(),
            newest: queue::newest(&self.files.rows),
            nodes: s.nodes.len(),
            log: log.map_or(0, |l| l.lines.len()),
            page: usize::from(size.height.saturating_sub(5)).max(1),
        };
        let (view, act) = press(self.view, key, lengths);
        self.view = view;
        let row = view.row.and_then(|at| self.files.rows.get(at));
        self.chosen = row.map(|r| r.entry.id);
        if view.page == Page::Help {
            self.view.help = view.help.min(help::lines());
        }
        match act {
            Act::Look | Act::Redraw => {}
            Act::Quit => interrupt.ask(),
            Act::Pause => {
                snapshot.toggle_pause();
            }
            Act::GiveUp => self.note = Some((give_up(s, snapshot), s.current.since)),
        }
    }

    /// What the user should know now, the most important first.
    fn message(&self, s: &Snapshot, snapshot: &SharedSnapshot, interrupt: &Interrupt) -> String {
        if interrupt.asked() {
            return "ending: the present run is cut off; once more (q or Ctrl-C) ends at once"
                .into();
        }
        if s.paused_since.is_some() {
            return "paused: p goes on; the time does not count".into();
        }
        if snapshot.pause_wished() {
            return "pausing when the present run has ended; p goes on".into();
        }
        match self.note {
            Some((text, run)) if run == s.current.since => text.into(),
            _ => String::new(),
        }
    }
}

/// Key `n`: what it does now, for the user.
fn give_up(s: &Snapshot, snapshot: &SharedSnapshot) -> &'static str {
    if s.learning {
        return "n: nothing to give up, learning needs its runs";
    }
    if s.paused_since.is_some() {
        return "n: no run is going on";
    }
    snapshot.give_up_run();
    "giving up what is running: it does not count"
}

/// A line a second, and the campaign's own lines as they come. Ends with everything printed.
fn run_status(snapshot: &SharedSnapshot, end: &AtomicBool) {
    let mut next = Instant::now() + Duration::from_secs(1);
    loop {
        let ending = end.load(Ordering::SeqCst);
        for line in snapshot.drain_lines() {
            println!("{}", printable(&line));
        }
        if ending {
            break;
        }
        if due(&mut next, Instant::now()) {
            let now: Snapshot = snapshot.get();
            if now.started.is_some() && !now.ended {
                println!("{}", status_line(&now, Instant::now()));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether the next status line is due: a second after the last one was, however long printing that was held up.
fn due(next: &mut Instant, now: Instant) -> bool {
    let due = now >= *next;
    if due {
        *next = now + Duration::from_secs(1);
    }
    due
}
