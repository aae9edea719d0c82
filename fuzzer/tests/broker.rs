//! Brokers as processes of their own, two output folders on loopback: they find each other again, whoever vanishes, and nonsense on their
//! port changes nothing. What campaigns make of it is tested in fuzz/tests/brokers.rs. Starts no cluster.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warren::broker::{Broker, Config};
use warren::campaign::state::Identity;

/// A port that was free a moment ago, below those that the kernel gives to whoever connects. None is given twice.
fn port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(at).is_ok() {
            return at;
        }
    }
}

type Said = Arc<Mutex<Vec<String>>>;

fn broker(
    out: &Path,
    version: &str,
    listen: SocketAddr,
    remote: Option<SocketAddr>,
) -> (Broker, Said) {
    let config = Config {
        out: out.to_owned(),
        identity: Identity::new([("target", "toy".into()), ("target version", version.into())]),
        listen,
        remote: remote.map(|at| at.to_string()),
    };
    let said = Said::default();
    let lines = said.clone();
    let say = move |line| lines.lock().unwrap().push(line);
    (
        Broker::start(env!("CARGO_BIN_EXE_warren").into(), config, say),
        said,
    )
}

fn tell(out: &Path, name: &str, line: &str) {
    fs::create_dir_all(out.join(name)).unwrap();
    let path = out.join(name).join("sync.jsonl");
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    writeln!(file, "{line}").unwrap();
}

fn text(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name).join("sync.jsonl")).unwrap_or_default()
}

fn soon(what: &str, said: &[&Said], mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(150);
    while !holds() {
        assert!(
            Instant::now() < limit,
            "{what}: not in time; said: {said:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Until the broker has said so.
fn says(what: &str, said: &Said, part: &str) {
    soon(what, &[said], || {
        let said = said.lock().unwrap();
        said.iter().any(|l| l.contains(part))
    });
}

/// Two output folders, one with instance a, one with instance b, that have begun to tell.
fn left_and_right() -> (tempfile::TempDir, [PathBuf; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let out = ["left", "right"].map(|name| dir.path().join(name));
    tell(&out[0], "a", "begin a");
    tell(&out[1], "b", "begin b");
    (dir, out)
}

#[test]
fn whoever_vanishes_is_found_again_and_nonsense_is_survived() {
    let (_dir, [left, right]) = left_and_right();
    let at = port();
    let (first, said_first) = broker(&left, "1", at, None);
    // It comes up before or after the one that it joins.
    let (second, said_second) = broker(&right, "1", port(), Some(at));
    let said = [&said_first, &said_second];
    let same = || text(&left, "a") == text(&right, "a") && text(&right, "b") == text(&left, "b");
    soon("both hear each other", &said, same);

    // Noise: an HTTP client, a length without a body, a body that is none, one that says nothing and stays.
    let silent = TcpStream::connect(at).unwrap();
    for noise in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 4, 1, 2, 3, 4],
        &[0, 0, 1, 0, 7],
    ] {
        if let Ok(mut stream) = TcpStream::connect(at) {
            let _ = stream.write_all(noise);
        }
    }
    tell(&left, "a", "told after the noise");
    tell(&right, "b", "told after the noise");
    soon("both go on", &said, same);
    drop(silent);

    // One vanishes, the other tells on; it comes again, at its place, and has missed nothing.
    drop(second);
    tell(&left, "a", "told while the other was away");
    let (second, said_again) = broker(&right, "1", port(), Some(at));
    soon("it has what it missed", &[&said_first, &said_again], same);
    // Now the one that was joined: it is joined anew.
    drop(first);
    tell(&right, "b", "told while the other was away");
    let (first, said_anew) = broker(&left, "1", at, None);
    tell(&left, "a", "told by the new one");
    soon("it is joined anew", &[&said_anew, &said_again], same);
    assert_eq!(text(&right, "a").lines().count(), 4);
    assert_eq!(text(&left, "b").lines().count(), 3);
    drop((first, second));
    // What its former process said is no second instance of its name.
    for said in [said_first, said_second, said_again, said_anew] {
        let said = said.lock().unwrap();
        let two = |l: &String| l.contains("on another machine");
        assert!(!said.iter().any(two), "{said:?}");
    }
}

/// The broker between the two has a proxy that it made when it connected, and one that its listener made: LLMP must not take them for one client.
#[test]
fn a_broker_passes_on_what_it_hears() {
    let dir = tempfile::tempdir().unwrap();
    let out = ["left", "middle", "right"].map(|name| dir.path().join(name));
    for (out, name) in out.iter().zip(["a", "b", "c"]) {
        tell(out, name, &format!("begin {name}"));
    }
    let (left, middle) = (port(), port());
    let (one, said_one) = broker(&out[0], "1", left, None);
    says("it listens", &said_one, "listens on");
    let (two, said_two) = broker(&out[1], "1", middle, Some(left));
    says("it listens", &said_two, "listens on");
    let (three, said_three) = broker(&out[2], "1", port(), Some(middle));
    soon("all hear all", &[&said_one, &said_two, &said_three], || {
        ["a", "b", "c"].iter().all(|name| {
            let texts = out.each_ref().map(|out| text(out, name));
            texts.iter().all(|t| *t == format!("begin {name}\n"))
        })
    });
    drop((one, two, three));
}

#[test]
fn another_campaign_is_refused_with_its_difference() {
    let (_dir, [left, right]) = left_and_right();
    let at = port();
    let (first, said_first) = broker(&left, "1", at, None);
    let (second, said_second) = broker(&right, "2", port(), Some(at));
    for said in [&said_first, &said_second] {
        let part = "of another campaign, and refused: target version: was";
        says("it is refused", said, part);
    }
    drop((first, second));
    assert!(!left.join("b").exists() && !right.join("a").exists());
}

#[test]
fn an_output_folder_has_one_broker() {
    let dir = tempfile::tempdir().unwrap();
    let (one, said_one) = broker(dir.path(), "1", port(), None);
    says("the first listens", &said_one, "listens on");
    let (two, said_two) = broker(dir.path(), "1", port(), None);
    says("the second is refused", &said_two, "has a broker already");
    drop((one, two));
}
