//! What an instance of an output folder is: its name, what it is to the others, and how many clusters it has side by side. Plain values;
//! filled by the CLI, asked by the engine and by brokers.

use std::fmt;
use std::str::FromStr;

/// Slots side by side (`-j`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    Exactly(usize),
    /// As many as fault-free runs stand.
    Auto,
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slots::Exactly(n) => write!(f, "{n}"),
            Slots::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Slots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Slots::Auto),
            n => match n.parse() {
                Ok(n @ 1..=MAX_SLOTS) => Ok(Slots::Exactly(n)),
                _ => Err(format!(
                    "`{n}` is neither a number from 1 to {MAX_SLOTS} nor auto"
                )),
            },
        }
    }
}

/// Most slots side by side.
pub const MAX_SLOTS: usize = 64;

/// What an instance is to the others of its output folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstanceKind {
    /// Neither -M nor -S: it tells nothing and hears nothing.
    #[default]
    Alone,
    /// `-M`: one of an output folder; it is marked, and does the same as the others.
    Main,
    /// `-S`.
    Secondary,
}

/// Of an instance that shares its work with nobody (no -M, no -S).
pub const ALONE: &str = "default";

/// Whether an instance may be called so: it names a folder on every machine, and is a part of file names. rsync's own folders are
/// hidden, and so none.
#[must_use]
pub fn is_instance_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=32).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-')
}
