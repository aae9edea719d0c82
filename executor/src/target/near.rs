//! Which key was meant by one that is a slip of the pen. Pure.

use strsim::osa_distance;

/// The one of these that `word` was meant to be, or that was meant to be `word`: one slip in a short word, two in others. A slip: a letter too
/// many, missing, wrong, or in the place of its neighbour.
pub(super) fn near<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if word.chars().count() < 6 { 1 } else { 2 };
    among
        .into_iter()
        .map(|other| (osa_distance(word, other), other))
        .filter(|(n, _)| *n <= most)
        .min_by_key(|(n, _)| *n)
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_taken_and_none_that_is_another_word() {
        assert_eq!(near("port", ["prot", "sort"]), Some("prot"));
        assert_eq!(near("max_dead", ["maxdeda", "count"]), Some("maxdeda"));
        assert_eq!(near("jars", ["java", "name"]), None);
        assert_eq!(near("main", []), None);
        for slip in ["mian", "man", "mainn", "mein"] {
            assert_eq!(near(slip, ["main"]), Some("main"));
        }
        assert_eq!(near("wrokloda", ["workload"]), Some("workload"));
        assert_eq!(near("", ["main"]), None);
    }
}
