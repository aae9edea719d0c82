//! Fewer faults: delta debugging (ddmin, complements only) over the faults of the best so far. Pure.
//!
//! Chunks get finer until each fault was tried alone; what the constraints forbid without the chunk goes with it. Of each chunk first
//! the candidate whose numbers are counted anew, then, where that is another one, with the numbers as they stand.

use super::candidate::{Best, Candidate, named};
use warren_model::ClusterShape;

/// Up to so many faults, each is tried alone from the beginning: halves would cost more than they save.
const FEW: usize = 4;

/// Where the search stands.
#[derive(Clone, Debug, Default)]
pub struct Shrink {
    /// Chunks the faults are cut into; 0 = not begun.
    chunks: usize,
    /// The next chunk to go, and whether its second form is due.
    next: usize,
    as_given: bool,
    /// The faults that never happened were tried.
    tail: bool,
}

impl Shrink {
    /// The last candidate was kept: the rest is cut anew, a little coarser.
    pub fn kept(&mut self) {
        self.chunks = self.chunks.saturating_sub(1).max(1);
        self.next = 0;
        self.as_given = false;
    }

    /// The next candidate and what it leaves out. None: no single fault can go.
    pub fn next(&mut self, best: &Best, shape: &ClusterShape) -> Option<(String, Candidate)> {
        let all = best.candidate.sequence.faults.len();
        let happened = best.facts.faults.len();
        if !self.tail {
            self.tail = true;
            if happened > 0 && happened < all {
                let keep: Vec<usize> = (0..happened).collect();
                let gone: Vec<usize> = (happened..all).collect();
                let what = format!("without {} (never happened)", named(&best.candidate, &gone));
                return Some((what, best.only(&keep, true)));
            }
        }
        if all == 0 {
            return None;
        }
        if self.chunks == 0 {
            self.chunks = if all <= FEW { all } else { 2 };
        }
        loop {
            self.chunks = self.chunks.min(all);
            if self.next >= self.chunks {
                if self.chunks == all {
                    return None;
                }
                self.chunks = (self.chunks * 2).min(all);
                self.next = 0;
            }
            let (from, to) = (
                self.next * all / self.chunks,
                (self.next + 1) * all / self.chunks,
            );
            let keep: Vec<usize> = (0..all).filter(|i| !(from..to).contains(i)).collect();
            let keep = best.legal(&keep, shape);
            let gone: Vec<usize> = (0..all).filter(|i| !keep.contains(i)).collect();
            let (anew, given) = (best.only(&keep, true), best.only(&keep, false));
            let what = format!("without {}", named(&best.candidate, &gone));
            if self.as_given {
                self.as_given = false;
                self.next += 1;
                if given != anew {
                    return Some((format!("{what}, n as it stands"), given));
                }
            } else {
                self.as_given = true;
                return Some((what, anew));
            }
        }
    }
}
