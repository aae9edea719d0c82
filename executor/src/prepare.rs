//! Everything a run needs, made ready once: JDK, jars, compiled workload, agent jars, instrumented jars.
//!
//! Called once by the command line before the first run; the result is shared by all runners. Starts no cluster.

mod instrument;
mod measure;

use crate::setup::jdk::Jdk;
use crate::setup::{SetupError, cache, child, javac, jdk, maven};
use crate::target::{JarSource, Target, TargetError};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use instrument::Failed;
pub use measure::Probes;

/// A target ready to run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prepared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    target: Target,
    cache: PathBuf,
    jdk: Jdk,
    jars: Vec<PathBuf>,
    instrumented: Option<Vec<PathBuf>>,
    /// What the offline instrumenter had to say of these.
    warnings: Vec<String>,
    probes: Option<Probes>,
    workload: Vec<PathBuf>,
    agent: warren_agent::Jars,
    key: String,
    notes: Vec<String>,
}

/// What set-up is asked.
#[derive(Clone, Debug, Default)]
pub struct PrepareOptions {
    /// The cache; none = the usual place.
    pub cache: Option<PathBuf>,
    /// The JDK (`--java`); none = the best one found, or fetched.
    pub jdk: Option<PathBuf>,
    /// Put exact probes into the target's classes, for lines and branches (docs/coverage.md).
    pub exact: bool,
    /// Who hears of what takes long; none = nobody.
    pub say: Option<fn(&str)>,
}

/// Why a target could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("{file} is missing: {needed}")]
    Missing { file: PathBuf, needed: &'static str },
    #[error(
        "writing the agent into the cache: {0}\n  the cache wants a folder that may be written: make room there, or name another with WARREN_CACHE"
    )]
    Agent(std::io::Error),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("a dictionary of the target cannot be followed: {0}")]
    Dictionary(String),
    #[error(
        "putting line and branch probes into the target's classes: {0}\n  leave --coverage-report out to go on without them"
    )]
    Measure(String),
}

impl Prepared {
    /// Makes a target ready: finds or fetches a JDK, fetches or compiles its jars, compiles its workload program, instruments.
    ///
    /// # Errors
    /// [`PrepareError`], each with the way out.
    pub fn new(target: Target, options: &PrepareOptions) -> Result<Self, PrepareError> {
        let cache = match &options.cache {
            Some(c) => c.clone(),
            None => cache::dir()?,
        };
        let say: &dyn Fn(&str) = match &options.say {
            Some(say) => say,
            None => &|_| {},
        };
        let found = jdk::find_or_fetch(target.java, options.jdk.as_deref(), &cache, say)?;
        let (jdk, compiler) = (found.jdk, found.compiler);
        let agent = warren_agent::write_jars(&cache.join("agent")).map_err(PrepareError::Agent)?;
        let mut notes = Vec::new();
        notes.extend(Some(found.note).filter(|n| !n.is_empty()));
        let (jars, jars_key) = target_jars(&target, &compiler, &cache, &mut notes)?;
        let mut workload_path = vec![agent.workload.clone()];
        workload_path.extend(jars.iter().cloned());
        let program = javac::compile(
            &compiler,
            &format!("{}-workload", target.name),
            &sources(&target, "workload")?,
            &workload_path,
            target.java.least,
            &cache,
        )?;
        workload_path.insert(0, program);
        let mut prepared = Inner {
            key: String::new(),
            target,
            cache,
            jdk,
            jars,
            instrumented: None,
            warnings: Vec::new(),
            probes: None,
            workload: workload_path,
            agent,
            notes,
        };
        let made = if options.exact {
            let measured = measure::measure(&prepared).map_err(|failed| match failed {
                Failed::Refused(why) => PrepareError::Dictionary(why),
                Failed::Other(why) => PrepareError::Measure(why),
            });
            let (made, probes) = measured?;
            prepared.probes = Some(probes);
            Ok(made)
        } else {
            instrument::instrument(&prepared)
        };
        match made {
            Ok(made) => {
                prepared.instrumented = Some(made.jars);
                prepared.warnings = made.warnings;
            }
            Err(_) if child::stopped() => return Err(SetupError::Ended.into()),
            Err(Failed::Refused(why)) => return Err(PrepareError::Dictionary(why)),
            Err(Failed::Other(why)) => prepared.notes.push(format!(
                "classes are instrumented at load time, which is slower: {why}"
            )),
        }
        prepared.key = key(&prepared, &jars_key);
        Ok(Prepared(Arc::new(prepared)))
    }

    /// The target's description.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// The cache folder in use.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.0.cache
    }

    /// The Java installation in use.
    #[must_use]
    pub fn jdk(&self) -> &Jdk {
        &self.0.jdk
    }

    /// The class path of the nodes, as it came.
    #[must_use]
    pub fn jars(&self) -> &[PathBuf] {
        &self.0.jars
    }

    /// The same class path, instrumented ahead of time; none when that was not possible.
    #[must_use]
    pub fn instrumented(&self) -> Option<&[PathBuf]> {
        self.0.instrumented.as_deref()
    }

    /// What is wrong with it, as a dictionary hook that matched no method: told in the record of each run.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// The exact probes in its classes; none unless asked for.
    #[must_use]
    pub fn probes(&self) -> Option<&Probes> {
        self.0.probes.as_ref()
    }

    /// The class path of the workload: program, library, the target's jars.
    #[must_use]
    pub fn workload_path(&self) -> &[PathBuf] {
        &self.0.workload
    }

    /// The agent, its runtime and the workload library.
    #[must_use]
    pub fn agent(&self) -> &warren_agent::Jars {
        &self.0.agent
    }

    /// Hash of all that decides what the cluster does: description, templates, dictionary, jars, agent, JDK. 16 hex digits.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// What a user should know of the set-up.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }
}

/// The system's own jars, fetched or compiled, and a text that is another one for other jars. What a user should know of them is added to
/// the notes.
fn target_jars(
    target: &Target,
    compiler: &Jdk,
    cache: &Path,
    notes: &mut Vec<String>,
) -> Result<(Vec<PathBuf>, String), PrepareError> {
    match target.jars {
        JarSource::Maven => {
            let pom = target
                .file(Path::new("pom.xml"))
                .ok_or_else(|| PrepareError::Missing {
                    file: target.folders[0].join("pom.xml"),
                    needed: "jars = \"maven\" wants a pom.xml that names the system's jars",
                })?;
            let lock_name = PathBuf::from("locks").join(format!("{}.lock", target.version));
            let lock = target
                .file(&lock_name)
                .unwrap_or_else(|| target.folders[0].join(&lock_name));
            let fetched = maven::fetch(&pom, &target.version, &lock, cache)?;
            if let Some(made) = &fetched.lock_in_cache {
                notes.push(format!(
                    "{} {} has no lock file: jars are locked by {}",
                    target.name,
                    target.version,
                    made.display()
                ));
            }
            Ok((fetched.jars, fetched.lock_text))
        }
        JarSource::Sources => {
            let files = sources(target, "src")?;
            let least = target.java.least;
            let jar = javac::compile(compiler, &target.name, &files, &[], least, cache)?;
            let key = jar.display().to_string();
            Ok((vec![jar], key))
        }
    }
}

/// What is to be compiled of a folder `name` of the target: at least one file.
fn sources(target: &Target, name: &str) -> Result<Vec<PathBuf>, PrepareError> {
    let files = target.sources(name)?;
    if files.is_empty() {
        return Err(PrepareError::Missing {
            file: target.folders[0].join(name),
            needed: "the target's Java sources belong there",
        });
    }
    Ok(files.into_values().collect())
}

fn key(p: &Inner, jars_key: &str) -> String {
    let mut text = format!(
        "{:?}\n{jars_key}\n{:016x}\n{}\n",
        p.target,
        warren_agent::JARS_HASH,
        p.jdk.full_version
    );
    for jar in &p.workload {
        let _ = writeln!(text, "{}", jar.display());
    }
    if let Some(probes) = &p.probes {
        // Other classes than without: archives and parked JVMs are not shared.
        let _ = writeln!(text, "{}", probes.table().display());
    }
    for g in &p.target.groups {
        for file in &g.files {
            text.push_str(&file.text);
        }
    }
    cache::sha256(text.as_bytes())[..16].to_owned()
}
