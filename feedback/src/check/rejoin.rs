//! Freshness where it is promised: after a rejoin, and after a sync once healed.
//!
//! Rules:
//! - rejoin (targets that promise it, `[promise] rejoin`): a server synchronises before it serves, so a read in a session that was
//!   opened at server S after S's present process was started reflects every change that was acknowledged before that start.
//!   No sync is needed. ZOOKEEPER-4503's class (CrashFuzz table IV).
//! - sync: a read that begins after an ok sync of its session, with no move between, reflects every change acknowledged before
//!   the sync began. It binds only when the sync began after healing did: under faults a leader that does not yet know it was
//!   deposed may still answer.
//!
//! `reflects` = the read cannot be older than the change in every order (by `mzxid`, else by puts strictly ordered in time); a read
//! that found nothing is explained by any delete that may come after the change; an ephemeral must be gone once its session's
//! close was confirmed (an expired session's owner learns of the expiry before its ephemerals are removed, so that binds not).
//!
//! Why it is right: acknowledged before the start means committed before the server asked the leader where it stands. Everywhere
//! else a stale read is legal. A read near a move is not asked: it may have been answered by the other server.

use super::ops::{Act, End, Op, Ops, Session};
use super::{CheckResult, Found};
use warren_model::{FailureKind, NodeName, Rules, RunProduct, Stage};

const REJOIN: &str = "rejoin";
const SYNC: &str = "sync";
/// A move is noted by the client a little after it happened; reads that end within this time before a move are not asked.
const MOVE_NOTED_NS: u64 = 1_000_000_000;

/// Reads from a restarted server.
#[must_use]
pub fn check_rejoin(product: &RunProduct, rules: &Rules) -> CheckResult {
    if !rules.rejoin {
        return CheckResult::pass();
    }
    let ops = Ops::new(product, rules);
    let mut result = CheckResult::pass();
    for read in ops.reads() {
        let Some(session) = ops.sessions.get(read.inv.session.as_str()) else {
            continue;
        };
        let Some((server, started)) = serving(product, session, read) else {
            continue;
        };
        if let Some((what, missed)) = older_than(&ops, read, started) {
            result.fail(
                product,
                Found {
                    checker: REJOIN,
                    kind: FailureKind::Safety,
                    stage: Stage::Test,
                    role: None,
                    node: Some(server.clone()),
                    what: "a restarted server serves an older state than it promised".into(),
                    evidence: vec![
                        format!("{}: {what}", read.key()),
                        format!("acknowledged before {server} was started: {missed}"),
                        format!(
                            "read at {server} in a session opened after that: {}",
                            ops.tell(read)
                        ),
                    ],
                },
            );
        }
    }
    ops.settle(REJOIN, result)
}

/// The server that certainly answered a read, and when its process of that time was started, if that was a restart.
fn serving<'a>(
    product: &RunProduct,
    session: &'a Session,
    read: &Op<'_>,
) -> Option<(&'a NodeName, u64)> {
    let (opened, server) = session.opened.as_ref()?;
    let server = server.as_ref()?;
    let near_move = session
        .moves
        .iter()
        .any(|m| *m <= read.until.saturating_add(MOVE_NOTED_NS));
    if near_move || read.inv.server.as_ref().is_some_and(|s| s != server) {
        return None;
    }
    product
        .record
        .incarnations
        .iter()
        .filter(|i| i.node == *server && i.number > 1 && i.spawned_ns <= *opened)
        .map(|i| i.spawned_ns)
        .max()
        .map(|t| (server, t))
}

/// Reads after a sync, once healed.
#[must_use]
pub fn check_sync(product: &RunProduct, rules: &Rules) -> CheckResult {
    let ops = Ops::new(product, rules);
    let mut result = CheckResult::pass();
    let Some(healed) = ops.healed_from else {
        return result;
    };
    for read in ops.reads().filter(|r| r.from > healed) {
        let moves = ops
            .sessions
            .get(read.inv.session.as_str())
            .map_or(&[][..], |s| s.moves.as_slice());
        let sync = ops
            .all
            .iter()
            .filter(|s| s.act == Act::Sync && s.ok() && s.inv.session == read.inv.session)
            .filter(|s| s.from >= healed && s.until < read.from)
            .filter(|s| s.inv.key.is_none() || s.inv.key == read.inv.key || s.key() == "/")
            .filter(|s| {
                !moves
                    .iter()
                    .any(|m| *m >= s.from && *m <= read.until.saturating_add(MOVE_NOTED_NS))
            })
            .max_by_key(|s| s.from);
        let Some(sync) = sync else { continue };
        if let Some((what, missed)) = older_than(&ops, read, sync.from) {
            result.fail(
                product,
                Found {
                    checker: SYNC,
                    kind: FailureKind::Safety,
                    stage: Stage::Healed,
                    role: None,
                    node: read.inv.server.clone(),
                    what: "a read after sync shows an older state".into(),
                    evidence: vec![
                        format!("{}: {what}", read.key()),
                        format!("acknowledged before the sync: {missed}"),
                        ops.tell(sync),
                        ops.tell(read),
                    ],
                },
            );
        }
    }
    ops.settle(SYNC, result)
}

/// The change acknowledged before `bound` that a read does not reflect, and in what way.
fn older_than(ops: &Ops<'_>, read: &Op<'_>, bound: u64) -> Option<(&'static str, String)> {
    let key = read.key();
    let required = || ops.changes(key).filter(|c| c.ok() && c.until < bound);
    match read.seen() {
        Some(value) => {
            let sources = ops.sources(key, value);
            // A value from nowhere is the phantom checker's finding.
            let newest = sources.iter().map(|s| s.until).max()?;
            if let Some(s) = closed_before(ops, &sources, bound) {
                return Some(("an ephemeral of a closed session", ops.tell(s)));
            }
            required()
                .find(|c| match (read.mzxid(), c.mzxid()) {
                    (Some(r), Some(m)) => r < m,
                    _ => newest < c.from,
                })
                .map(|c| {
                    let what = if c.act == Act::Delete {
                        "a key that was deleted"
                    } else {
                        "an older content"
                    };
                    (what, ops.tell(c))
                })
        }
        None => required()
            .filter(|c| c.act == Act::Put && !c.ephemeral())
            .find(|c| {
                !ops.maybe_ephemeral(key)
                    && !ops
                        .deletes(key)
                        .any(|d| d.until > c.from && d.from < read.until)
            })
            .map(|c| ("no such key", ops.tell(c))),
    }
}

/// One of the sources when all are ephemerals whose sessions were closed for certain before `bound`.
fn closed_before<'a, 'p>(ops: &Ops<'p>, sources: &[&'a Op<'p>], bound: u64) -> Option<&'a Op<'p>> {
    let closed = |s: &&&Op<'_>| {
        s.ephemeral()
            && ops
                .sessions
                .get(s.inv.session.as_str())
                .and_then(|x| x.ended)
                .is_some_and(|(t, end)| end == End::Closed && t < bound)
    };
    let all = sources.iter().filter(closed).count() == sources.len();
    sources.first().copied().filter(|_| all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count, op};
    use warren_model::Phase;

    fn rejoin(b: &Build) -> CheckResult {
        let rules = Rules {
            rejoin: true,
            ..Rules::default()
        };
        check_rejoin(&b.product, &rules)
    }

    /// /a = 0 then 1 acknowledged at 4 ms; n1 started again at 10 ms; session r opened there at 20 ms.
    fn restarted() -> Build {
        Build::new()
            .op(op("w", "create", "/a", 1, 2).put("0"))
            .op(op("w", "write", "/a", 3, 4).put("1"))
            .restarted("n1", 10)
            .session("r", "n1", 20)
    }

    #[test]
    fn legal_rejoins() {
        let table = vec![
            (
                "it reflects all",
                restarted().op(op("r", "read", "/a", 21, 22).saw("1")),
            ),
            (
                "what was acknowledged after the start need not be seen",
                restarted()
                    .op(op("w", "write", "/a", 11, 12).put("2"))
                    .op(op("r", "read", "/a", 21, 22).saw("1")),
            ),
            (
                "a session opened before the restart",
                restarted()
                    .session("q", "n1", 5)
                    .op(op("q", "read", "/a", 21, 22).saw("0")),
            ),
            (
                "a server that was not restarted may lag",
                restarted()
                    .session("q", "n2", 20)
                    .op(op("q", "read", "/a", 21, 22).saw("0")),
            ),
            (
                "after a move another server answers",
                restarted()
                    .moved("r", "n2", 20)
                    .op(op("r", "read", "/a", 21, 22).saw("0")),
            ),
            (
                "a move noted right after the read",
                restarted()
                    .op(op("r", "read", "/a", 21, 22).saw("0"))
                    .moved("r", "n2", 23),
            ),
            (
                "an unknown write need not be seen",
                restarted()
                    .op(op("w", "write", "/a", 5, 6).put("2").unknown())
                    .op(op("r", "read", "/a", 21, 22).saw("1")),
            ),
            (
                "absent, and a delete may have happened",
                restarted()
                    .op(op("w", "delete", "/a", 5, 6).unknown())
                    .op(op("r", "read", "/a", 21, 22)),
            ),
            (
                "an ephemeral of an expired session may still be there",
                restarted()
                    .session("e", "n2", 1)
                    .op(op("e", "ephemeral", "/e", 2, 3).put("x"))
                    .expired("e", 8)
                    .op(op("r", "read", "/e", 21, 22).saw("x")),
            ),
            (
                "an ephemeral closed after the start may still be there",
                restarted()
                    .session("e", "n2", 1)
                    .op(op("e", "ephemeral", "/e", 2, 3).put("x"))
                    .close("e", 11)
                    .op(op("r", "read", "/e", 21, 22).saw("x")),
            ),
            (
                "an ephemeral that is gone",
                restarted()
                    .session("e", "n2", 1)
                    .op(op("e", "ephemeral", "/e", 2, 3).put("x"))
                    .op(op("r", "read", "/e", 21, 22)),
            ),
        ];
        for (name, b) in table {
            assert_eq!(count(&rejoin(&b)), (0, 0), "{name}: {:?}", rejoin(&b));
        }
    }

    #[test]
    fn stale_after_rejoin() {
        let table = vec![
            (
                restarted().op(op("r", "read", "/a", 21, 22).saw("0")),
                "an older content",
            ),
            (restarted().op(op("r", "read", "/a", 21, 22)), "no such key"),
            (
                restarted()
                    .op(op("w", "delete", "/a", 5, 6))
                    .op(op("r", "read", "/a", 21, 22).saw("1")),
                "a key that was deleted",
            ),
            (
                restarted()
                    .session("e", "n2", 1)
                    .op(op("e", "ephemeral", "/e", 2, 3).put("x"))
                    .close("e", 8)
                    .op(op("r", "read", "/e", 21, 22).saw("x")),
                "an ephemeral of a closed session",
            ),
            (
                Build::new()
                    .op(op("w", "write", "/a", 1, 5).put("0").m(1))
                    .op(op("v", "write", "/a", 2, 4).put("1").m(2))
                    .restarted("n1", 10)
                    .session("r", "n1", 20)
                    .op(op("r", "read", "/a", 21, 22).saw("0").m(1)),
                "an older content",
            ),
        ];
        for (b, expect) in table {
            let r = rejoin(&b);
            assert_eq!(count(&r), (1, 0), "{expect}: {r:?}");
            assert!(r.failures[0].evidence[1].contains(expect), "{r:?}");
            assert_eq!(
                count(&check_rejoin(&b.product, &Rules::default())),
                (0, 0),
                "no promise"
            );
        }
    }

    fn synced(phase_at: u64) -> Build {
        Build::new()
            .op(op("w", "create", "/a", 1, 2).put("0"))
            .op(op("w", "write", "/a", 3, 4).put("1"))
            .session("r", "n1", 5)
            .phase(Phase::Heal, phase_at)
            .op(op("r", "sync", "/a", 10, 11))
    }

    #[test]
    fn sync_binds_after_healing_only() {
        let legal = vec![
            (
                "fresh",
                synced(9).op(op("r", "read", "/a", 12, 13).saw("1")),
            ),
            (
                "sync before healing binds not",
                synced(11).op(op("r", "read", "/a", 12, 13).saw("0")),
            ),
            (
                "without sync a stale read is legal",
                synced(9)
                    .session("q", "n2", 9)
                    .op(op("q", "read", "/a", 12, 13).saw("0")),
            ),
            (
                "a write during the sync may be missed",
                synced(9)
                    .op(op("w", "write", "/a", 9, 11).put("2"))
                    .op(op("r", "read", "/a", 12, 13).saw("1")),
            ),
            (
                "moved after the sync",
                synced(9)
                    .moved("r", "n2", 11)
                    .op(op("r", "read", "/a", 12, 13).saw("0")),
            ),
            (
                "the sync itself failed",
                Build::new()
                    .op(op("w", "create", "/a", 1, 2).put("0"))
                    .op(op("w", "write", "/a", 3, 4).put("1"))
                    .phase(Phase::Heal, 9)
                    .op(op("r", "sync", "/a", 10, 11).unknown())
                    .op(op("r", "read", "/a", 12, 13).saw("0")),
            ),
        ];
        for (name, b) in legal {
            let r = check_sync(&b.product, &Rules::default());
            assert_eq!(count(&r), (0, 0), "{name}: {r:?}");
        }
        let stale = vec![
            synced(9).op(op("r", "read", "/a", 12, 13).saw("0")),
            synced(9).op(op("r", "read", "/a", 12, 13)),
            synced(9)
                .op(op("w", "delete", "/a", 5, 6))
                .op(op("r", "read", "/a", 12, 13).saw("1")),
        ];
        for b in stale {
            let r = check_sync(&b.product, &Rules::default());
            assert_eq!(count(&r), (1, 0), "{r:?}");
        }
    }
}
