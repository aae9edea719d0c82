//! A finding's folder taken in, whichever version of Warren wrote it. The first form had no finding.json: there evidence.txt tells.

use crate::campaign::finding::{FINDING_JSON, Sheet, rows_of};
use std::path::{Path, PathBuf};

/// What a report needs of a folder. Files that are not there are empty.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    pub folder: PathBuf,
    /// None for a folder of the first form.
    pub sheet: Option<Sheet>,
    pub evidence: String,
    /// The rows of timeline.txt that tell the story.
    pub timeline: Vec<String>,
    pub around: String,
    /// (name, text) of the sequence to run again.
    pub sequence: (String, String),
    pub patterns: String,
    /// The failure may need the restart of all nodes to show again, as in reproduce.sh.
    pub durable: bool,
    /// Everything in the folder, relative.
    pub files: Vec<String>,
}

/// Whether a folder is one of a finding.
#[must_use]
pub fn is_finding(folder: &Path) -> bool {
    [FINDING_JSON, "evidence.txt"]
        .iter()
        .any(|f| folder.join(f).is_file())
}

impl Finding {
    /// Reads a folder.
    ///
    /// # Errors
    /// One text for people, with the file.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let optional = |name: &str| {
            std::fs::read(folder.join(name))
                .map(|b| String::from_utf8_lossy(&b).into_owned())
                .unwrap_or_default()
        };
        let json = folder.join(FINDING_JSON);
        let sheet = json
            .exists()
            .then(|| {
                Sheet::read(&json).map_err(|e| {
                    format!(
                        "{}: {e}\n  name another finding; evidence.txt and timeline.txt beside it can be read by themselves",
                        json.display()
                    )
                })
            })
            .transpose()?;
        let evidence = optional("evidence.txt");
        if sheet.is_none() && evidence.is_empty() {
            return Err(format!(
                "{}: neither finding.json nor evidence.txt can be read: this is no finding, or only a part of one",
                folder.display()
            ));
        }
        let matched = optional("matched.toml");
        // Where nothing happened, matched.toml is a sequence without faults.
        let sequence = if matched.contains("[[fault]]") {
            ("matched.toml".to_owned(), matched)
        } else {
            ("sequence.toml".to_owned(), optional("sequence.toml"))
        };
        let timeline = optional("timeline.txt");
        let durable = sheet.as_ref().is_some_and(|s| {
            // A folder without its record, or with one of another form, tells by the failure's stage.
            let record = serde_json::from_str(&optional("record.json")).unwrap_or_default();
            s.needs_restart(&record)
        });
        Ok(Finding {
            folder: folder.to_owned(),
            sheet,
            evidence,
            timeline: rows_of(&timeline).into_iter().map(str::to_owned).collect(),
            around: optional("around-faults.txt"),
            sequence,
            patterns: optional("patterns.toml"),
            durable,
            files: files(folder),
        })
    }

    /// A line of evidence.txt of the first form: what stands behind `key: `.
    #[must_use]
    pub fn told(&self, key: &str) -> Option<&str> {
        self.evidence
            .lines()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix(": "))
    }

    /// `finding 000000: replicas (safety, healed) at c3 [cbbdadd6]`.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.sheet {
            Some(s) => {
                let first = s
                    .judgement
                    .failures
                    .iter()
                    .find(|f| f.signature == s.found.signature);
                let what = first.or(s.judgement.failures.first()).map_or_else(
                    || s.found.signature.clone(),
                    crate::campaign::finding::headline,
                );
                format!("{}: {what}", s.found.called())
            }
            None => {
                let first = self.evidence.lines().next().unwrap_or("finding");
                let what = self.evidence.lines().find(|l| l.ends_with(']'));
                let number = first.split(',').next().unwrap_or(first);
                what.map_or_else(|| first.to_owned(), |w| format!("{number}: {w}"))
            }
        }
    }

    /// evidence.txt without its head: the failed checks and what stands below them.
    #[must_use]
    pub fn failures_text(&self) -> String {
        self.evidence
            .split_once("\n\n")
            .map_or(self.evidence.as_str(), |(_, rest)| rest)
            .trim_end()
            .to_owned()
    }
}

/// Files below a folder, two levels deep, folders with the number of their files.
fn files(folder: &Path) -> Vec<String> {
    let list = |dir: &Path| {
        let mut out: Vec<PathBuf> = std::fs::read_dir(dir)
            .map(|d| d.flatten().map(|e| e.path()).collect())
            .unwrap_or_default();
        out.sort();
        out
    };
    let name = |p: &Path| p.strip_prefix(folder).unwrap_or(p).display().to_string();
    let mut out = Vec::new();
    for path in list(folder) {
        if !path.is_dir() {
            out.push(name(&path));
            continue;
        }
        for below in list(&path) {
            let slash = if below.is_dir() { "/" } else { "" };
            out.push(format!("{}{slash}", name(&below)));
        }
    }
    out.retain(|f| !f.rsplit('/').next().unwrap_or(f).starts_with('.'));
    out
}
