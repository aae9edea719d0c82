//! AFL's names of files in queue/, crashes/ and hangs/: `id:000123,src:000007,time:4210,execs:12,op:crash+reboot`, with `+cov`
//! for new coverage, `bug:<signature>` where AFL has `sig:` and `sync:<instance>,src:<id there>` for a run taken over. Made and read
//! here only.

use std::fmt;
use std::str::FromStr;
use warren_model::FaultSequence;

/// The parts of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryName {
    pub id: u64,
    /// The instance that a run was taken over from; `src` is its id there.
    pub sync: Option<String>,
    /// The seed run's id; none for a run without one (`orig:` with the text instead).
    pub src: Option<u64>,
    /// For entries without a seed run: where they come from, such as `fault-free`.
    pub orig: Option<String>,
    /// ms of fuzzing time.
    pub time_ms: u64,
    pub execs: u64,
    /// Kinds of the faults in order.
    pub op: String,
    pub new_coverage: bool,
    /// Signature of a failing run.
    pub bug: Option<String>,
}

/// Longest `op:`; beyond it only the number of faults is told.
const OP_MAX: usize = 160;
/// Longest name of a file, in bytes. Where the other parts leave `op:` less than its own bound, the number of faults is told, too.
const NAME_MAX: usize = 255;

/// `op:` of a sequence.
#[must_use]
pub fn op(sequence: &FaultSequence) -> String {
    let kinds = sequence.kinds();
    if kinds.len() <= OP_MAX {
        kinds
    } else {
        format!("{}-faults", sequence.faults.len())
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.text(&self.op);
        if whole.len() <= NAME_MAX {
            return f.write_str(&whole);
        }
        let faults = self.op.split('+').count();
        f.write_str(&self.text(&format!("{faults}-faults")))
    }
}

impl EntryName {
    fn text(&self, op: &str) -> String {
        use std::fmt::Write;
        let mut text = format!("id:{:06}", self.id);
        if let Some(sync) = &self.sync {
            let _ = write!(text, ",sync:{sync}");
        }
        if let Some(src) = self.src {
            let _ = write!(text, ",src:{src:06}");
        }
        let _ = write!(text, ",time:{},execs:{}", self.time_ms, self.execs);
        if let Some(orig) = &self.orig {
            let _ = write!(text, ",orig:{orig}");
        }
        let _ = write!(text, ",op:{op}");
        if let Some(bug) = &self.bug {
            let _ = write!(text, ",bug:{bug}");
        }
        if self.new_coverage {
            text.push_str(",+cov");
        }
        text
    }
}

impl FromStr for EntryName {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let mut name = EntryName {
            id: 0,
            sync: None,
            src: None,
            orig: None,
            time_ms: 0,
            execs: 0,
            op: String::new(),
            new_coverage: false,
            bug: None,
        };
        let mut has_id = false;
        for part in s.split(',') {
            let number = |v: &str| {
                v.parse::<u64>()
                    .map_err(|_| format!("`{s}`: `{v}` in `{part}` is no number"))
            };
            match part.split_once(':') {
                Some(("id", v)) => {
                    name.id = number(v)?;
                    has_id = true;
                }
                Some(("sync", v)) => name.sync = Some(v.to_owned()),
                Some(("src", v)) => name.src = Some(number(v)?),
                Some(("time", v)) => name.time_ms = number(v)?,
                Some(("execs", v)) => name.execs = number(v)?,
                Some(("orig", v)) => name.orig = Some(v.to_owned()),
                Some(("op", v)) => name.op = v.to_owned(),
                Some(("bug", v)) => name.bug = Some(v.to_owned()),
                None if part == "+cov" => name.new_coverage = true,
                _ => return Err(format!("`{s}`: `{part}` is no part of an entry's name")),
            }
        }
        if has_id {
            Ok(name)
        } else {
            Err(format!("`{s}` has no id:"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use warren_model::{At, Fault};

    #[test]
    fn as_afl_writes_them() {
        let name = EntryName {
            id: 0,
            sync: None,
            src: Some(7),
            orig: None,
            time_ms: 51_230,
            execs: 31,
            op: "crash+reboot".into(),
            new_coverage: false,
            bug: Some("1f2e3d4c".into()),
        };
        assert_eq!(
            name.to_string(),
            "id:000000,src:000007,time:51230,execs:31,op:crash+reboot,bug:1f2e3d4c"
        );
        assert!("README.txt".parse::<EntryName>().is_err());
        assert!(
            "id:x"
                .parse::<EntryName>()
                .unwrap_err()
                .contains("no number")
        );
        assert!(
            "src:000001"
                .parse::<EntryName>()
                .unwrap_err()
                .contains("no id")
        );
    }

    #[test]
    fn a_long_sequence_still_fits_a_file_name() {
        let mut s = FaultSequence::empty("t");
        for _ in 0..40 {
            s = s.with(At::AtOnce, Fault::PartitionStop);
        }
        assert_eq!(op(&s), "40-faults");
        // Parts that leave the kinds less room than their own bound.
        let mut name = EntryName {
            id: 12,
            sync: None,
            src: None,
            orig: Some("é".repeat(30)),
            time_ms: 1_234_567_890,
            execs: 123_456,
            op: ["partition-start"; 10].join("+"),
            new_coverage: true,
            bug: None,
        };
        assert!(name.op.len() <= OP_MAX);
        assert!(name.to_string().contains(",op:10-faults,+cov"), "{name}");
        name.orig = None;
        assert!(name.to_string().contains(",op:partition-start+"), "{name}");
        name.sync = Some("s".repeat(64));
        assert!(name.to_string().len() <= NAME_MAX, "{name}");
    }

    proptest! {
        #[test]
        fn round_trip(
            id in 0u64..10_000_000,
            sync in prop::option::of("[A-Za-z0-9_-]{1,12}"),
            src in prop::option::of(0u64..10_000_000),
            orig in prop::option::of("[a-z-]{1,12}"),
            time_ms in any::<u64>(),
            execs in any::<u64>(),
            op in "(crash|reboot|partition-start)(\\+(crash|reboot|partition-stop)){0,4}",
            new_coverage in any::<bool>(),
            bug in prop::option::of("[0-9a-f]{8}"),
        ) {
            let name = EntryName { id, sync, src, orig, time_ms, execs, op, new_coverage, bug };
            prop_assert_eq!(name.to_string().parse::<EntryName>().unwrap(), name);
        }
    }
}
