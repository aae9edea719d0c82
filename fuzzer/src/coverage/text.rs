//! What `warren coverage` prints, and its CSV files. Pure.

use super::count::{Counted, Counter, Counters};
use super::table::Table;
use crate::text::clock;
use std::fmt::Write as _;

/// What stands over the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    pub instances: usize,
    /// Of the campaign, when something new was executed last.
    pub last_ms: u64,
    pub executed: usize,
}

/// The report: a line a package, all, and what runs without faults had executed by themselves.
#[must_use]
pub fn report(table: &Table, all: &Counted, fault_free: &Counters, about: &Heading) -> String {
    let mut out = format!(
        "lines and branches by JaCoCo's rules (docs/coverage.md); {} instance{}, last new at {}, {} of {} probes executed\n",
        about.instances,
        if about.instances == 1 { "" } else { "s" },
        clock(about.last_ms),
        about.executed,
        table.probes,
    );
    let named = |name: &str| match name {
        "" => "(default package)".to_owned(),
        name => name.replace('/', "."),
    };
    let rows: Vec<(String, &Counters)> = all
        .packages
        .iter()
        .map(|(name, counters)| (named(name), counters))
        .chain([
            ("all".to_owned(), &all.total),
            ("all, without faults".to_owned(), fault_free),
        ])
        .collect();
    out.push_str(&self::rows("package", &rows));
    for note in &table.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// A line each: name, lines, branches.
#[must_use]
pub fn rows(what: &str, rows: &[(String, &Counters)]) -> String {
    let names = rows.iter().map(|(name, _)| name.len());
    let width = names.chain([what.len()]).max().unwrap_or(0);
    let mut out = format!("{what:width$} {:>24} {:>24}\n", "lines", "branches");
    for (name, c) in rows {
        let (lines, branches) = (cell(c.lines), cell(c.branches));
        let _ = writeln!(out, "{name:width$} {lines:>24} {branches:>24}");
    }
    out
}

fn cell(c: Counter) -> String {
    match c.percent() {
        Some(percent) => format!("{} / {} {percent:6.2} %", c.covered, c.all),
        None => "-".to_owned(),
    }
}

/// A line a class, in the columns of JaCoCo's own CSV report.
#[must_use]
pub fn csv(table: &Table, all: &Counted) -> String {
    let mut out = String::from(
        "GROUP,PACKAGE,CLASS,INSTRUCTION_MISSED,INSTRUCTION_COVERED,BRANCH_MISSED,BRANCH_COVERED,LINE_MISSED,LINE_COVERED,\
         COMPLEXITY_MISSED,COMPLEXITY_COVERED,METHOD_MISSED,METHOD_COVERED\n",
    );
    let mut rows: Vec<_> = table.classes.iter().zip(&all.classes).collect();
    rows.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    for (class, c) in rows {
        if c.instructions.all == 0 {
            continue;
        }
        let _ = write!(
            out,
            "warren,{},{}",
            class.package().replace('/', "."),
            class.simple()
        );
        for counter in [c.instructions, c.branches, c.lines, c.complexity, c.methods] {
            let _ = write!(out, ",{},{}", counter.missed(), counter.covered);
        }
        out.push('\n');
    }
    out
}

/// Lines and branches over time: a line each time something new was executed.
#[must_use]
pub fn over_time(points: &[(u64, Counters)]) -> String {
    let mut out = String::from("seconds,lines_covered,lines,branches_covered,branches\n");
    for (ms, c) in points {
        let _ = writeln!(
            out,
            "{}.{:03},{},{},{},{}",
            ms / 1000,
            ms % 1000,
            c.lines.covered,
            c.lines.all,
            c.branches.covered,
            c.branches.all
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::count::count;
    use super::super::table::SAMPLE;
    use super::*;

    #[test]
    fn report_and_files() {
        let table = Table::parse(SAMPLE).unwrap();
        let mut executed = vec![false; table.probes];
        executed[0] = true;
        let first = count(&table, &executed);
        executed[7] = true;
        let all = count(&table, &executed);
        let about = Heading {
            instances: 1,
            last_ms: 3_723_000,
            executed: 2,
        };
        assert_eq!(
            report(&table, &all, &first.total, &about),
            "lines and branches by JaCoCo's rules (docs/coverage.md); 1 instance, last new at 1h02m03s, 2 of 9 probes executed\n\
             package                                lines                 branches\n\
             a                             2 / 5  40.00 %           1 / 4  25.00 %\n\
             c                             1 / 1 100.00 %                        -\n\
             all                           3 / 6  50.00 %           1 / 4  25.00 %\n\
             all, without faults           2 / 6  33.33 %           1 / 4  25.00 %\n\
             note: method a.B.big()V counts as never executed\n"
        );
        let rows = csv(&table, &all);
        let rows: Vec<&str> = rows.lines().collect();
        assert!(rows[0].starts_with("GROUP,PACKAGE,CLASS,INSTRUCTION_MISSED"));
        assert_eq!(rows[1], "warren,a,B,6,5,3,1,2,2,3,1,1,1");
        assert_eq!(rows[2], "warren,a,B$C,3,0,0,0,2,0,1,0,1,0");
        assert_eq!(rows[3], "warren,c,D,0,5,0,0,0,1,0,1,0,1");
        assert_eq!(
            over_time(&[(1500, first.total), (61_002, all.total)]),
            "seconds,lines_covered,lines,branches_covered,branches\n1.500,2,6,1,4\n61.002,3,6,1,4\n"
        );
    }
}
