//! One run of a target, for those who work on the executor: `run_once TARGET [SEQUENCE.toml] [key=value ...]`.
//!
//! Keys: n (times), level, seed, limit (s), durable, agent, plain_ops, dump, trace (1 = print test events), snapshot (its number; CRIU
//! from PATH or the cache).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warren_executor::prepare::{PrepareOptions, Prepared};
use warren_executor::run::{RunOptions, Runner, RunnerConfig, learn_background};
use warren_executor::setup::criu;
use warren_executor::slot::{
    Level, SLOT_INIT, SLOT_LAUNCHER, best_level, slot_init_main, slot_launcher_main,
};
use warren_executor::target::{find_target, load_target};
use warren_model::{FaultSequence, Phase, RunProduct, StartState};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == SLOT_INIT) {
        return ExitCode::from(u8::try_from(slot_init_main(&args[1..])).unwrap_or(1));
    }
    if args.first().is_some_and(|a| a == SLOT_LAUNCHER) {
        return ExitCode::from(u8::try_from(slot_launcher_main()).unwrap_or(1));
    }
    match work(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("run_once: {e}");
            ExitCode::FAILURE
        }
    }
}

fn work(args: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let name = args
        .first()
        .ok_or("usage: run_once TARGET [SEQUENCE] [key=value ...]")?;
    let value = |key: &str| {
        args.iter()
            .find_map(|a| a.strip_prefix(&format!("{key}=")).map(str::to_owned))
    };
    let number =
        |key: &str, default: u64| value(key).and_then(|v| v.parse().ok()).unwrap_or(default);
    let exe = std::env::current_exe()?;
    let began = Instant::now();
    let target = load_target(
        &find_target(name, None)?,
        value("version").as_deref(),
        false,
        &[],
    )?;
    let prepared = Prepared::new(target, &PrepareOptions::default())?;
    for note in prepared.notes() {
        println!("note: {note}");
    }
    println!("prepared in {:?}, key {}", began.elapsed(), prepared.key());
    let level = match value("level") {
        Some(n) => Level::from_number(n.parse()?).ok_or("level 1, 2 or 3")?,
        None => best_level(&exe)?,
    };
    let mut runner = Runner::new(prepared, RunnerConfig::new(&exe, level))?;
    if number("background", 1) == 1 && number("agent", 1) == 1 {
        let began = Instant::now();
        let stacks = learn_background(&runner, &RunOptions::default())?;
        println!(
            "{} background stacks in {:?}",
            stacks.len(),
            began.elapsed()
        );
        runner.config_mut().background = stacks;
    }
    let mut sequence = match args.get(1).filter(|a| !a.contains('=')) {
        Some(file) => FaultSequence::from_text(&std::fs::read_to_string(file)?)?,
        None => FaultSequence::empty(&runner.prepared().target().name),
    };
    if let Some(k) = value("snapshot") {
        let found = criu::find(runner.prepared().cache())?;
        runner.config_mut().criu = Some(found.ok_or("no CRIU on PATH or in the cache")?);
        sequence.start = StartState::Snapshot(k.parse()?);
    }
    let options = RunOptions {
        seed: number("seed", 1),
        limit: Duration::from_secs(number("limit", 60)),
        durable: number("durable", 0) == 1,
        agent: number("agent", 1) == 1,
        plain_ops: value("plain_ops").and_then(|v| v.parse().ok()),
        dump_classes: value("dump").map(PathBuf::from),
        progress: (number("progress", 0) == 1).then(|| -> warren_executor::ProgressFn {
            Arc::new(|p| {
                println!(
                    "  {:?} {} {:?} {}/{}",
                    p.elapsed, p.phase, p.awaited, p.injected, p.asked
                )
            })
        }),
        ..RunOptions::default()
    };
    for _ in 0..number("n", 1) {
        let before = own_cpu();
        let product = runner.run(&sequence, &options)?;
        println!("our own CPU {} ms", own_cpu() - before);
        report(&product, number("trace", 0) == 1);
        if let Some(file) = value("save") {
            let matched = product.record.matched.as_ref().map(FaultSequence::to_text);
            std::fs::write(Path::new(&file), matched.unwrap_or_default())?;
        }
        if let Some(folder) = value("keep") {
            keep(Path::new(&folder), &product)?;
        }
    }
    Ok(())
}

/// CPU time of this process, ms.
fn own_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, r)| r);
    rest.split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|f| f.parse::<u64>().ok())
        .sum::<u64>()
        * 10
}

fn report(p: &RunProduct, trace: bool) {
    let r = &p.record;
    println!("times {:?} cpu {} ms", r.times, r.cpu_ms);
    let set = p.coverage.iter().filter(|b| **b != 0).count();
    let test: Vec<_> = p
        .trace
        .events
        .iter()
        .filter(|e| e.phase == Phase::Test)
        .collect();
    let stacks: std::collections::BTreeSet<_> = test.iter().map(|e| e.stack).collect();
    println!(
        "coverage {set}/{} events {} (test {}, {} stacks) dropped {} history {} observations {} classes {}",
        p.coverage.len(),
        p.trace.events.len(),
        test.len(),
        stacks.len(),
        p.trace.dropped,
        p.history.len(),
        p.observations.len(),
        r.classes,
    );
    if let Some(m) = &r.matched {
        println!("roles {:?} renamed {:?}", m.roles, r.renamed);
    }
    for i in &r.injected {
        println!(
            "injected {} {:?} {:?} held {} ms late {} drift {:?} kill {:?}",
            i.index + 1,
            i.matched.fault,
            i.matched.at,
            i.t_done.saturating_sub(i.t_reached) / 1_000_000,
            i.late,
            i.drift,
            i.kill
        );
    }
    println!(
        "not injected {:?}\nexits {:?}\nstalls {:?} degraded {} durable {} not stable {:?} workload {:?} timed out {} void {:?} cut heal {:?}",
        r.not_injected,
        r.exits,
        r.stalls_ms,
        r.degraded_asked,
        r.durable_asked,
        r.not_stable,
        r.workload_error,
        r.timed_out,
        r.void,
        r.cut_heal_ms
    );
    for w in &r.warnings {
        println!("warning {w}");
    }
    for b in &p.broken_lines {
        println!("broken {b}");
    }
    for o in &p.observations {
        let line = serde_json::to_string(o).unwrap_or_default();
        if line.contains("\"ok\":false")
            || line.contains("incomplete")
            || line.contains("mismatch")
            || line.contains("leftover")
            || line.contains("round")
        {
            println!("observed {line}");
        }
    }
    if trace {
        let t0 = test.first().map_or(0, |e| e.t_ns);
        for e in &test {
            println!(
                "{:>8} us {} {} {} n={} i={:x} {} f={:x} {} {:?} {:?} {}",
                (e.t_ns - t0) / 1000,
                p.trace.nodes[usize::from(e.node)],
                e.kind,
                e.place,
                e.n,
                e.interval.0,
                p.trace.label(e.stack),
                e.flags.0,
                e.stack,
                p.trace.text(e.peer),
                p.trace.text(e.detail),
                p.trace.role(e).unwrap_or("-"),
            );
        }
    }
}

fn keep(folder: &Path, p: &RunProduct) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, bytes) in &p.collected {
        std::fs::write(folder.join(name.replace('/', "-")), bytes)?;
    }
    for (node, log) in &p.logs {
        std::fs::write(folder.join(format!("{node}.log")), log)?;
    }
    let lines: Vec<String> = p
        .history
        .iter()
        .filter_map(|h| serde_json::to_string(h).ok())
        .collect();
    std::fs::write(folder.join("history.jsonl"), lines.join("\n"))?;
    let lines: Vec<String> = p
        .observations
        .iter()
        .filter_map(|h| serde_json::to_string(h).ok())
        .collect();
    std::fs::write(folder.join("observations.jsonl"), lines.join("\n"))
}
