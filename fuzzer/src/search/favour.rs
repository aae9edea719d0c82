//! Favoured stacks, `[[favour]]` of a dictionary: where a user wants faults first, such as in the code that a release changed. Pure.
//!
//! Asked when a run's classes join the queue and when `warren` draws points of its own (tails, havoc's insert). Excludes nothing: what is not favoured
//! only waits longer. Baselines that draw uniformly, or go first in, first out, do not ask it.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;
use warren_model::{StackId, Trace, frames_match};

/// What a favoured class or point weighs, where others weigh one.
pub const WEIGHT: u64 = 8;

/// Globs over `class.method`: a stack with a frame that one of them matches is favoured.
#[derive(Clone, Debug, Default)]
pub struct Favour(Arc<[String]>);

impl Favour {
    #[must_use]
    pub fn new(globs: &[String]) -> Self {
        Favour(globs.into())
    }

    /// The favoured ones among the stacks of a run.
    #[must_use]
    pub fn stacks(&self, trace: &Trace) -> BTreeSet<StackId> {
        let all = trace.stacks.iter();
        let favoured = all.filter(|(_, frames)| self.0.iter().any(|glob| has(frames, glob)));
        favoured.map(|(id, _)| *id).collect()
    }

    /// How many stacks of a run each glob matches: one that matches none may be misspelt.
    pub fn matched<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = (&'a str, usize)> {
        self.0.iter().map(|glob| {
            let stacks = trace.stacks.values();
            (glob.as_str(), stacks.filter(|f| has(f, glob)).count())
        })
    }
}

fn has(frames: &[String], glob: &String) -> bool {
    frames_match(slice::from_ref(glob), frames)
}

/// The weight of what is favoured or not.
#[must_use]
pub fn weight(favoured: bool) -> u64 {
    if favoured { WEIGHT } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_favoured_by_any_frame() {
        let frames = |f: &[&str]| f.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        let trace = Trace {
            stacks: [
                (StackId(1), frames(&["a.Log.append:3", "a.Node.run:9"])),
                (StackId(2), frames(&["a.Log.append:3", "a.Sync.send:7"])),
                (StackId(3), frames(&["b.Other.write:1"])),
            ]
            .into(),
            ..Trace::default()
        };
        for (globs, want, matched) in [
            (&[][..], &[][..], &[][..]),
            (&["a.Sync.*"], &[2], &[1]),
            (&["a.Log.append"], &[1, 2], &[2]),
            (&["*.Sync.send", "b.*", "none"], &[2, 3], &[1, 1, 0]),
        ] {
            let globs: Vec<String> = globs.iter().map(|g| (*g).to_owned()).collect();
            let favour = Favour::new(&globs);
            let stacks: Vec<u64> = favour.stacks(&trace).iter().map(|s| s.0).collect();
            assert_eq!(stacks, want, "{globs:?}");
            let counts: Vec<usize> = favour.matched(&trace).map(|(_, n)| n).collect();
            assert_eq!(counts, matched, "{globs:?}");
        }
    }
}
