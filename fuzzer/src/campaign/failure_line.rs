//! Two texts that tell of failures in a campaign's files, each with its one writer and its one reader: a failed check in a line of runs.jsonl,
//! and a finding in fuzzer_stats. Written by `run_line` and `stats`; read by `compare` and `whatsup`. Pure. Says nothing of what a failure means.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use warren_model::{Failure, FailureKind};

/// A failed check of a run: `checker stage signature kind` in runs.jsonl; by its fields in a table of `compare`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedCheck {
    pub signature: String,
    pub checker: String,
    /// `test`, `degraded`, `healed`, `durable`.
    pub stage: String,
    /// `safety`, `liveness`, `hang`.
    pub kind: String,
}

impl From<&Failure> for FailedCheck {
    fn from(f: &Failure) -> Self {
        FailedCheck {
            signature: f.signature.clone(),
            checker: f.checker.clone(),
            stage: f.stage.to_string(),
            kind: f.kind.to_string(),
        }
    }
}

impl fmt::Display for FailedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (checker, stage) = (&self.checker, &self.stage);
        write!(f, "{checker} {stage} {} {}", self.signature, self.kind)
    }
}

impl FromStr for FailedCheck {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let (&[checker, stage, signature, kind], false) = (words.as_slice(), words.contains(&""))
        else {
            return Err(format!(
                "`{text}` is no `checker stage signature kind`: an older Warren wrote it"
            ));
        };
        Ok(FailedCheck {
            signature: signature.to_owned(),
            checker: checker.to_owned(),
            stage: stage.to_owned(),
            kind: kind.to_owned(),
        })
    }
}

/// A finding in fuzzer_stats: `signature kind checker k/n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindingLine<'a> {
    pub signature: &'a str,
    pub kind: FailureKind,
    pub checker: &'a str,
    /// It showed again in `k` of `n` replays.
    pub k: u32,
    pub n: u32,
}

impl<'a> FindingLine<'a> {
    /// Reads one; none where the text is something else.
    #[must_use]
    pub fn read(text: &'a str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let &[signature, kind, checker, rate] = words.as_slice() else {
            return None;
        };
        let kind = kind.parse().ok()?;
        let (k, n) = rate.split_once('/')?;
        let (k, n) = (k.parse().ok()?, n.parse().ok()?);
        Some(FindingLine {
            signature,
            kind,
            checker,
            k,
            n,
        })
    }
}

impl fmt::Display for FindingLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (signature, kind, checker) = (self.signature, self.kind, self.checker);
        write!(f, "{signature} {kind} {checker} {}/{}", self.k, self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_is_read_as_it_is_written() {
        let text = "replicas healed 1f2e3d4c safety";
        let check: FailedCheck = text.parse().unwrap();
        let (stage, kind) = (check.stage.as_str(), check.kind.as_str());
        assert_eq!((stage, kind), ("healed", "safety"));
        assert_eq!(check.to_string(), text);
        for other in ["", "replicas 1f2e3d4c safety", "a b c d e", "a  b c"] {
            let why = other.parse::<FailedCheck>().unwrap_err();
            assert!(why.starts_with(&format!("`{other}` is no")), "{why}");
        }
    }

    #[test]
    fn a_finding_is_read_as_it_is_written() {
        let text = "1f2e3d4c liveness serve 2/3";
        let line = FindingLine::read(text).unwrap();
        assert_eq!(
            (line.signature, line.kind),
            ("1f2e3d4c", FailureKind::Liveness)
        );
        assert_eq!((line.checker, line.k, line.n), ("serve", 2, 3));
        assert_eq!(line.to_string(), text);
        for other in [
            "",
            "1f2e3d4c safety 2/3",
            "a b c 2/3",
            "a hang c 2",
            "a hang c x/3",
            "a hang c -1/3",
        ] {
            assert_eq!(FindingLine::read(other), None, "{other}");
        }
    }
}
