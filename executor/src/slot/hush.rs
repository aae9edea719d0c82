//! A slot whose nodes neither say nor hear anything, while CRIU takes their sockets out of the kernel or puts them back.
//!
//! Asked by the run (`run/snapshots/`) through [`Slot`]; the rules are `nftables.rs`. CRIU goes from process to process, and the kernel's
//! TCP goes on though every process stands still: what comes between two of them, or before the socket it is for is there again, is
//! acknowledged and lost, or ends the connection. What only acknowledges passes: it loses nothing, and is said once only. A socket that
//! waits for it (one that was just restored asks) would do so until its time-out, 1 to 3 s. It is no cut: nothing is recorded as healed
//! when it ends, and cuts change beside it.

use super::host::Slot;
use super::started::PATIENCE;
use super::wire::{Reply, Request};
use super::{CutRules, SlotError};
use std::net::Ipv4Addr;

impl Slot {
    /// From now on no packet from or to these addresses arrives, but those that CRIU makes for the sockets it restores, and TCP's bare
    /// acknowledgements. Nothing happens where [`Slot::kernel_cuts`] says no. TCP says again by itself what it lost.
    ///
    /// # Errors
    /// When the kernel refuses it where it allows cuts.
    pub fn hush(&self, addrs: &[Ipv4Addr]) -> Result<(), SlotError> {
        if self.kernel_cuts().is_err() {
            return Ok(());
        }
        let drops = addrs.iter().flat_map(|addr| CutRules::machine(*addr).cuts);
        let doing = || match addrs.len() {
            0 => "letting all be heard again".to_owned(),
            n => format!("keeping {n} addresses from being heard"),
        };
        let request = Request::Hush(drops.collect());
        self.answer(request, &doing, PATIENCE, |reply| {
            matches!(reply, Reply::Hushed).then_some(())
        })
    }

    /// Packets pass again, as far as they are not cut.
    ///
    /// # Errors
    /// As [`Slot::hush`].
    pub fn unhush(&self) -> Result<(), SlotError> {
        self.hush(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::super::namespaces::tests::in_own_network;
    use super::super::nftables::{KernelCuts, OF_CRIU};
    use super::super::{Cut, CutRules};
    use nix::sys::socket::{setsockopt, sockopt::Mark};
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    /// Whether a packet with that mark comes from one address to another.
    fn arrives(from: u8, to: u8, mark: u32) -> bool {
        let [from, to] = [from, to].map(|n| UdpSocket::bind((Ipv4Addr::new(127, 0, 0, n), 0)));
        let (from, to) = (from.unwrap(), to.unwrap());
        setsockopt(&from, Mark, &mark).unwrap();
        // On loopback it is there when the call returns, or never.
        to.set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
        to.recv(&mut [0; 8]).is_ok()
    }

    /// What a TCP socket of this thread's network has said and nobody has acknowledged, bytes.
    fn unacknowledged(socket: &TcpStream) -> u64 {
        let port = format!(":{:04X}", socket.local_addr().unwrap().port());
        let all = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        let mut words = all.lines().map(|l| l.split_whitespace());
        let queues = words.find_map(|mut w| w.nth(1)?.ends_with(&port).then(|| w.nth(2))?);
        let (sent, _) = queues.unwrap().split_once(':').unwrap();
        u64::from_str_radix(sent, 16).unwrap()
    }

    #[test]
    fn who_is_hushed_may_acknowledge_and_say_no_more() {
        in_own_network(|| {
            let Ok(mut kernel) = KernelCuts::open() else {
                eprintln!("SKIPPED: no kernel cuts here");
                return;
            };
            let addr = Ipv4Addr::new(127, 0, 0, 11);
            let listener = TcpListener::bind((addr, 0)).unwrap();
            let mut marked = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut other, _) = listener.accept().unwrap();
            kernel.hush(&CutRules::machine(addr).cuts).unwrap();
            // Its data arrives as if it were CRIU's; the other's answer has no mark.
            setsockopt(&marked, Mark, &OF_CRIU).unwrap();
            marked.write_all(b"hello").unwrap();
            other.read_exact(&mut [0; 5]).unwrap();
            let until = Instant::now() + Duration::from_secs(10);
            while unacknowledged(&marked) > 0 {
                assert!(Instant::now() < until, "acknowledged");
                std::thread::sleep(Duration::from_millis(5));
            }
            let wait = Duration::from_millis(300);
            marked.set_read_timeout(Some(wait)).unwrap();
            for said in ["data", "its end"] {
                match said {
                    "data" => other.write_all(b"x").unwrap(),
                    _ => other.shutdown(Shutdown::Write).unwrap(),
                }
                let quiet = marked.read(&mut [0; 8]).unwrap_err();
                assert_eq!(quiet.kind(), ErrorKind::WouldBlock, "{said}");
            }
            assert!(TcpStream::connect_timeout(&listener.local_addr().unwrap(), wait).is_err());
            kernel.hush(&[]).unwrap();
            marked.set_read_timeout(None).unwrap();
            let mut all = String::new();
            marked.read_to_string(&mut all).unwrap();
            assert_eq!(all, "x", "all of it comes in the end");
        });
    }

    #[test]
    fn who_is_hushed_hears_nobody_but_criu_and_the_cuts_stay() {
        in_own_network(|| {
            let Ok(mut kernel) = KernelCuts::open() else {
                eprintln!("SKIPPED: no kernel cuts here");
                return;
            };
            let hushed = CutRules::machine(Ipv4Addr::new(127, 0, 0, 11)).cuts;
            let cut = Cut {
                from: Some(Ipv4Addr::new(127, 0, 0, 12)),
                to: Some(Ipv4Addr::new(127, 0, 0, 13)),
            };
            kernel.replace(&[cut], &[]).unwrap();
            kernel.hush(&hushed).unwrap();
            for (from, to, mark, want) in [
                (11, 13, 0, false),
                (13, 11, 0, false),
                (13, 11, 7, false),
                (13, 11, OF_CRIU, true),
                (11, 13, OF_CRIU, true),
                (12, 13, 0, false),
                (12, 13, OF_CRIU, false),
                (13, 12, 0, true),
                (1, 1, 0, true),
            ] {
                assert_eq!(arrives(from, to, mark), want, "{from} {to} {mark:x}");
            }
            // Cuts change beside it, and it ends without them.
            kernel.replace(&[], &[cut]).unwrap();
            assert!(arrives(12, 13, 0) && !arrives(13, 11, 0));
            assert_eq!(kernel.counts().unwrap().len(), 1);
            kernel.replace(&[cut], &[]).unwrap();
            kernel.hush(&[]).unwrap();
            assert!(arrives(13, 11, 0) && !arrives(12, 13, 0));
        });
    }
}
