//! What one campaign came to, from its runs.jsonl and fuzzer_stats. Called by [`super::run`]; reads no file itself, and estimates nothing.

use crate::campaign::{RunRole, StoredLine};
use crate::whatsup::instance::Stats;
use serde::Serialize;

/// What one campaign came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlotsRow {
    /// As asked for, `auto`, `2/cold`.
    pub slots: String,
    /// How many there were.
    pub took: u64,
    /// Tested by the strategy, as the campaign counts them.
    pub sequences: u64,
    /// Of fuzzing, to the end of the last run.
    pub seconds: f64,
    pub per_hour: f64,
    /// Mean of a sequence's run.
    pub wall_s: f64,
    /// All that was spent, of prefixes and confirmations, too, on each sequence.
    pub cpu_s: f64,
    /// Of all cores.
    pub cpu_share: f64,
    pub from_prefix: f64,
    pub injected_in_full: f64,
    /// Runs that confirmed findings, which have the machine for themselves where a failure is one of liveness.
    pub replays: u64,
}

#[allow(clippy::cast_precision_loss)] // times and numbers of runs are far below 2^52
impl SlotsRow {
    /// Of the two files of a campaign with `slots`, as asked for, on a machine of so many cores.
    ///
    /// # Errors
    /// A line that is none, or a campaign without one tested sequence.
    pub(super) fn of(
        slots: String,
        jsonl: &str,
        stats: &Stats,
        cores: usize,
    ) -> Result<Self, String> {
        let mut fuzzing = Vec::new();
        for line in StoredLine::all(jsonl) {
            let line = line?;
            if line.role != RunRole::Learning {
                fuzzing.push(line);
            }
        }
        let tested: Vec<&StoredLine> = fuzzing
            .iter()
            .filter(|l| matches!(l.role, RunRole::Fuzz | RunRole::Repeat) && l.void.is_none())
            .collect();
        let sequences = stats.number("sequences_tested");
        let (n, runs, ms) = (sequences as f64, tested.len() as f64, 1000.0);
        let seconds = fuzzing.iter().map(|l| l.at_ms).max().unwrap_or(0) as f64 / ms;
        if sequences == 0 || tested.is_empty() || seconds <= 0.0 {
            return Err("no sequence was tested".into());
        }
        let spent = fuzzing.iter().map(|l| l.spent_ms).sum::<u64>() as f64 / ms;
        let share = |of: &dyn Fn(&StoredLine) -> bool| {
            tested.iter().filter(|l| of(l)).count() as f64 / runs
        };
        Ok(SlotsRow {
            slots,
            took: stats.number("side_by_side"),
            sequences,
            seconds,
            per_hour: 3600.0 * n / seconds,
            wall_s: tested.iter().map(|l| l.times_ms.total).sum::<u64>() as f64 / ms / runs,
            cpu_s: spent / n,
            cpu_share: spent / seconds / cores as f64,
            from_prefix: share(&|l| l.from_prefix.is_some()),
            injected_in_full: share(&|l| l.reason.is_none()),
            replays: fuzzing
                .iter()
                .filter(|l| l.role == RunRole::Confirm)
                .count() as u64,
        })
    }

    pub(super) fn is_usual(&self) -> bool {
        !self.slots.contains('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(role: &str, at: u64, total: u64, spent: u64, rest: &str) -> String {
        format!(
            "{{\"role\":\"{role}\",\"at_ms\":{at},\"times_ms\":{{\"total\":{total}}},\"spent_ms\":{spent},\"slots\":1,\"sequences\":1,{rest}}}\n"
        )
    }

    fn stats(took: u64, tested: u64) -> Stats {
        Stats::parse(&format!(
            "start_time : 1\nlast_update : 2\nfuzzer_pid : 3\nexecs_done : 4\nside_by_side : {took}\nsequences_tested : {tested}\n"
        ))
        .unwrap()
    }

    const GOOD: &str = "\"reason\":null,\"void\":null";

    #[test]
    fn a_row_counts_what_the_strategy_tested() {
        let text = [
            line("learning", 0, 9000, 90_000, GOOD),
            line("fuzz", 5000, 4000, 3000, GOOD),
            line(
                "fuzz",
                6000,
                2000,
                2000,
                "\"reason\":\"it was not reached\",\"void\":null,\"from_prefix\":2",
            ),
            line(
                "fuzz",
                7000,
                9000,
                500,
                "\"reason\":null,\"void\":\"starved\"",
            ),
            line("repeat", 8000, 6000, 500, GOOD),
            line("confirm", 10_000, 3000, 2500, GOOD),
        ]
        .concat();
        let row = SlotsRow::of("auto".into(), &text, &stats(2, 3), 2).unwrap();
        let want = SlotsRow {
            slots: "auto".into(),
            took: 2,
            sequences: 3,
            seconds: 10.0,
            per_hour: 1080.0,
            wall_s: 4.0,
            cpu_s: 8.5 / 3.0,
            cpu_share: 0.425,
            from_prefix: 1.0 / 3.0,
            injected_in_full: 2.0 / 3.0,
            replays: 1,
        };
        assert_eq!(row, want);
        let e = SlotsRow::of(
            "auto".into(),
            &line("learning", 0, 1, 1, GOOD),
            &stats(1, 0),
            2,
        )
        .unwrap_err();
        assert!(e.contains("no sequence"), "{e}");
        let e = SlotsRow::of("auto".into(), "{}\n", &stats(1, 0), 2).unwrap_err();
        assert!(e.contains("line 1"), "{e}");
    }
}
