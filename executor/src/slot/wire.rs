//! The talk between Warren and slot init: frames on one stream socket, u32 little endian length, then JSON; a reply may
//! carry one descriptor (a pidfd).
//!
//! Called by `host.rs` and `started.rs` (blocking) and by `init.rs` (non-blocking). It does not interpret messages.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::traffic::Traffic;
use super::{Cut, Exit, Healed, Level, Owed, ProbeAnswer, SpawnSpec, Stalls, TextProbe};

/// Frames above this are a broken peer, not a message.
const MAX_FRAME: usize = 64 << 20;

/// First message to init: what to become.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setup {
    pub level: Level,
    pub names: Vec<String>,
    /// Second byte of the node addresses: 0, or the slot number at level 3.
    pub second: u8,
    pub root_bytes: u64,
    pub shm_bytes: u64,
    pub try_cuts: bool,
    /// Level 3: where init appends the pids it spawned.
    pub state_file: Option<PathBuf>,
    /// A time namespace with CLOCK_MONOTONIC so many ns ahead. The folder of CRIU's images, if there is one, comes with this
    /// message as its descriptor.
    pub clock_offset: Option<i64>,
}

/// A request with the number its reply will carry.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Numbered {
    pub id: u64,
    pub request: Request,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Spawn(SpawnSpec),
    Probe {
        probes: Vec<TextProbe>,
        timeout_ms: u64,
    },
    Cut(Vec<Cut>),
    /// Drops these packets too, beside all cuts and not counted as one; none: no more.
    Hush(Vec<Cut>),
    Heals,
    /// Ends the connections of these addresses that no process has.
    Abort(Vec<Ipv4Addr>),
    /// What no dump of the tree below the launcher would have, once it stands still.
    Owed {
        launcher: i32,
    },
    /// Counts from now on what leaves and reaches each of these addresses, until the rules change.
    CountTraffic(Vec<Ipv4Addr>),
    /// What was counted, in their order.
    Traffic,
    Stalls,
    /// Starts the launcher and, as its children, these processes: one tree, which CRIU can dump. With `first_pid` a tree apart from
    /// any other, whose pids begin there.
    Launch {
        specs: Vec<SpawnSpec>,
        first_pid: Option<u32>,
    },
    /// Dumps the tree below the launcher, which ends it, into this folder below that of the images. If its processes were stopped
    /// before, its clock goes on from when they stood still.
    Dump {
        criu: Vec<String>,
        launcher: i32,
        images: String,
        stopped: bool,
    },
    /// Restores the tree, then, unless it is to be kept, ends the launcher: its children become init's own.
    Restore {
        criu: Vec<String>,
        launcher: i32,
        images: String,
        keep: bool,
        processes: Vec<(i32, String)>,
        /// It joins what the slot holds, on the slot's clock, with this file in the place of the only one it had open for writing.
        joins: Option<PathBuf>,
    },
    /// The pidfd of a process that was launched or restored.
    Pidfd(i32),
    Close,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Spawned {
        pid: i32,
        spawned_ns: u64,
    },
    Probed(Vec<ProbeAnswer>),
    Cut {
        t_ns: u64,
    },
    Hushed,
    Heals(Vec<Healed>),
    Aborted,
    Owed(Owed),
    CountingTraffic,
    Traffic(Vec<Traffic>),
    Stalls(Stalls),
    Launched {
        launcher: i32,
        /// Pid, and when it was spawned, in the order asked.
        processes: Vec<(i32, u64)>,
    },
    /// What the tree's clock says when it goes on, ns.
    Dumped {
        clock_ns: u64,
    },
    /// How far the tree's CLOCK_MONOTONIC, which is init's too from now on, is ahead of the machine's, ns.
    Restored {
        clock_offset: i64,
    },
    Pidfd,
    Closing,
}

/// Everything init says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromInit {
    /// The slot stands. `host_pid` is pid 1 as Warren sees it; `cuts` is the outcome of the trial.
    Ready {
        host_pid: i32,
        cuts: Result<(), String>,
        notes: Vec<String>,
    },
    /// The slot could not be made.
    Failed {
        step: String,
        why: String,
        remedy: String,
    },
    Reply {
        id: u64,
        result: Result<Reply, String>,
    },
    Exit(Exit),
}

/// The length of a body, by what stands before it.
///
/// # Errors
/// `InvalidData`: no frame is so long.
fn length_of(head: [u8; 4]) -> io::Result<usize> {
    checked(u32::from_le_bytes(head) as usize)
}

/// A body with its length before it.
///
/// # Errors
/// As [`length_of`].
fn framed(body: &[u8]) -> io::Result<Vec<u8>> {
    let head = (checked(body.len())? as u32).to_le_bytes();
    Ok([&head, body].concat())
}

fn checked(len: usize) -> io::Result<usize> {
    if len > MAX_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("frame of {len} bytes"),
        ));
    }
    Ok(len)
}

/// Sends one message, and a descriptor with its first byte. Waits when the socket is full, blocking or not: the other
/// side always drains.
///
/// # Errors
/// `InvalidData`: it fits into no frame, or a path in it is no UTF-8; nothing was sent then. Else what the system says.
pub(super) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    pass: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let frame = framed(&serde_json::to_vec(message)?)?;
    let raw: Vec<RawFd> = pass.iter().map(|f| f.as_raw_fd()).collect();
    let mut sent = 0;
    while sent < frame.len() {
        let control = [ControlMessage::ScmRights(&raw)];
        let control: &[ControlMessage] = if sent == 0 && !raw.is_empty() {
            &control
        } else {
            &[]
        };
        let part = [IoSlice::new(&frame[sent..])];
        match sendmsg::<UnixAddr>(
            socket.as_raw_fd(),
            &part,
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Ok(n) => sent += n,
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let _ = poll(
                    &mut [PollFd::new(socket, PollFlags::POLLOUT)],
                    PollTimeout::from(100u16),
                );
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Receives one message from a blocking socket, with the descriptor it carries. `Ok(None)` is end of file.
pub(super) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut head = [0u8; 4];
    let Some(fd) = fill(socket, &mut head)? else {
        return Ok(None);
    };
    let mut body = vec![0u8; length_of(head)?];
    if fill(socket, &mut body)?.is_none() {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&body)?, fd)))
}

/// Fills the buffer; outer `None` is end of file, inner `Some` a descriptor that came along.
fn fill(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Option<OwnedFd>>> {
    let mut at = 0;
    let mut fd = None;
    while at < buffer.len() {
        let mut space = nix::cmsg_space!(RawFd);
        let mut part = [IoSliceMut::new(&mut buffer[at..])];
        let got = match recvmsg::<UnixAddr>(
            socket.as_raw_fd(),
            &mut part,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        ) {
            Ok(got) => got,
            Err(Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
        };
        for control in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(fds) = control {
                for raw in fds {
                    // SAFETY: the kernel has just installed this descriptor for us; nobody else owns it.
                    fd = Some(unsafe { OwnedFd::from_raw_fd(raw) });
                }
            }
        }
        if got.bytes == 0 {
            return Ok(None);
        }
        at += got.bytes;
    }
    Ok(Some(fd))
}

/// Cuts frames out of bytes as they arrive; survives a cancelled read because it holds what came.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one.
    pub fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(head) = self.bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let len = length_of(*head)?;
        if self.bytes.len() < 4 + len {
            return Ok(None);
        }
        let message = serde_json::from_slice(&self.bytes[4..4 + len])?;
        self.bytes.drain(..4 + len);
        Ok(Some(message))
    }
}

/// A connected pair, close-on-exec on both ends.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn frames_come_whole_whatever_the_pieces() {
        let (a, b) = pair().unwrap();
        send(
            a.as_fd(),
            &Numbered {
                id: 7,
                request: Request::Stalls,
            },
            None,
        )
        .unwrap();
        let (got, fd): (Numbered, _) = receive(b.as_fd()).unwrap().unwrap();
        assert_eq!(got.id, 7);
        assert!(fd.is_none());

        let body = serde_json::to_vec(&Numbered {
            id: 8,
            request: Request::Close,
        })
        .unwrap();
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&body);
        let mut frames = Frames::default();
        for (i, byte) in bytes.iter().enumerate() {
            frames.push(&[*byte]);
            let got: Option<Numbered> = frames.next().unwrap();
            assert_eq!(got.is_some(), i + 1 == bytes.len());
        }
        frames.push(&u32::MAX.to_le_bytes());
        assert!(
            frames.next::<Numbered>().is_err(),
            "a giant frame is refused"
        );
    }

    #[test]
    fn what_is_too_long_for_a_frame_is_neither_sent_nor_awaited() {
        let long = MAX_FRAME + 1;
        let refused = [
            framed(&vec![0; long]).unwrap_err(),
            length_of((long as u32).to_le_bytes()).unwrap_err(),
        ];
        for e in refused {
            assert_eq!(e.kind(), io::ErrorKind::InvalidData);
            assert_eq!(e.to_string(), format!("frame of {long} bytes"));
        }
        let most = (MAX_FRAME as u32).to_le_bytes();
        assert_eq!(length_of(most).unwrap(), MAX_FRAME);
        assert_eq!(framed(b"ab").unwrap(), [2, 0, 0, 0, b'a', b'b']);
    }

    #[test]
    fn a_descriptor_travels_with_its_message_and_eof_is_none() {
        let (a, b) = pair().unwrap();
        let (c, d) = pair().unwrap();
        send(a.as_fd(), &1u32, Some(c.as_fd())).unwrap();
        send(a.as_fd(), &2u32, None).unwrap();
        let (one, fd): (u32, _) = receive(b.as_fd()).unwrap().unwrap();
        let (two, none): (u32, _) = receive(b.as_fd()).unwrap().unwrap();
        assert_eq!((one, two), (1, 2));
        assert!(none.is_none());
        send(fd.unwrap().as_fd(), &3u32, None).unwrap();
        assert_eq!(receive::<u32>(d.as_fd()).unwrap().unwrap().0, 3);
        drop(a);
        assert!(receive::<u32>(b.as_fd()).unwrap().is_none());
    }
}
