//! Instances on several machines hear each other at once, by LibAFL's broker-to-broker LLMP: `--broker-port`, `--remote-broker` of `warren
//! fuzz`. docs/decisions/0008-brokers.md has the reasons.
//!
//! A broker only carries. What an instance tells stays sync.jsonl and its files, and what comes from elsewhere becomes a mirror of that folder,
//! heard as any other instance of the output folder is: nothing here knows what a sequence is, runs one, or judges.

mod carrier;
mod mirror;
mod watch;
mod wire;

pub use carrier::{BrokerError, Config, run};
pub use watch::Broker;

use crate::campaign::InstanceKind;
use crate::cli::exit::CliError;
use crate::fuzz::{FuzzOptions, common_identity};
use nix::sched::{CloneFlags, unshare};
use std::io::{BufRead, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The hidden subcommand.
pub const BROKER: &str = "__broker";
/// Exit code of a broker that a new one is to follow.
const ANEW: i32 = 75;
/// A line that only says that it lives.
const PULSE: &str = ".";
/// Longest that a broker outlives its campaign.
const OUTLIVES: Duration = Duration::from_secs(12);

/// What the command line asks for; none: no broker.
///
/// # Errors
/// Exit 2 without -M or -S; exit 1 where it cannot listen.
pub fn asked(
    options: &FuzzOptions,
    port: Option<u16>,
    bind: IpAddr,
    remote: Option<&str>,
) -> Result<Option<Config>, CliError> {
    if port.is_none() && remote.is_none() {
        return Ok(None);
    }
    if options.kind == InstanceKind::Alone {
        return Err(CliError::usage(
            "--broker-port and --remote-broker carry what instances tell each other: name this one with -M or -S",
        ));
    }
    let listen = SocketAddr::new(bind, port.unwrap_or(0));
    TcpListener::bind(listen).map_err(|e| {
        CliError::setup(format!(
            "--broker-port: listening on {listen}: {e}; choose another port, or leave it out to join by --remote-broker alone; the broker of a campaign that was just killed goes within {} s",
            OUTLIVES.as_secs()
        ))
    })?;
    Ok(Some(Config {
        out: options.out.clone(),
        identity: common_identity(options),
        listen,
        remote: remote.map(ToOwned::to_owned),
    }))
}

/// The hidden process: the first line of the standard input says what it is asked for, the end of it that the campaign has ended.
#[must_use]
pub fn main() -> i32 {
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        // Without a campaign there is nobody to be told.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    // LLMP's memory is System V's, which outlives a killed process; in a namespace of its own it does not. Before there are threads.
    let own = unshare(CloneFlags::CLONE_NEWIPC)
        .or_else(|_| unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWIPC));
    if let Err(e) = own {
        say(format!(
            "LLMP's shared memory needs an IPC namespace of its own, which cannot be had here ({e}): share the output folder instead (docs/campaign.md)"
        ));
        return 1;
    }
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let config: Config = match read
        .map_err(|e| e.to_string())
        .and_then(|_| serde_json::from_str(&line).map_err(|e| format!("what it is asked for: {e}")))
    {
        Ok(config) => config,
        Err(e) => {
            say(e);
            return 2;
        }
    };
    let ending = Arc::new(AtomicBool::new(false));
    let flag = ending.clone();
    std::thread::spawn(move || {
        // The end, or an error: nobody is there either way.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::SeqCst);
        std::thread::sleep(OUTLIVES);
        std::process::exit(1);
    });
    let ended = run(&config, &ending, &mut |line| say(line), &mut || {
        say(PULSE.into());
    });
    match ended {
        Ok(()) => 0,
        Err(e @ BrokerError::Anew(_)) => {
            say(e.to_string());
            ANEW
        }
        Err(e) => {
            say(e.to_string());
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn what_is_asked_for_and_what_is_refused() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut options = FuzzOptions::new("toy", std::path::PathBuf::from("out"));
        let none = asked(&options, None, loopback, None).unwrap();
        assert_eq!(none, None);
        let e = asked(&options, None, loopback, Some("h:1")).unwrap_err();
        assert!(e.to_string().contains("-M or -S"), "{e}");
        options.kind = InstanceKind::Secondary;
        let config = asked(&options, None, loopback, Some("h:1"))
            .unwrap()
            .unwrap();
        assert_eq!(config.listen, SocketAddr::new(loopback, 0));
        assert_eq!(config.remote.as_deref(), Some("h:1"));
        let taken = TcpListener::bind((loopback, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let e = asked(&options, Some(port), loopback, None).unwrap_err();
        assert!(e.to_string().contains("choose another port"), "{e}");
    }
}
