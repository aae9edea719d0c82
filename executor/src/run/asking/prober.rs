//! Asks starting nodes whether they serve, beside the loop that watches for held threads (a question may take long, a kill may
//! not).

use crate::run::asking::questions::{Also, NodeAnswer, Questions};
use crate::run::lock;
use crate::slot::Slot;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Each question costs a starting JVM about a millisecond of its CPU time.
const PACE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_millis(200);

/// A node that is asked until it serves, or until the cluster has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Wanted {
    pub node: usize,
    pub incarnation: u8,
    pub addr: Ipv4Addr,
}

/// What the two sides share.
#[derive(Debug, Default)]
pub(in crate::run) struct Prober {
    wanted: Mutex<(Vec<Wanted>, Also)>,
    answers: Mutex<Vec<(Wanted, NodeAnswer)>>,
    stop: AtomicBool,
}

impl Prober {
    /// Who is to be asked from now on, and what.
    pub fn want(&self, list: Vec<Wanted>, also: Also) {
        *lock(&self.wanted) = (list, also);
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
        let mut pause = PACE;
        while !self.stop.load(Ordering::Relaxed) {
            let (wanted, also) = lock(&self.wanted).clone();
            if !wanted.is_empty() {
                let addrs: Vec<Ipv4Addr> = wanted.iter().map(|w| w.addr).collect();
                let asked = Instant::now();
                match questions.ask(slot, &addrs, also, PATIENCE) {
                    Ok(answers) => lock(&self.answers).extend(wanted.into_iter().zip(answers)),
                    Err(_) if slot.lost().is_some() => return,
                    // Not answered in time, as when Warren was stopped meanwhile: it is asked again.
                    Err(_) => {}
                }
                pause = match also {
                    // A cluster that starts as a whole takes seconds, and the question may be a dear one.
                    Also::Started => SLOWEST,
                    _ => after(asked.elapsed()),
                };
            }
            std::thread::sleep(pause);
        }
    }
}

/// How long to wait after a question that took so long. Where an answer is dear (a page that a starting JVM has to make, on a machine
/// with much else to do) asking takes a fifth of the time, so that it does not keep the node from what it is asked for.
fn after(took: Duration) -> Duration {
    (took * 4).clamp(PACE, SLOWEST)
}

/// Ends [`Prober::work`] when it goes out of scope, on a panic too.
pub(in crate::run) struct StopOnDrop<'a>(pub &'a Prober);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_answers_are_asked_for_less_often() {
        for (took, want) in [(0, 20), (5, 20), (25, 100), (50, 200), (1000, 200)] {
            let ms = Duration::from_millis;
            assert_eq!(after(ms(took)), ms(want), "{took} ms");
        }
    }

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
