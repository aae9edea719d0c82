//! A slot whose nodes neither say nor hear anything, while CRIU takes their sockets out of the kernel or puts them back.
//!
//! Asked by the run (`run/snapshots/`) through [`Slot`]; the rules are `nftables.rs`. CRIU goes from process to process, and the kernel's
//! TCP goes on though every process stands still: what comes between two of them, or before the socket it is for is there again, is
//! acknowledged and lost, or ends the connection. It is no cut: nothing is recorded as healed when it ends, and cuts change beside it.

use super::host::Slot;
use super::started::{PATIENCE, unexpected};
use super::wire::{Reply, Request};
use super::{CutRules, SlotError};
use std::net::Ipv4Addr;

impl Slot {
    /// From now on no packet from or to these addresses arrives, but those that CRIU makes for the sockets it restores. Nothing
    /// happens where [`Slot::kernel_cuts`] says no. TCP tries again by itself: nothing is lost when it ends.
    ///
    /// # Errors
    /// When the kernel refuses it where it allows cuts.
    pub fn hush(&self, addrs: &[Ipv4Addr]) -> Result<(), SlotError> {
        if self.kernel_cuts().is_err() {
            return Ok(());
        }
        let rules = addrs
            .iter()
            .map(|addr| CutRules::machine(*addr))
            .fold(CutRules::default(), CutRules::and);
        let doing = || format!("keeping {} addresses from being heard", addrs.len());
        match self.ask(Request::Hush(rules.cuts), &doing, PATIENCE)?.0 {
            Reply::Hushed => Ok(()),
            _ => Err(unexpected(doing())),
        }
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
    use super::super::nftables::KernelCuts;
    use super::super::{Cut, CutRules};
    use nix::sys::socket::{setsockopt, sockopt::Mark};
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

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

    #[test]
    fn who_is_hushed_hears_nobody_but_criu_and_the_cuts_stay() {
        in_own_network(|| {
            let Ok(mut kernel) = KernelCuts::open() else {
                eprintln!("SKIPPED: no kernel cuts here");
                return;
            };
            let criu = 0xc114;
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
                (13, 11, criu, true),
                (11, 13, criu, true),
                (12, 13, 0, false),
                (12, 13, criu, false),
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
