//! What the brokers of several machines say to each other: the content of LLMP messages, made and read here only. Pure.
//!
//! A letter begins with its version, so that another Warren's is told apart from damage. It refuses whatever does not read back whole.

use crate::campaign::state::Identity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use warren_model::ids::fnv1a;

/// Version of the format.
pub const VERSION: u32 = 1;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Of the campaign: only letters of one's own are looked into and passed on.
    pub key: u64,
    /// The broker that wrote it, a new number each time it starts, and the letter's number there: where brokers are joined in a ring, what
    /// comes round again is known by them.
    pub origin: u64,
    pub serial: u64,
    pub body: Body,
}

/// What a letter says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    Hello(Hello),
    Lines(Lines),
    File(File),
}

/// Who a broker is and what it has of the others: sent every other second, so that whatever was lost on the way is sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What the campaigns must have in common.
    pub identity: Identity,
    /// Instances that live beside it.
    pub own: Vec<String>,
    /// Instances of others, as far as they are here.
    pub have: BTreeMap<String, Have>,
}

/// How much of an instance a broker has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// Hash of the first line of sync.jsonl: another one is another campaign of that name.
    pub first: u64,
    pub bytes: u64,
    /// Hash of the last of these bytes.
    pub tail: u64,
    /// Files of each kind, in the order of [`Sub::ALL`].
    pub files: [Pile; 3],
}

/// The files of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pile {
    pub count: u64,
    /// Hash of the last one's name and content: a kill may have made another one of it.
    pub last: u64,
}

/// A piece of an instance's sync.jsonl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    pub name: String,
    pub first: u64,
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// A whole file of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub name: String,
    pub first: u64,
    pub sub: Sub,
    /// Its place among those of the folder, and how many these are.
    pub index: u64,
    pub of: u64,
    pub file: String,
    pub bytes: Vec<u8>,
}

/// Folders whose files are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sub {
    /// Kept runs, for taking over.
    Runs,
    /// Sequences of failing runs.
    Crashes,
    Hangs,
}

impl Sub {
    pub const ALL: [Sub; 3] = [Sub::Runs, Sub::Crashes, Sub::Hangs];

    /// The folder's name.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Sub::Runs => "runs",
            Sub::Crashes => "crashes",
            Sub::Hangs => "hangs",
        }
    }
}

/// What is no letter of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Version(u32),
    Damaged,
}

/// The key of campaigns that may believe each other.
#[must_use]
pub fn key(identity: &Identity) -> u64 {
    // Strings only: cannot fail.
    fnv1a(&postcard::to_allocvec(identity).unwrap_or_default())
}

impl Letter {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        // Numbers, strings, lists and maps only: cannot fail.
        bytes.extend(postcard::to_allocvec(self).unwrap_or_default());
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// Another version; what does not read back whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Wrong> {
        let (version, rest) = bytes.split_first_chunk().ok_or(Wrong::Damaged)?;
        match u32::from_le_bytes(*version) {
            VERSION => {}
            // A small number is a version; any other one is noise.
            other @ 1..=999 => return Err(Wrong::Version(other)),
            _ => return Err(Wrong::Damaged),
        }
        match postcard::take_from_bytes(rest) {
            Ok((letter, [])) => Ok(letter),
            _ => Err(Wrong::Damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn letter() -> Letter {
        let identity = Identity::new([("target", "canary".into())]);
        Letter {
            key: key(&identity),
            origin: 9,
            serial: 3,
            body: Body::Hello(Hello {
                identity,
                own: vec!["main".into()],
                have: [("second".to_owned(), Have::default())].into(),
            }),
        }
    }

    #[test]
    fn a_letter_reads_back_and_another_version_is_named() {
        let mut bytes = letter().to_bytes();
        assert_eq!(Letter::from_bytes(&bytes), Ok(letter()));
        for cut in 0..bytes.len() {
            assert_eq!(Letter::from_bytes(&bytes[..cut]), Err(Wrong::Damaged));
        }
        bytes.push(0);
        assert_eq!(Letter::from_bytes(&bytes), Err(Wrong::Damaged));
        bytes[0] = 7;
        assert_eq!(Letter::from_bytes(&bytes), Err(Wrong::Version(7)));
    }

    /// The bytes of version 1, kept: a change of them needs another version.
    #[test]
    fn version_1_is_as_it_was() {
        let lines = Letter {
            key: 5,
            origin: 6,
            serial: 7,
            body: Body::Lines(Lines {
                name: "a".into(),
                first: 1,
                at: 2,
                bytes: vec![255],
            }),
        };
        assert_eq!(
            lines.to_bytes(),
            [1, 0, 0, 0, 5, 6, 7, 1, 1, b'a', 1, 2, 1, 255]
        );
    }

    #[test]
    fn campaigns_that_differ_have_different_keys() {
        let of = |target: &str| key(&Identity::new([("target", target.to_owned())]));
        assert_eq!(of("canary"), of("canary"));
        assert_ne!(of("canary"), of("zookeeper"));
    }

    proptest! {
        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(letter) = Letter::from_bytes(&bytes) {
                prop_assert_eq!(Letter::from_bytes(&letter.to_bytes()), Ok(letter));
            }
        }
    }
}
