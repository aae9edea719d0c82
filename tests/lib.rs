//! What the end-to-end tests share: the built `warren`, scratch folders, running it, and looking for what it left behind.
//!
//! Tests drive the binary as a user does and read what a user reads. One cluster at a time: [`cluster`] is the lock.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static CLUSTER: Mutex<()> = Mutex::new(());

/// The right to run a cluster: two at once on two cores would test the machine, not Warren.
pub fn cluster() -> MutexGuard<'static, ()> {
    CLUSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The workspace's root.
#[must_use]
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

/// The build's output folder, found from the test's own executable (target/<profile>/deps/<test>).
#[must_use]
pub fn build_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("the test's own path");
    exe.ancestors()
        .nth(2)
        .expect("a test lies in target/<profile>/deps")
        .to_path_buf()
}

/// The `warren` under test.
#[must_use]
pub fn warren_exe() -> PathBuf {
    let exe = build_dir().join("warren");
    assert!(
        exe.exists(),
        "{} is missing: run the tests with `cargo test --workspace`",
        exe.display()
    );
    exe
}

/// The cache the tests share, so that jars are fetched once a checkout.
#[must_use]
pub fn cache() -> PathBuf {
    std::env::var_os("WARREN_CACHE").map_or_else(|| build_dir().join("warren-cache"), PathBuf::from)
}

/// `warren ARGS`, not started yet.
#[must_use]
pub fn warren(args: &[&str]) -> Command {
    let mut c = Command::new(warren_exe());
    c.args(args)
        .current_dir(root())
        .env("WARREN_CACHE", cache())
        .stdin(Stdio::null());
    c
}

/// What a finished command printed, for assertions and their messages.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Everything printed.
    #[must_use]
    pub fn text(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", self.out, self.err)
    }

    /// Asserts the exit code, with everything printed in the message.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.text());
        self
    }
}

/// Limits are those of an idle machine; a busy one has so many times as long. What never ends is seen later, too.
const BUSY: u32 = 3;

/// Runs to the end, at most `limit`; a run over it is killed and fails the test.
///
/// # Panics
/// When the command cannot be started or does not end.
pub fn run(mut command: Command, limit: Duration) -> Ran {
    let limit = BUSY * limit;
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    let pid = child.id();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if ended.recv_timeout(limit).is_err() {
            kill(pid, nix::sys::signal::Signal::SIGKILL);
            return true;
        }
        false
    });
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || read(stdout));
    let err = read(child.stderr.take());
    let out = reader.join().unwrap_or_default();
    let status = child.wait();
    let _ = done.send(());
    let late = watchdog.join().unwrap_or(false);
    assert!(
        !late,
        "{command:?} did not end within {limit:?}\n{out}\n{err}"
    );
    Ran {
        code: status.ok().and_then(|s| s.code()),
        out,
        err,
    }
}

/// What fails by chance, as a planted bug does that needs a race to go one way: asked up to four times, each by a command of its own, as runs of one
/// command share its snapshot. The first that ends with 77; one that does not has ended with 0.
///
/// # Panics
/// When none does, or one ends otherwise.
#[track_caller]
pub fn run_until_it_fails(command: impl Fn() -> Command, limit: Duration) -> Ran {
    let mut passed = String::new();
    for _ in 0..4 {
        let ran = run(command(), limit);
        if ran.code == Some(77) {
            return ran;
        }
        passed.push_str(&ran.expect_code(0).text());
    }
    panic!("none of four fails\n{passed}");
}

fn read(stream: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut s) = stream {
        let _ = s.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a signal to one process.
pub fn kill(pid: u32, signal: nix::sys::signal::Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
    }
}

/// Waits until `condition` or fails with `what`.
///
/// # Panics
/// When it does not come true in time.
pub fn eventually(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(
        within(limit, condition),
        "not within {:?}: {what}",
        BUSY * limit
    );
}

fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + BUSY * limit;
    while !condition() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// A process that was seen: its id, when it started (clock ticks since boot, so that a reused id is not mistaken), its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub pid: u32,
    pub started: u64,
    pub command: String,
}

/// Parent and start time from /proc/<pid>/stat; the command name in it may hold spaces and brackets.
fn stat_of(pid: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

/// Every living descendant of a process. /proc shows those inside slots' pid namespaces too.
#[must_use]
pub fn descendants(ancestor: u32) -> Vec<Seen> {
    let mut all: Vec<(u32, u32, u64)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>()
            && let Some((parent, started)) = stat_of(pid)
        {
            all.push((pid, parent, started));
        }
    }
    let mut inside = vec![ancestor];
    let mut found = Vec::new();
    let mut next = 0;
    while next < inside.len() {
        let parent = inside[next];
        for (pid, _, started) in all.iter().filter(|(_, p, _)| *p == parent) {
            inside.push(*pid);
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            found.push(Seen {
                pid: *pid,
                started: *started,
                command: String::from_utf8_lossy(&command).replace('\0', " "),
            });
        }
        next += 1;
    }
    found
}

/// Those of the seen that still live (a zombie does not).
#[must_use]
pub fn still_alive(seen: &[Seen]) -> Vec<Seen> {
    seen.iter()
        .filter(|s| {
            stat_of(s.pid).is_some_and(|(_, started)| started == s.started)
                && fs::read(format!("/proc/{}/cmdline", s.pid)).is_ok_and(|c| !c.is_empty())
        })
        .cloned()
        .collect()
}

/// Network and pid namespaces of these processes that are not the test's own: those of their slots.
#[must_use]
pub fn namespaces_of(seen: &[Seen]) -> BTreeSet<PathBuf> {
    let of = |pid: &str| {
        ["net", "pid", "mnt"]
            .map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap_or_default())
    };
    let own = of("self");
    seen.iter()
        .flat_map(|s| of(&s.pid.to_string()))
        .filter(|ns| !ns.as_os_str().is_empty() && !own.contains(ns))
        .collect()
}

/// The processes still in one of the namespaces, as "pid command". A zombie is in none: its `ns/pid` can be read until its
/// parent has asked for it, which some machines' init does seconds later.
#[must_use]
pub fn still_inside(namespaces: &BTreeSet<PathBuf>) -> Vec<String> {
    let mut inside = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let is_in = |kind: &&str| {
            fs::read_link(entry.path().join("ns").join(kind))
                .is_ok_and(|ns| namespaces.contains(&ns))
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if !command.is_empty() && ["net", "pid", "mnt"].iter().any(is_in) {
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            inside.push(format!("{} {command}", entry.file_name().display()));
        }
    }
    inside
}

/// Nothing of what was seen is left. The limit is for a busy machine, not a promise of speed.
///
/// # Panics
/// When a process still lives, or is in one of the namespaces.
pub fn nothing_is_left(seen: &[Seen], namespaces: &BTreeSet<PathBuf>) {
    let limit = Duration::from_secs(20);
    none_are_left("processes", limit, || still_alive(seen));
    none_are_left("still in a slot's namespaces", limit, || {
        still_inside(namespaces)
    });
}

/// As [`eventually`], but who is in the way is told.
fn none_are_left<T: Debug>(what: &str, limit: Duration, mut left: impl FnMut() -> Vec<T>) {
    let mut last = Vec::new();
    let gone = || {
        last = left();
        last.is_empty()
    };
    if !within(limit, gone) {
        panic!("not within {:?}: {what}: {last:#?}", BUSY * limit);
    }
}

/// Isolation levels this machine allows, by `warren doctor` as the present user.
#[must_use]
pub fn levels() -> Vec<u8> {
    warren_executor::slot::detect_levels(&warren_exe())
        .into_iter()
        .filter(|r| r.ok)
        .map(|r| r.level.number())
        .collect()
}

/// Notes that a test ran on a level, for the end of .ci/run.
pub fn ran_on(level: u8, test: &str) {
    note("levels-ran", &format!("level {level}: {test}"));
}

/// Adds a line to a file beside the build's output, which .ci/run prints at its end: cargo hides what a passing test says.
pub fn note(file: &str, line: &str) {
    let path = build_dir()
        .parent()
        .map(|t| t.join(file))
        .unwrap_or_else(|| PathBuf::from(file));
    if let Ok(mut f) = fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = writeln!(f, "{line}");
    }
}

/// A value of `fuzzer_stats`.
///
/// # Panics
/// When the file or the key is missing.
#[must_use]
pub fn stat(instance: &Path, key: &str) -> String {
    let path = instance.join("fuzzer_stats");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(k, _)| k.trim() == key)
        .map(|(_, v)| v.trim().to_owned())
        .unwrap_or_else(|| panic!("no `{key}` in fuzzer_stats:\n{text}"))
}

/// Output of a finished std command as text.
#[must_use]
pub fn text_of(o: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr)
    )
}
