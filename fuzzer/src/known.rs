//! `known-bugs.toml` beside target.toml: bugs of a target that have a number upstream, and how a failing run shows them. Read by `fuzz`, where a
//! finding that is known is counted and not reported as new, and by `replay`, where it is named. Hides nothing: a known bug is saved once
//! with its whole story, and a replay of it fails as before.
//!
//! A signature says what was seen (check, normalised evidence, role, stage), and two bugs may look alike: most lost writes have one
//! signature. So a bug may ask for lines of a node's log, or of what the check itself saw, too; what has the signature and not the lines is
//! not known. Where it is chance which of a check's many signatures a bug shows, it names the check; then it must ask for lines.

use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use warren_executor::target::Target;
use warren_feedback::check::CHECKERS;
use warren_feedback::check::exits::EXIT;
use warren_model::ids::fnv1a;
use warren_model::{Failure, NodeName};

/// Of the file.
const KNOWN_VERSION: u32 = 1;
/// Largest file.
const MAX_BYTES: u64 = 1 << 20;
/// The checker that stands apart of all others.
const HANG: &str = "hang";
/// Checkers that can only not tell (docs/checks.md).
const NEVER_FAIL: [&str; 2] = ["workload", "incomplete"];
/// Before the name of a list among signatures.
const LIST: char = '$';
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
    /// The first release without it, where there is one; of several lines of releases each one's: `3.8.5, 3.9.3`.
    pub fixed_in: Option<String>,
    /// One of these, or one of the checkers: a bug has either.
    signatures: Vec<String>,
    checkers: Vec<String>,
    /// Each must match in a line of the failure's own evidence.
    evidence: Vec<Regex>,
    /// None may: one failure tells all that differs, and what this bug does not do is another one's.
    unless_evidence: Vec<Regex>,
    /// Each must match in one and the same node's log: that of the process that ended, where one did.
    log: Vec<Regex>,
}

type Texts = Spanned<Vec<Spanned<String>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    version: Spanned<u32>,
    target: Spanned<String>,
    base: Option<Spanned<String>>,
    /// Lists that bugs share, by name.
    #[serde(default)]
    signatures: BTreeMap<String, Texts>,
    #[serde(default, rename = "bug")]
    bugs: Vec<BugText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a [[bug]] table")]
struct BugText {
    id: Spanned<String>,
    title: String,
    fixed_in: Option<String>,
    signatures: Option<Texts>,
    checkers: Option<Texts>,
    #[serde(default)]
    evidence: Vec<Spanned<String>>,
    #[serde(default)]
    unless_evidence: Vec<Spanned<String>>,
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
    /// Those of a target in the version that is run; none where it has no such file. A base's file is the base's, as another build may have other bugs:
    /// a list says itself which other one holds here, too.
    ///
    /// # Errors
    /// What is wrong with the file, with its path and the line.
    pub fn of_target(target: &Target) -> Result<Self, String> {
        match target.folders.first() {
            Some(folder) => {
                let list = Self::read(&folder.join(FILE), &target.name)?;
                Ok(list.in_version(&target.version))
            }
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

    /// Without those that this version has the fix of: what looks like one of them there is another bug, or the same one come back.
    fn in_version(mut self, version: &str) -> Self {
        let fixed = |bug: &KnownBug| {
            bug.fixed_in
                .as_deref()
                .is_some_and(|f| is_fixed(f, version))
        };
        self.0.retain(|bug| !fixed(bug));
        self
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
        parse(text, target).map_err(|(span, why)| (line_of(text, span.start), why))
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
        if all.is_empty() {
            return String::new();
        }
        // A list without these has the identity that journals of before know.
        let unless = self.0.iter().filter(|b| !b.unless_evidence.is_empty());
        let unless: String = unless
            .map(|b| format!("{} {:?}", b.id, patterns(&b.unless_evidence) as Vec<String>))
            .collect();
        let checkers = self.0.iter().filter(|b| !b.checkers.is_empty());
        let checkers: String = checkers
            .map(|b| format!("{} checkers {:?}", b.id, b.checkers))
            .collect();
        format!(
            "{:016x}",
            fnv1a(format!("{all:?}{unless}{checkers}").as_bytes())
        )
    }

    /// The bug that a failure of a run is, by its signature or checker, its evidence and the nodes' logs. Why a process ended stands in the log of its
    /// own node; what one node shows otherwise (no service, other data) may be another's doing.
    #[must_use]
    pub fn of(&self, failure: &Failure, logs: &BTreeMap<NodeName, String>) -> Option<&KnownBug> {
        let own = failure.node.as_ref().filter(|_| failure.checker == EXIT);
        self.0.iter().find(|bug| {
            let mut asked = logs
                .iter()
                .filter(|(node, _)| own.is_none_or(|own| own == *node));
            let seen = || failure.evidence.iter().flat_map(|e| e.lines());
            (bug.signatures.contains(&failure.signature) || bug.checkers.contains(&failure.checker))
                && all_match(&bug.evidence, seen)
                && !bug
                    .unless_evidence
                    .iter()
                    .any(|p| seen().any(|l| p.is_match(l)))
                && (bug.log.is_empty() || asked.any(|(_, log)| all_match(&bug.log, || log.lines())))
        })
    }
}

/// Where in a text something is wrong, and what.
type Wrong = (Range<usize>, String);

fn parse(text: &str, target: &str) -> Result<(KnownBugs, Base), Wrong> {
    let file: FileText = toml::from_str(text)
        .map_err(|e| (e.span().unwrap_or(0..0), crate::text::one_line(e.message())))?;
    let version = *file.version.get_ref();
    if version != KNOWN_VERSION {
        let why = format!("it has version {version}, this Warren reads {KNOWN_VERSION}");
        return Err((file.version.span(), why));
    }
    if file.target.get_ref() != target {
        let why = format!(
            "it is of target `{}`, this is `{target}`",
            file.target.get_ref()
        );
        return Err((file.target.span(), why));
    }
    let mut lists = Lists::new();
    for (name, texts) in &file.signatures {
        // Of signatures alone: a list of lists would have to be looked at for circles.
        lists.insert(name, signatures(name, texts, &Lists::new())?);
    }
    let mut bugs: Vec<KnownBug> = Vec::new();
    for b in file.bugs {
        let id = b.id.get_ref();
        if id.trim().is_empty() || bugs.iter().any(|known| known.id == *id) {
            let why = format!("`{id}`: an id is what the bug is called upstream, once in a file");
            return Err((b.id.span(), why));
        }
        let (signatures, checkers) = shown(&b, &lists)?;
        bugs.push(KnownBug {
            evidence: patterns(&b.evidence)?,
            unless_evidence: patterns(&b.unless_evidence)?,
            log: patterns(&b.log)?,
            id: b.id.into_inner(),
            title: b.title,
            fixed_in: b.fixed_in,
            signatures,
            checkers,
        });
    }
    Ok((KnownBugs(bugs), file.base))
}

/// The signatures of a file's lists, by name.
type Lists<'a> = BTreeMap<&'a str, Vec<String>>;

/// By which signatures or checkers a bug shows.
fn shown(bug: &BugText, lists: &Lists<'_>) -> Result<(Vec<String>, Vec<String>), Wrong> {
    let id = bug.id.get_ref();
    match (&bug.signatures, &bug.checkers) {
        (Some(texts), None) => Ok((signatures(id, texts, lists)?, vec![])),
        (None, Some(texts)) => {
            let checkers = checkers(id, texts)?;
            if bug.evidence.is_empty() && bug.log.is_empty() {
                let why = format!(
                    "{id} has checkers alone, and would be whatever they find: add evidence or log"
                );
                return Err((texts.span(), why));
            }
            Ok((vec![], checkers))
        }
        (Some(_), Some(texts)) => {
            let why =
                format!("{id} has signatures, which say their checker: remove one of the two");
            Err((texts.span(), why))
        }
        (None, None) => {
            let why = format!(
                "{id} has neither signatures nor checkers: a finding's stand in its evidence.txt"
            );
            Err((bug.id.span(), why))
        }
    }
}

/// Those of a bug or list, with those of the lists that it names.
fn signatures(of: &str, texts: &Texts, lists: &Lists<'_>) -> Result<Vec<String>, Wrong> {
    if texts.get_ref().is_empty() {
        let why = format!("{of} has no signature: a finding's stands in its evidence.txt");
        return Err((texts.span(), why));
    }
    let mut all = Vec::new();
    for text in texts.get_ref() {
        let wrong = |why: String| (text.span(), why);
        let Some(name) = text.get_ref().strip_prefix(LIST) else {
            is_signature(text.get_ref()).map_err(wrong)?;
            all.push(text.get_ref().clone());
            continue;
        };
        let Some(list) = lists.get(name) else {
            let known: Vec<_> = lists.keys().map(|n| format!("`{LIST}{n}`")).collect();
            let which = match known.is_empty() {
                true => "write signatures".to_owned(),
                false => format!("write one of {}", known.join(", ")),
            };
            return Err(wrong(format!(
                "`{LIST}{name}` is no list of [signatures] that may stand here: {which}"
            )));
        };
        all.extend_from_slice(list);
    }
    Ok(all)
}

/// Those of a bug, each of which there is.
fn checkers(id: &str, texts: &Texts) -> Result<Vec<String>, Wrong> {
    let all = CHECKERS.iter().map(|(n, _)| *n).chain([HANG]);
    let known: Vec<&str> = all.filter(|n| !NEVER_FAIL.contains(n)).collect();
    let known_text = known.join(", ");
    if texts.get_ref().is_empty() {
        let why = format!("{id} has no checker: write some of {known_text}");
        return Err((texts.span(), why));
    }
    let checker = |text: &Spanned<String>| match text.get_ref() {
        name if known.contains(&name.as_str()) => Ok(name.clone()),
        name => {
            let why = format!("`{name}` is no checker that fails a run: write one of {known_text}");
            Err((text.span(), why))
        }
    };
    texts.get_ref().iter().map(checker).collect()
}

fn patterns(all: &[Spanned<String>]) -> Result<Vec<Regex>, Wrong> {
    let pattern = |p: &Spanned<String>| {
        Regex::new(p.get_ref()).map_err(|e| (p.span(), crate::text::one_line(&e.to_string())))
    };
    all.iter().map(pattern).collect()
}

/// Each pattern in some line.
fn all_match<'a, L: Iterator<Item = &'a str>>(patterns: &[Regex], lines: impl Fn() -> L) -> bool {
    patterns.iter().all(|p| lines().any(|l| p.is_match(l)))
}

/// Whether a version has a fix, by the releases that were the first of their lines to have it: where it is not older than the one of its own line (the
/// first two numbers), or than the newest of them all. What is no row of numbers cannot be compared, and has not.
fn is_fixed(fixed_in: &str, version: &str) -> bool {
    let firsts: Option<Vec<Release>> = fixed_in.split(',').map(release).collect();
    let (Some(firsts), Some(version)) = (firsts, release(version)) else {
        return false;
    };
    let own = firsts.iter().find(|f| f[..2] == version[..2]);
    own.or(firsts.iter().max()).is_some_and(|f| version >= *f)
}

/// The numbers of a version; those that are not there are 0.
type Release = [u64; 4];

fn release(text: &str) -> Option<Release> {
    let mut numbers = Release::default();
    for (i, part) in text.trim().split('.').enumerate() {
        *numbers.get_mut(i)? = part.parse().ok()?;
    }
    Some(numbers)
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
mod tests;
