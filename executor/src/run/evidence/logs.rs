//! The logs of the nodes at the end of a run: read from their ends, answers about threads taken out, and in what is kept the moments of the run.
//!
//! Called by `collect`. A log may be as long as its slot is large, so little more is read than is kept; what is cut off is said.

use crate::run::drive::SoFar;
use crate::run::evidence::last_words::end_of;
use crate::run::evidence::threads::{self, Log, ThreadsAsked};
use crate::run::nodes::cluster::{Cluster, Node};
use crate::run::nodes::spawn::STDOUT;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use warren_model::{LogMark, NodeName, RunProduct};

/// Longest log kept of one file of a node, bytes from its end. What is cut off is judged by nobody, so it is far above what a run writes.
const LOG_MAX: usize = 32 << 20;
/// Of a log with answers about threads, which are taken out of it, so much is read: they come near the end.
const WITH_ANSWERS: usize = 4 * LOG_MAX;

/// The end of one file.
struct Part {
    log: Log,
    /// Bytes of the file before it.
    unread: usize,
}

/// Logs, their marks and what the target wants kept, of all nodes; the workload's log; what could not be read as warnings.
pub(super) fn collect(cluster: &Cluster<'_>, so_far: &SoFar, product: &mut RunProduct) {
    let marks = so_far.log_sizes.iter().map(|(at, t_ns, _)| LogMark {
        at: *at,
        t_ns: *t_ns,
        offsets: BTreeMap::new(),
    });
    product.log_marks = marks.collect();
    for i in 0..cluster.nodes.len() {
        of_node(cluster, so_far, i, product);
    }
    let log = cluster.slot.root().join("workload/stdout");
    let (bytes, _) = end_of(&log, LOG_MAX as u64).unwrap_or_default();
    product.logs.insert(
        NodeName::from("workload"),
        String::from_utf8_lossy(&bytes).into_owned(),
    );
}

/// The files of `[log]` of one node, one after the other.
fn of_node(cluster: &Cluster<'_>, so_far: &SoFar, i: usize, product: &mut RunProduct) {
    let (n, target) = (&cluster.nodes[i], cluster.prepared.target());
    let mut problems = Vec::new();
    let asked = so_far.threads_asked.iter().filter(|a| a.node == i);
    let asked: Vec<ThreadsAsked> = asked.copied().collect();
    // Where the node was asked, read and taken apart even if no log is standard output.
    let stdout = (!asked.is_empty()).then(|| {
        let part = read(n, STDOUT, WITH_ANSWERS, &mut problems);
        let (part, answers) = without_answers(part, n, &asked);
        product.collected.extend(answers);
        part
    });
    let mut text = String::new();
    for (j, file) in target.logs.iter().enumerate() {
        let is_stdout = file.strip_prefix("./").unwrap_or(file) == STDOUT;
        let whole;
        let part = match stdout.as_ref().filter(|_| is_stdout) {
            Some(part) => part,
            None => {
                whole = read(n, file, LOG_MAX, &mut problems);
                &whole
            }
        };
        let too_many = part.log.bytes.len().saturating_sub(LOG_MAX);
        let dropped = part.unread + too_many;
        if dropped > 0 {
            product.record.warnings.push(format!(
                "{}: {file} is longer than {LOG_MAX} bytes: its first {dropped} are not judged, so the cause of an early exit or a fatal line may be missing",
                n.name
            ));
        }
        let kept = &part.log.bytes[too_many..];
        for (mark, (_, _, sizes)) in product.log_marks.iter_mut().zip(&so_far.log_sizes) {
            let size = usize::try_from(sizes[i][j]).unwrap_or(usize::MAX);
            let end = part.log.end_at(size.saturating_sub(part.unread));
            let before = &kept[..end.saturating_sub(too_many).min(kept.len())];
            let offset = text.len() + String::from_utf8_lossy(before).len();
            mark.offsets.entry(n.name.clone()).or_default().push(offset);
        }
        text.push_str(&String::from_utf8_lossy(kept));
    }
    product.record.warnings.append(&mut problems);
    product.logs.insert(n.name.clone(), text);
    for (file, bytes) in super::collected::read(&n.dir, &target.collect) {
        let path = format!("{}/{file}", n.name);
        product.collected.push((path, bytes));
    }
}

/// At most so many bytes of the end of one file of a node.
fn read(n: &Node, file: &str, max: usize, problems: &mut Vec<String>) -> Part {
    let (bytes, unread) = end_of(&n.dir.join(file), max as u64).unwrap_or_else(|e| {
        if e.kind() != ErrorKind::NotFound {
            problems.push(format!("{}: {file} cannot be read: {e}", n.name));
        }
        (Vec::new(), 0)
    });
    Part {
        log: Log::whole(bytes),
        unread: usize::try_from(unread).unwrap_or(usize::MAX),
    }
}

/// Standard output without the answers, and these.
fn without_answers(part: Part, n: &Node, asked: &[ThreadsAsked]) -> (Part, Vec<(String, Vec<u8>)>) {
    let in_part = |a: &ThreadsAsked| ThreadsAsked {
        from: a.from.saturating_sub(part.unread as u64),
        ..*a
    };
    let asked: Vec<ThreadsAsked> = asked.iter().map(in_part).collect();
    let (log, answers) = threads::take_out(&part.log.bytes, n.name.as_str(), &asked);
    let unread = part.unread;
    (Part { log, unread }, answers)
}
