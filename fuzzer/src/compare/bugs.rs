//! Which failures are which bug: a file `bugs.toml` that gathers signatures and checks under a bug's name. Without one each signature is a bug
//! of its own. Pure but for [`Bugs::read`].

use super::table::{Failing, Row};
use crate::campaign::FailedCheck;
use serde::Deserialize;
use std::io::Read;
use std::path::Path;
use warren_model::ids::fnv1a;

/// Of the file.
const BUGS_VERSION: u32 = 1;
/// Largest file.
const MAX_BYTES: u64 = 1 << 20;

/// The known bugs of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bugs {
    version: u32,
    target: String,
    #[serde(default, rename = "bug")]
    bugs: Vec<Bug>,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    name: String,
    /// A test shows it by any of these signatures,
    #[serde(default)]
    signatures: Vec<String>,
    /// or by any failure of these checks: `replicas`, or `replicas durable` for one stage,
    #[serde(default)]
    checks: Vec<String>,
    /// unless it shows one of these signatures, too: then another bug explains it.
    #[serde(default)]
    unless: Vec<String>,
}

/// A bug's first show in a campaign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct First {
    pub tests: f64,
    pub seconds: f64,
    pub cpu_seconds: f64,
}

impl Bugs {
    /// Reads the file of a target.
    ///
    /// # Errors
    /// What is wrong with it, with the path.
    pub fn read(path: &Path, target: &str) -> Result<Bugs, String> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|e| format!("reading {}: {e}", path.display()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(format!(
                "{}: it is larger than {MAX_BYTES} bytes",
                path.display()
            ));
        }
        Self::parse(&String::from_utf8_lossy(&bytes), target)
            .map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str, target: &str) -> Result<Bugs, String> {
        let cut = |e: toml::de::Error| crate::text::cut(&e.to_string(), 400);
        let bugs: Bugs = toml::from_str(text).map_err(cut)?;
        if bugs.version != BUGS_VERSION {
            return Err(format!(
                "it has version {}, this Warren reads {BUGS_VERSION}",
                bugs.version
            ));
        }
        if bugs.target != target {
            return Err(format!(
                "it is of target `{}`, this is `{target}`; name another file with --bugs",
                bugs.target
            ));
        }
        for (i, bug) in bugs.bugs.iter().enumerate() {
            if bug.signatures.is_empty() && bug.checks.is_empty() {
                return Err(format!(
                    "bug `{}` has neither signatures nor checks",
                    bug.name
                ));
            }
            if bugs.bugs[..i].iter().any(|b| b.name == bug.name) {
                return Err(format!("bug `{}` stands in it twice", bug.name));
            }
        }
        Ok(bugs)
    }

    /// The bugs of a table: those of the file in its order, found or not, then what else failed, the most often found first.
    #[must_use]
    pub fn names(&self, rows: &[Row]) -> Vec<String> {
        let failures = rows
            .iter()
            .flat_map(|r| &r.failing)
            .flat_map(|f| &f.failures);
        let mut others: Vec<String> = failures
            .filter(|f| !self.bugs.iter().any(|b| b.has(f)))
            .map(own_name)
            .collect();
        others.sort();
        others.dedup();
        let found = |n: &String| rows.iter().filter(|r| self.first(r, n).is_some()).count();
        others.sort_by_cached_key(|n| std::cmp::Reverse(found(n)));
        let mut names: Vec<String> = self.bugs.iter().map(|b| b.name.clone()).collect();
        names.extend(others);
        names
    }

    /// The entry of a bug, hashed: what a campaign that ends with it was looking for.
    #[must_use]
    pub fn sum(&self, name: &str) -> u64 {
        let bug = self.bugs.iter().find(|b| b.name == name);
        fnv1a(format!("{bug:?}").as_bytes())
    }

    /// The name of the one bug of the file that is called so, or whose name begins so.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn called(&self, asked: &str) -> Result<&str, String> {
        let names = || self.bugs.iter().map(|b| b.name.as_str());
        let begin: Vec<&str> = names().filter(|n| n.starts_with(asked)).collect();
        match (names().find(|n| *n == asked), begin.as_slice()) {
            (Some(name), _) | (None, &[name]) => Ok(name),
            _ if self.bugs.is_empty() => Err(format!(
                "`{asked}`: no bug has a name; write one with its signatures into bugs.toml beside target.toml, or name a file with --bugs"
            )),
            (None, _) => Err(format!(
                "`{asked}`: name one of {}",
                names().collect::<Vec<_>>().join(", ")
            )),
        }
    }

    /// Its first show in a campaign.
    #[must_use]
    pub fn first(&self, row: &Row, name: &str) -> Option<First> {
        let bug = self.bugs.iter().find(|b| b.name == name);
        let shows = |test: &&Failing| match bug {
            Some(bug) => bug.shows(test),
            None => test.failures.iter().any(|f| own_name(f) == name),
        };
        row.failing.iter().find(shows).map(|f| First {
            tests: f.tests as f64,
            seconds: f.seconds,
            cpu_seconds: f.cpu_seconds,
        })
    }
}

impl Bug {
    /// Whether a failure speaks of it.
    fn has(&self, failed: &FailedCheck) -> bool {
        let check = format!("{} {}", failed.checker, failed.stage);
        self.signatures.contains(&failed.signature)
            || self
                .checks
                .iter()
                .any(|c| *c == failed.checker || *c == check)
    }

    /// Whether a test shows it.
    fn shows(&self, test: &Failing) -> bool {
        let mut failures = test.failures.iter();
        !failures.clone().any(|f| self.unless.contains(&f.signature))
            && failures.any(|f| self.has(f))
    }
}

/// What a failure is called that no bug has. A process ends by itself now in this stage, now in that one, under one signature.
fn own_name(failed: &FailedCheck) -> String {
    if failed.checker == "self-exit" {
        return format!("{} {}", failed.checker, failed.signature);
    }
    format!("{} {} {}", failed.checker, failed.stage, failed.signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version = 1\ntarget = \"canary\"\n\
        [[bug]]\nname = \"(a)\"\nsignatures = [\"aaaaaaaa\", \"bbbbbbbb\"]\n\
        [[bug]]\nname = \"(c)\"\nchecks = [\"acknowledged\", \"rejoin durable\"]\nunless = [\"aaaaaaaa\"]\n\
        [[bug]]\nname = \"never\"\nchecks = [\"nosuch\"]\n";

    /// A campaign's failing tests, each `test: checker stage signature, ...`.
    fn row(failing: &[(u64, &str)]) -> Row {
        let failed = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            FailedCheck {
                checker: words[0].into(),
                stage: words[1].into(),
                signature: words[2].into(),
                kind: "safety".into(),
            }
        };
        let of = |(tests, text): &(u64, &str)| Failing {
            tests: *tests,
            failures: text.split(", ").map(failed).collect(),
            ..Failing::default()
        };
        Row {
            failing: failing.iter().map(of).collect(),
            ..Row::default()
        }
    }

    #[test]
    fn a_bug_is_called_by_its_name_or_a_beginning_of_one_alone() {
        let text = format!("{TEXT}[[bug]]\nname = \"(a) again\"\nsignatures = [\"cccccccc\"]\n");
        let bugs = Bugs::parse(&text, "canary").unwrap();
        for (asked, name) in [
            ("(c)", Some("(c)")),
            ("nev", Some("never")),
            ("(a)", Some("(a)")),
            ("(a) ", Some("(a) again")),
            ("(", None),
            ("(d)", None),
        ] {
            assert_eq!(bugs.called(asked).ok(), name, "{asked}");
        }
        let why = bugs.called("(d)").unwrap_err();
        assert!(why.contains("`(d)`: name one of (a), (c), never"), "{why}");
        let why = Bugs::default().called("aaaaaaaa").unwrap_err();
        assert!(why.contains("no bug has a name"), "{why}");
    }

    #[test]
    fn several_signatures_are_one_bug_and_one_test_may_show_several() {
        let bugs = Bugs::parse(TEXT, "canary").unwrap();
        let rows = [
            row(&[
                (3, "serve healed dddddddd, rejoin healed 33333333"),
                (4, "replicas healed aaaaaaaa, acknowledged healed cccccccc"),
                (7, "acknowledged durable cccccccc, digests healed bbbbbbbb"),
            ]),
            row(&[
                (2, "order test eeeeeeee, serve healed dddddddd"),
                (9, "rejoin durable 33333333"),
            ]),
            row(&[]),
        ];
        assert_eq!(
            bugs.names(&rows),
            [
                "(a)",
                "(c)",
                "never",
                "serve healed dddddddd",
                "order test eeeeeeee",
                "rejoin healed 33333333"
            ]
        );
        let first = |row: usize, name: &str| bugs.first(&rows[row], name).map(|f| f.tests);
        for (name, want) in [
            ("(a)", [Some(4.0), None, None]),
            // At 4 (a) explains it.
            ("(c)", [Some(7.0), Some(9.0), None]),
            ("never", [None, None, None]),
            ("serve healed dddddddd", [Some(3.0), Some(2.0), None]),
        ] {
            assert_eq!(
                [first(0, name), first(1, name), first(2, name)],
                want,
                "{name}"
            );
        }
        // Without a file each is a bug of its own.
        assert_eq!(Bugs::default().names(&rows).len(), 8);
    }

    #[test]
    fn a_file_that_cannot_be_used_says_why() {
        for (text, part) in [
            ("version = 2\ntarget = \"canary\"\n", "version 2"),
            ("version = 1\ntarget = \"x\"\n", "target `x`"),
            ("version = 1\ntarget = \"canary\"\nmore = 1\n", "more"),
            ("target = 1", "target"),
            (
                "version = 1\ntarget = \"canary\"\n[[bug]]\nname = \"q\"\n",
                "`q` has neither",
            ),
            (
                &format!("{TEXT}[[bug]]\nname = \"(a)\"\nchecks = [\"x\"]\n"),
                "twice",
            ),
        ] {
            let e = Bugs::parse(text, "canary").unwrap_err();
            assert!(e.contains(part), "{e}");
        }
        let e = Bugs::read(Path::new("/nonexistent"), "canary").unwrap_err();
        assert!(e.contains("/nonexistent"), "{e}");
    }
}
