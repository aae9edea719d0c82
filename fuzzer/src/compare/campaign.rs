//! One campaign of a comparison as a child process, `warren fuzz ...`, with a folder and a log of its own. Called by [`super::run`] and by
//! `warren bench --slots`, one at a time.
//!
//! The child has a process group of its own, so that a Ctrl-C at the terminal reaches it once, through us, and it dies with us: the kernel
//! sends it SIGKILL when this process ends in whatever way (`WARREN_DIES_WITH`, [`parent`](crate::cli::parent)), and its slots die with it.

use super::arms::Arm;
use super::failed;
use crate::campaign::Folder;
use crate::campaign::folder::{UNCONFIRMED, append, shell_line, write_whole};
use crate::campaign::state::{self, Lock};
use crate::campaign::stats::unix_now;
use crate::cli::args::{Cli, Command as Verb, FuzzArgs};
use crate::cli::exit::CliError;
use crate::cli::parent::DIES_WITH;
use crate::cli::signals::Interrupt;
use crate::fuzz_cmd;
use crate::whatsup::instance::Stats;
use clap::Parser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use warren_model::ids::fnv1a;

/// Folder of them all in the comparison's.
pub(super) const CAMPAIGNS: &str = "campaigns";
/// Between two looks at the child.
const LOOK: Duration = Duration::from_millis(100);
/// Between two readings of what it has found, which read all of its runs: longer where that takes long.
const READ: Duration = Duration::from_secs(2);
/// Between two lines about it.
const TELL: Duration = Duration::from_secs(60);
/// Of a log's end that are shown when a campaign failed.
const TAIL_LINES: usize = 6;
const TAIL_BYTES: u64 = 8192;

/// One campaign to be run, or to be gone on with.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// `random-points-r003`.
    pub name: String,
    /// `campaigns/<name>`, what `-o` is given.
    pub folder: PathBuf,
    /// Arguments of the program.
    pub words: Vec<String>,
}

/// How its process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With exit code 0.
    Well,
    /// Because the user, or `enough`, asked for an end.
    Asked,
}

impl Campaign {
    /// The campaign of an arm.
    #[must_use]
    pub fn new(
        folder: &Path,
        target: &str,
        arm: &Arm,
        repeat: u64,
        seed: u64,
        budget: &[String],
        options: &[String],
    ) -> Self {
        let name = format!("{}-r{repeat:03}", arm.label);
        let folder = folder.join(CAMPAIGNS).join(&name);
        let mut words = vec![
            "fuzz".to_owned(),
            target.to_owned(),
            "-o".into(),
            folder.display().to_string(),
            "-s".into(),
            seed.to_string(),
        ];
        words.extend(arm.flags());
        words.extend(budget.iter().cloned());
        words.push("--no-ui".into());
        words.extend(options.iter().cloned());
        Campaign {
            name,
            folder,
            words,
        }
    }

    /// Where its files are.
    #[must_use]
    pub fn instance(&self) -> PathBuf {
        self.folder.join("default")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// A line for each process that worked on what is in the folder now: when it began, and its build.
    fn starts_file(&self) -> PathBuf {
        self.folder.join("starts")
    }

    /// How many did.
    #[must_use]
    pub fn starts(&self) -> u64 {
        let text = fs::read_to_string(self.starts_file()).unwrap_or_default();
        text.lines().count() as u64
    }

    /// The builds that did, each once, in their order. An older Warren did not say.
    #[must_use]
    pub fn builds(&self) -> Vec<String> {
        let text = fs::read_to_string(self.starts_file()).unwrap_or_default();
        let mut builds: Vec<String> = Vec::new();
        for build in text.lines().filter_map(|l| l.split(' ').nth(1)) {
            if !builds.iter().any(|b| b == build) {
                builds.push(build.to_owned());
            }
        }
        builds
    }

    /// A process of this build begins to work on it.
    ///
    /// # Errors
    /// Exit 1 when that cannot be written down.
    pub fn begins(&self, build: &str) -> Result<(), CliError> {
        let line = format!("{} {build}\n", unix_now());
        append(&self.starts_file(), &line).map_err(failed)
    }

    /// Makes its folder ready: a campaign that was cut off is left there to be gone on with, unless it cannot be (nothing was saved yet, or
    /// another Warren made it); then it is begun anew. Answers what was decided.
    ///
    /// # Errors
    /// A folder that cannot be made or cleared, or that a process works in.
    pub fn make_ready(&self) -> Result<String, CliError> {
        let instance = self.instance();
        Lock::free(&instance).map_err(failed)?;
        let said = if !state::exists(&instance) {
            match Folder::marker(&instance) {
                Some(_) => "begins anew: nothing of it was saved".to_owned(),
                None => "begins".into(),
            }
        } else if let Some(why) = self.is_another()? {
            format!("begins anew, for it cannot go on: {why}")
        } else {
            return Ok("goes on".into());
        };
        let cleared = match fs::remove_dir_all(&instance) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(("removing", instance, e)),
            _ => fs::create_dir_all(&self.folder)
                .map_err(|e| ("making the folder", self.folder.clone(), e)),
        };
        cleared.map_err(|(doing, path, e)| {
            CliError::setup(format!("{doing} {}: {e}", path.display()))
        })?;
        write_whole(&self.starts_file(), b"").map_err(failed)?;
        Ok(said)
    }

    /// Why what was saved is no part of this campaign: begun with something else, or damaged. All else that may be wrong (a file of the
    /// target, a disk) says nothing of it, and is an error: hours of work are not taken away for it.
    fn is_another(&self) -> Result<Option<String>, CliError> {
        fuzz_cmd::differs_from_folder(&parsed(&self.words).map_err(CliError::usage)?)
    }

    /// Runs it to its end, or until an end is asked for, by the user or by `enough` (asked now and then): then it is asked to end
    /// gracefully, too.
    ///
    /// # Errors
    /// Its process cannot be started, or ended with an error: exit code and the end of its log.
    pub fn run(
        &self,
        program: &Path,
        interrupt: &Interrupt,
        enough: &dyn Fn() -> bool,
    ) -> Result<Ended, CliError> {
        let log = self.log();
        let file = fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|e| CliError::setup(format!("opening {}: {e}", log.display())))?;
        let begins = file.metadata().map_or(0, |m| m.len());
        let err = file
            .try_clone()
            .map_err(|e| CliError::setup(format!("opening {}: {e}", log.display())))?;
        let mut command = Command::new(program);
        command.process_group(0);
        // From this thread, the program's first: it lives as long as the process.
        let mut child = command
            .args(&self.words)
            .env("WARREN_AUTORESUME", "1")
            .env("NO_COLOR", "1")
            .env(DIES_WITH, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(err)
            .spawn()
            .map_err(|e| CliError::setup(format!("starting {}: {e}", program.display())))?;
        let mut asked = false;
        let mut told = Instant::now();
        let (mut looked, mut pause) = (Instant::now(), READ);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(e) => return Err(CliError::setup(format!("waiting for {}: {e}", self.name))),
            }
            let mut shown = false;
            if !asked && looked.elapsed() >= pause {
                let began = Instant::now();
                shown = enough();
                looked = Instant::now();
                pause = pause_after(looked - began);
            }
            if !asked && (interrupt.asked() || shown) {
                asked = true;
                // It may just have ended: then there is nobody to tell.
                let _ = kill(
                    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX)),
                    Signal::SIGINT,
                );
            }
            if told.elapsed() >= TELL && !asked {
                told = Instant::now();
                if let Some(line) = self.progress() {
                    eprintln!("warren:   {line}");
                }
            }
            std::thread::sleep(LOOK);
        };
        // So early that nobody in it listened yet, the signal itself ends it.
        let by_signal = status.signal() == Some(Signal::SIGINT as i32);
        match (status.success() || by_signal, asked) {
            (true, false) if !by_signal => Ok(Ended::Well),
            (true, true) => Ok(Ended::Asked),
            _ => Err(CliError::setup(format!(
                "campaign {} ended with {status}; the end of {}:\n  {}\n  its command: {}",
                self.name,
                log.display(),
                tail(&log, begins).replace('\n', "\n  "),
                shell_line(
                    &std::iter::once("warren".to_owned())
                        .chain(self.words.iter().cloned())
                        .collect::<Vec<_>>()
                ),
            ))),
        }
    }

    /// How far it is.
    fn progress(&self) -> Option<String> {
        let text = fs::read_to_string(self.instance().join("fuzzer_stats")).ok()?;
        let stats = Stats::parse(&text).ok()?;
        Some(format!(
            "{}: {} tests, {} s, {} CPU s, {} slots, {} findings",
            self.name,
            stats.number("sequences_tested"),
            stats.number("run_time"),
            stats.number("cpu_time"),
            stats.number("edges_found"),
            stats.findings().len()
        ))
    }

    /// Of a campaign that is done, takes away what only going on with it would need.
    ///
    /// # Errors
    /// What cannot be removed.
    pub fn slim(&self) -> Result<(), CliError> {
        for part in ["state", "runs", "queue", UNCONFIRMED] {
            let path = self.instance().join(part);
            match fs::remove_dir_all(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(CliError::setup(format!("removing {}: {e}", path.display())));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A campaign's command line, the program's name left out.
///
/// # Errors
/// What `fuzz` would say of it.
pub fn parsed(words: &[String]) -> Result<FuzzArgs, String> {
    let first_line = |text: String| {
        let line = text.lines().next().unwrap_or_default();
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    };
    let words = std::iter::once("warren").chain(words.iter().map(String::as_str));
    match Cli::try_parse_from(words).map(|c| c.command) {
        Ok(Verb::Fuzz(args)) => Ok(args),
        Ok(_) => Err("this is another verb".into()),
        Err(e) => Err(first_line(e.to_string())),
    }
}

/// What no user may ask of a campaign that is a part of something larger, and whether it was asked.
#[must_use]
pub fn owned(f: &FuzzArgs) -> [(&'static str, bool); 7] {
    let resumes = f.input.as_deref().is_some_and(|i| i.as_os_str() == "-");
    [
        ("-o", f.out.is_some()),
        ("-M", f.main.is_some()),
        ("-S", f.secondary.is_some()),
        ("-s", f.seed.is_some()),
        ("-i -", resumes),
        ("--exit-on-bug", f.exit_on_bug),
        ("--dump-classes", f.dump_classes.is_some()),
    ]
}

/// This program, which the campaigns are started from.
pub struct Program {
    pub path: PathBuf,
    /// By its content.
    pub build: String,
    running: Metadata,
}

impl Program {
    /// # Errors
    /// It cannot be read.
    pub fn own() -> Result<Self, CliError> {
        const RUNNING: &str = "/proc/self/exe";
        let doing = |e| CliError::setup(format!("reading Warren's own program: {e}"));
        let bytes = std::fs::read(RUNNING).map_err(doing)?;
        Ok(Program {
            path: std::env::current_exe().map_err(doing)?,
            build: format!("{:016x}", fnv1a(&bytes)),
            running: std::fs::metadata(RUNNING).map_err(doing)?,
        })
    }

    /// A build in the middle would go on with another program under the same name.
    ///
    /// # Errors
    /// It was replaced, or is gone.
    pub fn is_the_same(&self) -> Result<(), CliError> {
        let what = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
        let now = std::fs::metadata(&self.path).map(|m| what(&m));
        if now.is_ok_and(|n| n == what(&self.running)) {
            return Ok(());
        }
        Err(CliError::setup(format!(
            "{} was replaced in the middle: campaigns would be of two builds; keep a copy of the program for what takes long",
            self.path.display()
        )))
    }
}

/// After a reading that took so long: all of them together take a hundredth of a core, more only where one takes longer than 0.6 s.
fn pause_after(took: Duration) -> Duration {
    (took * 100).clamp(READ, TELL)
}

/// The last lines of a log since a place.
fn tail(path: &Path, since: u64) -> String {
    let mut text = Vec::new();
    let read = fs::File::open(path).and_then(|mut f| {
        let length = f.metadata()?.len();
        f.seek(SeekFrom::Start(
            since.max(length.saturating_sub(TAIL_BYTES)),
        ))?;
        f.take(TAIL_BYTES).read_to_end(&mut text)
    });
    if let Err(e) = read {
        return format!("(cannot be read: {e})");
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(dir: &Path) -> Campaign {
        let arm = Arm {
            label: "random-points".into(),
            strategy: "random-points".into(),
            without: Vec::new(),
        };
        let budget = ["-E".to_owned(), "20".into()];
        let options = ["-j".to_owned(), "2".into()];
        Campaign::new(dir, "canary", &arm, 3, 7, &budget, &options)
    }

    #[test]
    fn the_command_says_everything() {
        let c = campaign(Path::new("out/c"));
        assert_eq!(c.name, "random-points-r003");
        assert_eq!(
            c.words.join(" "),
            "fuzz canary -o out/c/campaigns/random-points-r003 -s 7 --strategy random-points -E 20 --no-ui -j 2"
        );
        let words = std::iter::once("warren").chain(c.words.iter().map(String::as_str));
        assert!(Cli::try_parse_from(words).is_ok());
    }

    #[test]
    fn what_takes_long_to_read_is_read_less_often() {
        for (took, pause) in [(0, 2000), (20, 2000), (50, 5000), (9000, 60_000)] {
            let ms = Duration::from_millis;
            assert_eq!(pause_after(ms(took)), ms(pause), "{took}");
        }
    }

    #[test]
    fn what_was_not_saved_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let c = campaign(dir.path());
        assert_eq!(c.make_ready().unwrap(), "begins");
        let instance = c.instance();
        fs::create_dir_all(instance.join("queue")).unwrap();
        fs::write(instance.join("queue/id:000000"), "x").unwrap();
        append(&c.starts_file(), "1\n").unwrap();
        assert!(c.make_ready().unwrap().contains("nothing of it was saved"));
        assert!(!instance.exists());
        assert_eq!(c.starts(), 0);
        // A checkpoint that no Warren can read.
        fs::create_dir_all(instance.join("state")).unwrap();
        fs::write(instance.join("state/checkpoint"), "x").unwrap();
        append(&c.starts_file(), "1\n").unwrap();
        for build in ["aa", "bb", "aa"] {
            c.begins(build).unwrap();
        }
        assert_eq!(
            (c.starts(), c.builds()),
            (4, vec!["aa".into(), "bb".into()])
        );
        // One that is at work, started by hand, is never cleared away.
        let lock = Lock::take(&instance).unwrap();
        let e = c.make_ready().unwrap_err().text;
        assert!(e.contains("being written by another Warren"), "{e}");
        assert!(instance.exists());
        drop(lock);
        assert!(c.make_ready().unwrap().contains("cannot go on"));
        assert!(!instance.exists());
        assert_eq!(c.starts(), 0);
    }

    #[test]
    fn what_cannot_be_asked_just_now_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let c = campaign(dir.path());
        let state = c.instance().join("state");
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("checkpoint"), "x").unwrap();
        // Nothing is said of the campaign by a target that is not where it was, or by a dictionary that was.
        let mut elsewhere = c.clone();
        elsewhere.words[1] = "nosuch".into();
        let mut without = c.clone();
        without.words.extend(["-x".into(), "nosuch.dict".into()]);
        for c in [elsewhere, without] {
            let e = c.make_ready().unwrap_err();
            assert!(e.text.contains("nosuch"), "{}", e.text);
            assert!(state.join("checkpoint").exists());
        }
    }

    #[test]
    fn a_slim_campaign_keeps_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let c = campaign(dir.path());
        for part in ["state", "runs", "queue", "findings", "crashes"] {
            fs::create_dir_all(c.instance().join(part)).unwrap();
        }
        c.slim().unwrap();
        c.slim().unwrap();
        let mut left: Vec<_> = fs::read_dir(c.instance())
            .unwrap()
            .flatten()
            .map(|e| e.file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["crashes", "findings"]);
    }

    #[test]
    fn a_child_that_fails_is_told_with_the_end_of_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut c = campaign(dir.path());
        c.make_ready().unwrap();
        let interrupt = Interrupt::default();
        c.words = vec!["-c".into(), "echo before; echo why >&2; exit 3".into()];
        let e = c
            .run(Path::new("/bin/sh"), &interrupt, &|| false)
            .unwrap_err()
            .text;
        assert!(
            e.contains("before\n  why") && e.contains("exit status: 3"),
            "{e}"
        );
        // Only of this start.
        c.words = vec!["-c".into(), "echo again; exit 1".into()];
        let e = c
            .run(Path::new("/bin/sh"), &interrupt, &|| false)
            .unwrap_err()
            .text;
        assert!(e.contains("again") && !e.contains("before"), "{e}");
        c.words = vec![
            "-c".into(),
            "test \"$WARREN_DIES_WITH\" = \"$PPID\" && test \"$WARREN_AUTORESUME\" = 1".into(),
        ];
        assert_eq!(
            c.run(Path::new("/bin/sh"), &interrupt, &|| false).unwrap(),
            Ended::Well
        );
    }

    #[test]
    fn a_wish_to_end_reaches_the_child() {
        let dir = tempfile::tempdir().unwrap();
        let mut c = campaign(dir.path());
        c.make_ready().unwrap();
        let traps = dir.path().join("traps");
        // Where tests were started with SIGINT ignored, a shell cannot trap it, and what comes before env has mended that is lost.
        let loops = format!(
            "trap 'exit 0' INT; touch '{}'; i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; exit 9",
            traps.display()
        );
        c.words = ["--default-signal=INT", "/bin/sh", "-c", &loops]
            .map(str::to_owned)
            .to_vec();
        let interrupt = Interrupt::default();
        std::thread::scope(|s| {
            s.spawn(|| {
                let asks = Instant::now() + Duration::from_secs(20);
                while !traps.exists() && Instant::now() < asks {
                    std::thread::sleep(LOOK);
                }
                interrupt.hang_up();
            });
            assert_eq!(
                c.run(Path::new("/usr/bin/env"), &interrupt, &|| false)
                    .unwrap(),
                Ended::Asked
            );
        });
    }

    #[test]
    fn a_campaign_that_has_shown_enough_is_asked_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut c = campaign(dir.path());
        c.make_ready().unwrap();
        let shown = dir.path().join("shown");
        let loops = format!(
            "trap 'exit 0' INT; touch '{}'; i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; exit 9",
            shown.display()
        );
        c.words = ["--default-signal=INT", "/bin/sh", "-c", &loops]
            .map(str::to_owned)
            .to_vec();
        let ended = c.run(Path::new("/usr/bin/env"), &Interrupt::default(), &|| {
            shown.exists()
        });
        assert_eq!(ended.unwrap(), Ended::Asked);
    }

    #[test]
    fn the_program_is_known_by_its_content() {
        let program = Program::own().unwrap();
        assert_eq!(program.build.len(), 16);
        program.is_the_same().unwrap();
        let other = Program {
            path: "/bin/sh".into(),
            ..program
        };
        let e = other.is_the_same().unwrap_err().text;
        assert!(e.contains("was replaced"), "{e}");
    }
}
