//! Every way out of the screen in a real pseudo-terminal, and no cluster: this test program plays Warren's part ([`part`]) under
//! util-linux's `script`. A shell around it says what the terminal was set to before and after, and the exit code.
//!
//! A campaign's own ends (key, a terminal that goes away) are in fuzzer/tests/screen.rs, with a cluster.

use super::Ui;
use super::samples::busy;
use crate::cli::signals::Interrupt;
use crate::fuzz::SharedSnapshot;
use crate::terminal::{self, is_drawing};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Which part [`part`] plays.
const PART: &str = "WARREN_TEST_WAY_OUT";
/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(50);
/// Two wishes to end that are certainly two: see `cli::signals`.
const TWICE: Duration = Duration::from_millis(400);

/// Warren's part: a screen, and then an end of the kind asked for, when the user asked for an end the first time.
#[test]
#[ignore = "played by the others, each time in a terminal of its own"]
fn part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    println!("pid={}.", std::process::id());
    if part == "panic in a frame" {
        let mut t = terminal::take().unwrap();
        terminal::frame(&mut t, |_| {}).unwrap();
        let _ = terminal::frame(&mut t, |_| panic!("a cell too far"));
        return;
    }
    let interrupt = Interrupt::install().unwrap();
    let snapshot = SharedSnapshot::default();
    snapshot.with(|s| *s = busy(Instant::now()));
    let ui = Ui::start(snapshot.clone(), interrupt.clone(), false);
    wait("a first wish to end", || interrupt.asked());
    snapshot.with(|s| s.lines.push("minimise: by this command".into()));
    match part.as_str() {
        "end" => drop(ui),
        "panic" => panic!("a checker too far"),
        "panic of another thread" => {
            let fallen = std::thread::spawn(|| panic!("a thread too far")).join();
            assert!(fallen.is_err() && !is_drawing());
        }
        // Busy with its end until the user loses patience.
        _ => std::thread::sleep(2 * PATIENCE),
    }
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Terminal {
    script: Child,
    keys: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(part: &str, no_color: Option<&str>) -> Self {
        Self::sized(part, no_color, (80, 24))
    }

    fn sized(part: &str, no_color: Option<&str>, (columns, rows): (u16, u16)) -> Self {
        let here = std::env::current_exe().unwrap();
        let command = format!(
            "stty cols {columns} rows {rows}; echo was=$(stty -g).; '{}' --exact ui::ways_out::part --ignored --nocapture --test-threads=1; \
             echo code=$?.; echo is=$(stty -g).",
            here.display()
        );
        let mut script = Command::new("script");
        script
            .args(["-q", "-f", "-c", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env(PART, part)
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(value) = no_color {
            script.env("NO_COLOR", value);
        }
        let mut script = script.spawn().expect("script (util-linux) starts");
        let keys = script.stdin.take().unwrap();
        let mut stdout = script.stdout.take().unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n) = stdout.read(&mut piece) {
                if n == 0 {
                    break;
                }
                into.lock().unwrap().extend_from_slice(&piece[..n]);
            }
        });
        Terminal {
            script,
            keys,
            output,
        }
    }

    /// With the screen drawn. Plain blanks are jumped over, so what is waited for is one word.
    fn drawn(part: &str, no_color: Option<&str>) -> Self {
        let t = Self::start(part, no_color);
        wait("the screen", || t.text().contains("timing"));
        t
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn pid(&self) -> i32 {
        between(&self.text(), "pid=").parse().unwrap()
    }

    fn tty(&self) -> PathBuf {
        std::fs::read_link(format!("/proc/{}/fd/0", self.pid())).unwrap()
    }

    fn resize(&self, columns: u16, rows: u16) {
        let done = Command::new("stty")
            .arg("-F")
            .arg(self.tty())
            .args(["cols", &columns.to_string(), "rows", &rows.to_string()])
            .status()
            .unwrap();
        assert!(done.success());
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Nobody reads it any more, and it is full: who writes waits.
    fn stall(&self) {
        self.of_script(Signal::SIGSTOP);
        let mut tty = OpenOptions::new()
            .write(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
            .open(self.tty())
            .unwrap();
        wait("a full terminal", || {
            tty.write(&[b' '; 16_384])
                .is_err_and(|e| e.kind() == ErrorKind::WouldBlock)
        });
    }

    fn of_script(&self, signal: Signal) {
        let pid = i32::try_from(self.script.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for the end; the terminal must be as it was. Gives all that was written.
    fn last_word(&self) -> String {
        wait("the shell's last word", || {
            self.text()
                .rsplit_once("is=")
                .is_some_and(|(_, rest)| rest.contains('.'))
        });
        let all = self.text();
        assert_eq!(between(&all, "was="), between(&all, "\nis="), "{all:?}");
        all
    }

    /// The same; and it must be on its own screen. Gives the exit code and what stands there after Warren's was left.
    fn ended(self) -> (i32, String) {
        let all = self.last_word();
        let last = |what: &str| all.rfind(what).unwrap_or_else(|| panic!("no {what:?}"));
        let left = last("\x1b[?1049l");
        assert!(left > last("\x1b[?1049h"), "the alternate screen is left");
        assert!(last("\x1b[?25h") > last("\x1b[?25l"), "the cursor is shown");
        let code = between(&all, "code=").parse().unwrap();
        (code, all[left..].to_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The word between this and the next full stop.
fn between<'a>(text: &'a str, from: &str) -> &'a str {
    let (_, rest) = text.rsplit_once(from).unwrap_or_else(|| {
        panic!("no {from:?} in {text:?}");
    });
    rest.split('.').next().unwrap_or(rest)
}

#[test]
fn a_campaign_that_ends_gives_the_terminal_back() {
    let mut t = Terminal::drawn("end", None);
    t.press("\x03");
    let (code, after) = t.ended();
    assert_eq!(code, 0);
    // What there was no room for is told now.
    assert!(after.contains("minimise: by this command"), "{after:?}");
}

/// The first key tells crossterm of resizes from then on; the resize after it and the next key are then one answer of the kernel's.
#[test]
fn the_first_key_after_a_resize_counts() {
    let mut t = Terminal::drawn("end", None);
    t.press("3");
    wait("the queue", || t.text().contains("kept runs"));
    t.resize(40, 10);
    wait("the smaller screen", || t.text().contains("small"));
    t.press("q");
    assert_eq!(t.ended().0, 0);
}

#[test]
fn a_second_ctrl_c_ends_at_once_with_130() {
    // As the key, which is what a terminal in raw mode makes of it; as signals, mixed.
    let mut t = Terminal::drawn("busy", None);
    t.press("\x03");
    wait("what once more will do", || t.text().contains("ending:"));
    std::thread::sleep(TWICE);
    t.press("\x03");
    assert_eq!(t.ended().0, 130, "by key");
    let t = Terminal::drawn("busy", None);
    t.signal(Signal::SIGINT);
    wait("what once more will do", || t.text().contains("ending:"));
    std::thread::sleep(TWICE);
    t.signal(Signal::SIGTERM);
    assert_eq!(t.ended().0, 130, "by signal");
}

/// Whoever has lost sight of it must be able to end it: the frame that is stuck does not hold up the end.
#[test]
fn a_terminal_that_nobody_reads_holds_up_no_second_signal() {
    let t = Terminal::drawn("busy", None);
    let warren = format!("/proc/{}", t.pid());
    t.stall();
    // A frame or two, of which one is stuck.
    std::thread::sleep(TWICE);
    t.signal(Signal::SIGTERM);
    std::thread::sleep(TWICE);
    t.signal(Signal::SIGTERM);
    wait("the end", || !Path::new(&warren).exists());
    t.of_script(Signal::SIGCONT);
    assert_eq!(between(&t.last_word(), "code="), "130");
}

/// No screen can be seen there: lines can.
#[test]
fn a_terminal_without_a_size_has_a_status_line() {
    let t = Terminal::sized("end", None, (0, 0));
    wait("a status line", || t.text().contains("runs 120 seqs 100"));
    t.signal(Signal::SIGINT);
    let all = t.last_word();
    assert!(all.contains("neither rows nor columns"), "{all:?}");
    assert!(!all.contains("\x1b[?1049h"), "{all:?}");
    assert_eq!(between(&all, "code="), "0");
}

/// The message stands where it can be read, whoever panicked.
#[test]
fn a_panic_gives_the_terminal_back_before_its_message() {
    for (part, message, code) in [
        ("panic", "a checker too far", 101),
        ("panic of another thread", "a thread too far", 0),
        ("panic in a frame", "a cell too far", 101),
    ] {
        let mut t = Terminal::start(part, None);
        if part != "panic in a frame" {
            wait("the screen", || t.text().contains("timing"));
            t.press("q");
        }
        let (ended, after) = t.ended();
        assert_eq!(ended, code, "{part}: {after:?}");
        assert!(after.contains(message), "{part}: {after:?}");
    }
}

/// NO_COLOR, set to anything, takes the colours away; bold and reverse stay.
#[test]
fn no_color_is_honoured() {
    for (value, coloured) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let mut t = Terminal::drawn("end", value);
        let text = t.text();
        t.press("q");
        assert_eq!(t.ended().0, 0);
        let mut colours = text.split("\x1b[").skip(1).filter_map(|rest| {
            let numbers = rest.split_once('m')?.0;
            numbers
                .split(';')
                .map(|n| n.parse().ok())
                .collect::<Option<Vec<u8>>>()?
                .into_iter()
                .find(|n| matches!(n, 30..=38 | 40..=48 | 90..=97 | 100..=107))
        });
        assert_eq!(colours.next().is_some(), coloured, "NO_COLOR {value:?}");
    }
}
