//! `known-bugs.toml` beside target.toml: bugs of a target that have a number upstream, and how a failing run shows them. Read by `fuzz`, where a
//! finding that is known is counted and not reported as new, and by `replay`, where it is named. Hides nothing: a known bug is saved once
//! with its whole story, and a replay of it fails as before.
//!
//! A signature says what was seen (check, normalised evidence, role, stage), and two bugs may look alike: most lost writes have one
//! signature. So a bug may ask for lines of a node's log, or of what the check itself saw, too; what has the signature and not the lines is
//! not known.

use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use warren_executor::target::Target;
use warren_feedback::check::exits::EXIT;
use warren_model::ids::fnv1a;
use warren_model::{Failure, NodeName};

/// Of the file.
const KNOWN_VERSION: u32 = 1;
/// Largest file.
const MAX_BYTES: u64 = 1 << 20;
/// Its name.
pub const FILE: &str = "known-bugs.toml";

/// The known bugs of a target.
#[derive(Clone, Debug, Default)]
pub struct KnownBugs(Vec<KnownBug>);

/// One of them.
#[derive(Clone, Debug)]
pub struct KnownBug {
    /// The upstream number: `ZOOKEEPER-2332`; without one, what it is.
    pub id: String,
    pub title: String,
    /// The first release without it, where there is one.
    pub fixed_in: Option<String>,
    signatures: Vec<String>,
    /// Each must match in a line of the failure's own evidence.
    evidence: Vec<Regex>,
    /// Each must match in one and the same node's log: that of the process that ended, where one did.
    log: Vec<Regex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    version: Spanned<u32>,
    target: Spanned<String>,
    base: Option<Spanned<String>>,
    #[serde(default, rename = "bug")]
    bugs: Vec<BugText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a [[bug]] table")]
struct BugText {
    id: Spanned<String>,
    title: String,
    fixed_in: Option<String>,
    signatures: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    evidence: Vec<Spanned<String>>,
    #[serde(default)]
    log: Vec<Spanned<String>>,
}

impl KnownBug {
    /// It is told by lines of a log, and not by what was seen alone, which load may explain too.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        !self.log.is_empty()
    }
}

/// As it is shown: `ZOOKEEPER-2332 (a title), fixed in 3.9.3`.
impl fmt::Display for KnownBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.title)?;
        match &self.fixed_in {
            Some(version) => write!(f, ", fixed in {version}"),
            None => Ok(()),
        }
    }
}

/// Whether a text has the form of a failure's signature.
///
/// # Errors
/// It has not, for people.
pub fn is_signature(text: &str) -> Result<(), String> {
    let digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    if text.len() == 8 && text.bytes().all(digit) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is no signature: 8 hex digits, small letters"
    ))
}

/// The folder of another target whose list holds, too, and where it is named.
type Base = Option<Spanned<String>>;

impl KnownBugs {
    /// Those of a target; none where it has no such file. A base's file is the base's, as another build may have other bugs: a list says itself
    /// which other one holds here, too.
    ///
    /// # Errors
    /// What is wrong with the file, with its path and the line.
    pub fn of_target(target: &Target) -> Result<Self, String> {
        match target.folders.first() {
            Some(folder) => Self::read(&folder.join(FILE), &target.name),
            None => Ok(Self::default()),
        }
    }

    /// The list of a file with that of its base, if it names one; none where there is no file.
    ///
    /// # Errors
    /// As [`KnownBugs::of_target`].
    pub fn read(path: &Path, target: &str) -> Result<Self, String> {
        let Some(text) = Self::text(path)? else {
            return Ok(Self::default());
        };
        let (mut list, base) =
            Self::parse(&text, target).map_err(|(line, why)| bad(path, line, &why))?;
        if let Some(base) = base {
            let refuse = |why: &str| bad(path, line_of(&text, base.span().start), why);
            let name = base.get_ref();
            let folder = path.with_file_name("").join(name);
            let (Some(of), Some(text)) =
                (name.strip_prefix("../"), Self::text(&folder.join(FILE))?)
            else {
                let why =
                    format!("`{name}` is no other target's folder with such a list: \"../hdfs\"");
                return Err(refuse(&why));
            };
            let (of_base, further) = Self::parse(&text, of)
                .map_err(|(line, why)| bad(&folder.join(FILE), line, &why))?;
            if further.is_some() {
                return Err(refuse(&format!(
                    "`{name}` has a base itself: name that one"
                )));
            }
            if let Some(twice) = list
                .0
                .iter()
                .find(|b| of_base.0.iter().any(|o| o.id == b.id))
            {
                return Err(refuse(&format!("`{}` is in both lists", twice.id)));
            }
            list.0.extend(of_base.0);
        }
        Ok(list)
    }

    /// What a file says; `None` where there is none.
    fn text(path: &Path) -> Result<Option<String>, String> {
        let mut bytes = Vec::new();
        let read =
            std::fs::File::open(path).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("reading {}: {e}", path.display())),
        }
        if bytes.len() as u64 > MAX_BYTES {
            return Err(format!(
                "{}: it is larger than {MAX_BYTES} bytes",
                path.display()
            ));
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The list of a text and the base that it names, or the line of the first thing that is wrong with it.
    fn parse(text: &str, target: &str) -> Result<(Self, Base), (usize, String)> {
        let at = |span: Range<usize>, why: String| (line_of(text, span.start), why);
        let file: FileText = toml::from_str(text)
            .map_err(|e| at(e.span().unwrap_or(0..0), crate::text::one_line(e.message())))?;
        let version = *file.version.get_ref();
        if version != KNOWN_VERSION {
            let why = format!("it has version {version}, this Warren reads {KNOWN_VERSION}");
            return Err(at(file.version.span(), why));
        }
        if file.target.get_ref() != target {
            let why = format!(
                "it is of target `{}`, this is `{target}`",
                file.target.get_ref()
            );
            return Err(at(file.target.span(), why));
        }
        let mut bugs: Vec<KnownBug> = Vec::new();
        for b in file.bugs {
            let span = b.id.span();
            let id = b.id.into_inner();
            if id.trim().is_empty() || bugs.iter().any(|known| known.id == id) {
                let why =
                    format!("`{id}`: an id is what the bug is called upstream, once in a file");
                return Err(at(span, why));
            }
            if b.signatures.get_ref().is_empty() {
                let why = format!("{id} has no signature: a finding's stands in its evidence.txt");
                return Err(at(b.signatures.span(), why));
            }
            for s in b.signatures.get_ref() {
                is_signature(s.get_ref()).map_err(|why| at(s.span(), why))?;
            }
            let patterns = |all: &[Spanned<String>]| {
                let pattern = |p: &Spanned<String>| {
                    Regex::new(p.get_ref())
                        .map_err(|e| at(p.span(), crate::text::one_line(&e.to_string())))
                };
                all.iter().map(pattern).collect::<Result<Vec<_>, _>>()
            };
            bugs.push(KnownBug {
                evidence: patterns(&b.evidence)?,
                log: patterns(&b.log)?,
                id,
                title: b.title,
                fixed_in: b.fixed_in,
                signatures: b
                    .signatures
                    .into_inner()
                    .into_iter()
                    .map(Spanned::into_inner)
                    .collect(),
            });
        }
        Ok((KnownBugs(bugs), file.base))
    }

    /// What tells its bugs, as a number: by another list a failure may be another bug, or none. Empty where there is no bug; titles are for people.
    #[must_use]
    pub fn identity(&self) -> String {
        let patterns = |all: &[Regex]| all.iter().map(|p| p.as_str().to_owned()).collect();
        let of = |b: &KnownBug| -> (String, Vec<String>, Vec<String>, Vec<String>) {
            let (evidence, log) = (patterns(&b.evidence), patterns(&b.log));
            (b.id.clone(), b.signatures.clone(), evidence, log)
        };
        let all: Vec<_> = self.0.iter().map(of).collect();
        match all.as_slice() {
            [] => String::new(),
            all => format!("{:016x}", fnv1a(format!("{all:?}").as_bytes())),
        }
    }

    /// The bug that a failure of a run is, by its signature, its evidence and the nodes' logs. Why a process ended stands in the log of its
    /// own node; what one node shows otherwise (no service, other data) may be another's doing.
    #[must_use]
    pub fn of(&self, failure: &Failure, logs: &BTreeMap<NodeName, String>) -> Option<&KnownBug> {
        let own = failure.node.as_ref().filter(|_| failure.checker == EXIT);
        self.0.iter().find(|bug| {
            let mut asked = logs
                .iter()
                .filter(|(node, _)| own.is_none_or(|own| own == *node));
            let seen = || failure.evidence.iter().flat_map(|e| e.lines());
            bug.signatures.contains(&failure.signature)
                && all_match(&bug.evidence, seen)
                && (bug.log.is_empty() || asked.any(|(_, log)| all_match(&bug.log, || log.lines())))
        })
    }
}

/// Each pattern in some line.
fn all_match<'a, L: Iterator<Item = &'a str>>(patterns: &[Regex], lines: impl Fn() -> L) -> bool {
    patterns.iter().all(|p| lines().any(|l| p.is_match(l)))
}

/// What is wrong with a file, with its path and the line.
fn bad(path: &Path, line: usize, why: &str) -> String {
    format!("{}, line {line}: {why}", path.display())
}

/// 1-based.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|b| *b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{FailureKind, Stage};

    const HEAD: &str = "version = 1\ntarget = \"t\"\n\n";

    fn failure(signature: &str) -> Failure {
        Failure {
            checker: "serve".into(),
            kind: FailureKind::Liveness,
            stage: Stage::Degraded,
            role: None,
            node: None,
            evidence: vec![],
            normalised: String::new(),
            signature: signature.into(),
        }
    }

    /// What is changed in a list -> whether it tells other bugs.
    #[test]
    fn the_identity_of_a_list_is_what_it_tells_bugs_by() {
        let text = "[[bug]]\nid = \"T-1\"\ntitle = \"one\"\nsignatures = [\"00000001\"]\nlog = ['a line']\n";
        let identity = |bugs: &str| {
            let (known, _) = KnownBugs::parse(&format!("{HEAD}{bugs}"), "t").unwrap();
            known.identity()
        };
        assert_eq!(identity(""), "");
        assert_eq!(identity(text).len(), 16);
        for (old, new, other) in [
            ("", "", false),
            ("one", "another title", false),
            ("T-1", "T-2", true),
            ("00000001", "00000002", true),
            ("a line", "a lin", true),
            ("log", "evidence", true),
        ] {
            let changed = identity(&text.replacen(old, new, 1)) != identity(text);
            assert_eq!(changed, other, "{old} {new}");
        }
    }

    #[test]
    fn a_bug_is_known_by_its_signature_and_its_lines() {
        let text = format!(
            "{HEAD}[[bug]]\nid = \"T-1\"\ntitle = \"one\"\nsignatures = [\"00000001\", \"00000002\"]\nfixed_in = \"2.0\"\n\
             [[bug]]\nid = \"T-2\"\ntitle = \"two\"\nsignatures = [\"00000003\"]\nlog = ['ACK \\d+ dropped', 'no quorum']\n\
             [[bug]]\nid = \"T-3\"\ntitle = \"three\"\nsignatures = [\"00000005\"]\nevidence = ['waits', '^pid=\\d+']\n"
        );
        let (known, _) = KnownBugs::parse(&text, "t").unwrap();
        let logs = |texts: [&str; 2]| -> BTreeMap<NodeName, String> {
            [("a", texts[0]), ("b", texts[1])]
                .map(|(n, t)| (NodeName::from(n), t.to_owned()))
                .into()
        };
        let none = logs(["", ""]);
        let both = logs(["x", "ACK 12 dropped\nthere is no quorum"]);
        let apart = logs(["ACK 12 dropped", "no quorum"]);
        for (signature, logs, id) in [
            ("00000001", &none, Some("T-1")),
            ("00000002", &both, Some("T-1")),
            ("00000003", &both, Some("T-2")),
            ("00000003", &apart, None),
            ("00000003", &none, None),
            ("00000004", &both, None),
        ] {
            let got = known.of(&failure(signature), logs).map(|b| b.id.as_str());
            assert_eq!(got, id, "{signature} {logs:?}");
        }
        let ended = |node: &str| Failure {
            checker: EXIT.into(),
            node: Some(node.into()),
            ..failure("00000003")
        };
        assert!(known.of(&ended("b"), &both).is_some());
        assert!(
            known.of(&ended("a"), &both).is_none(),
            "that b ended so says nothing of a"
        );
        for (evidence, id) in [
            (vec!["it waits", "pid=7, RUNNABLE"], Some("T-3")),
            (vec!["it waits\npid=7, RUNNABLE"], Some("T-3")),
            (vec!["it waits", "no pid=7"], None),
            (vec![], None),
        ] {
            let seen = Failure {
                evidence: evidence.iter().map(ToString::to_string).collect(),
                ..failure("00000005")
            };
            let got = known.of(&seen, &both).map(|b| b.id.as_str());
            assert_eq!(got, id, "{evidence:?}");
        }
        let one = known.of(&failure("00000001"), &none).unwrap();
        assert_eq!(one.to_string(), "T-1 (one), fixed in 2.0");
    }

    #[test]
    fn a_bad_file_is_refused_with_its_line() {
        let bug = |rest: &str| format!("{HEAD}[[bug]]\nid = \"T-1\"\ntitle = \"one\"\n{rest}");
        for (text, line, part) in [
            ("version = 2\ntarget = \"t\"\n".to_owned(), 1, "version 2"),
            (
                "version = 1\ntarget = \"u\"\n".to_owned(),
                2,
                "`u`, this is `t`",
            ),
            ("version = 1\n".to_owned(), 1, "target"),
            (format!("{HEAD}[[bug]\n"), 4, ""),
            (bug("signatures = []\n"), 7, "no signature"),
            (bug("signatures = [\n  \"0000001\"]\n"), 8, "`0000001`"),
            (bug("signatures = [\"0000000A\"]\n"), 7, "`0000000A`"),
            (
                bug("signatures = [\"00000001\"]\nlog = [\"(\"]\n"),
                8,
                "unclosed",
            ),
            (
                bug("signatures = [\"00000001\"]\nevidence = [\n  \"ok\",\n  \"[\"]\n"),
                10,
                "unclosed",
            ),
            (
                bug("signatures = [\"00000001\"]\nlink = \"x\"\n"),
                8,
                "link",
            ),
            (
                bug(
                    "signatures = [\"00000001\"]\n[[bug]]\nid = \"T-1\"\ntitle = \"two\"\nsignatures = [\"00000002\"]\n",
                ),
                9,
                "once in a file",
            ),
        ] {
            let (at, why) = KnownBugs::parse(&text, "t").unwrap_err();
            assert!(at == line && why.contains(part), "{text}: line {at}: {why}");
        }
    }

    #[test]
    fn no_file_is_no_bug_and_the_path_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(KnownBugs::read(&path, "t").unwrap().0.is_empty());
        std::fs::write(&path, "version = 1\ntarget = 5\n").unwrap();
        let e = KnownBugs::read(&path, "t").unwrap_err();
        assert!(e.contains("known-bugs.toml, line 2: "), "{e}");
    }

    #[test]
    fn a_list_has_its_bases_bugs_too() {
        let dir = tempfile::tempdir().unwrap();
        let put = |target: &str, rest: &str| {
            let folder = dir.path().join(target);
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!("version = 1\ntarget = \"{target}\"\n{rest}");
            std::fs::write(folder.join(FILE), text).unwrap();
            folder.join(FILE)
        };
        let bug = |id: &str| {
            format!("[[bug]]\nid = \"{id}\"\ntitle = \"x\"\nsignatures = [\"00000001\"]\n")
        };
        put("t", &bug("T-1"));
        let list = put("u", &format!("base = \"../t\"\n{}", bug("U-1")));
        let known = KnownBugs::read(&list, "u").unwrap();
        let ids: Vec<_> = known.0.iter().map(|b| b.id.as_str()).collect();
        assert_eq!(ids, ["U-1", "T-1"]);

        for (rest, part) in [
            (
                "base = \"../none\"\n".to_owned(),
                "u/known-bugs.toml, line 3: `../none` is no ",
            ),
            ("base = \"t\"\n".to_owned(), "line 3: `t` is no "),
            (
                "base = \"../u\"\n".to_owned(),
                "line 3: `../u` has a base itself",
            ),
            (
                format!("\nbase = \"../t\"\n{}", bug("T-1")),
                "line 4: `T-1` is in both lists",
            ),
        ] {
            let e = KnownBugs::read(&put("u", &rest), "u").unwrap_err();
            assert!(e.contains(part), "{rest}: {e}");
        }
        put("t", "[[bug]]\n");
        let e = KnownBugs::read(&put("u", "base = \"../t\"\n"), "u").unwrap_err();
        assert!(e.contains("t/known-bugs.toml, line 3: "), "{e}");
    }

    /// The same daemons, configuration and workload, so the same bugs.
    #[test]
    fn faults_on_journal_nodes_show_hdfs_known_bugs_as_known() {
        let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
        let of = |name: &str| {
            let known = KnownBugs::read(&targets.join(name).join(FILE), name).unwrap();
            known.0.iter().map(|b| b.id.clone()).collect::<Vec<_>>()
        };
        let hdfs = of("hdfs");
        assert!(!hdfs.is_empty());
        assert_eq!(of("hdfs-journal"), hdfs);
    }

    /// As `warren replay corpus/hbase/namespace-locked.toml` showed it; a bug that leaves another procedure has the same signatures.
    #[test]
    fn a_locked_namespace_is_told_by_the_procedure_that_waits() {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/hbase");
        let known = KnownBugs::read(&list.join(FILE), "hbase").unwrap();
        let procedure = "CreateNamespaceProcedure, owner RUNNABLE";
        let lock = r#"{"resourceType":"NAMESPACE","resourceName":"hbase","lockType":"EXCLUSIVE","exclusiveLockOwnerProcedure":{"className":"org.apache.hadoop.hbase.master.procedure.CreateNamespaceProcedure","procId":"8"}}"#;
        for (signature, seen, is) in [
            ("84304dc5", procedure.to_owned(), true),
            ("9cd71312", lock.to_owned(), true),
            ("84304dc5", procedure.replace("Create", "Modify"), false),
            ("9cd71312", lock.replace("\"hbase\"", "\"default\""), false),
            ("5efae528", procedure.to_owned(), false),
        ] {
            let failure = Failure {
                evidence: vec![seen],
                ..failure(signature)
            };
            let bug = known.of(&failure, &BTreeMap::new());
            assert_eq!(bug.is_some(), is, "{failure:?}");
        }
    }

    /// The lists that Warren comes with.
    #[test]
    fn the_lists_of_the_targets_are_good() {
        let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
        let mut lists = 0;
        for entry in std::fs::read_dir(targets).unwrap() {
            let folder = entry.unwrap().path();
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            let known = KnownBugs::read(&folder.join(FILE), &name).unwrap();
            lists += usize::from(!known.0.is_empty());
        }
        assert!(lists > 0);
    }
}
