//! `runs.jsonl`: one line for EVERY run, learning, retests and confirmations included. Read back by [`super::stored_line`].

use super::failure_line::FailedCheck;
use serde::{Deserialize, Serialize};
use warren_model::{Judgement, PhaseTimes, RunRecord, Verdict, Void};

/// Version of a line. Lines of before it say none. Keys may be added without another one.
pub const RUN_LINE_VERSION: u32 = 1;

/// What a run was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunRole {
    Learning,
    /// A sequence of the strategy: what `-E` counts.
    Fuzz,
    /// The run before it went wrong by itself, or could not tell because of the machine's load.
    Repeat,
    /// The run before it passed its limit.
    Retest,
    /// Does the finding show again?
    Confirm,
    /// A smaller sequence of a finding (`--minimize`).
    Minimise,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine<'a> {
    pub version: u32,
    /// Number of the run in the campaign, from 1.
    pub run: u64,
    pub role: RunRole,
    /// ms of fuzzing time when it ended; in learning: 0.
    pub at_ms: u64,
    /// Kinds asked for, `crash+reboot`.
    pub kinds: String,
    /// Where it really began: `cold`, `snapshot-1`.
    pub start: String,
    /// Why it began cold although it was to begin from a snapshot.
    pub cold: Option<&'a str>,
    /// Why the snapshot that it began from had to be made anew.
    pub remade: Option<&'a str>,
    /// So many of its faults had happened in a run that was dumped, from where this one went on.
    pub from_prefix: Option<usize>,
    /// Why all its faults had to happen in it although it was to begin from such a one.
    pub no_prefix: Option<&'a str>,
    /// So many starts of nodes went on from parked JVMs.
    pub unparked: u32,
    /// Why one that was to did not.
    pub no_parked: Option<&'a str>,
    pub asked: usize,
    pub injected: usize,
    pub reason: Option<&'a str>,
    pub detail: Option<&'a str>,
    /// A smaller n was accepted for one of its faults.
    pub drift: bool,
    /// A thread was held for longer than it may for one of its faults.
    pub late: bool,
    pub verdict: Verdict,
    pub void: Option<&'a Void>,
    pub timed_out: bool,
    pub signature: Option<&'a str>,
    /// Every failed check: `checker stage signature kind`.
    pub failures: Vec<String>,
    /// Every check that could not tell.
    pub unknowns: Vec<String>,
    pub novelties: usize,
    pub times_ms: &'a PhaseTimes,
    pub cpu_ms: u64,
    /// CPU time of Warren and of all it started since the line before, ms; in the first line since learning began.
    pub spent_ms: u64,
    /// Longest stall of any phase, ms.
    pub stall_ms: u64,
    pub kill_signal_us: Vec<u64>,
    /// Signal sent -> process gone, of the same crashes.
    pub kill_reap_us: Vec<u64>,
    /// Events of a killed node more than 2 ms after its signal.
    pub late_events: u32,
    pub events: usize,
    pub coverage: usize,
    pub new_coverage: bool,
    /// Of a kept run: slots of the map of states that nobody had set before it.
    pub new_states: usize,
    /// Coverage slots and slots of the map of states set by any test so far, failing ones too, and sequences tested so far, with this one.
    pub slots: u64,
    pub states: u64,
    pub sequences: u64,
    pub durable: bool,
    /// Corpus id, when it was kept.
    pub kept: Option<u64>,
    /// Corpus id of the seed run.
    pub seed_run: Option<u64>,
    pub why: String,
    pub warnings: usize,
    /// What the workload noted for a reader, which is no failure ([`warren_model::Observation::Note`]).
    pub notes: Vec<&'a str>,
}

impl<'a> RunLine<'a> {
    /// The part that record and judgement tell.
    #[must_use]
    pub fn new(run: u64, role: RunRole, record: &'a RunRecord, judgement: &'a Judgement) -> Self {
        let not = record.not_injected.as_ref();
        RunLine {
            version: RUN_LINE_VERSION,
            run,
            role,
            at_ms: 0,
            kinds: record
                .sequence
                .as_ref()
                .map_or_else(String::new, super::names::op),
            start: record
                .sequence
                .as_ref()
                .map_or_else(String::new, |s| s.start.to_string()),
            cold: None,
            remade: None,
            from_prefix: None,
            no_prefix: None,
            unparked: 0,
            no_parked: None,
            asked: record.sequence.as_ref().map_or(0, |s| s.faults.len()),
            injected: record.injected.len(),
            reason: not.map(|n| n.reason.as_str()),
            detail: not.map(|n| n.detail.as_str()),
            drift: record.injected.iter().any(|i| i.drift.is_some()),
            late: record.injected.iter().any(|i| i.late),
            verdict: judgement.verdict,
            void: record.void.as_ref().or(judgement.void.as_ref()),
            timed_out: record.timed_out,
            signature: judgement.signature(),
            failures: judgement
                .failures
                .iter()
                .map(|f| FailedCheck::from(f).to_string())
                .collect(),
            unknowns: judgement
                .unknowns
                .iter()
                .map(|u| format!("{}: {}", u.checker, u.why))
                .collect(),
            novelties: judgement.novelties.len(),
            times_ms: &record.times,
            cpu_ms: record.cpu_ms,
            spent_ms: 0,
            stall_ms: record.stalls_ms.values().copied().max().unwrap_or(0),
            kill_signal_us: record
                .injected
                .iter()
                .filter_map(|i| i.kill.map(|k| k.signal_us))
                .collect(),
            kill_reap_us: record
                .injected
                .iter()
                .filter_map(|i| i.kill.map(|k| k.reap_us))
                .collect(),
            late_events: record
                .injected
                .iter()
                .filter_map(|i| i.kill.map(|k| k.late_events))
                .sum(),
            events: 0,
            coverage: 0,
            new_coverage: false,
            new_states: 0,
            slots: 0,
            states: 0,
            sequences: 0,
            durable: record.durable_asked,
            kept: None,
            seed_run: None,
            why: String::new(),
            warnings: record.warnings.len(),
            notes: Vec::new(),
        }
    }

    /// The line, with its end.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Numbers, strings and lists only: cannot fail.
        serde_json::to_string(self).map_or_else(|_| String::new(), |s| s + "\n")
    }
}
