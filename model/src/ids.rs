//! Names and hashes that identify things across runs, processes and languages.
//!
//! Stable for ever: stored in sequences, shown to users, computed alike by the Java agent (docs/formats.md section 4).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a 64 over bytes: the one hash that Java and Rust share.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_of(bytes.iter().copied())
}

/// The same of bytes that need not lie anywhere.
pub fn fnv1a_of(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(FNV_OFFSET, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(FNV_PRIME)
    })
}

/// The 16 hex digits of an id, as its text has them.
pub fn hex_digits(id: u64) -> impl Iterator<Item = u8> {
    (0..16)
        .rev()
        .map(move |i| b"0123456789abcdef"[(id >> (4 * i) & 15) as usize])
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(s: &str) -> Result<Self, String> {
                if s.len() != 16 {
                    return Err(format!("`{s}` is not an id: 16 hex digits are expected"));
                }
                u64::from_str_radix(s, 16)
                    .map($name)
                    .map_err(|_| format!("`{s}` is not an id: 16 hex digits are expected"))
            }
        }

        // Text formats show 16 hex digits; binary ones keep the word.
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() {
                    s.collect_str(self)
                } else {
                    s.serialize_u64(self.0)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    String::deserialize(d)?
                        .parse()
                        .map_err(serde::de::Error::custom)
                } else {
                    u64::deserialize(d).map($name)
                }
            }
        }
    };
}

hex_id! {
    /// A call stack of the target's own frames (CrashFuzz section IV-B).
    StackId
}
hex_id! {
    /// "The same fault" wherever it happens: hash of call stack, fault kind and place (CrashFuzz section IV-B).
    FaultId
}

impl StackId {
    /// Hash of frames `class.method`, innermost first, already filtered to the target's own.
    pub fn of_frames<'a>(frames: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for frame in frames {
            text.push_str(frame);
            text.push('\n');
        }
        StackId(fnv1a(text.as_bytes()))
    }
}

/// A node of the cluster by its name in target.toml, such as `zk2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeName(pub String);

impl NodeName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for NodeName {
    fn from(s: &str) -> Self {
        NodeName(s.to_owned())
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn hex_in_text_word_in_binary() {
        let id = StackId(0x9f3c_27a1_d0b8_4e55);
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"9f3c27a1d0b84e55\"");
        let bytes = postcard::to_allocvec(&id).unwrap();
        assert_eq!(postcard::from_bytes::<StackId>(&bytes).unwrap(), id);
        assert!("9f3c".parse::<StackId>().is_err());
    }
}
