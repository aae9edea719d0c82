//! What `warren replay` prints of a run, and what all runs together mean for the exit code. Pure: values in, text out.

use crate::cli::exit::Exit;
use crate::text::{clip, fault_text, printable};
use std::collections::BTreeMap;
use std::fmt::Write;
use warren_model::{FailureKind, Injected, Judgement, PhaseTimes, RunProduct, Verdict};

/// Longest line of evidence printed, in characters; contents of a target may be of any length.
const EVIDENCE: usize = 240;

/// How one run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Pass,
    Unknown,
    /// Not all faults were injected, and the prefix did not fail.
    NotInjected,
    /// The run itself went wrong.
    Void,
    Hang,
    Fail,
}

impl Outcome {
    /// In the order in which they are told.
    pub const ALL: [Outcome; 6] = [
        Outcome::Fail,
        Outcome::Hang,
        Outcome::Pass,
        Outcome::Unknown,
        Outcome::NotInjected,
        Outcome::Void,
    ];

    /// The word printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Unknown => "unknown",
            Outcome::NotInjected => "not injected in full",
            Outcome::Void => "void",
            Outcome::Hang => "hang",
            Outcome::Fail => "fail",
        }
    }

    /// How a judged run counts. A hang is a failing run whose failures are all of kind hang; a void run says nothing.
    #[must_use]
    pub fn of(product: &RunProduct, judgement: &Judgement) -> Self {
        if judgement.void.is_some() || product.record.void.is_some() {
            Outcome::Void
        } else if judgement.verdict == Verdict::Fail {
            if judgement
                .failures
                .iter()
                .all(|f| f.kind == FailureKind::Hang)
            {
                Outcome::Hang
            } else {
                Outcome::Fail
            }
        } else if !product.complete() {
            Outcome::NotInjected
        } else if judgement.verdict == Verdict::Unknown {
            Outcome::Unknown
        } else {
            Outcome::Pass
        }
    }
}

/// All runs of a replay together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub outcomes: Vec<Outcome>,
    /// Signature -> runs that had it. A run has all of its failures': which of them a finding was saved for is not in its sequence.
    pub signatures: BTreeMap<String, usize>,
}

impl Tally {
    /// One more run.
    pub fn add(&mut self, outcome: Outcome, judgement: &Judgement) {
        self.outcomes.push(outcome);
        if matches!(outcome, Outcome::Fail | Outcome::Hang) {
            for signature in judgement.signatures() {
                *self.signatures.entry(signature.to_owned()).or_default() += 1;
            }
        }
    }

    fn count(&self, o: Outcome) -> usize {
        self.outcomes.iter().filter(|x| **x == o).count()
    }

    /// Any failing run 77, else any hang 70, else 0.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.count(Outcome::Fail) > 0 {
            Exit::Bug
        } else if self.count(Outcome::Hang) > 0 {
            Exit::Hang
        } else {
            Exit::End
        }
    }

    /// The last line(s): counts, signatures, and what an exit 0 does not say.
    #[must_use]
    pub fn summary(&self) -> String {
        let all = self.outcomes.len();
        let words: Vec<String> = Outcome::ALL
            .into_iter()
            .map(|o| (o, self.count(o)))
            .filter(|(_, n)| *n > 0)
            .map(|(o, n)| format!("{n} {}", o.word()))
            .collect();
        let mut out = format!(
            "{all} run{}: {}\n",
            if all == 1 { "" } else { "s" },
            if words.is_empty() {
                "none made".to_owned()
            } else {
                words.join(", ")
            }
        );
        let (told, voids) = (
            all - self.count(Outcome::Void),
            voids_text(self.count(Outcome::Void)),
        );
        for (s, n) in &self.signatures {
            let _ = writeln!(out, "  signature {s}: {n} of {told}{voids}");
        }
        if self.exit() == Exit::End && self.count(Outcome::Pass) < all {
            out.push_str("  nothing failed, but not every run could be judged in full: exit 0\n");
        }
        out
    }
}

/// What a rate says of runs that are not in it.
#[must_use]
pub fn voids_text(voids: usize) -> String {
    match voids {
        0 => String::new(),
        n => format!(", and {n} more void"),
    }
}

/// One run as text; `head` says which (`run 1 of 3`).
#[must_use]
pub fn run_text(head: &str, outcome: Outcome, p: &RunProduct, j: &Judgement) -> String {
    let r = &p.record;
    let asked = r.sequence.as_ref().map_or(0, |s| s.faults.len());
    #[allow(clippy::cast_precision_loss)] // ms of one run
    let secs = r.times.total as f64 / 1000.0;
    let mut out = format!(
        "{head}: {}, injected {} of {asked}, {secs:.2} s\n",
        outcome.word(),
        r.injected.len(),
    );
    let _ = writeln!(out, "  times: {}", times(&r.times));
    for line in p.spared() {
        let _ = writeln!(out, "  {line}");
    }
    for i in &r.injected {
        let _ = writeln!(
            out,
            "  fault {}: {}: {}",
            i.index + 1,
            fault_text(&i.matched, &p.trace),
            done(i)
        );
    }
    if let Some(n) = &r.not_injected {
        let what = r
            .sequence
            .as_ref()
            .and_then(|s| s.faults.get(n.index))
            .map_or_else(String::new, |f| format!(" {}:", fault_text(f, &p.trace)));
        let _ = writeln!(
            out,
            "  fault {}:{what} not injected: {}: {} (arrivals of its stack: {})",
            n.index + 1,
            n.reason,
            n.detail,
            n.nearest
        );
    }
    for (from, to) in &r.renamed {
        let _ = writeln!(out, "  renamed: {from} of the sequence is {to} in this run");
    }
    for e in &r.exits {
        let how = match (e.status, e.signal) {
            (Some(s), _) => format!("with status {s}"),
            (None, Some(s)) => format!("by signal {s}"),
            (None, None) => "in an unknown way".to_owned(),
        };
        let _ = writeln!(
            out,
            "  self-exit: {} ended {how} in phase {}",
            e.node, e.phase
        );
    }
    for f in &j.failures {
        let at = [
            Some(f.kind.to_string()),
            Some(f.stage.to_string()),
            f.role.clone(),
            f.node.as_ref().map(ToString::to_string),
        ];
        let at: Vec<String> = at.into_iter().flatten().collect();
        let _ = writeln!(
            out,
            "  failure: {} ({}), signature {}",
            f.checker,
            at.join(", "),
            f.signature
        );
        for line in &f.evidence {
            let _ = writeln!(out, "    {}", clip(line, EVIDENCE));
        }
    }
    for u in &j.unknowns {
        let _ = writeln!(out, "  unknown: {}: {}", u.checker, u.why);
    }
    if let Some(v) = j.void.as_ref().or(r.void.as_ref()) {
        let _ = writeln!(out, "  void: {v}");
    }
    if r.timed_out {
        out.push_str("  the run passed its limit (-t)\n");
    }
    if let Some(e) = &r.workload_error {
        let _ = writeln!(out, "  workload: {e}");
    }
    for w in &r.warnings {
        let _ = writeln!(out, "  warning: {w}");
    }
    // Evidence has log lines of the target in it.
    printable(&out)
}

fn times(t: &PhaseTimes) -> String {
    [
        ("slot", t.slot),
        ("start", t.start),
        ("setup", t.setup),
        ("test", t.test),
        ("degraded", t.degraded),
        ("heal", t.heal),
        ("final", t.finale),
        ("collect", t.collect),
    ]
    .iter()
    .map(|(name, ms)| format!("{name} {ms} ms"))
    .collect::<Vec<_>>()
    .join(", ")
}

fn done(i: &Injected) -> String {
    let mut out = "done".to_owned();
    if let Some(k) = &i.kill {
        #[allow(clippy::cast_precision_loss)] // microseconds of one kill
        let (s, r) = (k.signal_us as f64 / 1000.0, k.reap_us as f64 / 1000.0);
        let _ = write!(out, ", signal after {s:.2} ms, gone {r:.1} ms later");
        if k.late_events > 0 {
            let _ = write!(out, ", {} events after the signal", k.late_events);
        }
    }
    if let Some((asked, got)) = i.drift {
        let _ = write!(out, ", drift (occurrence {got} instead of {asked})");
    }
    if i.late {
        out.push_str(", late (its thread was held for too long)");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{
        At, CrashStyle, Failure, Fault, FaultSequence, KillLatency, NodeName, NotInjected,
        RunRecord, Stage, Unknown, Who,
    };

    fn failure(kind: FailureKind) -> Failure {
        Failure {
            checker: "replicas".into(),
            kind,
            stage: Stage::Healed,
            role: Some("leader".into()),
            node: Some(NodeName::from("n2")),
            evidence: vec!["n1 has 5, n2 has 4".into()],
            normalised: "N has N".into(),
            signature: "1a2b3c4d".into(),
        }
    }

    fn judged(verdict: Verdict, failures: Vec<Failure>) -> Judgement {
        Judgement {
            verdict,
            failures,
            ..Judgement::default()
        }
    }

    fn missing() -> RunProduct {
        RunProduct {
            record: RunRecord {
                not_injected: Some(NotInjected {
                    index: 1,
                    reason: "silence".into(),
                    detail: "no event for 2 s".into(),
                    nearest: 4,
                }),
                ..RunRecord::default()
            },
            ..RunProduct::default()
        }
    }

    #[test]
    fn outcomes_and_exit_codes() {
        let full = RunProduct::default();
        let hang = judged(Verdict::Fail, vec![failure(FailureKind::Hang)]);
        let both = judged(
            Verdict::Fail,
            vec![failure(FailureKind::Hang), failure(FailureKind::Safety)],
        );
        let void = Judgement {
            void: Some("tmpfs full".into()),
            ..hang.clone()
        };
        let pass = judged(Verdict::Pass, vec![]);
        let unknown = judged(Verdict::Unknown, vec![]);
        let table = [
            (&full, &pass, Outcome::Pass, Exit::End),
            (&full, &unknown, Outcome::Unknown, Exit::End),
            (&full, &hang, Outcome::Hang, Exit::Hang),
            (&full, &both, Outcome::Fail, Exit::Bug),
            (&full, &void, Outcome::Void, Exit::End),
            (&missing(), &pass, Outcome::NotInjected, Exit::End),
            (&missing(), &both, Outcome::Fail, Exit::Bug),
        ];
        for (p, j, want, exit) in table {
            let got = Outcome::of(p, j);
            assert_eq!(got, want);
            let mut t = Tally::default();
            t.add(got, j);
            assert_eq!(t.exit(), exit);
        }
    }

    #[test]
    fn a_bug_outranks_a_hang_and_the_summary_counts() {
        let hang = judged(Verdict::Fail, vec![failure(FailureKind::Hang)]);
        let fail = judged(Verdict::Fail, vec![failure(FailureKind::Safety)]);
        let mut t = Tally::default();
        t.add(Outcome::Hang, &hang);
        t.add(Outcome::Fail, &fail);
        t.add(Outcome::Pass, &Judgement::default());
        assert_eq!(t.exit(), Exit::Bug);
        assert_eq!(
            t.summary(),
            "3 runs: 1 fail, 1 hang, 1 pass\n  signature 1a2b3c4d: 2 of 3\n"
        );
        t.add(Outcome::Void, &Judgement::default());
        assert_eq!(
            t.summary(),
            "4 runs: 1 fail, 1 hang, 1 pass, 1 void\n  signature 1a2b3c4d: 2 of 3, and 1 more void\n"
        );
        let mut other = failure(FailureKind::Liveness);
        other.signature = "9b6ac442".into();
        let both = judged(Verdict::Fail, vec![failure(FailureKind::Safety), other]);
        let mut t = Tally::default();
        t.add(Outcome::Fail, &both);
        t.add(Outcome::Fail, &fail);
        t.add(Outcome::Fail, &both);
        assert_eq!(
            t.summary(),
            "3 runs: 3 fail\n  signature 1a2b3c4d: 3 of 3\n  signature 9b6ac442: 2 of 3\n"
        );
        let mut quiet = Tally::default();
        quiet.add(Outcome::NotInjected, &Judgement::default());
        assert!(quiet.summary().contains("exit 0"));
    }

    #[test]
    fn a_run_says_everything() {
        let mut p = missing();
        p.record.sequence = Some(
            FaultSequence::empty("t")
                .with(
                    At::AtOnce,
                    Fault::Crash {
                        who: Who::Node("n1".into()),
                        style: CrashStyle::Process,
                    },
                )
                .with(At::Joined("n1".into()), Fault::PartitionStop),
        );
        p.record.injected = vec![Injected {
            index: 0,
            matched: p.record.sequence.clone().unwrap().faults[0].clone(),
            event: None,
            t_reached: 0,
            t_done: 1,
            late: true,
            drift: Some((3, 2)),
            kill: Some(KillLatency {
                signal_us: 310,
                reap_us: 20_000,
                late_events: 0,
            }),
        }];
        p.record.times.total = 4120;
        let mut j = judged(Verdict::Fail, vec![failure(FailureKind::Safety)]);
        j.unknowns.push(Unknown {
            checker: "serve".into(),
            why: "stalled".into(),
            by_load: true,
        });
        let text = run_text("run 1 of 1", Outcome::Fail, &p, &j);
        for want in [
            "run 1 of 1: fail, injected 1 of 2, 4.12 s",
            "fault 1: crash n1 at once: done, signal after 0.31 ms, gone 20.0 ms later, drift (occurrence 2 instead of 3), late",
            "fault 2: partition-stop when n1 has joined: not injected: silence: no event for 2 s (arrivals of its stack: 4)",
            "failure: replicas (safety, healed, leader, n2), signature 1a2b3c4d\n    n1 has 5, n2 has 4",
            "unknown: serve: stalled",
        ] {
            assert!(text.contains(want), "lacks `{want}`:\n{text}");
        }
    }
}
