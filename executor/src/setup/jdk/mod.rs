//! Finds the JDK that a target runs on and the one that compiles its programs; where none fits, fetches one.
//!
//! Called once per start and by `doctor` and `jdk`. Asks each candidate itself (`java -XshowSettings:properties -version`): folder
//! names say nothing reliable. It refuses to install anything, and to pass over silently what a user named.
//!
//! `range` is what a target asks for, `choose` the decision (pure), `own` the copies in the cache, `fetch` makes one (`wheel`, `debs`).

mod choose;
mod debs;
mod fetch;
mod own;
mod range;
mod wheel;

pub use choose::{Candidate, Choice, Place, choose, to_fetch};
pub use fetch::{OFFERED, own_or_fetch};
pub use range::JavaRange;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{SetupError, child};

/// A Java installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jdk {
    /// Its `java.home` (for Java 8 the JDK's folder, not the `jre` in it, when there is one).
    pub home: PathBuf,
    /// 8, 11, 17, 21, 25, ...
    pub feature_version: u32,
    /// `java.runtime.version`: part of the key of all that is compiled with it.
    pub full_version: String,
    /// The launcher.
    pub java: PathBuf,
    /// The compiler; a bare runtime has none.
    pub javac: Option<PathBuf>,
}

impl Jdk {
    /// Why a process of this JDK cannot go on from a dump; none when it can. Those from 9 to 12 take the interrupted system call for
    /// a timeout: `ServerSocket.accept` without one throws, in every server at once (JDK-8237858; 11.0.33 has it mended).
    #[must_use]
    pub fn not_restorable(&self) -> Option<String> {
        let broken = match self.feature_version {
            11 => update(&self.full_version) <= LAST_BROKEN_11,
            v => matches!(v, 9 | 10 | 12),
        };
        broken.then(|| {
            format!(
                "Java {} takes a restore for a timeout of ServerSocket.accept (JDK-8237858); name another one with --java, e.g. that of `warren jdk get 11`",
                self.full_version
            )
        })
    }
}

/// 11.0.13 was tried, 11.0.20 is reported.
const LAST_BROKEN_11: u32 = 20;

/// The third number: 13 of `11.0.13+8`.
fn update(full_version: &str) -> u32 {
    let numbers = full_version.split(['+', '-', '_']).next();
    let third = numbers.and_then(|n| n.split('.').nth(2));
    third.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// What a target is set up with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Runs nodes and workload.
    pub jdk: Jdk,
    /// Compiles; it may be another one, because many have no compiler. `jdk` itself when none has.
    pub compiler: Jdk,
    /// What a user should know of the choice; may be empty.
    pub note: String,
}

/// The JDK to use, by the rules of [`choose()`]; where none fits, one is fetched into the cache.
///
/// # Errors
/// [`SetupError::NoJdk`], [`SetupError::OldJdk`], and [`SetupError::BadJdk`] for one that was named (argument or JAVA_HOME)
/// and does not work: what a user names is never passed over silently.
pub fn find_or_fetch(
    need: JavaRange,
    named: Option<&Path>,
    cache: &Path,
    say: &dyn Fn(&str),
) -> Result<Found, SetupError> {
    let mut all = said(named)?;
    let mut everywhere = false;
    let (jdk, note) = loop {
        match choose(need, &all) {
            Choice::Take { jdk, note } => break (jdk.clone(), note),
            Choice::TooOld(jdk) => {
                return Err(SetupError::OldJdk {
                    min: need.least,
                    found: shown(jdk),
                });
            }
            Choice::Nothing if !everywhere => {
                everywhere = true;
                all.extend(elsewhere(cache));
            }
            Choice::Nothing => break (fetch(need, &all, cache, say)?, String::new()),
        }
    };
    if jdk.javac.is_none() && !everywhere {
        all.extend(elsewhere(cache));
    }
    let compiler = match choose::compiler(need.least, &jdk, &all) {
        Some(compiler) => compiler.clone(),
        None => fetch_compiler(need.least, cache, say)?.unwrap_or_else(|| jdk.clone()),
    };
    Ok(Found {
        jdk,
        compiler,
        note,
    })
}

/// A full JDK that compiles for a release; none when it could not be had, which is an error only if something must be compiled.
fn fetch_compiler(
    release: u32,
    cache: &Path,
    say: &dyn Fn(&str),
) -> Result<Option<Jdk>, SetupError> {
    let Some(version) = fetch::with_compiler(release) else {
        return Ok(None);
    };
    say("no JDK here has a compiler (javac)");
    match own_or_fetch(version, cache, say) {
        Ok(jdk) => Ok(Some(jdk).filter(|j| j.javac.is_some())),
        Err(e @ SetupError::NotFetched { .. }) => {
            say(&e.to_string());
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn fetch(
    need: JavaRange,
    all: &[Candidate],
    cache: &Path,
    say: &dyn Fn(&str),
) -> Result<Jdk, SetupError> {
    let mut found: Vec<String> = all.iter().map(|c| shown(&c.jdk)).collect();
    found.sort();
    found.dedup();
    let found = match found.join(", ") {
        none if none.is_empty() => "none".into(),
        some => some,
    };
    let Some(version) = to_fetch(need, &OFFERED) else {
        let source = fetch::not_offered();
        return Err(SetupError::NoJdk {
            need,
            found,
            source,
        });
    };
    say(&format!("the target needs Java {need}; found {found}"));
    own_or_fetch(version, cache, say).map_err(|e| match e {
        SetupError::NotFetched { source, .. } => SetupError::NoJdk {
            need,
            found,
            source,
        },
        other => other,
    })
}

/// Every JDK there is. Those found twice stand where a user would first look.
///
/// # Errors
/// [`SetupError::BadJdk`] for one that was named and is none.
pub fn all(named: Option<&Path>, cache: &Path) -> Result<Vec<Candidate>, SetupError> {
    let mut all = said(named)?;
    all.extend(elsewhere(cache));
    let mut seen = BTreeSet::new();
    all.retain(|c| seen.insert(c.jdk.home.clone()));
    Ok(all)
}

/// What the user said, most weighty first.
fn said(named: Option<&Path>) -> Result<Vec<Candidate>, SetupError> {
    let candidate = |place| move |jdk| Candidate { place, jdk };
    if let Some(home) = named {
        return Ok(vec![ask_home(home).map(candidate(Place::Named))?]);
    }
    let mut all = Vec::new();
    if let Some(home) = env::var_os("JAVA_HOME").filter(|v| !v.is_empty()) {
        all.push(ask_home(Path::new(&home)).map(candidate(Place::JavaHome))?);
    }
    all.extend(ask(Path::new("java")).ok().map(candidate(Place::Path)));
    Ok(all)
}

/// Below these lie folders of JDKs, `~` being HOME.
const FOLDERS: [&str; 5] = [
    "/usr/lib/jvm",
    "/usr/java",
    "/opt/java",
    "~/.sdkman/candidates/java",
    "~/.jdks",
];

/// What lies where JDKs are installed, and our own.
fn elsewhere(cache: &Path) -> Vec<Candidate> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let mut found = Vec::new();
    for folder in FOLDERS {
        let folder = match (folder.strip_prefix("~/"), &home) {
            (None, _) => PathBuf::from(folder),
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) => continue,
        };
        let place = Place::System;
        found.extend(
            all_in(&folder)
                .into_iter()
                .map(|jdk| Candidate { place, jdk }),
        );
    }
    let own = own::homes(cache).into_iter();
    let place = Place::Cache;
    found.extend(own.filter_map(|(version, home)| {
        let jdk = ask_home(&home).ok()?;
        (jdk.feature_version == version).then_some(Candidate { place, jdk })
    }));
    found
}

/// Every JDK in a folder of JDKs, each home once, by version.
fn all_in(folder: &Path) -> Vec<Jdk> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let homes: BTreeSet<PathBuf> = entries
        .filter_map(|e| fs::canonicalize(e.path()).ok())
        .filter(|home| home.join("bin/java").exists())
        .collect();
    let mut all: Vec<Jdk> = homes.iter().filter_map(|h| ask_home(h).ok()).collect();
    all.sort_by_key(|j| j.feature_version);
    all
}

/// The JDK in that folder.
///
/// # Errors
/// [`SetupError::BadJdk`].
pub fn ask_home(home: &Path) -> Result<Jdk, SetupError> {
    let java = home.join("bin/java");
    if !java.exists() {
        return Err(SetupError::BadJdk {
            home: home.to_path_buf(),
            why: "it has no bin/java".into(),
        });
    }
    ask(&java)
}

/// A JVM that only tells its version takes a second on a busy machine; one that waits for something in its start never ends.
const TELLS_WITHIN: Duration = Duration::from_secs(60);

fn ask(java: &Path) -> Result<Jdk, SetupError> {
    let bad = |why: String| SetupError::BadJdk {
        home: java.to_path_buf(),
        why,
    };
    let mut tell = Command::new(java);
    tell.args(["-XshowSettings:properties", "-version"]);
    let out = child::output_within(&mut tell, TELLS_WITHIN).map_err(|e| match e.kind() {
        _ if child::stopped() => SetupError::Ended,
        io::ErrorKind::TimedOut => bad(format!("asked for its version, {e}")),
        _ => bad(format!("it cannot be started: {e}")),
    })?;
    let text = String::from_utf8_lossy(&out.stderr);
    let Some(asked) = Settings::parse(&text) else {
        return Err(bad(format!(
            "it does not tell its version; it said: {}",
            last_line(&text)
        )));
    };
    let mut home = asked.home;
    if home.file_name().is_some_and(|n| n == "jre")
        && let Some(parent) = home.parent()
        && parent.join("bin/javac").exists()
    {
        home = parent.to_path_buf();
    }
    let javac = Some(home.join("bin/javac")).filter(|p| p.exists());
    let java = home.join("bin/java");
    Ok(Jdk {
        feature_version: asked.feature,
        full_version: asked.full,
        java,
        javac,
        home,
    })
}

struct Settings {
    home: PathBuf,
    feature: u32,
    full: String,
}

impl Settings {
    fn parse(text: &str) -> Option<Settings> {
        let value = |key: &str| {
            text.lines().find_map(|l| {
                l.trim()
                    .strip_prefix(key)?
                    .trim_start()
                    .strip_prefix('=')
                    .map(str::trim)
            })
        };
        let feature = feature_version(value("java.specification.version")?)?;
        let full = value("java.runtime.version").or_else(|| value("java.version"))?;
        Some(Settings {
            home: PathBuf::from(value("java.home")?),
            feature,
            full: full.to_string(),
        })
    }
}

/// `1.8` and `8` are 8, `17.0.15+6` and `25-ea` are 17 and 25.
pub fn feature_version(text: &str) -> Option<u32> {
    let text = text.strip_prefix("1.").unwrap_or(text);
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn shown(jdk: &Jdk) -> String {
    format!("{} in {}", jdk.feature_version, jdk.home.display())
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .find(|l| !l.trim().is_empty())
        .unwrap_or("nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_styles() {
        let table = [
            ("1.8", 8),
            ("1.8.0_402", 8),
            ("8", 8),
            ("11", 11),
            ("17.0.15+6", 17),
            ("25-ea", 25),
        ];
        for (text, want) in table {
            assert_eq!(feature_version(text), Some(want), "{text}");
        }
        assert_eq!(feature_version("next"), None);
    }

    #[test]
    fn which_can_be_restored() {
        let table = [
            (8, "1.8.0_504-8u504-ga-1-b01", true),
            (9, "9.0.4+12", false),
            (11, "11+28", false),
            (11, "11.0.13+8", false),
            (11, "11.0.33-ea+8-post-1-Debian", true),
            (17, "17.0.15+6", true),
            (25, "25.0.3+9-LTS", true),
        ];
        for (feature_version, full, can) in table {
            let jdk = Jdk {
                home: "/".into(),
                feature_version,
                full_version: full.into(),
                java: "/java".into(),
                javac: None,
            };
            assert_eq!(jdk.not_restorable().is_none(), can, "{full}");
        }
    }

    #[test]
    fn settings_are_read_from_what_java_prints() {
        let text = "Property settings:\n    java.home = /opt/jdk 17\n    java.runtime.version = 17.0.15+6\n    \
                    java.specification.version = 17\n    java.vendor.url.bug = x = y\nopenjdk version \"17\"\n";
        let s = Settings::parse(text).unwrap();
        assert_eq!(
            (s.home, s.feature, s.full.as_str()),
            ("/opt/jdk 17".into(), 17, "17.0.15+6")
        );
        assert!(Settings::parse("Error: no such option").is_none());
    }

    /// A folder that answers as a JDK of that version would. By a shell: a file this process has open for writing cannot be started,
    /// and another test's child may have inherited it.
    fn fake(home: &Path, version: &str) {
        fs::create_dir_all(home.join("bin")).unwrap();
        let text = format!(
            "    java.home = {}\n    java.specification.version = {version}\n    java.runtime.version = {version}.0\n",
            home.display()
        );
        let mut sh = Command::new("sh");
        sh.args([
            "-c",
            r#"printf '#!/bin/sh\ncat >&2 <<END\n%sEND\n' "$1" > "$0" && chmod +x "$0""#,
        ]);
        sh.arg(home.join("bin/java")).arg(text);
        assert!(sh.status().unwrap().success());
    }

    #[test]
    fn a_named_folder_that_is_no_jdk_or_too_old_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let go = |home: &Path| {
            let need = JavaRange::from(17);
            find_or_fetch(need, Some(home), dir.path(), &|_| panic!("fetches"))
        };
        let e = go(dir.path()).unwrap_err().to_string();
        assert!(
            e.contains(dir.path().to_str().unwrap()) && e.contains("bin/java"),
            "{e}"
        );
        let old = dir.path().join("old");
        fake(&old, "1.8");
        let e = go(&old).unwrap_err().to_string();
        let found = format!("8 in {}", old.display());
        assert!(e.contains("Java 17") && e.contains(&found), "{e}");
    }

    #[test]
    fn a_named_runtime_leaves_compiling_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let newer = dir.path().join("newer");
        fake(&newer, "99");
        let found = find_or_fetch(
            JavaRange::parse("8..17").unwrap(),
            Some(&newer),
            dir.path(),
            &|_| {},
        );
        let found = found.unwrap();
        assert_eq!((found.jdk.feature_version, found.jdk.javac), (99, None));
        assert!(found.note.contains("as --java asks"), "{}", found.note);
        // This machine has one: the agent was built with it.
        assert!(found.compiler.javac.is_some(), "{:?}", found.compiler);
    }

    #[test]
    fn own_copies_that_do_not_start_are_as_none() {
        let dir = tempfile::tempdir().unwrap();
        for (version, says) in [(8, "1.8"), (11, "17"), (21, "21")] {
            let tree = own::place(dir.path(), version);
            fake(&tree.join("h"), says);
            own::finish(&tree, Path::new("h")).unwrap();
        }
        fs::remove_file(own::place(dir.path(), 21).join("h/bin/java")).unwrap();
        let all = elsewhere(dir.path()).into_iter();
        let own: Vec<u32> = all
            .filter(|c| c.place == Place::Cache)
            .map(|c| c.jdk.feature_version)
            .collect();
        assert_eq!(own, [8], "11 says it is 17, 21 has no java");
    }
}
