//! Builders for hand-written histories and products in tests. Times are in ms for the reader and ns in the data.

use warren_model::{
    Exit, HistoryEvent, Incarnation, Interval, Kind, LogMark, LogMoment, NodeName, Observation,
    OpDone, OpInvoke, Outcome, Phase, Place, RunProduct, StackId, Trace, TraceEvent,
};

/// A trace of one node that executed these stacks.
pub fn trace_of(stacks: &[u64]) -> Trace {
    Trace {
        nodes: vec!["n1".into()],
        events: stacks
            .iter()
            .enumerate()
            .map(|(i, s)| TraceEvent {
                node: 0,
                stack: StackId(*s),
                kind: Kind::Write,
                place: Place::Before,
                phase: Phase::Test,
                interval: Interval::new(Phase::Test, 0),
                n: 1,
                t_ns: i as u64,
                role: 0,
                flags: Default::default(),
                incarnation: 1,
                thread: 1,
                peer: None,
                detail: None,
                bytes: 0,
            })
            .collect(),
        ..Trace::default()
    }
}

/// An end of a process by itself in phase test.
pub fn exit(node: &str, status: Option<i32>, signal: Option<i32>) -> Exit {
    Exit {
        node: node.into(),
        incarnation: 1,
        phase: Phase::Test,
        t_ns: 0,
        status,
        signal,
        role: None,
    }
}

pub fn ms(t: u64) -> u64 {
    t * 1_000_000
}

/// A product under construction: nodes n1..n3, each with one incarnation spawned at 0.
pub struct Build {
    pub product: RunProduct,
    next: u64,
}

/// One operation: `op(kind, key)` with what matters set.
#[derive(Clone)]
pub struct Op {
    session: String,
    server: Option<NodeName>,
    op: String,
    key: Option<String>,
    value: Option<String>,
    expect: Option<i64>,
    retry_of: Option<u64>,
    span: (u64, Option<u64>),
    outcome: Outcome,
    result: Option<String>,
    version: Option<i64>,
    zxid: Option<i64>,
    mzxid: Option<i64>,
    error: Option<String>,
}

/// An operation of a session from `from` to `to` ms.
pub fn op(session: &str, kind: &str, key: &str, from: u64, to: u64) -> Op {
    Op {
        session: session.into(),
        server: None,
        op: kind.into(),
        key: (!key.is_empty()).then(|| key.into()),
        value: None,
        expect: None,
        retry_of: None,
        span: (from, Some(to)),
        outcome: Outcome::Ok,
        result: None,
        version: None,
        zxid: None,
        mzxid: None,
        error: None,
    }
}

impl Op {
    /// The value written.
    pub fn put(mut self, v: &str) -> Self {
        self.value = Some(v.into());
        self
    }
    /// The value a read saw.
    pub fn saw(mut self, v: &str) -> Self {
        self.result = Some(v.into());
        self
    }
    pub fn expect(mut self, version: i64) -> Self {
        self.expect = Some(version);
        self
    }
    pub fn version(mut self, v: i64) -> Self {
        self.version = Some(v);
        self
    }
    pub fn z(mut self, zxid: i64) -> Self {
        self.zxid = Some(zxid);
        self
    }
    pub fn m(mut self, mzxid: i64) -> Self {
        self.mzxid = Some(mzxid);
        self
    }
    pub fn failed(mut self, error: &str) -> Self {
        self.outcome = Outcome::Failed;
        self.error = Some(error.into());
        self
    }
    pub fn unknown(mut self) -> Self {
        self.outcome = Outcome::Unknown;
        self.error = Some("ConnectionLoss".into());
        self
    }
    /// No done line at all.
    pub fn open(mut self) -> Self {
        self.span.1 = None;
        self
    }
    pub fn retry_of(mut self, id: u64) -> Self {
        self.retry_of = Some(id);
        self
    }
}

impl Default for Build {
    fn default() -> Self {
        let mut product = RunProduct::default();
        product.trace.nodes = vec!["n1".into(), "n2".into(), "n3".into()];
        for n in &product.trace.nodes {
            product.record.incarnations.push(Incarnation {
                node: n.clone(),
                number: 1,
                spawned_ns: 0,
                ready_ns: Some(0),
                ended_ns: None,
                role: None,
            });
        }
        Build { product, next: 1 }
    }
}

impl Build {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn session(mut self, session: &str, server: &str, t: u64) -> Self {
        self.product.history.push(HistoryEvent::Open {
            client: format!("c-{session}"),
            session: session.into(),
            server: Some(server.into()),
            t_ns: ms(t),
        });
        self
    }

    pub fn moved(mut self, session: &str, server: &str, t: u64) -> Self {
        self.product.history.push(HistoryEvent::Move {
            client: format!("c-{session}"),
            session: session.into(),
            server: Some(server.into()),
            t_ns: ms(t),
        });
        self
    }

    pub fn close(self, session: &str, t: u64) -> Self {
        self.end(session, t, None)
    }

    pub fn expired(self, session: &str, t: u64) -> Self {
        self.end(session, t, Some("expired"))
    }

    pub fn end(mut self, session: &str, t: u64, outcome: Option<&str>) -> Self {
        self.product.history.push(HistoryEvent::Close {
            client: format!("c-{session}"),
            session: session.into(),
            t_ns: ms(t),
            outcome: outcome.map(str::to_owned),
        });
        self
    }

    pub fn phase(mut self, phase: Phase, t: u64) -> Self {
        self.product
            .history
            .push(HistoryEvent::Phase { phase, t_ns: ms(t) });
        self
    }

    /// Ids are 1, 2, ... in the order of calls.
    pub fn op(mut self, o: Op) -> Self {
        let id = self.next;
        self.next += 1;
        self.product.history.push(HistoryEvent::Invoke(OpInvoke {
            id,
            client: format!("c-{}", o.session),
            session: o.session,
            server: o.server,
            op: o.op,
            key: o.key,
            value: o.value,
            expect: o.expect,
            retry_of: o.retry_of,
            t_ns: ms(o.span.0),
        }));
        if let Some(to) = o.span.1 {
            self.product.history.push(HistoryEvent::Done(OpDone {
                id,
                t_ns: ms(to),
                outcome: o.outcome,
                value: o.result,
                version: o.version,
                zxid: o.zxid,
                mzxid: o.mzxid,
                error: o.error,
            }));
        }
        self
    }

    pub fn ops(self, ops: impl IntoIterator<Item = Op>) -> Self {
        ops.into_iter().fold(self, Build::op)
    }

    /// A server was started again at `t` ms.
    pub fn restarted(mut self, node: &str, t: u64) -> Self {
        let number = 1 + self
            .product
            .record
            .incarnations
            .iter()
            .filter(|i| i.node.as_str() == node)
            .count() as u8;
        self.product.record.incarnations.push(Incarnation {
            node: node.into(),
            number,
            spawned_ns: ms(t),
            ready_ns: Some(ms(t)),
            ended_ns: None,
            role: None,
        });
        self
    }

    /// The server's last process ended at `t` ms.
    pub fn ended(mut self, node: &str, t: u64) -> Self {
        let mut all = self.product.record.incarnations.iter_mut().rev();
        let last = all.find(|i| i.node.as_str() == node).unwrap();
        last.ended_ns = Some(ms(t));
        self
    }

    /// So far had the server's logs got at `t` ms.
    pub fn marked(mut self, node: &str, t: u64, offsets: &[usize]) -> Self {
        self.product.log_marks.push(LogMark {
            at: LogMoment::Starts,
            t_ns: ms(t),
            offsets: [(node.into(), offsets.to_vec())].into(),
        });
        self
    }

    pub fn obs(mut self, o: Observation) -> Self {
        self.product.observations.push(o);
        self
    }

    /// One key on one node at a version.
    pub fn replica(self, node: &str, version: &str, key: &str, value: &str) -> Self {
        self.obs(Observation::Replica {
            node: node.into(),
            version: version.into(),
            key: key.into(),
            value: Some(value.into()),
            key_version: None,
            durable: false,
        })
    }

    /// The same content on all three nodes at version 9, and the end of a complete round.
    pub fn everywhere(self, content: &[(&str, &str)]) -> Self {
        self.everywhere_at(content, false)
    }

    pub fn durable(self, content: &[(&str, &str)]) -> Self {
        self.everywhere_at(content, true)
    }

    fn everywhere_at(mut self, content: &[(&str, &str)], durable: bool) -> Self {
        for node in ["n1", "n2", "n3"] {
            // A key nobody wrote stands in for the system's own: a node with no key at all still shows it was asked.
            for (key, value) in content.iter().chain(&[("/system", "")]) {
                self.product.observations.push(Observation::Replica {
                    node: node.into(),
                    version: "9".into(),
                    key: (*key).into(),
                    value: Some((*value).into()),
                    key_version: None,
                    durable,
                });
            }
        }
        self.obs(Observation::Round {
            name: "final".into(),
            complete: true,
            durable,
        })
    }

    pub fn round(self, complete: bool) -> Self {
        self.obs(Observation::Round {
            name: "final".into(),
            complete,
            durable: false,
        })
    }
}

/// How many failures and unknowns a checker gives.
pub fn count(r: &super::CheckResult) -> (usize, usize) {
    (r.failures.len(), r.unknowns.len())
}
