//! Lines, branches, instructions, complexity and methods by JaCoCo's rules, from a table and the probes that were executed. Pure.
//!
//! A line is covered if an instruction of it was executed. An instruction with several ways out has so many branches. Lines of classes
//! of one source file are counted once in a package, once in each class.

use super::table::{Class, Table};
use std::collections::BTreeMap;

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    pub covered: u64,
    pub all: u64,
}

impl Counter {
    fn add(&mut self, covered: u64, all: u64) {
        self.covered += covered;
        self.all += all;
    }

    /// What is left.
    #[must_use]
    pub fn missed(self) -> u64 {
        self.all - self.covered
    }

    /// In percent; none when there is nothing to cover.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    pub fn percent(self) -> Option<f64> {
        (self.all > 0).then(|| 100.0 * self.covered as f64 / self.all as f64)
    }
}

/// The counters of a class, a package, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub instructions: Counter,
    pub branches: Counter,
    pub lines: Counter,
    pub complexity: Counter,
    pub methods: Counter,
}

impl Counters {
    fn add_without_lines(&mut self, other: &Counters) {
        for (mine, theirs) in [
            (&mut self.instructions, other.instructions),
            (&mut self.branches, other.branches),
            (&mut self.complexity, other.complexity),
            (&mut self.methods, other.methods),
        ] {
            mine.add(theirs.covered, theirs.all);
        }
    }
}

/// Whether each line was executed.
type Lines = BTreeMap<u32, bool>;

/// Everything counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Of each class of the table, in its order.
    pub classes: Vec<Counters>,
    /// By name, with slashes.
    pub packages: BTreeMap<String, Counters>,
    pub total: Counters,
}

/// Counts what these probes show; one that the slice does not hold was not executed.
#[must_use]
pub fn count(table: &Table, executed: &[bool]) -> Counted {
    let mut counted = Counted::default();
    // Lines of a source file; a class without one stands for itself.
    let mut sources: BTreeMap<(&str, &str), Lines> = BTreeMap::new();
    for class in &table.classes {
        let (mut counters, lines) = of_class(class, executed);
        counters.lines = sum(&lines);
        let package = counted.packages.entry(class.package().to_owned());
        package.or_default().add_without_lines(&counters);
        let source = class.source.as_deref().unwrap_or(&class.name);
        let all = sources.entry((class.package(), source)).or_default();
        for (line, covered) in lines {
            *all.entry(line).or_default() |= covered;
        }
        counted.classes.push(counters);
    }
    for ((package, _), lines) in sources {
        let lines = sum(&lines);
        if let Some(p) = counted.packages.get_mut(package) {
            p.lines.add(lines.covered, lines.all);
        }
    }
    counted.packages.retain(|_, c| c.instructions.all > 0);
    for package in counted.packages.values() {
        counted.total.add_without_lines(package);
        counted
            .total
            .lines
            .add(package.lines.covered, package.lines.all);
    }
    counted
}

fn sum(lines: &Lines) -> Counter {
    Counter {
        covered: lines.values().filter(|covered| **covered).count() as u64,
        all: lines.len() as u64,
    }
}

fn of_class(class: &Class, executed: &[bool]) -> (Counters, Lines) {
    let hit = |probe: &usize| executed.get(class.first + probe).copied().unwrap_or(false);
    let mut counters = Counters::default();
    let mut lines = Lines::new();
    for method in &class.methods {
        let mut any = false;
        for item in method {
            let ends = item.ends.len() as u64;
            let taken = item.ends.iter().filter(|end| end.iter().any(hit)).count() as u64;
            let covered = taken > 0;
            any |= covered;
            let instructions = if covered { item.instructions } else { 0 };
            counters.instructions.add(instructions, item.instructions);
            if ends > 1 {
                counters.branches.add(taken, ends);
                // One path through the method is the method's own.
                counters.complexity.add(taken.saturating_sub(1), ends - 1);
            }
            if let Some(line) = item.line {
                *lines.entry(line).or_default() |= covered;
            }
        }
        counters.methods.add(u64::from(any), 1);
        counters.complexity.add(u64::from(any), 1);
    }
    (counters, lines)
}

#[cfg(test)]
mod tests {
    use super::super::table::SAMPLE;
    use super::*;

    fn of(executed: &[usize]) -> Counted {
        let table = Table::parse(SAMPLE).unwrap();
        let mut probes = vec![false; table.probes];
        for p in executed {
            probes[*p] = true;
        }
        count(&table, &probes)
    }

    /// (instructions, branches, lines, complexity, methods) covered.
    fn covered(c: &Counters) -> [u64; 5] {
        [c.instructions, c.branches, c.lines, c.complexity, c.methods].map(|c| c.covered)
    }

    #[test]
    fn table() {
        // Of a/B, a/B$C, c/D and package a, for probes executed.
        type Row<'a> = (&'a [usize], [[u64; 5]; 4]);
        const NONE: [u64; 5] = [0; 5];
        let rows: [Row<'_>; 8] = [
            (&[], [NONE; 4]),
            // One end of the branch; the line of another class of the file.
            (&[0], [[5, 1, 2, 1, 1], NONE, NONE, [5, 1, 2, 1, 1]]),
            // Another probe of the same end counts no more branches.
            (&[0, 1], [[7, 1, 3, 1, 1], NONE, NONE, [7, 1, 3, 1, 1]]),
            // Both ends: one more path.
            (&[0, 2], [[5, 2, 2, 2, 1], NONE, NONE, [5, 2, 2, 2, 1]]),
            // Without line numbers there are instructions, and no lines.
            (&[3], [[3, 0, 0, 1, 1], NONE, NONE, [3, 0, 0, 1, 1]]),
            (&[4], [[1, 1, 1, 1, 1], NONE, NONE, [1, 1, 1, 1, 1]]),
            // Line 10 stands in both classes: in the package it is one.
            (
                &[0, 5],
                [[5, 1, 2, 1, 1], [2, 0, 1, 1, 1], NONE, [7, 1, 2, 2, 2]],
            ),
            (&[7, 8], [NONE, NONE, [5, 0, 1, 1, 1], NONE]),
        ];
        for (probes, want) in rows {
            let c = of(probes);
            let have = [
                covered(&c.classes[0]),
                covered(&c.classes[1]),
                covered(&c.classes[2]),
                covered(&c.packages["a"]),
            ];
            assert_eq!(have, want, "{probes:?}");
        }
    }

    #[test]
    fn what_there_is_does_not_depend_on_what_ran() {
        for probes in [vec![], vec![0, 4], (0..9).collect()] {
            let c = of(&probes);
            let all = |c: &Counters| {
                [c.instructions, c.branches, c.lines, c.complexity, c.methods].map(|c| c.all)
            };
            assert_eq!(all(&c.classes[0]), [11, 4, 4, 4, 2]);
            assert_eq!(all(&c.packages["a"]), [14, 4, 5, 5, 3]);
            assert_eq!(all(&c.total), [19, 4, 6, 6, 4]);
            assert_eq!(c.packages.len(), 2);
        }
        // All but the end that no probe shows.
        let most = of(&(0..9).collect::<Vec<_>>());
        assert_eq!(covered(&most.total), [19, 3, 6, 5, 4]);
        assert_eq!(most.total.branches.missed(), 1);
        assert_eq!(most.total.branches.percent(), Some(75.0));
        assert_eq!(Counter::default().percent(), None);
    }
}
