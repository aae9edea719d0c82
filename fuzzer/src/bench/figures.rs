//! The figures of `warren bench` from raw samples: medians, means, percentiles, table and JSON. Pure.
//!
//! Seconds, milliseconds and MiB as the names say. A figure without samples is absent (`null`, `-`), never 0.

use crate::compare::stats::median;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;
use warren_model::{HistoryEvent, LogMoment, Outcome, Phase, RunProduct, RunRecord};

/// Raw samples of one bench.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// One pair per entry: without the agent, with it. Launch to ready plus the plain operations.
    pub pairs: Vec<(PlainRun, PlainRun)>,
    /// One entry per sequence the strategy picked and every try of it.
    pub tests: Vec<FaultTest>,
    /// Restored instead of launched, with the agent, and the same operations.
    pub restored: Vec<RestoredRun>,
    /// As `tests`, of a campaign that starts from snapshots (and cold, by the usual share).
    pub warm_tests: Vec<FaultTest>,
    /// As `warm_tests`, where children of one run share its faults.
    pub prefix_tests: Vec<FaultTest>,
    /// Own peak of resident memory, MiB.
    pub rss_mib: Option<f64>,
}

/// A run without faults and without sleeps that started from a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RestoredRun {
    /// From taking the slot to the end of the operations.
    pub wall_s: f64,
    pub cpu_s: f64,
    /// From taking the slot to the first operation that was answered ok.
    pub first_op_s: f64,
}

/// A run without faults and without sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlainRun {
    pub wall_s: f64,
    pub cpu_s: f64,
}

/// One fault test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultTest {
    /// From taking the slot to the verdict.
    pub secs: f64,
    pub injected_in_full: bool,
    /// Of all processes of the slot.
    pub cpu_s: f64,
    /// It began from a prefix snapshot.
    pub from_prefix: bool,
    /// It began from a snapshot, and its faults are crashes and reboots, which is all that CrashFuzz injects.
    pub crashes_only: bool,
    /// (point reached -> signal sent, signal sent -> reaped) of each crash, ms.
    pub kills: Vec<(f64, f64)>,
    /// Events of killed nodes more than 2 ms after their signal.
    pub late_events: u32,
}

impl PlainRun {
    /// Launch to ready, connect and the operations; not the slot, the checks or the collection.
    #[must_use]
    pub fn of(r: &RunRecord) -> Self {
        PlainRun {
            wall_s: ms(r.times.start + r.times.setup + r.times.test) / 1000.0,
            cpu_s: ms(r.cpu_ms) / 1000.0,
        }
    }
}

impl RestoredRun {
    /// `None` when no operation was answered.
    #[must_use]
    pub fn of(p: &RunProduct) -> Option<Self> {
        let r = &p.record;
        // The first thing after the restore.
        let restored = p
            .log_marks
            .iter()
            .find(|m| m.at == LogMoment::Phase(Phase::Setup))?
            .t_ns;
        let first = p.history.iter().find_map(|h| match h {
            HistoryEvent::Done(d) if d.t_ns > restored && d.outcome == Outcome::Ok => Some(d.t_ns),
            _ => None,
        })?;
        Some(RestoredRun {
            wall_s: ms(r.times.slot + r.times.test) / 1000.0,
            cpu_s: ms(r.cpu_ms) / 1000.0,
            first_op_s: (ms(r.times.slot) + ms((first - restored) / 1000) / 1000.0) / 1000.0,
        })
    }
}

impl FaultTest {
    /// A test that took so long, with the latencies of its crashes in microseconds.
    #[must_use]
    pub fn new(
        spent: Duration,
        injected_in_full: bool,
        cpu_ms: u64,
        signal_us: &[u64],
        reap_us: &[u64],
        late_events: u32,
    ) -> Self {
        FaultTest {
            secs: spent.as_secs_f64(),
            injected_in_full,
            cpu_s: ms(cpu_ms) / 1000.0,
            from_prefix: false,
            crashes_only: false,
            kills: signal_us
                .iter()
                .zip(reap_us)
                .map(|(s, r)| (ms(*s) / 1000.0, ms(*r) / 1000.0))
                .collect(),
            late_events,
        }
    }
}

/// A line of the table.
struct Row {
    name: &'static str,
    measured: Option<f64>,
    unit: &'static str,
    /// Warren's own.
    limit: Option<f64>,
    /// CrashFuzz's figure.
    paper: &'static str,
}

fn row(name: &'static str, measured: Option<f64>, unit: &'static str) -> Row {
    Row {
        name,
        measured,
        unit,
        limit: None,
        paper: "",
    }
}

impl Row {
    fn limit(self, limit: f64) -> Row {
        let limit = Some(limit);
        Row { limit, ..self }
    }

    fn paper(self, paper: &'static str) -> Row {
        Row { paper, ..self }
    }

    fn to_line(&self) -> String {
        let shown = match self.measured {
            Some(v) => format!("{v:.2} {}", self.unit),
            None => "-".to_owned(),
        };
        let verdict = match (self.measured, self.limit) {
            (Some(v), Some(l)) if v > l => "over",
            (Some(_), Some(_)) => "ok",
            _ => "",
        };
        let limit = self.limit.map_or_else(String::new, |l| format!("{l:.1}"));
        format!(
            "{:<36} {:>12} {limit:>8} {:>9}  {verdict}",
            self.name,
            shown.trim_end(),
            self.paper
        )
    }
}

/// What bench prints. The first nine keys are fixed: scripts read them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub plain_run_s: Option<f64>,
    pub agent_run_s: Option<f64>,
    /// Wall time of fault-free runs, agent / no agent.
    pub agent_ratio: Option<f64>,
    /// The same in CPU seconds of all processes in the slot.
    pub agent_cpu_ratio: Option<f64>,
    /// Mean fault test.
    pub fault_test_s: Option<f64>,
    /// Mean fault test / plain run.
    pub fault_test_ratio: Option<f64>,
    pub kill_latency_ms_p99: Option<f64>,
    pub reap_latency_ms_p99: Option<f64>,
    pub rss_mib: Option<f64>,
    /// From a restore's start to the first operation that was answered; absent where snapshots do not work.
    pub restore_to_first_op_s: Option<f64>,
    /// Fault-free, from a snapshot.
    pub snapshot_run_s: Option<f64>,
    pub snapshot_run_ratio: Option<f64>,
    /// Mean fault test of a campaign with snapshots.
    pub snapshot_test_s: Option<f64>,
    pub snapshot_test_ratio: Option<f64>,
    /// CPU seconds of its mean test.
    pub snapshot_test_cpu_s: Option<f64>,
    /// Of its tests from a snapshot those without a partition, as CrashFuzz's tests are: their mean / plain run.
    pub snapshot_crash_ratio: Option<f64>,
    /// Mean fault test of a campaign with snapshots and prefix snapshots, the making of both included.
    pub prefix_test_s: Option<f64>,
    pub prefix_test_ratio: Option<f64>,
    /// As `snapshot_crash_ratio`.
    pub prefix_crash_ratio: Option<f64>,
    pub prefix_test_cpu_s: Option<f64>,
    /// Of its tests, those that began from a prefix snapshot.
    pub prefix_share: Option<f64>,
    pub fault_test_cpu_s: Option<f64>,
    pub plain_cpu_s: Option<f64>,
    pub agent_cpu_s: Option<f64>,
    /// Events of a killed node more than 2 ms after its signal.
    pub late_events: u64,
    pub pairs: usize,
    pub fault_tests: usize,
    pub fault_tests_injected: usize,
    /// From a snapshot, without a partition.
    pub crash_tests: usize,
    pub kills: usize,
}

impl Figures {
    /// Medians over pairs, mean over fault tests, 99th percentile over kills.
    #[must_use]
    pub fn of(s: &Samples) -> Self {
        let column =
            |f: fn(&(PlainRun, PlainRun)) -> f64| -> Vec<f64> { s.pairs.iter().map(f).collect() };
        let plain_run_s = median(&column(|p| p.0.wall_s));
        let agent_run_s = median(&column(|p| p.1.wall_s));
        let plain_cpu_s = median(&column(|p| p.0.cpu_s));
        let agent_cpu_s = median(&column(|p| p.1.cpu_s));
        let tests: Vec<f64> = s.tests.iter().map(|t| t.secs).collect();
        let fault_test_s = mean(&tests);
        let of = |tests: &[FaultTest], f: fn(&FaultTest) -> f64| {
            mean(&tests.iter().map(f).collect::<Vec<_>>())
        };
        let restored =
            |f: fn(&RestoredRun) -> f64| median(&s.restored.iter().map(f).collect::<Vec<_>>());
        let snapshot_run_s = restored(|r| r.wall_s);
        let snapshot_test_s = of(&s.warm_tests, |t| t.secs);
        let prefix_test_s = of(&s.prefix_tests, |t| t.secs);
        let crash_ratio = |tests: &[FaultTest]| {
            let crashes = tests.iter().filter(|t| t.crashes_only);
            ratio(
                mean(&crashes.map(|t| t.secs).collect::<Vec<_>>()),
                plain_run_s,
            )
        };
        let all = || {
            let snapshots = s.warm_tests.iter().chain(&s.prefix_tests);
            s.tests.iter().chain(snapshots)
        };
        let kills: Vec<(f64, f64)> = all().flat_map(|t| t.kills.clone()).collect();
        let signals: Vec<f64> = kills.iter().map(|k| k.0).collect();
        let reaps: Vec<f64> = kills.iter().map(|k| k.1).collect();
        Figures {
            agent_ratio: ratio(agent_run_s, plain_run_s),
            agent_cpu_ratio: ratio(agent_cpu_s, plain_cpu_s),
            fault_test_ratio: ratio(fault_test_s, plain_run_s),
            snapshot_run_ratio: ratio(snapshot_run_s, plain_run_s),
            snapshot_test_ratio: ratio(snapshot_test_s, plain_run_s),
            restore_to_first_op_s: restored(|r| r.first_op_s),
            snapshot_crash_ratio: crash_ratio(&s.warm_tests),
            prefix_crash_ratio: crash_ratio(&s.prefix_tests),
            snapshot_test_cpu_s: of(&s.warm_tests, |t| t.cpu_s),
            fault_test_cpu_s: of(&s.tests, |t| t.cpu_s),
            prefix_test_ratio: ratio(prefix_test_s, plain_run_s),
            prefix_test_cpu_s: of(&s.prefix_tests, |t| t.cpu_s),
            prefix_share: of(&s.prefix_tests, |t| f64::from(u8::from(t.from_prefix))),
            prefix_test_s,
            snapshot_run_s,
            snapshot_test_s,
            plain_run_s,
            agent_run_s,
            fault_test_s,
            kill_latency_ms_p99: percentile(&signals, 99),
            reap_latency_ms_p99: percentile(&reaps, 99),
            rss_mib: s.rss_mib,
            plain_cpu_s,
            agent_cpu_s,
            late_events: all().map(|t| u64::from(t.late_events)).sum(),
            pairs: s.pairs.len(),
            fault_tests: all().count(),
            crash_tests: all().filter(|t| t.crashes_only).count(),
            fault_tests_injected: all().filter(|t| t.injected_in_full).count(),
            kills: kills.len(),
        }
    }

    /// With the limits Warren sets itself and CrashFuzz's figures beside.
    fn rows(&self) -> Vec<Row> {
        vec![
            row("plain run, no agent (median)", self.plain_run_s, "s").paper("7"),
            row("fault-free run with agent (median)", self.agent_run_s, "s"),
            row("  agent / plain, wall", self.agent_ratio, "")
                .limit(1.5)
                .paper("3.6"),
            row("  agent / plain, CPU", self.agent_cpu_ratio, "").limit(1.5),
            row("fault test, cold (mean)", self.fault_test_s, "s").paper("99"),
            row("  fault test / plain", self.fault_test_ratio, "")
                .limit(4.0)
                .paper("14.1"),
            row("  its CPU", self.fault_test_cpu_s, "s"),
            row(
                "restore -> first answer (median)",
                self.restore_to_first_op_s,
                "s",
            )
            .limit(0.5),
            row(
                "fault-free run, restored (median)",
                self.snapshot_run_s,
                "s",
            ),
            row("  restored / plain", self.snapshot_run_ratio, "")
                .limit(0.5)
                .paper("3.6"),
            row("fault test, snapshots (mean)", self.snapshot_test_s, "s").paper("99"),
            row("  fault test / plain", self.snapshot_test_ratio, "")
                .limit(1.0)
                .paper("14.1"),
            row("  its CPU", self.snapshot_test_cpu_s, "s").limit(3.5),
            row(
                "  warm, crash and reboot only / plain",
                self.snapshot_crash_ratio,
                "",
            )
            .limit(1.0)
            .paper("14.1"),
            row(
                "fault test, prefix snapshots (mean)",
                self.prefix_test_s,
                "s",
            )
            .paper("99"),
            row("  fault test / plain", self.prefix_test_ratio, "")
                .limit(1.0)
                .paper("14.1"),
            row("  its CPU", self.prefix_test_cpu_s, "s").limit(3.5),
            row(
                "  warm, crash and reboot only / plain",
                self.prefix_crash_ratio,
                "",
            )
            .limit(1.0)
            .paper("14.1"),
            row("  share that began from one", self.prefix_share, ""),
            row(
                "point reached -> SIGKILL, p99",
                self.kill_latency_ms_p99,
                "ms",
            )
            .limit(5.0),
            row("SIGKILL -> reaped, p99", self.reap_latency_ms_p99, "ms"),
            row("Warren's own memory, peak", self.rss_mib, "MiB").limit(200.0),
        ]
    }

    /// A table with the limits Warren sets itself and CrashFuzz's figures beside.
    #[must_use]
    pub fn table(&self, target: &str) -> String {
        let mut out = format!(
            "{:<36} {:>12} {:>8} {:>9}\n",
            format!("bench {target}"),
            "measured",
            "limit",
            "CrashFuzz"
        );
        for row in self.rows() {
            let _ = writeln!(out, "{}", row.to_line().trim_end());
        }
        let _ = writeln!(
            out,
            "{} pairs, {} fault tests ({} injected in full, {} warm with crash and reboot only), {} kills, {} events later than 2 ms after a signal",
            self.pairs,
            self.fault_tests,
            self.fault_tests_injected,
            self.crash_tests,
            self.kills,
            self.late_events
        );
        out
    }
}

#[allow(clippy::cast_precision_loss)] // times of one run are far below 2^52
fn ms(n: u64) -> f64 {
    n as f64
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) if b > 0.0 => Some(a / b),
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss)] // a number of runs
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Nearest rank: the smallest value that at least `p` percent of the values do not exceed.
fn percentile(values: &[f64], p: usize) -> Option<f64> {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    let rank = (v.len() * p).div_ceil(100);
    v.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_and_ends() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(mean(&[1.0, 3.0]), Some(2.0));
        assert_eq!(percentile(&[], 99), None);
        assert_eq!(percentile(&[5.0], 99), Some(5.0));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99), Some(99.0));
        let two_hundred: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&two_hundred, 99), Some(198.0));
    }

    fn samples() -> Samples {
        let run = |wall_s, cpu_s| PlainRun { wall_s, cpu_s };
        Samples {
            pairs: vec![
                (run(2.0, 4.0), run(2.4, 5.0)),
                (run(2.2, 4.0), run(9.0, 5.0)),
                (run(1.8, 4.0), run(2.2, 5.0)),
            ],
            tests: vec![
                FaultTest {
                    secs: 7.0,
                    injected_in_full: true,
                    cpu_s: 6.0,
                    kills: vec![(0.4, 20.0)],
                    ..FaultTest::default()
                },
                FaultTest {
                    secs: 9.0,
                    injected_in_full: false,
                    cpu_s: 8.0,
                    kills: vec![(6.0, 30.0)],
                    late_events: 2,
                    ..FaultTest::default()
                },
            ],
            restored: vec![RestoredRun {
                wall_s: 0.9,
                cpu_s: 1.0,
                first_op_s: 0.4,
            }],
            warm_tests: vec![FaultTest {
                secs: 3.0,
                injected_in_full: true,
                cpu_s: 2.5,
                ..FaultTest::default()
            }],
            prefix_tests: [true, false]
                .map(|from_prefix| FaultTest {
                    secs: if from_prefix { 1.8 } else { 2.2 },
                    injected_in_full: true,
                    cpu_s: 1.5,
                    from_prefix,
                    // One of each, so that the mean of the crashes is not that of all.
                    crashes_only: from_prefix,
                    ..FaultTest::default()
                })
                .to_vec(),
            rss_mib: Some(60.0),
        }
    }

    #[test]
    fn figures_come_from_samples() {
        let f = Figures::of(&samples());
        assert_eq!(f.plain_run_s, Some(2.0));
        assert_eq!(f.agent_run_s, Some(2.4));
        assert!((f.agent_ratio.unwrap() - 1.2).abs() < 1e-9);
        assert_eq!(f.agent_cpu_ratio, Some(1.25));
        assert_eq!(f.fault_test_s, Some(8.0));
        assert_eq!(f.fault_test_ratio, Some(4.0));
        assert_eq!(f.kill_latency_ms_p99, Some(6.0));
        assert_eq!((f.late_events, f.fault_tests_injected), (2, 4));
        assert_eq!(
            (f.prefix_test_ratio, f.prefix_crash_ratio, f.prefix_share),
            (Some(1.0), Some(0.9), Some(0.5))
        );
        assert_eq!((f.snapshot_crash_ratio, f.crash_tests), (None, 1));
        assert_eq!(f.restore_to_first_op_s, Some(0.4));
        assert_eq!(f.snapshot_run_ratio, Some(0.45));
        assert_eq!(f.snapshot_test_ratio, Some(1.5));
        assert_eq!(
            (f.fault_test_cpu_s, f.snapshot_test_cpu_s),
            (Some(7.0), Some(2.5))
        );
        let table = f.table("t");
        // Cells apart from their columns' widths.
        let cells: Vec<String> = table
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for want in [
            "point reached -> SIGKILL, p99 6.00 ms 5.0 over",
            "fault test / plain 4.00 4.0 14.1 ok",
            "fault test / plain 1.50 1.0 14.1 over",
            "restore -> first answer (median) 0.40 s 0.5 ok",
            "agent / plain, wall 1.20 1.5 3.6 ok",
        ] {
            assert!(cells.iter().any(|c| c == want), "no `{want}`:\n{table}");
        }
    }

    #[test]
    fn json_has_the_fixed_keys_and_null_for_what_was_not_measured() {
        let v = serde_json::to_value(Figures::of(&Samples::default())).unwrap();
        for key in [
            "plain_run_s",
            "agent_run_s",
            "agent_ratio",
            "agent_cpu_ratio",
            "fault_test_s",
            "fault_test_ratio",
            "kill_latency_ms_p99",
            "reap_latency_ms_p99",
            "rss_mib",
        ] {
            assert_eq!(v.get(key), Some(&serde_json::Value::Null), "{key}");
        }
    }
}
