//! Ctrl-C, SIGTERM and SIGHUP: the first asks for a graceful end, the second ends at once with 130.
//!
//! Called once per process by the verbs that run clusters, before set-up. Ending at once leaves nothing behind: the slots' inits see
//! end of file and kill what is theirs.

use crate::cli::exit::{CliError, Exit};
use crate::terminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use warren_executor::setup;

/// Two signals closer than this are one wish: `timeout` signals its child and then its group; a terminal that goes away sends SIGHUP
/// from its shell and from the kernel.
const ONE_WISH: Duration = Duration::from_millis(150);

/// Asked twice means at once. Shared with the screen, where Ctrl-C arrives as a key.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    first: Arc<Mutex<Option<Instant>>>,
}

impl Interrupt {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The handlers cannot be installed (a second call in one process).
    pub fn install() -> Result<Self, CliError> {
        let me = Interrupt::default();
        let handler = me.clone();
        ctrlc::set_handler(move || handler.ask())
            .map_err(|e| CliError::setup(format!("installing the Ctrl-C handler: {e}")))?;
        Ok(me)
    }

    /// One more wish to end.
    pub fn ask(&self) {
        let since = self.first().elapsed();
        if self.stop.swap(true, Ordering::SeqCst) {
            if since < ONE_WISH {
                return;
            }
            terminal::restore_terminal();
            // Not a return: nothing may hold up a user who asked twice.
            std::process::exit(i32::from(Exit::SecondInterrupt as u8));
        }
        // What set-up waits for (mvn, javac) ends now; later there is none.
        setup::stop();
        // On the thread that takes signals: a second one must find it free.
        if !terminal::is_drawing() && terminal::takes_now(&std::io::stderr()) {
            eprintln!(
                "warren: ending; the run that is going on is cut off and does not count (Ctrl-C again ends at once)"
            );
        }
    }

    /// The terminal is gone: a wish to end, but never a second one.
    pub fn hang_up(&self) {
        self.first();
        self.stop.store(true, Ordering::SeqCst);
        setup::stop();
    }

    /// When the first wish came: now, if there was none.
    fn first(&self) -> Instant {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        *first.get_or_insert_with(Instant::now)
    }

    /// The flag for loops and runs.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether an end was asked for.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}
