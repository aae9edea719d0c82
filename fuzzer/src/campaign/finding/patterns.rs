//! The text of a finding's `patterns.toml`, and of any sequence with a line about each of its faults. Pure; what stands in it is made by
//! `search::patterns`.

use crate::search::patterns::Generalised;
use crate::text::one_line;
use warren_model::FaultSequence;

/// The text of `patterns.toml`.
#[must_use]
pub fn text(g: &Generalised, about: &[String]) -> String {
    let mut head = String::from(
        "# matched.toml with its points as patterns: role or node, the fewest frames that tell the call stack apart, and the n-th\n\
         # arrival. Meant for other versions and builds of the target, where stacks have other ids; see docs/formats.md section 9.\n",
    );
    for note in &g.notes {
        head.push_str(&format!("# {note}\n"));
    }
    head + &commented(&g.sequence, about)
}

/// The sequence as text with a line about each fault before it.
#[must_use]
pub fn commented(sequence: &FaultSequence, about: &[String]) -> String {
    let text = sequence.to_text();
    let mut parts = text.split("[[fault]]\n");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (i, part) in parts.enumerate() {
        if let Some(line) = about.get(i) {
            out.push_str(&format!("# fault {}: {}\n", i + 1, one_line(line)));
        }
        out.push_str("[[fault]]\n");
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::{At, CrashStyle, Fault, Who};

    #[test]
    fn what_is_said_about_a_fault_is_a_comment_before_it() {
        let crash = Fault::Crash {
            who: Who::Node("n1".into()),
            style: CrashStyle::Process,
        };
        let g = Generalised {
            sequence: FaultSequence::empty("t")
                .with(At::AtOnce, crash)
                .with(At::AtOnce, Fault::PartitionStop),
            notes: vec!["a note".into()],
        };
        let about = ["one".to_owned(), "two\n[[fault]]".to_owned()];
        let text = text(&g, &about);
        assert_eq!(FaultSequence::from_text(&text).unwrap(), g.sequence);
        for part in [
            "# a note\n",
            "# fault 1: one\n[[fault]]\nkind = \"crash\"",
            "# fault 2: two [[fault]]\n[[fault]]\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
