//! For tests of resuming: names for the instants at which a kill may come (docs/campaign.md, "Resume").
//!
//! `WARREN_TEST_KILL_AT=<point>:<n>` makes Warren send itself SIGKILL at the n-th arrival at a point that is too short to be hit
//! from outside. `WARREN_TEST_EVENTS=<file or pipe>` makes it write a line at each point and phase, for a script that kills
//! from outside. Without either, and that is always outside of tests, nothing happens here.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use warren_executor::{NodeStatus, RunProgress};

struct Hook {
    kill_at: Option<(String, u64)>,
    arrived: AtomicU64,
    events: Option<Mutex<File>>,
}

fn hook() -> &'static Hook {
    static HOOK: OnceLock<Hook> = OnceLock::new();
    HOOK.get_or_init(|| Hook {
        kill_at: std::env::var("WARREN_TEST_KILL_AT").ok().and_then(|v| {
            let (point, n) = v.rsplit_once(':')?;
            Some((point.to_owned(), n.parse().ok()?))
        }),
        arrived: AtomicU64::new(0),
        events: std::env::var_os("WARREN_TEST_EVENTS")
            .and_then(|p| File::options().append(true).open(p).ok())
            .map(Mutex::new),
    })
}

/// One arrival at a point; whether it is the one at which to be killed.
pub(super) fn arrives(name: &str) -> bool {
    let hook = hook();
    hook.kill_at
        .as_ref()
        .is_some_and(|(p, n)| p == name && hook.arrived.fetch_add(1, Ordering::SeqCst) + 1 == *n)
}

/// SIGKILL, by our own hand.
pub(super) fn kill_now() {
    let _ = kill(Pid::this(), Signal::SIGKILL);
}

/// Here a kill would be interesting.
pub fn point(name: &str) {
    #[cfg(test)]
    testing::arrive(name);
    let hook = hook();
    if let Some(file) = &hook.events {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever reads may be gone.
        let _ = writeln!(file, "{name}");
    }
    if arrives(name) {
        kill_now();
    }
}

/// A run tells how far it is: `<what>:<phase>`, and `<what>:held` while a thread waits at its point. `what` is
/// background, learn, fuzz, confirm or minimise.
pub fn phase(doing: impl FnOnce() -> String, progress: &RunProgress) {
    let hook = hook();
    if hook.events.is_none() && hook.kill_at.is_none() {
        return;
    }
    let doing = doing();
    let what = [
        ("learning background", "background"),
        ("learn", "learn"),
        ("confirm", "confirm"),
        ("minimis", "minimise"),
    ]
    .into_iter()
    .find(|(start, _)| doing.starts_with(start))
    .map_or("fuzz", |(_, what)| what);
    let held = progress.nodes.iter().any(|n| n.status == NodeStatus::Held);
    if held {
        point(&format!("{what}:held"));
    } else {
        point(&format!("{what}:{}", progress.phase));
    }
}

/// Tests in this process look at the folder at each point instead of being killed.
#[cfg(test)]
pub mod testing {
    use std::cell::RefCell;

    type Look = Box<dyn FnMut(&str)>;

    thread_local! {
        static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
    }

    /// Calls `look` at every point that this thread passes during `body`.
    pub fn looking<T>(look: impl FnMut(&str) + 'static, body: impl FnOnce() -> T) -> T {
        LOOK.set(Some(Box::new(look)));
        let result = body();
        LOOK.set(None);
        result
    }

    pub fn arrive(name: &str) {
        // Taken out meanwhile: what it does may pass points itself.
        if let Some(mut look) = LOOK.take() {
            look(name);
            LOOK.set(Some(look));
        }
    }
}
