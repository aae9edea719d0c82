//! A sequence in words, a line for each fault. For the screen; the stage asks when it begins a run.

use warren_model::{Fault, FaultSequence, Pattern, Trace, Who};

/// One line per fault, for the screen: kind, node, innermost frame where the seed run's trace knows it.
#[must_use]
pub fn describe(sequence: &FaultSequence, trace: &Trace) -> Vec<String> {
    use warren_model::At;
    sequence
        .faults
        .iter()
        .map(|f| {
            let kind = f.fault.kind();
            match &f.at {
                At::Exact(p) => format!(
                    "{kind} {} at {} {} {} n={}",
                    p.node,
                    trace.label(p.stack),
                    p.kind,
                    p.place,
                    p.n
                ),
                At::Pattern(p) => {
                    format!("{kind} {} at {} n={}", where_at(p), what_at(p, trace), p.n)
                }
                At::AtOnce => format!("{kind} at once"),
                At::Joined(n) => format!("{kind} when {n} has joined"),
                At::After(ms) => format!("{kind}{} after {ms} ms", aimed(&f.fault)),
            }
        })
        .collect()
}

/// Whom a fault that waits for no point is for.
fn aimed(fault: &Fault) -> String {
    match fault {
        Fault::Crash { who, .. } | Fault::Reboot { who } => match who {
            Who::Node(n) => format!(" {n}"),
            Who::Role(r) => format!(" @{r}"),
            Who::FirstDead => " @first-dead".into(),
            Who::Executing => String::new(),
        },
        Fault::PartitionStart { who, .. } => {
            let side: Vec<String> = who.cut.iter().map(ToString::to_string).collect();
            format!(" {}", side.join(","))
        }
        Fault::PartitionStop => String::new(),
        Fault::Stall { ms, .. } => format!(" {ms} ms"),
    }
}

/// Which nodes a pattern means.
fn where_at(p: &Pattern) -> String {
    let node = p.node.as_ref().map(ToString::to_string);
    let except = p.except.as_ref().map(|n| format!("not {n}"));
    let said: Vec<String> = p
        .role
        .clone()
        .into_iter()
        .chain(node)
        .chain(except)
        .collect();
    if said.is_empty() {
        "any node".into()
    } else {
        said.join(" ")
    }
}

/// What a pattern means there.
fn what_at(p: &Pattern, trace: &Trace) -> String {
    match (p.stack, p.kind) {
        (Some(stack), _) => trace.label(stack),
        (None, Some(kind)) if p.frames.is_empty() => kind.to_string(),
        (None, _) => p.frames.join(" < "),
    }
}
