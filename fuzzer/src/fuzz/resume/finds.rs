//! The list of finds of a campaign that is resumed, made again from what it has on disk: the names in queue/ and the findings' folders say
//! when each came and what it was, and runs.jsonl which runs showed new states. Called once, when the state is taken up. A name that is not AFL's is nobody's find; which folders
//! stand and which do not is settled before (`campaign/state`).

use crate::campaign::finding::Sheet;
use crate::campaign::{EntryName, KeptFinding, StoredLine};
use crate::fuzz::figures::snapshot::{FindKind, FindLine};
use crate::fuzz::session::{FINDS, Session};
use std::fs::File;
use std::io::{BufRead, BufReader};
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
        let stand = self.found.that_stand().filter_map(|f| {
            let sheet = Sheet::read(&self.folder.finding(f.number).join("finding.json"));
            let known = self.found.known.contains_key(&f.number);
            Some(of_finding(f, sheet.ok()?.found.at_ms, known))
        });
        finds.extend(stand);
        // One that cannot be read was told of before (`spent_before`).
        let runs = File::open(root.join("runs.jsonl")).map(BufReader::new);
        finds.extend(runs.into_iter().flat_map(of_runs));
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
        what: FindKind::Coverage,
        text: format!("new slots by {}", n.op),
    };
    names.iter().filter(|n| n.new_coverage).map(line).collect()
}

/// Runs kept for new states alone.
fn of_runs(jsonl: impl BufRead) -> Vec<FindLine> {
    let line = |l: StoredLine| FindLine {
        at_ms: l.at_ms,
        what: FindKind::State,
        text: new_states(l.new_states, &l.kinds),
    };
    StoredLine::readable(jsonl)
        .map_while(Result::ok)
        .filter(|l| l.kept.is_some() && !l.new_coverage && l.new_states > 0)
        .map(line)
        .collect()
}

/// What the list says of such a run.
pub fn new_states(n: usize, kinds: &str) -> String {
    format!("{n} new states by {kinds}")
}

/// A finding that stands.
fn of_finding(finding: &KeptFinding, at_ms: u64, known: bool) -> FindLine {
    FindLine {
        at_ms,
        what: FindKind::of_failure(finding.kind, known),
        text: format!(
            "{} ({}) [{}]",
            finding.checker, finding.kind, finding.signature
        ),
    }
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
    }
}
