//! `plot_data` taken in: Warren's, or that of an AFL++ whose header names the columns. Pure.

use crate::text::{clip, one_line};
use std::collections::BTreeMap;

/// The columns that are drawn.
pub const WANTED: [&str; 7] = [
    "corpus_count",
    "pending_total",
    "pending_favs",
    "saved_crashes",
    "saved_hangs",
    "execs_per_sec",
    "edges_found",
];

/// The points of one instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Seconds of fuzzing.
    pub time: Vec<f64>,
    columns: BTreeMap<String, Vec<f64>>,
}

impl Series {
    /// Reads a file's text. A last line without its end is being written and is left out.
    ///
    /// # Errors
    /// The line that is no row of numbers, or a header that does not name what is needed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let header = lines
            .next()
            .and_then(|(_, l)| l.trim_end().strip_prefix('#'))
            .ok_or("line 1: no header that begins with `#` and names the columns")?;
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let place = |name: &str| names.iter().position(|n| *n == name);
        let time = place("relative_time")
            .or_else(|| place("unix_time"))
            .ok_or("line 1: no column relative_time or unix_time")?;
        let mut wanted = Vec::new();
        for name in WANTED {
            wanted.push((
                name,
                place(name).ok_or_else(|| format!("line 1: no column {name}"))?,
            ));
        }
        let mut out = Series::default();
        for (i, line) in lines {
            if !line.ends_with('\n') {
                break;
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let number = |at: usize| -> Result<f64, String> {
                let cell = cells.get(at).copied().unwrap_or("");
                cell.trim_end_matches('%')
                    .parse::<f64>()
                    .ok()
                    .filter(|v| v.is_finite() && *v >= 0.0)
                    .ok_or_else(|| {
                        format!(
                            "line {}: `{}` is no number (column {})",
                            i + 1,
                            clip(&one_line(cell), 40),
                            names.get(at).unwrap_or(&"?")
                        )
                    })
            };
            out.time.push(number(time)?);
            for (name, at) in &wanted {
                out.columns
                    .entry((*name).to_owned())
                    .or_default()
                    .push(number(*at)?);
            }
        }
        if place("relative_time").is_none()
            && let Some(first) = out.time.first().copied()
        {
            for t in &mut out.time {
                *t -= first;
            }
        }
        Ok(out)
    }

    /// (time, value) of a column, at most `most` of them: each the last of its stretch, so that a step is never lost.
    #[must_use]
    pub fn points(&self, column: &str, most: usize) -> Vec<(f64, f64)> {
        let Some(values) = self.columns.get(column) else {
            return Vec::new();
        };
        let all = self.time.iter().copied().zip(values.iter().copied());
        let stride = values.len().div_ceil(most.max(1)).max(1);
        let last = values.len().saturating_sub(1);
        all.enumerate()
            .filter(|(i, _)| *i == 0 || *i == last || (i + 1) % stride == 0)
            .map(|(_, p)| p)
            .collect()
    }

    /// The last value of a column.
    #[must_use]
    pub fn last(&self, column: &str) -> Option<f64> {
        self.columns.get(column)?.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::stats::PLOT_HEADER;

    #[test]
    fn rows_by_the_names_of_the_header() {
        let text = format!(
            "{PLOT_HEADER}3, 0, 0, 2, 9117, 8836, 1.07%, 0, 0, 1, 0.32, 6, 704\n\
             8, 0, 1, 4, 13437, 11247, 1.11%, 1, 0, 2, 0.36, 8, 730\n9, 0, 1, 4, 13"
        );
        let s = Series::parse(&text).unwrap();
        assert_eq!(s.time, [3.0, 8.0]);
        assert_eq!(s.points("edges_found", 100), [(3.0, 704.0), (8.0, 730.0)]);
        assert_eq!(s.last("saved_crashes"), Some(1.0));
        // AFL's older files count in unix time.
        let old = PLOT_HEADER.replace("relative_time", "unix_time")
            + "100, 0, 0, 2, 1, 1, 1%, 0, 0, 1, 0.3, 6, 7\n160, 0, 0, 2, 1, 1, 1%, 0, 0, 1, 0.3, 6, 7\n";
        assert_eq!(Series::parse(&old).unwrap().time, [0.0, 60.0]);
    }

    #[test]
    fn a_header_alone_is_no_error_and_garbage_is_one() {
        let empty = Series::parse(PLOT_HEADER).unwrap();
        assert!(empty.time.is_empty() && empty.points("edges_found", 9).is_empty());
        for (bad, part) in [
            ("", "no header"),
            ("\u{1}\u{2}\n", "no header"),
            ("# a, b\n", "relative_time"),
            ("# relative_time, corpus_count\n", "pending_total"),
            (
                &format!("{PLOT_HEADER}3, 0, 0, x, 9, 8, 1%, 0, 0, 1, 0.3, 6, 7\n"),
                "line 2: `x` is no number (column corpus_count)",
            ),
            (
                &format!("{PLOT_HEADER}3, 0, 0, a\u{1b}[2J, 9, 8, 1%, 0, 0, 1, 0.3, 6, 7\n"),
                "line 2: `a [2J` is no number",
            ),
            (&format!("{PLOT_HEADER}3, 0\n"), "line 2: ``"),
            (
                &format!("{PLOT_HEADER}3, 0, 0, NaN, 9, 8, 1%, 0, 0, 1, 0.3, 6, 7\n"),
                "NaN",
            ),
        ] {
            let e = Series::parse(bad).unwrap_err();
            assert!(e.contains(part), "{e}");
        }
    }

    #[test]
    fn a_long_campaign_is_thinned_and_keeps_its_ends() {
        let mut text = PLOT_HEADER.to_owned();
        for i in 0..100_000 {
            text.push_str(&format!("{i}, 0, 0, {i}, 0, 0, 1%, 0, 0, 1, 0.3, 6, 7\n"));
        }
        let s = Series::parse(&text).unwrap();
        let p = s.points("corpus_count", 1000);
        assert!(p.len() <= 1002, "{}", p.len());
        assert_eq!((p[0].0, p[p.len() - 1].0), (0.0, 99_999.0));
    }
}
