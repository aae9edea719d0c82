//! The slot launcher: `warren __slot-launcher`, parent of all processes of a tree that is to be dumped.
//!
//! Called by `main` of the binary; started by slot init. It sleeps until a signal says that orders lie in its file, starts what they
//! name, reaps what ended and writes down how (`reaped.rs`): CRIU needs one root of what it dumps, with no descriptor from outside the
//! slot, so nothing connects it to init, and after a restore it takes orders as before. Where nobody needs it any more init kills it
//! and its children pass to init (decision 0005), so they carry no PDEATHSIG: the pid namespace ends them.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getppid, setsid};

use super::init::{close_inherited, command_of, not_started};
use super::tree::{Answer, Ended, ORDERS_CAME, Orders, answer_file, orders_file};
use super::{now_ns, reaped};

/// The whole life of the launcher. Returns only when it was called wrongly.
pub fn slot_launcher_main() -> i32 {
    if getppid().as_raw() != 1 {
        eprintln!("__slot-launcher is started by slot init, which is pid 1 of its slot");
        return 2;
    }
    let _ = setsid();
    close_inherited();
    // Blocked since before exec: a signal that came early still waits here.
    let awaited = awaited_signals();
    loop {
        match awaited.wait() {
            Ok(Signal::SIGCHLD) => reap(),
            Ok(_) => {
                if obey().is_err() {
                    return 2;
                }
            }
            Err(Errno::EINTR) => {}
            Err(_) => return 2,
        }
    }
}

/// What the launcher waits for; to be blocked in it from its first instruction on.
pub(super) fn awaited_signals() -> SigSet {
    [ORDERS_CAME, Signal::SIGCHLD].into_iter().collect()
}

/// Carries out the orders in the file; the answer is there once it is whole.
fn obey() -> io::Result<()> {
    let answer: Answer = match read_orders() {
        Ok(orders) => orders.iter().map(start).collect(),
        Err(why) => Err(why),
    };
    let file = answer_file();
    let part = file.with_extension("part");
    std::fs::write(&part, serde_json::to_vec(&answer)?)?;
    std::fs::rename(&part, &file)
}

fn read_orders() -> Result<Orders, String> {
    let file = orders_file();
    let doing = |why: String| format!("the launcher reads {}: {why}", Path::display(&file));
    let text = std::fs::read(&file).map_err(|e| doing(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| doing(e.to_string()))
}

fn start(spec: &super::SpawnSpec) -> Result<(i32, u64), String> {
    let mut command = command_of(spec)?;
    // What the launcher waits for is not to be blocked in what it starts: a node below init has nothing blocked either.
    let nothing = SigSet::empty();
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            let _ = setsid();
            nothing.thread_set_mask().map_err(Into::into)
        });
    }
    let child = command.spawn().map_err(|e| not_started(spec, &e))?;
    Ok((child.id() as i32, now_ns()))
}

/// A zombie would be dumped and restored as one.
fn reap() {
    while let Some((pid, ended)) = Ended::next() {
        // Where there is no room for it nobody learns how this one ended. That it did is seen without us, and the others live on.
        let _ = reaped::note(pid.as_raw(), ended);
    }
}
