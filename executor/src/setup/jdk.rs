//! Finds the JDK that targets run on.
//!
//! Called once per start and by `doctor`. Asks each candidate itself (`java -XshowSettings:properties -version`): folder
//! names say nothing reliable.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::SetupError;

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

/// The JDK to use: the one named, else JAVA_HOME, else `java` on the PATH, else the best below /usr/lib/jvm.
///
/// "Best" is the lowest version from 17 on that is at least `min_version` and has a compiler (17 is what Warren is tested
/// with), else the highest.
///
/// # Errors
/// [`SetupError::NoJdk`], [`SetupError::OldJdk`], and [`SetupError::BadJdk`] for one that was named (argument or JAVA_HOME)
/// and does not work: what a user names is never passed over silently.
pub fn find(min_version: u32, named: Option<&Path>) -> Result<Jdk, SetupError> {
    let java_home = env::var_os("JAVA_HOME")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    if let Some(home) = named.map(Path::to_path_buf).or(java_home) {
        let jdk = ask_home(&home)?;
        return if jdk.feature_version >= min_version {
            Ok(jdk)
        } else {
            Err(too_old(min_version, &[jdk]))
        };
    }
    let mut looked = vec!["JAVA_HOME".to_string(), "PATH".to_string()];
    let mut seen = Vec::new();
    if let Ok(jdk) = ask(Path::new("java")) {
        if jdk.feature_version >= min_version && jdk.javac.is_some() {
            return Ok(jdk);
        }
        seen.push(jdk);
    }
    looked.push("/usr/lib/jvm".into());
    seen.extend(all_in(Path::new("/usr/lib/jvm")));
    match best(min_version, &seen) {
        Some(jdk) => Ok(jdk.clone()),
        None if seen.is_empty() => Err(SetupError::NoJdk {
            looked: looked.join(", "),
            min: min_version,
        }),
        None => Err(too_old(min_version, &seen)),
    }
}

/// Every JDK in a folder of JDKs, each home once, by version.
pub fn all_in(folder: &Path) -> Vec<Jdk> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut homes = BTreeMap::new();
    for entry in entries.flatten() {
        let Ok(home) = fs::canonicalize(entry.path()) else {
            continue;
        };
        if !homes.contains_key(&home)
            && home.join("bin/java").exists()
            && let Ok(jdk) = ask_home(&home)
        {
            homes.insert(home, jdk);
        }
    }
    let mut all: Vec<Jdk> = homes.into_values().collect();
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

fn ask(java: &Path) -> Result<Jdk, SetupError> {
    let bad = |why: String| SetupError::BadJdk {
        home: java.to_path_buf(),
        why,
    };
    let out = Command::new(java)
        .args(["-XshowSettings:properties", "-version"])
        .output();
    let out = out.map_err(|e| bad(format!("it cannot be started: {e}")))?;
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

fn best(min: u32, all: &[Jdk]) -> Option<&Jdk> {
    let fit = || all.iter().filter(|j| j.feature_version >= min);
    fit()
        .filter(|j| j.feature_version >= 17 && j.javac.is_some())
        .min_by_key(|j| j.feature_version)
        .or_else(|| fit().max_by_key(|j| (j.javac.is_some(), j.feature_version)))
}

fn too_old(min: u32, found: &[Jdk]) -> SetupError {
    let found: Vec<String> = found
        .iter()
        .map(|j| format!("{} in {}", j.feature_version, j.home.display()))
        .collect();
    SetupError::OldJdk {
        min,
        found: found.join(", "),
    }
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

    fn jdk(v: u32, compiler: bool) -> Jdk {
        Jdk {
            home: format!("/{v}").into(),
            feature_version: v,
            full_version: v.to_string(),
            java: "/j".into(),
            javac: compiler.then(|| "/c".into()),
        }
    }

    #[test]
    fn seventeen_is_preferred_then_the_highest_that_fits() {
        let pick = |min, all: &[Jdk]| best(min, all).map(|j| j.feature_version);
        assert_eq!(
            pick(8, &[jdk(8, true), jdk(25, true), jdk(17, true)]),
            Some(17)
        );
        assert_eq!(pick(21, &[jdk(17, true), jdk(25, true)]), Some(25));
        assert_eq!(
            pick(8, &[jdk(8, true), jdk(11, false)]),
            Some(8),
            "a compiler counts more"
        );
        assert_eq!(pick(11, &[jdk(8, true)]), None);
    }

    #[test]
    fn a_named_folder_that_is_no_jdk_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let e = find(8, Some(dir.path())).unwrap_err().to_string();
        assert!(
            e.contains(dir.path().to_str().unwrap()) && e.contains("bin/java"),
            "{e}"
        );
    }

    #[test]
    fn too_old_says_what_there_is() {
        let e = too_old(17, &[jdk(8, true)]).to_string();
        assert!(e.contains("Java 17") && e.contains("8 in /8"), "{e}");
    }
}
