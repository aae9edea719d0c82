//! From a campaign's own files to its row of the table: runs.jsonl tells the curve and the failing tests, fuzzer_stats what stands and how it
//! ended, a finding's folder by which run it was found. Pure but for [`of_campaign`], which reads them.

use super::arms::Arm;
use super::table::{CPU, EXHAUSTED, Failing, Point, Row};
use crate::campaign::finding::Sheet;
use crate::campaign::{FailedCheck, FindingLine, RunRole, StoredLine};
use crate::fuzz::NEEDED;
use crate::whatsup::instance::Stats;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warren_model::FailureKind;

/// Which campaign it is.
#[derive(Clone, Debug)]
pub struct Which<'a> {
    pub arm: &'a Arm,
    pub repeat: u64,
    pub seed: u64,
    pub build: &'a str,
    pub starts: u64,
}

/// How a campaign's fuzzer_stats say that it ended; none while it goes on, and when it has none.
#[must_use]
pub fn end_of(instance: &Path) -> Option<String> {
    let text = std::fs::read_to_string(instance.join("fuzzer_stats")).ok()?;
    let stats = Stats::parse(&text).ok()?;
    let ended = stats.text("ended");
    (!ended.is_empty() && ended != "no").then(|| ended.to_owned())
}

/// Whether a campaign that ended so is done: it reached its budget, or nothing was left to try.
#[must_use]
pub fn is_done(ended: &str) -> bool {
    ["runs", CPU, EXHAUSTED].contains(&ended)
}

/// The row of a campaign that is done.
///
/// # Errors
/// The file that cannot be read, and why.
pub fn of_campaign(which: &Which<'_>, instance: &Path) -> Result<Row, String> {
    let read = |name: &str| {
        let path = instance.join(name);
        std::fs::read_to_string(&path)
            .map_err(|e| format!("reading {}: {e}", path.display()))
            .map(|text| (path, text))
    };
    let (path, text) = read("fuzzer_stats")?;
    let stats = Stats::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let (path, lines) = read("runs.jsonl")?;
    let found = found(&stats, |number| {
        let path = instance.join("findings").join(number).join("finding.json");
        let sheet = Sheet::read(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
        Ok(sheet.found.execs)
    })?;
    row(which, &lines, &stats, &found).map_err(|e| format!("{}: {e}", path.display()))
}

/// Signatures of the findings of liveness and hangs that stand, each with the run by which it was found first; `run_of` is asked with a finding's number.
fn found(
    stats: &Stats,
    run_of: impl Fn(&str) -> Result<u64, String>,
) -> Result<BTreeMap<&str, u64>, String> {
    let mut found = BTreeMap::new();
    for (number, what) in stats.findings() {
        let line = FindingLine::read(what)
            .ok_or_else(|| format!("finding_{number} is `{what}`, which tells no finding"))?;
        // Safety counts wherever it shows.
        if line.kind == FailureKind::Safety || fell(&line, stats.known(number).is_some()) {
            continue;
        }
        let run = run_of(number)?;
        let first = found.entry(line.signature).or_insert(run);
        *first = run.min(*first);
    }
    Ok(found)
}

/// Whether a finding is a liveness failure that was saved while its replays were cut off and did not show often
/// enough when they were made. A known bug that a log tells is not replayed.
fn fell(line: &FindingLine<'_>, known: bool) -> bool {
    let not_replayed = known && (line.k, line.n) == (0, 0);
    line.kind == FailureKind::Liveness && !not_replayed && line.k < NEEDED
}

/// The same of the texts.
fn row(
    which: &Which<'_>,
    jsonl: &str,
    stats: &Stats,
    found: &BTreeMap<&str, u64>,
) -> Result<Row, String> {
    let mut lines = Vec::new();
    for line in StoredLine::all(jsonl) {
        let line = line?;
        if !line.is_cut_off() {
            lines.push(line);
        }
    }
    let learning = |l: &&StoredLine| l.role == RunRole::Learning;
    let learned = lines.iter().filter(learning);
    let mut row = Row {
        arm: which.arm.label.clone(),
        strategy: which.arm.strategy.clone(),
        without: which.arm.without.clone(),
        repeat: which.repeat,
        seed: which.seed,
        build: which.build.to_owned(),
        finished: stats.number("last_update"),
        ended: stats.text("ended").to_owned(),
        starts: which.starts,
        runs: lines.len() as u64,
        learning_runs: learned.clone().count() as u64,
        learning_seconds: seconds(learned.clone().map(|l| l.times_ms.total).sum()),
        learning_cpu_seconds: seconds(learned.map(|l| l.spent_ms).sum()),
        void_runs: stats.number("void_runs"),
        unknown_runs: stats.number("unknown_runs"),
        ..Row::default()
    };
    let mut now = Point {
        slots: lines
            .iter()
            .take_while(learning)
            .last()
            .map_or(0, |l| l.slots),
        states: lines
            .iter()
            .take_while(learning)
            .last()
            .and_then(|l| l.states),
        ..Point::default()
    };
    row.curve.push(now);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut cpu_ms = 0;
    for line in lines.iter().filter(|l| !learning(l)) {
        cpu_ms += line.spent_ms;
        let before = now;
        (now.seconds, now.cpu_seconds) = (seconds(line.at_ms), seconds(cpu_ms));
        // The last run of its sequence: an earlier one that told nothing was repeated, and a replay is no test.
        if line.sequences > now.tests {
            now.tests = line.sequences;
            let failures = counted(line, found)?;
            seen.extend(failures.iter().map(|f| f.signature.clone()));
            if !failures.is_empty() {
                row.failing.push(Failing {
                    tests: now.tests,
                    seconds: now.seconds,
                    cpu_seconds: now.cpu_seconds,
                    faults: line.kinds.clone(),
                    failures,
                });
            }
        }
        now.findings = seen.len() as u64;
        now.slots = now.slots.max(line.slots);
        now.states = line.states.or(now.states);
        let same =
            (before.slots, before.findings, before.states) == (now.slots, now.findings, now.states);
        if !same {
            row.curve.push(now);
        }
    }
    if row.curve.last() != Some(&now) {
        row.curve.push(now);
    }
    (row.tests, row.seconds, row.cpu_seconds) = (now.tests, now.seconds, now.cpu_seconds);
    Ok(row)
}

/// The failed checks of a test that count: safety at once; what else was seen from the run on by which it was found: what its replays did not
/// show before was no finding then, and the campaign went on. A void run fails nothing.
fn counted(line: &StoredLine, found: &BTreeMap<&str, u64>) -> Result<Vec<FailedCheck>, String> {
    let mut counted = Vec::new();
    for failure in line.failures.iter().filter(|_| line.void.is_none()) {
        let check: FailedCheck = failure.parse()?;
        let first = found.get(check.signature.as_str());
        if check.kind.parse() == Ok(FailureKind::Safety)
            || first.is_some_and(|run| line.run >= *run)
        {
            counted.push(check);
        }
    }
    Ok(counted)
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct L {
        role: &'static str,
        at: u64,
        slots: u64,
        tested: u64,
        void: &'static str,
        failures: &'static str,
    }

    fn text(l: &L) -> String {
        format!(
            "{{\"run\":1,\"role\":\"{}\",\"at_ms\":{},\"kinds\":\"crash\",\"void\":{},\"failures\":[{}],\"times_ms\":{{\"slot\":1,\"total\":2000}},\
             \"spent_ms\":1000,\"slots\":{},\"sequences\":{}}}\n",
            l.role, l.at, l.void, l.failures, l.slots, l.tested
        )
    }

    const A: &str = "\"replicas healed aaaaaaaa safety\"";
    const B: &str = "\"serve degraded bbbbbbbb liveness\"";
    const AC: &str = "\"replicas healed aaaaaaaa safety\",\"serve healed cccccccc liveness\"";

    fn stats(finding: &str) -> Stats {
        Stats::parse(&format!(
            "start_time : 1\nlast_update : 99\nfuzzer_pid : 7\nexecs_done : 9\nended : runs\nvoid_runs : 1\n{finding}"
        ))
        .unwrap()
    }

    fn which(arm: &Arm) -> Which<'_> {
        Which {
            arm,
            repeat: 2,
            seed: 5,
            build: "1f",
            starts: 1,
        }
    }

    /// The row of a campaign of which only the files matter.
    fn row_of(jsonl: &str, finding: &str) -> Result<Row, String> {
        let arm = Arm {
            label: "x".into(),
            strategy: "crashfuzz".into(),
            without: Vec::new(),
        };
        let stats = stats(finding);
        let found = found(&stats, |_| Ok(1)).unwrap();
        row(&which(&arm), jsonl, &stats, &found)
    }

    fn measured(lines: &[L], finding: &str) -> Row {
        let jsonl: String = lines.iter().map(text).collect();
        row_of(&jsonl, finding).unwrap()
    }

    #[test]
    fn a_campaigns_curve_and_failing_tests() {
        let line = |role, at, slots, tested, void, failures| L {
            role,
            at,
            slots,
            tested,
            void,
            failures,
        };
        let row = measured(
            &[
                line("learning", 0, 90, 0, "null", ""),
                line("learning", 0, 100, 0, "null", ""),
                line("fuzz", 2000, 110, 1, "null", ""),
                // Told nothing, and is repeated: no test yet, and what it failed does not count.
                line("fuzz", 4000, 110, 1, "\"starved\"", A),
                line("repeat", 6000, 110, 2, "null", ""),
                line("fuzz", 8000, 110, 3, "null", B),
                line("confirm", 9000, 110, 3, "null", A),
                line("fuzz", 10_000, 110, 4, "null", AC),
                line("fuzz", 11_000, 120, 4, "\"stopped\"", ""),
                line("fuzz", 12_000, 115, 5, "null", A),
                line("fuzz", 14_000, 115, 6, "null", ""),
            ],
            "finding_000000 : bbbbbbbb liveness serve 2/3\n",
        );
        assert_eq!((row.tests, row.runs, row.learning_runs), (6, 10, 2));
        assert_eq!((row.seconds, row.cpu_seconds), (14.0, 8.0));
        assert_eq!((row.learning_seconds, row.learning_cpu_seconds), (4.0, 2.0));
        assert_eq!(
            (row.ended.as_str(), row.finished, row.void_runs),
            ("runs", 99, 1)
        );
        let curve: Vec<_> = row
            .curve
            .iter()
            .map(|p| (p.tests, p.seconds, p.cpu_seconds, p.slots, p.findings))
            .collect();
        assert_eq!(
            curve,
            [
                (0, 0.0, 0.0, 100, 0),
                (1, 2.0, 1.0, 110, 0),
                (3, 8.0, 4.0, 110, 1),
                (4, 10.0, 6.0, 110, 2),
                (5, 12.0, 7.0, 115, 2),
                (6, 14.0, 8.0, 115, 2),
            ]
        );
        let failing: Vec<_> = row
            .failing
            .iter()
            .map(|f| {
                let signatures: Vec<&str> =
                    f.failures.iter().map(|f| f.signature.as_str()).collect();
                (f.tests, f.seconds, f.cpu_seconds, signatures.join("+"))
            })
            .collect();
        // cccccccc does not stand: it showed once and not again.
        let want = [
            (3, 8.0, 4.0, "bbbbbbbb"),
            (4, 10.0, 6.0, "aaaaaaaa"),
            (5, 12.0, 7.0, "aaaaaaaa"),
        ];
        assert_eq!(failing, want.map(|(t, s, c, f)| (t, s, c, f.to_owned())));
        assert_eq!(
            (row.signatures(), row.failing[0].faults.as_str()),
            (2, "crash")
        );
        assert_eq!(row.failing[0].failures[0].checker, "serve");
    }

    /// Ctrl-C cut its replays off, so it was saved; then they did not show it.
    #[test]
    fn a_liveness_failure_that_its_replays_did_not_show_counts_nowhere() {
        let line = text(&L {
            role: "fuzz",
            at: 2000,
            slots: 1,
            tested: 1,
            void: "null",
            failures: B,
        });
        let table = [
            ("liveness serve 0/3", "", 0),
            ("liveness serve 1/3", "", 0),
            ("liveness serve 2/3", "", 1),
            ("liveness serve 0/0", "known_000000 : X-1\n", 1),
            ("liveness serve 1/3", "known_000000 : X-1\n", 0),
        ];
        for (what, known, counts) in table {
            let stats = format!("finding_000000 : bbbbbbbb {what}\n{known}");
            let row = row_of(&line, &stats).unwrap();
            assert_eq!(row.failing.len(), counts, "{what}");
        }
    }

    /// The replays of the first two did not show it, those of the third did: until then the campaign had found nothing.
    #[test]
    fn a_liveness_failure_counts_from_the_test_that_found_it() {
        let lines: String = [(11, 1), (15, 2), (19, 3), (23, 4)]
            .map(|(run, tested)| {
                let line = text(&L {
                    role: "fuzz",
                    at: 1000 * tested,
                    slots: 1,
                    tested,
                    void: "null",
                    failures: B,
                });
                line.replace("\"run\":1,", &format!("\"run\":{run},"))
            })
            .concat();
        let stats = stats(
            "finding_000000 : bbbbbbbb liveness serve 0/3\nfinding_000001 : bbbbbbbb liveness serve 3/3\n\
             finding_000002 : bbbbbbbb liveness serve 2/3\n",
        );
        let runs = BTreeMap::from([("000000", 11), ("000001", 19), ("000002", 23)]);
        let found = found(&stats, |number| Ok(runs[number])).unwrap();
        assert_eq!(found, BTreeMap::from([("bbbbbbbb", 19)]));
        let arm = Arm {
            label: "x".into(),
            strategy: "crashfuzz".into(),
            without: Vec::new(),
        };
        let row = row(&which(&arm), &lines, &stats, &found).unwrap();
        let tests: Vec<u64> = row.failing.iter().map(|f| f.tests).collect();
        assert_eq!(tests, [3, 4]);
    }

    #[test]
    fn state_novelty_is_there_where_it_is_told() {
        let base = text(&L {
            role: "fuzz",
            at: 5,
            slots: 1,
            tested: 1,
            void: "null",
            failures: "",
        });
        let told = base.replace("\"slots\"", "\"states\":4,\"slots\"");
        let of = |t: &str| row_of(t, "").unwrap().curve.last().unwrap().states;
        assert_eq!((of(&base), of(&told)), (None, Some(4)));
    }

    #[test]
    fn files_of_an_older_warren_are_refused() {
        let good = text(&L {
            role: "fuzz",
            at: 5,
            slots: 1,
            tested: 1,
            void: "null",
            failures: A,
        });
        for (text, part) in [
            (
                good.replace("\"sequences\":1", "\"x\":1"),
                "line 1: missing field `sequences`",
            ),
            (good.replace(" safety", ""), "`replicas healed aaaaaaaa`"),
        ] {
            let e = row_of(&text, "").unwrap_err();
            assert!(e.contains(part), "{e}");
        }
    }

    #[test]
    fn what_is_done() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(end_of(dir.path()), None);
        for (ended, want, done) in [
            ("no", None, false),
            ("runs", Some("runs"), true),
            ("cpu", Some("cpu"), true),
            ("exhausted", Some("exhausted"), true),
            ("stopped", Some("stopped"), false),
            ("time", Some("time"), false),
        ] {
            let text = format!(
                "start_time : 1\nlast_update : 9\nfuzzer_pid : 7\nexecs_done : 9\nended : {ended}\n"
            );
            std::fs::write(dir.path().join("fuzzer_stats"), text).unwrap();
            assert_eq!(end_of(dir.path()).as_deref(), want);
            assert_eq!(is_done(ended), done, "{ended}");
        }
    }
}
