//! Campaigns of the made-up cluster in two output folders, joined by two LLMP brokers on loopback: what one has tested the other knows, takes
//! over and does not test again. What a broker's process does when others vanish or talk nonsense is in tests/broker.rs.

use super::sync::{Asked, again, asked, noting, tiny, tiny_sim, told};
use super::*;
use crate::broker;
use crate::campaign::FuzzError;
use crate::fuzz::common_identity;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// A broker in a thread of its own.
struct Carrying {
    ending: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<Result<(), String>>,
}

impl Carrying {
    fn start(options: &FuzzOptions, remote: Option<SocketAddr>) -> Self {
        let config = broker::Config {
            out: options.out.clone(),
            identity: common_identity(options),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            remote: remote.map(|at| at.to_string()),
        };
        let (ending, said) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let (flag, lines) = (ending.clone(), said.clone());
        let thread = std::thread::spawn(move || {
            let mut say = |line| lines.lock().unwrap().push(line);
            broker::run(&config, &flag, &mut say, &mut || ()).map_err(|e| e.to_string())
        });
        Carrying {
            ending,
            said,
            thread,
        }
    }

    fn listens(&self) -> SocketAddr {
        soon("a broker that listens", || {
            let said = self.said.lock().unwrap();
            said.iter()
                .find_map(|l| l.strip_prefix("listens on ")?.parse().ok())
        })
    }

    /// Whether it ended well, and what it said.
    fn end(self) -> (Result<(), String>, Vec<String>) {
        self.ending.store(true, Ordering::SeqCst);
        let ended = self.thread.join().unwrap();
        (ended, self.said.lock().unwrap().clone())
    }
}

fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(120);
    while Instant::now() < limit {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}: not within two minutes");
}

/// All that an instance tells, by path.
fn all_of(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![(
        String::from("sync.jsonl"),
        fs::read(root.join("sync.jsonl")).unwrap_or_default(),
    )];
    for sub in ["runs", "crashes", "hangs"] {
        for e in fs::read_dir(root.join(sub)).into_iter().flatten().flatten() {
            let name = e.file_name().into_string().unwrap();
            if name != "README.txt" && !name.starts_with('.') {
                files.push((
                    format!("{sub}/{name}"),
                    fs::read(e.path()).unwrap_or_default(),
                ));
            }
        }
    }
    files.sort();
    files
}

/// Waits until the mirror is as the instance.
fn mirrored(from: &Path, to: &Path, name: &str) {
    soon(&format!("a mirror of {name}"), || {
        (all_of(&from.join(name)) == all_of(&to.join(name))).then_some(())
    });
}

fn both(a: &Asked, b: &Asked) -> usize {
    let (a, b) = (a.lock().unwrap(), b.lock().unwrap());
    a.intersection(&b).count()
}

#[test]
fn two_brokers_on_loopback_import_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (dir.path().join("left"), dir.path().join("right"));
    let few = |out: &Path, name: &str, runs| FuzzOptions {
        max_sequences: Some(runs),
        ..tiny(out, name)
    };
    let (of_a, of_b) = (asked(), asked());
    fuzz(tiny_sim(), few(&left, "a", 30), noting(&of_a));
    fuzz(tiny_sim(), few(&right, "b", 10), noting(&of_b));
    let first = Carrying::start(&tiny(&left, "a"), None);
    let second = Carrying::start(&tiny(&right, "b"), Some(first.listens()));
    mirrored(&left, &right, "a");
    mirrored(&right, &left, "b");
    // b goes on to the end of the space, with a's runs when its own are done.
    let (later_b, later_a) = (asked(), asked());
    let end = fuzz(tiny_sim(), again(tiny(&right, "b")), noting(&later_b));
    assert_eq!(end.reason, EndReason::Exhausted);
    let number = |out: &Path, name: &str, key: &str| -> usize {
        stat(&out.join(name), key).parse().unwrap()
    };
    assert_eq!(number(&right, "b", "others_tested"), told(&left, "a").len());
    assert!(told(&left, "a").len() >= 30);
    assert!(number(&right, "b", "corpus_imported") > 0);
    assert!(!later_b.lock().unwrap().is_empty());
    assert_eq!(both(&of_a, &later_b), 0);
    // And a learns all that from b: nothing is left for it.
    mirrored(&right, &left, "b");
    let end = fuzz(tiny_sim(), again(tiny(&left, "a")), noting(&later_a));
    assert_eq!(end.reason, EndReason::Exhausted);
    assert_eq!(number(&left, "a", "others_tested"), told(&right, "b").len());
    assert!(told(&right, "b").len() > 10);
    assert_eq!(both(&of_b, &later_a) + both(&later_b, &later_a), 0);
    // What was told last is there when a broker has ended.
    let before = fs::read(left.join("a/sync.jsonl")).unwrap();
    let (ended, said) = second.end();
    assert_eq!(ended, Ok(()), "{said:?}");
    assert!(
        said.iter()
            .any(|l| l.contains("joined the broker at 127.0.0.1:")),
        "{said:?}"
    );
    assert!(
        said.iter().any(|l| l.contains("its instances: a")),
        "{said:?}"
    );
    let (ended, said) = first.end();
    assert_eq!(ended, Ok(()), "{said:?}");
    assert!(
        said.iter().any(|l| l.contains("its instances: b")),
        "{said:?}"
    );
    assert_eq!(fs::read(left.join("a/sync.jsonl")).unwrap(), before);
    mirrored(&right, &left, "b");
    // A mirror is nobody's folder to fuzz in.
    let (e, judge) = executor(tiny_sim(), nothing());
    match campaign(tiny(&left, "b"), e, &judge) {
        Err(FuzzError::HoldsCampaign { marker, .. }) => assert_eq!(marker, crate::campaign::MIRROR),
        other => panic!("{other:?}"),
    }
}
