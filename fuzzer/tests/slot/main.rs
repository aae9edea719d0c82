//! Slots on all three levels, with the built `warren` as slot init.
//!
//! Helpers that must be processes of their own (servers and clients inside a slot, a Warren that is killed) are this very
//! test binary, started with SLOT_HELPER set: see `helper.rs`. A level the machine does not allow is said on stderr and
//! passed over. As root the tests of levels 2 and 3 run once more as an unprivileged user.

mod cuts;
mod helper;
mod kill_nine;
mod snapshot;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use warren_executor::slot::{
    CutRules, Level, Slot, SlotConfig, SlotError, SpawnSpec, TextProbe, detect_levels, sweep_level3,
};

const MS: Duration = Duration::from_millis(1);

fn warren() -> PathBuf {
    std::env::var_os("SLOT_WARREN")
        .map_or_else(|| env!("CARGO_BIN_EXE_warren").into(), PathBuf::from)
}

/// A slot of that level, or `None` (said) if the machine has no such level.
fn open(level: Level) -> Option<Slot> {
    let report = detect_levels(&warren())
        .into_iter()
        .find(|r| r.level == level)
        .expect("a report per level");
    if !report.ok {
        eprintln!("SKIPPED level {level}: {}", report.why);
        return None;
    }
    eprintln!("RAN level {level} as uid {}", uid());
    Some(
        Slot::open(&SlotConfig::new(warren(), level).names(["n1", "n2"]))
            .expect("the trial had worked"),
    )
}

fn uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map_or(0, |m| m.uid())
}

fn spec(slot: &Slot, name: &str, argv: &[&str]) -> SpawnSpec {
    SpawnSpec {
        name: name.into(),
        argv: argv.iter().map(|s| s.to_string()).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: slot.inside_root(),
        stdout: slot.inside_root().join(format!("{name}.out")),
    }
}

/// This binary as a helper inside the slot.
fn helper_spec(slot: &Slot, name: &str, what: &str) -> SpawnSpec {
    let me = std::env::current_exe().unwrap();
    let mut spec = spec(
        slot,
        name,
        &[
            me.to_str().unwrap(),
            "--exact",
            "helper_entry",
            "--nocapture",
            "--test-threads=1",
        ],
    );
    spec.env.push(("SLOT_HELPER".into(), what.into()));
    spec
}

fn output(slot: &Slot, name: &str) -> String {
    fs::read_to_string(slot.root().join(format!("{name}.out"))).unwrap_or_default()
}

/// How long anything that must come may take. Long: a busy machine is no defect, and what never comes is one after a minute too.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "within {PATIENCE:?}: {what}");
        std::thread::sleep(5 * MS);
    }
}

// ---- life of processes ------------------------------------------------------------------------------------------------

fn processes_live_end_and_are_reaped(level: Level) {
    let Some(slot) = open(level) else { return };
    let quit = slot
        .spawn(&spec(
            &slot,
            "quit",
            &["/bin/sh", "-c", "echo out; echo err >&2; exit 3"],
        ))
        .unwrap();
    let exit = slot
        .wait_exit(&quit, Instant::now() + PATIENCE)
        .unwrap()
        .expect("it ends");
    assert_eq!(
        (exit.name.as_str(), exit.status, exit.signal, exit.by_us),
        ("quit", Some(3), None, false)
    );
    assert!(exit.t_ns >= quit.spawned_ns);
    assert_eq!(output(&slot, "quit"), "out\nerr\n");

    let long = slot.spawn(&spec(&slot, "long", &["sleep", "600"])).unwrap();
    assert!(!long.is_dead());
    assert!(
        slot.wait_exit(&long, Instant::now() + 20 * MS)
            .unwrap()
            .is_none()
    );
    let killer = long.clone();
    let sent = std::thread::spawn(move || assert!(killer.kill()));
    sent.join().unwrap();
    assert!(long.wait_dead(PATIENCE));
    let exit = slot
        .wait_exit(&long, Instant::now() + PATIENCE)
        .unwrap()
        .expect("it was killed");
    assert_eq!(
        (exit.signal, exit.status, exit.by_us),
        (Some(9), None, true)
    );
    assert!(!long.kill(), "nothing is left to kill");

    let own = slot
        .spawn(&spec(&slot, "own", &["/bin/sh", "-c", "kill -9 $$"]))
        .unwrap();
    let exit = slot
        .wait_exit(&own, Instant::now() + PATIENCE)
        .unwrap()
        .unwrap();
    assert_eq!(
        (exit.signal, exit.by_us),
        (Some(9), false),
        "a signal that was not ours"
    );

    let names: Vec<String> = slot.exits().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["quit", "long", "own"]);
    assert!(slot.exits().is_empty(), "drained");

    let missing = slot
        .spawn(&spec(&slot, "missing", &["/nowhere/java"]))
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("starting missing") && missing.contains("/nowhere/java"),
        "{missing}"
    );

    // Nothing from outside is open in a process of the slot but its three files.
    let fds = slot
        .spawn(&spec(
            &slot,
            "fds",
            &["/bin/sh", "-c", "cd /proc/$$/fd && echo *"],
        ))
        .unwrap();
    slot.wait_exit(&fds, Instant::now() + PATIENCE)
        .unwrap()
        .unwrap();
    let open: Vec<u32> = output(&slot, "fds")
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    // The folder itself is open while the shell lists it. (With a pipe to another process it depended on who ran first.)
    assert!(open.starts_with(&[0, 1, 2]) && open.len() <= 4, "{open:?}");

    let stalls = slot.stalls().unwrap();
    assert!(stalls.ticks > 0 && stalls.total_longest_ns >= stalls.longest_ns);
    slot.close().unwrap();
}

fn the_place_is_as_promised(level: Level) {
    let Some(slot) = open(level) else { return };
    fs::create_dir_all(slot.root().join("nodes/n1")).unwrap();
    fs::write(slot.shm().join("page"), "from outside").unwrap();
    let page = slot.inside_shm().join("page");
    let script = format!("cat {}; echo inside > nodes/n1/file", page.display());
    let p = slot
        .spawn(&spec(&slot, "look", &["/bin/sh", "-c", &script]))
        .unwrap();
    assert_eq!(
        slot.wait_exit(&p, Instant::now() + PATIENCE)
            .unwrap()
            .unwrap()
            .status,
        Some(0)
    );
    assert_eq!(output(&slot, "look"), "from outside");
    assert_eq!(
        fs::read_to_string(slot.root().join("nodes/n1/file")).unwrap(),
        "inside\n"
    );
    if level != Level::Plain {
        let script = "hostname; getent hosts n2; wc -c < /etc/resolv.conf; ls /sys/class/net; echo $$; ls -d /proc/[0-9]* | wc -l";
        let p = slot
            .spawn(&spec(&slot, "own", &["/bin/sh", "-c", script]))
            .unwrap();
        slot.wait_exit(&p, Instant::now() + PATIENCE)
            .unwrap()
            .unwrap();
        let text = output(&slot, "own");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "slot");
        assert!(
            lines[1].starts_with("127.0.0.12") && lines[1].ends_with("n2"),
            "{text}"
        );
        assert_eq!(lines[2], "0");
        assert!(
            lines.last().unwrap().parse::<u32>().unwrap() <= 5,
            "only the slot's processes: {text}"
        );
        assert_eq!(
            (slot.inside_root(), slot.inside_shm()),
            ("/mnt".into(), "/dev/shm".into())
        );
        assert_eq!(slot.node_addr(1), Ipv4Addr::new(127, 0, 0, 12));
    } else {
        assert_eq!(slot.node_addr(1).octets()[2..], [0, 12]);
        assert_ne!(slot.node_addr(1).octets()[1], 0);
    }
    let (root, shm) = (slot.root().to_path_buf(), slot.shm().to_path_buf());
    drop(slot);
    assert!(!root.exists() && !shm.exists(), "Drop leaves nothing");
}

fn sizes_are_kept_apart(level: Level) {
    if open(level).is_none() || level == Level::Plain {
        return;
    }
    let mut config = SlotConfig::new(warren(), level);
    (config.root_bytes, config.shm_bytes) = (1 << 20, 2 << 20);
    let slot = Slot::open(&config).unwrap();
    let full = fs::write(slot.root().join("data"), vec![1u8; 2 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    fs::write(slot.shm().join("page"), vec![1u8; 1 << 20]).expect("a full disk never hits a page");
}

fn a_slot_outlives_the_thread_that_opened_it(level: Level) {
    let Some(slot) = std::thread::spawn(move || open(level)).join().unwrap() else {
        return;
    };
    std::thread::sleep(100 * MS); // PDEATHSIG would have fired
    let p = slot.spawn(&spec(&slot, "p", &["/bin/true"])).unwrap();
    assert_eq!(
        slot.wait_exit(&p, Instant::now() + PATIENCE)
            .unwrap()
            .unwrap()
            .status,
        Some(0)
    );
}

fn a_lost_init_is_told_and_takes_all_with_it(level: Level) {
    let Some(slot) = open(level) else { return };
    let p = slot.spawn(&spec(&slot, "p", &["sleep", "600"])).unwrap();
    let killed = Command::new("kill")
        .args(["-9", &slot.init_pid().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(p.wait_dead(PATIENCE), "it dies with init");
    let lost = |e: &SlotError| matches!(e, SlotError::Lost { .. });
    let e = slot.wait_exit(&p, Instant::now() + PATIENCE).unwrap_err();
    assert!(
        lost(&e) && e.to_string().contains("waiting for the end of p"),
        "{e}"
    );
    let e = slot.spawn(&spec(&slot, "q", &["/bin/true"])).unwrap_err();
    assert!(lost(&e) && e.to_string().contains("starting q"), "{e}");
    slot.close().unwrap();
}

fn two_slots_do_not_meet(level: Level) {
    let Some(one) = open(level) else { return };
    let Some(two) = open(level) else { return };
    let port = 2181;
    let listen = |slot: &Slot, name: &str| {
        let addr = slot.node_addr(0);
        slot.spawn(&helper_spec(slot, name, &format!("echo {addr}:{port}")))
            .unwrap()
    };
    let _a = listen(&one, "a");
    let _b = listen(&two, "b"); // the same port
    for slot in [&one, &two] {
        let probe = TextProbe {
            addr: slot.node_addr(0),
            port,
            send: String::new(),
        };
        wait_for("the server of each slot answers", || {
            slot.probe(vec![probe.clone()], 200 * MS).unwrap()[0].ok()
        });
    }
}

fn probes_are_answered(level: Level) {
    let Some(slot) = open(level) else { return };
    let addr = slot.node_addr(0);
    let _server = slot
        .spawn(&helper_spec(&slot, "server", &format!("word {addr}:2181")))
        .unwrap();
    let _mute = slot
        .spawn(&helper_spec(&slot, "mute", &format!("mute {addr}:2182")))
        .unwrap();
    let ask = |port, send: &str| TextProbe {
        addr,
        port,
        send: send.into(),
    };
    for port in [2181, 2182] {
        wait_for("the port opens", || {
            slot.probe(vec![ask(port, "")], 500 * MS).unwrap()[0].ok()
        });
    }
    let mut answering = vec![ask(2181, "srvr"), ask(2183, "srvr")];
    answering.extend((0..20).map(|_| ask(2181, "many")));
    let got = slot.probe(answering, PATIENCE).unwrap();
    // Who says nothing is waited for to the end.
    let mute = vec![ask(2182, "srvr"), ask(2182, "ruok")];
    let mute = slot.probe(mute, 300 * MS).unwrap();
    assert_eq!((got[0].ok(), got[0].text.as_str()), (true, "you said srvr"));
    for mute in &mute {
        assert!(
            mute.connected && mute.error.as_deref() == Some("timeout"),
            "{mute:?}"
        );
    }
    assert!(
        !got[1].connected && got[1].error.as_ref().unwrap().contains("refused"),
        "{:?}",
        got[1]
    );
    assert!(got[2..].iter().all(|a| a.text == "you said many"));
}

// ---- the tests, per level ---------------------------------------------------------------------------------------------

macro_rules! on_level {
    ($module:ident, $level:expr) => {
        mod $module {
            use super::*;
            #[test]
            fn processes() {
                processes_live_end_and_are_reaped($level);
            }
            #[test]
            fn place() {
                the_place_is_as_promised($level);
            }
            #[test]
            fn two() {
                two_slots_do_not_meet($level);
            }
            #[test]
            fn probes() {
                probes_are_answered($level);
            }
            #[test]
            fn cuts() {
                super::cuts::cuts_are_silent_directed_and_heal($level);
            }
            #[test]
            fn cut_off_dead() {
                super::cuts::a_death_during_a_cut_is_told_after_it($level);
            }
            #[test]
            fn traffic() {
                super::cuts::traffic_is_counted_without_headers($level);
            }
            #[test]
            fn sizes() {
                sizes_are_kept_apart($level);
            }
            #[test]
            fn threads() {
                a_slot_outlives_the_thread_that_opened_it($level);
            }
            #[test]
            fn lost() {
                a_lost_init_is_told_and_takes_all_with_it($level);
            }
            #[test]
            fn kill_nine() {
                super::kill_nine::kill_nine_leaves_nothing($level);
            }
        }
    };
}

on_level!(root_level, Level::Root);
on_level!(user_level, Level::User);
on_level!(plain_level, Level::Plain);

/// Levels 2 and 3 once more as a user without rights, with binaries that user may read.
#[test]
fn unprivileged() {
    if uid() != 0 {
        return; // then the other tests are that
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = dir.path().join(name);
        // By another process: a child that another test forks while we write would keep it from being started (ETXTBSY).
        let mut install = Command::new("install");
        let copied = install.args(["-m", "755"]).args([from, &to]).status();
        assert!(copied.unwrap().success());
        to
    };
    let me = copy(&std::env::current_exe().unwrap(), "slot-test");
    let warren = copy(&warren(), "warren");
    let out = Command::new(me)
        .args(["user_level", "plain_level", "--nocapture"])
        .env("SLOT_WARREN", warren)
        .env("TMPDIR", dir.path())
        .current_dir(dir.path())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    eprintln!(
        "{}",
        text.lines()
            .filter(|l| l.contains("RAN ") || l.contains("SKIPPED ") || l.starts_with("test "))
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert!(out.status.success(), "{text}");
    assert!(text.contains("as uid 65534"), "{text}");
}

#[test]
fn errors_name_what_is_wrong() {
    let e = Slot::open(&SlotConfig::new("/nowhere/warren", Level::Plain)).unwrap_err();
    assert!(e.to_string().contains("/nowhere/warren"), "{e}");
    // A binary that is not slot init: it ends, and what it said is told.
    let e = Slot::open(&SlotConfig::new("/bin/cat", Level::Plain)).unwrap_err();
    assert!(matches!(e, SlotError::Lost { .. }), "{e}");
    if let Some(slot) = open(Level::Plain) {
        let e = slot.cut(&CutRules::machine(slot.node_addr(0))).unwrap_err();
        assert!(matches!(e, SlotError::Unavailable { .. }), "{e}");
    }
}

/// No test: the entry of helper processes.
#[test]
fn helper_entry() {
    helper::run();
}
