//! The order of a run: boot, GO, test, degraded, heal, checks, durability, end. Each phase has a deadline and is judged, never
//! left hanging.

use crate::controller::{Seen, make_plans, rename, rename_map};
use crate::link::{Command, ReleaseAction, ToCome};
use crate::run::asking::questions::{Also, NodeAnswer};
use crate::run::drive::Drive;
use crate::run::evidence::collect::{collect, cpu_ms};
use crate::run::evidence::last_words;
use crate::run::midway::Midway;
use crate::run::options::RunError;
use crate::run::phases::boot::Boot;
use crate::slot::SlotError;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use warren_model::{
    FaultSequence, Instability, LogMoment, NodeName, Phase, RunProduct, RunRecord, Void,
};

pub(in crate::run) const MS: u64 = 1_000_000;
/// Longest wait for one answer of a question asked by the main loop.
pub(in crate::run) const ASK: Duration = Duration::from_millis(300);
/// How long processes may take to die.
const DYING: Duration = Duration::from_secs(10);

/// What a phase came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Went {
    On,
    /// The run ends here: limit, stop, or a workload that is gone.
    Ends,
}

/// Why what a phase waited for did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missed {
    /// There is no workload to answer: its end is the cause, whatever else did not come.
    Workload,
    /// The run's limit ended the wait, which says nothing about liveness: the same run with more time shows whether it hangs.
    Limit,
    /// The phase's own, shorter patience ran out: the cluster is not live.
    Patience,
}

impl Missed {
    fn of(workload_gone: bool, over_limit: bool) -> Self {
        match (workload_gone, over_limit) {
            (true, _) => Missed::Workload,
            (false, true) => Missed::Limit,
            (false, false) => Missed::Patience,
        }
    }
}

/// What the workload is told of the faults of a sequence; `awaits`: one of them may come after GO.
fn to_come(sequence: &FaultSequence, awaits: bool) -> ToCome {
    match (sequence.faults.is_empty(), awaits) {
        (true, _) => ToCome::NoneAsked,
        (false, true) => ToCome::Awaited,
        (false, false) => ToCome::Over,
    }
}

/// A part of a phase was stalled for so long at most. Both final checks, before and after the restart of all, are of one phase, and a test may
/// have begun in another run: the longest stall is what any part was hurt by.
pub(in crate::run) fn stood_still(record: &mut RunRecord, phase: Phase, ms: u64) {
    let longest = record.stalls_ms.entry(phase).or_default();
    *longest = (*longest).max(ms);
}

/// Where in the order of a run it begins. How its cluster comes to be is [`crate::run::Start`].
#[derive(Clone, Copy, Debug)]
pub(in crate::run) enum BeginsAt<'m> {
    /// With the start of its processes; perhaps it is to be seen whether the coverage map fills.
    Boot { check_map: bool, boot: Boot },
    /// With GO.
    Go,
    /// Just after its first faults.
    Midway(&'m Midway),
}

/// One run that is under way.
pub(in crate::run) struct Flow<'d, 'r, 'a> {
    pub drive: &'d mut Drive<'r, 'a>,
    pub product: &'d mut RunProduct,
    mark: Instant,
}

impl<'d, 'r, 'a> Flow<'d, 'r, 'a> {
    pub fn new(drive: &'d mut Drive<'r, 'a>, product: &'d mut RunProduct) -> Self {
        Flow {
            drive,
            product,
            mark: Instant::now(),
        }
    }

    /// The whole run after the slot was made.
    pub fn run(
        mut self,
        sequence: &FaultSequence,
        begins_at: BeginsAt<'_>,
    ) -> Result<(), RunError> {
        self.mark = Instant::now();
        let went = self.phases(sequence, begins_at);
        let options = self.drive.cluster.options;
        if matches!(went, Ok(Went::Ends)) && options.to_end() {
            // Whatever did not happen any more is nobody's fault.
            self.product.record.not_stable.clear();
            let stop = options.stop.load(std::sync::atomic::Ordering::Relaxed);
            let why = if stop { Void::Stopping } else { Void::GivenUp };
            self.product.record.void = Some(why);
        }
        self.end();
        self.product.record.times.finale += self.lap();
        self.drive.urgent = None;
        collect(self.drive, self.product);
        self.product.record.times.collect = self.lap();
        went.map(|_| ())
    }

    fn phases(
        &mut self,
        sequence: &FaultSequence,
        begins_at: BeginsAt<'_>,
    ) -> Result<Went, RunError> {
        match begins_at {
            BeginsAt::Boot { check_map, boot } => {
                if self.boot(sequence, boot)? == Went::Ends {
                    return Ok(Went::Ends);
                }
                if check_map {
                    self.check_map()?;
                }
                self.begin_test(sequence)?;
            }
            BeginsAt::Go => {
                self.go_on()?;
                self.begin_test(sequence)?;
            }
            BeginsAt::Midway(midway) => self.go_on_midway(midway, sequence)?,
        }
        if self.end_test_and_check(sequence)? == Went::Ends {
            return Ok(Went::Ends);
        }
        self.drive.sample_epochs();
        if self.drive.cluster.options.durable {
            let began = Instant::now();
            let went = self.durable()?;
            self.product.durable_ms =
                u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.drive.sample_epochs();
            if went == Went::Ends {
                return Ok(Went::Ends);
            }
        }
        self.drive.cluster.workload_page.command(Command::Exit);
        let soon = self.drive.now() + 500 * MS;
        self.drive.until(soon, |d| d.workload_gone.is_some())?;
        Ok(Went::On)
    }

    /// The test of a cluster that serves, and its checks, without what comes after them.
    pub(in crate::run) fn test_and_check(
        &mut self,
        sequence: &FaultSequence,
    ) -> Result<Went, RunError> {
        self.begin_test(sequence)?;
        self.end_test_and_check(sequence)
    }

    fn end_test_and_check(&mut self, sequence: &FaultSequence) -> Result<Went, RunError> {
        if self.end_test(sequence)? == Went::Ends {
            return Ok(Went::Ends);
        }
        if self.drive.cluster.options.plain_ops.is_some() {
            return Ok(Went::Ends);
        }
        if self.degraded()? == Went::Ends || self.heal()? == Went::Ends {
            return Ok(Went::Ends);
        }
        self.command(Command::Check, Phase::Final)
    }

    /// Restored: it stands still as it was dumped, its roles are known, and its clients are connected.
    pub(in crate::run) fn go_on(&mut self) -> Result<(), RunError> {
        self.drive.enter(Phase::Setup);
        // What copying and restoring took is no stall of the test.
        self.stalls();
        self.drive.cluster.all_go_on();
        let nodes = self.drive.cluster.nodes.iter();
        let nodes: Vec<_> = nodes.map(|n| (n.name.clone(), n.role.clone())).collect();
        for (node, role) in nodes {
            self.drive.controller.set_role(&node, role.as_deref());
            self.drive.see(Seen::Joined { node })?;
        }
        Ok(())
    }

    /// Time since the last call, ms.
    pub(in crate::run) fn lap(&mut self) -> u64 {
        let ms = u64::try_from(self.mark.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.mark = Instant::now();
        ms
    }

    /// The longest stall of the phase that ends now.
    pub(in crate::run) fn stalls(&mut self) {
        match self.drive.cluster.slot.stalls() {
            Ok(s) => {
                let record = &mut self.product.record;
                stood_still(record, self.drive.phase, s.longest_ns / MS);
            }
            // The run is void for that, and says so.
            Err(SlotError::Lost { .. }) => {}
            // Without it a checker would take the phase for one without a stall, and the machine's fault for the target's.
            Err(e) => {
                let why = format!("whether the machine stood still is not known: {e}");
                self.drive.void.get_or_insert(Void::WentWrong(why));
            }
        }
    }

    /// The run ends because something did not come: a liveness failure only where not the run's limit ended the wait.
    pub(in crate::run) fn missed(&mut self, what: &str, why: &str) -> Went {
        let record = &mut self.product.record;
        match Missed::of(self.drive.workload_gone.is_some(), self.drive.over()) {
            Missed::Workload => {}
            Missed::Limit => record
                .warnings
                .push(format!("over the limit in {what}: {why}")),
            // Where it was not stable before, that is why.
            Missed::Patience if record.not_stable.is_empty() => {
                record.was_not_stable(what, Instability::Outage, why);
            }
            Missed::Patience => {}
        }
        self.ends(what)
    }

    /// The run ends early: says why in the record.
    pub(in crate::run) fn ends(&mut self, what: &str) -> Went {
        if let Some(how) = &self.drive.workload_gone
            && self.product.record.workload_error.is_none()
        {
            let stdout = self.drive.cluster.slot.root().join("workload/stdout");
            self.product.record.workload_error = Some(format!(
                "{what}: the workload ended by itself ({how}): {}",
                last_words::of(&stdout, 3)
            ));
        } else if self.drive.over() {
            self.product.record.timed_out = true;
        }
        Went::Ends
    }

    /// Gives a command and waits until it is completed.
    pub(in crate::run) fn command(
        &mut self,
        command: Command,
        phase: Phase,
    ) -> Result<Went, RunError> {
        self.give(command, phase);
        let deadline = self.drive.deadline;
        let done = self.drive.until(deadline, |d| d.is_over(command))?;
        self.given(command, phase, done)
    }

    pub(in crate::run) fn give(&mut self, command: Command, phase: Phase) {
        self.drive.enter(phase);
        self.drive.cluster.workload_page.command(command);
    }

    /// A command was waited for: `done`, or in vain.
    pub(in crate::run) fn given(
        &mut self,
        command: Command,
        phase: Phase,
        done: bool,
    ) -> Result<Went, RunError> {
        let took = self.lap();
        self.stalls();
        let times = &mut self.product.record.times;
        match phase {
            Phase::Setup => times.setup += took,
            Phase::Degraded => times.degraded += took,
            Phase::Heal => times.heal += took,
            _ => times.finale += took,
        }
        if !done || !self.drive.cluster.workload_page.done(command) {
            let stdout = self.drive.cluster.slot.root().join("workload/stdout");
            let last = last_words::of(&stdout, 1);
            let why = format!("the workload did not answer in time; its last line: `{last}`");
            let lives = self.drive.workload_gone.is_none();
            self.ask_threads();
            let missed = self.missed(phase.as_str(), &why);
            if lives {
                self.wait_for_threads()?;
            }
            return Ok(missed);
        }
        if self.drive.cluster.workload_page.error() && self.product.record.workload_error.is_none()
        {
            let stdout = self.drive.cluster.slot.root().join("workload/stdout");
            self.product.record.workload_error =
                Some(format!("{phase}: {}", last_words::of(&stdout, 1)));
        }
        self.ask_threads_if_unserved();
        Ok(Went::On)
    }

    /// A map that is still empty means that nothing was instrumented: no run could learn anything.
    fn check_map(&self) -> Result<(), RunError> {
        let map = &self.drive.cluster.coverage;
        if map.copy(0, map.len()).iter().any(|b| *b != 0) {
            return Ok(());
        }
        let target = self.drive.cluster.prepared.target();
        Err(RunError::EmptyMap {
            target_toml: target.toml_path().display().to_string(),
            include: target.include.join(", "),
            log_hint: target.logs.first().cloned().unwrap_or_default(),
        })
    }

    pub(in crate::run) fn names(&self) -> Vec<NodeName> {
        self.drive
            .cluster
            .nodes
            .iter()
            .map(|n| n.name.clone())
            .collect()
    }

    pub(in crate::run) fn write_plans(
        &self,
        plans: &[Vec<crate::link::PlanEntry>],
    ) -> Result<(), RunError> {
        for (n, plan) in self.drive.cluster.nodes.iter().zip(plans) {
            n.page
                .write_plan(plan)
                .map_err(|e| RunError::io(format!("the plan of {}", n.name), e))?;
        }
        Ok(())
    }

    /// Which nodes live, by index, and what they answer just now.
    pub(in crate::run) fn ask_living(
        &self,
        also: Also,
    ) -> Result<(Vec<usize>, Vec<NodeAnswer>), RunError> {
        let cluster = &*self.drive.cluster;
        let alive: Vec<usize> = (0..cluster.nodes.len())
            .filter(|i| cluster.nodes[*i].alive())
            .collect();
        let addrs: Vec<_> = alive.iter().map(|i| cluster.nodes[*i].addr).collect();
        let answers = cluster.questions.ask(cluster.slot, &addrs, also, ASK)?;
        Ok((alive, answers))
    }

    /// Roles of all living nodes just now: what a node answers, else what its agent saw it do last.
    pub(in crate::run) fn ask_roles(&mut self) -> Result<BTreeMap<NodeName, String>, RunError> {
        let (alive, answers) = self.ask_living(Also::Nothing)?;
        for (i, role) in self.drive.cluster.changed_roles() {
            let name = self.drive.cluster.nodes[i].name.clone();
            self.drive.controller.set_role(&name, role.as_deref());
        }
        let mut roles = BTreeMap::new();
        for (i, a) in alive.into_iter().zip(answers) {
            let node = &mut self.drive.cluster.nodes[i];
            if let Some(role) = a.role.or_else(|| node.role.clone()) {
                node.role = Some(role.clone());
                if let Some(last) = node.incarnations.last_mut() {
                    last.role = Some(role.clone());
                }
                let name = node.name.clone();
                self.drive.controller.set_role(&name, Some(&role));
                roles.insert(name, role);
            }
        }
        Ok(roles)
    }

    /// The faults in the names of this run, and GO.
    pub(in crate::run) fn begin_test(&mut self, sequence: &FaultSequence) -> Result<(), RunError> {
        let roles = self.ask_roles()?;
        let shape = self.drive.cluster.prepared.target().shape(usize::MAX);
        let map = rename_map(sequence, &roles, &shape);
        let faults = rename(&sequence.faults, &map);
        let names = self.names();
        let numbers = self.drive.cluster.prepared.target().dictionary.role_names();
        let plans = make_plans(&faults, &names, &numbers, &roles, false);
        self.write_plans(&plans)?;
        self.drive.controller.go_with(faults);
        self.product.record.renamed = map;
        self.product.record.matched = Some(FaultSequence {
            roles,
            faults: Vec::new(),
            ..sequence.clone()
        });
        self.drive.sample_epochs();
        self.drive
            .cluster
            .workload_page
            .set_deadline(self.drive.deadline);
        self.lap();
        self.count_traffic()?;
        self.drive.enter(Phase::Test);
        // Both before GO. That nothing is awaited any more is not that nothing was asked for: a start may have broken what the steps need.
        let to_come = to_come(sequence, self.drive.controller.awaits_after_go());
        self.drive.cluster.workload_page.set_to_come(to_come);
        if self.drive.controller.awaited().is_none() {
            self.drive
                .cluster
                .workload_page
                .set_faults_done(self.drive.now());
        }
        self.drive.cluster.workload_page.command(Command::Go);
        self.drive.see(Seen::Go)
    }

    /// From GO, or from where a run was dumped, to the end of the workload's traffic.
    fn end_test(&mut self, sequence: &FaultSequence) -> Result<Went, RunError> {
        let deadline = self.drive.deadline;
        let done = self.drive.until(deadline, |d| {
            d.cluster.workload_page.done(Command::Go) || d.workload_gone.is_some()
        })?;
        if !done {
            self.drive.cluster.workload_page.command(Command::Stop);
        }
        // What is still awaited will not come any more; what is under way comes to its end.
        let soon = self.drive.now() + u64::try_from(DYING.as_nanos()).unwrap_or(0);
        while !self.drive.controller.finished() && self.drive.now() < soon {
            self.drive.turn()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.drive.controller.under_way() {
            // It would be done in the midst of what is asked after the test.
            let why = format!("a fault was under way for more than {DYING:?}");
            self.drive.void.get_or_insert(Void::WentWrong(why));
        }
        if !sequence.faults.is_empty() {
            self.drive
                .cluster
                .run_page
                .release(sequence.faults.len() - 1, ReleaseAction::GoOn);
        }
        self.product.record.times.test = self.lap();
        self.traffic()?;
        self.stalls();
        if !done || self.drive.workload_gone.is_some() {
            return Ok(self.ends("test"));
        }
        Ok(Went::On)
    }

    /// All nodes are killed and started once more, and asked again.
    fn durable(&mut self) -> Result<Went, RunError> {
        self.product.record.durable_asked = true;
        for i in 0..self.drive.cluster.nodes.len() {
            self.drive.cluster.kill_node(i);
        }
        if let Some(why) = self.wait_dead() {
            self.drive.void.get_or_insert(Void::WentWrong(why));
        }
        self.drive.mark_logs(LogMoment::Durability);
        let all: Vec<usize> = (0..self.drive.cluster.nodes.len()).collect();
        self.drive.cluster.spawn_nodes(&all)?;
        if self.stable("durability", true)? == Went::Ends {
            return Ok(Went::Ends);
        }
        self.command(Command::CheckDurable, Phase::Final)
    }

    /// Waits until all that was killed has ended; what has not. At the end of a run that is no matter: its evidence is whole.
    fn wait_dead(&mut self) -> Option<String> {
        let deadline = Instant::now() + DYING;
        let mut alive = None;
        for n in &self.drive.cluster.nodes {
            if let Some(p) = &n.process {
                // A slot that is lost has no living process either.
                if let Ok(None) = self.drive.cluster.slot.wait_exit(p, deadline) {
                    let why = || format!("{} did not end after SIGKILL in {DYING:?}", n.name);
                    alive.get_or_insert_with(why);
                }
            }
        }
        let _ = self.drive.turn();
        alive
    }

    /// Kills what lives. An exit from now on is never a finding.
    fn end(&mut self) {
        self.drive.ending = true;
        // Before anything is killed: else the dead would be the reason.
        let record = &self.product.record;
        let start = record
            .not_stable
            .first()
            .filter(|_| record.matched.is_none())
            .map(|n| &n.text);
        let why = start.or(record.workload_error.as_ref());
        let why = why.and_then(|w| w.lines().next());
        self.drive
            .controller
            .run_ended(why.unwrap_or("the run was over before its turn"));
        for i in 0..self.drive.cluster.nodes.len() {
            if self.drive.cluster.nodes[i].alive() {
                self.drive.cluster.kill_node(i);
            }
        }
        if let Some(p) = &self.drive.cluster.workload {
            p.kill();
        }
        self.wait_dead();
        if let Some(p) = &self.drive.cluster.workload {
            let _ = self.drive.cluster.slot.wait_exit(p, Instant::now() + DYING);
        }
        self.drive.look_for_room();
        self.product.record.cpu_ms = cpu_ms(self.drive.cluster.slot.init_pid());
        if let Some(error) = self.drive.workload_gone.take()
            && self.product.record.workload_error.is_none()
            && error != "exit status 0"
            && error != "signal 9"
        {
            self.product.record.workload_error = Some(format!("the workload ended with {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_are_over_at_go_are_not_no_faults() {
        let none = FaultSequence::empty("t");
        let text = "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\nwhen = \"at-once\"\n";
        let some = FaultSequence::from_text(text).unwrap();
        for (sequence, awaits, want) in [
            (&none, false, ToCome::NoneAsked),
            (&some, true, ToCome::Awaited),
            (&some, false, ToCome::Over),
        ] {
            assert_eq!(to_come(sequence, awaits), want);
        }
    }

    #[test]
    fn only_a_phases_own_patience_speaks_of_liveness() {
        for (workload_gone, over_limit, want) in [
            (false, false, Missed::Patience),
            (false, true, Missed::Limit),
            (true, false, Missed::Workload),
            (true, true, Missed::Workload),
        ] {
            assert_eq!(
                Missed::of(workload_gone, over_limit),
                want,
                "{workload_gone} {over_limit}"
            );
        }
    }
}
