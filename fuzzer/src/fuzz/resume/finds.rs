//! The list of finds of a campaign that is resumed, made again from what it has on disk: the names in queue/, crashes/ and hangs/ say
//! when each came and what it was, and runs.jsonl which runs showed new states. Called once, when the state is taken up. A name that is not AFL's is nobody's find; which folders
//! stand and which do not is settled before (`campaign/state`).

use crate::campaign::finding::Sheet;
use crate::campaign::{EntryName, KeptFinding, StoredLine};
use crate::fuzz::figures::snapshot::FindLine;
use crate::fuzz::session::{FINDS, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

impl Session {
    /// Which findings are known bugs stands in their folders.
    pub fn known_again(&mut self) {
        for f in &self.found.findings {
            let sheet = Sheet::read(&self.folder.finding(f.number).join("finding.json"));
            if let Some(known) = sheet.ok().and_then(|s| s.found.known) {
                self.found.known.insert(f.number, known);
            }
        }
    }

    /// Fills the list as if there had been no break, but for what left no file: runs that told nothing, runs given up.
    pub fn finds_again(&self) {
        let root = self.folder.root();
        let mut finds = of_queue(&names(&root.join("queue")));
        for (sub, what) in [("crashes", "finding"), ("hangs", "hang")] {
            finds.extend(of_findings(
                &names(&root.join(sub)),
                what,
                &self.found.findings,
                &self.found.known,
            ));
        }
        // One that cannot be read was told of before (`spent_before`).
        let runs = std::fs::read(root.join("runs.jsonl")).unwrap_or_default();
        finds.extend(of_runs(&String::from_utf8_lossy(&runs)));
        finds.sort_by_key(|f| f.at_ms);
        finds.drain(..finds.len().saturating_sub(FINDS));
        self.snapshot().with(|s| s.finds = finds);
    }
}

/// The entries of a folder, in their order.
fn names(folder: &Path) -> Vec<EntryName> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<EntryName> = entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect();
    names.sort_by_key(|n| n.id);
    names
}

/// Runs kept for new coverage.
fn of_queue(names: &[EntryName]) -> Vec<FindLine> {
    let line = |n: &EntryName| FindLine {
        at_ms: n.time_ms,
        what: "coverage".into(),
        text: format!("new slots by {}", n.op),
    };
    names.iter().filter(|n| n.new_coverage).map(line).collect()
}

/// Runs kept for new states alone.
fn of_runs(jsonl: &str) -> Vec<FindLine> {
    let line = |l: StoredLine| FindLine {
        at_ms: l.at_ms,
        what: "state".into(),
        text: new_states(l.new_states, &l.kinds),
    };
    StoredLine::all(jsonl)
        .filter_map(Result::ok)
        .filter(|l| l.kept.is_some() && !l.new_coverage && l.new_states > 0)
        .map(line)
        .collect()
}

/// What the list says of such a run.
pub fn new_states(n: usize, kinds: &str) -> String {
    format!("{n} new states by {kinds}")
}

/// Findings, each at the first file of its signature: later ones are more of a known bug.
fn of_findings(
    names: &[EntryName],
    what: &str,
    findings: &[KeptFinding],
    known: &BTreeMap<u64, String>,
) -> Vec<FindLine> {
    let mut seen = BTreeSet::new();
    names
        .iter()
        .filter_map(|n| {
            let finding = findings
                .iter()
                .find(|f| Some(&f.signature) == n.bug.as_ref())?;
            let known = known.contains_key(&finding.number);
            seen.insert(&finding.signature).then(|| FindLine {
                at_ms: n.time_ms,
                what: if known { "known" } else { what }.to_owned(),
                text: format!(
                    "{} ({}) [{}]",
                    finding.checker, finding.kind, finding.signature
                ),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_find_is_told_once_and_at_its_time() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "id:000002,src:000000,time:900,execs:9,op:crash+reboot,+cov",
            "id:000000,time:0,execs:1,orig:fault-free,op:",
            "id:000001,src:000000,time:400,execs:5,op:crash",
            "README.txt",
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let told = |finds: Vec<FindLine>| -> Vec<(u64, String)> {
            finds.into_iter().map(|f| (f.at_ms, f.text)).collect()
        };
        assert_eq!(
            told(of_queue(&names(dir.path()))),
            [(900, "new slots by crash+reboot".into())]
        );
        assert!(names(&dir.path().join("none")).is_empty());
        let crash = |text: &str| text.parse::<EntryName>().unwrap();
        let crashes = [
            crash("id:000000,src:000001,time:700,execs:7,op:crash,bug:aa"),
            crash("id:000001,src:000002,time:800,execs:8,op:crash,bug:aa"),
            crash("id:000002,src:000002,time:850,execs:9,op:crash,bug:bb"),
        ];
        let stands = KeptFinding {
            number: 0,
            signature: "aa".into(),
            checker: "replicas".into(),
            kind: "safety".into(),
            k: 3,
            n: 3,
            fell: false,
        };
        // Another instance's finding has its files here, and its place in the other's list.
        assert_eq!(
            told(of_findings(
                &crashes,
                "finding",
                std::slice::from_ref(&stands),
                &BTreeMap::new()
            )),
            [(700, "replicas (safety) [aa]".into())]
        );
        let known = BTreeMap::from([(0, "T-1".to_owned())]);
        let finds = of_findings(&crashes, "finding", &[stands], &known);
        assert_eq!(finds[0].what, "known");
    }
}
