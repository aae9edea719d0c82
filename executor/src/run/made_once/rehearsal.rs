//! A cluster booted for what is made once, and what is rehearsed on it: nodes are killed and started again, as most runs do.
//!
//! Called by the learning of background stacks and by the making of class archives. It keeps nothing of what the JVMs left behind:
//! who had it rehearsed takes that.

use crate::run::drive::Drive;
use crate::run::made_once::background::IDLE;
use crate::run::made_once::hot::COMPILED_LOG;
use crate::run::nodes::commands::CLASS_LIST;
use crate::run::options::{NodeStatus, RunError, RunOptions};
use crate::run::phases::boot::Boot;
use crate::run::phases::flow::{Flow, Went};
use crate::run::{Runner, Start};
use crate::slot::Slot;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_model::{FaultSequence, RunProduct, RunRecord};

/// How long the others are without a node that was killed: an election and some service.
const AWAY: Duration = Duration::from_secs(2);

/// A cold, fault-free cluster that serves, with its clients connected, for as long as `work` takes.
pub(super) fn booted<T>(
    runner: &Runner,
    asked: &RunOptions,
    start: Start<'_>,
    work: impl FnOnce(&Slot, &mut Drive<'_, '_>, &RunOptions) -> Result<T, RunError>,
) -> Result<T, RunError> {
    let began = Instant::now();
    let sequence = FaultSequence::empty(&runner.prepared().target().name);
    // The nodes' own patience to come up, as much again for the clients to connect, the idle time, and nodes that are started again: a
    // workload that hangs is told by then.
    let patience = runner.prepared().target().ready.timeout;
    let rehearsal = match start {
        Start::ListClasses => 2 * patience,
        _ => Duration::ZERO,
    };
    let options = RunOptions {
        limit: 2 * patience + 2 * IDLE + Duration::from_secs(5) + rehearsal,
        // What traffic loads and compiles belongs into the lists. Who watches for idle stacks wants none before.
        for_snapshot: matches!(start, Start::ListClasses),
        stop: asked.stop.clone(),
        progress: asked.progress.clone(),
        ..RunOptions::default()
    };
    let slot = runner.open_slot()?;
    let mut product = RunProduct::default();
    let done = runner.with_drive(&slot, &sequence, &options, start, began, |drive| {
        let went = Flow::new(drive, &mut product).boot(&sequence, Boot::EACH)?;
        if let Some(why) = why_not(went, &mut product.record) {
            let what = "learning background stacks".to_owned();
            let lives = drive.exits.is_empty() && drive.workload_gone.is_none();
            return Err(match lives {
                true => RunError::Late { what, why },
                false => RunError::Io { what, why },
            });
        }
        work(&slot, drive, &options)
    });
    slot.close().map_err(|e| RunError::Slot(e.to_string()))?;
    done
}

/// Where the list of a JVM that was killed in a rehearsal is kept: the next one in its folder writes its own.
pub(super) fn kept(dir: &Path, file: &str) -> PathBuf {
    dir.join(file).with_extension("1")
}

/// What runs do most: of each group that may lose a node, the one that leads is killed and started again, then another one. The nodes
/// that were, as far as the cluster came back in time; what its JVMs loaded and compiled until then is as good.
pub(super) fn rehearse(drive: &mut Drive<'_, '_>) -> Result<Vec<usize>, RunError> {
    let mut ended = Vec::new();
    for (g, group) in drive.cluster.prepared.target().groups.iter().enumerate() {
        if group.max_dead == 0 {
            continue;
        }
        for turn in 0..2 {
            Flow::new(drive, &mut RunProduct::default()).ask_roles()?;
            let lead = drive.cluster.questions.lead.as_str();
            let leads = |i: &usize| drive.cluster.nodes[*i].role.as_deref() == Some(lead);
            let members: Vec<usize> = (0..drive.cluster.nodes.len())
                .filter(|i| drive.cluster.nodes[*i].spec.group == g && !ended.contains(i))
                .collect();
            let leader = members.iter().copied().find(leads).filter(|_| turn == 0);
            let Some(i) = leader.or(members.first().copied()) else {
                break;
            };
            if drive.over() || drive.cluster.options.to_end() {
                return Ok(ended);
            }
            drive.cluster.kill_node(i);
            if let Some(process) = &drive.cluster.nodes[i].process
                && !matches!(
                    drive.cluster.slot.wait_exit(process, Instant::now() + IDLE),
                    Ok(Some(_))
                )
            {
                return Ok(ended);
            }
            for file in [CLASS_LIST, COMPILED_LOG] {
                let dir = &drive.cluster.nodes[i].dir;
                let _ = std::fs::rename(dir.join(file), kept(dir, file));
            }
            ended.push(i);
            let settled = drive.now() + u64::try_from(AWAY.as_nanos()).unwrap_or(0);
            drive.until(settled, |_| false)?;
            drive.cluster.spawn_nodes(&[i])?;
            let until = drive.patience_ends().min(drive.deadline);
            let serves = |d: &Drive<'_, '_>| d.cluster.nodes[i].status == NodeStatus::Serving;
            // One that ended again will not, and the group can lose no other.
            if !drive.until(until, |d| serves(d) || !d.cluster.nodes[i].alive())? || !serves(drive)
            {
                return Ok(ended);
            }
        }
    }
    Ok(ended)
}

/// Why a booted cluster is no use, the cause before what followed from it. None = it is.
pub(in crate::run) fn why_not(went: Went, record: &mut RunRecord) -> Option<String> {
    let said = record
        .workload_error
        .take()
        .or_else(|| record.not_stable.pop().map(|n| n.text));
    said.or_else(|| {
        (went == Went::Ends).then(|| {
            record
                .warnings
                .pop()
                .unwrap_or_else(|| "the cluster did not start".into())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::NotStable;

    #[test]
    fn the_cause_is_shown_before_what_followed() {
        type Case<'a> = (
            Went,
            Option<&'a str>,
            Option<&'a str>,
            &'a [&'a str],
            Option<&'a str>,
        );
        let table: [Case<'_>; 5] = [
            (Went::On, None, None, &["slow"], None),
            (
                Went::Ends,
                Some("no main"),
                Some("no node"),
                &[],
                Some("no main"),
            ),
            (Went::On, None, Some("no node"), &[], Some("no node")),
            (
                Went::Ends,
                None,
                None,
                &["over the limit"],
                Some("over the limit"),
            ),
            (
                Went::Ends,
                None,
                None,
                &[],
                Some("the cluster did not start"),
            ),
        ];
        for (went, workload, unstable, warnings, want) in table {
            let mut record = RunRecord {
                workload_error: workload.map(str::to_owned),
                not_stable: unstable.map(NotStable::from).into_iter().collect(),
                warnings: warnings.iter().map(|w| (*w).to_owned()).collect(),
                ..RunRecord::default()
            };
            assert_eq!(why_not(went, &mut record).as_deref(), want);
        }
    }
}
