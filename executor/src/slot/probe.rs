//! Text probes: connect, send, read to end of file (ZooKeeper's four-letter words, plain ports).
//!
//! Called by `init.rs` inside the slot; all probes of one request run at once. It judges nothing.

use std::net::SocketAddrV4;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::types::TIMEOUT;
use super::{ProbeAnswer, TextProbe, now_ns};

/// Longest answer kept, bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Runs all probes concurrently; each has the same time limit. Answers are in the order of the probes.
pub(super) async fn run_all(probes: Vec<TextProbe>, timeout: Duration) -> Vec<ProbeAnswer> {
    let until = Instant::now() + timeout;
    let tasks: Vec<_> = probes
        .into_iter()
        .map(|p| tokio::spawn(run(p, until)))
        .collect();
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(task.await.unwrap_or_else(|e| ProbeAnswer {
            connected: false,
            text: String::new(),
            error: Some(format!("the probe itself failed: {e}")),
            t_ns: now_ns(),
        }));
    }
    answers
}

async fn run(probe: TextProbe, until: Instant) -> ProbeAnswer {
    let mut connected = false;
    let mut bytes = Vec::new();
    let talk = talk(&probe, &mut connected, &mut bytes);
    let error = match tokio::time::timeout_at(until, talk).await {
        Ok(Ok(())) => None,
        Ok(Err(e)) => Some(e.to_string()),
        Err(_) => Some(TIMEOUT.to_owned()),
    };
    ProbeAnswer {
        connected,
        text: String::from_utf8_lossy(&bytes).into_owned(),
        error,
        t_ns: now_ns(),
    }
}

async fn talk(probe: &TextProbe, connected: &mut bool, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(SocketAddrV4::new(probe.addr, probe.port)).await?;
    *connected = true;
    if probe.send.is_empty() {
        return Ok(());
    }
    stream.write_all(probe.send.as_bytes()).await?;
    let mut piece = [0u8; 8192];
    loop {
        match stream.read(&mut piece).await {
            Ok(0) => return Ok(()),
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
            Err(e) => return Err(e),
        }
        if bytes.len() >= MAX_ANSWER {
            bytes.truncate(MAX_ANSWER);
            return Ok(());
        }
    }
}
