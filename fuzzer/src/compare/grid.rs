//! A table of words, shown in three ways: aligned text, Markdown, CSV. Pure.

/// Head and rows; every row has as many cells as the head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// An empty one.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Grid {
            head: head.iter().map(|h| (*h).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// One more row; a short one is filled up.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.head.len(), String::new());
        self.rows.push(cells);
    }

    /// Without rows there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.head).chain(&self.rows)
    }

    /// Columns two blanks apart.
    #[must_use]
    pub fn text(&self) -> String {
        let width = |c: usize| self.all().map(|r| r[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut out = String::new();
        for row in self.all() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("  {cell:width$}"));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// A table of a Markdown file.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut out = line(&self.head);
        out.push_str(&format!("|{}\n", "---|".repeat(self.head.len())));
        self.rows.iter().for_each(|r| out.push_str(&line(r)));
        out
    }

    /// As RFC 4180 has it, but lines end as everywhere here.
    #[must_use]
    pub fn csv(&self) -> String {
        let cell = |c: &String| match c.contains(['"', ',', '\n', '\r']) {
            true => format!("\"{}\"", c.replace('"', "\"\"")),
            false => c.clone(),
        };
        self.all()
            .map(|r| r.iter().map(cell).collect::<Vec<_>>().join(",") + "\n")
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways() {
        let mut g = Grid::new(&["arm", "n"]);
        assert!(g.is_empty());
        g.row(vec!["a,\"b\"|c".into(), "3".into()]);
        g.row(vec!["x".into()]);
        assert_eq!(g.text(), "  arm      n\n  a,\"b\"|c  3\n  x\n");
        assert_eq!(
            g.markdown(),
            "| arm | n |\n|---|---|\n| a,\"b\"\\|c | 3 |\n| x |  |\n"
        );
        assert_eq!(g.csv(), "arm,n\n\"a,\"\"b\"\"|c\",3\nx,\n");
    }
}
