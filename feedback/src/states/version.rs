//! How far each server's data was, as far as clients saw it: by the order numbers in the answers of the history. Called for the
//! standing of nodes; knows no system's numbers, only that they rise with the changes.

use super::standing::Relation;
use std::collections::HashMap;
use warren_model::{HistoryEvent, NodeName, Outcome, Phase};

/// An ok answer with an order number.
#[derive(Clone, Copy, Debug)]
struct Answer<'a> {
    server: &'a NodeName,
    asked: u64,
    done: u64,
    number: i64,
}

/// The answers of a run's test, by the time they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers<'a>(Vec<Answer<'a>>);

impl<'a> Answers<'a> {
    pub(super) fn of(history: &'a [HistoryEvent]) -> Self {
        let mut open: HashMap<u64, (&NodeName, u64)> = HashMap::new();
        let mut answers = Vec::new();
        let tested = history.iter().take_while(
            |e| !matches!(e, HistoryEvent::Phase { phase, .. } if *phase > Phase::Test),
        );
        for event in tested {
            match event {
                HistoryEvent::Invoke(op) => {
                    if let Some(server) = &op.server {
                        open.insert(op.id, (server, op.t_ns));
                    }
                }
                HistoryEvent::Done(d) if d.outcome == Outcome::Ok => {
                    // 0: a system that has none.
                    let number = d.zxid.filter(|n| *n > 0);
                    if let (Some((server, asked)), Some(number)) = (open.remove(&d.id), number) {
                        answers.push(Answer {
                            server,
                            asked,
                            done: d.t_ns,
                            number,
                        });
                    }
                }
                _ => {}
            }
        }
        answers.sort_by_key(|a| a.done);
        Answers(answers)
    }

    fn until(&self, t: u64) -> &[Answer<'a>] {
        &self.0[..self.0.partition_point(|a| a.done <= t)]
    }

    /// The newest answer of a server.
    fn newest(&self, server: &NodeName, t: u64) -> Option<&Answer<'a>> {
        self.until(t).iter().rev().find(|a| a.server == server)
    }

    /// Whether anybody answered with a larger number between `from` and `t` than all that anybody had answered until `from`; none
    /// where nothing had been answered.
    fn moved_on(&self, from: u64, t: u64) -> Option<bool> {
        let before = self.until(from).iter().map(|a| a.number).max()?;
        let since = self.until(t).iter().map(|a| a.number).max()?;
        Some(since > before)
    }

    /// How far a server was at `t`. `gone`: when it died or was cut off, each time, in order. A server that was asked nothing since
    /// it went away is behind when the others moved on. One that was is behind when another had answered with a larger number
    /// before this one was even asked, and ahead when all others that answered are behind it.
    pub(super) fn relation(
        &self,
        server: &NodeName,
        gone: &[u64],
        others: &[&NodeName],
        t: u64,
    ) -> Relation {
        let own = self.newest(server, t);
        let away = gone.iter().find(|g| own.is_none_or(|o| o.asked < **g));
        if let Some(since) = away {
            return match self.moved_on(*since, t) {
                Some(true) => Relation::Behind,
                Some(false) => Relation::Equal,
                None => Relation::Unknown,
            };
        }
        let Some(own) = own else {
            return Relation::Unknown;
        };
        let all = self.until(t);
        if all
            .iter()
            .any(|a| a.server != server && a.done < own.asked && a.number > own.number)
        {
            return Relation::Behind;
        }
        let mut seen = others
            .iter()
            .filter(|n| **n != server)
            .filter_map(|n| self.newest(n, t))
            .peekable();
        let ahead =
            seen.peek().is_some() && seen.all(|a| own.done < a.asked && a.number < own.number);
        if ahead {
            Relation::Ahead
        } else {
            Relation::Equal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, ms, op};

    /// (server, asked, answered, order number) in ms.
    fn history(rows: &[(&str, u64, u64, i64)]) -> Vec<HistoryEvent> {
        let ops = rows
            .iter()
            .map(|(_, from, to, n)| op("s", "read", "k", *from, *to).z(*n));
        let mut history = Build::new().ops(ops).product.history;
        let mut servers = rows.iter().map(|r| r.0);
        for e in &mut history {
            if let HistoryEvent::Invoke(i) = e {
                i.server = servers.next().map(NodeName::from);
            }
        }
        history
    }

    #[test]
    fn how_far_a_server_is() {
        use Relation::{Ahead, Behind, Equal, Unknown};
        let calm = [("a", 1, 2, 5), ("b", 3, 4, 5), ("c", 5, 6, 6)];
        type Row<'r> = (
            &'r str,
            &'r [(&'r str, u64, u64, i64)],
            &'r [u64],
            u64,
            Relation,
        );
        let table: &[Row<'_>] = &[
            ("nobody answered", &[], &[], 9, Unknown),
            ("others only", &[("b", 1, 2, 5)], &[], 9, Unknown),
            ("no order numbers", &[("a", 1, 2, 0)], &[], 9, Unknown),
            (
                "its newest answer is old, and so was the question",
                &calm,
                &[],
                9,
                Equal,
            ),
            (
                "another had shown more before it was asked",
                &[("b", 1, 2, 7), ("a", 3, 4, 5)],
                &[],
                9,
                Behind,
            ),
            (
                "while it was asked: no order between them",
                &[("b", 1, 4, 7), ("a", 3, 5, 5)],
                &[],
                9,
                Equal,
            ),
            (
                "not yet at that time",
                &[("b", 1, 2, 7), ("a", 3, 4, 5)],
                &[],
                3,
                Unknown,
            ),
            (
                "all others show less later",
                &[("a", 1, 2, 9), ("b", 3, 4, 5), ("c", 3, 4, 6)],
                &[],
                9,
                Ahead,
            ),
            (
                "one of the others has caught up",
                &[("a", 1, 2, 9), ("b", 3, 4, 5), ("c", 3, 4, 9)],
                &[],
                9,
                Equal,
            ),
            ("dead, nothing written since", &calm, &[7], 9, Equal),
            (
                "dead, and others wrote since",
                &[("a", 1, 2, 5), ("b", 4, 5, 6)],
                &[3],
                9,
                Behind,
            ),
            (
                "back, and not asked since",
                &[("a", 1, 2, 5), ("b", 4, 5, 6)],
                &[3],
                9,
                Behind,
            ),
            (
                "back, and it answered as the others",
                &[("a", 1, 2, 5), ("b", 4, 5, 6), ("a", 6, 7, 6)],
                &[3],
                9,
                Equal,
            ),
            (
                "back, and it answers with what it had",
                &[("a", 1, 2, 5), ("b", 4, 5, 6), ("a", 6, 7, 5)],
                &[3],
                9,
                Behind,
            ),
            (
                "dead before anything was answered",
                &[("b", 4, 5, 6)],
                &[3],
                9,
                Unknown,
            ),
            (
                "cut off before it had caught up",
                &[("a", 1, 2, 5), ("b", 4, 5, 6)],
                &[3, 6],
                9,
                Behind,
            ),
        ];
        let [a, b, c] = ["a", "b", "c"].map(NodeName::from);
        for (name, rows, gone, t, want) in table {
            let history = history(rows);
            let answers = Answers::of(&history);
            let gone: Vec<u64> = gone.iter().copied().map(ms).collect();
            let got = answers.relation(&a, &gone, &[&a, &b, &c], ms(*t));
            assert_eq!(got, *want, "{name}");
        }
    }

    #[test]
    fn what_comes_after_the_test_does_not_count() {
        let mut history = history(&[("b", 1, 2, 7), ("a", 3, 4, 5)]);
        history.insert(
            2,
            HistoryEvent::Phase {
                phase: Phase::Degraded,
                t_ns: ms(3),
            },
        );
        let (a, b) = (NodeName::from("a"), NodeName::from("b"));
        let answers = Answers::of(&history);
        assert_eq!(answers.relation(&a, &[], &[&b], ms(9)), Relation::Unknown);
    }
}
