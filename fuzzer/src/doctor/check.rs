//! What a doctor's line is, how it reads, and what all lines mean for the exit code. Pure.

use std::fmt::Write;
use warren_executor::run::Memory;

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ok,
    Missing,
}

/// One line: what was looked at, what was found, what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub state: State,
    pub found: String,
    /// Empty when nothing follows.
    pub follows: String,
}

impl Check {
    /// There and good.
    pub fn ok(name: &str, found: impl Into<String>) -> Self {
        Check {
            name: name.into(),
            state: State::Ok,
            found: found.into(),
            follows: String::new(),
        }
    }

    /// Not there, or not enough; `follows` says what that means and the way out.
    pub fn missing(name: &str, found: impl Into<String>, follows: impl Into<String>) -> Self {
        Check {
            name: name.into(),
            state: State::Missing,
            found: found.into(),
            follows: follows.into(),
        }
    }

    /// A remark on something that is good.
    #[must_use]
    pub fn but(mut self, follows: impl Into<String>) -> Self {
        self.follows = follows.into();
        self
    }
}

/// The lines, aligned; a long consequence goes on a line of its own.
#[must_use]
pub fn text(checks: &[Check]) -> String {
    let width = checks
        .iter()
        .map(|c| c.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for c in checks {
        let state = match c.state {
            State::Ok => "ok",
            State::Missing => "missing",
        };
        let _ = writeln!(out, "{state:<8}{:<width$}  {}", c.name, c.found);
        if !c.follows.is_empty() {
            let _ = writeln!(out, "{:8}{:<width$}  -> {}", "", "", c.follows);
        }
    }
    out
}

/// The needed memory of a five-node cluster with small heaps, its workload and its files, MiB.
pub const MEMORY_MIB: u64 = 2048;

/// Judges the memory that may be taken.
#[must_use]
pub fn memory(memory: Option<Memory>) -> Check {
    let Some(Memory {
        total,
        free,
        limited,
    }) = memory
    else {
        return Check::missing(
            "memory",
            "/proc/meminfo could not be read",
            "nobody warns when memory runs short",
        );
    };
    let free = free >> 20;
    let limit = match limited {
        true => " (the limit of its control group)",
        false => "",
    };
    let found = format!("{free} MiB of {} MiB available{limit}", total >> 20);
    if free >= MEMORY_MIB {
        return Check::ok("memory", found);
    }
    Check::missing(
        "memory",
        found,
        format!(
            "a five-node cluster wants {MEMORY_MIB} MiB, files of a run included; end other programs or runs will be void"
        ),
    )
}

/// A kernel setting: shown with its value, judged by `good`.
#[must_use]
pub fn setting(
    name: &str,
    value: Option<&str>,
    good: impl Fn(&str) -> bool,
    absent_is_good: bool,
    follows: &str,
) -> Check {
    match value {
        Some(v) if good(v) => Check::ok(name, v),
        Some(v) => Check::missing(name, v, follows),
        None if absent_is_good => Check::ok(name, "this kernel has no such switch"),
        None => Check::missing(name, "this kernel does not have it", follows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_align_and_say_what_follows() {
        let checks = [
            Check::ok("JDK", "17.0.15"),
            Check::missing("kernel cuts", "not found", "partitions are made by `throw`"),
        ];
        assert_eq!(
            text(&checks),
            "ok      JDK          17.0.15\n\
             missing kernel cuts  not found\n\
             \x20                    -> partitions are made by `throw`\n"
        );
    }

    #[test]
    fn memory_table() {
        let of = |free: u64, limited| {
            memory(Some(Memory {
                total: 8192 << 20,
                free: free << 20,
                limited,
            }))
        };
        assert_eq!(of(4096, false).state, State::Ok);
        assert_eq!(of(4096, false).found, "4096 MiB of 8192 MiB available");
        assert_eq!(
            of(2048, true).found,
            "2048 MiB of 8192 MiB available (the limit of its control group)"
        );
        assert_eq!(of(1024, true).state, State::Missing);
        assert_eq!(memory(None).state, State::Missing);
    }

    #[test]
    fn settings_table() {
        let positive = |v: &str| v.parse::<u64>().is_ok_and(|n| n > 0);
        assert_eq!(
            setting("x", Some("5"), positive, true, "f").state,
            State::Ok
        );
        assert_eq!(setting("x", Some("0"), positive, true, "f").follows, "f");
        assert_eq!(setting("x", None, positive, true, "f").state, State::Ok);
        assert_eq!(
            setting("x", None, positive, false, "f").state,
            State::Missing
        );
    }
}
