//! What a user sees while a campaign runs: a screen with a terminal, a status line a second without one.
//!
//! Started by `warren fuzz`; reads the shared snapshot at its own clock on its own thread, so a slow terminal never holds up
//! a run. Changes nothing but the stop flag. The terminal is given back on every way out: end, error, panic, second Ctrl-C.

mod format;
mod screen;
mod status;

pub use format::clip;
pub use screen::draw;
pub use status::status_line;

use crate::cli::signals::Interrupt;
use crate::fuzz::{SharedSnapshot, Snapshot};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The terminal is in our hands.
static DRAWING: AtomicBool = AtomicBool::new(false);

/// How often the screen is drawn.
const FRAME: Duration = Duration::from_millis(200);

/// Whether a screen is up: nothing may be printed beside it.
#[must_use]
pub fn is_drawing() -> bool {
    DRAWING.load(Ordering::SeqCst)
}

/// Gives the terminal back, if it is in our hands. Safe to call from anywhere, any number of times.
pub fn restore_terminal() {
    if DRAWING.swap(false, Ordering::SeqCst) {
        ratatui::restore();
    }
}

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
                match run_screen(&snapshot, &interrupt, &flag) {
                    Ok(()) => return,
                    Err(e) => {
                        restore_terminal();
                        eprintln!("warren: the screen ended: {e}; going on with a status line");
                    }
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
            let _ = t.join();
        }
        restore_terminal();
    }
}

fn run_screen(
    snapshot: &SharedSnapshot,
    interrupt: &Interrupt,
    end: &AtomicBool,
) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    DRAWING.store(true, Ordering::SeqCst);
    // ratatui's own hook gives the terminal back; ours, called first, keeps this thread from drawing over the message.
    let ratatuis = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        DRAWING.store(false, Ordering::SeqCst);
        ratatuis(info);
    }));
    let coloured = colours();
    while !end.load(Ordering::SeqCst) && is_drawing() {
        // The lines are for those who have no screen; drained so that they do not pile up.
        let _ = snapshot.drain_lines();
        let mut now = snapshot.get();
        if interrupt.asked() && now.message.is_empty() {
            now.message =
                "ending: the present run is cut off; once more (q or Ctrl-C) ends at once"
                    .to_owned();
        }
        terminal.draw(|frame| draw(frame, &now, Instant::now(), coloured))?;
        if !event::poll(FRAME)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            let ctrl_c =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if ctrl_c || key.code == KeyCode::Char('q') {
                interrupt.ask();
            }
        }
    }
    restore_terminal();
    Ok(())
}

/// A line a second, and the campaign's own lines as they come. Ends with everything printed.
fn run_status(snapshot: &SharedSnapshot, end: &AtomicBool) {
    let mut next = Instant::now() + Duration::from_secs(1);
    loop {
        let ending = end.load(Ordering::SeqCst);
        for line in snapshot.drain_lines() {
            print_line(&line);
        }
        if ending {
            break;
        }
        if Instant::now() >= next {
            next += Duration::from_secs(1);
            let now: Snapshot = snapshot.get();
            if now.started.is_some() && !now.ended {
                print_line(&status_line(&now, Instant::now()));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A reader that went away (`| head`) must not end a campaign.
fn print_line(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
