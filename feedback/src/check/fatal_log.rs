//! Log lines that target.toml calls fatal: a match in any node's log is a failure, but where it says that it is right; nothing else in a log ever is.
//!
//! Called as one of the checkers of a run. It says in which stage of the run the line was written, from the marks that the executor set:
//! a failure is confirmed by asking for it in the same way, and what a restart of all nodes brought to light only another restart shows.
//! So each node's first one of each stage is told. What a snapshot's start wrote is not the run's.
//! It refuses to guess what a line means: which ones are fatal is the target's to say. Design, section 8 (Logs).

use super::liveness::stage;
use super::{CheckResult, Found};
use crate::log_parts::{begins, own_lines};
use crate::log_spans::Span;
use crate::logs::{lines, of_nodes};
use crate::signature::spelled;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use warren_model::{FailureKind, LogMark, LogMoment, LogRule, NodeName, Rules, RunProduct, Stage};

const FATAL: &str = "fatal-log";

/// Fatal log lines.
#[must_use]
pub fn check_fatal_log(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    let right = match rules
        .legal_log
        .iter()
        .map(Right::new)
        .collect::<Result<Vec<_>, _>>()
    {
        Ok(right) => right,
        Err(why) => {
            result.unknown(FATAL, format!("a rule of [log] legal: {why}"));
            return result;
        }
    };
    let legal: BTreeMap<&NodeName, BTreeSet<usize>> = of_nodes(product)
        .map(|(node, log)| (node, legal_lines(log, &begins(product, node), &right)))
        .collect();
    for pattern in &rules.fatal_log {
        let regex = match Regex::new(pattern) {
            Ok(r) => r,
            Err(why) => {
                result.unknown(FATAL, format!("rule `{pattern}` of [log] fatal_log: {why}"));
                continue;
            }
        };
        let mut hits: Vec<(Stage, &NodeName, &str)> = Vec::new();
        for (node, log) in of_nodes(product) {
            let spared = |at: &usize| legal.get(node).is_some_and(|l| l.contains(at));
            let fatal = own_lines(product, node, log);
            let mut stages = BTreeSet::new();
            for (at, line) in fatal.filter(|(at, l)| regex.is_match(l) && !spared(at)) {
                let stage = written_in(product, node, at);
                if stages.insert(stage) {
                    hits.push((stage, node, line));
                }
            }
        }
        // The first one names the finding, and must not depend on the names of nodes.
        hits.sort_by_key(|(stage, ..)| *stage);
        // Its numbers are part of the rule: two codes are two stories.
        let rule = spelled(pattern);
        let as_it_is = (rule != *pattern).then(|| format!("the rule: {pattern}"));
        for (stage, node, line) in hits {
            let line = format!("{node}: {}", line.trim());
            result.fail(
                product,
                Found {
                    checker: FATAL,
                    kind: FailureKind::Safety,
                    stage,
                    role: None,
                    node: Some(node.clone()),
                    what: format!("a log line that must never be: {rule}"),
                    evidence: as_it_is.iter().cloned().chain([line]).collect(),
                },
            );
        }
    }
    result
}

/// A rule of `[log] legal`, ready to read.
struct Right {
    line: Regex,
    span: Span,
}

impl Right {
    fn new(rule: &LogRule) -> Result<Self, regex::Error> {
        Ok(Right {
            line: Regex::new(&rule.line)?,
            span: Span::plain(&rule.span)?,
        })
    }
}

/// Where the lines begin that are right where they stand, in bytes.
fn legal_lines(log: &str, begins: &[usize], rules: &[Right]) -> BTreeSet<usize> {
    let mut legal = BTreeSet::new();
    for rule in rules {
        for (from, text) in rule.span.all_in(log, begins) {
            let right = |line: &str| rule.line.is_match(line) && !rule.span.begins_with(line);
            let found = lines(text).filter(|(_, line)| right(line));
            legal.extend(found.map(|(at, _)| from + at));
        }
    }
    legal
}

/// The stage in which a node wrote what stands at this byte of its logs.
fn written_in<'a>(product: &'a RunProduct, node: &NodeName, at: usize) -> Stage {
    // The last of those that began, at the first mark, before the line.
    let begins = begins(product, node);
    let file = begins.iter().rposition(|b| *b <= at).unwrap_or(0);
    let offset = |mark: &'a LogMark, file| mark.offsets.get(node)?.get(file);
    let passed: Vec<LogMoment> = product
        .log_marks
        .iter()
        .filter(|mark| offset(mark, file).is_some_and(|o| *o <= at))
        .map(|mark| mark.at)
        .collect();
    if passed.contains(&LogMoment::Durability) {
        return Stage::Durable;
    }
    let phase = passed.iter().rev().find_map(|moment| match moment {
        LogMoment::Phase(phase) => Some(*phase),
        _ => None,
    });
    phase.map_or(Stage::Test, stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count};
    use warren_model::{LogSpan, Phase};

    fn rules(patterns: &[&str]) -> Rules {
        Rules {
            fatal_log: patterns.iter().map(|s| (*s).to_owned()).collect(),
            ..Rules::default()
        }
    }

    #[test]
    fn only_named_lines_are_fatal() {
        let logs = |lines: &str| {
            let mut p = Build::new().product;
            p.logs.insert("n1".into(), lines.into());
            p
        };
        let table = vec![
            (
                logs("ERROR java.io.IOException"),
                vec!["never-this"],
                (0, 0),
            ),
            (logs(""), vec!["x"], (0, 0)),
            (logs("FATAL 7"), vec![], (0, 0)),
            (
                logs("a\nDigest of 7 differs\nb"),
                vec!["Digest .* differs"],
                (1, 0),
            ),
            (logs("one\ntwo"), vec!["one", "two"], (2, 0)),
            (logs("one\none"), vec!["^one$"], (1, 0)),
            (logs("one"), vec!["("], (0, 1)),
        ];
        for (p, fatal, expect) in table {
            assert_eq!(
                count(&check_fatal_log(&p, &rules(&fatal))),
                expect,
                "{fatal:?}"
            );
        }
    }

    /// In the span only, and only what is named; what begins it is judged by itself, and groups tie nothing.
    #[test]
    fn what_is_fatal_elsewhere_may_be_right_in_a_span() {
        let legal = |line: &str| LogRule {
            line: line.into(),
            span: LogSpan {
                after: r"^loads (\d|bad)".into(),
                until: r"^loaded (\d)|^starts".into(),
            },
            why: "what is loaded is half old".into(),
        };
        let table = [
            ("bad", 1),
            ("loads 7\nbad\nloaded 7", 0),
            ("bad\nloads 7\nbad\nloaded 7", 1),
            ("up\nloads 7\nup\nbad\nbad", 0),
            ("loads 7\nworse\nloaded 7", 1),
            ("loads 7\nbad\nloaded 7\nbad", 1),
            ("loads 7\nbad\nstarts\nbad", 1),
            ("loads 7\nloaded 8\nbad", 1),
            ("loads bad\nbad", 1),
            ("loads 7\nloads bad\nbad", 1),
        ];
        for (log, want) in table {
            let mut p = Build::new().product;
            p.logs.insert("n1".into(), log.into());
            let rules = Rules {
                legal_log: vec![legal("^bad|^loads")],
                ..rules(&["^bad|^worse|^loads bad"])
            };
            assert_eq!(count(&check_fatal_log(&p, &rules)), (want, 0), "{log:?}");
        }
        // Of two files the second begins with the span closed.
        let mut p = Build::new().product;
        p.logs.insert("n1".into(), "loads 7\nbad\nbad\n".into());
        p.log_marks = vec![LogMark {
            at: LogMoment::Phase(Phase::Setup),
            t_ns: 0,
            offsets: [("n1".into(), vec![0, 12])].into(),
        }];
        let spanned = Rules {
            legal_log: vec![legal("^bad")],
            ..rules(&["^bad"])
        };
        assert_eq!(count(&check_fatal_log(&p, &spanned)), (1, 0));
        let rules = Rules {
            legal_log: vec![legal("(")],
            ..rules(&["^bad"])
        };
        let p = Build::new().product;
        assert_eq!(count(&check_fatal_log(&p, &rules)), (0, 1));
    }

    /// The numbers of a rule tell it from another one; those of the line do not.
    #[test]
    fn a_rule_is_told_apart_by_its_numbers() {
        let of = |line: &str, pattern: &str| {
            let mut p = Build::new().product;
            p.logs.insert("n1".into(), line.into());
            check_fatal_log(&p, &rules(&[pattern])).failures.remove(0)
        };
        let both = ["code 134", "code 137"];
        let mut p = Build::new().product;
        p.logs.insert("n1".into(), both.join("\n"));
        assert_eq!(count(&check_fatal_log(&p, &rules(&both))), (2, 0));
        let one = of("7: code 134", "code 134");
        assert_eq!(one.signature, of("8: code 134 9", "code 134").signature);
        assert_eq!(one.evidence[1..], ["the rule: code 134", "n1: 7: code 134"]);
        // Without numbers it is as it was: the first rule of ZooKeeper, in the test (ZOOKEEPER-3598), has this one.
        let pattern = r"WARN +\[([^mQ]|m[^a]|ma[^i]|mai[^n]|main[^:]|Q[^u]|Qu[^o]).*\] - Message: ?Digests are not matching";
        let line = "WARN  [CommitProcessor:2:DataTree] - Message: Digests are not matching";
        let known = of(line, pattern);
        assert_eq!(known.signature, "224e2520");
        assert_eq!(known.evidence[1..], [format!("n1: {line}")]);
    }

    /// A run that stays wrong after a restart of all is told as that, too: it is what a replay may show alone.
    #[test]
    fn the_first_line_of_each_stage_is_told() {
        let marks = [
            (LogMoment::Phase(Phase::Setup), 0),
            (LogMoment::Phase(Phase::Degraded), 2),
            (LogMoment::Phase(Phase::Heal), 4),
            (LogMoment::Durability, 6),
        ];
        let (test, degraded, healed) = (Stage::Test, Stage::Degraded, Stage::Healed);
        for (log, want) in [
            ("a\na\na\na\n", vec![]),
            ("X\na\na\na\n", vec![test]),
            ("X\na\nX\na\n", vec![test, healed]),
            ("X\nX\nX\nX\n", vec![test, degraded, healed, Stage::Durable]),
            ("a\na\na\nX\nX\n", vec![Stage::Durable]),
        ] {
            let mut p = Build::new().product;
            p.logs.insert("n1".into(), log.into());
            let mark = |(at, offset): &(LogMoment, usize)| LogMark {
                at: *at,
                t_ns: 0,
                offsets: [("n1".into(), vec![*offset])].into(),
            };
            p.log_marks = marks.iter().map(mark).collect();
            let found = check_fatal_log(&p, &rules(&["^X$"])).failures;
            let stages: Vec<Stage> = found.iter().map(|f| f.stage).collect();
            assert_eq!(stages, want, "{log:?}");
        }
    }

    #[test]
    fn what_a_snapshots_start_wrote_is_not_the_runs() {
        for (log, first_mark, want) in [
            ("X\nup\n", 2, 0),
            ("X\nup\n", 0, 1),
            ("X\nup\nX\n", 2, 1),
            ("up\nX\n", 3, 1),
        ] {
            let mut p = Build::new().marked("n1", 0, &[first_mark]).product;
            p.logs.insert("n1".into(), log.into());
            let found = check_fatal_log(&p, &rules(&["^X$"]));
            assert_eq!(count(&found), (want, 0), "{log:?} from {first_mark}");
        }
    }

    #[test]
    fn a_line_belongs_to_the_stage_it_was_written_in() {
        // Two files of 10 lines of 2 bytes each, one after the other; each moment has one more line in both.
        let moments = [
            LogMoment::Phase(Phase::Setup),
            LogMoment::Phase(Phase::Test),
            LogMoment::Fault(0),
            LogMoment::Phase(Phase::Degraded),
            LogMoment::Phase(Phase::Heal),
            LogMoment::Durability,
            LogMoment::Phase(Phase::Final),
        ];
        let want = [
            Stage::Test,
            Stage::Test,
            Stage::Test,
            Stage::Degraded,
            Stage::Healed,
            Stage::Durable,
            Stage::Durable,
        ];
        for file in 0..2 {
            for (moment, want) in want.iter().enumerate() {
                let mut text = vec!["a\n"; 20];
                text[10 * file + moment] = "X\n";
                let mut p = Build::new().product;
                p.logs.insert("n1".into(), text.concat());
                p.log_marks = moments
                    .iter()
                    .enumerate()
                    .map(|(i, at)| LogMark {
                        at: *at,
                        t_ns: i as u64,
                        offsets: [("n1".into(), vec![2 * i, 20 + 2 * i])].into(),
                    })
                    .collect();
                let found = check_fatal_log(&p, &rules(&["^X$"]));
                assert_eq!(found.failures[0].stage, *want, "file {file}, {moment}");
            }
        }
    }
}
