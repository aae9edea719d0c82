//! apt-get with a state, a cache and a list of its own: asks a mirror of Debian for packages.
//!
//! Called by [`super::Debian`]. It refuses to touch the system's own state and to take packages whose signature apt cannot check.

use super::sources::{no_mirror, shown};
use super::tool::{reasons, run};
use crate::setup::error::{DebianError, SetupError};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The suite asked: those that are released have CRIUs that are too old, and no Java 8.
pub(in crate::setup) const SUITE: &str = "sid";

/// Says over the system's own settings, which are for the system: hooks that clean the system's cache or call its daemons, a
/// release to prefer that is not [`SUITE`], foreign architectures. Whoever set apt to take unsigned packages did not mean these.
const APT_CONF: &str = r#"#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
#clear Acquire::Languages;
Acquire::Languages "none";
Acquire::AllowInsecureRepositories "false";
APT::Get::AllowUnauthenticated "false";
APT::Default-Release "";
APT::Immediate-Configure "false";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
"#;

/// apt-get with a state, a cache and a list of its own, for a system on which nothing is installed.
pub(super) struct Apt<'a>(&'a Path);

impl Apt<'_> {
    pub(super) fn prepare<'a>(home: &'a Path, arch: &str) -> Result<Apt<'a>, SetupError> {
        let apt = Apt(home);
        for folder in ["state/lists/partial", "cache/archives/partial", "debs"] {
            let folder = home.join(folder);
            fs::create_dir_all(&folder).map_err(SetupError::cache("creating", &folder))?;
        }
        apt.write("status", "")?;
        let native = format!("APT::Architectures {{ \"{arch}\"; }};\n");
        apt.write("apt.conf", &(APT_CONF.to_string() + &native))?;
        Ok(apt)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), SetupError> {
        let file = self.0.join(name);
        fs::write(&file, text).map_err(SetupError::cache("writing", &file))
    }

    /// Its output, or the error with its last lines.
    pub(super) fn run(
        &self,
        doing: &'static str,
        mirror: &str,
        arguments: &[&str],
    ) -> Result<Vec<u8>, SetupError> {
        let mut apt = Command::new("apt-get");
        // What it says is read. Where a download lands is the working directory.
        apt.env("LC_ALL", "C").current_dir(self.0.join("debs"));
        apt.arg("-qq").arg("-c").arg(self.0.join("apt.conf"));
        let places = [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::State", "state"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
        ];
        for (option, name) in places {
            let place = self.0.join(name);
            apt.arg("-o").arg(format!("{option}={}", place.display()));
        }
        let done = run("apt-get", apt.args(arguments))?;
        // Old ones end well when an index was not to be had.
        let errors = String::from_utf8_lossy(&done.stderr);
        if done.status.success() && !errors.contains("Failed to fetch") {
            return Ok(done.stdout);
        }
        Err(SetupError::from(DebianError::Apt {
            doing,
            mirror: shown(mirror),
            tail: reasons(&done.stderr).replace(mirror, &shown(mirror)),
        }))
    }

    /// Reads the suite's index from the first mirror that has it.
    pub(super) fn update(
        &self,
        mirrors: &[String],
        what: &str,
        say: &dyn Fn(&str),
    ) -> Result<String, SetupError> {
        let keyrings =
            ["gpg", "pgp"].map(|e| format!("/usr/share/keyrings/debian-archive-keyring.{e}"));
        let key = keyrings.iter().find(|k| Path::new(k).exists());
        // Where it is not, apt's own trusted keys decide.
        let key = key.map_or_else(String::new, |k| format!(" signed-by={k}"));
        let mut failed = None;
        for mirror in mirrors {
            say(&format!(
                "fetching {what} from Debian's {SUITE} at {}, once",
                shown(mirror)
            ));
            let list = format!("deb [target=Packages{key}] {mirror} {SUITE} main\n");
            self.write("sources.list", &list)?;
            match self.run("reading the index", mirror, &["update"]) {
                Ok(_) => return Ok(mirror.clone()),
                // The best one is asked first, and so has the best reason.
                Err(e @ SetupError::Debian { .. }) => failed = failed.or(Some(e)),
                Err(e) => return Err(e),
            }
        }
        Err(failed.unwrap_or_else(|| no_mirror(Vec::new())))
    }

    /// A package and all it needs, with versions; none when the suite has no such package for this machine.
    pub(super) fn closure(
        &self,
        mirror: &str,
        package: &str,
    ) -> Result<Option<Vec<(String, String)>>, SetupError> {
        let simulate = ["-s", "-y", "--no-install-recommends", "install", package];
        match self.run("finding what a package needs", mirror, &simulate) {
            Ok(said) => {
                let packages = parse_closure(&String::from_utf8_lossy(&said));
                let there = packages.iter().any(|(name, _)| name == package);
                Ok(there.then_some(packages))
            }
            Err(e) if is_unknown(&e.to_string()) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Whether apt's words say that a package is not in the suite.
pub(super) fn is_unknown(said: &str) -> bool {
    ["Unable to locate package", "no installation candidate"]
        .iter()
        .any(|u| said.contains(u))
}

/// `Inst libc6 (2.43-7 Debian:unstable [amd64]) []` -> name and version.
fn parse_closure(text: &str) -> Vec<(String, String)> {
    let package = |line: &str| {
        let mut words = line.strip_prefix("Inst ")?.split_whitespace();
        let name = words.next()?;
        let version = words.find_map(|w| w.strip_prefix('('))?;
        Some((name.to_string(), version.trim_end_matches(')').to_string()))
    };
    text.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closure_is_what_would_be_installed() {
        let text = "NOTE: This is only a simulation!\nInst gcc-base (16.2.0-4 Debian:unstable [amd64])\n\
                    Inst libgmp10 (2:6.3.0+dfsg-5+b2 Debian:unstable [amd64]) []\n\
                    Inst old [1.0] (2.0)\nInst broken\nConf libgmp10 (2:6.3.0 Debian:unstable [amd64])\n";
        let want = [
            ("gcc-base", "16.2.0-4"),
            ("libgmp10", "2:6.3.0+dfsg-5+b2"),
            ("old", "2.0"),
        ];
        assert_eq!(
            parse_closure(text),
            want.map(|(n, v)| (n.to_string(), v.to_string()))
        );
    }
}
