//! Which failure a minimisation keeps: the one asked for, else the one most runs are filed under. Called by the machine while it learns. Pure.
//!
//! A known bug is called by its signature and its number (`drive::name`), as most lost writes have one signature. Who asks for a signature
//! means what no number tells; where only a known bug of it is seen, that one is meant.

use super::exchange::Outcome;
use std::collections::BTreeMap;

/// Its name, and in how many of these runs it showed.
pub fn most_often(asked: Option<&str>, learned: &[Outcome]) -> Option<(String, u32)> {
    let often = |name: &str| {
        let shows = |o: &&Outcome| o.signatures.iter().any(|s| s == name);
        let k = learned.iter().filter(shows).count();
        (name.to_owned(), u32::try_from(k).unwrap_or(u32::MAX))
    };
    if let Some(asked) = asked {
        let own = often(asked);
        let numbered = |name: &&String| {
            let rest = name.strip_prefix(asked);
            rest.is_some_and(|r| r.starts_with(' '))
        };
        let all = learned.iter().flat_map(|o| &o.signatures);
        let known = all.filter(numbered).map(|name| often(name));
        let known = known.max_by_key(|(_, k)| *k);
        return known.filter(|_| own.1 == 0).or(Some(own));
    }
    let mut first: BTreeMap<&str, u32> = BTreeMap::new();
    for name in learned.iter().filter_map(|o| o.signatures.first()) {
        *first.entry(name).or_default() += 1;
    }
    let (name, _) = first.into_iter().max_by_key(|(_, n)| *n)?;
    Some(often(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::KnownBugs;
    use crate::tmin::drive::{name, outcome};
    use crate::tmin::exchange::Ended;
    use warren_model::{
        Failure, FailureKind, FaultSequence, Judgement, RunProduct, Stage, Verdict,
    };

    fn run(signatures: &[&str]) -> Outcome {
        Outcome {
            ended: Ended::Failed,
            signatures: signatures.iter().map(ToString::to_string).collect(),
            facts: None,
            by_load: false,
            cost: 1,
        }
    }

    /// Asked for, what the runs show -> what is kept, and how often it showed.
    #[test]
    fn the_failure_to_keep() {
        type Case<'a> = (Option<&'a str>, &'a [&'a [&'a str]], Option<(&'a str, u32)>);
        let table: [Case<'_>; 8] = [
            (None, &[], None),
            (None, &[&["a", "b"], &["b"], &["a"]], Some(("a", 2))),
            (None, &[&["a T-1"], &["a"], &["a T-1"]], Some(("a T-1", 2))),
            (Some("a"), &[&["b"], &[]], Some(("a", 0))),
            (Some("a"), &[&["a"], &["b", "a"]], Some(("a", 2))),
            // What no number tells is news, however seldom it shows.
            (Some("a"), &[&["a T-1"], &["a"], &["a T-1"]], Some(("a", 1))),
            (
                Some("a"),
                &[&["a T-1"], &["a T-2"], &["a T-1"]],
                Some(("a T-1", 2)),
            ),
            (Some("a"), &[&["ab"]], Some(("a", 0))),
        ];
        for (asked, runs, want) in table {
            let learned: Vec<Outcome> = runs.iter().map(|r| run(r)).collect();
            let got = most_often(asked, &learned);
            let got = got.as_ref().map(|(name, k)| (name.as_str(), *k));
            assert_eq!(got, want, "{asked:?} {runs:?}");
        }
    }

    /// Lines of a node's log -> what a run that lost data is called.
    #[test]
    fn a_known_bug_has_another_name_than_what_looks_like_it() {
        let text = "version = 1\ntarget = \"t\"\n[[bug]]\nid = \"T-1\"\ntitle = \"x\"\nsignatures = [\"0000000a\"]\nlog = ['the line']\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known-bugs.toml");
        std::fs::write(&path, text).unwrap();
        let known = KnownBugs::read(&path, "t").unwrap();
        let failure = Failure {
            checker: "replicas".into(),
            kind: FailureKind::Safety,
            stage: Stage::Healed,
            role: None,
            node: None,
            evidence: vec![],
            normalised: String::new(),
            signature: "0000000a".into(),
        };
        let judgement = Judgement {
            verdict: Verdict::Fail,
            failures: vec![failure],
            ..Judgement::default()
        };
        for (log, want) in [("", "0000000a"), ("the line", "0000000a T-1")] {
            let mut product = RunProduct::default();
            product.logs.insert("n1".into(), log.into());
            let asked = FaultSequence::empty("t");
            let of = |f: &Failure| Some(name(&known, f, &product));
            let told = outcome(&asked, &product, &judgement, &[], 1, &of);
            assert_eq!(told.signatures, [want], "{log}");
            let told = outcome(&asked, &product, &judgement, &[], 1, &|_| None);
            assert_eq!((told.ended, told.signatures.len()), (Ended::Failed, 0));
        }
    }
}
