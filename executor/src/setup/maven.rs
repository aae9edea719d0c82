//! Jars of a target from Maven Central, held in the cache by their sha256.
//!
//! Called once per start for a target with `jars = "maven"`. With a lock whose jars are all in the cache it reads files
//! and nothing else. Maven is asked only for what is missing, once, under a file lock; what it gives is checked against
//! the lock before it is used.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lock::{Lock, LockedJar};
use super::{SetupError, cache, child};

/// The plugin that lists resolved jars with their files; pinned, so that the text it prints is known.
const LIST: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:list";

/// The jars of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Class path, in the lock's order.
    pub jars: Vec<PathBuf>,
    /// What the jars are, as a lock file's text: part of the key of all that depends on them.
    pub lock_text: String,
    /// The version had no lock file: this one was made (or found, from an earlier start) in the cache. Say so.
    pub lock_in_cache: Option<PathBuf>,
    /// Maven was run.
    pub downloaded: bool,
}

/// The jars that `pom` asks for at `version` (passed as `-Dtarget.version`).
///
/// `lock` is the target's lock file for this version; if it does not exist the cache keeps one, made at the first use.
///
/// # Errors
/// No Maven, no network (Maven's own last lines), a lock that cannot be read, a jar that stays wrong when fetched again.
pub fn fetch(pom: &Path, version: &str, lock: &Path, cache: &Path) -> Result<Fetched, SetupError> {
    let pom_text = fs::read(pom).map_err(SetupError::file("reading", pom))?;
    let key = &cache::sha256(&[&pom_text[..], b"\0", version.as_bytes()].concat())[..16];
    let what = format!("{} at {version}", pom.display());
    let own = cache.join("jar-locks").join(format!("{key}.lock"));
    let job = Job {
        pom,
        version,
        cache,
        what: &what,
    };

    let given = lock.exists();
    let lock = if given { lock } else { &own };
    if let Some(lock_known) = read_lock(lock)?
        && let Some(jars) = job.all_cached(&lock_known)?
    {
        return Ok(fetched(&lock_known, jars, lock, given, false));
    }
    let _guard = cache::lock(cache, &format!("maven-{key}"))?;
    // Another process may have done it while we waited.
    let known = read_lock(lock)?;
    if let Some(known) = &known
        && let Some(jars) = job.all_cached(known)?
    {
        return Ok(fetched(known, jars, lock, given, false));
    }
    let resolved = job.resolve(None)?;
    let known = match known {
        Some(known) => known,
        None => {
            let made = job.make_lock(&resolved)?;
            let scratch = cache::scratch(cache)?;
            let file = scratch.path().join("lock");
            fs::write(&file, made.to_string()).map_err(SetupError::file("writing", &file))?;
            cache::put(&file, lock)?;
            made
        }
    };
    job.store(&known, resolved, lock)?;
    let jars = known.jars.iter().map(|j| job.place(j)).collect();
    Ok(fetched(&known, jars, lock, given, true))
}

fn fetched(lock: &Lock, jars: Vec<PathBuf>, path: &Path, given: bool, downloaded: bool) -> Fetched {
    let lock_in_cache = (!given).then(|| path.to_path_buf());
    Fetched {
        jars,
        lock_text: lock.to_string(),
        lock_in_cache,
        downloaded,
    }
}

fn read_lock(path: &Path) -> Result<Option<Lock>, SetupError> {
    match fs::read_to_string(path) {
        Ok(text) => Lock::parse(&text, path).map(Some),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(SetupError::file("reading", path)(e)),
    }
}

struct Job<'a> {
    pom: &'a Path,
    version: &'a str,
    cache: &'a Path,
    what: &'a str,
}

impl Job<'_> {
    /// Where a jar lies in the cache: below its hash, so versions and targets share it.
    fn place(&self, jar: &LockedJar) -> PathBuf {
        self.cache.join("jars").join(&jar.sha256).join(&jar.file)
    }

    /// The class path, if every jar is there and is what its place says.
    fn all_cached(&self, lock: &Lock) -> Result<Option<Vec<PathBuf>>, SetupError> {
        let mut jars = Vec::with_capacity(lock.jars.len());
        for jar in &lock.jars {
            let place = self.place(jar);
            if !place.exists() || cache::sha256_file(&place)? != jar.sha256 {
                return Ok(None);
            }
            jars.push(place);
        }
        Ok(Some(jars))
    }

    /// Coordinates -> file in Maven's local repository: the user's own, or this one.
    fn resolve(&self, repository: Option<&Path>) -> Result<BTreeMap<String, PathBuf>, SetupError> {
        let scratch = cache::scratch(self.cache)?;
        let list = scratch.path().join("list");
        let mut mvn = Command::new("mvn");
        mvn.args(["-B", "-ntp", "-C"])
            .arg("-f")
            .arg(self.pom)
            .arg(format!("-Dtarget.version={}", self.version));
        mvn.arg(LIST).args([
            "-DincludeScope=runtime",
            "-DoutputAbsoluteArtifactFilename=true",
            "-Dstyle.color=never",
        ]);
        mvn.arg(format!("-DoutputFile={}", list.display()));
        if let Some(repository) = repository {
            mvn.arg(format!("-Dmaven.repo.local={}", repository.display()));
        }
        let out = child::output(&mut mvn).map_err(|e| SetupError::NoMaven {
            what: self.what.into(),
            why: e.to_string(),
        })?;
        if !out.status.success() {
            // Maven reports to stdout; its launcher, which misses a Java, to stderr.
            let said = [&out.stdout, &out.stderr].map(|s| String::from_utf8_lossy(s));
            let said = said.iter().find(|s| !s.trim().is_empty());
            return Err(SetupError::Maven {
                what: self.what.into(),
                tail: said.map_or_else(String::new, |s| tail(s)),
            });
        }
        let text =
            fs::read_to_string(&list).map_err(SetupError::file("reading Maven's list", &list))?;
        let found = parse_list(&text);
        if found.is_empty() {
            return Err(SetupError::Maven {
                what: self.what.into(),
                tail: "(no runtime dependencies)".into(),
            });
        }
        Ok(found)
    }

    fn make_lock(&self, resolved: &BTreeMap<String, PathBuf>) -> Result<Lock, SetupError> {
        let mut jars = Vec::new();
        for (coordinates, path) in resolved {
            let file = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or("unnamed.jar")
                .to_string();
            jars.push(LockedJar {
                sha256: cache::sha256_file(path)?,
                coordinates: coordinates.clone(),
                file,
            });
        }
        Ok(Lock { jars })
    }

    /// Copies every jar of the lock to its place. Where one is another than the lock says, all are fetched once more, past the user's own
    /// repository: what lies there may be damaged, or be the user's own build, and is left as it is.
    fn store(
        &self,
        lock: &Lock,
        mut resolved: BTreeMap<String, PathBuf>,
        path: &Path,
    ) -> Result<(), SetupError> {
        let mut wrong = None;
        for jar in &lock.jars {
            let file = self.file_of(jar, &resolved, path)?;
            let got = cache::sha256_file(&file)?;
            if got != jar.sha256 {
                let want = jar.sha256.clone();
                let lock = path.to_path_buf();
                wrong.get_or_insert(SetupError::WrongJar {
                    file,
                    got,
                    want,
                    lock,
                });
            }
        }
        let fresh = cache::scratch(self.cache)?;
        if let Some(wrong) = wrong {
            // One that only the user's repository has cannot be fetched: then what is there is what is wrong.
            resolved = match self.resolve(Some(fresh.path())) {
                Err(_) if !child::stopped() => return Err(wrong),
                other => other?,
            };
        }
        for jar in &lock.jars {
            let file = self.file_of(jar, &resolved, path)?;
            let scratch = cache::scratch(self.cache)?;
            let copy = scratch.path().join(&jar.file);
            fs::copy(&file, &copy).map_err(SetupError::file("copying", &file))?;
            let got = cache::sha256_file(&copy)?;
            if got != jar.sha256 {
                return Err(SetupError::WrongJar {
                    file,
                    got,
                    want: jar.sha256.clone(),
                    lock: path.to_path_buf(),
                });
            }
            cache::put(&copy, &self.place(jar))?;
        }
        Ok(())
    }

    fn file_of(
        &self,
        jar: &LockedJar,
        resolved: &BTreeMap<String, PathBuf>,
        lock: &Path,
    ) -> Result<PathBuf, SetupError> {
        resolved
            .get(&jar.coordinates)
            .cloned()
            .ok_or_else(|| SetupError::MissingJar {
                lock: lock.to_path_buf(),
                coordinates: jar.coordinates.clone(),
                pom: self.pom.to_path_buf(),
            })
    }
}

/// Lines of `dependency:list`: `   group:artifact:type[:classifier]:version:scope:/path[ -- module ...]`.
fn parse_list(text: &str) -> BTreeMap<String, PathBuf> {
    let mut out = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim().split(" -- ").next().unwrap_or_default();
        let line = line.strip_suffix(" (optional)").unwrap_or(line).trim_end();
        let Some((head, path)) = line.split_once(":/") else {
            continue;
        };
        let Some((coordinates, _scope)) = head.rsplit_once(':') else {
            continue;
        };
        if matches!(coordinates.split(':').count(), 4 | 5) {
            out.insert(
                coordinates.replace(" (optional)", ""),
                PathBuf::from(format!("/{path}")),
            );
        }
    }
    out
}

/// Maven's own words: its error lines, without the advice they end with; else its last lines.
fn tail(text: &str) -> String {
    const ADVICE: [&str; 4] = [
        "To see the full",
        "Re-run Maven",
        "For more information",
        "[Help 1]",
    ];
    let error = |line: &str| {
        let said = line.strip_prefix("[ERROR]")?.trim();
        let said = said.strip_suffix("-> [Help 1]").unwrap_or(said).trim_end();
        (!said.is_empty() && !ADVICE.iter().any(|a| said.starts_with(a))).then(|| said.to_string())
    };
    let mut lines: Vec<String> = text.lines().filter_map(error).collect();
    if lines.is_empty() {
        lines = text.lines().map(String::from).collect();
    }
    lines[lines.len().saturating_sub(12)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_with_classifiers_modules_and_optional_marks() {
        let text = "\nThe following files have been resolved:\n   org.a:a:jar:1.0:compile:/r/a-1.0.jar\n   \
                    io.n:n:jar:linux-x86_64:4.1:runtime:/r/n.jar -- module io.n (auto)\n   \
                    org.o:o:jar:2:compile (optional) :/r/o.jar\n   none\n";
        let got = parse_list(text);
        let want = [
            ("io.n:n:jar:linux-x86_64:4.1", "/r/n.jar"),
            ("org.a:a:jar:1.0", "/r/a-1.0.jar"),
            ("org.o:o:jar:2", "/r/o.jar"),
        ];
        let want: BTreeMap<String, PathBuf> = want
            .into_iter()
            .map(|(c, p)| (c.into(), p.into()))
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn with_everything_cached_nothing_is_run_and_a_corrupt_jar_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (pom, lock, cache) = (
            dir.path().join("pom.xml"),
            dir.path().join("1.lock"),
            dir.path().join("cache"),
        );
        fs::write(&pom, "<project/>").unwrap();
        let sha = cache::sha256(b"jar");
        fs::write(&lock, format!("version 1\n{sha}  g:a:jar:1  a-1.jar\n")).unwrap();
        let place = cache.join("jars").join(&sha).join("a-1.jar");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, "jar").unwrap();
        let got = fetch(&pom, "1", &lock, &cache).unwrap();
        assert_eq!(got.jars, vec![place.clone()]);
        assert!(!got.downloaded && got.lock_in_cache.is_none());

        fs::write(&place, "rotten").unwrap();
        let job = Job {
            pom: &pom,
            version: "1",
            cache: &cache,
            what: "x",
        };
        assert!(
            job.all_cached(&read_lock(&lock).unwrap().unwrap())
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_jar_that_is_not_the_locked_one_is_never_stored() {
        let dir = tempfile::tempdir().unwrap();
        let (pom, cache) = (dir.path().join("pom.xml"), dir.path().join("cache"));
        let jar = dir.path().join("a-1.jar");
        fs::write(&jar, "right").unwrap();
        let job = Job {
            pom: &pom,
            version: "1",
            cache: &cache,
            what: "x",
        };
        let resolved = BTreeMap::from([("g:a:jar:1".to_string(), jar.clone())]);
        let lock = job.make_lock(&resolved).unwrap();
        job.store(&lock, resolved.clone(), Path::new("l")).unwrap();
        assert!(job.all_cached(&lock).unwrap().is_some());
        let other = Lock {
            jars: vec![LockedJar {
                coordinates: "g:b:jar:1".into(),
                ..lock.jars[0].clone()
            }],
        };
        let e = job
            .store(&other, resolved, Path::new("the.lock"))
            .unwrap_err()
            .to_string();
        assert!(e.contains("g:b:jar:1") && e.contains("the.lock"), "{e}");
    }

    #[test]
    fn the_tail_keeps_mavens_reason() {
        let text = "[INFO] Scanning\n[ERROR] Could not resolve org.x:y:jar:9 -> [Help 1]\n[ERROR] \n\
                    [ERROR] Re-run Maven using\n[ERROR] For more information about\n[ERROR] [Help 1] http://x\n";
        assert_eq!(tail(text), "Could not resolve org.x:y:jar:9");
        assert_eq!(tail("a\nb"), "a\nb");
    }
}
