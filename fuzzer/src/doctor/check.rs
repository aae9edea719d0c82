//! What a doctor's line is, how it reads, and what all lines mean for the exit code. Pure.

use std::fmt::Write;

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

/// Judges the memory that /proc/meminfo says is available.
#[must_use]
pub fn memory(meminfo: &str) -> Check {
    let field = |key: &str| {
        meminfo
            .lines()
            .find_map(|l| {
                l.strip_prefix(key)?
                    .trim()
                    .split(' ')
                    .next()?
                    .parse::<u64>()
                    .ok()
            })
            .map(|kib| kib / 1024)
    };
    match (field("MemAvailable:"), field("MemTotal:")) {
        (Some(free), Some(total)) if free >= MEMORY_MIB => {
            Check::ok("memory", format!("{free} MiB of {total} MiB available"))
        }
        (Some(free), Some(total)) => Check::missing(
            "memory",
            format!("{free} MiB of {total} MiB available"),
            format!(
                "a five-node cluster wants {MEMORY_MIB} MiB, files of a run included; end other programs or runs will be void"
            ),
        ),
        _ => Check::missing(
            "memory",
            "/proc/meminfo could not be read",
            "nobody warns when memory runs short",
        ),
    }
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
            Check::missing(
                "nft program",
                "not found",
                "nothing: rules are set without it",
            ),
        ];
        assert_eq!(
            text(&checks),
            "ok      JDK          17.0.15\n\
             missing nft program  not found\n\
             \x20                    -> nothing: rules are set without it\n"
        );
    }

    #[test]
    fn memory_table() {
        let info =
            |free: u64| format!("MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable: {free} kB\n");
        assert_eq!(memory(&info(4_194_304)).state, State::Ok);
        assert_eq!(
            memory(&info(4_194_304)).found,
            "4096 MiB of 8192 MiB available"
        );
        assert_eq!(memory(&info(1_048_576)).state, State::Missing);
        assert_eq!(memory("").state, State::Missing);
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
