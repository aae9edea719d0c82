//! Asks starting nodes whether they serve, beside the loop that watches for held threads (a question may take long, a kill may
//! not).

use super::questions::{NodeAnswer, Questions};
use crate::slot::Slot;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Each question costs a starting JVM about a millisecond of its CPU time.
const PACE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_millis(250);

/// A node that is asked until it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub node: usize,
    pub incarnation: u8,
    pub addr: Ipv4Addr,
}

/// What the two sides share.
#[derive(Debug, Default)]
pub(super) struct Prober {
    wanted: Mutex<Vec<Wanted>>,
    answers: Mutex<Vec<(Wanted, NodeAnswer)>>,
    stop: AtomicBool,
}

impl Prober {
    /// Who is to be asked from now on.
    pub fn want(&self, list: Vec<Wanted>) {
        *lock(&self.wanted) = list;
    }

    /// Answers since the last call.
    pub fn answers(&self) -> Vec<(Wanted, NodeAnswer)> {
        std::mem::take(&mut *lock(&self.answers))
    }

    /// Ends [`Prober::work`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The asking thread. Ends when told to or when the slot is gone.
    pub fn work(&self, slot: &Slot, questions: &Questions) {
        while !self.stop.load(Ordering::Relaxed) {
            let wanted = lock(&self.wanted).clone();
            if !wanted.is_empty() {
                let addrs: Vec<Ipv4Addr> = wanted.iter().map(|w| w.addr).collect();
                match questions.ask(slot, &addrs, false, PATIENCE) {
                    Ok(answers) => lock(&self.answers).extend(wanted.into_iter().zip(answers)),
                    Err(_) => return,
                }
            }
            std::thread::sleep(PACE);
        }
    }
}

/// Ends [`Prober::work`] when it goes out of scope, on a panic too.
pub(super) struct StopOnDrop<'a>(pub &'a Prober);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_the_scope_ends_the_asking() {
        let prober = Prober::default();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                let _stop = StopOnDrop(&prober);
                scope.spawn(|| {
                    while !prober.stop.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                std::panic::resume_unwind(Box::new("a bug of ours"));
            });
        }));
        assert!(ended.is_err(), "the scope came to its end");
    }
}
