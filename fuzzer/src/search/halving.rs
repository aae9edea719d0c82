//! In which order the occurrences of a class are tried: first, last, then by halving the largest gap.
//!
//! The order is a function of the class's length alone, so "which were tried" is one number: how many.

use std::collections::BinaryHeap;

/// The `k`-th occurrence to try out of `len` (both 0-based); `None` when all were.
///
/// Of equal gaps the earlier one is halved first. Costs O(k log k): k is the number of runs already made of one class.
#[must_use]
pub fn nth(len: u32, k: u32) -> Option<u32> {
    if k >= len {
        return None;
    }
    match k {
        0 => return Some(0),
        1 => return Some(len - 1),
        _ => {}
    }
    // A gap (lo, hi) holds the untried occurrences strictly between two tried ones.
    let mut gaps = BinaryHeap::from([(len - 2, std::cmp::Reverse(0u32), len - 1)]);
    let mut made = 1;
    while let Some((inside, std::cmp::Reverse(lo), hi)) = gaps.pop() {
        if inside == 0 {
            continue;
        }
        let middle = lo + (hi - lo) / 2;
        made += 1;
        if made == k {
            return Some(middle);
        }
        for (a, b) in [(lo, middle), (middle, hi)] {
            gaps.push((b - a - 1, std::cmp::Reverse(a), b));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(len: u32) -> Vec<u32> {
        (0..).map_while(|k| nth(len, k)).collect()
    }

    #[test]
    fn table() {
        assert_eq!(order(0), Vec::<u32>::new());
        assert_eq!(order(1), [0]);
        assert_eq!(order(2), [0, 1]);
        assert_eq!(order(3), [0, 2, 1]);
        assert_eq!(order(5), [0, 4, 2, 1, 3]);
        assert_eq!(order(9), [0, 8, 4, 2, 6, 1, 3, 5, 7]);
        assert_eq!(order(10), [0, 9, 4, 6, 2, 7, 1, 3, 5, 8]);
    }

    proptest! {
        #[test]
        fn each_occurrence_once(len in 0u32..300) {
            let mut seen = order(len);
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..len).collect::<Vec<_>>());
        }

        #[test]
        fn gaps_shrink(len in 3u32..300, k in 2u32..60) {
            prop_assume!(k < len);
            let mut tried: Vec<u32> = (0..=k).filter_map(|i| nth(len, i)).collect();
            let last = *tried.last().unwrap();
            tried.pop();
            tried.sort_unstable();
            let widest = tried.windows(2).map(|w| w[1] - w[0]).max().unwrap();
            let at = tried.partition_point(|t| *t < last);
            prop_assert_eq!(tried[at] - tried[at - 1], widest);
        }
    }
}
