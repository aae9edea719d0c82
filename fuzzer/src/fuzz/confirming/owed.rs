//! `state/owed`: a failing run that is to be decided on, whole, so that a campaign cut off in between can confirm it and tell its
//! story. `state/owed-replay`: a replay of it that failed in another way, until that is told. Written by confirmation before the record
//! that says so, removed after the one that says it is decided on.
//!
//! zstd over JSON: history and observations have no compact form. The trace in it is postcard: its keys are no texts.

use crate::campaign::FuzzError;
use crate::campaign::folder::{io, write_synced};
use crate::campaign::packed::zipped;
use crate::campaign::state::folder;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use warren_model::{
    Failure, FromPrefix, HistoryEvent, Judgement, LogMark, NodeName, Observation, RunProduct,
    RunRecord, Trace,
};

/// A failing run, before replays overwrite the observers.
#[derive(Clone, Debug)]
pub struct Seen {
    pub product: RunProduct,
    pub judgement: Judgement,
    pub failure: Failure,
    pub why: String,
    pub execs: u64,
    pub at_ms: u64,
    pub seed_run: Option<u64>,
}

impl Seen {
    /// Its failure of this signature.
    #[must_use]
    pub fn failure_of(&self, signature: &str) -> Option<&Failure> {
        let all = std::iter::once(&self.failure).chain(&self.judgement.failures);
        all.into_iter().find(|f| f.signature == signature)
    }

    /// The same run, looked at for its failure of this signature.
    #[must_use]
    pub fn of(&self, signature: &str) -> Option<Seen> {
        Some(Seen {
            failure: self.failure_of(signature)?.clone(),
            ..self.clone()
        })
    }
}

const VERSION: u32 = 1;

/// What every version has.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    version: u32,
    judgement: Cow<'a, Judgement>,
    failure: Cow<'a, Failure>,
    why: Cow<'a, str>,
    execs: u64,
    at_ms: u64,
    seed_run: Option<u64>,
    record: Cow<'a, RunRecord>,
    /// Postcard: its keys are no texts.
    trace: Vec<u8>,
    history: Cow<'a, [HistoryEvent]>,
    observations: Cow<'a, [Observation]>,
    logs: Cow<'a, BTreeMap<NodeName, String>>,
    log_marks: Cow<'a, [LogMark]>,
    broken_lines: Cow<'a, [String]>,
    collected: Cow<'a, [(String, Vec<u8>)]>,
    /// These two are not in files of older versions.
    #[serde(default)]
    from_prefix: Option<FromPrefix>,
    #[serde(default)]
    unparked: u32,
}

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Run,
    Replay,
}

fn path(root: &Path, which: Which) -> PathBuf {
    folder(root).join(match which {
        Which::Run => "owed",
        Which::Replay => "owed-replay",
    })
}

/// Writes it whole.
///
/// # Errors
/// I/O, with the path.
pub fn write(root: &Path, which: Which, seen: &Seen) -> Result<(), FuzzError> {
    let path = path(root, which);
    let format = |why: String| FuzzError::Format {
        path: path.clone(),
        why,
    };
    let p = &seen.product;
    let stored = Stored {
        version: VERSION,
        judgement: Cow::Borrowed(&seen.judgement),
        failure: Cow::Borrowed(&seen.failure),
        why: Cow::Borrowed(&seen.why),
        execs: seen.execs,
        at_ms: seen.at_ms,
        seed_run: seen.seed_run,
        record: Cow::Borrowed(&p.record),
        trace: postcard::to_allocvec(&p.trace).map_err(|e| format(e.to_string()))?,
        history: Cow::Borrowed(&p.history),
        observations: Cow::Borrowed(&p.observations),
        logs: Cow::Borrowed(&p.logs),
        log_marks: Cow::Borrowed(&p.log_marks),
        broken_lines: Cow::Borrowed(&p.broken_lines),
        collected: Cow::Borrowed(&p.collected),
        from_prefix: p.from_prefix,
        unparked: p.unparked,
    };
    let json = serde_json::to_vec(&stored).map_err(|e| format(e.to_string()))?;
    let packed = zipped(&json).map_err(|e| format(e.to_string()))?;
    write_synced(&path, &packed)
}

/// Reads it back.
///
/// # Errors
/// I/O; another version; damage.
pub fn read(root: &Path, which: Which) -> Result<Seen, FuzzError> {
    let path = path(root, which);
    let packed = std::fs::read(&path).map_err(io("reading the run to be decided on", &path))?;
    let format = |why: String| FuzzError::Format {
        path: path.clone(),
        why: format!("is damaged: {why}"),
    };
    let json = zstd::decode_all(&packed[..]).map_err(|e| format(e.to_string()))?;
    // First: another version may have other fields.
    let Head { version } = serde_json::from_slice(&json).map_err(|e| format(e.to_string()))?;
    if version != VERSION {
        return Err(FuzzError::Version {
            path,
            found: version,
            reads: VERSION.to_string(),
        });
    }
    let s: Stored<'_> = serde_json::from_slice(&json).map_err(|e| format(e.to_string()))?;
    let trace: Trace = postcard::from_bytes(&s.trace).map_err(|e| format(e.to_string()))?;
    Ok(Seen {
        product: RunProduct {
            record: s.record.into_owned(),
            trace,
            coverage: Vec::new(),
            probes: Vec::new(),
            history: s.history.into_owned(),
            observations: s.observations.into_owned(),
            logs: s.logs.into_owned(),
            log_marks: s.log_marks.into_owned(),
            broken_lines: s.broken_lines.into_owned(),
            collected: s.collected.into_owned(),
            from_prefix: s.from_prefix,
            unparked: s.unparked,
            ..RunProduct::default()
        },
        judgement: s.judgement.into_owned(),
        failure: s.failure.into_owned(),
        why: s.why.into_owned(),
        execs: s.execs,
        at_ms: s.at_ms,
        seed_run: s.seed_run,
    })
}

/// It is decided on.
///
/// # Errors
/// I/O, with the path.
pub fn remove(root: &Path, which: Which) -> Result<(), FuzzError> {
    let path = path(root, which);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io("removing", &path)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::sim::Sim;
    use warren_model::{FailureKind, FaultSequence, LogMoment, Phase, Stage};

    #[test]
    fn it_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder(dir.path())).unwrap();
        let mut product = Sim::new(3, 1).run(&FaultSequence::empty("sim"));
        product.coverage = Vec::new();
        product.logs.insert("n1".into(), "line\n".into());
        product.collected.push(("n1/epoch".into(), vec![7, 0, 255]));
        product.unparked = 2;
        product.from_prefix = Some(FromPrefix {
            faults: 1,
            spared_ms: 9,
        });
        product.log_marks.push(LogMark {
            at: LogMoment::Phase(Phase::Test),
            t_ns: 5,
            offsets: [("n1".into(), vec![3])].into(),
        });
        let failure = Failure {
            checker: "replicas".into(),
            kind: FailureKind::Safety,
            stage: Stage::Healed,
            role: None,
            node: Some("n1".into()),
            evidence: vec!["x".into()],
            normalised: "x".into(),
            signature: "1f".into(),
        };
        let seen = Seen {
            product,
            judgement: Judgement {
                failures: vec![failure.clone()],
                ..Judgement::default()
            },
            failure,
            why: "any".into(),
            execs: 7,
            at_ms: 8,
            seed_run: Some(3),
        };
        let which = Which::Run;
        let other = Which::Replay;
        write(dir.path(), other, &seen).unwrap();
        assert!(read(dir.path(), which).is_err());
        write(dir.path(), which, &seen).unwrap();
        let back = read(dir.path(), which).unwrap();
        assert_eq!(format!("{back:?}"), format!("{seen:?}"));
        let older = zstd::encode_all(&br#"{"version":2,"runs":[]}"#[..], 3).unwrap();
        std::fs::write(path(dir.path(), which), older).unwrap();
        let text = read(dir.path(), which).unwrap_err().to_string();
        assert!(
            text.contains("state/owed") && text.contains("has version 2, this program reads 1"),
            "{text}"
        );
        remove(dir.path(), which).unwrap();
        let text = read(dir.path(), which).unwrap_err().to_string();
        assert!(text.contains("state/owed"), "{text}");
    }
}
