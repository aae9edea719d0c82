//! What a campaign tests beside what it is asked: what the target's files hold, and the JDK. Noted in its state, and by `compare` in the head of its
//! table; what an earlier Warren stored does not tell it, and what is not told is no difference. Called by the command line, which has the
//! target, and at the start of a campaign. Asks JDKs for their versions; fetches none.

use crate::campaign::state::{Difference, Differences, Identity};
use std::path::Path;
use warren_executor::setup::cache;
use warren_executor::setup::jdk::{self, Candidate, Choice, Place};
use warren_executor::target::{Target, TargetError};

/// Names in an identity, in the order of [`Tested::values`].
const NAMES: [&str; 3] = ["target content", "JDK", "rules to judge by"];

/// What is tested; none: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tested {
    /// The target's ([`Target::content`]).
    pub content: Option<String>,
    /// Version of the JDK that nodes and workload run on.
    pub jdk: Option<String>,
    /// By which rules of the target runs are judged ([`Target::rules_content`]).
    pub rules: Option<String>,
}

impl Tested {
    /// Of a target that is not set up: nothing of its JDK.
    ///
    /// # Errors
    /// A file of the target that cannot be read.
    pub fn of(target: &Target) -> Result<Self, TargetError> {
        Ok(Tested {
            content: Some(target.content()?),
            jdk: None,
            rules: Some(target.rules_content()?),
        })
    }

    /// With the JDK that set-up will take, `named` by the user or not, if it is there: what is to be fetched first is not known, and of
    /// one that does not work set-up complains.
    #[must_use]
    pub fn with_jdk_there(self, target: &Target, named: Option<&Path>) -> Self {
        Tested {
            jdk: jdk_there(target, named),
            ..self
        }
    }

    /// What a campaign that goes on must still have: its rules may be mended on the way, and then hold from there on.
    #[must_use]
    pub fn without_rules(&self) -> Self {
        Tested {
            rules: None,
            ..self.clone()
        }
    }

    /// What is the same on each machine that tests the same: a JDK is a machine's own, and rules may be mended while others run.
    #[must_use]
    pub fn everywhere(&self) -> Self {
        Tested {
            jdk: None,
            ..self.without_rules()
        }
    }

    fn values(&self) -> [&Option<String>; 3] {
        [&self.content, &self.jdk, &self.rules]
    }

    /// Adds what is known to an identity.
    pub fn put_into(&self, identity: &mut Identity) {
        for (name, value) in NAMES.into_iter().zip(self.values()) {
            if let Some(value) = value {
                identity.put(name, value);
            }
        }
    }

    /// Each difference of what is tested now, as [`differences_told`] has them.
    #[must_use]
    pub fn differences(&self, now: &Tested) -> Differences {
        let [was, asked] = [self, now].map(|tested| {
            let mut identity = Identity::default();
            tested.put_into(&mut identity);
            identity
        });
        differences_told(&was, &asked)
    }
}

/// Whether a difference is one of what is tested, and none of what is asked.
#[must_use]
pub fn is_of_tested(difference: &Difference) -> bool {
    NAMES.contains(&difference.name.as_str())
}

/// Each difference of what is asked now, of what is tested only where both sides tell it.
#[must_use]
pub fn differences_told(was: &Identity, asked: &Identity) -> Differences {
    let unknown: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| was.get(name).is_none() || asked.get(name).is_none())
        .collect();
    was.without(&unknown).differences(&asked.without(&unknown))
}

fn jdk_there(target: &Target, named: Option<&Path>) -> Option<String> {
    let all = match named {
        Some(home) => vec![Candidate {
            place: Place::Named,
            jdk: jdk::ask_home(home).ok()?,
        }],
        None => jdk::all(None, &cache::dir().ok()?).ok()?,
    };
    match jdk::choose(target.java, &all) {
        Choice::Take { jdk, .. } => Some(jdk.full_version.clone()),
        Choice::TooOld(_) | Choice::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_sides_tell_can_differ() {
        let content = "target content: was aa, asked bb";
        let jdk = "JDK: was 17, asked 21";
        for (was, now, want) in [
            (["", ""], ["", ""], vec![]),
            (["aa", "17"], ["aa", "17"], vec![]),
            (["aa", "17"], ["bb", "17"], vec![content]),
            (["aa", "17"], ["aa", "21"], vec![jdk]),
            (["aa", "17"], ["bb", "21"], vec![content, jdk]),
            // Stored by an earlier Warren; a JDK that was fetched later.
            (["", ""], ["bb", "21"], vec![]),
            (["aa", ""], ["bb", "21"], vec![content]),
            (["aa", "17"], ["", ""], vec![]),
        ] {
            let [was, now] = [was, now].map(|[content, jdk]| {
                let told = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
                Tested {
                    content: told(content),
                    jdk: told(jdk),
                    rules: None,
                }
            });
            let told = |d: Differences| d.0.iter().map(Difference::to_string).collect::<Vec<_>>();
            assert_eq!(told(was.differences(&now)), want, "{was:?} {now:?}");
            // All else is a difference as ever.
            let [mut one, mut other] =
                ["3.6.3", "3.5.8"].map(|v| Identity::new([("target version", v.to_owned())]));
            was.put_into(&mut one);
            now.put_into(&mut other);
            let all = differences_told(&one, &other);
            let (asked, tested) = all.0.split_first().unwrap();
            assert_eq!(asked.to_string(), "target version: was 3.6.3, asked 3.5.8");
            assert_eq!(told(Differences(tested.to_vec())), want);
            assert!(!is_of_tested(asked) && tested.iter().all(is_of_tested));
        }
    }

    #[test]
    fn a_campaign_goes_on_with_mended_rules_and_a_comparison_does_not() {
        let [was, now] = ["aa", "bb"].map(|rules| Tested {
            rules: Some(rules.into()),
            ..Tested::default()
        });
        assert_eq!(
            was.differences(&now).in_lines(),
            "rules to judge by: was aa, asked bb"
        );
        let [was, now] = [was.without_rules(), now.without_rules()];
        assert!(was.differences(&now).is_empty());
    }
}
