//! The one thread of Warren that starts slot inits.
//!
//! PDEATHSIG fires when the THREAD that spawned a child ends, not its process, so inits are started by a thread that
//! lives as long as Warren does. Called by `host.rs`.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

type Job = (Command, Sender<io::Result<Child>>);

static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();

/// Starts the command from the spawner thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let spawner = SPAWNER.get_or_init(|| {
        let (send, receive) = channel::<Job>();
        // If this thread cannot be made its receiver is dropped, and the send below says so.
        let _ = std::thread::Builder::new()
            .name("slot-spawner".into())
            .spawn(move || {
                for (mut command, answer) in receive {
                    let _ = answer.send(command.spawn());
                }
            });
        Mutex::new(send)
    });
    let gone = || io::Error::other("the spawner thread is gone");
    let (answer, result) = channel();
    spawner
        .lock()
        .map_err(|_| gone())?
        .send((command, answer))
        .map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}
