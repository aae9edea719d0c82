//! The one thread of Warren that starts slot inits.
//!
//! PDEATHSIG fires when the THREAD that spawned a child ends, not its process, so inits are started by a thread that
//! lives as long as Warren does. Called by `started.rs`.

use crossbeam::channel::{Sender, bounded, unbounded};
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

type Job = (Command, Sender<io::Result<Child>>);

static SPAWNER: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Starts the command from the spawner thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the spawner thread is gone");
    let (answer, result) = bounded(1);
    {
        let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = match spawner.take() {
            Some(jobs) => jobs,
            // One that cannot be made now is tried again by the next slot.
            None => make()?,
        };
        jobs.send((command, answer)).map_err(|_| gone())?;
        *spawner = Some(jobs);
    }
    result.recv().map_err(|_| gone())?
}

fn make() -> io::Result<Sender<Job>> {
    let (send, receive) = unbounded::<Job>();
    let work = move || {
        for (mut command, answer) in receive {
            let _ = answer.send(command.spawn());
        }
    };
    let thread = std::thread::Builder::new().name("slot-spawner".into());
    thread.spawn(work)?;
    Ok(send)
}
