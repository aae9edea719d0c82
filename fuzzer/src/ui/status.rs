//! The status line of `--no-ui`: one line with what the screen says first. Pure.

use super::format::{over_fault_free, run_time_ms, share, short, speed};
use crate::fuzz::Snapshot;
use crate::text::clock;
use std::time::Instant;

/// One line, without a line end.
#[must_use]
pub fn status_line(s: &Snapshot, now: Instant) -> String {
    let told = s.foremost();
    let doing = match told.doing.as_str() {
        "" => "waiting",
        doing => doing,
    };
    let map = if s.map_size == 0 {
        format!("cov {}", s.coverage)
    } else {
        format!("cov {}/{}", s.coverage, s.map_size)
    };
    if s.learning || s.fuzz_started.is_none() {
        let phase = if told.phase.is_empty() {
            String::new()
        } else {
            format!(", phase {}", told.phase)
        };
        return format!("[learning] {doing}{phase} | runs {} {map}", s.execs);
    }
    let i = &s.injected;
    let now_trying = match (told.kinds.as_str(), told.faults.last()) {
        ("", _) => String::new(),
        // Of a replay only the kinds are told.
        (kinds, None) => format!(" | {doing}: {kinds}"),
        (kinds, Some(last)) => format!(" | {doing}: {kinds} ({})", short(last)),
    };
    let all = std::iter::once(&s.current).chain(&s.beside);
    let beside = all.filter(|c| !std::ptr::eq(*c, told) && !c.doing.is_empty());
    let beside = match beside.count() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(
        "[{}] runs {} seqs {} {} corpus {} pending {} {map} (+{}) findings {} hangs {} unknown {} inj 1:{} n:{}{now_trying}{beside}",
        clock(run_time_ms(s, now)),
        s.execs,
        s.sequences,
        speed(s.execs_per_sec),
        s.corpus,
        s.pending,
        over_fault_free(s),
        s.findings,
        s.hangs,
        s.unknowns,
        share(i.one_fault_full, i.one_fault_asked),
        share(i.longer_full, i.longer_asked),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::InjectedRates;
    use crate::fuzz::CurrentRun;

    #[test]
    fn learning_and_fuzzing() {
        let mut s = Snapshot {
            learning: true,
            execs: 2,
            coverage: 3000,
            map_size: 65_536,
            current: CurrentRun {
                doing: "learning 2/5".into(),
                phase: "start".into(),
                ..CurrentRun::default()
            },
            ..Snapshot::default()
        };
        assert_eq!(
            status_line(&s, Instant::now()),
            "[learning] learning 2/5, phase start | runs 2 cov 3000/65536"
        );
        let t = Instant::now();
        s.learning = false;
        s.fuzz_started = Some(t);
        s.run_time_ms = 61_000;
        s.coverage = 3100;
        s.coverage_fault_free = 3000;
        s.sequences = 9;
        s.execs = 11;
        s.execs_per_sec = 0.5;
        s.corpus = 4;
        s.pending = 300;
        s.injected = InjectedRates {
            one_fault_asked: 4,
            one_fault_full: 3,
            ..InjectedRates::default()
        };
        s.current.doing = "fuzzing".into();
        s.current.kinds = "crash+reboot".into();
        s.current.faults = vec!["crash a".into(), "reboot a at X.y".into()];
        assert_eq!(
            status_line(&s, t),
            "[0h01m01s] runs 11 seqs 9 30.0/min corpus 4 pending 300 cov 3100/65536 (+100) findings 0 hangs 0 unknown 0 \
             inj 1:75 % n:- | fuzzing: crash+reboot (reboot a at X.y)"
        );
        s.beside = vec![CurrentRun::default(), s.current.clone()];
        assert!(status_line(&s, t).ends_with("(reboot a at X.y) and 1 more"));
        s.beside[1].doing = "confirming 2/3".into();
        s.beside[1].faults.clear();
        let line = status_line(&s, t);
        assert!(
            line.ends_with(" | confirming 2/3: crash+reboot and 1 more"),
            "{line}"
        );
        s.beside.clear();
        s.current.doing = "confirming 1/3".into();
        s.current.faults.clear();
        assert!(status_line(&s, t).ends_with(" | confirming 1/3: crash+reboot"));
    }
}
