//! TCP sockets that no process has any more and that the kernel goes on with: who they owe something, and their end. And those that processes
//! have, as far as the kernel lists them by their state.
//!
//! What a process that was killed had not yet said stays in the kernel, which says it again and again, and then closes the connection in
//! order. From a machine that lost power nothing comes any more, so what is left of one is aborted before its cut ends. And no dump has such a
//! socket in it, so no run is dumped while one still owes something to somebody.
//!
//! [`abort`], [`owed`], [`told_the_end`] and [`trial`] are slot init's: over netlink (sock_diag) the kernel shows the sockets of the network of who asks. The run asks
//! through [`Slot`]. IPv4 only: no JVM of a slot is started with anything else. All of our encoding of inet_diag lies in this file.

use std::collections::HashSet;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
    sockopt,
};

use super::host::Slot;
use super::netlink::{Messages, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};
use super::started::PATIENCE;
use super::wire::{Reply, Request};
use super::{Owed, SlotError};

// linux/sock_diag.h: the two requests, and what answers of the first are called
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;

// net/tcp_states.h
const ESTABLISHED: u8 = 1;
const SYN_RECV: u8 = 3;
const FIN_WAIT1: u8 = 4;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;
/// All that are connections: of the states there are (1 to 13) not CLOSE, LISTEN, and bound only.
const CONNECTIONS: u32 = !(1 << 7 | 1 << 10 | 1 << 13);

/// Bytes of linux/inet_diag.h's `inet_diag_sockid`, which names a socket. At 0 our port and at 2 the other end's, at 4 our address and at 20 the
/// other end's (of 16 bytes each IPv4 takes four), all as on the wire; at 36 the interface; at 40 the kernel's own number of the socket.
const ID: usize = 48;
/// In the place of that number: whichever socket it is.
const ANY: [u8; 8] = [0xff; 8];

/// How often all sockets are walked through: where others come and go meanwhile, a walk may miss one.
const WALKS: usize = 3;
/// An order to close that is only on its way has come by then.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
const TURN: Duration = Duration::from_millis(5);

/// A connection's socket, as inet_diag tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tcp {
    state: u8,
    /// Of the file that a process has it by; 0 where none has.
    inode: u32,
    id: [u8; ID],
}

impl Tcp {
    /// From an `inet_diag_msg`: family, state, two more bytes, the name, four numbers, and the inode.
    fn of(message: &[u8]) -> Option<Tcp> {
        Some(Tcp {
            state: *message.get(1)?,
            inode: u32::from_ne_bytes(message.get(68..72)?.try_into().ok()?),
            id: message.get(4..4 + ID)?.try_into().ok()?,
        })
    }

    fn end(&self, port: usize, addr: usize) -> SocketAddrV4 {
        let i = &self.id;
        SocketAddrV4::new(
            Ipv4Addr::new(i[addr], i[addr + 1], i[addr + 2], i[addr + 3]),
            u16::from_be_bytes([i[port], i[port + 1]]),
        )
    }

    fn here(&self) -> SocketAddrV4 {
        self.end(0, 4)
    }

    fn there(&self) -> SocketAddrV4 {
        self.end(2, 20)
    }

    /// Nobody has it, and what it has to say, its end at least, has not come to the other end.
    fn owes(&self) -> bool {
        self.inode == 0 && matches!(self.state, FIN_WAIT1 | CLOSING | LAST_ACK)
    }

    /// A process has it, or will have it: one that is not accepted yet has no inode either, but nobody has closed it.
    fn is_somebodys(&self) -> bool {
        self.inode != 0 || matches!(self.state, ESTABLISHED | SYN_RECV | CLOSE_WAIT)
    }
}

/// Those that owe something to an end that is there for somebody. Where there is none, the kernel answers what comes, and nobody is told.
fn owing(all: &[Tcp]) -> Vec<Tcp> {
    let told = |s: &Tcp, o: &Tcp| o.here() == s.there() && o.there() == s.here();
    let owing = all.iter().filter(|s| s.owes());
    owing
        .filter(|s| all.iter().any(|o| told(s, o) && o.is_somebodys()))
        .copied()
        .collect()
}

/// A netlink socket that asks for the sockets of the network it was opened in.
struct Diag(OwnedFd);

impl Diag {
    fn open() -> io::Result<Diag> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        Ok(Diag(socket))
    }

    /// All connections, TCP over IPv4.
    fn connections(&self) -> io::Result<Vec<Tcp>> {
        self.ask(BY_FAMILY, NLM_F_DUMP, &[0; ID])?;
        let mut buffer = vec![0u8; 32 << 10];
        let mut all = Vec::new();
        // What does not fit one datagram goes on as it is read; it ends with NLMSG_DONE.
        loop {
            let n = self.answer(&mut buffer)?;
            for message in Messages(&buffer[..n]) {
                match message.kind {
                    BY_FAMILY => all.extend(Tcp::of(message.payload)),
                    // Both begin with 0 or an error's number, negative.
                    NLMSG_DONE | NLMSG_ERROR => {
                        let code = message.payload.first_chunk::<4>();
                        return match code.map_or(0, |c| i32::from_ne_bytes(*c)) {
                            code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                            _ => Ok(all),
                        };
                    }
                    _ => {}
                }
            }
        }
    }

    /// Aborts this one socket: it is gone at return, and a reset was sent.
    fn destroy(&self, id: &[u8; ID]) -> io::Result<()> {
        self.ask(DESTROY, NLM_F_ACK, id)?;
        let mut buffer = [0u8; 1 << 10];
        let n = self.answer(&mut buffer)?;
        match Messages(&buffer[..n]).find_map(|m| m.error()) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::other("the kernel gave no answer")),
        }
    }

    /// Sends `nlmsghdr` (length, kind, flags, number, port: the kernel fills it in) and `inet_diag_req_v2` (family, protocol, two bytes that ask
    /// for no more than that, the states wanted as bits, the name).
    fn ask(&self, kind: u16, flags: u16, id: &[u8; ID]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(72);
        bytes.extend_from_slice(&72u32.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        bytes.extend_from_slice(&1u32.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&[libc::AF_INET as u8, libc::IPPROTO_TCP as u8, 0, 0]);
        bytes.extend_from_slice(&CONNECTIONS.to_ne_bytes());
        bytes.extend_from_slice(id);
        send(self.0.as_raw_fd(), &bytes, MsgFlags::empty())?;
        Ok(())
    }

    /// The next datagram of an answer, which is there when the request was sent, or when the one before it was read.
    fn answer(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EINTR) => {}
                got => return Ok(got?),
            }
        }
    }
}

/// Ends what the kernel still holds for these addresses and no process has. Nobody may have sockets there but the dead. The resets that it
/// sends are for the rules in force to drop; whoever sends something later finds no connection.
///
/// # Errors
/// What the kernel says, and when one that owes something outlives it.
pub(super) fn abort(addrs: &[Ipv4Addr]) -> io::Result<()> {
    let diag = Diag::open()?;
    let left = || -> io::Result<Vec<Tcp>> {
        let mut all = diag.connections()?;
        all.retain(|s| s.inode == 0 && addrs.contains(s.here().ip()));
        Ok(all)
    };
    for _ in 0..WALKS {
        let left = left()?;
        if left.is_empty() {
            return Ok(());
        }
        for s in left {
            match diag.destroy(&s.id).map_err(|e| (e.raw_os_error(), e)) {
                // Gone by itself; or one in TIME_WAIT, which says nothing unasked, and not every kernel ends those.
                Ok(()) | Err((Some(libc::ENOENT | libc::EOPNOTSUPP), _)) => {}
                Err((_, e)) => return Err(e),
            }
        }
    }
    match left()?.iter().find(|s| s.owes()) {
        Some(s) => Err(io::Error::other(format!("{} outlives its end", named(s)))),
        None => Ok(()),
    }
}

/// Connections of nobody that owe something to somebody, for people. What is only on its way is waited for.
pub(super) fn owed() -> io::Result<Vec<String>> {
    let diag = Diag::open()?;
    let until = Instant::now() + ON_ITS_WAY;
    loop {
        let owing = owing(&diag.connections()?);
        if owing.is_empty() || Instant::now() > until {
            return Ok(owing.iter().map(named).collect());
        }
        std::thread::sleep(TURN);
    }
}

/// The inodes of sockets that processes have, and whose other ends said that they have no more to say.
pub(super) fn told_the_end() -> io::Result<HashSet<u32>> {
    let mut all = Diag::open()?.connections()?;
    all.retain(|s| s.inode != 0 && s.state == CLOSE_WAIT);
    Ok(all.iter().map(|s| s.inode).collect())
}

fn named(s: &Tcp) -> String {
    let state = match s.state {
        FIN_WAIT1 => "FIN_WAIT1",
        CLOSING => "CLOSING",
        LAST_ACK => "LAST_ACK",
        _ => "",
    };
    format!("{} to {} ({state})", s.here(), s.there())
}

/// Whether the kernel ends a socket that no process has, tried with one of our own. Before Linux 6.11 it takes from such a one what it has to
/// say and leaves it there for ever, and the slot's network with it.
///
/// # Errors
/// Why not.
pub(super) fn trial() -> io::Result<()> {
    let diag = Diag::open()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    setsockopt(&listener, sockopt::RcvBuf, &1)?; // the least that there is
    let mut ours = TcpStream::connect(listener.local_addr()?)?;
    setsockopt(&ours, sockopt::SndBuf, &1)?;
    ours.set_nonblocking(true)?;
    // More than the other end, which reads nothing, can hold: the rest is owed.
    while ours.write(&[0; 4096]).is_ok() {}
    let (SocketAddr::V4(here), SocketAddr::V4(there)) = (ours.local_addr()?, ours.peer_addr()?)
    else {
        return Err(io::Error::other("a socket of IPv4 has no such address"));
    };
    drop(ours);
    let id = name_of(here, there);
    diag.destroy(&id)?;
    // The listener's end resets what is left, if any is.
    match diag.destroy(&id) {
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(e) => Err(e),
        Ok(()) => Err(io::Error::other(
            "this kernel leaves them there (Linux 6.11 does not)",
        )),
    }
}

/// Of whichever socket has these ends.
fn name_of(here: SocketAddrV4, there: SocketAddrV4) -> [u8; ID] {
    let mut id = [0; ID];
    id[0..2].copy_from_slice(&here.port().to_be_bytes());
    id[2..4].copy_from_slice(&there.port().to_be_bytes());
    id[4..8].copy_from_slice(&here.ip().octets());
    id[20..24].copy_from_slice(&there.ip().octets());
    id[40..48].copy_from_slice(&ANY);
    id
}

impl Slot {
    /// Ends the connections that the dead at these addresses left behind, without a word to their other ends as long as these addresses are cut off
    /// ([`super::CutRules::machine`]). Nothing where this kernel cannot ([`Slot::notes`] says so).
    ///
    /// # Errors
    /// When it could and now cannot.
    pub fn abort_orphans(&self, addrs: &[Ipv4Addr]) -> Result<(), SlotError> {
        let doing = || "ending the connections of machines without power".to_string();
        let request = Request::Abort(addrs.to_vec());
        self.answer(request, &doing, PATIENCE, |reply| {
            matches!(reply, Reply::Aborted).then_some(())
        })
    }

    /// What the kernel still has to say, once all that the launcher started stands still ([`super::Process::stop`]), and no dump has.
    ///
    /// # Errors
    /// When one of them does not stop, and where the kernel does not tell.
    pub fn owed(&self, launcher: i32) -> Result<Owed, SlotError> {
        let doing = || "looking for connections that no dump has".to_string();
        let request = Request::Owed { launcher };
        self.answer(request, &doing, PATIENCE, |reply| match reply {
            Reply::Owed(owed) => Some(owed),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cut;
    use super::super::namespaces::tests::in_own_network;
    use super::super::nftables::KernelCuts;
    use super::*;
    use std::io::{ErrorKind, Read};

    const FIN_WAIT2: u8 = 5;

    fn at(n: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, n), port)
    }

    fn tcp(state: u8, inode: u32, here: SocketAddrV4, there: SocketAddrV4) -> Tcp {
        let id = name_of(here, there);
        Tcp { state, inode, id }
    }

    #[test]
    fn a_socket_is_read_from_its_message_and_a_short_one_is_none() {
        let mut message = vec![libc::AF_INET as u8, LAST_ACK, 1, 2];
        message.extend_from_slice(&0x0913u16.to_be_bytes());
        message.extend_from_slice(&40_112u16.to_be_bytes());
        message.extend_from_slice(&[127, 0, 0, 11]);
        message.extend_from_slice(&[0; 12]);
        message.extend_from_slice(&[127, 0, 0, 12]);
        message.extend_from_slice(&[0; 12]);
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        for number in [7u32, 8, 9, 10, 4711] {
            message.extend_from_slice(&number.to_ne_bytes());
        }
        message.extend_from_slice(&[0; 8]); // attributes
        let read = Tcp::of(&message).unwrap();
        assert_eq!((read.state, read.inode), (LAST_ACK, 4711));
        assert_eq!(read.here(), at(11, 2323));
        assert_eq!(read.there(), at(12, 40_112));
        assert_eq!(read.id[40..], [1, 2, 3, 4, 5, 6, 7, 8]);
        for end in 0..72 {
            assert_eq!(Tcp::of(&message[..end]), None, "{end}");
        }
    }

    #[test]
    fn what_is_owed_is_owed_to_somebody() {
        let (a, b) = (at(11, 1), at(12, 2));
        for (state, inode, other, want) in [
            (FIN_WAIT1, 0, Some((ESTABLISHED, 5)), true),
            (CLOSING, 0, Some((FIN_WAIT1, 5)), true),
            (LAST_ACK, 0, Some((FIN_WAIT2, 5)), true),
            (FIN_WAIT1, 0, Some((SYN_RECV, 0)), true),
            (FIN_WAIT1, 0, Some((ESTABLISHED, 0)), true), // not accepted yet
            (FIN_WAIT1, 7, Some((ESTABLISHED, 5)), false), // in the dump
            (FIN_WAIT2, 0, Some((CLOSE_WAIT, 5)), false), // all was told
            (FIN_WAIT1, 0, Some((FIN_WAIT1, 0)), false),  // both are dead
            (FIN_WAIT1, 0, None, false),
        ] {
            let mut all = vec![tcp(ESTABLISHED, 9, b, at(11, 3)), tcp(state, inode, a, b)];
            all.extend(other.map(|(state, inode)| tcp(state, inode, b, a)));
            let owing = owing(&all);
            assert_eq!(!owing.is_empty(), want, "{state} {inode} {other:?}");
        }
        let text = named(&tcp(FIN_WAIT1, 0, a, b));
        assert_eq!(text, "127.0.0.11:1 to 127.0.0.12:2 (FIN_WAIT1)");
    }

    #[test]
    fn a_trial_leaves_nothing_behind() {
        in_own_network(|| match trial() {
            Ok(()) => assert_eq!(Diag::open().unwrap().connections().unwrap(), []),
            Err(e) => eprintln!("SKIPPED: this kernel aborts no sockets for others: {e}"),
        });
    }

    /// Its data and its end would come to the other end as soon as the cut ends.
    #[test]
    fn nothing_comes_from_a_dead_machine_when_its_cut_ends() {
        in_own_network(|| {
            let (Ok(()), Ok(mut cuts)) = (trial(), KernelCuts::open()) else {
                eprintln!("SKIPPED: no kernel cuts here, or sockets of others are not aborted");
                return;
            };
            let dead = Ipv4Addr::new(127, 0, 0, 11);
            let listener = TcpListener::bind((dead, 0)).unwrap();
            let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut its, _) = listener.accept().unwrap();
            let (from, to) = (Some(dead), None);
            let machine = [Cut { from, to }, Cut { from: to, to: from }];
            cuts.replace(&machine, &[]).unwrap();
            its.write_all(b"late").unwrap();
            drop((its, listener));
            assert_eq!(owed().unwrap().len(), 1);
            abort(&[dead]).unwrap();
            assert_eq!(owed().unwrap(), Vec::<String>::new());
            let left = Diag::open().unwrap().connections().unwrap();
            assert_eq!(left.len(), 1, "the peer's is left alone: {left:?}");
            assert!(left[0].is_somebodys());
            cuts.replace(&[], &[]).unwrap();
            // The kernel would try again within that time.
            let wait = Some(Duration::from_millis(500));
            peer.set_read_timeout(wait).unwrap();
            let mut piece = [0; 16];
            let quiet = peer.read(&mut piece).unwrap_err();
            assert_eq!(quiet.kind(), ErrorKind::WouldBlock);
            peer.write_all(b"hello").unwrap();
            let told = peer.read(&mut piece).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::ConnectionReset);
        });
    }
}
