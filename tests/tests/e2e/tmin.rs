//! `warren tmin` on the canary: a five-fault sequence comes down to the two faults that planted bug (a) needs, and the result replays.

use std::fs;
use std::time::Duration;
use warren_model::FaultSequence;
use warren_tests::{cluster, run, warren};

const MINUTE: Duration = Duration::from_secs(60);
/// Five faults, of which bug (a) needs two.
const FIVE: &str = include_str!("tmin-five.toml");

/// Also: ended by its bound it goes on from the journal, and a result that is not its own is not overwritten.
#[test]
fn five_faults_come_down_to_the_two_needed() {
    let _one = cluster();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let five = FaultSequence::from_text(FIVE).unwrap();
    assert_eq!(five.faults.len(), 5);
    fs::write(path("five.toml"), FIVE).unwrap();
    let (given, out) = (path("five.toml"), path("min.toml"));

    // How often a run shows the bug is the machine's: on one that is busy two in a row may not. So four tries, of which one is enough.
    // Cut off by a small bound first: nothing that was run is run again.
    let args = |runs: &'static str| {
        [
            "tmin", "-i", &given, "-o", &out, "-n", "4", "-k", "1", "--runs", runs,
        ]
        .map(str::to_owned)
    };
    let tmin = |runs| {
        let args = args(runs);
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        run(warren(&words), 4 * MINUTE)
    };
    tmin("10").expect_code(0);
    let journal = fs::read_to_string(path("min.journal.jsonl")).unwrap();
    // A run over its limit counts twice, and those of the end only where something was kept.
    let cut = journal.lines().count() - 1;
    assert!((1..=10).contains(&cut), "{journal}");
    let ran = tmin("100").expect_code(0);
    assert!(
        ran.out
            .contains(&format!("goes on from the journal: {cut} runs")),
        "{}",
        ran.text()
    );
    let text = fs::read_to_string(&out).unwrap();
    let result = FaultSequence::from_text(&text).unwrap();
    assert_eq!(result.kinds(), "crash+reboot", "{text}\n{}", ran.text());
    assert!(
        ran.out.contains("faults 5 -> 2, shows in"),
        "{}",
        ran.text()
    );
    assert!(text.contains("shows in"), "{text}");
    // The two are those of the bug.
    assert!(
        text.contains("canary.Store.take") && text.contains("canary.Reclaim.note"),
        "{text}"
    );
    let neighbour =
        FaultSequence::from_text(&fs::read_to_string(path("min.passing.toml")).unwrap());
    assert_ne!(neighbour.unwrap(), result);
    run(warren(&["replay", &out, "-n", "4"]), 2 * MINUTE).expect_code(77);

    fs::write(path("mine.toml"), "mine").unwrap();
    let refused = run(warren(&["tmin", &given, "-o", &path("mine.toml")]), MINUTE).expect_code(2);
    assert!(
        refused.err.contains("is not overwritten"),
        "{}",
        refused.text()
    );
    assert_eq!(fs::read_to_string(path("mine.toml")).unwrap(), "mine");
    let refused = run(warren(&["tmin", &given, "-o", "/dev/null"]), MINUTE).expect_code(2);
    assert!(refused.err.contains("device"), "{}", refused.text());
}
