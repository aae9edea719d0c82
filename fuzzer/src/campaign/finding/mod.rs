//! `findings/<nnnnnn>/`: what one needs to understand and repeat a failing run. Called by the loop when a finding stands.
//!
//! Files: finding.json (all of it for tools), evidence.txt, timeline.txt, around-faults.txt, sequence.toml (as asked), matched.toml (as
//! it happened), patterns.toml (the same as patterns), reproduce.sh, versions.txt, history.jsonl, observations.jsonl, record.json,
//! logs/<node>.log, collected/<files of [collect]>. docs/tutorial-read-a-finding.md leads through them.

mod around;
mod environment;
mod ops;
pub mod patterns;
mod script;
mod sheet;
mod timeline;

use crate::search::patterns::generalise;
pub use environment::Environment;
pub use sheet::{FINDING_JSON, FINDING_VERSION, Sheet, SheetError};
pub use timeline::rows_of;

use super::folder::{io, write_whole};
use crate::campaign::FuzzError;
use crate::text::{fault_text, printable};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};
use warren_model::{Failure, FaultSequence, Judgement, RunProduct, RunRecord};

/// What is told beside the run itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingText {
    /// Of the finding; of the run where it is none.
    pub number: u64,
    /// A liveness failure that did not show again: no finding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    pub signature: String,
    /// The known bug that it is: id, title, where it is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    /// Earlier findings whose failure this run shows, too: perhaps one bug seen in another way. `000003 [cbbdadd6]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
    /// `2 of 3`, or why it was not replayed.
    pub confirmed: String,
    /// It showed again in `k` of the `n` replays made.
    pub k: u32,
    pub n: u32,
    pub reproduce: String,
    /// The command that makes it smaller; not there in folders of older versions.
    #[serde(default)]
    pub minimise: String,
    /// The sequence's file in crashes/ or hangs/.
    pub file: String,
    pub strategy: String,
    /// Why the strategy took the sequence.
    pub why: String,
    pub campaign_seed: u64,
    /// Runs made before this one, and ms of fuzzing time.
    pub execs: u64,
    pub at_ms: u64,
    pub environment: Environment,
}

impl FindingText {
    /// What it is called: `finding 000003`.
    #[must_use]
    pub fn called(&self) -> String {
        match self.unconfirmed {
            false => format!("finding {:06}", self.number),
            true => format!("no finding (run {})", self.number),
        }
    }

    /// The findings that its run fails as, too; none if it is like no other.
    #[must_use]
    pub fn alike_text(&self) -> Option<String> {
        (!self.alike.is_empty()).then(|| self.alike.join(", "))
    }
}

/// Writes the folder; files of an earlier call are replaced.
///
/// # Errors
/// I/O, with the path.
pub fn write_finding(
    folder: &Path,
    text: &FindingText,
    product: &RunProduct,
    judgement: &Judgement,
) -> Result<(), FuzzError> {
    std::fs::create_dir_all(folder).map_err(io("making the folder", folder))?;
    let put = |name: &str, content: &str| write_whole(&folder.join(name), content.as_bytes());
    let record = &product.record;
    let about = faults_text(product);
    let toml = |s: &Option<FaultSequence>, about: &[String]| {
        s.as_ref()
            .map(|s| patterns::commented(s, about))
            .unwrap_or_default()
    };
    put("sequence.toml", &toml(&record.sequence, &[]))?;
    put("matched.toml", &toml(&record.matched, &about))?;
    if let Some(matched) = &record.matched {
        let general = generalise(matched, &record.injected, &record.exits, &product.trace);
        put("patterns.toml", &patterns::text(&general, &about))?;
    }
    // What people look at on a terminal; logs/ has what the nodes wrote as it is.
    let told = |name: &str, content: &str| put(name, &printable(content));
    told("timeline.txt", &timeline::timeline(product, judgement))?;
    put("around-faults.txt", &around::around(product))?;
    told("evidence.txt", &evidence(text, product, judgement))?;
    put("versions.txt", &versions(text))?;
    put("history.jsonl", &lines(&product.history))?;
    put("observations.jsonl", &lines(&product.observations))?;
    let json = serde_json::to_string_pretty(record).map_err(|e| FuzzError::Format {
        path: folder.join("record.json"),
        why: e.to_string(),
    })?;
    put("record.json", &(json + "\n"))?;
    let sheet = Sheet::of(text, product, judgement);
    let again = script::Again {
        what: &text.called(),
        signature: &text.signature,
        sequence: replayed(record),
        seed: text.campaign_seed,
        durable: sheet.needs_restart(record),
    };
    let script = script::script(&again, &text.environment);
    put("reproduce.sh", &script)?;
    let path = folder.join("reproduce.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
        .map_err(io("making executable", &path))?;
    let below = |sub: &str, name: &str, content: &[u8]| {
        let path = folder.join(sub).join(safe(name));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io("making the folder", parent))?;
        }
        write_whole(&path, content)
    };
    for (node, log) in &product.logs {
        below("logs", &format!("{node}.log"), log.as_bytes())?;
    }
    for (name, content) in &product.collected {
        below("collected", name, content)?;
    }
    // Last: a folder with it is whole.
    put(FINDING_JSON, &sheet.to_text())
}

/// One line per fault: what, where, and the call stack of its point.
fn faults_text(product: &RunProduct) -> Vec<String> {
    product
        .record
        .injected
        .iter()
        .map(|i| {
            let mut text = fault_text(&i.matched, &product.trace);
            if let Some(e) = i.event.and_then(|e| product.trace.events.get(e)) {
                let role = product.trace.role(e).unwrap_or("no role known");
                let stack = timeline::stack_text(&product.trace, e.stack, usize::MAX);
                let _ = write!(text, "; {role}; {stack}");
            }
            text
        })
        .collect()
}

fn versions(text: &FindingText) -> String {
    let mut out = String::new();
    let e = &text.environment;
    let seed = ("seed", text.campaign_seed.to_string());
    let program = ("program", e.program.clone());
    for (key, value) in e.rows().into_iter().chain([seed, program]) {
        let _ = writeln!(out, "{key:<16}: {value}");
    }
    out
}

/// A relative path that stays below the folder it is joined to.
fn safe(name: &str) -> std::path::PathBuf {
    Path::new(name)
        .components()
        .filter(|c| matches!(c, Component::Normal(_)))
        .collect()
}

fn lines<T: Serialize>(items: &[T]) -> String {
    items
        .iter()
        .filter_map(|i| serde_json::to_string(i).ok())
        .map(|l| l + "\n")
        .collect()
}

/// The file of its folder that is run again: as it happened, or as asked where nothing did.
#[must_use]
pub fn replayed(record: &RunRecord) -> &'static str {
    match record.happened().is_some() {
        true => "matched.toml",
        false => "sequence.toml",
    }
}

fn evidence(text: &FindingText, product: &RunProduct, judgement: &Judgement) -> String {
    let mut out = String::new();
    let record = &product.record;
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{}, signature {}\n{}{}confirmed: {}\nreproduce: {}\nminimise: {}\nfile: {}\nfound by {} (seed {}), run {}, after {} s of fuzzing\nwhy this sequence: {}\n\
         faults: {} asked, {} injected\n",
        text.called(),
        text.signature,
        (text.known.as_ref()).map_or_else(String::new, |k| format!("known: {k}\n")),
        (text.alike_text()).map_or_else(String::new, |a| format!("fails also as: {a}\n")),
        text.confirmed,
        text.reproduce,
        text.minimise,
        text.file,
        text.strategy,
        text.campaign_seed,
        text.execs,
        text.at_ms / 1000,
        text.why,
        record.sequence.as_ref().map_or(0, |s| s.faults.len()),
        record.injected.len(),
    );
    for line in product.spared() {
        let _ = writeln!(out, "{line}");
    }
    for f in &judgement.failures {
        let _ = writeln!(out, "\n{}", headline(f));
        for line in &f.evidence {
            let _ = writeln!(out, "    {line}");
        }
    }
    if !judgement.unknowns.is_empty() {
        let _ = writeln!(out, "\ncould not tell:");
        for u in &judgement.unknowns {
            let _ = writeln!(out, "    {}: {}", u.checker, u.why);
        }
    }
    if !judgement.novelties.is_empty() {
        let _ = writeln!(out, "\nlog lines no fault-free run has:");
        for n in &judgement.novelties {
            let _ = writeln!(out, "    {n}");
        }
    }
    if !record.warnings.is_empty() {
        let _ = writeln!(out, "\nwarnings of the run:");
        for w in &record.warnings {
            let _ = writeln!(out, "    {w}");
        }
    }
    out
}

/// One line about a failed check.
#[must_use]
pub fn headline(f: &Failure) -> String {
    let mut text = format!("{} ({}, {})", f.checker, f.kind, f.stage);
    if let Some(node) = &f.node {
        let _ = write!(text, " at {node}");
    }
    if let Some(role) = &f.role {
        let _ = write!(text, ", {role}");
    }
    let _ = write!(text, " [{}]", f.signature);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::patterns::resolve;
    use crate::search::sim::Sim;
    use crate::search::{ChildFault, Drawing, Seed};

    #[test]
    fn a_folder_tells_the_story() {
        let sim = Sim::new(3, 1);
        let shape = sim.shape();
        let d = Drawing {
            shape: &shape,
            faults: crate::search::FaultSet::default(),
            how: warren_model::CutHow::Drop,
            style: warren_model::CrashStyle::Process,
            salt: 1,
            parts: crate::search::Parts::NONE,
            whole_start: false,
            favour: crate::search::Favour::default(),
        };
        let root = sim.run(&FaultSequence::empty("sim"));
        let s = Seed {
            trace: &root.trace,
            matched: root.record.matched.as_ref().unwrap(),
            injected: &[],
            exits: &[],
            incarnations: &[],
            bounds: crate::search::Bounds::CALM,
        };
        let child = s.child(&d, 40, ChildFault::Crash).unwrap();
        let mut product = sim.run(&child);
        product.logs.insert("n1".into(), "a\tlog line\n".into());
        product.unparked = 2;
        product
            .collected
            .push(("../../n1/data/epoch".into(), b"7".to_vec()));
        let judgement = Judgement {
            failures: vec![Failure {
                checker: "replicas".into(),
                kind: warren_model::FailureKind::Safety,
                stage: warren_model::Stage::Healed,
                role: Some("leader".into()),
                node: Some("n1".into()),
                evidence: vec!["x=1 on n1, \u{1b}[31mx=2 on n2".into()],
                normalised: "x".into(),
                signature: "1f2e3d4c".into(),
            }],
            ..Judgement::default()
        };
        let text = FindingText {
            number: 0,
            unconfirmed: false,
            signature: "1f2e3d4c".into(),
            known: None,
            alike: vec!["000003 [cbbdadd6]".into()],
            confirmed: "2 of 3".into(),
            k: 2,
            n: 3,
            reproduce: "warren replay f -n 5".into(),
            minimise: "warren tmin -i f".into(),
            file: "f".into(),
            strategy: "crashfuzz".into(),
            why: "new fault id".into(),
            campaign_seed: 1,
            execs: 7,
            at_ms: 61_000,
            environment: Environment {
                target: "sim".into(),
                jdk: "17.0.1".into(),
                ..Environment::default()
            },
        };
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("000000");
        write_finding(&folder, &text, &product, &judgement).unwrap();
        write_finding(&folder, &text, &product, &judgement).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(
            FaultSequence::from_text(&read("sequence.toml")).unwrap(),
            child
        );
        assert_eq!(
            Some(FaultSequence::from_text(&read("matched.toml")).unwrap()),
            product.record.matched
        );
        let patterns = FaultSequence::from_text(&read("patterns.toml")).unwrap();
        assert_eq!(patterns.faults.len(), 1);
        let warren_model::At::Pattern(p) = &patterns.faults[0].at else {
            panic!("not a pattern: {}", read("patterns.toml"))
        };
        let event = product.record.injected[0].event.unwrap();
        let interval = product.trace.events[event].interval.0;
        assert_eq!(resolve(p, interval, &product.trace), Some(event));
        let t = read("timeline.txt");
        assert!(t.contains("fault 1: crash") && t.contains(">>"), "{t}");
        assert!(
            t.contains("!!  FAILED: replicas (safety, healed) at n1"),
            "{t}"
        );
        let sheet = Sheet::read(&folder.join("finding.json")).unwrap();
        assert_eq!((&sheet.found, &sheet.judgement), (&text, &judgement));
        assert!(sheet.faults[0].starts_with("crash n"), "{:?}", sheet.faults);
        assert!(read("versions.txt").contains("JDK             : 17.0.1\n"));
        assert!(read("around-faults.txt").contains("no marks"));
        let mode = std::fs::metadata(folder.join("reproduce.sh"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o111, 0o111);
        let newer = sheet.to_text().replace("\"version\": 1", "\"version\": 2");
        let refused = Sheet::from_text(&newer).unwrap_err().to_string();
        assert!(
            refused.contains("version 2") && refused.contains("version 1"),
            "{refused}"
        );
        let e = read("evidence.txt");
        for part in [
            "2 of 3",
            "fails also as: 000003 [cbbdadd6]\n",
            "warren replay f -n 5",
            "x=1 on n1",
            "after 61 s",
            "2 starts of nodes went on from parked JVMs",
            "replicas (safety, healed) at n1, leader",
        ] {
            assert!(e.contains(part), "{part} not in {e}");
        }
        for told in [&e, &t] {
            assert!(told.contains("x=1 on n1,  [31mx=2 on n2\n"), "{told}");
            assert!(!told.contains(|c: char| c.is_control() && c != '\n'));
        }
        assert_eq!(read("logs/n1.log"), "a\tlog line\n");
        assert_eq!(read("collected/n1/data/epoch"), "7");
        let record: warren_model::RunRecord = serde_json::from_str(&read("record.json")).unwrap();
        assert_eq!(record, product.record);
    }
}
