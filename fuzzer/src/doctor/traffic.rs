//! `warren doctor TARGET`: whether the agent sees what the target's nodes say to each other. One cold run without faults; the kernel's count of each
//! node's bytes beside that of the agent's hooks.
//!
//! Native transports and sendfile go past the hooks: no fault can be placed there, and nobody would notice. A native transport's outgoing connections
//! are not bound to their node's address either, so they show at the other end: there more is carried than seen.

use super::check::Check;
use crate::cli::args::{RunArgs, SetupArgs};
use crate::cli::exit::CliError;
use crate::cli::session::{Session, failed, run_options};
use crate::cli::signals::Interrupt;
use warren_executor::RunOptions;
use warren_executor::target::Target;
use warren_model::{Carried, FaultSequence, NodeTraffic, RunProduct};

/// A node whose hooks see less of its bytes has network code of another kind.
const LEAST_PERCENT: u64 = 90;

/// With less payload than this there is nothing to judge.
const FEW_BYTES: u64 = 4 << 10;

/// Sets the target up and runs it.
///
/// # Errors
/// As for any verb; exit 1 where the kernel cannot count here, and for a run that tells nothing.
pub fn checks(target: Target, setup: &SetupArgs) -> Result<Vec<Check>, CliError> {
    let interrupt = Interrupt::install()?;
    let session = Session::open(target, setup)?;
    let target = session.prepared.target();
    let each = RunArgs {
        seed: 1,
        limit_ms: None,
    };
    let options = RunOptions {
        traffic: true,
        stop: interrupt.flag(),
        ..run_options(&each, target)
    };
    let sequence = FaultSequence::empty(&target.name);
    let runner = session.runner(1)?;
    runner.kernel_cuts().map_err(|why| {
        CliError::setup(format!(
            "the nodes' traffic cannot be counted: {why}\n  it takes the kernel's rules, as cuts do: see the lines above"
        ))
    })?;
    let product = runner.run(&sequence, &options).map_err(|e| failed(&e))?;
    if interrupt.asked() {
        return Err(CliError::ended("ended, as asked"));
    }
    if let Some(why) = &product.record.void {
        return Err(CliError::setup(format!("the run was inconclusive: {why}")));
    }
    Ok(of(&product))
}

/// What the run came to, then two lines a node.
fn of(product: &RunProduct) -> Vec<Check> {
    let record = &product.record;
    let wrong = (record.workload_error.clone())
        .or_else(|| record.not_stable.first().map(|n| n.text.clone()))
        .or_else(|| record.timed_out.then(|| "it did not end in time".into()));
    let run = match wrong {
        None => Check::ok(
            "run",
            format!("{:.1} s of test", record.times.test as f64 / 1000.0),
        ),
        Some(why) => Check::missing(
            "run",
            why,
            "try `warren replay` of a sequence without faults; the figures below are of what there was",
        ),
    };
    let node = |t: &NodeTraffic| {
        [
            check(&format!("{} sends", t.node), t.sent),
            check(&format!("{} receives", t.node), t.received),
        ]
    };
    let nodes = product.traffic.iter().flat_map(node);
    [run].into_iter().chain(nodes).collect()
}

fn check(name: &str, bytes: Carried) -> Check {
    let kib = bytes.carried.div_ceil(1024);
    if bytes.carried < FEW_BYTES {
        return Check::ok(name, format!("{kib} KiB: too little to judge"));
    }
    let percent = bytes.seen.saturating_mul(100) / bytes.carried;
    let found = format!("{kib} KiB, the agent sees {percent} %");
    if percent < LEAST_PERCENT {
        let follows = "no fault can be placed in the rest: switch native transports and sendfile off in target.toml (docs/tutorial-add-a-target.md)";
        Check::missing(name, found, follows)
    } else {
        Check::ok(name, found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn what_the_agent_does_not_see_is_told() {
        let of = |seen, carried| check("n sends", Carried { seen, carried });
        let table = [
            (0, 0, State::Ok, "0 KiB: too little to judge"),
            (0, 4_095, State::Ok, "4 KiB: too little to judge"),
            (0, 20_480, State::Missing, "20 KiB, the agent sees 0 %"),
            (
                91_135,
                102_400,
                State::Missing,
                "100 KiB, the agent sees 88 %",
            ),
            (92_160, 102_400, State::Ok, "100 KiB, the agent sees 90 %"),
            // The rest of a partial write is seen again.
            (112_640, 102_400, State::Ok, "100 KiB, the agent sees 110 %"),
        ];
        for (seen, carried, state, found) in table {
            let c = of(seen, carried);
            assert_eq!((c.state, c.found.as_str()), (state, found));
            assert_eq!(c.follows.is_empty(), state == State::Ok);
        }
    }

    #[test]
    fn a_run_that_went_wrong_is_said_before_its_figures() {
        let mut product = RunProduct::default();
        product.traffic.push(NodeTraffic {
            node: "a1".into(),
            sent: Carried::default(),
            received: Carried::default(),
        });
        let names = |p: &RunProduct| of(p).iter().map(|c| c.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&product), ["run", "a1 sends", "a1 receives"]);
        assert_eq!(of(&product)[0].state, State::Ok);
        product.record.timed_out = true;
        assert_eq!(of(&product)[0].found, "it did not end in time");
        product.record.workload_error = Some("no memory".into());
        assert_eq!(of(&product)[0].found, "no memory");
        assert_eq!(of(&product)[0].state, State::Missing);
    }
}
