//! Why a cluster was not stable when it should have been, and of which kind that is: what the executor writes into a record, and the
//! checker tells its stories by.
//!
//! Stored as its text, so that files of before the kind are read as they were, and older programs read ours.

use serde::{Deserialize, Serialize};

/// Each is a story of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instability {
    /// Some do not serve, none leads, or they do not agree: it is chance which of these is found last.
    Outage,
    /// All serve, and more than one says that it leads.
    SeveralLead,
}

/// One time that it was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct NotStable {
    pub kind: Instability,
    /// What it was asked for (`start`, `heal`, `durability`), a colon, and why; for people but for what stands before the colon.
    pub text: String,
}

impl From<NotStable> for String {
    fn from(stored: NotStable) -> String {
        stored.text
    }
}

/// Its stored text, which has no kind but by the words that the executor has for it. Of a run that was just made the executor says it: nothing
/// else is to read them.
impl From<String> for NotStable {
    fn from(text: String) -> NotStable {
        let why = text.split_once(": ").map_or(&*text, |(_, why)| why);
        let number = why.split_once(" nodes say they are ").map(|(n, _)| n);
        let several = number.is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 1));
        let kind = match several {
            true => Instability::SeveralLead,
            false => Instability::Outage,
        };
        NotStable { kind, text }
    }
}

impl From<&str> for NotStable {
    fn from(text: &str) -> NotStable {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_stored_as_its_text_and_has_its_kind_back() {
        use Instability::{Outage, SeveralLead};
        for (text, kind) in [
            ("heal: 2 nodes say they are leader", SeveralLead),
            ("durability: 12 nodes say they are active", SeveralLead),
            // Of a record of before what was asked stood there.
            ("3 nodes say they are leader", SeveralLead),
            ("heal: 1 nodes say they are leader", Outage),
            ("durability: 0 nodes say they are leader", Outage),
            ("heal: all nodes say they are leader", Outage),
            ("heal: zk3 does not serve (down)", Outage),
            ("heal: `epoch` differs: 1, 2", Outage),
            ("start: none says so", Outage),
            // Words that are quoted.
            ("heal: no answer: 2 nodes say they are leader", Outage),
            ("no leader", Outage),
            ("", Outage),
        ] {
            let text_of = |n: &NotStable| String::from(n.clone());
            let stored = NotStable {
                kind,
                text: text.into(),
            };
            assert_eq!(text_of(&stored), text);
            let json = serde_json::to_string(&stored).unwrap();
            assert_eq!(json, serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<NotStable>(&json).unwrap(), stored);
            let bytes = postcard::to_allocvec(&stored).unwrap();
            assert_eq!(bytes, postcard::to_allocvec(text).unwrap());
            assert_eq!(postcard::from_bytes::<NotStable>(&bytes).unwrap(), stored);
        }
    }
}
