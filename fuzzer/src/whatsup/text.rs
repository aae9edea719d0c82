//! What whatsup prints. Pure.

use super::instance::{Instance, Life, Stats};
use crate::campaign::FindingLine;
use crate::text::one_line;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Sums over instances that can be read.
#[derive(Default)]
struct Sums {
    alive: u64,
    silent: u64,
    learning: u64,
    resuming: u64,
    ended: u64,
    dead: u64,
    not_begun: u64,
    unreadable: u64,
    run_time: u64,
    execs: u64,
    sequences: u64,
    per_hour: f64,
    pending: u64,
    favoured: u64,
    crashes: u64,
    hangs: u64,
    /// Signature, and the known bug that it is: two instances may have found the same one at the same time, and two bugs may have one signature.
    findings: BTreeSet<(String, Option<String>)>,
    last_find: u64,
    coverage: f64,
}

/// The whole text; with `summary` the sums only.
#[must_use]
pub fn text(all: &[Instance], summary: bool, now: u64) -> String {
    let mut out = String::new();
    let mut sums = Sums::default();
    if !summary {
        out.push_str("Individual instances\n====================\n\n");
    }
    for i in all {
        sums.add(i);
        if !summary {
            out.push_str(&individual(i, now));
            out.push('\n');
        }
    }
    out + &sums.text(now)
}

fn individual(i: &Instance, now: u64) -> String {
    let stats = match &i.stats {
        None => {
            let how = match i.life {
                Life::Learning(pid) => {
                    format!("alive, pid {pid}: it is learning, and has no figures yet")
                }
                _ => "no figures: it ended before the first sequence, or is on another machine"
                    .into(),
            };
            return format!(">>> {} <<<\n\n  {how}\n", i.name);
        }
        Some(Err(e)) => {
            return format!(">>> {} <<<\n\n  cannot be read: {}\n", i.name, one_line(e));
        }
        Some(Ok(s)) => s,
    };
    let pid = match i.life {
        Life::Resuming(pid) => pid,
        _ => stats.number("fuzzer_pid"),
    };
    let mut out = format!(
        ">>> {}{} ({}, {}) pid {pid} <<<\n\n",
        i.name,
        if i.main { " [main]" } else { "" },
        one_line(stats.text("afl_banner")),
        duration(stats.number("run_time")),
    );
    let mut row = |key: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {key:<16}: {}", one_line(&value));
    };
    row("state", state(&i.life, stats, now));
    if stats.number("others") > 0 {
        row(
            "others",
            format!(
                "{} heard, {} sequences tested there, {} runs taken over",
                stats.number("others"),
                stats.number("others_tested"),
                stats.number("corpus_imported")
            ),
        );
    }
    row("last find", ago(stats.number("last_find"), now));
    row("last crash", ago(stats.number("last_crash"), now));
    row("last hang", ago(stats.number("last_hang"), now));
    row("speed", format!("{:.0} runs an hour", per_hour(stats)));
    row(
        "runs",
        format!(
            "{} ({} sequences tested)",
            stats.number("execs_done"),
            stats.number("sequences_tested")
        ),
    );
    row(
        "queue",
        format!(
            "item {} of {}, pending {} new of {}",
            stats.number("cur_item"),
            stats.number("corpus_count"),
            stats.number("pending_favs"),
            stats.number("pending_total")
        ),
    );
    row(
        "coverage",
        format!(
            "{} slots ({}), {} above the fault-free runs; stability {}",
            stats.number("edges_found"),
            stats.text("bitmap_cvg"),
            stats
                .number("edges_found")
                .saturating_sub(stats.number("edges_fault_free")),
            stats.text("stability")
        ),
    );
    let findings = stats.findings();
    row(
        "findings",
        format!(
            "{}{}; saved crashes {}, hangs {}",
            findings.len(),
            of_them_known(
                findings
                    .iter()
                    .filter(|f| stats.known(f.0).is_some())
                    .count()
            ),
            stats.number("saved_crashes"),
            stats.number("saved_hangs")
        ),
    );
    for (number, what) in findings {
        row("", format!("{number} {}", stats.told(number, what)));
    }
    out
}

/// Whether it goes on, of one that has figures.
fn state(life: &Life, stats: &Stats, now: u64) -> String {
    let silent_for = duration(now.saturating_sub(stats.number("last_update")));
    match life {
        Life::Alive => "alive".into(),
        Life::Silent(s) => format!(
            "alive, but silent for {}: a long run, a stopped process or a full disk",
            duration(*s)
        ),
        Life::Resuming(pid) => {
            format!("resuming, pid {pid}: the figures are of the process before it")
        }
        Life::Dead => format!("dead or on another machine; last word {silent_for} ago"),
        Life::Ended => format!("ended ({}) {silent_for} ago", stats.text("ended")),
        // Both have no figures.
        Life::Learning(_) | Life::NotBegun => "not begun".into(),
    }
}

fn of_them_known(n: usize) -> String {
    match n {
        0 => String::new(),
        n => format!(", {n} of them known"),
    }
}

/// Fuzzed runs an hour: learning has no part in run_time.
fn per_hour(s: &Stats) -> f64 {
    #[allow(clippy::cast_precision_loss)] // counts of runs and seconds
    let (runs, seconds) = (
        s.number("execs_done")
            .saturating_sub(s.number("learning_runs")) as f64,
        s.number("run_time") as f64,
    );
    if seconds < 1.0 {
        0.0
    } else {
        runs * 3600.0 / seconds
    }
}

impl Sums {
    fn add(&mut self, i: &Instance) {
        if let Some(Err(_)) = i.stats {
            self.unreadable += 1;
            return;
        }
        match i.life {
            Life::Alive => self.alive += 1,
            Life::Silent(_) => self.silent += 1,
            Life::Learning(_) => self.learning += 1,
            Life::Resuming(_) => self.resuming += 1,
            Life::Ended => self.ended += 1,
            Life::Dead => self.dead += 1,
            Life::NotBegun => self.not_begun += 1,
        }
        let Some(Ok(s)) = &i.stats else { return };
        if matches!(i.life, Life::Alive | Life::Silent(_)) {
            self.per_hour += per_hour(s);
        }
        self.run_time += s.number("run_time");
        self.execs += s.number("execs_done");
        self.sequences += s.number("sequences_tested");
        self.pending += s.number("pending_total");
        self.favoured += s.number("pending_favs");
        self.crashes += s.number("saved_crashes");
        self.hangs += s.number("saved_hangs");
        for (number, what) in s.findings() {
            let signature = FindingLine::read(what).map_or(what, |f| f.signature);
            // The title behind it is for people.
            let id = |k: &str| k.split(" (").next().unwrap_or(k).to_owned();
            let known = s.known(number).map(id);
            self.findings.insert((signature.to_owned(), known));
        }
        self.last_find = self.last_find.max(s.number("last_find"));
        self.coverage = self.coverage.max(s.decimal("bitmap_cvg"));
    }

    fn text(&self, now: u64) -> String {
        let mut out = String::from("Summary\n=======\n\n");
        let mut row = |key: &str, value: String| {
            let _ = writeln!(out, "{key:>21} : {value}");
        };
        row(
            "Instances alive",
            (self.alive + self.silent + self.learning + self.resuming).to_string(),
        );
        for (key, n) in [
            ("of these silent", self.silent),
            ("of these learning", self.learning),
            ("of these resuming", self.resuming),
            ("Ended", self.ended),
            ("Dead or remote", self.dead),
            ("Without figures", self.not_begun),
            ("Unreadable", self.unreadable),
        ] {
            if n > 0 {
                row(key, n.to_string());
            }
        }
        row("Total run time", duration(self.run_time));
        row(
            "Total runs",
            format!("{} ({} sequences tested)", self.execs, self.sequences),
        );
        row(
            "Speed of the living",
            format!("{:.0} runs an hour", self.per_hour),
        );
        row(
            "Pending",
            format!("{} new, {} total", self.favoured, self.pending),
        );
        row("Highest coverage", format!("{:.2}%", self.coverage));
        row(
            "Findings",
            format!(
                "{}{} (crashes saved {}, hangs {})",
                self.findings.len(),
                of_them_known(self.findings.iter().filter(|f| f.1.is_some()).count()),
                self.crashes,
                self.hangs
            ),
        );
        row("Last find", ago(self.last_find, now));
        out
    }
}

fn ago(at: u64, now: u64) -> String {
    if at == 0 {
        "none seen yet".into()
    } else {
        format!("{} ago", duration(now.saturating_sub(at)))
    }
}

/// The two largest units.
fn duration(seconds: u64) -> String {
    let (d, h, m, s) = (
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    );
    if d > 0 {
        format!("{d} days, {h} hrs")
    } else if h > 0 {
        format!("{h} hrs, {m} min")
    } else if m > 0 {
        format!("{m} min, {s} sec")
    } else {
        format!("{s} sec")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(name: &str, life: Life, text: Option<&str>) -> Instance {
        Instance {
            name: name.into(),
            folder: name.into(),
            stats: text.map(Stats::parse),
            life,
            main: name == "a",
        }
    }

    #[test]
    fn sums_and_states() {
        let stats = "start_time : 900\nlast_update : 990\nfuzzer_pid : 7\nexecs_done : 25\nlearning_runs : 5\nrun_time : 72\n\
                     sequences_tested : 18\nlast_find : 980\nbitmap_cvg : 1.25%\nfinding_000000 : aa safety replicas 2/3\nfinding_000001 : bb liveness serve 0/0\nknown_000001 : SIM-1: te\u{1b}xt\nsaved_crashes : 2\n\
                     afl_banner : ca\u{7}nary\n";
        let all = [
            instance("a", Life::Alive, Some(stats)),
            instance("b", Life::Silent(90), Some(stats)),
            instance("c", Life::Dead, Some(stats)),
            instance("d", Life::NotBegun, None),
            instance("e", Life::Dead, Some("x")),
            instance("f", Life::Learning(8), None),
            instance("g", Life::Ended, Some(&format!("{stats}ended : runs\n"))),
            instance("h", Life::Resuming(9), Some(stats)),
        ];
        let long = text(&all, false, 1000);
        for part in [
            ">>> a [main] (ca nary, 1 min, 12 sec) pid 7 <<<",
            "state           : alive\n",
            "silent for 1 min, 30 sec",
            "dead or on another machine; last word 10 sec ago",
            ">>> d <<<\n\n  no figures: it ended before",
            ">>> f <<<\n\n  alive, pid 8: it is learning",
            "state           : ended (runs) 10 sec ago\n",
            ">>> h (ca nary, 1 min, 12 sec) pid 9 <<<",
            "state           : resuming, pid 9: the figures are of the process before it\n",
            "cannot be read: line 1",
            "speed           : 1000 runs an hour",
            "last find       : 20 sec ago",
            "last hang       : none seen yet",
            "findings        : 2, 1 of them known; saved",
            "000000 aa safety replicas 2/3\n",
            "000001 bb liveness serve 0/0, known: SIM-1: te xt\n",
        ] {
            assert!(long.contains(part), "no `{part}` in\n{long}");
        }
        assert!(!long.contains(|c: char| c.is_control() && c != '\n'));
        let short = text(&all, true, 1000);
        assert!(long.ends_with(&short) && short.starts_with("Summary\n"));
        for part in [
            "Instances alive : 4\n",
            "of these silent : 1\n",
            "of these learning : 1\n",
            "of these resuming : 1\n",
            "Ended : 1\n",
            "Dead or remote : 1\n",
            "Without figures : 1\n",
            "Unreadable : 1\n",
            "Total runs : 125 (90 sequences tested)\n",
            "Speed of the living : 2000 runs an hour\n",
            "Findings : 2, 1 of them known (crashes saved 10, hangs 0)\n",
        ] {
            assert!(short.contains(part), "no `{part}` in\n{short}");
        }
    }

    /// Most lost writes have one signature: a known bug hides no new one in the sum, and no other known one.
    #[test]
    fn bugs_of_one_signature_are_counted_apart() {
        let stats = |found: &str| {
            format!("start_time : 1\nlast_update : 1\nfuzzer_pid : 7\nexecs_done : 1\n{found}")
        };
        let new = "finding_000000 : aa safety acknowledged 2/3\n";
        let known = "finding_000001 : aa safety acknowledged 0/0\nknown_000001 : SIM-1\n";
        let other = "finding_000002 : aa safety acknowledged 0/0\nknown_000002 : SIM-2\n";
        // What two instances found, and what the sum of it is.
        let table = [
            (new.to_owned(), new.to_owned(), "1"),
            (known.to_owned(), known.to_owned(), "1, 1 of them known"),
            (new.to_owned(), known.to_owned(), "2, 1 of them known"),
            (known.to_owned(), other.to_owned(), "2, 2 of them known"),
            (
                [new, known, other].concat(),
                known.to_owned(),
                "3, 2 of them known",
            ),
        ];
        for (a, b, want) in table {
            let all = [("a", &a), ("b", &b)]
                .map(|(name, found)| instance(name, Life::Alive, Some(&stats(found))));
            let text = text(&all, true, 1);
            let row = format!("Findings : {want} (crashes");
            assert!(text.contains(&row), "{a}{b}no `{row}` in\n{text}");
        }
    }

    #[test]
    fn durations() {
        for (s, want) in [
            (0, "0 sec"),
            (61, "1 min, 1 sec"),
            (3_700, "1 hrs, 1 min"),
            (90_000, "1 days, 1 hrs"),
        ] {
            assert_eq!(duration(s), want);
        }
    }
}
