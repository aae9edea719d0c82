//! Sockets of the processes of a tree, by descriptors of our own: what sock_diag does not tell of them, and what CRIU leaves undone.
//!
//! Called by slot init only: before a dump, of a tree that stands still ([`failed`]), and after a restore ([`open_windows`]). It takes no
//! data and ends no connection; which sockets were told that their other end has closed is `orphans.rs`'s to say.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{GetStruct, ReuseAddr, SetStruct};
use nix::sys::socket::{MsgFlags, SockaddrIn, getsockname, getsockopt, recv, setsockopt};
use nix::unistd::Pid;

use super::pidfd;

/// A socket whose state can be written.
#[derive(Clone, Copy)]
struct Repair;
/// `tcp_repair_window` of linux/tcp.h, five numbers: at [`SENDS`] how many bytes the other end takes now, at [`SENT`] the most that it ever took.
#[derive(Clone, Copy)]
struct Windows;

const SENDS: usize = 1;
const SENT: usize = 2;

// The calls themselves are unsafe inside nix, which gives each the address and the size of its value.
nix::setsockopt_impl!(
    Repair,
    libc::IPPROTO_TCP,
    libc::TCP_REPAIR,
    i32,
    SetStruct<i32>
);
nix::getsockopt_impl!(
    Windows,
    libc::IPPROTO_TCP,
    libc::TCP_REPAIR_WINDOW,
    [u32; 5],
    GetStruct<[u32; 5]>
);
nix::setsockopt_impl!(
    Windows,
    libc::IPPROTO_TCP,
    libc::TCP_REPAIR_WINDOW,
    [u32; 5],
    SetStruct<[u32; 5]>
);

/// The sockets of a process that are wanted. One that it opens or closes meanwhile may be missed.
fn of(pid: Pid, wanted: impl Fn(u32) -> bool) -> io::Result<Vec<OwnedFd>> {
    let process = pidfd::open(pid.as_raw())?;
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        let number = entry.file_name().to_string_lossy().parse::<i32>();
        // What cannot be read was closed meanwhile.
        let what = fs::read_link(entry.path()).unwrap_or_default();
        let (Ok(number), Some(inode)) = (number, inode_of(&what.to_string_lossy())) else {
            continue;
        };
        if !wanted(inode) {
            continue;
        }
        match pidfd::take(process.as_fd(), number) {
            Ok(fd) => all.push(fd),
            Err(e) if e.raw_os_error() == Some(libc::EBADF) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

/// Of `socket:[4711]`.
fn inode_of(link: &str) -> Option<u32> {
    let number = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Connections that failed, as a rule by a reset, and whose processes were not told yet or have not read all, for people. No dump has the error
/// of a socket in it, nor what one that failed had received: who reads from it once it is restored meets an end in order. One that failed
/// after its end in order, at a write of ours, is among them, too, and so is one that was shut both ways and has something unread, though
/// neither would lose anything: the kernel does not tell them apart so cheaply.
///
/// # Errors
/// When a socket cannot be looked at.
pub(super) fn failed(processes: &[Pid], wanted: impl Fn(u32) -> bool) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for pid in processes {
        for socket in of(*pid, &wanted)? {
            let Ok(here) = getsockname::<SockaddrIn>(socket.as_raw_fd()) else {
                continue;
            };
            // Asked for nothing, the kernel tells of errors and ends, and forgets none.
            let mut asked = [PollFd::new(socket.as_fd(), PollFlags::empty())];
            poll(&mut asked, PollTimeout::ZERO)?;
            let told = asked[0].revents().unwrap_or(PollFlags::empty());
            if told.contains(PollFlags::POLLERR) {
                all.push(format!("{here} (an error)"));
            } else if told.contains(PollFlags::POLLHUP) && has_unread(&socket) {
                all.push(format!("{here} (unread after its end)"));
            }
        }
    }
    Ok(all)
}

fn has_unread(socket: &OwnedFd) -> bool {
    let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    recv(socket.as_raw_fd(), &mut [0], look).is_ok_and(|n| n > 0)
}

/// Lets these sockets send again, whose other ends had closed. CRIU tells a restored socket so by a packet which may say, too, that no more bytes
/// are taken: what is then written waits a second for a probe, where it should be taken, or meet at once that nobody is there.
///
/// # Errors
/// When one of them cannot be changed.
pub(super) fn open_windows(processes: &[Pid], inodes: &HashSet<u32>) -> io::Result<()> {
    for pid in processes {
        for socket in of(*pid, |inode| inodes.contains(&inode))? {
            open_window(&socket)?;
        }
    }
    Ok(())
}

fn open_window(socket: &impl AsFd) -> io::Result<()> {
    /// On leaving, what was written is said, and nothing else: no probe.
    const NO_PROBE: i32 = -1;
    let reuse = getsockopt(socket, ReuseAddr)?;
    setsockopt(socket, Repair, &1)?;
    let opened = getsockopt(socket, Windows).and_then(|mut windows| {
        windows[SENDS] = windows[SENDS].max(windows[SENT]);
        setsockopt(socket, Windows, &windows)
    });
    setsockopt(socket, Repair, &NO_PROBE)?;
    // Which the two above have changed.
    setsockopt(socket, ReuseAddr, &reuse)?;
    Ok(opened?)
}

#[cfg(test)]
mod tests {
    use super::super::namespaces::tests::in_own_network;
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.11:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, other)
    }

    #[test]
    fn sockets_are_known_by_their_links() {
        for (link, want) in [
            ("socket:[4711]", Some(4711)),
            ("pipe:[4711]", None),
            ("socket:[]", None),
            ("/tmp/socket:[1", None),
            ("", None),
        ] {
            assert_eq!(inode_of(link), want, "{link}");
        }
    }

    fn inode(socket: &TcpStream) -> u32 {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        inode_of(&link.to_string_lossy()).unwrap()
    }

    /// Of one socket: others of this process are other tests', and would end later while they are looked at.
    fn seen(socket: &TcpStream) -> Vec<String> {
        let own = inode(socket);
        failed(&[Pid::this()], |inode| inode == own).unwrap()
    }

    #[test]
    fn an_error_is_seen_until_its_process_was_told() {
        in_own_network(|| {
            let nothing = Vec::<String>::new();
            let ((mut ended, gone), (mut reset, mut other)) = (pair(), pair());
            drop(gone);
            assert_eq!(seen(&ended), nothing, "an end in order");
            assert_eq!(ended.read(&mut [0; 8]).unwrap(), 0);
            // The kernel resets what is closed with something unread.
            reset.write_all(b"unread").unwrap();
            other.write_all(b"last").unwrap();
            assert_eq!(seen(&reset), nothing);
            drop(other);
            let at = reset.local_addr().unwrap();
            assert_eq!(seen(&reset), [format!("{at} (an error)")]);
            assert_eq!(seen(&reset), [format!("{at} (an error)")], "not taken");
            // A thread that writes is told first.
            let told = reset.write_all(b"more").unwrap_err();
            assert_eq!(told.kind(), ErrorKind::ConnectionReset);
            assert_eq!(seen(&reset), [format!("{at} (unread after its end)")]);
            let mut last = String::new();
            reset.read_to_string(&mut last).unwrap();
            assert_eq!((last.as_str(), seen(&reset)), ("last", nothing));
        });
    }

    fn windows(socket: &TcpStream, set: impl FnOnce(&mut [u32; 5])) -> nix::Result<[u32; 5]> {
        setsockopt(socket, Repair, &1)?;
        let mut windows = getsockopt(socket, Windows)?;
        set(&mut windows);
        setsockopt(socket, Windows, &windows)?;
        setsockopt(socket, Repair, &-1)?;
        Ok(windows)
    }

    #[test]
    fn who_was_told_that_nothing_is_taken_sends_again() {
        in_own_network(|| {
            let (mut one, mut other) = pair();
            let shut = windows(&one, |w| w[SENDS] = 0);
            let Ok(shut) = shut else {
                eprintln!("SKIPPED: sockets cannot be repaired here: {shut:?}");
                return;
            };
            assert!(shut[SENDS] == 0 && shut[SENT] > 0);
            setsockopt(&one, ReuseAddr, &true).unwrap();
            open_windows(&[Pid::this()], &HashSet::from([inode(&one)])).unwrap();
            assert!(getsockopt(&one, ReuseAddr).unwrap(), "as it was");
            let open = windows(&one, |_| ()).unwrap();
            assert_eq!((open[SENDS], open[SENT]), (shut[SENT], shut[SENT]));
            one.write_all(b"hello").unwrap();
            drop(one);
            let mut said = String::new();
            other.read_to_string(&mut said).unwrap();
            assert_eq!(said, "hello");
        });
    }
}
