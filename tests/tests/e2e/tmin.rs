//! `warren tmin` on the canary: a five-fault sequence comes down to the two faults that planted bug (a) needs, and the result replays.

use std::fs;
use std::time::Duration;
use warren_model::FaultSequence;
use warren_tests::{cluster, run, run_until_it_fails, warren};

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
    let given = path("five.toml");

    // How often a run shows the bug is the machine's: on one that is busy two in a row may not. So four tries, of which one is enough.
    let tmin = |out: &str, runs: &str| {
        let args = ["tmin", "-i", &given, "-o", out, "-n", "4", "-k", "1"];
        let args = [&args[..], &["--runs", runs]].concat();
        run(warren(&args), 4 * MINUTE).expect_code(0)
    };
    // Cut off by a small bound first: nothing that was run is run again.
    let first = path("min0.toml");
    tmin(&first, "10");
    let journal = fs::read_to_string(path("min0.journal.jsonl")).unwrap();
    // A run over its limit counts twice, and those of the end only where something was kept.
    let cut = journal.lines().count() - 1;
    assert!((1..=10).contains(&cut), "{journal}");
    let goes_on = tmin(&first, "100");
    assert!(
        goes_on
            .out
            .contains(&format!("goes on from the journal: {cut} runs")),
        "{}",
        goes_on.text()
    );
    // A step is given up after two runs in which the bug's own second fault did not come, a chance of some in a hundred: once more from the start.
    let mut tried = String::new();
    let mut goes_on = Some(goes_on);
    let two = (0..3).find_map(|at| {
        let out = path(&format!("min{at}.toml"));
        let ran = goes_on.take().unwrap_or_else(|| tmin(&out, "100"));
        let text = fs::read_to_string(&out).unwrap();
        let result = FaultSequence::from_text(&text).unwrap();
        tried.push_str(&format!("{text}\n{}\n", ran.text()));
        (result.kinds() == "crash+reboot").then_some((at, out, ran, text, result))
    });
    let (at, out, ran, text, result) = two.unwrap_or_else(|| panic!("never two\n{tried}"));
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
    let passing = fs::read_to_string(path(&format!("min{at}.passing.toml")));
    let neighbour = FaultSequence::from_text(&passing.unwrap());
    assert_ne!(neighbour.unwrap(), result);
    run_until_it_fails(|| warren(&["replay", &out, "-n", "4"]), 2 * MINUTE);

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
