//! How long each fault of a child is waited for: by how soon its point came in the seed run. Asked by the stage when a child is tried for the
//! first time; a later try, and any sequence that no run has shown, waits as long as the limits say.
//!
//! On ZooKeeper 3.6.3, of 85 children that happened, two came later than twice its seed run's wait and 1.7 s more; the limit is 5 s or more, and
//! a child in vain costs that whole time.

use std::time::Duration;
use warren_model::Injected;

/// Of each fault of a child, by index: a third of `limit` and twice as long as the seed run waited, at most `limit`. `injected`: what happened
/// in the seed run; the child's own fault is at an event of that time, ns. What was awaited from GO has the whole limit.
#[must_use]
pub fn of_child(injected: &[Injected], event_ns: u64, limit: Duration) -> Vec<Duration> {
    let reached = injected.iter().map(|i| i.t_reached).chain([event_ns]);
    let before = injected.iter().map(|i| Some(i.t_done));
    [None]
        .into_iter()
        .chain(before)
        .zip(reached)
        .map(|(before, reached)| match before {
            Some(done) => {
                let waited = Duration::from_nanos(reached.saturating_sub(done));
                limit.min(limit / 3 + 2 * waited)
            }
            None => limit,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{At, CrashStyle, Fault, FaultAt, Who};

    #[test]
    fn soon_then_soon_now() {
        let injected = |reached: u64, done: u64| Injected {
            index: 0,
            matched: FaultAt {
                at: At::AtOnce,
                fault: Fault::Crash {
                    who: Who::Executing,
                    style: CrashStyle::Process,
                },
            },
            event: None,
            t_reached: reached * 1_000_000,
            t_done: done * 1_000_000,
            late: false,
            drift: None,
            kill: None,
        };
        // (times of the seed run's faults, of the event, what is waited), ms; the limit is 5,000.
        type Row = (&'static [(u64, u64)], u64, &'static [u64]);
        let table: [Row; 5] = [
            (&[], 900, &[5000]),
            (&[(400, 410)], 410, &[5000, 1666]),
            (&[(400, 410)], 710, &[5000, 2266]),
            (&[(400, 410), (2400, 2500)], 2501, &[5000, 5000, 1668]),
            // A fault at once, begun before the one before it was done.
            (&[(400, 410), (405, 500)], 600, &[5000, 1666, 1866]),
        ];
        for (faults, event, want) in table {
            let faults: Vec<Injected> = faults.iter().map(|(r, d)| injected(*r, *d)).collect();
            let got = of_child(&faults, event * 1_000_000, Duration::from_secs(5));
            let got: Vec<u64> = got.iter().map(|d| d.as_millis() as u64).collect();
            assert_eq!(got, want, "{faults:?}");
        }
    }
}
