//! What makes a campaign this campaign: another target, version, agent, strategy or set of faults is another one. Written into the
//! head of the checkpoint as plain text, so that every later version can say what is different. Decides nothing else.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Names and values, in the order in which they are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity(Vec<(String, String)>);

impl Identity {
    /// From names and values.
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        Identity(
            values
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    /// One more value.
    pub fn put(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// The same without some of its values.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Identity {
        let kept = self.0.iter().filter(|(n, _)| !names.contains(&n.as_str()));
        Identity(kept.cloned().collect())
    }

    /// Each difference of what is asked now: first of the values that are asked, then of those that are no longer.
    #[must_use]
    pub fn differences(&self, asked: &Identity) -> Differences {
        let told = |name: &str, was: Option<&str>, asked: Option<&str>| Difference {
            name: name.to_owned(),
            was: was.map(str::to_owned),
            asked: asked.map(str::to_owned),
        };
        let changed = asked
            .0
            .iter()
            .map(|(name, now)| told(name, self.get(name), Some(now)));
        let gone = self
            .0
            .iter()
            .filter(|(name, _)| asked.get(name).is_none())
            .map(|(name, was)| told(name, Some(was), None));
        Differences(changed.chain(gone).filter(|d| d.was != d.asked).collect())
    }
}

/// A value that is not what it was. None: that side does not have it, as another version of Warren wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Of the value.
    pub name: String,
    /// Before.
    pub was: Option<String>,
    /// Now.
    pub asked: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [was, asked] = [&self.was, &self.asked].map(|side| match side {
            Some(value) => value.as_str(),
            None => "nothing (another version of Warren)",
        });
        write!(f, "{}: was {was}, asked {asked}", self.name)
    }
}

/// All of them; empty: it is the same campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences(pub Vec<Difference>);

impl Differences {
    /// Whether all is as it was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each on a line of its own, below one that ends in a line break and two spaces.
    #[must_use]
    pub fn in_lines(&self) -> String {
        self.joined("\n  ")
    }

    /// All on one line.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        self.joined("; ")
    }

    fn joined(&self, between: &str) -> String {
        let texts: Vec<String> = self.0.iter().map(Difference::to_string).collect();
        texts.join(between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_spelt_out() {
        let was = Identity::new([
            ("target", "canary".into()),
            ("agent", "1f".into()),
            ("old", "1".into()),
        ]);
        let mut asked = Identity::new([("target", "zookeeper".into()), ("agent", "1f".into())]);
        assert!(was.differences(&was).is_empty());
        assert_eq!(
            was.differences(&asked).in_lines(),
            "target: was canary, asked zookeeper\n  old: was 1, asked nothing (another version of Warren)"
        );
        assert!(
            was.without(&["target", "old"])
                .differences(&asked.without(&["target"]))
                .is_empty()
        );
        asked.put("new", 2);
        assert_eq!(
            was.differences(&asked).in_a_line(),
            "target: was canary, asked zookeeper; new: was nothing (another version of Warren), asked 2; \
             old: was 1, asked nothing (another version of Warren)"
        );
    }
}
