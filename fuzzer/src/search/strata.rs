//! What a run's points belong to: starting, or after its last fault recovering, settling or settled. Pure; made once when a run is kept, because
//! the history it needs is not stored, and asked whenever its children are enumerated.

use super::standing::dead_in_the_end;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use warren_model::{HistoryEvent, Incarnation, NodeName, Outcome, Phase, RunProduct, StartState};

/// How far the system had come after the last fault.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Stratum {
    /// Strata are switched off.
    #[default]
    All,
    /// No operation begun after the last fault was ok yet.
    Recovering,
    /// Not all that are alive serve yet.
    Settling,
    Settled,
    /// Before the cluster of a cold run served: the few points of a start weigh as much as the many after it, and thin out no recovery.
    Starting,
}

impl Stratum {
    /// Those that points are sorted into.
    pub const EACH: [Stratum; 5] = [
        Stratum::All,
        Stratum::Recovering,
        Stratum::Settling,
        Stratum::Settled,
        Stratum::Starting,
    ];
}

impl fmt::Display for Stratum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stratum::All => "all",
            Stratum::Recovering => "recovering",
            Stratum::Settling => "settling",
            Stratum::Settled => "settled",
            Stratum::Starting => "starting",
        })
    }
}

/// When the strata of a run end, ns; none = not within the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub recovered_ns: Option<u64>,
    pub settled_ns: Option<u64>,
}

impl Bounds {
    /// Of a run without faults: nothing was ever disturbed.
    pub const CALM: Bounds = Bounds {
        recovered_ns: Some(0),
        settled_ns: Some(0),
    };

    /// The stratum of a moment after the last fault.
    #[must_use]
    pub fn stratum(&self, t_ns: u64) -> Stratum {
        let past = |end: Option<u64>| end.is_some_and(|end| t_ns >= end);
        if !past(self.recovered_ns) {
            Stratum::Recovering
        } else if !past(self.settled_ns) {
            Stratum::Settling
        } else {
            Stratum::Settled
        }
    }

    /// Of a run. Recovered: the first ok answer to an operation begun after the last fault was done. Settled: recovered, each living
    /// node's process has passed its ready probe, and each living server that clients asked since has answered one with ok. Of a
    /// living server that nobody asked and that was not restarted nothing is known: it is taken to serve.
    #[must_use]
    pub fn of(product: &RunProduct) -> Self {
        let record = &product.record;
        let Some(last) = record.injected.last() else {
            return Bounds::CALM;
        };
        let since = last.t_done;
        let dead = dead_in_the_end(record);
        let alive = |n: &NodeName| !dead.contains(n);
        let mut asked: BTreeMap<u64, Option<&NodeName>> = BTreeMap::new();
        let mut first_ok: BTreeMap<Option<&NodeName>, u64> = BTreeMap::new();
        let mut servers: BTreeSet<&NodeName> = BTreeSet::new();
        let end = |e: &HistoryEvent| matches!(e, HistoryEvent::Phase { phase, .. } if *phase > Phase::Test);
        let tested = product.history.iter().take_while(|e| !end(e));
        for event in tested {
            match event {
                HistoryEvent::Invoke(op) if op.t_ns >= since => {
                    asked.insert(op.id, op.server.as_ref());
                    servers.extend(op.server.as_ref().filter(|s| alive(s)));
                }
                HistoryEvent::Done(done) if done.outcome == Outcome::Ok => {
                    if let Some(server) = asked.get(&done.id) {
                        first_ok.entry(*server).or_insert(done.t_ns);
                    }
                }
                _ => {}
            }
        }
        let recovered_ns = first_ok.values().min().copied();
        let served = servers.into_iter().map(|s| first_ok.get(&Some(s)).copied());
        let nodes = product.trace.nodes.iter().filter(|n| alive(n));
        // A restored node was ready before the run began.
        let restored = record
            .matched
            .as_ref()
            .is_some_and(|m| m.start != StartState::Cold);
        // What is started after the test, as by a durability restart, says nothing of it.
        let over = product.history.iter().find_map(|e| match e {
            HistoryEvent::Phase { t_ns, .. } if end(e) => Some(*t_ns),
            _ => None,
        });
        let in_test = |i: &&Incarnation| over.is_none_or(|over| i.spawned_ns < over);
        let ready = nodes.filter_map(|n| {
            let mut own = record.incarnations.iter().filter(in_test);
            let last = own.rfind(|i| i.node == *n)?;
            match last.ready_ns {
                None if restored && last.number <= 1 => None,
                ready => Some(ready),
            }
        });
        let settled_ns = served
            .chain(ready)
            .chain([recovered_ns])
            .try_fold(0, |latest: u64, t: Option<u64>| t.map(|t| latest.max(t)));
        Bounds {
            recovered_ns,
            settled_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::history::{OpDone, OpInvoke};
    use warren_model::{At, Fault, FaultAt, Injected, Who};

    fn invoke(id: u64, server: &str, t_ns: u64) -> HistoryEvent {
        HistoryEvent::Invoke(OpInvoke {
            id,
            client: "c".into(),
            session: "s".into(),
            server: Some(server.into()),
            op: "read".into(),
            key: None,
            value: None,
            expect: None,
            retry_of: None,
            t_ns,
        })
    }

    fn done(id: u64, outcome: Outcome, t_ns: u64) -> HistoryEvent {
        HistoryEvent::Done(OpDone {
            id,
            t_ns,
            outcome,
            value: None,
            version: None,
            zxid: None,
            mzxid: None,
            error: None,
        })
    }

    /// n1 is rebooted at 100.
    fn product(ready: Option<u64>, history: Vec<HistoryEvent>) -> RunProduct {
        let mut p = RunProduct::default();
        p.trace.nodes = vec!["n1".into(), "n2".into(), "n3".into()];
        p.record.injected = vec![Injected {
            index: 0,
            matched: FaultAt {
                at: At::AtOnce,
                fault: Fault::Reboot {
                    who: Who::Node("n1".into()),
                },
            },
            event: None,
            t_reached: 90,
            t_done: 100,
            late: false,
            drift: None,
            kill: None,
        }];
        p.record.incarnations = [("n1", 1, Some(5)), ("n2", 1, Some(5)), ("n1", 2, ready)]
            .into_iter()
            .map(|(node, number, ready_ns)| Incarnation {
                node: node.into(),
                number,
                spawned_ns: 1,
                ready_ns,
                ended_ns: None,
                role: None,
            })
            .collect();
        p.history = history;
        p
    }

    #[test]
    fn bounds_of_runs() {
        use Outcome::{Failed, Ok};
        let early = || vec![invoke(1, "n2", 50), done(1, Ok, 120)];
        let phase = HistoryEvent::Phase {
            phase: Phase::Degraded,
            t_ns: 400,
        };
        let with = |more: Vec<HistoryEvent>| early().into_iter().chain(more).collect::<Vec<_>>();
        let table = [
            // An answer to what was asked before the fault tells nothing.
            (Some(150), early(), None, None),
            (
                Some(150),
                with(vec![invoke(2, "n2", 110), done(2, Ok, 130)]),
                Some(130),
                Some(150),
            ),
            (
                None,
                with(vec![invoke(2, "n2", 110), done(2, Ok, 130)]),
                Some(130),
                None,
            ),
            // n3 was asked and has not served yet.
            (
                Some(150),
                with(vec![
                    invoke(2, "n2", 110),
                    done(2, Ok, 130),
                    invoke(3, "n3", 131),
                    done(3, Failed, 140),
                ]),
                Some(130),
                None,
            ),
            (
                Some(150),
                with(vec![
                    invoke(2, "n2", 110),
                    done(2, Ok, 130),
                    invoke(3, "n3", 131),
                    done(3, Failed, 140),
                    invoke(4, "n3", 141),
                    done(4, Ok, 190),
                ]),
                Some(130),
                Some(190),
            ),
            // What comes after the test is no part of it.
            (
                Some(150),
                with(vec![phase, invoke(2, "n2", 410), done(2, Ok, 430)]),
                None,
                None,
            ),
        ];
        for (i, (ready, history, recovered_ns, settled_ns)) in table.into_iter().enumerate() {
            let want = Bounds {
                recovered_ns,
                settled_ns,
            };
            assert_eq!(Bounds::of(&product(ready, history)), want, "case {i}");
        }
        assert_eq!(Bounds::of(&RunProduct::default()), Bounds::CALM);
    }

    #[test]
    fn what_is_started_after_the_test_says_nothing_of_it() {
        let history = || {
            let degraded = HistoryEvent::Phase {
                phase: Phase::Degraded,
                t_ns: 400,
            };
            vec![invoke(2, "n2", 110), done(2, Outcome::Ok, 130), degraded]
        };
        // All are started anew; n2's new process is not ready when the run ends.
        let restarted = |ready| {
            let mut p = product(ready, history());
            for (node, number) in [("n1", 3), ("n2", 2)] {
                p.record.incarnations.push(Incarnation {
                    node: node.into(),
                    number,
                    spawned_ns: 500,
                    ready_ns: None,
                    ended_ns: None,
                    role: None,
                });
            }
            Bounds::of(&p)
        };
        let settled = |settled_ns| Bounds {
            recovered_ns: Some(130),
            settled_ns,
        };
        assert_eq!(restarted(Some(150)), settled(Some(150)));
        assert_eq!(restarted(None), settled(None));
    }

    #[test]
    fn each_has_its_own_weight() {
        for (i, s) in Stratum::EACH.into_iter().enumerate() {
            assert_eq!(s as usize, i, "{s}");
        }
    }

    #[test]
    fn strata_follow_each_other() {
        let b = Bounds {
            recovered_ns: Some(10),
            settled_ns: Some(20),
        };
        use Stratum::{Recovering, Settled, Settling};
        for (t, want) in [
            (0, Recovering),
            (9, Recovering),
            (10, Settling),
            (19, Settling),
            (20, Settled),
        ] {
            assert_eq!(b.stratum(t), want, "{t}");
        }
        assert_eq!(Bounds::default().stratum(99), Recovering);
        assert_eq!(Bounds::CALM.stratum(0), Settled);
    }
}
