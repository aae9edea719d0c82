//! The screen in a real pseudo-terminal: `warren fuzz canary` under util-linux's `script`, with resizes, keys, an end by key, and a
//! terminal that disappears. Each time the terminal must be given back and no process may be left.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A loaded machine sets a target up and starts three JVMs in this time.
const PATIENCE: Duration = Duration::from_secs(240);

struct Terminal {
    script: Child,
    keys: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
    warren: u32,
}

impl Terminal {
    fn start(out: &Path) -> Terminal {
        let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
        let command = format!(
            "stty cols 80 rows 24; exec '{}' fuzz canary --targets '{}' -o '{}' -s 1",
            env!("CARGO_BIN_EXE_warren"),
            targets.display(),
            out.display()
        );
        let mut script = Command::new("script")
            .args(["-q", "-e", "-f", "-c", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script (util-linux) starts");
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
        let mut terminal = Terminal {
            script,
            keys,
            output,
            warren: 0,
        };
        terminal.wait_for("process timing", 0);
        let mut found = descendants(terminal.script.id()).into_iter();
        terminal.warren = found
            // A slot's init is of the same program, and where numbers have come round it has a lower one.
            .find(|p| {
                let on_terminal = fs::read_link(format!("/proc/{p}/fd/0"))
                    .is_ok_and(|f| f.starts_with("/dev/pts"));
                on_terminal && exe(*p).is_some_and(|e| e.ends_with("warren"))
            })
            .expect("warren runs below script");
        terminal
    }

    fn so_far(&self) -> usize {
        self.output.lock().unwrap().len()
    }

    fn text(&self, from: usize) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()[from..]).into_owned()
    }

    /// Waits until the terminal was sent this text, from a place in its output on. Blanks of plain text are jumped over, so it is
    /// one word, or a title.
    fn wait_for(&self, text: &str, from: usize) {
        until(&format!("`{text}` on the terminal"), || {
            self.text(from).contains(text)
        });
    }

    fn press(&mut self, key: &str) -> usize {
        let from = self.so_far();
        self.keys.write_all(key.as_bytes()).unwrap();
        self.keys.flush().unwrap();
        from
    }

    fn resize(&self, columns: u16, rows: u16) -> usize {
        let from = self.so_far();
        let tty = fs::read_link(format!("/proc/{}/fd/0", self.warren)).unwrap();
        let done = Command::new("stty")
            .arg("-F")
            .arg(tty)
            .args(["cols", &columns.to_string(), "rows", &rows.to_string()])
            .status()
            .unwrap();
        assert!(done.success());
        from
    }

    /// JVMs and inits below Warren, at least one JVM among them.
    fn cluster(&self) -> BTreeSet<u32> {
        let mut all = BTreeSet::new();
        until("a JVM of the cluster", || {
            all = descendants(self.warren);
            all.iter()
                .any(|p| exe(*p).is_some_and(|e| e.ends_with("java")))
        });
        all
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test leaves nothing behind either: without its terminal Warren ends.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn exe(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// All processes below one, by the parents in /proc.
fn descendants(top: u32) -> BTreeSet<u32> {
    let mut pairs = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        // After the name, which may hold anything: state, parent.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        pairs.extend(parent.map(|p| (p, pid)));
    }
    let mut all = BTreeSet::from([top]);
    loop {
        let more: Vec<u32> = pairs
            .iter()
            .filter(|(p, c)| all.contains(p) && !all.contains(c))
            .map(|(_, c)| *c)
            .collect();
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    all.remove(&top);
    all
}

/// Gone, or dead and only not yet waited for.
fn gone(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |s| {
        s.rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    })
}

fn all_gone(pids: &BTreeSet<u32>) {
    until("the end of all processes of the cluster", || {
        pids.iter().all(|p| gone(*p))
    });
}

#[test]
fn a_campaign_in_a_terminal_is_resized_looked_at_and_ended_by_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Terminal::start(&dir.path().join("out"));
    for (key, page) in [
        ("2", "stands"),
        ("3", "queue:"),
        ("4", "node logs"),
        ("5", "draw"),
        ("1", "process timing"),
    ] {
        let from = t.press(key);
        t.wait_for(page, from);
    }
    let from = t.resize(120, 40);
    t.wait_for("this run", from);
    let from = t.resize(40, 10);
    t.wait_for("small", from);
    let from = t.resize(80, 24);
    t.wait_for("process timing", from);
    // Each key after a resize counts, the last one too.
    let from = t.press("5");
    t.wait_for("draw", from);
    t.resize(100, 30);
    let cluster = t.cluster();
    t.press("q");
    let mut code = None;
    until("the end of Warren", || {
        code = t.script.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.and_then(|c| c.code()), Some(0), "{}", t.text(0));
    until("its last words on the terminal's own screen", || {
        let all = t.text(0);
        let left = all.rfind("\x1b[?1049l");
        left.is_some_and(|at| all[at..].contains("ended before the first sequence"))
    });
    let all = t.text(0);
    let last = |what: &str| all.rfind(what).unwrap_or_else(|| panic!("no {what:?}"));
    assert!(
        last("\x1b[?1049l") > last("\x1b[?1049h"),
        "the alternate screen is left"
    );
    assert!(last("\x1b[?25h") > last("\x1b[?25l"), "the cursor is shown");
    assert!(
        all[last("\x1b[?1049l")..].contains("ended before the first sequence"),
        "last words stand on the terminal's own screen: {}",
        &all[last("\x1b[?1049l")..]
    );
    assert!(!all.contains("panicked"), "{all}");
    all_gone(&cluster);
}

#[test]
fn a_terminal_that_disappears_ends_the_campaign() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut t = Terminal::start(&out);
    let mut all = t.cluster();
    all.insert(t.warren);
    // The other side of the pseudo-terminal goes: Warren gets SIGHUP, and EIO from whatever it writes.
    t.script.kill().unwrap();
    all_gone(&all);
    assert!(!out.exists(), "a campaign that never fuzzed leaves nothing");
}
