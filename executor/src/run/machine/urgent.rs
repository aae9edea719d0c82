//! The thread that watches for held points runs before all others while a run lasts, where the system allows it.
//!
//! Asked for when the loop of a run is made (`Drive::new`), given back before collection. From "point reached" to SIGKILL
//! counts in ms, and on a machine whose cores are busy with starting JVMs an ordinary thread may wait that long for its turn
//! (8 ms seen). The loop sleeps between its looks, so it starves nobody. Without the right (levels 2 and 3 as an ordinary
//! user) nothing changes and nothing is said.

/// Undoes the change when dropped: it holds the policy before, if there was a change.
pub(in crate::run) struct Urgent(Option<libc::c_int>);

/// Round-robin real-time scheduling, lowest priority, for the calling thread; children do not inherit it.
pub(in crate::run) fn urgent() -> Urgent {
    let before = policy();
    let raised = schedule(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1);
    Urgent(raised.then_some(before))
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // Who may raise it only by a limit (ulimit -r) may not take the flag back. One that was real-time before has lost its priority.
            let flag = libc::SCHED_RESET_ON_FORK;
            let wanted = [
                before,
                before | flag,
                libc::SCHED_OTHER,
                libc::SCHED_OTHER | flag,
            ];
            let _ = wanted.into_iter().any(|policy| schedule(policy, 0));
        }
    }
}

/// Of the calling thread.
fn policy() -> libc::c_int {
    // SAFETY: pid 0 is the calling thread; nothing but a number is given or returned.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
}

fn schedule(policy: libc::c_int, priority: libc::c_int) -> bool {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: pid 0 is the calling thread; the kernel only reads `param`, which lives through the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_is_undone() {
        let before = policy();
        let held = urgent();
        if held.0.is_some() {
            assert_eq!(
                policy(),
                libc::SCHED_RR,
                "the call succeeded, so the policy is in force"
            );
        }
        drop(held);
        assert_eq!(policy(), before);
        // A thread that whoever started Warren wanted to be nobody's hindrance stays so.
        assert!(schedule(libc::SCHED_BATCH, 0));
        drop(urgent());
        assert_eq!(policy(), libc::SCHED_BATCH);
        schedule(before, 0);
    }
}
