//! A tree that stands still, and the clock it goes on with after its dump.
//!
//! Called by `tree.rs`, and by `init.rs` before it looks for what no dump has. A dump of many JVMs takes seconds, and CRIU notes the
//! clock at its end: whoever is restored would find all these seconds gone at once, and sessions and leases with them. So the tree is
//! stopped before, and its images are told the clock of that moment. It stops nobody and reads of CRIU's images only the one of the
//! clock.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::now_ns;
use super::tree::children_of;

/// The image of a tree's clock. Without it a restored tree has the clock of the slot.
pub const CLOCK_IMAGE: &str = "timens-0.img";
/// How long the threads of a stopped tree may take until all of them stand still: one in the middle of a write ends it first.
const LIMIT: Duration = Duration::from_secs(5);
const TURN: Duration = Duration::from_millis(1);
/// Before the message: two magic numbers and its length, 4 bytes each.
const HEAD: usize = 12;
const NS: u64 = 1_000_000_000;
/// The kind of a field of protocol buffers that holds a message.
const BYTES: u64 = 2;

/// Waits until all that the launcher started, and was stopped by a signal, stands still. Returns the clock since when it does, ns.
/// Blocks slot init meanwhile.
pub(super) fn still_since(launcher: i32) -> Result<u64, String> {
    let until = Instant::now() + LIMIT;
    for process in children_of(Pid::from_raw(launcher)) {
        while let Some(thread) = running_thread(process) {
            if Instant::now() > until {
                let limit = LIMIT.as_secs();
                return Err(format!(
                    "thread {thread} of process {process} does not stand still within {limit} s"
                ));
            }
            std::thread::sleep(TURN);
        }
    }
    Ok(now_ns())
}

/// A thread of the process that is neither stopped nor gone.
fn running_thread(process: Pid) -> Option<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    threads.flatten().find_map(|thread| {
        // One that cannot be read has ended.
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let still = state_of(&stat).is_none_or(|state| "TtZX".contains(state));
        (!still).then(|| thread.file_name().to_string_lossy().into_owned())
    })
}

/// The letter behind the name, which may hold anything, blanks and brackets too.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The restored tree's clocks go on from this moment instead of the one that CRIU noted.
pub(super) fn set_clock(images: &Path, ns: u64) -> Result<(), String> {
    let place = images.join(CLOCK_IMAGE);
    let doing = |why: String| format!("setting the clock in {CLOCK_IMAGE}: {why}");
    let image = fs::read(&place).map_err(|e| doing(e.to_string()))?;
    let changed = with_clock(&image, ns).map_err(doing)?;
    fs::write(&place, changed).map_err(|e| doing(e.to_string()))
}

/// The image of the same clocks at another moment: both of them are moved by as much. It holds one message of protocol buffers: two
/// times, each of seconds and nanoseconds.
fn with_clock(image: &[u8], ns: u64) -> Result<Vec<u8>, String> {
    let odd = || format!("not as CRIU 4.2 writes it: {image:02x?}");
    let (head, message) = image.split_at_checked(HEAD).ok_or_else(odd)?;
    let [monotonic, boottime] = clocks(message).ok_or_else(odd)?;
    let since = monotonic
        .checked_sub(ns)
        .ok_or_else(|| format!("{ns} ns is after the end of the dump, {monotonic} ns"))?;
    let boottime = boottime.checked_sub(since).ok_or_else(odd)?;
    let mut message = Vec::new();
    for (field, clock) in [(1, ns), (2, boottime)] {
        let mut time = Vec::new();
        for number in [1 << 3, clock / NS, 2 << 3, clock % NS] {
            put(&mut time, number);
        }
        put(&mut message, field << 3 | BYTES);
        put(&mut message, time.len() as u64);
        message.extend(time);
    }
    let length = u32::try_from(message.len()).map_err(|e| e.to_string())?;
    Ok([&head[..HEAD - 4], &length.to_le_bytes(), &message].concat())
}

/// CLOCK_MONOTONIC and CLOCK_BOOTTIME, ns; none of anything else.
fn clocks(message: &[u8]) -> Option<[u64; 2]> {
    let mut rest = message;
    let mut clock = |field: u64| {
        let expect = |want: u64, got: u64| (want == got).then_some(());
        expect(field << 3 | BYTES, take(&mut rest)?)?;
        let length = usize::try_from(take(&mut rest)?).ok()?;
        let end = rest.len().checked_sub(length)?;
        expect(1 << 3, take(&mut rest)?)?;
        let seconds = take(&mut rest)?;
        expect(2 << 3, take(&mut rest)?)?;
        let ns = take(&mut rest)?;
        expect(end as u64, rest.len() as u64)?;
        seconds.checked_mul(NS)?.checked_add(ns)
    };
    let both = [clock(1)?, clock(2)?];
    rest.is_empty().then_some(both)
}

/// A number of protocol buffers, seven bits a byte, the lowest first.
fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

    /// As CRIU 4.2.1 wrote it.
    const SAMPLE: &[u8] = b"\x19\x43\x56\x54\x33\x44\x11\x43\x18\x00\x00\x00\x0a\x0a\x08\xe6\x86\x05\x10\xfb\xd2\xd9\xaf\x03\x12\x0a\x08\xe6\x86\x05\x10\xdf\xd3\xd9\xaf\x03";

    #[test]
    fn both_clocks_of_an_image_are_moved_by_as_much() {
        let [monotonic, boottime] = clocks(&SAMPLE[HEAD..]).unwrap();
        let changed = with_clock(SAMPLE, monotonic - 5_000_000_007).unwrap();
        assert_eq!(
            clocks(&changed[HEAD..]),
            Some([monotonic - 5_000_000_007, boottime - 5_000_000_007])
        );
        assert_eq!(changed[..8], SAMPLE[..8], "the magic numbers");
        let length = u32::from_le_bytes([changed[8], changed[9], changed[10], changed[11]]);
        assert_eq!(length as usize, changed.len() - HEAD);
        assert_eq!(with_clock(SAMPLE, monotonic).unwrap(), SAMPLE, "as CRIU");
        let early = with_clock(SAMPLE, 0).unwrap();
        assert_eq!(
            clocks(&early[HEAD..]),
            Some([0, boottime - monotonic]),
            "zeros are written out"
        );
    }

    #[test]
    fn what_is_no_image_of_clocks_is_refused() {
        let after = with_clock(SAMPLE, u64::MAX).unwrap_err();
        assert!(after.contains("after the end of the dump"), "{after}");
        let mut longer = SAMPLE.to_vec();
        longer.push(0);
        let mut other = SAMPLE.to_vec();
        other[HEAD] = 0x1a;
        for image in [
            &SAMPLE[..4],
            &SAMPLE[..HEAD],
            &SAMPLE[..20],
            &longer,
            &other,
        ] {
            let odd = with_clock(image, 0).unwrap_err();
            assert!(odd.contains("not as CRIU"), "{odd}");
        }
        assert_eq!(take(&mut [0x80u8; 11].as_slice()), None, "no end");
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for number in [0, 1, 127, 128, 300, 81_620, u64::from(u32::MAX), u64::MAX] {
            let mut text = Vec::new();
            put(&mut text, number);
            assert_eq!(take(&mut text.as_slice()), Some(number));
        }
    }

    #[test]
    fn the_state_of_a_thread_stands_behind_any_name() {
        for (stat, want) in [
            ("7 (java) T 1 7", Some('T')),
            ("7 (a) S (b) t 1 7", Some('t')),
            ("7 (java", None),
            ("", None),
        ] {
            assert_eq!(state_of(stat), want, "{stat}");
        }
    }

    #[test]
    fn a_process_stands_still_once_it_is_stopped() {
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        assert!(running_thread(pid).is_some());
        kill(pid, Signal::SIGSTOP).unwrap();
        // The kernel says when: no clock.
        let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
        let seen = running_thread(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, None, "stopped");
        assert!(running_thread(pid).is_none(), "gone");
    }
}
