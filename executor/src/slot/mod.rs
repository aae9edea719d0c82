//! Slots: the isolated places runs live in.
//!
//! Who calls it: `run`, which opens one for each run and for what is made once; `doctor` and the begin of a campaign, which try
//! what works here; and `main` of the binary, which hands `__slot-init` to [`slot_init_main`] and `__slot-launcher` to
//! [`slot_launcher_main`] before anything else happens. `setup/child.rs` takes `die_with` from here.
//! What it refuses to do: it knows no target, no node configuration and no fault; it places processes, carries text
//! probes, drops packets between addresses, and makes sure that nothing outlives it.
//!
//! # How a slot is put together
//! ```text
//! warren ── spawner thread ── warren __slot-init (unshares, forks, waits) ── pid 1 of the slot ── every process of the run
//!    └──────────────── one socket pair, length-prefixed JSON, pidfds by SCM_RIGHTS ─────┘
//! ```
//! End of file on that socket, or the death of Warren (PDEATHSIG), ends pid 1, and with it every process, mount and
//! namespace of the slot. On level 3 the same init runs without namespaces; its children carry PDEATHSIG of their own
//! and a state file lets the next start sweep what is left ([`sweep_level3`]).
//!
//! # Use
//! ```text
//! let slot = Slot::open(&SlotConfig::new(exe, best_level(exe)?).names(["zk1", "zk2"]))?;
//! std::fs::create_dir_all(slot.root().join("nodes/zk1"))?;              // host view of the slot's files
//! let zk1 = slot.spawn(&SpawnSpec { name: "zk1".into(), argv, env, cwd: slot.inside_root().join("nodes/zk1"), stdout })?;
//! slot.cut(&CutRules::both(&[slot.node_addr(0)], &[slot.node_addr(1)]))?;
//! zk1.kill();                                                           // a few microseconds, from any thread
//! let exit = slot.wait_exit(&zk1, Instant::now() + Duration::from_secs(2));
//! slot.close()?;                                                        // Drop does the same, without the answer
//! ```

mod error;
mod first_packet;
mod host;
mod hush;
mod init;
mod launcher;
mod level3;
mod levels;
mod namespaces;
mod netlink;
mod nftables;
mod orphans;
mod pidfd;
mod probe;
mod process;
mod reaped;
mod sockets;
mod spawner;
mod stall;
mod started;
mod still;
mod traffic;
mod tree;
mod trial;
mod types;
mod wire;

pub use error::SlotError;
pub use host::{Launched, Slot};
pub use init::slot_init_main;
pub use launcher::slot_launcher_main;
pub use level3::{SweepReport, sweep_level3};
pub use levels::{LevelReport, best_level, detect_levels};
pub use process::{AtDump, Process};
pub use still::CLOCK_IMAGE;
pub use traffic::{Counted, Traffic};
pub use trial::{Tried, try_snapshot};
pub use types::{
    Cut, CutRules, Exit, Healed, Level, Owed, ProbeAnswer, SlotConfig, SpawnSpec, Stalls, TextProbe,
};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

/// The hidden subcommand under which the binary is slot init.
pub const SLOT_INIT: &str = "__slot-init";

/// The hidden subcommand under which it is the launcher.
pub const SLOT_LAUNCHER: &str = "__slot-launcher";

/// For a child that `parent` has just forked: it is killed when the thread that forked it ends. System calls only, and it allocates nothing:
/// may be called between fork and exec.
pub(crate) fn die_with(parent: Pid) {
    let _ = set_pdeathsig(Signal::SIGKILL);
    // The parent may have died before the line above: then nothing would ever kill us.
    if getppid() != parent {
        // SAFETY: a system call that ends the process at once, with nothing left to be run or dropped.
        unsafe { libc::_exit(1) };
    }
}

/// CLOCK_MONOTONIC in nanoseconds: the one clock of all parts (docs/formats.md).
pub fn now_ns() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map(|t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
        .unwrap_or(0)
}
