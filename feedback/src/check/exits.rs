//! Processes that ended by themselves.
//!
//! Rules:
//! - self-exit: right when a rule of `[exit] legal` matches the node's log and the role of the exited process; else a failure. A
//!   rule that matches the log but asks for a role nobody knows: unknown. A process that says nothing in its log: unknown. A rule
//!   with a span counts in it only: what excused a process once need not do so for the rest of its life.
//!
//! Why it is right: our own kills are never in the list of exits, ends by the kernel make the run void, and which ends are right is
//! the target's to say (a ZooKeeper leader that loses its quorum shuts down; an HBase master that loses its lease must abort).
//! A log holds all processes of a node; a rule asks what the one that ended has written ([`crate::log_parts`]).
//! A process ends when it was started again and finds what it cannot bear: in the test where a fault reboots it, else in healing.
//! Both are one story, so a signature does not tell them apart: else a replay in which it is some ms later shows nothing. CoFI
//! section VI-D on exceptions that are no failures.

use super::{CheckResult, Found};
use crate::log_parts::{before, of_process};
use crate::log_spans::Span;
use crate::logs::says_nothing;
use crate::signature::{normalise, spelled};
use regex::Regex;
use warren_model::{Exit, ExitRule, FailureKind, Phase, Rules, RunProduct, Stage};

/// The checker's name in failures.
pub const EXIT: &str = "self-exit";
/// In so many lines at the end of what a process wrote its last words are looked for.
const CAUSE_LINES: usize = 200;

enum Judged {
    Legal,
    Illegal,
    CannotTell(String),
}

/// Self-exits.
#[must_use]
pub fn check_exits(product: &RunProduct, rules: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    for e in &product.record.exits {
        let parts = of_process(product, &e.node, e.incarnation);
        let log = product.logs.get(&e.node).map(String::as_str);
        let before = before(product, &e.node, log.unwrap_or_default());
        match legal(&parts, before, rules, e) {
            Judged::Legal => {}
            Judged::CannotTell(why) => result.unknown(EXIT, why),
            Judged::Illegal => {
                result.fail_signed_as(Stage::Healed, product, found(product, &parts, rules, e));
            }
        }
    }
    result
}

/// By the parts of its node's log that the process wrote. What the first process wrote before a snapshot is in none of them, and shows that it
/// does write; what later ones wrote shows nothing of it.
fn legal(parts: &[&str], before: &str, rules: &Rules, e: &Exit) -> Judged {
    if rules.legal_exits.is_empty() {
        return Judged::Illegal;
    }
    // A log that is not there comes as an empty one: no rule can match, whatever the reason was.
    let silent = parts.iter().all(|part| says_nothing(part));
    if silent && (e.incarnation > 1 || says_nothing(before)) {
        return Judged::CannotTell(format!(
            "{} ended by itself and says nothing in its log",
            e.node
        ));
    }
    let mut doubt = None;
    for rule in &rules.legal_exits {
        match excuses(rule, parts) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                doubt = Some(format!("rule `{}` of [exit] legal: {why}", rule.log));
                continue;
            }
        }
        if rule.role.is_empty() || e.role.as_ref() == Some(&rule.role) {
            return Judged::Legal;
        }
        if e.role.is_none() {
            doubt = Some(format!(
                "{} ended by itself, which is right only for a {} ({}); its role is not known",
                e.node, rule.role, rule.why
            ));
        }
    }
    doubt.map_or(Judged::Illegal, Judged::CannotTell)
}

/// Whether a process wrote what a rule asks for, where it asks for it.
fn excuses(rule: &ExitRule, parts: &[&str]) -> Result<bool, regex::Error> {
    let log = Regex::new(&rule.log)?;
    let Some(span) = &rule.span else {
        return Ok(parts.iter().any(|part| log.is_match(part)));
    };
    let span = Span::tied(span)?;
    // Where it is known that a file begins, a part does.
    let mut spans = parts.iter().flat_map(|part| span.all_in(part, &[]));
    Ok(spans.any(|(_, text)| log.is_match(text)))
}

fn found<'a>(product: &RunProduct, parts: &[&str], rules: &Rules, e: &Exit) -> Found<'a> {
    let how = match (e.status, e.signal) {
        (_, Some(s)) => format!("by signal SIG-{}", signal_name(s)),
        // The status is part of the story, so it is spelled where the normaliser does not reach.
        (Some(s), None) => format!("with status {}", status(s)),
        (None, None) => "with unknown status".to_owned(),
    };
    let last = parts.iter().rev().find_map(|part| {
        let mut last = part.lines().rev().take(CAUSE_LINES);
        last.find(|l| !l.trim_start().starts_with("at ") && is_cause(l))
    });
    let mut evidence = vec![format!(
        "{} (process {}, role {}) in phase {}",
        e.node,
        e.incarnation,
        e.role.as_deref().unwrap_or("unknown"),
        e.phase
    )];
    evidence.extend(last.map(|l| format!("last cause in its log: {}", l.trim())));
    let said = said(parts, rules);
    evidence.extend(said.map(|why| format!("why, as it says: {why}")));
    let cause = last
        .and_then(|l| l.split_whitespace().find(|w| is_cause(w)))
        .map(|w| {
            let word = normalise(w, &product.trace.nodes);
            format!(
                " after {}",
                word.trim_matches(|c: char| !c.is_alphanumeric())
            )
        });
    let why = said.map(|why| format!(" as it says: {}", normalise(why, &product.trace.nodes)));
    let cause = why.or(cause).unwrap_or_default();
    Found {
        checker: EXIT,
        kind: FailureKind::Liveness,
        stage: match e.phase {
            Phase::Start | Phase::Setup | Phase::Test => Stage::Test,
            Phase::Degraded => Stage::Degraded,
            Phase::Heal | Phase::Final => Stage::Healed,
        },
        role: e.role.clone(),
        node: Some(e.node.clone()),
        what: format!("a node ended by itself {how}{cause}"),
        evidence,
    }
}

/// What a process gives as its reason, the first time: what follows that is the consequence.
fn said<'a>(parts: &[&'a str], rules: &Rules) -> Option<&'a str> {
    let cause = Regex::new(rules.exit_cause.as_ref()?).ok()?;
    let found = parts.iter().find_map(|part| cause.captures(part))?;
    let reason = found.get(1).or(found.get(0))?;
    Some(reason.as_str().trim())
}

fn is_cause(text: &str) -> bool {
    text.contains("Exception") || text.contains("Error")
}

/// In letters, so that two statuses stay two stories: 10 -> "ba".
fn status(status: i32) -> String {
    match status {
        0 => "zero".into(),
        1 => "one".into(),
        2 => "two".into(),
        other => spelled(&other.to_string()),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        15 => "TERM",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count, exit};
    use warren_model::LogSpan;

    fn rule(log: &str, role: &str) -> ExitRule {
        ExitRule {
            log: log.into(),
            span: None,
            role: role.into(),
            why: "it lost its quorum".into(),
        }
    }

    fn exited(role: Option<&str>, log: Option<&str>) -> RunProduct {
        let mut p = Build::new().product;
        let mut e = exit("n1", Some(1), None);
        e.role = role.map(str::to_owned);
        p.record.exits.push(e);
        if let Some(log) = log {
            p.logs.insert("n1".into(), log.into());
        }
        p
    }

    #[test]
    fn self_exits() {
        let quorum = "x\nINFO lost quorum, shutting down\n";
        let no_logger = "SLF4J: Defaulting to no-operation (NOP) logger implementation\n";
        let any = || vec![rule("lost quorum", "")];
        let leader = || vec![rule("lost quorum", "leader")];
        type Case = (&'static str, RunProduct, Vec<ExitRule>, (usize, usize));
        let table: Vec<Case> = vec![
            ("nobody ended", Build::new().product, any(), (0, 0)),
            ("legal by log", exited(None, Some(quorum)), any(), (0, 0)),
            (
                "legal by log and role",
                exited(Some("leader"), Some(quorum)),
                leader(),
                (0, 0),
            ),
            (
                "one of two rules",
                exited(None, Some(quorum)),
                vec![rule("no", ""), rule("lost", "")],
                (0, 0),
            ),
            (
                "role not known",
                exited(None, Some(quorum)),
                leader(),
                (0, 1),
            ),
            ("log missing", exited(None, None), any(), (0, 1)),
            ("log empty", exited(None, Some("")), any(), (0, 1)),
            ("blank lines", exited(None, Some("\n \n")), any(), (0, 1)),
            ("no logger", exited(None, Some(no_logger)), any(), (0, 1)),
            (
                "no logger, and a word on standard output",
                exited(None, Some(&format!("{no_logger}it is over\n"))),
                any(),
                (1, 0),
            ),
            (
                "no rules, log empty",
                exited(None, Some("")),
                vec![],
                (1, 0),
            ),
            ("no rules", exited(None, Some(quorum)), vec![], (1, 0)),
            (
                "another role",
                exited(Some("follower"), Some(quorum)),
                leader(),
                (1, 0),
            ),
            (
                "another log",
                exited(None, Some("java.io.IOException: x")),
                any(),
                (1, 0),
            ),
            ("no rules, no log", exited(None, None), vec![], (1, 0)),
        ];
        for (name, p, legal_exits, expect) in table {
            let rules = Rules {
                legal_exits,
                ..Rules::default()
            };
            let r = check_exits(&p, &rules);
            assert_eq!(count(&r), expect, "{name}: {r:?}");
        }
    }

    #[test]
    fn when_it_ended_is_no_part_of_the_story() {
        let of = |phase: Phase| {
            let mut p = exited(None, Some("java.io.EOFException"));
            p.record.exits[0].phase = phase;
            check_exits(&p, &Rules::default()).failures.remove(0)
        };
        let (test, healed) = (of(Phase::Test), of(Phase::Heal));
        assert_eq!((test.stage, healed.stage), (Stage::Test, Stage::Healed));
        assert_eq!(test.signature, healed.signature);
        assert_eq!(
            test.signature, "dd72ff06",
            "as it is known by (ZOOKEEPER-2332)"
        );
        // Two nodes of one run, now and later: told once.
        let mut p = exited(None, None);
        p.record.exits.push(Exit {
            node: "n2".into(),
            phase: Phase::Final,
            ..p.record.exits[0].clone()
        });
        assert_eq!(check_exits(&p, &Rules::default()).failures.len(), 1);
    }

    /// The first process ends with words of its own, and the one that is started after it says other things.
    #[test]
    fn an_exit_is_judged_by_what_that_process_wrote() {
        let (first, second) = (
            "lost quorum\njava.io.EOFException\n",
            "java.lang.Error: x\n",
        );
        let of = |number: u8, rules: &[ExitRule]| {
            let mut build = Build::new();
            build.product = exited(None, Some(&format!("{first}{second}")));
            let build = build.ended("n1", 10).restarted("n1", 20);
            let build = build.marked("n1", 0, &[0]).marked("n1", 20, &[first.len()]);
            let mut p = build.ended("n1", 30).product;
            p.record.exits[0].incarnation = number;
            let legal_exits = rules.to_vec();
            let rules = Rules {
                legal_exits,
                ..Rules::default()
            };
            let mut told = check_exits(&p, &rules).failures;
            told.pop().map(|f| f.normalised)
        };
        let after = |cause| {
            Some(format!(
                "a node ended by itself with status one after {cause}"
            ))
        };
        assert_eq!(of(1, &[]), after("java.io.EOFException"));
        assert_eq!(of(2, &[]), after("java.lang.Error"));
        let quorum = [rule("lost quorum", "")];
        assert_eq!(of(1, &quorum), None);
        assert_eq!(
            of(2, &quorum),
            after("java.lang.Error"),
            "not its own words"
        );
    }

    /// What a process says at its end may be right only while it is cut off, by a span of its own log; a session that is back ends its own
    /// span only.
    #[test]
    fn an_excuse_may_end() {
        let of = |after: &str, until: &str, log: &str| {
            let span = Some(LogSpan {
                after: after.into(),
                until: until.into(),
            });
            let rules = Rules {
                legal_exits: vec![ExitRule {
                    span,
                    ..rule("(?s)ABORT.*gone", "")
                }],
                ..Rules::default()
            };
            count(&check_exits(&exited(None, Some(log)), &rules))
        };
        for (log, want) in [
            ("ABORT\ngone\n", 1),
            ("cut 7\nABORT\ngone\n", 0),
            ("cut 7\nABORT\ngone\nback 7\n", 0),
            ("cut 7\nback 7\nABORT\ngone\n", 1),
            ("cut 7\nback 8\nABORT\ngone\n", 0),
            ("cut 7\nback 7\ncut 7\nABORT\ngone\n", 0),
            // No span has both halves of it.
            ("cut 7\nABORT\nback 7\ngone\n", 1),
            ("cut 7\nABORT\nback 7\ncut 7\ngone\n", 1),
        ] {
            assert_eq!(of(r"^cut (\d)", r"^back (\d)", log), (want, 0), "{log:?}");
        }
        assert_eq!(of("^cut", "(", "cut\nABORT gone\n"), (0, 1));
    }

    /// A node that was restored from a snapshot wrote before it, and nothing since.
    #[test]
    fn a_process_that_wrote_before_its_snapshot_does_write() {
        let before = "INFO up\n";
        let mut build = Build::new();
        build.product = exited(None, Some(before));
        let mut p = build.marked("n1", 0, &[before.len()]).product;
        p.record.exits[0].incarnation = 1;
        let rules = Rules {
            legal_exits: vec![rule("lost quorum", "")],
            ..Rules::default()
        };
        assert_eq!(count(&check_exits(&p, &rules)), (1, 0));
    }

    /// What the process before it wrote says nothing of it, nor what the next one writes.
    #[test]
    fn a_process_that_wrote_nothing_is_unknown() {
        let up = "INFO up\n";
        let rules = Rules {
            legal_exits: vec![rule("lost quorum", "")],
            ..Rules::default()
        };
        let (wrote, silent) = ((1, 0), (0, 1));
        // Where the log ended at the first mark and as the second process was started; what the first and the second one come to.
        for (marks, expect) in [
            ([0, up.len()], [wrote, silent]),
            ([0, 0], [silent, wrote]),
            ([up.len(), up.len()], [wrote, silent]),
        ] {
            let mut build = Build::new();
            build.product = exited(None, Some(up));
            let build = build.ended("n1", 10).restarted("n1", 20);
            let build = build.marked("n1", 0, &marks[..1]);
            let build = build.marked("n1", 20, &marks[1..]);
            let mut p = build.ended("n1", 30).product;
            for (number, expect) in (1..).zip(expect) {
                p.record.exits[0].incarnation = number;
                let got = count(&check_exits(&p, &rules));
                assert_eq!(got, expect, "process {number}, marks {marks:?}");
            }
        }
    }

    /// A reason that the target's own words name is the story, in place of whatever exception came last.
    #[test]
    fn the_reason_that_a_process_gives_is_the_story() {
        let of = |cause: Option<&str>, log: &str| {
            let rules = Rules {
                exit_cause: cause.map(str::to_owned),
                ..Rules::default()
            };
            let told = check_exits(&exited(None, Some(log)), &rules).failures;
            told[0].normalised.clone()
        };
        let log =
            "x\nABORTING n1,16000: no log *****\nABORTING n1,17: again *****\njava.lang.Error: y\n";
        let said = of(Some(r"ABORTING \S+: (.*) \*{5}"), log);
        assert_eq!(
            said,
            "a node ended by itself with status one as it says: no log"
        );
        let last = "a node ended by itself with status one after java.lang.Error";
        assert_eq!(of(None, log), last);
        assert_eq!(of(Some("NOTHING (.*)"), log), last);
    }

    #[test]
    fn the_story_of_an_exit_is_status_and_cause() {
        let of = |status, log: &str| {
            let mut p = exited(None, Some(log));
            p.record.exits[0].status = Some(status);
            check_exits(&p, &Rules::default()).failures[0]
                .signature
                .clone()
        };
        let log = "ERROR at 17\njava.io.EOFException: 12\n\tat x.Error(y)\n";
        assert_eq!(of(10, log), of(10, "again\njava.io.EOFException: 99\n"));
        assert_ne!(of(10, log), of(12, log));
        assert_ne!(of(10, log), of(10, "java.lang.OutOfMemoryError: heap"));
    }
}
