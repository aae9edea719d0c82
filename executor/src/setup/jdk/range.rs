//! Which versions of Java a target runs on: `java = 8` or `java = "8..17"` of target.toml. Pure.

use std::fmt;

/// Feature versions (8, 11, 17, ...), both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JavaRange {
    /// The lowest; sources are compiled for it.
    pub least: u32,
    /// The highest; none = every later one.
    pub most: Option<u32>,
}

impl JavaRange {
    /// What can be written; below 8 there is no agent.
    const KNOWN: std::ops::RangeInclusive<u32> = 8..=99;

    /// That version and every later one.
    #[must_use]
    pub fn from(least: u32) -> Self {
        JavaRange { least, most: None }
    }

    /// Reads `8..17`, `8..` or `17..17`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.trim()
                .parse()
                .ok()
                .filter(|n| Self::KNOWN.contains(n))
                .ok_or_else(|| format!("`{part}` in `{text}` is no Java version from 8 to 99"))
        };
        let Some((least, most)) = text.split_once("..") else {
            return Err(format!("`{text}` is no range"));
        };
        let range = JavaRange {
            least: number(least)?,
            most: match most.trim() {
                "" => None,
                most => Some(number(most)?),
            },
        };
        match range.most {
            Some(most) if most < range.least => Err(format!("`{text}` has no version in it")),
            _ => Ok(range),
        }
    }

    /// Reads a whole number: that version or later.
    ///
    /// # Errors
    /// It is out of range.
    pub fn at_least(number: i64) -> Result<Self, String> {
        u32::try_from(number)
            .ok()
            .filter(|n| Self::KNOWN.contains(n))
            .map(Self::from)
            .ok_or_else(|| format!("{number} is out of range (8 to 99)"))
    }

    /// Whether a version will do.
    #[must_use]
    pub fn has(self, version: u32) -> bool {
        version >= self.least && self.most.is_none_or(|most| version <= most)
    }
}

impl fmt::Display for JavaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            None => write!(f, "{} or later", self.least),
            Some(most) if most == self.least => write!(f, "{most}"),
            Some(most) => write!(f, "{} to {most}", self.least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_shown() {
        let table = [
            ("8..17", Ok("8 to 17")),
            ("8..", Ok("8 or later")),
            (" 11 .. 11 ", Ok("11")),
            ("8", Err("no range")),
            ("..17", Err("`` in `..17`")),
            ("7..17", Err("`7` in")),
            ("8..100", Err("`100` in")),
            ("17..8", Err("no version in it")),
            ("8..x", Err("`x` in")),
            ("8...17", Err("`.17` in")),
        ];
        for (text, want) in table {
            match (JavaRange::parse(text), want) {
                (Ok(got), Ok(want)) => assert_eq!(got.to_string(), want, "{text}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text}: {got}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
        assert_eq!(JavaRange::at_least(11), Ok(JavaRange::from(11)));
        assert!(JavaRange::at_least(7).is_err() && JavaRange::at_least(-1).is_err());
    }

    #[test]
    fn both_ends_are_included() {
        let range = JavaRange::parse("8..17").unwrap();
        let has = [7, 8, 11, 17, 18].map(|v| range.has(v));
        assert_eq!(has, [false, true, true, true, false]);
        assert!(JavaRange::from(8).has(25));
    }
}
