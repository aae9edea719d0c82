//! `replay --junit FILE`: the runs as JUnit XML, one test case a file, for CI systems.
//!
//! The file is written whole before the first run and again after each one, so that whatever ends Warren leaves a report that can be
//! read. A case fails when any of its runs failed or hung; it is skipped when none could be judged in full (unknown, void, not
//! injected, not run); else it passed. quick-junit escapes, and drops what XML cannot hold.

use super::report::{Outcome, run_text, voids_text};
use crate::campaign::Environment;
use crate::campaign::folder::write_whole;
use crate::cli::exit::CliError;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use warren_model::{Judgement, RunProduct};

/// Longest text of a case; CI systems keep and show these whole.
const TEXT_MAX: usize = 200_000;

/// A report that grows.
pub struct Junit {
    file: PathBuf,
    target: String,
    times: u64,
    properties: Vec<(String, String)>,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    runs: Vec<Ran>,
    /// Why the rest of the runs could not be made.
    error: Option<String>,
}

struct Ran {
    outcome: Outcome,
    ms: u64,
    signatures: Vec<String>,
    /// `checker (kind)` of the first failure.
    what: String,
    /// What replay prints of it.
    text: String,
}

impl Junit {
    /// Writes a report without runs: a file that cannot be written is known before the cluster is set up.
    ///
    /// # Errors
    /// Exit 1, with the file.
    pub fn begin(file: &Path, target: &str, names: &[&str], times: u64) -> Result<Self, CliError> {
        let case = |name: &&str| Case {
            name: (*name).to_owned(),
            runs: Vec::new(),
            error: None,
        };
        let me = Junit {
            file: file.to_owned(),
            target: target.to_owned(),
            times,
            properties: Vec::new(),
            cases: names.iter().map(case).collect(),
        };
        me.write()?;
        Ok(me)
    }

    /// With what the runs are made.
    pub fn environment(&mut self, e: &Environment, seed: u64) {
        self.properties = e
            .rows()
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .chain([("seed".to_owned(), seed.to_string())])
            .collect();
    }

    /// One run that counts.
    ///
    /// # Errors
    /// Exit 1 when the file cannot be written.
    pub fn ran(
        &mut self,
        file: usize,
        outcome: Outcome,
        product: &RunProduct,
        judgement: &Judgement,
    ) -> Result<(), CliError> {
        let times = self.times;
        if let Some(case) = self.cases.get_mut(file) {
            let head = format!("run {} of {times}", case.runs.len() + 1);
            case.runs.push(Ran {
                outcome,
                ms: product.record.times.total,
                signatures: judgement
                    .signatures()
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
                what: judgement
                    .failures
                    .first()
                    .map_or_else(String::new, |f| format!("{} ({})", f.checker, f.kind)),
                text: run_text(&head, outcome, product, judgement),
            });
        }
        self.write()
    }

    /// The replay ended with an error: the first case with runs to be made carries it.
    ///
    /// # Errors
    /// Exit 1 when the file cannot be written.
    pub fn failed(&mut self, why: &str) -> Result<(), CliError> {
        let times = self.times;
        let open = |c: &&mut Case| (c.runs.len() as u64) < times;
        if let Some(case) = self.cases.iter_mut().find(open) {
            case.error = Some(why.to_owned());
        }
        self.write()
    }

    fn write(&self) -> Result<(), CliError> {
        let text = self.text().map_err(|e| {
            CliError::setup(format!(
                "writing the JUnit report {}: {e}",
                self.file.display()
            ))
        })?;
        write_whole(&self.file, text.as_bytes()).map_err(|e| {
            CliError::setup(format!(
                "--junit {}: {e}\n  name a file in a folder that is there and can be written to",
                self.file.display()
            ))
        })
    }

    /// The XML.
    fn text(&self) -> Result<String, quick_junit::SerializeError> {
        let mut suite = TestSuite::new(format!("warren replay {}", self.target));
        for (key, value) in &self.properties {
            suite.add_property(Property::new(key.as_str(), value.as_str()));
        }
        let mut all = 0;
        for case in &self.cases {
            all += case.ms();
            suite.add_test_case(case.case(&self.target, self.times));
        }
        suite.set_time(Duration::from_millis(all));
        let mut report = Report::new("warren");
        report.set_time(Duration::from_millis(all));
        report.add_test_suite(suite);
        // Two characters that are no controls and that XML cannot hold either.
        let text = report.to_string()?;
        Ok(text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"))
    }
}

impl Case {
    fn ms(&self) -> u64 {
        self.runs.iter().map(|r| r.ms).sum()
    }

    fn count(&self, o: Outcome) -> usize {
        self.runs.iter().filter(|r| r.outcome == o).count()
    }

    fn case(&self, target: &str, times: u64) -> TestCase {
        let status = self.status();
        let mut case = TestCase::new(self.name.as_str(), status);
        case.set_classname(target);
        case.set_time(Duration::from_millis(self.ms()));
        case.add_property(Property::new(
            "runs",
            format!("{} of {times}", self.runs.len()),
        ));
        for o in Outcome::ALL {
            let n = self.count(o);
            if n > 0 {
                case.add_property(Property::new(o.word(), n.to_string()));
            }
        }
        let out: String = self.runs.iter().map(|r| r.text.as_str()).collect();
        if !out.is_empty() {
            case.set_system_out(clipped(&out));
        }
        case
    }

    fn status(&self) -> TestCaseStatus {
        let n = self.runs.len();
        let voids = self.count(Outcome::Void);
        let bad = |o: Outcome| self.runs.iter().filter(move |r| r.outcome == o);
        let failure = |o: Outcome| -> Option<TestCaseStatus> {
            let first = bad(o).next()?;
            let signatures: BTreeSet<&str> = bad(o)
                .flat_map(|r| r.signatures.iter().map(String::as_str))
                .collect();
            let signatures: Vec<&str> = signatures.into_iter().collect();
            let mut s = TestCaseStatus::non_success(NonSuccessKind::Failure);
            s.set_type(first.what.as_str());
            s.set_message(format!(
                "{} in {} of {} runs{}, signature {}",
                o.word(),
                self.count(o),
                n - voids,
                voids_text(voids),
                signatures.join(", ")
            ));
            let text: String = bad(o).map(|r| r.text.as_str()).collect();
            s.set_description(clipped(&text));
            Some(s)
        };
        if let Some(s) = failure(Outcome::Fail).or_else(|| failure(Outcome::Hang)) {
            return s;
        }
        if let Some(why) = &self.error {
            let mut s = TestCaseStatus::non_success(NonSuccessKind::Error);
            s.set_message(why.lines().next().unwrap_or_default());
            s.set_description(why.as_str());
            return s;
        }
        if self.count(Outcome::Pass) > 0 {
            return TestCaseStatus::success();
        }
        let mut s = TestCaseStatus::skipped();
        s.set_message(if n == 0 {
            "not run".to_owned()
        } else {
            format!(
                "nothing failed, but none of {n} runs could be judged in full: {}",
                self.runs
                    .iter()
                    .map(|r| r.outcome.word())
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        });
        s
    }
}

/// Cut at a character, and said so.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}\n(cut here: the text is longer)\n", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{Failure, FailureKind, RunRecord, Stage, Unknown, Verdict};

    fn judged(kinds: &[FailureKind], evidence: &str) -> Judgement {
        Judgement {
            verdict: Verdict::Fail,
            failures: kinds
                .iter()
                .map(|k| Failure {
                    checker: "replicas".into(),
                    kind: *k,
                    stage: Stage::Healed,
                    role: None,
                    node: None,
                    evidence: vec![evidence.to_owned()],
                    normalised: String::new(),
                    signature: "1a2b3c4d".into(),
                })
                .collect(),
            unknowns: vec![Unknown {
                checker: "serve".into(),
                why: "]]> <&\"'".into(),
                by_load: false,
            }],
            ..Judgement::default()
        }
    }

    fn run() -> RunProduct {
        RunProduct {
            record: RunRecord {
                times: warren_model::PhaseTimes {
                    total: 1500,
                    ..Default::default()
                },
                ..RunRecord::default()
            },
            ..RunProduct::default()
        }
    }

    fn read(file: &Path) -> Report {
        let text = std::fs::read_to_string(file).unwrap();
        Report::deserialize_from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// Outcomes of three runs asked for -> (status word, part of its message).
    #[test]
    fn how_runs_become_a_case() {
        use Outcome::{Fail, Hang, NotInjected, Pass, Unknown, Void};
        let table: [(&[Outcome], &str, &str); 9] = [
            (&[Pass, Pass], "success", ""),
            (&[Pass, Unknown, Void], "success", ""),
            (
                &[Fail, Pass, Fail],
                "failure",
                "fail in 2 of 3 runs, signature 1a2b3c4d",
            ),
            (&[Hang, Fail], "failure", "fail in 1 of 2 runs"),
            (
                &[Void, Fail, Void],
                "failure",
                "fail in 1 of 1 runs, and 2 more void, signature",
            ),
            (&[Hang, Pass], "failure", "hang in 1 of 2 runs"),
            (
                &[Unknown, NotInjected],
                "skipped",
                "unknown, not injected in full",
            ),
            (&[Void], "skipped", "none of 1 runs"),
            (&[], "skipped", "not run"),
        ];
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out.xml");
        for (outcomes, want, part) in table {
            let mut junit = Junit::begin(&file, "canary", &["a.toml"], 3).unwrap();
            for o in outcomes {
                let kinds: &[FailureKind] = match o {
                    Fail => &[FailureKind::Safety],
                    Hang => &[FailureKind::Hang],
                    _ => &[],
                };
                junit
                    .ran(0, *o, &run(), &judged(kinds, "n1 has 5"))
                    .unwrap();
            }
            let report = read(&file);
            let case = &report.test_suites[0].test_cases[0];
            let (got, message) = match &case.status {
                TestCaseStatus::Success { .. } => ("success", ""),
                TestCaseStatus::NonSuccess {
                    kind: NonSuccessKind::Failure,
                    message,
                    description,
                    ..
                } => {
                    let text = description.as_ref().unwrap().as_str();
                    assert!(*want != *"failure" || text.contains("n1 has 5"), "{text}");
                    ("failure", message.as_ref().unwrap().as_str())
                }
                TestCaseStatus::Skipped { message, .. } => {
                    ("skipped", message.as_ref().unwrap().as_str())
                }
                TestCaseStatus::NonSuccess { .. } => ("error", ""),
            };
            assert_eq!(got, want, "{outcomes:?}");
            assert!(message.contains(part), "{message}");
            assert_eq!(case.classname.as_ref().unwrap().as_str(), "canary");
            let ms = 1500 * outcomes.len() as u64;
            assert_eq!(report.time, Some(Duration::from_millis(ms)));
        }
    }

    #[test]
    fn any_text_gives_well_formed_xml() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out.xml");
        let names = ["a<b>&\"'.toml", "\u{1}\u{1b}[31mred\u{0}\u{fffe}", "ä"];
        let mut junit = Junit::begin(&file, "t&t", &names, 1).unwrap();
        junit.environment(
            &Environment {
                jdk: "<17>\u{b}".into(),
                ..Environment::default()
            },
            3,
        );
        let odd = "a\u{0}b\u{8}c\u{1b}[0m ]]> <x> & \u{ffff} \u{2028} \t\r end";
        let failing = judged(&[FailureKind::Safety], odd);
        junit.ran(0, Outcome::Fail, &run(), &failing).unwrap();
        junit.ran(1, Outcome::Unknown, &run(), &failing).unwrap();
        junit.failed("the slot\u{1} <is> gone\n  way out").unwrap();
        let report = read(&file);
        let suite = &report.test_suites[0];
        assert_eq!(
            (suite.tests, suite.failures, suite.skipped, suite.errors),
            (3, 1, 1, 1)
        );
        assert_eq!(suite.test_cases[0].name.as_str(), names[0]);
        let TestCaseStatus::NonSuccess { description, .. } = &suite.test_cases[0].status else {
            panic!("no failure")
        };
        let text = description.as_ref().unwrap().as_str();
        assert!(text.contains("]]> <x> &") && text.contains("end"), "{text}");
        let raw = std::fs::read_to_string(&file).unwrap();
        let legal = |c: char| c == '\n' || c == '\t' || c == '\r' || c >= ' ';
        assert!(raw.chars().all(legal), "{raw:?}");
        assert!(!raw.contains(['\u{ffff}', '\u{fffe}']));
    }

    #[test]
    fn a_report_is_there_from_the_beginning_and_a_bad_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out.xml");
        Junit::begin(&file, "t", &["a", "b"], 1).unwrap();
        assert_eq!(read(&file).test_suites[0].skipped, 2);
        let bad = dir.path().join("no/such/out.xml");
        let Err(e) = Junit::begin(&bad, "t", &["a"], 1) else {
            panic!("was written")
        };
        assert_eq!(e.exit, crate::cli::exit::Exit::SetupFailed);
        assert!(
            e.text.contains("no/such/out.xml") && e.text.contains("--junit"),
            "{e}"
        );
        let long = "x".repeat(TEXT_MAX + 5);
        assert!(clipped(&long).len() < TEXT_MAX + 100);
    }
}
