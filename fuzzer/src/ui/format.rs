//! Times and shares as AFL writes them. Pure.

use crate::fuzz::Snapshot;
use std::time::Instant;

/// `0 days, 0 hrs, 4 min, 12 sec`.
pub fn days(ms: u64) -> String {
    let s = ms / 1000;
    format!(
        "{} days, {} hrs, {} min, {} sec",
        s / 86_400,
        s / 3600 % 24,
        s / 60 % 60,
        s % 60
    )
}

/// How long ago, or AFL's words for never.
pub fn ago(now_ms: u64, at: Option<u64>) -> String {
    at.map_or_else(
        || "none seen yet".to_owned(),
        |t| days(now_ms.saturating_sub(t)),
    )
}

/// `82 %`, or `-` when nothing was asked.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        "-".to_owned()
    } else {
        #[allow(clippy::cast_precision_loss)] // counts of runs are far below 2^52
        let p = part as f64 * 100.0 / whole as f64;
        format!("{p:.0} %")
    }
}

/// `4.76 %` with two digits.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "-".to_owned()
    } else {
        #[allow(clippy::cast_precision_loss)] // map sizes are far below 2^52
        let p = part as f64 * 100.0 / whole as f64;
        format!("{p:.2} %")
    }
}

/// Runs per second; below one a minute figure reads better.
pub fn speed(per_sec: f64) -> String {
    if per_sec >= 1.0 || per_sec <= 0.0 {
        format!("{per_sec:.2}/sec")
    } else {
        format!("{:.1}/min", per_sec * 60.0)
    }
}

/// Fuzzing time now: the snapshot's, counted on from the first fuzzed run while the campaign goes on. In a pause it stands still.
pub fn run_time_ms(s: &Snapshot, now: Instant) -> u64 {
    let now = s.paused_since.unwrap_or(now);
    match s.fuzz_started {
        Some(t) if !s.ended => u64::try_from(now.saturating_duration_since(t).as_millis())
            .unwrap_or(s.run_time_ms)
            .max(s.run_time_ms),
        _ => s.run_time_ms,
    }
}

/// Slots that only faults reached; 0 while the fault-free figure is not there yet.
pub fn over_fault_free(s: &Snapshot) -> u64 {
    if s.coverage_fault_free == 0 {
        0
    } else {
        s.coverage.saturating_sub(s.coverage_fault_free)
    }
}

/// Text with frames without their packages: `at org.x.Learner.writePacket:79` is `at Learner.writePacket:79`.
pub fn short(text: &str) -> String {
    text.split(' ')
        .map(|word| {
            let parts: Vec<&str> = word.split('.').collect();
            let lower = |p: &&str| p.starts_with(|c: char| c.is_ascii_lowercase());
            let packages = parts.iter().take_while(|p| lower(p)).count();
            // A frame has a class and a method behind its packages; anything else stays as it is.
            if packages > 0 && parts.len() >= packages + 2 {
                parts[packages..].join(".").replace(":-1", "")
            } else {
                word.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times() {
        assert_eq!(days(90_061_000), "1 days, 1 hrs, 1 min, 1 sec");
        assert_eq!(ago(5000, None), "none seen yet");
        assert_eq!(ago(65_000, Some(1000)), "0 days, 0 hrs, 1 min, 4 sec");
        assert_eq!(ago(0, Some(9000)), "0 days, 0 hrs, 0 min, 0 sec");
    }

    #[test]
    fn run_time_goes_on_but_not_in_a_pause() {
        let t = Instant::now();
        let at = |s| t + Duration::from_secs(s);
        let mut s = Snapshot {
            fuzz_started: Some(t),
            run_time_ms: 3000,
            ..Snapshot::default()
        };
        assert_eq!(run_time_ms(&s, at(9)), 9000);
        s.paused_since = Some(at(7));
        assert_eq!(run_time_ms(&s, at(9)), 7000);
    }

    #[test]
    fn shares() {
        assert_eq!(share(0, 0), "-");
        assert_eq!(share(3, 4), "75 %");
        assert_eq!(percent(3120, 65_536), "4.76 %");
        assert_eq!(speed(2.5), "2.50/sec");
        assert_eq!(speed(0.5), "30.0/min");
        assert_eq!(speed(0.0), "0.00/sec");
    }

    #[test]
    fn frames_lose_their_packages() {
        let table = [
            (
                "crash a at org.x.Learner$1.writePacket:79 force n=2; then",
                "crash a at Learner$1.writePacket:79 force n=2; then",
            ),
            ("canary.Link.send:-1", "Link.send"),
            ("9.5 ms in file.log, a.b.c", "9.5 ms in file.log, a.b.c"),
            ("", ""),
        ];
        for (text, want) in table {
            assert_eq!(short(text), want);
        }
    }
}
