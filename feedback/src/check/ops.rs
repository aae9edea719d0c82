//! The operation history, indexed: what each operation may and must have done. Used by all checkers over history.jsonl; itself
//! judges nothing.
//!
//! An operation's effect lies in `[from, until]`: an ok one took effect between its call and its answer, an unknown one at any
//! time up to the end of its session, or never; a failed one has none. That is the usual reading of histories with lost answers
//! (an open operation of linearizability), tightened by the end of the session.

use super::CheckResult;
use std::collections::{BTreeMap, BTreeSet};
use warren_model::{HistoryEvent, NodeName, OpDone, OpInvoke, Outcome, Phase, Rules, RunProduct};

/// How a session ended, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The system confirmed the close.
    Closed,
    /// The system said it expired. Its end was decided, but the removal of what it owned may still be under way.
    Expired,
}

/// One session.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pub opened: Option<(u64, Option<NodeName>)>,
    /// Times at which another server took it over.
    pub moves: Vec<u64>,
    pub ended: Option<(u64, End)>,
}

/// What an operation does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Gives it a value: create, write, cas, ephemeral.
    Put,
    Delete,
    Read,
    Sync,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Op<'a> {
    pub inv: &'a OpInvoke,
    pub done: Option<&'a OpDone>,
    /// What binds, which is weaker than what was written when the error is not a definite one.
    pub outcome: Outcome,
    pub act: Act,
    /// Earliest and latest time of its effect, ns; `u64::MAX` = never bounded.
    pub from: u64,
    pub until: u64,
}

impl Op<'_> {
    /// It certainly happened.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// It certainly happened, and was answered by then.
    #[must_use]
    pub fn ok_by(&self, t: u64) -> bool {
        self.ok() && self.until <= t
    }

    /// It may have happened.
    #[must_use]
    pub fn possible(&self) -> bool {
        self.outcome != Outcome::Failed
    }

    /// It makes the key vanish with its session.
    #[must_use]
    pub fn ephemeral(&self) -> bool {
        self.inv.op == "ephemeral"
    }

    /// What a put writes; no value and an empty one are the same content.
    #[must_use]
    pub fn put_value(&self) -> &str {
        self.inv.value.as_deref().unwrap_or("")
    }

    /// What an ok read saw; `None` = the key was absent.
    #[must_use]
    pub fn seen(&self) -> Option<&str> {
        self.done.and_then(|d| d.value.as_deref())
    }

    /// Order number of the change made or seen.
    #[must_use]
    pub fn mzxid(&self) -> Option<i64> {
        self.done.and_then(|d| d.mzxid).filter(|m| *m > 0)
    }

    /// Order number of the system at the answer.
    #[must_use]
    pub fn zxid(&self) -> Option<i64> {
        self.done.and_then(|d| d.zxid).filter(|z| *z > 0)
    }

    /// The key's version after it.
    #[must_use]
    pub fn version(&self) -> Option<i64> {
        self.done.and_then(|d| d.version)
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.inv.key.as_deref().unwrap_or("")
    }
}

/// Puts that may have given a key a value.
#[derive(Clone, Debug)]
pub struct Written {
    /// Earliest and latest time of any of them, ns.
    pub from: u64,
    pub until: u64,
    /// As indices into `all`, in its order.
    by: Vec<usize>,
}

impl Written {
    /// One operation alone may have done it.
    #[must_use]
    pub fn once(&self) -> bool {
        self.by.len() == 1
    }
}

/// The history of a run.
pub struct Ops<'a> {
    pub all: Vec<Op<'a>>,
    pub sessions: BTreeMap<&'a str, Session>,
    /// Puts and deletes per key, as indices into `all`.
    changes: BTreeMap<&'a str, Vec<usize>>,
    /// All operations per key, and puts that may have happened per key and value, likewise: histories are long.
    touching: BTreeMap<&'a str, Vec<usize>>,
    written: BTreeMap<&'a str, BTreeMap<&'a str, Written>>,
    /// Keys that a delete may have removed, and keys that may vanish with a session.
    deleted: BTreeSet<&'a str>,
    ephemeral: BTreeSet<&'a str>,
    /// When healing began.
    pub healed_from: Option<u64>,
    /// When each look at the replicas began: the first after healing, the second after the restart of all nodes.
    looks: Vec<u64>,
    /// Lines of the history are missing: nothing in it can convict.
    torn: bool,
    /// Keys touched by operations of a kind we do not know.
    strange: BTreeSet<&'a str>,
    t0: u64,
}

impl<'a> Ops<'a> {
    /// Reads a run's history.
    #[must_use]
    pub fn new(product: &'a RunProduct, rules: &Rules) -> Self {
        let mut sessions: BTreeMap<&str, Session> = BTreeMap::new();
        let mut invokes = Vec::new();
        let mut done: BTreeMap<u64, &OpDone> = BTreeMap::new();
        let mut healed_from = None;
        let mut looks = Vec::new();
        let mut t0 = u64::MAX;
        for event in &product.history {
            let t = match event {
                HistoryEvent::Open {
                    session,
                    server,
                    t_ns,
                    ..
                } => {
                    let s = sessions.entry(session).or_default();
                    s.opened.get_or_insert((*t_ns, server.clone()));
                    *t_ns
                }
                HistoryEvent::Move { session, t_ns, .. } => {
                    sessions.entry(session).or_default().moves.push(*t_ns);
                    *t_ns
                }
                HistoryEvent::Close {
                    session,
                    t_ns,
                    outcome,
                    ..
                } => {
                    let end = match outcome.as_deref() {
                        None | Some("ok") => Some(End::Closed),
                        Some("expired") => Some(End::Expired),
                        // Any other word says the system did not confirm: the session may live on.
                        Some(_) => None,
                    };
                    if let Some(end) = end {
                        sessions.entry(session).or_default().ended = Some((*t_ns, end));
                    }
                    *t_ns
                }
                HistoryEvent::Invoke(i) => {
                    invokes.push(i);
                    i.t_ns
                }
                HistoryEvent::Done(d) => {
                    done.insert(d.id, d);
                    d.t_ns
                }
                HistoryEvent::Phase { phase, t_ns } => {
                    match phase {
                        Phase::Heal => {
                            healed_from.get_or_insert(*t_ns);
                        }
                        Phase::Final => looks.push(*t_ns),
                        _ => {}
                    }
                    *t_ns
                }
            };
            t0 = t0.min(t);
        }
        let mut ops = Ops {
            all: Vec::with_capacity(invokes.len()),
            sessions,
            changes: BTreeMap::new(),
            touching: BTreeMap::new(),
            written: BTreeMap::new(),
            deleted: BTreeSet::new(),
            ephemeral: BTreeSet::new(),
            healed_from,
            looks,
            torn: product.broken_lines.iter().any(|f| f.contains("history")),
            strange: BTreeSet::new(),
            t0,
        };
        let outcomes: BTreeMap<u64, Outcome> = invokes
            .iter()
            .map(|i| (i.id, binding(done.get(&i.id).copied(), rules)))
            .collect();
        for inv in invokes {
            ops.push(inv, done.get(&inv.id).copied(), &outcomes);
        }
        ops
    }

    fn push(
        &mut self,
        inv: &'a OpInvoke,
        done: Option<&'a OpDone>,
        outcomes: &BTreeMap<u64, Outcome>,
    ) {
        let act = match inv.op.as_str() {
            "create" | "write" | "cas" | "ephemeral" => Act::Put,
            "delete" => Act::Delete,
            "read" => Act::Read,
            "sync" => Act::Sync,
            _ => {
                self.strange.extend(inv.key.as_deref());
                return;
            }
        };
        let mut outcome = outcomes.get(&inv.id).copied().unwrap_or(Outcome::Unknown);
        // "It is there already" after a first try whose answer was lost may be about that first try.
        let first = inv.retry_of.and_then(|r| outcomes.get(&r));
        if outcome == Outcome::Failed && first == Some(&Outcome::Unknown) {
            outcome = Outcome::Unknown;
        }
        let answered = done.map(|d| d.t_ns);
        let until = match outcome {
            Outcome::Ok | Outcome::Failed => answered.unwrap_or(u64::MAX),
            Outcome::Unknown => self
                .sessions
                .get(inv.session.as_str())
                .and_then(|s| s.ended)
                .map_or(u64::MAX, |(t, _)| t.max(answered.unwrap_or(0))),
        };
        let at = self.all.len();
        let key = inv.key.as_deref();
        self.touching.entry(key.unwrap_or("")).or_default().push(at);
        if let (Act::Put | Act::Delete, Some(key)) = (act, key) {
            self.changes.entry(key).or_default().push(at);
            if act == Act::Put && outcome != Outcome::Failed {
                let value = inv.value.as_deref().unwrap_or("");
                let written = self.written.entry(key).or_default();
                let written = written.entry(value).or_insert(Written {
                    from: u64::MAX,
                    until: 0,
                    by: Vec::new(),
                });
                written.from = written.from.min(inv.t_ns);
                written.until = written.until.max(until);
                written.by.push(at);
            }
            if outcome != Outcome::Failed && act == Act::Delete {
                self.deleted.insert(key);
            }
            if outcome != Outcome::Failed && inv.op == "ephemeral" {
                self.ephemeral.insert(key);
            }
        }
        self.all.push(Op {
            inv,
            done,
            outcome,
            act,
            from: inv.t_ns,
            until,
        });
    }

    /// Keys that were changed, except those touched by operations we do not understand.
    pub fn changed_keys(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.changes
            .keys()
            .copied()
            .filter(|k| !self.strange.contains(k))
    }

    /// Whether this key can be judged: changed by operations we understand.
    #[must_use]
    pub fn judged(&self, key: &str) -> bool {
        self.changes.contains_key(key) && !self.strange.contains(key)
    }

    /// When the look at the replicas began that the healed round, or the durable one, tells of: each node was read later, so it must show what
    /// was answered by then, and need not show what was answered after it. Never, where the history does not say.
    #[must_use]
    pub fn looked(&self, durable: bool) -> u64 {
        let look = self.looks.get(usize::from(durable));
        look.copied().unwrap_or(u64::MAX)
    }

    /// Whether a change of any key that can be judged was acknowledged.
    #[must_use]
    pub fn any_acknowledged(&self) -> bool {
        self.changed_keys()
            .any(|key| self.changes(key).any(|o| o.ok()))
    }

    /// All puts and deletes of a key.
    pub fn changes(&self, key: &str) -> impl Iterator<Item = &Op<'a>> + '_ {
        self.changes
            .get(key)
            .into_iter()
            .flatten()
            .map(|i| &self.all[*i])
    }

    /// All operations on a key.
    pub fn touching(&self, key: &str) -> impl Iterator<Item = &Op<'a>> + '_ {
        self.touching
            .get(key)
            .into_iter()
            .flatten()
            .map(|i| &self.all[*i])
    }

    /// Puts that may have given this key this value, together; none: there are none.
    #[must_use]
    pub fn written(&self, key: &str, value: &str) -> Option<&Written> {
        self.written.get(key)?.get(value)
    }

    /// Puts that may have given this key this value.
    #[must_use]
    pub fn sources(&self, key: &str, value: &str) -> Vec<&Op<'a>> {
        let by = self.written(key, value).into_iter().flat_map(|w| &w.by);
        by.map(|i| &self.all[*i]).collect()
    }

    /// Deletes of this key that may have happened.
    pub fn deletes(&self, key: &str) -> impl Iterator<Item = &Op<'a>> + '_ {
        self.changes(key)
            .filter(|o| o.act == Act::Delete && o.possible())
    }

    /// Whether the key may vanish with a session.
    #[must_use]
    pub fn maybe_ephemeral(&self, key: &str) -> bool {
        self.ephemeral.contains(key)
    }

    /// Whether a delete may have removed the key at any time.
    #[must_use]
    pub fn maybe_deleted(&self, key: &str) -> bool {
        self.deleted.contains(key)
    }

    /// Ok reads.
    pub fn reads(&self) -> impl Iterator<Item = &Op<'a>> + '_ {
        self.all
            .iter()
            .filter(|o| o.act == Act::Read && o.ok() && self.judged(o.key()))
    }

    /// One line about an operation, for people; times in ms since the history began.
    #[must_use]
    pub fn tell(&self, o: &Op<'_>) -> String {
        let ms = |t: u64| t.saturating_sub(self.t0) as f64 / 1e6;
        let mut line = format!("#{} {} {} {}", o.inv.id, o.inv.session, o.inv.op, o.key());
        if o.act == Act::Put {
            line += &format!("={}", shown(o.put_value()));
        } else if o.act == Act::Read && o.ok() {
            line += &format!(" -> {}", o.seen().map_or("(absent)".into(), shown));
        }
        if let Some(m) = o.mzxid() {
            line += &format!(" mzxid {m:#x}");
        }
        let end = o
            .done
            .map_or("no answer".to_owned(), |d| format!("{:.1}", ms(d.t_ns)));
        let outcome = match o.outcome {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::Unknown => "unknown",
        };
        line + &format!(" [{:.1}..{end} ms] {outcome}", ms(o.from))
    }

    /// Takes the teeth out of a result when lines of the history are missing: the missing line may explain everything.
    #[must_use]
    pub fn settle(&self, checker: &str, result: CheckResult) -> CheckResult {
        let mut out = CheckResult {
            failures: Vec::new(),
            ..result
        };
        if !self.torn {
            out.failures = result.failures;
        } else {
            let why = match result.failures.is_empty() {
                true => "a part of the history cannot be read; it may have told of a failure",
                false => "a part of the history cannot be read; without it this is no evidence",
            };
            out.unknown(checker, why);
        }
        for key in &self.strange {
            out.unknown(
                checker,
                format!("{key} was changed by an operation of unknown kind"),
            );
        }
        out
    }
}

/// A value for people, cut when it is long.
#[must_use]
pub fn shown(value: &str) -> String {
    const MOST: usize = 60;
    if value.chars().count() <= MOST {
        return value.to_owned();
    }
    let head: String = value.chars().take(MOST).collect();
    format!("{head}… ({} bytes)", value.len())
}

/// What an answer binds to: `failed` only with an error that the target lists as definite, so not without any.
fn binding(done: Option<&OpDone>, rules: &Rules) -> Outcome {
    match done {
        None => Outcome::Unknown,
        Some(d) if d.outcome == Outcome::Failed => {
            let definite = d.error.as_deref().is_some_and(|e| {
                let e = e.to_lowercase();
                rules.definite.iter().any(|r| e.contains(&r.to_lowercase()))
            });
            if definite {
                Outcome::Failed
            } else {
                Outcome::Unknown
            }
        }
        Some(d) => d.outcome,
    }
}

#[cfg(test)]
mod tests;
