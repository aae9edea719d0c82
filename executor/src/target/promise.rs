//! `[promise]` of target.toml: what the system promises beyond what every system does, and what its workload's numbers mean. Called by the loading of
//! a target; what follows from a promise is feedback's (`check::rejoin`, `check::session`, `check::acknowledged`).

use super::section::{Section, TargetError};

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// A restarted server synchronises before it serves.
    pub rejoin: bool,
    /// No read shows an older state than its session has seen.
    pub monotonic: bool,
    /// The key version of a replica is the order number of the change that wrote its content.
    pub numbered: bool,
}

impl Default for Promise {
    fn default() -> Self {
        Promise {
            rejoin: false,
            // Nearly all do, and a target that says nothing is to be asked.
            monotonic: true,
            numbered: false,
        }
    }
}

/// `[promise]`; where there is none, the usual.
pub(super) fn promise(top: &mut Section<'_>) -> Result<Promise, TargetError> {
    let usual = Promise::default();
    let Some(mut s) = top.opt_table("promise")? else {
        return Ok(usual);
    };
    let promise = Promise {
        rejoin: s.bool("rejoin", usual.rejoin)?,
        monotonic: s.bool("monotonic", usual.monotonic)?,
        numbered: s.bool("numbered", usual.numbered)?,
    };
    s.end()?;
    Ok(promise)
}

#[cfg(test)]
mod tests {
    use super::super::section::Origins;
    use super::*;

    fn read(text: &str) -> Result<(bool, bool, bool), String> {
        let origins = Origins::default();
        let mut top = Section::new(&origins, "", text.parse().unwrap());
        promise(&mut top)
            .map(|p| (p.rejoin, p.monotonic, p.numbered))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_not_said_is_the_usual() {
        for (text, expect) in [
            ("", (false, true, false)),
            ("[promise]", (false, true, false)),
            ("[promise]\nrejoin = true", (true, true, false)),
            ("[promise]\nmonotonic = false", (false, false, false)),
            (
                "[promise]\nrejoin = true\nnumbered = true",
                (true, true, true),
            ),
        ] {
            assert_eq!(read(text), Ok(expect), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (text, key) in [
            ("[promise]\nmonotonous = false", "promise.monotonous"),
            ("[promise]\nmonotonic = \"no\"", "promise.monotonic"),
            ("[promise]\nnumbered = 1", "promise.numbered"),
            ("promise = true", "promise"),
        ] {
            let e = read(text).unwrap_err();
            assert!(e.contains(&format!("`{key}`")), "{text}: {e}");
        }
    }
}
