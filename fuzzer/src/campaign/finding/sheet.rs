//! `finding.json`: a finding for tools, versioned. Written last into a finding's folder, read by `warren report`.

use super::FindingText;
use serde::{Deserialize, Serialize};
use std::path::Path;
use warren_model::{Failure, Judgement, PhaseTimes, RunProduct, RunRecord};

/// Its name in a finding's folder.
pub const FINDING_JSON: &str = "finding.json";
/// Version of finding.json. Folders of the first form have none of it.
pub const FINDING_VERSION: u32 = 1;

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sheet {
    pub version: u32,
    pub found: FindingText,
    /// One line per fault that happened.
    pub faults: Vec<String>,
    /// Faults asked for.
    pub asked: usize,
    /// Why the rest did not happen.
    #[serde(default)]
    pub not_injected: Option<String>,
    pub judgement: Judgement,
    #[serde(default)]
    pub warnings: Vec<String>,
    pub times_ms: PhaseTimes,
}

/// Why a finding.json cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    #[error("version {found} cannot be read: this Warren reads version {FINDING_VERSION}")]
    Version { found: u64 },
    #[error("not a finding: {0}")]
    Json(String),
    #[error("{0}")]
    Io(std::io::Error),
}

impl Sheet {
    /// Whether the finding's own failure may need the restart of all nodes to show again (`--durable` of `replay` and `tmin`).
    #[must_use]
    pub fn needs_restart(&self, record: &RunRecord) -> bool {
        let own = |f: &&Failure| f.signature == self.found.signature;
        let mut failures = self.judgement.failures.iter().filter(own);
        failures.any(|f| record.restart_for(f.stage))
    }

    /// Of a failing run.
    #[must_use]
    pub fn of(found: &FindingText, product: &RunProduct, judgement: &Judgement) -> Self {
        let record = &product.record;
        Sheet {
            version: FINDING_VERSION,
            found: found.clone(),
            faults: super::faults_text(product),
            asked: record.sequence.as_ref().map_or(0, |s| s.faults.len()),
            not_injected: record
                .not_injected
                .as_ref()
                .map(|n| format!("fault {}: {}: {}", n.index + 1, n.reason, n.detail)),
            judgement: judgement.clone(),
            warnings: record.warnings.clone(),
            times_ms: record.times.clone(),
        }
    }

    /// The file's text.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Strings, numbers and lists only: cannot fail.
        serde_json::to_string_pretty(self).map_or_else(|_| String::new(), |s| s + "\n")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`SheetError`]; another version is refused before anything else of the file is looked at.
    pub fn read(path: &Path) -> Result<Self, SheetError> {
        let text = std::fs::read_to_string(path).map_err(SheetError::Io)?;
        Self::from_text(&text)
    }

    /// Reads the text.
    ///
    /// # Errors
    /// As [`Sheet::read`].
    pub fn from_text(text: &str) -> Result<Self, SheetError> {
        let json = |e: serde_json::Error| SheetError::Json(e.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(json)?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(v) if v == u64::from(FINDING_VERSION) => {
                serde_json::from_value(value).map_err(json)
            }
            Some(found) => Err(SheetError::Version { found }),
            None => Err(SheetError::Json("it has no `version`".into())),
        }
    }
}
