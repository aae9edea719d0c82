//! Random legal executions of a small replicated register system: no checker may find anything wrong with any of them.
//!
//! The system: a log of committed changes, applied in order by three servers that may lag; sessions that never read older than
//! they saw; answers that get lost, whose change may happen at once, later or never, but not after its session's end; servers that
//! synchronise when they restart; sync. Spoiled executions show that the checkers are not blind.

use super::run_all;
use super::testing::{Build, Op, op};
use proptest::prelude::*;
use std::collections::BTreeMap;
use warren_model::{Observation, Phase, Rules, RunProduct};

const SERVERS: [&str; 3] = ["n1", "n2", "n3"];
const KEYS: [&str; 4] = ["/a", "/b", "/c", "/e"];
const EPHEMERAL: &str = "/e";

/// One random choice; what it means is decided by the state it meets.
#[derive(Clone, Debug)]
struct Step {
    act: u8,
    session: usize,
    key: usize,
    server: usize,
    /// 0 answered, 1 lost and happens at once, 2 lost and happens later, 3 lost and never happens.
    fate: u8,
    long: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u8..17, 0usize..4, 0usize..4, 0usize..3, 0u8..7, 1u64..40).prop_map(
        |(act, session, key, server, fate, long)| Step {
            act,
            session,
            key,
            server,
            fate: fate.saturating_sub(3),
            long,
        },
    );
    prop::collection::vec(step, 1..60)
}

/// How much the system tells with its answers.
#[derive(Clone, Copy, Debug)]
struct Tells {
    numbers: bool,
    versions: bool,
    /// Values come from a small set instead of rising.
    repeats: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Cell {
    value: String,
    version: i64,
    mzxid: i64,
    owner: Option<String>,
}

type Tree = BTreeMap<&'static str, Cell>;

#[derive(Clone, Debug)]
enum Change {
    Create(String, Option<String>),
    Write(String),
    Cas(String, i64),
    Delete,
}

struct Session {
    name: String,
    server: usize,
    seen: usize,
    /// Changes whose answers were lost and that may still happen.
    pending: Vec<(&'static str, Change)>,
}

struct System {
    /// Tree after each committed change; index = order number.
    log: Vec<Tree>,
    applied: [usize; 3],
    sessions: Vec<Option<Session>>,
    /// Changes of sessions that were let go without an end.
    orphans: Vec<(&'static str, Change)>,
    opened: usize,
    values: u64,
    t: u64,
    ops: u64,
    tells: Tells,
    build: Build,
}

impl System {
    fn new(tells: Tells) -> Self {
        System {
            log: vec![Tree::new()],
            applied: [0; 3],
            sessions: (0..4).map(|_| None).collect(),
            orphans: Vec::new(),
            opened: 0,
            values: 0,
            t: 10,
            ops: 0,
            tells,
            build: Build::new(),
        }
    }

    fn with(&mut self, f: impl FnOnce(Build) -> Build) {
        let build = std::mem::take(&mut self.build);
        self.build = f(build);
    }

    fn committed(&self) -> usize {
        self.log.len() - 1
    }

    /// Commits a change if it is valid now: its error otherwise.
    fn commit(&mut self, key: &'static str, change: &Change) -> Result<Option<Cell>, &'static str> {
        let mut tree = self.log[self.committed()].clone();
        let mzxid = self.log.len() as i64;
        let old = tree.get(key).cloned();
        let next = match (change, old) {
            (Change::Create(..), Some(_)) => return Err("NodeExists"),
            (Change::Create(value, owner), None) => Some(Cell {
                value: value.clone(),
                version: 0,
                mzxid,
                owner: owner.clone(),
            }),
            (_, None) => return Err("NoNode"),
            (Change::Cas(_, expect), Some(c)) if c.version != *expect => return Err("BadVersion"),
            (Change::Write(value) | Change::Cas(value, _), Some(c)) => Some(Cell {
                value: value.clone(),
                version: c.version + 1,
                mzxid,
                owner: c.owner,
            }),
            (Change::Delete, Some(_)) => None,
        };
        match &next {
            Some(cell) => {
                tree.insert(key, cell.clone());
            }
            None => {
                tree.remove(key);
            }
        }
        self.log.push(tree);
        Ok(next)
    }

    fn value(&mut self) -> String {
        self.values += 1;
        if self.tells.repeats {
            (self.values % 3).to_string()
        } else {
            self.values.to_string()
        }
    }

    fn session(&mut self, i: usize, server: usize) -> &mut Session {
        if self.sessions[i].is_none() {
            self.opened += 1;
            let name = format!("s{}", self.opened);
            let t = self.t;
            self.with(|b| b.session(&name, SERVERS[server], t));
            self.t += 2;
            self.sessions[i] = Some(Session {
                name,
                server,
                seen: 0,
                pending: Vec::new(),
            });
        }
        self.sessions[i].as_mut().unwrap()
    }

    fn end(&mut self, i: usize, step: &Step) {
        let Some(s) = self.sessions[i].take() else {
            return;
        };
        if step.fate == 3 {
            // Let go without a word: what is under way may happen at any later time.
            self.orphans.extend(s.pending);
            return;
        }
        // What is under way happens now or never; then the session's ephemerals go.
        for (key, change) in s.pending.iter().filter(|_| step.long.is_multiple_of(2)) {
            let _ = self.commit(key, change);
        }
        let own = |c: &Cell| c.owner.as_ref() == Some(&s.name);
        if self.log[self.committed()].values().any(own) {
            let mut tree = self.log[self.committed()].clone();
            tree.retain(|_, c| !own(c));
            self.log.push(tree);
        }
        let t = self.t + 1;
        self.with(|b| match step.fate {
            2 => b.expired(&s.name, t),
            _ => b.close(&s.name, t),
        });
    }

    fn change(&mut self, step: &Step) {
        let key = KEYS[step.key];
        let value = self.value();
        let (t, ops) = (self.t, self.ops);
        let s = self.session(step.session, step.server);
        let (name, server) = (s.name.clone(), s.server);
        let now = self.log[self.committed()].get(key).cloned();
        let (kind, change) = match step.act {
            0..=2 if key == EPHEMERAL => (
                "ephemeral",
                Change::Create(value.clone(), Some(name.clone())),
            ),
            0..=2 => ("create", Change::Create(value.clone(), None)),
            3..=5 => ("write", Change::Write(value.clone())),
            6 => {
                let expect = now.map_or(0, |c| c.version) - i64::from(step.long.is_multiple_of(3));
                ("cas", Change::Cas(value.clone(), expect))
            }
            _ => ("delete", Change::Delete),
        };
        let t = t.max(self.t);
        let mut o = op(&name, kind, key, t, t + step.long);
        if kind != "delete" {
            o = o.put(&value);
        }
        if let Change::Cas(_, expect) = &change {
            o = o.expect(*expect);
        }
        let o = match step.fate {
            0 => match self.commit(key, &change) {
                Ok(cell) => {
                    let zxid = self.committed();
                    self.applied[server] = self.committed();
                    if let Some(s) = &mut self.sessions[step.session] {
                        s.seen = zxid;
                    }
                    self.answer(o, cell.as_ref(), zxid)
                }
                Err(error) => o.failed(error),
            },
            1 => {
                let _ = self.commit(key, &change);
                o.unknown()
            }
            2 => {
                let s = self.session(step.session, step.server);
                s.pending.push((key, change));
                if step.long.is_multiple_of(2) {
                    o.open()
                } else {
                    o.unknown()
                }
            }
            _ => o.unknown(),
        };
        let retry = ops > 0 && kind == "create" && step.fate == 1;
        self.with(|b| b.op(o));
        self.ops += 1;
        if retry {
            // The client tries again and is told that it is there: by itself or by another, nobody knows.
            self.t = t + step.long + 1;
            let present = self.log[self.committed()].contains_key(key);
            let (t, first) = (self.t, self.ops);
            if present {
                self.with(|b| {
                    b.op(op(&name, "create", key, t, t + 2)
                        .put(&value)
                        .failed("NodeExists")
                        .retry_of(first))
                });
                self.ops += 1;
            }
        }
    }

    fn answer(&self, o: Op, cell: Option<&Cell>, zxid: usize) -> Op {
        let o = match cell {
            Some(c) if self.tells.numbers => o.m(c.mzxid),
            _ => o,
        };
        let o = if self.tells.numbers {
            o.z(zxid as i64)
        } else {
            o
        };
        match cell {
            Some(c) if self.tells.versions => o.version(c.version),
            _ => o,
        }
    }

    fn read(&mut self, step: &Step, synced: bool) {
        let key = KEYS[step.key];
        let s = self.session(step.session, step.server);
        let (name, server, seen) = (s.name.clone(), s.server, s.seen);
        if synced {
            let t = self.t;
            self.applied[server] = self.committed();
            self.with(|b| b.op(op(&name, "sync", key, t, t + 1)));
            self.ops += 1;
            self.t += 2;
        }
        let at = self.applied[server].max(seen);
        self.applied[server] = at;
        if let Some(s) = &mut self.sessions[step.session] {
            s.seen = at;
        }
        let cell = self.log[at].get(key).cloned();
        let mut o = op(&name, "read", key, self.t, self.t + step.long);
        if let Some(c) = &cell {
            o = o.saw(&c.value);
        }
        let o = self.answer(o, cell.as_ref(), at);
        // A read without an answer tells nothing, whatever it says.
        let o = if step.fate == 3 {
            o.saw("junk").unknown()
        } else {
            o
        };
        self.with(|b| b.op(o));
        self.ops += 1;
    }

    fn perform(&mut self, step: &Step) {
        self.t += 3;
        match step.act {
            0..=7 => self.change(step),
            8..=10 => self.read(step, false),
            11 => self.read(step, true),
            12 => {
                // A server catches up a little.
                let lag = self.committed() - self.applied[step.server];
                self.applied[step.server] += lag.min(step.long as usize % 4);
            }
            13 => self.end(step.session, step),
            14 => {
                // It dies, its sessions lose it, it comes back and synchronises before it serves.
                for i in 0..self.sessions.len() {
                    if self.sessions[i]
                        .as_ref()
                        .is_some_and(|s| s.server == step.server)
                        && let Some(s) = self.sessions[i].take()
                    {
                        self.orphans.extend(s.pending);
                    }
                }
                self.applied[step.server] = self.committed();
                let t = self.t + 1;
                self.with(|b| b.restarted(SERVERS[step.server], t));
                self.t += 2;
            }
            15 => {
                // Another server takes the session over.
                let t = self.t;
                if let Some(s) = &mut self.sessions[step.session] {
                    s.server = step.server;
                    let name = s.name.clone();
                    self.with(|b| b.moved(&name, SERVERS[step.server], t));
                }
            }
            _ => {
                // Something under way happens late.
                let i = step.session;
                let late = self.sessions[i].as_mut().and_then(|s| s.pending.pop());
                if let Some((key, change)) = late.or_else(|| self.orphans.pop()) {
                    let _ = self.commit(key, &change);
                }
            }
        }
    }

    fn finish(mut self, heal: &[Step]) -> RunProduct {
        self.t += 100;
        let t = self.t;
        self.with(|b| b.phase(Phase::Heal, t));
        for step in heal {
            self.t += 3;
            self.read(step, true);
        }
        self.t += 100;
        let t = self.t;
        self.with(|b| b.phase(Phase::Final, t));
        // A client that was left behind: its change happens after the nodes were read.
        let late = op("late", "create", "/late", t - 50, t + 50).put("late");
        self.with(|b| b.op(late));
        let last = self.log[self.committed()].clone();
        for node in SERVERS {
            for (key, cell) in &last {
                let key_version = self.tells.numbers.then(|| cell.mzxid.to_string());
                let shown = Observation::Replica {
                    node: node.into(),
                    version: "9".into(),
                    key: (*key).into(),
                    value: Some(cell.value.clone()),
                    key_version,
                    durable: false,
                };
                self.with(|b| b.obs(shown));
            }
            // A node without any key was read, too.
            let read = Observation::Digest {
                node: node.into(),
                version: "9".into(),
                hash: "0".into(),
                durable: false,
            };
            self.with(|b| b.obs(read));
        }
        self.with(|b| b.round(true));
        self.build.product
    }
}

fn rules() -> Rules {
    Rules {
        definite: ["NodeExists", "NoNode", "BadVersion"]
            .map(str::to_owned)
            .into(),
        rejoin: true,
        numbered: true,
        tick_ms: 500,
        ..Rules::default()
    }
}

fn execute(steps: &[Step], heal: &[Step], tells: Tells) -> RunProduct {
    let mut system = System::new(tells);
    for s in steps {
        system.perform(s);
    }
    system.finish(heal)
}

/// Unknowns that belong to the harness: nobody asks for service in it.
fn judged(product: &RunProduct) -> (Vec<warren_model::Failure>, Vec<warren_model::Unknown>) {
    let mut r = run_all(product, &rules(), false);
    r.unknowns.retain(|u| u.checker != "serve");
    (r.failures, r.unknowns)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn legal_executions_never_fail(
        steps in steps(),
        heal in steps(),
        numbers in any::<bool>(),
        versions in any::<bool>(),
        repeats in any::<bool>(),
    ) {
        let p = execute(&steps, &heal[..heal.len().min(8)], Tells { numbers, versions, repeats });
        let (failures, unknowns) = judged(&p);
        prop_assert!(failures.is_empty(), "{failures:#?}\n{:#?}", p.history);
        prop_assert!(unknowns.is_empty(), "{unknowns:#?}");
    }

    /// One more read that names a state and shows an older one is always found, whatever happened before.
    #[test]
    fn a_covered_change_that_is_not_shown_is_always_found(steps in steps()) {
        let mut system = System::new(Tells { numbers: true, versions: false, repeats: false });
        for s in &steps {
            system.perform(s);
        }
        let (t, z) = (system.t + 100, system.log.len() as i64);
        system.with(|b| b
            .op(op("w", "create", "/mine", t, t + 1).put("first").m(z).z(z))
            .op(op("w", "write", "/mine", t + 2, t + 3).put("last").m(z + 1).z(z + 1))
            .op(op("v", "read", "/mine", t + 4, t + 5).saw("first").m(z).z(z + 1)));
        system.t = t + 10;
        let (failures, _) = judged(&system.finish(&[]));
        prop_assert!(failures.iter().any(|f| f.checker == "covered"), "{failures:#?}");
    }

    /// One more acknowledged write that no replica has is always found, whatever happened before.
    #[test]
    fn a_lost_acknowledged_write_is_always_found(steps in steps(), numbers in any::<bool>()) {
        let mut system = System::new(Tells { numbers, versions: false, repeats: false });
        for s in &steps {
            system.perform(s);
        }
        // The writer's key is its own, so nothing that is still under way can explain the loss.
        let t = system.t + 100;
        system.with(|b| b
            .op(op("w", "create", "/mine", t, t + 1).put("first"))
            .op(op("w", "write", "/mine", t + 2, t + 3).put("last")));
        system.t = t + 10;
        let p = system.finish(&[]);
        let (failures, _) = judged(&p);
        prop_assert!(failures.iter().any(|f| f.checker == "acknowledged"), "{failures:#?}");
    }
    /// So is one that a write without an answer has replaced, if the system numbered that before it.
    #[test]
    fn a_write_without_an_answer_excuses_no_later_one(steps in steps()) {
        let mut system = System::new(Tells { numbers: true, versions: false, repeats: false });
        for s in &steps {
            system.perform(s);
        }
        let (t, z) = (system.t + 100, system.log.len() as i64);
        system.with(|b| b
            .op(op("w", "create", "/mine", t, t + 1).put("first").m(z))
            .op(op("v", "write", "/mine", t + 2, t + 3).put("doubtful").unknown())
            .op(op("w", "write", "/mine", t + 4, t + 5).put("last").m(z + 2)));
        let mut tree = system.log[system.committed()].clone();
        let doubtful = Cell { value: "doubtful".into(), version: 1, mzxid: z + 1, owner: None };
        tree.insert("/mine", doubtful);
        system.log.push(tree);
        system.t = t + 10;
        let (failures, _) = judged(&system.finish(&[]));
        prop_assert!(failures.iter().any(|f| f.checker == "acknowledged"), "{failures:#?}");
    }
}
