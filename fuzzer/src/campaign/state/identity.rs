//! What makes a campaign this campaign: another target, version, agent, strategy or set of faults is another one. Written into the
//! head of the checkpoint as plain text, so that every later version can say what is different. Decides nothing else.

use serde::{Deserialize, Serialize};

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

    /// Each difference of what is asked now, as a line: `target: was canary, asked zookeeper`.
    #[must_use]
    pub fn differences(&self, asked: &Identity) -> Vec<String> {
        const NONE: &str = "nothing (another version of Warren)";
        let changed = asked
            .0
            .iter()
            .map(|(name, now)| (name, self.get(name).unwrap_or(NONE), now.as_str()));
        let gone = self
            .0
            .iter()
            .filter(|(name, _)| asked.get(name).is_none())
            .map(|(name, was)| (name, was.as_str(), NONE));
        changed
            .chain(gone)
            .filter(|(_, was, now)| was != now)
            .map(|(name, was, now)| format!("{name}: was {was}, asked {now}"))
            .collect()
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
            was.differences(&asked),
            [
                "target: was canary, asked zookeeper",
                "old: was 1, asked nothing (another version of Warren)"
            ]
        );
        assert!(
            was.without(&["target", "old"])
                .differences(&asked.without(&["target"]))
                .is_empty()
        );
        asked.put("new", 2);
        assert_eq!(
            was.differences(&asked)[1],
            "new: was nothing (another version of Warren), asked 2"
        );
    }
}
