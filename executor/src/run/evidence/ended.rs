//! How a process ended, in words for people: of a node that went by itself, of the workload, of a program that makes an image. And whether the
//! system ended it, which says nothing of the target.
//!
//! Called by the loop of a run, by the start of a cluster and by the making of images. It refuses to judge: whether an end was right is
//! the target's to say.

use crate::slot::Exit;
use warren_model::Void;

/// The end by its status, or by the signal that brought it.
pub(in crate::run) fn how(status: Option<i32>, signal: Option<i32>) -> String {
    match (status, signal) {
        (Some(s), _) => format!("exit status {s}"),
        (None, Some(s)) => format!("signal {s}"),
        (None, None) => "an unknown end".into(),
    }
}

/// What a signal says that only the system sends, when Warren did not.
pub(in crate::run) fn killed_by_the_system(signal: i32) -> Option<String> {
    matches!(signal, 7 | 9)
        .then(|| format!("signal {signal} that Warren did not send: memory or tmpfs is short"))
}

/// Why a run in which this one of its processes ended so says nothing, if it does: the system ended it. Nothing where Warren did, or does
/// as it ends the run.
pub(in crate::run) fn voids(who: &str, exit: &Exit, ending: bool) -> Option<Void> {
    if exit.by_us || ending {
        return None;
    }
    let why = exit.signal.and_then(killed_by_the_system)?;
    Some(Void::WentWrong(format!("{who} was ended by {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_in_words() {
        for (status, signal, want) in [
            (Some(3), None, "exit status 3"),
            (Some(0), Some(9), "exit status 0"),
            (None, Some(15), "signal 15"),
            (None, None, "an unknown end"),
        ] {
            assert_eq!(how(status, signal), want);
        }
        assert!(killed_by_the_system(9).is_some_and(|t| t.starts_with("signal 9 that")));
        assert_eq!(killed_by_the_system(11), None);
    }

    /// The workload's end by the kernel is no more the target's than a node's is: such a run is made again.
    #[test]
    fn what_the_system_ended_makes_a_run_void() {
        // Status, signal, whether Warren sent it, whether it ends the run: void.
        for (status, signal, by_us, ending, want) in [
            (None, Some(9), false, false, true),
            (None, Some(7), false, false, true),
            (None, Some(9), true, false, false),
            (None, Some(9), false, true, false),
            (None, Some(11), false, false, false),
            (None, Some(15), false, false, false),
            (Some(3), None, false, false, false),
            (Some(3), None, true, false, false),
            (None, None, false, false, false),
        ] {
            let exit = Exit {
                name: "workload".into(),
                pid: 7,
                status,
                signal,
                t_ns: 1,
                by_us,
            };
            let void = voids("the workload", &exit, ending).map(|v| v.to_string());
            assert_eq!(void.is_some(), want, "{exit:?} {ending}");
            let says = "the workload was ended by signal ";
            assert!(void.is_none_or(|v| v.starts_with(says)), "{exit:?}");
        }
    }
}
