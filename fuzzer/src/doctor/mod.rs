//! `warren doctor`: what this machine can do, what is missing, and what follows. Tries things; changes nothing.
//!
//! With a target it is set up and run once without faults, as any verb would (traffic.rs); one that is not there is told before anything is tried.

mod check;
mod traffic;

use crate::cli::args::DoctorArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cli::session::load;
use check::{Check, State, memory, setting, text};
use std::path::Path;
use std::process::Command;
use warren_executor::disk;
use warren_executor::run::Memory;
use warren_executor::setup::jdk::{
    self, Candidate, Choice, JavaRange, Jdk, OFFERED, choose, to_fetch,
};
use warren_executor::setup::{SetupError, cache, criu};
use warren_executor::slot::{Level, LevelReport, detect_levels, try_snapshot};
use warren_executor::target::{list_targets, load_target};

/// Runs the verb: exit 0 unless nothing can run.
///
/// # Errors
/// When Warren cannot find its own program; with a target, when that is not there or cannot be set up or run.
pub fn run(args: &DoctorArgs) -> Result<Exit, CliError> {
    let named = args.target.as_deref();
    let target = named.map(|name| load(name, &args.setup)).transpose()?;
    let exe = std::env::current_exe()
        .map_err(|e| CliError::setup(format!("finding Warren's own program: {e}")))?;
    let levels = detect_levels(&exe);
    let mut checks = isolation(&levels);
    let found = cache::dir().and_then(|cache| jdk::all(args.setup.java.as_deref(), &cache));
    let (java, runs) = java(&found, args.setup.targets.as_deref());
    let able = levels.iter().any(|l| l.ok) && runs;
    let fetched = java.first().is_some_and(|c| c.state == State::Missing);
    checks.extend(java);
    checks.push(maven());
    checks.push(cache_folder());
    checks.push(snapshots(
        &exe,
        &levels,
        found.as_deref().unwrap_or_default(),
    ));
    checks.push(targets(args.setup.targets.as_deref()));
    checks.push(memory(Memory::now()));
    checks.push(tmpfs());
    checks.push(processors());
    checks.extend(kernel());
    print!("{}", text(&checks));
    if able {
        let best = levels.iter().find(|l| l.ok).map(|l| l.level.to_string());
        println!(
            "\nWarren can run here, at level {}{}.",
            best.unwrap_or_default(),
            match fetched {
                true =>
                    ", once a JDK has been fetched (see its line; whether that works here was not tried)",
                false => "",
            }
        );
        if let Some(target) = target {
            let checks = traffic::checks(target, &args.setup)?;
            println!("\n{}, once without faults:", named.unwrap_or_default());
            print!("{}", text(&checks));
        }
        Ok(Exit::End)
    } else {
        println!("\nNothing can run here: see the lines marked missing.");
        Ok(Exit::SetupFailed)
    }
}

/// One line per level, then the kernel cuts of the best one.
fn isolation(levels: &[LevelReport]) -> Vec<Check> {
    let mut checks: Vec<Check> = levels
        .iter()
        .map(|l| {
            let name = format!("isolation level {}", l.level.number());
            if l.ok {
                let check = Check::ok(&name, "a process ran in a slot");
                if l.why.is_empty() {
                    check
                } else {
                    check.but(l.why.clone())
                }
            } else {
                let follows = match l.level.number() {
                    1 => "run as root to use it; level 2 gives the same without it",
                    2 => "without it only root has namespaces; see the kernel lines below",
                    _ => "this last resort should work anywhere: please report it",
                };
                Check::missing(&name, l.why.clone(), follows)
            }
        })
        .collect();
    checks.push(match levels.iter().find(|l| l.ok) {
        Some(l) if l.cuts => Check::ok(
            "kernel cuts",
            format!("drop rules work at level {}", l.level.number()),
        ),
        Some(l) => Check::missing(
            "kernel cuts",
            if l.why.is_empty() {
                "not at this level".to_owned()
            } else {
                l.why.clone()
            },
            "partitions are made by `throw`; how = \"drop\" and style = \"machine\" are not available",
        ),
        None => Check::missing("kernel cuts", "no level works", "no runs"),
    });
    // Who looks for the reason of missing rules asks for it: it has none (decision 0002).
    let nft = program(&["nft", "--version"]).unwrap_or_else(|| "not on PATH".into());
    checks.push(Check::ok(
        "nft program",
        format!("{nft}; not needed: rules are set without it"),
    ));
    checks
}

/// The JDK that runs most targets and compiles their programs; then the targets that run on another one. And whether any target can run.
fn java(found: &Result<Vec<Candidate>, SetupError>, folder: Option<&Path>) -> (Vec<Check>, bool) {
    let all = match found {
        Ok(all) => all,
        Err(e) => {
            let check = Check::missing("JDK", e.to_string(), "no target can run");
            return (vec![check], false);
        }
    };
    let needs: Vec<(String, JavaRange)> = list_targets(folder)
        .into_iter()
        .filter_map(|t| {
            let target = load_target(&t.folder, None, false, &[]).ok()?;
            Some((t.name, target.java))
        })
        .collect();
    jdks(all, &needs)
}

/// The same of what was found. What `fuzz` fetches is missing, and hinders nothing.
fn jdks(all: &[Candidate], needs: &[(String, JavaRange)]) -> (Vec<Check>, bool) {
    let usual_need = JavaRange::from(8);
    let shown = |jdk: &Jdk| format!("{} in {}", jdk.full_version, jdk.home.display());
    let usual = match choose(usual_need, all) {
        Choice::Take { jdk, .. } => jdk,
        Choice::TooOld(jdk) => {
            let follows = "no target runs on it: name another with --java, or leave it out";
            return (vec![Check::missing("JDK", shown(jdk), follows)], false);
        }
        Choice::Nothing => {
            let fetched = to_fetch(usual_need, &OFFERED);
            let follows = match fetched {
                Some(v) => format!(
                    "`warren fuzz` fetches Java {v}, and another one for its compiler if that has none; now: warren jdk get {v} 11"
                ),
                None => "install a full JDK 17 or later".into(),
            };
            let check = Check::missing("JDK", "none that fits a target", follows);
            return (vec![check], fetched.is_some());
        }
    };
    let mut checks = vec![if all.iter().all(|c| c.jdk.javac.is_none()) {
        Check::missing(
            "JDK",
            format!("{}, without javac", shown(usual)),
            "`warren fuzz` fetches Java 8 or 11 for its compiler; now: warren jdk get 11",
        )
    } else if usual.feature_version < 17 {
        Check::ok("JDK", shown(usual))
            .but("building Warren wants 17 or later; targets run on this one")
    } else {
        Check::ok("JDK", shown(usual))
    }];
    for (name, need) in needs {
        let title = format!("JDK of {name}");
        match choose(*need, all) {
            Choice::Take { jdk, .. } if jdk == usual => {}
            Choice::Take { jdk, .. } => {
                checks.push(Check::ok(&title, format!("{} (needs {need})", shown(jdk))));
            }
            Choice::TooOld(_) | Choice::Nothing => {
                let follows = match to_fetch(*need, &OFFERED) {
                    Some(v) => {
                        format!("`warren fuzz {name}` fetches Java {v}; now: warren jdk get {v}")
                    }
                    None => "install it where JDKs are looked for, or name its folder with --java"
                        .into(),
                };
                checks.push(Check::missing(
                    &title,
                    format!("needs {need}: none here"),
                    follows,
                ));
            }
        }
    }
    (checks, true)
}

fn maven() -> Check {
    match program(&["mvn", "--version"]) {
        Some(v) => Check::ok("Maven", v),
        None => Check::missing(
            "Maven",
            "mvn is not on PATH",
            "jars that are not in the cache yet cannot be fetched",
        ),
    }
}

/// Whether runs can start from snapshots, tried with a JVM where one of these JDKs can be restored. Fetches nothing: the first `fuzz` does.
fn snapshots(exe: &Path, levels: &[LevelReport], jdks: &[Candidate]) -> Check {
    let cold = |found: String, follows: &str| {
        Check::missing(
            "snapshots",
            found,
            format!("every run starts cold: {follows}"),
        )
    };
    if !levels.iter().any(|l| l.level == Level::Root && l.ok) {
        return cold("isolation level 1 does not work".into(), "run as root");
    }
    let found = cache::dir().and_then(|dir| Ok((criu::find(&dir)?, criu::own(&dir)?)));
    let (first, own) = match found {
        Err(e) => return cold(e.to_string(), "see the line of the cache"),
        Ok((None, _)) => {
            return cold(
                "no CRIU of version 4.2 or later on PATH or in the cache".into(),
                "`warren fuzz` fetches it as Debian packages where it can; else install it",
            );
        }
        Ok((Some(first), own)) => (first, own),
    };
    let restorable = jdks.iter().find(|c| c.jdk.not_restorable().is_none());
    let home = restorable.map(|c| c.jdk.home.as_path());
    let mut wrong = Vec::new();
    // As a start does: the system's where it works, else our own.
    let own = own.filter(|own| *own != first);
    for criu in [Some(&first), own.as_ref()].into_iter().flatten() {
        let whose = match criu.private {
            true => "our own copy".to_owned(),
            false => criu.argv.concat(),
        };
        match try_snapshot(exe, &criu.argv, home) {
            Ok(tried) => {
                let what = if tried.a_jvm { "JVM" } else { "process" };
                let check = Check::ok(
                    "snapshots",
                    format!(
                        "CRIU {}, {whose}: a {what} was dumped, and restored in {} ms",
                        criu.version,
                        tried.restore.as_millis()
                    ),
                );
                return match wrong.is_empty() {
                    true => check,
                    false => check.but(wrong.join("; ")),
                };
            }
            Err(why) => wrong.push(format!("CRIU {}, {whose}: {why}", criu.version)),
        }
    }
    let follows = match first.private || own.is_some() {
        true => "the words of CRIU say what this kernel lacks",
        false => "`warren fuzz` fetches another one as Debian packages where it can",
    };
    cold(wrong.join("; "), follows)
}

fn cache_folder() -> Check {
    let dir = match cache::dir() {
        Ok(d) => d,
        Err(e) => return Check::missing("cache", e.to_string(), "nothing can be set up"),
    };
    if let Err(e) = cache::scratch(&dir) {
        return Check::missing(
            "cache",
            e.to_string(),
            "set WARREN_CACHE to a folder that may be written",
        );
    }
    let shown = dir.display();
    match disk::room(&dir).map(|r| r.free_mib()) {
        Some(mib) if mib < 512 => Check::missing(
            "cache",
            format!("{shown}, {mib} MiB free"),
            "fetching and compiling wants 512 MiB: free some, or set WARREN_CACHE",
        ),
        Some(mib) => Check::ok("cache", format!("{shown}, {mib} MiB free")),
        None => Check::ok("cache", shown.to_string()),
    }
}

fn targets(folder: Option<&Path>) -> Check {
    let names: Vec<String> = list_targets(folder).into_iter().map(|t| t.name).collect();
    if names.is_empty() {
        Check::missing(
            "targets",
            "none found",
            "run Warren in its source folder, or name a folder with --targets",
        )
    } else {
        Check::ok("targets", names.join(", "))
    }
}

/// Levels 1 and 2 mount their own tmpfs, which takes memory only for what is written; level 3 uses /dev/shm.
fn tmpfs() -> Check {
    let shm = Path::new("/dev/shm");
    tmpfs_with(shm.is_dir(), disk::room(shm).map(|r| r.free_mib()))
}

fn tmpfs_with(is_there: bool, free_mib: Option<u64>) -> Check {
    match free_mib {
        Some(mib) if mib >= 256 => Check::ok("tmpfs", format!("/dev/shm, {mib} MiB free")),
        Some(mib) => Check::missing(
            "tmpfs",
            format!("/dev/shm has {mib} MiB free"),
            "level 3 wants 256 MiB there; levels 1 and 2 mount their own",
        ),
        None if is_there => Check::ok("tmpfs", "/dev/shm"),
        None => Check::missing(
            "tmpfs",
            "/dev/shm is not there",
            "level 3 cannot run; levels 1 and 2 mount their own",
        ),
    }
}

fn processors() -> Check {
    match std::thread::available_parallelism() {
        Ok(n) if n.get() >= 2 => Check::ok("processors", n.to_string()),
        Ok(n) => Check::missing(
            "processors",
            n.to_string(),
            "runs are starved with one: expect stalls, and runs judged unknown",
        ),
        Err(e) => Check::missing("processors", e.to_string(), "their number is not known"),
    }
}

fn kernel() -> Vec<Check> {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|s| s.trim().to_owned())
    };
    let positive = |v: &str| v.parse::<u64>().is_ok_and(|n| n > 0);
    let zero = |v: &str| v == "0";
    vec![
        Check::ok(
            "kernel",
            read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        ),
        setting(
            "user.max_user_namespaces",
            read("/proc/sys/user/max_user_namespaces").as_deref(),
            positive,
            false,
            "level 2 cannot work: sysctl -w user.max_user_namespaces=10000",
        ),
        setting(
            "kernel.unprivileged_userns_clone",
            read("/proc/sys/kernel/unprivileged_userns_clone").as_deref(),
            positive,
            true,
            "level 2 needs it: sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        setting(
            "kernel.apparmor_restrict_unprivileged_userns",
            read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref(),
            zero,
            true,
            "level 2 is refused: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        setting(
            "net.ipv4.tcp_rto_max_ms",
            read("/proc/sys/net/ipv4/tcp_rto_max_ms").as_deref(),
            |_| true,
            false,
            "after a cut heals, connections need longer until the first packet (kernel 6.15 has it)",
        ),
    ]
}

/// First line of what a program says; none when it cannot be started or refuses.
fn program(argv: &[&str]) -> Option<String> {
    let out = Command::new(argv[0]).args(&argv[1..]).output().ok()?;
    let said = String::from_utf8_lossy(&out.stdout);
    // Maven colours its first line even into a pipe.
    let line = said.lines().next()?.replace("\u{1b}[1m", "");
    out.status
        .success()
        .then(|| line.replace("\u{1b}[m", "").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::SetupArgs;

    fn jdk(place: jdk::Place, version: u32) -> Candidate {
        Candidate {
            place,
            jdk: Jdk {
                home: format!("/{version}").into(),
                feature_version: version,
                full_version: version.to_string(),
                java: "/java".into(),
                javac: Some("/javac".into()),
            },
        }
    }

    /// Before what takes seconds, and on a machine where nothing can run as well.
    #[test]
    fn a_target_that_is_not_there_is_told_first() {
        let dir = tempfile::tempdir().unwrap();
        let e = run(&DoctorArgs {
            target: Some("nosuch".into()),
            setup: SetupArgs {
                targets: Some(dir.path().to_owned()),
                // With this nothing could run.
                java: Some("/nonexistent".into()),
                ..SetupArgs::default()
            },
        })
        .unwrap_err();
        assert_eq!(e.exit, Exit::Usage);
        assert!(e.text.starts_with("no target `nosuch`"), "{e}");
    }

    #[test]
    fn a_tmpfs_without_a_size_is_there() {
        for (is_there, free, want, found) in [
            (true, Some(256), State::Ok, "/dev/shm, 256 MiB free"),
            (true, Some(255), State::Missing, "/dev/shm has 255 MiB free"),
            (true, None, State::Ok, "/dev/shm"),
            (false, None, State::Missing, "/dev/shm is not there"),
        ] {
            let check = tmpfs_with(is_there, free);
            assert_eq!((check.state, check.found.as_str()), (want, found));
        }
    }

    /// `fuzz` fetches a JDK, or one with a compiler: that nothing can run would be wrong. What a user names and is too old, nobody mends.
    #[test]
    fn what_fuzz_fetches_is_said_and_hinders_nothing() {
        let mut runtime = jdk(jdk::Place::Path, 17);
        runtime.jdk.javac = None;
        let full = jdk(jdk::Place::Path, 17);
        let old = jdk(jdk::Place::Path, 7);
        let named = jdk(jdk::Place::Named, 7);
        let none = "`warren fuzz` fetches Java 17, ";
        let compiler = "`warren fuzz` fetches Java 8 or 11 for its compiler";
        let table = [
            // JDKs, state of the line, what follows begins so, targets can run
            (vec![], State::Missing, none, true),
            (vec![old], State::Missing, none, true),
            (vec![runtime.clone()], State::Missing, compiler, true),
            (
                vec![runtime, jdk(jdk::Place::Cache, 8)],
                State::Ok,
                "",
                true,
            ),
            (vec![full], State::Ok, "", true),
            (vec![named], State::Missing, "no target runs on it", false),
        ];
        for (all, state, follows, runs) in table {
            let (checks, can_run) = jdks(&all, &[]);
            let line = &checks[0];
            assert_eq!((line.state, can_run), (state, runs), "{all:?}: {line:?}");
            assert!(line.follows.starts_with(follows), "{all:?}: {line:?}");
        }
        let refused = Err(SetupError::BadJdk {
            home: "/nosuch".into(),
            why: "it has no bin/java".into(),
        });
        let (checks, can_run) = java(&refused, None);
        assert!(!can_run, "{checks:?}");
    }

    #[test]
    fn a_target_with_another_jdk_has_a_line_of_its_own() {
        let need = |name: &str, range| (name.to_owned(), JavaRange::parse(range).unwrap());
        let needs = [need("a", "8.."), need("b", "8..11"), need("c", "21..21")];
        let all = [jdk(jdk::Place::Path, 17), jdk(jdk::Place::Cache, 11)];
        let (checks, _) = jdks(&all, &needs);
        let lines: Vec<String> = checks
            .iter()
            .map(|c| format!("{:?} {} {} {}", c.state, c.name, c.found, c.follows))
            .collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "Ok JDK 17 in /17 ");
        assert_eq!(lines[1], "Ok JDK of b 11 in /11 (needs 8 to 11) ");
        assert!(
            lines[2].contains("needs 21: none here") && lines[2].contains("warren jdk get 21"),
            "{lines:?}"
        );
    }

    #[test]
    fn each_level_has_a_line_and_the_best_one_tells_of_cuts() {
        let report = |level, ok, cuts| LevelReport {
            level,
            ok,
            why: if ok { String::new() } else { "refused".into() },
            cuts,
        };
        let lines = isolation(&[
            report(Level::Root, false, false),
            report(Level::User, true, true),
            report(Level::Plain, true, false),
        ]);
        assert_eq!(lines[0].state, State::Missing);
        assert_eq!(lines[1].state, State::Ok);
        assert_eq!(lines[3].name, "kernel cuts");
        assert_eq!(lines[3].found, "drop rules work at level 2");
        let plain = isolation(&[report(Level::Plain, true, false)]);
        assert_eq!(plain[1].state, State::Missing);
        assert!(plain[1].follows.contains("throw"));
    }
}
