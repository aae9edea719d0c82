//! How a process ended, in words for people: of a node that went by itself, of the workload, of a program that makes an image.
//!
//! Called by the loop of a run, by the start of a cluster and by the making of images. It refuses to judge: whether an end was right is
//! the target's to say.

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
}
