//! Why a run is no test: what the executor writes into a record, feedback into a judgement and a campaign into the run's line.
//!
//! Stored as its text, so that files of before this type are read as they were. It decides nothing: what is done again, and what counts
//! nowhere, is the campaign's matter.

use serde::{Deserialize, Serialize};
use std::fmt;

const CUT_OFF: &str = "stopped";
const STOPPING: &str = "stopped: Warren is stopping";
const GIVEN_UP: &str = "stopped: given up by the user";

/// Why a run says nothing about the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Void {
    /// The run itself went wrong (machine starved, tmpfs full, slot lost), and how: it is made again.
    WentWrong(String),
    /// The executor ended it, because Warren ends.
    Stopping,
    /// The executor ended it, because the user gave it up.
    GivenUp,
    /// A campaign's word for each run that one of the two cut off, and for one that ended by itself but was not looked at any more: it
    /// counts nowhere.
    CutOff,
}

impl Void {
    /// The run was ended before its end by Warren, not by what went wrong in it.
    #[must_use]
    pub fn is_ended_early(&self) -> bool {
        matches!(self, Void::Stopping | Void::GivenUp)
    }
}

impl fmt::Display for Void {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Void::WentWrong(why) => why,
            Void::Stopping => STOPPING,
            Void::GivenUp => GIVEN_UP,
            Void::CutOff => CUT_OFF,
        })
    }
}

impl From<Void> for String {
    fn from(void: Void) -> String {
        match void {
            Void::WentWrong(why) => why,
            other => other.to_string(),
        }
    }
}

/// Its stored text. Any that is none of Warren's own words is of a run that went wrong.
impl From<String> for Void {
    fn from(text: String) -> Void {
        match text.as_str() {
            STOPPING => Void::Stopping,
            GIVEN_UP => Void::GivenUp,
            CUT_OFF => Void::CutOff,
            _ => Void::WentWrong(text),
        }
    }
}

impl From<&str> for Void {
    fn from(text: &str) -> Void {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_stored_as_its_text() {
        for (void, text) in [
            (Void::WentWrong("tmpfs full".into()), "tmpfs full"),
            (Void::Stopping, "stopped: Warren is stopping"),
            (Void::GivenUp, "stopped: given up by the user"),
            (Void::CutOff, "stopped"),
            // Of another version: no word of ours, so no run that counts nowhere.
            (
                Void::WentWrong("stopped: by hand".into()),
                "stopped: by hand",
            ),
        ] {
            let json = serde_json::to_string(&void).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Void>(&json).unwrap(), void);
            assert_eq!(void.to_string(), text);
        }
    }

    #[test]
    fn only_the_executors_words_are_of_a_run_ended_early() {
        let early = |v: Void| v.is_ended_early();
        assert!(early(Void::Stopping) && early(Void::GivenUp));
        // A campaign's own word is no word of the executor's, and no machine's fault is one.
        assert!(!early(Void::CutOff) && !early(Void::WentWrong("stopped dead".into())));
    }
}
