//! Which of the JDKs there are runs a target, which compiles its programs, and which is worth fetching when none fits. Pure.
//!
//! Called by `find_or_fetch` with what it found, and by `doctor`. It asks no JDK anything.

use super::{JavaRange, Jdk};

/// Where a JDK was found, in the order in which one is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// `--java`.
    Named,
    /// The variable JAVA_HOME.
    JavaHome,
    /// `java` on the PATH.
    Path,
    /// One of the folders that JDKs are installed in.
    System,
    /// Warren's own cache.
    Cache,
}

impl Place {
    /// As a word of a sentence.
    #[must_use]
    pub fn shown(self) -> &'static str {
        match self {
            Place::Named => "--java",
            Place::JavaHome => "JAVA_HOME",
            Place::Path => "PATH",
            Place::System => "system",
            Place::Cache => "cache",
        }
    }

    /// Whether the user said that this is the one.
    fn said(self) -> bool {
        self <= Place::Path
    }
}

/// A JDK that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub place: Place,
    pub jdk: Jdk,
}

/// What became of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// This one. `note`: what a user should know of it, empty when it is the one they would expect.
    Take { jdk: &'a Jdk, note: String },
    /// `--java` names one that the target's classes cannot run on.
    TooOld(&'a Jdk),
    /// None fits.
    Nothing,
}

/// The version that Warren is tested with most; of several that fit, the lowest from here on is taken.
const USUAL: u32 = 17;

/// The JDK that a target runs on.
///
/// `--java` is above all: only a version below the range is refused, and one above it is the user's to answer for. Then JAVA_HOME and
/// `java` on the PATH, each if it fits. Then whatever fits elsewhere: the lowest version from 17 on, else the highest; of one version
/// one with a compiler, and the system's before Warren's own copy.
#[must_use]
pub fn choose(need: JavaRange, all: &[Candidate]) -> Choice<'_> {
    if let Some(named) = all.iter().find(|c| c.place == Place::Named) {
        let version = named.jdk.feature_version;
        if version < need.least {
            return Choice::TooOld(&named.jdk);
        }
        let note = if need.has(version) {
            String::new()
        } else {
            format!(
                "the target is said to run on Java {need}, and runs on {version} as --java asks"
            )
        };
        return Choice::Take {
            jdk: &named.jdk,
            note,
        };
    }
    let mut fit: Vec<&Candidate> = all
        .iter()
        .filter(|c| need.has(c.jdk.feature_version))
        .collect();
    fit.sort_by_key(|c| {
        let elsewhere = !c.place.said();
        (
            if elsewhere { Place::System } else { c.place },
            rank(c.jdk.feature_version),
            c.jdk.javac.is_none(),
            c.place,
        )
    });
    let Some(best) = fit.first() else {
        return Choice::Nothing;
    };
    let passed: Vec<String> = all
        .iter()
        .filter(|c| c.place.said() && c.place < best.place)
        .map(|c| format!("{} is Java {}", c.place.shown(), c.jdk.feature_version))
        .collect();
    let note = if passed.is_empty() {
        String::new()
    } else {
        format!(
            "the target needs Java {need}, and {}: it runs on {} in {}",
            passed.join(" and "),
            best.jdk.feature_version,
            best.jdk.home.display()
        )
    };
    Choice::Take {
        jdk: &best.jdk,
        note,
    }
}

/// Lower is better: 17, 18, ... and then 16, 15, ...
fn rank(version: u32) -> (bool, u32) {
    match version {
        v if v >= USUAL => (false, v),
        v => (true, u32::MAX - v),
    }
}

/// The JDK that compiles sources of a target that runs on `chosen`: itself, else the best other one that has a compiler for its release.
#[must_use]
pub fn compiler<'a>(release: u32, chosen: &'a Jdk, all: &'a [Candidate]) -> Option<&'a Jdk> {
    let others = all
        .iter()
        .filter(|c| c.jdk.javac.is_some() && c.jdk.feature_version >= release)
        .min_by_key(|c| (rank(c.jdk.feature_version), c.place));
    match &chosen.javac {
        Some(_) => Some(chosen),
        None => others.map(|c| &c.jdk),
    }
}

/// Of the versions on offer, the one to fetch.
#[must_use]
pub fn to_fetch(need: JavaRange, offered: &[u32]) -> Option<u32> {
    let fit = offered.iter().copied().filter(|v| need.has(*v));
    fit.min_by_key(|v| rank(*v))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `17`: with a compiler, `17r`: a runtime.
    fn candidates(all: &[(Place, &str)]) -> Vec<Candidate> {
        let one = |(place, text): &(Place, &str)| {
            let version: u32 = text.trim_end_matches('r').parse().unwrap();
            let javac = (!text.ends_with('r')).then(|| "/javac".into());
            Candidate {
                place: *place,
                jdk: Jdk {
                    home: format!("/{}/{text}", place.shown()).into(),
                    feature_version: version,
                    full_version: version.to_string(),
                    java: "/java".into(),
                    javac,
                },
            }
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn the_choice() {
        use Place::{Cache, JavaHome, Named, Path, System};
        type Row<'a> = (&'a str, &'a [(Place, &'a str)], &'a str, &'a str);
        let table: [Row; 19] = [
            // range, what there is, taken (or what became of it), a word of the note
            ("8..", &[], "nothing", ""),
            ("8..", &[(Path, "17")], "/PATH/17", ""),
            ("8..", &[(Path, "25")], "/PATH/25", ""),
            (
                "8..",
                &[(JavaHome, "11"), (Path, "17")],
                "/JAVA_HOME/11",
                "",
            ),
            (
                "8..",
                &[(Named, "21"), (JavaHome, "11"), (Path, "17")],
                "/--java/21",
                "",
            ),
            // what was said and does not fit is told
            (
                "8..17",
                &[(JavaHome, "25"), (Path, "17")],
                "/PATH/17",
                "JAVA_HOME is Java 25",
            ),
            (
                "8..11",
                &[(JavaHome, "25"), (Path, "17"), (Cache, "11r")],
                "/cache/11r",
                "JAVA_HOME is Java 25 and PATH is Java 17: it runs on 11 in /cache/11r",
            ),
            ("21..", &[(Path, "17"), (System, "17")], "nothing", ""),
            // the lowest from 17 on, else the highest
            (
                "8..",
                &[
                    (System, "8"),
                    (System, "25"),
                    (System, "17"),
                    (System, "11"),
                ],
                "/system/17",
                "",
            ),
            (
                "8..16",
                &[(System, "8"), (System, "17"), (System, "11")],
                "/system/11",
                "",
            ),
            ("18..", &[(System, "25"), (Cache, "21r")], "/cache/21r", ""),
            // of one version the one with a compiler, then the system's
            ("8..", &[(System, "17r"), (Cache, "17")], "/cache/17", ""),
            ("8..", &[(Cache, "17"), (System, "17")], "/system/17", ""),
            // a runtime that the user put on the PATH is still the user's
            ("8..", &[(Path, "11r"), (System, "17")], "/PATH/11r", ""),
            // --java
            (
                "8..17",
                &[(Named, "25"), (Path, "17")],
                "/--java/25",
                "8 to 17, and runs on 25 as --java asks",
            ),
            ("11..17", &[(Named, "8"), (Path, "17")], "too old", ""),
            (
                "8..8",
                &[(Path, "17"), (System, "25"), (Cache, "8")],
                "/cache/8",
                "needs Java 8, and PATH is Java 17",
            ),
            ("8..8", &[(Path, "8"), (Cache, "8")], "/PATH/8", ""),
            ("12..16", &[(Path, "11"), (System, "17")], "nothing", ""),
        ];
        for (range, all, want, word) in table {
            let all = candidates(all);
            let (got, note) = match choose(JavaRange::parse(range).unwrap(), &all) {
                Choice::Take { jdk, note } => (jdk.home.display().to_string(), note),
                Choice::TooOld(_) => ("too old".into(), String::new()),
                Choice::Nothing => ("nothing".into(), String::new()),
            };
            assert_eq!(got, want, "{range} {all:?}");
            assert_eq!(word.is_empty(), note.is_empty(), "{range}: {note}");
            assert!(note.contains(word), "{range}: {note}");
        }
    }

    #[test]
    fn who_compiles() {
        use Place::{Cache, Path, System};
        // the first one runs the target; release, all, who compiles
        type Row<'a> = (u32, &'a [(Place, &'a str)], Option<&'a str>);
        let table: [Row; 5] = [
            (8, &[(Path, "11"), (System, "17")], Some("/PATH/11")),
            (
                8,
                &[(Cache, "11r"), (System, "25"), (Path, "17")],
                Some("/PATH/17"),
            ),
            (8, &[(Cache, "11r"), (Cache, "8")], Some("/cache/8")),
            (11, &[(Cache, "11r"), (Cache, "8")], None),
            (8, &[(Cache, "11r"), (System, "17r")], None),
        ];
        for (release, all, want) in table {
            let all = candidates(all);
            let got = compiler(release, &all[0].jdk, &all).map(|j| j.home.display().to_string());
            assert_eq!(got.as_deref(), want, "{release} {all:?}");
        }
    }

    #[test]
    fn what_is_fetched() {
        let offered = [8, 11, 17, 21, 25];
        let table = [
            ("8..", Some(17)),
            ("8..8", Some(8)),
            ("8..16", Some(11)),
            ("18..", Some(21)),
            ("22..", Some(25)),
            ("12..16", None),
            ("26..", None),
        ];
        for (range, want) in table {
            let range = JavaRange::parse(range).unwrap();
            assert_eq!(to_fetch(range, &offered), want, "{range}");
        }
    }
}
