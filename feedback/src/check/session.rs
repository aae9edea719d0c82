//! Session guarantees: within one session time does not run backwards.
//!
//! Rules, over operations of one session of which the first had ended before the second began:
//! - the system's order number (`zxid`) never falls;
//! - a read never sees an older change of a key than this session saw or made before (by `mzxid`; without it by version when the
//!   key is never deleted; without that by values whose puts are strictly ordered in time);
//! - what this session saw or made is not absent later unless a delete that may have happened can lie between, and what was
//!   absent does not come back unchanged.
//!
//! Why it is right: monotonic reads and read-your-writes hold in every system that lets a client reconnect only to a server at
//! least as new as what it saw. Staleness is legal: a session may see old states, only never older ones than before, also after
//! a move. Operations that overlap are not compared.
//!
//! Where a leader answers reads by itself and may have been deposed, no read is promised to be as new as the one before (`[promise]
//! monotonic = false`): there only the numbers of acknowledged changes are asked, which no deposed leader gives.

use super::ops::{Act, Op, Ops};
use super::{CheckResult, Found};
use std::collections::BTreeMap;
use warren_model::{Outcome, Rules, RunProduct};

const NAME: &str = "session";
const CAME_BACK: &str = "a session saw a key again that it had seen absent";

/// The checker.
#[must_use]
pub fn check(product: &RunProduct, rules: &Rules) -> CheckResult {
    let ops = Ops::new(product, rules);
    let mut result = CheckResult::pass();
    let mut sessions: BTreeMap<&str, Vec<&Op<'_>>> = BTreeMap::new();
    let change = |o: &Op<'_>| o.ok() && matches!(o.act, Act::Put | Act::Delete);
    for o in ops.all.iter().filter(|o| !rules.may_go_back || change(o)) {
        sessions.entry(&o.inv.session).or_default().push(o);
    }
    // Rule by rule: which comes first, and so names the finding, must not depend on the names of sessions.
    for rule in [falling_order as Rule, older_reads] {
        for (what, evidence) in sessions.values().flat_map(|own| rule(own, &ops)) {
            result.fail(product, Found::of_operations(NAME, what, evidence));
        }
    }
    ops.settle(NAME, result)
}

type Told = (String, Vec<String>);
/// What a rule tells of one session's operations.
type Rule = fn(&[&Op<'_>], &Ops<'_>) -> Vec<Told>;

/// Calls `each(before, op)` for every operation in order of its begin, after `before` took in all that had ended by then.
fn walk<'o, 'p, B: Default>(
    own: &[&'o Op<'p>],
    mut take: impl FnMut(&mut B, &'o Op<'p>),
    mut each: impl FnMut(&B, &'o Op<'p>),
) {
    let mut begins = own.to_vec();
    begins.sort_by_key(|o| o.from);
    let mut ends: Vec<_> = own.iter().filter(|o| o.done.is_some()).copied().collect();
    ends.sort_by_key(|o| o.done.map_or(u64::MAX, |d| d.t_ns));
    let mut ends = ends.into_iter().peekable();
    let mut before = B::default();
    for o in begins {
        while let Some(e) = ends.next_if(|e| e.done.is_some_and(|d| d.t_ns < o.from)) {
            take(&mut before, e);
        }
        each(&before, o);
    }
}

fn falling_order(own: &[&Op<'_>], ops: &Ops<'_>) -> Vec<Told> {
    let mut told = Vec::new();
    let answered = |o: &Op<'_>| o.zxid().filter(|_| o.outcome != Outcome::Unknown);
    walk(
        own,
        |best: &mut Option<(i64, &Op<'_>)>, e| {
            if let Some(z) = answered(e)
                && best.is_none_or(|(b, _)| z > b)
            {
                *best = Some((z, e));
            }
        },
        |best, o| {
            if let (Some((z, e)), Some(now)) = (*best, answered(o))
                && now < z
            {
                told.push((
                    "the order number of the system fell within a session".to_owned(),
                    vec![
                        format!("{z:#x} at {}", ops.tell(e)),
                        format!("{now:#x} at {}", ops.tell(o)),
                    ],
                ));
            }
        },
    );
    told
}

/// What a session knows of a key.
#[derive(Default)]
struct Known<'o, 'p> {
    /// Everything it saw or made, in order.
    ops: Vec<&'o Op<'p>>,
    /// When the last operation began that saw or made it absent.
    absent: Option<u64>,
}

/// A session saw or made the key absent by this operation.
fn absent(o: &Op<'_>) -> bool {
    o.act == Act::Delete || (o.act == Act::Read && o.seen().is_none())
}

fn older_reads(own: &[&Op<'_>], ops: &Ops<'_>) -> Vec<Told> {
    let mut told = Vec::new();
    walk(
        own,
        |known: &mut BTreeMap<&str, Known<'_, '_>>, e| {
            if e.ok() && e.act != Act::Sync && ops.judged(e.key()) {
                let known = known.entry(e.key()).or_default();
                known.ops.push(e);
                if absent(e) {
                    known.absent = known.absent.max(Some(e.from));
                }
            }
        },
        |known, o| {
            if o.act != Act::Read || !o.ok() {
                return;
            }
            let Some(before) = known.get(o.key()) else {
                return;
            };
            let since = Since {
                absent: before.absent,
                deleted: match o.seen() {
                    None => deleted_until(o, ops),
                    Some(_) => None,
                },
            };
            for b in &before.ops {
                if let Some(what) = goes_back(b, since, o, ops) {
                    told.push((
                        "a session saw an older state of a key than before".to_owned(),
                        vec![what.to_owned(), ops.tell(b), ops.tell(o)],
                    ));
                    return;
                }
            }
        },
    );
    told
}

/// What a read is asked of all that came before it, once for all of them.
#[derive(Clone, Copy)]
struct Since {
    /// When the last operation of the session began that ended before the read and found the key absent: began it after another one had
    /// ended, it came between that and the read.
    absent: Option<u64>,
    /// Until when a delete may have happened of those that may have begun before the read ended; asked of a read that finds nothing.
    deleted: Option<u64>,
}

fn deleted_until(read: &Op<'_>, ops: &Ops<'_>) -> Option<u64> {
    let deletes = ops.deletes(read.key());
    let earlier = deletes.filter(|d| d.from < read.until);
    earlier.map(|d| d.until).max()
}

/// Whether a read shows an older state of the key than an earlier operation of the session.
fn goes_back(before: &Op<'_>, since: Since, read: &Op<'_>, ops: &Ops<'_>) -> Option<&'static str> {
    let key = read.key();
    let deleted_ever = ops.maybe_deleted(key) || ops.maybe_ephemeral(key);
    let content = match before.act {
        Act::Put => Some(before.put_value()),
        Act::Read => before.seen(),
        Act::Delete | Act::Sync => None,
    };
    match (content, read.seen()) {
        (Some(was), Some(now)) => {
            let gone_after = |t: u64| since.absent.is_some_and(|from| from > t);
            if let (Some(b), Some(r)) = (before.mzxid(), read.mzxid()) {
                if r < b {
                    return Some("a session saw an older change than before");
                }
                return (r == b && gone_after(before.until)).then_some(CAME_BACK);
            }
            if let (Some(b), Some(r), false) = (before.version(), read.version(), deleted_ever) {
                return (r < b).then_some("a session saw an older version than before");
            }
            // Without order numbers a value that one operation wrote is one change, unless that may have been on its way still when the key was absent.
            let sources = ops.written(key, now)?;
            if was == now && sources.once() && gone_after(before.until.max(sources.until)) {
                return Some(CAME_BACK);
            }
            let oldest_was = match before.act {
                Act::Put => before.from,
                _ => ops.written(key, was)?.from,
            };
            (sources.until < oldest_was).then_some("a session saw an older value than before")
        }
        (Some(was), None) => {
            if ops.maybe_ephemeral(key) {
                return None;
            }
            let oldest = match before.act {
                Act::Put => before.from,
                // The content may have been old when it was seen: a delete long before that read explains the absence.
                _ => ops.written(key, was)?.from,
            };
            let explained = since.deleted.is_some_and(|until| until > oldest);
            (!explained).then_some("a key that a session knew is absent and nobody deleted it")
        }
        (None, Some(now)) if before.act == Act::Delete => {
            // Read-your-writes for deletes: only a put that can lie after the delete brings the key back.
            let newest = ops.written(key, now)?.until;
            (newest < before.from).then_some("a session saw a key again that it had deleted")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
