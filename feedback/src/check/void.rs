//! Void: the run itself went wrong (machine starved, tmpfs full), so it says nothing about the target and is repeated.
//!
//! Mostly the executor's word. Beside it: a process that ended by SIGKILL or SIGBUS which nobody sent was ended by the kernel
//! (out of memory, a full tmpfs under a mapping): our machine's fault, not the target's (engineering notes, trap 12). Our own
//! kills are never in the list of exits.

use warren_model::RunProduct;

const SIGBUS: i32 = 7;
const SIGKILL: i32 = 9;

/// Why a run is void, or `None`.
#[must_use]
pub fn reason(product: &RunProduct) -> Option<String> {
    if let Some(why) = &product.record.void {
        return Some(why.clone());
    }
    product.record.exits.iter().find_map(|e| match e.signal {
        Some(s @ (SIGBUS | SIGKILL)) => Some(format!(
            "{} was ended by signal {s} that Warren did not send: memory or the slot's tmpfs ran out",
            e.node
        )),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::exit;

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
            p.record.void = void.map(str::to_owned);
            p.record.exits = exits
                .iter()
                .map(|(st, sig)| exit("n1", *st, *sig))
                .collect();
            assert_eq!(reason(&p).is_some(), expect, "{void:?} {exits:?}");
        }
    }
}
