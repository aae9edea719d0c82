//! Printing that survives its reader: `print!` and its kin for this crate, which std's end by a panic when nobody reads any more.
//!
//! Shadows std's macros in all modules below `lib.rs`. A closed pipe (`warren targets | head`) or a terminal that is gone (SIGHUP) is
//! no reason to lose a campaign's last run or to end with 101. Any other trouble with stdout is said once, on stderr, and the exit code tells
//! it ([`lost`]).

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static SAID: AtomicBool = AtomicBool::new(false);

/// What `print!` calls.
pub fn out(text: Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    let done = stdout.write_fmt(text).and_then(|()| stdout.flush());
    if let Some(why) = done
        .err()
        .filter(|e| worth_a_word(e.kind(), e.raw_os_error()))
        && !SAID.swap(true, Ordering::Relaxed)
    {
        err(format_args!(
            "warren: writing to standard output: {why}; what was to be printed is lost\n"
        ));
    }
}

/// Whether something could not be printed that somebody waits for: the verb's work is done, and its user has not got it.
pub fn lost() -> bool {
    SAID.load(Ordering::Relaxed)
}

/// What `eprint!` calls. Where stderr is gone there is nobody left to tell.
pub fn err(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// A reader that has gone away (pipe, terminal) wants no word about it.
fn worth_a_word(kind: ErrorKind, code: Option<i32>) -> bool {
    const EIO: i32 = 5;
    kind != ErrorKind::BrokenPipe && code != Some(EIO)
}

macro_rules! print {
    ($($arg:tt)*) => { $crate::say::out(format_args!($($arg)*)) };
}
macro_rules! println {
    () => { $crate::say::out(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::say::out(format_args!("{}\n", format_args!($($arg)*))) };
}
macro_rules! eprintln {
    () => { $crate::say::err(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::say::err(format_args!("{}\n", format_args!($($arg)*))) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_no_trouble_a_full_disk_is() {
        for (code, word) in [(32, false), (5, false), (28, true), (9, true)] {
            let e = std::io::Error::from_raw_os_error(code);
            assert_eq!(worth_a_word(e.kind(), e.raw_os_error()), word, "{e}");
        }
    }
}
