//! Which key was meant by one that is a slip of the pen. Pure.

/// The one of these that `word` was meant to be, or that was meant to be `word`: one slip in a short word, two in others.
pub(super) fn near<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if word.chars().count() < 6 { 1 } else { 2 };
    among
        .into_iter()
        .map(|other| (slips(word, other), other))
        .filter(|(n, _)| *n <= most)
        .min_by_key(|(n, _)| *n)
        .map(|(_, other)| other)
}

/// Letters that are too many, missing, wrong, or in the place of their neighbour.
fn slips(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let wrong = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut n = wrong.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                n = n.min(before[j - 2] + 1);
            }
            row.push(n);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_counted() {
        for (a, b, want) in [
            ("main", "main", 0),
            ("mian", "main", 1),
            ("man", "main", 1),
            ("mainn", "main", 1),
            ("mein", "main", 1),
            ("jars", "java", 2),
            ("wrokloda", "workload", 2),
            ("", "main", 4),
        ] {
            assert_eq!((slips(a, b), slips(b, a)), (want, want), "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_is_taken_and_none_that_is_another_word() {
        assert_eq!(near("port", ["prot", "sort"]), Some("prot"));
        assert_eq!(near("max_dead", ["maxdeda", "count"]), Some("maxdeda"));
        assert_eq!(near("jars", ["java", "name"]), None);
        assert_eq!(near("main", []), None);
    }
}
