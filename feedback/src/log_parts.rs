//! Which part of a node's logs one of its processes wrote: those of a node that was started again write into the files of the ones before.
//!
//! Called by the checkers that ask a log about one process, and by those that must not take what a snapshot's start wrote for the run's own. Pure:
//! the executor's marks in, text out. Where they do not tell, a part is rather too large. In a run from a snapshot, whose first mark is set when
//! it goes on, the logs begin there; one from a prefix has that mark from the run that made the prefix, before its first fault.

use crate::logs::lines;
use warren_model::{Incarnation, LogMark, NodeName, RunProduct};

/// Where each of a node's files begins in the text of its logs, in bytes: they stand one after another.
#[must_use]
pub fn begins(product: &RunProduct, node: &NodeName) -> Vec<usize> {
    let first = product.log_marks.first();
    first
        .and_then(|m| m.offsets.get(node))
        .cloned()
        .unwrap_or_default()
}

/// What stands in a node's logs from before the snapshot that its run began from; nothing in a run that began cold, whose first mark comes before
/// its nodes are started. Of the first file alone: no mark says where that ends, and with it what the next one has from before.
#[must_use]
pub fn before<'a>(product: &RunProduct, node: &NodeName, log: &'a str) -> &'a str {
    let first = begins(product, node).first().copied();
    first.and_then(|end| log.get(..end)).unwrap_or_default()
}

/// (byte offset, text) of each line of a node's logs that the run wrote itself: what stands before it is the same in each run from that snapshot.
pub fn own_lines<'a>(
    product: &RunProduct,
    node: &NodeName,
    log: &'a str,
) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
    let from = before(product, node, log).len();
    lines(&log[from..]).map(move |(at, line)| (from + at, line))
}

/// What process `number` (from 1) of a node wrote: a part for each of its files, in their order; none where the node has no log.
#[must_use]
pub fn of_process<'a>(product: &'a RunProduct, node: &NodeName, number: u8) -> Vec<&'a str> {
    let Some(log) = product.logs.get(node) else {
        return Vec::new();
    };
    let begins = begins(product, node);
    if begins.is_empty() {
        return vec![log];
    }
    let process = |number: Option<u8>| -> Option<&Incarnation> {
        let mut all = product.record.incarnations.iter();
        all.find(|i| i.node == *node && Some(i.number) == number)
    };
    let (own, next) = (process(Some(number)), process(number.checked_add(1)));
    let offsets = |mark: &'a LogMark| mark.offsets.get(node);
    // As it was started.
    let from = own
        .filter(|_| number > 1)
        .and_then(|own| last(product, |t| t <= own.spawned_ns).and_then(offsets))
        .unwrap_or(&begins);
    // When it had ended and the next one had not begun.
    let ended = |t: u64| own.and_then(|own| own.ended_ns).is_none_or(|e| e <= t);
    let to =
        next.and_then(|next| last(product, |t| t <= next.spawned_ns && ended(t)).and_then(offsets));
    let part = |file: usize| {
        let end_of_file = begins.get(file + 1).copied().unwrap_or(log.len());
        let end = to.and_then(|to| to.get(file)).copied();
        let start = from.get(file).copied().unwrap_or(begins[file]);
        let end = end.unwrap_or(end_of_file);
        // Not where a mark lies within a letter.
        log.get(start..end).unwrap_or(log)
    };
    (0..begins.len()).map(part).collect()
}

/// The last mark of such a time.
fn last(product: &RunProduct, of: impl Fn(u64) -> bool) -> Option<&LogMark> {
    product.log_marks.iter().rev().find(|m| of(m.t_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::Build;

    /// Two files of n1, which was started three times: at 0, 30 and 50, with ends at 20 and 40.
    fn run(marks: &[(u64, [usize; 2])]) -> RunProduct {
        let started = Build::new().ended("n1", 20).restarted("n1", 30);
        let started = started.ended("n1", 40).restarted("n1", 50);
        let marked = marks
            .iter()
            .fold(started, |run, (t, offsets)| run.marked("n1", *t, offsets));
        let mut product = marked.product;
        product.logs.insert("n1".into(), "aabbccXXYYZZ".into());
        product
    }

    #[test]
    fn a_process_has_what_was_written_from_its_start_to_the_next_one() {
        let all = run(&[(5, [0, 6]), (29, [2, 8]), (49, [4, 10])]);
        let of = |number| of_process(&all, &"n1".into(), number);
        assert_eq!(of(1), ["aa", "XX"]);
        assert_eq!(of(2), ["bb", "YY"]);
        assert_eq!(of(3), ["cc", "ZZ"]);
        assert!(of_process(&all, &"n2".into(), 1).is_empty(), "no log");
    }

    #[test]
    fn a_run_begins_where_its_snapshot_ended() {
        let log = "before\nown\nlast\n";
        let own = |offsets: &[usize]| -> Vec<(usize, String)> {
            let run = Build::new().marked("n1", 0, offsets);
            let run = run.marked("n1", 10, &[11]).product;
            let lines = own_lines(&run, &"n1".into(), log);
            lines.map(|(at, line)| (at, line.to_owned())).collect()
        };
        let from = |at: usize| -> Vec<(usize, String)> {
            let all = lines(log).filter(|(begin, _)| *begin >= at);
            all.map(|(begin, line)| (begin, line.to_owned())).collect()
        };
        // A run that began cold; one from a snapshot; one with a file more, whose lines from before cannot be told apart.
        for (offsets, at) in [(&[0][..], 0), (&[7], 7), (&[0, 7], 0), (&[7, 11], 7)] {
            assert_eq!(own(offsets), from(at), "{offsets:?}");
        }
        // What a line has from before is not the run's.
        assert_eq!(own(&[3])[0], (3, "ore".into()));
        // Without marks all of it is judged, and so it is where they are beyond what there is.
        let n2 = own_lines(&Build::new().product, &"n2".into(), log).count();
        assert_eq!((n2, own(&[99]).len()), (3, 3));
        let product = Build::new().marked("n1", 0, &[7]).product;
        assert_eq!(before(&product, &"n1".into(), log), "before\n");
    }

    #[test]
    fn where_marks_are_missing_a_part_is_rather_too_large() {
        // None between the end of the first and the start of the second one; one too early.
        let few = run(&[(5, [0, 6]), (15, [1, 7]), (45, [3, 9])]);
        let of = |number| of_process(&few, &"n1".into(), number);
        assert_eq!(of(1), ["aabbcc", "XXYYZZ"]);
        assert_eq!(of(2), ["ab", "XY"], "from before its start");
        assert_eq!(of(3), ["bcc", "YZZ"]);
        assert_eq!(of_process(&run(&[]), &"n1".into(), 2), ["aabbccXXYYZZ"]);
    }
}
