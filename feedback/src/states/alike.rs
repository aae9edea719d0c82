//! What the last fault of a run met: two runs are alike when it found the system in the same state and was the same fault in more
//! than its place in the code. Called where a run is kept; the queue takes energy from runs that are kept for nothing else.

use super::standing::{Life, NodeState, Standings};
use super::vector;
use warren_model::ids::fnv1a;
use warren_model::sequence::fault_id;
use warren_model::{At, Fault, Injected, NodeName, RunProduct, Who};

/// The identity of what the last fault met; none without faults.
#[must_use]
pub fn last_fault(product: &RunProduct) -> Option<u64> {
    let at = product.record.injected.len().checked_sub(1)?;
    let injected = &product.record.injected[at];
    let standings = Standings::new(product);
    let (before, after) = (standings.before(at), standings.after(at));
    let fault = extended(product, injected, &before, &after);
    let state = vector("fault", &after);
    Some(fnv1a(format!("{state:016x} {fault}").as_bytes()))
}

/// A fault id with what it leaves out: who executed the point in which role, the target's role (of a dead one, when it died) and
/// whether others had gone on without it, how many are dead now, and the fault's own style.
fn extended(
    product: &RunProduct,
    injected: &Injected,
    before: &[NodeState],
    after: &[NodeState],
) -> String {
    let trace = &product.trace;
    let fault = &injected.matched.fault;
    let index = |n: &NodeName| trace.nodes.iter().position(|x| x == n);
    let role = |i: Option<usize>| {
        let node = i.and_then(|i| before.get(i));
        node.map_or("", |n| n.role.as_str())
    };
    let (id, executing) = match &injected.matched.at {
        At::Exact(p) => {
            let id = fault_id(p.stack, fault.kind(), p.place).to_string();
            (id, role(index(&p.node)))
        }
        // It waited for no point.
        At::Pattern(_) | At::AtOnce | At::Joined(_) | At::After(_) => {
            (fault.kind().to_string(), "")
        }
    };
    let dead = after.iter().filter(|n| n.life == Life::Dead).count();
    let target = |who: &Who| match who {
        Who::Node(n) => index(n),
        Who::Executing | Who::Role(_) | Who::FirstDead => None,
    };
    let of = |i: Option<usize>| {
        let stale = i.and_then(|i| before.get(i)).is_some_and(NodeState::stale);
        format!("{}{}", role(i), if stale { " stale" } else { "" })
    };
    let what = match fault {
        Fault::Crash { who, style } => format!("{} {style:?}", of(target(who))),
        Fault::Reboot { who } => of(target(who)),
        Fault::PartitionStart { how, who } => {
            let pairs = before.iter().zip(after).enumerate();
            let mut cut: Vec<String> = pairs
                .filter(|(_, (b, a))| a.life == Life::Cut && b.life != Life::Cut)
                .map(|(i, _)| of(Some(i)))
                .collect();
            cut.sort_unstable();
            format!("{} {how:?} {:?}", cut.join(","), who.way)
        }
        Fault::PartitionStop | Fault::Stall { .. } => String::new(),
    };
    format!("{id} by {executing}, of {what}, {dead} dead")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{exit, ms};
    use crate::states::testing::{crash, cut, product, reboot};
    use warren_model::{CrashStyle, Exit, IoPoint, Kind, Observation, Phase, Place, StackId};

    /// A run with one fault at this node's point, or at once.
    fn run(fault: Fault, at: Option<(&str, u64, Place)>) -> RunProduct {
        let mut p = product(&[(10, fault)]);
        if let Some((node, stack, place)) = at {
            p.record.injected[0].matched.at = At::Exact(IoPoint {
                node: node.into(),
                stack: StackId(stack),
                kind: Kind::Write,
                place,
                n: 1,
                phase: Phase::Test,
            });
        }
        p
    }

    fn machine(n: &str) -> Fault {
        Fault::Crash {
            who: Who::Node(n.into()),
            style: CrashStyle::Machine,
        }
    }

    #[test]
    fn runs_are_alike_whatever_the_names_and_numbers() {
        use Place::{After, Before};
        let base = run(crash("n2"), Some(("n2", 7, Before)));
        let alike = last_fault(&base).unwrap();
        let mut later = base.clone();
        if let At::Exact(p) = &mut later.record.injected[0].matched.at {
            p.n = 30;
        }
        let mut after_exit = base.clone();
        after_exit.record.exits = vec![Exit {
            t_ns: ms(5),
            ..exit("n3", Some(1), None)
        }];
        let table = [
            (
                "another follower",
                run(crash("n3"), Some(("n3", 7, Before))),
                true,
            ),
            ("another occurrence", later, true),
            (
                "another stack",
                run(crash("n2"), Some(("n2", 8, Before))),
                false,
            ),
            (
                "the other place",
                run(crash("n2"), Some(("n2", 7, After))),
                false,
            ),
            (
                "executed by the leader",
                run(crash("n2"), Some(("n1", 7, Before))),
                false,
            ),
            (
                "the leader",
                run(crash("n1"), Some(("n1", 7, Before))),
                false,
            ),
            (
                "another style",
                run(machine("n2"), Some(("n2", 7, Before))),
                false,
            ),
            ("at once", run(crash("n2"), None), false),
            ("a cut", run(cut("n2"), Some(("n2", 7, Before))), false),
            ("one is dead already", after_exit, false),
        ];
        for (name, p, same) in table {
            assert_eq!(last_fault(&p).unwrap() == alike, same, "{name}");
        }
        assert_eq!(last_fault(&product(&[])), None);
    }

    #[test]
    fn a_reboot_counts_with_who_died_and_what_it_missed() {
        let of = |faults: &[(u64, Fault)]| last_fault(&product(faults)).unwrap();
        let back = || vec![(10, crash("n1")), (20, reboot("n1"))];
        assert_eq!(of(&back()), of(&back()));
        assert_ne!(
            of(&back()),
            of(&[(10, crash("n2")), (20, reboot("n2"))]),
            "it had led when it died"
        );
        // Stale: the others had stored a later epoch when it was started.
        let with = |epochs: [i64; 3]| {
            let mut p = product(&back());
            let nodes = ["n1", "n2", "n3"].into_iter().zip(epochs);
            p.observations = nodes
                .map(|(node, value)| Observation::Epoch {
                    node: node.into(),
                    name: "e".into(),
                    value,
                    t_ns: ms(11),
                })
                .collect();
            last_fault(&p).unwrap()
        };
        assert_eq!(with([1, 1, 1]), with([2, 2, 2]));
        assert_ne!(with([1, 1, 1]), with([1, 2, 2]));
    }
}
