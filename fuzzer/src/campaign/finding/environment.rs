//! With what a run was made: versions, machine, flags. Written into each finding and into JUnit reports, so that someone else can
//! make the same run. Filled once by the command line; knows no clock and starts nothing.

use serde::{Deserialize, Serialize};
use std::path::Path;
use warren_executor::prepare::Prepared;
use warren_executor::slot::Level;

/// Everything that decides what a run does, beside the sequence and the seed. Empty texts are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Warren's version.
    pub warren: String,
    /// Hash of the agent's jars.
    pub agent: String,
    pub target: String,
    pub target_version: String,
    /// Hash of description, templates, dictionary, jars, agent and JDK.
    pub setup: String,
    pub jdk: String,
    pub kernel: String,
    /// Isolation level, 1 to 3.
    pub level: String,
    /// Flags that a replay must repeat, as they were given.
    pub flags: Vec<String>,
    /// Warren's own program; absolute.
    pub program: String,
    /// The folder in which the target was found; absolute.
    pub targets: String,
}

impl Environment {
    /// Of a target that is set up.
    #[must_use]
    pub fn of(prepared: &Prepared, level: Level, program: &Path, flags: &[String]) -> Self {
        let target = prepared.target();
        let name_of_parent = |p: &Path| {
            p.parent()
                .and_then(Path::file_name)
                .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
        };
        let targets = target
            .folders
            .first()
            .map(|f| absolute(f))
            .and_then(|f| f.parent().map(|p| p.display().to_string()));
        Environment {
            warren: env!("CARGO_PKG_VERSION").to_owned(),
            agent: name_of_parent(&prepared.agent().agent),
            target: target.name.clone(),
            target_version: target.version.clone(),
            setup: prepared.key().to_owned(),
            jdk: prepared.jdk().full_version.clone(),
            kernel: kernel(),
            level: level.to_string(),
            flags: flags.to_vec(),
            program: absolute(program).display().to_string(),
            targets: targets.unwrap_or_default(),
        }
    }

    /// `key: value` rows for people; what is not known is left out.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let target = format!("{} {}", self.target, self.target_version);
        [
            ("target", target.trim().to_owned()),
            ("Warren", self.warren.clone()),
            ("agent", self.agent.clone()),
            ("set-up", self.setup.clone()),
            ("JDK", self.jdk.clone()),
            ("kernel", self.kernel.clone()),
            ("isolation level", self.level.clone()),
            ("flags", self.flags.join(" ")),
        ]
        .into_iter()
        .filter(|(_, v)| !v.is_empty())
        .collect()
    }
}

/// The same path from any directory.
fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn kernel() -> String {
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{file}"))
            .map(|t| t.trim().to_owned())
            .unwrap_or_default()
    };
    format!("{} {}", read("ostype"), read("osrelease"))
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        assert!(Environment::default().rows().is_empty());
        let e = Environment {
            target: "canary".into(),
            target_version: "1.0".into(),
            flags: vec!["--level".into(), "2".into()],
            ..Environment::default()
        };
        assert_eq!(
            e.rows(),
            [
                ("target", "canary 1.0".to_owned()),
                ("flags", "--level 2".to_owned())
            ]
        );
        assert!(kernel().contains(char::is_numeric));
    }
}
