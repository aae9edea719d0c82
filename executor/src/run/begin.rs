//! Where a run begins: between two faults of a prefix, at GO of a snapshot, or with nothing; and why, when that is less than was asked for.
//!
//! Called by [`Runner::run`]. It opens slots and restores clusters; it starts no node and injects nothing.

use super::Runner;
use super::options::{RunError, RunOptions};
use super::snapshots::{self, Parked, Prefix, Snapshot};
use crate::slot::{CutRules, Process, Slot};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use warren_model::{Fallbacks, FaultSequence, StartState};

/// How often a snapshot is restored: the second time from one that was made anew.
const TRIES: usize = 2;
/// Before a slot or a thread is asked for again that could not be had, s: a minute in all, as a machine short of memory or processes mostly recovers.
const PAUSES_S: [u64; 6] = [1, 2, 4, 8, 15, 30];
/// A pause is this long at most before an end is seen.
const LOOK: Duration = Duration::from_millis(100);

/// What the cluster of a run was restored from, and its processes.
pub(super) enum Restored {
    Snapshot(Arc<Snapshot>, Vec<Process>),
    Prefix(Arc<Prefix>, Vec<Process>),
}

/// A slot with, perhaps, a restored cluster in it.
pub(super) struct Begun {
    pub slot: Slot,
    pub restored: Option<Restored>,
    /// What its nodes go on from when they start again, or start.
    pub parked: Option<Arc<Parked>>,
    pub fallbacks: Fallbacks,
    /// When the slot was asked for: what making a snapshot took is nobody's run.
    pub began: Instant,
}

impl Runner {
    /// A slot for the sequence, with the cluster of its prefix or snapshot where that can be had.
    pub(super) fn begin(
        &self,
        sequence: &FaultSequence,
        options: &RunOptions,
    ) -> Result<Begun, RunError> {
        let mut fallbacks = Fallbacks::default();
        if let StartState::Snapshot(number) = sequence.start {
            if !options.restorable() {
                let why = "the classes of a start are written out, or it is without agent";
                fallbacks.cold = Some(why.to_owned());
            } else if !sequence.needs_start() {
                let prefix = snapshots::prefix::begin(self, number, sequence, options);
                match prefix {
                    Some(Ok(on)) => return Ok(self.midway(on)),
                    Some(Err(why)) => fallbacks.no_prefix = Some(why),
                    None => {}
                }
                if let Some(begun) = self.begin_at_go(number, options, &mut fallbacks)? {
                    return Ok(begun);
                }
            }
        }
        let cold = fallbacks.cold.as_ref();
        if let Some(why) = cold.filter(|_| self.config.only_warm && !options.to_end()) {
            return Err(RunError::BeganCold(why.clone()));
        }
        self.begin_cold(options, fallbacks)
    }

    fn midway(&self, on: snapshots::prefix::BegunMidway) -> Begun {
        Begun {
            slot: on.slot,
            restored: Some(Restored::Prefix(on.prefix, on.processes)),
            parked: self.parked_jvms(),
            fallbacks: Fallbacks::default(),
            began: on.began,
        }
    }

    /// The cluster of a snapshot, which is made where it is not there; nothing, and why, where neither helps. Restores go side by side;
    /// making one does not.
    fn begin_at_go(
        &self,
        number: u8,
        options: &RunOptions,
        fallbacks: &mut Fallbacks,
    ) -> Result<Option<Begun>, RunError> {
        for _ in 0..TRIES {
            let (got, failed) = {
                let mut all = self.snapshots();
                (all.get(self, number, options)?, all.take_remade(number))
            };
            fallbacks.remade = fallbacks.remade.take().or(failed);
            let snapshot = match got {
                Ok(snapshot) => snapshot,
                Err(why) => {
                    fallbacks.cold = Some(why);
                    return Ok(None);
                }
            };
            let began = Instant::now();
            let cuts = CutRules::default();
            let then = snapshots::Then::Run;
            match snapshots::restore(&snapshot, &cuts, self.slot_config(), then) {
                Ok((slot, processes)) => {
                    snapshot.has_worked();
                    return Ok(Some(Begun {
                        slot,
                        restored: Some(Restored::Snapshot(snapshot, processes)),
                        parked: self.parked_jvms(),
                        fallbacks: Fallbacks {
                            cold: None,
                            ..std::mem::take(fallbacks)
                        },
                        began,
                    }));
                }
                Err(why) => {
                    // One of those side by side that met it tells.
                    if self.snapshots().failed_restore(number, &snapshot, &why) {
                        fallbacks.remade.get_or_insert_with(|| why.clone());
                    }
                    fallbacks.cold = Some(why);
                }
            }
        }
        Ok(None)
    }

    /// A run has worked here: what does not now may be the machine's trouble of this moment.
    pub(crate) fn has_worked(&self) -> bool {
        self.map_fills.load(Ordering::Relaxed)
    }

    /// A slot, or a thread. Where a run has worked before, one that cannot be had just now is no end of a campaign yet.
    pub(crate) fn in_time<T, E>(
        &self,
        options: &RunOptions,
        make: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let pauses = PAUSES_S.map(Duration::from_secs);
        again(
            if self.has_worked() { &pauses } else { &[] },
            make,
            |pause| {
                let until = Instant::now() + pause;
                while Instant::now() < until && !options.to_end() {
                    std::thread::sleep(LOOK);
                }
                !options.to_end()
            },
        )
    }

    /// A slot with nothing in it, whose nodes go on from parked JVMs where there are some.
    fn begin_cold(
        &self,
        options: &RunOptions,
        mut fallbacks: Fallbacks,
    ) -> Result<Begun, RunError> {
        // It begins from none, new or old.
        fallbacks.remade = None;
        let began = Instant::now();
        let parked = self.parked_jvms().filter(|_| options.restorable());
        let with_images = parked.as_ref().and_then(|parked| {
            let mut config = self.slot_config();
            config.images = Some(parked.images());
            Slot::open(&config).ok()
        });
        let (slot, parked) = match with_images {
            Some(slot) => (slot, parked),
            // Their keeper may be gone, and with it the JVMs.
            None => (self.in_time(options, || self.open_slot())?, None),
        };
        Ok(Begun {
            slot,
            restored: None,
            parked,
            fallbacks,
            began,
        })
    }
}

/// Makes it, after each failure once more as long as there are pauses and `wait` says to go on; the last failure else.
fn again<T, E>(
    pauses: &[Duration],
    mut make: impl FnMut() -> Result<T, E>,
    mut wait: impl FnMut(Duration) -> bool,
) -> Result<T, E> {
    let mut pauses = pauses.iter();
    loop {
        match (make(), pauses.next()) {
            (Err(_), Some(pause)) if wait(*pause) => {}
            (made, _) => return made,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_asked_for_again_until_an_end_or_the_last_pause() {
        let pauses = [1, 2].map(Duration::from_secs);
        // After so many failures there is one; the user ends it in this pause; what comes of it, and the pauses.
        for (failures, ends_in, got, waited) in [
            (0, None, Ok(0), vec![]),
            (2, None, Ok(2), vec![1, 2]),
            (3, None, Err(2), vec![1, 2]),
            (3, Some(1), Err(0), vec![1]),
        ] {
            let (mut tries, mut slept) = (0, Vec::new());
            let made = again(
                &pauses,
                || {
                    tries += 1;
                    if tries > failures {
                        Ok(tries - 1)
                    } else {
                        Err(tries - 1)
                    }
                },
                |pause| {
                    slept.push(pause.as_secs());
                    ends_in != Some(pause.as_secs())
                },
            );
            assert_eq!((made, slept), (got, waited));
        }
        let none: Result<(), u8> = again(&[], || Err(1), |_| true);
        assert_eq!(none, Err(1), "nothing has worked yet: it is told at once");
    }
}
