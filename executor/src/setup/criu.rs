//! Finds CRIU, which dumps and restores a started cluster; where there is none that works, fetches Debian's.
//!
//! Called once per start when snapshots are wanted. What is fetched lies in the cache with its own libc and is started
//! through its own ld.so, so it works on systems older than itself. It refuses to install anything, to take a CRIU older
//! than [`LEAST`], and to take packages whose signature apt cannot check. It dumps and restores nothing.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::error::{NoCriu, SetupError};
use super::{cache, child};

/// A CRIU that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criu {
    /// Program and first arguments; CRIU's own arguments follow (a private copy is started through its own ld.so).
    pub argv: Vec<String>,
    /// Its version, as `criu --version` says: `4.2.1`.
    pub version: String,
    /// True if it is Warren's own copy in the cache.
    pub private: bool,
}

/// Lowest version that works on today's kernels (older ones fail on the vDSO or on SO_PASSCRED).
pub const LEAST: (u32, u32) = (4, 2);

/// The suite asked: those that are released have CRIUs that are too old.
pub(super) const SUITE: &str = "sid";

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

/// Finds CRIU: one on PATH that is new enough, else the copy in the cache, without any network. `Ok(None)` = there is none yet.
///
/// # Errors
/// [`SetupError::Ended`].
pub fn find(cache: &Path) -> Result<Option<Criu>, SetupError> {
    let installed = on_path()?.into_iter().find(|c| new_enough(&c.version));
    installed.map_or_else(|| own(cache), |criu| Ok(Some(criu)))
}

/// As [`find`]; where there is none, fetches it as Debian packages into the cache (apt-get and dpkg-deb on PATH, a mirror of
/// Debian configured). Needs no right but to write there, and some 70 MB for as long as it lasts.
///
/// # Errors
/// [`SetupError::NoCriu`]; [`SetupError::Cache`]; [`SetupError::Ended`].
pub fn find_or_fetch(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    if let Some(criu) = find(cache)? {
        return Ok(criu);
    }
    for old in on_path()? {
        let (program, version) = (old.argv.concat(), old.version);
        say(&format!("{program} is CRIU {version}, which is too old"));
    }
    own_or_fetch(cache, say)
}

/// Warren's own copy, fetched if it is not there: for where the system's is new enough and does not work.
///
/// # Errors
/// As [`find_or_fetch`].
pub fn own_or_fetch(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    let _guard = cache::lock(cache, "criu")?;
    // Another process may have done it while we waited.
    match own(cache)? {
        Some(criu) => Ok(criu),
        None => fetch(cache, say),
    }
}

/// Every CRIU on PATH that tells its version, by its full name: a slot has another working directory.
fn on_path() -> Result<Vec<Criu>, SetupError> {
    let mut all = Vec::new();
    for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        let program = std::path::absolute(folder.join("criu")).ok();
        let argv = program.filter(|p| p.is_file()).and_then(|p| text_of(&p));
        if let Some(argv) = argv
            && let Ok(criu) = ask(vec![argv], false)?
        {
            all.push(criu);
        }
    }
    Ok(all)
}

/// The newest copy in the cache that still works. One that does not is as none: it is made again.
fn own(cache: &Path) -> Result<Option<Criu>, SetupError> {
    let suffix = format!("-{}", env::consts::ARCH);
    let mut found: Vec<(Vec<u32>, PathBuf)> = fs::read_dir(cache.join("criu"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| {
            let name = e.file_name().into_string().ok()?;
            Some((numbers(name.strip_suffix(&suffix)?), e.path()))
        })
        .collect();
    found.sort();
    for (_, root) in found.into_iter().rev() {
        if let Some(argv) = argv_in(&root)
            && let Ok(criu) = ask(argv, true)?
            && new_enough(&criu.version)
        {
            return Ok(Some(criu));
        }
    }
    Ok(None)
}

/// Asks a CRIU for its version; `Err` inside has what it said instead.
fn ask(argv: Vec<String>, private: bool) -> Result<Result<Criu, String>, SetupError> {
    let said = match child::output(Command::new(&argv[0]).args(&argv[1..]).arg("--version")) {
        Ok(out) => match parse_version(&String::from_utf8_lossy(&out.stdout)) {
            Some(version) if out.status.success() => {
                return Ok(Ok(Criu {
                    argv,
                    version,
                    private,
                }));
            }
            _ => tail(&[out.stdout, out.stderr].concat()),
        },
        Err(e) => e.to_string(),
    };
    unless_ended(false)?;
    Ok(Err(said))
}

/// How the CRIU of an unpacked tree is started, whatever the architecture calls its folder and its ld.so.
fn argv_in(root: &Path) -> Option<Vec<String>> {
    let program = ["usr/sbin/criu", "usr/bin/criu"].map(|p| root.join(p));
    let program = program.iter().find(|p| p.is_file())?;
    for lib in ["usr/lib", "lib"] {
        for folder in fs::read_dir(root.join(lib)).into_iter().flatten().flatten() {
            let folder = folder.path();
            let mut files = fs::read_dir(&folder).into_iter().flatten().flatten();
            let loader = files.find(|f| is_loader(&f.file_name().to_string_lossy()));
            if let Some(loader) = loader
                && folder.join("libc.so.6").is_file()
            {
                let option = "--library-path".to_string();
                let (loader, libraries) = (text_of(&loader.path())?, text_of(&folder)?);
                return Some(vec![loader, option, libraries, text_of(program)?]);
            }
        }
    }
    None
}

fn is_loader(name: &str) -> bool {
    (name.starts_with("ld-linux") || name.starts_with("ld64")) && name.contains(".so.")
}

fn text_of(path: &Path) -> Option<String> {
    path.to_str().map(String::from)
}

/// `Version: 4.2.1`, perhaps with a `GitID` after it.
fn parse_version(text: &str) -> Option<String> {
    let version = text.lines().find_map(|l| l.strip_prefix("Version:"))?;
    let version = version.split_whitespace().next()?;
    // It becomes a folder's name.
    let plain = |c: char| c.is_ascii_alphanumeric() || ".+~-_".contains(c);
    (version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(plain))
        .then(|| version.to_string())
}

/// `4.2.1` and the package's `1:4.2.1-3+b1` alike: the numbers before the first thing that is none.
fn numbers(version: &str) -> Vec<u32> {
    let upstream = version.split_once(':').map_or(version, |(_, v)| v);
    let end = upstream.find(|c: char| !c.is_ascii_digit() && c != '.');
    let upstream = &upstream[..end.unwrap_or(upstream.len())];
    upstream.split('.').map_while(|n| n.parse().ok()).collect()
}

fn new_enough(version: &str) -> bool {
    numbers(version) >= vec![LEAST.0, LEAST.1]
}

fn fetch(cache: &Path, say: &dyn Fn(&str)) -> Result<Criu, SetupError> {
    // First what costs nothing: without these there is nothing to be made.
    for tool in ["apt-get", "dpkg-deb"] {
        run(tool, Command::new(tool).arg("--version"))?;
    }
    let arch = run("dpkg", Command::new("dpkg").arg("--print-architecture"))?;
    let arch = String::from_utf8_lossy(&arch.stdout).trim().to_string();
    let mirrors = configured()?;
    let scratch = cache::scratch(cache)?;
    let apt = Apt::prepare(scratch.path(), &arch)?;

    let mirror = apt.update(&mirrors, say)?;
    let packages = apt.closure(&mirror, &arch)?;
    say(&format!("downloading {} packages", packages.len()));
    let mut download = vec!["download"];
    download.extend(packages.iter().map(|(name, _)| name.as_str()));
    apt.run("downloading", &mirror, &download)?;

    let root = scratch.path().join("root");
    unpack(&scratch.path().join("debs"), &root)?;
    let bad = |said: String| {
        let mirror = shown(&mirror);
        SetupError::from(NoCriu::BadCopy { mirror, said })
    };
    let strange = || bad("the packages have no criu or no ld.so where they were looked for".into());
    let made = ask(argv_in(&root).ok_or_else(strange)?, true)?.map_err(bad)?;
    if !new_enough(&made.version) {
        return Err(bad(format!("it is {}", made.version)));
    }
    let name = format!("{}-{}", made.version, env::consts::ARCH);
    let place = cache.join("criu").join(name);
    let megabytes = weight(&root).div_ceil(1_000_000);
    cache::put(&root, &place)?;
    say(&format!(
        "CRIU {} is in {} ({megabytes} MB)",
        made.version,
        place.display()
    ));
    Ok(Criu {
        argv: argv_in(&place).ok_or_else(strange)?,
        ..made
    })
}

/// Every package into one tree, without what a running CRIU never opens.
fn unpack(debs: &Path, root: &Path) -> Result<(), SetupError> {
    let files = fs::read_dir(debs).map_err(SetupError::cache("reading", debs))?;
    for file in files.flatten().map(|f| f.path()) {
        if file.extension().is_none_or(|e| e != "deb") {
            continue;
        }
        let mut dpkg = Command::new("dpkg-deb");
        let done = run("dpkg-deb", dpkg.arg("-x").arg(&file).arg(root))?;
        if !done.status.success() {
            return Err(SetupError::from(NoCriu::Unpack {
                package: file.file_name().unwrap_or_default().display().to_string(),
                said: tail(&done.stderr),
            }));
        }
    }
    // Texts, and the tables of character sets.
    let mut idle = vec![root.join("usr/share")];
    for lib in ["usr/lib", "lib"] {
        let folders = fs::read_dir(root.join(lib)).into_iter().flatten().flatten();
        idle.extend(folders.map(|f| f.path().join("gconv")));
    }
    for folder in idle.iter().filter(|f| f.is_dir()) {
        fs::remove_dir_all(folder).map_err(SetupError::cache("removing", folder))?;
    }
    Ok(())
}

fn weight(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(m) if m.is_dir() => {
            let inside = fs::read_dir(path).into_iter().flatten().flatten();
            inside.map(|e| weight(&e.path())).sum()
        }
        Ok(m) => m.len(),
        Err(_) => 0,
    }
}

/// apt-get with a state, a cache and a list of its own, for a system on which nothing is installed.
struct Apt<'a>(&'a Path);

impl Apt<'_> {
    fn prepare<'a>(home: &'a Path, arch: &str) -> Result<Apt<'a>, SetupError> {
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
    fn run(
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
        Err(SetupError::from(NoCriu::Apt {
            doing,
            mirror: shown(mirror),
            tail: tail(&done.stderr).replace(mirror, &shown(mirror)),
        }))
    }

    /// Reads the suite's index from the first mirror that has it.
    fn update(&self, mirrors: &[String], say: &dyn Fn(&str)) -> Result<String, SetupError> {
        let keyrings =
            ["gpg", "pgp"].map(|e| format!("/usr/share/keyrings/debian-archive-keyring.{e}"));
        let key = keyrings.iter().find(|k| Path::new(k).exists());
        // Where it is not, apt's own trusted keys decide.
        let key = key.map_or_else(String::new, |k| format!(" signed-by={k}"));
        let mut failed = None;
        for mirror in mirrors {
            say(&format!(
                "fetching CRIU from Debian's {SUITE} at {}, once (some 20 MB)",
                shown(mirror)
            ));
            let list = format!("deb [target=Packages{key}] {mirror} {SUITE} main\n");
            self.write("sources.list", &list)?;
            match self.run("reading the index", mirror, &["update"]) {
                Ok(_) => return Ok(mirror.clone()),
                // The best one is asked first, and so has the best reason.
                Err(e @ SetupError::NoCriu { .. }) => failed = failed.or(Some(e)),
                Err(e) => return Err(e),
            }
        }
        Err(failed.unwrap_or_else(|| no_mirror(Vec::new())))
    }

    /// CRIU and all it needs, with versions.
    fn closure(&self, mirror: &str, arch: &str) -> Result<Vec<(String, String)>, SetupError> {
        let none = || NoCriu::NotInSuite {
            mirror: shown(mirror),
            arch: arch.into(),
        };
        let simulate = ["-s", "-y", "--no-install-recommends", "install", "criu"];
        let said = self.run("finding what criu needs", mirror, &simulate);
        let unknown = ["Unable to locate package criu", "no installation candidate"];
        let said = said.map_err(|e| match e.to_string() {
            text if unknown.iter().any(|u| text.contains(u)) => none().into(),
            _ => e,
        })?;
        let packages = parse_closure(&String::from_utf8_lossy(&said));
        match packages.iter().find(|(name, _)| name == "criu") {
            None => Err(none().into()),
            Some((_, found)) if !new_enough(found) => Err(SetupError::from(NoCriu::TooOld {
                mirror: shown(mirror),
                found: found.clone(),
            })),
            Some(_) => Ok(packages),
        }
    }
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

fn run(tool: &'static str, command: &mut Command) -> Result<Output, SetupError> {
    let out = child::output(command).map_err(|e| {
        if child::stopped() || e.kind() == ErrorKind::Interrupted {
            return SetupError::Ended;
        }
        let why = e.to_string();
        NoCriu::NotDebian { tool, why }.into()
    })?;
    // Ctrl-C reaches the tool as well, and perhaps before us.
    unless_ended(out.status.signal() == Some(libc::SIGINT))?;
    Ok(out)
}

fn unless_ended(interrupted: bool) -> Result<(), SetupError> {
    if interrupted || child::stopped() {
        return Err(SetupError::Ended);
    }
    Ok(())
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    if lines.is_empty() {
        return "(nothing)".into();
    }
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// The mirrors this machine is set to use.
fn configured() -> Result<Vec<String>, SetupError> {
    let mut paths = vec![PathBuf::from("/etc/apt/sources.list")];
    let folder = fs::read_dir("/etc/apt/sources.list.d");
    paths.extend(folder.into_iter().flatten().flatten().map(|f| f.path()));
    paths.retain(|p| p.is_file() && p.extension().is_some_and(|e| e == "list" || e == "sources"));
    paths.sort();
    let texts: Vec<(String, String)> = paths
        .iter()
        .filter_map(|p| Some((p.display().to_string(), fs::read_to_string(p).ok()?)))
        .collect();
    match mirrors(&texts) {
        none if none.is_empty() => {
            Err(no_mirror(texts.into_iter().map(|(name, _)| name).collect()))
        }
        mirrors => Ok(mirrors),
    }
}

fn no_mirror(looked: Vec<String>) -> SetupError {
    let looked = match looked.join(", ") {
        none if none.is_empty() => "/etc/apt, which has no list".into(),
        files => files,
    };
    NoCriu::NoMirror { looked }.into()
}

/// An entry of apt's lists, as far as it matters here.
struct Entry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: String,
}

/// Mirrors of Debian in lists (name, text) of either form, the likeliest first; those of others are left out.
fn mirrors(lists: &[(String, String)]) -> Vec<String> {
    let mut ranked: Vec<(u8, String)> = Vec::new();
    for (name, text) in lists {
        let entries: Vec<Entry> = if name.ends_with(".sources") {
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            let text = lines.join("\n");
            text.split("\n\n").filter_map(stanza).collect()
        } else {
            text.lines().filter_map(one_line).collect()
        };
        for entry in entries {
            for uri in &entry.uris {
                let uri = uri.trim_end_matches('/');
                if let Some(rank) = rank(uri, &entry)
                    && !ranked.iter().any(|(_, known)| known == uri)
                {
                    ranked.push((rank, uri.to_string()));
                }
            }
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, uri)| uri).collect()
}

/// Many call their folder `debian`, so the key an entry is tied to counts more than its name. Security has no such suite.
fn rank(uri: &str, entry: &Entry) -> Option<u8> {
    let security = |s: &str| s.contains("security");
    if uri.starts_with("cdrom:")
        || security(uri)
        || entry.suites.iter().all(|s| security(s))
        || !entry.components.iter().any(|c| c == "main")
    {
        return None;
    }
    let named = uri
        .split('/')
        .skip(1)
        .any(|part| part.starts_with("debian"));
    match (entry.signed_by.contains("debian-archive"), named) {
        (true, _) => Some(0),
        (false, true) if entry.signed_by.is_empty() => Some(1),
        (false, true) => Some(2),
        (false, false) => None,
    }
}

/// `deb [signed-by=/k] http://host/debian bookworm main contrib # ...`
fn one_line(line: &str) -> Option<Entry> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let signed_by = options
        .split_whitespace()
        .find_map(|o| o.strip_prefix("signed-by="));
    let mut words = rest.split_whitespace().map(String::from);
    Some(Entry {
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by: signed_by.unwrap_or_default().into(),
    })
}

/// A paragraph of `Field: value`; a line that begins with a space goes on with the field before.
fn stanza(text: &str) -> Option<Entry> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            let (_, value) = fields.last_mut()?;
            value.push(' ');
            value.push_str(line);
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.to_string()));
        }
    }
    let words = |name: &str| -> Vec<String> {
        let field = fields.iter().find(|(n, _)| n == name);
        field.map_or_else(Vec::new, |(_, v)| {
            v.split_whitespace().map(String::from).collect()
        })
    };
    let off = ["no", "false", "off", "0", "without", "disable"];
    let enabled = words("enabled")
        .iter()
        .all(|w| !off.contains(&w.to_ascii_lowercase().as_str()));
    (enabled && words("types").iter().any(|t| t == "deb")).then(|| Entry {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: words("signed-by").join(" "),
    })
}

/// A mirror without the password that may stand in it.
fn shown(mirror: &str) -> String {
    match mirror.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let secret = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[secret..])
        }
        None => mirror.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let table = [
            ("Version: 4.2.1\n", Some(("4.2.1", true))),
            ("Version: 4.2\nGitID: v4.2-3-gabc\n", Some(("4.2", true))),
            ("Version: 3.17.1\n", Some(("3.17.1", false))),
            ("Version: 4.1.1\n", Some(("4.1.1", false))),
            ("Version: 4.10\n", Some(("4.10", true))),
            ("Version: 4.2-rc1", Some(("4.2-rc1", true))),
            ("Warning: x\nVersion: 5\n", Some(("5", true))),
            ("Version: ../4.2\n", None),
            ("Version:\n", None),
            ("criu: not found\n", None),
        ];
        for (text, want) in table {
            let got = parse_version(text);
            let got = got.as_deref().map(|v| (v, new_enough(v)));
            assert_eq!(got, want, "{text}");
        }
        let packages = [
            ("4.2.1-1", true),
            ("1:4.2-3+b1", true),
            ("1:3.17-2", false),
            ("", false),
        ];
        for (version, want) in packages {
            assert_eq!(new_enough(version), want, "{version}");
        }
    }

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

    #[test]
    fn mirrors_of_debian_are_found_in_both_forms() {
        let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let table: [(&str, String, &[&str]); 16] = [
            ("a.list", "".into(), &[]),
            ("a.list", "deb http://m.test/debian/ bookworm main contrib # x".into(), &["http://m.test/debian"]),
            ("a.list", "# deb http://m.test/debian bookworm main\ndeb-src http://m.test/debian bookworm main".into(), &[]),
            ("a.list", format!("deb [ arch=amd64 signed-by={key} ] http://m.test/apt trixie main"), &["http://m.test/apt"]),
            ("a.list", "deb http://m.test/debian-security bookworm-security main".into(), &[]),
            ("a.list", "deb http://m.test/debian bookworm-security main".into(), &[]),
            ("a.list", "deb http://m.test/ubuntu noble main".into(), &[]),
            ("a.list", "deb https://other.test/linux/debian bookworm stable".into(), &[]),
            ("a.list", "deb cdrom:[Debian 12]/ bookworm main".into(), &[]),
            ("a.list", "deb http://u:p@m.test/x/debian-proxy sid main\ndeb http://m.test/debian".into(), &["http://u:p@m.test/x/debian-proxy"]),
            // Somebody else's `debian` after the system's own, whatever their order; each once.
            ("a.list", format!("deb [signed-by=/k/other.gpg] http://o.test/debian sid main\ndeb http://m.test/debian sid main\n\
                               deb [signed-by={key}] http://s.test/debian sid main\ndeb http://m.test/debian/ sid-updates main"),
             &["http://s.test/debian", "http://m.test/debian", "http://o.test/debian"]),
            ("a.sources", format!("Types: deb deb-src\n# from\nURIs: http://m.test/debian\nSuites: bookworm bookworm-updates\n\
                                  Components: main\nSigned-By: {key}\n\nTypes: deb\nURIs: http://m.test/debian-security\n\
                                  Suites: bookworm-security\nComponents: main\nSigned-By: {key}\n"), &["http://m.test/debian"]),
            ("a.sources", "types: deb\nuris:\n http://a.test/debian\n http://b.test/debian\nsuites: sid\ncomponents: main\n".into(),
             &["http://a.test/debian", "http://b.test/debian"]),
            ("a.sources", "Types: deb\r\nURIs: mirror+file:///etc/apt/mirrors/debian.list\r\nSuites: trixie\r\nComponents: main\r\n".into(),
             &["mirror+file:///etc/apt/mirrors/debian.list"]),
            ("a.sources", "Enabled: No\nTypes: deb\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\n \t\n\
                           Types: deb\nURIs: http://n.test/debian\nSuites: sid\nComponents: main\n".into(), &["http://n.test/debian"]),
            ("a.sources", "Types: deb-src\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\n".into(), &[]),
        ];
        for (name, text, want) in table {
            assert_eq!(mirrors(&[(name.into(), text.clone())]), want, "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let table = [
            ("http://u:p@m.test/debian", "http://m.test/debian"),
            ("http://m.test/a@b", "http://m.test/a@b"),
            ("file:/srv/debian", "file:/srv/debian"),
        ];
        for (mirror, want) in table {
            assert_eq!(shown(mirror), want);
        }
    }

    /// Writes a program that says `text`. By a shell: a file this process has open for writing cannot be started, and another
    /// test's child may have inherited it.
    fn program(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut sh = Command::new("sh");
        sh.args([
            "-c",
            r#"printf '#!/bin/sh\necho "%s"\n' "$1" > "$0" && chmod +x "$0""#,
        ]);
        assert!(sh.arg(path).arg(text).status().unwrap().success());
    }

    #[test]
    fn the_newest_copy_that_works_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let arch = env::consts::ARCH;
        assert_eq!(own(dir.path()).unwrap(), None);
        let copy = |name: &str, loader: &str, said: &str| {
            let root = dir.path().join("criu").join(name);
            program(&root.join("usr/sbin/criu"), "not this one: its ld.so");
            let lib = root.join("usr/lib/any-linux-gnu");
            program(&lib.join(loader), said);
            fs::write(lib.join("libc.so.6"), "").unwrap();
            lib
        };
        copy(
            &format!("4.1-{arch}"),
            "ld-linux-x86-64.so.2",
            "Version: 4.1",
        );
        copy("9.0-other", "ld-linux-other.so.1", "Version: 9.0");
        assert_eq!(own(dir.path()).unwrap(), None, "too old, another machine's");
        copy(&format!("4.9-{arch}"), "ld64.so.2", "Version: 4.9");
        let lib = copy(
            &format!("4.10-{arch}"),
            "ld-linux-riscv64-lp64d.so.1",
            "Version: 4.10",
        );
        let got = own(dir.path()).unwrap().unwrap();
        assert_eq!((got.version.as_str(), got.private), ("4.10", true));
        assert_eq!(
            got.argv[1..3],
            ["--library-path".to_string(), text_of(&lib).unwrap()]
        );
        assert!(got.argv[0].ends_with("riscv64-lp64d.so.1") && got.argv[3].ends_with("/criu"));
        fs::remove_file(lib.join("libc.so.6")).unwrap();
        assert_eq!(
            own(dir.path()).unwrap().unwrap().version,
            "4.9",
            "4.10 is damaged"
        );
    }

    #[test]
    fn every_error_tells_the_way_out() {
        let e = SetupError::from(NoCriu::NotDebian {
            tool: "apt-get",
            why: "no such file".into(),
        });
        let e = e.to_string();
        for part in ["apt-get", "no such file", "CRIU 4.2", "--snapshot off"] {
            assert!(e.contains(part), "{part}: {e}");
        }
    }

    /// Needs a Debian-like system and a network; takes half a minute. WARREN_CACHE names the folder, else it is a temporary one.
    /// `cargo test -p warren-executor --lib criu -- --ignored --nocapture`
    #[test]
    #[ignore = "fetches 20 MB"]
    fn fetches_for_real() {
        let dir = tempfile::tempdir().unwrap();
        let named = env::var_os("WARREN_CACHE").map(PathBuf::from);
        let cache = named.clone().unwrap_or(dir.path().to_path_buf());
        let began = std::time::Instant::now();
        let got = find_or_fetch(&cache, &|line| println!("{line}"));
        let got = got.unwrap_or_else(|e| panic!("{e}"));
        println!("{got:?} after {:?}", began.elapsed());
        assert!(new_enough(&got.version));
        assert_eq!(find(&cache).unwrap().unwrap(), got);
        // In a folder that others use, there may be more.
        if got.private && named.is_none() {
            let left = fs::read_dir(cache.join("tmp")).unwrap().count();
            assert_eq!(left, 0, "left behind in tmp");
        }
    }
}
