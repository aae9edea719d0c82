//! The checkers: each a pure function from a run's product and the target's rules to failures and unknowns. Called by
//! [`crate::judge::Judge`] through [`run_all`]; none knows a target's name.
//!
//! What all of them keep to:
//! - `ok` and `failed` both bind; `unknown` may have happened once, at any time up to the end of its session; operations that
//!   overlap in time can go either way; a retry is a new operation.
//! - Without `sync` a stale read is legal. A process that dies by our own hand is never a finding.
//! - A checker that cannot tell says unknown and why; one that panics becomes unknown with the error. 28 of CoFI's 33 false
//!   alarms came from demanding success where failing is legal (CoFI section VI-D), so doubt never makes a failure.

pub mod acknowledged;
pub mod covered;
pub mod durability;
pub mod exits;
pub mod fatal_log;
pub mod leader;
pub mod liveness;
pub mod ops;
pub mod order;
pub mod phantom;
pub mod rejoin;
pub mod replicas;
pub mod residue;
pub mod rounds;
pub mod session;
pub mod void;

#[cfg(test)]
mod random;
#[cfg(test)]
pub mod testing;

use crate::signature::{normalise, signature};
use std::panic::{AssertUnwindSafe, catch_unwind};
use warren_model::{Failure, FailureKind, NodeName, Rules, RunProduct, Stage, Unknown};

/// A checker.
pub type Checker = fn(&RunProduct, &Rules) -> CheckResult;

/// Every checker by name, safety first. The first failure names the finding, so what shows most reliably comes first: replicas that
/// diverged always differ, but it is chance whether an acknowledged change is among the differences.
pub const CHECKERS: &[(&str, Checker)] = &[
    ("replicas", replicas::check_contents),
    ("acknowledged", acknowledged::check),
    ("durability", durability::check),
    ("digests", replicas::check_digests),
    ("phantom", phantom::check),
    ("order", order::check),
    ("session", session::check),
    ("rejoin", rejoin::check_rejoin),
    ("sync", rejoin::check_sync),
    ("covered", covered::check),
    ("leader", leader::check_leader),
    ("epochs", leader::check_epochs),
    ("mismatch", residue::check_mismatch),
    ("fatal-log", fatal_log::check_fatal_log),
    ("leftovers", residue::check_leftovers),
    ("self-exit", exits::check_exits),
    ("serve", liveness::check_serve),
    ("progress", liveness::check_progress),
    ("stable", liveness::check_stable),
    ("refused", liveness::check_refused),
    ("workload", liveness::check_workload),
    ("incomplete", residue::check_incomplete),
];

/// Lines of evidence of one failure.
const EVIDENCE_MAX: usize = 16;

/// What a checker found and what it could not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    pub failures: Vec<Failure>,
    pub unknowns: Vec<Unknown>,
}

/// A failure before it has its signature.
pub struct Found<'a> {
    pub checker: &'a str,
    pub kind: FailureKind,
    pub stage: Stage,
    /// Part of the signature: only where the same story always has the same role.
    pub role: Option<String>,
    pub node: Option<NodeName>,
    /// One sentence that says what is wrong, without the keys it is about: one bug hits now these keys, now those, and must keep
    /// its signature. Normalised, it is the signature's evidence.
    pub what: String,
    /// Further lines for people.
    pub evidence: Vec<String>,
}

impl<'a> Found<'a> {
    /// A safety failure that operations of the test show, whoever served them.
    fn of_operations(checker: &'a str, what: impl Into<String>, evidence: Vec<String>) -> Self {
        Found {
            checker,
            kind: FailureKind::Safety,
            stage: Stage::Test,
            role: None,
            node: None,
            what: what.into(),
            evidence,
        }
    }
}

impl CheckResult {
    /// Nothing to say: passed.
    #[must_use]
    pub fn pass() -> Self {
        Self::default()
    }

    /// Adds a failure; one with the same signature is told once, with the evidence of the first few.
    pub fn fail(&mut self, product: &RunProduct, found: Found<'_>) {
        let stage = found.stage;
        self.fail_signed_as(stage, product, found);
    }

    /// The same for what shows now in this stage, now in that one: its signature is that of `stage` whenever it was seen.
    pub fn fail_signed_as(&mut self, stage: Stage, product: &RunProduct, found: Found<'_>) {
        let normalised = normalise(&found.what, &product.trace.nodes);
        let signature = signature(found.checker, &normalised, found.role.as_deref(), stage);
        if let Some(known) = self.failures.iter_mut().find(|f| f.signature == signature) {
            if known.evidence.len() + found.evidence.len() <= EVIDENCE_MAX {
                known.evidence.extend(found.evidence);
            }
            return;
        }
        let mut evidence = vec![found.what];
        evidence.extend(found.evidence);
        self.failures.push(Failure {
            checker: found.checker.to_owned(),
            kind: found.kind,
            stage: found.stage,
            role: found.role,
            node: found.node,
            evidence,
            normalised,
            signature,
        });
    }

    /// Of a checker that goes from node to node: its failures by stage, then by what was seen. The first one names the finding, and nodes
    /// that change names must not change it.
    #[must_use]
    pub fn sorted_without_names(mut self) -> Self {
        self.failures
            .sort_by_cached_key(|f| (f.stage, f.normalised.clone(), f.role.clone()));
        self
    }

    /// Adds a question that could not be answered; the same one is told once.
    pub fn unknown(&mut self, checker: &str, why: impl Into<String>) {
        self.cannot_tell(Unknown {
            checker: checker.to_owned(),
            why: why.into(),
            by_load: false,
        });
    }

    /// Adds a question that failed while the machine stood still: another run may answer it.
    pub fn unknown_by_load(&mut self, checker: &str, why: impl Into<String>) {
        self.cannot_tell(Unknown {
            checker: checker.to_owned(),
            why: why.into(),
            by_load: true,
        });
    }

    fn cannot_tell(&mut self, unknown: Unknown) {
        if !self.unknowns.contains(&unknown) {
            self.unknowns.push(unknown);
        }
    }

    fn take(&mut self, other: CheckResult) {
        self.failures.extend(other.failures);
        for u in other.unknowns {
            self.cannot_tell(u);
        }
    }
}

/// All checkers over one run that is not void. `retest`: this run repeats one that passed its limit.
#[must_use]
pub fn run_all(product: &RunProduct, rules: &Rules, retest: bool) -> CheckResult {
    let mut all = CheckResult::pass();
    for (name, checker) in CHECKERS {
        all.take(guarded(name, *checker, product, rules));
    }
    all.take(liveness::check_hang(product, rules, retest));
    all
}

/// Runs one checker; a panic in it is an unknown, never the end of a campaign.
fn guarded(name: &str, checker: Checker, product: &RunProduct, rules: &Rules) -> CheckResult {
    catch_unwind(AssertUnwindSafe(|| checker(product, rules))).unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no text".to_owned());
        let mut result = CheckResult::pass();
        result.unknown(name, format!("the checker failed: {why}"));
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::Build;
    use warren_model::{Observation, Phase};

    /// Two runs that differ by the names of two nodes are one finding: the same signatures, the same first.
    #[test]
    fn names_of_nodes_change_no_signature() {
        let rules = Rules {
            fatal_log: vec!["^FATAL".into(), "corrupt".into()],
            ..Rules::default()
        };
        let run = |a: &str, b: &str| {
            let serve = |phase, node: &str| Observation::Serve {
                phase,
                node: node.into(),
                ok: false,
                ms: 900,
                error: Some("ConnectionLoss".into()),
            };
            let epoch = |node: &str, name: &str, t_ns, value| Observation::Epoch {
                node: node.into(),
                name: name.into(),
                value,
                t_ns,
            };
            let mismatch = |node: &str, what: &str| Observation::Mismatch {
                node: node.into(),
                what: what.into(),
                detail: format!("seen on {node}"),
            };
            let mut seen = vec![
                // The workload asks in the order of names.
                (a.to_owned(), serve(Phase::Degraded, a)),
                // One outage: what its nodes are after healing tells nothing apart.
                (b.to_owned(), serve(Phase::Degraded, b)),
                (b.to_owned(), serve(Phase::Heal, b)),
                (a.to_owned(), mismatch(a, "digests")),
                (b.to_owned(), mismatch(b, "trees")),
                (a.to_owned(), epoch(a, "accepted", 1, 5)),
                (a.to_owned(), epoch(a, "accepted", 2, 4)),
                (b.to_owned(), epoch(b, "current", 1, 5)),
                (b.to_owned(), epoch(b, "current", 2, 4)),
            ];
            seen.sort_by(|x, y| x.0.cmp(&y.0));
            let mut p = seen
                .into_iter()
                .fold(Build::new(), |p, (_, o)| p.obs(o))
                .product;
            p.record.degraded_asked = true;
            for i in &mut p.record.incarnations {
                let role = if i.node.as_str() == a {
                    "leader"
                } else {
                    "follower"
                };
                i.role = Some(role.into());
            }
            p.logs.insert(a.into(), "corrupt tail".into());
            p.logs.insert(b.into(), "FATAL end".into());
            let failures = run_all(&p, &rules, false).failures;
            failures
                .into_iter()
                .map(|f| (f.checker, f.signature))
                .collect::<Vec<_>>()
        };
        let one = run("n1", "n2");
        let checkers: Vec<&str> = one.iter().map(|(c, _)| c.as_str()).collect();
        for twice in ["serve", "mismatch", "epochs", "fatal-log"] {
            let n = checkers.iter().filter(|c| **c == twice).count();
            assert_eq!(n, 2, "{twice} in {checkers:?}");
        }
        assert_eq!(one, run("n2", "n1"));
    }

    #[test]
    fn a_checker_that_panics_is_an_unknown() {
        fn bad(_: &RunProduct, _: &Rules) -> CheckResult {
            panic!("index 7 is out of bounds")
        }
        let r = guarded("bad", bad, &RunProduct::default(), &Rules::default());
        assert!(r.failures.is_empty());
        assert_eq!(r.unknowns.len(), 1);
        assert_eq!(r.unknowns[0].checker, "bad");
        assert!(r.unknowns[0].why.contains("index 7"));
    }
}
