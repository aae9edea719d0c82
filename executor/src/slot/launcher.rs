//! The slot launcher: `warren __slot-launcher`, parent of all processes of a tree that is to be dumped.
//!
//! Called by `main` of the binary; started by slot init. It takes orders to start processes until its stdin ends, and from
//! then on only waits: CRIU needs one root of what it dumps, with no descriptor from outside the slot. After a restore it is
//! killed, and its children pass to slot init (decision 0005), so they carry no PDEATHSIG: the pid namespace ends them.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

use super::init::{command_of, not_started};
use super::now_ns;
use super::tree::{Answer, Orders};

/// The whole life of the launcher. Returns only when it was called wrongly.
pub fn slot_launcher_main() -> i32 {
    let _ = nix::unistd::setsid();
    for line in io::stdin().lines() {
        let orders = line.map_err(|e| e.to_string());
        let orders =
            orders.and_then(|l| serde_json::from_str::<Orders>(&l).map_err(|e| e.to_string()));
        let Ok(orders) = orders else {
            eprintln!("__slot-launcher is started by slot init, with its orders on stdin");
            return 2;
        };
        let answer: Answer = orders.iter().map(start).collect();
        let Ok(mut text) = serde_json::to_vec(&answer) else {
            return 2;
        };
        text.push(b'\n');
        let mut out = io::stdout();
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            return 2;
        }
    }
    if close_all().is_err() {
        return 2;
    }
    loop {
        nix::unistd::pause();
    }
}

fn start(spec: &super::SpawnSpec) -> Result<(i32, u64), String> {
    let mut command = command_of(spec)?;
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    // Never reaped here: one that ends stays a zombie until init has it.
    let child = command.spawn().map_err(|e| not_started(spec, &e))?;
    Ok((child.id() as i32, now_ns()))
}

/// Nothing from outside stays open: /dev/null for the standard descriptors, which also ends init's wait for the answer.
fn close_all() -> io::Result<()> {
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    for fd in 0..3 {
        // SAFETY: dup2 onto the standard descriptors, which std never closes; /dev/null is open.
        if unsafe { libc::dup2(null.as_raw_fd(), fd) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    drop(null);
    // SAFETY: nothing of this process uses a descriptor above the standard ones any more.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    Ok(())
}
