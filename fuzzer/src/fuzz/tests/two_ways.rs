//! A run that fails service in two ways: each is replayed for itself, and neither falls or stands with the other.

use super::resume::{become_the_same, cut_everywhere, resumed, small};
use super::*;
use crate::campaign::finding::Sheet;
use crate::search::StrategyKind;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use warren_model::{Instability::Outage, NotInjected};

/// The third fuzzed run, before its replays.
const FAILING: u64 = 8;

/// `s`: a node does not serve; `d`: nor with the dead left dead; `D`: so it is under a stall; `p`: a client makes no progress; `h`: the cluster
/// is not stable after healing, `u`: nor after all nodes were started once more; `r`: they were; `l`: a fault did not happen; `v`: the run itself went wrong.
fn shown(product: &mut warren_model::RunProduct, ways: &str) {
    for way in ways.chars() {
        match way {
            'd' | 'D' => {
                product.record.degraded_asked = true;
                product.observations.push(Observation::Serve {
                    phase: Phase::Degraded,
                    node: product.trace.nodes[0].clone(),
                    ok: false,
                    ms: 9000,
                    error: Some("refused".into()),
                });
                let stall = if way == 'D' { 60_000 } else { 0 };
                product.record.stalls_ms.insert(Phase::Degraded, stall);
            }
            'h' | 'u' => {
                let what = if way == 'h' { "heal" } else { "durability" };
                product.record.was_not_stable(what, Outage, "no leader");
            }
            'r' => product.record.durable_asked = true,
            'l' => {
                product.record.not_injected = Some(NotInjected {
                    index: 0,
                    reason: "bound".into(),
                    detail: "it did not come".into(),
                    nearest: 0,
                });
            }
            's' => {
                let refused = refuses(&product.trace.nodes[0]);
                product.observations.push(refused);
            }
            'p' => product.observations.push(stuck()),
            'v' => product.record.void = Some("tmpfs full".into()),
            _ => {}
        }
    }
}

fn stuck() -> Observation {
    Observation::Progress {
        phase: Phase::Heal,
        client: "c1".into(),
        ok: false,
        ms: 9000,
        error: Some("refused".into()),
    }
}

/// The failing run fails in both ways, what follows as `replays` says, from run `first` on.
fn script(first: u64, replays: &'static [&'static str]) -> Tweak {
    fails("sp", first, replays)
}

/// As [`script`], with a failing run that fails so.
fn fails(so: &'static str, first: u64, replays: &'static [&'static str]) -> Tweak {
    Box::new(move |run, _, _, product| {
        if run == FAILING && first > FAILING {
            shown(product, so);
        } else if let Some(ways) = run
            .checked_sub(first)
            .and_then(|at| replays.get(at as usize))
        {
            shown(product, ways);
        }
    })
}

fn quiet() -> Sim {
    Sim {
        bug: false,
        ..Sim::new(3, 1)
    }
}

/// (checker, k, n) of the findings, or of the stories in unconfirmed/.
fn told(folder: &Path) -> BTreeSet<(String, u32, u32)> {
    let stories = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sheets = stories.map(|e| Sheet::read(&e.path().join("finding.json")).unwrap());
    let of = |s: Sheet| {
        let mut failures = s.judgement.failures.into_iter();
        let own = failures.find(|f| f.signature == s.found.signature).unwrap();
        (own.checker, s.found.k, s.found.n)
    };
    sheets.map(of).collect()
}

/// What the replays show -> how many were made, what stands, and what does not.
type Case = (
    &'static [&'static str],
    usize,
    &'static [(&'static str, u32, u32)],
    &'static [(&'static str, u32, u32)],
);

#[test]
fn each_of_two_failures_stands_or_falls_by_its_own_replays() {
    let table: [Case; 9] = [
        (
            &["p", "p", "p"],
            3,
            &[("progress", 3, 3)],
            &[("serve", 0, 3)],
        ),
        (&["s", "s", "s"], 3, &[("serve", 3, 3)], &[]),
        (
            &["sp", "p", "s"],
            3,
            &[("serve", 2, 3), ("progress", 2, 3)],
            &[],
        ),
        // Neither can reach two of three any more.
        (&["", ""], 2, &[], &[("serve", 0, 2)]),
        // Only one of them could.
        (&["p", "", ""], 3, &[], &[("serve", 0, 3)]),
        (
            &["", "p", "p"],
            3,
            &[("progress", 2, 3)],
            &[("serve", 0, 3)],
        ),
        (
            &["v", "p", "p", "s"],
            4,
            &[("progress", 2, 3)],
            &[("serve", 1, 3)],
        ),
        // What tells nothing is in no rate, and is made again three times in all.
        (
            &["v", "v", "v", "v", "p", "p"],
            6,
            &[("progress", 2, 2)],
            &[("serve", 0, 2)],
        ),
        (&["v", "v", "v", "v", "v"], 5, &[], &[("serve", 0, 0)]),
    ];
    for (replays, made, stands, falls) in table {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 8);
        let end = fuzz(quiet(), o, script(FAILING + 1, replays));
        let confirms = lines(&end.folder)
            .iter()
            .filter(|l| l["role"] == "confirm")
            .count();
        assert_eq!(confirms, made, "{replays:?}");
        let set = |list: &[(&str, u32, u32)]| -> BTreeSet<(String, u32, u32)> {
            let own = |(c, k, n): &(&str, u32, u32)| ((*c).to_owned(), *k, *n);
            list.iter().map(own).collect()
        };
        let f = &end.folder;
        assert_eq!(told(&f.join("findings")), set(stands), "{replays:?}");
        assert_eq!(told(&f.join("unconfirmed")), set(falls), "{replays:?}");
        assert_eq!(names(&f.join("crashes")).len(), stands.len(), "{replays:?}");
        // A run is failing or unknown, never both.
        let failing = u64::from(!stands.is_empty());
        assert_eq!(stat(f, "failing_runs"), failing.to_string());
        assert_eq!(stat(f, "unknown_runs"), (1 - failing).to_string());
    }
}

/// What a replay tells nothing of is not counted against it, whatever else the replay shows.
#[test]
fn a_replay_may_tell_of_one_failure_and_nothing_of_the_other() {
    type Case = (&'static str, &'static [&'static str], usize, Rates, Rates);
    type Rates = &'static [(&'static str, u32, u32)];
    let table: [Case; 6] = [
        // What did not heal is there still after the restart that its replays make.
        (
            "hr",
            &["hur", "hur", "ur"],
            3,
            &[("stable", 2, 3)],
            &[("stable", 0, 0)],
        ),
        // Less happened than in the run, and a client made no progress all the same.
        (
            "sp",
            &["lp", "p", "p"],
            3,
            &[("progress", 3, 3)],
            &[("serve", 0, 2)],
        ),
        // The fourth is made for service alone.
        (
            "sp",
            &["lp", "p", "s", "sp"],
            4,
            &[("serve", 2, 3), ("progress", 2, 3)],
            &[],
        ),
        // None is made for what cannot stand any more.
        (
            "sp",
            &["p", "lp", ""],
            3,
            &[("progress", 2, 3)],
            &[("serve", 0, 2)],
        ),
        // The machine stood still while service was asked for.
        (
            "dp",
            &["Dp", "p", "d", "d"],
            4,
            &[("serve", 2, 3), ("progress", 2, 3)],
            &[],
        ),
        // So it did, and a client made progress: that is an answer.
        ("dp", &["D", "p", "d", "d"], 4, &[("serve", 2, 3)], &[]),
    ];
    for (so, replays, made, stands, falls) in table {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 8);
        let end = fuzz(quiet(), o, fails(so, FAILING + 1, replays));
        let confirms = lines(&end.folder);
        let confirms = confirms.iter().filter(|l| l["role"] == "confirm");
        assert_eq!(confirms.count(), made, "{replays:?}");
        let set = |list: Rates| -> BTreeSet<(String, u32, u32)> {
            let own = |(c, k, n): &(&str, u32, u32)| ((*c).to_owned(), *k, *n);
            list.iter().map(own).collect()
        };
        let f = &end.folder;
        assert_eq!(told(&f.join("findings")), set(stands), "{replays:?}");
        assert_eq!(told(&f.join("unconfirmed")), set(falls), "{replays:?}");
    }
}

/// All nodes are started once more in the replays of a run where any of its failures may need that.
#[test]
fn the_restart_is_made_for_each_failure_that_may_need_it() {
    for (so, restart) in [("dr", false), ("pr", true), ("dpr", true), ("dp", false)] {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 4);
        let made = Rc::new(RefCell::new(Vec::new()));
        let (list, mut script) = (made.clone(), fails(so, FAILING + 1, &["dp", "dp", "dp"]));
        let tweak: Tweak = Box::new(move |run, input, options, product| {
            script(run, input, options, product);
            if (FAILING + 1..=FAILING + 3).contains(&run) {
                list.borrow_mut().push(options.durable);
            }
        });
        fuzz(quiet(), o, tweak);
        assert_eq!(*made.borrow(), [restart; 3], "{so}");
    }
}

/// One of them stands already when a run shows both.
#[test]
fn a_failure_that_stands_keeps_no_other_from_its_replays() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 5);
    let tweak: Tweak = Box::new(|run, _, _, product| {
        shown(
            product,
            match run.checked_sub(FAILING) {
                Some(0..=3) => "s",
                Some(4..=8) => "sp",
                _ => "",
            },
        );
    });
    let end = fuzz(quiet(), o, tweak);
    let want = ["serve", "progress"].map(|c| (c.to_owned(), 3, 3));
    assert_eq!(told(&end.folder.join("findings")), want.into());
    // The run after these shows nothing new: its sequence is kept, as one more of the first.
    assert_eq!(names(&end.folder.join("crashes")).len(), 3);
    let replays = lines(&end.folder);
    let replays = replays.iter().filter(|l| l["role"] == "confirm");
    assert_eq!(replays.count(), 6);
}

/// Ctrl-C in a replay: what may stand still is kept, and each has its count when the campaign goes on.
#[test]
fn ctrl_c_leaves_each_with_its_own_count() {
    for (before, after, stands) in [
        (
            &["p"][..],
            &["p", "p"][..],
            [("serve", 0, 3), ("progress", 3, 3)],
        ),
        (&["s", "p"], &["p"], [("serve", 1, 3), ("progress", 2, 3)]),
        (&["sp"], &["", "s"], [("serve", 2, 3), ("progress", 1, 3)]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path(), StrategyKind::CrashFuzz, 9, 30);
        let stop = o.stop.clone();
        let mut first = script(FAILING + 1, before);
        let last = FAILING + 1 + before.len() as u64;
        let tweak: Tweak = Box::new(move |run, input, options, product| {
            first(run, input, options, product);
            if run == last {
                stop.store(true, Ordering::Relaxed);
            }
        });
        let end = fuzz(quiet(), o, tweak);
        assert_eq!((end.reason, end.findings), (EndReason::Stopped, 2));
        let o = FuzzOptions {
            resume: true,
            ..options(dir.path(), StrategyKind::CrashFuzz, 9, 8)
        };
        let end = fuzz(quiet(), o, script(1, after));
        let want = stands.map(|(c, k, n)| (c.to_owned(), k, n));
        let got = told(&end.folder.join("findings"));
        assert_eq!(got, want.into_iter().collect(), "{before:?} {after:?}");
        assert_eq!(names(&end.folder.join("crashes")).len(), 2);
    }
}

#[test]
fn each_that_stands_is_minimised() {
    let dir = tempfile::tempdir().unwrap();
    let o = FuzzOptions {
        minimize: true,
        ..options(dir.path(), StrategyKind::CrashFuzz, 9, 3)
    };
    let always: Tweak = Box::new(|run, input, _, product| {
        if run >= FAILING && !input.faults.is_empty() {
            shown(product, "sp");
        }
    });
    let end = fuzz(quiet(), o, always);
    assert_eq!(end.findings, 2);
    for number in ["000000", "000001"] {
        let result = end.folder.join("findings").join(number);
        assert!(result.join("minimised.toml").is_file(), "{number}");
    }
}

/// Both stand, or fall, whenever it is killed: none is told twice, and no number is given to another.
#[test]
fn killed_at_any_point_each_stands_once() {
    let mood: fn() -> Tweak = || {
        Box::new(|_, input, _, product| {
            if !input.faults.is_empty() {
                shown(product, "sp");
            }
        })
    };
    let (dir, cuts) = cut_everywhere(mood, |out| small(out, StrategyKind::CrashFuzz, 3));
    let stood = cuts.iter().filter(|(what, _)| what.ends_with("finding"));
    assert_eq!(stood.count(), 2);
    become_the_same(dir.path(), cuts, mood, |out| {
        resumed(out, StrategyKind::CrashFuzz, 3)
    });
}
