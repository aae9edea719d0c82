//! Void: the run itself went wrong (machine starved, tmpfs full), so it says nothing about the target and is repeated.
//!
//! Mostly the executor's word. Beside it:
//! - A process that ended by SIGKILL or SIGBUS which nobody sent was ended by the kernel (out of memory, a full tmpfs under a
//!   mapping): our machine's fault, not the target's. Our own kills are never in the list of exits.
//! - A JVM to which the system refused memory or a thread says so in its log. That is the machine's too, unless it said so before the snapshot that
//!   the run began from: it served then, and each run from there would be void. A JVM that filled its own
//!   heap (or class space, or direct buffers: all bounded by its flags) is the target's doing, a leak above all: such a run is
//!   judged like any other, by what follows (self-exit, no service) and by what target.toml's `fatal_log` names.

use crate::log_parts::own_lines;
use crate::logs::of_nodes;
use warren_model::{RunProduct, Void};

const SIGBUS: i32 = 7;
const SIGKILL: i32 = 9;

/// What a JVM logs when the system, not one of its own bounds, refuses: threads, mappings, native memory.
const MACHINE: [&str; 6] = [
    "java.lang.OutOfMemoryError: unable to create native thread",
    "java.lang.OutOfMemoryError: unable to create new native thread",
    "java.lang.OutOfMemoryError: Map failed",
    "Out of swap space?",
    "There is insufficient memory for the Java Runtime Environment to continue",
    "Could not reserve enough space for",
];

/// Why a run is void, or `None`.
#[must_use]
pub fn reason(product: &RunProduct) -> Option<Void> {
    if let Some(why) = &product.record.void {
        return Some(why.clone());
    }
    let killed = product.record.exits.iter().find_map(|e| match e.signal {
        Some(s @ (SIGBUS | SIGKILL)) => Some(format!(
            "{} was ended by signal {s} that Warren did not send: memory or the slot's tmpfs ran out",
            e.node
        )),
        _ => None,
    });
    killed
        .or_else(|| refused_by_the_machine(product))
        .map(Void::WentWrong)
}

fn refused_by_the_machine(product: &RunProduct) -> Option<String> {
    of_nodes(product).find_map(|(node, log)| {
        let mut lines = own_lines(product, node, log);
        let (_, line) = lines.find(|(_, l)| MACHINE.iter().any(|m| l.contains(m)))?;
        let said: String = line.trim().chars().take(160).collect();
        Some(format!(
            "the machine refused {node} memory or a thread: {said}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, exit};

    #[test]
    fn only_the_machines_faults_make_a_run_void() {
        type Case = (Option<&'static str>, Vec<(Option<i32>, Option<i32>)>, bool);
        let table: Vec<Case> = vec![
            (None, vec![], false),
            (None, vec![(Some(1), None)], false),
            (None, vec![(None, Some(11))], false),
            (Some("tmpfs full"), vec![], true),
            (None, vec![(None, Some(9))], true),
            (None, vec![(Some(1), None), (None, Some(7))], true),
        ];
        for (void, exits, expect) in table {
            let mut p = RunProduct::default();
            p.record.void = void.map(Void::from);
            p.record.exits = exits
                .iter()
                .map(|(st, sig)| exit("n1", *st, *sig))
                .collect();
            assert_eq!(reason(&p).is_some(), expect, "{void:?} {exits:?}");
        }
    }

    #[test]
    fn a_full_heap_is_the_targets_doing_a_refusal_of_the_system_is_not() {
        let oom = |what: &str| {
            format!("INFO up\n2026 ERROR java.lang.OutOfMemoryError{what}\n\tat a.B.c(B.java:1)")
        };
        let table = [
            (oom(": Java heap space"), false),
            (oom(": GC overhead limit exceeded"), false),
            (oom(": Metaspace"), false),
            (
                oom(": Cannot reserve 8192 bytes of direct buffer memory"),
                false,
            ),
            (oom(": Requested array size exceeds VM limit"), false),
            (oom(""), false),
            (
                oom(
                    ": unable to create native thread: possibly out of memory or process/resource limits reached",
                ),
                true,
            ),
            (oom(": unable to create new native thread"), true),
            (oom(": Map failed"), true),
            (
                oom(": request 32756 bytes for ChunkPool::allocate. Out of swap space?"),
                true,
            ),
            (
                "# There is insufficient memory for the Java Runtime Environment to continue."
                    .into(),
                true,
            ),
        ];
        for (log, expect) in table {
            let mut p = RunProduct::default();
            p.trace.nodes = vec!["n1".into()];
            p.logs.insert("workload".into(), oom(": Map failed"));
            assert_eq!(reason(&p), None, "the workload is no node");
            p.logs.insert("n1".into(), log.clone());
            let why = reason(&p);
            assert_eq!(why.is_some(), expect, "{log}");
            assert!(why.is_none_or(|w| w.to_string().contains("n1")), "{log}");
        }
    }

    /// The snapshot's start had it, and each run from there has the line.
    #[test]
    fn what_was_refused_before_the_snapshot_is_not_this_runs() {
        let (up, refused) = ("INFO up\n", "java.lang.OutOfMemoryError: Map failed\n");
        let both = format!("{refused}{refused}");
        for (log, first_mark, expect) in [
            (format!("{refused}{up}"), refused.len(), false),
            (both, refused.len(), true),
            (format!("{up}{refused}"), up.len(), true),
            (format!("{refused}{up}"), 0, true),
        ] {
            let mut p = Build::new().marked("n1", 0, &[first_mark]).product;
            p.logs.insert("n1".into(), log.clone());
            assert_eq!(reason(&p).is_some(), expect, "{log:?} from {first_mark}");
        }
    }

    /// The run of a node that leaked its heap and ended: a failure, no longer a void run.
    #[test]
    fn a_leak_is_a_finding() {
        let mut p = RunProduct::default();
        p.trace.nodes = vec!["n1".into()];
        p.logs.insert(
            "n1".into(),
            "ERROR java.lang.OutOfMemoryError: Java heap space".into(),
        );
        p.record.exits.push(exit("n1", Some(3), None));
        let rules = warren_model::Rules::default();
        let j = crate::judge::Judge::new(rules).unwrap().judge(&p);
        assert_eq!((j.void, j.verdict), (None, warren_model::Verdict::Fail));
        assert_eq!(j.failures[0].checker, "self-exit");
    }
}
