//! Seeds on the made-up cluster: in which order they run, what is kept under which name, what becomes of those that do not match.

use super::*;
use crate::search::StrategyKind;
use crate::seeds::SeedFile;
use warren_model::{At, CrashStyle, Fault, Kind, Pattern, Phase, Who};

fn at(stack: &str, kind: Kind, n: u32) -> At {
    At::Pattern(Pattern {
        node: None,
        except: None,
        role: None,
        frames: Vec::new(),
        stack: Some(StackId::of_frames([stack, "main.run"])),
        kind: Some(kind),
        place: None,
        n,
        phase: Phase::Test,
    })
}

pub(super) fn crash(stack: &str, kind: Kind, n: u32) -> FaultSequence {
    let fault = Fault::Crash {
        who: Who::Executing,
        style: CrashStyle::Process,
    };
    FaultSequence::empty("sim").with(at(stack, kind, n), fault)
}

/// The planted bug: a follower dies at `log.force` and is back while its tail is truncated.
pub(super) fn failing() -> FaultSequence {
    let reboot = Fault::Reboot {
        who: Who::FirstDead,
    };
    crash("log.force", Kind::Force, 1).with(at("resync.truncate", Kind::Truncate, 1), reboot)
}

pub(super) fn seed(name: &str, sequence: FaultSequence) -> SeedFile {
    SeedFile {
        name: name.to_owned(),
        path: name.into(),
        sequence,
    }
}

fn with(seeds: Vec<SeedFile>, runs: u64, out: &Path) -> FuzzOptions {
    FuzzOptions {
        seeds,
        faults: "crash,reboot".parse().unwrap(),
        ..options(out, StrategyKind::CrashFuzz, 5, runs)
    }
}

/// The `why` of each sequence tested, in order.
fn whys(folder: &Path) -> Vec<String> {
    lines(folder)
        .iter()
        .filter(|l| l["role"] == "fuzz")
        .map(|l| l["why"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn seeds_run_first_in_their_order_and_are_kept_under_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = vec![
        seed("a.toml", crash("log.append", Kind::Write, 1)),
        seed("b.toml", crash("log.append", Kind::Write, 99)),
        seed("c.toml", failing()),
        // Nothing about it is new: it is the first once more.
        seed("d,d.toml", crash("log.append", Kind::Write, 1)),
    ];
    let o = with(seeds, 40, dir.path());
    let snapshot = o.snapshot.clone();
    let end = fuzz(Sim::new(3, 1), o, nothing());
    let f = &end.folder;
    let whys = whys(f);
    assert_eq!(
        whys[..4],
        ["seed a.toml", "seed b.toml", "seed c.toml", "seed d,d.toml"]
    );
    assert!(
        whys[4..].iter().filter(|w| w.starts_with("seed ")).count() == 1,
        "one more try of b.toml after 25 sequences: {whys:?}"
    );
    assert_eq!(whys[29], "seed b.toml, try 2");
    assert_eq!(end.sequences, 40, "seeds count as sequences");

    let queue = names(&f.join("queue"));
    let orig: Vec<&str> = queue.iter().filter_map(|q| q.orig.as_deref()).collect();
    assert_eq!(orig, ["fault-free", "a.toml", "d_d.toml"]);
    assert_eq!((queue[1].src, queue[2].src), (None, None));
    assert!(!queue[2].new_coverage, "kept all the same");
    // Children are drawn from them.
    let of_a = lines(f).iter().any(|l| l["seed_run"] == 1);
    assert!(of_a, "no child of a.toml in {whys:?}");

    // The failing one went the way of every failing run.
    let crashes = names(&f.join("crashes"));
    assert!(crashes.iter().any(|c| c.src.is_none()), "{crashes:?}");
    let evidence = std::fs::read_to_string(f.join("findings/000000/evidence.txt")).unwrap();
    assert!(evidence.contains("seed c.toml"), "{evidence}");
    assert!(evidence.contains("3 of 3 replays"), "{evidence}");

    for (key, want) in [
        ("seeds_given", "4"),
        ("seeds_kept", "2"),
        ("seeds_failing", "1"),
        ("seeds_unmatched", "1"),
    ] {
        assert_eq!(stat(f, key), want, "{key}");
    }
    let said = snapshot.drain_lines();
    let at = said
        .iter()
        .position(|l| l == "seeds: 4 given, 2 kept, 1 failing, 1 did not match")
        .unwrap_or_else(|| panic!("{said:?}"));
    assert!(
        said[at + 1].contains("b.toml: fault 1 of 1 did not match: bound: never reached"),
        "{said:?}"
    );
    assert!(
        said[at + 2].contains("nearest: 1.") && said[at + 4].contains("n (asked 99, came "),
        "{said:?}"
    );
}

#[test]
fn what_never_matches_is_tried_three_times_also_when_nothing_else_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = vec![seed("b.toml", crash("log.append", Kind::Write, 99))];
    let mut sim = Sim::new(3, 1);
    (sim.rounds, sim.max_faults, sim.bug) = (1, 1, false);
    let mut o = with(seeds, 100_000, dir.path());
    o.max_faults = 1;
    let end = fuzz(sim, o, nothing());
    assert_eq!(end.reason, EndReason::Exhausted);
    let tries: Vec<String> = whys(&end.folder)
        .into_iter()
        .filter(|w| w.starts_with("seed "))
        .collect();
    assert_eq!(
        tries,
        ["seed b.toml", "seed b.toml, try 2", "seed b.toml, try 3"]
    );
    assert_eq!(stat(&end.folder, "seeds_unmatched"), "1");
    // Tries after the first are no first tries.
    let full: u64 = stat(&end.folder, "one_fault_full").parse().unwrap();
    let asked: u64 = stat(&end.folder, "one_fault_asked").parse().unwrap();
    assert_eq!(asked - full, 1);
}

#[test]
fn limits_hold_among_seeds_too() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = vec![
        seed("a.toml", crash("log.append", Kind::Write, 1)),
        seed("b.toml", crash("log.append", Kind::Write, 2)),
    ];
    let end = fuzz(Sim::new(3, 1), with(seeds, 1, dir.path()), nothing());
    assert_eq!(end.reason, EndReason::SequenceLimit);
    assert_eq!(whys(&end.folder), ["seed a.toml"]);
    assert_eq!(stat(&end.folder, "seeds_given"), "2");

    let dir = tempfile::tempdir().unwrap();
    let seeds = vec![
        seed("a.toml", failing()),
        seed("b.toml", crash("log.append", Kind::Write, 2)),
    ];
    let mut o = with(seeds, 50, dir.path());
    o.exit_on_bug = true;
    let end = fuzz(Sim::new(3, 1), o, nothing());
    assert_eq!((end.reason, end.sequences), (EndReason::Bug, 1));
}

#[test]
fn a_strategy_without_a_queue_runs_them_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = with(
        vec![seed("a.toml", crash("log.append", Kind::Write, 1))],
        5,
        dir.path(),
    );
    o.strategy = StrategyKind::RandomPoints;
    let end = fuzz(Sim::new(3, 1), o, nothing());
    assert_eq!(whys(&end.folder)[0], "seed a.toml");
    assert_eq!(stat(&end.folder, "seeds_kept"), "1");
}

#[test]
fn key_n_is_a_try_and_the_next_seed_has_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = vec![
        seed("a.toml", crash("log.append", Kind::Write, 1)),
        seed("b.toml", crash("log.append", Kind::Write, 2)),
    ];
    let o = with(seeds, 30, dir.path());
    let snapshot = o.snapshot.clone();
    let mut skipped = false;
    let tweak: Tweak = Box::new(move |_, input, _, product| {
        if !input.faults.is_empty() && !skipped {
            skipped = true;
            snapshot.give_up_run();
            product.record.void = Some("stopped: given up by the user".into());
        }
    });
    let snapshot = o.snapshot.clone();
    let end = fuzz(Sim::new(3, 1), o, tweak);
    let said = snapshot.drain_lines().join("\n");
    assert!(
        said.contains("seeds: 2 given, 1 kept, 0 failing, 1 did not match"),
        "{said}"
    );
    assert!(
        said.contains("a.toml: its run was given up with key n"),
        "{said}"
    );
    let whys = whys(&end.folder);
    assert!(whys.contains(&"seed a.toml, try 2".into()), "{whys:?}");
    assert_eq!(stat(&end.folder, "seeds_kept"), "2");
    assert_eq!(stat(&end.folder, "seeds_unmatched"), "0");
}
