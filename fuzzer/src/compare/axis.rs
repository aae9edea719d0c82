//! What a comparison's curves go over, and in which of them a bug's time is counted. Called by all that shows figures. Pure.

use super::table::{Head, Row};

/// How a budget of CPU time is told in a table's head, after the number.
pub const CPU_SECONDS: &str = " CPU seconds";

/// What a curve goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    Tests,
    Seconds,
    CpuSeconds,
}

impl Axis {
    /// What the campaigns were given alike, and so what a bug's time is counted in: CPU time where that was the budget, else tests.
    #[must_use]
    pub fn of_budget(head: &Head) -> Self {
        let budget = head.comparison.get("budget").unwrap_or_default();
        // What may end one before is after a comma.
        let budget = budget.split(',').next().unwrap_or_default();
        match budget.ends_with(CPU_SECONDS) {
            true => Axis::CpuSeconds,
            false => Axis::Tests,
        }
    }

    /// How long a campaign was.
    #[must_use]
    pub fn length(self, row: &Row) -> f64 {
        match self {
            Axis::Tests => row.tests as f64,
            Axis::Seconds => row.seconds,
            Axis::CpuSeconds => row.cpu_seconds,
        }
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Axis::Tests => "tests",
            Axis::Seconds => "seconds",
            Axis::CpuSeconds => "CPU s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::state::Identity;

    #[test]
    fn bugs_are_counted_in_what_the_campaigns_were_given_alike() {
        let table = [
            ("200 runs", Axis::Tests),
            ("200 runs, or until CPU seconds", Axis::Tests),
            ("3600 CPU seconds", Axis::CpuSeconds),
            (
                "3600 CPU seconds, or until (c) the deep one",
                Axis::CpuSeconds,
            ),
        ];
        for (budget, over) in table {
            let mut comparison = Identity::default();
            comparison.put("budget", budget);
            assert_eq!(Axis::of_budget(&Head::new(comparison)), over, "{budget}");
        }
    }
}
