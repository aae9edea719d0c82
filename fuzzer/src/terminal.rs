//! The terminal while the screen is up: taken once, given back once, on every way out (end, error, panic, signals, second Ctrl-C).
//!
//! Called by `ui` and by the signal handler. It prints nothing but what switches the terminal; a terminal that is gone is no error, and one
//! that nobody reads holds nobody up.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::unistd::write;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::Command;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::{DefaultTerminal, Terminal};
use std::io::{self, stdout};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The terminal is in our hands.
static DRAWING: AtomicBool = AtomicBool::new(false);
/// Held for one frame: nobody gives the terminal back in the middle of one.
static FRAME: Mutex<()> = Mutex::new(());
static HOOK: Once = Once::new();

/// How long giving back waits for a frame that is being written, and for a terminal that takes what leaves the screen. One that needs longer
/// does not read at all (flow control).
const PATIENCE: Duration = Duration::from_millis(300);

/// How long what has come is waited for. Not zero: then it is not looked for at all.
const AT_HAND: Duration = Duration::from_millis(1);

/// Whether a screen is up: nothing may be printed beside it.
#[must_use]
pub fn is_drawing() -> bool {
    DRAWING.load(Ordering::SeqCst)
}

/// Raw mode and the alternate screen.
///
/// # Errors
/// Not a terminal, or one that does not answer or has no room at all. Then it is as it was.
pub fn take() -> io::Result<DefaultTerminal> {
    // Once for the process: ours, called before the one that prints, leaves a screen on which the message can be read.
    HOOK.call_once(|| {
        let printing = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore_terminal();
            printing(info);
        }));
    });
    // So answers a terminal that nobody sees (`docker run -t` without one, `ssh -tt` from a script): nothing would ever be drawn.
    if let (0, _) | (_, 0) = size()? {
        return Err(io::Error::other("it has neither rows nor columns"));
    }
    enable_raw_mode()?;
    DRAWING.store(true, Ordering::SeqCst);
    let made = execute!(stdout(), EnterAlternateScreen)
        .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
    made.inspect_err(|_| restore_terminal())
}

/// Draws one frame unless the terminal was given back meanwhile (false).
///
/// # Errors
/// Writing to the terminal failed.
pub fn frame(
    terminal: &mut DefaultTerminal,
    draw: impl FnOnce(&mut ratatui::Frame<'_>),
) -> io::Result<bool> {
    let _frame = FRAME.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_drawing() {
        return Ok(false);
    }
    terminal.draw(draw)?;
    Ok(true)
}

/// Whether an error of drawing or reading means that the terminal has gone. Any other leaves it there, with somebody before it.
#[must_use]
pub fn is_gone(e: &io::Error) -> bool {
    let code = e.raw_os_error().map(Errno::from_raw);
    e.kind() == io::ErrorKind::BrokenPipe
        || matches!(code, Some(Errno::EIO | Errno::ENXIO | Errno::EBADF))
}

/// Whether a key comes within this time. Asked before [`event`], which does not say that a terminal has gone.
///
/// # Errors
/// The terminal has gone.
pub fn keys_within(time: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let ms = u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
    match poll(&mut asked, ms) {
        // A resize is a signal, too: the next frame shows it.
        Err(Errno::EINTR) => return Ok(false),
        Err(e) => return Err(e.into()),
        Ok(_) => {}
    }
    let seen = asked[0].revents().unwrap_or(PollFlags::empty());
    if seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(seen.contains(PollFlags::POLLIN))
}

/// What has come from the terminal and was not taken yet.
///
/// # Errors
/// Reading from the terminal failed.
pub fn event() -> io::Result<Option<Event>> {
    match event::poll(AT_HAND)? {
        true => event::read().map(Some),
        false => Ok(None),
    }
}

/// Gives the terminal back, if it is in our hands. May be called from anywhere, any number of times.
pub fn restore_terminal() {
    if !DRAWING.swap(false, Ordering::SeqCst) {
        return;
    }
    let until = Instant::now() + PATIENCE;
    let _frame = loop {
        match FRAME.try_lock() {
            Ok(f) => break Some(f),
            Err(TryLockError::Poisoned(f)) => break Some(f.into_inner()),
            // Also a panic inside a frame: its own thread holds the lock.
            Err(TryLockError::WouldBlock) if Instant::now() >= until => break None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    // Nothing can be done where the terminal is gone, and nothing may be said there.
    let _ = disable_raw_mode();
    let (stdout, mut leave) = (stdout(), String::new());
    let _ = LeaveAlternateScreen.write_ansi(&mut leave);
    let _ = Show.write_ansi(&mut leave);
    // Not through Stdout's own lock: a frame that is stuck has it. And only where it does not get stuck itself.
    if takes_until(&stdout, until) {
        let _ = write(&stdout, leave.as_bytes());
    }
}

/// Whether this takes bytes now. Who prints where nobody reads waits for ever.
#[must_use]
pub fn takes_now(fd: &impl AsFd) -> bool {
    takes_until(fd, Instant::now())
}

/// Whether a terminal takes bytes before this time; asked once at least.
fn takes_until(terminal: &impl AsFd, until: Instant) -> bool {
    loop {
        let mut asked = [PollFd::new(terminal.as_fd(), PollFlags::POLLOUT)];
        let left = until.saturating_duration_since(Instant::now());
        let ms = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
        match poll(&mut asked, ms) {
            Err(Errno::EINTR) => {}
            answer => return answer.is_ok_and(|ready| ready > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_has_gone_is_gone() {
        let table = [
            (Errno::EIO, true),
            (Errno::ENXIO, true),
            (Errno::EBADF, true),
            (Errno::EPIPE, true),
            // Another program left it so that writing does not wait.
            (Errno::EAGAIN, false),
            (Errno::EINTR, false),
            (Errno::ENOSPC, false),
            (Errno::ENOENT, false),
        ];
        for (code, gone) in table {
            assert_eq!(is_gone(&code.into()), gone, "{code}");
        }
        assert!(!is_gone(&io::Error::other("no size")));
    }
}
