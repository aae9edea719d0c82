//! The judge of a campaign: rules of the target and what was learned, applied to one run after another.
//!
//! Held by the run observer (and by `replay`). Learning changes its state, judging does not: the same product and the same
//! state give the same judgement. It writes nothing; the state is saved by the fuzzer.

use crate::check::{self, CheckResult};
use crate::logs::LogTemplates;
use regex::{Regex, RegexSet};
use serde::{Deserialize, Serialize};
use warren_model::{Judgement, Rules, RunProduct, Verdict};

/// What a campaign has learned about its target; saved and taken up again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    pub templates: LogTemplates,
    pub fault_free_runs: u32,
    pub single_fault_runs: u32,
}

/// A regular expression of target.toml that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: `{value}` is no regular expression: {why}; correct it in target.toml")]
pub struct RuleError {
    /// Where it stands, such as `[log] fatal_log`.
    pub key: &'static str,
    pub value: String,
    pub why: String,
}

/// Judges runs of one target.
#[derive(Clone, Debug)]
pub struct Judge {
    rules: Rules,
    learned: Learned,
    ignore: RegexSet,
}

impl Judge {
    /// A judge that has learned nothing yet.
    ///
    /// # Errors
    /// The first pattern of the rules that is no regular expression.
    pub fn new(rules: Rules) -> Result<Self, RuleError> {
        Self::with_state(rules, Learned::default())
    }

    /// A judge that goes on with what was learned.
    ///
    /// # Errors
    /// As [`Judge::new`].
    pub fn with_state(rules: Rules, learned: Learned) -> Result<Self, RuleError> {
        let patterns = (rules.fatal_log.iter().map(|v| ("[log] fatal_log", v)))
            .chain(rules.log_ignore.iter().map(|v| ("[log] ignore", v)))
            .chain(rules.legal_exits.iter().map(|r| ("[exit] legal", &r.log)))
            .chain(
                (rules.legal_exits.iter())
                    .filter_map(|r| r.span.as_ref())
                    .flat_map(|s| [&s.after, &s.until])
                    .map(|v| ("[exit] legal", v)),
            )
            .chain(rules.exit_cause.iter().map(|v| ("[exit] cause", v)))
            .chain(
                (rules
                    .legal_log
                    .iter()
                    .flat_map(|r| [&r.line, &r.span.after, &r.span.until]))
                .map(|v| ("[log] legal", v)),
            );
        for (key, value) in patterns {
            Regex::new(value).map_err(|e| RuleError {
                key,
                value: value.clone(),
                why: e.to_string(),
            })?;
        }
        let ignore = RegexSet::new(&rules.log_ignore).map_err(|e| RuleError {
            key: "[log] ignore",
            value: rules.log_ignore.join(" | "),
            why: e.to_string(),
        })?;
        Ok(Judge {
            rules,
            learned,
            ignore,
        })
    }

    /// The rules of the target.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What was learned, to be saved.
    #[must_use]
    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// Takes in a fault-free run: its log templates are the target's ordinary life.
    pub fn learn_fault_free(&mut self, product: &RunProduct) {
        self.learned.templates.learn(product);
        self.learned.fault_free_runs += 1;
    }

    /// Takes in a run with one plain fault: what is logged then is no novelty.
    pub fn learn_single_fault(&mut self, product: &RunProduct) {
        self.learned.templates.learn(product);
        self.learned.single_fault_runs += 1;
    }

    /// Judges a run. A run over its limit is `unknown: timed out once`; the caller runs it again alone.
    #[must_use]
    pub fn judge(&self, product: &RunProduct) -> Judgement {
        self.assess(product, false)
    }

    /// Judges the repetition of a run that passed its limit, made alone with twice the limit: over it again, it is a hang.
    #[must_use]
    pub fn judge_retest(&self, product: &RunProduct) -> Judgement {
        self.assess(product, true)
    }

    fn assess(&self, product: &RunProduct, retest: bool) -> Judgement {
        // A run that went wrong tells nothing about the target, so nothing of it is checked.
        if let Some(why) = check::void::reason(product) {
            return Judgement {
                verdict: Verdict::Unknown,
                void: Some(why),
                ..Judgement::default()
            };
        }
        let CheckResult { failures, unknowns } = check::run_all(product, &self.rules, retest);
        let verdict = match (failures.is_empty(), unknowns.is_empty()) {
            (false, _) => Verdict::Fail,
            (true, false) => Verdict::Unknown,
            (true, true) => Verdict::Pass,
        };
        Judgement {
            verdict,
            void: None,
            failures,
            unknowns,
            novelties: self.learned.templates.novelties(product, &self.ignore),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, op};
    use warren_model::Instability::Outage;

    fn logged(lines: &str) -> RunProduct {
        let mut p = RunProduct::default();
        p.logs.insert("n1".into(), lines.into());
        p
    }

    #[test]
    fn learning_is_kept_apart_from_judging() {
        let mut judge = Judge::new(Rules::default()).unwrap();
        judge.learn_fault_free(&logged("INFO ready"));
        let faulty = logged("INFO ready\nWARN peer 3 is gone");
        let before = judge.learned().clone();
        let first = judge.judge(&faulty);
        assert_eq!(first.novelties, ["n1: WARN peer 3 is gone"]);
        assert_eq!(first.verdict, Verdict::Pass, "a novelty is no failure");
        assert_eq!(judge.judge(&faulty), first);
        assert_eq!(*judge.learned(), before);
        judge.learn_single_fault(&faulty);
        assert!(judge.judge(&faulty).novelties.is_empty());
        let text = serde_json::to_string(judge.learned()).unwrap();
        let back =
            Judge::with_state(Rules::default(), serde_json::from_str(&text).unwrap()).unwrap();
        assert!(back.judge(&faulty).novelties.is_empty());
    }

    #[test]
    fn the_worst_word_wins_and_safety_gives_the_name() {
        let judge = Judge::new(Rules::default()).unwrap();
        assert_eq!(judge.judge(&RunProduct::default()).verdict, Verdict::Pass);
        let mut p = Build::new()
            .op(op("s", "create", "/a", 1, 2).put("0"))
            .everywhere(&[])
            .product;
        p.record.was_not_stable("heal", Outage, "no leader");
        p.record.workload_error = Some("exit 1".into());
        let j = judge.judge(&p);
        assert_eq!(j.verdict, Verdict::Fail);
        assert_eq!((j.failures.len(), j.unknowns.len()), (2, 1));
        let safety = j.failures.iter().find(|f| f.checker == "acknowledged");
        assert_eq!(j.signature(), safety.map(|f| f.signature.as_str()));
        p.record.timed_out = true;
        p.record.not_stable.clear();
        p.history.clear();
        assert_eq!(judge.judge(&p).verdict, Verdict::Unknown);
        assert_eq!(judge.judge_retest(&p).verdict, Verdict::Fail);
    }

    #[test]
    fn a_bad_pattern_is_refused_with_its_place() {
        let rules = Rules {
            fatal_log: vec!["ok".into(), "(".into()],
            ..Rules::default()
        };
        let text = Judge::new(rules).unwrap_err().to_string();
        assert!(
            text.contains("[log] fatal_log") && text.contains("`(`"),
            "{text}"
        );
    }
}
