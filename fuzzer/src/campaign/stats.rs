//! `fuzzer_stats` and `plot_data`: AFL's keys in AFL's order with true figures (a key without a meaning here is 0), ours after
//! them. docs/campaign.md says what each means.

use super::{FindingLine, InjectedRates, LearntRoot, Spared, least_stable};
use crate::search::Warren;
use crate::search::warren::Tally;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use warren_model::FailureKind;

/// First line of plot_data.
pub const PLOT_HEADER: &str = "# relative_time, cycles_done, cur_item, corpus_count, pending_total, pending_favs, map_size, \
                               saved_crashes, saved_hangs, max_depth, execs_per_sec, total_execs, edges_found\n";

/// A finding as the stats list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFinding {
    pub number: u64,
    pub signature: String,
    pub checker: String,
    pub kind: FailureKind,
    /// It showed again in `k` of `n` replays.
    pub k: u32,
    pub n: u32,
    /// It was saved while its replays were cut short, and those that were left did not show it often enough: its signature stands no more. Not
    /// told by `k` and `n`, as replays that told nothing are in neither.
    pub fell: bool,
}

impl KeptFinding {
    fn line(&self) -> FindingLine<'_> {
        FindingLine {
            signature: &self.signature,
            kind: self.kind,
            checker: &self.checker,
            k: self.k,
            n: self.n,
        }
    }
}

/// Everything the two files tell. Times are unix seconds unless the name says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The first fuzzed run began.
    pub start_time: u64,
    pub last_update: u64,
    /// Seconds of fuzzing.
    pub run_time: u64,
    pub pid: u32,
    pub time_wo_finds: u64,
    /// All runs, learning included.
    pub execs_done: u64,
    pub execs_per_sec: f64,
    pub execs_last_minute: f64,
    pub corpus_count: u64,
    pub corpus_found: u64,
    /// Kept runs taken over from other instances.
    pub corpus_imported: u64,
    pub max_depth: u64,
    pub cur_item: u64,
    pub pending_new: u64,
    pub pending_total: u64,
    /// Percent, of the start state whose fault-free runs agree least.
    pub stability: f64,
    pub saved_crashes: u64,
    pub saved_hangs: u64,
    pub last_find: u64,
    pub last_crash: u64,
    pub last_hang: u64,
    pub execs_since_crash: u64,
    pub exec_timeout_ms: u64,
    pub slowest_exec_ms: u64,
    pub peak_rss_mb: u64,
    pub edges_found: u64,
    pub total_edges: u64,
    /// The start states, and what fault-free runs from each cover.
    pub starts: Vec<LearntRoot>,
    pub target: String,
    pub command_line: String,
    // Ours.
    pub strategy: String,
    pub faults: String,
    pub max_faults: usize,
    pub seed: u64,
    /// Slots: `-j`, or what `auto` came to.
    pub side_by_side: usize,
    pub sequences_tested: u64,
    pub learning_runs: u64,
    pub learning_s: u64,
    /// CPU seconds of fuzzing.
    pub cpu_s: u64,
    /// Why it ended; `no` as long as it goes on.
    pub ended: String,
    pub edges_fault_free: u64,
    /// Slots of the second map set by any run.
    pub states_found: u64,
    pub injected: InjectedRates,
    pub not_injected: Vec<(String, u64)>,
    pub with_reboot: u64,
    pub with_partition: u64,
    pub failing_runs: u64,
    pub unknowns: u64,
    pub voids: u64,
    pub timeouts: u64,
    pub spared: Spared,
    pub durable_runs: u64,
    pub seeds_given: u64,
    pub seeds_kept: u64,
    pub seeds_failing: u64,
    pub seeds_unmatched: u64,
    /// Other instances that were heard, and sequences they tested.
    pub others: u64,
    pub others_tested: u64,
    pub phase_means_ms: Vec<(String, u64)>,
    pub findings: Vec<KeptFinding>,
    /// Of these, the known bugs: their numbers, and what they are.
    pub known: BTreeMap<u64, String>,
    /// The parts of `warren` that are on.
    pub parts: String,
    /// What the instance drew of its options.
    pub swarm: String,
    /// What they have come to.
    pub warren: Option<Warren>,
}

/// A value on one line. afl-whatsup hands each line but command_line to the shell between double quotes: nothing in one may act there.
fn shell_safe(key: &str, value: &str) -> String {
    let acts = |c: char| key != "command_line" && "$`\"\\".contains(c);
    value
        .chars()
        .map(|c| match c {
            c if c.is_control() => ' ',
            c if acts(c) => '_',
            c => c,
        })
        .collect()
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

impl Figures {
    /// The text of `fuzzer_stats`.
    #[must_use]
    pub fn stats(&self) -> String {
        let mut text = String::new();
        let mut put = |key: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{key:<18}: {}", shell_safe(key, &value));
        };
        macro_rules! keys { ($($key:literal = $value:expr;)+) => { $(put($key, $value.to_string());)+ } }
        let cvg = percent(self.edges_found, self.total_edges);
        keys! {
            "start_time" = self.start_time;
            "last_update" = self.last_update;
            "run_time" = self.run_time;
            "fuzzer_pid" = self.pid;
            "cycles_done" = 0;
            "cycles_wo_finds" = 0;
            "time_wo_finds" = self.time_wo_finds;
            "execs_done" = self.execs_done;
            "execs_per_sec" = format!("{:.2}", self.execs_per_sec);
            "execs_ps_last_min" = format!("{:.2}", self.execs_last_minute);
            "corpus_count" = self.corpus_count;
            "corpus_favored" = 0;
            "corpus_found" = self.corpus_found;
            "corpus_imported" = self.corpus_imported;
            "corpus_variable" = 0;
            "max_depth" = self.max_depth;
            "cur_item" = self.cur_item;
            "pending_favs" = self.pending_new;
            "pending_total" = self.pending_total;
            "stability" = format!("{:.2}%", self.stability);
            "bitmap_cvg" = format!("{cvg:.2}%");
            "saved_crashes" = self.saved_crashes;
            "saved_hangs" = self.saved_hangs;
            "last_find" = self.last_find;
            "last_crash" = self.last_crash;
            "last_hang" = self.last_hang;
            "execs_since_crash" = self.execs_since_crash;
            "exec_timeout" = self.exec_timeout_ms;
            "slowest_exec_ms" = self.slowest_exec_ms;
            "peak_rss_mb" = self.peak_rss_mb;
            "edges_found" = self.edges_found;
            "total_edges" = self.total_edges;
            "var_byte_count" = least_stable(&self.starts).variable;
            "afl_banner" = self.target;
            "afl_version" = concat!("warren-", env!("CARGO_PKG_VERSION"));
            "target_mode" = "cluster";
            "command_line" = self.command_line;
            "target" = self.target;
            "strategy" = self.strategy;
            "parts" = self.parts;
            "swarm" = self.swarm;
            "faults" = self.faults;
            "max_faults" = self.max_faults;
            "seed" = self.seed;
            "side_by_side" = self.side_by_side;
            "sequences_tested" = self.sequences_tested;
            "learning_runs" = self.learning_runs;
            "learning_time" = self.learning_s;
            "cpu_time" = self.cpu_s;
            "ended" = self.ended;
            "edges_fault_free" = self.edges_fault_free;
            "states_found" = self.states_found;
        }
        let r = &self.injected;
        keys! {
            "one_fault_asked" = r.one_fault_asked;
            "one_fault_full" = r.one_fault_full;
            "one_fault_full_pct" = format!("{:.1}%", percent(r.one_fault_full, r.one_fault_asked));
            "longer_asked" = r.longer_asked;
            "longer_full" = r.longer_full;
            "longer_full_pct" = format!("{:.1}%", percent(r.longer_full, r.longer_asked));
            "full_with_drift" = r.drift;
            "full_with_late" = r.late;
            "uninjectable" = r.uninjectable;
            "with_reboot" = self.with_reboot;
            "with_partition" = self.with_partition;
            "failing_runs" = self.failing_runs;
            "unknown_runs" = self.unknowns;
            "void_runs" = self.voids;
            "timed_out_runs" = self.timeouts;
            "durable_runs" = self.durable_runs;
            "from_prefix" = self.spared.from_prefix;
            "prefix_spared_s" = self.spared.prefix_ms / 1000;
            "unparked_starts" = self.spared.unparked;
            "seeds_given" = self.seeds_given;
            "seeds_kept" = self.seeds_kept;
            "seeds_failing" = self.seeds_failing;
            "seeds_unmatched" = self.seeds_unmatched;
            "others" = self.others;
            "others_tested" = self.others_tested;
            "known_findings" = self.known.len();
        }
        for LearntRoot {
            start, baseline, ..
        } in &self.starts
        {
            let key = format!("slots_of_{start}").replace('-', "_");
            let (slots, vary) = (baseline.slots, baseline.variable);
            put(&key, format!("{slots} fault-free, {vary} vary"));
        }
        for (reason, runs) in &self.not_injected {
            // afl-whatsup reads the file as shell variables: no hyphen may stand in a key.
            let reason = reason.replace('-', "_");
            put(&format!("not_injected_{reason}"), runs.to_string());
        }
        for (phase, ms) in &self.phase_means_ms {
            put(&format!("mean_ms_{phase}"), ms.to_string());
        }
        for (key, value) in self.warren.iter().flat_map(warren_lines) {
            put(&key, value);
        }
        for f in &self.findings {
            put(&format!("finding_{:06}", f.number), f.line().to_string());
            if let Some(known) = self.known.get(&f.number) {
                put(&format!("known_{:06}", f.number), known.clone());
            }
        }
        text
    }

    /// One line of `plot_data`.
    #[must_use]
    pub fn plot_line(&self) -> String {
        format!(
            "{}, {}, {}, {}, {}, {}, {:.2}%, {}, {}, {}, {:.2}, {}, {}\n",
            self.run_time,
            0,
            self.cur_item,
            self.corpus_count,
            self.pending_total,
            self.pending_new,
            percent(self.edges_found, self.total_edges),
            self.saved_crashes,
            self.saved_hangs,
            self.max_depth,
            self.execs_per_sec,
            self.execs_done,
            self.edges_found,
        )
    }
}

/// What shapes and havoc came to: in all, then each by its name.
fn warren_lines(w: &Warren) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (kinds, kind, each) in [("shapes", "shape", &w.shapes), ("havoc", "havoc", &w.havoc)] {
        let sum = |of: fn(&Tally) -> u64| each.values().map(of).sum::<u64>().to_string();
        if each.is_empty() {
            continue;
        }
        lines.push((format!("{kinds}_tried"), sum(|t| t.tried)));
        lines.push((format!("{kinds}_full"), sum(|t| t.full)));
        lines.push((format!("{kinds}_found"), sum(|t| t.found)));
        for (name, t) in each {
            let plain = |c: char| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '_'
                }
            };
            let name: String = name.chars().map(plain).collect();
            lines.push((
                format!("{kind}_of_{name}"),
                format!("{} tried, {} full, {} found", t.tried, t.full, t.found),
            ));
        }
    }
    lines
}

/// Now, as AFL's files tell times: whole seconds since 1970.
#[must_use]
pub fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// Peak resident memory of this process, MiB; none where the system does not tell.
#[must_use]
pub fn peak_rss_mib() -> Option<f64> {
    vm_hwm_mib(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn vm_hwm_mib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u32 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(f64::from(kib) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Origin;
    use warren_feedback::coverage::Baseline;
    use warren_model::StartState;

    /// AFL++'s keys in its order.
    const AFL: &str = "start_time last_update run_time fuzzer_pid cycles_done cycles_wo_finds time_wo_finds execs_done execs_per_sec \
        execs_ps_last_min corpus_count corpus_favored corpus_found corpus_imported corpus_variable max_depth cur_item pending_favs \
        pending_total stability bitmap_cvg saved_crashes saved_hangs last_find last_crash last_hang execs_since_crash exec_timeout \
        slowest_exec_ms peak_rss_mb edges_found total_edges var_byte_count afl_banner afl_version target_mode command_line";

    fn figures() -> Figures {
        Figures {
            execs_done: 61,
            execs_per_sec: 0.2155,
            edges_found: 1638,
            total_edges: 65536,
            stability: 98.765,
            starts: [(StartState::Cold, 3), (StartState::Snapshot(1), 9)]
                .map(|(start, variable)| LearntRoot {
                    start,
                    run: 0,
                    baseline: Baseline {
                        slots: 300,
                        variable,
                    },
                })
                .into(),
            target: "canary".into(),
            spared: Spared {
                from_prefix: 4,
                prefix_ms: 9_900,
                unparked: 7,
            },
            injected: InjectedRates {
                one_fault_asked: 40,
                one_fault_full: 35,
                ..InjectedRates::default()
            },
            not_injected: vec![("silence".into(), 5)],
            findings: vec![KeptFinding {
                number: 0,
                signature: "1f2e3d4c".into(),
                checker: "replicas".into(),
                kind: FailureKind::Safety,
                k: 2,
                n: 3,
                fell: false,
            }],
            parts: "shapes,havoc".into(),
            warren: Some({
                let mut w = Warren::default();
                w.tested(&Origin::Shape("leader-chase".into()), true, false);
                w.tested(&Origin::Shape("x y".into()), false, true);
                w
            }),
            ..Figures::default()
        }
    }

    #[test]
    fn memory_is_the_peak() {
        assert_eq!(
            vm_hwm_mib("VmPeak:\t9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"),
            Some(2.0)
        );
        assert_eq!(vm_hwm_mib("VmRSS: 1 kB\n"), None);
        assert!(peak_rss_mib().is_some_and(|m| m > 1.0));
    }

    #[test]
    fn afls_keys_first_in_afls_order() {
        let text = figures().stats();
        let keys: Vec<&str> = text
            .lines()
            .map(|l| l.split_once(':').unwrap().0.trim())
            .collect();
        let afl: Vec<&str> = AFL.split_whitespace().collect();
        assert_eq!(keys[..afl.len()], afl);
        assert!(text.contains("execs_done        : 61\n"));
        assert!(text.contains("stability         : 98.77%\n") || text.contains("98.76%"));
        assert!(text.contains("bitmap_cvg        : 2.50%\n"));
        assert!(text.contains("var_byte_count    : 9\n"));
        assert!(text.contains("slots_of_snapshot_1: 300 fault-free, 9 vary\n"));
        assert!(text.contains("one_fault_full_pct: 87.5%\n"));
        assert!(
            text.contains("from_prefix       : 4\nprefix_spared_s   : 9\nunparked_starts   : 7\n")
        );
        assert!(text.contains("not_injected_silence: 5\n"));
        assert!(text.contains("shapes_tried      : 2\n") && !text.contains("havoc_tried"));
        assert!(text.contains("shape_of_leader_chase: 1 tried, 1 full, 0 found\n"));
        assert!(text.contains("finding_000000    : 1f2e3d4c safety replicas 2/3\n"));
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), keys.len(), "a key stands twice");
    }

    /// What AFL++ 4.04c's afl-whatsup (Debian 12) reads: it turns every line but command_line into `key="value"` and sources that.
    #[test]
    fn afl_whatsup_can_source_it() {
        let mut f = figures();
        f.target = "a$(id)`id`\"\\b".into();
        f.command_line = "warren fuzz 'a\nb'".into();
        f.not_injected = vec![("longer_node-dead".into(), 2)];
        let text = f.stats();
        for line in text.lines() {
            let (key, value) = line.split_once(':').unwrap();
            let key = key.trim_end();
            let first = key.chars().next().unwrap();
            let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(
                first.is_ascii_lowercase() && key.chars().all(rest),
                "{key} is no shell name"
            );
            assert!(value.starts_with(' '), "{line}");
            if key != "command_line" {
                assert!(!value.contains(['$', '`', '"', '\\']), "{line}");
            }
        }
        assert!(
            text.contains("not_injected_longer_node_dead: 2\n"),
            "{text}"
        );
        assert!(text.contains("command_line      : warren fuzz 'a b'\n"));
        // It divides by these.
        for key in ["execs_done", "corpus_count"] {
            assert!(text.lines().any(|l| l.starts_with(key)), "{key}");
        }
    }

    /// What AFL++ 4.04c's afl-plot draws by the number of the column (from 1), and the banner it cuts out of fuzzer_stats.
    #[test]
    fn afl_plot_finds_its_columns() {
        let header = PLOT_HEADER.strip_prefix("# ").unwrap().trim_end();
        let names: Vec<&str> = header.split(", ").collect();
        for (column, name) in [
            (1, "relative_time"),
            (2, "cycles_done"),
            (3, "cur_item"),
            (4, "corpus_count"),
            (5, "pending_total"),
            (6, "pending_favs"),
            (8, "saved_crashes"),
            (9, "saved_hangs"),
            (10, "max_depth"),
            (11, "execs_per_sec"),
            (13, "edges_found"),
        ] {
            assert_eq!(names[column - 1], name);
        }
        assert_eq!(PLOT_HEADER.lines().count(), 1);
        assert!(figures().stats().contains("\nafl_banner        : canary\n"));
        let line = figures().plot_line();
        for cell in line.trim_end().split(", ") {
            let number = cell.trim_end_matches('%');
            assert!(number.parse::<f64>().is_ok(), "`{cell}` in {line}");
        }
    }

    #[test]
    fn a_plot_line_has_the_headers_columns() {
        let columns = PLOT_HEADER.split(',').count();
        assert_eq!(figures().plot_line().split(',').count(), columns);
    }
}
