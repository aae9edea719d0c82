//! Killed after any number of tries and taken up by its journal: no try is made again, and the result is that of one go.

use super::super::drive::{World, drive};
use super::super::journal::{Header, JOURNAL_VERSION, Journal, JournalError};
use super::super::report;
use super::*;
use std::io::Write;
use std::path::Path;

/// Faults 2 and 4 are needed; dies when it is asked for one try more than `left`.
struct Fake {
    made: Vec<u64>,
    left: usize,
}

#[derive(Debug)]
enum Died {
    Killed,
    Journal(String),
}

impl From<JournalError> for Died {
    fn from(e: JournalError) -> Self {
        Died::Journal(e.to_string())
    }
}

impl World for Fake {
    type Error = Died;

    fn run(&mut self, ask: &Ask, _: u64) -> Result<Option<Outcome>, Died> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(Died::Killed);
        };
        self.left = left;
        self.made.push(ask.hash);
        let needed = BTreeSet::from([2, 4]);
        let shows = has(&ask.sequence, &needed);
        Ok(Some(if shows { fails(SIG) } else { passes() }))
    }

    fn number(&self) -> Option<u64> {
        Some(self.made.len() as u64)
    }

    fn told(&mut self, _: &Told, _: &Minimiser) -> Result<(), Died> {
        Ok(())
    }
}

/// One process: the tries it made, and the result if it came to its end.
fn process(path: &Path, left: usize) -> (Vec<u64>, Option<String>) {
    let given = sequence(&[crash(1), reboot(1), cut(8), crash(2), reboot(2)]);
    let header = Header {
        warren_tmin: JOURNAL_VERSION,
        sequence: "aa".into(),
        target: "t".into(),
        flags: String::new(),
        seed: 1,
        limit_ms: 1,
        known_bugs: String::new(),
    };
    let mut journal = Some(Journal::open(path, &header).unwrap());
    let mut m = Minimiser::new(given, wide(), settings(100));
    let mut world = Fake {
        made: Vec::new(),
        left,
    };
    let result = match drive(&mut m, &mut journal, &mut world) {
        Ok(through) => {
            assert!(through);
            Some(report::result_text(&m, "x", 5))
        }
        Err(Died::Killed) => None,
        Err(Died::Journal(e)) => panic!("{e}"),
    };
    (world.made, result)
}

#[test]
fn no_try_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let (whole, result) = process(&path, usize::MAX);
    let result = result.unwrap();
    assert!(
        whole.len() > 10 && result.contains("# faults 5 -> "),
        "{result}"
    );
    let journal = std::fs::read(&path).unwrap();
    for killed in 0..=whole.len() {
        std::fs::remove_file(&path).unwrap();
        let (mut made, none) = process(&path, killed);
        assert_eq!(
            none.is_none(),
            killed < whole.len(),
            "killed after {killed}"
        );
        // The line being written then.
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"candidate\":\"0000").unwrap();
        // And once more, at the second try after that.
        made.extend(process(&path, 2).0);
        let (rest, again) = process(&path, usize::MAX);
        made.extend(rest);
        assert_eq!(made, whole, "killed after {killed}");
        assert_eq!(again.as_ref(), Some(&result), "killed after {killed}");
    }
    let tries = |bytes: &[u8]| bytes.iter().filter(|b| **b == b'\n').count();
    assert_eq!(tries(&std::fs::read(&path).unwrap()), tries(&journal));
}
