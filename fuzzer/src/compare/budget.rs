//! A table read at a smaller budget: each campaign as it stood when it had used so much CPU time. Called by [`super`] for its report. Pure.
//!
//! No search looks at its budget, so a campaign of `--runs` read so is the campaign of `--cpu-seconds` that it would have been. It refuses
//! tables in which that says nothing: where all had this budget, and where campaigns ended with what they looked for.

use super::outcome::Ends;
use super::table::{CPU, EXHAUSTED, FOUND, Point, Row};

/// The rows as they stood at the CPU time that every campaign used; a campaign that had nothing left to try stands where it ended.
#[must_use]
pub fn at_equal_cpu(rows: &[Row]) -> Option<Vec<Row>> {
    let at_budget = |r: &Row| [CPU, EXHAUSTED].contains(&r.ended.as_str());
    if rows.iter().any(|r| r.ended == FOUND) || rows.iter().all(at_budget) {
        return None;
    }
    let least = Ends::of(rows).cpu_seconds;
    Some(rows.iter().map(|r| at_cpu(r, least)).collect())
}

/// A campaign when it had used so much CPU time; one that ended before stays as it is.
fn at_cpu(row: &Row, cpu_seconds: f64) -> Row {
    if row.cpu_seconds <= cpu_seconds {
        return row.clone();
    }
    let mut cut = row.clone();
    cut.curve.retain(|p| p.cpu_seconds <= cpu_seconds);
    cut.failing.retain(|f| f.cpu_seconds <= cpu_seconds);
    let before = cut.curve.last().copied().unwrap_or_default();
    // The curve has points only where something changed: tests and time in between pass evenly.
    if let Some(after) = row.curve.get(cut.curve.len()) {
        let share = (cpu_seconds - before.cpu_seconds) / (after.cpu_seconds - before.cpu_seconds);
        let between = |from: f64, to: f64| from + share * (to - from);
        cut.curve.push(Point {
            tests: between(before.tests as f64, after.tests as f64) as u64,
            seconds: between(before.seconds, after.seconds),
            cpu_seconds,
            ..before
        });
    }
    let end = cut.curve.last().copied().unwrap_or_default();
    (cut.tests, cut.seconds, cut.cpu_seconds) = (end.tests, end.seconds, cpu_seconds);
    cut.ended = CPU.into();
    cut
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::campaign;
    use super::*;

    /// `campaign`: ten tests, 2 s and 3 CPU s each, the slots of the end from test 5 on.
    #[test]
    fn each_campaign_is_read_where_the_cheapest_one_ended() {
        let mut cheap = campaign("a", 1, 200, Some(9));
        cheap.curve.iter_mut().for_each(|p| p.cpu_seconds /= 3.0);
        cheap.failing[0].cpu_seconds = 9.0;
        cheap.cpu_seconds = 10.0;
        let rows = [
            cheap.clone(),
            campaign("b", 1, 300, Some(3)),
            campaign("b", 2, 300, Some(4)),
        ];
        let cut = at_equal_cpu(&rows).unwrap();
        assert_eq!(cut[0], cheap);
        let b = &cut[1];
        // 10 of the 15 CPU s up to test 5: three tests are over, the fourth goes on.
        assert_eq!((b.tests, b.cpu_seconds, b.ended.as_str()), (3, 10.0, CPU));
        assert!((b.seconds - 20.0 / 3.0).abs() < 1e-9, "{}", b.seconds);
        assert_eq!(b.curve.last().unwrap().slots, 100);
        assert_eq!(b.failing.len(), 1, "its bug came at 9 CPU s");
        assert_eq!(cut[2].failing.len(), 0, "and this one at 12");
    }

    #[test]
    fn where_it_says_nothing_there_is_none() {
        let with = |ended: &str| {
            let mut row = campaign("a", 1, 200, None);
            row.ended = ended.into();
            row
        };
        let table = [
            (vec![], false),
            (vec![with(CPU), with(CPU)], false),
            (vec![with("runs"), with(FOUND)], false),
            (vec![with("exhausted")], false),
            (vec![with(CPU), with("exhausted")], false),
            (vec![with("runs"), with("exhausted")], true),
        ];
        for (rows, told) in table {
            assert_eq!(at_equal_cpu(&rows).is_some(), told, "{rows:?}");
        }
    }
}
