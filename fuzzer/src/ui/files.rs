//! What a page shows beside the snapshot, read from files: names in queue/, the evidence of a finding, tails of logs.
//!
//! Called by the screen's thread for the page in view only, at most twice a second (queue/, which grows, once), each read bounded. Writes nothing,
//! and holds no file open: a slot that goes away must not wait for a reader.

use super::keys::{Page, View};
use super::queue::{Row, tree};
use crate::campaign::{EntryName, KeptFinding};
use crate::fuzz::Snapshot;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often files are read.
const EVERY: Duration = Duration::from_millis(500);
/// How often queue/ is read, while it has not all that is kept.
const TREE: Duration = Duration::from_secs(1);
/// Bytes read from the end of a log, and of the evidence from its beginning.
const TAIL: u64 = 64 * 1024;
/// Lines of a log kept for scrolling.
const LINES: usize = 1000;

/// What is told of one finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    pub number: u64,
    /// The failed check it was saved for, with stage and node.
    pub headline: Option<String>,
    /// What that check saw, then the other checks and what else the run showed.
    pub evidence: Vec<String>,
    /// How it was found.
    pub about: Vec<String>,
    pub reproduce: Option<String>,
    pub minimise: Option<String>,
}

/// The end of a node's logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub lines: Vec<String>,
    /// The run they are of has ended.
    pub past: bool,
}

/// What was read last.
#[derive(Debug, Default)]
pub struct Files {
    pub rows: Vec<Row>,
    pub story: Option<Story>,
    /// By node: what the run going on has written; until it writes anything, what the run before it had.
    pub logs: BTreeMap<String, Log>,
    pub read: Option<(Page, Instant)>,
    /// When the tree was made.
    pub tree: Option<Instant>,
}

impl Files {
    /// Reads what the page in view needs, when it is due.
    pub fn refresh(&mut self, s: &Snapshot, view: View, now: Instant) {
        let due = match self.read {
            Some((page, t)) => page != view.page || now.saturating_duration_since(t) >= EVERY,
            None => true,
        };
        let other = view.page == Page::Findings
            && self.story.as_ref().map(|t| t.number) != chosen(s, view).map(|f| f.number);
        if !due && !other {
            return;
        }
        self.read = Some((view.page, now));
        match view.page {
            Page::Overview | Page::Help => {}
            Page::Findings => self.story = chosen(s, view).map(|f| story(&s.folder, f)),
            Page::Queue => {
                // A kept run is counted before its file is written.
                let missing = self.rows.is_empty() || (self.rows.len() as u64) < s.corpus;
                let long_ago = |t| now.saturating_duration_since(t) >= TREE;
                if missing && self.tree.is_none_or(long_ago) {
                    self.tree = Some(now);
                    self.rows = tree(entries(&s.folder.join("queue")));
                }
            }
            Page::Logs => self.logs(s),
        }
    }

    fn logs(&mut self, s: &Snapshot) {
        for n in &s.nodes {
            let lines: Vec<String> = n.logs.iter().flat_map(|path| tail(path)).collect();
            let log = self.logs.entry(n.name.clone()).or_default();
            if lines.is_empty() {
                log.past = true;
            } else {
                *log = Log { lines, past: false };
            }
        }
    }
}

/// The finding that is chosen.
fn chosen(s: &Snapshot, view: View) -> Option<&KeptFinding> {
    let last = s.kept_findings.len().checked_sub(1)?;
    s.kept_findings.get(view.finding.min(last))
}

/// Entries of a queue/ folder; other files are passed over.
fn entries(folder: &Path) -> Vec<EntryName> {
    let Ok(dir) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    dir.flatten()
        .filter_map(|f| f.file_name().to_str()?.parse().ok())
        .collect()
}

/// Of evidence.txt: a head, most of it `label: value`, then sections behind empty lines, each failed check one.
fn story(folder: &Path, f: &KeptFinding) -> Story {
    let path = folder
        .join("findings")
        .join(format!("{:06}", f.number))
        .join("evidence.txt");
    let mut story = Story {
        number: f.number,
        ..Story::default()
    };
    let Some(text) = part(&path, false) else {
        story.evidence = vec![format!("{} cannot be read", path.display())];
        return story;
    };
    let lines: Vec<String> = text.lines().map(clean).collect();
    let mut sections = lines.split(String::is_empty);
    // What stands elsewhere on the page, as number and signature do, is not told twice.
    for line in sections.next().unwrap_or_default().iter().skip(1) {
        match line.split_once(": ") {
            Some(("reproduce", command)) => story.reproduce = Some(command.to_owned()),
            Some(("minimise", command)) => story.minimise = Some(command.to_owned()),
            Some(("known" | "confirmed", _)) => {}
            _ => story.about.push(line.clone()),
        }
    }
    let mut sections: Vec<&[String]> = sections.filter(|s| !s.is_empty()).collect();
    let signature = format!("[{}]", f.signature);
    let own = sections.iter().position(|s| s[0].ends_with(&signature));
    if let Some((headline, saw)) = own.and_then(|k| sections.remove(k).split_first()) {
        story.headline = Some(headline.clone());
        story.evidence.extend_from_slice(saw);
    }
    for section in sections {
        story.evidence.push(String::new());
        story.evidence.extend_from_slice(section);
    }
    story
}

/// The last lines of a file; none when it is not there.
fn tail(path: &Path) -> Vec<String> {
    let text = part(path, true).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(LINES)..]
        .iter()
        .map(|l| clean(l))
        .collect()
}

/// The first or the last [`TAIL`] bytes of a regular file, from or to a line's end.
fn part(path: &Path, end: bool) -> Option<String> {
    // A pipe of that name would block for ever.
    let size = path
        .metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    let mut file = File::open(path).ok()?;
    let cut = size > TAIL;
    if end && cut {
        file.seek(SeekFrom::Start(size - TAIL)).ok()?;
    }
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match (end && cut).then(|| text.split_once('\n')).flatten() {
        Some((_, whole)) => Some(whole.to_owned()),
        None => Some(text),
    }
}

/// A system under test may write anything: no character of its may act on the terminal.
fn clean(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::NodeState;

    fn page(page: Page) -> View {
        View {
            page,
            ..View::default()
        }
    }

    #[test]
    fn only_what_the_page_needs_and_only_when_it_is_due() {
        let dir = tempfile::tempdir().unwrap();
        let queue = dir.path().join("queue");
        std::fs::create_dir(&queue).unwrap();
        for name in [
            "id:000000,time:0,execs:5,orig:fault-free,op:none",
            "id:000001,src:000000,time:7,execs:6,op:crash,+cov",
            "README.txt",
        ] {
            std::fs::write(queue.join(name), "").unwrap();
        }
        let s = Snapshot {
            folder: dir.path().to_owned(),
            corpus: 2,
            ..Snapshot::default()
        };
        let t = Instant::now();
        let mut f = Files::default();
        f.refresh(&s, page(Page::Overview), t);
        assert!(f.rows.is_empty());
        f.refresh(&s, page(Page::Queue), t);
        assert_eq!(f.rows.len(), 2);
        // Kept, and its file not yet written.
        let s3 = Snapshot {
            corpus: 3,
            ..s.clone()
        };
        f.refresh(&s3, page(Page::Queue), t + TREE);
        assert_eq!(f.rows.len(), 2);
        std::fs::write(
            queue.join("id:000002,src:000001,time:9,execs:7,op:crash"),
            "",
        )
        .unwrap();
        f.refresh(&s3, page(Page::Queue), t + TREE + EVERY);
        assert_eq!(f.rows.len(), 2, "not due");
        f.refresh(&s3, page(Page::Queue), t + 2 * TREE);
        assert_eq!(f.rows.len(), 3);
    }

    #[test]
    fn a_log_outlives_its_run_until_the_next_one_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let s = Snapshot {
            nodes: vec![NodeState {
                name: "n1".into(),
                logs: vec![path.clone()],
                ..NodeState::default()
            }],
            ..Snapshot::default()
        };
        let mut f = Files::default();
        let mut t = Instant::now();
        let mut look = |f: &mut Files| {
            t += EVERY;
            f.refresh(&s, page(Page::Logs), t);
            f.logs["n1"].clone()
        };
        assert!(look(&mut f).lines.is_empty());
        std::fs::write(&path, "one\n\x1b[31mtwo\tx\n").unwrap();
        assert_eq!(look(&mut f).lines, ["one", "?[31mtwo    x"]);
        std::fs::remove_file(&path).unwrap();
        let past = look(&mut f);
        assert!(past.past && past.lines.len() == 2);
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(
            look(&mut f),
            Log {
                lines: vec!["new".into()],
                past: false
            }
        );

        let long: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
        std::fs::write(&path, long).unwrap();
        let log = look(&mut f);
        assert_eq!(log.lines.len(), LINES);
        assert_eq!(log.lines.last().unwrap(), "line 19999");
        assert!(log.lines[0].starts_with("line "), "no torn line");
    }

    #[test]
    fn the_story_of_the_chosen_finding() {
        let dir = tempfile::tempdir().unwrap();
        let finding = |number| KeptFinding {
            number,
            signature: "abc".into(),
            checker: "replicas".into(),
            kind: warren_model::FailureKind::Safety,
            k: 2,
            n: 3,
            fell: false,
        };
        let folder = dir.path().join("findings/000001");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join("evidence.txt"),
            "finding 000001, signature abc\nconfirmed: 2 of 3\nreproduce: warren replay x\nminimise: warren tmin x\nfile: x\n\
             found by warren (seed 1), run 15, after 18 s of fuzzing\nwhy this sequence: new\n\n\
             order (safety, test) [def]\n    two succeeded\n\n\
             replicas (safety, healed) at n2, leader [abc]\n    they differ\n    here\n\n\
             log lines no fault-free run has:\n    oh\n",
        )
        .unwrap();
        let s = Snapshot {
            folder: dir.path().to_owned(),
            kept_findings: vec![finding(0), finding(1)],
            ..Snapshot::default()
        };
        let t = Instant::now();
        let mut f = Files::default();
        let mut v = page(Page::Findings);
        f.refresh(&s, v, t);
        assert!(f.story.as_ref().unwrap().evidence[0].contains("cannot be read"));
        v.finding = 1;
        f.refresh(&s, v, t);
        let story = f.story.unwrap();
        assert_eq!(story.reproduce.as_deref(), Some("warren replay x"));
        assert_eq!(story.minimise.as_deref(), Some("warren tmin x"));
        assert_eq!(
            story.headline.as_deref(),
            Some("replicas (safety, healed) at n2, leader [abc]")
        );
        let evidence = [
            "    they differ",
            "    here",
            "",
            "order (safety, test) [def]",
            "    two succeeded",
            "",
            "log lines no fault-free run has:",
            "    oh",
        ];
        assert_eq!(story.evidence, evidence);
        let about = [
            "file: x",
            "found by warren (seed 1), run 15, after 18 s of fuzzing",
            "why this sequence: new",
        ];
        assert_eq!(story.about, about);
    }
}
